/* SPDX-License-Identifier: Apache-2.0 */
/* Under a cap a cheap value is computed twice rather than kept, with the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tilework/tilework.h>

#include "harness.h"

#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != TW_OK) fail_msg("%s: %s", #expression, tw_last_error());               \
    } while (0)

enum { N = 256 };

typedef struct problem {
    tw_graph *graph;
    tw_tensor x, sum, y;
} problem;

/* a = 3x is read at once and once more at the end; two products need memory in between. */
static problem build(void)
{
    problem p = {.sum = TW_NONE, .y = TW_NONE};
    tw_tensor_desc desc = tw_desc(TW_F32, 2, (int64_t[]){N, N});
    tw_tensor a = TW_NONE, b = TW_NONE, c = TW_NONE;
    tw_pointwise_attrs triple = {.mode = TW_PW_LINEAR, .alpha = 3, .has_alpha = true};
    tw_reduce_attrs all = {.axes = 3, .drop = true};
    OK(tw_graph_create(&p.graph));
    OK(tw_graph_tensor(p.graph, &desc, &p.x));
    OK(tw_graph_pointwise(p.graph, &triple, p.x, TW_NONE, TW_NONE, &a));
    OK(tw_graph_reduce(p.graph, a, &all, &p.sum));
    OK(tw_graph_matmul(p.graph, p.x, p.x, NULL, &b));
    OK(tw_graph_matmul(p.graph, b, p.x, NULL, &c));
    OK(tw_graph_binary(p.graph, TW_PW_ADD, c, a, &p.y));
    OK(tw_graph_output(p.graph, p.sum, NULL));
    OK(tw_graph_output(p.graph, p.y, NULL));
    return p;
}

typedef struct result {
    float sum, y[N * N];
} result;

static void run(const problem *p, const tw_plan *plan, result *r)
{
    float *x = malloc(sizeof(float) * N * N);
    uint64_t seed = 9;
    for (int i = 0; i < N * N; i++) x[i] = (float)(th_uniform(&seed) - 0.5);
    tw_binding bindings[] = {{p->x, x}, {p->sum, &r->sum}, {p->y, r->y}};
    void *workspace = tw_malloc((size_t)tw_plan_workspace(plan));
    OK(tw_run(plan, NULL, 3, bindings, workspace, tw_plan_workspace(plan)));
    tw_free(workspace);
    free(x);
}

static void cheap_values_are_computed_twice(void **state)
{
    (void)state;
    problem p = build();
    result *free_of_caps = malloc(sizeof *free_of_caps), *capped = malloc(sizeof *capped);
    tw_plan *plan;
    OK(tw_plan_create(p.graph, NULL, &plan));
    int64_t least = tw_plan_workspace(plan);
    run(&p, plan, free_of_caps);
    tw_plan_free(plan);

    /* Down to the last byte that works: the error names a cap that does. */
    tw_plan_options options = {.has_workspace_limit = true, .flags = TW_NO_FUSION};
    OK(tw_plan_create(p.graph, &(tw_plan_options){.flags = TW_NO_FUSION}, &plan));
    least = tw_plan_workspace(plan);
    tw_plan_free(plan);
    bool recomputed = false;
    while (least > 0) {
        options.workspace_limit = least - 1;
        if (tw_plan_create(p.graph, &options, &plan) != TW_OK) break;
        assert_true(tw_plan_workspace(plan) < least);
        least = tw_plan_workspace(plan);
        recomputed = recomputed || strstr(tw_plan_explain(plan), "recomputed") != NULL;
        run(&p, plan, capped);
        assert_true(capped->sum == free_of_caps->sum);
        tw_plan_free(plan);
    }
    assert_true(recomputed);
    assert_non_null(strstr(tw_last_error(), "needs at least"));
    options.workspace_limit = strtoll(strstr(tw_last_error(), "at least ") + 9, NULL, 10);
    OK(tw_plan_create(p.graph, &options, &plan));
    tw_plan_free(plan);
    tw_graph_free(p.graph);
    free(free_of_caps);
    free(capped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cheap_values_are_computed_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
