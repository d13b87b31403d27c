/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution, matrix products, pooling, reduction, softmax, loss. */
#include "simple/call_table.h"

/* What decides a plan in each attribute struct. */
static const tw_call_span conv_spans[] = {SPAN(tw_conv_attrs, stride, flip),
                                          SPAN(tw_conv_attrs, compute, compute)};
static const tw_call_span matmul_spans[] = {SPAN(tw_matmul_attrs, compute, compute)};
static const tw_call_span pool_spans[] = {SPAN(tw_pool_attrs, mode, mode),
                                          SPAN(tw_pool_attrs, window, column_major),
                                          SPAN(tw_pool_attrs, index, index)};
static const tw_call_span reduce_spans[] = {SPAN(tw_reduce_attrs, mode, last_index),
                                            SPAN(tw_reduce_attrs, compute, compute)};
static const tw_call_span softmax_spans[] = {SPAN(tw_softmax_attrs, axes, log)};
static const tw_call_span loss_spans[] = {SPAN(tw_cross_entropy_attrs, reduction, reduction),
                                          SPAN(tw_cross_entropy_attrs, smoothing, has_ignore),
                                          SPAN(tw_cross_entropy_attrs, ignore, ignore)};

/* ---- Products -------------------------------------------------------------------------------- */

/* The product is rounded only once, when it is stored: before that it has the inferred type, or f32
 * where y is a narrower float. */
static tw_status declare_product(tw_call_graph *g, const tw_tensor_desc *y, tw_tensor *product)
{
    bool narrow = y->dtype >= TW_F16 && y->dtype <= TW_F4E2M1;
    *product = TW_NONE;
    if (!narrow) return TW_OK;
    tw_tensor_desc desc = tw_desc(TW_F32, y->rank, y->dims);
    desc.flags = TW_TENSOR_VIRTUAL;
    return tw_graph_tensor(g->graph, &desc, product);
}

/* Behind a product: y = activation(product + bias), either of which may be absent. */
static tw_status finish(tw_call_graph *g, tw_tensor product, tw_tensor bias,
                        const tw_pointwise_attrs *activation, tw_tensor y)
{
    tw_tensor sum = TW_NONE;
    if (!activation) return tw_graph_binary(g->graph, TW_PW_ADD, product, bias, &y);
    if (bias == TW_NONE)
        sum = product;
    else
        TW_TRY(tw_graph_binary(g->graph, TW_PW_ADD, product, bias, &sum));
    return tw_graph_pointwise(g->graph, activation, sum, TW_NONE, TW_NONE, &y);
}

/* A channel's bias stands before the spatial dims. */
static tw_status channel_bias(tw_call_graph *g, const tw_tensor_desc *y, int32_t operand,
                              tw_tensor *bias)
{
    const tw_tensor_desc *desc = g->desc[operand];
    int64_t dims[TW_MAX_RANK] = {0, 1, 1, 1, 1, 1, 1, 1};
    *bias = TW_NONE;
    if (!desc) return TW_OK;
    TW_REQUIRE(y->rank >= 3 && desc->rank == 1 && desc->dims[0] == y->dims[1], TW_INVALID_ARGUMENT,
               "conv_forward: bias has rank %d, dim 0 %lld; it must be [%lld], one for each "
               "channel of y",
               (int)desc->rank, (long long)desc->dims[0], (long long)y->dims[1]);
    dims[0] = desc->dims[0];
    return tw_graph_reshape(g->graph, g->in[operand], y->rank - 1, dims, bias);
}

enum { CONV_X, CONV_W, CONV_BIAS, CONV_Y };

static tw_status build_conv(tw_call_graph *g, const void *pointer)
{
    const tw_conv_call *call = pointer;
    const tw_tensor *in = g->in;
    if (!call->bias.desc && !call->activation)
        return tw_graph_conv(g->graph, in[CONV_X], in[CONV_W], call->attrs, &g->out[CONV_Y]);
    tw_tensor product, bias;
    TW_TRY(declare_product(g, call->y.desc, &product));
    TW_TRY(tw_graph_conv(g->graph, in[CONV_X], in[CONV_W], call->attrs, &product));
    TW_TRY(channel_bias(g, call->y.desc, CONV_BIAS, &bias));
    return finish(g, product, bias, call->activation, g->out[CONV_Y]);
}

static const tw_call_kind conv_forward = {
    .name = "conv_forward",
    .bytes = sizeof(tw_conv_call),
    .operands = {IN(tw_conv_call, x), IN(tw_conv_call, w), OPTIONAL_IN(tw_conv_call, bias),
                 OUT(tw_conv_call, y)},
    .blocks = {ATTRS(tw_conv_call, attrs, tw_conv_attrs, conv_spans),
               ATTRS(tw_conv_call, activation, tw_pointwise_attrs, tw_pointwise_spans)},
    .build = build_conv,
    .splits = tw_call_conv_splits,
    .split = tw_call_split_conv};

