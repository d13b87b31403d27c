/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2 with FMA and F16C: see vec.h. A mask is all ones or all zeros in each lane. */
#ifndef TW_ARCH_CPU_VEC_AVX2_H
#define TW_ARCH_CPU_VEC_AVX2_H

#include <immintrin.h>

#define TW_TARGET_NAME avx2
#define VLANES 8
#define TW_TILE_ROWS 6
#define TW_TILE_VECTORS 2

typedef __m256 vf;
typedef __m256i vi;
typedef struct vm {
    __m256 lanes;
} vm;

/* ---- masks ---- */
TW_INLINE vi vi_iota(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
TW_INLINE vm vm_of(__m256 lanes) { return (vm){lanes}; }
TW_INLINE __m256i tw_first(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), vi_iota()); }
TW_INLINE vm vm_first(int n) { return vm_of(_mm256_castsi256_ps(tw_first(n))); }
TW_INLINE vm vm_and(vm a, vm b) { return vm_of(_mm256_and_ps(a.lanes, b.lanes)); }
TW_INLINE vm vm_or(vm a, vm b) { return vm_of(_mm256_or_ps(a.lanes, b.lanes)); }
TW_INLINE vm vm_xor(vm a, vm b) { return vm_of(_mm256_xor_ps(a.lanes, b.lanes)); }
TW_INLINE vm vm_not(vm a)
{
    return vm_of(_mm256_xor_ps(a.lanes, _mm256_castsi256_ps(_mm256_set1_epi32(-1))));
}
TW_INLINE uint32_t vm_bits(vm m) { return (uint32_t)_mm256_movemask_ps(m.lanes); }
TW_INLINE bool vm_any(vm m) { return vm_bits(m) != 0; }
TW_INLINE bool vm_all(vm m) { return vm_bits(m) == 0xff; }

