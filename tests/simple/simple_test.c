/* SPDX-License-Identifier: Apache-2.0 */
/* Each simple call against the graph of the same operation, bit by bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "harness.h"
#include <tilework/tilework.h>

#define OK(call) check_ok((call), #call, __LINE__)
#define D(...) ((int64_t[]){__VA_ARGS__})

static void check_ok(tw_status status, const char *what, int line)
{
    if (status == TW_OK) return;
    print_error("line %d: %s: %s: %s\n", line, what, tw_status_name(status), tw_last_error());
    fail();
}

/* ---- Each call against its graph ------------------------------------------------------------- */

enum { MAX = 9 };

/* A graph with the caller's tensors: number i + 1 is bound to t[i]. */
typedef struct oracle {
    tw_graph *graph;
    int32_t n;
    th_tensor *t[MAX];
    tw_tensor number[MAX];
} oracle;

static void begin(oracle *o, int32_t n, th_tensor *const *t)
{
    OK(tw_graph_create(&o->graph));
    o->n = n;
    for (int32_t i = 0; i < n; i++) {
        o->t[i] = t[i];
        if (t[i]) OK(tw_graph_tensor(o->graph, &t[i]->desc, &o->number[i]));
    }
}

static void finish(oracle *o, bool limited)
{
    tw_plan_options options = {.has_workspace_limit = limited, .max_threads = 1};
    tw_binding bindings[MAX];
    int32_t n = 0;
    tw_plan *plan;
    OK(tw_plan_create(o->graph, &options, &plan));
    for (int32_t i = 0; i < o->n; i++)
        if (o->t[i]) bindings[n++] = (tw_binding){o->number[i], o->t[i]->data};
    int64_t bytes = tw_plan_workspace(plan);
    void *workspace = tw_malloc((size_t)bytes);
    OK(tw_run(plan, NULL, n, bindings, workspace, bytes));
    tw_free(workspace);
    tw_plan_free(plan);
    tw_graph_free(o->graph);
}

static th_tensor filled(tw_dtype dtype, int32_t rank, const int64_t *dims, uint64_t seed)
{
    th_tensor t = th_make(dtype, rank, dims);
    th_fill_uniform(&t, seed, -1, 1);
    return t;
}

#define TENSOR(operand)                                                                            \
    {                                                                                              \
        &(operand).desc, (operand).data                                                            \
    }
#define EQUAL(got, want) assert_true(th_equal(&(got), &(want), #got))

static void free_all(int n, th_tensor *const *tensors)
{
    for (int i = 0; i < n; i++) th_free(tensors[i]);
}
#define FREE(...)                                                                                  \
    free_all(sizeof((th_tensor *[]){__VA_ARGS__}) / sizeof(th_tensor *),                           \
             (th_tensor *[]){__VA_ARGS__})

static const tw_conv_attrs conv_attrs = {
    .stride = {2, 1}, .dilation = {1, 2}, .pad_lo = {1, 2}, .pad_hi = {0, 1}};
static const tw_pointwise_attrs leaky = {
    .mode = TW_PW_LEAKY_RELU, .has_alpha = true, .alpha = 0.25};

/* y = leaky(conv(x, w) + bias) by a graph. */
static void conv_oracle(th_tensor *x, th_tensor *w, th_tensor *bias, th_tensor *y, bool fused)
{
    th_tensor *t[] = {x, w, bias, y};
    oracle o;
    begin(&o, 4, t);
    tw_tensor product = TW_NONE, column, sum = TW_NONE;
    column = TW_NONE;
    if (!fused) product = o.number[3];
    OK(tw_graph_conv(o.graph, o.number[0], o.number[1], &conv_attrs, &product));
    if (fused) {
        OK(tw_graph_reshape(o.graph, o.number[2], 3, D(th_elements(bias), 1, 1), &column));
        OK(tw_graph_binary(o.graph, TW_PW_ADD, product, column, &sum));
        OK(tw_graph_pointwise(o.graph, &leaky, sum, TW_NONE, TW_NONE, &o.number[3]));
    } else {
        o.t[2] = NULL;
    }
    finish(&o, false);
}

