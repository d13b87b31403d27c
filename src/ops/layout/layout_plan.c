/* SPDX-License-Identifier: Apache-2.0 */
/* The layout family: its manifest and its problem strings. */
#include "core/error.h"
#include "ops/kernel.h"
#include "ops/layout/layout_graph.h"

#define TW_MANIFEST "ops/layout/layout.def"
#include "ops/manifest.h"

#include <stdlib.h>

static const tw_problem_key keys[] = {
    {"op", "transpose",
     "reshape, transpose, expand, slice, slice_backward, concat, pad, pad_backward"},
    {"dims", "256x64x56x56", "dims of x, dim 0 first; for the backward ones those of dx"},
    {"order", "0x2x3x1", "transpose: dim d of y is dim order[d] of x"},
    {"to", "", "reshape, expand: dims of y; slice: dims of the slice"},
    {"start", "", "slice: first index for each dim; pad: elements added in front"},
    {"end", "", "pad: elements added behind; default as start"},
    {"step", "", "slice: step for each dim; default 1"},
    {"axis", "1", "concat"},
    {"count", "2", "concat: number of operands, each of dims"},
    {"mode", "constant", "pad: constant, reflect, edge, wrap"},
    {"dtype", "f32", "element type"},
    {NULL, NULL, NULL},
};

/* Reads "4x8x16" into values; *n tells how many. */
static tw_status read_list(const tw_problem_args *args, const char *key, int64_t *values,
                           int32_t *n)
{
    const char *text = tw_arg_text(args, key), *at = text;
    *n = 0;
    while (*at != '\0') {
        char *end = NULL;
        TW_REQUIRE(*n < TW_MAX_RANK, TW_INVALID_ARGUMENT, "%s=%s: more than %d numbers", key, text,
                   TW_MAX_RANK);
        values[(*n)++] = strtoll(at, &end, 10);
        TW_REQUIRE(end != at && (*end == '\0' || (*end == 'x' && end[1] != '\0')),
                   TW_INVALID_ARGUMENT, "%s=%s: column %d is not part of a list such as 4x8x16",
                   key, text, (int)(end - text));
        at = *end == 'x' ? end + 1 : end;
    }
    return TW_OK;
}

/* A list with one number for each dim, or none: then `fallback` throughout. */
static tw_status read_per_dim(const tw_problem_args *args, const char *key, int32_t rank,
                              int64_t fallback, int64_t *values)
{
    int32_t n;
    TW_TRY(read_list(args, key, values, &n));
    TW_REQUIRE(n == 0 || n == rank, TW_INVALID_ARGUMENT, "%s has %d numbers, dims has %d", key, n,
               rank);
    for (int32_t d = n; d < rank; d++) values[d] = fallback;
    return TW_OK;
}

static tw_status read_attrs(const tw_problem_args *args, tw_op_kind kind, int32_t rank,
                            tw_layout_attrs *attrs)
{
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap", NULL};
    int64_t order[TW_MAX_RANK];
    int32_t mode;
    if (kind == TW_OP_TRANSPOSE) {
        for (int32_t d = 0; d < rank; d++) order[d] = rank - 1 - d;
        if (rank == 4 || tw_arg_given(args, "order"))
            TW_TRY(read_per_dim(args, "order", rank, 0, order));
        for (int32_t d = 0; d < rank; d++) attrs->order[d] = (int32_t)order[d];
    }
    attrs->axis = (int32_t)tw_arg_int(args, "axis");
    TW_TRY(read_per_dim(args, "start", rank, kind == TW_OP_PAD ? 1 : 0, attrs->start));
    TW_TRY(read_per_dim(args, "step", rank, 1, attrs->step));
    if (tw_arg_given(args, "end"))
        TW_TRY(read_per_dim(args, "end", rank, 0, attrs->end_pad));
    else
        for (int32_t d = 0; d < rank; d++) attrs->end_pad[d] = attrs->start[d];
    TW_TRY(tw_arg_choice(args, "mode", modes, &mode));
    attrs->pad_mode = (tw_pad_mode)mode;
    return TW_OK;
}

static bool shaped_by_declaration(tw_op_kind kind)
{
    return kind == TW_OP_RESHAPE || kind == TW_OP_EXPAND || kind == TW_OP_SLICE;
}

static bool is_backward(tw_op_kind kind)
{
    return kind == TW_OP_SLICE_BACKWARD || kind == TW_OP_PAD_BACKWARD;
}

/* Dims of the gradient that a backward operation reads. */
static tw_status dy_dims(const tw_problem_args *args, tw_op_kind kind, const tw_layout_attrs *attrs,
                         const tw_tensor_desc *x, tw_tensor_desc *dy)
{
    *dy = *x;
    if (kind == TW_OP_SLICE_BACKWARD) return read_list(args, "to", dy->dims, &dy->rank);
    for (int32_t d = 0; d < x->rank; d++) dy->dims[d] += attrs->start[d] + attrs->end_pad[d];
    return TW_OK;
}

static tw_status problem(const tw_problem_args *args, const tw_builder *builder)
{
    static const char *const names[] = {"reshape",        "transpose",    "expand",
                                        "slice",          "concat",       "pad",
                                        "slice_backward", "pad_backward", NULL};
    static const tw_op_kind kinds[] = {TW_OP_RESHAPE,        TW_OP_TRANSPOSE,   TW_OP_EXPAND,
                                       TW_OP_SLICE,          TW_OP_CONCAT,      TW_OP_PAD,
                                       TW_OP_SLICE_BACKWARD, TW_OP_PAD_BACKWARD};
    int32_t which, rank;
    int64_t dims[TW_MAX_RANK];
    tw_dtype dtype;
    tw_attrs attrs = {.layout = {.axis = 0}};
    tw_tensor in[TW_MAX_RANK], out = TW_NONE;
    TW_TRY(tw_arg_choice(args, "op", names, &which));
    TW_TRY(tw_arg_dtype(args, "dtype", &dtype));
    TW_TRY(read_list(args, "dims", dims, &rank));
    tw_op_kind kind = kinds[which];
    TW_TRY(read_attrs(args, kind, rank, &attrs.layout));
    tw_tensor_desc x = tw_desc(dtype, rank, dims), y = x;
    int32_t n_in = kind == TW_OP_CONCAT ? (int32_t)tw_arg_int(args, "count") : 1;
    TW_REQUIRE(n_in >= 1 && n_in <= TW_MAX_RANK, TW_INVALID_ARGUMENT,
               "count=%d: it must be 1 to %d", n_in, TW_MAX_RANK);
    if (is_backward(kind)) TW_TRY(dy_dims(args, kind, &attrs.layout, &y, &x));
    if (shaped_by_declaration(kind)) TW_TRY(read_list(args, "to", y.dims, &y.rank));
    for (int32_t i = 0; i < n_in; i++) TW_TRY(builder->tensor(builder->graph, &x, &in[i]));
    if (is_backward(kind) || shaped_by_declaration(kind)) {
        TW_TRY(builder->tensor(builder->graph, &y, &out));
        return builder->add(builder->graph, kind, &attrs, n_in, in, 1, &out);
    }
    TW_TRY(builder->add(builder->graph, kind, &attrs, n_in, in, 1, &out));
    return builder->output(builder->graph, out, NULL);
}

const tw_family tw_family_layout = {
    .name = "layout",
    .ops = tw_layout_ops,
    .n_ops = TW_LAYOUT_OPS,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .keys = keys,
    .problem = problem,
};
