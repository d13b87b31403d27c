/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/os.h"

static void figures(void **state)
{
    (void)state;
    assert_in_range(tw_os_cpu_count(), 1, sysconf(_SC_NPROCESSORS_CONF));
    assert_true(tw_os_memory_bytes() > 1 << 20);
    for (int level = 1; level <= 3; level++) {
        int64_t bytes = tw_os_cache_bytes(level);
        assert_true(bytes == 0 || (bytes >= 1024 && bytes < INT64_C(1) << 34));
    }
    assert_true(tw_os_cache_bytes(9) == 0);
    int64_t last = tw_os_nanoseconds(), first = last;
    for (int i = 0; i < 1000; i++) {
        int64_t now = tw_os_nanoseconds();
        assert_true(now >= last);
        last = now;
    }
    assert_true(last - first < INT64_C(60) * 1000000000);
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        void *pointer = tw_os_aligned_alloc(100, alignment);
        assert_non_null(pointer);
        assert_true((uintptr_t)pointer % alignment == 0);
        memset(pointer, 1, 100);
        tw_os_aligned_free(pointer);
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20000 };

typedef struct shared {
    tw_mutex mutex;
    int64_t sum; /* guarded by mutex */
    uint32_t turn, stop;
} shared;

static void add_many(void *arg)
{
    shared *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        tw_os_lock(&s->mutex);
        s->sum++;
        tw_os_unlock(&s->mutex);
    }
}

static void mutex_excludes(void **state)
{
    (void)state;
    shared s = {0};
    tw_thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(tw_os_thread_start(add_many, &s, &threads[i]), TW_OK);
    }
    for (int i = 0; i < THREADS; i++) tw_os_thread_join(threads[i]);
    assert_true(s.sum == (int64_t)THREADS * ROUNDS);
    tw_os_thread_join(NULL);
}

static uint32_t load(uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

/* ---- Ends of threads ------------------------------------------------------------------------- */

typedef struct leaver {
    tw_thread_exit hooks[3]; /* the last is cancelled */
    bool ready;
} leaver;

static _Atomic int ended;

static void end_first(tw_thread_exit *self) { ended = ended * 10 + (self->next == NULL ? 1 : 9); }
static void end_second(tw_thread_exit *self) { ended = ended * 10 + (self->next != NULL ? 2 : 9); }
static void end_never(tw_thread_exit *self) { ended = self == NULL ? 0 : 99; }

static void leave(void *arg)
{
    leaver *l = arg;
    l->hooks[0].call = end_first;
    l->hooks[1].call = end_second;
    l->hooks[2].call = end_never;
    l->ready = tw_os_at_thread_exit(&l->hooks[0]) && tw_os_at_thread_exit(&l->hooks[2]) &&
               tw_os_at_thread_exit(&l->hooks[1]);
    tw_os_cancel_thread_exit(&l->hooks[2]);
}

static void hooks_at_thread_exit(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        leaver l = {.ready = false};
        tw_thread *thread;
        ended = 0;
        assert_int_equal(tw_os_thread_start(leave, &l, &thread), TW_OK);
        tw_os_thread_join(thread);
        assert_true(l.ready);
        assert_int_equal(ended, 21); /* the latest first */
    }
    leaver l = {.ready = false}; /* cancelled from either end of the list */
    leave(&l);
    tw_os_cancel_thread_exit(&l.hooks[1]);
    tw_os_cancel_thread_exit(&l.hooks[0]);
}

/* Answers each even figure with the next odd one, asleep in between. */
static void answer(void *arg)
{
    shared *s = arg;
    for (uint32_t turn = 0; turn < 2000;) {
        uint32_t seen = load(&s->turn);
        if (seen % 2 == 1 && seen > turn) {
            turn = seen + 1;
            __atomic_store_n(&s->turn, turn, __ATOMIC_RELEASE);
            tw_os_wake_all(&s->turn);
        } else {
            tw_os_wait(&s->turn, seen);
        }
    }
}

static void waiting_and_waking(void **state)
{
    (void)state;
    shared s = {0};
    tw_thread *thread;
    assert_int_equal(tw_os_thread_start(answer, &s, &thread), TW_OK);
    for (uint32_t turn = 1; turn < 2000; turn += 2) {
        __atomic_store_n(&s.turn, turn, __ATOMIC_RELEASE);
        tw_os_wake_all(&s.turn);
        while (load(&s.turn) == turn) tw_os_wait(&s.turn, turn);
        assert_int_equal(load(&s.turn), turn + 1);
    }
    tw_os_thread_join(thread);
    tw_os_wait(&s.turn, 1); /* another value: returns at once */
    tw_os_pause();
    tw_os_yield();
}

static void note_signals(void *arg)
{
    sigset_t *blocked = arg;
    pthread_sigmask(SIG_SETMASK, NULL, blocked);
}

/* Signals of the host are not for our threads; its own mask is as it was. */
static void signals_stay_away(void **state)
{
    (void)state;
    sigset_t blocked, mine;
    tw_thread *thread;
    sigemptyset(&blocked);
    assert_int_equal(tw_os_thread_start(note_signals, &blocked, &thread), TW_OK);
    tw_os_thread_join(thread);
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_int_equal(sigismember(&blocked, SIGINT), 1);
    assert_int_equal(sigismember(&blocked, SIGALRM), 1);
    assert_int_equal(sigismember(&mine, SIGINT), 0);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void sleep_until_stopped(void *arg)
{
    shared *s = arg;
    while (load(&s->stop) == 0) tw_os_wait(&s->stop, 0);
}

static int exit_code(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* In a child the figure has changed, in its child again; old threads are forgotten, new work. */
static int child_main(uint32_t before, tw_thread *thread)
{
    uint32_t now = tw_os_fork_generation();
    if (now == before) return 1;
    tw_os_thread_forget(thread);
    shared s = {0};
    if (tw_os_thread_start(add_many, &s, &thread) != TW_OK) return 2;
    tw_os_thread_join(thread);
    if (s.sum != ROUNDS) return 3;
    pid_t grandchild = fork();
    if (grandchild == 0) _exit(tw_os_fork_generation() != now ? 0 : 1);
    return exit_code(grandchild) == 0 ? 0 : 4;
}

static void forks_are_counted(void **state)
{
    (void)state;
    /* Neither qemu-user nor ThreadSanitizer survives threads in the child of a threaded process. */
    if (getenv("TW_NO_FORKED_THREADS")) skip();
    uint32_t before = tw_os_fork_generation();
    shared s = {0};
    tw_thread *thread;
    assert_int_equal(tw_os_thread_start(sleep_until_stopped, &s, &thread), TW_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(child_main(before, thread));
    assert_int_equal(exit_code(child), 0);
    assert_int_equal(tw_os_fork_generation(), before);
    __atomic_store_n(&s.stop, 1, __ATOMIC_RELEASE);
    tw_os_wake_all(&s.stop);
    tw_os_thread_join(thread);
}

/* ThreadSanitizer's runtime asks: children with threads of their own are what is tested here. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),
        cmocka_unit_test(mutex_excludes),
        cmocka_unit_test(hooks_at_thread_exit),
        cmocka_unit_test(waiting_and_waking),
        cmocka_unit_test(signals_stay_away),
        cmocka_unit_test(forks_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
