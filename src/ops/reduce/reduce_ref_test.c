/* SPDX-License-Identifier: Apache-2.0 */
/* The reference reduction against formulas in long double, over every type, mode and axes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"

enum { MAX_SET = 4096 };

/* One set: its elements in row-major order. */
typedef struct set {
    int64_t n;
    double v[MAX_SET];
} set;

static void collect(const th_tensor *x, uint32_t axes, int64_t output, set *s)
{
    s->n = 0;
    for (int64_t i = 0; i < th_elements(x); i++) {
        int64_t rest = i, scale = 1, place = 0;
        for (int32_t d = x->desc.rank - 1; d >= 0; d--) {
            int64_t at = rest % x->desc.dims[d];
            rest /= x->desc.dims[d];
            if ((axes >> d) & 1u) continue;
            place += at * scale;
            scale *= x->desc.dims[d];
        }
        if (place == output) s->v[s->n++] = th_get(x, i);
    }
}

static int64_t first_extreme(const set *s, bool least, bool last)
{
    int64_t best = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (isnan(s->v[i])) return i;
    for (int64_t i = 1; i < s->n; i++) {
        double a = s->v[i], b = s->v[best];
        if ((least ? a < b : a > b) || (last && a == b)) best = i;
    }
    return best;
}

static long double sum_of(const set *s, tw_reduce_mode mode, long double shift)
{
    long double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        long double v = (long double)s->v[i];
        switch (mode) {
        case TW_REDUCE_L1: sum += fabsl(v); break;
        case TW_REDUCE_L2:
        case TW_REDUCE_SUM_SQUARE: sum += v * v; break;
        case TW_REDUCE_LOG_SUM_EXP: sum += expl(v - shift); break;
        default: sum += v; break;
        }
    }
    return sum;
}

static long double product_of(const set *s, bool nonzero)
{
    long double product = 1;
    for (int64_t i = 0; i < s->n; i++)
        if (!nonzero || s->v[i] != 0) product *= (long double)s->v[i];
    return product;
}

static long double extreme(const set *s, bool least, bool magnitude)
{
    long double best = magnitude ? 0 : least ? (long double)INFINITY : -(long double)INFINITY;
    for (int64_t i = 0; i < s->n; i++) {
        long double v = (long double)(magnitude ? fabs(s->v[i]) : s->v[i]);
        if (isnan(v)) return v;
        if (least ? v < best : v > best) best = v;
    }
    return best;
}

static long double any_all(const set *s, bool all)
{
    bool seen = all;
    for (int64_t i = 0; i < s->n; i++) seen = all ? seen && s->v[i] != 0 : seen || s->v[i] != 0;
    return seen;
}

static long double log_sum_exp(const set *s)
{
    long double top = extreme(s, false, false);
    return isfinite(top) ? logl(sum_of(s, TW_REDUCE_LOG_SUM_EXP, top)) + top : top;
}

static long double expected(const set *s, const tw_reduce_attrs *attrs)
{
    switch (attrs->mode) {
    case TW_REDUCE_MEAN: return sum_of(s, TW_REDUCE_SUM, 0) / (long double)s->n;
    case TW_REDUCE_MAX: return extreme(s, false, false);
    case TW_REDUCE_MIN: return extreme(s, true, false);
    case TW_REDUCE_AMAX: return extreme(s, false, true);
    case TW_REDUCE_PROD: return product_of(s, false);
    case TW_REDUCE_PROD_NONZERO: return product_of(s, true);
    case TW_REDUCE_L2: return sqrtl(sum_of(s, attrs->mode, 0));
    case TW_REDUCE_LOG_SUM: return logl(sum_of(s, TW_REDUCE_SUM, 0));
    case TW_REDUCE_LOG_SUM_EXP: return log_sum_exp(s);
    case TW_REDUCE_ANY: return any_all(s, false);
    case TW_REDUCE_ALL: return any_all(s, true);
    case TW_REDUCE_ARGMAX:
    case TW_REDUCE_ARGMIN:
        return (long double)first_extreme(s, attrs->mode == TW_REDUCE_ARGMIN, attrs->last_index);
    default: return sum_of(s, attrs->mode, 0);
    }
}

/* u_out·|want| for the store; double sums add √n·2^-53·Σ|terms|, here at most n·peak² of it. */
static bool near(tw_dtype y, double got, long double want, const set *s)
{
    if (tw_dtype_is_integer(y) || y == TW_BOOL) {
        double rounded = tw_round_to(y, (double)want);
        return got == rounded;
    }
    double stored = tw_round_to(y, (double)want);
    if (isnan(stored)) return isnan(got);
    if (!isfinite(want) || isinf(stored)) return got == stored;
    long double scale = fabsl(want);
    for (int64_t i = 0; i < s->n; i++) scale += (long double)(fabs(s->v[i]) + s->v[i] * s->v[i]);
    long double allowed = 4 * (long double)tw_dtype_epsilon(y) * fabsl(want) +
                          4 * sqrtl((long double)s->n + 1) * 0x1p-53L * scale;
    return fabsl((long double)got - want) <= allowed;
}

