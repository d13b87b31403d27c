/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"

enum { MAX_KERNELS = 16 };

/* ---- an oracle that shares no code with the kernels ---- */

static double *values_of(const th_tensor *t)
{
    const int64_t n = th_elements(t);
    double *values = malloc((size_t)(n > 0 ? n : 1) * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = th_get(t, i);
    return values;
}

/* y = a·b for [batch, m, k] and [batch, k, n] (batch dims of 1 broadcast), in f64. `magnitude`: of
 * absolute values. `round`: the type that the running sum is rounded to, or TW_AUTO. */
static void oracle(const th_tensor *a, const th_tensor *b, th_tensor *y, bool magnitude,
                   tw_dtype round)
{
    const int64_t *dims = y->desc.dims;
    const int64_t depth = a->desc.dims[2], cols = dims[2];
    double *const in_a = values_of(a), *const in_b = values_of(b);
    for (int64_t i = 0; i < th_elements(y); i++) {
        const int64_t batch = i / (dims[1] * cols), row = i / cols % dims[1];
        const double *x = in_a + ((a->desc.dims[0] == 1 ? 0 : batch) * dims[1] + row) * depth;
        const double *w = in_b + (b->desc.dims[0] == 1 ? 0 : batch) * depth * cols + i % cols;
        double sum = 0;
        for (int64_t k = 0; k < depth; k++) {
            const double product = x[k] * w[k * cols];
            sum += magnitude ? fabs(product) : product;
            if (round != TW_AUTO) sum = tw_round_to(round, sum);
        }
        th_set(y, i, sum);
    }
    free(in_a);
    free(in_b);
}

/* ---- problems ---- */

/* How a matrix lies in memory. */
typedef enum layout { ROWS, PADDED, COLUMNS, GAPS, SAME_ROW, LAYOUTS } layout;

typedef struct shape {
    int64_t batch, a_batch, b_batch, m, n, k;
    layout a, b, c;
} shape;

static th_tensor make(int64_t batch, int64_t rows, int64_t cols, layout how)
{
    const int64_t dims[3] = {batch, rows, cols};
    int64_t strides[3] = {rows * cols, cols, 1};
    switch (how) {
    case PADDED: strides[1] = cols + 3, strides[0] = rows * (cols + 3) + 1; break;
    case COLUMNS: strides[1] = 1, strides[2] = rows; break;
    case GAPS: strides[2] = 2, strides[1] = 2 * cols + 5, strides[0] = rows * strides[1]; break;
    case SAME_ROW: strides[0] = cols, strides[1] = 0; break;
    case ROWS:
    case LAYOUTS: break;
    }
    return th_make_strided(TW_F32, 3, dims, strides);
}

typedef struct problem {
    th_tensor a, b, c;
    th_call call;
} problem;

static void set_up(problem *p, const shape *s)
{
    p->a = make(s->a_batch, s->m, s->k, s->a);
    p->b = make(s->b_batch, s->k, s->n, s->b);
    p->c = make(s->batch, s->m, s->n, s->c);
    p->call = (th_call){
        .kind = TW_OP_MATMUL, .n_in = 2, .n_out = 1, .in = {&p->a, &p->b}, .out = {&p->c}};
}

static void tear_down(problem *p)
{
    th_free(&p->a);
    th_free(&p->b);
    th_free(&p->c);
}

static void name_shape(char *text, size_t n, const char *kernel, const shape *s)
{
    snprintf(text, n, "%s batch=%lld (a %lld, b %lld) m=%lld n=%lld k=%lld layouts a=%d b=%d c=%d",
             kernel, (long long)s->batch, (long long)s->a_batch, (long long)s->b_batch,
             (long long)s->m, (long long)s->n, (long long)s->k, (int)s->a, (int)s->b, (int)s->c);
}

/* Small integers: every sum is exact, so results must be equal. */
static void check_exact(const tw_kernel *kernel, const shape *s, int threads, bool no_memory)
{
    char what[200];
    problem p;
    name_shape(what, sizeof what, kernel->name, s);
    set_up(&p, s);
    th_fill_integers(&p.a, 11, -4, 4);
    th_fill_integers(&p.b, 12, -4, 4);
    const int64_t dims[3] = {s->batch, s->m, s->n};
    th_tensor want = th_make(TW_F32, 3, dims);
    oracle(&p.a, &p.b, &want, false, TW_AUTO);
    p.call.threads = threads;
    p.call.has_limit = no_memory;
    if (th_refuses(kernel, &p.call)) fail_msg("%s: refused", what);
    if (th_run(kernel, &p.call) != TW_OK) fail_msg("%s: %s", what, tw_last_error());
    if (!th_equal(&p.c, &want, what) || !th_guards_intact(&p.c)) fail_msg("%s", what);
    th_free(&want);
    tear_down(&p);
}

static int64_t pick(uint64_t *seed, const int64_t *list, size_t n)
{
    return list[th_random(seed) % n];
}
#define PICK(seed, list) pick(seed, list, sizeof list / sizeof *list)

static shape random_shape(uint64_t *seed)
{
    static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 28, 29, 53, 113};
    static const int64_t cols[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 65, 101};
    static const int64_t depths[] = {0, 1, 2, 3, 7, 16, 17, 31, 64, 97};
    shape s = {.batch = 1, .a_batch = 1, .b_batch = 1};
    if (th_random(seed) % 3 == 0) {
        s.batch = 2 + (int64_t)(th_random(seed) % 2);
        const uint64_t which = th_random(seed) % 3;
        s.a_batch = which == 0 ? 1 : s.batch;
        s.b_batch = which == 1 ? 1 : s.batch;
    }
    s.m = PICK(seed, rows);
    s.n = PICK(seed, cols);
    s.k = PICK(seed, depths);
    s.a = (layout)(th_random(seed) % LAYOUTS);
    s.b = (layout)(th_random(seed) % LAYOUTS);
    s.c = (layout)(th_random(seed) % SAME_ROW);
    return s;
}

