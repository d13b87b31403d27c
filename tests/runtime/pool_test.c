/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts and tw_parallel: every item once, slots, sharing, nesting, forks. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/cpu/fpenv.h"
#include "core/os.h"
#include "runtime/cpu/parallel.h"

#if defined(__SANITIZE_THREAD__)
#    define UNDER_TSAN 1
#elif defined(__has_feature)
#    if __has_feature(thread_sanitizer)
#        define UNDER_TSAN 1
#    endif
#endif

#ifdef UNDER_TSAN
/* The fork test starts threads in a child, which the sanitizer refuses by default. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

enum { MAX_ITEMS = 5000, MAX_SLOTS = 16 };

/* A loop that counts itself. */
typedef struct loop {
    int32_t max_slots;
    _Atomic int32_t runs[MAX_ITEMS];   /* of each item */
    _Atomic int32_t inside[MAX_SLOTS]; /* calls that run under each slot at this moment */
    _Atomic int32_t faults;
    int64_t by_slot[MAX_SLOTS]; /* deliberately not atomic: a shared slot is a race */
    tw_context *nested;
} loop;

static void count_item(void *arg, int32_t slot, int64_t item)
{
    loop *l = arg;
    if (slot < 0 || slot >= l->max_slots) {
        atomic_fetch_add(&l->faults, 1);
        return;
    }
    if (atomic_fetch_add(&l->inside[slot], 1) != 0) atomic_fetch_add(&l->faults, 1);
    l->by_slot[slot]++;
    atomic_fetch_add(&l->runs[item], 1);
    if (item % 7 == 0) {
        for (int i = 0; i < 20; i++) tw_os_pause();
    }
    atomic_fetch_sub(&l->inside[slot], 1);
}

/* Runs a loop in `l` and returns how many things were wrong with it. */
static int faults_in(loop *l, tw_context *context, int32_t max_slots, int64_t n)
{
    memset(l, 0, sizeof *l);
    l->max_slots = max_slots;
    tw_parallel(context, max_slots, n, count_item, l);
    int faults = atomic_load(&l->faults);
    int64_t total = 0;
    for (int64_t i = 0; i < MAX_ITEMS; i++) faults += atomic_load(&l->runs[i]) != (i < n);
    for (int i = 0; i < MAX_SLOTS; i++) total += l->by_slot[i];
    faults += total != n;
    return faults;
}

static int faults_of_loop(tw_context *context, int32_t max_slots, int64_t n)
{
    loop *l = malloc(sizeof *l);
    if (l == NULL) return 1;
    const int faults = faults_in(l, context, max_slots, n);
    free(l);
    return faults;
}

static void check_loop(tw_context *context, int32_t max_slots, int64_t n)
{
    const int faults = faults_of_loop(context, max_slots, n);
    if (faults == 0) return;
    fail_msg("%d faults with %d threads, %d slots, %lld items", faults, tw_context_threads(context),
             max_slots, (long long)n);
}

static tw_context *create(int32_t threads)
{
    const tw_context_options options = {.size = sizeof options, .threads = threads};
    tw_context *context = NULL;
    assert_int_equal(tw_context_create(&options, &context), TW_OK);
    assert_non_null(context);
    assert_int_equal(tw_context_threads(context), threads);
    return context;
}

static void every_item_runs_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 1000, MAX_ITEMS};
    for (int32_t threads = 1; threads <= 9; threads += threads < 4 ? 1 : 5) {
        tw_context *context = create(threads);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            for (int32_t slots = 1; slots <= MAX_SLOTS; slots += 3) {
                for (int again = 0; again < 3; again++) check_loop(context, slots, sizes[i]);
            }
        }
        tw_context_free(context);
    }
}

/* More jobs than the pool's job number can count before it comes back. */
static void many_small_loops(void **state)
{
    (void)state;
    tw_context *context = create(3);
    for (int64_t i = 0; i < 1500; i++) check_loop(context, 3, i % 5);
    tw_context_free(context);
}

static void all_threads_take_part(void **state)
{
    (void)state;
    tw_context *context = create(2);
    bool shared = false;
    for (int attempt = 0; attempt < 1000 && !shared; attempt++) {
        loop *l = calloc(1, sizeof *l);
        assert_non_null(l);
        l->max_slots = 2;
        tw_parallel(context, 2, MAX_ITEMS, count_item, l);
        shared = l->by_slot[0] > 0 && l->by_slot[1] > 0;
        free(l);
    }
    assert_true(shared);
    tw_context_free(context);
}

static void no_context_runs_on_the_caller(void **state)
{
    (void)state;
    assert_int_equal(tw_context_threads(NULL), 1);
    check_loop(NULL, 1, 1000);
    check_loop(NULL, 8, 1000);
    tw_context_free(NULL);
}

/* ---- Sharing and nesting --------------------------------------------------------------------- */

typedef struct sharer {
    tw_context *context;
    int faults;
} sharer;

static void share_context(void *arg)
{
    sharer *s = arg;
    for (int64_t i = 0; i < 300; i++) s->faults += faults_of_loop(s->context, 3, i);
}

