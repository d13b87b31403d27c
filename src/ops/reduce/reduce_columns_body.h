/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions across rows, vectors running along a kept dim; see reduce_split.h. */
#ifndef TW_OPS_REDUCE_REDUCE_COLUMNS_BODY_H
#define TW_OPS_REDUCE_REDUCE_COLUMNS_BODY_H

#include "ops/reduce/line_body.h"
#include "ops/reduce/reduce_split.h"
#include "runtime/cpu/parallel.h"

typedef struct columns_job {
    const tw_reduce_columns *split;
    const tw_reduce_attrs *attrs;
    line_fold fold;
    bool squares;
    line_view x;
    tw_dtype y_type;
    void *y;
    double *parts; /* [kept][chunks][columns], or NULL */
} columns_job;

/* Sums of up to COLUMNS_DEPTH rows are held in f32; from there they go to double. Extremes stay. */
enum { COLUMNS_DEPTH = 64 };

typedef struct columns_acc {
    int width, pending; /* columns; rows in `near` */
    float near[TW_REDUCE_COLUMNS];
    double far[TW_REDUCE_COLUMNS];
    float rows[4][TW_REDUCE_COLUMNS]; /* for elements that are not f32 */
} columns_acc;

TW_INLINE void columns_fold(line_fold fold, columns_acc *a, const float *const row[4], int width)
{
    int i = 0;
    for (; i + VLANES <= width; i += VLANES) {
        vf low = fold_in(fold, fold_first(fold, vf_load(row[0] + i)), vf_load(row[1] + i));
        vf high = fold_in(fold, fold_first(fold, vf_load(row[2] + i)), vf_load(row[3] + i));
        vf_store(a->near + i, fold_join(fold, vf_load(a->near + i), fold_join(fold, low, high)));
    }
    int m = width - i;
    if (m == 0) return;
    vf acc = line_load(a->near + i, m);
    for (int r = 0; r < 4; r++) acc = fold_in(fold, acc, line_load(row[r] + i, m));
    line_store(a->near + i, acc, m);
}

TW_INLINE void columns_fold_one(line_fold fold, columns_acc *a, const float *row, int width)
{
    for (int i = 0; i < width; i += VLANES) {
        int m = width - i < VLANES ? width - i : VLANES;
        vf acc = line_load(a->near + i, m);
        line_store(a->near + i, fold_in(fold, acc, line_load(row + i, m)), m);
    }
}

static void columns_square(columns_acc *a, const float *row, int width)
{
    for (int i = 0; i < width; i++) a->far[i] += (double)row[i] * (double)row[i];
}

static float columns_identity(line_fold fold)
{
    return fold == FOLD_MAX ? -INFINITY : fold == FOLD_MIN ? INFINITY : 0.0f;
}

static void columns_begin(const columns_job *job, columns_acc *a, int width)
{
    a->width = width;
    a->pending = 0;
    for (int i = 0; i < width; i++) {
        a->near[i] = columns_identity(job->fold);
        a->far[i] = (double)columns_identity(job->fold);
    }
}

static void columns_flush(const columns_job *job, columns_acc *a)
{
    bool sums = job->fold == FOLD_SUM || job->fold == FOLD_SUM_ABS;
    a->pending = 0;
    if (job->squares) return;
    for (int i = 0; i < a->width; i++) {
        a->far[i] = sums ? a->far[i] + (double)a->near[i] : (double)a->near[i];
        if (sums) a->near[i] = 0;
    }
}

/* `count` rows of `width` elements, `step` apart. */
typedef struct columns_stretch {
    int64_t offset, step, count;
    int width;
} columns_stretch;

/* The next n rows of a run: 4 or 1. */
TW_INLINE void columns_step(line_fold fold, const columns_job *job, columns_acc *a,
                            const columns_stretch *run, int n)
{
    const float *row[4];
    for (int r = 0; r < n; r++)
        row[r] = line_read(&job->x, run->offset + r * run->step, run->width, a->rows[r]);
    if (job->squares) {
        for (int r = 0; r < n; r++) columns_square(a, row[r], run->width);
    } else if (n == 4) {
        columns_fold(fold, a, row, run->width);
    } else {
        columns_fold_one(fold, a, row[0], run->width);
    }
}

TW_INLINE void columns_take(line_fold fold, const columns_job *job, columns_acc *a,
                            columns_stretch run)
{
    while (run.count > 0) {
        int n = run.count >= 4 ? 4 : 1;
        columns_step(fold, job, a, &run, n);
        run.offset += n * run.step;
        run.count -= n;
        a->pending += n;
        if (a->pending >= COLUMNS_DEPTH) columns_flush(job, a);
    }
}

static void columns_rows(const columns_job *job, columns_acc *a, columns_stretch run)
{
    switch (job->fold) {
    case FOLD_SUM: columns_take(FOLD_SUM, job, a, run); break;
    case FOLD_SUM_ABS: columns_take(FOLD_SUM_ABS, job, a, run); break;
    case FOLD_MAX: columns_take(FOLD_MAX, job, a, run); break;
    case FOLD_MIN: columns_take(FOLD_MIN, job, a, run); break;
    default: columns_take(FOLD_MAX_ABS, job, a, run); break;
    }
}

static double columns_join(const columns_job *job, double a, double b)
{
    if (isnan(a)) return a;
    switch (job->fold) {
    case FOLD_MAX:
    case FOLD_MAX_ABS: return b > a || isnan(b) ? b : a;
    case FOLD_MIN: return b < a || isnan(b) ? b : a;
    default: return a + b;
    }
}

