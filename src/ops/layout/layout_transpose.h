/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Square transposes of 16-byte rows in registers: 16×16 bytes, 8×8, 4×4 or 2×2 elements.
 * Interleaving rows i and i + n/2 for all i, log2(n) times over, transposes. Written with the
 * compiler's portable shuffles, which become punpck or zip.
 */
#ifndef TW_OPS_LAYOUT_TRANSPOSE_H
#define TW_OPS_LAYOUT_TRANSPOSE_H

#include <stdint.h>
#include <string.h>

#define TW_TRANSPOSE_INLINE static inline __attribute__((always_inline, unused))

typedef uint8_t tw_bytes16 __attribute__((vector_size(16)));
typedef uint16_t tw_halves8 __attribute__((vector_size(16)));
typedef uint32_t tw_words4 __attribute__((vector_size(16)));
typedef uint64_t tw_longs2 __attribute__((vector_size(16)));

#define TW_LOW_1 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define TW_HIGH_1 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define TW_LOW_2 0, 8, 1, 9, 2, 10, 3, 11
#define TW_HIGH_2 4, 12, 5, 13, 6, 14, 7, 15
#define TW_LOW_4 0, 4, 1, 5
#define TW_HIGH_4 2, 6, 3, 7
#define TW_LOW_8 0, 2
#define TW_HIGH_8 1, 3

/* Rows of `from` and `to` are so many bytes apart. */
#define TW_TRANSPOSE(width, type, n)                                                               \
    TW_TRANSPOSE_INLINE void tw_transpose_##width(char *to, int64_t to_row, const char *from,      \
                                                  int64_t from_row)                                \
    {                                                                                              \
        type a[n], b[n];                                                                           \
        for (int i = 0; i < (n); i++) memcpy(&a[i], from + i * from_row, 16);                      \
        for (int stage = 1; stage < (n); stage *= 2) {                                             \
            for (int i = 0; i < (n) / 2; i++) {                                                    \
                b[2 * i] = __builtin_shufflevector(a[i], a[i + (n) / 2], TW_LOW_##width);          \
                b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + (n) / 2], TW_HIGH_##width);     \
            }                                                                                      \
            for (int i = 0; i < (n); i++) a[i] = b[i];                                             \
        }                                                                                          \
        for (int i = 0; i < (n); i++) memcpy(to + i * to_row, &a[i], 16);                          \
    }

TW_TRANSPOSE(1, tw_bytes16, 16)
TW_TRANSPOSE(2, tw_halves8, 8)
TW_TRANSPOSE(4, tw_words4, 4)
TW_TRANSPOSE(8, tw_longs2, 2)

#undef TW_TRANSPOSE

#endif
