/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution, pooling and matrix products of cases, in ONNX's words. */
#include <string.h>

#include "cases.h"
#include "core/error.h"

typedef tw_status (*translate)(const case_node *node);

static tw_status dims_of(const case_node *node, tw_tensor t, tw_tensor_desc *desc)
{
    return tw_graph_describe(node->run->graph, t, desc);
}

/* ---- Attributes ------------------------------------------------------------------------------ */

static tw_status check_count(const char *name, int32_t n, int32_t want)
{
    TW_REQUIRE(n < 0 || n == want, TW_INVALID_ARGUMENT, "%s has %d values; it needs %d", name,
               (int)n, (int)want);
    return TW_OK;
}

/* strides, dilations, pads of `spatial` dims; what is absent stays 0. */
static tw_status window_attrs(const cJSON *attrs, int32_t spatial, int64_t *stride,
                              int64_t *dilation, int64_t *lo_hi)
{
    int64_t pads[2 * TW_MAX_SPATIAL] = {0};
    TW_TRY(
        check_count("strides", case_attr_list(attrs, "strides", stride, TW_MAX_SPATIAL), spatial));
    TW_TRY(check_count("dilations", case_attr_list(attrs, "dilations", dilation, TW_MAX_SPATIAL),
                       spatial));
    TW_TRY(
        check_count("pads", case_attr_list(attrs, "pads", pads, 2 * TW_MAX_SPATIAL), 2 * spatial));
    for (int32_t d = 0; d < spatial && d < TW_MAX_SPATIAL; d++) {
        lo_hi[d] = pads[d];
        lo_hi[TW_MAX_SPATIAL + d] = pads[spatial + d];
    }
    return TW_OK;
}

/* SAME_UPPER and SAME_LOWER: an output of ceil(in / stride), the odd pad at the end or start. */
static void same_pads(const cJSON *attrs, const tw_tensor_desc *x, const int64_t *kernel,
                      const int64_t *stride, const int64_t *dilation, int64_t *lo_hi)
{
    const char *mode = case_attr_text(attrs, "auto_pad", "NOTSET");
    if (strncmp(mode, "SAME", 4) != 0) return;
    for (int32_t d = 0; d < x->rank - 2; d++) {
        int64_t s = stride[d] ? stride[d] : 1, dil = dilation[d] ? dilation[d] : 1;
        int64_t out = (x->dims[2 + d] + s - 1) / s;
        int64_t total = (out - 1) * s + dil * (kernel[d] - 1) + 1 - x->dims[2 + d];
        if (total < 0) total = 0;
        bool lower = strcmp(mode, "SAME_LOWER") == 0;
        lo_hi[d] = lower ? total - total / 2 : total / 2;
        lo_hi[TW_MAX_SPATIAL + d] = total - lo_hi[d];
    }
}

static tw_status conv_attrs(const case_node *node, tw_tensor x, tw_tensor w, tw_conv_attrs *attrs)
{
    tw_tensor_desc xd, wd;
    int64_t lo_hi[2 * TW_MAX_SPATIAL] = {0}, kernel[TW_MAX_SPATIAL];
    TW_TRY(dims_of(node, x, &xd));
    TW_TRY(dims_of(node, w, &wd));
    int32_t spatial = wd.rank - 2;
    *attrs = (tw_conv_attrs){.groups = case_attr_int(node->attrs, "group", 1)};
    int32_t n = case_attr_list(node->attrs, "kernel_shape", kernel, TW_MAX_SPATIAL);
    TW_TRY(check_count("kernel_shape", n, spatial));
    for (int32_t d = 0; d < n; d++)
        TW_REQUIRE(kernel[d] == wd.dims[2 + d], TW_INVALID_ARGUMENT,
                   "kernel_shape[%d] is %lld; w has %lld", (int)d, (long long)kernel[d],
                   (long long)wd.dims[2 + d]);
    TW_TRY(window_attrs(node->attrs, spatial, attrs->stride, attrs->dilation, lo_hi));
    same_pads(node->attrs, &xd, wd.dims + 2, attrs->stride, attrs->dilation, lo_hi);
    memcpy(attrs->pad_lo, lo_hi, sizeof attrs->pad_lo);
    memcpy(attrs->pad_hi, lo_hi + TW_MAX_SPATIAL, sizeof attrs->pad_hi);
    return TW_OK;
}

