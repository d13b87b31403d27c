/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: order, content, repetition, shutting down; and running figures. */
#include "io/io_support.h"

#include <math.h>
#include <sys/wait.h>
#include <time.h>

#include <tilework/train.h>

enum { COUNT = 103, CHANNELS = 3, HEIGHT = 4, WIDTH = 5, SIZE = CHANNELS * HEIGHT * WIDTH };
static uint8_t pixels[COUNT * SIZE], labels[COUNT];
static tw_images images = {.count = COUNT,
                           .channels = CHANNELS,
                           .height = HEIGHT,
                           .width = WIDTH,
                           .pixels = pixels,
                           .labels = labels,
                           .classes = 7};

static int set_up(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < COUNT * SIZE; i++) pixels[i] = (uint8_t)io_random(&seed);
    for (int i = 0; i < COUNT; i++) labels[i] = (uint8_t)(io_random(&seed) % 7);
    return 0;
}

/* ---- Order ----------------------------------------------------------------------------------- */

static void test_shuffle(void **state)
{
    (void)state;
    /* By hand from the documented algorithm, in Python; the same on every machine. */
    static const int64_t expected[10] = {7, 4, 8, 1, 0, 3, 9, 5, 2, 6};
    int64_t order[1000], other[1000];
    assert_ok(tw_shuffle(1, 2, 10, order));
    for (int i = 0; i < 10; i++) assert_int_equal(order[i], expected[i]);

    for (int64_t n = 0; n <= 1000; n = n * 3 + 1) {
        bool seen[1000] = {false};
        assert_ok(tw_shuffle(-7, n, n, order));
        for (int64_t i = 0; i < n; i++) {
            assert_in_range(order[i], 0, n - 1);
            assert_false(seen[order[i]]);
            seen[order[i]] = true;
        }
    }
    assert_ok(tw_shuffle(3, 0, 1000, order));
    assert_ok(tw_shuffle(3, 1, 1000, other));
    assert_memory_not_equal(order, other, sizeof order);
    assert_ok(tw_shuffle(4, 0, 1000, other));
    assert_memory_not_equal(order, other, sizeof order);
    assert_status(tw_shuffle(0, 0, -1, order), TW_INVALID_ARGUMENT);
}

/* Each element comes to each place equally often: of 6,000 shuffles of 6, each of 36 counts is
 * binomial with mean 1,000 and deviation 29; six deviations allow for all of them. */
static void test_shuffle_is_uniform(void **state)
{
    (void)state;
    int counts[6][6] = {{0}};
    int64_t order[6];
    for (int seed = 0; seed < 6000; seed++) {
        assert_ok(tw_shuffle(seed, 0, 6, order));
        for (int i = 0; i < 6; i++) counts[i][order[i]]++;
    }
    for (int i = 0; i < 36; i++) assert_in_range(counts[i / 6][i % 6], 1000 - 174, 1000 + 174);
}

/* ---- Content --------------------------------------------------------------------------------- */

static void check_batch(const tw_batch *b, const tw_batches_options *o)
{
    int64_t order[COUNT];
    assert_ok(tw_shuffle(o->seed, b->epoch, COUNT, order));
    int64_t first = b->step * o->batch;
    int64_t count = COUNT - first < o->batch ? COUNT - first : o->batch;
    assert_int_equal(b->count, count);
    assert_int_equal((uintptr_t)b->pixels % 64, 0);
    for (int64_t i = 0; i < count; i++) {
        int64_t index = o->shuffle ? order[first + i] : first + i;
        assert_int_equal(b->indices[i], index);
        assert_int_equal(b->labels[i], labels[index]);
        for (int64_t e = 0; e < SIZE; e++) {
            int64_t c = e / (HEIGHT * WIDTH), area = e % (HEIGHT * WIDTH);
            int64_t at = o->channels_last ? area * CHANNELS + c : e;
            float unit = (float)pixels[index * SIZE + e] / 255.0f;
            float mean = o->mean ? o->mean[c] : 0, deviation = o->deviation ? o->deviation[c] : 1;
            float expected = (unit - mean) / deviation;
            if (b->pixels[i * SIZE + at] != expected) {
                fail_msg("epoch %d step %d picture %d element %d: %g instead of %g", (int)b->epoch,
                         (int)b->step, (int)i, (int)e, (double)b->pixels[i * SIZE + at],
                         (double)expected);
            }
        }
    }
}

static void walk(tw_batches_options o, int64_t steps)
{
    tw_batches *b;
    tw_batch batch;
    assert_ok(tw_batches_create(&images, &o, &b));
    assert_int_equal(tw_batches_steps(b), steps);
    int64_t epoch = o.epoch, step = o.step;
    for (int64_t i = 0; i < 3 * steps + 1; i++) {
        assert_ok(tw_batches_next(b, &batch));
        assert_int_equal(batch.epoch, epoch);
        assert_int_equal(batch.step, step);
        assert_int_equal(batch.last, step + 1 == steps);
        check_batch(&batch, &o);
        if (++step == steps) {
            step = 0;
            epoch++;
        }
    }
    tw_batches_free(b);
}

static void test_content(void **state)
{
    (void)state;
    static const float mean[] = {0.5f, 0.25f, 0.1f}, deviation[] = {0.2f, 1, 3};
    walk((tw_batches_options){.batch = 10}, 11);
    walk((tw_batches_options){.batch = 10, .drop_last = true, .shuffle = true, .seed = 9}, 10);
    walk((tw_batches_options){.batch = 1, .shuffle = true, .queue = 4}, 103);
    walk((tw_batches_options){.batch = 103, .shuffle = true, .queue = 3}, 1);
    walk((tw_batches_options){.batch = 1000, .shuffle = true}, 1);
    walk((tw_batches_options){.batch = 16,
                              .channels_last = true,
                              .mean = mean,
                              .deviation = deviation,
                              .epoch = 5,
                              .step = 3},
         7);
}

