/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling: validation, shape inference and gradients. */
#include "ops/pool/pool_graph.h"

#include "core/alloc.h"
#include "core/dtype.h"
#include "ops/grad.h"
#include "ops/pool/pool_shape.h"

static tw_status check_axis_attrs(const char *op, const tw_pool_attrs *attrs, int32_t i)
{
    const int64_t values[] = {attrs->window[i], attrs->stride[i], attrs->dilation[i],
                              attrs->pad_lo[i], attrs->pad_hi[i]};
    static const char *const names[] = {"window", "stride", "dilation", "pad_lo", "pad_hi"};
    for (int k = 0; k < 5; k++) {
        int64_t least = k < 3 ? 1 : 0;
        TW_REQUIRE(values[k] >= least && values[k] <= INT64_MAX / 8, TW_INVALID_ARGUMENT,
                   "%s: %s[%d] is %lld; it must be %lld to 2^60", op, names[k], i,
                   (long long)values[k], (long long)least);
    }
    return TW_OK;
}

/* Fills in defaults and clears what `spatial` axes do not use. */
static tw_status normalise(const char *op, int32_t spatial, tw_pool_attrs *attrs)
{
    const tw_pool_attrs given = *attrs;
    TW_REQUIRE(given.mode == TW_POOL_MAX || given.mode == TW_POOL_AVERAGE, TW_INVALID_ARGUMENT,
               "%s: mode is %d; it must be 0 (max) or 1 (average)", op, (int)given.mode);
    TW_REQUIRE(given.index >= TW_POOL_INDEX_SPATIAL && given.index <= TW_POOL_INDEX_WINDOW,
               TW_INVALID_ARGUMENT,
               "%s: index is %d; it must be 0 (spatial), 1 (tensor) or 2 (window)", op,
               (int)given.index);
    bool max = given.mode == TW_POOL_MAX;
    *attrs = (tw_pool_attrs){.mode = given.mode,
                             .ceil_mode = given.ceil_mode,
                             .include_pad = !max && given.include_pad,
                             .column_major = max && given.column_major,
                             .index = max ? given.index : TW_POOL_INDEX_SPATIAL};
    for (int32_t i = 0; i < spatial; i++) {
        attrs->window[i] = given.window[i] == 0 ? 1 : given.window[i];
        attrs->stride[i] = given.stride[i] == 0 ? 1 : given.stride[i];
        attrs->dilation[i] = given.dilation[i] == 0 ? 1 : given.dilation[i];
        attrs->pad_lo[i] = given.pad_lo[i];
        attrs->pad_hi[i] = given.pad_hi[i];
        TW_TRY(check_axis_attrs(op, attrs, i));
    }
    return TW_OK;
}

/* The first window without a real element; -1 if there is none. Only windows that begin in the
 * padding of a dim smaller than the dilation, the first and the last can be such. */
static int64_t empty_window(const tw_pool_axis *axis)
{
    int64_t before = tw_pool_ceil_div(axis->pad_lo, axis->stride);
    int64_t suspects = axis->in >= axis->dilation || before == 0 ? 1 : before;
    if (suspects > axis->out) suspects = axis->out;
    if (suspects > axis->dilation) suspects = axis->dilation; /* the pattern repeats */
    for (int64_t o = 0; o < suspects; o++) {
        tw_pool_range real = tw_pool_real(axis, o);
        if (real.first >= real.last) return o;
    }
    return tw_pool_start(axis, axis->out - 1) >= axis->in ? axis->out - 1 : -1;
}

