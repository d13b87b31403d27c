/* SPDX-License-Identifier: Apache-2.0 */
/* Simple calls: errors, what threads remember, the plan cache, and memory that runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/os.h"
#include <tilework/tilework.h>

#define OK(call) check_ok((call), #call, __LINE__)
#define D(...) ((int64_t[]){__VA_ARGS__})

static void check_ok(tw_status status, const char *what, int line)
{
    if (status == TW_OK) return;
    print_error("line %d: %s: %s: %s\n", line, what, tw_status_name(status), tw_last_error());
    fail();
}

/* ---- Memory that can run out ----------------------------------------------------------------- */

static atomic_llong allowed = -1; /* allocations that still succeed; -1: all */
static atomic_llong blocks;

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (allowed == 0) return NULL;
    if (allowed > 0) allowed--;
    void *pointer = tw_os_aligned_alloc(bytes, alignment);
    if (pointer) blocks++;
    return pointer;
}

static void give_back(void *user, void *pointer, size_t bytes)
{
    (void)user, (void)bytes;
    blocks--;
    tw_os_aligned_free(pointer);
}

static int hook_memory(void **state)
{
    (void)state;
    tw_allocator allocator = {.allocate = allocate, .free = give_back};
    return tw_set_allocator(&allocator) == TW_OK ? 0 : -1;
}

/* ---- Additions of n elements ----------------------------------------------------------------- */

enum { MOST = 2048 };

static tw_status add(int64_t n, float *y, const tw_call_options *options)
{
    static float ones[MOST];
    static const tw_pointwise_attrs attrs = {
        .mode = TW_PW_LINEAR, .alpha = 1, .beta = 3, .has_alpha = true, .has_beta = true};
    tw_tensor_desc desc = tw_desc(TW_F32, 1, &n);
    return tw_pointwise(&(tw_pointwise_call){
        .options = options, .a = {&desc, ones}, .y = {&desc, y}, .attrs = &attrs});
}

static bool all_three(int64_t n, const float *y)
{
    for (int64_t i = 0; i < n; i++)
        if (y[i] != 3) return false;
    return true;
}

