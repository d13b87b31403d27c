/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise operations, copies, dropout, optimizers. */
#include "simple/call_table.h"

static tw_status build_pointwise(tw_call_graph *g, const void *pointer)
{
    static const tw_pointwise_attrs identity = {.mode = TW_PW_IDENTITY};
    const tw_pointwise_call *call = pointer;
    return tw_graph_pointwise(g->graph, call->attrs ? call->attrs : &identity, g->in[0], g->in[1],
                              g->in[2], &g->out[3]);
}

static const tw_call_kind pointwise = {
    .name = "pointwise",
    .bytes = sizeof(tw_pointwise_call),
    .operands = {IN(tw_pointwise_call, a), OPTIONAL_IN(tw_pointwise_call, b),
                 OPTIONAL_IN(tw_pointwise_call, c), OUT(tw_pointwise_call, y)},
    .blocks = {ATTRS(tw_pointwise_call, attrs, tw_pointwise_attrs, tw_pointwise_spans)},
    .build = build_pointwise};

tw_status tw_pointwise(const tw_pointwise_call *call) { return tw_call_run(&pointwise, call); }

/* ---- Copies ---------------------------------------------------------------------------------- */

static const tw_call_span copy_spans[] = {{offsetof(tw_copy_call, transposed), sizeof(bool)},
                                          SPAN(tw_copy_call, order, order)};

static tw_status build_copy(tw_call_graph *g, const void *pointer)
{
    const tw_copy_call *call = pointer;
    int32_t order[TW_MAX_RANK];
    for (int32_t d = 0; d < TW_MAX_RANK; d++) order[d] = call->transposed ? call->order[d] : d;
    return tw_graph_transpose(g->graph, g->in[0], order, &g->out[1]);
}

static const tw_call_kind copy = {.name = "copy",
                                  .bytes = sizeof(tw_copy_call),
                                  .operands = {IN(tw_copy_call, x), OUT(tw_copy_call, y)},
                                  .blocks = {FIELDS(copy_spans)},
                                  .build = build_copy};

tw_status tw_copy(const tw_copy_call *call) { return tw_call_run(&copy, call); }

/* ---- Dropout --------------------------------------------------------------------------------- */

enum { DROPOUT_X, DROPOUT_SEED, DROPOUT_OFFSET, DROPOUT_Y, DROPOUT_MASK };

static const tw_call_span dropout_spans[] = {SPAN(tw_dropout_call, rate, rate)};

static tw_status build_dropout(tw_call_graph *g, const void *pointer)
{
    const tw_dropout_call *call = pointer;
    tw_dropout_attrs attrs = {.rate = call->rate};
    return tw_graph_dropout(g->graph, g->in[DROPOUT_X], g->in[DROPOUT_SEED], g->in[DROPOUT_OFFSET],
                            &attrs, &g->out[DROPOUT_Y],
                            call->mask.desc ? &g->out[DROPOUT_MASK] : NULL);
}

static const tw_call_kind dropout_forward = {
    .name = "dropout_forward",
    .bytes = sizeof(tw_dropout_call),
    .operands = {IN(tw_dropout_call, x), I64(tw_dropout_call, seed), I64(tw_dropout_call, offset),
                 OUT(tw_dropout_call, y), OPTIONAL_OUT(tw_dropout_call, mask)},
    .blocks = {FIELDS(dropout_spans)},
    .build = build_dropout};

tw_status tw_dropout_forward(const tw_dropout_call *call)
{
    return tw_call_run(&dropout_forward, call);
}

static const tw_call_span dropout_backward_spans[] = {SPAN(tw_dropout_backward_call, rate, rate)};

static tw_status build_dropout_backward(tw_call_graph *g, const void *pointer)
{
    const tw_dropout_backward_call *call = pointer;
    tw_dropout_attrs attrs = {.rate = call->rate};
    return tw_graph_dropout_backward(g->graph, g->in[0], g->in[1], &attrs, &g->out[2]);
}

static const tw_call_kind dropout_backward = {.name = "dropout_backward",
                                              .bytes = sizeof(tw_dropout_backward_call),
                                              .operands = {IN(tw_dropout_backward_call, dy),
                                                           IN(tw_dropout_backward_call, mask),
                                                           OUT(tw_dropout_backward_call, dx)},
                                              .blocks = {FIELDS(dropout_backward_spans)},
                                              .build = build_dropout_backward};

tw_status tw_dropout_backward(const tw_dropout_backward_call *call)
{
    return tw_call_run(&dropout_backward, call);
}

/* ---- Optimizers ------------------------------------------------------------------------------ */

static const tw_call_span sgd_spans[] = {SPAN(tw_sgd_attrs, momentum, nesterov)};
static const tw_call_span adam_spans[] = {SPAN(tw_adam_attrs, beta1, decoupled)};

enum { SGD_PARAM, SGD_GRAD, SGD_VELOCITY, SGD_LR };

static tw_status build_sgd(tw_call_graph *g, const void *pointer)
{
    const tw_sgd_call *call = pointer;
    const tw_tensor *in = g->in;
    return tw_graph_sgd(g->graph, in[SGD_PARAM], in[SGD_GRAD], in[SGD_VELOCITY], in[SGD_LR],
                        call->attrs, &g->out[SGD_PARAM],
                        call->velocity.desc ? &g->out[SGD_VELOCITY] : NULL);
}

static const tw_call_kind sgd = {.name = "sgd",
                                 .bytes = sizeof(tw_sgd_call),
                                 .operands = {UPDATE(tw_sgd_call, param), IN(tw_sgd_call, grad),
                                              OPTIONAL_UPDATE(tw_sgd_call, velocity),
                                              F32(tw_sgd_call, lr)},
                                 .blocks = {ATTRS(tw_sgd_call, attrs, tw_sgd_attrs, sgd_spans)},
                                 .build = build_sgd};

tw_status tw_sgd(const tw_sgd_call *call) { return tw_call_run(&sgd, call); }

enum { ADAM_PARAM, ADAM_GRAD, ADAM_M, ADAM_V, ADAM_LR, ADAM_STEP };

static tw_status build_adam(tw_call_graph *g, const void *pointer)
{
    const tw_adam_call *call = pointer;
    const tw_tensor *in = g->in;
    return tw_graph_adam(g->graph, in[ADAM_PARAM], in[ADAM_GRAD], in[ADAM_M], in[ADAM_V],
                         in[ADAM_LR], in[ADAM_STEP], call->attrs, &g->out[ADAM_PARAM],
                         &g->out[ADAM_M], &g->out[ADAM_V]);
}

static const tw_call_kind adam = {.name = "adam",
                                  .bytes = sizeof(tw_adam_call),
                                  .operands = {UPDATE(tw_adam_call, param), IN(tw_adam_call, grad),
                                               UPDATE(tw_adam_call, m), UPDATE(tw_adam_call, v),
                                               F32(tw_adam_call, lr), I64(tw_adam_call, step)},
                                  .blocks = {ATTRS(tw_adam_call, attrs, tw_adam_attrs, adam_spans)},
                                  .build = build_adam};

tw_status tw_adam(const tw_adam_call *call) { return tw_call_run(&adam, call); }