static tw_status check_axis(const char *op, const tw_pool_attrs *attrs, const tw_pool_axis *axis,
                            int32_t i)
{
    int64_t reach;
    bool fits = axis->in <= INT64_MAX / 8 && tw_mul_i64(axis->dilation, axis->window - 1, &reach) &&
                reach <= INT64_MAX / 8;
    TW_REQUIRE(fits, TW_INVALID_ARGUMENT, "%s: window[%d] times dilation[%d] exceeds 2^60", op, i,
               i);
    TW_REQUIRE(reach < axis->in + axis->pad_lo + axis->pad_hi, TW_INVALID_ARGUMENT,
               "%s: window[%d] is %lld and reaches over %lld elements with dilation %lld, but the "
               "padded input has %lld; it must not be larger",
               op, i, (long long)axis->window, (long long)(reach + 1), (long long)axis->dilation,
               (long long)(axis->in + axis->pad_lo + axis->pad_hi));
    if (attrs->mode == TW_POOL_AVERAGE && attrs->include_pad) return TW_OK;
    tw_pool_axis sized = *axis;
    sized.out = tw_pool_out(axis, attrs->ceil_mode);
    int64_t empty = sized.out > 0 ? empty_window(&sized) : 0;
    TW_REQUIRE(
        empty < 0, TW_INVALID_ARGUMENT,
        "%s: pad_lo[%d] = %lld and pad_hi[%d] = %lld leave window %lld without any element of "
        "x; every window must reach one",
        op, i, (long long)axis->pad_lo, i, (long long)axis->pad_hi, (long long)empty);
    return TW_OK;
}

/* Checks attributes against x's dims, and gives y's dims. */
static tw_status infer_sizes(const tw_infer *infer, const tw_tensor_desc *x, const char *x_name,
                             int64_t *y_dims)
{
    const char *op = infer->info->name;
    tw_pool_attrs *attrs = &infer->attrs->pool;
    TW_REQUIRE(x->rank >= 3 && x->rank <= 2 + TW_MAX_SPATIAL, TW_INVALID_ARGUMENT,
               "%s: %s has rank %d; it must be 3 to 5: N, C and one to three spatial dims", op,
               x_name, x->rank);
    TW_TRY(normalise(op, x->rank - 2, attrs));
    int64_t taps = 1;
    for (int32_t i = 0; i < x->rank - 2; i++) {
        const tw_pool_axis axis = {.in = x->dims[2 + i],
                                   .window = attrs->window[i],
                                   .stride = attrs->stride[i],
                                   .dilation = attrs->dilation[i],
                                   .pad_lo = attrs->pad_lo[i],
                                   .pad_hi = attrs->pad_hi[i]};
        TW_TRY(check_axis(op, attrs, &axis, i));
        TW_REQUIRE(tw_mul_i64(taps, axis.window, &taps), TW_INVALID_ARGUMENT,
                   "%s: window holds more than 2^63 - 1 elements", op);
        y_dims[2 + i] = tw_pool_out(&axis, attrs->ceil_mode);
    }
    y_dims[0] = x->dims[0];
    y_dims[1] = x->dims[1];
    return TW_OK;
}

/* Whether an integer type can hold every index. */
static tw_status check_index_type(const tw_infer *infer, const tw_tensor_desc *x, tw_dtype type)
{
    const char *op = infer->info->name;
    const tw_pool_attrs *attrs = &infer->attrs->pool;
    int64_t count = attrs->index == TW_POOL_INDEX_TENSOR ? x->dims[0] * x->dims[1] : 1;
    for (int32_t i = 0; i < x->rank - 2; i++)
        count *= attrs->index == TW_POOL_INDEX_WINDOW ? attrs->window[i] : x->dims[2 + i];
    TW_REQUIRE(tw_dtype_is_integer(type), TW_INVALID_ARGUMENT,
               "%s: indices have element type %s; it must be an integer type", op,
               tw_dtype_name(type));
    TW_REQUIRE((double)count - 1 <= tw_dtype_max(type), TW_INVALID_ARGUMENT,
               "%s: indices have element type %s, but run to %lld; declare a wider type", op,
               tw_dtype_name(type), (long long)(count - 1));
    return TW_OK;
}

static tw_status check_value_type(const tw_infer *infer, const char *name, tw_dtype type)
{
    bool average = infer->attrs->pool.mode == TW_POOL_AVERAGE;
    TW_REQUIRE(!tw_dtype_is_complex(type) && !(average && type == TW_BOOL), TW_INVALID_ARGUMENT,
               "%s: %s has element type %s; it must be %s", infer->info->name, name,
               tw_dtype_name(type), average ? "a float or integer type" : "real");
    return TW_OK;
}

