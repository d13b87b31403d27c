/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions along stretches of memory; see reduce_split.h for how they are cut. */
#ifndef TW_OPS_REDUCE_REDUCE_ROWS_BODY_H
#define TW_OPS_REDUCE_REDUCE_ROWS_BODY_H

#include "ops/reduce/line_body.h"
#include "ops/reduce/reduce_split.h"
#include "runtime/cpu/parallel.h"

typedef struct rows_job {
    const tw_reduce_rows *split;
    const tw_reduce_attrs *attrs;
    line_view x;
    tw_dtype y_type;
    void *y;
    tw_reduce_part first;  /* what a set starts from */
    tw_reduce_part *parts; /* [outputs][chunks], or NULL */
} rows_job;

/* The first (or last) element equal to `value`; the first NaN if that is NaN. It is there. */
static int rows_find(const float *p, int n, float value, bool last)
{
    bool nan = isnan(value);
    vf wanted = vf_set(value);
    int found = 0;
    for (int i = 0; i < n; i += VLANES) {
        int m = n - i < VLANES ? n - i : VLANES;
        vf v = line_load(p + i, m);
        uint32_t bits = vm_bits(vm_and(nan ? vf_isnan(v) : vf_eq(v, wanted), vm_first(m)));
        if (bits == 0) continue;
        if (nan || !last) return i + __builtin_ctz(bits);
        found = i + 31 - __builtin_clz(bits);
    }
    return found;
}

static void rows_arg_block(const tw_reduce_attrs *attrs, const float *p, int n, int64_t index,
                           tw_reduce_part *part)
{
    bool least = attrs->mode == TW_REDUCE_ARGMIN;
    float best = least ? line_fold_block(FOLD_MIN, p, n) : line_fold_block(FOLD_MAX, p, n);
    double held = part->value;
    if (part->index >= 0) {
        bool better = isnan(best) || (least ? (double)best < held : (double)best > held) ||
                      (attrs->last_index && (double)best == held);
        if (isnan(held) || !better) return;
    }
    part->value = (double)best;
    part->index = index + rows_find(p, n, best, attrs->last_index);
}

static void rows_log_sum_exp_block(const tw_reduce_attrs *attrs, const float *p, int n,
                                   tw_reduce_part *part)
{
    float top = line_fold_block(FOLD_MAX, p, n);
    tw_reduce_part next = {.value = (double)top};
    if (isfinite(top)) next.extra = (double)line_sum_exp(p, n, top, NULL);
    tw_reduce_part_merge(attrs, part, &next);
}

static void rows_block(const tw_reduce_attrs *attrs, const float *p, int n, int64_t index,
                       tw_reduce_part *part)
{
    double value = part->value;
    switch (attrs->mode) {
    case TW_REDUCE_ARGMAX:
    case TW_REDUCE_ARGMIN: rows_arg_block(attrs, p, n, index, part); return;
    case TW_REDUCE_LOG_SUM_EXP: rows_log_sum_exp_block(attrs, p, n, part); return;
    case TW_REDUCE_MAX: value = (double)line_fold_block(FOLD_MAX, p, n); break;
    case TW_REDUCE_MIN: value = (double)line_fold_block(FOLD_MIN, p, n); break;
    case TW_REDUCE_AMAX: value = (double)line_fold_block(FOLD_MAX_ABS, p, n); break;
    case TW_REDUCE_L1: part->value += (double)line_fold_block(FOLD_SUM_ABS, p, n); return;
    case TW_REDUCE_L2:
    case TW_REDUCE_SUM_SQUARE: part->value += line_sum_square(p, n); return;
    default: part->value += (double)line_fold_block(FOLD_SUM, p, n); return;
    }
    bool better = attrs->mode == TW_REDUCE_MIN ? value < part->value : value > part->value;
    if (better || isnan(value)) part->value = value;
}

/* Segments [begin, end) of one output, counted over all of its stretches. */
static tw_reduce_part rows_segments(const rows_job *job, int64_t start, int64_t begin, int64_t end)
{
    const tw_reduce_rows *s = job->split;
    tw_reduce_part part = job->first;
    float buffer[LINE_BLOCK];
    for (int64_t g = begin; g < end; g++) {
        int64_t stretch = g / s->segments, from = g % s->segments * TW_REDUCE_SEGMENT;
        int64_t left = s->length - from;
        if (left > TW_REDUCE_SEGMENT) left = TW_REDUCE_SEGMENT;
        int64_t at = start + tw_group_offset(&s->lines.along, 0, stretch) + from * s->step;
        int64_t index = stretch * s->length + from;
        while (left > 0) {
            int n = left < LINE_BLOCK ? (int)left : LINE_BLOCK;
            rows_block(job->attrs, line_read(&job->x, at, n, buffer), n, index, &part);
            at += n * s->step;
            index += n;
            left -= n;
        }
    }
    return part;
}

