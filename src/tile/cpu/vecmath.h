/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementary functions of f32 vectors. Limits, NaN, infinities, subnormal arguments and results are
 * those of the C library; the sign of a zero result is not promised except where it is exact.
 *
 * Largest error found, in units in the last place, over 20 million floats of all exponents, the
 * worst of the targets:
 *
 *   exp 1.0  expm1 1.5  log 0.8  log1p 0.9  tanh 1.4  sigmoid 2.4  its slope 4.3  erf 1.3
 *   normal distribution 5.1, density 2.1  sin cos 1.6  tan 3.4  pow 0.51
 *
 * tests/tile/vecmath_<target>_test.c measures them again. Polynomials are minimax fits of the
 * remainder after the leading terms, with coefficients rounded one by one and the rest refitted.
 */
#ifndef TW_TILE_CPU_VECMATH_H
#define TW_TILE_CPU_VECMATH_H

#include <math.h>

#include "arch/cpu/vec.h"

/* c[0] + c[1]·x + … by Horner's rule. */
TW_INLINE vf vf_poly(vf x, const float *c, int n)
{
    vf sum = vf_set(c[n - 1]);
    for (int i = n - 2; i >= 0; i--) sum = vf_fma(sum, x, vf_set(c[i]));
    return sum;
}
#define VF_POLY(x, ...)                                                                            \
    vf_poly(x, (const float[]){__VA_ARGS__}, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))

TW_INLINE vf vf_and_bits(vf x, uint32_t mask)
{
    return vf_bits(vi_and(vi_bits(x), vi_set((int32_t)mask)));
}
TW_INLINE vf vf_copysign(vf magnitude, vf sign)
{
    return vf_bits(vi_or(vi_bits(vf_abs(magnitude)), vi_bits(vf_and_bits(sign, 0x80000000u))));
}

/* ---- Exponentials ---------------------------------------------------------------------------- */

/* 2^n, -126 <= n <= 127 */
TW_INLINE vf vf_power_of_two(vi n) { return vf_bits(vi_shl(vi_add(n, vi_set(127)), 23)); }

/* y·2^n in two steps, each exact unless the result is subnormal; |n| <= 252 */
TW_INLINE vf vf_scale(vf y, vi n)
{
    const vi half = vi_sar(n, 1);
    return vf_mul(vf_mul(y, vf_power_of_two(half)), vf_power_of_two(vi_sub(n, half)));
}

/* x + low = n·ln 2 + r. The upper part of ln 2 has 9 bits, so that its multiples are exact. */
#define VF_LOG2_E 1.44269504f
#define VF_LN2_HIGH 0.693359375f
#define VF_LN2_LOW -2.12194440e-4f
TW_INLINE vf vf_reduce_ln2(vf x, vf low, vf *n)
{
    *n = vf_round(vf_mul(vf_add(x, low), vf_set(VF_LOG2_E)));
    const vf r = vf_fnma(*n, vf_set(VF_LN2_HIGH), x);
    return vf_add(vf_fnma(*n, vf_set(VF_LN2_LOW), r), low);
}

/* exp(x + low) = y·2^n, |x| <= 160, low a correction of x. In two factors, so that a result that is
 * a product keeps its digits where the exponential alone would be subnormal. */
typedef struct vf_scaled {
    vf y;
    vi n;
} vf_scaled;

TW_INLINE vf_scaled vf_exp_scaled(vf x, vf low)
{
    vf n;
    const vf r = vf_reduce_ln2(x, low, &n);
    const vf p =
        VF_POLY(r, 0x1.fffffcp-2f, 0x1.55548cp-3f, 0x1.5558b8p-5f, 0x1.123e5ap-7f, 0x1.6a4da6p-10f);
    const vf y = vf_add(vf_set(1), vf_fma(vf_mul(r, r), p, r));
    return (vf_scaled){y, vi_from_vf(n)};
}

TW_INLINE vf vf_exp_sum(vf x, vf low)
{
    const vf_scaled e = vf_exp_scaled(x, low);
    return vf_scale(e.y, e.n);
}

TW_INLINE vf vf_exp(vf x)
{
    x = vf_min(vf_max(x, vf_set(-104)), vf_set(89));
    return vf_exp_sum(x, vf_zero());
}

