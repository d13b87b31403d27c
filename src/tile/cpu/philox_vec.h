/* SPDX-License-Identifier: Apache-2.0 */
/* Philox, a block of consecutive words at a time, over the vectors of arch/cpu/vec.h (include that
 * first). The same words as tw_philox_word gives. */
#ifndef TW_TILE_CPU_PHILOX_VEC_H
#define TW_TILE_CPU_PHILOX_VEC_H

#include "arch/cpu/vec_wide.h"
#include "tile/cpu/philox.h"

enum {
    TW_PHILOX_STEPS = VLANES / 4,     /* evaluations in a block, each of VLANES groups */
    TW_PHILOX_BLOCK = VLANES * VLANES /* words */
};

TW_INLINE void tw_philox_round_vec(vi c[4], uint32_t key_0, uint32_t key_1)
{
    vi high_0, high_1;
    const vi low_0 = vi_mul_wide(c[0], vi_set((int32_t)0xD2511F53), &high_0);
    const vi low_1 = vi_mul_wide(c[2], vi_set((int32_t)0xCD9E8D57), &high_1);
    c[0] = vi_xor(vi_xor(high_1, c[1]), vi_set((int32_t)key_0));
    c[1] = low_1;
    c[2] = vi_xor(vi_xor(high_0, c[3]), vi_set((int32_t)key_1));
    c[3] = low_0;
}

/*
 * Words first to first + TW_PHILOX_BLOCK - 1; first is a multiple of TW_PHILOX_BLOCK. Lane l of
 * evaluation s has group TW_PHILOX_STEPS·l + s, so that word j of all evaluations, stacked as rows
 * 4s + j, is one transposition away from the order of the stream. The groups of a block share the
 * high half of their number.
 */
TW_INLINE void tw_philox_block(tw_philox stream, int64_t first, uint32_t *words)
{
    const uint64_t group = (uint64_t)first / 4;
    vf rows[VLANES];
    for (int s = 0; s < TW_PHILOX_STEPS; s++) {
        const vi lanes = vi_mul(vi_iota(), vi_set(TW_PHILOX_STEPS));
        uint32_t key_0 = (uint32_t)stream.seed, key_1 = (uint32_t)(stream.seed >> 32);
        vi c[4] = {vi_add(lanes, vi_set((int32_t)((uint32_t)group + (uint32_t)s))),
                   vi_set((int32_t)(uint32_t)(group >> 32)),
                   vi_set((int32_t)(uint32_t)stream.offset),
                   vi_set((int32_t)(uint32_t)(stream.offset >> 32))};
        for (int round = 0; round < 10; round++) {
            tw_philox_round_vec(c, key_0, key_1);
            key_0 += 0x9E3779B9;
            key_1 += 0xBB67AE85;
        }
        for (int j = 0; j < 4; j++) rows[4 * s + j] = vf_bits(c[j]);
    }
    vf_transpose(rows);
    for (int l = 0; l < VLANES; l++) {
        vi_store((int32_t *)words + l * VLANES, vi_bits(rows[l]));
    }
}

/* Lanes where word < threshold, as unsigned numbers. */
TW_INLINE vm tw_philox_below(vi words, uint32_t threshold)
{
    const vi sign = vi_set(INT32_MIN);
    return vi_gt(vi_set((int32_t)(threshold ^ 0x80000000u)), vi_xor(words, sign));
}

#endif
