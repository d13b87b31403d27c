/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax along lines, one after the other: maximum, sum of exponentials, scale. */
#ifndef TW_OPS_SOFTMAX_SOFTMAX_ROWS_BODY_H
#define TW_OPS_SOFTMAX_SOFTMAX_ROWS_BODY_H

#include "ops/reduce/line_body.h"
#include "ops/softmax/softmax_split.h"
#include "runtime/cpu/parallel.h"

typedef struct softmax_job {
    const tw_softmax_split *split;
    bool is_log;
    line_view view[3]; /* x, y; or y, dy, dx */
    void (*line)(const struct softmax_job *job, const int64_t start[3]);
} softmax_job;

static inline int softmax_block(int64_t left) { return left < LINE_BLOCK ? (int)left : LINE_BLOCK; }

static float softmax_max(const softmax_job *job, int64_t start)
{
    float buffer[LINE_BLOCK], top = -INFINITY;
    for (int64_t i = 0, left = job->split->length; left > 0; i += LINE_BLOCK, left -= LINE_BLOCK) {
        int n = softmax_block(left);
        const float *x = line_read(&job->view[0], start + i * job->view[0].stride, n, buffer);
        float block = line_fold_block(FOLD_MAX, x, n);
        if (isnan(block)) return block;
        if (block > top) top = block;
    }
    return top;
}

/* p[i] = p[i]·scale */
static void softmax_scale(float *p, int n, float scale)
{
    vf s = vf_set(scale);
    int i = 0;
    for (; i + VLANES <= n; i += VLANES) vf_store(p + i, vf_mul(vf_load(p + i), s));
    if (i < n) vf_store_n(p + i, vf_mul(vf_load_n(p + i, n - i), s), n - i);
}

/* to[i] = exp(x[i] - top)·factor, or with log x[i] - top - factor */
static void softmax_finish(bool is_log, const float *x, int n, float top, float factor, float *to)
{
    vf shift = vf_set(top), f = vf_set(factor);
    for (int i = 0; i < n; i += VLANES) {
        int m = n - i < VLANES ? n - i : VLANES;
        vf d = vf_sub(line_load(x + i, m), shift);
        line_store(to + i, is_log ? vf_sub(d, f) : vf_mul(vf_exp(d), f), m);
    }
}

/* A line whose terms can be kept: in y itself, or in a buffer if it is one block. A maximum that is
 * not finite makes the whole line NaN. */
static void softmax_line(const softmax_job *job, const int64_t start[3])
{
    const line_view *xs = &job->view[0], *ys = &job->view[1];
    int64_t length = job->split->length;
    float x_buffer[LINE_BLOCK], y_buffer[LINE_BLOCK];
    bool kept = !job->is_log && (length <= LINE_BLOCK || line_target(ys, 0, NULL) != NULL);
    float top = softmax_max(job, start[0]);
    double sum = (double)NAN;
    if (isfinite(top)) sum = 0;
    for (int64_t i = 0, left = length; left > 0; i += LINE_BLOCK, left -= LINE_BLOCK) {
        int n = softmax_block(left);
        const float *x = line_read(xs, start[0] + i * xs->stride, n, x_buffer);
        float *terms = kept ? line_target(ys, start[1] + i * ys->stride, y_buffer) : NULL;
        sum += (double)line_sum_exp(x, n, top, terms);
    }
    float factor = job->is_log ? (float)log(sum) : (float)(1 / sum);
    for (int64_t i = 0, left = length; left > 0; i += LINE_BLOCK, left -= LINE_BLOCK) {
        int n = softmax_block(left);
        int64_t y_offset = start[1] + i * ys->stride;
        float *to = line_target(ys, y_offset, y_buffer);
        if (kept) {
            softmax_scale(to, n, factor);
        } else {
            const float *x = line_read(xs, start[0] + i * xs->stride, n, x_buffer);
            softmax_finish(job->is_log, x, n, top, factor, to);
        }
        line_write(ys, y_offset, n, to);
    }
}

static float softmax_dot(const float *a, const float *b, int n)
{
    vf s = vf_zero(), t = vf_zero();
    int i = 0;
    for (; i + 2 * VLANES <= n; i += 2 * VLANES) {
        s = vf_fma(vf_load(a + i), vf_load(b + i), s);
        t = vf_fma(vf_load(a + i + VLANES), vf_load(b + i + VLANES), t);
    }
    for (; i < n; i += VLANES) {
        int m = n - i < VLANES ? n - i : VLANES;
        s = vf_fma(line_load(a + i, m), line_load(b + i, m), s);
    }
    return vf_sum(vf_add(s, t));
}