tw_status tw_conv_forward(const tw_conv_call *call) { return tw_call_run(&conv_forward, call); }

static tw_status build_dgrad(tw_call_graph *g, const void *pointer)
{
    const tw_conv_dgrad_call *call = pointer;
    return tw_graph_conv_dgrad(g->graph, g->in[0], g->in[1], call->attrs, NULL, &g->out[2]);
}

static const tw_call_kind conv_dgrad = {
    .name = "conv_dgrad",
    .bytes = sizeof(tw_conv_dgrad_call),
    .operands = {IN(tw_conv_dgrad_call, dy), IN(tw_conv_dgrad_call, w),
                 OUT(tw_conv_dgrad_call, dx)},
    .blocks = {ATTRS(tw_conv_dgrad_call, attrs, tw_conv_attrs, conv_spans)},
    .build = build_dgrad};

tw_status tw_conv_dgrad(const tw_conv_dgrad_call *call) { return tw_call_run(&conv_dgrad, call); }

static tw_status build_wgrad(tw_call_graph *g, const void *pointer)
{
    const tw_conv_wgrad_call *call = pointer;
    return tw_graph_conv_wgrad(g->graph, g->in[0], g->in[1], call->attrs, NULL, &g->out[2]);
}

static const tw_call_kind conv_wgrad = {
    .name = "conv_wgrad",
    .bytes = sizeof(tw_conv_wgrad_call),
    .operands = {IN(tw_conv_wgrad_call, x), IN(tw_conv_wgrad_call, dy),
                 OUT(tw_conv_wgrad_call, dw)},
    .blocks = {ATTRS(tw_conv_wgrad_call, attrs, tw_conv_attrs, conv_spans)},
    .build = build_wgrad};

tw_status tw_conv_wgrad(const tw_conv_wgrad_call *call) { return tw_call_run(&conv_wgrad, call); }

enum { MATMUL_A, MATMUL_B, MATMUL_BIAS, MATMUL_Y };

static tw_status build_matmul(tw_call_graph *g, const void *pointer)
{
    const tw_matmul_call *call = pointer;
    tw_tensor a = g->in[MATMUL_A], b = g->in[MATMUL_B], product;
    if (!call->bias.desc && !call->activation)
        return tw_graph_matmul(g->graph, a, b, call->attrs, &g->out[MATMUL_Y]);
    TW_TRY(declare_product(g, call->y.desc, &product));
    TW_TRY(tw_graph_matmul(g->graph, a, b, call->attrs, &product));
    return finish(g, product, g->in[MATMUL_BIAS], call->activation, g->out[MATMUL_Y]);
}

static const tw_call_kind matmul = {
    .name = "matmul",
    .bytes = sizeof(tw_matmul_call),
    .operands = {IN(tw_matmul_call, a), IN(tw_matmul_call, b), OPTIONAL_IN(tw_matmul_call, bias),
                 OUT(tw_matmul_call, y)},
    .blocks = {ATTRS(tw_matmul_call, attrs, tw_matmul_attrs, matmul_spans),
               ATTRS(tw_matmul_call, activation, tw_pointwise_attrs, tw_pointwise_spans)},
    .build = build_matmul,
    .splits = tw_call_matmul_splits,
    .split = tw_call_split_matmul};

tw_status tw_matmul(const tw_matmul_call *call) { return tw_call_run(&matmul, call); }

/* ---- Pooling --------------------------------------------------------------------------------- */

static tw_status build_pool(tw_call_graph *g, const void *pointer)
{
    const tw_pool_call *call = pointer;
    return tw_graph_pool(g->graph, g->in[0], call->attrs, &g->out[1],
                         g->desc[2] ? &g->out[2] : NULL);
}

static const tw_call_kind pool_forward = {
    .name = "pool_forward",
    .bytes = sizeof(tw_pool_call),
    .operands = {IN(tw_pool_call, x), OUT(tw_pool_call, y), OPTIONAL_OUT(tw_pool_call, indices)},
    .blocks = {ATTRS(tw_pool_call, attrs, tw_pool_attrs, pool_spans)},
    .build = build_pool};

tw_status tw_pool_forward(const tw_pool_call *call) { return tw_call_run(&pool_forward, call); }

static tw_status build_pool_backward(tw_call_graph *g, const void *pointer)
{
    const tw_pool_backward_call *call = pointer;
    return tw_graph_pool_backward(g->graph, g->in[0], g->in[1], call->attrs, NULL, &g->out[2]);
}

static const tw_call_kind pool_backward = {
    .name = "pool_backward",
    .bytes = sizeof(tw_pool_backward_call),
    .operands = {IN(tw_pool_backward_call, dy), OPTIONAL_IN(tw_pool_backward_call, indices),
                 OUT(tw_pool_backward_call, dx)},
    .blocks = {ATTRS(tw_pool_backward_call, attrs, tw_pool_attrs, pool_spans)},
    .build = build_pool_backward};

