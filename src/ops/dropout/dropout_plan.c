/* SPDX-License-Identifier: Apache-2.0 */
/* The dropout family: its manifest and its problem strings. */
#define TW_MANIFEST "ops/dropout/dropout.def"
#include "ops/manifest.h"

#include "core/error.h"
#include "ops/dropout/dropout.h"
#include "ops/reduce/lines.h"

static const tw_problem_key keys[] = {
    {"dims", "1024x1024", "dims of x, joined by x"},
    {"rate", "0.5", "share of elements that become 0"},
    {"seed", "1", "64-bit seed"},
    {"offset", "0", "64-bit offset: the number of the stream"},
    {"mask", "1", "fwd: 1 if the mask is an output"},
    {"pass", "fwd", "fwd or bwd"},
    {"layout", "rows", "rows: row-major; last: channels-last"},
    {"dtype", "f32", "element type of every tensor but the mask"},
    {NULL, NULL, NULL},
};

static const char *const pass_names[] = {"fwd", "bwd", NULL};
static const char *const layout_names[] = {"rows", "last", NULL};

static tw_status add_forward(const tw_builder *builder, const tw_attrs *attrs,
                             const tw_tensor_desc *desc, tw_tensor mask)
{
    tw_tensor x = TW_NONE, y = TW_NONE;
    TW_TRY(builder->tensor(builder->graph, desc, &x));
    TW_TRY(builder->tensor(builder->graph, desc, &y));
    tw_tensor out[2] = {y, mask};
    return builder->add(builder->graph, TW_OP_DROPOUT, attrs, 1, &x, 2, out);
}

static tw_status add_backward(const tw_builder *builder, const tw_attrs *attrs,
                              const tw_tensor_desc *desc, tw_tensor mask)
{
    tw_tensor dy = TW_NONE, dx = TW_NONE;
    TW_TRY(builder->tensor(builder->graph, desc, &dy));
    TW_TRY(builder->tensor(builder->graph, desc, &dx));
    const tw_tensor in[2] = {dy, mask};
    return builder->add(builder->graph, TW_OP_DROPOUT_BACKWARD, attrs, 2, in, 1, &dx);
}

static tw_status problem(const tw_problem_args *args, const tw_builder *builder)
{
    int64_t dims[TW_MAX_RANK] = {0};
    int32_t rank = 0, pass = 0, layout = 0;
    tw_dtype dtype = TW_AUTO;
    TW_TRY(tw_parse_dims("dims", tw_arg_text(args, "dims"), &rank, dims));
    TW_TRY(tw_arg_choice(args, "pass", pass_names, &pass));
    TW_TRY(tw_arg_choice(args, "layout", layout_names, &layout));
    TW_TRY(tw_arg_dtype(args, "dtype", &dtype));
    const tw_attrs attrs = {.dropout = {.rate = tw_arg_real(args, "rate"),
                                        .seed = tw_arg_int(args, "seed"),
                                        .offset = tw_arg_int(args, "offset")}};
    tw_tensor_desc desc =
        layout == 1 ? tw_desc_channels_last(dtype, rank, dims) : tw_desc(dtype, rank, dims);
    tw_tensor_desc mask_desc = desc;
    mask_desc.dtype = TW_BOOL;
    tw_tensor mask = TW_UNWANTED;
    if (pass == 1 || tw_arg_int(args, "mask") != 0) {
        TW_TRY(builder->tensor(builder->graph, &mask_desc, &mask));
    }
    return pass == 0 ? add_forward(builder, &attrs, &desc, mask)
                     : add_backward(builder, &attrs, &desc, mask);
}

extern const tw_family tw_family_dropout;
const tw_family tw_family_dropout = {
    .name = "dropout",
    .ops = tw_dropout_ops,
    .n_ops = TW_DROPOUT_OPS,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .keys = keys,
    .problem = problem,
};