/* ---- tests ---- */

static void test_random_shapes(void **state)
{
    const tw_kernel *kernels[MAX_KERNELS];
    const int n = th_kernels(TW_OP_MATMUL, kernels, MAX_KERNELS);
    uint64_t seed = 1;
    (void)state;
    for (int round = 0; round < 250; round++) {
        const shape s = random_shape(&seed);
        for (int i = 0; i < n; i++) {
            check_exact(kernels[i], &s, round % 2 + 1, false);
            if (!kernels[i]->reference) check_exact(kernels[i], &s, 1, true);
        }
    }
}

/* Large enough for slabs, several blocks and several parts of k; every way that B is read. */
static void test_blocking(void **state)
{
    static const shape shapes[] = {{1, 1, 1, 301, 291, 300, ROWS, ROWS, ROWS},
                                   {1, 1, 1, 301, 67, 410, COLUMNS, ROWS, ROWS},
                                   {1, 1, 1, 257, 300, 97, ROWS, COLUMNS, PADDED},
                                   {1, 1, 1, 67, 290, 530, GAPS, GAPS, GAPS},
                                   {2, 2, 2, 240, 70, 290, ROWS, PADDED, COLUMNS},
                                   {3, 3, 1, 90, 40, 290, ROWS, ROWS, ROWS},
                                   {2, 1, 2, 230, 300, 20, PADDED, GAPS, GAPS},
                                   {1, 1, 1, 1, 1000, 300, ROWS, ROWS, ROWS},
                                   {1, 1, 1, 1000, 1, 300, ROWS, ROWS, ROWS},
                                   {1, 1, 1, 1, 500, 300, ROWS, COLUMNS, GAPS},
                                   {1, 1, 1, 20, 512, 512, ROWS, ROWS, ROWS},
                                   {1, 1, 1, 40, 33, 1024, ROWS, COLUMNS, ROWS}};
    const tw_kernel *kernels[MAX_KERNELS];
    const int n = th_kernels(TW_OP_MATMUL, kernels, MAX_KERNELS);
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int i = 0; i < n; i++) {
            if (kernels[i]->reference) continue;
            check_exact(kernels[i], &shapes[s], 2, false);
            check_exact(kernels[i], &shapes[s], 1, true);
        }
}

