/* SPDX-License-Identifier: Apache-2.0 */
/* Partial loads and stores of narrow elements for targets without byte masks: by way of a buffer
 * of one vector. Included by vec_<target>.h. */
#ifndef TW_ARCH_CPU_VEC_TAILS_H
#define TW_ARCH_CPU_VEC_TAILS_H

#define TW_LOAD_TAIL(result, load, element)                                                        \
    TW_INLINE result load##_n(const element *p, int n)                                             \
    {                                                                                              \
        element lanes[VLANES] = {0};                                                               \
        for (int i = 0; i < n; i++) lanes[i] = p[i];                                               \
        return load(lanes);                                                                        \
    }
#define TW_STORE_TAIL(value, store, element)                                                       \
    TW_INLINE void store##_n(element *p, value v, int n)                                           \
    {                                                                                              \
        element lanes[VLANES];                                                                     \
        store(lanes, v);                                                                           \
        for (int i = 0; i < n; i++) p[i] = lanes[i];                                               \
    }

TW_LOAD_TAIL(vi, vi_load_u16, uint16_t)
TW_LOAD_TAIL(vf, vf_load_f16, uint16_t)
TW_LOAD_TAIL(vf, vf_load_u8, uint8_t)
TW_LOAD_TAIL(vf, vf_load_i8, int8_t)
TW_STORE_TAIL(vi, vi_store_u16, uint16_t)
TW_STORE_TAIL(vf, vf_store_f16, uint16_t)

#undef TW_LOAD_TAIL
#undef TW_STORE_TAIL

#endif