/* Wide rows [begin, end) of one block of `columns` columns at `start`; the result is in a->far. */
static void columns_chunk(const columns_job *job, columns_acc *a, int64_t start, int columns,
                          int64_t chunk)
{
    const tw_reduce_columns *s = job->split;
    int64_t all = s->wide_rows * s->lines.along.count, row = chunk * s->per_chunk;
    int64_t end = row + s->per_chunk < all ? row + s->per_chunk : all;
    int fold = (int)s->fold, left = (int)(s->rows % s->fold);
    columns_begin(job, a, fold * columns);
    while (row < end) {
        int64_t in_run = row % s->wide_rows, whole = s->rows / s->fold - in_run;
        int64_t at = start + tw_group_offset(&s->lines.along, 0, row / s->wide_rows) +
                     in_run * fold * s->row_step;
        if (whole > end - row) whole = end - row;
        if (whole > 0) {
            columns_rows(job, a, (columns_stretch){at, fold * s->row_step, whole, fold * columns});
            row += whole;
        } else {
            columns_rows(job, a, (columns_stretch){at, 0, 1, left * columns});
            row++;
        }
    }
    columns_flush(job, a);
    for (int f = 1; f < fold; f++)
        for (int c = 0; c < columns; c++)
            a->far[c] = columns_join(job, a->far[c], a->far[f * columns + c]);
}

typedef struct columns_place {
    int64_t x, y; /* offsets of the block's first column */
    int64_t kept, first;
    int columns;
} columns_place;

static columns_place columns_at(const columns_job *job, int64_t block)
{
    const tw_reduce_columns *s = job->split;
    columns_place at = {.kept = block / s->blocks, .first = block % s->blocks * TW_REDUCE_COLUMNS};
    int64_t left = s->columns - at.first;
    at.columns = left < TW_REDUCE_COLUMNS ? (int)left : TW_REDUCE_COLUMNS;
    at.x = tw_group_offset(&s->lines.kept, 0, at.kept) + at.first;
    at.y = tw_group_offset(&s->lines.kept, 1, at.kept) + at.first * s->y_step;
    return at;
}

static void columns_store(const columns_job *job, const columns_place *at, const double *values)
{
    const tw_reduce_columns *s = job->split;
    int64_t count = s->rows * s->lines.along.count;
    for (int c = 0; c < at->columns; c++) {
        tw_reduce_part part = {.value = values[c]};
        tw_reduce_part_store(job->attrs, &part, count, job->y_type, job->y, at->y + c * s->y_step);
    }
}

static double *columns_parts(const columns_job *job, const columns_place *at, int64_t chunk)
{
    const tw_reduce_columns *s = job->split;
    return job->parts + (at->kept * s->chunks + chunk) * s->columns + at->first;
}

static void columns_part_task(void *arg, int32_t slot, int64_t item)
{
    const columns_job *job = arg;
    columns_place at = columns_at(job, item / job->split->chunks);
    int64_t chunk = item % job->split->chunks;
    columns_acc acc;
    (void)slot;
    columns_chunk(job, &acc, at.x, at.columns, chunk);
    memcpy(columns_parts(job, &at, chunk), acc.far, sizeof(double) * (size_t)at.columns);
}

/* A block of outputs: from the parts, or chunk after chunk where there was no room for them. */
static void columns_block_task(void *arg, int32_t slot, int64_t item)
{
    const columns_job *job = arg;
    columns_place at = columns_at(job, item);
    double total[TW_REDUCE_COLUMNS];
    columns_acc acc;
    (void)slot;
    for (int64_t chunk = 0; chunk < job->split->chunks; chunk++) {
        const double *part = acc.far;
        if (job->parts)
            part = columns_parts(job, &at, chunk);
        else
            columns_chunk(job, &acc, at.x, at.columns, chunk);
        for (int c = 0; c < at.columns; c++)
            total[c] = chunk == 0 ? part[c] : columns_join(job, total[c], part[c]);
    }
    columns_store(job, &at, total);
}

static line_fold columns_fold_of(tw_reduce_mode mode)
{
    switch (mode) {
    case TW_REDUCE_MAX: return FOLD_MAX;
    case TW_REDUCE_MIN: return FOLD_MIN;
    case TW_REDUCE_AMAX: return FOLD_MAX_ABS;
    case TW_REDUCE_L1: return FOLD_SUM_ABS;
    default: return FOLD_SUM;
    }
}

static tw_status columns_run(const tw_launch *launch)
{
    const tw_problem *p = launch->problem;
    const tw_reduce_columns *s = launch->state;
    const tw_reduce_attrs *attrs = &p->attrs->reduce;
    columns_job job = {.split = s,
                       .attrs = attrs,
                       .fold = columns_fold_of(attrs->mode),
                       .squares =
                           attrs->mode == TW_REDUCE_L2 || attrs->mode == TW_REDUCE_SUM_SQUARE,
                       .x = {p->in[0].dtype, launch->in[0], 1},
                       .y_type = p->out[0].dtype,
                       .y = launch->out[0]};
    int64_t blocks = s->lines.kept.count * s->blocks;
    int64_t bytes = s->lines.kept.count * s->columns * s->chunks * (int64_t)sizeof(double);
    if (s->chunks > 1 && bytes <= p->workspace_limit) {
        job.parts = launch->workspace;
        tw_parallel(launch->context, p->max_threads, blocks * s->chunks, columns_part_task, &job);
    }
    tw_parallel(launch->context, p->max_threads, blocks, columns_block_task, &job);
    return TW_OK;
}

extern const tw_kernel_impl TW_SYMBOL(tw_reduce_columns_f32_f16_bf16);
const tw_kernel_impl TW_SYMBOL(tw_reduce_columns_f32_f16_bf16) = {
    .supports = tw_reduce_columns_refuse, .prepare = tw_reduce_columns_prepare, .run = columns_run};

#endif
