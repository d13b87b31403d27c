/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax cross-entropy, row by row: -log softmax is log Σ exp(x - max) - (x - max), which keeps
 * its digits where the loss is small. Classes are read once for the maximum, once for the sum. */
#ifndef TW_OPS_LOSS_LOSS_ROWS_BODY_H
#define TW_OPS_LOSS_LOSS_ROWS_BODY_H

#include "core/dtype.h"
#include "core/error.h"
#include "ops/loss/loss_split.h"
#include "ops/reduce/line_body.h"
#include "runtime/cpu/parallel.h"

/* Above this a stored f32 log-sum-exp has lost too many digits: the statistics are taken again. */
#define LOSS_TRUSTED_LSE 16

typedef struct loss_rows {
    const tw_loss_job *job;
    const tw_loss_split *split;
    line_view logits, labels, dlogits; /* labels: probabilities */
    float keep, spread;                /* a target is keep·label + spread */
    double *parts;                     /* a sum for each item, or NULL */
    double dloss;                      /* of both passes at once */
    double (*row)(const struct loss_rows *r, const int64_t *start); /* does one row */
} loss_rows;

typedef struct loss_stats {
    float top;
    double log_sum; /* log-sum-exp = top + log_sum */
} loss_stats;

static inline int loss_block(int64_t left) { return left < LINE_BLOCK ? (int)left : LINE_BLOCK; }

static const float *loss_read(const line_view *view, int64_t start, int64_t i, int n, float *buffer)
{
    return line_read(view, start + i * view->stride, n, buffer);
}

static loss_stats loss_measure(const loss_rows *r, int64_t start)
{
    int64_t classes = r->job->classes;
    float buffer[LINE_BLOCK], top = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < classes && !isnan(top); i += LINE_BLOCK) {
        int n = loss_block(classes - i);
        float block = line_fold_block(FOLD_MAX, loss_read(&r->logits, start, i, n, buffer), n);
        if (block > top || isnan(block)) top = block;
    }
    if (!isfinite(top)) return (loss_stats){top, (double)NAN};
    for (int64_t i = 0; i < classes; i += LINE_BLOCK) {
        int n = loss_block(classes - i);
        const float *x = loss_read(&r->logits, start, i, n, buffer);
        sum += (double)line_sum_exp(x, n, top, NULL);
    }
    return (loss_stats){top, log(sum)};
}

/* -1 where the label does not count. */
static int64_t loss_label(const loss_rows *r, const int64_t *start)
{
    const tw_loss_job *job = r->job;
    int64_t label =
        tw_load_int(job->types[TW_LOSS_LABELS], job->data[TW_LOSS_LABELS], start[TW_LOSS_LABELS]);
    return job->attrs->has_ignore && label == job->attrs->ignore ? -1 : label;
}

static double loss_logit(const loss_rows *r, int64_t start, int64_t j)
{
    return tw_load(r->logits.type, r->logits.data, start + j * r->logits.stride);
}

/* Σ (x - top) over a row: what smoothing adds of every class. */
static double loss_sum_shifted(const loss_rows *r, int64_t start, float top)
{
    float buffer[LINE_BLOCK];
    vf shift = vf_set(top);
    double sum = 0;
    for (int64_t i = 0; i < r->job->classes; i += LINE_BLOCK) {
        int n = loss_block(r->job->classes - i);
        const float *x = loss_read(&r->logits, start, i, n, buffer);
        vf acc = vf_zero();
        for (int j = 0; j < n; j += VLANES) {
            int m = n - j < VLANES ? n - j : VLANES;
            vf d = vf_sub(line_load(x + j, m), shift);
            acc = vf_add(acc, vf_select(vm_first(m), d, vf_zero()));
        }
        sum += (double)vf_sum(acc);
    }
    return sum;
}

static double loss_of_index(const loss_rows *r, const int64_t *start, const loss_stats *s)
{
    const tw_cross_entropy_attrs *attrs = r->job->attrs;
    int64_t label = loss_label(r, start);
    double top = (double)s->top, loss = 0;
    if (label < 0) return 0;
    if (attrs->smoothing < 1) {
        double shifted = loss_logit(r, start[TW_LOSS_LOGITS], label) - top;
        loss = (1 - attrs->smoothing) * (s->log_sum - shifted);
    }
    if (attrs->smoothing > 0) {
        double mean = loss_sum_shifted(r, start[TW_LOSS_LOGITS], s->top) / (double)r->job->classes;
        loss += attrs->smoothing * (s->log_sum - mean);
    }
    return loss;
}