static void conv_forward(void **state)
{
    (void)state;
    th_tensor x = filled(TW_F32, 4, D(2, 6, 9, 8), 1), w = filled(TW_F32, 4, D(5, 6, 3, 2), 2);
    th_tensor bias = filled(TW_F32, 1, D(5), 3);
    th_tensor y = th_make(TW_F32, 4, D(2, 5, 4, 9)), want = th_make_like(&y.desc);
    int64_t bytes = -1;
    tw_call_options options = {.query = &bytes};
    tw_conv_call call = {
        .options = &options, .x = TENSOR(x), .w = TENSOR(w), .y = TENSOR(y), .attrs = &conv_attrs};
    for (int fused = 0; fused < 2; fused++) {
        if (fused) call.bias = (tw_input)TENSOR(bias);
        if (fused) call.activation = &leaky;
        options = (tw_call_options){.query = &bytes};
        OK(tw_conv_forward(&call));
        assert_true(bytes >= 0);
        void *workspace = tw_malloc((size_t)bytes);
        options = (tw_call_options){.workspace = workspace, .workspace_bytes = bytes};
        conv_oracle(&x, &w, &bias, &want, fused);
        for (int round = 0; round < 2; round++) {
            th_fill_value(&y, 77);
            OK(tw_conv_forward(&call));
            EQUAL(y, want);
        }
        tw_free(workspace);
    }
    FREE(&x, &w, &bias, &y, &want);
}

/* Integers make every kernel's sum the same. */
static void conv_without_workspace(void **state)
{
    (void)state;
    th_tensor x = th_make(TW_F32, 4, D(2, 6, 9, 8)), w = th_make(TW_F32, 4, D(5, 6, 3, 2));
    th_tensor bias = th_make(TW_F32, 1, D(5));
    th_tensor y = th_make(TW_F32, 4, D(2, 5, 4, 9)), want = th_make_like(&y.desc);
    th_fill_integers(&x, 1, -4, 4);
    th_fill_integers(&w, 2, -4, 4);
    th_fill_integers(&bias, 3, -8, 8);
    conv_oracle(&x, &w, &bias, &want, true);
    tw_conv_call call = {.x = TENSOR(x),
                         .w = TENSOR(w),
                         .bias = TENSOR(bias),
                         .y = TENSOR(y),
                         .attrs = &conv_attrs,
                         .activation = &leaky};
    for (int round = 0; round < 2; round++) {
        th_fill_value(&y, 77);
        OK(tw_conv_forward(&call));
        EQUAL(y, want);
    }
    FREE(&x, &w, &bias, &y, &want);
}

static void conv_gradients(void **state)
{
    (void)state;
    th_tensor x = filled(TW_F32, 4, D(2, 6, 9, 8), 1), w = filled(TW_F32, 4, D(5, 6, 3, 2), 2);
    th_tensor dy = filled(TW_F32, 4, D(2, 5, 4, 9), 3);
    th_tensor dx = th_make_like(&x.desc), dw = th_make_like(&w.desc);
    th_tensor want_dx = th_make_like(&x.desc), want_dw = th_make_like(&w.desc);
    oracle o;
    begin(&o, 3, (th_tensor *[]){&dy, &w, &want_dx});
    OK(tw_graph_conv_dgrad(o.graph, o.number[0], o.number[1], &conv_attrs, NULL, &o.number[2]));
    finish(&o, true);
    begin(&o, 3, (th_tensor *[]){&x, &dy, &want_dw});
    OK(tw_graph_conv_wgrad(o.graph, o.number[0], o.number[1], &conv_attrs, NULL, &o.number[2]));
    finish(&o, true);
    OK(tw_conv_dgrad(&(tw_conv_dgrad_call){
        .dy = TENSOR(dy), .w = TENSOR(w), .dx = TENSOR(dx), .attrs = &conv_attrs}));
    OK(tw_conv_wgrad(&(tw_conv_wgrad_call){
        .x = TENSOR(x), .dy = TENSOR(dy), .dw = TENSOR(dw), .attrs = &conv_attrs}));
    EQUAL(dx, want_dx);
    EQUAL(dw, want_dw);
    FREE(&x, &w, &dy, &dx, &dw, &want_dx, &want_dw);
}

