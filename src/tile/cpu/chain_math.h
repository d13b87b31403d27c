/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointwise modes in f32 vectors: MATH(NAME, expression in a, b, c, alpha, beta). Gradient
 * modes
 * take a = dy and b = x. Where a factor vanishes faster than the other grows, the product is 0 and
 * not inf·0: see damped().
 */
#ifndef TW_TILE_CPU_CHAIN_MATH_H
#define TW_TILE_CPU_CHAIN_MATH_H

#include "tile/cpu/vecmath.h"

TW_INLINE vf truth(vm m) { return vf_select(m, vf_set(1), vf_zero()); }
TW_INLINE vm positive(vf a) { return vf_gt(a, vf_zero()); }
TW_INLINE vm nonzero(vf a) { return vf_ne(a, vf_zero()); }

/* x·factor; 0 where the factor is, unless x is NaN */
TW_INLINE vf damped(vf x, vf factor)
{
    const vm gone = vm_and(vf_eq(factor, vf_zero()), vf_eq(x, x));
    return vf_select(gone, vf_zero(), vf_mul(x, factor));
}

/* NaN stays; hi wins over lo */
TW_INLINE vf clipped(vf x, vf lo, vf hi)
{
    const vf raised = vf_select(vf_lt(x, lo), lo, x);
    return vf_select(vf_gt(raised, hi), hi, raised);
}

/* slope inside (lo, hi), else 0 */
TW_INLINE vf within(vf x, vf lo, vf hi, vf slope)
{
    return vf_select(vm_and(vf_gt(x, lo), vf_lt(x, hi)), slope, vf_zero());
}

/* One rounding on every target. */
TW_INLINE vf multiply_add(vf a, vf b, vf c)
{
#if defined(TW_TARGET_SSE2)
    float x[VLANES], y[VLANES], z[VLANES];
    vf_store(x, a);
    vf_store(y, b);
    vf_store(z, c);
    for (int i = 0; i < VLANES; i++) x[i] = fmaf(x[i], y[i], z[i]);
    return vf_load(x);
#else
    return vf_fma(a, b, c);
#endif
}

TW_INLINE vf sign(vf a)
{
    return vf_select(positive(a), vf_set(1), vf_select(vf_lt(a, vf_zero()), vf_set(-1), a));
}