static tw_status pool_attrs(const case_node *node, int32_t rank, tw_pool_mode mode,
                            tw_pool_attrs *attrs)
{
    int64_t lo_hi[2 * TW_MAX_SPATIAL] = {0};
    *attrs = (tw_pool_attrs){.mode = mode,
                             .index = TW_POOL_INDEX_TENSOR,
                             .ceil_mode = case_attr_int(node->attrs, "ceil_mode", 0) != 0,
                             .include_pad = case_attr_int(node->attrs, "count_include_pad", 0) != 0,
                             .column_major = case_attr_int(node->attrs, "storage_order", 0) != 0};
    int32_t n = case_attr_list(node->attrs, "kernel_shape", attrs->window, TW_MAX_SPATIAL);
    TW_TRY(check_count("kernel_shape", n < 0 ? 0 : n, rank - 2));
    TW_TRY(window_attrs(node->attrs, rank - 2, attrs->stride, attrs->dilation, lo_hi));
    memcpy(attrs->pad_lo, lo_hi, sizeof attrs->pad_lo);
    memcpy(attrs->pad_hi, lo_hi + TW_MAX_SPATIAL, sizeof attrs->pad_hi);
    return TW_OK;
}

/* ---- Convolution ----------------------------------------------------------------------------- */

/* A bias [C] as [1, C, 1…], and the sum. */
static tw_status add_bias(const case_node *node, tw_tensor y, tw_tensor bias, tw_tensor *sum)
{
    tw_tensor_desc yd, bd;
    tw_tensor wide = TW_NONE;
    *sum = y;
    if (bias == TW_NONE) return TW_OK;
    TW_TRY(dims_of(node, y, &yd));
    TW_TRY(dims_of(node, bias, &bd));
    TW_REQUIRE(bd.rank == 1 && bd.dims[0] == yd.dims[1], TW_INVALID_ARGUMENT,
               "b has the wrong shape; it must be [%lld]", (long long)yd.dims[1]);
    int64_t dims[TW_MAX_RANK] = {1, bd.dims[0], 1, 1, 1, 1, 1, 1};
    TW_TRY(tw_graph_reshape(node->run->graph, bias, yd.rank, dims, &wide));
    *sum = TW_NONE;
    return tw_graph_binary(node->run->graph, TW_PW_ADD, y, wide, sum);
}

/* The product in a wide virtual tensor where a bias follows, so that it is rounded once. */
static tw_status wide_result(const case_node *node, tw_tensor like, const tw_tensor_desc *shape,
                             tw_tensor *y)
{
    tw_tensor_desc desc;
    TW_TRY(dims_of(node, like, &desc));
    bool narrow = desc.dtype == TW_F16 || desc.dtype == TW_BF16;
    *y = TW_NONE;
    if (!narrow || node->operand(node, "b") == TW_NONE) return TW_OK;
    tw_tensor_desc wide = *shape;
    wide.dtype = TW_F32;
    wide.flags = TW_TENSOR_VIRTUAL | TW_TENSOR_WIDE;
    wide.has_strides = false;
    wide.uid = 0;
    wide.name = NULL;
    return tw_graph_tensor(node->run->graph, &wide, y);
}

static tw_status narrow_again(const case_node *node, tw_tensor like, tw_tensor *y)
{
    tw_tensor_desc want, got;
    TW_TRY(dims_of(node, like, &want));
    TW_TRY(dims_of(node, *y, &got));
    if (want.dtype == got.dtype) return TW_OK;
    tw_tensor cast = TW_NONE;
    TW_TRY(tw_graph_cast(node->run->graph, *y, want.dtype, 0, &cast));
    *y = cast;
    return TW_OK;
}