/* 2^n·expm1(r) + (2^n - 1), at half scale so that n = 128 does not overflow early. */
TW_INLINE vf vf_expm1(vf x)
{
    vf n;
    const vf clipped = vf_min(vf_max(x, vf_set(-25)), vf_set(89));
    const vf r = vf_reduce_ln2(clipped, vf_zero(), &n);
    const vf p = VF_POLY(r, 0.5f, 0x1.555554p-3f, 0x1.5554f4p-5f, 0x1.1112d0p-7f, 0x1.6d4050p-10f,
                         0x1.9e8b3ep-13f);
    const vf q = vf_fma(vf_mul(r, r), p, r);
    const vf half = vf_power_of_two(vi_sub(vi_from_vf(n), vi_set(1)));
    const vf y = vf_fma(half, q, vf_sub(half, vf_set(0.5f)));
    return vf_select(vf_lt(vf_abs(x), vf_set(0x1p-25f)), x, vf_add(y, y));
}

/* ---- Logarithms ------------------------------------------------------------------------------ */

/* log(x) + extra for finite positive x, subnormal ones included. x = m·2^e with m in
 * [sqrt(1/2), sqrt(2)). */
TW_INLINE vf vf_log_positive(vf x, vf extra)
{
    const vm tiny = vf_lt(x, vf_set(0x1p-126f));
    const vf normal = vf_select(tiny, vf_mul(x, vf_set(0x1p24f)), x);
    const vi bits = vi_sub(vi_bits(normal), vi_set(0x3f3504f3)); /* sqrt(1/2) */
    const vi e = vi_sar(bits, 23);
    const vf m = vf_bits(vi_add(vi_and(bits, vi_set(0x7fffff)), vi_set(0x3f3504f3)));
    const vf exponent = vf_sub(vf_from_vi(e), vf_select(tiny, vf_set(24), vf_zero()));
    const vf f = vf_sub(m, vf_set(1));
    const vf p =
        VF_POLY(f, 0x1.555548p-2f, -0x1.000006p-2f, 0x1.99a484p-3f, -0x1.555c58p-3f, 0x1.2339e0p-3f,
                -0x1.fc2234p-4f, 0x1.e6da7ap-4f, -0x1.de3f1ep-4f, 0x1.147de6p-4f);
    const vf square = vf_mul(f, f);
    vf low = vf_fma(vf_mul(square, f), p, extra);
    low = vf_fma(exponent, vf_set(VF_LN2_LOW), low);
    low = vf_fma(vf_set(-0.5f), square, low);
    return vf_fma(exponent, vf_set(VF_LN2_HIGH), vf_add(f, low));
}

/* Puts in what a logarithm is outside of (0, inf): -inf at 0, NaN below, inf and NaN as they
 * are. */
TW_INLINE vf vf_log_limits(vf x, vf y)
{
    y = vf_select(vf_eq(x, vf_zero()), vf_set(-INFINITY), y);
    y = vf_select(vf_lt(x, vf_zero()), vf_set(NAN), y);
    return vf_select(vf_lt(x, vf_set(INFINITY)), y, x);
}

TW_INLINE vf vf_log(vf x) { return vf_log_limits(x, vf_log_positive(x, vf_zero())); }

/* log(u) + (1 + x - u)/u with u = 1 + x rounded: the second term is what the rounding lost. */
TW_INLINE vf vf_log1p(vf x)
{
    const vf one = vf_set(1);
    const vf u = vf_add(one, x);
    const vf x_used = vf_sub(u, one);
    const vf lost = vf_add(vf_sub(one, vf_sub(u, x_used)), vf_sub(x, x_used));
    const vf y = vf_log_limits(u, vf_log_positive(u, vf_div(lost, u)));
    return vf_select(vf_lt(vf_abs(x), vf_set(0x1p-25f)), x, y);
}

/* ---- Sigmoid, tanh --------------------------------------------------------------------------- */

TW_INLINE vf vf_sigmoid(vf x)
{
    const vf e = vf_exp(vf_neg(vf_abs(x)));
    const vf top = vf_select(vf_ge(x, vf_zero()), vf_set(1), e);
    return vf_div(top, vf_add(vf_set(1), e));
}

/* x·sigmoid(z); 0 where the sigmoid is far below every x */
TW_INLINE vf vf_gated(vf x, vf z)
{
    const vf_scaled e = vf_exp_scaled(vf_neg(vf_min(vf_abs(z), vf_set(150))), vf_zero());
    const vf q = vf_div(x, vf_add(vf_set(1), vf_scale(e.y, e.n)));
    const vf y = vf_select(vf_lt(z, vf_zero()), vf_scale(vf_mul(e.y, q), e.n), q);
    return vf_select(vf_lt(z, vf_set(-140)), vf_zero(), y);
}

