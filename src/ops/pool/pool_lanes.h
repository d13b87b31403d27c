/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vector kernels of pooling know before they run. Lanes of a vector are channels where
 * those are contiguous, else columns of the output. Indices are handled as
 *
 *     index = base of the window + lane · lane_index + ordinal of the tap
 *
 * whatever they count, so that kernels compare and carry 32-bit ordinals alone.
 */
#ifndef TW_OPS_POOL_LANES_H
#define TW_OPS_POOL_LANES_H

#include "ops/kernel.h"
#include "ops/pool/pool_shape.h"

/* Windows over one element of dx that are summed before dx is stored. */
enum { TW_POOL_MOST_OVER = 64 };

typedef struct tw_pool_plan {
    tw_pool_shape shape;
    tw_pool_strides x, y, index;         /* backward: of dx, dy and the indices */
    tw_dtype x_type, y_type, index_type; /* index_type TW_AUTO: no indices */
    bool max;
    bool by_channel;
    bool vectors; /* output columns are contiguous; else one lane at a time */
    int64_t lane_index;
    int64_t ordinal_step[TW_MAX_SPATIAL]; /* from one tap of an axis to the next */
    uint32_t index_sizes[TW_MAX_SPATIAL]; /* of what indices count over: the window or the plane */
    int64_t index_count;                  /* their product */
    int64_t units, units_per_item;        /* rows of y (gather: of dx; scatter: planes) */
} tw_pool_plan;

const char *tw_pool_lanes_refuses(const tw_problem *problem);   /* forward */
const char *tw_pool_gather_refuses(const tw_problem *problem);  /* backward, by channel */
const char *tw_pool_scatter_refuses(const tw_problem *problem); /* backward, any strides */
tw_status tw_pool_lanes_prepare(const tw_problem *problem, tw_prepare *prepare);
tw_status tw_pool_gather_prepare(const tw_problem *problem, tw_prepare *prepare);
tw_status tw_pool_scatter_prepare(const tw_problem *problem, tw_prepare *prepare);

/* What is added to a window's ordinals: its place in the plane, and the plane's in the tensor. */
int64_t tw_pool_index_base(const tw_pool_plan *plan, int64_t plane,
                           const int64_t o[TW_MAX_SPATIAL]);

/* Says which index of a backward pass does not name an element of its window; one must be so. */
tw_status tw_pool_bad_index(const tw_launch *launch);

/* Work of the loop over items: integers, one for each slot, a cache line apart. */
#define TW_POOL_SLOT_BYTES 64

#endif