static void matmul(void **state)
{
    (void)state;
    th_tensor a = filled(TW_F32, 2, D(7, 19), 1), bias = filled(TW_F32, 1, D(5), 3);
    th_tensor b = th_make_strided(TW_F32, 2, D(19, 5), D(1, 19)); /* transposed */
    th_tensor y = th_make_strided(TW_F32, 2, D(7, 5), D(8, 1)), want = th_make_like(&y.desc);
    th_fill_uniform(&b, 2, -1, 1);
    tw_matmul_call call = {.a = TENSOR(a), .b = TENSOR(b), .y = TENSOR(y)};
    oracle o;
    for (int step = 0; step < 3; step++) { /* plain, with bias, with both */
        tw_tensor product = TW_NONE, sum = TW_NONE;
        begin(&o, 4, (th_tensor *[]){&a, &b, step ? &bias : NULL, &want});
        tw_tensor *y1 = step == 0 ? &o.number[3] : &product;
        tw_tensor *y2 = step == 1 ? &o.number[3] : &sum;
        OK(tw_graph_matmul(o.graph, o.number[0], o.number[1], NULL, y1));
        if (step > 0) OK(tw_graph_binary(o.graph, TW_PW_ADD, product, o.number[2], y2));
        if (step > 1) OK(tw_graph_pointwise(o.graph, &leaky, sum, TW_NONE, TW_NONE, &o.number[3]));
        finish(&o, true);
        if (step > 0) call.bias = (tw_input)TENSOR(bias);
        if (step > 1) call.activation = &leaky;
        OK(tw_matmul(&call));
        EQUAL(y, want);
        assert_true(th_guards_intact(&y));
    }
    FREE(&a, &b, &bias, &y, &want);
}

static void pool(void **state)
{
    (void)state;
    tw_pool_attrs attrs = {.window = {3, 2}, .stride = {2, 2}, .pad_lo = {1, 0}};
    th_tensor x = filled(TW_F32, 4, D(2, 3, 8, 8), 1), dx = th_make_like(&x.desc);
    th_tensor y = th_make(TW_F32, 4, D(2, 3, 4, 4)), want = th_make_like(&y.desc);
    th_tensor indices = th_make(TW_I64, 4, D(2, 3, 4, 4)), want_at = th_make_like(&indices.desc);
    th_tensor want_dx = th_make_like(&x.desc);
    oracle o;
    begin(&o, 3, (th_tensor *[]){&x, &want, &want_at});
    OK(tw_graph_pool(o.graph, o.number[0], &attrs, &o.number[1], &o.number[2]));
    finish(&o, true);
    begin(&o, 3, (th_tensor *[]){&want, &want_at, &want_dx});
    OK(tw_graph_pool_backward(o.graph, o.number[0], o.number[1], &attrs, NULL, &o.number[2]));
    finish(&o, true);
    tw_pool_call call = {.x = TENSOR(x), .y = TENSOR(y), .attrs = &attrs};
    OK(tw_pool_forward(&call));
    EQUAL(y, want);
    call.indices = (tw_output)TENSOR(indices);
    OK(tw_pool_forward(&call));
    EQUAL(indices, want_at);
    OK(tw_pool_backward(&(tw_pool_backward_call){
        .dy = TENSOR(y), .indices = TENSOR(indices), .dx = TENSOR(dx), .attrs = &attrs}));
    EQUAL(dx, want_dx);
    FREE(&x, &dx, &y, &want, &indices, &want_at, &want_dx);
}

