/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/sha256.h"

#include <string.h>

#include <tilework/data.h>

#include "formats/bytes.h"

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void expand(const uint8_t *block, uint32_t w[64])
{
    for (int i = 0; i < 16; i++) w[i] = tw_be32(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
        uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void compress(uint32_t h[8], const uint8_t *block)
{
    uint32_t w[64], v[8];
    expand(block, w);
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + round_constants[i] + w[i];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++) h[i] += v[i];
}

void tw_sha256_begin(tw_sha256_state *state)
{
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(state->h, initial, sizeof initial);
    state->length = 0;
}

void tw_sha256_add(tw_sha256_state *state, const void *bytes, size_t n_bytes)
{
    const uint8_t *p = bytes;
    while (n_bytes) {
        size_t held = state->length % 64, room = 64 - held;
        size_t n = n_bytes < room ? n_bytes : room;
        if (n == 64) {
            compress(state->h, p);
        } else {
            memcpy(state->block + held, p, n);
            if (n == room) compress(state->h, state->block);
        }
        state->length += n;
        p += n;
        n_bytes -= n;
    }
}

void tw_sha256_end(tw_sha256_state *state, char digest[65])
{
    static const char digits[] = "0123456789abcdef";
    static const uint8_t zeros[64] = {0};
    uint8_t tail[8];
    uint64_t bits = state->length * 8;
    for (int i = 0; i < 8; i++) tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    tw_sha256_add(state, "\x80", 1);
    tw_sha256_add(state, zeros, (size_t)((120 - state->length % 64) % 64));
    tw_sha256_add(state, tail, sizeof tail);
    for (int i = 0; i < 64; i++) digest[i] = digits[state->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    digest[64] = '\0';
}

void tw_sha256(const void *bytes, size_t n_bytes, char digest[65])
{
    tw_sha256_state state;
    tw_sha256_begin(&state);
    tw_sha256_add(&state, bytes, n_bytes);
    tw_sha256_end(&state, digest);
}