static void two_threads_share_a_context(void **state)
{
    (void)state;
    tw_context *context = create(3);
    sharer other = {.context = context}, mine = {.context = context};
    tw_thread *thread = NULL;
    assert_int_equal(tw_os_thread_start(share_context, &other, &thread), TW_OK);
    share_context(&mine);
    tw_os_thread_join(thread);
    assert_int_equal(mine.faults, 0);
    assert_int_equal(other.faults, 0);
    tw_context_free(context);
}

static void run_inner_loop(void *arg, int32_t slot, int64_t item)
{
    loop *l = arg;
    count_item(l, slot, item);
    const int faults = faults_of_loop(l->nested, 1 + (int32_t)(item % 4), 20);
    atomic_fetch_add(&l->faults, faults);
}

static void check_nested(tw_context *outer, tw_context *inner)
{
    loop *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->max_slots = 4;
    l->nested = inner;
    tw_parallel(outer, 4, 200, run_inner_loop, l);
    assert_int_equal(atomic_load(&l->faults), 0);
    for (int i = 0; i < 200; i++) assert_int_equal(atomic_load(&l->runs[i]), 1);
    free(l);
}

static void loops_nest(void **state)
{
    (void)state;
    tw_context *first = create(3), *second = create(2);
    check_nested(first, first);
    check_nested(first, second);
    check_nested(first, NULL);
    check_nested(NULL, first);
    tw_context_free(first);
    tw_context_free(second);
}

/* ---- The caller's own parallel-for ----------------------------------------------------------- */

typedef struct own_loop {
    int64_t largest; /* n that it was called with */
    int calls;
} own_loop;

typedef struct own_part {
    tw_task task;
    void *arg;
    int64_t index;
} own_part;

static void run_part(void *arg)
{
    own_part *part = arg;
    part->task(part->arg, part->index);
}

static void own_parallel_for(void *user, int64_t n, tw_task task, void *arg)
{
    own_loop *own = user;
    own->calls++;
    if (n > own->largest) own->largest = n;
    tw_thread *threads[MAX_SLOTS] = {0};
    own_part parts[MAX_SLOTS];
    for (int64_t i = 0; i < n && i < MAX_SLOTS; i++) {
        parts[i] = (own_part){task, arg, i};
        if (tw_os_thread_start(run_part, &parts[i], &threads[i]) != TW_OK) run_part(&parts[i]);
    }
    for (int64_t i = 0; i < n && i < MAX_SLOTS; i++) tw_os_thread_join(threads[i]);
}

static void callers_parallel_for(void **state)
{
    (void)state;
    own_loop own = {0};
    const tw_context_options options = {
        .threads = 4, .parallel_for = own_parallel_for, .parallel_user = &own};
    tw_context *context = NULL;
    assert_int_equal(tw_context_create(&options, &context), TW_OK);
    assert_int_equal(tw_context_threads(context), 4);
    for (int32_t slots = 1; slots <= 8; slots++) check_loop(context, slots, 500);
    assert_int_equal(own.largest, 4);
    assert_int_equal(own.calls, 7);
    check_nested(context, context);
    tw_context_free(context);
}

/* ---- Floating-point environment -------------------------------------------------------------- */

typedef struct env_check {
    uint64_t want;
    _Atomic int32_t wrong;
} env_check;

static void check_environment(void *arg, int32_t slot, int64_t item)
{
    (void)slot;
    (void)item;
    env_check *check = arg;
    if (tw_fpenv_get() != check->want) atomic_fetch_add(&check->wrong, 1);
    for (int i = 0; i < 50; i++) tw_os_pause();
}

static void workers_have_the_callers_environment(void **state)
{
    (void)state;
    tw_context *context = create(3);
    const uint64_t mine = tw_fpenv_get();
    for (int i = 0; i < 20; i++) {
        env_check check = {.want = tw_fpenv_for(i % 2 == 1)};
        const uint64_t before = tw_fpenv_swap(check.want);
        tw_parallel(context, 3, 200, check_environment, &check);
        tw_fpenv_set(before);
        assert_int_equal(atomic_load(&check.wrong), 0);
    }
    assert_true(tw_fpenv_get() == mine);
    tw_context_free(context);
}