static tw_status infer_pool(tw_infer *infer)
{
    const tw_tensor_desc *x = infer->in[0];
    tw_tensor_desc *y = &infer->out[0];
    TW_TRY(infer_sizes(infer, x, "x", y->dims));
    y->rank = x->rank;
    if (!infer->declared[0]) y->dtype = x->dtype;
    TW_TRY(check_value_type(infer, "x", x->dtype));
    TW_TRY(check_value_type(infer, "y", y->dtype));
    if (infer->n_out < 2 || !infer->wanted[1]) return TW_OK;
    tw_tensor_desc *indices = &infer->out[1];
    TW_REQUIRE(infer->attrs->pool.mode == TW_POOL_MAX, TW_INVALID_ARGUMENT,
               "pool: indices are asked for, but mode is average; only max pooling has them");
    indices->rank = y->rank;
    for (int32_t d = 0; d < y->rank; d++) indices->dims[d] = y->dims[d];
    if (!infer->declared[1]) indices->dtype = TW_I64;
    return check_index_type(infer, x, indices->dtype);
}

static tw_status check_dims(const char *name, const tw_tensor_desc *got, int32_t rank,
                            const int64_t *want)
{
    TW_REQUIRE(got->rank == rank, TW_INVALID_ARGUMENT,
               "pool_backward: %s has rank %d, dx has rank %d", name, got->rank, rank);
    for (int32_t d = 0; d < rank; d++)
        TW_REQUIRE(
            got->dims[d] == want[d], TW_INVALID_ARGUMENT,
            "pool_backward: dim %d of %s is %lld, but pooling a tensor of dx's dims gives %lld", d,
            name, (long long)got->dims[d], (long long)want[d]);
    return TW_OK;
}

static tw_status infer_pool_backward(tw_infer *infer)
{
    const tw_tensor_desc *dy = infer->in[0], *dx = &infer->out[0];
    const tw_tensor_desc *indices = infer->n_in > 1 ? infer->in[1] : NULL;
    int64_t dims[TW_MAX_RANK];
    TW_REQUIRE(infer->declared[0], TW_INVALID_ARGUMENT,
               "pool_backward: dx is not declared; pooling forgets the size of its input");
    TW_TRY(infer_sizes(infer, dx, "dx", dims));
    TW_TRY(check_value_type(infer, "dy", dy->dtype));
    TW_TRY(check_value_type(infer, "dx", dx->dtype));
    TW_TRY(check_dims("dy", dy, dx->rank, dims));
    bool max = infer->attrs->pool.mode == TW_POOL_MAX;
    TW_REQUIRE(
        max == (indices != NULL), TW_INVALID_ARGUMENT,
        max ? "pool_backward: indices are absent; max pooling needs those of its forward pass"
            : "pool_backward: indices are given, but average pooling has none");
    if (!max) return TW_OK;
    TW_TRY(check_dims("indices", indices, dx->rank, dims));
    return check_index_type(infer, dx, indices->dtype);
}

/* The indices of the forward pass: those that exist, or new ones within the window, which are the
 * smallest. */
static tw_status forward_indices(const tw_gradient *gradient, tw_attrs *attrs, tw_tensor *indices)
{
    int64_t taps = 1;
    *indices = TW_NONE;
    if (attrs->pool.mode != TW_POOL_MAX) return TW_OK;
    if (gradient->n_out > 1 && gradient->out[1] > 0) {
        *indices = gradient->out[1];
        return TW_OK;
    }
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++)
        if (attrs->pool.window[i] > 0) taps *= attrs->pool.window[i];
    attrs->pool.index = TW_POOL_INDEX_WINDOW;
    tw_dtype type = taps <= 256 ? TW_U8 : taps <= INT32_MAX ? TW_I32 : TW_I64;
    return gradient->add_output(gradient, 1, type, attrs, indices);
}

