/* SPDX-License-Identifier: Apache-2.0 */
/* NEON, the AArch64 baseline: see vec.h. A mask is all ones or all zeros in each lane. */
#ifndef TW_ARCH_CPU_VEC_NEON_H
#define TW_ARCH_CPU_VEC_NEON_H

#include <arm_neon.h>
#include <string.h>

#define TW_TARGET_NAME neon
#define VLANES 4
#define TW_TILE_ROWS 12
#define TW_TILE_VECTORS 2

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint32x4_t vm;

/* ---- masks ---- */
TW_INLINE vi vi_iota(void) { return (int32x4_t){0, 1, 2, 3}; }
TW_INLINE vm vm_first(int n) { return vcgtq_s32(vdupq_n_s32(n), vi_iota()); }
TW_INLINE vm vm_and(vm a, vm b) { return vandq_u32(a, b); }
TW_INLINE vm vm_or(vm a, vm b) { return vorrq_u32(a, b); }
TW_INLINE vm vm_xor(vm a, vm b) { return veorq_u32(a, b); }
TW_INLINE vm vm_not(vm a) { return vmvnq_u32(a); }
TW_INLINE bool vm_any(vm m) { return vmaxvq_u32(m) != 0; }
TW_INLINE bool vm_all(vm m) { return vminvq_u32(m) != 0; }
TW_INLINE uint32_t vm_bits(vm m) { return vaddvq_u32(vandq_u32(m, (uint32x4_t){1, 2, 4, 8})); }

/* ---- loads, stores, constants ---- */
TW_INLINE vf vf_load(const float *p) { return vld1q_f32(p); }
TW_INLINE void vf_store(float *p, vf v) { vst1q_f32(p, v); }
TW_INLINE vf vf_load_n(const float *p, int n)
{
    float lanes[4] = {0};
    for (int i = 0; i < n; i++) lanes[i] = p[i];
    return vld1q_f32(lanes);
}
TW_INLINE void vf_store_n(float *p, vf v, int n)
{
    float lanes[4];
    vst1q_f32(lanes, v);
    for (int i = 0; i < n; i++) p[i] = lanes[i];
}
TW_INLINE vi vi_load(const int32_t *p) { return vld1q_s32(p); }
TW_INLINE void vi_store(int32_t *p, vi v) { vst1q_s32(p, v); }
TW_INLINE vi vi_load_n(const int32_t *p, int n)
{
    int32_t lanes[4] = {0};
    for (int i = 0; i < n; i++) lanes[i] = p[i];
    return vld1q_s32(lanes);
}
TW_INLINE void vi_store_n(int32_t *p, vi v, int n)
{
    int32_t lanes[4];
    vst1q_s32(lanes, v);
    for (int i = 0; i < n; i++) p[i] = lanes[i];
}
TW_INLINE vf vf_zero(void) { return vdupq_n_f32(0.0f); }
TW_INLINE vf vf_set(float x) { return vdupq_n_f32(x); }
TW_INLINE vi vi_set(int32_t i) { return vdupq_n_s32(i); }

/* ---- reinterpretation and conversion ---- */
TW_INLINE vf vf_bits(vi a) { return vreinterpretq_f32_s32(a); }
TW_INLINE vi vi_bits(vf a) { return vreinterpretq_s32_f32(a); }
TW_INLINE vi vi_from_vf(vf a) { return vcvtnq_s32_f32(a); }
TW_INLINE vf vf_from_vi(vi a) { return vcvtq_f32_s32(a); }

