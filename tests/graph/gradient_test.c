/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every differentiable operation against central differences in f64, at awkward shapes. The loss is
 * Σ y·r with fixed random r; each input element is moved by ±h. With h = ε^(1/3) the difference
 * quotient is off by some ε^(2/3) of the terms' size, so the bound is a multiple of that.
 */
#include "gradient_check.h"

/* ---- Pointwise ------------------------------------------------------------------------------- */

typedef struct mode_row {
    const char *text;
    int value, arity;
} mode_row;
static const mode_row modes[] = {
#define TW_POINTWISE(NAME, value, text, arity, formula) {text, value, arity},
#include <tilework/pointwise.def>
#undef TW_POINTWISE
};

static void build_pointwise(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    tw_pointwise_attrs attrs = {.mode = (tw_pointwise_mode)c->mode};
    if (c->mode == TW_PW_CLIP) {
        attrs.has_alpha = attrs.has_beta = true;
        attrs.alpha = -0.7;
        attrs.beta = 0.9;
    }
    OK(tw_graph_pointwise(g, &attrs, in[0], c->n > 1 ? in[1] : TW_NONE, c->n > 2 ? in[2] : TW_NONE,
                          y));
}

/* Modes with no derivative worth the name: booleans, integers, second derivatives of gradients. */
static bool may_refuse(int mode)
{
    return (mode >= TW_PW_EQ && mode <= TW_PW_SHIFT_RIGHT) || mode == TW_PW_LOGICAL_NOT ||
           mode == TW_PW_BITWISE_NOT || mode == TW_PW_IS_NAN || mode == TW_PW_IS_INF ||
           mode == TW_PW_GEN_INDEX || (mode >= TW_PW_RELU_BWD && mode < TW_PW_SELECT);
}

static bool is_bitwise(int mode)
{
    return mode == TW_PW_BITWISE_NOT || (mode >= TW_PW_BITWISE_AND && mode <= TW_PW_SHIFT_RIGHT);
}

static void pointwise_modes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        int mode = modes[i].value;
        if (is_bitwise(mode)) continue; /* floats are refused when the graph is built */
        bool positive = mode == TW_PW_LOG || mode == TW_PW_SQRT || mode == TW_PW_RSQRT ||
                        mode == TW_PW_POW || mode == TW_PW_LOG1P || mode == TW_PW_RECIPROCAL;
        check c = {.n = modes[i].arity,
                   .mode = mode,
                   .build = build_pointwise,
                   .lo = positive ? 0.4 : -2,
                   .hi = 2,
                   .hole = 0.11,
                   .in = {{3, {2, 3, 5}}, {3, {2, 1, 5}}, {1, {5}}}};
        if (mode == TW_PW_TAN) c.hi = -(c.lo = -1); /* its slope has no bound */
        if (mode == TW_PW_CLAMP) c.in[1] = c.in[2] = (shape){3, {2, 3, 5}};
        snprintf(c.name, sizeof c.name, "pointwise %s", modes[i].text);
        if (!check_gradient(&c) && !may_refuse(mode)) fail_msg("%s has no gradient", c.name);
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

static void build_matmul(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    (void)c;
    OK(tw_graph_matmul(g, in[0], in[1], NULL, y));
}

static void products(void **state)
{
    (void)state;
    static const shape pairs[][2] = {
        {{2, {3, 5}}, {2, {5, 2}}},    {{1, {4}}, {2, {4, 3}}},
        {{2, {3, 4}}, {1, {4}}},       {{1, {6}}, {1, {6}}},
        {{3, {2, 3, 4}}, {2, {4, 5}}}, {{4, {2, 1, 3, 2}}, {3, {3, 2, 1}}}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        check c = {
            .n = 2, .lo = -1, .hi = 1, .build = build_matmul, .in = {pairs[i][0], pairs[i][1]}};
        snprintf(c.name, sizeof c.name, "matmul %zu", i);
        assert_true(check_gradient(&c));
    }
}

static void build_conv(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    OK(tw_graph_conv(g, in[0], in[1], &c->attrs.conv, y));
}

static void convolutions(void **state)
{
    (void)state;
    static const struct {
        shape x, w;
        tw_conv_attrs attrs;
    } rows[] = {
        {{3, {1, 2, 7}}, {3, {3, 2, 3}}, {.stride = {2}, .pad_lo = {1}, .pad_hi = {2}}},
        {{4, {2, 4, 5, 4}},
         {4, {2, 2, 3, 2}},
         {.groups = 2, .dilation = {2, 1}, .pad_lo = {2, 0}, .pad_hi = {1, 1}}},
        {{4, {1, 3, 6, 5}}, {4, {3, 1, 2, 3}}, {.groups = 3, .stride = {2, 3}, .flip = true}},
        {{5, {1, 1, 3, 4, 3}}, {5, {2, 1, 2, 1, 3}}, {.pad_lo = {1, 0, 1}}}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check c = {.n = 2,
                   .lo = -1,
                   .hi = 1,
                   .build = build_conv,
                   .in = {rows[i].x, rows[i].w},
                   .attrs = {.conv = rows[i].attrs}};
        snprintf(c.name, sizeof c.name, "conv %zu", i);
        assert_true(check_gradient(&c));
    }
}

