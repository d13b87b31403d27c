/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of the gradient modes, for derivatives of second order. Each is y = dy·f'(x): linear
 * in dy, and with the derivative dy·f''(x) by x. In the rules below t is the product g·dy.
 */
#include "ops/pointwise/pointwise_rule.h"

/* mode(t, x) with the parameters of the operation */
static tw_status same_mode(const rule *r, tw_tensor t, tw_tensor *y)
{
    tw_pointwise_attrs attrs = *r->attrs;
    attrs.compute = TW_AUTO;
    attrs.convert = 0;
    return tw_grad_pointwise(r->builder, &attrs, (const tw_tensor[3]){t, r->b, TW_NONE}, y);
}

/* f'' = f'·scale for x <= 0, else 0: the exponential units */
static tw_status exponential(const rule *r, tw_tensor t, double scale, tw_tensor *dx)
{
    tw_tensor zero, positive, u, v;
    TW_TRY(tw_grad_scalar(r->builder, r->b, 0, &zero));
    TW_TRY(two(r, TW_PW_GT, r->b, zero, &positive));
    TW_TRY(same_mode(r, t, &u));
    TW_TRY(linear(r, u, scale, 0, &v));
    return where_not(r, positive, v, dx);
}

/* 1 - 2·sigmoid(z) */
static tw_status tilt(const rule *r, tw_tensor z, tw_tensor *y)
{
    tw_tensor s;
    TW_TRY(one(r, TW_PW_SIGMOID, z, &s));
    return linear(r, s, -2, 1, y);
}

/* -2·sign(x)/(1 + |x|)^3 */
static tw_status softsign(const rule *r, tw_tensor t, tw_tensor *dx)
{
    tw_tensor u, v, w;
    TW_TRY(one(r, TW_PW_ABS, r->b, &u));
    TW_TRY(linear(r, u, -0.5, -0.5, &w));
    TW_TRY(same_mode(r, t, &u));
    TW_TRY(two(r, TW_PW_ABS_BWD, u, r->b, &v));
    return two(r, TW_PW_DIV, v, w, dx);
}

/* phi(x)·(2 - x²) */
static tw_status gelu(const rule *r, tw_tensor t, tw_tensor *dx)
{
    tw_tensor square, u, v, w;
    TW_TRY(one(r, TW_PW_SQUARE, r->b, &square));
    TW_TRY(linear(r, square, -0.5, 0, &u));
    TW_TRY(one(r, TW_PW_EXP, u, &v));
    TW_TRY(linear(r, square, -0.39894228040143267794, 2 * 0.39894228040143267794, &w));
    TW_TRY(two(r, TW_PW_MUL, v, w, &u));
    return two(r, TW_PW_MUL, t, u, dx);
}

/* sigmoid'(v)·(2·v' + x·v'' + x·v'²·(1 - 2·sigmoid(v))) for f = x·sigmoid(v(x)) */
static tw_status gated(const rule *r, tw_tensor t, const tw_tensor v[3], tw_tensor *dx)
{
    tw_tensor u, w, bend, slope;
    TW_TRY(tilt(r, v[0], &u));
    TW_TRY(two(r, TW_PW_MUL, u, v[1], &w));
    TW_TRY(two(r, TW_PW_MUL, w, v[1], &u));
    w = u;
    if (v[2] != TW_NONE) TW_TRY(two(r, TW_PW_ADD, u, v[2], &w));
    TW_TRY(two(r, TW_PW_MUL, r->b, w, &u));
    TW_TRY(linear(r, v[1], 2, 0, &w));
    TW_TRY(two(r, TW_PW_ADD, u, w, &bend));
    TW_TRY(two(r, TW_PW_SIGMOID_BWD, t, v[0], &slope));
    return two(r, TW_PW_MUL, slope, bend, dx);
}

static tw_status silu(const rule *r, tw_tensor t, tw_tensor *dx)
{
    tw_tensor v[3] = {TW_NONE, TW_NONE, TW_NONE};
    TW_TRY(linear(r, r->b, r->attrs->alpha, 0, &v[0]));
    TW_TRY(tw_grad_scalar(r->builder, r->b, r->attrs->alpha, &v[1]));
    return gated(r, t, v, dx);
}

/* v = 2·sqrt(2/pi)·(x + k·x³) */
static tw_status gelu_tanh(const rule *r, tw_tensor t, tw_tensor *dx)
{
    const double scale = 2 * 0.79788456080286535588, k = 0.044715;
    tw_tensor square, u, v[3];
    TW_TRY(one(r, TW_PW_SQUARE, r->b, &square));
    TW_TRY(linear(r, square, scale * k, scale, &u));
    TW_TRY(two(r, TW_PW_MUL, r->b, u, &v[0]));
    TW_TRY(linear(r, square, 3 * scale * k, scale, &v[1]));
    TW_TRY(linear(r, r->b, 6 * scale * k, 0, &v[2]));
    return gated(r, t, v, dx);
}

