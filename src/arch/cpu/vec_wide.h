/* SPDX-License-Identifier: Apache-2.0 */
/* Products of 32-bit lanes in full, beside vec.h (include that first).
 *
 * vi_mul_wide(a, b, &high)   unsigned: returns the low halves of a·b; the high ones go to *high */
#ifndef TW_ARCH_CPU_VEC_WIDE_H
#define TW_ARCH_CPU_VEC_WIDE_H

#if defined(TW_TARGET_AVX512)

TW_INLINE vi vi_mul_wide(vi a, vi b, vi *high)
{
    const __mmask16 odd_lanes = 0xAAAA;
    const vi even = _mm512_mul_epu32(a, b);
    const vi odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    *high = _mm512_mask_blend_epi32(odd_lanes, _mm512_srli_epi64(even, 32), odd);
    return _mm512_mask_blend_epi32(odd_lanes, even, _mm512_slli_epi64(odd, 32));
}

#elif defined(TW_TARGET_AVX2)

TW_INLINE vi vi_mul_wide(vi a, vi b, vi *high)
{
    const vi even = _mm256_mul_epu32(a, b);
    const vi odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

#elif defined(TW_TARGET_SSE2)

TW_INLINE vi vi_mul_wide(vi a, vi b, vi *high)
{
    const vi low_half = _mm_set_epi32(0, -1, 0, -1);
    const vi even = _mm_mul_epu32(a, b);
    const vi odd = _mm_mul_epu32(_mm_srli_epi64(a, 32), _mm_srli_epi64(b, 32));
    *high = _mm_or_si128(_mm_srli_epi64(even, 32), _mm_andnot_si128(low_half, odd));
    return _mm_or_si128(_mm_and_si128(even, low_half), _mm_slli_epi64(odd, 32));
}

#elif defined(TW_TARGET_NEON)

TW_INLINE vi vi_mul_wide(vi a, vi b, vi *high)
{
    const uint32x4_t x = vreinterpretq_u32_s32(a), y = vreinterpretq_u32_s32(b);
    const uint32x4_t first = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(x), vget_low_u32(y)));
    const uint32x4_t last = vreinterpretq_u32_u64(vmull_high_u32(x, y));
    *high = vreinterpretq_s32_u32(vuzp2q_u32(first, last));
    return vreinterpretq_s32_u32(vuzp1q_u32(first, last));
}

#endif
#endif
