/* SPDX-License-Identifier: Apache-2.0 */
/* Fused steps on the result: y = relu(a·b + bias[n]) + residual, second output a·b + bias as f16.
 * Small integers, so that all is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"

enum { MAX_KERNELS = 16, BIAS = 0, RESIDUAL = 1 };

typedef struct operand {
    int32_t rank;
    int64_t dims[3];
} operand;

typedef struct problem {
    th_tensor a, b, y, bias, residual, sum, out;
    tw_view loads[2];
    tw_chain_step steps[3];
    tw_chain_store stores[2];
    tw_chain chain;
    th_call call;
} problem;

static tw_view view_of(const th_tensor *t, bool last_dim_only)
{
    tw_view v = {.dtype = t->desc.dtype, .rank = t->desc.rank, .alignment = 2};
    memcpy(v.dims, t->desc.dims, sizeof v.dims);
    memcpy(v.strides, t->desc.strides, sizeof v.strides);
    for (int32_t d = 0; last_dim_only && d < v.rank - 1; d++) v.strides[d] = 0;
    return v;
}

static tw_chain_step step(tw_pointwise_mode mode, int16_t a, int16_t b)
{
    const bool add = mode == TW_PW_ADD;
    return (tw_chain_step){
        .attrs = {.mode = mode, .alpha = add ? 1 : 0, .has_alpha = add, .compute = TW_F32},
        .a = a,
        .b = b,
        .c = -1,
        .round = TW_F32};
}

/* Values: 0 is the product, 1 the bias, 2 the residual, 3 to 5 the steps. */
static void set_up(problem *p, operand a, operand b, operand y, bool transposed_out)
{
    int64_t strides[3] = {y.dims[1] * y.dims[2], 1, y.dims[1]};
    p->a = th_make(TW_F32, a.rank, a.dims);
    p->b = th_make(TW_F32, b.rank, b.dims);
    p->y = th_make(TW_F32, y.rank, y.dims);
    p->bias = th_make(TW_F32, y.rank, y.dims);
    p->residual = th_make(TW_F32, y.rank, y.dims);
    p->sum = th_make(TW_F16, y.rank, y.dims);
    p->out = transposed_out && y.rank == 3 ? th_make_strided(TW_F32, y.rank, y.dims, strides)
                                           : th_make(TW_F32, y.rank, y.dims);
    th_fill_integers(&p->a, 1, -2, 2);
    th_fill_integers(&p->b, 2, -2, 2);
    th_fill_integers(&p->bias, 3, -9, 9);
    th_fill_integers(&p->residual, 4, -9, 9);
    p->loads[BIAS] = view_of(&p->bias, true);
    p->loads[RESIDUAL] = view_of(&p->residual, false);
    p->steps[0] = step(TW_PW_ADD, 0, 1);
    p->steps[1] = step(TW_PW_RELU, 3, -1);
    p->steps[2] = step(TW_PW_ADD, 4, 2);
    p->stores[0] = (tw_chain_store){.value = 5, .view = view_of(&p->out, false)};
    p->stores[1] = (tw_chain_store){.value = 3, .view = view_of(&p->sum, false)};
    p->chain = (tw_chain){.rank = y.rank,
                          .n_loads = 2,
                          .n_steps = 3,
                          .n_stores = 2,
                          .loads = p->loads,
                          .steps = p->steps,
                          .stores = p->stores,
                          .anchor_round = TW_F32};
    memcpy(p->chain.dims, y.dims, sizeof y.dims);
    p->call = (th_call){.kind = TW_OP_MATMUL,
                        .n_in = 2,
                        .n_out = 1,
                        .in = {&p->a, &p->b},
                        .out = {&p->y},
                        .epilogue = &p->chain,
                        .loads = {p->bias.data, p->residual.data},
                        .stores = {p->out.data, p->sum.data},
                        .threads = 2};
}

static void tear_down(problem *p)
{
    th_tensor *all[] = {&p->a, &p->b, &p->y, &p->bias, &p->residual, &p->sum, &p->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) th_free(all[i]);
}

/* The product comes from the reference, whose own test is elsewhere; the steps are done here. */
static void check(const problem *p, const th_tensor *product, const char *what)
{
    const int32_t rank = product->desc.rank;
    const int64_t last = product->desc.dims[rank - 1];
    for (int64_t i = 0; i < th_elements(product); i++) {
        const double sum = th_get(product, i) + th_get(&p->bias, i % last);
        const double out = (sum > 0 ? sum : 0) + th_get(&p->residual, i);
        if (th_get(&p->out, i) != out || th_get(&p->sum, i) != sum)
            fail_msg("%s: element %d is %g and %g, want %g and %g", what, (int)i,
                     th_get(&p->out, i), th_get(&p->sum, i), out, sum);
    }
    if (!th_guards_intact(&p->out) || !th_guards_intact(&p->sum)) fail_msg("%s", what);
}

static void test_steps(void **state)
{
    static const struct {
        operand a, b, y;
    } rows[] = {
        {{2, {5, 7}}, {2, {7, 9}}, {2, {5, 9}}},
        {{2, {1, 70}}, {2, {70, 130}}, {2, {1, 130}}},
        {{2, {130, 70}}, {2, {70, 1}}, {2, {130, 1}}},
        {{2, {150, 300}}, {2, {300, 70}}, {2, {150, 70}}},
        {{2, {300, 40}}, {2, {40, 290}}, {2, {300, 290}}},
        {{3, {3, 40, 20}}, {3, {3, 20, 35}}, {3, {3, 40, 35}}},
        {{3, {3, 40, 20}}, {2, {20, 35}}, {3, {3, 40, 35}}},
        {{2, {40, 20}}, {3, {3, 20, 35}}, {3, {3, 40, 35}}},
        {{1, {20}}, {3, {3, 20, 35}}, {2, {3, 35}}},
        {{3, {3, 40, 20}}, {1, {20}}, {2, {3, 40}}},
        {{3, {4, 1, 20}}, {3, {4, 20, 35}}, {3, {4, 1, 35}}},
    };
    const tw_kernel *kernels[MAX_KERNELS];
    const int n = th_kernels(TW_OP_MATMUL, kernels, MAX_KERNELS);
    int fused = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 4 * n; k++) {
            const tw_kernel *kernel = kernels[k / 4];
            problem p;
            set_up(&p, rows[i].a, rows[i].b, rows[i].y, k % 2 == 1);
            p.call.has_limit = k % 4 > 1;
            if (!th_refuses(kernel, &p.call)) {
                fused++;
                assert_int_equal(th_run(kernel, &p.call), TW_OK);
                p.call.epilogue = NULL;
                assert_int_equal(th_run(th_reference(TW_OP_MATMUL), &p.call), TW_OK);
                check(&p, &p.y, kernel->name);
            }
            tear_down(&p);
        }
    assert_true(fused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