/* ---- loads, stores, constants ---- */
TW_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
TW_INLINE void vf_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
TW_INLINE vf vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, tw_first(n)); }
TW_INLINE void vf_store_n(float *p, vf v, int n) { _mm256_maskstore_ps(p, tw_first(n), v); }
TW_INLINE vi vi_load(const int32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
TW_INLINE void vi_store(int32_t *p, vi v) { _mm256_storeu_si256((__m256i *)(void *)p, v); }
TW_INLINE vi vi_load_n(const int32_t *p, int n) { return _mm256_maskload_epi32(p, tw_first(n)); }
TW_INLINE void vi_store_n(int32_t *p, vi v, int n) { _mm256_maskstore_epi32(p, tw_first(n), v); }
TW_INLINE vf vf_zero(void) { return _mm256_setzero_ps(); }
TW_INLINE vf vf_set(float x) { return _mm256_set1_ps(x); }
TW_INLINE vi vi_set(int32_t i) { return _mm256_set1_epi32(i); }

/* ---- reinterpretation and conversion ---- */
TW_INLINE vf vf_bits(vi a) { return _mm256_castsi256_ps(a); }
TW_INLINE vi vi_bits(vf a) { return _mm256_castps_si256(a); }
TW_INLINE vi vi_from_vf(vf a) { return _mm256_cvtps_epi32(a); }
TW_INLINE vf vf_from_vi(vi a) { return _mm256_cvtepi32_ps(a); }

/* ---- integers ---- */
TW_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
TW_INLINE vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
TW_INLINE vi vi_mul(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
TW_INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
TW_INLINE vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
TW_INLINE vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
/* Vector operators, so that a constant count becomes an immediate on both compilers. */
typedef int32_t tw_v8i __attribute__((vector_size(32)));
typedef uint32_t tw_v8u __attribute__((vector_size(32)));
TW_INLINE vi vi_shl(vi a, int n) { return (vi)((tw_v8u)a << n); }
TW_INLINE vi vi_shr(vi a, int n) { return (vi)((tw_v8u)a >> n); }
TW_INLINE vi vi_sar(vi a, int n) { return (vi)((tw_v8i)a >> n); }
TW_INLINE vm vi_eq(vi a, vi b) { return vm_of(vf_bits(_mm256_cmpeq_epi32(a, b))); }
TW_INLINE vm vi_gt(vi a, vi b) { return vm_of(vf_bits(_mm256_cmpgt_epi32(a, b))); }
TW_INLINE vi vi_select(vm m, vi a, vi b)
{
    return _mm256_blendv_epi8(b, a, _mm256_castps_si256(m.lanes));
}

/* ---- floats ---- */
TW_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
TW_INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
TW_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
TW_INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
TW_INLINE vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
TW_INLINE vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
TW_INLINE vf vf_neg(vf a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
TW_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
TW_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
#define TW_ROUND(a, mode) _mm256_round_ps(a, (mode) | _MM_FROUND_NO_EXC)
TW_INLINE vf vf_round(vf a) { return TW_ROUND(a, _MM_FROUND_TO_NEAREST_INT); }
TW_INLINE vf vf_floor(vf a) { return TW_ROUND(a, _MM_FROUND_TO_NEG_INF); }
TW_INLINE vf vf_ceil(vf a) { return TW_ROUND(a, _MM_FROUND_TO_POS_INF); }
#undef TW_ROUND
TW_INLINE vm vf_eq(vf a, vf b) { return vm_of(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)); }
TW_INLINE vm vf_ne(vf a, vf b) { return vm_of(_mm256_cmp_ps(a, b, _CMP_NEQ_UQ)); }
TW_INLINE vm vf_lt(vf a, vf b) { return vm_of(_mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
TW_INLINE vm vf_le(vf a, vf b) { return vm_of(_mm256_cmp_ps(a, b, _CMP_LE_OQ)); }
TW_INLINE vm vf_gt(vf a, vf b) { return vm_of(_mm256_cmp_ps(a, b, _CMP_GT_OQ)); }
TW_INLINE vm vf_ge(vf a, vf b) { return vm_of(_mm256_cmp_ps(a, b, _CMP_GE_OQ)); }
TW_INLINE vm vf_isnan(vf a) { return vm_of(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)); }
TW_INLINE vf vf_select(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m.lanes); }
/* The instructions return their second operand when either is NaN: a NaN in a is put back. */
TW_INLINE vf vf_min(vf a, vf b) { return vf_select(vf_isnan(a), a, _mm256_min_ps(a, b)); }
TW_INLINE vf vf_max(vf a, vf b) { return vf_select(vf_isnan(a), a, _mm256_max_ps(a, b)); }

/* ---- across lanes: halves are folded onto each other ---- */
#define TW_FOLD(op)                                                                                \
    v = op(v, _mm256_permute2f128_ps(v, v, 0x01));                                                 \
    v = op(v, _mm256_permute_ps(v, 0x4e));                                                         \
    v = op(v, _mm256_permute_ps(v, 0xb1));                                                         \
    return _mm256_cvtss_f32(v)
TW_INLINE float vf_sum(vf v) { TW_FOLD(vf_add); }
TW_INLINE float vf_hmax(vf v) { TW_FOLD(vf_max); }
TW_INLINE float vf_hmin(vf v) { TW_FOLD(vf_min); }
#undef TW_FOLD

TW_INLINE void vf_transpose(vf *r)
{
    vf t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int j = 0; j < 4; j++) {
        const vf lo = _mm256_permute2f128_ps(r[j], r[4 + j], 0x20);
        const vf hi = _mm256_permute2f128_ps(r[j], r[4 + j], 0x31);
        r[j] = lo;
        r[4 + j] = hi;
    }
}

/* ---- narrow types ---- */
TW_INLINE __m128i tw_load_128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
TW_INLINE __m128i tw_load_64(const void *p) { return _mm_loadl_epi64((const __m128i *)p); }
TW_INLINE vi vi_load_u16(const uint16_t *p) { return _mm256_cvtepu16_epi32(tw_load_128(p)); }
TW_INLINE void vi_store_u16(uint16_t *p, vi v)
{
    const vi low = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    const vi packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_castsi256_si128(packed));
}
TW_INLINE vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(tw_load_128(p)); }
TW_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
TW_INLINE vf vf_load_u8(const uint8_t *p)
{
    return vf_from_vi(_mm256_cvtepu8_epi32(tw_load_64(p)));
}
TW_INLINE vf vf_load_i8(const int8_t *p) { return vf_from_vi(_mm256_cvtepi8_epi32(tw_load_64(p))); }
#include "arch/cpu/vec_tails.h"

#endif
