/* SPDX-License-Identifier: Apache-2.0 */
/* Initial weights and checkpoints of a training run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "train.h"

static tw_array array_of(const parameter *p, float *data)
{
    tw_array array = {.size = sizeof array,
                      .dtype = TW_F32,
                      .rank = p->rank,
                      .data = data,
                      .bytes = p->elements * (int64_t)sizeof(float)};
    memcpy(array.dims, p->dims, sizeof p->dims);
    return array;
}

tw_status train_initialise(network *net, int64_t seed)
{
    for (int32_t i = 0; i < net->n_parameters; i++) {
        parameter *p = &net->parameters[i];
        tw_init init = {.size = sizeof init, .seed = seed, .stream = i};
        if (p->fan_in > 0) init.kind = TW_INIT_GLOROT_UNIFORM;
        init.transposed = p->rank == 2;
        tw_array array = array_of(p, p->value);
        TW_TRY(tw_init_fill(&init, &array));
    }
    return TW_OK;
}

typedef struct tables {
    tw_named_array weights[MAX_PARAMETERS], state[2 * MAX_PARAMETERS];
    char names[2 * MAX_PARAMETERS][64];
    char lr[32], batch[32];
    tw_metadata params[3];
} tables;

static tw_checkpoint describe(const train_run *run, tables *t)
{
    const network *net = &run->net;
    for (int32_t i = 0; i < net->n_parameters; i++) {
        const parameter *p = &net->parameters[i];
        t->weights[i] = (tw_named_array){p->name, array_of(p, p->value)};
        snprintf(t->names[2 * i], sizeof t->names[0], "%s.m", p->name);
        snprintf(t->names[2 * i + 1], sizeof t->names[0], "%s.v", p->name);
        t->state[2 * i] = (tw_named_array){t->names[2 * i], array_of(p, p->m)};
        t->state[2 * i + 1] = (tw_named_array){t->names[2 * i + 1], array_of(p, p->v)};
    }
    snprintf(t->lr, sizeof t->lr, "%.17g", run->settings.lr);
    snprintf(t->batch, sizeof t->batch, "%lld", (long long)run->settings.batch);
    t->params[0] = (tw_metadata){"lr", t->lr};
    t->params[1] = (tw_metadata){"batch", t->batch};
    t->params[2] = (tw_metadata){"data", run->settings.data};
    return (tw_checkpoint){.size = sizeof(tw_checkpoint),
                           .network = "cnn",
                           .n_weights = net->n_parameters,
                           .weights = t->weights,
                           .n_state = 2 * net->n_parameters,
                           .state = t->state,
                           .n_params = 3,
                           .params = t->params,
                           .step = run->step,
                           .epoch = run->epoch,
                           .seed = run->settings.seed,
                           .rng_offset = run->total_steps};
}

tw_status train_save(const train_run *run, const char *path)
{
    tables t;
    tw_checkpoint checkpoint = describe(run, &t);
    return tw_checkpoint_save(path, &checkpoint);
}

/* What the command line leaves open is as the checkpoint has it. Inside an epoch the place in the
 * data means something for the same data and batches alone. */
static tw_status take_params(train_run *run, const tw_tensors *file, const char *path)
{
    train_settings *s = &run->settings;
    const char *lr = tw_tensors_metadata(file, "param.lr");
    const char *batch = tw_tensors_metadata(file, "param.batch");
    const char *data = tw_tensors_metadata(file, "param.data");
    if (batch) {
        long long n = strtoll(batch, NULL, 10);
        TW_REQUIRE(n >= 1 && n <= MAX_BATCH, TW_BAD_FILE,
                   "%s: param.batch is '%.32s'; it must be 1 to %d", path, batch, MAX_BATCH);
        TW_REQUIRE(!s->batch || s->batch == n || !run->step, TW_INVALID_ARGUMENT,
                   "--batch %lld: %s stopped inside an epoch of batches of %lld; resume with these",
                   (long long)s->batch, path, n);
        if (!s->batch) s->batch = n;
    }
    if (data) {
        TW_REQUIRE(!s->data || strcmp(s->data, data) == 0 || !run->step, TW_INVALID_ARGUMENT,
                   "--data %s: %s stopped inside an epoch of %.32s; resume with these", s->data,
                   path, data);
        snprintf(run->data_name, sizeof run->data_name, "%s", data);
        if (!s->data) s->data = run->data_name;
    }
    if (lr && s->lr < 0) s->lr = strtod(lr, NULL);
    TW_REQUIRE(s->lr <= MAX_RATE, TW_BAD_FILE, "%s: param.lr is '%.32s'; it must be 0 to %d", path,
               lr ? lr : "", MAX_RATE);
    return TW_OK;
}

tw_status train_load(train_run *run, const char *path)
{
    tables t;
    tw_tensors *file;
    tw_checkpoint checkpoint = describe(run, &t);
    TW_TRY(tw_checkpoint_load(path, 0, &checkpoint));
    run->settings.seed = checkpoint.seed;
    run->epoch = checkpoint.epoch;
    run->step = checkpoint.step;
    run->total_steps = checkpoint.rng_offset;
    TW_TRY(tw_tensors_read(path, 0, &file));
    tw_status status = take_params(run, file, path);
    tw_tensors_free(file);
    return status;
}