/* (1 - T²)·s·(2 + x·(1 - s - 2·T·s)), T = tanh(softplus(x)), s = sigmoid(x) */
static tw_status mish(const rule *r, tw_tensor t, tw_tensor *dx)
{
    tw_tensor soft, T, s, u, v, w;
    TW_TRY(one(r, TW_PW_SOFTPLUS, r->b, &soft));
    TW_TRY(one(r, TW_PW_TANH, soft, &T));
    TW_TRY(one(r, TW_PW_SIGMOID, r->b, &s));
    TW_TRY(linear(r, T, -2, -1, &u));
    TW_TRY(two(r, TW_PW_MUL, u, s, &v));
    TW_TRY(linear(r, v, 1, 1, &u));
    TW_TRY(two(r, TW_PW_MUL, r->b, u, &v));
    TW_TRY(linear(r, v, 1, 2, &u));
    TW_TRY(two(r, TW_PW_MUL, s, u, &v));
    TW_TRY(two(r, TW_PW_TANH_BWD, t, soft, &w));
    return two(r, TW_PW_MUL, w, v, dx);
}

/* 1/3 between the corners at -3 and 3 */
static tw_status hard_swish(const rule *r, tw_tensor t, tw_tensor *dx)
{
    const tw_pointwise_attrs inside = {
        .mode = TW_PW_CLIP_BWD, .alpha = -3, .beta = 3, .has_alpha = true, .has_beta = true};
    tw_tensor u;
    TW_TRY(tw_grad_pointwise(r->builder, &inside, (const tw_tensor[3]){t, r->b}, &u));
    return linear(r, u, 1.0 / 3, 0, dx);
}

static tw_status by_x(const rule *r, tw_tensor t, tw_tensor *dx)
{
    tw_tensor u, v;
    double alpha = r->attrs->alpha;
    switch ((int)r->attrs->mode) {
    case TW_PW_ELU_BWD:
    case TW_PW_SELU_BWD: return exponential(r, t, 1, dx);
    case TW_PW_CELU_BWD: return exponential(r, t, 1 / alpha, dx);
    case TW_PW_GELU_BWD: return gelu(r, t, dx);
    case TW_PW_GELU_TANH_BWD: return gelu_tanh(r, t, dx);
    case TW_PW_SILU_BWD: return silu(r, t, dx);
    case TW_PW_MISH_BWD: return mish(r, t, dx);
    case TW_PW_SOFTSIGN_BWD: return softsign(r, t, dx);
    case TW_PW_HARD_SWISH_BWD: return hard_swish(r, t, dx);
    case TW_PW_SOFTPLUS_BWD: /* alpha·sigmoid'(alpha·x) */
        TW_TRY(linear(r, r->b, alpha, 0, &u));
        TW_TRY(two(r, TW_PW_SIGMOID_BWD, t, u, &v));
        return linear(r, v, alpha, 0, dx);
    case TW_PW_TANH_BWD: /* -2·tanh·(1 - tanh²) */
        TW_TRY(one(r, TW_PW_TANH, r->b, &u));
        TW_TRY(same_mode(r, t, &v));
        return product(r, u, v, -2, dx);
    case TW_PW_SIGMOID_BWD:
        TW_TRY(tilt(r, r->b, &u));
        TW_TRY(same_mode(r, t, &v));
        return two(r, TW_PW_MUL, u, v, dx);
    case TW_PW_TANH_BWD_Y: return product(r, t, r->b, -2, dx);
    case TW_PW_SIGMOID_BWD_Y:
        TW_TRY(linear(r, r->b, -2, 1, &u));
        return two(r, TW_PW_MUL, t, u, dx);
    default: return TW_OK; /* f is piecewise linear */
    }
}

tw_status tw_pw_gradient_of_gradient(const tw_gradient *gradient, int32_t operand, tw_tensor *dx)
{
    rule r = {.builder = gradient->builder,
              .attrs = &gradient->attrs->pointwise,
              .a = gradient->in[0],
              .b = gradient->in[1],
              .y = gradient->out[0],
              .dy = gradient->dy[0]};
    tw_tensor t;
    if (operand == 0) return same_mode(&r, r.dy, dx);
    TW_TRY(two(&r, TW_PW_MUL, r.dy, r.a, &t));
    return by_x(&r, t, dx);
}
