/* SPDX-License-Identifier: Apache-2.0 */
/* What every target builds from its own vocabulary alone. Included last by vec.h. */
#ifndef TW_ARCH_CPU_VEC_SHARED_H
#define TW_ARCH_CPU_VEC_SHARED_H

TW_INLINE vf vf_load_i32(const int32_t *p) { return vf_from_vi(vi_load(p)); }
TW_INLINE vf vf_load_i32_n(const int32_t *p, int n) { return vf_from_vi(vi_load_n(p, n)); }

/* bf16 is the upper half of an f32; a NaN is made quiet so that truncation cannot make it Inf. */
TW_INLINE vi tw_bf16_bits(vf v)
{
    const vi bits = vi_bits(v);
    const vi high = vi_shr(bits, 16);
    const vi bias = vi_add(vi_set(0x7fff), vi_and(high, vi_set(1)));
    const vi rounded = vi_shr(vi_add(bits, bias), 16);
    return vi_select(vf_isnan(v), vi_or(high, vi_set(0x40)), rounded);
}
TW_INLINE vf vf_load_bf16(const uint16_t *p) { return vf_bits(vi_shl(vi_load_u16(p), 16)); }
TW_INLINE vf vf_load_bf16_n(const uint16_t *p, int n)
{
    return vf_bits(vi_shl(vi_load_u16_n(p, n), 16));
}
TW_INLINE void vf_store_bf16(uint16_t *p, vf v) { vi_store_u16(p, tw_bf16_bits(v)); }
TW_INLINE void vf_store_bf16_n(uint16_t *p, vf v, int n) { vi_store_u16_n(p, tw_bf16_bits(v), n); }

#endif