/* Σ target·(log_sum - (x - top)); a class that nothing is asked of adds nothing. */
static double loss_of_probabilities(const loss_rows *r, const int64_t *start, const loss_stats *s)
{
    float x_buffer[LINE_BLOCK], p_buffer[LINE_BLOCK];
    vf log_sum = vf_set((float)s->log_sum), shift = vf_set(s->top);
    vf keep = vf_set(r->keep), spread = vf_set(r->spread);
    double sum = 0;
    for (int64_t i = 0; i < r->job->classes; i += LINE_BLOCK) {
        int n = loss_block(r->job->classes - i);
        const float *x = loss_read(&r->logits, start[TW_LOSS_LOGITS], i, n, x_buffer);
        const float *p = loss_read(&r->labels, start[TW_LOSS_LABELS], i, n, p_buffer);
        vf acc = vf_zero();
        for (int j = 0; j < n; j += VLANES) {
            int m = n - j < VLANES ? n - j : VLANES;
            vf q = vf_fma(keep, line_load(p + j, m), spread);
            vf term = vf_mul(q, vf_sub(log_sum, vf_sub(line_load(x + j, m), shift)));
            vm counts = vm_and(vm_first(m), vf_ne(q, vf_zero()));
            acc = vf_add(acc, vf_select(counts, term, vf_zero()));
        }
        sum += (double)vf_sum(acc);
    }
    return sum;
}

/* A row's log-sum-exp is stored, and its loss returned. */
static double loss_of_row(const loss_rows *r, const int64_t *start, const loss_stats *s)
{
    const tw_loss_job *job = r->job;
    if (job->data[TW_LOSS_LSE]) {
        double lse = isfinite(s->top) ? (double)s->top + s->log_sum : (double)s->top;
        tw_store(job->types[TW_LOSS_LSE], job->data[TW_LOSS_LSE], start[TW_LOSS_LSE], lse, 0);
    }
    return job->indices ? loss_of_index(r, start, s) : loss_of_probabilities(r, start, s);
}

static double loss_forward_row(const loss_rows *r, const int64_t *start)
{
    const tw_loss_job *job = r->job;
    loss_stats s = loss_measure(r, start[TW_LOSS_LOGITS]);
    double loss = loss_of_row(r, start, &s);
    if (job->attrs->reduction == TW_LOSS_NONE)
        tw_store(job->types[TW_LOSS_LOSS], job->data[TW_LOSS_LOSS], start[TW_LOSS_LOSS], loss, 0);
    return loss;
}

/* The rows of an item; the sum of what `row` gives. */
static double loss_rows_of_item(const loss_rows *r, int64_t item,
                                double (*row)(const loss_rows *, const int64_t *))
{
    const tw_axis_group *kept = &r->job->lines.kept;
    int64_t begin = item * r->split->per_item, end = begin + r->split->per_item;
    double sum = 0;
    if (end > kept->count) end = kept->count;
    for (int64_t i = begin; i < end; i++) {
        int64_t start[TW_LINES_OPERANDS];
        for (int32_t v = 0; v < TW_LINES_OPERANDS; v++) start[v] = tw_group_offset(kept, v, i);
        sum += row(r, start);
    }
    return sum;
}

static void loss_sum_task(void *arg, int32_t slot, int64_t item)
{
    const loss_rows *r = arg;
    (void)slot;
    double sum = loss_rows_of_item(r, item, r->row);
    if (r->parts) r->parts[item] = sum;
}

static loss_rows loss_rows_of(const tw_launch *launch, const tw_loss_job *job)
{
    const tw_cross_entropy_attrs *attrs = job->attrs;
    loss_rows r = {.job = job, .split = launch->state};
    line_view *views[3] = {&r.logits, &r.labels, &r.dlogits};
    const int32_t operands[3] = {TW_LOSS_LOGITS, TW_LOSS_LABELS, TW_LOSS_DLOGITS};
    for (int i = 0; i < 3; i++) {
        int32_t v = operands[i];
        int64_t step = job->lines.along.rank > 0 ? job->lines.along.strides[v][0] : 1;
        *views[i] = (line_view){job->types[v], job->data[v], step};
    }
    r.keep = (float)(1 - attrs->smoothing);
    r.spread = (float)(attrs->smoothing / (double)job->classes);
    return r;
}

