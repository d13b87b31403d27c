/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a training loop needs beside the graph: initial values, batches, running figures and
 * checkpoints. Part of libtilework_io.
 *
 * Everything is a function of its seeds: the same on every machine and with any number of threads.
 */
#ifndef TILEWORK_TRAIN_H
#define TILEWORK_TRAIN_H

#include <tilework/data.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Initial values -------------------------------------------------------------------------- */

typedef enum tw_init_kind {
    TW_INIT_CONSTANT = 0,       /* value */
    TW_INIT_UNIFORM = 1,        /* [-value, value) */
    TW_INIT_NORMAL = 2,         /* mean 0, standard deviation value */
    TW_INIT_GLOROT_UNIFORM = 3, /* [-b, b), b = gain·sqrt(6 / (fan_in + fan_out)) */
    TW_INIT_GLOROT_NORMAL = 4,  /* standard deviation gain·sqrt(2 / (fan_in + fan_out)) */
    TW_INIT_HE_UNIFORM = 5,     /* [-b, b), b = gain·sqrt(6 / fan_in) */
    TW_INIT_HE_NORMAL = 6       /* standard deviation gain·sqrt(2 / fan_in) */
} tw_init_kind;

typedef struct tw_init {
    size_t size;
    tw_init_kind kind;
    double value;
    double gain;     /* Glorot and He; 0 means 1 */
    bool transposed; /* weights are [in, out, …], as matmul's second operand and ConvTranspose have
                        them, rather than [out, in, …], as conv has them */
    int64_t seed;
    int64_t stream; /* the number of the random stream: another one for each tensor */
} tw_init;

/* Fills array->data (array->bytes of it, of the array's type and dims). A zeroed tw_init gives
 * zeros. fan_in = in · product of the dims after the second, fan_out = out · the same; Glorot and
 * He need rank 2 or more. Numbers are those of tw_graph_random for (seed, stream), so they are the
 * library's own on every backend. Element types: any float up to f64; CONSTANT: any but complex. */
TW_API tw_status tw_init_fill(const tw_init *init, tw_array *array);

/* ---- Batches --------------------------------------------------------------------------------- */

/* The order of an epoch: a permutation of 0 to n-1. Fisher-Yates from the end: for i = n-1 down to
 * 1, element i changes places with element (r mod (i+1)), r from splitmix64, taken again while
 * r >= 2^64 - (2^64 mod (i+1)). The generator's state begins at mix(mix(seed) + epoch), mix being
 * splitmix64's step from state to output. */
TW_API tw_status tw_shuffle(int64_t seed, int64_t epoch, int64_t n, int64_t *order);

typedef struct tw_batches_options {
    size_t size;
    int64_t batch;          /* pictures in a batch */
    bool shuffle;           /* tw_shuffle(seed, epoch, …); false: in the order of the data */
    bool drop_last;         /* no batch of fewer pictures at the end of an epoch */
    bool channels_last;     /* [n, height, width, channels] in memory */
    const float *mean;      /* [channels], in units of 1, or NULL: 0. Copied */
    const float *deviation; /* [channels], or NULL: 1. Copied */
    int32_t queue;          /* batches prepared ahead, 2 to 4; 0: 2 */
    int64_t seed;
    int64_t epoch, step; /* where to begin, from 0 */
} tw_batches_options;

/* One batch; its memory is valid until the next call for the same tw_batches. */
typedef struct tw_batch {
    size_t size;
    int64_t epoch, step;    /* the batch's own place; step counts from 0 in each epoch */
    bool last;              /* of its epoch */
    int64_t count;          /* pictures */
    const float *pixels;    /* [count, channels, height, width] or channels last, 64-byte aligned:
                             (pixel/255 - mean) / deviation, each step rounded to f32 */
    const int64_t *labels;  /* [count] */
    const int64_t *indices; /* [count], places in the data */
} tw_batch;

typedef struct tw_batches tw_batches;

/* Batches of pictures, prepared on a background thread, epoch after epoch without end. `images` is
 * copied as a struct; its pixels and labels must outlive the batches. Memory: queue + 1 batches.
 * All calls for one tw_batches must come from one thread at a time. */
TW_API tw_status tw_batches_create(const tw_images *images, const tw_batches_options *options,
                                   tw_batches **batches);
/* Stops the thread wherever it is. NULL is fine. */
TW_API void tw_batches_free(tw_batches *batches);

/* TW_NOT_USABLE_AFTER_FORK in a forked child, which has no such thread; free works there. */
TW_API tw_status tw_batches_next(tw_batches *batches, tw_batch *batch);

/* Goes on from another place. A batch depends on (seed, epoch, step) alone, so a training run that
 * saved the place after its last batch repeats exactly. */
TW_API tw_status tw_batches_seek(tw_batches *batches, int64_t epoch, int64_t step);
TW_API int64_t tw_batches_steps(const tw_batches *batches); /* in an epoch */

/* ---- Running figures ------------------------------------------------------------------------- */

/* Zero-initialise, also to begin again. */
typedef struct tw_metrics {
    size_t size;
    int64_t count;   /* samples with a loss */
    int64_t scored;  /* samples with logits */
    int64_t correct; /* of those */
    double loss_sum; /* over count */
} tw_metrics;

/* Adds a batch: its mean loss, and how many of the `count` rows of logits [count, classes] are
 * largest at their label (the first of equals counts; a row with NaN is wrong). logits NULL: only
 * the loss. TW_INVALID_ARGUMENT, with nothing added, for a label outside 0 to classes-1. */
TW_API tw_status tw_metrics_add(tw_metrics *metrics, double mean_loss, int64_t count,
                                int64_t classes, const float *logits, const int64_t *labels);
TW_API double tw_metrics_loss(const tw_metrics *metrics);     /* mean; NaN before the first */
TW_API double tw_metrics_accuracy(const tw_metrics *metrics); /* 0 to 1; NaN before the first */

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/*
 * A checkpoint is a safetensors file: weights under their own names, the optimizer's state under
 * "optimizer." and its names, and in the metadata format, version, network, step, epoch, seed,
 * rng_offset, and each hyper-parameter as "param." and its key.
 */
typedef struct tw_checkpoint {
    size_t size;
    const char *network; /* the architecture's name */
    int64_t n_weights;
    const tw_named_array *weights;
    int64_t n_state; /* of the optimizer; 0 is fine */
    const tw_named_array *state;
    int64_t n_params;
    const tw_metadata *params; /* hyper-parameters as texts */
    int64_t step, epoch;       /* where training stands */
    int64_t seed, rng_offset;  /* of the data order, and of random operations */
} tw_checkpoint;

/* Writes it all, atomically: on failure the previous file is as it was. */
TW_API tw_status tw_checkpoint_save(const char *path, const tw_checkpoint *checkpoint);

/* Fills a network from a file. The caller sets network, weights and state as for saving, with data
 * allocated; on success the data, step, epoch, seed and rng_offset are read. The file must be of
 * the same network and have exactly these weights, of the same type and dims, else
 * TW_INVALID_ARGUMENT with a sentence on the first difference, and nothing is changed. n_state 0
 * leaves the optimizer's state unread. params are not compared: tw_tensors_read gives them.
 * TW_VERSION_MISMATCH for a file of a later version, TW_BAD_FILE for a damaged one or one that is
 * no checkpoint. `limit` as for other files. */
TW_API tw_status tw_checkpoint_load(const char *path, int64_t limit, tw_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif
#endif
