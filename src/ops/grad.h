/* SPDX-License-Identifier: Apache-2.0 */
/* What gradient rules of all families are written with: small steps added through a builder. Each
 * leaves a new virtual tensor in *y. */
#ifndef TW_OPS_GRAD_H
#define TW_OPS_GRAD_H

#include "core/error.h"
#include "ops/op.h"

/* y = mode(a, b, c); operands that the mode does not have are TW_NONE. */
static inline tw_status tw_grad_pointwise(const tw_builder *builder,
                                          const tw_pointwise_attrs *attrs, const tw_tensor in[3],
                                          tw_tensor *y)
{
    tw_attrs all = {.pointwise = *attrs};
    int32_t n_in = in[2] != TW_NONE ? 3 : in[1] != TW_NONE ? 2 : 1;
    *y = TW_NONE;
    return builder->add(builder->graph, TW_OP_POINTWISE, &all, n_in, in, 1, y);
}

static inline tw_status tw_grad_unary(const tw_builder *builder, tw_pointwise_mode mode,
                                      tw_tensor a, tw_tensor *y)
{
    const tw_pointwise_attrs attrs = {.mode = mode};
    return tw_grad_pointwise(builder, &attrs, (const tw_tensor[3]){a, TW_NONE, TW_NONE}, y);
}

static inline tw_status tw_grad_binary(const tw_builder *builder, tw_pointwise_mode mode,
                                       tw_tensor a, tw_tensor b, tw_tensor *y)
{
    const tw_pointwise_attrs attrs = {.mode = mode};
    return tw_grad_pointwise(builder, &attrs, (const tw_tensor[3]){a, b, TW_NONE}, y);
}

/* y = a != 0 ? b : c */
static inline tw_status tw_grad_select(const tw_builder *builder, tw_tensor a, tw_tensor b,
                                       tw_tensor c, tw_tensor *y)
{
    const tw_pointwise_attrs attrs = {.mode = TW_PW_SELECT};
    return tw_grad_pointwise(builder, &attrs, (const tw_tensor[3]){a, b, c}, y);
}

/* y = alpha·a + beta */
static inline tw_status tw_grad_linear(const tw_builder *builder, tw_tensor a, double alpha,
                                       double beta, tw_tensor *y)
{
    const tw_pointwise_attrs attrs = {
        .mode = TW_PW_LINEAR, .alpha = alpha, .beta = beta, .has_alpha = true, .has_beta = true};
    return tw_grad_pointwise(builder, &attrs, (const tw_tensor[3]){a, TW_NONE, TW_NONE}, y);
}

/* A rank-0 constant of `like`'s element type. */
static inline tw_status tw_grad_scalar(const tw_builder *builder, tw_tensor like, double value,
                                       tw_tensor *y)
{
    tw_tensor_desc desc;
    TW_TRY(builder->describe(builder->graph, like, &desc));
    return builder->scalar(builder->graph, desc.dtype, value, y);
}

static inline tw_status tw_grad_virtual(const tw_builder *builder, tw_dtype dtype, int32_t rank,
                                        const int64_t *dims, tw_tensor *y)
{
    tw_tensor_desc desc = tw_desc(dtype, rank, dims);
    desc.flags = TW_TENSOR_VIRTUAL;
    return builder->tensor(builder->graph, &desc, y);
}

/* x itself where it has the type already. */
static inline tw_status tw_grad_cast(const tw_builder *builder, tw_tensor x, tw_dtype dtype,
                                     tw_tensor *y)
{
    const tw_attrs attrs = {.pointwise = {.mode = TW_PW_IDENTITY}};
    tw_tensor_desc desc;
    TW_TRY(builder->describe(builder->graph, x, &desc));
    *y = x;
    if (desc.dtype == dtype) return TW_OK;
    TW_TRY(tw_grad_virtual(builder, dtype, desc.rank, desc.dims, y));
    return builder->add(builder->graph, TW_OP_POINTWISE, &attrs, 1, &x, 1, y);
}

/* RESHAPE or EXPAND: the operations whose result is shaped by its declaration alone. */
static inline tw_status tw_grad_to_dims(const tw_builder *builder, tw_op_kind kind, tw_tensor x,
                                        int32_t rank, const int64_t *dims, tw_tensor *y)
{
    const tw_attrs attrs = {.layout = {.axis = 0}};
    tw_tensor_desc desc;
    TW_TRY(builder->describe(builder->graph, x, &desc));
    TW_TRY(tw_grad_virtual(builder, desc.dtype, rank, dims, y));
    return builder->add(builder->graph, kind, &attrs, 1, &x, 1, y);
}

/* x itself where it has the dims already. */
static inline tw_status tw_grad_reshape(const tw_builder *builder, tw_tensor x, int32_t rank,
                                        const int64_t *dims, tw_tensor *y)
{
    tw_tensor_desc desc;
    TW_TRY(builder->describe(builder->graph, x, &desc));
    bool same = desc.rank == rank;
    for (int32_t d = 0; same && d < rank; d++) same = desc.dims[d] == dims[d];
    *y = x;
    if (same) return TW_OK;
    return tw_grad_to_dims(builder, TW_OP_RESHAPE, x, rank, dims, y);
}

static inline tw_status tw_grad_expand(const tw_builder *builder, tw_tensor x, int32_t rank,
                                       const int64_t *dims, tw_tensor *y)
{
    return tw_grad_to_dims(builder, TW_OP_EXPAND, x, rank, dims, y);
}

/* Reduces over `axes` (bit d: dim d), which stay as dims of 1. x itself where no axis is set. */
static inline tw_status tw_grad_reduce(const tw_builder *builder, tw_reduce_mode mode, tw_tensor x,
                                       uint32_t axes, tw_tensor *y)
{
    const tw_attrs attrs = {.reduce = {.mode = mode, .axes = axes}};
    *y = x;
    if (axes == 0) return TW_OK;
    *y = TW_NONE;
    return builder->add(builder->graph, TW_OP_REDUCE, &attrs, 1, &x, 1, y);
}

/* The gradient of a broadcast: sums g over the dims in which `like` was repeated, and gives it
 * like's shape and element type. */
static inline tw_status tw_grad_sum_to(const tw_builder *builder, tw_tensor g, tw_tensor like,
                                       tw_tensor *y)
{
    tw_tensor_desc from, to;
    TW_TRY(builder->describe(builder->graph, g, &from));
    TW_TRY(builder->describe(builder->graph, like, &to));
    uint32_t axes = 0;
    for (int32_t d = 0; d < from.rank; d++) {
        int32_t e = d - (from.rank - to.rank);
        if (e < 0 || (to.dims[e] == 1 && from.dims[d] != 1)) axes |= 1u << d;
    }
    TW_TRY(tw_grad_reduce(builder, TW_REDUCE_SUM, g, axes, &g));
    TW_TRY(tw_grad_reshape(builder, g, to.rank, to.dims, &g));
    return tw_grad_cast(builder, g, to.dtype, y);
}

#endif