/* sigmoid(x)·(1 - sigmoid(x)) with no cancellation */
TW_INLINE vf vf_sigmoid_slope(vf x)
{
    const vf e = vf_exp(vf_neg(vf_abs(x)));
    const vf d = vf_add(vf_set(1), e);
    return vf_div(vf_div(e, d), d);
}

/* x + x³·P(x²) near 0, else 1 - 2/(exp(2|x|) + 1) */
TW_INLINE vf vf_tanh(vf x)
{
    const vf size = vf_min(vf_abs(x), vf_set(10));
    const vf e = vf_exp_sum(vf_add(size, size), vf_zero());
    const vf far = vf_sub(vf_set(1), vf_div(vf_set(2), vf_add(e, vf_set(1))));
    const vf u = vf_mul(size, size);
    const vf p = VF_POLY(u, -0x1.555532p-2f, 0x1.1106fcp-3f, -0x1.b83738p-5f, 0x1.5207b8p-6f,
                         -0x1.75619ap-8f);
    const vf near = vf_fma(vf_mul(u, size), p, size);
    return vf_copysign(vf_select(vf_lt(size, vf_set(0.625f)), near, far), x);
}

/* ---- Error function and the normal distribution ---------------------------------------------- */

/* exp(z²)·erfc(z) for 0 <= z <= 10.3, a polynomial in (z - 3)/(z + 3) */
TW_INLINE vf vf_erfcx(vf z)
{
    const vf v = vf_div(vf_sub(z, vf_set(3)), vf_add(z, vf_set(3)));
    return VF_POLY(v, 0x1.6e9828p-3f, -0x1.4e102cp-2f, 0x1.f6ff14p-3f, -0x1.336fd8p-3f,
                   0x1.258c30p-4f, -0x1.8faff2p-6f, 0x1.177b64p-8f, 0x1.779828p-11f,
                   -0x1.344706p-11f, 0x1.0209dap-15f, 0x1.ca1ad8p-15f);
}

/* exp(-scale·t²), scale a power of two: t² in two parts, as its rounding error would be multiplied
 * by the exponent. 0 <= t <= 15. */
TW_INLINE vf_scaled vf_exp_minus_square(vf t, float scale)
{
    const vf upper = vf_and_bits(t, 0xfffff000u);
    const vf high = vf_mul(vf_mul(upper, upper), vf_set(-scale));
    const vf low = vf_mul(vf_mul(vf_add(t, upper), vf_sub(t, upper)), vf_set(-scale));
    return vf_exp_scaled(high, low);
}

/* x + x·P(x²) near 0, else 1 - erfc(|x|) */
TW_INLINE vf vf_erf(vf x)
{
    const vf size = vf_min(vf_abs(x), vf_set(10));
    const vf_scaled e = vf_exp_minus_square(size, 1);
    const vf far = vf_fnma(vf_scale(e.y, e.n), vf_erfcx(size), vf_set(1));
    const vf near =
        vf_fma(size,
               VF_POLY(vf_mul(size, size), 0x1.06eba6p-3f, -0x1.8126f2p-2f, 0x1.ce1d70p-4f,
                       -0x1.b6c1fcp-6f, 0x1.48b394p-8f, -0x1.40e3c0p-11f),
               size);
    return vf_copysign(vf_select(vf_lt(size, vf_set(0.875f)), near, far), x);
}

#define VF_NORMAL_END 14.5f /* the density is 0 from here on */

/* exp(x²/2) times the probability beyond x, 0 <= x <= VF_NORMAL_END */
TW_INLINE vf vf_normal_tail(vf x)
{
    return vf_mul(vf_set(0.5f), vf_erfcx(vf_mul(x, vf_set(0.70710678f))));
}

/* The normal distribution at x, and its density: relative accuracy in the far tail too. */
TW_INLINE vf vf_normal_cdf(vf x, vf *density)
{
    const vf t = vf_min(vf_abs(x), vf_set(VF_NORMAL_END));
    const vf_scaled e = vf_exp_minus_square(t, 0.5f);
    const vf tail = vf_scale(vf_mul(e.y, vf_normal_tail(t)), e.n);
    *density = vf_scale(vf_mul(e.y, vf_set(0.39894228f)), e.n);
    return vf_select(vf_gt(x, vf_zero()), vf_sub(vf_set(1), tail), tail);
}

