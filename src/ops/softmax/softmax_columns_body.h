/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax of many lines side by side, as over the channels of an image: vectors run across lines,
 * with the statistics of a block of lines in small arrays. Included after softmax_rows_body.h. */
#ifndef TW_OPS_SOFTMAX_SOFTMAX_COLUMNS_BODY_H
#define TW_OPS_SOFTMAX_SOFTMAX_COLUMNS_BODY_H

#include "ops/softmax/softmax_rows_body.h"

/* Sums of this many terms are held in f32; their sums in another f32. */
enum { SOFTMAX_DEPTH = 32 };

typedef struct softmax_columns {
    const softmax_job *job;
    int64_t start[3];
    int width;
    float top[TW_SOFTMAX_COLUMNS];  /* maxima */
    float near[TW_SOFTMAX_COLUMNS]; /* sums of the rows since the last flush */
    float sum[TW_SOFTMAX_COLUMNS];
    float buffer[3][TW_SOFTMAX_COLUMNS];
} softmax_columns;

/* Row `r` of an operand. The rows of all operands are contiguous. */
static const float *columns_row(softmax_columns *c, int operand, int64_t r)
{
    const tw_softmax_split *s = c->job->split;
    return line_read(&c->job->view[operand], c->start[operand] + r * s->step[operand], c->width,
                     c->buffer[operand]);
}

static float *columns_target(softmax_columns *c, int operand, int64_t r)
{
    const tw_softmax_split *s = c->job->split;
    return line_target(&c->job->view[operand], c->start[operand] + r * s->step[operand],
                       c->buffer[operand]);
}

static void columns_write(softmax_columns *c, int operand, int64_t r, const float *row)
{
    const tw_softmax_split *s = c->job->split;
    line_write(&c->job->view[operand], c->start[operand] + r * s->step[operand], c->width, row);
}

static void columns_flush_sums(softmax_columns *c)
{
    for (int i = 0; i < c->width; i += VLANES) {
        int m = c->width - i < VLANES ? c->width - i : VLANES;
        line_store(c->sum + i, vf_add(line_load(c->sum + i, m), line_load(c->near + i, m)), m);
        line_store(c->near + i, vf_zero(), m);
    }
}

static void columns_maxima(softmax_columns *c)
{
    for (int i = 0; i < c->width; i++) c->top[i] = -INFINITY;
    for (int64_t r = 0; r < c->job->split->length; r++) {
        const float *x = columns_row(c, 0, r);
        for (int i = 0; i < c->width; i += VLANES) {
            int m = c->width - i < VLANES ? c->width - i : VLANES;
            line_store(c->top + i, vf_max(line_load(c->top + i, m), line_load(x + i, m)), m);
        }
    }
}

/* Sums of exp(x - top); `keep`: the terms go to y. An infinite maximum gives a NaN among them. */
static void columns_sums(softmax_columns *c, bool keep)
{
    memset(c->near, 0, sizeof c->near);
    memset(c->sum, 0, sizeof c->sum);
    for (int64_t r = 0; r < c->job->split->length; r++) {
        const float *x = columns_row(c, 0, r);
        float *y = keep ? columns_target(c, 1, r) : NULL;
        for (int i = 0; i < c->width; i += VLANES) {
            int m = c->width - i < VLANES ? c->width - i : VLANES;
            vf e = vf_exp(vf_sub(line_load(x + i, m), line_load(c->top + i, m)));
            line_store(c->near + i, vf_add(line_load(c->near + i, m), e), m);
            if (keep) line_store(y + i, e, m);
        }
        if (r % SOFTMAX_DEPTH == SOFTMAX_DEPTH - 1) columns_flush_sums(c);
    }
    columns_flush_sums(c);
}

/* What the last pass multiplies by, or with log subtracts. */
static void columns_factors(softmax_columns *c)
{
    for (int i = 0; i < c->width; i += VLANES) {
        int m = c->width - i < VLANES ? c->width - i : VLANES;
        vf sum = line_load(c->sum + i, m);
        line_store(c->sum + i, c->job->is_log ? vf_log(sum) : vf_div(vf_set(1), sum), m);
    }
}

