/* SPDX-License-Identifier: Apache-2.0 */
/* The gemm family: its manifest and its problem strings. */
#include "core/error.h"
#include "ops/gemm/gemm_shape.h"

#define TW_MANIFEST "ops/gemm/gemm.def"
#include "ops/manifest.h"

static const tw_problem_key keys[] = {
    {"m", "1024", "rows of a and of the result"},
    {"n", "1024", "columns of b and of the result"},
    {"k", "1024", "columns of a, rows of b"},
    {"batch", "0", "matrices; 0: no batch dim"},
    {"dtype", "f32", "element type of a and b"},
    {"out", "auto", "element type of the result; auto: as dtype, i32 for integers"},
    {"ta", "0", "1: a is stored as [k, m]"},
    {"tb", "0", "1: b is stored as [n, k]"},
    {"tc", "0", "1: the result is stored as [n, m]; integers: give out too"},
    {"shared", "0", "1: one b for the whole batch"},
    {NULL, NULL, NULL},
};

/* [batch,] rows, cols; column-major if `transposed`. */
static tw_tensor_desc matrix(tw_dtype dtype, int64_t batch, const int64_t dims[2], bool transposed)
{
    const int64_t all[3] = {batch, dims[0], dims[1]};
    tw_tensor_desc desc = batch > 0 ? tw_desc(dtype, 3, all) : tw_desc(dtype, 2, dims);
    if (!transposed) return desc;
    desc.has_strides = true;
    desc.strides[0] = dims[0] * dims[1];
    desc.strides[desc.rank - 2] = 1;
    desc.strides[desc.rank - 1] = dims[0] > 0 ? dims[0] : 1;
    return desc;
}

static tw_status problem(const tw_problem_args *args, const tw_builder *builder)
{
    const int64_t m = tw_arg_int(args, "m"), n = tw_arg_int(args, "n"), k = tw_arg_int(args, "k");
    const int64_t batch = tw_arg_int(args, "batch");
    tw_dtype dtype, out = TW_AUTO;
    tw_tensor in[2] = {TW_NONE, TW_NONE}, y = TW_NONE;
    TW_REQUIRE(m >= 0 && n >= 0 && k >= 0 && batch >= 0, TW_INVALID_ARGUMENT,
               "gemm: m, n, k and batch must be 0 or more");
    TW_TRY(tw_arg_dtype(args, "dtype", &dtype));
    if (tw_arg_given(args, "out")) TW_TRY(tw_arg_dtype(args, "out", &out));
    const tw_tensor_desc a =
        matrix(dtype, batch, (const int64_t[2]){m, k}, tw_arg_int(args, "ta") != 0);
    const tw_tensor_desc b = matrix(dtype, tw_arg_int(args, "shared") != 0 ? 0 : batch,
                                    (const int64_t[2]){k, n}, tw_arg_int(args, "tb") != 0);
    TW_TRY(builder->tensor(builder->graph, &a, &in[0]));
    TW_TRY(builder->tensor(builder->graph, &b, &in[1]));
    const tw_attrs attrs = {.matmul = {.compute = TW_AUTO}};
    if (out == TW_AUTO && tw_arg_int(args, "tc") == 0) {
        TW_TRY(builder->add(builder->graph, TW_OP_MATMUL, &attrs, 2, in, 1, &y));
        return builder->output(builder->graph, y, NULL);
    }
    const tw_tensor_desc c = matrix(out == TW_AUTO ? dtype : out, batch, (const int64_t[2]){m, n},
                                    tw_arg_int(args, "tc") != 0);
    TW_TRY(builder->tensor(builder->graph, &c, &y));
    return builder->add(builder->graph, TW_OP_MATMUL, &attrs, 2, in, 1, &y);
}

const tw_family tw_family_gemm = {
    .name = "gemm",
    .ops = tw_gemm_ops,
    .n_ops = 1,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .keys = keys,
    .problem = problem,
};
