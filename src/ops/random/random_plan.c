/* SPDX-License-Identifier: Apache-2.0 */
/* The random family: its manifest and its problem strings. */
#define TW_MANIFEST "ops/random/random.def"
#include "ops/manifest.h"

#include "core/error.h"
#include "ops/random/random.h"
#include "ops/reduce/lines.h"

static const tw_problem_key keys[] = {
    {"dims", "1024x1024", "dims of y, joined by x"},
    {"dist", "uniform", "uniform, normal, bernoulli or bits"},
    {"a", "0", "lower end, mean, or probability"},
    {"b", "1", "upper end, or standard deviation"},
    {"seed", "1", "64-bit seed"},
    {"offset", "0", "64-bit offset: the number of the stream"},
    {"dtype", "f32", "element type of y"},
    {NULL, NULL, NULL},
};

static const char *const distributions[] = {
    [TW_RANDOM_UNIFORM] = "uniform",
    [TW_RANDOM_NORMAL] = "normal",
    [TW_RANDOM_BERNOULLI] = "bernoulli",
    [TW_RANDOM_BITS] = "bits",
    NULL,
};

static tw_status problem(const tw_problem_args *args, const tw_builder *builder)
{
    int64_t dims[TW_MAX_RANK] = {0};
    int32_t rank = 0, distribution = 0;
    tw_dtype dtype = TW_AUTO;
    tw_tensor y = TW_NONE;
    TW_TRY(tw_parse_dims("dims", tw_arg_text(args, "dims"), &rank, dims));
    TW_TRY(tw_arg_choice(args, "dist", distributions, &distribution));
    TW_TRY(tw_arg_dtype(args, "dtype", &dtype));
    const tw_attrs attrs = {.random = {.distribution = (tw_distribution)distribution,
                                       .a = tw_arg_real(args, "a"),
                                       .b = tw_arg_real(args, "b"),
                                       .seed = tw_arg_int(args, "seed"),
                                       .offset = tw_arg_int(args, "offset")}};
    const tw_tensor_desc desc = tw_desc(dtype, rank, dims);
    TW_TRY(builder->tensor(builder->graph, &desc, &y));
    return builder->add(builder->graph, TW_OP_RANDOM, &attrs, 0, NULL, 1, &y);
}

extern const tw_family tw_family_random;
const tw_family tw_family_random = {
    .name = "random",
    .ops = tw_random_ops,
    .n_ops = 1,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .keys = keys,
    .problem = problem,
};
