/* SPDX-License-Identifier: Apache-2.0 */
/* Every vector kernel against the reference: sizes around the edges of vectors, blocks and chunks,
 * all kinds of strides, special values; bits that do not depend on threads or workspace. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"

static const tw_reduce_mode modes[] = {
    TW_REDUCE_SUM,        TW_REDUCE_MEAN,   TW_REDUCE_MAX,     TW_REDUCE_MIN,
    TW_REDUCE_L1,         TW_REDUCE_L2,     TW_REDUCE_LOG_SUM, TW_REDUCE_LOG_SUM_EXP,
    TW_REDUCE_SUM_SQUARE, TW_REDUCE_ARGMAX, TW_REDUCE_ARGMIN,  TW_REDUCE_AMAX};
enum { N_MODES = sizeof modes / sizeof modes[0] };

static const tw_dtype types[3] = {TW_F32, TW_F16, TW_BF16};

/* A problem: strides[0] < 0 means row-major. */
typedef struct shape {
    int32_t rank;
    int64_t dims[4], strides[4];
    uint32_t axes;
} shape;

static th_tensor make_x(const shape *s, tw_dtype type)
{
    return s->strides[0] < 0 ? th_make(type, s->rank, s->dims)
                             : th_make_strided(type, s->rank, s->dims, s->strides);
}

static int64_t set_size(const shape *s)
{
    int64_t n = 1;
    for (int32_t d = 0; d < s->rank; d++)
        if ((s->axes >> d) & 1u) n *= s->dims[d];
    return n;
}

static bool is_arg(tw_reduce_mode mode)
{
    return mode == TW_REDUCE_ARGMAX || mode == TW_REDUCE_ARGMIN;
}

static bool is_extreme(tw_reduce_mode mode)
{
    return mode == TW_REDUCE_MAX || mode == TW_REDUCE_MIN || mode == TW_REDUCE_AMAX;
}

static th_call call_of(const shape *s, tw_reduce_mode mode, bool last, th_tensor *x, th_tensor *y)
{
    th_call call = {.kind = TW_OP_REDUCE, .n_in = 1, .n_out = 1, .in = {x}, .out = {y}};
    call.attrs.reduce =
        (tw_reduce_attrs){.mode = mode, .axes = s->axes, .drop = true, .last_index = last};
    return call;
}

static th_tensor make_y(const shape *s, tw_dtype type)
{
    int64_t dims[4];
    int32_t rank = 0;
    for (int32_t d = 0; d < s->rank; d++)
        if (!((s->axes >> d) & 1u)) dims[rank++] = s->dims[d];
    return th_make(type, rank, dims);
}

/* Σ|x| bounds what sums can lose; a logarithm loses that relative to its argument. */
static th_tensor magnitude_of(const shape *s, tw_reduce_mode mode, th_tensor *x,
                              const th_tensor *want)
{
    th_tensor m = make_y(s, TW_F64);
    tw_reduce_mode terms =
        mode == TW_REDUCE_L2 || mode == TW_REDUCE_SUM_SQUARE ? TW_REDUCE_SUM_SQUARE : TW_REDUCE_L1;
    th_call call = call_of(s, terms, false, x, &m);
    assert_int_equal(th_run(th_reference(TW_OP_REDUCE), &call), TW_OK);
    for (int64_t i = 0; i < th_elements(&m); i++) {
        double sum = th_get(&m, i), y = th_get(want, i);
        if (mode == TW_REDUCE_MEAN) sum /= (double)set_size(s);
        if (mode == TW_REDUCE_L2) sum = fabs(y);
        if (mode == TW_REDUCE_LOG_SUM) sum = sum / exp(y);
        if (mode == TW_REDUCE_LOG_SUM_EXP) sum = 1 + fabs(y);
        if (is_extreme(mode) || is_arg(mode)) sum = 0;
        th_set(&m, i, sum);
    }
    return m;
}

static void fail_with(const tw_kernel *kernel, const shape *s, tw_reduce_mode mode, tw_dtype type)
{
    fprintf(stderr, "%s mode %d dtype %s axes 0x%x dims", kernel->name, (int)mode,
            tw_dtype_name(type), s->axes);
    for (int32_t d = 0; d < s->rank; d++)
        fprintf(stderr, " %lld/%lld", (long long)s->dims[d], (long long)s->strides[d]);
    fprintf(stderr, "\n");
    fail();
}

/* One kernel on one problem: close to `want`, and the same bits on two threads and with no
 * workspace. */
static void check_kernel(const tw_kernel *kernel, const shape *s, th_call *call,
                         const th_tensor *want, const th_tensor *magnitude)
{
    tw_reduce_mode mode = call->attrs.reduce.mode;
    th_tensor *x = call->in[0];
    th_tensor y = th_make_like(&want->desc), again = th_make_like(&want->desc);
    call->out[0] = &y;
    call->threads = 1;
    if (th_refuses(kernel, call)) goto out;
    bool good = th_run(kernel, call) == TW_OK && th_guards_intact(&y) &&
                th_close(&y, want, magnitude, set_size(s), kernel->name);
    call->out[0] = &again;
    call->threads = 2;
    good = good && th_run(kernel, call) == TW_OK && th_equal(&again, &y, "two threads");
    call->threads = 1;
    call->has_limit = true;
    good = good && th_run(kernel, call) == TW_OK && th_equal(&again, &y, "no workspace");
    call->has_limit = false;
    if (!good) fail_with(kernel, s, mode, x->desc.dtype);
out:
    th_free(&y);
    th_free(&again);
}

