/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between operating systems. Only os_*.c calls POSIX; Windows gets its own file. */
#ifndef TW_CORE_OS_H
#define TW_CORE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tilework/status.h>

void *tw_os_aligned_alloc(size_t bytes, size_t alignment); /* NULL when exhausted */
void tw_os_aligned_free(void *pointer);
int64_t tw_os_nanoseconds(void); /* a monotonic clock */
int tw_os_cpu_count(void);       /* that this process may run on */
int64_t tw_os_memory_bytes(void);
int64_t tw_os_cache_bytes(int level); /* 1 to 3, data; 0 if unknown */

/* Counts forks of this process's ancestry since load: a changed figure means "in a new child". */
uint32_t tw_os_fork_generation(void);

/* Threads, mutexes, one-time calls. */
typedef struct tw_thread tw_thread;
tw_status tw_os_thread_start(void (*entry)(void *), void *arg, tw_thread **thread);
void tw_os_thread_join(tw_thread *thread);   /* joins and frees */
void tw_os_thread_forget(tw_thread *thread); /* in a forked child: the thread is gone there */

/* Something to do when the calling thread ends; the latest goes first. The program's first thread
 * does nothing of it when the program ends. false: the system has no room. */
typedef struct tw_thread_exit {
    void (*call)(struct tw_thread_exit *self);
    struct tw_thread_exit *next;
} tw_thread_exit;
bool tw_os_at_thread_exit(tw_thread_exit *hook);
void tw_os_cancel_thread_exit(tw_thread_exit *hook); /* on the same thread */

/* Room for the system's own; zero is ready. */
typedef struct tw_mutex {
    void *handle[8];
} tw_mutex;

void tw_os_lock(tw_mutex *mutex);
void tw_os_unlock(tw_mutex *mutex);

/* Sleeps while *word == expected, until woken (spurious wake-ups are possible). */
void tw_os_wait(uint32_t *word, uint32_t expected);
void tw_os_wake_all(uint32_t *word);
void tw_os_pause(void); /* a spin-loop hint */
void tw_os_yield(void);

#endif
