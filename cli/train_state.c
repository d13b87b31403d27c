/* SPDX-License-Identifier: Apache-2.0 */
/* Initial weights and checkpoints of a training run. */
#include <stdio.h>
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
    tw_metadata params[2];
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
    return (tw_checkpoint){.size = sizeof(tw_checkpoint),
                           .network = "cnn",
                           .n_weights = net->n_parameters,
                           .weights = t->weights,
                           .n_state = 2 * net->n_parameters,
                           .state = t->state,
                           .n_params = 2,
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

tw_status train_load(train_run *run, const char *path)
{
    tables t;
    tw_checkpoint checkpoint = describe(run, &t);
    TW_TRY(tw_checkpoint_load(path, 0, &checkpoint));
    run->settings.seed = checkpoint.seed;
    run->epoch = checkpoint.epoch;
    run->step = checkpoint.step;
    run->total_steps = checkpoint.rng_offset;
    return TW_OK;
}