static void check(th_tensor *x, const tw_reduce_attrs *attrs, tw_dtype declared)
{
    const tw_kernel *reference = th_reference(TW_OP_REDUCE);
    th_call call = {.kind = TW_OP_REDUCE, .attrs = {.reduce = *attrs}, .n_in = 1, .n_out = 1};
    tw_attrs normal;
    tw_tensor_desc desc[4];
    static set s;
    call.in[0] = x;
    assert_int_equal(th_infer(&call, &normal, desc), TW_OK);
    if (declared != TW_AUTO) desc[0].dtype = declared;
    th_tensor y = th_make(desc[0].dtype, desc[0].rank, desc[0].dims);
    call.out[0] = &y;
    assert_int_equal(th_run(reference, &call), TW_OK);
    for (int64_t o = 0; o < th_elements(&y); o++) {
        collect(x, attrs->axes, o, &s);
        long double want = expected(&s, attrs);
        double got = th_get(&y, o);
        if (!near(y.desc.dtype, got, want, &s)) {
            fprintf(stderr, "mode %d axes 0x%x x %s y %s output %lld: got %.17g, want %.17Lg\n",
                    (int)attrs->mode, attrs->axes, tw_dtype_name(x->desc.dtype),
                    tw_dtype_name(y.desc.dtype), (long long)o, got, want);
            fail();
        }
    }
    assert_true(th_guards_intact(&y));
    th_free(&y);
}

static const tw_dtype types[] = {TW_F64, TW_F32, TW_F16, TW_BF16, TW_E4M3FN, TW_E5M2, TW_E4M3FNUZ,
                                 TW_I64, TW_I32, TW_I16, TW_I8,   TW_I4,     TW_I2,   TW_U64,
                                 TW_U32, TW_U16, TW_U8,  TW_U4,   TW_U2,     TW_BOOL, TW_F4E2M1};
enum { N_TYPES = sizeof types / sizeof types[0] };

static void fill(th_tensor *x, uint64_t seed)
{
    tw_dtype t = x->desc.dtype;
    int lo = tw_dtype_is_signed(t) || tw_dtype_is_float(t) ? -2 : 0;
    th_fill_integers(x, seed, lo, t == TW_I2 || t == TW_BOOL ? 1 : 3);
}

static void test_modes_types_axes(void **state)
{
    const int64_t dims[3] = {3, 4, 5}, strides[3] = {1, 18, 3};
    (void)state;
    for (int t = 0; t < N_TYPES; t++)
        for (int mode = 0; mode <= TW_REDUCE_PROD_NONZERO; mode++)
            for (uint32_t axes = 0; axes < 8; axes++) {
                th_tensor x = axes % 2 ? th_make_strided(types[t], 3, dims, strides)
                                       : th_make(types[t], 3, dims);
                fill(&x, (uint64_t)(1000 * t + 10 * mode) + axes);
                check(&x,
                      &(tw_reduce_attrs){.mode = (tw_reduce_mode)mode,
                                         .axes = axes,
                                         .drop = axes % 3 == 0,
                                         .last_index = axes % 2},
                      TW_AUTO);
                th_free(&x);
            }
}

static void test_real_data(void **state)
{
    const int64_t dims[2] = {7, 331};
    const tw_dtype reals[4] = {TW_F64, TW_F32, TW_F16, TW_BF16};
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int mode = 0; mode <= TW_REDUCE_PROD_NONZERO; mode++) {
            th_tensor x = th_make(reals[t], 2, dims);
            th_fill_uniform(&x, (uint64_t)(77 + mode), mode == TW_REDUCE_LOG_SUM ? 0.1 : -1.5, 1.5);
            if (mode == TW_REDUCE_PROD || mode == TW_REDUCE_PROD_NONZERO)
                th_fill_uniform(&x, (uint64_t)(5 + mode), 0.9, 1.1);
            check(&x, &(tw_reduce_attrs){.mode = (tw_reduce_mode)mode, .axes = 2},
                  t == 0 ? TW_F64 : TW_F32);
            th_free(&x);
        }
}

static void test_specials(void **state)
{
    const double inf = (double)INFINITY, nan = (double)NAN;
    const double rows[6][4] = {{1, nan, 2, nan},  {-inf, -inf, -inf, -inf}, {1, inf, 2, inf},
                               {0, -inf, 3, inf}, {-1, -1, -1, -1},         {inf, nan, 0, 1}};
    (void)state;
    for (int mode = 0; mode <= TW_REDUCE_PROD_NONZERO; mode++)
        for (int last = 0; last < 2; last++) {
            th_tensor x = th_make(TW_F32, 2, (const int64_t[2]){6, 4});
            for (int i = 0; i < 24; i++) th_set(&x, i, rows[i / 4][i % 4]);
            check(&x,
                  &(tw_reduce_attrs){
                      .mode = (tw_reduce_mode)mode, .axes = 2, .last_index = last == 1},
                  TW_AUTO);
            th_free(&x);
        }
}

