/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every layout operation as a list of strided copies, made when the plan is made. A job copies a
 * box of elements from an input, or fills one with the constant; its strides may be anything. Dims
 * of a job are sorted by the output's strides, merged where possible, and end in the two of its
 * block.
 */
#ifndef TW_OPS_LAYOUT_COPY_H
#define TW_OPS_LAYOUT_COPY_H

#include "ops/kernel.h"

#define TW_COPY_RANK 18 /* a reshape may split each dim of x at each dim of y; and two of padding */

/* Transposes of so many bytes are assembled in scratch, one block a slot, and streamed out. */
#define TW_COPY_STREAM_BYTES ((int64_t)8 << 20)
#define TW_COPY_SCRATCH_ROW (1024 + 64) /* bytes; 64 more so that rows fall into different sets */
#define TW_COPY_SCRATCH (256 * TW_COPY_SCRATCH_ROW)

typedef enum tw_copy_kind {
    TW_COPY_ROWS,      /* inner dim contiguous in both */
    TW_COPY_FILL,      /* inner dim contiguous in the output, one element of the source */
    TW_COPY_TRANSPOSE, /* inner dim contiguous in the output, the one before it in the source */
    TW_COPY_STRIDED
} tw_copy_kind;

typedef struct tw_copy_job {
    tw_copy_kind kind;
    int32_t input;                                                    /* -1: the constant */
    int32_t rank;                                                     /* at least 2 */
    int64_t dims[TW_COPY_RANK], to[TW_COPY_RANK], from[TW_COPY_RANK]; /* strides, in elements */
    int64_t to_offset, from_offset;
    int64_t block[2];        /* of the last two dims, at most so many elements a block */
    int64_t grid[2];         /* blocks along them */
    int64_t blocks;          /* in all */
    int64_t blocks_per_item; /* of the parallel loop */
    int64_t first_item;      /* of this job, in the loop over all jobs */
    bool streamed;           /* a transpose by way of scratch, see TW_COPY_STREAM_BYTES */
} tw_copy_job;

typedef struct tw_copy_plan {
    tw_copy_job *jobs;
    int32_t n_jobs;
    int32_t first_phase; /* jobs that must be done before the rest begins */
    int32_t width;       /* bytes of an element */
    int64_t bytes;       /* written in all */
    bool may_stream;     /* the workspace holds scratch */
    unsigned char fill[16];
} tw_copy_plan;

/* Why an operation is no list of copies; NULL if it is one. */
const char *tw_copy_refuses(const tw_problem *problem);
tw_status tw_copy_prepare(const tw_problem *problem, tw_prepare *prepare);

/* Items of the parallel loop over jobs [first, last). */
static inline int64_t tw_copy_items(const tw_copy_plan *plan, int32_t last)
{
    if (last == 0) return 0;
    const tw_copy_job *job = &plan->jobs[last - 1];
    return job->first_item + (job->blocks + job->blocks_per_item - 1) / job->blocks_per_item;
}

#endif