static void build_conv_dgrad(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    const int64_t dims[] = {1, 2, 5, 6};
    OK(tw_graph_conv_dgrad(g, in[0], in[1], &c->attrs.conv, dims, y));
}

static void build_conv_wgrad(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    const int64_t dims[] = {3, 2, 2, 3};
    OK(tw_graph_conv_wgrad(g, in[0], in[1], &c->attrs.conv, dims, y));
}

static void convolution_gradients(void **state)
{
    (void)state;
    tw_conv_attrs attrs = {.stride = {2, 1}, .pad_lo = {1, 0}};
    check d = {.name = "conv_dgrad",
               .n = 2,
               .lo = -1,
               .hi = 1,
               .build = build_conv_dgrad,
               .in = {{4, {1, 3, 3, 4}}, {4, {3, 2, 2, 3}}},
               .attrs = {.conv = attrs}};
    assert_true(check_gradient(&d));
    check w = {.name = "conv_wgrad",
               .n = 2,
               .lo = -1,
               .hi = 1,
               .build = build_conv_wgrad,
               .in = {{4, {1, 2, 5, 6}}, {4, {1, 3, 3, 4}}},
               .attrs = {.conv = attrs}};
    assert_true(check_gradient(&w));
}

/* ---- Pools, reductions, softmax, losses ------------------------------------------------------ */

static void build_pool(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    OK(tw_graph_pool(g, in[0], &c->attrs.pool, y, NULL));
}

static void pools(void **state)
{
    (void)state;
    static const struct {
        shape x;
        tw_pool_attrs attrs;
    } rows[] = {
        {{3, {2, 2, 7}}, {.mode = TW_POOL_MAX, .window = {3}, .stride = {2}, .pad_lo = {1}}},
        {{4, {1, 2, 5, 6}},
         {.mode = TW_POOL_MAX, .window = {2, 3}, .stride = {1, 2}, .ceil_mode = true}},
        {{4, {1, 2, 5, 6}},
         {.mode = TW_POOL_AVERAGE,
          .window = {3, 3},
          .stride = {2, 2},
          .pad_lo = {1, 1},
          .pad_hi = {1, 1}}},
        {{4, {1, 2, 5, 6}},
         {.mode = TW_POOL_AVERAGE,
          .window = {3, 2},
          .stride = {2, 2},
          .pad_lo = {1, 0},
          .include_pad = true,
          .ceil_mode = true}},
        {{5, {1, 1, 3, 4, 3}}, {.mode = TW_POOL_MAX, .window = {2, 2, 2}, .dilation = {1, 2, 1}}}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check c = {.n = 1,
                   .lo = -5,
                   .hi = 5,
                   .build = build_pool,
                   .in = {rows[i].x},
                   .attrs = {.pool = rows[i].attrs}};
        snprintf(c.name, sizeof c.name, "pool %zu", i);
        assert_true(check_gradient(&c));
    }
}

static void build_reduce(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    tw_reduce_attrs attrs = {.mode = (tw_reduce_mode)c->mode,
                             .axes = c->attrs.reduce.axes,
                             .drop = c->attrs.reduce.drop};
    OK(tw_graph_reduce(g, in[0], &attrs, y));
}

