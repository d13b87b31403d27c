/* SPDX-License-Identifier: Apache-2.0 */
/* A training run of the digits network: settings, state, and its parts. */
#ifndef TW_CLI_TRAIN_H
#define TW_CLI_TRAIN_H

#include "network.h"
#include <tilework/train.h>

enum { MAX_BATCH = 65536, MAX_RATE = 10 };

typedef struct train_settings {
    int64_t epochs, batch, seed, threads; /* batch 0, lr < 0, data NULL: not given */
    double lr;
    bool constant; /* the rate does not fall */
    const char *data, *save, *resume, *predict;
    bool json;
} train_settings;

typedef struct train_run {
    train_settings settings;
    network net;
    tw_context *context;
    tw_dataset *dataset;
    tw_images train, test;
    tw_batches *batches;
    network_plan full, rest; /* a training step on a whole batch, and on an epoch's last one */
    network_plan test_full, test_rest;
    int64_t epoch, step,
        total_steps; /* epochs done, batches of this epoch done, all batches done */
    int64_t images;  /* trained in this run */
    double seconds;  /* of that */
    double test_accuracy, test_loss;
    int64_t *step_time; /* nanoseconds of each step of plan `full` */
    float *logits;
    bool stopped;           /* by Ctrl-C */
    char data_name[64];     /* the data that a checkpoint was trained on */
    float picture[28 * 28]; /* to predict */
} train_run;

/* Checkpoints with weights, moments and the place in the data. */
tw_status train_save(const train_run *run, const char *path);
tw_status train_load(train_run *run, const char *path);

/* The closing table. */
void train_report(const train_run *run);

/* Fills weights: Glorot uniform, biases zero. */
tw_status train_initialise(network *net, int64_t seed);

#endif