static void test_repeats(void **state)
{
    (void)state;
    tw_batches_options o = {.batch = 8, .shuffle = true, .seed = 42};
    tw_batches *b;
    tw_batch batch;
    float kept[8 * SIZE];
    assert_ok(tw_batches_create(&images, &o, &b));
    for (int i = 0; i <= 20; i++) assert_ok(tw_batches_next(b, &batch));
    memcpy(kept, batch.pixels, sizeof kept);
    int64_t epoch = batch.epoch, step = batch.step;
    for (int i = 0; i < 30; i++) assert_ok(tw_batches_next(b, &batch));
    assert_ok(tw_batches_seek(b, epoch, step));
    assert_ok(tw_batches_next(b, &batch));
    assert_int_equal(batch.epoch, epoch);
    assert_int_equal(batch.step, step);
    assert_memory_equal(batch.pixels, kept, sizeof kept);
    tw_batches_free(b);
    o.epoch = epoch;
    o.step = step;
    assert_ok(tw_batches_create(&images, &o, &b));
    assert_ok(tw_batches_next(b, &batch));
    assert_memory_equal(batch.pixels, kept, sizeof kept);
    tw_batches_free(b);
}

/* The memory of a batch is not touched while the caller holds it. */
static void test_held_batch(void **state)
{
    (void)state;
    tw_batches_options o = {.batch = 4, .shuffle = true};
    tw_batches *b;
    tw_batch batch;
    assert_ok(tw_batches_create(&images, &o, &b));
    for (int i = 0; i < 6; i++) {
        assert_ok(tw_batches_next(b, &batch));
        nanosleep(&(struct timespec){0, 2000000}, NULL);
        check_batch(&batch, &o);
    }
    tw_batches_free(b);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void test_shutdown(void **state)
{
    (void)state;
    tw_batch batch;
    for (int i = 0; i < 300; i++) {
        tw_batches_options o = {.batch = 1 + i % 40, .shuffle = i % 2, .queue = 2 + i % 3};
        tw_batches *b;
        assert_ok(tw_batches_create(&images, &o, &b));
        for (int taken = 0; taken < i % 7; taken++) assert_ok(tw_batches_next(b, &batch));
        if (i % 5 == 0) assert_ok(tw_batches_seek(b, i, 0));
        tw_batches_free(b);
    }
    tw_batches_free(NULL);
}

static void test_fork(void **state)
{
    (void)state;
    tw_batches_options o = {.batch = 10};
    tw_batches *b;
    tw_batch batch;
    assert_ok(tw_batches_create(&images, &o, &b));
    assert_ok(tw_batches_next(b, &batch));
    pid_t child = fork();
    if (child == 0) {
        bool refused = tw_batches_next(b, &batch) == TW_NOT_USABLE_AFTER_FORK;
        tw_batches_free(b);
        _exit(refused ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_ok(tw_batches_next(b, &batch)); /* the parent goes on */
    tw_batches_free(b);
}

static void test_arguments(void **state)
{
    (void)state;
    tw_batches *b = NULL;
    static const float zero[3];
    const tw_batches_options bad[] = {{.batch = 0},
                                      {.batch = -1},
                                      {.batch = 104, .drop_last = true},
                                      {.batch = 1, .queue = 1},
                                      {.batch = 1, .queue = 5},
                                      {.batch = 1, .deviation = zero},
                                      {.batch = 10, .step = 11},
                                      {.batch = 10, .epoch = -1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_status(tw_batches_create(&images, &bad[i], &b), TW_INVALID_ARGUMENT);
    }
    tw_images none = images;
    none.count = 0;
    assert_status(tw_batches_create(&none, &(tw_batches_options){.batch = 1}, &b),
                  TW_INVALID_ARGUMENT);
    assert_null(b);
}

/* ---- Running figures ------------------------------------------------------------------------- */

static void test_metrics(void **state)
{
    (void)state;
    tw_metrics m = {.count = 0};
    assert_true(isnan(tw_metrics_loss(&m)) && isnan(tw_metrics_accuracy(&m)));
    const float logits[] = {1, 2, 0, /**/ 5, 5, 1, /**/ 0, NAN, 9, /**/ -3, -2, -1};
    const int64_t right[] = {1, 0, 2, 1};
    assert_ok(tw_metrics_add(&m, 2.0, 4, 3, logits, right));
    assert_int_equal(m.correct, 2); /* rows 0 and 1; NaN and the last are wrong */
    assert_ok(tw_metrics_add(&m, 1.0, 12, 3, NULL, NULL));
    assert_true(tw_metrics_loss(&m) == 1.25);
    assert_true(tw_metrics_accuracy(&m) == 0.5);
    const int64_t outside[] = {0, 3, 0, 0};
    tw_metrics before = m;
    assert_status(tw_metrics_add(&m, 1.0, 4, 3, logits, outside), TW_INVALID_ARGUMENT);
    assert_sentence("labels[1] is 3");
    assert_memory_equal(&m, &before, sizeof m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shuffle),    cmocka_unit_test(test_shuffle_is_uniform),
        cmocka_unit_test(test_content),    cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_held_batch), cmocka_unit_test(test_shutdown),
        cmocka_unit_test(test_fork),       cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_metrics),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
