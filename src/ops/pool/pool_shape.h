/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes, windows and divisors of pooling: the only place that computes them, for shape inference,
 * forward and backward kernels of every type.
 */
#ifndef TW_OPS_POOL_SHAPE_H
#define TW_OPS_POOL_SHAPE_H

#include "tile/chain.h"

/* One spatial axis. */
typedef struct tw_pool_axis {
    int64_t in, out, window, stride, dilation, pad_lo, pad_hi;
} tw_pool_axis;

/* Always three axes; missing leading ones have size and window 1. */
typedef struct tw_pool_shape {
    int64_t n, c;
    tw_pool_axis axis[TW_MAX_SPATIAL];
    int64_t taps; /* of a whole window */
    bool include_pad, column_major;
    tw_pool_index index;
} tw_pool_shape;

/* Taps [first, last) of a window. */
typedef struct tw_pool_range {
    int64_t first, last;
} tw_pool_range;

/* Strides of a view in the order n c d h w, missing axes 0. */
typedef struct tw_pool_strides {
    int64_t n, c, axis[TW_MAX_SPATIAL];
} tw_pool_strides;

/* The input element of window o's first tap; negative in the padding. */
static inline int64_t tw_pool_start(const tw_pool_axis *axis, int64_t o)
{
    return o * axis->stride - axis->pad_lo;
}

static inline int64_t tw_pool_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* Taps of window o that lie on real elements. */
static inline tw_pool_range tw_pool_real(const tw_pool_axis *axis, int64_t o)
{
    int64_t start = tw_pool_start(axis, o), rest = axis->in - start;
    tw_pool_range range = {0, 0};
    if (start < 0) range.first = tw_pool_ceil_div(-start, axis->dilation);
    if (rest > 0) range.last = tw_pool_ceil_div(rest, axis->dilation);
    if (range.last > axis->window) range.last = axis->window;
    return range;
}

/* Taps of window o that the average divides by: the real ones, or those inside the declared
 * padding; the overhang of ceil mode never counts. */
static inline int64_t tw_pool_divisor(const tw_pool_axis *axis, int64_t o, bool include_pad)
{
    tw_pool_range real = tw_pool_real(axis, o);
    if (!include_pad) return real.last - real.first;
    int64_t count =
        tw_pool_ceil_div(axis->in + axis->pad_hi - tw_pool_start(axis, o), axis->dilation);
    return count < axis->window ? count : axis->window;
}

/* Output size of an axis whose in, window, stride, dilation and pads are set and in range; 0 if the
 * window does not fit. */
static inline int64_t tw_pool_out(const tw_pool_axis *axis, bool ceil_mode)
{
    int64_t reach = axis->dilation * (axis->window - 1) + 1;
    int64_t span = axis->in + axis->pad_lo + axis->pad_hi - reach;
    if (span < 0) return 0;
    if (!ceil_mode) return span / axis->stride + 1;
    int64_t out = tw_pool_ceil_div(span, axis->stride) + 1;
    int64_t inside = tw_pool_ceil_div(axis->in + axis->pad_lo, axis->stride);
    return out < inside ? out : inside;
}

/* From normalised attributes and x's dims (rank 3 to 5). */
static inline tw_pool_shape tw_pool_shape_of(const tw_pool_attrs *attrs, int32_t rank,
                                             const int64_t *x_dims)
{
    tw_pool_shape shape = {.n = x_dims[0],
                           .c = x_dims[1],
                           .taps = 1,
                           .include_pad = attrs->include_pad,
                           .column_major = attrs->column_major,
                           .index = attrs->index};
    int32_t spatial = rank - 2, missing = TW_MAX_SPATIAL - spatial;
    for (int32_t i = 0; i < missing; i++)
        shape.axis[i] = (tw_pool_axis){.in = 1, .out = 1, .window = 1, .stride = 1, .dilation = 1};
    for (int32_t i = 0; i < spatial; i++) {
        tw_pool_axis *axis = &shape.axis[missing + i];
        *axis = (tw_pool_axis){.in = x_dims[2 + i],
                               .window = attrs->window[i],
                               .stride = attrs->stride[i],
                               .dilation = attrs->dilation[i],
                               .pad_lo = attrs->pad_lo[i],
                               .pad_hi = attrs->pad_hi[i]};
        axis->out = tw_pool_out(axis, attrs->ceil_mode);
        shape.taps *= axis->window;
    }
    return shape;
}

static inline tw_pool_strides tw_pool_strides_of(const tw_view *view)
{
    tw_pool_strides strides = {.n = view->strides[0], .c = view->strides[1]};
    int32_t spatial = view->rank - 2;
    for (int32_t i = 0; i < spatial; i++)
        strides.axis[TW_MAX_SPATIAL - spatial + i] = view->strides[2 + i];
    return strides;
}

/* A position counted over three sizes, in row-major or column-major order. The axes of lower ranks
 * have size 1, so the order among the others is the operation's. */
static inline int64_t tw_pool_linear(const int64_t sizes[TW_MAX_SPATIAL],
                                     const int64_t at[TW_MAX_SPATIAL], bool column_major)
{
    if (column_major) return (at[2] * sizes[1] + at[1]) * sizes[0] + at[0];
    return (at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
}

/* The value of an index for tap `at` of output position `o` in plane (n, c). */
static inline int64_t tw_pool_index_of(const tw_pool_shape *shape, int64_t plane,
                                       const int64_t o[TW_MAX_SPATIAL],
                                       const int64_t tap[TW_MAX_SPATIAL])
{
    int64_t sizes[TW_MAX_SPATIAL], at[TW_MAX_SPATIAL];
    bool window = shape->index == TW_POOL_INDEX_WINDOW;
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) {
        const tw_pool_axis *axis = &shape->axis[i];
        sizes[i] = window ? axis->window : axis->in;
        at[i] = window ? tap[i] : tw_pool_start(axis, o[i]) + tap[i] * axis->dilation;
    }
    int64_t linear = tw_pool_linear(sizes, at, shape->column_major);
    if (shape->index == TW_POOL_INDEX_TENSOR) linear += plane * sizes[0] * sizes[1] * sizes[2];
    return linear;
}

#endif