static void check(const shape *s, tw_reduce_mode mode, bool last, th_tensor *x)
{
    const tw_kernel *kernels[32];
    int n = th_kernels(TW_OP_REDUCE, kernels, 32);
    th_tensor want = make_y(s, is_arg(mode) ? TW_I64 : TW_F32);
    th_call call = call_of(s, mode, last, x, &want);
    if (is_arg(mode) && set_size(s) == 0) {
        th_free(&want);
        return;
    }
    assert_int_equal(th_run(th_reference(TW_OP_REDUCE), &call), TW_OK);
    th_tensor magnitude = magnitude_of(s, mode, x, &want);
    for (int k = 0; k < n; k++)
        if (!kernels[k]->reference) check_kernel(kernels[k], s, &call, &want, &magnitude);
    th_free(&magnitude);
    th_free(&want);
}

static void check_modes(const shape *s, uint64_t seed)
{
    for (int t = 0; t < 3; t++) {
        th_tensor x = make_x(s, types[t]);
        for (int m = 0; m < N_MODES; m++) {
            th_fill_uniform(&x, seed + (uint64_t)m, modes[m] == TW_REDUCE_LOG_SUM ? 0 : -3, 3);
            check(s, modes[m], seed % 2 == 1, &x);
        }
        /* Many equal elements: the index of the first or last extreme. */
        th_fill_integers(&x, seed, -2, 2);
        check(s, TW_REDUCE_ARGMAX, seed % 2 == 0, &x);
        check(s, TW_REDUCE_ARGMIN, seed % 2 == 1, &x);
        th_free(&x);
    }
}

static void test_row_lengths(void **state)
{
    const int64_t lengths[] = {1,  2,  3,  7,   8,   15,   16,   17,   31,  33,
                               63, 64, 65, 129, 255, 1023, 1024, 1025, 2500};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        shape s = {.rank = 2, .dims = {5, lengths[i]}, .strides = {-1}, .axes = 2};
        check_modes(&s, i);
    }
}

static void test_column_widths(void **state)
{
    const int64_t widths[] = {1, 2, 3, 5, 16, 17, 64, 65, 127, 129, 511, 513, 1030};
    const int64_t heights[] = {1, 3, 4, 67, 131};
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (size_t j = 0; j < sizeof heights / sizeof heights[0]; j++) {
            shape s = {.rank = 2, .dims = {heights[j], widths[i]}, .strides = {-1}, .axes = 1};
            check_modes(&s, i + 7 * j);
        }
}

/* Long enough to be cut into chunks and, for narrow columns, to be folded. */
static void test_chunks(void **state)
{
    const shape shapes[] = {
        {.rank = 1, .dims = {300007}, .strides = {-1}, .axes = 1},
        {.rank = 2, .dims = {2, 140001}, .strides = {-1}, .axes = 2},
        {.rank = 2, .dims = {100003, 3}, .strides = {-1}, .axes = 1},
        {.rank = 2, .dims = {2100, 130}, .strides = {-1}, .axes = 1},
        {.rank = 3, .dims = {40, 7, 1001}, .strides = {-1}, .axes = 5},
        {.rank = 3, .dims = {300, 1001, 2}, .strides = {-1}, .axes = 2},
    };
    const tw_reduce_mode some[] = {TW_REDUCE_SUM, TW_REDUCE_MAX, TW_REDUCE_LOG_SUM_EXP,
                                   TW_REDUCE_ARGMIN, TW_REDUCE_L2};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t m = 0; m < sizeof some / sizeof some[0]; m++) {
            th_tensor x = make_x(&shapes[i], TW_F32);
            th_fill_uniform(&x, i * 11 + m, -1, 1);
            check(&shapes[i], some[m], m % 2 == 0, &x);
            th_free(&x);
        }
}

