/* SPDX-License-Identifier: Apache-2.0 */
/* Meaning of the modes: the reference against formulas written independently, specials on every
 * kernel, integers, and what inference refuses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"
#include "ops/pointwise/pointwise.h"

typedef long double real;

/* ---- Formulas in long double, as the table of modes states them, with no care for extremes --- */

static real sigma(real x) { return 1 / (1 + expl(-x)); }
static real cdf(real x) { return (1 + erfl(x / sqrtl(2))) / 2; }
static real clip_to(real x, real lo, real hi) { return fminl(fmaxl(x, lo), hi); }
static real elu(real x, real alpha) { return x > 0 ? x : alpha * (expl(x) - 1); }
static real gate(real x) { return tanhl(logl(1 + expl(x))); }
static real bent(real x) { return sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x); }

/* A central difference; good to some 12 digits. */
static real slope(real (*f)(real), real x)
{
    const real h = 1e-5L;
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h);
}
static real f_selu(real x) { return 1.0507009873554805L * elu(x, 1.6732632423543772L); }
static real f_gelu(real x) { return x * cdf(x); }
static real f_gelu_tanh(real x) { return x * (1 + tanhl(bent(x))) / 2; }
static real f_mish(real x) { return x * gate(x); }
static real f_softsign(real x) { return x / (1 + fabsl(x)); }
static real f_silu(real x) { return x * sigma(x); }
static real f_hard_swish(real x) { return x * clip_to(x / 6 + 0.5L, 0, 1); }

