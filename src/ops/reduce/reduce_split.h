/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the vector kernels cut a reduction into work items: by the problem alone, so that results do
 * not depend on threads. Partial results meet in double, in a fixed order.
 */
#ifndef TW_OPS_REDUCE_REDUCE_SPLIT_H
#define TW_OPS_REDUCE_REDUCE_SPLIT_H

#include "ops/reduce/reduce.h"

/* What is known of a set after a part of it was seen. */
typedef struct tw_reduce_part {
    double value;  /* the sum or the extreme; log-sum-exp: the maximum */
    double extra;  /* log-sum-exp: Σ exp(x - value) */
    int64_t index; /* arg modes */
} tw_reduce_part;

tw_reduce_part tw_reduce_part_begin(tw_reduce_mode mode);
void tw_reduce_part_merge(const tw_reduce_attrs *attrs, tw_reduce_part *part,
                          const tw_reduce_part *next);
/* Stores the result of a set of `count` elements. */
void tw_reduce_part_store(const tw_reduce_attrs *attrs, const tw_reduce_part *part, int64_t count,
                          tw_dtype type, void *y, int64_t offset);

/* Rows: every set is a few stretches along the dim of the smallest stride, cut into segments. */
typedef struct tw_reduce_rows {
    tw_lines lines;       /* along: without that dim */
    int64_t length, step; /* of a stretch */
    int64_t outputs;
    int64_t segments;  /* of a stretch */
    int64_t chunks;    /* work items of one output; 1: several outputs may share an item */
    int64_t per_chunk; /* segments */
    int64_t per_item;  /* outputs, when chunks is 1 */
} tw_reduce_rows;

enum { TW_REDUCE_SEGMENT = 16384 };

const char *tw_reduce_rows_refuse(const tw_problem *problem);
tw_status tw_reduce_rows_prepare(const tw_problem *problem, tw_prepare *prepare);

/* Columns: a kept dim has stride 1, and vectors run along it. Where it is short and the rows lie
 * end to end, `fold` rows are read as one, and their columns are added at the end. */
typedef struct tw_reduce_columns {
    tw_lines lines;          /* kept: without the columns; along: without the rows */
    int64_t columns, y_step; /* and the stride of y along them */
    int64_t rows, row_step;
    int64_t fold, wide_rows;   /* wide_rows = ceil(rows/fold) */
    int64_t blocks;            /* of TW_REDUCE_COLUMNS columns */
    int64_t chunks, per_chunk; /* wide rows, over all of `along` */
} tw_reduce_columns;

enum { TW_REDUCE_COLUMNS = 512 };

const char *tw_reduce_columns_refuse(const tw_problem *problem);
tw_status tw_reduce_columns_prepare(const tw_problem *problem, tw_prepare *prepare);

#endif
