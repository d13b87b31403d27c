/* SPDX-License-Identifier: Apache-2.0 */
/* The networks that `tw train` knows: parameters, and graphs over them. */
#ifndef TW_CLI_NETWORK_H
#define TW_CLI_NETWORK_H

#include <tilework/tilework.h>

enum { MAX_PARAMETERS = 16 };

/* A trained tensor, row-major f32, with Adam's moments. */
typedef struct parameter {
    const char *name;
    int32_t rank;
    int64_t dims[4];
    int64_t fan_in, fan_out; /* 0: a bias, which starts at zero */
    int64_t elements;
    float *value, *m, *v;
} parameter;

/* One compiled graph of the network: a training step, or a forward pass. */
typedef struct network_plan {
    tw_plan *plan;
    int64_t batch;
    bool training;
    void *workspace;
    int64_t workspace_bytes;
    tw_tensor x, labels, lr, step, loss, logits;
    tw_tensor value[MAX_PARAMETERS], m[MAX_PARAMETERS], v[MAX_PARAMETERS];
} network_plan;

/* The convolutional network: conv 32 3×3 relu, max-pool 2×2, conv 64 3×3 relu, max-pool 2×2,
 * conv 64 3×3 relu, dense 64 relu, dense 10; softmax cross-entropy; Adam. */
typedef struct network {
    int32_t n_parameters;
    parameter parameters[MAX_PARAMETERS];
} network;

tw_status cnn_create(network *net); /* allocates; all zeros */
void network_free(network *net);
int64_t network_elements(const network *net);

/* A training step on `batch` images, or the forward pass that gives logits. */
tw_status cnn_plan(const network *net, int64_t batch, bool training, network_plan *result);
void network_plan_free(network_plan *plan);

/* What a training step reads and gives. */
typedef struct train_batch {
    const float *x;        /* [batch, 1, 28, 28] in 0 … 1 */
    const int64_t *labels; /* [batch] */
    float lr;
    int64_t step;         /* from 1 */
    int64_t *nanoseconds; /* gathers the time of each step of the plan, or NULL */
    float loss;           /* out: the batch's mean */
    float *logits;        /* out: [batch, 10] */
} train_batch;

/* All parameters move. */
tw_status cnn_train_step(network *net, const network_plan *plan, tw_context *context,
                         train_batch *batch);
/* x: [batch, 1, 28, 28] to logits [batch, 10]. */
tw_status cnn_forward(const network *net, const network_plan *plan, tw_context *context,
                      const float *x, float *logits);

#endif