static void columns_forward(softmax_columns *c)
{
    bool is_log = c->job->is_log, keep = !is_log && c->job->view[1].type == TW_F32;
    columns_maxima(c);
    columns_sums(c, keep);
    columns_factors(c);
    for (int64_t r = 0; r < c->job->split->length; r++) {
        const float *x = keep ? columns_target(c, 1, r) : columns_row(c, 0, r);
        float *y = columns_target(c, 1, r);
        for (int i = 0; i < c->width; i += VLANES) {
            int m = c->width - i < VLANES ? c->width - i : VLANES;
            vf v = line_load(x + i, m), factor = line_load(c->sum + i, m);
            if (!keep) v = vf_sub(v, line_load(c->top + i, m));
            if (!keep && !is_log) v = vf_exp(v);
            line_store(y + i, is_log ? vf_sub(v, factor) : vf_mul(v, factor), m);
        }
        columns_write(c, 1, r, y);
    }
}

static void columns_backward(softmax_columns *c)
{
    bool is_log = c->job->is_log;
    memset(c->near, 0, sizeof c->near);
    memset(c->sum, 0, sizeof c->sum);
    for (int64_t r = 0; r < c->job->split->length; r++) {
        const float *y = columns_row(c, 0, r), *dy = columns_row(c, 1, r);
        for (int i = 0; i < c->width; i += VLANES) {
            int m = c->width - i < VLANES ? c->width - i : VLANES;
            vf g = line_load(dy + i, m), near = line_load(c->near + i, m);
            vf_store_n(c->near + i, is_log ? vf_add(near, g) : vf_fma(line_load(y + i, m), g, near),
                       m);
        }
        if (r % SOFTMAX_DEPTH == SOFTMAX_DEPTH - 1) columns_flush_sums(c);
    }
    columns_flush_sums(c);
    for (int64_t r = 0; r < c->job->split->length; r++) {
        const float *y = columns_row(c, 0, r), *dy = columns_row(c, 1, r);
        float *dx = columns_target(c, 2, r);
        for (int i = 0; i < c->width; i += VLANES) {
            int m = c->width - i < VLANES ? c->width - i : VLANES;
            vf slope = softmax_slope(is_log, line_load(y + i, m), line_load(dy + i, m),
                                     line_load(c->sum + i, m));
            line_store(dx + i, slope, m);
        }
        columns_write(c, 2, r, dx);
    }
}

static void softmax_columns_task(void *arg, int32_t slot, int64_t item)
{
    const softmax_job *job = arg;
    const tw_softmax_split *s = job->split;
    int64_t first = item % s->blocks * s->width, left = s->columns - first;
    softmax_columns c = {.job = job, .width = (int)(left < s->width ? left : s->width)};
    (void)slot;
    for (int32_t v = 0; v < 3; v++)
        c.start[v] = tw_group_offset(&s->kept, v, item / s->blocks) + first;
    if (job->line == softmax_backward_line)
        columns_backward(&c);
    else
        columns_forward(&c);
}

static tw_status softmax_columns_run(const tw_launch *launch)
{
    softmax_job job = softmax_job_of(launch);
    for (int32_t v = 0; v < 3; v++) job.view[v].stride = 1; /* of the columns */
    tw_parallel(launch->context, launch->problem->max_threads,
                job.split->kept.count * job.split->blocks, softmax_columns_task, &job);
    return TW_OK;
}

extern const tw_kernel_impl TW_SYMBOL(tw_softmax_columns_f32_f16_bf16);
const tw_kernel_impl TW_SYMBOL(tw_softmax_columns_f32_f16_bf16) = {
    .supports = tw_softmax_columns_refuse,
    .prepare = tw_softmax_columns_prepare,
    .run = softmax_columns_run,
    .in_place = 1};

extern const tw_kernel_impl TW_SYMBOL(tw_softmax_columnsbwd_f32_f16_bf16);
const tw_kernel_impl TW_SYMBOL(tw_softmax_columnsbwd_f32_f16_bf16) = {
    .supports = tw_softmax_columns_refuse,
    .prepare = tw_softmax_columns_prepare,
    .run = softmax_columns_run,
    .in_place = 3};

#endif