static int64_t rows_all_segments(const tw_reduce_rows *s)
{
    return s->segments * s->lines.along.count;
}

static tw_reduce_part rows_chunk(const rows_job *job, int64_t start, int64_t chunk)
{
    const tw_reduce_rows *s = job->split;
    int64_t begin = chunk * s->per_chunk, end = begin + s->per_chunk, all = rows_all_segments(s);
    return rows_segments(job, start, begin, end < all ? end : all);
}

static void rows_store(const rows_job *job, const tw_reduce_part *part, int64_t offset)
{
    const tw_reduce_rows *s = job->split;
    tw_reduce_mode mode = job->attrs->mode;
    bool plain = mode == TW_REDUCE_SUM || mode == TW_REDUCE_MAX || mode == TW_REDUCE_MIN;
    if (plain && job->y_type == TW_F32)
        ((float *)job->y)[offset] = (float)part->value;
    else
        tw_reduce_part_store(job->attrs, part, s->length * s->lines.along.count, job->y_type,
                             job->y, offset);
}

/* One output, chunk after chunk. */
static void rows_output(const rows_job *job, int64_t x_start, int64_t y_offset)
{
    const tw_reduce_rows *s = job->split;
    tw_reduce_part part = rows_chunk(job, x_start, 0);
    for (int64_t c = 1; c < s->chunks; c++) {
        tw_reduce_part next = rows_chunk(job, x_start, c);
        tw_reduce_part_merge(job->attrs, &part, &next);
    }
    rows_store(job, &part, y_offset);
}

/* The same for a set that is one block: no chunks, no segments. */
static void rows_single(const rows_job *job, int64_t x_start, int64_t y_offset)
{
    float buffer[LINE_BLOCK];
    int n = (int)job->split->length;
    tw_reduce_part part = job->first;
    rows_block(job->attrs, line_read(&job->x, x_start, n, buffer), n, 0, &part);
    rows_store(job, &part, y_offset);
}

static void rows_outputs_task(void *arg, int32_t slot, int64_t item)
{
    const rows_job *job = arg;
    const tw_reduce_rows *s = job->split;
    int64_t begin = item * s->per_item, end = begin + s->per_item;
    (void)slot;
    if (end > s->outputs) end = s->outputs;
    bool single = rows_all_segments(s) == 1 && s->length <= LINE_BLOCK;
    for (int64_t o = begin; o < end; o++) {
        int64_t x_start = tw_group_offset(&s->lines.kept, 0, o);
        int64_t y_offset = tw_group_offset(&s->lines.kept, 1, o);
        if (single)
            rows_single(job, x_start, y_offset);
        else
            rows_output(job, x_start, y_offset);
    }
}

static void rows_chunk_task(void *arg, int32_t slot, int64_t item)
{
    const rows_job *job = arg;
    int64_t start = tw_group_offset(&job->split->lines.kept, 0, item / job->split->chunks);
    (void)slot;
    job->parts[item] = rows_chunk(job, start, item % job->split->chunks);
}

static void rows_join(const rows_job *job)
{
    const tw_reduce_rows *s = job->split;
    for (int64_t o = 0; o < s->outputs; o++) {
        tw_reduce_part part = job->parts[o * s->chunks];
        for (int64_t c = 1; c < s->chunks; c++)
            tw_reduce_part_merge(job->attrs, &part, &job->parts[o * s->chunks + c]);
        rows_store(job, &part, tw_group_offset(&s->lines.kept, 1, o));
    }
}

static tw_status rows_run(const tw_launch *launch)
{
    const tw_problem *p = launch->problem;
    const tw_reduce_rows *s = launch->state;
    int32_t slots = p->max_threads;
    rows_job job = {.split = s,
                    .attrs = &p->attrs->reduce,
                    .x = {p->in[0].dtype, launch->in[0], s->step},
                    .y_type = p->out[0].dtype,
                    .y = launch->out[0],
                    .first = tw_reduce_part_begin(p->attrs->reduce.mode)};
    int64_t bytes = s->outputs * s->chunks * (int64_t)sizeof(tw_reduce_part);
    if (s->chunks > 1 && bytes <= p->workspace_limit) {
        job.parts = launch->workspace;
        tw_parallel(launch->context, slots, s->outputs * s->chunks, rows_chunk_task, &job);
        rows_join(&job);
    } else {
        int64_t items = (s->outputs + s->per_item - 1) / s->per_item;
        tw_parallel(launch->context, slots, items, rows_outputs_task, &job);
    }
    return TW_OK;
}

extern const tw_kernel_impl TW_SYMBOL(tw_reduce_rows_f32_f16_bf16);
const tw_kernel_impl TW_SYMBOL(tw_reduce_rows_f32_f16_bf16) = {
    .supports = tw_reduce_rows_refuse, .prepare = tw_reduce_rows_prepare, .run = rows_run};

#endif
