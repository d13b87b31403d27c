/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX, with Linux's own calls where they serve better. */
#define _GNU_SOURCE /* sched_getaffinity and CPU_COUNT_S */

#include "core/os.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#    include <linux/futex.h>
#    include <sys/syscall.h>
#endif

#include "core/alloc.h"
#include "core/error.h"

/* ---- Memory and time ------------------------------------------------------------------------- */

void *tw_os_aligned_alloc(size_t bytes, size_t alignment)
{
    void *pointer = NULL;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    return posix_memalign(&pointer, alignment, bytes) == 0 ? pointer : NULL;
}

void tw_os_aligned_free(void *pointer) { free(pointer); }

int64_t tw_os_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t tw_os_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (int64_t)pages * page_bytes : 0;
}

/* ---- Processors and caches ------------------------------------------------------------------- */

/* The first line of a small system file, without its newline. */
static bool read_line(const char *path, char *line, size_t n)
{
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool read = fgets(line, (int)n, file) != NULL;
    fclose(file);
    if (read) line[strcspn(line, "\n")] = '\0';
    return read;
}

#ifdef __linux__

static int affinity_count(void)
{
    cpu_set_t sets[8]; /* for 8,192 processors */
    memset(sets, 0, sizeof sets);
    if (sched_getaffinity(0, sizeof sets, sets) != 0) return 0;
    return CPU_COUNT_S(sizeof sets, sets);
}

/* Whole processors that one control group's quota amounts to, rounded up; INT_MAX without one. */
static int quota_of(const char *folder)
{
    char path[PATH_MAX], line[64];
    long long quota, period;
    int length = snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder);
    if (length < 0 || (size_t)length >= sizeof path) return INT_MAX;
    if (!read_line(path, line, sizeof line)) return INT_MAX;
    if (sscanf(line, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) {
        return INT_MAX;
    }
    long long cpus = (quota - 1) / period + 1;
    return cpus < INT_MAX ? (int)cpus : INT_MAX;
}

/* This process's version 2 control group: the line "0::/folder". */
static bool cgroup_folder(char *line, size_t n)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    bool found = false;
    while (file && !found && fgets(line, (int)n, file)) found = strncmp(line, "0::", 3) == 0;
    if (file) fclose(file);
    if (found) line[strcspn(line, "\n")] = '\0';
    return found;
}

/* The least quota of that group and the groups around it. */
static int cgroup_quota(void)
{
    char line[PATH_MAX];
    if (!cgroup_folder(line, sizeof line)) return INT_MAX;
    char *folder = line + 3;
    int least = INT_MAX;
    for (;;) {
        int quota = quota_of(folder);
        if (quota < least) least = quota;
        char *slash = strrchr(folder, '/');
        if (!slash) return least;
        *slash = '\0';
    }
}

#else

static int affinity_count(void) { return 0; }
static int cgroup_quota(void) { return INT_MAX; }

#endif

int tw_os_cpu_count(void)
{
    int cpus = affinity_count();
    if (cpus <= 0) cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = cgroup_quota();
    if (quota < cpus) cpus = quota;
    return cpus > 0 ? cpus : 1;
}

static bool cache_line(int index, const char *what, char *line, size_t n)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, what);
    return read_line(path, line, n);
}

int64_t tw_os_cache_bytes(int level)
{
    char line[32], unit = '\0';
    long long size;
    for (int index = 0; cache_line(index, "level", line, sizeof line); index++) {
        if (atoi(line) != level) continue;
        if (!cache_line(index, "type", line, sizeof line)) continue;
        if (strcmp(line, "Instruction") == 0) continue;
        if (!cache_line(index, "size", line, sizeof line)) continue;
        if (sscanf(line, "%lld%c", &size, &unit) < 1 || size < 0) continue;
        return size * (unit == 'K' ? 1024 : unit == 'M' ? 1048576 : 1);
    }
    return 0;
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static atomic_uint generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void after_fork_in_child(void) { atomic_fetch_add(&generation, 1); }

static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

/* Watching begins with the first call: nobody can compare with an earlier figure. */
uint32_t tw_os_fork_generation(void)
{
    pthread_once(&fork_once, watch_forks);
    return atomic_load(&generation);
}

/* ---- Threads --------------------------------------------------------------------------------- */

struct tw_thread {
    pthread_t handle;
    void (*entry)(void *);
    void *arg;
};

static void *thread_main(void *pointer)
{
    tw_thread *thread = pointer;
    thread->entry(thread->arg);
    return NULL;
}

tw_status tw_os_thread_start(void (*entry)(void *), void *arg, tw_thread **thread)
{
    void *memory;
    TW_TRY(tw_calloc(1, sizeof(tw_thread), &memory));
    tw_thread *started = memory;
    started->entry = entry;
    started->arg = arg;
    /* The host's signals stay on the host's threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&started->handle, NULL, thread_main, started);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        tw_free(started);
        return tw_fail(TW_OUT_OF_MEMORY, "the system refused to start a thread: %s",
                       strerror(error));
    }
    *thread = started;
    return TW_OK;
}

void tw_os_thread_join(tw_thread *thread)
{
    if (!thread) return;
    pthread_join(thread->handle, NULL);
    tw_free(thread);
}

void tw_os_thread_forget(tw_thread *thread) { tw_free(thread); }

/* ---- Ends of threads ------------------------------------------------------------------------- */

static pthread_key_t exit_key;
static bool exit_key_made;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void call_hooks(void *first)
{
    for (tw_thread_exit *hook = first, *next; hook; hook = next) {
        next = hook->next;
        hook->call(hook);
    }
}

static void make_exit_key(void) { exit_key_made = pthread_key_create(&exit_key, call_hooks) == 0; }

/* Threads that outlive an unloaded library must not call into it. */
__attribute__((destructor)) static void delete_exit_key(void)
{
    if (exit_key_made) pthread_key_delete(exit_key);
}

bool tw_os_at_thread_exit(tw_thread_exit *hook)
{
    pthread_once(&exit_once, make_exit_key);
    if (!exit_key_made) return false;
    hook->next = pthread_getspecific(exit_key);
    return pthread_setspecific(exit_key, hook) == 0;
}

void tw_os_cancel_thread_exit(tw_thread_exit *hook)
{
    tw_thread_exit *first = pthread_getspecific(exit_key);
    if (first == hook) pthread_setspecific(exit_key, hook->next);
    for (; first; first = first->next)
        if (first->next == hook) first->next = hook->next;
}

/* ---- Locks and waiting ----------------------------------------------------------------------- */

/* glibc's, musl's and FreeBSD's PTHREAD_MUTEX_INITIALIZER is all zero, so zero is ready. */
_Static_assert(sizeof(pthread_mutex_t) <= sizeof(tw_mutex), "tw_mutex is too small");

void tw_os_lock(tw_mutex *mutex) { pthread_mutex_lock((pthread_mutex_t *)(void *)mutex); }
void tw_os_unlock(tw_mutex *mutex) { pthread_mutex_unlock((pthread_mutex_t *)(void *)mutex); }

#ifdef __linux__

void tw_os_wait(uint32_t *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void tw_os_wake_all(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#else

/* Without futexes: a short sleep, which counts as a spurious wake-up. */
void tw_os_wait(uint32_t *word, uint32_t expected)
{
    struct timespec pause = {0, 100000};
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == expected) nanosleep(&pause, NULL);
}

void tw_os_wake_all(uint32_t *word) { (void)word; }

#endif

void tw_os_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void tw_os_yield(void) { sched_yield(); }
