/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensor cut into lines: the dims that an operation keeps, and those it works along. Reductions,
 * softmax and the losses are all written over this. Dims of 1 are dropped, and neighbours that one
 * stride can step through are merged, in every operand at once.
 */
#ifndef TW_OPS_REDUCE_LINES_H
#define TW_OPS_REDUCE_LINES_H

#include "tile/chain.h"

#define TW_LINES_OPERANDS 5

typedef struct tw_axis_group {
    int32_t rank;
    int64_t count; /* product of dims */
    int64_t dims[TW_MAX_RANK];
    int64_t strides[TW_LINES_OPERANDS][TW_MAX_RANK];
} tw_axis_group;

typedef struct tw_lines {
    tw_axis_group kept, along;
} tw_lines;

/* Operands of equal rank and dims; an absent one is NULL. `axes` are the dims of `along`. With
 * `ordered` the elements of a line keep their row-major order; else dims may be sorted by the
 * first operand's strides, so that more of them merge. */
void tw_lines_make(const tw_view *const views[TW_LINES_OPERANDS], uint32_t axes, bool ordered,
                   tw_lines *lines);

/* The offset of element `index` of a group in one operand. */
static inline int64_t tw_group_offset(const tw_axis_group *group, int32_t operand, int64_t index)
{
    int64_t offset = 0;
    for (int32_t d = group->rank - 1; d > 0; d--) {
        offset += index % group->dims[d] * group->strides[operand][d];
        index /= group->dims[d];
    }
    return group->rank > 0 ? offset + index * group->strides[operand][0] : 0;
}

/* Steps through a group in order. Zero-initialise. */
typedef struct tw_group_cursor {
    int64_t at[TW_MAX_RANK];
    int64_t offset[TW_LINES_OPERANDS];
} tw_group_cursor;
void tw_group_next(const tw_axis_group *group, tw_group_cursor *cursor);

/* "64x32x28": the dims of a problem string. `key` is for the error sentence. */
tw_status tw_parse_dims(const char *key, const char *text, int32_t *rank, int64_t *dims);
/* "0,2,3" as a bit mask; "" and "none" are 0, "all" is every dim below `rank`. */
tw_status tw_parse_axes(const char *key, const char *text, int32_t rank, uint32_t *axes);

#endif