/* Runs r->row over all rows and adds up what it gives, in an order that threads do not change. */
static double loss_sum_rows(const tw_launch *launch, loss_rows *r, bool each)
{
    const tw_problem *p = launch->problem;
    int64_t items = r->split->items, bytes = tw_loss_parts_bytes(p, r->split);
    double total = 0;
    if (each || (bytes > 0 && bytes <= p->workspace_limit)) {
        r->parts = each ? NULL : launch->workspace;
        tw_parallel(launch->context, p->max_threads, items, loss_sum_task, r);
        for (int64_t i = 0; r->parts && i < items; i++) total += r->parts[i];
    } else {
        for (int64_t i = 0; i < items; i++) total += loss_rows_of_item(r, i, r->row);
    }
    return total;
}

static tw_status loss_rows_run(const tw_launch *launch)
{
    tw_loss_job job;
    TW_TRY(tw_loss_forward_job(launch, &job));
    loss_rows r = loss_rows_of(launch, &job);
    bool each = job.attrs->reduction == TW_LOSS_NONE;
    r.row = loss_forward_row;
    double total = loss_sum_rows(launch, &r, each);
    if (!each) tw_store(job.types[TW_LOSS_LOSS], job.data[TW_LOSS_LOSS], 0, total * job.scale, 0);
    return TW_OK;
}

/* exp(x - top)·factor is the softmax. */
typedef struct loss_share {
    float top, factor;
    double asked, scale; /* Σ of the targets; what the slope is multiplied by */
    int64_t label;       /* the label's place in the block at hand; elsewhere: none there */
} loss_share;

static void loss_find_share(const loss_rows *r, const int64_t *start, loss_share *share)
{
    const tw_loss_job *job = r->job;
    share->factor = 1;
    if (job->data[TW_LOSS_LSE]) {
        double lse = tw_load(job->types[TW_LOSS_LSE], job->data[TW_LOSS_LSE], start[TW_LOSS_LSE]);
        bool exact = job->types[TW_LOSS_LSE] == TW_F32 || job->types[TW_LOSS_LSE] == TW_F64;
        share->top = (float)lse;
        if (exact && fabs(lse) <= LOSS_TRUSTED_LSE) return;
    }
    loss_stats s = loss_measure(r, start[TW_LOSS_LOGITS]);
    share->top = s.top;
    share->factor = (float)exp(-s.log_sum);
}

/* Σ of the targets: the share of each class is multiplied by it. */
static double loss_asked(const loss_rows *r, const int64_t *start)
{
    float buffer[LINE_BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < r->job->classes; i += LINE_BLOCK) {
        int n = loss_block(r->job->classes - i);
        const float *p = loss_read(&r->labels, start[TW_LOSS_LABELS], i, n, buffer);
        sum += (double)line_fold_block(FOLD_SUM, p, n);
    }
    return (1 - r->job->attrs->smoothing) * sum + r->job->attrs->smoothing;
}

/* to[j] = scale·(asked·softmax - target), where the target is keep·p + spread with probabilities,
 * and else spread, and keep more at the label. */
static void loss_slope(const loss_rows *r, const loss_share *share, const float *x, const float *p,
                       int n, float *to)
{
    vf shift = vf_set(share->top), factor = vf_set((float)((double)share->factor * share->asked));
    vf keep = vf_set(r->keep), spread = vf_set(r->spread), by = vf_set((float)share->scale);
    vf hit = vf_add(keep, spread);
    bool here = share->label >= 0 && share->label < n;
    vi lane = vi_iota(), label = vi_set(here ? (int32_t)share->label : -1);
    for (int j = 0; j < n; j += VLANES) {
        int m = n - j < VLANES ? n - j : VLANES;
        vf e = vf_exp(vf_sub(line_load(x + j, m), shift));
        vf target = p ? vf_fma(keep, line_load(p + j, m), spread)
                      : vf_select(vi_eq(vi_add(lane, vi_set(j)), label), hit, spread);
        line_store(to + j, vf_mul(by, vf_sub(vf_mul(e, factor), target)), m);
    }
}