static void pointwise(void **state)
{
    (void)state;
    static const tw_pointwise_mode modes[] = {TW_PW_TANH, TW_PW_SUB, TW_PW_FMA};
    th_tensor in[3] = {filled(TW_F32, 3, D(4, 3, 7), 1), filled(TW_F32, 2, D(3, 1), 2),
                       filled(TW_F32, 1, D(7), 3)};
    th_tensor y = th_make(TW_F32, 3, D(4, 3, 7)), want = th_make_like(&y.desc);
    for (int arity = 1; arity <= 3; arity++) {
        tw_pointwise_attrs attrs = {.mode = modes[arity - 1]};
        tw_pointwise_call call = {.a = TENSOR(in[0]), .y = TENSOR(y), .attrs = &attrs};
        oracle o = {.graph = NULL};
        begin(&o, 4,
              (th_tensor *[]){&in[0], arity > 1 ? &in[1] : NULL, arity > 2 ? &in[2] : NULL, &want});
        OK(tw_graph_pointwise(o.graph, &attrs, o.number[0], o.number[1], o.number[2],
                              &o.number[3]));
        finish(&o, true);
        if (arity > 1) call.b = (tw_input)TENSOR(in[1]);
        if (arity > 2) call.c = (tw_input)TENSOR(in[2]);
        OK(tw_pointwise(&call));
        EQUAL(y, want);
        call.y.data = in[0].data; /* in place */
        if (arity < 3) continue;
        OK(tw_pointwise(&call));
        EQUAL(in[0], want);
    }
    OK(tw_pointwise(&(tw_pointwise_call){.a = TENSOR(want), .y = TENSOR(y)})); /* identity */
    EQUAL(y, want);
    FREE(&in[0], &in[1], &in[2], &y, &want);
}

static void reduce_and_softmax(void **state)
{
    (void)state;
    tw_reduce_attrs sum = {.mode = TW_REDUCE_SUM, .axes = 2, .drop = true};
    tw_softmax_attrs log = {.axes = 2, .log = true};
    th_tensor x = filled(TW_F32, 3, D(4, 9, 5), 1), dy = filled(TW_F32, 3, D(4, 9, 5), 2);
    th_tensor s = th_make(TW_F32, 2, D(4, 5)), want_s = th_make_like(&s.desc);
    th_tensor y = th_make_like(&x.desc), want_y = th_make_like(&x.desc);
    th_tensor dx = th_make_like(&x.desc), want_dx = th_make_like(&x.desc);
    oracle o;
    begin(&o, 2, (th_tensor *[]){&x, &want_s});
    OK(tw_graph_reduce(o.graph, o.number[0], &sum, &o.number[1]));
    finish(&o, true);
    begin(&o, 2, (th_tensor *[]){&x, &want_y});
    OK(tw_graph_softmax(o.graph, o.number[0], &log, &o.number[1]));
    finish(&o, true);
    begin(&o, 3, (th_tensor *[]){&want_y, &dy, &want_dx});
    OK(tw_graph_softmax_backward(o.graph, o.number[0], o.number[1], &log, &o.number[2]));
    finish(&o, true);
    OK(tw_reduce(&(tw_reduce_call){.x = TENSOR(x), .y = TENSOR(s), .attrs = &sum}));
    OK(tw_softmax_forward(&(tw_softmax_call){.x = TENSOR(x), .y = TENSOR(y), .attrs = &log}));
    OK(tw_softmax_backward(&(tw_softmax_backward_call){
        .y = TENSOR(y), .dy = TENSOR(dy), .dx = TENSOR(dx), .attrs = &log}));
    EQUAL(s, want_s);
    EQUAL(y, want_y);
    EQUAL(dx, want_dx);
    FREE(&x, &dy, &s, &want_s, &y, &want_y, &dx, &want_dx);
}

