/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512 F, BW, DQ, VL: see vec.h. */
#ifndef TW_ARCH_CPU_VEC_AVX512_H
#define TW_ARCH_CPU_VEC_AVX512_H

#include <immintrin.h>

#define TW_TARGET_NAME avx512
#define VLANES 16
#define TW_TILE_ROWS 14
#define TW_TILE_VECTORS 2

/* gcc's intrinsics are macros at -O0, with implicit conversions of their own. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

/* ---- masks ---- */
TW_INLINE vm vm_first(int n) { return (vm)((1u << n) - 1u); }
TW_INLINE vm vm_and(vm a, vm b) { return (vm)(a & b); }
TW_INLINE vm vm_or(vm a, vm b) { return (vm)(a | b); }
TW_INLINE vm vm_xor(vm a, vm b) { return (vm)(a ^ b); }
TW_INLINE vm vm_not(vm a) { return (vm)(a ^ 0xffff); }
TW_INLINE bool vm_any(vm m) { return m != 0; }
TW_INLINE bool vm_all(vm m) { return m == 0xffff; }
TW_INLINE uint32_t vm_bits(vm m) { return m; }

/* ---- loads, stores, constants ---- */
TW_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
TW_INLINE void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
TW_INLINE vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(vm_first(n), p); }
TW_INLINE void vf_store_n(float *p, vf v, int n) { _mm512_mask_storeu_ps(p, vm_first(n), v); }
TW_INLINE vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
TW_INLINE void vi_store(int32_t *p, vi v) { _mm512_storeu_si512(p, v); }
TW_INLINE vi vi_load_n(const int32_t *p, int n) { return _mm512_maskz_loadu_epi32(vm_first(n), p); }
TW_INLINE void vi_store_n(int32_t *p, vi v, int n) { _mm512_mask_storeu_epi32(p, vm_first(n), v); }
TW_INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }
TW_INLINE vf vf_set(float x) { return _mm512_set1_ps(x); }
TW_INLINE vi vi_set(int32_t i) { return _mm512_set1_epi32(i); }
TW_INLINE vi vi_iota(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* ---- reinterpretation and conversion ---- */
TW_INLINE vf vf_bits(vi a) { return _mm512_castsi512_ps(a); }
TW_INLINE vi vi_bits(vf a) { return _mm512_castps_si512(a); }
TW_INLINE vi vi_from_vf(vf a) { return _mm512_cvtps_epi32(a); }
TW_INLINE vf vf_from_vi(vi a) { return _mm512_cvtepi32_ps(a); }

/* ---- integers ---- */
TW_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
TW_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
TW_INLINE vi vi_mul(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
TW_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
TW_INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
TW_INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
/* Vector operators, so that a constant count becomes an immediate on both compilers. */
typedef int32_t tw_v16i __attribute__((vector_size(64)));
typedef uint32_t tw_v16u __attribute__((vector_size(64)));
TW_INLINE vi vi_shl(vi a, int n) { return (vi)((tw_v16u)a << n); }
TW_INLINE vi vi_shr(vi a, int n) { return (vi)((tw_v16u)a >> n); }
TW_INLINE vi vi_sar(vi a, int n) { return (vi)((tw_v16i)a >> n); }
TW_INLINE vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
TW_INLINE vm vi_gt(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }
TW_INLINE vi vi_select(vm m, vi a, vi b) { return _mm512_mask_blend_epi32(m, b, a); }

/* ---- floats ---- */
TW_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
TW_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
TW_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
TW_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
TW_INLINE vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
TW_INLINE vf vf_abs(vf a) { return _mm512_abs_ps(a); }
TW_INLINE vf vf_neg(vf a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
TW_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
TW_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
TW_INLINE vf vf_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT); }
TW_INLINE vf vf_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF); }
TW_INLINE vf vf_ceil(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF); }
TW_INLINE vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
TW_INLINE vm vf_ne(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
TW_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
TW_INLINE vm vf_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
TW_INLINE vm vf_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
TW_INLINE vm vf_ge(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
TW_INLINE vm vf_isnan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
TW_INLINE vf vf_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
/* The instructions return their second operand when either is NaN: a NaN in a is put back. */
TW_INLINE vf vf_min(vf a, vf b) { return _mm512_mask_mov_ps(_mm512_min_ps(a, b), vf_isnan(a), a); }
TW_INLINE vf vf_max(vf a, vf b) { return _mm512_mask_mov_ps(_mm512_max_ps(a, b), vf_isnan(a), a); }

/* ---- across lanes: halves are folded onto each other ---- */
#define TW_FOLD(op)                                                                                \
    v = op(v, _mm512_shuffle_f32x4(v, v, 0x4e));                                                   \
    v = op(v, _mm512_shuffle_f32x4(v, v, 0xb1));                                                   \
    v = op(v, _mm512_permute_ps(v, 0x4e));                                                         \
    v = op(v, _mm512_permute_ps(v, 0xb1));                                                         \
    return _mm512_cvtss_f32(v)
TW_INLINE float vf_sum(vf v) { TW_FOLD(vf_add); }
TW_INLINE float vf_hmax(vf v) { TW_FOLD(vf_max); }
TW_INLINE float vf_hmin(vf v) { TW_FOLD(vf_min); }
#undef TW_FOLD

TW_INLINE void vf_transpose(vf *r)
{
    vf t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#define TW_PAIR(op, a, b) _mm512_castpd_ps(op(_mm512_castps_pd(a), _mm512_castps_pd(b)))
    for (int i = 0; i < 16; i += 4) {
        r[i] = TW_PAIR(_mm512_unpacklo_pd, t[i], t[i + 2]);
        r[i + 1] = TW_PAIR(_mm512_unpackhi_pd, t[i], t[i + 2]);
        r[i + 2] = TW_PAIR(_mm512_unpacklo_pd, t[i + 1], t[i + 3]);
        r[i + 3] = TW_PAIR(_mm512_unpackhi_pd, t[i + 1], t[i + 3]);
    }
#undef TW_PAIR
    for (int j = 0; j < 4; j++) {
        const vf ab_lo = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x44);
        const vf ab_hi = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xee);
        const vf cd_lo = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x44);
        const vf cd_hi = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xee);
        r[j] = _mm512_shuffle_f32x4(ab_lo, cd_lo, 0x88);
        r[4 + j] = _mm512_shuffle_f32x4(ab_lo, cd_lo, 0xdd);
        r[8 + j] = _mm512_shuffle_f32x4(ab_hi, cd_hi, 0x88);
        r[12 + j] = _mm512_shuffle_f32x4(ab_hi, cd_hi, 0xdd);
    }
}

