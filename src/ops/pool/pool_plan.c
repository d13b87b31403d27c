/* SPDX-License-Identifier: Apache-2.0 */
/* The pooling family: its manifest and its problem strings. */
#include "core/error.h"
#include "ops/kernel.h"
#include "ops/pool/pool_graph.h"
#include "ops/pool/pool_shape.h"

#define TW_MANIFEST "ops/pool/pool.def"
#include "ops/manifest.h"

static const tw_problem_key keys[] = {
    {"mode", "max", "max, average"},
    {"n", "1", "images"},
    {"c", "64", "channels"},
    {"d", "0", "depth of x; 0: no depth axis"},
    {"h", "56", "height of x; 0: one spatial axis only"},
    {"w", "0", "width of x; 0: as h"},
    {"r", "2", "height (and depth) of the window"},
    {"s", "0", "width of the window; 0: as r"},
    {"stride", "0", "step of the windows along every axis; 0: the window's size"},
    {"pad", "0", "padding on both sides of every axis"},
    {"dilation", "1", "distance of a window's elements"},
    {"ceil", "0", "1: a last, partial window counts"},
    {"include_pad", "0", "1: averages count declared padding"},
    {"layout", "nchw", "nchw, nhwc: which dim is the fastest in memory"},
    {"indices", "0", "1: max pooling also stores indices within the window"},
    {"pass", "fwd", "fwd, bwd"},
    {"dtype", "f32", "element type"},
    {NULL, NULL, NULL},
};

static int64_t or_else(int64_t value, int64_t fallback) { return value != 0 ? value : fallback; }

static void read_attrs(const tw_problem_args *args, int32_t spatial, tw_pool_attrs *attrs)
{
    int64_t r = tw_arg_int(args, "r"), s = or_else(tw_arg_int(args, "s"), r);
    for (int32_t i = 0; i < spatial; i++) {
        attrs->window[i] = i == spatial - 1 ? s : r;
        attrs->stride[i] = or_else(tw_arg_int(args, "stride"), attrs->window[i]);
        attrs->dilation[i] = tw_arg_int(args, "dilation");
        attrs->pad_lo[i] = attrs->pad_hi[i] = tw_arg_int(args, "pad");
    }
    attrs->ceil_mode = tw_arg_int(args, "ceil") != 0;
    attrs->include_pad = tw_arg_int(args, "include_pad") != 0;
    attrs->index = TW_POOL_INDEX_WINDOW;
}

static int32_t read_dims(const tw_problem_args *args, int64_t *dims)
{
    int64_t d = tw_arg_int(args, "d"), h = tw_arg_int(args, "h"), w = tw_arg_int(args, "w");
    int32_t rank = 2;
    dims[0] = tw_arg_int(args, "n");
    dims[1] = tw_arg_int(args, "c");
    if (d != 0) dims[rank++] = d;
    if (h != 0) dims[rank++] = h;
    dims[rank++] = or_else(w, h);
    return rank;
}

typedef struct pool_problem {
    const tw_builder *builder;
    tw_attrs attrs;
    bool channels_last;
    tw_tensor_desc x, y, indices;
} pool_problem;

static tw_status describe_tensors(const tw_problem_args *args, pool_problem *p)
{
    static const char *const modes[] = {"max", "average", NULL}, *const layouts[] = {"nchw", "nhwc",
                                                                                     NULL};
    int64_t dims[TW_MAX_RANK];
    int32_t mode, layout;
    tw_dtype dtype;
    int32_t rank = read_dims(args, dims);
    TW_TRY(tw_arg_choice(args, "mode", modes, &mode));
    TW_TRY(tw_arg_choice(args, "layout", layouts, &layout));
    TW_TRY(tw_arg_dtype(args, "dtype", &dtype));
    p->attrs.pool.mode = (tw_pool_mode)mode;
    read_attrs(args, rank - 2, &p->attrs.pool);
    tw_tensor_desc (*describe)(tw_dtype, int32_t, const int64_t *) =
        layout == 1 ? tw_desc_channels_last : tw_desc;
    p->x = describe(dtype, rank, dims);
    for (int32_t i = 0; i < rank - 2; i++) {
        bool sane = dims[2 + i] >= 0 && p->attrs.pool.window[i] > 0 &&
                    p->attrs.pool.stride[i] > 0 && p->attrs.pool.dilation[i] > 0;
        TW_REQUIRE(sane, TW_INVALID_ARGUMENT,
                   "pool: sizes must be 0 or more, windows, stride and dilation 1 or more");
    }
    tw_pool_shape shape = tw_pool_shape_of(&p->attrs.pool, rank, dims);
    for (int32_t i = 2; i < rank; i++) dims[i] = shape.axis[TW_MAX_SPATIAL - rank + i].out;
    p->y = describe(dtype, rank, dims);
    p->indices = describe(shape.taps <= 256 ? TW_U8 : TW_I32, rank, dims);
    return TW_OK;
}

static tw_status problem(const tw_problem_args *args, const tw_builder *builder)
{
    static const char *const passes[] = {"fwd", "bwd", NULL};
    pool_problem p = {.builder = builder};
    tw_tensor in[2] = {TW_NONE, TW_NONE}, out[2] = {TW_NONE, TW_UNWANTED};
    int32_t pass;
    TW_TRY(tw_arg_choice(args, "pass", passes, &pass));
    TW_TRY(describe_tensors(args, &p));
    bool max = p.attrs.pool.mode == TW_POOL_MAX;
    if (pass == 1) {
        TW_TRY(builder->tensor(builder->graph, &p.y, &in[0]));
        if (max) TW_TRY(builder->tensor(builder->graph, &p.indices, &in[1]));
        TW_TRY(builder->tensor(builder->graph, &p.x, &out[0]));
        return builder->add(builder->graph, TW_OP_POOL_BACKWARD, &p.attrs, max ? 2 : 1, in, 1, out);
    }
    TW_TRY(builder->tensor(builder->graph, &p.x, &in[0]));
    TW_TRY(builder->tensor(builder->graph, &p.y, &out[0]));
    if (max && tw_arg_int(args, "indices") != 0)
        TW_TRY(builder->tensor(builder->graph, &p.indices, &out[1]));
    return builder->add(builder->graph, TW_OP_POOL, &p.attrs, 1, in, 2, out);
}

const tw_family tw_family_pool = {
    .name = "pool",
    .ops = tw_pool_ops,
    .n_ops = TW_POOL_OPS,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .keys = keys,
    .problem = problem,
};