static tw_status conv_with_bias(const case_node *node, tw_tensor *operands, tw_tensor *y)
{
    tw_conv_attrs attrs;
    TW_TRY(case_require(node, "x", &operands[0]));
    TW_TRY(case_require(node, "w", &operands[1]));
    operands[2] = node->operand(node, "b");
    TW_TRY(conv_attrs(node, operands[0], operands[1], &attrs));
    tw_tensor product = TW_NONE;
    TW_TRY(tw_graph_conv(node->run->graph, operands[0], operands[1], &attrs, &product));
    if (operands[2] != TW_NONE) {
        tw_tensor_desc shape;
        TW_TRY(dims_of(node, product, &shape));
        tw_tensor wide;
        TW_TRY(wide_result(node, operands[0], &shape, &wide));
        if (wide != TW_NONE) {
            TW_TRY(tw_graph_conv(node->run->graph, operands[0], operands[1], &attrs, &wide));
            product = wide;
        }
    }
    TW_TRY(add_bias(node, product, operands[2], y));
    return narrow_again(node, operands[0], y);
}

static tw_status conv(const case_node *node)
{
    tw_tensor operands[3], y;
    TW_TRY(conv_with_bias(node, operands, &y));
    return node->result(node, "y", y);
}

/* Gradients by differentiation, seeded with dy. */
static tw_status gradients(const case_node *node, tw_tensor y, const tw_tensor *of,
                           const char *const *names, int32_t n)
{
    tw_tensor dy, wanted[8], grads[8];
    const char *wanted_names[8];
    int32_t k = 0;
    TW_TRY(case_require(node, "dy", &dy));
    for (int32_t i = 0; i < n; i++)
        if (of[i] != TW_NONE && node->wants(node, names[i])) {
            wanted[k] = of[i];
            wanted_names[k++] = names[i];
        }
    tw_backward_options options = {.seeds = &dy};
    TW_TRY(tw_graph_backward(node->run->graph, 1, &y, k, wanted, &options, grads, NULL));
    for (int32_t i = 0; i < k; i++) TW_TRY(node->result(node, wanted_names[i], grads[i]));
    return TW_OK;
}

/* db alone, where the case has no b: the sum of dy. */
static tw_status bias_gradient(const case_node *node)
{
    tw_tensor dy, db = TW_NONE;
    tw_tensor_desc desc;
    TW_TRY(case_require(node, "dy", &dy));
    TW_TRY(dims_of(node, dy, &desc));
    tw_reduce_attrs attrs = {
        .mode = TW_REDUCE_SUM, .drop = true, .axes = ((1u << desc.rank) - 1) & ~2u};
    TW_TRY(tw_graph_reduce(node->run->graph, dy, &attrs, &db));
    return node->result(node, "db", db);
}

static tw_status conv_backward(const case_node *node)
{
    static const char *const names[] = {"dx", "dw", "db"};
    tw_tensor operands[3], y;
    TW_TRY(conv_with_bias(node, operands, &y));
    TW_TRY(gradients(node, y, operands, names, 3));
    bool alone = operands[2] == TW_NONE && node->wants(node, "db");
    return alone ? bias_gradient(node) : TW_OK;
}

