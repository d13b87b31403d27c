/* SPDX-License-Identifier: Apache-2.0 */
/* Layout operations: strided copies, block by block, in parallel. Wider vectors than 16 bytes gain
 * nothing here (NOTES.md), so that there is one row for each architecture. */
#include "arch/cpu/vec.h"

#include <string.h>

#include "arch/cpu/stream.h"
#include "ops/layout/layout_copy.h"
#include "ops/layout/layout_transpose.h"
#include "runtime/cpu/parallel.h"

/* A block of a job: rows × columns, with steps in bytes. Columns run along the job's last dim. */
typedef struct block {
    char *to;
    const char *from;
    int64_t rows, cols;
    int64_t to_row, to_col, from_row, from_col;
} block;

/* ---- Rows ------------------------------------------------------------------------------------ */

/* At most 64 bytes, as two overlapping halves: short rows are too many for a call each. */
TW_INLINE void copy_short(char *to, const char *from, int64_t bytes)
{
    if (bytes > 32) {
        memcpy(to, from, 32);
        memcpy(to + bytes - 32, from + bytes - 32, 32);
    } else if (bytes >= 16) {
        memcpy(to, from, 16);
        memcpy(to + bytes - 16, from + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(to, from, 8);
        memcpy(to + bytes - 8, from + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(to, from, 4);
        memcpy(to + bytes - 4, from + bytes - 4, 4);
    } else {
        for (int64_t i = 0; i < bytes; i++) to[i] = from[i];
    }
}

TW_INLINE void copy_row(char *to, const char *from, int64_t bytes)
{
    if (bytes > 64)
        memcpy(to, from, (size_t)bytes);
    else
        copy_short(to, from, bytes);
}

static void copy_rows(const block *b, int width)
{
    for (int64_t r = 0; r < b->rows; r++)
        copy_row(b->to + r * b->to_row, b->from + r * b->from_row, b->cols * width);
}

/* Stores a 64-byte pattern, repeated, over a row. */
TW_INLINE void fill_row(char *to, const char *pattern, int64_t bytes)
{
    int64_t at = 0;
    for (; at + 64 <= bytes; at += 64) memcpy(to + at, pattern, 64);
    copy_short(to + at, pattern, bytes - at);
}

static void fill_rows(const block *b, int width)
{
    char pattern[64];
    for (int64_t r = 0; r < b->rows; r++) {
        if (r == 0 || b->from_row != 0)
            for (int i = 0; i < 64; i += width)
                memcpy(pattern + i, b->from + r * b->from_row, (size_t)width);
        fill_row(b->to + r * b->to_row, pattern, b->cols * width);
    }
}

/* ---- Single elements ------------------------------------------------------------------------- */

TW_INLINE void copy_strided(const block *b, const int width)
{
    for (int64_t r = 0; r < b->rows; r++) {
        char *to = b->to + r * b->to_row;
        const char *from = b->from + r * b->from_row;
        for (int64_t c = 0; c < b->cols; c++)
            memcpy(to + c * b->to_col, from + c * b->from_col, (size_t)width);
    }
}

static void copy_elements(const block *b, int width)
{
    switch (width) {
    case 1: copy_strided(b, 1); break;
    case 2: copy_strided(b, 2); break;
    case 4: copy_strided(b, 4); break;
    case 8: copy_strided(b, 8); break;
    default: copy_strided(b, 16); break;
    }
}

/* ---- Transposes ------------------------------------------------------------------------------ */

/* Rows are contiguous in the source, columns in the output. A tile is 64 bytes each way, a cache
 * line, and made of squares of 16 bytes. */
TW_INLINE void transpose_tile(const block *b, int64_t row, int64_t col, const int width)
{
    const int64_t side = 64 / width, square = 16 / width;
    for (int64_t i = row; i < row + side; i += square)
        for (int64_t j = col; j < col + side; j += square) {
            char *to = b->to + i * b->to_row + j * width;
            const char *from = b->from + j * b->from_col + i * width;
            if (width == 1) tw_transpose_1(to, b->to_row, from, b->from_col);
            if (width == 2) tw_transpose_2(to, b->to_row, from, b->from_col);
            if (width == 4) tw_transpose_4(to, b->to_row, from, b->from_col);
            if (width == 8) tw_transpose_8(to, b->to_row, from, b->from_col);
        }
}

/* Tiles go along the output's lines, or, where that is scratch in the cache, the source's. */
TW_INLINE void transpose_tiles(const block *b, const int width)
{
    const int64_t side = 64 / width;
    int64_t rows = b->rows / side * side, cols = b->cols / side * side;
    if (b->to_row == TW_COPY_SCRATCH_ROW) {
        for (int64_t c = 0; c < cols; c += side)
            for (int64_t r = 0; r < rows; r += side) transpose_tile(b, r, c, width);
    } else {
        for (int64_t r = 0; r < rows; r += side)
            for (int64_t c = 0; c < cols; c += side) transpose_tile(b, r, c, width);
    }
    block right = *b, below = *b;
    right.to += cols * b->to_col;
    right.from += cols * b->from_col;
    right.rows = rows;
    right.cols -= cols;
    below.to += rows * b->to_row;
    below.from += rows * b->from_row;
    below.rows -= rows;
    copy_strided(&right, width);
    copy_strided(&below, width);
}

static void transpose_block(const block *b, int width)
{
    switch (width) {
    case 1: transpose_tiles(b, 1); break;
    case 2: transpose_tiles(b, 2); break;
    case 4: transpose_tiles(b, 4); break;
    case 8: transpose_tiles(b, 8); break;
    default: copy_strided(b, 16); break;
    }
}

/* The same by way of scratch. Rows of a large output lie pages apart: written directly, each line
 * would be read first, and those of one block compete for the same few sets of the cache. */
static void transpose_streamed(const block *b, int width, char *scratch)
{
    block inner = *b;
    inner.to = scratch;
    inner.to_row = TW_COPY_SCRATCH_ROW;
    transpose_block(&inner, width);
    for (int64_t r = 0; r < b->rows; r++)
        tw_stream_copy(b->to + r * b->to_row, scratch + r * TW_COPY_SCRATCH_ROW, b->cols * width);
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* Block `number` of a job, counted over the outer dims and then the grid. */
TW_INLINE block find_block(const tw_copy_job *job, int64_t number, char *to, const char *from,
                           int64_t width)
{
    int32_t d = job->rank - 1;
    int64_t to_offset = job->to_offset, from_offset = job->from_offset, size[2];
    for (int i = 1; i >= 0; i--, d--) {
        int64_t first = number % job->grid[i] * job->block[i], rest = job->dims[d] - first;
        number /= job->grid[i];
        size[i] = rest < job->block[i] ? rest : job->block[i];
        to_offset += first * job->to[d];
        from_offset += first * job->from[d];
    }
    for (; d >= 0; d--) {
        int64_t at = number % job->dims[d];
        number /= job->dims[d];
        to_offset += at * job->to[d];
        from_offset += at * job->from[d];
    }
    d = job->rank - 2;
    return (block){.to = to + to_offset * width,
                   .from = from + from_offset * width,
                   .rows = size[0],
                   .cols = size[1],
                   .to_row = job->to[d] * width,
                   .to_col = job->to[d + 1] * width,
                   .from_row = job->from[d] * width,
                   .from_col = job->from[d + 1] * width};
}

typedef struct copy_task {
    const tw_launch *launch;
    const tw_copy_plan *plan;
    int32_t first, last; /* jobs */
    int64_t first_item;
} copy_task;

static const tw_copy_job *find_job(const copy_task *task, int64_t item)
{
    int32_t low = task->first, high = task->last;
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (task->plan->jobs[middle].first_item <= item)
            low = middle;
        else
            high = middle;
    }
    return &task->plan->jobs[low];
}

static void copy_item(void *arg, int32_t slot, int64_t item)
{
    const copy_task *task = arg;
    const tw_copy_plan *plan = task->plan;
    const tw_copy_job *job = find_job(task, item + task->first_item);
    int64_t first = (item + task->first_item - job->first_item) * job->blocks_per_item;
    int64_t last = first + job->blocks_per_item;
    char *to = task->launch->out[0];
    const char *from = job->input < 0 ? (const char *)plan->fill : task->launch->in[job->input];
    char *scratch = job->streamed ? (char *)task->launch->workspace : NULL;
    if (job->streamed) scratch += slot * (int64_t)TW_COPY_SCRATCH;
    if (last > job->blocks) last = job->blocks;
    for (int64_t number = first; number < last; number++) {
        block b = find_block(job, number, to, from, plan->width);
        switch (job->kind) {
        case TW_COPY_ROWS: copy_rows(&b, plan->width); break;
        case TW_COPY_FILL: fill_rows(&b, plan->width); break;
        case TW_COPY_TRANSPOSE:
            if (job->streamed)
                transpose_streamed(&b, plan->width, scratch);
            else
                transpose_block(&b, plan->width);
            break;
        case TW_COPY_STRIDED: copy_elements(&b, plan->width); break;
        }
    }
    if (job->streamed) tw_stream_fence();
}

static void run_jobs(const tw_launch *launch, int32_t first, int32_t last)
{
    const tw_copy_plan *plan = launch->state;
    copy_task task = {launch, plan, first, last, tw_copy_items(plan, first)};
    int64_t items = tw_copy_items(plan, last) - task.first_item;
    bool small = plan->bytes <= 65536;
    tw_parallel(small ? NULL : launch->context, launch->problem->max_threads, items, copy_item,
                &task);
}

static tw_status run_copy(const tw_launch *launch)
{
    const tw_copy_plan *plan = launch->state;
    if (plan->first_phase > 0) run_jobs(launch, 0, plan->first_phase);
    if (plan->n_jobs > plan->first_phase) run_jobs(launch, plan->first_phase, plan->n_jobs);
    return TW_OK;
}

#define LAYOUT_KERNEL(op)                                                                          \
    const tw_kernel_impl TW_SYMBOL(tw_layout_##op##_any) = {                                       \
        .supports = tw_copy_refuses, .prepare = tw_copy_prepare, .run = run_copy};

LAYOUT_KERNEL(reshape)
LAYOUT_KERNEL(transpose)
LAYOUT_KERNEL(expand)
LAYOUT_KERNEL(slice)
LAYOUT_KERNEL(slice_backward)
LAYOUT_KERNEL(concat)
LAYOUT_KERNEL(pad)