/* FORMULA(mode, lo, hi, expression in a, b, c): operands are drawn from [lo, hi]. */
#define FORMULAS                                                                                   \
    FORMULA(IDENTITY, -9, 9, a)                                                                    \
    FORMULA(ABS, -9, 9, a < 0 ? -a : a)                                                            \
    FORMULA(NEG, -9, 9, 0 - a)                                                                     \
    FORMULA(CEIL, -9, 9, -floorl(-a))                                                              \
    FORMULA(FLOOR, -9, 9, floorl(a))                                                               \
    FORMULA(ROUND, -9, 9, rintl(a))                                                                \
    FORMULA(SQRT, 0, 9, sqrtl(a))                                                                  \
    FORMULA(RSQRT, 0.1, 9, 1 / sqrtl(a))                                                           \
    FORMULA(RECIPROCAL, 0.1, 9, 1 / a)                                                             \
    FORMULA(EXP, -9, 9, expl(a))                                                                   \
    FORMULA(EXPM1, -9, 9, expm1l(a))                                                               \
    FORMULA(LOG, 0.1, 9, logl(a))                                                                  \
    FORMULA(LOG1P, -0.9, 9, log1pl(a))                                                             \
    FORMULA(SIN, -9, 9, sinl(a))                                                                   \
    FORMULA(COS, -9, 9, cosl(a))                                                                   \
    FORMULA(TAN, -1.5, 1.5, sinl(a) / cosl(a))                                                     \
    FORMULA(ERF, -4, 4, erfl(a))                                                                   \
    FORMULA(TANH, -9, 9, tanhl(a))                                                                 \
    FORMULA(SIGMOID, -9, 9, sigma(a))                                                              \
    FORMULA(RELU, -9, 9, fmaxl(a, 0))                                                              \
    FORMULA(RELU6, -9, 9, clip_to(a, 0, 6))                                                        \
    FORMULA(LEAKY_RELU, -9, 9, a > 0 ? a : (real)0.01 * a)                                         \
    FORMULA(ELU, -9, 9, elu(a, 1))                                                                 \
    FORMULA(SELU, -9, 9, f_selu(a))                                                                \
    FORMULA(CELU, -9, 9, fmaxl(a, 0) + fminl(0, expl(a) - 1))                                      \
    FORMULA(GELU, -6, 6, f_gelu(a))                                                                \
    FORMULA(GELU_TANH, -4, 4, f_gelu_tanh(a))                                                      \
    FORMULA(SILU, -9, 9, f_silu(a))                                                                \
    FORMULA(MISH, -9, 9, f_mish(a))                                                                \
    FORMULA(SOFTPLUS, -9, 9, logl(1 + expl(a)))                                                    \
    FORMULA(SOFTSIGN, -9, 9, f_softsign(a))                                                        \
    FORMULA(HARD_SIGMOID, -9, 9, clip_to((real)0.2 * a + 0.5L, 0, 1))                              \
    FORMULA(HARD_SWISH, -9, 9, f_hard_swish(a))                                                    \
    FORMULA(CLIP, -9, 9, a)                                                                        \
    FORMULA(SIGN, -9, 9, a > 0 ? 1 : -1)                                                           \
    FORMULA(SQUARE, -9, 9, a *a)                                                                   \
    FORMULA(LOGICAL_NOT, -9, 9, 0)                                                                 \
    FORMULA(IS_NAN, -9, 9, 0)                                                                      \
    FORMULA(IS_INF, -9, 9, 0)                                                                      \
    FORMULA(LINEAR, -9, 9, a)                                                                      \
    FORMULA(ADD, -9, 9, a + b)                                                                     \
    FORMULA(SUB, -9, 9, a - b)                                                                     \
    FORMULA(MUL, -9, 9, a *b)                                                                      \
    FORMULA(DIV, 0.1, 9, a / b)                                                                    \
    FORMULA(MAX, -9, 9, a < b ? b : a)                                                             \
    FORMULA(MIN, -9, 9, a < b ? a : b)                                                             \
    FORMULA(POW, 0.1, 5, expl(b *logl(a)))                                                         \
    FORMULA(MOD, -9, 9, a - b * floorl(a / b))                                                     \
    FORMULA(FMOD, -9, 9, a - b * truncl(a / b))                                                    \
    FORMULA(ATAN2, 0.1, 9, atanl(a / b))                                                           \
    FORMULA(ADD_SQUARE, -9, 9, a + b * b)                                                          \
    FORMULA(PRELU, -9, 9, a > 0 ? a : b * a)                                                       \
    FORMULA(EQ, -9, 9, a == b)                                                                     \
    FORMULA(NE, -9, 9, !(a == b))                                                                  \
    FORMULA(LT, -9, 9, b > a)                                                                      \
    FORMULA(LE, -9, 9, b >= a)                                                                     \
    FORMULA(GT, -9, 9, b < a)                                                                      \
    FORMULA(GE, -9, 9, b <= a)                                                                     \
    FORMULA(LOGICAL_AND, -9, 9, 1)                                                                 \
    FORMULA(LOGICAL_OR, -9, 9, 1)                                                                  \
    FORMULA(LOGICAL_XOR, -9, 9, 0)                                                                 \
    FORMULA(RELU_BWD, -9, 9, b > 0 ? a : 0)                                                        \
    FORMULA(RELU6_BWD, -9, 9, b > 0 && b < 6 ? a : 0)                                              \
    FORMULA(LEAKY_RELU_BWD, -9, 9, b > 0 ? a : (real)0.01 * a)                                     \
    FORMULA(ELU_BWD, -9, 9, b > 0 ? a : a * expl(b))                                               \
    FORMULA(SELU_BWD, 0.01, 9, a *slope(f_selu, b))                                                \
    FORMULA(CELU_BWD, -9, 9, b > 0 ? a : a * expl(b))                                              \
    FORMULA(GELU_BWD, -6, 6, a *slope(f_gelu, b))                                                  \
    FORMULA(GELU_TANH_BWD, -4, 4, a *slope(f_gelu_tanh, b))                                        \
    FORMULA(SILU_BWD, -9, 9, a *slope(f_silu, b))                                                  \
    FORMULA(MISH_BWD, -9, 9, a *slope(f_mish, b))                                                  \
    FORMULA(SOFTPLUS_BWD, -9, 9, a *sigma(b))                                                      \
    FORMULA(SOFTSIGN_BWD, 0.01, 9, a *slope(f_softsign, b))                                        \
    FORMULA(HARD_SIGMOID_BWD, -9, 9, fabsl(b) < 2.5L ? (real)0.2 * a : 0)                          \
    FORMULA(HARD_SWISH_BWD, -2.9, 2.9, a *slope(f_hard_swish, b))                                  \
    FORMULA(CLIP_BWD, -9, 9, a)                                                                    \
    FORMULA(TANH_BWD, -9, 9, a *slope(tanhl, b))                                                   \
    FORMULA(SIGMOID_BWD, -9, 9, a *slope(sigma, b))                                                \
    FORMULA(TANH_BWD_Y, -1, 1, a *(1 - b * b))                                                     \
    FORMULA(SIGMOID_BWD_Y, 0, 1, a *b *(1 - b))                                                    \
    FORMULA(ABS_BWD, -9, 9, b > 0 ? a : -a)                                                        \
    FORMULA(SELECT, -9, 9, b)                                                                      \
    FORMULA(FMA, -9, 9, a *b + c)                                                                  \
    FORMULA(CLAMP, -9, 9, clip_to(a, b, c))

