/* SPDX-License-Identifier: Apache-2.0 */
/* A small network with every kind of call: convolution, pool, product, loss, gradients, Adam. */
#ifndef TW_TESTS_SMALL_NETWORK_H
#define TW_TESTS_SMALL_NETWORK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <tilework/tilework.h>

#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != TW_OK) fail_msg("%s: %s", #expression, tw_last_error());               \
    } while (0)

#define TRY(expression)                                                                            \
    do {                                                                                           \
        tw_status try_status = (expression);                                                       \
        if (try_status != TW_OK) return try_status;                                                \
    } while (0)

enum { BATCH = 4, PARAMETERS = 4 };

typedef struct training {
    tw_graph *graph;
    tw_tensor w[PARAMETERS], loss, grad[PARAMETERS];
} training;

static inline tw_status input(tw_graph *g, tw_dtype dtype, int32_t rank, const int64_t *dims,
                              tw_tensor *t)
{
    tw_tensor_desc desc = tw_desc(dtype, rank, dims);
    desc.name = "some input";
    return tw_graph_tensor(g, &desc, t);
}

static inline tw_status forward(training *t)
{
    tw_graph *g = t->graph;
    tw_tensor x, labels, y[6] = {TW_NONE}, flat = TW_NONE;
    const tw_pool_attrs halve = {.window = {2, 2}, .stride = {2, 2}};
    TRY(input(g, TW_F32, 4, (int64_t[]){BATCH, 1, 8, 8}, &x));
    TRY(input(g, TW_I64, 1, (int64_t[]){BATCH}, &labels));
    TRY(input(g, TW_F32, 4, (int64_t[]){6, 1, 3, 3}, &t->w[0]));
    TRY(input(g, TW_F32, 4, (int64_t[]){1, 6, 1, 1}, &t->w[1]));
    TRY(input(g, TW_F32, 2, (int64_t[]){54, 5}, &t->w[2]));
    TRY(input(g, TW_F32, 2, (int64_t[]){1, 5}, &t->w[3]));
    TRY(tw_graph_conv(g, x, t->w[0], NULL, &y[0]));
    TRY(tw_graph_binary(g, TW_PW_ADD, y[0], t->w[1], &y[1]));
    TRY(tw_graph_unary(g, TW_PW_RELU, y[1], &y[2]));
    TRY(tw_graph_pool(g, y[2], &halve, &y[3], NULL));
    TRY(tw_graph_reshape(g, y[3], 2, (int64_t[]){BATCH, 54}, &flat));
    TRY(tw_graph_matmul(g, flat, t->w[2], NULL, &y[4]));
    TRY(tw_graph_binary(g, TW_PW_ADD, y[4], t->w[3], &y[5]));
    t->loss = TW_NONE;
    return tw_graph_cross_entropy(g, y[5], labels, NULL, &t->loss, NULL);
}

static inline tw_status updates(training *t)
{
    tw_graph *g = t->graph;
    tw_tensor lr, step;
    TRY(input(g, TW_F32, 0, NULL, &lr));
    TRY(input(g, TW_I64, 0, NULL, &step));
    TRY(tw_graph_output(g, t->loss, NULL));
    for (int i = 0; i < PARAMETERS; i++) {
        tw_tensor_desc desc;
        tw_tensor m, v, new_w = TW_NONE, new_m = TW_NONE, new_v = TW_NONE;
        TRY(tw_graph_describe(g, t->w[i], &desc));
        TRY(input(g, TW_F32, desc.rank, desc.dims, &m));
        TRY(input(g, TW_F32, desc.rank, desc.dims, &v));
        TRY(tw_graph_adam(g, t->w[i], t->grad[i], m, v, lr, step, NULL, &new_w, &new_m, &new_v));
        TRY(tw_graph_donate(g, new_w, t->w[i]));
        TRY(tw_graph_donate(g, new_m, m));
        TRY(tw_graph_donate(g, new_v, v));
    }
    return TW_OK;
}

static inline tw_status backward(training *t)
{
    return tw_graph_backward(t->graph, 1, &t->loss, PARAMETERS, t->w, NULL, t->grad, NULL);
}

static inline tw_status build(training *t)
{
    TRY(tw_graph_create(&t->graph));
    TRY(forward(t));
    TRY(backward(t));
    return updates(t);
}

/* Memory for everything that a plan binds, filled with small numbers that differ. */
static inline void bind_all(const training *t, const tw_plan *plan, tw_binding *bindings)
{
    for (int32_t i = 0; i < tw_plan_binding_count(plan); i++) {
        tw_tensor_desc desc;
        int64_t uid = tw_plan_binding_uid(plan, i);
        OK(tw_graph_describe(t->graph, (tw_tensor)uid, &desc));
        bindings[i] = (tw_binding){uid, calloc(1, (size_t)tw_desc_bytes(&desc) + 1)};
        float *values = bindings[i].data;
        int64_t n = desc.dtype == TW_F32 ? tw_desc_elements(&desc) : 0;
        for (int64_t k = 0; k < n; k++) values[k] = (float)((k * 7 + uid * 3) % 13 + 1) / 64;
        if (desc.rank == 0 && desc.dtype == TW_I64) *(int64_t *)bindings[i].data = 1; /* step */
    }
}

static inline void unbind_all(tw_binding *bindings, int32_t n)
{
    for (int32_t i = 0; i < n; i++) free(bindings[i].data);
}

#endif