static void test_empty_sets(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPES; t++)
        for (int mode = 0; mode <= TW_REDUCE_PROD_NONZERO; mode++) {
            if (mode == TW_REDUCE_ARGMAX || mode == TW_REDUCE_ARGMIN) continue;
            th_tensor x = th_make(types[t], 3, (const int64_t[3]){3, 0, 2});
            check(&x, &(tw_reduce_attrs){.mode = (tw_reduce_mode)mode, .axes = 2}, TW_AUTO);
            check(&x, &(tw_reduce_attrs){.mode = (tw_reduce_mode)mode, .axes = 1}, TW_AUTO);
            check(&x, &(tw_reduce_attrs){.mode = (tw_reduce_mode)mode, .axes = 7}, TW_F64);
            th_free(&x);
        }
}

/* Sums beyond the accumulator of a lazy implementation. */
static void test_integers_are_exact(void **state)
{
    th_tensor x = th_make(TW_I64, 1, (const int64_t[1]){4}), y = th_make(TW_I64, 0, NULL);
    th_call call = {.kind = TW_OP_REDUCE, .n_in = 1, .n_out = 1, .in = {&x}, .out = {&y}};
    const tw_kernel *reference = th_reference(TW_OP_REDUCE);
    int64_t *v = x.data, *result = y.data;
    (void)state;
    call.attrs.reduce = (tw_reduce_attrs){.mode = TW_REDUCE_SUM, .axes = 1, .drop = true};
    memcpy(v, (const int64_t[4]){INT64_MAX, INT64_MAX, -INT64_MAX, 5}, sizeof(int64_t) * 4);
    assert_int_equal(th_run(reference, &call), TW_OK);
    assert_true(*result == INT64_MAX); /* 2^63 + 4 saturates */
    v[3] = -INT64_MAX;
    assert_int_equal(th_run(reference, &call), TW_OK);
    assert_true(*result == 0);
    call.attrs.reduce.mode = TW_REDUCE_PROD;
    memcpy(v, (const int64_t[4]){INT64_MAX, -1000003, INT64_MAX, 7}, sizeof(int64_t) * 4);
    assert_int_equal(th_run(reference, &call), TW_OK);
    assert_true(*result == INT64_MIN);
    v[2] = 0;
    assert_int_equal(th_run(reference, &call), TW_OK);
    assert_true(*result == 0);
    call.attrs.reduce.mode = TW_REDUCE_SUM_SQUARE;
    memcpy(v, (const int64_t[4]){INT64_MIN, INT64_MIN, 1, 1}, sizeof(int64_t) * 4);
    assert_int_equal(th_run(reference, &call), TW_OK);
    assert_true(*result == INT64_MAX);
    th_free(&x);
    th_free(&y);
}

/* Norms of elements whose squares do not fit their type. */
static void test_l2_scales(void **state)
{
    const double sizes[3] = {1e300, 1e-300, 4.9406564584124654e-324};
    (void)state;
    for (int i = 0; i < 3; i++) {
        th_tensor x = th_make(TW_F64, 1, (const int64_t[1]){4}), y = th_make(TW_F64, 0, NULL);
        th_call call = {.kind = TW_OP_REDUCE, .n_in = 1, .n_out = 1, .in = {&x}, .out = {&y}};
        call.attrs.reduce = (tw_reduce_attrs){.mode = TW_REDUCE_L2, .axes = 1, .drop = true};
        th_fill_value(&x, sizes[i]);
        assert_int_equal(th_run(th_reference(TW_OP_REDUCE), &call), TW_OK);
        assert_true(th_get(&y, 0) == 2 * sizes[i]);
        th_free(&x);
        th_free(&y);
    }
}

static void expect_refusal(const tw_reduce_attrs *attrs, tw_dtype type, int64_t dim,
                           const char *word)
{
    th_tensor x = th_make(type, 2, (const int64_t[2]){2, dim});
    th_call call = {.kind = TW_OP_REDUCE, .attrs = {.reduce = *attrs}, .n_in = 1, .n_out = 1};
    tw_attrs normal;
    tw_tensor_desc desc[4];
    call.in[0] = &x;
    assert_int_equal(th_infer(&call, &normal, desc), TW_INVALID_ARGUMENT);
    assert_non_null(strstr(tw_last_error(), word));
    th_free(&x);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal(&(tw_reduce_attrs){.axes = 4}, TW_F32, 3, "axes");
    expect_refusal(&(tw_reduce_attrs){.mode = (tw_reduce_mode)16}, TW_F32, 3, "mode");
    expect_refusal(&(tw_reduce_attrs){.mode = (tw_reduce_mode)-1}, TW_F32, 3, "mode");
    expect_refusal(&(tw_reduce_attrs){.mode = TW_REDUCE_ARGMAX, .axes = 2}, TW_F32, 0, "argmax");
    expect_refusal(&(tw_reduce_attrs){.compute = TW_F16}, TW_F32, 3, "compute");
    expect_refusal(&(tw_reduce_attrs){.axes = 1}, TW_C64, 3, "x is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes_types_axes),   cmocka_unit_test(test_real_data),
        cmocka_unit_test(test_specials),           cmocka_unit_test(test_empty_sets),
        cmocka_unit_test(test_integers_are_exact), cmocka_unit_test(test_l2_scales),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
