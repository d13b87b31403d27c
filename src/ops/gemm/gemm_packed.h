/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packed GEMM: blocks of A and B copied into the order in which the core (tile/cpu/brgemm.h)
 * reads them. All decisions are here and in gemm_packed.c, once; what a target adds is its core and
 * its packing loops.
 *
 *   A block: panels of `height` rows, [panel][k][height]
 *   B slab:  panels of tile_cols columns, [panel][k][tile_cols]
 */
#ifndef TW_OPS_GEMM_PACKED_H
#define TW_OPS_GEMM_PACKED_H

#include "ops/gemm/gemm_shape.h"
#include "tile/cpu/brgemm.h"
#include "tile/cpu/chain_run.h"

/* A part of a matrix to be packed: `count` rows of A, or columns of B, of stride `step`; along k
 * the stride is `along`. In the result each k has `width` places. Those past count, up to a whole
 * vector, hold zeros or repeat others: they lead to columns that are not stored. */
typedef struct tw_gemm_piece {
    const float *from;
    int64_t count, step;
    int64_t k, along;
    int64_t width;
    float *to;
} tw_gemm_piece;

typedef struct tw_gemm_target {
    int64_t tile_rows, tile_cols;
    tw_brgemm_fn multiply;
    void (*pack)(const tw_gemm_piece *piece);
    tw_chain_run_fn chain;
} tw_gemm_target;

const char *tw_gemm_packed_supports(const tw_problem *problem);
tw_status tw_gemm_packed_prepare(const tw_problem *problem, tw_prepare *prepare,
                                 const tw_gemm_target *target);
tw_status tw_gemm_packed_run(const tw_launch *launch);

/* How an operand reaches the core. */
typedef enum tw_gemm_way {
    TW_GEMM_DIRECT, /* where it lies */
    TW_GEMM_LOCAL,  /* each task packs what it needs next */
    TW_GEMM_SLAB,   /* packed into workspace for all tasks: all of A; some columns of B at a time */
    TW_GEMM_CONSTANT /* packed when the plan was made; B only */
} tw_gemm_way;

/* The state of a plan. */
typedef struct tw_gemm_packed {
    const tw_gemm_target *target;
    tw_gemm_shape shape;
    bool swapped; /* in[0] is b, in[1] is a */
    tw_gemm_way a_way, b_way;
    bool stage; /* C blocks are made in scratch, then stored or handed on */
    int64_t block_rows, block_k, block_cols; /* of C and of k for one task at a time */
    int64_t slab_cols;                       /* of B, packed at a time */
    int64_t a_floats, b_floats, c_floats;    /* scratch of a slot; 0: none */
    int64_t a_slab_floats, b_slab_floats;
    const float *constant; /* CONSTANT: panels over all of k */
    const tw_chain_program *epilogue;
} tw_gemm_packed;

/* A slot's scratch lies on the stack if it is small enough, else in workspace. */
enum { TW_GEMM_STACK_FLOATS = 16384 };

/* Floats of workspace for each slot; 0: the stack will do. */
int64_t tw_gemm_packed_slot_floats(const tw_gemm_packed *plan);

#endif