typedef struct formula {
    tw_pointwise_mode mode;
    double lo, hi;
    real (*value)(real a, real b, real c);
} formula;

#define FORMULA(NAME, lo, hi, expression)                                                          \
    static real value_##NAME(real a, real b, real c)                                               \
    {                                                                                              \
        (void)a, (void)b, (void)c;                                                                 \
        return expression;                                                                         \
    }
FORMULAS
#undef FORMULA
#define FORMULA(NAME, lo, hi, expression) {TW_PW_##NAME, lo, hi, value_##NAME},
static const formula formulas[] = {FORMULAS};
#undef FORMULA

enum { N = 512 };

static void check_formula(const formula *f, tw_dtype type)
{
    const tw_pw_mode_info mode = tw_pw_mode_of(f->mode);
    const int64_t dims[1] = {N};
    th_tensor in[3], y = th_make(mode.flags & TW_PW_PREDICATE ? TW_BOOL : type, 1, dims);
    th_call call = {.kind = TW_OP_POINTWISE,
                    .attrs.pointwise = {.mode = f->mode},
                    .n_in = mode.arity,
                    .n_out = 1,
                    .out = {&y}};
    for (int i = 0; i < mode.arity; i++) {
        in[i] = th_make(type, 1, dims);
        th_fill_uniform(&in[i], 100u * (unsigned)f->mode + (unsigned)i, f->lo, f->hi);
        call.in[i] = &in[i];
    }
    assert_int_equal(th_run(th_reference(TW_OP_POINTWISE), &call), TW_OK);
    for (int64_t i = 0; i < N; i++) {
        real v[3] = {0};
        for (int k = 0; k < mode.arity; k++) v[k] = (real)th_get(&in[k], i);
        real want = f->value(v[0], v[1], v[2]);
        /* the formulas cancel and difference: 1e-11 of the operands' size; then one rounding */
        real slack = 1e-11L * (1 + fabsl(v[0])) * (1 + fabsl(v[1])) * (1 + fabsl(v[1]));
        real allowed = slack + (real)tw_dtype_epsilon(y.desc.dtype) * 1.01L * fabsl(want);
        real got = (real)th_get(&y, i);
        if (!(fabsl(got - want) <= allowed + (type == TW_F16 ? 0x1p-25L : 0)))
            fail_msg("mode %s type %s: (%.9Lg, %.9Lg, %.9Lg) gives %.12Lg, want %.12Lg", mode.name,
                     tw_dtype_name(type), v[0], v[1], v[2], got, want);
    }
    for (int i = 0; i < mode.arity; i++) th_free(&in[i]);
    th_free(&y);
}

static void test_reference_formulas(void **state)
{
    static const tw_dtype types[] = {TW_F64, TW_F32, TW_BF16, TW_F16};
    (void)state;
    for (size_t i = 0; i < sizeof formulas / sizeof formulas[0]; i++)
        for (size_t t = 0; t < 4; t++) check_formula(&formulas[i], types[t]);
}

/* ---- Specials, on every kernel --------------------------------------------------------------- */

typedef struct special {
    tw_pointwise_mode mode;
    float a, b, want; /* unary: a; gradients: a = dy, b = x */
    float alpha;      /* 0: the default */
} special;