/* dx = y·(dy - sum), or with log dy - exp(y)·sum */
TW_INLINE vf softmax_slope(bool is_log, vf y, vf dy, vf sum)
{
    return is_log ? vf_fnma(vf_exp(y), sum, dy) : vf_mul(y, vf_sub(dy, sum));
}

static void softmax_backward_line(const softmax_job *job, const int64_t start[3])
{
    const line_view *ys = &job->view[0], *dys = &job->view[1], *dxs = &job->view[2];
    float y_buffer[LINE_BLOCK], dy_buffer[LINE_BLOCK], dx_buffer[LINE_BLOCK];
    double sum = 0;
    for (int64_t i = 0, left = job->split->length; left > 0; i += LINE_BLOCK, left -= LINE_BLOCK) {
        int n = softmax_block(left);
        const float *dy = line_read(dys, start[1] + i * dys->stride, n, dy_buffer);
        if (job->is_log) {
            sum += (double)line_fold_block(FOLD_SUM, dy, n);
        } else {
            const float *y = line_read(ys, start[0] + i * ys->stride, n, y_buffer);
            sum += (double)softmax_dot(y, dy, n);
        }
    }
    vf s = vf_set((float)sum);
    for (int64_t i = 0, left = job->split->length; left > 0; i += LINE_BLOCK, left -= LINE_BLOCK) {
        int n = softmax_block(left);
        const float *y = line_read(ys, start[0] + i * ys->stride, n, y_buffer);
        const float *dy = line_read(dys, start[1] + i * dys->stride, n, dy_buffer);
        float *dx = line_target(dxs, start[2] + i * dxs->stride, dx_buffer);
        for (int j = 0; j < n; j += VLANES) {
            int m = n - j < VLANES ? n - j : VLANES;
            vf slope = softmax_slope(job->is_log, line_load(y + j, m), line_load(dy + j, m), s);
            line_store(dx + j, slope, m);
        }
        line_write(dxs, start[2] + i * dxs->stride, n, dx);
    }
}

static void softmax_rows_task(void *arg, int32_t slot, int64_t item)
{
    const softmax_job *job = arg;
    const tw_softmax_split *s = job->split;
    int64_t begin = item * s->per_item, end = begin + s->per_item;
    (void)slot;
    if (end > s->kept.count) end = s->kept.count;
    for (int64_t i = begin; i < end; i++) {
        int64_t start[3];
        for (int32_t v = 0; v < 3; v++) start[v] = tw_group_offset(&s->kept, v, i);
        job->line(job, start);
    }
}

static softmax_job softmax_job_of(const tw_launch *launch)
{
    const tw_problem *p = launch->problem;
    const tw_softmax_split *s = launch->state;
    softmax_job job = {.split = s, .is_log = p->attrs->softmax.log};
    for (int32_t i = 0; i < p->n_in; i++)
        job.view[i] = (line_view){p->in[i].dtype, launch->in[i], s->step[i]};
    job.view[p->n_in] = (line_view){p->out[0].dtype, launch->out[0], s->step[p->n_in]};
    job.line = p->n_in > 1 ? softmax_backward_line : softmax_line;
    return job;
}

static tw_status softmax_rows_run(const tw_launch *launch)
{
    softmax_job job = softmax_job_of(launch);
    int64_t items = (job.split->kept.count + job.split->per_item - 1) / job.split->per_item;
    tw_parallel(launch->context, launch->problem->max_threads, items, softmax_rows_task, &job);
    return TW_OK;
}

extern const tw_kernel_impl TW_SYMBOL(tw_softmax_rows_f32_f16_bf16);
const tw_kernel_impl TW_SYMBOL(tw_softmax_rows_f32_f16_bf16) = {.supports = tw_softmax_rows_refuse,
                                                                .prepare = tw_softmax_rows_prepare,
                                                                .run = softmax_rows_run,
                                                                .in_place = 1};

extern const tw_kernel_impl TW_SYMBOL(tw_softmax_rowsbwd_f32_f16_bf16);
const tw_kernel_impl TW_SYMBOL(tw_softmax_rowsbwd_f32_f16_bf16) = {
    .supports = tw_softmax_rows_refuse,
    .prepare = tw_softmax_rows_prepare,
    .run = softmax_rows_run,
    .in_place = 3};

#endif
