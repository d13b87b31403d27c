/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of every mode, the gradient modes included, against central differences in f64.
 * The second and third operand are broadcast, so that their gradients are sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include <tilework/tilework.h>

#include "core/error.h"
#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/pointwise_math.h"

enum { ROWS = 2, COLS = 3, N = ROWS * COLS };

/* Positive, below 1, and apart from each other and from every corner but those of rounding. */
static double in[3][N] = {{0.31, 0.72, 0.15, 0.44, 0.93, 0.57}, {0.23, 0.81, 0.64}, {0.38}};
static const int64_t sizes[3] = {N, COLS, 1};
static const double seed[N] = {1, -2, 0.5, 3, -1.5, 0.25};

static double total(const tw_pointwise_attrs *attrs)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += seed[i] * tw_pw_real(attrs, in[0][i], in[1][i % COLS], in[2][0]);
    return sum;
}

static double difference(const tw_pointwise_attrs *attrs, double *x)
{
    const double h = 1e-4, at = *x;
    double f[4];
    for (int i = 0; i < 4; i++) {
        *x = at + h * (i < 2 ? i - 2 : i - 1);
        f[i] = total(attrs);
    }
    *x = at;
    return (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * h);
}

static tw_status build(tw_graph *graph, const tw_pointwise_attrs *attrs, int arity,
                       tw_tensor *tensors, tw_tensor *grads)
{
    static const int64_t dims[2] = {ROWS, COLS};
    tw_tensor y = TW_NONE, out[3] = {TW_NONE, TW_NONE, TW_NONE};
    for (int i = 0; i < arity; i++) {
        tw_tensor_desc desc = tw_desc(TW_F64, 2 - i, &dims[i < 2 ? i : 0]);
        TW_TRY(tw_graph_tensor(graph, &desc, &tensors[i]));
    }
    tw_tensor_desc desc = tw_desc(TW_F64, 2, dims);
    TW_TRY(tw_graph_tensor(graph, &desc, &tensors[3]));
    TW_TRY(tw_graph_pointwise(graph, attrs, tensors[0], arity > 1 ? tensors[1] : TW_NONE,
                              arity > 2 ? tensors[2] : TW_NONE, &y));
    tw_backward_options options = {.size = sizeof options, .seeds = &tensors[3]};
    TW_TRY(tw_graph_backward(graph, 1, &y, arity, tensors, &options, out, NULL));
    /* A plan binds what its results need: these need every input. */
    TW_TRY(tw_graph_output(graph, y, NULL));
    TW_TRY(tw_graph_tensor(graph, &desc, &tensors[5]));
    TW_TRY(tw_graph_cast(graph, tensors[3], TW_F64, 0, &tensors[5]));
    tensors[4] = y;
    for (int i = 0; i < arity; i++) {
        tw_tensor_desc like;
        TW_TRY(tw_graph_describe(graph, tensors[i], &like));
        grads[i] = TW_NONE;
        like = tw_desc(TW_F64, like.rank, like.dims);
        TW_TRY(tw_graph_tensor(graph, &like, &grads[i])); /* a result of its own: no aliasing */
        TW_TRY(tw_graph_cast(graph, out[i], TW_F64, 0, &grads[i]));
    }
    return TW_OK;
}

static tw_status evaluate(const tw_graph *graph, int arity, const tw_tensor *tensors,
                          const tw_tensor *grads, double (*result)[N])
{
    tw_plan *plan = NULL;
    tw_binding bindings[9];
    int n = 0;
    TW_TRY(tw_plan_create(graph, NULL, &plan));
    for (int i = 0; i < arity; i++) {
        bindings[n++] = (tw_binding){.uid = tensors[i], .data = in[i]};
        bindings[n++] = (tw_binding){.uid = grads[i], .data = result[i]};
    }
    double weights[N], y[N], copy[N];
    for (int i = 0; i < N; i++) weights[i] = seed[i];
    bindings[n++] = (tw_binding){.uid = tensors[3], .data = weights};
    bindings[n++] = (tw_binding){.uid = tensors[4], .data = y};
    bindings[n++] = (tw_binding){.uid = tensors[5], .data = copy};
    int64_t bytes = tw_plan_workspace(plan);
    void *workspace = tw_malloc((size_t)bytes + 1);
    tw_status status = tw_run(plan, NULL, n, bindings, workspace, bytes);
    tw_free(workspace);
    tw_plan_free(plan);
    return status;
}

static void check_mode(tw_pointwise_mode number)
{
    const tw_pw_mode_info mode = tw_pw_mode_of(number);
    tw_pointwise_attrs attrs = {.mode = number,
                                .alpha = mode.alpha,
                                .beta = mode.beta,
                                .has_alpha = true,
                                .has_beta = true,
                                .compute = TW_F64};
    tw_graph *graph = NULL;
    tw_tensor tensors[6], grads[3];
    double result[3][N];
    assert_int_equal(tw_graph_create(&graph), TW_OK);
    if (build(graph, &attrs, mode.arity, tensors, grads) != TW_OK ||
        evaluate(graph, mode.arity, tensors, grads, result) != TW_OK)
        fail_msg("mode %s: %s", mode.name, tw_last_error());
    tw_graph_free(graph);
    for (int i = 0; i < mode.arity; i++) {
        if (number == TW_PW_SELECT && i == 0) continue;
        for (int64_t e = 0; e < sizes[i]; e++) {
            double want = difference(&attrs, &in[i][e]), got = result[i][e];
            if (!(fabs(got - want) <= 1e-8 * (1 + fabs(want))))
                fail_msg("mode %s, operand %d, element %d: %.12g, want %.12g", mode.name, i, (int)e,
                         got, want);
        }
    }
}

static void test_gradients(void **state)
{
    (void)state;
    for (int sign = 0; sign < 2; sign++) {
        for (int m = 0; m < TW_PW_END; m++) {
            const tw_pw_mode_info mode = tw_pw_mode_of((tw_pointwise_mode)m);
            bool domain = sign == 0 || !(m == TW_PW_SQRT || m == TW_PW_RSQRT || m == TW_PW_LOG ||
                                         m == TW_PW_POW);
            if (!mode.name || (mode.flags & (TW_PW_BITS | TW_PW_PREDICATE)) || !domain) continue;
            if (m != TW_PW_GEN_INDEX) check_mode((tw_pointwise_mode)m);
        }
        for (int i = 0; i < N; i++) in[0][i] = -in[0][i]; /* the other side of 0 */
        for (int i = 0; i < COLS; i++) in[1][i] = -in[1][i];
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
