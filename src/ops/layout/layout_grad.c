/* SPDX-License-Identifier: Apache-2.0 */
/* Layout operations: gradients. Each moves dy back to where its element came from. */
#include "ops/layout/layout_graph.h"

#include "ops/grad.h"

static tw_status describe(const tw_gradient *gradient, tw_tensor tensor, tw_tensor_desc *desc)
{
    return gradient->builder->describe(gradient->builder->graph, tensor, desc);
}

/* dx[i] = op(dy), declared with the shape and element type of input i. */
static tw_status add_like(const tw_gradient *gradient, tw_op_kind kind, const tw_attrs *attrs,
                          int32_t i)
{
    const tw_builder *builder = gradient->builder;
    tw_tensor_desc x;
    TW_TRY(describe(gradient, gradient->in[i], &x));
    TW_TRY(tw_grad_virtual(builder, x.dtype, x.rank, x.dims, &gradient->dx[i]));
    return builder->add(builder->graph, kind, attrs, 1, gradient->dy, 1, &gradient->dx[i]);
}

tw_status tw_layout_gradient_reshape(const tw_gradient *gradient)
{
    const tw_attrs none = {.layout = {.axis = 0}};
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    return add_like(gradient, TW_OP_RESHAPE, &none, 0);
}

tw_status tw_layout_gradient_transpose(const tw_gradient *gradient)
{
    tw_attrs inverse = {.layout = {.axis = 0}};
    tw_tensor_desc x;
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    TW_TRY(describe(gradient, gradient->in[0], &x));
    for (int32_t d = 0; d < x.rank; d++) inverse.layout.order[gradient->attrs->layout.order[d]] = d;
    return add_like(gradient, TW_OP_TRANSPOSE, &inverse, 0);
}

tw_status tw_layout_gradient_expand(const tw_gradient *gradient)
{
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    return tw_grad_sum_to(gradient->builder, gradient->dy[0], gradient->in[0], &gradient->dx[0]);
}

tw_status tw_layout_gradient_slice(const tw_gradient *gradient)
{
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    return add_like(gradient, TW_OP_SLICE_BACKWARD, gradient->attrs, 0);
}

tw_status tw_layout_gradient_slice_backward(const tw_gradient *gradient)
{
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    return add_like(gradient, TW_OP_SLICE, gradient->attrs, 0);
}

tw_status tw_layout_gradient_concat(const tw_gradient *gradient)
{
    tw_attrs slice = {.layout = {.axis = 0}};
    int32_t axis = gradient->attrs->layout.axis;
    if (gradient->dy[0] == TW_NONE) return TW_OK;
    for (int32_t d = 0; d < TW_MAX_RANK; d++) slice.layout.step[d] = 1;
    for (int32_t i = 0; i < gradient->n_in; i++) {
        tw_tensor_desc x;
        TW_TRY(describe(gradient, gradient->in[i], &x));
        if (gradient->want[i]) TW_TRY(add_like(gradient, TW_OP_SLICE, &slice, i));
        slice.layout.start[axis] += x.dims[axis];
    }
    return TW_OK;
}

/* Constants take no gradient, so a constant pad is undone by the opposite crop. */
static tw_status add_crop(const tw_gradient *gradient)
{
    const tw_layout_attrs *pad = &gradient->attrs->layout;
    tw_attrs crop = {.layout = {.pad_mode = TW_PAD_CONSTANT}};
    for (int32_t d = 0; d < TW_MAX_RANK; d++) {
        crop.layout.start[d] = -pad->start[d];
        crop.layout.end_pad[d] = -pad->end_pad[d];
    }
    return add_like(gradient, TW_OP_PAD, &crop, 0);
}

tw_status tw_layout_gradient_pad(const tw_gradient *gradient)
{
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    if (gradient->attrs->layout.pad_mode == TW_PAD_CONSTANT) return add_crop(gradient);
    return add_like(gradient, TW_OP_PAD_BACKWARD, gradient->attrs, 0);
}

tw_status tw_layout_gradient_pad_backward(const tw_gradient *gradient)
{
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    return add_like(gradient, TW_OP_PAD, gradient->attrs, 0);
}
