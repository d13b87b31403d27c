/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolutional network that learns handwritten digits, from nothing but the public headers.
 *
 *     cc cnn.c $(pkg-config --cflags --libs tilework) -ltilework_io -lm -o cnn && ./cnn
 *
 * Forward, loss, gradients and Adam are one graph and one plan.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tilework/tilework.h>
#include <tilework/train.h>

enum { BATCH = 64, EPOCHS = 5, PARAMETERS = 10 };

static void check(tw_status status)
{
    if (status != TW_OK) fprintf(stderr, "%s\n", tw_last_error());
    if (status != TW_OK) exit(1);
}

/* Weights as [out, in, kernel] or [in, out], and one bias for each channel. */
static const int64_t shapes[PARAMETERS][4] = {
    {32, 1, 3, 3}, {1, 32, 1, 1}, {64, 32, 3, 3}, {1, 64, 1, 1}, {64, 64, 3, 3},
    {1, 64, 1, 1}, {576, 64},     {1, 64},        {64, 10},      {1, 10}};
static const int32_t ranks[PARAMETERS] = {4, 4, 4, 4, 4, 4, 2, 2, 2, 2};
static float *value[PARAMETERS], *moment1[PARAMETERS], *moment2[PARAMETERS];

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

static tw_tensor conv(tw_graph *g, tw_tensor x, const tw_tensor *weight_bias)
{
    tw_tensor y = TW_NONE;
    check(tw_graph_conv(g, x, weight_bias[0], NULL, &y));
    return bias_relu(g, y, weight_bias[1]);
}

static tw_tensor halve(tw_graph *g, tw_tensor x)
{
    const tw_pool_attrs max_2x2 = {.window = {2, 2}, .stride = {2, 2}};
    tw_tensor y = TW_NONE;
    check(tw_graph_pool(g, x, &max_2x2, &y, NULL));
    return y;
}

static tw_tensor matmul(tw_graph *g, tw_tensor x, tw_tensor w)
{
    tw_tensor y = TW_NONE;
    check(tw_graph_matmul(g, x, w, NULL, &y));
    return y;
}

static tw_tensor logits_of(tw_graph *g, tw_tensor x, const tw_tensor *w)
{
    tw_tensor flat = TW_NONE, logits = TW_NONE;
    x = conv(g, halve(g, conv(g, halve(g, conv(g, x, w)), w + 2)), w + 4);
    check(tw_graph_reshape(g, x, 2, (int64_t[]){BATCH, 576}, &flat));
    x = bias_relu(g, matmul(g, flat, w[6]), w[7]);
    check(tw_graph_binary(g, TW_PW_ADD, matmul(g, x, w[8]), w[9], &logits));
    return logits;
}

int main(void)
{
    tw_graph *g;
    tw_tensor w[PARAMETERS], grad[PARAMETERS], m[PARAMETERS], v[PARAMETERS], loss = TW_NONE;
    check(tw_graph_create(&g));
    tw_tensor x = input(g, TW_F32, 4, (int64_t[]){BATCH, 1, 28, 28});
    tw_tensor labels = input(g, TW_I64, 1, (int64_t[]){BATCH});
    tw_tensor lr = input(g, TW_F32, 0, NULL), step = input(g, TW_I64, 0, NULL);
    for (int i = 0; i < PARAMETERS; i++) w[i] = input(g, TW_F32, ranks[i], shapes[i]);
    tw_tensor logits = logits_of(g, x, w);
    check(tw_graph_cross_entropy(g, logits, labels, NULL, &loss, NULL));
    check(tw_graph_output(g, logits, NULL));
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
    tw_plan *plan;
    check(tw_plan_create(g, NULL, &plan));
    for (int i = 0; i < PARAMETERS; i++) {
        tw_array array = {.dtype = TW_F32, .rank = ranks[i], .bytes = sizeof(float)};
        for (int32_t d = 0; d < array.rank; d++) array.bytes *= array.dims[d] = shapes[i][d];
        array.data = value[i] = calloc(1, (size_t)array.bytes);
        moment1[i] = calloc(1, (size_t)array.bytes);
        moment2[i] = calloc(1, (size_t)array.bytes);
        tw_init glorot = {
            .kind = TW_INIT_GLOROT_UNIFORM, .transposed = array.rank == 2, .stream = i};
        if (i % 2 == 0) check(tw_init_fill(&glorot, &array)); /* biases stay zero */
    }

    tw_dataset *digits;
    tw_images images;
    tw_batches *batches;
    tw_context *context;
    check(tw_context_create(NULL, &context)); /* threads */
    check(tw_digits_embedded(&digits));
    check(tw_dataset_images(digits, TW_SPLIT_TRAIN, &images));
    tw_batches_options order = {.batch = BATCH, .shuffle = true, .drop_last = true, .seed = 1};
    check(tw_batches_create(&images, &order, &batches));
    int64_t workspace_bytes = tw_plan_workspace(plan), count = 0;
    void *workspace = tw_malloc((size_t)workspace_bytes);
    float rate = 1e-3f, loss_value, scores[BATCH * 10];
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        tw_metrics metrics = {0};
        for (int64_t i = 0; i < tw_batches_steps(batches); i++) {
            tw_batch batch;
            check(tw_batches_next(batches, &batch));
            count++;
            tw_binding bound[6 + 3 * PARAMETERS] = {{x, (void *)batch.pixels},
                                                    {labels, (void *)batch.labels},
                                                    {lr, &rate},
                                                    {step, &count},
                                                    {logits, scores},
                                                    {loss, &loss_value}};
            for (int k = 0; k < PARAMETERS; k++) {
                bound[6 + 3 * k] = (tw_binding){w[k], value[k]};
                bound[7 + 3 * k] = (tw_binding){m[k], moment1[k]};
                bound[8 + 3 * k] = (tw_binding){v[k], moment2[k]};
            }
            check(tw_run(plan, context, 6 + 3 * PARAMETERS, bound, workspace, workspace_bytes));
            check(tw_metrics_add(&metrics, (double)loss_value, BATCH, 10, scores, batch.labels));
        }
        printf("epoch %d: %.2f %% right\n", epoch + 1, 100 * tw_metrics_accuracy(&metrics));
    }
    return 0;
}
