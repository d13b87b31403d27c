/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/hash.h"

/* An allocator that counts, checks what free is told, and refuses after `limit` calls. */
typedef struct counter {
    int64_t live_bytes;
    int calls, limit;
    bool mismatch;
} counter;

enum { PREFIX = 64 };

static void *count_allocate(void *user, size_t bytes, size_t alignment)
{
    counter *c = user;
    if (c->calls >= c->limit) return NULL;
    c->calls++;
    size_t total = (bytes + PREFIX + alignment - 1) / alignment * alignment;
    unsigned char *block = aligned_alloc(alignment, total);
    if (!block) return NULL;
    memset(block, 0xee, total);
    memcpy(block, &bytes, sizeof bytes);
    c->live_bytes += (int64_t)bytes;
    return block + PREFIX;
}

static void count_free(void *user, void *pointer, size_t bytes)
{
    counter *c = user;
    unsigned char *block = (unsigned char *)pointer - PREFIX;
    size_t given;
    memcpy(&given, block, sizeof given);
    if (given != bytes) c->mismatch = true;
    c->live_bytes -= (int64_t)given;
    free(block);
}

static counter counted;

static int install(void **state)
{
    (void)state;
    counted = (counter){.limit = 1000000};
    tw_allocator allocator = {count_allocate, count_free, &counted};
    return tw_set_allocator(&allocator) == TW_OK ? 0 : -1;
}

static int uninstall(void **state)
{
    (void)state;
    tw_set_allocator(NULL);
    return counted.live_bytes == 0 && !counted.mismatch ? 0 : -1;
}

static bool all_zero(const void *memory, size_t n)
{
    const unsigned char *bytes = memory;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != 0) return false;
    }
    return true;
}

static bool aligned_to(const void *pointer, uintptr_t alignment)
{
    return (uintptr_t)pointer % alignment == 0;
}

static void malloc_is_aligned(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 300; bytes += 7) {
        char *pointer = tw_malloc(bytes);
        assert_non_null(pointer);
        assert_true(aligned_to(pointer, TW_ALIGNMENT));
        memset(pointer, 1, bytes);
        tw_free(pointer);
    }
    tw_free(NULL);
    assert_null(tw_malloc(SIZE_MAX));
    assert_null(tw_malloc(SIZE_MAX - TW_ALIGNMENT));
}

/* A block goes back to the allocator that gave it. */
static void allocator_may_change(void **state)
{
    (void)state;
    void *pointer = tw_malloc(100);
    assert_true(counted.live_bytes >= 100);
    assert_int_equal(tw_set_allocator(NULL), TW_OK);
    void *other = tw_malloc(100);
    tw_free(pointer);
    assert_int_equal(counted.live_bytes, 0);
    install(NULL);
    tw_free(other);
    tw_allocator half = {count_allocate, NULL, NULL};
    assert_int_equal(tw_set_allocator(&half), TW_INVALID_ARGUMENT);
    assert_non_null(strstr(tw_last_error(), "free"));
}

static void calloc_zeroes(void **state)
{
    (void)state;
    void *pointer;
    assert_int_equal(tw_calloc(1000, 3, &pointer), TW_OK);
    assert_true(all_zero(pointer, 3000));
    tw_free(pointer);
    assert_int_equal(tw_calloc(0, 8, &pointer), TW_OK);
    tw_free(pointer);
    pointer = &counted;
    assert_int_equal(tw_calloc(INT64_MAX, 2, &pointer), TW_OUT_OF_MEMORY);
    assert_int_equal(tw_calloc(INT64_MAX / 4, 8, &pointer), TW_OUT_OF_MEMORY);
    assert_int_equal(tw_calloc(-1, 8, &pointer), TW_OUT_OF_MEMORY);
    counted.limit = 0;
    assert_int_equal(tw_calloc(77, 1, &pointer), TW_OUT_OF_MEMORY);
    assert_non_null(strstr(tw_last_error(), "77"));
    assert_ptr_equal(pointer, &counted);
}

static void grow_keeps_and_zeroes(void **state)
{
    (void)state;
    void *pointer = NULL;
    int64_t capacity = 0;
    for (int64_t n = 1; n <= 500; n++) {
        assert_int_equal(tw_grow(&pointer, &capacity, n, sizeof(int64_t)), TW_OK);
        assert_true(capacity >= n);
        int64_t *figures = pointer;
        assert_true(figures[n - 1] == 0);
        figures[n - 1] = n;
        for (int64_t i = 0; i < n; i++) assert_true(figures[i] == i + 1);
    }
    assert_true(counted.calls < 12); /* doubles */
    void *before = pointer;
    int64_t capacity_before = capacity;
    assert_int_equal(tw_grow(&pointer, &capacity, INT64_MAX, 8), TW_OUT_OF_MEMORY);
    assert_ptr_equal(pointer, before);
    assert_true(capacity == capacity_before && ((int64_t *)pointer)[499] == 500);
    tw_free(pointer);
}

