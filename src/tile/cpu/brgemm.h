/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU core: batch-reduce GEMM. GEMM, convolution and later attention and RNN all feed it.
 *
 *   C[m, n] (+)= Σ_b Σ_k A_b[m·a_row + k·a_col] · B_b[k·b_row + n]
 *
 * A is read by broadcasts, so both of its strides are free (a_row = 1 is a transposed A, or one
 * packed as [k][rows], and the fastest). B's rows and C's rows are contiguous in n. Any rows and
 * cols: edges are masked, nothing outside is touched.
 *
 * B may be packed into panels of the tile's columns, [panel][k][columns]: b_row is then that number
 * and b_panel the elements from one panel to the next.
 */
#ifndef TW_TILE_CPU_BRGEMM_H
#define TW_TILE_CPU_BRGEMM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tw_brgemm {
    int64_t rows, cols, k;
    int64_t a_row, a_col; /* strides of A in elements */
    int64_t b_row, c_row; /* elements between rows of B and of C */
    int64_t b_panel;      /* 0: B is not packed */
    bool b_padded;        /* B's rows may be read up to a multiple of the tile's columns */
    int64_t n_batch;
    const float *const *a; /* n_batch pointers */
    const float *const *b;
    float *c;
    bool accumulate; /* false: C is overwritten without being read */
} tw_brgemm;

typedef void (*tw_brgemm_fn)(const tw_brgemm *job);

void tw_brgemm_f32__avx512(const tw_brgemm *job);
void tw_brgemm_f32__avx2(const tw_brgemm *job);
void tw_brgemm_f32__sse2(const tw_brgemm *job);
void tw_brgemm_f32__neon(const tw_brgemm *job);

/* Rows are cut into ceil(rows / TW_TILE_ROWS) tiles of equal height, give or take one: two tiles of
 * eight beat one of fourteen and one of two. arch/cpu/vec.h has TW_TILE_ROWS and TW_TILE_COLS. */

#endif