/* The slope of one row; label -1: the row does not count. */
static void loss_write_slope(const loss_rows *r, const int64_t *start, int64_t label,
                             loss_share *share)
{
    const tw_loss_job *job = r->job;
    float x_buffer[LINE_BLOCK], p_buffer[LINE_BLOCK], d_buffer[LINE_BLOCK];
    for (int64_t i = 0; i < job->classes; i += LINE_BLOCK) {
        int n = loss_block(job->classes - i);
        int64_t offset = start[TW_LOSS_DLOGITS] + i * r->dlogits.stride;
        share->label = label - i;
        const float *x = loss_read(&r->logits, start[TW_LOSS_LOGITS], i, n, x_buffer), *p = NULL;
        float *to = line_target(&r->dlogits, offset, d_buffer);
        if (!job->indices) p = loss_read(&r->labels, start[TW_LOSS_LABELS], i, n, p_buffer);
        if (label < 0)
            memset(to, 0, sizeof(float) * (size_t)n);
        else
            loss_slope(r, share, x, p, n, to);
        line_write(&r->dlogits, offset, n, to);
    }
}

static double loss_backward_row(const loss_rows *r, const int64_t *start)
{
    const tw_loss_job *job = r->job;
    int64_t label = job->indices ? loss_label(r, start) : 0;
    loss_share share = {.asked = job->indices ? 1 : loss_asked(r, start)};
    share.scale = job->scale * tw_load(job->types[TW_LOSS_DLOSS], job->data[TW_LOSS_DLOSS],
                                       start[TW_LOSS_DLOSS]);
    if (label >= 0) loss_find_share(r, start, &share);
    loss_write_slope(r, start, label, &share);
    return 0;
}

static double loss_both_row(const loss_rows *r, const int64_t *start)
{
    const tw_loss_job *job = r->job;
    loss_stats s = loss_measure(r, start[TW_LOSS_LOGITS]);
    double loss = loss_of_row(r, start, &s);
    int64_t label = job->indices ? loss_label(r, start) : 0;
    loss_share share = {.asked = job->indices ? 1 : loss_asked(r, start),
                        .scale = job->scale * r->dloss,
                        .top = s.top,
                        .factor = (float)exp(-s.log_sum)};
    loss_write_slope(r, start, label, &share);
    return loss;
}

static void loss_backward_task(void *arg, int32_t slot, int64_t item)
{
    (void)slot;
    loss_rows_of_item(arg, item, loss_backward_row);
}

static tw_status loss_rowsbwd_run(const tw_launch *launch)
{
    tw_loss_job job;
    TW_TRY(tw_loss_backward_job(launch, &job));
    loss_rows r = loss_rows_of(launch, &job);
    tw_parallel(launch->context, launch->problem->max_threads, r.split->items, loss_backward_task,
                &r);
    return TW_OK;
}

static tw_status loss_rowsboth_run(const tw_launch *launch)
{
    tw_loss_job job;
    double dloss;
    TW_TRY(tw_loss_both_job(launch, &job, &dloss));
    loss_rows r = loss_rows_of(launch, &job);
    r.dloss = dloss;
    r.row = loss_both_row;
    double total = loss_sum_rows(launch, &r, false);
    tw_store(job.types[TW_LOSS_LOSS], job.data[TW_LOSS_LOSS], 0, total * job.scale, 0);
    return TW_OK;
}

extern const tw_kernel_impl TW_SYMBOL(tw_loss_rows_f32_f16_bf16);
const tw_kernel_impl TW_SYMBOL(tw_loss_rows_f32_f16_bf16) = {
    .supports = tw_loss_rows_refuse, .prepare = tw_loss_rows_prepare, .run = loss_rows_run};

extern const tw_kernel_impl TW_SYMBOL(tw_loss_rowsbwd_f32_f16_bf16);
const tw_kernel_impl TW_SYMBOL(tw_loss_rowsbwd_f32_f16_bf16) = {.supports = tw_loss_rows_refuse,
                                                                .prepare = tw_loss_rows_prepare,
                                                                .run = loss_rowsbwd_run,
                                                                .in_place = 1};

extern const tw_kernel_impl TW_SYMBOL(tw_loss_rowsboth_f32_f16_bf16);
const tw_kernel_impl TW_SYMBOL(tw_loss_rowsboth_f32_f16_bf16) = {
    .supports = tw_loss_rows_refuse, .prepare = tw_loss_rows_prepare, .run = loss_rowsboth_run};

#endif