/* ---- narrow types ---- */
TW_INLINE __m256i tw_half_n(const uint16_t *p, int n)
{
    return _mm256_maskz_loadu_epi16(vm_first(n), p);
}
TW_INLINE __m128i tw_bytes_n(const void *p, int n) { return _mm_maskz_loadu_epi8(vm_first(n), p); }
TW_INLINE vi vi_load_u16(const uint16_t *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
TW_INLINE vi vi_load_u16_n(const uint16_t *p, int n)
{
    return _mm512_cvtepu16_epi32(tw_half_n(p, n));
}
TW_INLINE void vi_store_u16(uint16_t *p, vi v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(v));
}
TW_INLINE void vi_store_u16_n(uint16_t *p, vi v, int n)
{
    _mm256_mask_storeu_epi16(p, vm_first(n), _mm512_cvtepi32_epi16(v));
}
TW_INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
TW_INLINE vf vf_load_f16_n(const uint16_t *p, int n) { return _mm512_cvtph_ps(tw_half_n(p, n)); }
TW_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
TW_INLINE void vf_store_f16_n(uint16_t *p, vf v, int n)
{
    _mm256_mask_storeu_epi16(p, vm_first(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
TW_INLINE vf vf_load_u8(const uint8_t *p)
{
    return vf_from_vi(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
TW_INLINE vf vf_load_i8(const int8_t *p)
{
    return vf_from_vi(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
TW_INLINE vf vf_load_u8_n(const uint8_t *p, int n)
{
    return vf_from_vi(_mm512_cvtepu8_epi32(tw_bytes_n(p, n)));
}
TW_INLINE vf vf_load_i8_n(const int8_t *p, int n)
{
    return vf_from_vi(_mm512_cvtepi8_epi32(tw_bytes_n(p, n)));
}

#pragma GCC diagnostic pop

#endif
