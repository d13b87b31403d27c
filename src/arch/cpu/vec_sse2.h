/* SPDX-License-Identifier: Apache-2.0 */
/* SSE2, the x86-64 baseline: see vec.h. A mask is all ones or all zeros in each lane. */
#ifndef TW_ARCH_CPU_VEC_SSE2_H
#define TW_ARCH_CPU_VEC_SSE2_H

#include <emmintrin.h>
#include <string.h>

#define TW_TARGET_NAME sse2
#define VLANES 4
#define TW_TILE_ROWS 4
#define TW_TILE_VECTORS 2

typedef __m128 vf;
typedef __m128i vi;
typedef struct vm {
    __m128 lanes;
} vm;

/* ---- masks ---- */
TW_INLINE vi vi_iota(void) { return _mm_setr_epi32(0, 1, 2, 3); }
TW_INLINE vm vm_of(__m128 lanes) { return (vm){lanes}; }
TW_INLINE vm vm_first(int n)
{
    return vm_of(_mm_castsi128_ps(_mm_cmpgt_epi32(_mm_set1_epi32(n), vi_iota())));
}
TW_INLINE vm vm_and(vm a, vm b) { return vm_of(_mm_and_ps(a.lanes, b.lanes)); }
TW_INLINE vm vm_or(vm a, vm b) { return vm_of(_mm_or_ps(a.lanes, b.lanes)); }
TW_INLINE vm vm_xor(vm a, vm b) { return vm_of(_mm_xor_ps(a.lanes, b.lanes)); }
TW_INLINE vm vm_not(vm a)
{
    return vm_of(_mm_xor_ps(a.lanes, _mm_castsi128_ps(_mm_set1_epi32(-1))));
}
TW_INLINE uint32_t vm_bits(vm m) { return (uint32_t)_mm_movemask_ps(m.lanes); }
TW_INLINE bool vm_any(vm m) { return vm_bits(m) != 0; }
TW_INLINE bool vm_all(vm m) { return vm_bits(m) == 0xf; }

