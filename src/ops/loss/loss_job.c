/* SPDX-License-Identifier: Apache-2.0 */
/* What every kernel of the family does first: lay out the operands, check and count the labels. */
#include <math.h>
#include <stdio.h>

#include "core/dtype.h"
#include "core/error.h"
#include "ops/loss/loss.h"

/* A view with the logits' dims: stride 0 along the classes, and everywhere for a scalar. */
static tw_view spread(const tw_view *logits, const tw_view *view)
{
    int32_t class_dim = tw_loss_class_dim(logits->rank);
    tw_view wide = *logits;
    if (view->rank == logits->rank) return *view;
    for (int32_t d = 0; d < logits->rank; d++) {
        int32_t e = d < class_dim ? d : d - 1;
        wide.strides[d] = d == class_dim || view->rank == 0 ? 0 : view->strides[e];
    }
    return wide;
}

static void lines_of(const tw_view *const operands[TW_LINES_OPERANDS], tw_lines *lines)
{
    tw_view wide[TW_LINES_OPERANDS];
    const tw_view *views[TW_LINES_OPERANDS] = {NULL};
    for (int32_t v = 0; v < TW_LINES_OPERANDS; v++) {
        if (!operands[v] || operands[v]->dtype == TW_AUTO) continue;
        wide[v] = spread(operands[0], operands[v]);
        views[v] = &wide[v];
    }
    tw_lines_make(views, 1u << tw_loss_class_dim(operands[0]->rank), true, lines);
}

static void operands_of(const tw_problem *p, const tw_view *operands[TW_LINES_OPERANDS])
{
    bool backward = p->info->kind == TW_OP_CROSS_ENTROPY_BACKWARD;
    bool both = p->info->kind == TW_OP_CROSS_ENTROPY_BOTH;
    operands[TW_LOSS_LOGITS] = &p->in[0];
    operands[TW_LOSS_LABELS] = &p->in[1];
    if (backward) {
        operands[TW_LOSS_LSE] = &p->in[2];
        operands[TW_LOSS_DLOSS] = &p->in[3];
        operands[TW_LOSS_DLOGITS] = &p->out[0];
    } else {
        operands[TW_LOSS_LSE] = p->n_out > 1 ? &p->out[1] : NULL;
        operands[TW_LOSS_LOSS] = &p->out[0];
        operands[TW_LOSS_DLOGITS] = both ? &p->out[2] : NULL;
    }
}

void tw_loss_lines(const tw_problem *problem, tw_lines *lines)
{
    const tw_view *operands[TW_LINES_OPERANDS];
    operands_of(problem, operands);
    lines_of(operands, lines);
}

static bool ignored(const tw_cross_entropy_attrs *attrs, int64_t label)
{
    return attrs->has_ignore && label == attrs->ignore;
}

/* Names the first label, in row-major order, that is out of range. */
static tw_status refuse_label(const tw_problem *problem, const void *labels, int64_t classes)
{
    const tw_view *view = &problem->in[1];
    const tw_cross_entropy_attrs *attrs = &problem->attrs->loss;
    int64_t at[TW_MAX_RANK] = {0}, offset = 0, label = 0;
    for (;;) {
        label = tw_load_int(view->dtype, labels, offset);
        if (!ignored(attrs, label) && (label < 0 || label >= classes)) break;
        int32_t d = view->rank - 1;
        for (; d >= 0 && ++at[d] == view->dims[d]; d--) {
            offset -= (view->dims[d] - 1) * view->strides[d];
            at[d] = 0;
        }
        if (d < 0) return TW_OK;
        offset += view->strides[d];
    }
    char place[200] = "";
    int length = 0;
    for (int32_t d = 0; d < view->rank; d++)
        length += snprintf(place + length, sizeof place - (size_t)length, "%s%lld",
                           d == 0 ? "" : ", ", (long long)at[d]);
    char also[64] = "";
    if (attrs->has_ignore)
        snprintf(also, sizeof also, ", or %lld, which is ignored", (long long)attrs->ignore);
    return tw_fail(TW_INVALID_ARGUMENT, "%s: labels[%s] is %lld; it must be from 0 to %lld%s",
                   problem->info->name, place, (long long)label, (long long)(classes - 1), also);
}

/* Rows whose label counts; -1 if one is out of range. */
static int64_t count_labels(const tw_loss_job *job)
{
    const tw_axis_group *rows = &job->lines.kept;
    const void *labels = job->data[TW_LOSS_LABELS];
    tw_dtype type = job->types[TW_LOSS_LABELS];
    tw_group_cursor at = {.offset = {0}};
    int64_t count = 0;
    for (int64_t i = 0; i < rows->count; i++, tw_group_next(rows, &at)) {
        int64_t label = tw_load_int(type, labels, at.offset[TW_LOSS_LABELS]);
        if (ignored(job->attrs, label)) continue;
        if (label < 0 || label >= job->classes) return -1;
        count++;
    }
    return count;
}

static tw_status make_job(const tw_launch *launch, tw_loss_job *job)
{
    const tw_problem *p = launch->problem;
    const tw_view *operands[TW_LINES_OPERANDS];
    operands_of(p, operands);
    lines_of(operands, &job->lines);
    for (int32_t v = 0; v < TW_LINES_OPERANDS; v++)
        job->types[v] = operands[v] ? operands[v]->dtype : TW_AUTO;
    job->attrs = &p->attrs->loss;
    job->indices = tw_loss_has_indices(p->in[1].dtype);
    job->classes = job->lines.along.count;
    job->rows = job->lines.kept.count;
    int64_t counted = job->rows;
    if (job->indices) counted = count_labels(job);
    if (counted < 0) return refuse_label(p, launch->in[1], job->classes);
    /* The mean of nothing is NaN, as for reductions. */
    job->scale = job->attrs->reduction == TW_LOSS_MEAN ? 1.0 / (double)counted : 1.0;
    return TW_OK;
}

tw_status tw_loss_forward_job(const tw_launch *launch, tw_loss_job *job)
{
    *job = (tw_loss_job){.data = {launch->in[0], launch->in[1]}};
    job->data[TW_LOSS_LSE] = launch->problem->n_out > 1 ? launch->out[1] : NULL;
    job->data[TW_LOSS_LOSS] = launch->out[0];
    return make_job(launch, job);
}

tw_status tw_loss_backward_job(const tw_launch *launch, tw_loss_job *job)
{
    *job = (tw_loss_job){.data = {launch->in[0], launch->in[1], launch->in[2], launch->in[3]}};
    job->data[TW_LOSS_DLOGITS] = launch->out[0];
    return make_job(launch, job);
}

tw_status tw_loss_both_job(const tw_launch *launch, tw_loss_job *job, double *dloss)
{
    *job = (tw_loss_job){
        .data = {launch->in[0], launch->in[1], launch->out[1], launch->out[0], launch->out[2]}};
    *dloss = tw_load(launch->problem->in[2].dtype, launch->in[2], 0);
    return make_job(launch, job);
}
