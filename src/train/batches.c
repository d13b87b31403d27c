/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches are prepared in a ring of queue + 1 slots. Three counters tell all: `made` batches were
 * filled, `taken` were handed out, `freed` may be overwritten (all taken but the last one, which
 * the caller still reads). The thread waits while made - freed is the number of slots, the caller
 * while made == taken. `made` and `freed` change under the mutex; waiters sleep on `changes`.
 */
#include <tilework/train.h>

#include <string.h>

#include <tilework/device.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/os.h"

#define MAX_SLOTS 5

typedef struct slot {
    float *pixels;
    int64_t *labels, *indices;
    tw_batch batch;
} slot;

struct tw_batches {
    tw_images images;
    tw_batches_options options;
    int64_t steps;  /* in an epoch */
    float *values;  /* [channels][256]: what each byte becomes */
    int64_t *order; /* of the thread's current epoch */
    slot slots[MAX_SLOTS];
    int32_t n_slots;
    int64_t epoch, step; /* of the next batch to make; the thread's own while it runs */
    tw_thread *thread;
    uint32_t generation; /* of forks, when the thread began */
    tw_mutex mutex;
    uint32_t changes;
    bool stop;
    int64_t made, taken, freed;
};

/* ---- Order ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t state)
{
    uint64_t z = state + 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t output = mix(*state);
    *state += 0x9e3779b97f4a7c15u;
    return output;
}

/* Uniform in [0, n). (-n) % n is 2^64 mod n. */
static uint64_t below(uint64_t *state, uint64_t n)
{
    uint64_t excess = (0 - n) % n, r;
    do {
        r = next_random(state);
    } while (excess && r >= 0 - excess);
    return r % n;
}

tw_status tw_shuffle(int64_t seed, int64_t epoch, int64_t n, int64_t *order)
{
    TW_REQUIRE(n >= 0 && (order || !n), TW_INVALID_ARGUMENT,
               "n is %lld; it must be from 0 on, with an order of that length", (long long)n);
    uint64_t state = mix(mix((uint64_t)seed) + (uint64_t)epoch);
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)below(&state, (uint64_t)i + 1);
        int64_t other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
    return TW_OK;
}

/* ---- One batch ------------------------------------------------------------------------------- */

static void set_order(tw_batches *b)
{
    if (b->options.shuffle) {
        tw_shuffle(b->options.seed, b->epoch, b->images.count, b->order);
    } else {
        for (int64_t i = 0; i < b->images.count; i++) b->order[i] = i;
    }
}

static void convert_picture(const tw_batches *b, const uint8_t *src, float *dst)
{
    int64_t area = b->images.height * b->images.width;
    bool last = b->options.channels_last;
    int64_t next_pixel = last ? b->images.channels : 1, next_channel = last ? 1 : area;
    for (int64_t c = 0; c < b->images.channels; c++) {
        const float *values = b->values + 256 * c;
        float *to = dst + c * next_channel;
        for (int64_t i = 0; i < area; i++) to[i * next_pixel] = values[src[c * area + i]];
    }
}

