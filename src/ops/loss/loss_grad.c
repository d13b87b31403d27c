/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of the cross-entropy, as graph operations. */
#include "core/dtype.h"
#include "ops/grad.h"
#include "ops/loss/loss.h"

typedef struct rule {
    const tw_gradient *gradient;
    const tw_builder *builder;
    tw_tensor_desc logits;
    int64_t dims[TW_MAX_RANK]; /* the logits' with one class */
} rule;

/* A per-row tensor, or a scalar, so that it broadcasts along the classes. */
static tw_status along_classes(const rule *r, tw_tensor rows, tw_tensor *y)
{
    tw_tensor_desc desc;
    TW_TRY(r->builder->describe(r->builder->graph, rows, &desc));
    *y = rows;
    if (desc.rank == 0) return TW_OK;
    return tw_grad_reshape(r->builder, rows, r->logits.rank, r->dims, y);
}

static tw_status softmax_of_logits(const rule *r, bool is_log, tw_tensor *y)
{
    const tw_attrs attrs = {
        .softmax = {.axes = 1u << tw_loss_class_dim(r->logits.rank), .log = is_log}};
    *y = TW_NONE;
    return r->builder->add(r->builder->graph, TW_OP_SOFTMAX, &attrs, 1, &r->gradient->in[0], 1, y);
}

static tw_status of_loss(const rule *r, tw_tensor *dx)
{
    const tw_gradient *g = r->gradient;
    tw_tensor lse = g->n_out > 1 ? g->out[1] : TW_NONE;
    if (lse == TW_NONE) {
        tw_dtype dtype = r->logits.dtype == TW_F64 ? TW_F64 : TW_F32;
        TW_TRY(g->add_output(g, 1, dtype, NULL, &lse));
    }
    const tw_tensor in[4] = {g->in[0], g->in[1], lse, g->dy[0]};
    *dx = TW_NONE;
    return r->builder->add(r->builder->graph, TW_OP_CROSS_ENTROPY_BACKWARD, g->attrs, 4, in, 1, dx);
}

/* The log-sum-exp is an output like any other: its gradient is the softmax. */
static tw_status of_lse(const rule *r, tw_tensor *dx)
{
    tw_tensor share, dlse;
    TW_TRY(softmax_of_logits(r, false, &share));
    TW_TRY(along_classes(r, r->gradient->dy[1], &dlse));
    TW_TRY(tw_grad_binary(r->builder, TW_PW_MUL, dlse, share, dx));
    return tw_grad_cast(r->builder, *dx, r->logits.dtype, dx);
}

static tw_status of_logits(const rule *r, tw_tensor *dx)
{
    const tw_gradient *g = r->gradient;
    tw_tensor part;
    if (g->dy[0] != TW_NONE) TW_TRY(of_loss(r, dx));
    if (g->n_out < 2 || g->dy[1] == TW_NONE) return TW_OK;
    TW_TRY(of_lse(r, &part));
    if (*dx == TW_NONE)
        *dx = part;
    else
        return tw_grad_binary(r->builder, TW_PW_ADD, *dx, part, dx);
    return TW_OK;
}

/* Of probabilities: -(1 - smoothing)·log_softmax·dloss, divided by the rows for MEAN. */
static tw_status of_probabilities(const rule *r, tw_tensor *dx)
{
    const tw_gradient *g = r->gradient;
    const tw_cross_entropy_attrs *attrs = &g->attrs->loss;
    tw_tensor log_share, dloss;
    tw_tensor_desc labels;
    double rows = 1;
    TW_TRY(r->builder->describe(r->builder->graph, g->in[1], &labels));
    for (int32_t d = 0; d < r->logits.rank; d++) rows *= (double)r->dims[d];
    double scale = attrs->smoothing - 1;
    if (attrs->reduction == TW_LOSS_MEAN && rows > 0) scale /= rows;
    TW_TRY(softmax_of_logits(r, true, &log_share));
    TW_TRY(tw_grad_linear(r->builder, log_share, scale, 0, &log_share));
    TW_TRY(along_classes(r, g->dy[0], &dloss));
    TW_TRY(tw_grad_binary(r->builder, TW_PW_MUL, dloss, log_share, dx));
    return tw_grad_cast(r->builder, *dx, labels.dtype, dx);
}

tw_status tw_loss_gradient(const tw_gradient *gradient)
{
    rule r = {.gradient = gradient, .builder = gradient->builder};
    tw_tensor_desc labels;
    TW_TRY(r.builder->describe(r.builder->graph, gradient->in[0], &r.logits));
    TW_TRY(r.builder->describe(r.builder->graph, gradient->in[1], &labels));
    for (int32_t d = 0; d < r.logits.rank; d++)
        r.dims[d] = d == tw_loss_class_dim(r.logits.rank) ? 1 : r.logits.dims[d];
    if (gradient->want[0]) TW_TRY(of_logits(&r, &gradient->dx[0]));
    if (gradient->want[1] && gradient->dy[0] != TW_NONE && !tw_loss_has_indices(labels.dtype))
        TW_TRY(of_probabilities(&r, &gradient->dx[1]));
    return TW_OK;
}
