/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/error.h"
#include "network.h"

static const parameter layout[] = {
    {.name = "conv1.weight", .rank = 4, .dims = {32, 1, 3, 3}, .fan_in = 9, .fan_out = 288},
    {.name = "conv1.bias", .rank = 1, .dims = {32}},
    {.name = "conv2.weight", .rank = 4, .dims = {64, 32, 3, 3}, .fan_in = 288, .fan_out = 576},
    {.name = "conv2.bias", .rank = 1, .dims = {64}},
    {.name = "conv3.weight", .rank = 4, .dims = {64, 64, 3, 3}, .fan_in = 576, .fan_out = 576},
    {.name = "conv3.bias", .rank = 1, .dims = {64}},
    {.name = "dense1.weight", .rank = 2, .dims = {576, 64}, .fan_in = 576, .fan_out = 64},
    {.name = "dense1.bias", .rank = 1, .dims = {64}},
    {.name = "dense2.weight", .rank = 2, .dims = {64, 10}, .fan_in = 64, .fan_out = 10},
    {.name = "dense2.bias", .rank = 1, .dims = {10}},
};

tw_status cnn_create(network *net)
{
    memset(net, 0, sizeof *net);
    for (size_t i = 0; i < sizeof layout / sizeof layout[0]; i++) {
        parameter *p = &net->parameters[net->n_parameters++];
        *p = layout[i];
        p->elements = 1;
        for (int32_t d = 0; d < p->rank; d++) p->elements *= p->dims[d];
        size_t bytes = (size_t)p->elements * sizeof(float);
        p->value = tw_malloc(bytes);
        p->m = tw_malloc(bytes);
        p->v = tw_malloc(bytes);
        if (!p->value || !p->m || !p->v) {
            network_free(net);
            return tw_fail(TW_OUT_OF_MEMORY, "no memory for the parameter %s", layout[i].name);
        }
        memset(p->value, 0, bytes);
        memset(p->m, 0, bytes);
        memset(p->v, 0, bytes);
    }
    return TW_OK;
}

void network_free(network *net)
{
    for (int32_t i = 0; i < net->n_parameters; i++) {
        tw_free(net->parameters[i].value);
        tw_free(net->parameters[i].m);
        tw_free(net->parameters[i].v);
    }
    memset(net, 0, sizeof *net);
}