/* ---- integers ---- */
TW_INLINE vi vi_add(vi a, vi b) { return vaddq_s32(a, b); }
TW_INLINE vi vi_sub(vi a, vi b) { return vsubq_s32(a, b); }
TW_INLINE vi vi_mul(vi a, vi b) { return vmulq_s32(a, b); }
TW_INLINE vi vi_and(vi a, vi b) { return vandq_s32(a, b); }
TW_INLINE vi vi_or(vi a, vi b) { return vorrq_s32(a, b); }
TW_INLINE vi vi_xor(vi a, vi b) { return veorq_s32(a, b); }
/* Vector operators, so that a constant count becomes an immediate. */
TW_INLINE vi vi_shl(vi a, int n) { return vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) << n); }
TW_INLINE vi vi_shr(vi a, int n) { return vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) >> n); }
TW_INLINE vi vi_sar(vi a, int n) { return a >> n; }
TW_INLINE vm vi_eq(vi a, vi b) { return vceqq_s32(a, b); }
TW_INLINE vm vi_gt(vi a, vi b) { return vcgtq_s32(a, b); }
TW_INLINE vi vi_select(vm m, vi a, vi b) { return vbslq_s32(m, a, b); }

/* ---- floats ---- */
TW_INLINE vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
TW_INLINE vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
TW_INLINE vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
TW_INLINE vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
TW_INLINE vf vf_sqrt(vf a) { return vsqrtq_f32(a); }
TW_INLINE vf vf_abs(vf a) { return vabsq_f32(a); }
TW_INLINE vf vf_neg(vf a) { return vnegq_f32(a); }
TW_INLINE vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
TW_INLINE vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
TW_INLINE vf vf_round(vf a) { return vrndnq_f32(a); }
TW_INLINE vf vf_floor(vf a) { return vrndmq_f32(a); }
TW_INLINE vf vf_ceil(vf a) { return vrndpq_f32(a); }
TW_INLINE vf vf_min(vf a, vf b) { return vminq_f32(a, b); }
TW_INLINE vf vf_max(vf a, vf b) { return vmaxq_f32(a, b); }
TW_INLINE vm vf_eq(vf a, vf b) { return vceqq_f32(a, b); }
TW_INLINE vm vf_ne(vf a, vf b) { return vmvnq_u32(vceqq_f32(a, b)); }
TW_INLINE vm vf_lt(vf a, vf b) { return vcltq_f32(a, b); }
TW_INLINE vm vf_le(vf a, vf b) { return vcleq_f32(a, b); }
TW_INLINE vm vf_gt(vf a, vf b) { return vcgtq_f32(a, b); }
TW_INLINE vm vf_ge(vf a, vf b) { return vcgeq_f32(a, b); }
TW_INLINE vm vf_isnan(vf a) { return vf_ne(a, a); }
TW_INLINE vf vf_select(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }

/* ---- across lanes ---- */
TW_INLINE float vf_sum(vf v) { return vaddvq_f32(v); }
TW_INLINE float vf_hmax(vf v) { return vmaxvq_f32(v); }
TW_INLINE float vf_hmin(vf v) { return vminvq_f32(v); }

TW_INLINE void vf_transpose(vf *r)
{
#define TW_PAIR(op, a, b)                                                                          \
    vreinterpretq_f32_f64(op(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)))
    const vf t0 = vtrn1q_f32(r[0], r[1]), t1 = vtrn2q_f32(r[0], r[1]);
    const vf t2 = vtrn1q_f32(r[2], r[3]), t3 = vtrn2q_f32(r[2], r[3]);
    r[0] = TW_PAIR(vtrn1q_f64, t0, t2);
    r[1] = TW_PAIR(vtrn1q_f64, t1, t3);
    r[2] = TW_PAIR(vtrn2q_f64, t0, t2);
    r[3] = TW_PAIR(vtrn2q_f64, t1, t3);
#undef TW_PAIR
}

/* ---- narrow types ---- */
TW_INLINE vi vi_load_u16(const uint16_t *p)
{
    return vreinterpretq_s32_u32(vmovl_u16(vld1_u16(p)));
}
TW_INLINE void vi_store_u16(uint16_t *p, vi v) { vst1_u16(p, vmovn_u32(vreinterpretq_u32_s32(v))); }
TW_INLINE vf vf_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
TW_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}
/* Four bytes only: a vector load would read eight. */
TW_INLINE vf vf_load_u8(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    const uint16x8_t wide = vmovl_u8(vcreate_u8(word));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)));
}
TW_INLINE vf vf_load_i8(const int8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    const int16x8_t wide = vmovl_s8(vcreate_s8(word));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
#include "arch/cpu/vec_tails.h"

#endif
