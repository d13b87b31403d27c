/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, convolution, pooling, reductions, softmax, losses. */
#include "graph/api.h"

tw_status tw_graph_matmul(tw_graph *graph, tw_tensor a, tw_tensor b, const tw_matmul_attrs *attrs,
                          tw_tensor *y)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.matmul, attrs);
    tw_tensor in[] = {a, b};
    return tw_graph_add_1(graph, TW_OP_MATMUL, &all, 2, in, y);
}

tw_status tw_graph_conv(tw_graph *graph, tw_tensor x, tw_tensor w, const tw_conv_attrs *attrs,
                        tw_tensor *y)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.conv, attrs);
    tw_tensor in[] = {x, w};
    return tw_graph_add_1(graph, TW_OP_CONV, &all, 2, in, y);
}

/* A result of the rank and element type of `like`, with dims of its own. */
static tw_status shape_like(const tw_graph *graph, tw_tensor like, const int64_t *dims,
                            const tw_tensor *out, tw_tensor_desc *shape)
{
    const tw_tensor_desc *desc;
    TW_TRY(tw_graph_operand(graph, like, "operand", &desc));
    TW_REQUIRE(dims || (out && *out != TW_NONE), TW_INVALID_ARGUMENT,
               "dims is NULL and the result is not declared; one of the two must give the shape");
    *shape = (tw_tensor_desc){.dtype = desc->dtype, .rank = desc->rank};
    if (dims) memcpy(shape->dims, dims, (size_t)desc->rank * sizeof *dims);
    return TW_OK;
}

tw_status tw_graph_conv_dgrad(tw_graph *graph, tw_tensor dy, tw_tensor w,
                              const tw_conv_attrs *attrs, const int64_t *dims, tw_tensor *dx)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.conv, attrs);
    tw_tensor in[] = {dy, w};
    tw_tensor_desc shape;
    TW_TRY(shape_like(graph, dy, dims, dx, &shape));
    return tw_graph_add_shaped(graph, TW_OP_CONV_DGRAD, &all, 2, in, &shape, dx);
}

tw_status tw_graph_conv_wgrad(tw_graph *graph, tw_tensor x, tw_tensor dy,
                              const tw_conv_attrs *attrs, const int64_t *dims, tw_tensor *dw)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.conv, attrs);
    tw_tensor in[] = {x, dy};
    tw_tensor_desc shape;
    TW_TRY(shape_like(graph, x, dims, dw, &shape));
    return tw_graph_add_shaped(graph, TW_OP_CONV_WGRAD, &all, 2, in, &shape, dw);
}

/* An operation with a second, optional output. */
static tw_status add_2(tw_graph *graph, tw_op_kind kind, const tw_attrs *attrs, int32_t n_in,
                       const tw_tensor *in, tw_tensor *y, tw_tensor *z)
{
    TW_REQUIRE(y, TW_INVALID_ARGUMENT, "the result is NULL; give a place for its number");
    tw_tensor out[2] = {*y, z ? *z : TW_UNWANTED};
    TW_TRY(tw_graph_add(graph, kind, attrs, n_in, in, 2, out));
    *y = out[0];
    if (z) *z = out[1];
    return TW_OK;
}

tw_status tw_graph_pool(tw_graph *graph, tw_tensor x, const tw_pool_attrs *attrs, tw_tensor *y,
                        tw_tensor *indices)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.pool, attrs);
    return add_2(graph, TW_OP_POOL, &all, 1, &x, y, indices);
}

tw_status tw_graph_pool_backward(tw_graph *graph, tw_tensor dy, tw_tensor indices,
                                 const tw_pool_attrs *attrs, const int64_t *dims, tw_tensor *dx)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.pool, attrs);
    tw_tensor in[] = {dy, indices};
    tw_tensor_desc shape;
    TW_TRY(shape_like(graph, dy, dims, dx, &shape));
    return tw_graph_add_shaped(graph, TW_OP_POOL_BACKWARD, &all, 2, in, &shape, dx);
}

tw_status tw_graph_reduce(tw_graph *graph, tw_tensor x, const tw_reduce_attrs *attrs, tw_tensor *y)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.reduce, attrs);
    return tw_graph_add_1(graph, TW_OP_REDUCE, &all, 1, &x, y);
}

tw_status tw_graph_softmax(tw_graph *graph, tw_tensor x, const tw_softmax_attrs *attrs,
                           tw_tensor *y)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.softmax, attrs);
    return tw_graph_add_1(graph, TW_OP_SOFTMAX, &all, 1, &x, y);
}

tw_status tw_graph_softmax_backward(tw_graph *graph, tw_tensor y, tw_tensor dy,
                                    const tw_softmax_attrs *attrs, tw_tensor *dx)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.softmax, attrs);
    tw_tensor in[] = {y, dy};
    return tw_graph_add_1(graph, TW_OP_SOFTMAX_BACKWARD, &all, 2, in, dx);
}

tw_status tw_graph_cross_entropy(tw_graph *graph, tw_tensor logits, tw_tensor labels,
                                 const tw_cross_entropy_attrs *attrs, tw_tensor *loss,
                                 tw_tensor *lse)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.loss, attrs);
    tw_tensor in[] = {logits, labels};
    return add_2(graph, TW_OP_CROSS_ENTROPY, &all, 2, in, loss, lse);
}

tw_status tw_graph_cross_entropy_backward(tw_graph *graph, tw_tensor logits, tw_tensor labels,
                                          tw_tensor lse, tw_tensor dloss,
                                          const tw_cross_entropy_attrs *attrs, tw_tensor *dlogits)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.loss, attrs);
    tw_tensor in[] = {logits, labels, lse, dloss};
    return tw_graph_add_1(graph, TW_OP_CROSS_ENTROPY_BACKWARD, &all, 4, in, dlogits);
}

tw_status tw_graph_random(tw_graph *graph, const tw_random_attrs *attrs, tw_dtype dtype,
                          int32_t rank, const int64_t *dims, tw_tensor seed, tw_tensor offset,
                          tw_tensor *y)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.random, attrs);
    TW_REQUIRE(graph, TW_INVALID_ARGUMENT, "graph is NULL; create one with tw_graph_create");
    TW_REQUIRE(rank >= 0 && rank <= TW_MAX_RANK && (dims || rank == 0), TW_INVALID_ARGUMENT,
               "rank is %d with dims %s; give 0 to %d dims", (int)rank, dims ? "given" : "NULL",
               TW_MAX_RANK);
    tw_tensor in[] = {seed, offset};
    tw_tensor_desc shape = tw_desc(dtype == TW_AUTO ? TW_F32 : dtype, rank, dims);
    return tw_graph_add_shaped(graph, TW_OP_RANDOM, &all, 2, in, &shape, y);
}

tw_status tw_graph_dropout(tw_graph *graph, tw_tensor x, tw_tensor seed, tw_tensor offset,
                           const tw_dropout_attrs *attrs, tw_tensor *y, tw_tensor *mask)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.dropout, attrs);
    tw_tensor in[] = {x, seed, offset};
    return add_2(graph, TW_OP_DROPOUT, &all, 3, in, y, mask);
}

tw_status tw_graph_dropout_backward(tw_graph *graph, tw_tensor dy, tw_tensor mask,
                                    const tw_dropout_attrs *attrs, tw_tensor *dx)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.dropout, attrs);
    tw_tensor in[] = {dy, mask};
    return tw_graph_add_1(graph, TW_OP_DROPOUT_BACKWARD, &all, 2, in, dx);
}
