/* SPDX-License-Identifier: Apache-2.0 */
/* The softmax family: its manifest and its problem strings. */
#define TW_MANIFEST "ops/softmax/softmax.def"
#include "ops/manifest.h"

#include "core/error.h"
#include "ops/reduce/lines.h"
#include "ops/softmax/softmax.h"

static const tw_problem_key keys[] = {
    {"dims", "1024x1000", "dims of x, joined by x"},
    {"axis", "",
     "dims of a row, joined by commas; negative ones count from the end; none: the last"},
    {"log", "0", "1: log-softmax"},
    {"pass", "fwd", "fwd or bwd"},
    {"dtype", "f32", "element type of every tensor"},
    {"layout", "rows", "rows: row-major; last: channels-last"},
    {NULL, NULL, NULL},
};

static const char *const pass_names[] = {"fwd", "bwd", NULL};
static const char *const layout_names[] = {"rows", "last", NULL};

static tw_status problem(const tw_problem_args *args, const tw_builder *builder)
{
    tw_attrs attrs = {.softmax = {.log = tw_arg_int(args, "log") != 0}};
    int64_t dims[TW_MAX_RANK] = {0};
    int32_t rank = 0, pass = 0, layout = 0;
    tw_dtype dtype = TW_AUTO;
    tw_tensor in[2], y = TW_NONE;
    TW_TRY(tw_parse_dims("dims", tw_arg_text(args, "dims"), &rank, dims));
    const char *axis = tw_arg_given(args, "axis") ? tw_arg_text(args, "axis") : "-1";
    TW_TRY(tw_parse_axes("axis", axis, rank, &attrs.softmax.axes));
    TW_TRY(tw_arg_dtype(args, "dtype", &dtype));
    TW_TRY(tw_arg_choice(args, "pass", pass_names, &pass));
    TW_TRY(tw_arg_choice(args, "layout", layout_names, &layout));
    tw_tensor_desc desc =
        layout == 1 ? tw_desc_channels_last(dtype, rank, dims) : tw_desc(dtype, rank, dims);
    for (int32_t i = 0; i <= pass; i++) TW_TRY(builder->tensor(builder->graph, &desc, &in[i]));
    TW_TRY(builder->tensor(builder->graph, &desc, &y));
    return builder->add(builder->graph, pass == 0 ? TW_OP_SOFTMAX : TW_OP_SOFTMAX_BACKWARD, &attrs,
                        pass + 1, in, 1, &y);
}

extern const tw_family tw_family_softmax;
const tw_family tw_family_softmax = {
    .name = "softmax",
    .ops = tw_softmax_ops,
    .n_ops = 2,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .keys = keys,
    .problem = problem,
};
