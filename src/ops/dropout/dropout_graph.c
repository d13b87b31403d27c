/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout: validation, shape inference, gradients. */
#include "core/dtype.h"
#include "ops/dropout/dropout.h"
#include "ops/grad.h"
#include "ops/random/random.h"

static tw_status check_rate(const tw_infer *infer)
{
    const double rate = infer->attrs->dropout.rate;
    TW_REQUIRE(rate >= 0 && rate <= 1, TW_INVALID_ARGUMENT,
               "%s: rate is %g; it is the share of elements that become 0, from 0 to 1",
               infer->info->name, rate);
    return TW_OK;
}

/* Output 0 has x's shape and, unless declared, its element type. */
static tw_status infer_like_first(tw_infer *infer)
{
    const tw_op_info *info = infer->info;
    const tw_tensor_desc *x = infer->in[0];
    tw_tensor_desc *y = &infer->out[0];
    TW_REQUIRE(tw_dtype_is_float(x->dtype), TW_INVALID_ARGUMENT,
               "%s: %s is %s; kept elements are scaled, so it must be a floating type", info->name,
               info->in_names[0], tw_dtype_name(x->dtype));
    if (!infer->declared[0]) y->dtype = x->dtype;
    TW_REQUIRE(tw_dtype_is_float(y->dtype), TW_INVALID_ARGUMENT,
               "%s: %s is declared as %s; it must be a floating type", info->name,
               info->out_names[0], tw_dtype_name(y->dtype));
    y->rank = x->rank;
    for (int32_t d = 0; d < x->rank; d++) y->dims[d] = x->dims[d];
    return TW_OK;
}

static tw_status check_mask_type(const tw_infer *infer, tw_dtype mask)
{
    TW_REQUIRE(mask == TW_BOOL || tw_dtype_is_integer(mask), TW_INVALID_ARGUMENT,
               "%s: mask is %s; it must be bool, or an integer type", infer->info->name,
               tw_dtype_name(mask));
    return TW_OK;
}

static tw_status infer_dropout(tw_infer *infer)
{
    TW_TRY(check_rate(infer));
    TW_TRY(infer_like_first(infer));
    for (int32_t i = 1; i < 3; i++) TW_TRY(tw_random_check_scalar(infer, i));
    if (infer->n_out > 1 && infer->wanted[1]) {
        tw_tensor_desc *mask = &infer->out[1];
        if (!infer->declared[1]) mask->dtype = TW_BOOL;
        TW_TRY(check_mask_type(infer, mask->dtype));
        mask->rank = infer->out[0].rank;
        for (int32_t d = 0; d < mask->rank; d++) mask->dims[d] = infer->out[0].dims[d];
    }
    const tw_dropout_attrs given = infer->attrs->dropout;
    infer->attrs->dropout = (tw_dropout_attrs){
        .rate = given.rate,
        .seed = infer->n_in > 1 && infer->in[1] != NULL ? 0 : given.seed,
        .offset = infer->n_in > 2 && infer->in[2] != NULL ? 0 : given.offset,
    };
    return TW_OK;
}

static tw_status infer_backward(tw_infer *infer)
{
    const tw_tensor_desc *dy = infer->in[0], *mask = infer->in[1];
    TW_TRY(check_rate(infer));
    TW_TRY(infer_like_first(infer));
    TW_TRY(check_mask_type(infer, mask->dtype));
    TW_REQUIRE(mask->rank == dy->rank, TW_INVALID_ARGUMENT,
               "dropout_backward: mask has rank %d and dy has rank %d; their dims must agree",
               mask->rank, dy->rank);
    for (int32_t d = 0; d < dy->rank; d++) {
        TW_REQUIRE(mask->dims[d] == dy->dims[d], TW_INVALID_ARGUMENT,
                   "dropout_backward: dim %d of mask is %lld, but that of dy is %lld; their dims "
                   "must agree",
                   d, (long long)mask->dims[d], (long long)dy->dims[d]);
    }
    infer->attrs->dropout = (tw_dropout_attrs){.rate = infer->attrs->dropout.rate};
    return TW_OK;
}

/* dx = dropout_backward(dy, mask), with the element type of the forward operation's input. */
static tw_status add_backward(const tw_gradient *gradient, tw_tensor mask)
{
    const tw_builder *builder = gradient->builder;
    const tw_tensor in[2] = {gradient->dy[0], mask};
    tw_tensor_desc x;
    TW_TRY(builder->describe(builder->graph, gradient->in[0], &x));
    TW_TRY(tw_grad_virtual(builder, x.dtype, x.rank, x.dims, &gradient->dx[0]));
    return builder->add(builder->graph, TW_OP_DROPOUT_BACKWARD, gradient->attrs, 2, in, 1,
                        &gradient->dx[0]);
}

static tw_status gradient_dropout(const tw_gradient *gradient)
{
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    tw_tensor mask = gradient->n_out > 1 ? gradient->out[1] : TW_NONE;
    if (mask == TW_NONE) TW_TRY(gradient->add_output(gradient, 1, TW_BOOL, NULL, &mask));
    return add_backward(gradient, mask);
}

/* It is linear in dy, and its own transpose. */
static tw_status gradient_backward(const tw_gradient *gradient)
{
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    return add_backward(gradient, gradient->in[1]);
}

static const tw_field forward_fields[] = {
    TW_FIELD(double, tw_dropout_attrs, rate, TW_FIELD_F64),
    TW_FIELD(int64_t, tw_dropout_attrs, seed, TW_FIELD_I64),
    TW_FIELD(int64_t, tw_dropout_attrs, offset, TW_FIELD_I64),
    {.name = NULL},
};
static const tw_field backward_fields[] = {
    TW_FIELD(double, tw_dropout_attrs, rate, TW_FIELD_F64),
    {.name = NULL},
};

/* `ulps`: the scale is rounded once to f32, then the product. */
const tw_op_info tw_dropout_ops[TW_DROPOUT_OPS] = {
    {
        .kind = TW_OP_DROPOUT,
        .name = "dropout",
        .min_in = 1,
        .max_in = 3,
        .n_out = 2,
        .required_out = 1,
        .in_names = {"x", "seed", "offset"},
        .out_names = {"y", "mask"},
        .fields = forward_fields,
        .infer = infer_dropout,
        .gradient = gradient_dropout,
        .bound = TW_BOUND_SMOOTH,
        .ulps = 2,
        .in_place = 1,
    },
    {
        .kind = TW_OP_DROPOUT_BACKWARD,
        .name = "dropout_backward",
        .min_in = 2,
        .max_in = 2,
        .n_out = 1,
        .required_out = 1,
        .in_names = {"dy", "mask"},
        .out_names = {"dx"},
        .fields = backward_fields,
        .infer = infer_backward,
        .gradient = gradient_backward,
        .bound = TW_BOUND_SMOOTH,
        .ulps = 2,
        .elementwise = true,
        .in_place = 1,
    },
};