static void test_empty(void **state)
{
    static const shape shapes[] = {{1, 1, 1, 0, 5, 3, ROWS, ROWS, ROWS},
                                   {1, 1, 1, 5, 0, 3, ROWS, ROWS, ROWS},
                                   {0, 0, 1, 5, 4, 3, ROWS, ROWS, ROWS},
                                   {2, 2, 2, 40, 70, 0, ROWS, ROWS, GAPS}};
    const tw_kernel *kernels[MAX_KERNELS];
    const int n = th_kernels(TW_OP_MATMUL, kernels, MAX_KERNELS);
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int i = 0; i < n; i++) check_exact(kernels[i], &shapes[s], 1, false);
}

/* Random data: within the contract's bound of the f64 oracle, and the same bits from one, two and
 * three threads. */
static void test_bound_and_threads(void **state)
{
    static const shape shapes[] = {{1, 1, 1, 130, 70, 600, ROWS, ROWS, ROWS},
                                   {1, 1, 1, 260, 100, 270, COLUMNS, COLUMNS, COLUMNS},
                                   {4, 4, 4, 33, 31, 65, ROWS, ROWS, ROWS},
                                   {1, 1, 1, 1, 300, 700, ROWS, ROWS, ROWS}};
    const tw_kernel *kernels[MAX_KERNELS];
    const int n = th_kernels(TW_OP_MATMUL, kernels, MAX_KERNELS);
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        const int64_t dims[3] = {s->batch, s->m, s->n};
        problem p;
        th_tensor want = th_make(TW_F64, 3, dims), size = th_make(TW_F64, 3, dims);
        set_up(&p, s);
        th_fill_uniform(&p.a, 3, -1, 1);
        th_fill_uniform(&p.b, 4, -1, 1);
        oracle(&p.a, &p.b, &want, false, TW_AUTO);
        oracle(&p.a, &p.b, &size, true, TW_AUTO);
        for (int k = 0; k < n; k++) {
            th_tensor first = make(s->batch, s->m, s->n, s->c);
            char what[200];
            name_shape(what, sizeof what, kernels[k]->name, s);
            for (int threads = 1; threads <= 3; threads++) {
                p.call.threads = threads;
                p.call.out[0] = threads == 1 ? &first : &p.c;
                assert_int_equal(th_run(kernels[k], &p.call), TW_OK);
                if (threads > 1 && !th_equal(&p.c, &first, what)) fail_msg("%s", what);
            }
            if (!th_close(&first, &want, &size, s->k, what)) fail_msg("%s", what);
            th_free(&first);
        }
        th_free(&want);
        th_free(&size);
        tear_down(&p);
    }
}

/* The bound is tight enough: a sum kept in f16, or bf16, is outside. */
static void test_narrow_sum_fails(void **state)
{
    const shape s = {1, 1, 1, 8, 8, 300, ROWS, ROWS, ROWS};
    const int64_t dims[3] = {1, s.m, s.n};
    problem p;
    th_tensor want = th_make(TW_F64, 3, dims), size = th_make(TW_F64, 3, dims);
    (void)state;
    set_up(&p, &s);
    th_fill_uniform(&p.a, 3, -1, 1);
    th_fill_uniform(&p.b, 4, -1, 1);
    oracle(&p.a, &p.b, &want, false, TW_AUTO);
    oracle(&p.a, &p.b, &size, true, TW_AUTO);
    oracle(&p.a, &p.b, &p.c, false, TW_F32);
    assert_true(th_close(&p.c, &want, &size, s.k, "f32 sums"));
    oracle(&p.a, &p.b, &p.c, false, TW_F16);
    assert_false(th_close(&p.c, &want, &size, s.k, "expected: f16 sums"));
    oracle(&p.a, &p.b, &p.c, false, TW_BF16);
    assert_false(th_close(&p.c, &want, &size, s.k, "expected: bf16 sums"));
    th_free(&want);
    th_free(&size);
    tear_down(&p);
}