static inline double floor_mod(double a, double b)
{
    const double r = fmod(a, b);
    if (r == 0) return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

/* ---- Activations ----------------------------------------------------------------------------- */

TW_INLINE vf elu(vf a, vf alpha) { return vf_select(positive(a), a, vf_mul(alpha, vf_expm1(a))); }

TW_INLINE vf celu(vf a, vf alpha)
{
    return vf_select(positive(a), a, vf_mul(alpha, vf_expm1(vf_div(a, alpha))));
}

TW_INLINE vf softplus(vf a, vf alpha)
{
    const vf z = vf_mul(alpha, a);
    const vf bend = vf_log1p(vf_exp(vf_neg(vf_abs(z))));
    const vf y = vf_div(vf_add(vf_select(positive(z), z, vf_zero()), bend), alpha);
    return vf_select(vf_gt(z, vf_set(18)), a, vf_select(vf_eq(a, a), y, a));
}

TW_INLINE vf softsign(vf a)
{
    const vf size = vf_abs(a);
    const vf y = vf_div(a, vf_add(vf_set(1), size));
    return vf_select(vf_eq(size, vf_set(INFINITY)), vf_copysign(vf_set(1), a), y);
}

TW_INLINE vf gelu_slope(vf x)
{
    vf density;
    const vf cdf = vf_normal_cdf(x, &density);
    return vf_add(cdf, damped(x, density));
}

#define GELU_SCALE 1.59576912f /* 2·sqrt(2/pi) */
#define GELU_CUBE 0.044715f
TW_INLINE vf gelu_tanh_argument(vf x, float weight)
{
    const vf inner = vf_fma(vf_mul(x, x), vf_set(weight * GELU_CUBE), vf_set(1));
    return vf_mul(inner, vf_set(GELU_SCALE));
}

TW_INLINE vf gelu_tanh(vf a) { return damped(a, vf_sigmoid(vf_mul(a, gelu_tanh_argument(a, 1)))); }

TW_INLINE vf gelu_tanh_slope(vf x)
{
    const vf v = vf_mul(x, gelu_tanh_argument(x, 1));
    const vf dv = gelu_tanh_argument(x, 3);
    return vf_add(vf_sigmoid(v), damped(vf_mul(x, dv), vf_sigmoid_slope(v)));
}

TW_INLINE vf silu_slope(vf x, vf alpha)
{
    const vf z = vf_mul(alpha, x);
    return vf_add(vf_sigmoid(z), damped(z, vf_sigmoid_slope(z)));
}

/* x·tanh(softplus(x)) = x·n/(n + 2) with n = e·(e + 2), e = exp(x) */
TW_INLINE vf mish(vf x)
{
    const vf clipped_x = vf_max(vf_min(x, vf_set(20)), vf_set(-150));
    const vf_scaled parts = vf_exp_scaled(clipped_x, vf_zero());
    const vf e = vf_scale(parts.y, parts.n), e2 = vf_add(e, vf_set(2));
    const vf q = vf_div(vf_mul(clipped_x, e2), vf_fma(e, e2, vf_set(2)));
    const vf y = vf_scale(vf_mul(parts.y, q), parts.n);
    return vf_select(vf_gt(x, vf_set(20)), x, y);
}

TW_INLINE vf mish_slope(vf x)
{
    const vf e = vf_exp(vf_min(x, vf_set(20)));
    const vf n = vf_mul(e, vf_add(e, vf_set(2))), m = vf_add(n, vf_set(2));
    const vf gate = vf_div(n, m);
    const vf bend = vf_div(vf_mul(vf_mul(vf_set(4), e), vf_add(vf_set(1), e)), vf_mul(m, m));
    const vf slope = vf_add(gate, damped(x, bend));
    return vf_select(vf_gt(x, vf_set(20)), vf_set(1), slope);
}

TW_INLINE vf tanh_slope(vf x) { return vf_mul(vf_set(4), vf_sigmoid_slope(vf_add(x, x))); }

TW_INLINE vf hard_sigmoid(vf x) /* of hard_swish: exact zero at -3 */
{
    const vf y = vf_mul(vf_add(x, vf_set(3)), vf_set(1.0f / 6));
    return clipped(y, vf_zero(), vf_set(1));
}

TW_INLINE vf hard_swish_slope(vf x)
{
    const vf y = vf_mul(vf_add(x, vf_set(1.5f)), vf_set(1.0f / 3));
    const vf low = vf_select(vf_le(x, vf_set(-3)), vf_zero(), y);
    return vf_select(vf_ge(x, vf_set(3)), vf_set(1), low);
}

/* ---- Whole numbers, |x| < 2^24 --------------------------------------------------------------- */

TW_INLINE vf shift_left(vf a, vf b)
{
    const vm out = vm_or(vf_lt(b, vf_zero()), vf_gt(b, vf_set(63)));
    const vf power = vf_power_of_two(vi_from_vf(vf_select(out, vf_zero(), b)));
    return vf_select(out, vf_zero(), vf_mul(a, power));
}

TW_INLINE vf shift_right(vf a, vf b)
{
    const vm out = vm_or(vf_lt(b, vf_zero()), vf_gt(b, vf_set(63)));
    const vf count = vf_select(out, vf_set(63), b);
    return vf_floor(vf_mul(a, vf_power_of_two(vi_from_vf(vf_neg(count)))));
}

#define BITS(op, a, b) vf_from_vi(op(vi_from_vf(a), vi_from_vf(b)))

/* ---- The table ------------------------------------------------------------------------------- */

#define MATH(NAME, expression)                                                                     \
    TW_INLINE vf math_##NAME(vf a, vf b, vf c, vf alpha, vf beta)                                  \
    {                                                                                              \
        (void)a, (void)b, (void)c, (void)alpha, (void)beta;                                        \
        return expression;                                                                         \
    }

MATH(IDENTITY, a)
MATH(ABS, vf_abs(a))
MATH(NEG, vf_neg(a))
MATH(CEIL, vf_ceil(a))
MATH(FLOOR, vf_floor(a))
MATH(ROUND, vf_round(a))
MATH(SQRT, vf_sqrt(a))
MATH(RSQRT, vf_div(vf_set(1), vf_sqrt(a)))
MATH(RECIPROCAL, vf_div(vf_set(1), a))
MATH(EXP, vf_exp(a))
MATH(EXPM1, vf_expm1(a))
MATH(LOG, vf_log(a))
MATH(LOG1P, vf_log1p(a))
MATH(SIN, vf_sin(a))
MATH(COS, vf_cos(a))
MATH(TAN, vf_tan(a))
MATH(ERF, vf_erf(a))
MATH(TANH, vf_tanh(a))
MATH(SIGMOID, vf_sigmoid(a))
MATH(RELU, vf_select(vf_le(a, vf_zero()), vf_zero(), a))
MATH(RELU6, clipped(a, vf_zero(), vf_set(6)))
MATH(LEAKY_RELU, vf_select(positive(a), a, vf_mul(alpha, a)))
MATH(ELU, elu(a, alpha))
MATH(SELU, vf_mul(beta, elu(a, alpha)))
MATH(CELU, celu(a, alpha))
MATH(GELU, vf_gelu(a))
MATH(GELU_TANH, gelu_tanh(a))
MATH(SILU, vf_gated(a, vf_mul(alpha, a)))
MATH(MISH, mish(a))
MATH(SOFTPLUS, softplus(a, alpha))
MATH(SOFTSIGN, softsign(a))
MATH(HARD_SIGMOID, clipped(vf_fma(alpha, a, beta), vf_zero(), vf_set(1)))
MATH(HARD_SWISH, damped(a, hard_sigmoid(a)))
MATH(CLIP, clipped(a, alpha, beta))
MATH(SIGN, sign(a))
MATH(SQUARE, vf_mul(a, a))
MATH(LOGICAL_NOT, truth(vf_eq(a, vf_zero())))
MATH(BITWISE_NOT, vf_sub(vf_set(-1), a))
MATH(IS_NAN, truth(vf_isnan(a)))
MATH(IS_INF, truth(vf_eq(vf_abs(a), vf_set(INFINITY))))
MATH(GEN_INDEX, a) /* the index has been put there */
MATH(LINEAR, vf_fma(alpha, a, beta))

MATH(ADD, vf_fma(alpha, b, a))
MATH(SUB, vf_fnma(alpha, b, a))
MATH(MUL, vf_mul(a, b))
MATH(DIV, vf_div(a, b))
MATH(MAX, vf_max(a, b))
MATH(MIN, vf_min(a, b))
MATH(POW, vf_pow(a, b))
MATH(MOD, vf_each_pair(floor_mod, a, b))
MATH(FMOD, vf_each_pair(fmod, a, b))
MATH(ATAN2, vf_each_pair(atan2, a, b))
MATH(ADD_SQUARE, vf_fma(b, b, a))
MATH(PRELU, vf_select(positive(a), a, vf_mul(b, a)))
MATH(EQ, truth(vf_eq(a, b)))
MATH(NE, truth(vf_ne(a, b)))
MATH(LT, truth(vf_lt(a, b)))
MATH(LE, truth(vf_le(a, b)))
MATH(GT, truth(vf_gt(a, b)))
MATH(GE, truth(vf_ge(a, b)))
MATH(LOGICAL_AND, truth(vm_and(nonzero(a), nonzero(b))))
MATH(LOGICAL_OR, truth(vm_or(nonzero(a), nonzero(b))))
MATH(LOGICAL_XOR, truth(vm_xor(nonzero(a), nonzero(b))))
MATH(BITWISE_AND, BITS(vi_and, a, b))
MATH(BITWISE_OR, BITS(vi_or, a, b))
MATH(BITWISE_XOR, BITS(vi_xor, a, b))
MATH(SHIFT_LEFT, shift_left(a, b))
MATH(SHIFT_RIGHT, shift_right(a, b))

MATH(RELU_BWD, vf_select(positive(b), a, vf_zero()))
MATH(RELU6_BWD, within(b, vf_zero(), vf_set(6), a))
MATH(LEAKY_RELU_BWD, vf_select(positive(b), a, vf_mul(alpha, a)))
MATH(ELU_BWD, vf_select(positive(b), a, vf_mul(vf_mul(a, alpha), vf_exp(b))))
MATH(SELU_BWD, vf_mul(vf_mul(a, beta), vf_select(positive(b), vf_set(1), vf_mul(alpha, vf_exp(b)))))
MATH(CELU_BWD, vf_select(positive(b), a, vf_mul(a, vf_exp(vf_div(b, alpha)))))
MATH(GELU_BWD, vf_mul(a, gelu_slope(b)))
MATH(GELU_TANH_BWD, vf_mul(a, gelu_tanh_slope(b)))
MATH(SILU_BWD, vf_mul(a, silu_slope(b, alpha)))
MATH(MISH_BWD, vf_mul(a, mish_slope(b)))
MATH(SOFTPLUS_BWD, vf_mul(a, vf_sigmoid(vf_mul(alpha, b))))
MATH(SOFTSIGN_BWD, vf_div(vf_div(a, vf_add(vf_set(1), vf_abs(b))), vf_add(vf_set(1), vf_abs(b))))
MATH(HARD_SIGMOID_BWD, within(vf_fma(alpha, b, beta), vf_zero(), vf_set(1), vf_mul(alpha, a)))
MATH(HARD_SWISH_BWD, vf_mul(a, hard_swish_slope(b)))
MATH(CLIP_BWD, within(b, alpha, beta, a))
MATH(TANH_BWD, vf_mul(a, tanh_slope(b)))
MATH(SIGMOID_BWD, vf_mul(a, vf_sigmoid_slope(b)))
MATH(TANH_BWD_Y, vf_mul(a, vf_mul(vf_sub(vf_set(1), b), vf_add(vf_set(1), b))))
MATH(SIGMOID_BWD_Y, vf_mul(a, vf_mul(b, vf_sub(vf_set(1), b))))
MATH(ABS_BWD, vf_select(positive(b), a, vf_select(vf_lt(b, vf_zero()), vf_neg(a), b)))

MATH(SELECT, vf_select(nonzero(a), b, c))
MATH(FMA, multiply_add(a, b, c))
MATH(CLAMP, vf_min(vf_max(a, b), c))
#undef MATH

#endif