static int64_t look_ups(void)
{
    tw_plan_cache_stats stats = {.size = sizeof stats};
    OK(tw_plan_cache_describe(&stats));
    return stats.hits + stats.misses;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void expect(tw_status got, tw_status want, const char *word)
{
    if (got == want && strstr(tw_last_error(), word)) return;
    print_error("%s, \"%s\"; expected %s with \"%s\"\n", tw_status_name(got), tw_last_error(),
                tw_status_name(want), word);
    fail();
}

#define BAD(call, word) expect((call), TW_INVALID_ARGUMENT, (word))

static void errors_of_operands(void **state)
{
    (void)state;
    float x[12] = {0}, y[12];
    tw_tensor_desc desc = tw_desc(TW_F32, 1, D(6)), other = tw_desc(TW_F32, 1, D(5));
    tw_pointwise_call call = {.a = {&desc, x},
                              .b = {&desc, x},
                              .y = {&desc, y},
                              .attrs = &(tw_pointwise_attrs){.mode = TW_PW_ADD}};
    BAD(tw_pointwise(NULL), "call is NULL");
    call.a.desc = NULL;
    BAD(tw_pointwise(&call), "a.desc is NULL");
    call.a.desc = &other;
    BAD(tw_pointwise(&call), "6");
    call.a.desc = &desc;
    for (int round = 0; round < 2; round++) { /* with the plan unknown, then known */
        call.y.data = NULL;
        BAD(tw_pointwise(&call), "y.data is NULL");
        call.y.data = (char *)y + 1;
        BAD(tw_pointwise(&call), "y.data");
        call.y.data = x + 1;
        BAD(tw_pointwise(&call), "overlap");
        call.y.data = y;
        OK(tw_pointwise(&call));
    }
    desc.rank = 9;
    BAD(tw_pointwise(&call), "a.desc->rank is 9");
    desc.rank = -1;
    BAD(tw_pointwise(&call), "a.desc->rank is -1");
    desc.rank = 1;
    desc.flags = TW_TENSOR_VIRTUAL;
    BAD(tw_pointwise(&call), "a.desc->flags");
    desc.flags = 0;
    desc.ragged_offsets = 1;
    BAD(tw_pointwise(&call), "a.desc->ragged_offsets is 1");
    desc.ragged_offsets = TW_NONE;
    OK(tw_pointwise(&call));
}

static void errors_of_structs(void **state)
{
    (void)state;
    float x[6] = {0}, y[6];
    char room[64 + 64];
    tw_tensor_desc desc = tw_desc(TW_F32, 2, D(2, 3));
    tw_softmax_attrs attrs = {.size = 4};
    tw_call_options options = {.size = 1};
    tw_softmax_call call = {.size = 8, .x = {&desc, x}, .y = {&desc, y}};
    BAD(tw_softmax_forward(&call), "call->size is 8");
    call.size = sizeof call;
    call.attrs = &attrs;
    BAD(tw_softmax_forward(&call), "attrs->size is 4");
    call.attrs = NULL;
    call.options = &options;
    BAD(tw_softmax_forward(&call), "options->size is 1");
    options = (tw_call_options){.workspace_bytes = -1};
    BAD(tw_softmax_forward(&call), "options->workspace_bytes is -1");
    options = (tw_call_options){.workspace_bytes = 64};
    BAD(tw_softmax_forward(&call), "options->workspace is NULL");
    options = (tw_call_options){.workspace = room, .workspace_bytes = 64};
    OK(tw_softmax_forward(&call));
}

/* A value between of another type than y's has nowhere to be; the sentence names what it needs. */
static void workspace_too_small(void **state)
{
    (void)state;
    int8_t x[32] = {0}, w[36] = {0};
    float bias[4] = {0};
    uint16_t y[32];
    tw_tensor_desc xd = tw_desc(TW_BF16, 4, D(1, 1, 2, 2)), wd = tw_desc(TW_BF16, 4, D(4, 1, 1, 1));
    tw_tensor_desc bd = tw_desc(TW_F32, 1, D(4)), yd = tw_desc(TW_BF16, 4, D(1, 4, 2, 2));
    _Alignas(64) char room[4096];
    int64_t bytes = 0;
    tw_call_options options = {.query = &bytes};
    tw_conv_call call = {
        .options = &options, .x = {&xd, x}, .w = {&wd, w}, .bias = {&bd, bias}, .y = {&yd, y}};
    OK(tw_conv_forward(&call));
    if (bytes == 0) return; /* a kernel took all in one */
    options = (tw_call_options){.workspace = NULL};
    expect(tw_conv_forward(&call), TW_WORKSPACE_TOO_SMALL, "at least");
    assert_true(bytes <= (int64_t)sizeof room);
    options = (tw_call_options){.workspace = room, .workspace_bytes = bytes};
    OK(tw_conv_forward(&call));
    bd.dims[0] = 3;
    BAD(tw_conv_forward(&call), "bias");
}

/* ---- What is remembered ---------------------------------------------------------------------- */

static void later_calls_look_nothing_up(void **state)
{
    (void)state;
    float y[MOST];
    for (int64_t n = 1; n <= 100; n++) OK(add(n, y, NULL));
    int64_t before = look_ups();
    OK(add(100, y, NULL));
    assert_true(look_ups() == before);
    tw_plan_cache_clear();
    before = look_ups();
    for (int round = 0; round < 3; round++) OK(add(100, y, NULL));
    assert_true(look_ups() == before + 1);
    tw_plan_cache_limit(64 << 20);
    OK(add(100, y, NULL));
    assert_true(look_ups() == before + 2);
}

/* More problems than a thread remembers. */
static void many_problems(void **state)
{
    (void)state;
    float y[MOST];
    for (int round = 0; round < 2; round++)
        for (int64_t n = 1; n <= 600; n++) {
            memset(y, 0, sizeof y);
            OK(add(n, y, NULL));
            assert_true(all_three(n, y) && y[n] == 0);
        }
}

static void plan_for_the_caller(void **state)
{
    (void)state;
    float x[3] = {1, 2, 3}, y[3] = {0};
    tw_plan *plan = NULL;
    tw_tensor_desc desc = tw_desc(TW_F32, 1, D(3));
    tw_call_options options = {.plan = &plan};
    tw_pointwise_call call = {.options = &options,
                              .a = {&desc, NULL},
                              .b = {&desc, NULL},
                              .y = {&desc, NULL},
                              .attrs = &(tw_pointwise_attrs){.mode = TW_PW_MUL}};
    OK(tw_pointwise(&call));
    tw_binding bindings[] = {
        {TW_CALL_UID, x}, {TW_CALL_UID + 1, x}, {TW_CALL_UID + 3, y}}; /* no c */
    tw_plan_cache_clear();
    OK(tw_run(plan, NULL, 3, bindings, NULL, 0));
    assert_true(y[0] == 1 && y[1] == 4 && y[2] == 9);
    tw_plan_free(plan);
}

/* Padding of attribute structs is no part of the problem. */
static void padding_is_no_difference(void **state)
{
    (void)state;
    float x[4] = {1, -2, 3, -4}, y[4];
    tw_tensor_desc desc = tw_desc(TW_F32, 1, D(4));
    int64_t before = 0;
    for (int fill = 0; fill < 256; fill += 85) {
        tw_pointwise_attrs attrs;
        memset(&attrs, fill, sizeof attrs);
        attrs.size = 0;
        attrs.mode = TW_PW_RELU;
        attrs.alpha = attrs.beta = 0;
        attrs.has_alpha = attrs.has_beta = false;
        attrs.axis = 0;
        attrs.compute = TW_AUTO;
        attrs.convert = 0;
        OK(tw_pointwise(&(tw_pointwise_call){.a = {&desc, x}, .y = {&desc, y}, .attrs = &attrs}));
        if (fill == 0) before = look_ups();
    }
    assert_true(look_ups() == before);
}

/* ---- Threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 300 };

typedef struct worker {
    tw_context *context;
    bool clears; /* the cache, again and again */
    bool failed;
} worker;

