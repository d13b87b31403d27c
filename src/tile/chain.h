/* SPDX-License-Identifier: Apache-2.0 */
/* Views of tensors and pointwise programs over them: what planner and kernels exchange. */
#ifndef TW_TILE_CHAIN_H
#define TW_TILE_CHAIN_H

#include <tilework/graph.h>

/* A tensor as a kernel sees it: every stride known. */
typedef struct tw_view {
    tw_dtype dtype; /* TW_AUTO: an optional operand that is absent */
    int32_t rank;
    int64_t dims[TW_MAX_RANK], strides[TW_MAX_RANK];
    int64_t alignment; /* bytes; at least the element's own */
    const void *data;  /* constants: their content, valid at plan time and in run; else NULL */
} tw_view;

/*
 * A chain: a straight-line pointwise program over one iteration space. Values are numbered: 0 is
 * the anchor's result (unused in a chain without anchor), then the loads, then the steps. Operand
 * views have the rank and dims of the space, with stride 0 where they broadcast. Each step's value
 * is rounded to `round` unless that is TW_AUTO (a wide value).
 */
#define TW_CHAIN_VALUES 48
typedef struct tw_chain_step {
    tw_pointwise_attrs attrs; /* normalised; compute is the type of the arithmetic */
    int16_t a, b, c;          /* value numbers; -1 unused */
    tw_dtype round;
} tw_chain_step;

typedef struct tw_chain_store {
    int16_t value;
    uint32_t convert; /* TW_CONVERT_* */
    tw_view view;
} tw_chain_store;

typedef struct tw_chain {
    int32_t rank;
    int64_t dims[TW_MAX_RANK];
    int32_t n_loads, n_steps, n_stores;
    const tw_view *loads;
    const tw_chain_step *steps;
    const tw_chain_store *stores;
    tw_dtype anchor_round; /* type that value 0 is rounded to before use; TW_AUTO: it stays wide */
} tw_chain;

#endif