/* x·cdf(x) */
TW_INLINE vf vf_gelu(vf x)
{
    const vf t = vf_min(vf_abs(x), vf_set(VF_NORMAL_END));
    const vf_scaled e = vf_exp_minus_square(t, 0.5f);
    const vf tail = vf_mul(e.y, vf_normal_tail(t));
    const vf negative = vf_scale(vf_mul(vf_neg(t), tail), e.n);
    const vf positive = vf_mul(x, vf_sub(vf_set(1), vf_scale(tail, e.n)));
    return vf_select(vf_gt(x, vf_zero()), positive, negative);
}

/* ---- Trigonometry ---------------------------------------------------------------------------- */

/* Calls f on every lane: for arguments and functions that are too rare for code of their own. */
TW_INLINE vf vf_each(double (*f)(double), vf x)
{
    float lanes[VLANES];
    vf_store(lanes, x);
    for (int i = 0; i < VLANES; i++) lanes[i] = (float)f((double)lanes[i]);
    return vf_load(lanes);
}

TW_INLINE vf vf_each_pair(double (*f)(double, double), vf x, vf y)
{
    float a[VLANES], b[VLANES];
    vf_store(a, x);
    vf_store(b, y);
    for (int i = 0; i < VLANES; i++) a[i] = (float)f((double)a[i], (double)b[i]);
    return vf_load(a);
}

typedef struct vf_angle {
    vf sine, cosine; /* of the angle reduced to [-pi/4, pi/4] */
    vi quadrant;
} vf_angle;

/* pi/2 in four parts; multiples of the first three by numbers below 2^13 are exact. */
TW_INLINE vf_angle vf_reduce_angle(vf x)
{
    vf_angle a;
    const vf n = vf_round(vf_mul(x, vf_set(0.636619772f)));
    vf r = vf_fnma(n, vf_set(0x1.92p+0f), x);
    r = vf_fnma(n, vf_set(0x1.fb4p-12f), r);
    const vf third = vf_mul(n, vf_set(0x1.444p-24f)), coarse = vf_sub(r, third);
    const vf lost = vf_sub(vf_sub(r, coarse), third);
    r = vf_add(coarse, vf_fnma(n, vf_set(0x1.68c234p-39f), lost));
    const vf u = vf_mul(r, r);
    const vf p = VF_POLY(u, -0x1.555546p-3f, 0x1.110774p-7f, -0x1.9951fap-13f);
    const vf q = VF_POLY(u, 0x1.55554ap-5f, -0x1.6c0c28p-10f, 0x1.99e816p-16f);
    a.sine = vf_fma(vf_mul(u, r), p, r);
    a.cosine = vf_fma(vf_mul(u, u), q, vf_fnma(u, vf_set(0.5f), vf_set(1)));
    a.quadrant = vi_from_vf(n);
    return a;
}

TW_INLINE vm vi_bit(vi a, int bit) { return vi_eq(vi_and(a, vi_set(bit)), vi_set(bit)); }

/* Beyond this the reduction by parts has too few bits. False for NaN. */
TW_INLINE bool vf_any_wide_angle(vf x) { return vm_any(vf_gt(vf_abs(x), vf_set(8192))); }

TW_INLINE vf vf_sin(vf x)
{
    if (vf_any_wide_angle(x)) return vf_each(sin, x);
    const vf_angle a = vf_reduce_angle(x);
    const vf y = vf_select(vi_bit(a.quadrant, 1), a.cosine, a.sine);
    return vf_select(vi_bit(a.quadrant, 2), vf_neg(y), y);
}

TW_INLINE vf vf_cos(vf x)
{
    if (vf_any_wide_angle(x)) return vf_each(cos, x);
    const vf_angle a = vf_reduce_angle(x);
    const vf y = vf_select(vi_bit(a.quadrant, 1), a.sine, a.cosine);
    return vf_select(vi_bit(vi_add(a.quadrant, vi_set(1)), 2), vf_neg(y), y);
}

TW_INLINE vf vf_tan(vf x)
{
    if (vf_any_wide_angle(x)) return vf_each(tan, x);
    const vf_angle a = vf_reduce_angle(x);
    const vm odd = vi_bit(a.quadrant, 1);
    const vf y = vf_div(vf_select(odd, a.cosine, a.sine), vf_select(odd, a.sine, a.cosine));
    return vf_select(odd, vf_neg(y), y);
}

/* ---- Powers ---------------------------------------------------------------------------------- */

TW_INLINE vf vf_pow(vf x, vf y)
{
    if (vm_all(vf_eq(y, vf_set(2)))) return vf_mul(x, x);
    if (vm_all(vf_eq(y, vf_set(3)))) return vf_mul(vf_mul(x, x), x);
    return vf_each_pair(pow, x, y);
}

#endif
