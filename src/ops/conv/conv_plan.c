/* SPDX-License-Identifier: Apache-2.0 */
/* The convolution family: its manifest and its problem strings. */
#include "core/dtype.h"
#include "core/error.h"
#include "ops/conv/conv_ops.h"
#include "ops/kernel.h"

#define TW_MANIFEST "ops/conv/conv.def"
#include "ops/manifest.h"

static const tw_problem_key keys[] = {
    {"n", "64", "batch"},
    {"c", "64", "input channels"},
    {"h", "28", "height of x"},
    {"w", "h", "width of x; default: as h"},
    {"d", "", "depth of x: makes the problem 3-D"},
    {"k", "64", "output channels"},
    {"r", "3", "height of the kernel"},
    {"s", "r", "width of the kernel; default: as r"},
    {"t", "r", "depth of the kernel, with d; default: as r"},
    {"pad", "0", "padding on every side"},
    {"ph", "pad", "padding above and below"},
    {"pw", "pad", "padding left and right"},
    {"pad_lo", "pad", "padding before the first element, on every axis"},
    {"pad_hi", "pad", "padding after the last element, on every axis"},
    {"stride", "1", "stride on every axis"},
    {"dil", "1", "dilation on every axis"},
    {"groups", "1", "groups of channels"},
    {"dtype", "f32", "element type of the operands; integers give i32"},
    {"layout", "nhwc", "memory order of all tensors: nhwc, nchw"},
    {"pass", "fwd", "fwd, dgrad, wgrad"},
    {NULL, NULL, NULL},
};

typedef struct problem_dims {
    int32_t rank;
    int64_t x[5], w[5], y[5];
} problem_dims;

static int64_t given_or(const tw_problem_args *args, const char *key, int64_t otherwise)
{
    return tw_arg_given(args, key) ? tw_arg_int(args, key) : otherwise;
}

static void read_attrs(const tw_problem_args *args, int32_t spatial, tw_conv_attrs *attrs)
{
    int64_t pad = tw_arg_int(args, "pad");
    for (int32_t i = 0; i < spatial; i++) {
        int64_t side = pad;
        if (i == spatial - 1) side = given_or(args, "pw", pad);
        if (i == spatial - 2) side = given_or(args, "ph", pad);
        attrs->pad_lo[i] = given_or(args, "pad_lo", side);
        attrs->pad_hi[i] = given_or(args, "pad_hi", side);
        attrs->stride[i] = tw_arg_int(args, "stride");
        attrs->dilation[i] = tw_arg_int(args, "dil");
    }
    attrs->groups = tw_arg_int(args, "groups");
}

/* y's sizes are what the formula says; inference refuses a problem that has none. */
static void read_dims(const tw_problem_args *args, const tw_conv_attrs *attrs, problem_dims *dims)
{
    int32_t at = 2;
    int64_t h = tw_arg_int(args, "h"), r = tw_arg_int(args, "r");
    if (dims->rank == 5) {
        dims->x[at] = tw_arg_int(args, "d");
        dims->w[at++] = given_or(args, "t", r);
    }
    dims->x[at] = h;
    dims->w[at++] = r;
    dims->x[at] = given_or(args, "w", h);
    dims->w[at] = given_or(args, "s", r);
    dims->x[0] = dims->y[0] = tw_arg_int(args, "n");
    dims->x[1] = tw_arg_int(args, "c");
    dims->w[0] = dims->y[1] = tw_arg_int(args, "k");
    dims->w[1] = attrs->groups > 1 ? dims->x[1] / attrs->groups : dims->x[1];
    for (int32_t d = 2; d < dims->rank; d++) {
        int64_t stride = attrs->stride[d - 2] > 0 ? attrs->stride[d - 2] : 1;
        int64_t room = dims->x[d] + attrs->pad_lo[d - 2] + attrs->pad_hi[d - 2] -
                       attrs->dilation[d - 2] * (dims->w[d] - 1) - 1;
        dims->y[d] = room < 0 ? 0 : room / stride + 1;
    }
}

static tw_status add_tensor(const tw_builder *builder, const int64_t *dims, int32_t rank,
                            tw_dtype dtype, int32_t layout, tw_tensor *tensor)
{
    tw_tensor_desc desc =
        layout == 0 ? tw_desc_channels_last(dtype, rank, dims) : tw_desc(dtype, rank, dims);
    return builder->tensor(builder->graph, &desc, tensor);
}

static tw_status build_problem(const tw_problem_args *args, const tw_builder *builder)
{
    static const char *const layouts[] = {"nhwc", "nchw", NULL};
    static const char *const passes[] = {"fwd", "dgrad", "wgrad", NULL};
    static const tw_op_kind kinds[] = {TW_OP_CONV, TW_OP_CONV_DGRAD, TW_OP_CONV_WGRAD};
    problem_dims dims = {.rank = tw_arg_given(args, "d") ? 5 : 4};
    tw_attrs attrs = {.conv = {.size = sizeof(tw_conv_attrs)}};
    tw_tensor in[2], out;
    tw_dtype dtype;
    int32_t layout, pass;
    TW_TRY(tw_arg_choice(args, "layout", layouts, &layout));
    TW_TRY(tw_arg_choice(args, "pass", passes, &pass));
    TW_TRY(tw_arg_dtype(args, "dtype", &dtype));
    read_attrs(args, dims.rank - 2, &attrs.conv);
    read_dims(args, &attrs.conv, &dims);
    const int64_t *const operands[3][3] = {
        {dims.x, dims.w, dims.y}, {dims.y, dims.w, dims.x}, {dims.x, dims.y, dims.w}};
    const int64_t *const *order = operands[pass];
    tw_dtype result = tw_dtype_is_float(dtype) ? dtype : TW_I32;
    TW_TRY(add_tensor(builder, order[0], dims.rank, dtype, layout, &in[0]));
    TW_TRY(add_tensor(builder, order[1], dims.rank, dtype, layout, &in[1]));
    TW_TRY(add_tensor(builder, order[2], dims.rank, result, layout, &out));
    return builder->add(builder->graph, kinds[pass], &attrs, 2, in, 1, &out);
}

const tw_family tw_family_conv = {
    .name = "conv",
    .ops = tw_conv_ops,
    .n_ops = 3,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .keys = keys,
    .problem = build_problem,
};