static void test_strides_and_axes(void **state)
{
    const shape bases[] = {
        {.rank = 4, .dims = {3, 5, 4, 6}, .strides = {-1}},
        {.rank = 4, .dims = {3, 5, 4, 6}, .strides = {120, 1, 30, 5}},  /* channels-last */
        {.rank = 4, .dims = {3, 5, 4, 6}, .strides = {1, 3, 15, 60}},   /* reversed */
        {.rank = 4, .dims = {3, 5, 4, 6}, .strides = {500, 90, 20, 3}}, /* gaps */
        {.rank = 4, .dims = {3, 5, 4, 6}, .strides = {0, 6, 0, 1}},     /* broadcast */
        {.rank = 4, .dims = {3, 5, 4, 6}, .strides = {24, 0, 6, 1}},
        {.rank = 4, .dims = {3, 5, 4, 6}, .strides = {1, 1, 1, 1}}, /* overlapping */
        {.rank = 4, .dims = {1, 5, 1, 6}, .strides = {7, 6, 99, 1}},
        {.rank = 4, .dims = {3, 0, 4, 6}, .strides = {-1}},
        {.rank = 3, .dims = {0, 4, 6}, .strides = {-1}},
        {.rank = 0, .strides = {-1}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
        for (uint32_t axes = 0; axes < 1u << bases[i].rank; axes++) {
            shape s = bases[i];
            s.axes = axes;
            check_modes(&s, i + axes);
        }
}

static void test_specials(void **state)
{
    const float inf = INFINITY, nan = NAN;
    const float values[] = {nan, inf, -inf, 0.0f, 3.0e38f, 1e-45f, 1.0f};
    const shape shapes[2] = {{.rank = 2, .dims = {9, 70}, .strides = {-1}, .axes = 2},
                             {.rank = 2, .dims = {70, 9}, .strides = {-1}, .axes = 1}};
    (void)state;
    for (int i = 0; i < 2; i++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            uint64_t rng = seed;
            th_tensor x = make_x(&shapes[i], TW_F32);
            th_fill_value(&x, seed % 3 == 0 ? (double)-inf : -1);
            for (int n = 0; n < 12; n++)
                th_set(&x, (int64_t)(th_random(&rng) % 630), (double)values[th_random(&rng) % 7]);
            for (int m = 0; m < N_MODES; m++) {
                /* An overflow of Σ depends on its order. */
                if (modes[m] == TW_REDUCE_SUM || modes[m] == TW_REDUCE_MEAN ||
                    modes[m] == TW_REDUCE_LOG_SUM || modes[m] == TW_REDUCE_L1)
                    continue;
                check(&shapes[i], modes[m], seed % 2 == 1, &x);
            }
            th_free(&x);
        }
}

/* Sums with an infinity, or with NaN, among moderate numbers. */
static void test_special_sums(void **state)
{
    const double rows[4][2] = {{(double)INFINITY, 1},
                               {-(double)INFINITY, 1},
                               {(double)INFINITY, -(double)INFINITY},
                               {(double)NAN, 1}};
    (void)state;
    for (int columns = 0; columns < 2; columns++)
        for (int i = 0; i < 4; i++)
            for (int m = 0; m < 5; m++) {
                shape s = {.rank = 2, .dims = {3, 200}, .strides = {-1}, .axes = 2};
                if (columns) s = (shape){.rank = 2, .dims = {200, 3}, .strides = {-1}, .axes = 1};
                th_tensor x = make_x(&s, TW_F32);
                th_fill_uniform(&x, (uint64_t)i, 0, 1);
                for (int j = 0; j < 2; j++) th_set(&x, 31 + 150 * j + i, rows[i][j]);
                check(&s, modes[m], false, &x);
                th_free(&x);
            }
}

/* f32 near 1e30 has a norm, although not one of squares in f32. */
static void test_norm_of_large(void **state)
{
    const tw_kernel *kernels[32];
    int n = th_kernels(TW_OP_REDUCE, kernels, 32);
    (void)state;
    for (int k = 0; k < n; k++)
        for (uint32_t axes = 1; axes < 3; axes++) {
            shape s = {.rank = 2, .dims = {100, 100}, .strides = {-1}, .axes = axes};
            th_tensor x = make_x(&s, TW_F32), y = make_y(&s, TW_F32);
            th_call call = call_of(&s, TW_REDUCE_L2, false, &x, &y);
            th_fill_value(&x, (double)1e30f);
            if (!th_refuses(kernels[k], &call)) {
                assert_int_equal(th_run(kernels[k], &call), TW_OK);
                for (int i = 0; i < 100; i++) assert_true(th_get(&y, i) == (double)(10 * 1e30f));
            }
            th_free(&x);
            th_free(&y);
        }
}

/* A running f32 sum of ones stops at 2^24, one of f16 at 2^11. */
static void test_long_sums(void **state)
{
    const tw_kernel *kernels[32];
    int n = th_kernels(TW_OP_REDUCE, kernels, 32);
    (void)state;
    for (int k = 0; k < n; k++)
        for (int t = 0; t < 2; t++) {
            if (kernels[k]->reference) continue;
            shape s = {.rank = 1, .dims = {(1 << 24) + 5}, .strides = {0}, .axes = 1};
            th_tensor x = make_x(&s, types[t]), y = make_y(&s, TW_F64);
            th_call call = call_of(&s, TW_REDUCE_SUM, false, &x, &y);
            th_fill_value(&x, 1);
            if (!th_refuses(kernels[k], &call)) {
                assert_int_equal(th_run(kernels[k], &call), TW_OK);
                assert_true(th_get(&y, 0) == (1 << 24) + 5);
            }
            th_free(&x);
            th_free(&y);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_lengths),   cmocka_unit_test(test_column_widths),
        cmocka_unit_test(test_chunks),        cmocka_unit_test(test_strides_and_axes),
        cmocka_unit_test(test_specials),      cmocka_unit_test(test_special_sums),
        cmocka_unit_test(test_norm_of_large), cmocka_unit_test(test_long_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
