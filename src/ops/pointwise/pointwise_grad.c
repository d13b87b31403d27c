/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of pointwise modes, as operations of the graph. */
#include "core/error.h"
#include "ops/pointwise/pointwise_rule.h"

/* The gradient mode of an activation, with the activation's own parameters. */
static tw_status activation(const rule *r, tw_pointwise_mode mode, tw_tensor x, tw_tensor *dx)
{
    tw_pointwise_attrs attrs = {.mode = mode,
                                .alpha = r->attrs->alpha,
                                .beta = r->attrs->beta,
                                .has_alpha = true,
                                .has_beta = true};
    return tw_grad_pointwise(r->builder, &attrs, (const tw_tensor[3]){r->dy, x, TW_NONE}, dx);
}

/* {mode, its gradient mode, whether that takes the result instead of the operand} */
static const struct {
    tw_pointwise_mode mode, backward;
    bool of_result;
} activations[] = {
    {TW_PW_ABS, TW_PW_ABS_BWD, false},
    {TW_PW_RELU, TW_PW_RELU_BWD, true},
    {TW_PW_RELU6, TW_PW_RELU6_BWD, true},
    {TW_PW_TANH, TW_PW_TANH_BWD_Y, true},
    {TW_PW_SIGMOID, TW_PW_SIGMOID_BWD_Y, true},
    {TW_PW_LEAKY_RELU, TW_PW_LEAKY_RELU_BWD, false},
    {TW_PW_ELU, TW_PW_ELU_BWD, false},
    {TW_PW_SELU, TW_PW_SELU_BWD, false},
    {TW_PW_CELU, TW_PW_CELU_BWD, false},
    {TW_PW_GELU, TW_PW_GELU_BWD, false},
    {TW_PW_GELU_TANH, TW_PW_GELU_TANH_BWD, false},
    {TW_PW_SILU, TW_PW_SILU_BWD, false},
    {TW_PW_MISH, TW_PW_MISH_BWD, false},
    {TW_PW_SOFTPLUS, TW_PW_SOFTPLUS_BWD, false},
    {TW_PW_SOFTSIGN, TW_PW_SOFTSIGN_BWD, false},
    {TW_PW_HARD_SIGMOID, TW_PW_HARD_SIGMOID_BWD, false},
    {TW_PW_HARD_SWISH, TW_PW_HARD_SWISH_BWD, false},
    {TW_PW_CLIP, TW_PW_CLIP_BWD, false},
};

static tw_status unary_function(const rule *r, tw_tensor *dx)
{
    tw_tensor t, u;
    switch ((int)r->attrs->mode) {
    case TW_PW_SQRT: /* dy/(2·y) */
        TW_TRY(linear(r, r->y, 2, 0, &t));
        return two(r, TW_PW_DIV, r->dy, t, dx);
    case TW_PW_RSQRT: /* -dy·y/(2·a) */
        TW_TRY(linear(r, r->a, -2, 0, &t));
        TW_TRY(two(r, TW_PW_DIV, r->y, t, &u));
        return two(r, TW_PW_MUL, r->dy, u, dx);
    case TW_PW_RECIPROCAL: /* -dy·y² */
        TW_TRY(one(r, TW_PW_SQUARE, r->y, &t));
        return product(r, r->dy, t, -1, dx);
    case TW_PW_EXPM1: return fused(r, r->dy, r->y, r->dy, dx);
    case TW_PW_LOG1P: TW_TRY(linear(r, r->a, 1, 1, &t)); return two(r, TW_PW_DIV, r->dy, t, dx);
    case TW_PW_SIN: TW_TRY(one(r, TW_PW_COS, r->a, &t)); return two(r, TW_PW_MUL, r->dy, t, dx);
    case TW_PW_COS: TW_TRY(one(r, TW_PW_SIN, r->a, &t)); return product(r, r->dy, t, -1, dx);
    case TW_PW_TAN: /* dy·(1 + y²) */
        TW_TRY(one(r, TW_PW_SQUARE, r->y, &t));
        return fused(r, r->dy, t, r->dy, dx);
    case TW_PW_ERF: /* dy·2/sqrt(pi)·exp(-a²) */
        TW_TRY(one(r, TW_PW_SQUARE, r->a, &t));
        TW_TRY(one(r, TW_PW_NEG, t, &u));
        TW_TRY(one(r, TW_PW_EXP, u, &t));
        return product(r, r->dy, t, 1.12837916709551257390, dx);
    default: return TW_OK; /* piecewise constant: a gradient of zero */
    }
}

