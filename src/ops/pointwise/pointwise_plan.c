/* SPDX-License-Identifier: Apache-2.0 */
/* The family's record and its problem strings. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "ops/pointwise/pointwise.h"

#define TW_MANIFEST "ops/pointwise/pointwise.def"
#include "ops/manifest.h"

static const tw_problem_key keys[] = {
    {"mode", "add", "a mode of tilework/pointwise.def"},
    {"dims", "1024x1024", "dims of a, as 64x32x28x28; \"scalar\" for rank 0"},
    {"b", "", "dims of b; a's own if empty"},
    {"c", "", "dims of c; a's own if empty"},
    {"dtype", "f32", "element type of the operands"},
    {"cond", "bool", "element type of a in mode select"},
    {"out", "auto", "element type of y; auto: what the operation infers"},
    {"compute", "auto", "type of the arithmetic"},
    {"alpha", "", "parameter of some modes; the mode's default if empty"},
    {"beta", "", "parameter of some modes; the mode's default if empty"},
    {"axis", "0", "of gen_index"},
    {NULL, NULL, NULL},
};

static tw_status parse_dims(const char *key, const char *text, tw_tensor_desc *desc)
{
    desc->rank = 0;
    if (strcmp(text, "scalar") == 0) return TW_OK;
    for (const char *p = text;; p++) {
        char *end;
        long long dim = strtoll(p, &end, 10);
        TW_REQUIRE(end != p && dim >= 0 && (*end == 'x' || *end == '\0'), TW_INVALID_ARGUMENT,
                   "pointwise: %s=%s is not a list of dims such as 64x32x28x28", key, text);
        TW_REQUIRE(desc->rank < TW_MAX_RANK, TW_INVALID_ARGUMENT,
                   "pointwise: %s=%s has more than %d dims", key, text, TW_MAX_RANK);
        desc->dims[desc->rank++] = dim;
        if (*end == '\0') return TW_OK;
        p = end;
    }
}

static tw_status operand(const tw_problem_args *args, const char *key, tw_dtype dtype,
                         tw_tensor_desc *desc)
{
    const char *text = tw_arg_text(args, key);
    *desc = (tw_tensor_desc){.size = sizeof *desc, .dtype = dtype};
    return parse_dims(key, *text ? text : tw_arg_text(args, "dims"), desc);
}

static tw_status read_attrs(const tw_problem_args *args, tw_pointwise_attrs *attrs)
{
    TW_TRY(tw_pw_mode_from_name(tw_arg_text(args, "mode"), &attrs->mode));
    attrs->has_alpha = *tw_arg_text(args, "alpha") != '\0';
    attrs->has_beta = *tw_arg_text(args, "beta") != '\0';
    if (attrs->has_alpha) attrs->alpha = tw_arg_real(args, "alpha");
    if (attrs->has_beta) attrs->beta = tw_arg_real(args, "beta");
    attrs->axis = tw_arg_int(args, "axis");
    if (strcmp(tw_arg_text(args, "compute"), "auto") == 0) return TW_OK;
    return tw_arg_dtype(args, "compute", &attrs->compute);
}

/* The result's shape, by the family's own inference, and its type as declared. */
static tw_status result(const tw_problem_args *args, const tw_tensor_desc *in, int32_t n_in,
                        tw_attrs attrs, tw_tensor_desc *y)
{
    static const bool wanted = true, declared = false;
    const tw_tensor_desc *pointers[3] = {&in[0], &in[1], &in[2]};
    tw_infer infer = {.info = &tw_pw_ops[0],
                      .attrs = &attrs,
                      .n_in = n_in,
                      .n_out = 1,
                      .in = pointers,
                      .wanted = &wanted,
                      .declared = &declared,
                      .out = y};
    *y = (tw_tensor_desc){.size = sizeof *y};
    TW_TRY(tw_pw_infer(&infer));
    if (strcmp(tw_arg_text(args, "out"), "auto") == 0) return TW_OK;
    return tw_arg_dtype(args, "out", &y->dtype);
}

static tw_status build(const tw_problem_args *args, const tw_builder *builder)
{
    static const char *const operands[3] = {"dims", "b", "c"};
    tw_attrs attrs = {.pointwise = {.mode = TW_PW_IDENTITY}};
    tw_tensor_desc desc[3], y_desc;
    tw_tensor in[3], y;
    tw_dtype dtype, condition;
    TW_TRY(read_attrs(args, &attrs.pointwise));
    TW_TRY(tw_arg_dtype(args, "dtype", &dtype));
    TW_TRY(tw_arg_dtype(args, "cond", &condition));
    int32_t n_in = tw_pw_mode_of(attrs.pointwise.mode).arity;
    for (int32_t i = 0; i < n_in; i++) {
        bool is_condition = attrs.pointwise.mode == TW_PW_SELECT && i == 0;
        TW_TRY(operand(args, operands[i], is_condition ? condition : dtype, &desc[i]));
    }
    TW_TRY(result(args, desc, n_in, attrs, &y_desc));
    for (int32_t i = 0; i < n_in; i++) TW_TRY(builder->tensor(builder->graph, &desc[i], &in[i]));
    TW_TRY(builder->tensor(builder->graph, &y_desc, &y));
    return builder->add(builder->graph, TW_OP_POINTWISE, &attrs, n_in, in, 1, &y);
}

const tw_family tw_family_pointwise = {
    .name = "pointwise",
    .ops = tw_pw_ops,
    .n_ops = 1,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .keys = keys,
    .problem = build,
};
