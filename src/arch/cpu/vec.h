/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector types: the only place, with its siblings vec_<target>.h, that names a CPU instruction.
 *
 * A kernel body is written once over these and compiled for each target: <op>_avx2.c defines
 * TW_TARGET_AVX2, includes this file, then the body. Everything is static inline: no function
 * compiled with an instruction-set flag may leak out of its file.
 *
 *   VLANES                   32-bit lanes of a vector: 16 (avx512), 8 (avx2), 4 (sse2, neon)
 *   vf, vi, vm               f32 lanes, i32 lanes, a lane mask
 *   TW_TILE_ROWS, TW_TILE_VECTORS   register tile of the GEMM core; it has TW_TILE_COLS columns
 *   TW_TARGET_NAME           avx512, avx2, sse2 or neon: pasted to symbols by TW_SYMBOL(name)
 *
 * vf_load(p) vf_store(p,v)           unaligned            vf_load_n(p,n) vf_store_n(p,v,n)
 *                                                         first n lanes, 0 <= n <= VLANES; the rest
 *                                                         reads as 0 and is not touched in memory
 * vf_zero() vf_set(x)  vi_set(i) vi_iota() = 0,1,2…       vi_load vi_store vi_load_n vi_store_n
 * vf_add sub mul div sqrt abs neg    one instruction each vi_add sub and or xor mul(low 32)
 * vf_fma(a,b,c) = a*b+c              fused except on sse2  vi_shl(a,n) vi_shr(a,n) logical
 * vf_fnma(a,b,c) = c-a*b                                  vi_sar(a,n) arithmetic
 * vf_round (to even) floor ceil      any magnitude        vf_bits(vi) vi_bits(vf) reinterpret
 * vf_min vf_max                      NaN if either is NaN vi_from_vf(v) nearest even, vf_from_vi(i)
 * vf_eq ne lt le gt ge → vm          ordered but ne       vf_isnan(v) → vm, vi_eq vi_gt → vm
 * vm_and or xor not, vm_any(m) vm_all(m)                  vm_first(n): the first n lanes
 * vf_select(m,a,b) vi_select(m,a,b)  m ? a : b            vm_bits(m): lane i in bit i of uint32_t
 * vf_sum(v) vf_hmax(v) vf_hmin(v)    over lanes, in an order fixed for the target; NaN as in vf_max
 * vf_load_f16(p) vf_load_bf16 vf_store_f16 vf_store_bf16  const uint16_t *, round to nearest even
 *   and their _n forms; vf_load_u8(p) vf_load_i8(p) vf_load_i32(p) and _n forms
 * vi_load_u16(p) vi_store_u16(p,v) and _n forms: zero-extended; the low 16 bits of each lane
 * vf_transpose(r)  r[0 … VLANES-1] as a square matrix, transposed in place
 *
 * vm has vm_xor too, and may be a struct: combine masks by name only. vi_from_vf is defined for
 * values that fit i32. A shift count n is an int from 0 to 31, the same for all lanes. min and max
 * of a +0 and a -0 give either.
 */
#ifndef TW_ARCH_CPU_VEC_H
#define TW_ARCH_CPU_VEC_H

#include <stdbool.h>
#include <stdint.h>

#define TW_PASTE_2(a, b) a##__##b
#define TW_PASTE(a, b) TW_PASTE_2(a, b)
#define TW_SYMBOL(name) TW_PASTE(name, TW_TARGET_NAME)
#define TW_INLINE static inline __attribute__((always_inline, unused))

#if defined(TW_TARGET_AVX512)
#    include "arch/cpu/vec_avx512.h"
#elif defined(TW_TARGET_AVX2)
#    include "arch/cpu/vec_avx2.h"
#elif defined(TW_TARGET_SSE2)
#    include "arch/cpu/vec_sse2.h"
#elif defined(TW_TARGET_NEON)
#    include "arch/cpu/vec_neon.h"
#else
#    error "define TW_TARGET_<NAME> before including arch/cpu/vec.h"
#endif
#define TW_TILE_COLS (TW_TILE_VECTORS * VLANES)
#include "arch/cpu/vec_shared.h"

#endif
