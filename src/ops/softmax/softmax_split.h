/* SPDX-License-Identifier: Apache-2.0 */
/* How the vector kernels of softmax cut their work: by the problem alone. */
#ifndef TW_OPS_SOFTMAX_SOFTMAX_SPLIT_H
#define TW_OPS_SOFTMAX_SOFTMAX_SPLIT_H

#include "ops/reduce/lines.h"
#include "ops/softmax/softmax.h"

/* Operands: x, y; or y, dy, dx. */
typedef struct tw_softmax_split {
    tw_axis_group kept; /* columns kernels: without the columns */
    int64_t length;     /* of a line */
    int64_t step[TW_LINES_OPERANDS];
    int64_t per_item;               /* lines of one work item */
    int64_t columns, width, blocks; /* columns kernels: a block is `width` columns wide */
} tw_softmax_split;

enum { TW_SOFTMAX_COLUMNS = 256 };

const char *tw_softmax_rows_refuse(const tw_problem *problem);
tw_status tw_softmax_rows_prepare(const tw_problem *problem, tw_prepare *prepare);

/* Lines whose elements are apart while neighbouring lines are not: vectors run across lines. */
const char *tw_softmax_columns_refuse(const tw_problem *problem);
tw_status tw_softmax_columns_prepare(const tw_problem *problem, tw_prepare *prepare);

#endif