static tw_status unary(const rule *r, tw_tensor *dx)
{
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++)
        if (activations[i].mode == r->attrs->mode)
            return activation(r, activations[i].backward, activations[i].of_result ? r->y : r->a,
                              dx);
    switch ((int)r->attrs->mode) {
    case TW_PW_IDENTITY: *dx = r->dy; return TW_OK;
    case TW_PW_NEG: return one(r, TW_PW_NEG, r->dy, dx);
    case TW_PW_LINEAR: return linear(r, r->dy, r->attrs->alpha, 0, dx);
    case TW_PW_SQUARE: return product(r, r->dy, r->a, 2, dx);
    case TW_PW_EXP: return two(r, TW_PW_MUL, r->dy, r->y, dx);
    case TW_PW_LOG: return two(r, TW_PW_DIV, r->dy, r->a, dx);
    default: return unary_function(r, dx);
    }
}

/* The larger (or smaller) operand takes the gradient; equal ones share it. */
static tw_status extremum(const rule *r, int32_t operand, tw_tensor *dx)
{
    bool greater = (r->attrs->mode == TW_PW_MAX) == (operand == 0);
    tw_tensor wins, tie, half, single;
    TW_TRY(two(r, greater ? TW_PW_GT : TW_PW_LT, r->a, r->b, &wins));
    TW_TRY(two(r, TW_PW_EQ, r->a, r->b, &tie));
    TW_TRY(linear(r, r->dy, 0.5, 0, &half));
    TW_TRY(where(r, wins, r->dy, &single));
    return tw_grad_select(r->builder, tie, half, single, dx);
}

static tw_status power(const rule *r, int32_t operand, tw_tensor *dx)
{
    tw_tensor t, u;
    if (operand == 0) { /* dy·b·a^(b-1), and 0 for b = 0 */
        TW_TRY(linear(r, r->b, 1, -1, &t));
        TW_TRY(two(r, TW_PW_POW, r->a, t, &u));
        TW_TRY(two(r, TW_PW_MUL, r->b, u, &t));
        TW_TRY(two(r, TW_PW_MUL, r->dy, t, &u));
        return where(r, r->b, u, dx);
    }
    TW_TRY(one(r, TW_PW_LOG, r->a, &t)); /* dy·y·log(a), and 0 for a = 0 */
    TW_TRY(two(r, TW_PW_MUL, r->y, t, &u));
    TW_TRY(two(r, TW_PW_MUL, r->dy, u, &t));
    return where(r, r->a, t, dx);
}

/* y = a - b·q with an integer q, so that dy/db = -q; (a - y)/b is q but for its rounding. */
static tw_status remainder_by_b(const rule *r, tw_tensor *dx)
{
    tw_tensor t, u;
    TW_TRY(two(r, TW_PW_SUB, r->a, r->y, &t));
    TW_TRY(two(r, TW_PW_DIV, t, r->b, &u));
    TW_TRY(one(r, TW_PW_ROUND, u, &t));
    return product(r, r->dy, t, -1, dx);
}

static tw_status arctangent(const rule *r, int32_t operand, tw_tensor *dx)
{
    tw_tensor t, norm, share;
    TW_TRY(one(r, TW_PW_SQUARE, r->a, &t));
    TW_TRY(two(r, TW_PW_ADD_SQUARE, t, r->b, &norm));
    TW_TRY(two(r, TW_PW_DIV, operand == 0 ? r->b : r->a, norm, &share));
    return product(r, r->dy, share, operand == 0 ? 1 : -1, dx);
}

static tw_status parametric_relu(const rule *r, int32_t operand, tw_tensor *dx)
{
    tw_tensor zero, positive, t;
    TW_TRY(tw_grad_scalar(r->builder, r->a, 0, &zero));
    TW_TRY(two(r, TW_PW_GT, r->a, zero, &positive));
    TW_TRY(two(r, TW_PW_MUL, r->dy, operand == 0 ? r->b : r->a, &t));
    if (operand == 0) return tw_grad_select(r->builder, positive, r->dy, t, dx);
    return where_not(r, positive, t, dx);
}