static void flush_mode_flushes(void **state)
{
    (void)state;
    if (TW_FPENV_FLUSH == 0) skip();
    volatile float smallest = 1.17549435e-38f, half = 0.5f;
    volatile float product = smallest * half;
    assert_true(product > 0.0f);
    const uint64_t before = tw_fpenv_swap(tw_fpenv_for(true));
    product = smallest * half;
    tw_fpenv_set(before);
    assert_true(product == 0.0f);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void *do_nothing(void *arg) { return arg; }

/* Lives until the pipe's other end is closed. */
static void *read_pipe(void *end)
{
    char byte;
    return read(*(const int *)end, &byte, 1) == 0 ? NULL : end;
}

static bool child_starts_a_thread(void)
{
    const pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        alarm(60);
        const int error = pthread_create(&thread, NULL, do_nothing, NULL);
        if (error == 0) pthread_join(thread, NULL);
        _exit(error != 0);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Children of a process with threads may start some: emulators of another processor fail here, and
 * this asks without any code of the library. */
static bool host_starts_threads_in_children(void)
{
    int ends[2];
    pthread_t thread;
    if (pipe(ends) != 0) return false;
    const bool started = pthread_create(&thread, NULL, read_pipe, &ends[0]) == 0;
    const bool answer = started && child_starts_a_thread();
    close(ends[1]);
    if (started) pthread_join(thread, NULL);
    close(ends[0]);
    return answer;
}

/* The child's exit status is the number of faults, 200 at most. */
static int faults_in_child(tw_context *context)
{
    const pid_t child = fork();
    if (child == 0) {
        alarm(60); /* a deadlock ends as a signal */
        int faults = 0;
        for (int i = 0; i < 20; i++) faults += faults_of_loop(context, 3, 100);
        tw_context_free(context);
        _exit(faults < 200 ? faults : 200);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void forked_children_use_the_context(void **state)
{
    (void)state;
#if defined(UNDER_TSAN) && !defined(__clang__)
    skip(); /* GCC's runtime takes a child's thread for one of the parent's, and ends the child */
#endif
    if (!host_starts_threads_in_children()) skip();
    tw_context *context = create(3);
    for (int i = 0; i < 30; i++) {
        check_loop(context, 3, 100);
        assert_int_equal(faults_in_child(context), 0);
    }
    check_loop(context, 3, 1000);
    tw_context_free(context);
}

typedef struct background {
    tw_context *context;
    _Atomic bool stop;
    int faults;
    loop l;
} background;

/* Allocates nothing: some sanitizers' allocators do not survive a fork in the middle of a call. */
static void loop_until_stopped(void *arg)
{
    background *b = arg;
    while (!atomic_load(&b->stop)) b->faults += faults_in(&b->l, b->context, 3, 300);
}

static void fork_while_another_thread_has_the_pool(void **state)
{
    (void)state;
#ifdef UNDER_TSAN
    skip(); /* the sanitizer's own locks do not survive such a fork */
#endif
    if (!host_starts_threads_in_children()) skip();
    static background other;
    other.context = create(3);
    tw_thread *thread = NULL;
    assert_int_equal(tw_os_thread_start(loop_until_stopped, &other, &thread), TW_OK);
    int faults = 0;
    for (int i = 0; i < 30; i++) faults += faults_in_child(other.context);
    atomic_store(&other.stop, true);
    tw_os_thread_join(thread);
    assert_int_equal(faults, 0);
    assert_int_equal(other.faults, 0);
    tw_context_free(other.context);
}

/* ---- Creation -------------------------------------------------------------------------------- */

static void create_and_free_often(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        tw_context *context = create(1 + i % 4);
        if (i % 2 == 0) check_loop(context, 4, 10);
        tw_context_free(context);
    }
}

static void check_refused(const tw_context_options *options, const char *argument)
{
    tw_context *context = NULL;
    assert_int_equal(tw_context_create(options, &context), TW_INVALID_ARGUMENT);
    assert_null(context);
    assert_non_null(strstr(tw_last_error(), argument));
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    check_refused(&(tw_context_options){.threads = -1}, "threads is -1");
    check_refused(&(tw_context_options){.threads = 1025}, "threads is 1025");
    check_refused(&(tw_context_options){.size = 3}, "size is 3");
    assert_int_equal(tw_context_create(NULL, NULL), TW_INVALID_ARGUMENT);
}

static int32_t default_threads(void)
{
    tw_context *context = NULL;
    assert_int_equal(tw_context_create(NULL, &context), TW_OK);
    const int32_t threads = tw_context_threads(context);
    tw_context_free(context);
    return threads;
}

static void environment_sets_the_default(void **state)
{
    (void)state;
    const char *given = getenv("TW_THREADS");
    char *before = given != NULL ? strdup(given) : NULL;
    setenv("TW_THREADS", "3", 1);
    assert_int_equal(default_threads(), 3);
    static const char *const nonsense[] = {
        "", "0", "-2", "many", "4x", "1025", "99999999999999999999"};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        setenv("TW_THREADS", nonsense[i], 1);
        assert_int_equal(default_threads(), tw_os_cpu_count());
    }
    unsetenv("TW_THREADS");
    if (before != NULL) setenv("TW_THREADS", before, 1);
    free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_runs_once),
        cmocka_unit_test(many_small_loops),
        cmocka_unit_test(all_threads_take_part),
        cmocka_unit_test(no_context_runs_on_the_caller),
        cmocka_unit_test(two_threads_share_a_context),
        cmocka_unit_test(loops_nest),
        cmocka_unit_test(callers_parallel_for),
        cmocka_unit_test(workers_have_the_callers_environment),
        cmocka_unit_test(flush_mode_flushes),
        cmocka_unit_test(forked_children_use_the_context),
        cmocka_unit_test(fork_while_another_thread_has_the_pool),
        cmocka_unit_test(create_and_free_often),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(environment_sets_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
