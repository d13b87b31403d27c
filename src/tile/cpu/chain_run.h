/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointwise interpreter of the CPU: runs a chain over tiles of f32, steps outside, elements
 * inside. Pure chains and the epilogues of gemm and conv share it.
 *
 * A tile is rows × cols elements of the chain's space. Columns run along dim `col_dim`; rows are
 * consecutive positions, in row-major order, of all the other dims. (For a convolution's [N,K,H,W]
 * with col_dim 1, row r is pixel r counted over N, H, W, and columns are channels.)
 */
#ifndef TW_TILE_CPU_CHAIN_RUN_H
#define TW_TILE_CPU_CHAIN_RUN_H

#include "core/alloc.h"
#include "tile/chain.h"

typedef struct tw_chain_program tw_chain_program; /* immutable; lives in the arena given */

/* Why the interpreter cannot run a chain (64-bit integer or f64 arithmetic, sub-byte types, more
 * live values than it has room for); NULL if it can. A static sentence fragment. */
const char *tw_chain_refuses(const tw_chain *chain);

tw_status tw_chain_compile(const tw_chain *chain, int32_t col_dim, tw_arena *arena,
                           const tw_chain_program **program);

typedef struct tw_chain_tile {
    const tw_chain_program *program;
    void *const *loads; /* first elements, as chain->loads and chain->stores */
    void *const *stores;
    const float *anchor; /* value 0 of the tile's first element; NULL in a pure chain */
    int64_t anchor_row;  /* elements between rows of anchor */
    int64_t row, rows;   /* rows [row, row + rows) */
    int64_t col, cols;
} tw_chain_tile;

/* Reads the anchor tile and the loads, writes the stores. Uses some 32 KiB of stack, nothing else.
 * In place is fine where a load and a store are the same view of the same memory. */
typedef void (*tw_chain_run_fn)(const tw_chain_tile *tile);
void tw_chain_run_f32__avx512(const tw_chain_tile *tile);
void tw_chain_run_f32__avx2(const tw_chain_tile *tile);
void tw_chain_run_f32__sse2(const tw_chain_tile *tile);
void tw_chain_run_f32__neon(const tw_chain_tile *tile);

#endif
