/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3), and how
 * Tilework draws from it. Every backend follows these rules to the bit:
 *
 *     key      = {seed low, seed high}
 *     counter  = {group low, group high, offset low, offset high}
 *     word i   = Philox(counter of group i/4)[i%4], i the row-major index of the element
 *
 * So streams of different offsets never overlap, and an element needs no other element.
 */
#ifndef TW_TILE_CPU_PHILOX_H
#define TW_TILE_CPU_PHILOX_H

#include <math.h>
#include <stdint.h>

typedef struct tw_philox {
    uint64_t seed, offset;
} tw_philox;

typedef struct tw_philox_words {
    uint32_t w[4];
} tw_philox_words;

static inline tw_philox_words tw_philox_round(tw_philox_words c, uint32_t key_0, uint32_t key_1)
{
    const uint64_t product_0 = UINT64_C(0xD2511F53) * c.w[0];
    const uint64_t product_1 = UINT64_C(0xCD9E8D57) * c.w[2];
    return (tw_philox_words){{(uint32_t)(product_1 >> 32) ^ c.w[1] ^ key_0, (uint32_t)product_1,
                              (uint32_t)(product_0 >> 32) ^ c.w[3] ^ key_1, (uint32_t)product_0}};
}

/* Ten rounds, spelled out: loops of these over many counters are then vectorised by compilers. */
static inline tw_philox_words tw_philox_4x32_10(tw_philox_words c, uint32_t key_0, uint32_t key_1)
{
    const uint32_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;
    c = tw_philox_round(c, key_0, key_1);
    c = tw_philox_round(c, key_0 + weyl_0, key_1 + weyl_1);
    c = tw_philox_round(c, key_0 + 2 * weyl_0, key_1 + 2 * weyl_1);
    c = tw_philox_round(c, key_0 + 3 * weyl_0, key_1 + 3 * weyl_1);
    c = tw_philox_round(c, key_0 + 4 * weyl_0, key_1 + 4 * weyl_1);
    c = tw_philox_round(c, key_0 + 5 * weyl_0, key_1 + 5 * weyl_1);
    c = tw_philox_round(c, key_0 + 6 * weyl_0, key_1 + 6 * weyl_1);
    c = tw_philox_round(c, key_0 + 7 * weyl_0, key_1 + 7 * weyl_1);
    c = tw_philox_round(c, key_0 + 8 * weyl_0, key_1 + 8 * weyl_1);
    return tw_philox_round(c, key_0 + 9 * weyl_0, key_1 + 9 * weyl_1);
}

/* Words 4·group to 4·group + 3 of the stream. */
static inline tw_philox_words tw_philox_group(tw_philox stream, uint64_t group)
{
    const tw_philox_words counter = {{(uint32_t)group, (uint32_t)(group >> 32),
                                      (uint32_t)stream.offset, (uint32_t)(stream.offset >> 32)}};
    return tw_philox_4x32_10(counter, (uint32_t)stream.seed, (uint32_t)(stream.seed >> 32));
}

static inline uint32_t tw_philox_word(tw_philox stream, int64_t index)
{
    return tw_philox_group(stream, (uint64_t)index / 4).w[index % 4];
}

/* ---- From words to numbers ------------------------------------------------------------------- */

/* [0, 1) in steps of 2^-24: exact in f32. */
static inline float tw_philox_uniform(uint32_t word)
{
    return (float)(int32_t)(word >> 8) * 0x1p-24f;
}

/* (0, 1] in steps of 2^-24: exact in f32, and safe under a logarithm. */
static inline float tw_philox_uniform_open(uint32_t word)
{
    return (float)(int32_t)((word >> 8) + 1) * 0x1p-24f;
}

/* [0, 1) in steps of 2^-32: exact in f64. */
static inline double tw_philox_uniform_f64(uint32_t word) { return (double)word * 0x1p-32; }

/* word < threshold happens with probability p: an integer comparison, equal everywhere.
 * p is 0 to 1; the threshold is p·2^32 to nearest, ties to even. */
static inline uint64_t tw_philox_threshold(double p) { return (uint64_t)llrint(p * 0x1p32); }

/* Box-Muller in double: radius √(-2 ln u), u in (0, 1] from word 0; angle 2πv, v in [0, 1) from
 * word 1. All 32 bits count, so that the tail reaches 6.6 standard deviations. */
static inline void tw_philox_normal_pair(uint32_t word_0, uint32_t word_1, double normal[2])
{
    const double two_pi = 6.283185307179586476925;
    const double radius = sqrt(-2.0 * log(((double)word_0 + 1.0) * 0x1p-32));
    const double angle = two_pi * tw_philox_uniform_f64(word_1);
    normal[0] = radius * cos(angle);
    normal[1] = radius * sin(angle);
}

#endif
