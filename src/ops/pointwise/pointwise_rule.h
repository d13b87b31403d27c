/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_OPS_POINTWISE_RULE_H
#define TW_OPS_POINTWISE_RULE_H

#include "core/error.h"
#include "ops/grad.h"
#include "ops/pointwise/pointwise.h"

/* What the rules work on, and the shortest names for what they do: a rule reads as its formula. */
typedef struct rule {
    const tw_builder *builder;
    const tw_pointwise_attrs *attrs;
    tw_tensor a, b, c, y, dy;
} rule;

static inline tw_status one(const rule *r, tw_pointwise_mode mode, tw_tensor a, tw_tensor *y)
{
    return tw_grad_unary(r->builder, mode, a, y);
}

static inline tw_status two(const rule *r, tw_pointwise_mode mode, tw_tensor a, tw_tensor b,
                            tw_tensor *y)
{
    return tw_grad_binary(r->builder, mode, a, b, y);
}

static inline tw_status linear(const rule *r, tw_tensor a, double alpha, double beta, tw_tensor *y)
{
    return tw_grad_linear(r->builder, a, alpha, beta, y);
}

static inline tw_status fused(const rule *r, tw_tensor a, tw_tensor b, tw_tensor c, tw_tensor *y)
{
    const tw_pointwise_attrs attrs = {.mode = TW_PW_FMA};
    return tw_grad_pointwise(r->builder, &attrs, (const tw_tensor[3]){a, b, c}, y);
}

/* condition ? x : 0, or condition ? 0 : x */
static inline tw_status where(const rule *r, tw_tensor condition, tw_tensor x, tw_tensor *y)
{
    tw_tensor zero;
    TW_TRY(tw_grad_scalar(r->builder, x, 0, &zero));
    return tw_grad_select(r->builder, condition, x, zero, y);
}

static inline tw_status where_not(const rule *r, tw_tensor condition, tw_tensor x, tw_tensor *y)
{
    tw_tensor zero;
    TW_TRY(tw_grad_scalar(r->builder, x, 0, &zero));
    return tw_grad_select(r->builder, condition, zero, x, y);
}

/* a·b·scale */
static inline tw_status product(const rule *r, tw_tensor a, tw_tensor b, double scale, tw_tensor *y)
{
    tw_tensor t;
    TW_TRY(two(r, TW_PW_MUL, a, b, scale == 1 ? y : &t));
    return scale == 1 ? TW_OK : linear(r, t, scale, 0, y);
}

#endif