int64_t network_elements(const network *net)
{
    int64_t n = 0;
    for (int32_t i = 0; i < net->n_parameters; i++) n += net->parameters[i].elements;
    return n;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static tw_status input(tw_graph *g, tw_dtype dtype, int32_t rank, const int64_t *dims,
                       const char *name, tw_tensor *t)
{
    tw_tensor_desc desc = tw_desc(dtype, rank, dims);
    desc.name = name;
    return tw_graph_tensor(g, &desc, t);
}

/* x + bias, and relu; the bias stands along dim 1. */
static tw_status add_bias(tw_graph *g, tw_tensor x, tw_tensor bias, tw_tensor *y)
{
    tw_tensor_desc desc, image;
    tw_tensor wide = TW_NONE;
    TW_TRY(tw_graph_describe(g, x, &image));
    TW_TRY(tw_graph_describe(g, bias, &desc));
    int64_t dims[4] = {1, desc.dims[0], 1, 1};
    TW_TRY(tw_graph_reshape(g, bias, image.rank, dims, &wide));
    *y = TW_NONE;
    return tw_graph_binary(g, TW_PW_ADD, x, wide, y);
}

static tw_status relu(tw_graph *g, tw_tensor x, const char *name, tw_tensor *y)
{
    *y = TW_NONE;
    TW_TRY(tw_graph_unary(g, TW_PW_RELU, x, y));
    return tw_graph_set_name(g, *y, name);
}

static tw_status conv_block(tw_graph *g, tw_tensor x, const tw_tensor *weight_bias,
                            const char *name, tw_tensor *y)
{
    tw_tensor product = TW_NONE, sum;
    TW_TRY(tw_graph_conv(g, x, weight_bias[0], NULL, &product));
    TW_TRY(add_bias(g, product, weight_bias[1], &sum));
    return relu(g, sum, name, y);
}

static tw_status dense(tw_graph *g, tw_tensor x, const tw_tensor *weight_bias, tw_tensor *y)
{
    tw_tensor product = TW_NONE;
    TW_TRY(tw_graph_matmul(g, x, weight_bias[0], NULL, &product));
    return add_bias(g, product, weight_bias[1], y);
}

static tw_status pool_block(tw_graph *g, tw_tensor x, const char *name, tw_tensor *y)
{
    const tw_pool_attrs halve = {.mode = TW_POOL_MAX, .window = {2, 2}, .stride = {2, 2}};
    *y = TW_NONE;
    TW_TRY(tw_graph_pool(g, x, &halve, y, NULL));
    return tw_graph_set_name(g, *y, name);
}

static tw_status forward(tw_graph *g, const tw_tensor *w, tw_tensor x, tw_tensor *logits)
{
    tw_tensor conv1, pool1, conv2, pool2, conv3, flat = TW_NONE, sum, dense1;
    tw_tensor_desc desc;
    TW_TRY(conv_block(g, x, w, "conv1", &conv1));
    TW_TRY(pool_block(g, conv1, "pool1", &pool1));
    TW_TRY(conv_block(g, pool1, w + 2, "conv2", &conv2));
    TW_TRY(pool_block(g, conv2, "pool2", &pool2));
    TW_TRY(conv_block(g, pool2, w + 4, "conv3", &conv3));
    TW_TRY(tw_graph_describe(g, conv3, &desc));
    TW_TRY(tw_graph_reshape(g, conv3, 2, (int64_t[]){desc.dims[0], 576}, &flat));
    TW_TRY(dense(g, flat, w + 6, &sum));
    TW_TRY(relu(g, sum, "dense1", &dense1));
    TW_TRY(dense(g, dense1, w + 8, logits));
    return tw_graph_set_name(g, *logits, "logits");
}

/* Loss, gradients and Adam; each new value takes over the memory of the old one. */
static tw_status training_step(tw_graph *g, const network *net, network_plan *p)
{
    tw_tensor grads[MAX_PARAMETERS];
    TW_TRY(input(g, TW_I64, 1, &p->batch, "labels", &p->labels));
    TW_TRY(input(g, TW_F32, 0, NULL, "lr", &p->lr));
    TW_TRY(input(g, TW_I64, 0, NULL, "step", &p->step));
    TW_TRY(tw_graph_cross_entropy(g, p->logits, p->labels, NULL, &p->loss, NULL));
    TW_TRY(tw_graph_output(g, p->loss, NULL));
    TW_TRY(tw_graph_backward(g, 1, &p->loss, net->n_parameters, p->value, NULL, grads, NULL));
    for (int32_t i = 0; i < net->n_parameters; i++) {
        const parameter *q = &net->parameters[i];
        tw_tensor value = TW_NONE, m = TW_NONE, v = TW_NONE;
        TW_TRY(input(g, TW_F32, q->rank, q->dims, NULL, &p->m[i]));
        TW_TRY(input(g, TW_F32, q->rank, q->dims, NULL, &p->v[i]));
        TW_TRY(tw_graph_adam(g, p->value[i], grads[i], p->m[i], p->v[i], p->lr, p->step, NULL,
                             &value, &m, &v));
        TW_TRY(tw_graph_set_name(g, value, "adam"));
        TW_TRY(tw_graph_donate(g, value, p->value[i]));
        TW_TRY(tw_graph_donate(g, m, p->m[i]));
        TW_TRY(tw_graph_donate(g, v, p->v[i]));
    }
    return TW_OK;
}

static tw_status build(tw_graph *g, const network *net, network_plan *p)
{
    TW_TRY(input(g, TW_F32, 4, (int64_t[]){p->batch, 1, 28, 28}, "images", &p->x));
    for (int32_t i = 0; i < net->n_parameters; i++) {
        const parameter *q = &net->parameters[i];
        TW_TRY(input(g, TW_F32, q->rank, q->dims, q->name, &p->value[i]));
    }
    p->logits = TW_NONE;
    TW_TRY(forward(g, p->value, p->x, &p->logits));
    TW_TRY(tw_graph_output(g, p->logits, NULL));
    return p->training ? training_step(g, net, p) : TW_OK;
}

tw_status cnn_plan(const network *net, int64_t batch, bool training, network_plan *result)
{
    *result = (network_plan){.batch = batch, .training = training};
    tw_graph *g;
    TW_TRY(tw_graph_create(&g));
    tw_status status = build(g, net, result);
    if (status == TW_OK) status = tw_plan_create(g, NULL, &result->plan);
    tw_graph_free(g);
    TW_TRY(status);
    result->workspace_bytes = tw_plan_workspace(result->plan);
    result->workspace = tw_malloc((size_t)result->workspace_bytes);
    if (result->workspace) return TW_OK;
    network_plan_free(result);
    return tw_fail(TW_OUT_OF_MEMORY, "no memory for the network's workspace");
}

void network_plan_free(network_plan *plan)
{
    tw_plan_free(plan->plan);
    tw_free(plan->workspace);
    *plan = (network_plan){0};
}

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct bindings {
    tw_binding list[3 * MAX_PARAMETERS + 8];
    int32_t n;
} bindings;

static void bind(bindings *b, tw_tensor t, const void *data)
{
    union {
        const void *given;
        void *kept;
    } pointer = {.given = data};
    b->list[b->n++] = (tw_binding){t, pointer.kept};
}

tw_status cnn_train_step(network *net, const network_plan *p, tw_context *context,
                         train_batch *batch)
{
    bindings b = {.n = 0};
    bind(&b, p->x, batch->x);
    for (int32_t i = 0; i < net->n_parameters; i++) bind(&b, p->value[i], net->parameters[i].value);
    bind(&b, p->logits, batch->logits);
    bind(&b, p->labels, batch->labels);
    bind(&b, p->lr, &batch->lr);
    bind(&b, p->step, &batch->step);
    bind(&b, p->loss, &batch->loss);
    for (int32_t i = 0; i < net->n_parameters; i++) {
        bind(&b, p->m[i], net->parameters[i].m);
        bind(&b, p->v[i], net->parameters[i].v);
    }
    if (batch->nanoseconds)
        return tw_run_timed(p->plan, context, b.n, b.list, p->workspace, p->workspace_bytes,
                            batch->nanoseconds);
    return tw_run(p->plan, context, b.n, b.list, p->workspace, p->workspace_bytes);
}

tw_status cnn_forward(const network *net, const network_plan *p, tw_context *context,
                      const float *x, float *logits)
{
    bindings b = {.n = 0};
    bind(&b, p->x, x);
    for (int32_t i = 0; i < net->n_parameters; i++) bind(&b, p->value[i], net->parameters[i].value);
    bind(&b, p->logits, logits);
    return tw_run(p->plan, context, b.n, b.list, p->workspace, p->workspace_bytes);
}
