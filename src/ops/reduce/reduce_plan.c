/* SPDX-License-Identifier: Apache-2.0 */
/* The reduce family: its manifest and its problem strings. */
#define TW_MANIFEST "ops/reduce/reduce.def"
#include "ops/manifest.h"

#include "core/error.h"
#include "ops/reduce/reduce.h"

static const tw_problem_key keys[] = {
    {"mode", "sum",
     "sum, mean, max, min, prod, l1, l2, log_sum, log_sum_exp, sum_square, any, all, argmax, "
     "argmin, amax or prod_nonzero"},
    {"dims", "64x32x28x28", "dims of x, joined by x"},
    {"axes", "all", "dims that are reduced, joined by commas; all; or none"},
    {"dtype", "f32", "element type of x"},
    {"out", "auto", "element type of y; auto: as the mode has it"},
    {"drop", "0", "1: reduced dims disappear; 0: they stay as 1"},
    {"last", "0", "arg modes: 1 takes the last of equals"},
    {"layout", "rows", "rows: row-major; last: channels-last"},
    {NULL, NULL, NULL},
};

static const char *const mode_names[] = {
    "sum",    "mean",    "max",         "min",          "prod", "l1",
    "l2",     "log_sum", "log_sum_exp", "sum_square",   "any",  "all",
    "argmax", "argmin",  "amax",        "prod_nonzero", NULL};
static const char *const layout_names[] = {"rows", "last", NULL};

static tw_status add_reduce(const tw_problem_args *args, const tw_builder *builder, tw_tensor x,
                            int32_t rank)
{
    tw_attrs attrs = {.reduce = {.drop = tw_arg_int(args, "drop") != 0,
                                 .last_index = tw_arg_int(args, "last") != 0}};
    int32_t mode = 0;
    tw_tensor y = TW_NONE;
    TW_TRY(tw_arg_choice(args, "mode", mode_names, &mode));
    attrs.reduce.mode = (tw_reduce_mode)mode;
    TW_TRY(tw_parse_axes("axes", tw_arg_text(args, "axes"), rank, &attrs.reduce.axes));
    if (tw_arg_given(args, "out")) {
        tw_tensor_desc desc = {.rank = 0}, shape;
        TW_TRY(tw_arg_dtype(args, "out", &desc.dtype));
        TW_TRY(builder->describe(builder->graph, x, &shape));
        for (int32_t d = 0; d < rank; d++) {
            bool reduced = (attrs.reduce.axes >> d) & 1u;
            if (!reduced || !attrs.reduce.drop)
                desc.dims[desc.rank++] = reduced ? 1 : shape.dims[d];
        }
        TW_TRY(builder->tensor(builder->graph, &desc, &y));
        return builder->add(builder->graph, TW_OP_REDUCE, &attrs, 1, &x, 1, &y);
    }
    TW_TRY(builder->add(builder->graph, TW_OP_REDUCE, &attrs, 1, &x, 1, &y));
    return builder->output(builder->graph, y, NULL);
}

static tw_status problem(const tw_problem_args *args, const tw_builder *builder)
{
    int64_t dims[TW_MAX_RANK] = {0};
    int32_t rank = 0, layout = 0;
    tw_dtype dtype = TW_AUTO;
    tw_tensor x;
    TW_TRY(tw_parse_dims("dims", tw_arg_text(args, "dims"), &rank, dims));
    TW_TRY(tw_arg_dtype(args, "dtype", &dtype));
    TW_TRY(tw_arg_choice(args, "layout", layout_names, &layout));
    tw_tensor_desc desc =
        layout == 1 ? tw_desc_channels_last(dtype, rank, dims) : tw_desc(dtype, rank, dims);
    TW_TRY(builder->tensor(builder->graph, &desc, &x));
    return add_reduce(args, builder, x, rank);
}

extern const tw_family tw_family_reduce;
const tw_family tw_family_reduce = {
    .name = "reduce",
    .ops = tw_reduce_ops,
    .n_ops = 1,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .keys = keys,
    .problem = problem,
};
