/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: a safetensors file with a fixed vocabulary of metadata. */
#include <tilework/train.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilework/device.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/text.h"

#define FORMAT "tilework-checkpoint"
#define VERSION 1
#define STATE "optimizer."
#define PARAM "param."

/* Metadata that every checkpoint has. */
static const struct {
    const char *key;
    size_t offset; /* in tw_checkpoint */
} numbers[] = {{"step", offsetof(tw_checkpoint, step)},
               {"epoch", offsetof(tw_checkpoint, epoch)},
               {"seed", offsetof(tw_checkpoint, seed)},
               {"rng_offset", offsetof(tw_checkpoint, rng_offset)}};

enum { N_NUMBERS = sizeof numbers / sizeof *numbers, N_FIXED = N_NUMBERS + 3 };

static tw_status check(const tw_checkpoint *c)
{
    TW_REQUIRE(c->network, TW_INVALID_ARGUMENT, "checkpoint.network must not be NULL");
    TW_REQUIRE(
        c->n_weights >= 0 && c->n_state >= 0 && c->n_params >= 0 && (c->weights || !c->n_weights) &&
            (c->state || !c->n_state) && (c->params || !c->n_params),
        TW_INVALID_ARGUMENT, "checkpoint: counts must be from 0 on, with lists of that length");
    for (int64_t i = 0; i < c->n_weights; i++) {
        const char *name = c->weights[i].name;
        TW_REQUIRE(name && strncmp(name, STATE, strlen(STATE)) != 0, TW_INVALID_ARGUMENT,
                   "checkpoint.weights[%lld] needs a name that does not begin with '" STATE "'",
                   (long long)i);
    }
    for (int64_t i = 0; i < c->n_state; i++) {
        TW_REQUIRE(c->state[i].name, TW_INVALID_ARGUMENT, "checkpoint.state[%lld] needs a name",
                   (long long)i);
    }
    return TW_OK;
}