static void test_specials(void **state)
{
    const shape s = {1, 1, 1, 37, 41, 30, ROWS, ROWS, ROWS};
    const tw_kernel *kernels[MAX_KERNELS];
    const int n = th_kernels(TW_OP_MATMUL, kernels, MAX_KERNELS);
    const int64_t dims[3] = {1, s.m, s.n};
    problem p;
    th_tensor want = th_make(TW_F32, 3, dims);
    (void)state;
    set_up(&p, &s);
    th_fill_integers(&p.a, 5, 1, 4);
    th_fill_integers(&p.b, 6, 0, 1);
    th_set(&p.a, 0 * s.k + 3, NAN);
    th_set(&p.a, 36 * s.k + 29, INFINITY);
    th_set(&p.a, 20 * s.k + 7, -INFINITY);
    th_set(&p.b, 29 * s.n + 40, -1.0);
    th_set(&p.b, 7 * s.n + 11, INFINITY);
    th_set(&p.b, 8 * s.n + 12, NAN);
    oracle(&p.a, &p.b, &want, false, TW_AUTO);
    for (int i = 0; i < n; i++) {
        assert_int_equal(th_run(kernels[i], &p.call), TW_OK);
        if (!th_equal(&p.c, &want, kernels[i]->name)) fail();
    }
    th_free(&want);
    tear_down(&p);
}

static tw_view view_of(const th_tensor *t, bool constant)
{
    tw_view v = {.dtype = t->desc.dtype, .rank = t->desc.rank, .alignment = 4};
    memcpy(v.dims, t->desc.dims, sizeof v.dims);
    memcpy(v.strides, t->desc.strides, sizeof v.strides);
    v.data = constant ? t->data : NULL;
    return v;
}

/* Operand `constant` is packed when the plan is made, and not read after that. */
static void run_constant(const tw_kernel *kernel, problem *p, int constant)
{
    tw_attrs attrs;
    tw_tensor_desc desc;
    assert_int_equal(th_infer(&p->call, &attrs, &desc), TW_OK);
    const tw_view in[2] = {view_of(&p->a, constant == 0), view_of(&p->b, constant == 1)};
    const tw_view out = view_of(&p->c, false);
    const tw_problem whole = {.info = tw_op_info_of(TW_OP_MATMUL),
                              .attrs = &attrs,
                              .n_in = 2,
                              .n_out = 1,
                              .in = in,
                              .out = &out,
                              .max_threads = 1,
                              .workspace_limit = INT64_MAX};
    tw_arena arena = {0};
    tw_prepare prepare = {.arena = &arena};
    if (kernel->impl->prepare) assert_int_equal(kernel->impl->prepare(&whole, &prepare), TW_OK);
    void *data[2] = {p->a.data, p->b.data}, *result = p->c.data;
    void *workspace = tw_malloc((size_t)prepare.workspace + 1);
    const tw_launch launch = {.problem = &whole,
                              .state = prepare.state,
                              .in = data,
                              .out = &result,
                              .workspace = workspace};
    assert_int_equal(kernel->impl->run(&launch), TW_OK);
    tw_free(workspace);
    tw_arena_free(&arena);
}

static void test_constants(void **state)
{
    static const shape shapes[] = {{1, 1, 1, 150, 75, 290, ROWS, COLUMNS, ROWS},
                                   {1, 1, 1, 150, 75, 290, GAPS, PADDED, COLUMNS},
                                   {3, 3, 1, 20, 33, 40, ROWS, ROWS, ROWS}};
    const tw_kernel *kernels[MAX_KERNELS];
    const int n = th_kernels(TW_OP_MATMUL, kernels, MAX_KERNELS);
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int i = 0; i < 2 * n; i++) {
            const int64_t dims[3] = {shapes[s].batch, shapes[s].m, shapes[s].n};
            problem p;
            th_tensor want = th_make(TW_F32, 3, dims);
            set_up(&p, &shapes[s]);
            th_fill_integers(&p.a, 5, -3, 3);
            th_fill_integers(&p.b, 6, -3, 3);
            oracle(&p.a, &p.b, &want, false, TW_AUTO);
            run_constant(kernels[i / 2], &p, i % 2);
            if (!th_equal(&p.c, &want, kernels[i / 2]->name)) fail();
            th_free(&want);
            tear_down(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_shapes),
        cmocka_unit_test(test_blocking),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_bound_and_threads),
        cmocka_unit_test(test_narrow_sum_fails),
        cmocka_unit_test(test_specials),
        cmocka_unit_test(test_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