/* ---- loads, stores, constants ---- */
TW_INLINE vf tw_load_pair(const float *p)
{
    return _mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
TW_INLINE vf vf_load(const float *p) { return _mm_loadu_ps(p); }
TW_INLINE void vf_store(float *p, vf v) { _mm_storeu_ps(p, v); }
TW_INLINE vf vf_load_n(const float *p, int n)
{
    switch (n) {
    case 0: return _mm_setzero_ps();
    case 1: return _mm_load_ss(p);
    case 2: return tw_load_pair(p);
    case 3: return _mm_movelh_ps(tw_load_pair(p), _mm_load_ss(p + 2));
    default: return _mm_loadu_ps(p);
    }
}
TW_INLINE void vf_store_n(float *p, vf v, int n)
{
    switch (n) {
    case 0: break;
    case 1: _mm_store_ss(p, v); break;
    case 3: _mm_store_ss(p + 2, _mm_movehl_ps(v, v)); /* fall through */
    case 2: _mm_storel_epi64((__m128i *)(void *)p, _mm_castps_si128(v)); break;
    default: _mm_storeu_ps(p, v);
    }
}
TW_INLINE vi vi_load(const int32_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
TW_INLINE void vi_store(int32_t *p, vi v) { _mm_storeu_si128((__m128i *)(void *)p, v); }
TW_INLINE vi vi_load_n(const int32_t *p, int n)
{
    int32_t lanes[4] = {0};
    for (int i = 0; i < n; i++) lanes[i] = p[i];
    return vi_load(lanes);
}
TW_INLINE void vi_store_n(int32_t *p, vi v, int n)
{
    int32_t lanes[4];
    vi_store(lanes, v);
    for (int i = 0; i < n; i++) p[i] = lanes[i];
}
TW_INLINE vf vf_zero(void) { return _mm_setzero_ps(); }
TW_INLINE vf vf_set(float x) { return _mm_set1_ps(x); }
TW_INLINE vi vi_set(int32_t i) { return _mm_set1_epi32(i); }

/* ---- reinterpretation and conversion ---- */
TW_INLINE vf vf_bits(vi a) { return _mm_castsi128_ps(a); }
TW_INLINE vi vi_bits(vf a) { return _mm_castps_si128(a); }
TW_INLINE vi vi_from_vf(vf a) { return _mm_cvtps_epi32(a); }
TW_INLINE vf vf_from_vi(vi a) { return _mm_cvtepi32_ps(a); }

/* ---- integers ---- */
TW_INLINE vi vi_add(vi a, vi b) { return _mm_add_epi32(a, b); }
TW_INLINE vi vi_sub(vi a, vi b) { return _mm_sub_epi32(a, b); }
TW_INLINE vi vi_and(vi a, vi b) { return _mm_and_si128(a, b); }
TW_INLINE vi vi_or(vi a, vi b) { return _mm_or_si128(a, b); }
TW_INLINE vi vi_xor(vi a, vi b) { return _mm_xor_si128(a, b); }
/* 32-bit products come with SSE4.1 only: even and odd lanes as 64-bit products. */
TW_INLINE vi vi_mul(vi a, vi b)
{
    const vi even = _mm_mul_epu32(a, b);
    const vi odd = _mm_mul_epu32(_mm_srli_si128(a, 4), _mm_srli_si128(b, 4));
    return _mm_unpacklo_epi32(_mm_shuffle_epi32(even, 0x08), _mm_shuffle_epi32(odd, 0x08));
}
/* Vector operators, so that a constant count becomes an immediate on both compilers. */
typedef int32_t tw_v4i __attribute__((vector_size(16)));
typedef uint32_t tw_v4u __attribute__((vector_size(16)));
TW_INLINE vi vi_shl(vi a, int n) { return (vi)((tw_v4u)a << n); }
TW_INLINE vi vi_shr(vi a, int n) { return (vi)((tw_v4u)a >> n); }
TW_INLINE vi vi_sar(vi a, int n) { return (vi)((tw_v4i)a >> n); }
TW_INLINE vm vi_eq(vi a, vi b) { return vm_of(vf_bits(_mm_cmpeq_epi32(a, b))); }
TW_INLINE vm vi_gt(vi a, vi b) { return vm_of(vf_bits(_mm_cmpgt_epi32(a, b))); }

/* ---- floats ---- */
TW_INLINE vf vf_add(vf a, vf b) { return _mm_add_ps(a, b); }
TW_INLINE vf vf_sub(vf a, vf b) { return _mm_sub_ps(a, b); }
TW_INLINE vf vf_mul(vf a, vf b) { return _mm_mul_ps(a, b); }
TW_INLINE vf vf_div(vf a, vf b) { return _mm_div_ps(a, b); }
TW_INLINE vf vf_sqrt(vf a) { return _mm_sqrt_ps(a); }
TW_INLINE vf vf_abs(vf a) { return _mm_andnot_ps(_mm_set1_ps(-0.0f), a); }
TW_INLINE vf vf_neg(vf a) { return _mm_xor_ps(a, _mm_set1_ps(-0.0f)); }
TW_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
TW_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm_sub_ps(c, _mm_mul_ps(a, b)); }
TW_INLINE vm vf_eq(vf a, vf b) { return vm_of(_mm_cmpeq_ps(a, b)); }
TW_INLINE vm vf_ne(vf a, vf b) { return vm_of(_mm_cmpneq_ps(a, b)); }
TW_INLINE vm vf_lt(vf a, vf b) { return vm_of(_mm_cmplt_ps(a, b)); }
TW_INLINE vm vf_le(vf a, vf b) { return vm_of(_mm_cmple_ps(a, b)); }
TW_INLINE vm vf_gt(vf a, vf b) { return vm_of(_mm_cmplt_ps(b, a)); }
TW_INLINE vm vf_ge(vf a, vf b) { return vm_of(_mm_cmple_ps(b, a)); }
TW_INLINE vm vf_isnan(vf a) { return vm_of(_mm_cmpunord_ps(a, a)); }
TW_INLINE vf vf_select(vm m, vf a, vf b)
{
    return _mm_or_ps(_mm_and_ps(m.lanes, a), _mm_andnot_ps(m.lanes, b));
}
TW_INLINE vi vi_select(vm m, vi a, vi b) { return vi_bits(vf_select(m, vf_bits(a), vf_bits(b))); }
/* The instructions return their second operand when either is NaN: a NaN in a is put back. */
TW_INLINE vf vf_min(vf a, vf b) { return vf_select(vf_isnan(a), a, _mm_min_ps(a, b)); }
TW_INLINE vf vf_max(vf a, vf b) { return vf_select(vf_isnan(a), a, _mm_max_ps(a, b)); }

/* Rounding comes with SSE4.1 only: by way of i32 below 2^23, where above all floats are integers.
 * The sign is kept: -0.3 gives -0. */
TW_INLINE vf tw_signed_as(vf magnitude, vf a)
{
    return _mm_or_ps(magnitude, _mm_and_ps(a, _mm_set1_ps(-0.0f)));
}
TW_INLINE vf vf_round(vf a)
{
    const vm small = vf_lt(vf_abs(a), _mm_set1_ps(8388608.0f));
    const vf near = _mm_cvtepi32_ps(_mm_cvtps_epi32(a));
    return vf_select(small, tw_signed_as(near, a), a);
}
TW_INLINE vf vf_floor(vf a)
{
    const vf near = vf_round(a);
    const vf one = _mm_and_ps(vf_gt(near, a).lanes, _mm_set1_ps(1.0f));
    return _mm_sub_ps(near, one);
}
TW_INLINE vf vf_ceil(vf a)
{
    const vf near = vf_round(a);
    const vf one = _mm_and_ps(vf_lt(near, a).lanes, _mm_set1_ps(1.0f));
    return tw_signed_as(_mm_add_ps(near, one), a);
}

/* ---- across lanes: halves are folded onto each other ---- */
#define TW_FOLD(op)                                                                                \
    v = op(v, _mm_shuffle_ps(v, v, 0x4e));                                                         \
    v = op(v, _mm_shuffle_ps(v, v, 0xb1));                                                         \
    return _mm_cvtss_f32(v)
TW_INLINE float vf_sum(vf v) { TW_FOLD(vf_add); }
TW_INLINE float vf_hmax(vf v) { TW_FOLD(vf_max); }
TW_INLINE float vf_hmin(vf v) { TW_FOLD(vf_min); }
#undef TW_FOLD

TW_INLINE void vf_transpose(vf *r) { _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]); }

