/* SPDX-License-Identifier: Apache-2.0 */
/* y = relu(a·b), and what a wrong call says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilework/tilework.h>

static void must(tw_status status)
{
    if (status == TW_OK) return;
    fprintf(stderr, "%s: %s\n", tw_status_name(status), tw_last_error());
    exit(1);
}

static int product(void)
{
    const tw_tensor_desc a_desc = tw_desc(TW_F32, 2, (int64_t[]){2, 3});
    const tw_tensor_desc b_desc = tw_desc(TW_F32, 2, (int64_t[]){3, 2});
    float a[] = {1, 2, 3, -4, -5, -6}, b[] = {1, 0, 0, 1, 1, 1}, y[4];

    tw_graph *graph;
    tw_plan *plan;
    tw_tensor ta, tb, product = TW_NONE, ty = TW_NONE;
    must(tw_graph_create(&graph));
    must(tw_graph_tensor(graph, &a_desc, &ta));
    must(tw_graph_tensor(graph, &b_desc, &tb));
    must(tw_graph_matmul(graph, ta, tb, NULL, &product));
    must(tw_graph_unary(graph, TW_PW_RELU, product, &ty));
    must(tw_graph_output(graph, ty, NULL));
    must(tw_plan_create(graph, NULL, &plan));

    const int64_t bytes = tw_plan_workspace(plan);
    void *workspace = tw_malloc((size_t)bytes);
    const tw_binding bindings[] = {{ta, a}, {tb, b}, {ty, y}};
    must(tw_run(plan, NULL, 3, bindings, workspace, bytes));
    tw_free(workspace);
    tw_plan_free(plan);
    tw_graph_free(graph);

    const float want[] = {4, 5, 0, 0};
    return memcmp(y, want, sizeof y) == 0 ? 0 : 1;
}

static int refusal(void)
{
    const tw_tensor_desc desc = tw_desc(TW_F32, 2, (int64_t[]){2, 3});
    tw_graph *graph;
    tw_tensor a, b, y = TW_NONE;
    must(tw_graph_create(&graph));
    must(tw_graph_tensor(graph, &desc, &a));
    must(tw_graph_tensor(graph, &desc, &b));
    const tw_status status = tw_graph_matmul(graph, a, b, NULL, &y);
    const int bad = status != TW_INVALID_ARGUMENT || tw_last_error()[0] == '\0';
    tw_graph_free(graph);
    return bad;
}

int main(void)
{
    if (tw_version() != TW_VERSION) return 1;
    return product() || refusal();
}