static tw_status gradient_pool(const tw_gradient *gradient)
{
    const tw_builder *builder = gradient->builder;
    tw_attrs attrs = *gradient->attrs;
    tw_tensor in[2] = {gradient->dy[0], TW_NONE};
    tw_tensor_desc x;
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    TW_TRY(forward_indices(gradient, &attrs, &in[1]));
    TW_TRY(builder->describe(builder->graph, gradient->in[0], &x));
    TW_TRY(tw_grad_virtual(builder, x.dtype, x.rank, x.dims, &gradient->dx[0]));
    return builder->add(builder->graph, TW_OP_POOL_BACKWARD, &attrs, in[1] != TW_NONE ? 2 : 1, in,
                        1, &gradient->dx[0]);
}

/* Pooling by averages is linear, and its gradient the transposed map: transposed again, it is
 * pooling. */
static tw_status gradient_pool_backward(const tw_gradient *gradient)
{
    const tw_builder *builder = gradient->builder;
    tw_tensor_desc dy;
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    TW_REQUIRE(
        gradient->attrs->pool.mode == TW_POOL_AVERAGE, TW_INVALID_ARGUMENT,
        "pool_backward: the second derivative of max pooling is not defined here; only average "
        "pooling can be differentiated twice");
    TW_TRY(builder->describe(builder->graph, gradient->in[0], &dy));
    tw_tensor out[2] = {TW_NONE, TW_UNWANTED};
    TW_TRY(tw_grad_virtual(builder, dy.dtype, dy.rank, dy.dims, &out[0]));
    TW_TRY(builder->add(builder->graph, TW_OP_POOL, gradient->attrs, 1, gradient->dy, 2, out));
    gradient->dx[0] = out[0];
    return TW_OK;
}

static int64_t pool_terms(const tw_attrs *attrs, const tw_tensor_desc *const *in,
                          const tw_tensor_desc *out)
{
    int64_t taps = 1;
    (void)in;
    (void)out;
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++)
        if (attrs->pool.window[i] > 0) taps *= attrs->pool.window[i];
    return taps;
}

static const tw_field fields[] = {TW_FIELD(tw_pool_mode, tw_pool_attrs, mode, TW_FIELD_I32),
                                  TW_FIELD(int64_t, tw_pool_attrs, window, TW_FIELD_I64),
                                  TW_FIELD(int64_t, tw_pool_attrs, stride, TW_FIELD_I64),
                                  TW_FIELD(int64_t, tw_pool_attrs, dilation, TW_FIELD_I64),
                                  TW_FIELD(int64_t, tw_pool_attrs, pad_lo, TW_FIELD_I64),
                                  TW_FIELD(int64_t, tw_pool_attrs, pad_hi, TW_FIELD_I64),
                                  TW_FIELD(bool, tw_pool_attrs, ceil_mode, TW_FIELD_BOOL),
                                  TW_FIELD(bool, tw_pool_attrs, include_pad, TW_FIELD_BOOL),
                                  TW_FIELD(bool, tw_pool_attrs, column_major, TW_FIELD_BOOL),
                                  TW_FIELD(tw_pool_index, tw_pool_attrs, index, TW_FIELD_I32),
                                  {.name = NULL}};

/* Max pooling is exact; the bound is that of averages, which is 0 apart where one term counts. */
const tw_op_info tw_pool_ops[TW_POOL_OPS] = {
    {.kind = TW_OP_POOL,
     .name = "pool",
     .min_in = 1,
     .max_in = 1,
     .n_out = 2,
     .required_out = 1,
     .in_names = {"x"},
     .out_names = {"y", "indices"},
     .fields = fields,
     .infer = infer_pool,
     .gradient = gradient_pool,
     .bound = TW_BOUND_SUM,
     .terms = pool_terms},
    {.kind = TW_OP_POOL_BACKWARD,
     .name = "pool_backward",
     .min_in = 1,
     .max_in = 2,
     .n_out = 1,
     .required_out = 1,
     .in_names = {"dy", "indices"},
     .out_names = {"dx"},
     .fields = fields,
     .infer = infer_pool_backward,
     .gradient = gradient_pool_backward,
     .bound = TW_BOUND_SUM,
     .terms = pool_terms},
};