#define INF INFINITY
static const special specials[] = {
    {TW_PW_GELU, INF, 0, INF, 0},
    {TW_PW_GELU, -INF, 0, 0, 0},
    {TW_PW_GELU, NAN, 0, NAN, 0},
    {TW_PW_GELU, -1, 0, -0.158655254f, 0},
    {TW_PW_GELU_BWD, 1, INF, 1, 0},
    {TW_PW_GELU_BWD, 1, -INF, 0, 0},
    {TW_PW_GELU_BWD, 1, 1, 1.08331547f, 0},
    {TW_PW_GELU_BWD, 1, NAN, NAN, 0},
    {TW_PW_GELU_TANH, INF, 0, INF, 0},
    {TW_PW_GELU_TANH, -INF, 0, 0, 0},
    {TW_PW_GELU_TANH, 1e30f, 0, 1e30f, 0},
    {TW_PW_GELU_TANH_BWD, 1, INF, 1, 0},
    {TW_PW_GELU_TANH_BWD, 1, -INF, 0, 0},
    {TW_PW_GELU_TANH_BWD, 1, -1e30f, 0, 0},
    {TW_PW_SILU, -INF, 0, 0, 0},
    {TW_PW_SILU, INF, 0, INF, 0},
    {TW_PW_SILU, -100, 0, -3.72007598e-42f, 0},
    {TW_PW_SILU, -88.8f, 0, -2.41580381e-37f, 0},
    {TW_PW_SILU, -104, 0, -7.08609909e-44f, 0},
    {TW_PW_SILU, 1e30f, 0, 1e30f, 0},
    {TW_PW_SILU, -1e30f, 0, 0, 0},
    {TW_PW_SILU_BWD, 1, -INF, 0, 0},
    {TW_PW_SILU_BWD, 1, INF, 1, 0},
    {TW_PW_SILU_BWD, 1, 10000, 1, 0},
    {TW_PW_MISH, -INF, 0, 0, 0},
    {TW_PW_MISH, INF, 0, INF, 0},
    {TW_PW_MISH, 1e30f, 0, 1e30f, 0},
    {TW_PW_MISH_BWD, 1, INF, 1, 0},
    {TW_PW_MISH_BWD, 1, -INF, 0, 0},
    {TW_PW_SOFTPLUS, 100, 0, 100, 0},
    {TW_PW_SOFTPLUS, 88.8f, 0, 88.8f, 0},
    {TW_PW_SOFTPLUS, -1e7f, 0, 0, 0},
    {TW_PW_SOFTPLUS, INF, 0, INF, 0},
    {TW_PW_SOFTPLUS, -INF, 0, 0, 0},
    {TW_PW_SOFTPLUS, NAN, 0, NAN, 0},
    {TW_PW_SOFTPLUS, 20, 0, 20, 5},
    {TW_PW_SOFTPLUS, 0.1f, 0, 0.194815398f, 5},
    {TW_PW_SOFTPLUS_BWD, 1, 1e4f, 1, 0},
    {TW_PW_SOFTPLUS_BWD, 1, -1e7f, 0, 0},
    {TW_PW_HARD_SWISH, 11648, 0, 11648, 0},
    {TW_PW_HARD_SWISH, -INF, 0, 0, 0},
    {TW_PW_HARD_SWISH, INF, 0, INF, 0},
    {TW_PW_HARD_SWISH, -3, 0, 0, 0},
    {TW_PW_ELU, -INF, 0, -1, 0},
    {TW_PW_ELU, -1e-45f, 0, -1e-45f, 0},
    {TW_PW_ELU_BWD, 1, 1000, 1, 0},
    {TW_PW_ELU_BWD, 1, -1000, 0, 0},
    {TW_PW_ELU_BWD, 1, -100, 3.72007598e-44f, 0},
    {TW_PW_RELU, NAN, 0, NAN, 0},
    {TW_PW_RELU, -INF, 0, 0, 0},
    {TW_PW_RELU, 1e-45f, 0, 1e-45f, 0},
    {TW_PW_RELU_BWD, 1, NAN, 0, 0},
    {TW_PW_RELU_BWD, 1, 0, 0, 0},
    {TW_PW_RELU_BWD, NAN, -1, 0, 0},
    {TW_PW_RELU6, NAN, 0, NAN, 0},
    {TW_PW_RELU6, INF, 0, 6, 0},
    {TW_PW_RELU6_BWD, 1, 6, 0, 0},
    {TW_PW_RELU6_BWD, 1, 0, 0, 0},
    {TW_PW_RELU6_BWD, 1, NAN, 0, 0},
    {TW_PW_CLIP, NAN, 0, NAN, 0},
    {TW_PW_TANH, INF, 0, 1, 0},
    {TW_PW_TANH, -1e-45f, 0, -1e-45f, 0},
    {TW_PW_TANH_BWD, 1, 20, 1.6993417e-17f, 0},
    {TW_PW_SIGMOID, -INF, 0, 0, 0},
    {TW_PW_SOFTSIGN, INF, 0, 1, 0},
    {TW_PW_SOFTSIGN, -INF, 0, -1, 0},
    {TW_PW_HARD_SIGMOID, -INF, 0, 0, 0},
    {TW_PW_HARD_SIGMOID, 1e-45f, 0, 0.5f, 0},
    {TW_PW_EXP, 3.4e38f, 0, INF, 0},
    {TW_PW_EXP, -3.4e38f, 0, 0, 0},
    {TW_PW_LOG, 0, 0, -INF, 0},
    {TW_PW_LOG, -1, 0, NAN, 0},
    {TW_PW_SIGN, NAN, 0, NAN, 0},
    {TW_PW_MAX, NAN, 1, NAN, 0},
    {TW_PW_MAX, 1, NAN, NAN, 0},
    {TW_PW_MAX, INF, 2, INF, 0},
    {TW_PW_MAX, -1, -INF, -1, 0},
    {TW_PW_MIN, 1, NAN, NAN, 0},
    {TW_PW_MIN, NAN, 1, NAN, 0},
    {TW_PW_MOD, -7, 3, 2, 0},
    {TW_PW_MOD, 7, -3, -2, 0},
    {TW_PW_FMOD, -7, 3, -1, 0},
    {TW_PW_POW, -2, 3, -8, 0},
    {TW_PW_POW, 0, 0, 1, 0},
    {TW_PW_ATAN2, 1, 0, 1.57079633f, 0},
    {TW_PW_ABS_BWD, INF, 0, 0, 0},
    {TW_PW_ROUND, 2.5f, 0, 2, 0},
    {TW_PW_ROUND, -3.5f, 0, -4, 0},
};