static tw_status binary(const rule *r, int32_t operand, tw_tensor *dx)
{
    bool first = operand == 0;
    tw_tensor t;
    *dx = r->dy;
    switch ((int)r->attrs->mode) {
    case TW_PW_ADD:
        return first || r->attrs->alpha == 1 ? TW_OK : linear(r, r->dy, r->attrs->alpha, 0, dx);
    case TW_PW_SUB: return first ? TW_OK : linear(r, r->dy, -r->attrs->alpha, 0, dx);
    case TW_PW_ADD_SQUARE: return first ? TW_OK : product(r, r->dy, r->b, 2, dx);
    case TW_PW_MUL: return two(r, TW_PW_MUL, r->dy, first ? r->b : r->a, dx);
    case TW_PW_DIV: /* dy/b, and -(dy/b)·y */
        if (first) return two(r, TW_PW_DIV, r->dy, r->b, dx);
        TW_TRY(two(r, TW_PW_DIV, r->dy, r->b, &t));
        return product(r, t, r->y, -1, dx);
    case TW_PW_MAX:
    case TW_PW_MIN: return extremum(r, operand, dx);
    case TW_PW_POW: return power(r, operand, dx);
    case TW_PW_MOD:
    case TW_PW_FMOD: return first ? TW_OK : remainder_by_b(r, dx);
    case TW_PW_ATAN2: return arctangent(r, operand, dx);
    case TW_PW_PRELU: return parametric_relu(r, operand, dx);
    default: *dx = TW_NONE; return TW_OK; /* comparisons, logic and bits */
    }
}

static tw_status clamped(const rule *r, int32_t operand, tw_tensor *dx)
{
    tw_tensor above, below, both;
    if (operand == 2) { /* c, where it is the smaller of c and max(a, b) */
        tw_tensor raised;
        TW_TRY(two(r, TW_PW_MAX, r->a, r->b, &raised));
        TW_TRY(two(r, TW_PW_LT, raised, r->c, &below));
        return where_not(r, below, r->dy, dx);
    }
    bool first = operand == 0;
    TW_TRY(two(r, first ? TW_PW_GT : TW_PW_LE, r->a, r->b, &above));
    TW_TRY(two(r, TW_PW_LT, first ? r->a : r->b, r->c, &below));
    TW_TRY(two(r, TW_PW_LOGICAL_AND, above, below, &both));
    return where(r, both, r->dy, dx);
}

static tw_status ternary(const rule *r, int32_t operand, tw_tensor *dx)
{
    switch ((int)r->attrs->mode) {
    case TW_PW_SELECT:
        if (operand == 0) return TW_OK;
        return operand == 1 ? where(r, r->a, r->dy, dx) : where_not(r, r->a, r->dy, dx);
    case TW_PW_FMA:
        *dx = r->dy;
        if (operand == 2) return TW_OK;
        return two(r, TW_PW_MUL, r->dy, operand == 0 ? r->b : r->a, dx);
    default: return clamped(r, operand, dx);
    }
}

tw_status tw_pw_gradient(const tw_gradient *gradient)
{
    const tw_pointwise_attrs *attrs = &gradient->attrs->pointwise;
    const tw_pw_mode_info mode = tw_pw_mode_of(attrs->mode);
    rule r = {.builder = gradient->builder,
              .attrs = attrs,
              .a = gradient->in[0],
              .b = gradient->n_in > 1 ? gradient->in[1] : TW_NONE,
              .c = gradient->n_in > 2 ? gradient->in[2] : TW_NONE,
              .y = gradient->out[0],
              .dy = gradient->dy[0]};
    if (r.dy == TW_NONE) return TW_OK;
    for (int32_t i = 0; i < mode.arity; i++) {
        tw_tensor dx = TW_NONE;
        if (!gradient->want[i]) continue;
        if (attrs->mode >= TW_PW_RELU_BWD && attrs->mode < TW_PW_SELECT)
            TW_TRY(tw_pw_gradient_of_gradient(gradient, i, &dx));
        else if (mode.arity == 1)
            TW_TRY(unary(&r, &dx));
        else
            TW_TRY(mode.arity == 2 ? binary(&r, i, &dx) : ternary(&r, i, &dx));
        if (dx != TW_NONE) TW_TRY(tw_grad_sum_to(r.builder, dx, gradient->in[i], &gradient->dx[i]));
    }
    return TW_OK;
}
