/* SPDX-License-Identifier: Apache-2.0 */
/* Random pooling problems for the tests. */
#ifndef TW_OPS_POOL_FUZZ_H
#define TW_OPS_POOL_FUZZ_H

#include <string.h>

#include "core/dtype.h"
#include "harness.h"
#include "ops/pool/pool_shape.h"

typedef struct fuzz {
    uint64_t seed, first_seed;
    int32_t rank;
    int64_t x_dims[5], y_dims[5];
    tw_pool_attrs attrs;
    tw_dtype type, index_type;
    bool channels_last, has_index;
    th_tensor x, y, index, dx, dy;
} fuzz;

static inline int64_t pick(fuzz *f, int64_t n)
{
    return (int64_t)(th_random(&f->seed) % (uint64_t)n);
}

static inline th_tensor make(fuzz *f, tw_dtype type, const int64_t *dims)
{
    tw_tensor_desc desc = f->channels_last ? tw_desc_channels_last(type, f->rank, dims)
                                           : tw_desc(type, f->rank, dims);
    if (f->channels_last || pick(f, 3) > 0) return th_make_like(&desc);
    int64_t strides[5], stride = 1 + pick(f, 2);
    for (int32_t d = f->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride = stride * dims[d] + pick(f, 3);
    }
    return th_make_strided(type, f->rank, dims, strides);
}

static inline bool pick_axis(fuzz *f, int32_t i, int64_t in)
{
    tw_pool_attrs *a = &f->attrs;
    a->window[i] = 1 + pick(f, 4);
    a->stride[i] = 1 + pick(f, 3);
    a->dilation[i] = 1 + (pick(f, 4) == 0);
    int64_t reach = a->dilation[i] * (a->window[i] - 1) + 1;
    a->pad_lo[i] = pick(f, (reach + 1) / 2 + 1);
    a->pad_hi[i] = pick(f, (reach + 1) / 2 + 1);
    tw_pool_axis axis = {.in = in,
                         .window = a->window[i],
                         .stride = a->stride[i],
                         .dilation = a->dilation[i],
                         .pad_lo = a->pad_lo[i],
                         .pad_hi = a->pad_hi[i]};
    f->y_dims[2 + i] = tw_pool_out(&axis, a->ceil_mode);
    f->x_dims[2 + i] = in;
    return f->y_dims[2 + i] > 0;
}

/* False if the attributes drawn do not fit the dims. */
static inline bool start_fuzz(fuzz *f, uint64_t seed, tw_dtype type)
{
    static const tw_dtype index_types[] = {TW_U8, TW_I32, TW_I64};
    memset(f, 0, sizeof *f);
    f->seed = f->first_seed = seed;
    f->type = type;
    f->rank = 3 + (int32_t)pick(f, 3);
    f->channels_last = pick(f, 2) == 0;
    f->attrs.mode = (tw_pool_mode)pick(f, 2);
    f->attrs.ceil_mode = pick(f, 2) == 0;
    f->attrs.include_pad = pick(f, 2) == 0;
    f->attrs.column_major = pick(f, 4) == 0;
    f->attrs.index = (tw_pool_index)pick(f, 3);
    f->index_type =
        index_types[f->attrs.index == TW_POOL_INDEX_WINDOW ? pick(f, 3) : 1 + pick(f, 2)];
    f->has_index = f->attrs.mode == TW_POOL_MAX && pick(f, 4) > 0;
    f->x_dims[0] = f->y_dims[0] = pick(f, 8) == 0 ? 0 : 1 + pick(f, 2);
    f->x_dims[1] = f->y_dims[1] = 1 + pick(f, f->channels_last ? 37 : 3);
    for (int32_t i = 0; i < f->rank - 2; i++)
        if (!pick_axis(f, i, 1 + pick(f, f->rank == 3 ? 70 : i == f->rank - 3 ? 20 : 7)))
            return false;
    f->x = make(f, type, f->x_dims);
    f->y = make(f, type, f->y_dims);
    f->dx = make(f, type, f->x_dims);
    f->dy = make(f, type, f->y_dims);
    f->index = make(f, f->index_type, f->y_dims);
    bool small = tw_dtype_is_integer(type) || pick(f, 2) == 0; /* ties */
    if (small)
        th_fill_integers(&f->x, seed, tw_dtype_is_signed(type) ? -3 : 0, 3);
    else
        th_fill_uniform(&f->x, seed, -1, 1);
    th_fill_integers(&f->dy, seed + 1, 0, 5);
    return true;
}

static inline void end_fuzz(fuzz *f)
{
    th_free(&f->x);
    th_free(&f->y);
    th_free(&f->dx);
    th_free(&f->dy);
    th_free(&f->index);
}

static inline th_call forward_call(fuzz *f)
{
    th_call call = {.kind = TW_OP_POOL,
                    .attrs = {.pool = f->attrs},
                    .n_in = 1,
                    .n_out = 2,
                    .in = {&f->x},
                    .out = {&f->y, f->has_index ? &f->index : NULL}};
    return call;
}

static inline th_call backward_call(fuzz *f)
{
    bool max = f->attrs.mode == TW_POOL_MAX;
    th_call call = {.kind = TW_OP_POOL_BACKWARD,
                    .attrs = {.pool = f->attrs},
                    .n_in = max ? 2 : 1,
                    .n_out = 1,
                    .in = {&f->dy, max ? &f->index : NULL},
                    .out = {&f->dx}};
    return call;
}

/* Attributes that leave a window empty are refused, not run. */
static inline bool is_legal(const th_call *call)
{
    tw_attrs attrs;
    tw_tensor_desc desc[4];
    if (th_infer(call, &attrs, desc) == TW_OK) return true;
    return strstr(tw_last_error(), "pad_lo") ==
           NULL; /* any other refusal is for the test to meet */
}

#endif