static void arena_serves(void **state)
{
    (void)state;
    tw_arena arena = {0};
    const int64_t sizes[] = {1, 16, 17, 255, 256, 5000, 300000, 0, 4096};
    unsigned char *given[9][20];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 9; i++) {
            void *pointer;
            assert_int_equal(tw_arena_alloc(&arena, sizes[i], 1, &pointer), TW_OK);
            assert_true(aligned_to(pointer, sizes[i] >= 256 ? 64 : 16));
            assert_true(all_zero(pointer, (size_t)sizes[i]));
            memset(pointer, 9 * round + i + 1, (size_t)sizes[i]);
            given[i][round] = pointer;
        }
    }
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 9; i++) {
            for (int64_t k = 0; k < sizes[i]; k++) {
                assert_int_equal(given[i][round][k], 9 * round + i + 1);
            }
        }
    }
    const char *copy;
    assert_int_equal(tw_arena_string(&arena, "weights", &copy), TW_OK);
    assert_string_equal(copy, "weights");
    void *pointer;
    assert_int_equal(tw_arena_alloc(&arena, INT64_MAX, 1, &pointer), TW_OUT_OF_MEMORY);
    assert_int_equal(tw_arena_alloc(&arena, INT64_MAX / 2, 16, &pointer), TW_OUT_OF_MEMORY);
    assert_true(arena.bytes > 20 * 300000 && arena.bytes <= counted.live_bytes);
    tw_arena_free(&arena);
    assert_true(arena.bytes == 0 && arena.head == NULL);
    assert_int_equal(counted.live_bytes, 0);
}

/* Each refusal in turn leaves an arena that can be freed and used on. */
static void arena_survives_refusals(void **state)
{
    (void)state;
    for (int limit = 0; limit < 6; limit++) {
        counted.calls = 0;
        counted.limit = limit;
        tw_arena arena = {0};
        void *pointer;
        tw_status status = TW_OK;
        for (int i = 0; i < 300 && status == TW_OK; i++) {
            status = tw_arena_alloc(&arena, 100, 8, &pointer);
        }
        assert_int_equal(status, TW_OUT_OF_MEMORY);
        counted.limit = 1000;
        assert_int_equal(tw_arena_alloc(&arena, 100, 8, &pointer), TW_OK);
        tw_arena_free(&arena);
        assert_int_equal(counted.live_bytes, 0);
    }
}

static void arithmetic(void **state)
{
    (void)state;
    int64_t result = 5;
    assert_true(tw_mul_i64(INT64_MAX, 1, &result) && result == INT64_MAX);
    assert_true(tw_mul_i64(0, INT64_MAX, &result) && result == 0);
    assert_true(tw_mul_i64(INT64_C(3037000499), INT64_C(3037000499), &result));
    assert_false(tw_mul_i64(INT64_C(3037000500), INT64_C(3037000500), &result));
    assert_false(tw_mul_i64(INT64_C(1) << 62, 2, &result));
    assert_false(tw_mul_i64(-1, 2, &result));
    assert_true(tw_add_i64(INT64_MAX - 1, 1, &result) && result == INT64_MAX);
    assert_false(tw_add_i64(INT64_MAX, 1, &result));
    assert_false(tw_add_i64(-1, 1, &result));
}

/* No two of many similar keys collide, and each input bit flips about half of the output. */
static void hash_spreads(void **state)
{
    (void)state;
    enum { BYTES = 53 };
    unsigned char key[BYTES] = {0};
    uint64_t base = tw_hash(1, key, BYTES), flips = 0, lengths[BYTES];
    assert_true(tw_hash(1, key, BYTES) == base && tw_hash(2, key, BYTES) != base);
    for (int bit = 0; bit < 8 * BYTES; bit++) {
        key[bit / 8] ^= (unsigned char)(1 << bit % 8);
        uint64_t changed = tw_hash(1, key, BYTES) ^ base;
        key[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(changed != 0);
        for (; changed; changed &= changed - 1) flips++;
    }
    uint64_t mean = flips / (8 * BYTES); /* of 64 bits; 32 is ideal, 0.2 its deviation */
    assert_in_range(mean, 30, 33);
    for (size_t n = 0; n < BYTES; n++) {
        lengths[n] = tw_hash(0, key, n);
        for (size_t m = 0; m < n; m++) assert_true(lengths[m] != lengths[n]);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, install, uninstall)
    const struct CMUnitTest tests[] = {
        TEST(malloc_is_aligned), TEST(allocator_may_change),
        TEST(calloc_zeroes),     TEST(grow_keeps_and_zeroes),
        TEST(arena_serves),      TEST(arena_survives_refusals),
        TEST(arithmetic),        TEST(hash_spreads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
