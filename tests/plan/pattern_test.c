/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: TW_OP_CROSS_ENTROPY_BOTH takes a loss and its gradient, and only those. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <tilework/tilework.h>

#include "harness.h"

#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != TW_OK) fail_msg("%s: %s", #expression, tw_last_error());               \
    } while (0)

enum { ROWS = 37, CLASSES = 11 };

typedef struct training {
    tw_graph *graph;
    tw_tensor logits, labels, loss, gradient;
} training;

/* squared: the loss must be there before its gradient can be computed. */
static training build(const tw_cross_entropy_attrs *attrs, bool squared)
{
    training t = {.loss = TW_NONE};
    tw_tensor_desc logits = tw_desc(TW_F32, 2, (int64_t[]){ROWS, CLASSES});
    tw_tensor_desc labels = tw_desc(TW_I64, 1, (int64_t[]){ROWS});
    OK(tw_graph_create(&t.graph));
    OK(tw_graph_tensor(t.graph, &logits, &t.logits));
    OK(tw_graph_tensor(t.graph, &labels, &t.labels));
    OK(tw_graph_cross_entropy(t.graph, t.logits, t.labels, attrs, &t.loss, NULL));
    tw_tensor of = t.loss;
    if (attrs->reduction == TW_LOSS_NONE) {
        tw_reduce_attrs sum = {.axes = 1, .drop = true};
        of = TW_NONE;
        OK(tw_graph_reduce(t.graph, t.loss, &sum, &of));
    }
    tw_tensor total = squared ? TW_NONE : of;
    if (squared) OK(tw_graph_binary(t.graph, TW_PW_MUL, of, of, &total));
    OK(tw_graph_backward(t.graph, 1, &total, 1, &t.logits, NULL, &t.gradient, NULL));
    OK(tw_graph_output(t.graph, t.loss, NULL));
    OK(tw_graph_output(t.graph, t.gradient, NULL));
    return t;
}

static bool uses_pattern(const tw_plan *plan)
{
    for (int32_t s = 0; s < tw_plan_step_count(plan); s++) {
        tw_step_info info = {.size = sizeof info};
        OK(tw_plan_step(plan, s, &info));
        if (strstr(info.kernel, "rowsboth")) return true;
    }
    return false;
}

typedef struct result {
    float loss[ROWS], gradient[ROWS * CLASSES];
} result;

static void run(const training *t, uint32_t flags, bool *pattern, result *r)
{
    float logits[ROWS * CLASSES];
    int64_t labels[ROWS];
    uint64_t seed = 5;
    for (int i = 0; i < ROWS * CLASSES; i++) logits[i] = (float)(8 * th_uniform(&seed) - 4);
    for (int i = 0; i < ROWS; i++) labels[i] = (int64_t)(th_random(&seed) % CLASSES);
    tw_plan_options options = {.flags = flags};
    tw_plan *plan;
    OK(tw_plan_create(t->graph, &options, &plan));
    *pattern = uses_pattern(plan);
    tw_binding bindings[5];
    int32_t n = tw_plan_binding_count(plan);
    for (int32_t i = 0; i < n; i++) {
        int64_t uid = tw_plan_binding_uid(plan, i);
        void *data = uid == t->logits   ? (void *)logits
                     : uid == t->labels ? (void *)labels
                     : uid == t->loss   ? (void *)r->loss
                                        : (void *)r->gradient;
        bindings[i] = (tw_binding){uid, data};
    }
    void *workspace = tw_malloc((size_t)tw_plan_workspace(plan));
    OK(tw_run(plan, NULL, n, bindings, workspace, tw_plan_workspace(plan)));
    tw_free(workspace);
    tw_plan_free(plan);
}

/* Both sides round at most a dozen times to f32; gradients are at most 1 in size. */
static void compare(const result *got, const result *want, int losses)
{
    for (int i = 0; i < losses; i++)
        assert_true(fabs((double)got->loss[i] - (double)want->loss[i]) <=
                    16 * 0x1p-24 * (1 + fabs((double)want->loss[i])));
    for (int i = 0; i < ROWS * CLASSES; i++)
        assert_true(fabs((double)got->gradient[i] - (double)want->gradient[i]) <= 16 * 0x1p-24);
}

static void one_pass_equals_two(void **state)
{
    (void)state;
    const tw_cross_entropy_attrs rows[] = {
        {.reduction = TW_LOSS_MEAN},
        {.reduction = TW_LOSS_MEAN, .smoothing = 0.2},
        {.reduction = TW_LOSS_MEAN, .has_ignore = true, .ignore = 3}};
    const tw_kernel *kernels[8];
    assert_true(th_kernels(TW_OP_CROSS_ENTROPY_BOTH, kernels, 8) > 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        training t = build(&rows[i], false);
        result fused, single;
        bool pattern;
        run(&t, 0, &pattern, &fused);
        assert_true(pattern);
        run(&t, TW_NO_FUSION, &pattern, &single);
        assert_false(pattern);
        compare(&fused, &single, 1);
        run(&t, TW_ONLY_REFERENCE, &pattern, &single);
        assert_false(pattern);
        compare(&fused, &single, 1);
        tw_graph_free(t.graph);
    }
}

/* A gradient that needs the loss first, or a loss for each row, is two steps. */
static void others_are_left_alone(void **state)
{
    (void)state;
    const tw_cross_entropy_attrs mean = {.reduction = TW_LOSS_MEAN},
                                 none = {.reduction = TW_LOSS_NONE};
    result r;
    bool pattern;
    training squared = build(&mean, true), each = build(&none, false);
    run(&squared, 0, &pattern, &r);
    assert_false(pattern);
    run(&each, 0, &pattern, &r);
    assert_false(pattern);
    tw_graph_free(squared.graph);
    tw_graph_free(each.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_pass_equals_two),
                                       cmocka_unit_test(others_are_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