tw_status tw_pool_backward(const tw_pool_backward_call *call)
{
    return tw_call_run(&pool_backward, call);
}

/* ---- Reduction, softmax, loss ---------------------------------------------------------------- */

static tw_status build_reduce(tw_call_graph *g, const void *pointer)
{
    const tw_reduce_call *call = pointer;
    return tw_graph_reduce(g->graph, g->in[0], call->attrs, &g->out[1]);
}

static const tw_call_kind reduce = {
    .name = "reduce",
    .bytes = sizeof(tw_reduce_call),
    .operands = {IN(tw_reduce_call, x), OUT(tw_reduce_call, y)},
    .blocks = {ATTRS(tw_reduce_call, attrs, tw_reduce_attrs, reduce_spans)},
    .build = build_reduce};

tw_status tw_reduce(const tw_reduce_call *call) { return tw_call_run(&reduce, call); }

static tw_status build_softmax(tw_call_graph *g, const void *pointer)
{
    const tw_softmax_call *call = pointer;
    return tw_graph_softmax(g->graph, g->in[0], call->attrs, &g->out[1]);
}

static const tw_call_kind softmax_forward = {
    .name = "softmax_forward",
    .bytes = sizeof(tw_softmax_call),
    .operands = {IN(tw_softmax_call, x), OUT(tw_softmax_call, y)},
    .blocks = {ATTRS(tw_softmax_call, attrs, tw_softmax_attrs, softmax_spans)},
    .build = build_softmax};

tw_status tw_softmax_forward(const tw_softmax_call *call)
{
    return tw_call_run(&softmax_forward, call);
}

static tw_status build_softmax_backward(tw_call_graph *g, const void *pointer)
{
    const tw_softmax_backward_call *call = pointer;
    return tw_graph_softmax_backward(g->graph, g->in[0], g->in[1], call->attrs, &g->out[2]);
}

static const tw_call_kind softmax_backward = {
    .name = "softmax_backward",
    .bytes = sizeof(tw_softmax_backward_call),
    .operands = {IN(tw_softmax_backward_call, y), IN(tw_softmax_backward_call, dy),
                 OUT(tw_softmax_backward_call, dx)},
    .blocks = {ATTRS(tw_softmax_backward_call, attrs, tw_softmax_attrs, softmax_spans)},
    .build = build_softmax_backward};

tw_status tw_softmax_backward(const tw_softmax_backward_call *call)
{
    return tw_call_run(&softmax_backward, call);
}

static tw_status build_cross_entropy(tw_call_graph *g, const void *pointer)
{
    const tw_cross_entropy_call *call = pointer;
    return tw_graph_cross_entropy(g->graph, g->in[0], g->in[1], call->attrs, &g->out[2],
                                  g->desc[3] ? &g->out[3] : NULL);
}

static const tw_call_kind cross_entropy_forward = {
    .name = "cross_entropy_forward",
    .bytes = sizeof(tw_cross_entropy_call),
    .operands = {IN(tw_cross_entropy_call, logits), IN(tw_cross_entropy_call, labels),
                 OUT(tw_cross_entropy_call, loss), OPTIONAL_OUT(tw_cross_entropy_call, lse)},
    .blocks = {ATTRS(tw_cross_entropy_call, attrs, tw_cross_entropy_attrs, loss_spans)},
    .build = build_cross_entropy};

tw_status tw_cross_entropy_forward(const tw_cross_entropy_call *call)
{
    return tw_call_run(&cross_entropy_forward, call);
}

static tw_status build_cross_entropy_backward(tw_call_graph *g, const void *pointer)
{
    const tw_cross_entropy_backward_call *call = pointer;
    const tw_tensor *in = g->in;
    return tw_graph_cross_entropy_backward(g->graph, in[0], in[1], in[2], in[3], call->attrs,
                                           &g->out[4]);
}

static const tw_call_kind cross_entropy_backward = {
    .name = "cross_entropy_backward",
    .bytes = sizeof(tw_cross_entropy_backward_call),
    .operands = {IN(tw_cross_entropy_backward_call, logits),
                 IN(tw_cross_entropy_backward_call, labels),
                 IN(tw_cross_entropy_backward_call, lse), IN(tw_cross_entropy_backward_call, dloss),
                 OUT(tw_cross_entropy_backward_call, dlogits)},
    .blocks = {ATTRS(tw_cross_entropy_backward_call, attrs, tw_cross_entropy_attrs, loss_spans)},
    .build = build_cross_entropy_backward};

tw_status tw_cross_entropy_backward(const tw_cross_entropy_backward_call *call)
{
    return tw_call_run(&cross_entropy_backward, call);
}
