/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolutional network that learns handwritten digits, from nothing but the public headers.
 * Forward, loss, gradients and Adam are one graph and one plan.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tilework/tilework.h>
#include <tilework/train.h>

enum { BATCH = 64, EPOCHS = 5, PARAMETERS = 10 };
/* Weights as [out, in, kernel] or [in, out], and one bias for each channel. */
static const int64_t shapes[PARAMETERS][4] = {
    {32, 1, 3, 3}, {1, 32, 1, 1}, {64, 32, 3, 3}, {1, 64, 1, 1}, {64, 64, 3, 3},
    {1, 64, 1, 1}, {576, 64},     {1, 64},        {64, 10},      {1, 10}};
static const int32_t ranks[PARAMETERS] = {4, 4, 4, 4, 4, 4, 2, 2, 2, 2};
static float *value[PARAMETERS], *moment1[PARAMETERS], *moment2[PARAMETERS];
/* What a step binds: tensors of the graph. */
static tw_tensor images, labels, lr, step, loss, w[PARAMETERS], m[PARAMETERS], v[PARAMETERS];

static void check(tw_status status)
{
    if (status == TW_OK) return;
    fprintf(stderr, "%s\n", tw_last_error());
    exit(1);
}

static tw_tensor input(tw_graph *g, tw_dtype dtype, int32_t rank, const int64_t *dims)
{
    tw_tensor_desc desc = tw_desc(dtype, rank, dims);
    tw_tensor t;
    check(tw_graph_tensor(g, &desc, &t));
    return t;
}

static tw_tensor bias_relu(tw_graph *g, tw_tensor x, tw_tensor bias)
{
    tw_tensor sum = TW_NONE, y = TW_NONE;
    check(tw_graph_binary(g, TW_PW_ADD, x, bias, &sum));
    check(tw_graph_unary(g, TW_PW_RELU, sum, &y));
    return y;
}

static tw_tensor conv(tw_graph *g, tw_tensor x, int weight)
{
    tw_tensor y = TW_NONE;
    check(tw_graph_conv(g, x, w[weight], NULL, &y));
    return bias_relu(g, y, w[weight + 1]);
}

static tw_tensor halve(tw_graph *g, tw_tensor x)
{
    tw_tensor y = TW_NONE;
    check(tw_graph_pool(g, x, &(tw_pool_attrs){.window = {2, 2}, .stride = {2, 2}}, &y, NULL));
    return y;
}

static tw_tensor matmul(tw_graph *g, tw_tensor x, int weight)
{
    tw_tensor y = TW_NONE;
    check(tw_graph_matmul(g, x, w[weight], NULL, &y));
    return y;
}

static tw_tensor network(tw_graph *g, tw_tensor x)
{
    tw_tensor flat = TW_NONE, logits = TW_NONE;
    x = conv(g, halve(g, conv(g, halve(g, conv(g, x, 0)), 2)), 4);
    check(tw_graph_reshape(g, x, 2, (int64_t[]){BATCH, 576}, &flat));
    x = bias_relu(g, matmul(g, flat, 6), w[7]);
    check(tw_graph_binary(g, TW_PW_ADD, matmul(g, x, 8), w[9], &logits));
    return logits;
}

static void training_step(tw_graph *g)
{
    tw_tensor grad[PARAMETERS];
    images = input(g, TW_F32, 4, (int64_t[]){BATCH, 1, 28, 28});
    labels = input(g, TW_I64, 1, (int64_t[]){BATCH});
    lr = input(g, TW_F32, 0, NULL), step = input(g, TW_I64, 0, NULL);
    for (int i = 0; i < PARAMETERS; i++) w[i] = input(g, TW_F32, ranks[i], shapes[i]);
    check(tw_graph_cross_entropy(g, network(g, images), labels, NULL, &loss, NULL));
    check(tw_graph_output(g, loss, NULL));
    check(tw_graph_backward(g, 1, &loss, PARAMETERS, w, NULL, grad, NULL));
    for (int i = 0; i < PARAMETERS; i++) {
        tw_tensor new_w = TW_NONE, new_m = TW_NONE, new_v = TW_NONE;
        m[i] = input(g, TW_F32, ranks[i], shapes[i]);
        v[i] = input(g, TW_F32, ranks[i], shapes[i]);
        check(tw_graph_adam(g, w[i], grad[i], m[i], v[i], lr, step, NULL, &new_w, &new_m, &new_v));
        check(tw_graph_donate(g, new_w, w[i])); /* new values take over the old ones' memory */
        check(tw_graph_donate(g, new_m, m[i]));
        check(tw_graph_donate(g, new_v, v[i]));
    }
}

static void initialise(void)
{
    for (int i = 0; i < PARAMETERS; i++) {
        tw_array array = {.dtype = TW_F32, .rank = ranks[i], .bytes = sizeof(float)};
        for (int32_t d = 0; d < array.rank; d++) array.bytes *= array.dims[d] = shapes[i][d];
        array.data = value[i] = calloc(1, (size_t)array.bytes);
        moment1[i] = calloc(1, (size_t)array.bytes);
        moment2[i] = calloc(1, (size_t)array.bytes);
        tw_init init = {.kind = TW_INIT_GLOROT_UNIFORM, .transposed = array.rank == 2, .stream = i};
        if (i % 2 == 0) check(tw_init_fill(&init, &array)); /* biases stay zero */
    }
}

int main(void)
{
    tw_dataset *digits;
    tw_images train;
    tw_batches *batches;
    tw_context *context;
    tw_graph *graph;
    tw_plan *plan;
    check(tw_graph_create(&graph));
    training_step(graph);
    check(tw_plan_create(graph, NULL, &plan));
    check(tw_context_create(NULL, &context)); /* threads */
    check(tw_digits_embedded(&digits));
    check(tw_dataset_images(digits, TW_SPLIT_TRAIN, &train));
    tw_batches_options order = {.batch = BATCH, .shuffle = true, .drop_last = true};
    check(tw_batches_create(&train, &order, &batches));
    int64_t bytes = tw_plan_workspace(plan), count = 1;
    void *workspace = tw_malloc((size_t)bytes);
    initialise();
    for (float rate = 1e-3f, now, sum = 0; count <= EPOCHS * tw_batches_steps(batches); count++) {
        tw_batch batch;
        check(tw_batches_next(batches, &batch));
        tw_binding b[5 + 3 * PARAMETERS] = {{images, (void *)batch.pixels},
                                            {labels, (void *)batch.labels},
                                            {lr, &rate},
                                            {step, &count},
                                            {loss, &now}};
        for (int i = 0; i < PARAMETERS; i++) {
            b[5 + 3 * i] = (tw_binding){w[i], value[i]};
            b[6 + 3 * i] = (tw_binding){m[i], moment1[i]};
            b[7 + 3 * i] = (tw_binding){v[i], moment2[i]};
        }
        check(tw_run(plan, context, 5 + 3 * PARAMETERS, b, workspace, bytes));
        sum += now;
        if (!batch.last) continue;
        printf("loss %.4f\n", (double)sum / (double)(batch.step + 1));
        sum = 0;
    }
    return 0;
}