static void check_special(const tw_kernel *kernel, const special *s)
{
    const int64_t dims[1] = {1};
    const tw_pw_mode_info mode = tw_pw_mode_of(s->mode);
    th_tensor a = th_make(TW_F32, 1, dims), b = th_make(TW_F32, 1, dims);
    th_tensor y = th_make(TW_F32, 1, dims), want = th_make(TW_F32, 1, dims);
    th_set(&a, 0, (double)s->a);
    th_set(&b, 0, (double)s->b);
    th_set(&want, 0, (double)s->want);
    th_call call = {
        .kind = TW_OP_POINTWISE,
        .attrs.pointwise = {.mode = s->mode, .has_alpha = s->alpha != 0, .alpha = (double)s->alpha},
        .n_in = mode.arity,
        .n_out = 1,
        .in = {&a, &b},
        .out = {&y}};
    assert_null(th_refuses(kernel, &call));
    assert_int_equal(th_run(kernel, &call), TW_OK);
    double got = th_get(&y, 0), wanted = (double)s->want;
    bool same = isnan(wanted)   ? isnan(got)
                : isinf(wanted) ? got == wanted
                                : fabs(got - wanted) <= 1e-6 * fabs(wanted) + 0x1p-149;
    if (!same)
        fail_msg("%s: mode %s (%g, %g) gives %.9g, want %.9g", kernel->name, mode.name,
                 (double)s->a, (double)s->b, got, wanted);
    th_free(&a), th_free(&b), th_free(&y), th_free(&want);
}

static void test_specials(void **state)
{
    const tw_kernel *kernels[8];
    (void)state;
    int n = th_kernels(TW_OP_POINTWISE, kernels, 8);
    assert_true(n >= 2);
    for (int k = 0; k < n; k++)
        for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
            check_special(kernels[k], &specials[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_formulas),
        cmocka_unit_test(test_specials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
