/* SPDX-License-Identifier: Apache-2.0 */
/* Reference cross-entropy: any types, any strides, in double. */
#include <math.h>

#include "core/dtype.h"
#include "core/error.h"
#include "ops/loss/loss.h"

/* One row: its offsets, and the statistics of its logits. */
typedef struct row {
    const tw_loss_job *job;
    const int64_t *start; /* an offset for each operand */
    double top, log_sum;  /* log-sum-exp = top + log_sum */
} row;

static double logit(const row *r, int64_t j)
{
    int64_t step = r->job->lines.along.rank ? r->job->lines.along.strides[TW_LOSS_LOGITS][0] : 0;
    return tw_load(r->job->types[TW_LOSS_LOGITS], r->job->data[TW_LOSS_LOGITS],
                   r->start[TW_LOSS_LOGITS] + j * step);
}

/* The label itself, or -1 where it does not count. */
static int64_t label_of(const row *r)
{
    const tw_loss_job *job = r->job;
    int64_t label = tw_load_int(job->types[TW_LOSS_LABELS], job->data[TW_LOSS_LABELS],
                                r->start[TW_LOSS_LABELS]);
    return job->attrs->has_ignore && label == job->attrs->ignore ? -1 : label;
}

/* What the loss asks of class j: smoothed one-hot, or smoothed probability. */
static double target(const row *r, int64_t label, int64_t j)
{
    const tw_loss_job *job = r->job;
    double q = j == label ? 1 : 0, smoothing = job->attrs->smoothing;
    int64_t step = job->lines.along.rank ? job->lines.along.strides[TW_LOSS_LABELS][0] : 0;
    if (!job->indices)
        q = tw_load(job->types[TW_LOSS_LABELS], job->data[TW_LOSS_LABELS],
                    r->start[TW_LOSS_LABELS] + j * step);
    return (1 - smoothing) * q + smoothing / (double)job->classes;
}

static void measure(row *r)
{
    double top = -(double)INFINITY, sum = 0;
    for (int64_t j = 0; j < r->job->classes && !isnan(top); j++) {
        double x = logit(r, j);
        if (isnan(x) || x > top) top = x;
    }
    for (int64_t j = 0; j < r->job->classes; j++) sum += exp(logit(r, j) - top);
    r->top = top;
    r->log_sum = log(sum);
}

static void store_lse(const row *r)
{
    const tw_loss_job *job = r->job;
    if (!job->data[TW_LOSS_LSE]) return;
    tw_store(job->types[TW_LOSS_LSE], job->data[TW_LOSS_LSE], r->start[TW_LOSS_LSE],
             isfinite(r->top) ? r->top + r->log_sum : r->top, 0);
}

/* Σ target·(-log softmax); a class that nothing is asked of adds nothing, whatever its logit. */
static double loss_of_row(const row *r)
{
    int64_t label = r->job->indices ? label_of(r) : 0;
    double loss = 0;
    if (label < 0) return 0;
    for (int64_t j = 0; j < r->job->classes; j++) {
        double q = target(r, label, j);
        if (q != 0) loss += q * (r->log_sum - (logit(r, j) - r->top));
    }
    return loss;
}

static tw_status run_forward(const tw_launch *launch)
{
    tw_loss_job job;
    TW_TRY(tw_loss_forward_job(launch, &job));
    bool each = job.attrs->reduction == TW_LOSS_NONE;
    double total = 0;
    tw_group_cursor at = {.offset = {0}};
    for (int64_t i = 0; i < job.rows; i++, tw_group_next(&job.lines.kept, &at)) {
        row r = {.job = &job, .start = at.offset};
        measure(&r);
        store_lse(&r);
        double loss = loss_of_row(&r);
        total += loss;
        if (each)
            tw_store(job.types[TW_LOSS_LOSS], job.data[TW_LOSS_LOSS], at.offset[TW_LOSS_LOSS], loss,
                     0);
    }
    if (!each) tw_store(job.types[TW_LOSS_LOSS], job.data[TW_LOSS_LOSS], 0, total * job.scale, 0);
    return TW_OK;
}

/* dloss·(softmax·Σ target - target). The statistics are taken from the logits again: no digits of
 * theirs are lost to the rounding of a stored log-sum-exp. */
static void backward_row(const row *r)
{
    const tw_loss_job *job = r->job;
    int64_t label = job->indices ? label_of(r) : 0;
    int64_t step = job->lines.along.rank ? job->lines.along.strides[TW_LOSS_DLOGITS][0] : 0;
    double scale = job->scale * tw_load(job->types[TW_LOSS_DLOSS], job->data[TW_LOSS_DLOSS],
                                        r->start[TW_LOSS_DLOSS]);
    double asked = job->indices ? 1 : 0;
    for (int64_t j = 0; !job->indices && j < job->classes; j++) asked += target(r, label, j);
    for (int64_t j = 0; j < job->classes; j++) {
        double share = exp(logit(r, j) - r->top - r->log_sum);
        double d = label < 0 ? 0 : scale * (share * asked - target(r, label, j));
        tw_store(job->types[TW_LOSS_DLOGITS], job->data[TW_LOSS_DLOGITS],
                 r->start[TW_LOSS_DLOGITS] + j * step, d, 0);
    }
}

static tw_status run_backward(const tw_launch *launch)
{
    tw_loss_job job;
    TW_TRY(tw_loss_backward_job(launch, &job));
    tw_group_cursor at = {.offset = {0}};
    for (int64_t i = 0; i < job.rows; i++, tw_group_next(&job.lines.kept, &at)) {
        row r = {.job = &job, .start = at.offset};
        measure(&r);
        backward_row(&r);
    }
    return TW_OK;
}

static const char *supports(const tw_problem *problem)
{
    return problem->epilogue || problem->prologue[0] || problem->prologue[1] ? "fused steps" : NULL;
}

extern const tw_kernel_impl tw_loss_plain_any__ref, tw_loss_plainbwd_any__ref;
const tw_kernel_impl tw_loss_plain_any__ref = {.supports = supports, .run = run_forward};
const tw_kernel_impl tw_loss_plainbwd_any__ref = {
    .supports = supports, .run = run_backward, .in_place = 1};