static void make_batch(tw_batches *b, slot *s)
{
    const tw_images *images = &b->images;
    int64_t size = images->channels * images->height * images->width;
    int64_t first = b->step * b->options.batch, left = images->count - first;
    int64_t count = left < b->options.batch ? left : b->options.batch;
    for (int64_t i = 0; i < count; i++) {
        int64_t index = b->order[first + i];
        s->indices[i] = index;
        s->labels[i] = images->labels[index];
        convert_picture(b, images->pixels + index * size, s->pixels + i * size);
    }
    s->batch = (tw_batch){.size = sizeof s->batch,
                          .epoch = b->epoch,
                          .step = b->step,
                          .last = b->step + 1 == b->steps,
                          .count = count,
                          .pixels = s->pixels,
                          .labels = s->labels,
                          .indices = s->indices};
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Wakes the other side. The mutex is held. */
static void signal_change(tw_batches *b)
{
    __atomic_fetch_add(&b->changes, 1, __ATOMIC_RELEASE);
    tw_os_wake_all(&b->changes);
}

/* Sleeps until the other side signals. The mutex is held before and after. */
static void wait_change(tw_batches *b)
{
    uint32_t seen = __atomic_load_n(&b->changes, __ATOMIC_ACQUIRE);
    tw_os_unlock(&b->mutex);
    tw_os_wait(&b->changes, seen);
    tw_os_lock(&b->mutex);
}

/* False: it is time to stop. */
static bool wait_for_room(tw_batches *b)
{
    tw_os_lock(&b->mutex);
    while (!b->stop && b->made - b->freed == b->n_slots) wait_change(b);
    bool go_on = !b->stop;
    tw_os_unlock(&b->mutex);
    return go_on;
}

static void make_batches(void *arg)
{
    tw_batches *b = arg;
    int64_t made = 0;
    set_order(b);
    while (wait_for_room(b)) {
        make_batch(b, &b->slots[made % b->n_slots]);
        if (++b->step == b->steps) {
            b->step = 0;
            b->epoch++;
            set_order(b);
        }
        tw_os_lock(&b->mutex);
        b->made = ++made;
        signal_change(b);
        tw_os_unlock(&b->mutex);
    }
}

static tw_status start(tw_batches *b, int64_t epoch, int64_t step)
{
    b->epoch = epoch;
    b->step = step;
    b->made = b->taken = b->freed = 0;
    b->stop = false;
    b->generation = tw_os_fork_generation();
    return tw_os_thread_start(make_batches, b, &b->thread);
}

static void stop(tw_batches *b)
{
    if (!b->thread) return;
    if (tw_os_fork_generation() != b->generation) {
        tw_os_thread_forget(b->thread);
    } else {
        tw_os_lock(&b->mutex);
        b->stop = true;
        signal_change(b);
        tw_os_unlock(&b->mutex);
        tw_os_thread_join(b->thread);
    }
    b->thread = NULL;
}

/* ---- The interface --------------------------------------------------------------------------- */

static tw_status check(const tw_images *images, const tw_batches_options *o)
{
    TW_REQUIRE(images->count > 0 && images->channels > 0 && images->height > 0 &&
                   images->width > 0 && images->pixels && images->labels,
               TW_INVALID_ARGUMENT, "images must hold one picture or more");
    TW_REQUIRE(o->batch > 0, TW_INVALID_ARGUMENT, "options.batch is %lld; it must be 1 or more",
               (long long)o->batch);
    TW_REQUIRE(!o->drop_last || o->batch <= images->count, TW_INVALID_ARGUMENT,
               "options.batch is %lld with drop_last; there are only %lld pictures",
               (long long)o->batch, (long long)images->count);
    TW_REQUIRE(o->queue == 0 || (o->queue >= 2 && o->queue < MAX_SLOTS), TW_INVALID_ARGUMENT,
               "options.queue is %d; it must be 2 to %d, or 0", o->queue, MAX_SLOTS - 1);
    for (int64_t c = 0; o->deviation && c < images->channels; c++) {
        TW_REQUIRE(o->deviation[c] > 0, TW_INVALID_ARGUMENT,
                   "options.deviation[%lld] is %g; it must be above 0", (long long)c,
                   (double)o->deviation[c]);
    }
    return TW_OK;
}

static tw_status check_place(const tw_batches *b, int64_t epoch, int64_t step)
{
    TW_REQUIRE(epoch >= 0 && step >= 0 && step < b->steps, TW_INVALID_ARGUMENT,
               "the place is epoch %lld, step %lld; an epoch is from 0 on, a step 0 to %lld",
               (long long)epoch, (long long)step, (long long)b->steps - 1);
    return TW_OK;
}

static tw_status allocate_values(tw_batches *b, const tw_batches_options *o)
{
    void *memory;
    TW_TRY(tw_calloc(b->images.channels, 256 * sizeof(float), &memory));
    b->values = memory;
    for (int64_t i = 0; i < 256 * b->images.channels; i++) {
        float mean = o->mean ? o->mean[i / 256] : 0,
              deviation = o->deviation ? o->deviation[i / 256] : 1;
        float unit = (float)(i % 256) / 255.0f;
        b->values[i] = (unit - mean) / deviation;
    }
    return TW_OK;
}

static tw_status allocate_slot(tw_batches *b, slot *s)
{
    int64_t size = b->images.channels * b->images.height * b->images.width, floats;
    int64_t batch = b->options.batch < b->images.count ? b->options.batch : b->images.count;
    void *memory;
    if (!tw_mul_i64(batch, size, &floats)) return tw_fail_memory(SIZE_MAX);
    TW_TRY(tw_calloc(floats, sizeof(float), &memory));
    s->pixels = memory;
    TW_TRY(tw_calloc(batch, sizeof(int64_t), &memory));
    s->labels = memory;
    TW_TRY(tw_calloc(batch, sizeof(int64_t), &memory));
    s->indices = memory;
    return TW_OK;
}

static tw_status prepare(tw_batches *b, const tw_batches_options *o)
{
    void *memory;
    TW_TRY(check_place(b, o->epoch, o->step));
    TW_TRY(allocate_values(b, o));
    TW_TRY(tw_calloc(b->images.count, sizeof(int64_t), &memory));
    b->order = memory;
    for (int32_t i = 0; i < b->n_slots; i++) TW_TRY(allocate_slot(b, &b->slots[i]));
    return start(b, o->epoch, o->step);
}

tw_status tw_batches_create(const tw_images *images, const tw_batches_options *options,
                            tw_batches **batches)
{
    TW_REQUIRE(images && options && batches, TW_INVALID_ARGUMENT,
               "images, options and batches must not be NULL");
    TW_TRY(check(images, options));
    void *memory;
    TW_TRY(tw_calloc(1, sizeof **batches, &memory));
    tw_batches *b = memory;
    b->images = *images;
    b->options = *options;
    b->options.mean = b->options.deviation = NULL; /* the caller's, and in `values` already */
    b->n_slots = (options->queue ? options->queue : 2) + 1;
    b->steps = images->count / options->batch;
    if (!options->drop_last && images->count % options->batch) b->steps++;
    tw_status status = prepare(b, options);
    if (status != TW_OK) {
        tw_batches_free(b);
        return status;
    }
    *batches = b;
    return TW_OK;
}

void tw_batches_free(tw_batches *batches)
{
    if (!batches) return;
    stop(batches);
    for (int32_t i = 0; i < batches->n_slots; i++) {
        tw_free(batches->slots[i].pixels);
        tw_free(batches->slots[i].labels);
        tw_free(batches->slots[i].indices);
    }
    tw_free(batches->order);
    tw_free(batches->values);
    tw_free(batches);
}

tw_status tw_batches_next(tw_batches *batches, tw_batch *batch)
{
    TW_REQUIRE(batches && batch, TW_INVALID_ARGUMENT, "batches and batch must not be NULL");
    TW_REQUIRE(tw_os_fork_generation() == batches->generation, TW_NOT_USABLE_AFTER_FORK,
               "batches were created before the fork; create them again in the child");
    TW_REQUIRE(batches->thread, TW_INVALID_ARGUMENT,
               "batches have no thread since a seek failed; seek again");
    tw_os_lock(&batches->mutex);
    batches->freed = batches->taken;
    signal_change(batches);
    while (batches->made == batches->taken) wait_change(batches);
    *batch = batches->slots[batches->taken++ % batches->n_slots].batch;
    tw_os_unlock(&batches->mutex);
    return TW_OK;
}

tw_status tw_batches_seek(tw_batches *batches, int64_t epoch, int64_t step)
{
    TW_REQUIRE(batches, TW_INVALID_ARGUMENT, "batches must not be NULL");
    TW_REQUIRE(tw_os_fork_generation() == batches->generation, TW_NOT_USABLE_AFTER_FORK,
               "batches were created before the fork; create them again in the child");
    TW_TRY(check_place(batches, epoch, step));
    stop(batches);
    return start(batches, epoch, step);
}

int64_t tw_batches_steps(const tw_batches *batches) { return batches ? batches->steps : 0; }