static void cross_entropy(void **state)
{
    (void)state;
    tw_cross_entropy_attrs attrs = {.smoothing = 0.125, .has_ignore = true, .ignore = 2};
    th_tensor x = filled(TW_F32, 2, D(6, 5), 1), labels = th_make(TW_I64, 1, D(6));
    th_tensor loss = th_make(TW_F32, 0, NULL), want = th_make(TW_F32, 0, NULL);
    th_tensor lse = th_make(TW_F32, 1, D(6)), want_lse = th_make(TW_F32, 1, D(6));
    th_tensor dx = th_make_like(&x.desc), want_dx = th_make_like(&x.desc);
    th_tensor one = th_make(TW_F32, 0, NULL);
    th_fill_integers(&labels, 2, 0, 4);
    th_fill_value(&one, 1);
    oracle o;
    begin(&o, 4, (th_tensor *[]){&x, &labels, &want, &want_lse});
    OK(tw_graph_cross_entropy(o.graph, o.number[0], o.number[1], &attrs, &o.number[2],
                              &o.number[3]));
    finish(&o, true);
    begin(&o, 5, (th_tensor *[]){&x, &labels, &want_lse, &one, &want_dx});
    OK(tw_graph_cross_entropy_backward(o.graph, o.number[0], o.number[1], o.number[2], o.number[3],
                                       &attrs, &o.number[4]));
    finish(&o, true);
    tw_cross_entropy_call call = {
        .logits = TENSOR(x), .labels = TENSOR(labels), .loss = TENSOR(loss), .attrs = &attrs};
    OK(tw_cross_entropy_forward(&call));
    EQUAL(loss, want);
    call.lse = (tw_output)TENSOR(lse);
    OK(tw_cross_entropy_forward(&call));
    EQUAL(lse, want_lse);
    OK(tw_cross_entropy_backward(&(tw_cross_entropy_backward_call){.logits = TENSOR(x),
                                                                   .labels = TENSOR(labels),
                                                                   .lse = TENSOR(lse),
                                                                   .dloss = TENSOR(one),
                                                                   .dlogits = TENSOR(dx),
                                                                   .attrs = &attrs}));
    EQUAL(dx, want_dx);
    FREE(&x, &labels, &loss, &want, &lse, &want_lse, &dx, &want_dx, &one);
}

static void copies(void **state)
{
    (void)state;
    th_tensor x = filled(TW_F32, 3, D(4, 3, 5), 1);
    th_tensor half = th_make_strided(TW_F16, 3, D(4, 3, 5), D(16, 5, 1));
    th_tensor y = th_make(TW_F32, 3, D(5, 4, 3));
    OK(tw_copy(&(tw_copy_call){.x = TENSOR(x), .y = TENSOR(half)}));
    for (int64_t i = 0; i < 60; i++) {
        uint16_t bits;
        float value = (float)th_get(&x, i);
        float back;
        OK(tw_convert(TW_F16, &bits, TW_F32, &value, 1, 0));
        OK(tw_convert(TW_F32, &back, TW_F16, &bits, 1, 0));
        assert_true((float)th_get(&half, i) == back);
    }
    OK(tw_copy(
        &(tw_copy_call){.x = TENSOR(x), .y = TENSOR(y), .transposed = true, .order = {2, 0, 1}}));
    for (int64_t i = 0; i < 5; i++)
        for (int64_t j = 0; j < 4; j++)
            for (int64_t k = 0; k < 3; k++)
                assert_true(th_get(&y, (i * 4 + j) * 3 + k) == th_get(&x, (j * 3 + k) * 5 + i));
    assert_true(th_guards_intact(&half));
    FREE(&x, &half, &y);
}

static void dropout(void **state)
{
    (void)state;
    th_tensor x = filled(TW_F32, 2, D(9, 11), 1), dx = th_make_like(&x.desc);
    th_tensor y = th_make_like(&x.desc), want = th_make_like(&x.desc);
    th_tensor mask = th_make(TW_BOOL, 2, D(9, 11));
    tw_plan_cache_stats before = {.size = sizeof before}, after = before;
    for (int64_t offset = 0; offset < 3; offset++) {
        tw_dropout_attrs attrs = {.rate = 0.5, .seed = 42, .offset = offset};
        oracle o;
        begin(&o, 2, (th_tensor *[]){&x, &want});
        OK(tw_graph_dropout(o.graph, o.number[0], TW_NONE, TW_NONE, &attrs, &o.number[1], NULL));
        finish(&o, true);
        OK(tw_plan_cache_describe(&before));
        OK(tw_dropout_forward(&(tw_dropout_call){.x = TENSOR(x),
                                                 .seed = 42,
                                                 .offset = offset,
                                                 .y = TENSOR(y),
                                                 .mask = TENSOR(mask),
                                                 .rate = 0.5}));
        EQUAL(y, want);
        OK(tw_plan_cache_describe(&after));
        assert_true(after.misses + after.hits - before.misses - before.hits == (offset == 0));
        OK(tw_dropout_backward(&(tw_dropout_backward_call){
            .dy = TENSOR(x), .mask = TENSOR(mask), .dx = TENSOR(dx), .rate = 0.5}));
        EQUAL(dx, want);
    }
    FREE(&x, &dx, &y, &want, &mask);
}