/* x - zero point, in int32, as ConvInteger and MatMulInteger define it. */
static tw_status centred(const case_node *node, tw_tensor x, const char *zero, int32_t zero_dim,
                         tw_tensor *y)
{
    tw_tensor_desc xd, zd;
    tw_tensor z = node->operand(node, zero), wide = TW_NONE, zi = TW_NONE;
    TW_TRY(tw_graph_cast(node->run->graph, x, TW_I32, 0, &wide));
    *y = wide;
    if (z == TW_NONE) return TW_OK;
    TW_TRY(dims_of(node, x, &xd));
    TW_TRY(dims_of(node, z, &zd));
    TW_TRY(tw_graph_cast(node->run->graph, z, TW_I32, 0, &zi));
    if (zd.rank == 1 && zd.dims[0] > 1) {
        int64_t dims[TW_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
        tw_tensor shaped = TW_NONE;
        dims[zero_dim] = zd.dims[0];
        TW_TRY(tw_graph_reshape(node->run->graph, zi, xd.rank, dims, &shaped));
        zi = shaped;
    }
    *y = TW_NONE;
    return tw_graph_binary(node->run->graph, TW_PW_SUB, wide, zi, y);
}

static tw_status conv_integer(const case_node *node)
{
    tw_tensor x, w, xc, wc, y = TW_NONE;
    tw_conv_attrs attrs;
    TW_TRY(case_require(node, "x", &x));
    TW_TRY(case_require(node, "w", &w));
    TW_TRY(conv_attrs(node, x, w, &attrs));
    TW_TRY(centred(node, x, "x_zero_point", 0, &xc));
    TW_TRY(centred(node, w, "w_zero_point", 0, &wc));
    TW_TRY(tw_graph_conv(node->run->graph, xc, wc, &attrs, &y));
    return node->result(node, "y", y);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

static tw_status pool(const case_node *node, tw_pool_mode mode)
{
    tw_tensor x, y = TW_NONE, indices = TW_NONE;
    tw_tensor_desc xd;
    tw_pool_attrs attrs;
    TW_TRY(case_require(node, "x", &x));
    TW_TRY(dims_of(node, x, &xd));
    TW_TRY(pool_attrs(node, xd.rank, mode, &attrs));
    same_pads(node->attrs, &xd, attrs.window, attrs.stride, attrs.dilation, attrs.pad_lo);
    bool wants_indices = node->wants(node, "indices");
    TW_TRY(tw_graph_pool(node->run->graph, x, &attrs, &y, wants_indices ? &indices : NULL));
    TW_TRY(node->result(node, "y", y));
    return wants_indices ? node->result(node, "indices", indices) : TW_OK;
}

static tw_status max_pool(const case_node *node) { return pool(node, TW_POOL_MAX); }
static tw_status average_pool(const case_node *node) { return pool(node, TW_POOL_AVERAGE); }

static tw_status global_pool(const case_node *node, tw_reduce_mode mode)
{
    tw_tensor x, y = TW_NONE;
    tw_tensor_desc xd;
    TW_TRY(case_require(node, "x", &x));
    TW_TRY(dims_of(node, x, &xd));
    tw_reduce_attrs attrs = {.mode = mode, .axes = ((1u << xd.rank) - 1) & ~3u};
    TW_TRY(tw_graph_reduce(node->run->graph, x, &attrs, &y));
    return node->result(node, "y", y);
}

static tw_status global_average(const case_node *node) { return global_pool(node, TW_REDUCE_MEAN); }
static tw_status global_max(const case_node *node) { return global_pool(node, TW_REDUCE_MAX); }

static tw_status max_pool_backward(const case_node *node)
{
    static const char *const names[] = {"dx"};
    tw_tensor x, y = TW_NONE;
    tw_tensor_desc xd;
    tw_pool_attrs attrs;
    TW_TRY(case_require(node, "x", &x));
    TW_TRY(dims_of(node, x, &xd));
    TW_TRY(pool_attrs(node, xd.rank, TW_POOL_MAX, &attrs));
    TW_TRY(tw_graph_pool(node->run->graph, x, &attrs, &y, NULL));
    return gradients(node, y, &x, names, 1);
}

static tw_status average_pool_backward(const case_node *node)
{
    tw_tensor dy, dx = TW_NONE;
    int64_t dims[TW_MAX_RANK];
    tw_pool_attrs attrs;
    TW_TRY(case_require(node, "dy", &dy));
    int32_t rank = case_attr_list(node->attrs, "x_shape", dims, TW_MAX_RANK);
    TW_TRY(pool_attrs(node, rank, TW_POOL_AVERAGE, &attrs));
    TW_TRY(tw_graph_pool_backward(node->run->graph, dy, TW_NONE, &attrs, dims, &dx));
    return node->result(node, "dx", dx);
}

/* ---- Matrix products ------------------------------------------------------------------------- */

static tw_status matmul(const case_node *node)
{
    tw_tensor a, b, y = TW_NONE;
    TW_TRY(case_require(node, "a", &a));
    TW_TRY(case_require(node, "b", &b));
    TW_TRY(tw_graph_matmul(node->run->graph, a, b, NULL, &y));
    return node->result(node, "y", y);
}

static tw_status matmul_backward(const case_node *node)
{
    static const char *const names[] = {"da", "db"};
    tw_tensor operands[2], y = TW_NONE;
    TW_TRY(case_require(node, "a", &operands[0]));
    TW_TRY(case_require(node, "b", &operands[1]));
    TW_TRY(tw_graph_matmul(node->run->graph, operands[0], operands[1], NULL, &y));
    return gradients(node, y, operands, names, 2);
}

static tw_status matmul_integer(const case_node *node)
{
    tw_tensor a, b, ac, bc, y = TW_NONE;
    tw_tensor_desc ad, bd;
    TW_TRY(case_require(node, "a", &a));
    TW_TRY(case_require(node, "b", &b));
    TW_TRY(dims_of(node, a, &ad));
    TW_TRY(dims_of(node, b, &bd));
    TW_TRY(centred(node, a, "a_zero_point", ad.rank - 2, &ac));
    TW_TRY(centred(node, b, "b_zero_point", bd.rank - 1, &bc));
    TW_TRY(tw_graph_matmul(node->run->graph, ac, bc, NULL, &y));
    return node->result(node, "y", y);
}

static tw_status transposed(const case_node *node, const char *name, const char *flag, tw_tensor *t)
{
    static const int32_t swap[] = {1, 0};
    TW_TRY(case_require(node, name, t));
    if (case_attr_int(node->attrs, flag, 0) == 0) return TW_OK;
    tw_tensor turned = TW_NONE;
    TW_TRY(tw_graph_transpose(node->run->graph, *t, swap, &turned));
    *t = turned;
    return TW_OK;
}

/* alpha·a·b + beta·c; beta = 0 does not read c. */
static tw_status gemm(const case_node *node)
{
    tw_tensor a, b, y = TW_NONE, c = node->operand(node, "c");
    double alpha = case_attr_real(node->attrs, "alpha", 1);
    double beta = case_attr_real(node->attrs, "beta", 1);
    TW_TRY(transposed(node, "a", "transA", &a));
    TW_TRY(transposed(node, "b", "transB", &b));
    TW_TRY(tw_graph_matmul(node->run->graph, a, b, NULL, &y));
    tw_pointwise_attrs scale = {.mode = TW_PW_LINEAR, .alpha = alpha, .has_alpha = true};
    tw_pointwise_attrs add = {.mode = TW_PW_ADD, .alpha = beta, .has_alpha = true};
    tw_tensor scaled = y, sum = TW_NONE;
    if (alpha != 1) {
        scaled = TW_NONE;
        TW_TRY(tw_graph_pointwise(node->run->graph, &scale, y, TW_NONE, TW_NONE, &scaled));
    }
    if (c == TW_NONE || beta == 0) return node->result(node, "y", scaled);
    TW_TRY(tw_graph_pointwise(node->run->graph, &add, scaled, c, TW_NONE, &sum));
    return node->result(node, "y", sum);
}

static const struct {
    const char *op;
    translate run;
} table[] = {{"Conv", conv},
             {"ConvBackward", conv_backward},
             {"ConvInteger", conv_integer},
             {"MaxPool", max_pool},
             {"AveragePool", average_pool},
             {"GlobalAveragePool", global_average},
             {"GlobalMaxPool", global_max},
             {"MaxPoolBackward", max_pool_backward},
             {"AveragePoolBackward", average_pool_backward},
             {"MatMul", matmul},
             {"MatMulBackward", matmul_backward},
             {"MatMulInteger", matmul_integer},
             {"Gemm", gemm}};

tw_status case_add_image_op(const case_node *node, bool *known)
{
    /* Zero points in blocks belong to the quantised products. */
    if (cJSON_GetObjectItem(node->attrs, "b_block_size")) return TW_OK;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].op, node->op) == 0) {
            *known = true;
            return table[i].run(node);
        }
    return TW_OK;
}