/* ---- narrow types ---- */
TW_INLINE vi vi_load_u16(const uint16_t *p)
{
    const vi half = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm_unpacklo_epi16(half, _mm_setzero_si128());
}
/* The only packing instruction saturates as signed: sign-extending first makes it exact. */
TW_INLINE void vi_store_u16(uint16_t *p, vi v)
{
    const vi low = vi_sar(vi_shl(v, 16), 16);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi32(low, low));
}
TW_INLINE vi tw_load_bytes(const void *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    const vi bytes = _mm_cvtsi32_si128(word);
    return _mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, bytes), _mm_setzero_si128());
}
TW_INLINE vf vf_load_u8(const uint8_t *p)
{
    return vf_from_vi(vi_and(tw_load_bytes(p), vi_set(0xff)));
}
TW_INLINE vf vf_load_i8(const int8_t *p)
{
    return vf_from_vi(vi_sar(vi_shl(tw_load_bytes(p), 24), 24));
}

/* f16 by integer arithmetic: F16C comes with AVX. */
TW_INLINE vf vf_load_f16(const uint16_t *p)
{
    const vi half = vi_load_u16(p);
    const vi magnitude = vi_and(half, vi_set(0x7fff));
    const vi rebias = vi_set(112 << 23);
    const vi normal = vi_add(vi_shl(magnitude, 13), rebias);
    const vm special = vi_gt(magnitude, vi_set(0x7bff));
    const vm subnormal = vi_gt(vi_set(0x400), magnitude);
    vi bits = vi_select(special, vi_add(normal, rebias), normal);
    const vf tiny = vf_mul(vf_from_vi(magnitude), vf_set(0x1p-24f));
    bits = vi_select(subnormal, vi_bits(tiny), bits);
    return vf_bits(vi_or(bits, vi_shl(vi_and(half, vi_set(0x8000)), 16)));
}
TW_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    const vi magnitude = vi_bits(vf_abs(v));
    const vi sign = vi_and(vi_shr(vi_bits(v), 16), vi_set(0x8000));
    const vi odd = vi_and(vi_shr(magnitude, 13), vi_set(1));
    const vi bias = vi_add(odd, vi_set(0xfff - (112 << 23)));
    vi half = vi_shr(vi_add(magnitude, bias), 13);
    /* Below 2^-14: adding 0.5 leaves the f16 subnormal in the low bits, rounded by the addition. */
    const vi tiny = vi_sub(vi_bits(vf_add(vf_abs(v), vf_set(0.5f))), vi_bits(vf_set(0.5f)));
    half = vi_select(vi_gt(vi_set(113 << 23), magnitude), tiny, half);
    half = vi_select(vi_gt(magnitude, vi_set((143 << 23) - 1)), vi_set(0x7c00), half);
    half = vi_select(vf_isnan(v), vi_set(0x7e00), half);
    vi_store_u16(p, vi_or(half, sign));
}
#include "arch/cpu/vec_tails.h"

#endif