static void reductions(void **state)
{
    (void)state;
    static const struct {
        int mode;
        const char *name;
        bool positive;
    } rows[] = {{TW_REDUCE_SUM, "sum", false},
                {TW_REDUCE_MEAN, "mean", false},
                {TW_REDUCE_MAX, "max", false},
                {TW_REDUCE_MIN, "min", false},
                {TW_REDUCE_PROD, "prod", false},
                {TW_REDUCE_L1, "l1", false},
                {TW_REDUCE_L2, "l2", false},
                {TW_REDUCE_LOG_SUM, "log_sum", true},
                {TW_REDUCE_LOG_SUM_EXP, "log_sum_exp", false},
                {TW_REDUCE_SUM_SQUARE, "sum_square", false},
                {TW_REDUCE_AMAX, "amax", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (uint32_t axes = 0; axes < 8; axes++) {
            check c = {.n = 1,
                       .mode = rows[i].mode,
                       .lo = rows[i].positive ? 0.3 : -2,
                       .hi = 2,
                       .hole = 0.1,
                       .build = build_reduce,
                       .in = {{3, {3, 2, 4}}},
                       .attrs = {.reduce = {.axes = axes, .drop = axes % 2 == 1}}};
            snprintf(c.name, sizeof c.name, "reduce %s axes %u", rows[i].name, (unsigned)axes);
            assert_true(check_gradient(&c));
        }
}

static void build_softmax(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    OK(tw_graph_softmax(g, in[0], &c->attrs.softmax, y));
}

static void softmaxes(void **state)
{
    (void)state;
    for (int log = 0; log < 2; log++)
        for (uint32_t axes = 0; axes < 8; axes++) {
            check c = {.n = 1,
                       .lo = -2,
                       .hi = 2,
                       .build = build_softmax,
                       .in = {{3, {3, 2, 4}}},
                       .attrs = {.softmax = {.axes = axes, .log = log == 1}}};
            snprintf(c.name, sizeof c.name, "softmax axes %u log %d", (unsigned)axes, log);
            assert_true(check_gradient(&c));
        }
}

static const int64_t label_values[] = {2, 0, 1, 3, 2, 1};

static void build_loss(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    tw_tensor labels;
    tw_tensor_desc desc = tw_desc(TW_I64, 2, (int64_t[]){3, 2});
    OK(tw_graph_constant(g, &desc, label_values, &labels));
    OK(tw_graph_cross_entropy(g, in[0], labels, &c->attrs.loss, y, NULL));
}

static void losses(void **state)
{
    (void)state;
    static const tw_cross_entropy_attrs rows[] = {
        {.reduction = TW_LOSS_MEAN},
        {.reduction = TW_LOSS_SUM, .smoothing = 0.1},
        {.reduction = TW_LOSS_NONE, .has_ignore = true, .ignore = 1},
        {.reduction = TW_LOSS_MEAN, .has_ignore = true, .ignore = 2, .smoothing = 0.2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check c = {.n = 1,
                   .lo = -2,
                   .hi = 2,
                   .build = build_loss,
                   .in = {{3, {3, 4, 2}}},
                   .attrs = {.loss = rows[i]}};
        snprintf(c.name, sizeof c.name, "cross_entropy %zu", i);
        assert_true(check_gradient(&c));
    }
}

/* ---- Dropout and layout ---------------------------------------------------------------------- */

static void build_other(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    const int64_t flat[] = {5, 6}, wide[] = {2, 2, 3, 5}, start[] = {0, 1, 1}, dims[] = {2, 2, 2};
    const int64_t step[] = {1, 1, 2}, lo[] = {1, -1, 0}, hi[] = {0, 1, 2}, one[] = {1, 1, 2};
    const int32_t order[] = {2, 0, 1};
    const tw_tensor both[] = {in[0], in[0]};
    tw_dropout_attrs drop = {.rate = 0.4, .seed = 3};
    switch (c->mode) {
    case 0: OK(tw_graph_reshape(g, in[0], 2, flat, y)); break;
    case 1: OK(tw_graph_transpose(g, in[0], order, y)); break;
    case 2: OK(tw_graph_expand(g, in[0], 4, wide, y)); break;
    case 3: OK(tw_graph_slice(g, in[0], start, dims, step, y)); break;
    case 4: OK(tw_graph_concat(g, 2, both, 1, y)); break;
    case 5: OK(tw_graph_pad(g, in[0], lo, hi, TW_PAD_CONSTANT, 1.5, y)); break;
    case 6: OK(tw_graph_pad(g, in[0], one, one, TW_PAD_REFLECT, 0, y)); break;
    case 7: OK(tw_graph_pad(g, in[0], one, one, TW_PAD_EDGE, 0, y)); break;
    case 8: OK(tw_graph_pad(g, in[0], one, one, TW_PAD_WRAP, 0, y)); break;
    case 9: OK(tw_graph_dropout(g, in[0], TW_NONE, TW_NONE, &drop, y, NULL)); break;
    default: OK(tw_graph_cast(g, in[0], TW_F64, 0, y)); break;
    }
}

static void others(void **state)
{
    (void)state;
    for (int mode = 0; mode <= 10; mode++) {
        check c = {
            .n = 1, .mode = mode, .lo = -2, .hi = 2, .build = build_other, .in = {{3, {2, 3, 5}}}};
        snprintf(c.name, sizeof c.name, "layout or dropout %d", mode);
        assert_true(check_gradient(&c));
    }
}

/* A value that is used twice gets both gradients; one that is not used gets zeros. */
static void build_diamond(const check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y)
{
    (void)c;
    tw_tensor a = TW_NONE, b = TW_NONE, s = TW_NONE;
    OK(tw_graph_unary(g, TW_PW_TANH, in[0], &a));
    OK(tw_graph_binary(g, TW_PW_MUL, a, in[0], &b));
    OK(tw_graph_binary(g, TW_PW_ADD, b, a, &s));
    OK(tw_graph_binary(g, TW_PW_MUL, s, s, y));
}

static void several_paths(void **state)
{
    (void)state;
    check c = {.name = "diamond",
               .n = 2,
               .lo = -1,
               .hi = 1,
               .build = build_diamond,
               .in = {{2, {3, 4}}, {1, {2}}}};
    assert_true(check_gradient(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointwise_modes), cmocka_unit_test(products),
        cmocka_unit_test(convolutions),    cmocka_unit_test(convolution_gradients),
        cmocka_unit_test(pools),           cmocka_unit_test(reductions),
        cmocka_unit_test(softmaxes),       cmocka_unit_test(losses),
        cmocka_unit_test(others),          cmocka_unit_test(several_paths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
