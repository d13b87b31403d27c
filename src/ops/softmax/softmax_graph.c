/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and log-softmax: validation, shape inference, gradient. */
#include "ops/softmax/softmax.h"

#include "core/dtype.h"
#include "ops/grad.h"

static tw_status check_real(const char *op, const char *name, tw_dtype dtype)
{
    TW_REQUIRE(!tw_dtype_is_complex(dtype) && dtype != TW_BOOL, TW_INVALID_ARGUMENT,
               "%s: %s is %s; accepted are real and integer types", op, name, tw_dtype_name(dtype));
    return TW_OK;
}

static tw_status check_axes(const char *op, tw_softmax_attrs *attrs, int32_t rank)
{
    TW_REQUIRE(attrs->axes >> rank == 0, TW_INVALID_ARGUMENT,
               "%s: axes is 0x%x, but the tensor has rank %d: only its lowest %d bits may be set",
               op, (unsigned)attrs->axes, rank, rank);
    if (attrs->axes == 0 && rank > 0) attrs->axes = 1u << (rank - 1);
    return TW_OK;
}

static tw_status infer_like(tw_infer *infer, const char *name)
{
    const tw_tensor_desc *x = infer->in[0];
    tw_tensor_desc y = infer->out[0];
    if (!infer->declared[0]) y.dtype = tw_dtype_is_float(x->dtype) ? x->dtype : TW_F32;
    TW_REQUIRE(tw_dtype_is_float(y.dtype), TW_INVALID_ARGUMENT,
               "%s: %s is declared %s; accepted are floating-point types", infer->info->name, name,
               tw_dtype_name(y.dtype));
    y.rank = x->rank;
    for (int32_t d = 0; d < x->rank; d++) y.dims[d] = x->dims[d];
    infer->out[0] = y;
    return TW_OK;
}

static tw_status infer_forward(tw_infer *infer)
{
    TW_TRY(check_real("softmax", "x", infer->in[0]->dtype));
    TW_TRY(check_axes("softmax", &infer->attrs->softmax, infer->in[0]->rank));
    return infer_like(infer, "y");
}

static tw_status infer_backward(tw_infer *infer)
{
    const char *op = "softmax_backward";
    const tw_tensor_desc *y = infer->in[0], *dy = infer->in[1];
    TW_TRY(check_real(op, "y", y->dtype));
    TW_TRY(check_real(op, "dy", dy->dtype));
    TW_REQUIRE(y->rank == dy->rank, TW_INVALID_ARGUMENT, "%s: dy has rank %d; it must be y's, %d",
               op, dy->rank, y->rank);
    for (int32_t d = 0; d < y->rank; d++)
        TW_REQUIRE(dy->dims[d] == y->dims[d], TW_INVALID_ARGUMENT,
                   "%s: dim %d of dy is %lld; it must be that of y, %lld", op, d,
                   (long long)dy->dims[d], (long long)y->dims[d]);
    TW_TRY(check_axes(op, &infer->attrs->softmax, y->rank));
    return infer_like(infer, "dx");
}

static tw_status gradient(const tw_gradient *gradient)
{
    const tw_builder *b = gradient->builder;
    tw_tensor_desc x;
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    TW_TRY(b->describe(b->graph, gradient->in[0], &x));
    if (!tw_dtype_is_float(x.dtype)) return TW_OK;
    const tw_tensor in[2] = {gradient->out[0], gradient->dy[0]};
    TW_TRY(tw_grad_virtual(b, x.dtype, x.rank, x.dims, &gradient->dx[0]));
    return b->add(b->graph, TW_OP_SOFTMAX_BACKWARD, gradient->attrs, 2, in, 1, &gradient->dx[0]);
}

static int64_t terms(const tw_attrs *attrs, const tw_tensor_desc *const *in,
                     const tw_tensor_desc *out)
{
    int64_t count = 1;
    (void)out;
    for (int32_t d = 0; d < in[0]->rank; d++)
        if ((attrs->softmax.axes >> d) & 1u && !tw_mul_i64(count, in[0]->dims[d], &count))
            return INT64_MAX;
    return count;
}

static const tw_field fields[] = {
    TW_FIELD(uint32_t, tw_softmax_attrs, axes, TW_FIELD_I32),
    TW_FIELD(bool, tw_softmax_attrs, log, TW_FIELD_BOOL),
    {.name = NULL},
};

const tw_op_info tw_softmax_ops[2] = {
    {
        .kind = TW_OP_SOFTMAX,
        .name = "softmax",
        .min_in = 1,
        .max_in = 1,
        .n_out = 1,
        .required_out = 1,
        .in_names = {"x"},
        .out_names = {"y"},
        .fields = fields,
        .infer = infer_forward,
        .gradient = gradient,
        .bound = TW_BOUND_SMOOTH,
        .ulps = 8,
        .terms = terms,
        .in_place = 1,
    },
    {
        .kind = TW_OP_SOFTMAX_BACKWARD,
        .name = "softmax_backward",
        .min_in = 2,
        .max_in = 2,
        .n_out = 1,
        .required_out = 1,
        .in_names = {"y", "dy"},
        .out_names = {"dx"},
        .fields = fields,
        .infer = infer_backward,
        .bound = TW_BOUND_SUM,
        .terms = terms,
        .in_place = 3,
    },
};