static void work(void *arg)
{
    worker *w = arg;
    tw_call_options options = {.context = w->context};
    float y[MOST];
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = 1 + round % 37;
        memset(y, 0, (size_t)n * sizeof *y);
        if (add(n, y, &options) != TW_OK || !all_three(n, y)) w->failed = true;
        if (w->clears && round % 16 == 0) tw_plan_cache_clear();
    }
}

static void threads_share_and_clear(void **state)
{
    (void)state;
    tw_context *context;
    tw_thread *threads[THREADS];
    worker workers[THREADS];
    tw_calls_forget();
    OK(tw_context_create(&(tw_context_options){.threads = 2}, &context));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.context = i % 2 ? context : NULL, .clears = i == 0};
        OK(tw_os_thread_start(work, &workers[i], &threads[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        tw_os_thread_join(threads[i]);
        assert_false(workers[i].failed);
    }
    tw_context_free(context);
    tw_plan_cache_clear();
    assert_true(blocks == 0); /* ended threads gave everything back */
}

/* A parallel-for that makes calls of its own while one runs on this thread. */
static void calls_inside(void *user, int64_t n, tw_task task, void *arg)
{
    float y[64];
    bool *failed = user;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 1; k <= 64; k++)
            if (add(k, y, NULL) != TW_OK) *failed = true;
        tw_plan_cache_clear();
        tw_calls_forget();
        task(arg, i);
    }
}

static void calls_inside_calls(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    bool failed = false;
    float *x = tw_malloc(N * sizeof *x), *y = tw_malloc(N * sizeof *y);
    assert_true(x && y);
    memset(x, 0, N * sizeof *x);
    tw_context *context;
    OK(tw_context_create(
        &(tw_context_options){.threads = 2, .parallel_for = calls_inside, .parallel_user = &failed},
        &context));
    tw_call_options options = {.context = context};
    tw_tensor_desc desc = tw_desc(TW_F32, 1, D(N));
    tw_pointwise_call call = {.options = &options,
                              .a = {&desc, x},
                              .y = {&desc, y},
                              .attrs = &(tw_pointwise_attrs){.mode = TW_PW_EXP}};
    for (int round = 0; round < 2; round++) {
        memset(y, 0, N * sizeof *y);
        OK(tw_pointwise(&call));
        for (int64_t i = 0; i < N; i++) assert_true(y[i] == 1);
    }
    assert_false(failed);
    tw_context_free(context);
    tw_free(x);
    tw_free(y);
}

/* ---- Memory that runs out -------------------------------------------------------------------- */

static void failing_allocations(void **state)
{
    (void)state;
    float y[MOST];
    int64_t failures = 0, n = 1000;
    for (int64_t limit = 0;; limit++) {
        tw_plan_cache_clear();
        tw_calls_forget();
        allowed = limit;
        tw_status status = add(n, y, NULL);
        tw_status again = status == TW_OK ? add(n, y, NULL) : TW_OK;
        bool enough = allowed > 0;
        allowed = -1;
        assert_true(status == TW_OK || status == TW_OUT_OF_MEMORY);
        assert_true(again == TW_OK || again == TW_OUT_OF_MEMORY);
        failures += status != TW_OK;
        OK(add(n, y, NULL));
        assert_true(all_three(n, y));
        if (enough) break;
    }
    assert_true(failures > 0);
    tw_plan_cache_clear();
    tw_calls_forget();
    assert_true(blocks == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_of_operands),
                                       cmocka_unit_test(errors_of_structs),
                                       cmocka_unit_test(workspace_too_small),
                                       cmocka_unit_test(later_calls_look_nothing_up),
                                       cmocka_unit_test(many_problems),
                                       cmocka_unit_test(plan_for_the_caller),
                                       cmocka_unit_test(padding_is_no_difference),
                                       cmocka_unit_test(threads_share_and_clear),
                                       cmocka_unit_test(calls_inside_calls),
                                       cmocka_unit_test(failing_allocations)};
    return cmocka_run_group_tests(tests, hook_memory, NULL);
}