static void sgd(void **state)
{
    (void)state;
    tw_sgd_attrs attrs = {.momentum = 0.9, .weight_decay = 0.01};
    th_tensor w = filled(TW_F32, 1, D(101), 1), g = filled(TW_F32, 1, D(101), 2);
    th_tensor v = filled(TW_F32, 1, D(101), 3), lr = th_make(TW_F32, 0, NULL);
    th_tensor want_w = th_make_like(&w.desc), want_v = th_make_like(&w.desc);
    for (int step = 1; step <= 3; step++) {
        th_fill_value(&lr, 0.5 / step);
        oracle o;
        begin(&o, 6, (th_tensor *[]){&w, &g, &v, &lr, &want_w, &want_v});
        OK(tw_graph_sgd(o.graph, o.number[0], o.number[1], o.number[2], o.number[3], &attrs,
                        &o.number[4], &o.number[5]));
        finish(&o, true);
        OK(tw_sgd(&(tw_sgd_call){.param = TENSOR(w),
                                 .grad = TENSOR(g),
                                 .velocity = TENSOR(v),
                                 .lr = (float)(0.5 / step),
                                 .attrs = &attrs}));
        EQUAL(w, want_w);
        EQUAL(v, want_v);
    }
    FREE(&w, &g, &v, &lr, &want_w, &want_v);
}

static void adam(void **state)
{
    (void)state;
    tw_adam_attrs attrs = {.weight_decay = 0.01, .decoupled = true};
    th_tensor w = filled(TW_F32, 1, D(101), 1), g = filled(TW_F32, 1, D(101), 2);
    th_tensor m = th_make(TW_F32, 1, D(101)), v = th_make(TW_F32, 1, D(101));
    th_tensor lr = th_make(TW_F32, 0, NULL), at = th_make(TW_I64, 0, NULL);
    th_tensor want_w = th_make_like(&w.desc);
    th_tensor want_m = th_make_like(&w.desc), want_v = th_make_like(&w.desc);
    th_fill_value(&m, 0);
    th_fill_value(&v, 0);
    th_fill_value(&lr, 0.125);
    for (int step = 1; step <= 3; step++) {
        th_fill_value(&at, step);
        oracle o;
        begin(&o, 9, (th_tensor *[]){&w, &g, &m, &v, &lr, &at, &want_w, &want_m, &want_v});
        const tw_tensor *t = o.number;
        OK(tw_graph_adam(o.graph, t[0], t[1], t[2], t[3], t[4], t[5], &attrs, &o.number[6],
                         &o.number[7], &o.number[8]));
        finish(&o, true);
        OK(tw_adam(&(tw_adam_call){.param = TENSOR(w),
                                   .grad = TENSOR(g),
                                   .m = TENSOR(m),
                                   .v = TENSOR(v),
                                   .lr = 0.125f,
                                   .step = step,
                                   .attrs = &attrs}));
        EQUAL(w, want_w);
        EQUAL(m, want_m);
        EQUAL(v, want_v);
    }
    FREE(&w, &g, &m, &v, &lr, &at, &want_w, &want_m, &want_v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(conv_forward),
                                       cmocka_unit_test(conv_without_workspace),
                                       cmocka_unit_test(conv_gradients),
                                       cmocka_unit_test(matmul),
                                       cmocka_unit_test(pool),
                                       cmocka_unit_test(pointwise),
                                       cmocka_unit_test(reduce_and_softmax),
                                       cmocka_unit_test(cross_entropy),
                                       cmocka_unit_test(copies),
                                       cmocka_unit_test(dropout),
                                       cmocka_unit_test(sgd),
                                       cmocka_unit_test(adam)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
