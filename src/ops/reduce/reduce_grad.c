/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of reductions, as graph operations. Reduced dims are kept as 1 throughout, so that the
 * pointwise operations broadcast. */
#include "core/dtype.h"
#include "ops/grad.h"
#include "ops/reduce/reduce.h"

typedef struct rule {
    const tw_builder *builder;
    tw_reduce_mode mode;
    uint32_t axes;
    int64_t count;       /* elements in a set */
    tw_tensor x, y, dy;  /* y and dy with the reduced dims kept */
    tw_tensor_desc desc; /* of x */
} rule;

/* An array of x's dims with 1 where `axes` reduce. */
static void kept_dims(const rule *r, int64_t *dims)
{
    for (int32_t d = 0; d < r->desc.rank; d++) dims[d] = (r->axes >> d) & 1u ? 1 : r->desc.dims[d];
}

/* Reduces `a` to a tensor of element type `dtype`. */
static tw_status reduce_as(const rule *r, tw_reduce_mode mode, tw_tensor a, tw_dtype dtype,
                           tw_tensor *y)
{
    int64_t dims[TW_MAX_RANK];
    const tw_attrs attrs = {.reduce = {.mode = mode, .axes = r->axes}};
    kept_dims(r, dims);
    TW_TRY(tw_grad_virtual(r->builder, dtype, r->desc.rank, dims, y));
    return r->builder->add(r->builder->graph, TW_OP_REDUCE, &attrs, 1, &a, 1, y);
}

static tw_status gen_index(const rule *r, int32_t axis, tw_dtype dtype, tw_tensor *y)
{
    const tw_attrs attrs = {.pointwise = {.mode = TW_PW_GEN_INDEX, .axis = axis, .compute = dtype}};
    TW_TRY(tw_grad_virtual(r->builder, dtype, r->desc.rank, r->desc.dims, y));
    return r->builder->add(r->builder->graph, TW_OP_POINTWISE, &attrs, 1, &r->x, 1, y);
}

/* Each element's place in its set, row-major over the reduced dims. */
static tw_status place_in_set(const rule *r, tw_dtype dtype, tw_tensor *place)
{
    *place = TW_NONE;
    for (int32_t d = 0; d < r->desc.rank; d++) {
        tw_tensor index;
        if (!((r->axes >> d) & 1u) || r->desc.dims[d] == 1) continue;
        TW_TRY(gen_index(r, d, dtype, &index));
        if (*place == TW_NONE) {
            *place = index;
            continue;
        }
        const tw_pointwise_attrs attrs = {.mode = TW_PW_ADD,
                                          .alpha = (double)r->desc.dims[d],
                                          .has_alpha = true,
                                          .compute = dtype};
        TW_TRY(tw_grad_pointwise(r->builder, &attrs, (const tw_tensor[3]){index, *place, TW_NONE},
                                 place));
    }
    return TW_OK;
}

/* dy goes to the first extreme (the first NaN, if there is one): the element whose index the arg
 * mode gives. Places up to 2^24 are exact as f32, which the fast pointwise kernels take. */
static tw_status to_extreme(const rule *r, tw_reduce_mode arg_mode, tw_tensor values, tw_tensor g,
                            tw_tensor *dx)
{
    tw_tensor first, place, hit, zero;
    tw_dtype dtype = r->count <= (int64_t)1 << 24 ? TW_F32 : TW_I64;
    TW_TRY(place_in_set(r, dtype, &place));
    if (place == TW_NONE) {
        *dx = g;
        return TW_OK;
    }
    TW_TRY(reduce_as(r, arg_mode, values, dtype, &first));
    TW_TRY(tw_grad_binary(r->builder, TW_PW_EQ, place, first, &hit));
    TW_TRY(tw_grad_scalar(r->builder, g, 0, &zero));
    return tw_grad_select(r->builder, hit, g, zero, dx);
}

static tw_status of_amax(const rule *r, tw_tensor *dx)
{
    tw_tensor magnitude, signed_dy;
    TW_TRY(tw_grad_unary(r->builder, TW_PW_ABS, r->x, &magnitude));
    TW_TRY(tw_grad_binary(r->builder, TW_PW_ABS_BWD, r->dy, r->x, &signed_dy));
    return to_extreme(r, TW_REDUCE_ARGMAX, magnitude, signed_dy, dx);
}

/* dy times the product of the other elements: the product of the non-zero ones divided by x, where
 * no other element is zero. */
static tw_status of_product(const rule *r, bool skip_zeros, tw_tensor *dx)
{
    const tw_builder *b = r->builder;
    tw_tensor zero, is_zero, product, others, scaled, blocked, nothing;
    tw_dtype wide = r->desc.dtype == TW_F64 ? TW_F64 : TW_F32;
    TW_TRY(tw_grad_scalar(b, r->x, 0, &zero));
    TW_TRY(tw_grad_binary(b, TW_PW_EQ, r->x, zero, &is_zero));
    TW_TRY(reduce_as(r, TW_REDUCE_PROD_NONZERO, r->x, wide, &product));
    TW_TRY(tw_grad_binary(b, TW_PW_DIV, product, r->x, &others));
    if (skip_zeros) {
        blocked = is_zero;
    } else {
        tw_tensor zeros, own;
        TW_TRY(tw_grad_select(b, is_zero, product, others, &others));
        TW_TRY(reduce_as(r, TW_REDUCE_SUM, is_zero, wide, &zeros));
        TW_TRY(tw_grad_cast(b, is_zero, wide, &own));
        TW_TRY(tw_grad_binary(b, TW_PW_NE, zeros, own, &blocked));
    }
    TW_TRY(tw_grad_binary(b, TW_PW_MUL, r->dy, others, &scaled));
    TW_TRY(tw_grad_scalar(b, scaled, 0, &nothing));
    return tw_grad_select(b, blocked, nothing, scaled, dx);
}

