/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products with a bias or an activation whose cap leaves no room for the value between, where no
 * kernel takes all in one: the product goes to y, and the rest works on y in place. The result is
 * the same as long as y holds the product's own type; other types are refused as too little
 * workspace, since rounding twice would cost digits.
 */
#include "simple/call_table.h"

static bool same_type(const tw_input *a, const tw_input *b, const tw_output *y)
{
    tw_dtype type = y->desc->dtype;
    return (type == TW_F32 || type == TW_F64) && a->desc->dtype == type && b->desc->dtype == type;
}

static tw_status add_in_place(const tw_call_options *options, const tw_output *y,
                              const tw_tensor_desc *bias, const void *data)
{
    static const tw_pointwise_attrs add = {.mode = TW_PW_ADD};
    return tw_pointwise(&(tw_pointwise_call){
        .options = options, .a = {y->desc, y->data}, .b = {bias, data}, .y = *y, .attrs = &add});
}

static tw_status activate_in_place(const tw_call_options *options, const tw_output *y,
                                   const tw_pointwise_attrs *activation)
{
    if (!activation) return TW_OK;
    return tw_pointwise(&(tw_pointwise_call){
        .options = options, .a = {y->desc, y->data}, .y = *y, .attrs = activation});
}

bool tw_call_conv_splits(const void *pointer)
{
    const tw_conv_call *call = pointer;
    return same_type(&call->x, &call->w, &call->y);
}

tw_status tw_call_split_conv(const void *pointer)
{
    const tw_conv_call *call = pointer;
    tw_conv_call product = *call;
    product.bias = (tw_input){.desc = NULL};
    product.activation = NULL;
    TW_TRY(tw_conv_forward(&product));
    if (call->bias.desc) {
        tw_tensor_desc bias = *call->bias.desc; /* [K, 1…] */
        bias.rank = call->y.desc->rank - 1;
        for (int32_t d = 1; d < bias.rank; d++) {
            bias.dims[d] = 1;
            bias.strides[d] = 0;
        }
        TW_TRY(add_in_place(call->options, &call->y, &bias, call->bias.data));
    }
    return activate_in_place(call->options, &call->y, call->activation);
}

bool tw_call_matmul_splits(const void *pointer)
{
    const tw_matmul_call *call = pointer;
    return same_type(&call->a, &call->b, &call->y);
}

tw_status tw_call_split_matmul(const void *pointer)
{
    const tw_matmul_call *call = pointer;
    tw_matmul_call product = *call;
    product.bias = (tw_input){.desc = NULL};
    product.activation = NULL;
    TW_TRY(tw_matmul(&product));
    if (call->bias.desc)
        TW_TRY(add_in_place(call->options, &call->y, call->bias.desc, call->bias.data));
    return activate_in_place(call->options, &call->y, call->activation);
}