static tw_status join(tw_arena *arena, const char *prefix, const char *name, const char **joined)
{
    void *memory;
    size_t n = strlen(prefix) + strlen(name) + 1;
    TW_TRY(tw_arena_alloc(arena, (int64_t)n, 1, &memory));
    snprintf(memory, n, "%s%s", prefix, name);
    *joined = memory;
    return TW_OK;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static tw_status list_entries(const tw_checkpoint *c, tw_arena *arena, tw_named_array **entries)
{
    void *memory;
    TW_TRY(tw_arena_alloc(arena, c->n_weights + c->n_state, sizeof **entries, &memory));
    tw_named_array *list = memory;
    for (int64_t i = 0; i < c->n_weights; i++) list[i] = c->weights[i];
    for (int64_t i = 0; i < c->n_state; i++) {
        tw_named_array *entry = &list[c->n_weights + i];
        entry->array = c->state[i].array;
        TW_TRY(join(arena, STATE, c->state[i].name, &entry->name));
    }
    *entries = list;
    return TW_OK;
}

static tw_status list_pairs(const tw_checkpoint *c, tw_arena *arena, tw_metadata **pairs)
{
    void *memory;
    char text[32];
    TW_TRY(tw_arena_alloc(arena, N_FIXED + c->n_params, sizeof **pairs, &memory));
    tw_metadata *list = memory;
    snprintf(text, sizeof text, "%d", VERSION);
    list[0] = (tw_metadata){"format", FORMAT};
    list[1].key = "version";
    TW_TRY(tw_arena_string(arena, text, &list[1].value));
    list[2] = (tw_metadata){"network", c->network};
    for (int i = 0; i < N_NUMBERS; i++) {
        int64_t value;
        memcpy(&value, (const char *)c + numbers[i].offset, sizeof value);
        snprintf(text, sizeof text, "%lld", (long long)value);
        list[3 + i].key = numbers[i].key;
        TW_TRY(tw_arena_string(arena, text, &list[3 + i].value));
    }
    for (int64_t i = 0; i < c->n_params; i++) {
        tw_metadata *pair = &list[N_FIXED + i];
        TW_REQUIRE(c->params[i].key && c->params[i].value, TW_INVALID_ARGUMENT,
                   "checkpoint.params[%lld] has no key or no value", (long long)i);
        TW_TRY(join(arena, PARAM, c->params[i].key, &pair->key));
        pair->value = c->params[i].value;
    }
    *pairs = list;
    return TW_OK;
}

tw_status tw_checkpoint_save(const char *path, const tw_checkpoint *checkpoint)
{
    TW_REQUIRE(path && checkpoint, TW_INVALID_ARGUMENT, "path and checkpoint must not be NULL");
    TW_TRY(check(checkpoint));
    tw_arena arena = {0};
    tw_named_array *entries;
    tw_metadata *pairs;
    tw_status status = list_entries(checkpoint, &arena, &entries);
    if (status == TW_OK) status = list_pairs(checkpoint, &arena, &pairs);
    if (status == TW_OK) {
        status = tw_tensors_write(path, checkpoint->n_weights + checkpoint->n_state, entries,
                                  N_FIXED + checkpoint->n_params, pairs);
    }
    tw_arena_free(&arena);
    return status;
}

/* ---- Loading --------------------------------------------------------------------------------- */

typedef struct loading {
    const char *path;
    const tw_tensors *file;
    const tw_checkpoint *want;
    int64_t values[N_NUMBERS];
    const void **sources; /* data of weights, then of state */
} loading;

static tw_status parse_number(const loading *l, const char *key, int64_t *value)
{
    const char *text = tw_tensors_metadata(l->file, key);
    char *end = NULL;
    errno = 0;
    long long number = text ? strtoll(text, &end, 10) : 0;
    TW_REQUIRE(text && end != text && !*end && errno == 0, TW_BAD_FILE,
               "%s: byte 8: metadata '%s' of the checkpoint is '%.32s', not a whole number",
               l->path, key, text ? text : "");
    *value = number;
    return TW_OK;
}

static tw_status check_metadata(loading *l)
{
    const char *format = tw_tensors_metadata(l->file, "format");
    const char *network = tw_tensors_metadata(l->file, "network");
    int64_t version;
    TW_REQUIRE(format && strcmp(format, FORMAT) == 0 && network, TW_BAD_FILE,
               "%s: byte 8: this safetensors file is not a checkpoint of Tilework", l->path);
    TW_TRY(parse_number(l, "version", &version));
    TW_REQUIRE(version == VERSION, TW_VERSION_MISMATCH,
               "%s: the checkpoint has format version %lld; this library reads version %d", l->path,
               (long long)version, VERSION);
    TW_REQUIRE(strcmp(network, l->want->network) == 0, TW_INVALID_ARGUMENT,
               "%s: this is a checkpoint of another network: of '%.64s', not of '%.64s'", l->path,
               network, l->want->network);
    for (int i = 0; i < N_NUMBERS; i++) {
        TW_TRY(parse_number(l, numbers[i].key, &l->values[i]));
    }
    return TW_OK;
}

/* "f32 [3, 4]". */
static void describe(const tw_array *array, char *text, size_t n)
{
    size_t length = (size_t)snprintf(text, n, "%s [", tw_dtype_name(array->dtype));
    for (int32_t d = 0; d < array->rank && length < n; d++) {
        length += (size_t)snprintf(text + length, n - length, d ? ", %lld" : "%lld",
                                   (long long)array->dims[d]);
    }
    if (length < n) snprintf(text + length, n - length, "]");
}

static tw_status check_tensor(const loading *l, const char *name, const tw_array *want,
                              const void **source)
{
    tw_named_array found;
    char there[224], here[224];
    tw_status status = tw_tensors_find(l->file, name, &found);
    TW_REQUIRE(status == TW_OK, TW_INVALID_ARGUMENT,
               "%s: this is a checkpoint of another network: it has no tensor '%.128s'", l->path,
               name);
    const tw_array *got = &found.array;
    bool same = got->dtype == want->dtype && got->rank == want->rank && got->bytes == want->bytes;
    for (int32_t d = 0; same && d < want->rank; d++) same = got->dims[d] == want->dims[d];
    if (same) {
        TW_REQUIRE(want->data || !want->bytes, TW_INVALID_ARGUMENT,
                   "checkpoint: the network's tensor '%.128s' has no data to read into", name);
        *source = got->data;
        return TW_OK;
    }
    describe(got, there, sizeof there);
    describe(want, here, sizeof here);
    return tw_fail(TW_INVALID_ARGUMENT,
                   "%s: this is a checkpoint of another network: tensor '%.128s' is %s in the file "
                   "and %s in the network",
                   l->path, name, there, here);
}

/* Refuses weights in the file that the network does not have. */
static tw_status check_surplus(const loading *l)
{
    for (int64_t i = 0; i < tw_tensors_count(l->file); i++) {
        tw_named_array entry;
        bool known = false;
        TW_TRY(tw_tensors_at(l->file, i, &entry));
        if (strncmp(entry.name, STATE, strlen(STATE)) == 0) continue;
        for (int64_t w = 0; w < l->want->n_weights && !known; w++) {
            known = strcmp(l->want->weights[w].name, entry.name) == 0;
        }
        TW_REQUIRE(known, TW_INVALID_ARGUMENT,
                   "%s: this is a checkpoint of another network: its tensor '%.128s' is not one of "
                   "the network's",
                   l->path, entry.name);
    }
    return TW_OK;
}

static tw_status check_tensors(loading *l, tw_arena *arena)
{
    const tw_checkpoint *want = l->want;
    void *memory;
    TW_TRY(tw_arena_alloc(arena, want->n_weights + want->n_state, sizeof *l->sources, &memory));
    l->sources = memory;
    for (int64_t i = 0; i < want->n_weights; i++) {
        const tw_named_array *weight = &want->weights[i];
        TW_TRY(check_tensor(l, weight->name, &weight->array, &l->sources[i]));
    }
    TW_TRY(check_surplus(l));
    for (int64_t i = 0; i < want->n_state; i++) {
        const char *name;
        TW_TRY(join(arena, STATE, want->state[i].name, &name));
        TW_TRY(check_tensor(l, name, &want->state[i].array, &l->sources[want->n_weights + i]));
    }
    return TW_OK;
}

static void copy_array(const tw_array *array, const void *source)
{
    if (array->bytes) memcpy(array->data, source, (size_t)array->bytes);
}

/* All checks come first: what is copied is copied whole. */
static tw_status load(loading *l, tw_arena *arena, tw_checkpoint *c)
{
    TW_TRY(check_metadata(l));
    TW_TRY(check_tensors(l, arena));
    for (int64_t i = 0; i < c->n_weights; i++) copy_array(&c->weights[i].array, l->sources[i]);
    for (int64_t i = 0; i < c->n_state; i++) {
        copy_array(&c->state[i].array, l->sources[c->n_weights + i]);
    }
    for (int i = 0; i < N_NUMBERS; i++) {
        memcpy((char *)c + numbers[i].offset, &l->values[i], sizeof l->values[i]);
    }
    return TW_OK;
}

tw_status tw_checkpoint_load(const char *path, int64_t limit, tw_checkpoint *checkpoint)
{
    TW_REQUIRE(path && checkpoint, TW_INVALID_ARGUMENT, "path and checkpoint must not be NULL");
    TW_TRY(check(checkpoint));
    tw_tensors *file;
    TW_TRY(tw_tensors_read(path, limit, &file));
    loading l = {.path = path, .file = file, .want = checkpoint};
    tw_arena arena = {0};
    tw_status status = load(&l, &arena, checkpoint);
    tw_arena_free(&arena);
    tw_tensors_free(file);
    return status;
}
