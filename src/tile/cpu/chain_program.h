/* SPDX-License-Identifier: Apache-2.0 */
/* What chain_program.c makes of a chain and chain_run_body.h executes. */
#ifndef TW_TILE_CPU_CHAIN_PROGRAM_H
#define TW_TILE_CPU_CHAIN_PROGRAM_H

#include "tile/chain.h"
#include "tile/cpu/chain_run.h"

/* Why the interpreter cannot run a chain, from the ranges of its values (chain_range.c). For each
 * value it also tells whether rounding it to its `round` type changes nothing. */
const char *tw_chain_ranges(const tw_chain *chain, bool *round_is_void);

enum {
    TW_CHAIN_STAGE_FLOATS = 8192, /* all slots together: 32 KiB */
    TW_CHAIN_SLOT_FLOATS = 2048,  /* one slot, at most */
    TW_CHAIN_ALIGN = 16           /* rows of slots start at multiples of this */
};

/* An operand in memory, its dims brought to the tile's form. */
typedef struct tw_chain_operand {
    tw_dtype dtype;
    uint32_t convert;
    int64_t element_bytes;
    int64_t col_stride;               /* in elements, as all strides */
    int64_t row_strides[TW_MAX_RANK]; /* of the program's row dims */
    bool uniform;                     /* a load: the same in every row */
} tw_chain_operand;

/* Where a value lives while a chunk of the tile is worked on. */
typedef enum tw_chain_home {
    TW_HOME_SLOT,   /* staged */
    TW_HOME_ANCHOR, /* in the caller's anchor tile */
    TW_HOME_LOAD,   /* f32 with contiguous columns: used where it is */
    TW_HOME_STORE   /* computed straight into the memory of a store */
} tw_chain_home;

typedef struct tw_chain_value {
    tw_chain_home home;
    int32_t index; /* slot, load or store */
    bool one_row;  /* a slot that holds one row for all */
} tw_chain_value;

typedef enum tw_chain_action {
    TW_ACT_LOAD,  /* index: the load */
    TW_ACT_INDEX, /* index: the original dim, for GEN_INDEX */
    TW_ACT_COPY,  /* a: the value copied, before it is rounded in place */
    TW_ACT_STEP,
    TW_ACT_ROUND, /* to `type` with `convert` */
    TW_ACT_STORE  /* index: the store */
} tw_chain_action;

typedef struct tw_chain_instruction {
    tw_chain_action action;
    int16_t value, a, b, c;
    int32_t index;
    tw_dtype type;
    uint32_t convert;
    tw_pointwise_mode mode;
    float alpha, beta;
} tw_chain_instruction;

struct tw_chain_program {
    int32_t n_rows_dims; /* the dims other than col_dim, merged where every operand allows it */
    int64_t row_dims[TW_MAX_RANK];
    int32_t dim_of_row[TW_MAX_RANK]; /* the original dim; meaningful if nothing was merged */
    int32_t col_dim;
    int32_t n_loads, n_stores, n_values, n_slots;
    int32_t n_setup, n_body; /* instructions for each block of columns, and for each chunk */
    int64_t slot_floats;
    int64_t chunk_cols; /* widest chunk: narrow where an operand is strided along columns */
    bool whole_tile;    /* one pass over memory: no chunks needed */
    const tw_chain_operand *loads, *stores;
    const tw_chain_value *values;
    const tw_chain_instruction *setup, *body;
};

#endif
