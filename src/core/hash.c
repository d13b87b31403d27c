/* SPDX-License-Identifier: Apache-2.0 */
/* Two lanes of xor, multiply, shift over 8-byte words, then a finaliser. Each step is a bijection
 * of the lane, so keys that differ in one word never collide. The result depends on byte order. */
#include "core/hash.h"

#include <string.h>

static const uint64_t prime_a = 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio, odd */
static const uint64_t prime_b = 0xd6e8feb86659fd93u;

static uint64_t mix(uint64_t lane, uint64_t word, uint64_t factor)
{
    lane = (lane ^ word) * factor;
    return lane ^ (lane >> 32);
}

/* Every input bit changes each output bit with a probability near one half. */
static uint64_t finish(uint64_t h)
{
    h = (h ^ (h >> 30)) * prime_b;
    h = (h ^ (h >> 29)) * prime_a;
    return h ^ (h >> 32);
}

static uint64_t word_at(const unsigned char *bytes, size_t n)
{
    uint64_t word = 0;
    memcpy(&word, bytes, n);
    return word;
}

uint64_t tw_hash(uint64_t seed, const void *bytes, size_t n_bytes)
{
    const unsigned char *p = bytes;
    uint64_t a = seed ^ prime_b;
    uint64_t b = (uint64_t)n_bytes * prime_a;
    size_t left = n_bytes;
    for (; left >= 16; left -= 16, p += 16) {
        a = mix(a, word_at(p, 8), prime_a);
        b = mix(b, word_at(p + 8, 8), prime_b);
    }
    if (left >= 8) {
        a = mix(a, word_at(p, 8), prime_a);
        left -= 8;
        p += 8;
    }
    if (left > 0) b = mix(b, word_at(p, left), prime_b);
    return finish(finish(a) ^ b);
}