/* dy·x/y, and 0 where the whole set is 0. */
static tw_status of_l2(const rule *r, tw_tensor *dx)
{
    const tw_builder *b = r->builder;
    tw_tensor zero, is_zero, ratio, scaled, nothing;
    TW_TRY(tw_grad_scalar(b, r->y, 0, &zero));
    TW_TRY(tw_grad_binary(b, TW_PW_EQ, r->y, zero, &is_zero));
    TW_TRY(tw_grad_binary(b, TW_PW_DIV, r->x, r->y, &ratio));
    TW_TRY(tw_grad_binary(b, TW_PW_MUL, r->dy, ratio, &scaled));
    TW_TRY(tw_grad_scalar(b, scaled, 0, &nothing));
    return tw_grad_select(b, is_zero, nothing, scaled, dx);
}

/* dy/Σx. The sum is taken again: exp(y) would lose digits. */
static tw_status of_log_sum(const rule *r, tw_tensor *dx)
{
    tw_tensor sum;
    TW_TRY(reduce_as(r, TW_REDUCE_SUM, r->x, r->desc.dtype == TW_F64 ? TW_F64 : TW_F32, &sum));
    return tw_grad_binary(r->builder, TW_PW_DIV, r->dy, sum, dx);
}

/* dy·softmax(x). exp(x - y) would lose digits where y is rounded to a narrow type. */
static tw_status of_log_sum_exp(const rule *r, tw_tensor *dx)
{
    const tw_attrs attrs = {.softmax = {.axes = r->axes}};
    tw_tensor share = TW_NONE;
    *dx = r->dy;
    if (r->axes == 0) return TW_OK;
    TW_TRY(r->builder->add(r->builder->graph, TW_OP_SOFTMAX, &attrs, 1, &r->x, 1, &share));
    return tw_grad_binary(r->builder, TW_PW_MUL, r->dy, share, dx);
}

static tw_status of_sum_square(const rule *r, tw_tensor *dx)
{
    tw_tensor twice;
    TW_TRY(tw_grad_linear(r->builder, r->x, 2, 0, &twice));
    return tw_grad_binary(r->builder, TW_PW_MUL, r->dy, twice, dx);
}

static tw_status apply(const rule *r, tw_tensor *dx)
{
    switch (r->mode) {
    case TW_REDUCE_SUM: *dx = r->dy; return TW_OK;
    case TW_REDUCE_MEAN:
        return tw_grad_linear(r->builder, r->dy, r->count ? 1.0 / (double)r->count : 0, 0, dx);
    case TW_REDUCE_MAX: return to_extreme(r, TW_REDUCE_ARGMAX, r->x, r->dy, dx);
    case TW_REDUCE_MIN: return to_extreme(r, TW_REDUCE_ARGMIN, r->x, r->dy, dx);
    case TW_REDUCE_AMAX: return of_amax(r, dx);
    case TW_REDUCE_PROD: return of_product(r, false, dx);
    case TW_REDUCE_PROD_NONZERO: return of_product(r, true, dx);
    case TW_REDUCE_L1: return tw_grad_binary(r->builder, TW_PW_ABS_BWD, r->dy, r->x, dx);
    case TW_REDUCE_L2: return of_l2(r, dx);
    case TW_REDUCE_LOG_SUM: return of_log_sum(r, dx);
    case TW_REDUCE_LOG_SUM_EXP: return of_log_sum_exp(r, dx);
    case TW_REDUCE_SUM_SQUARE: return of_sum_square(r, dx);
    default: *dx = TW_NONE; return TW_OK;
    }
}

/* Sums leave dx at the reduced dims, and so do sets of one element. */
static tw_status shape_like_x(const rule *r, tw_tensor *dx)
{
    tw_tensor_desc desc;
    TW_TRY(tw_grad_cast(r->builder, *dx, r->desc.dtype, dx));
    TW_TRY(r->builder->describe(r->builder->graph, *dx, &desc));
    for (int32_t d = 0; d < desc.rank; d++)
        if (desc.dims[d] != r->desc.dims[d])
            return tw_grad_expand(r->builder, *dx, r->desc.rank, r->desc.dims, dx);
    return TW_OK;
}

tw_status tw_reduce_gradient(const tw_gradient *gradient)
{
    const tw_reduce_attrs *attrs = &gradient->attrs->reduce;
    rule r = {.builder = gradient->builder,
              .mode = attrs->mode,
              .axes = attrs->axes,
              .count = 1,
              .x = gradient->in[0]};
    int64_t dims[TW_MAX_RANK];
    if (!gradient->want[0] || gradient->dy[0] == TW_NONE) return TW_OK;
    TW_TRY(r.builder->describe(r.builder->graph, r.x, &r.desc));
    if (!tw_dtype_is_float(r.desc.dtype)) return TW_OK;
    for (int32_t d = 0; d < r.desc.rank; d++) {
        if ((r.axes >> d) & 1u) r.count *= r.desc.dims[d];
        if (r.desc.dims[d] == 0) return TW_OK;
    }
    kept_dims(&r, dims);
    TW_TRY(tw_grad_reshape(r.builder, gradient->out[0], r.desc.rank, dims, &r.y));
    TW_TRY(tw_grad_reshape(r.builder, gradient->dy[0], r.desc.rank, dims, &r.dy));
    TW_TRY(apply(&r, &gradient->dx[0]));
    return gradient->dx[0] == TW_NONE ? TW_OK : shape_like_x(&r, &gradient->dx[0]);
}
