/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a context, and the jobs that they share. */
#ifndef TW_RUNTIME_CPU_POOL_H
#define TW_RUNTIME_CPU_POOL_H

#include <stdalign.h>
#include <stdatomic.h>

#include "core/os.h"
#include "runtime/cpu/parallel.h"

enum { TW_MAX_THREADS = 1024 };

/* One parallel loop. It lives on the stack of the thread that asked for it. */
typedef struct tw_job {
    tw_slot_task task;
    void *arg;
    int64_t n;
    uint64_t fpenv; /* the asking thread's, installed wherever a part of the job runs */
    alignas(64) _Atomic int64_t next;
} tw_job;

/* Runs items that nobody has taken yet, until none is left. */
void tw_job_work(tw_job *job, int32_t slot);

/* Whether the calling thread is inside tw_job_work: a loop inside a loop is not spread. */
bool tw_job_active(void);

typedef struct tw_pool {
    int32_t n_workers; /* that could be started */
    int32_t spin_ns;   /* how long a thread spins before it sleeps */
    tw_thread **threads;

    alignas(64) _Atomic uint32_t gate; /* see pool.c */
    tw_job *job;                       /* valid for a worker that has entered through the gate */
    alignas(64) _Atomic uint32_t sleepers; /* workers that may sleep on the gate */
    alignas(64) _Atomic uint32_t finished; /* changes when the last worker leaves a closed gate */
} tw_pool;

/* `threads` has room for n_workers handles. If the system refuses one, the others are kept, and the
 * status of that refusal is returned. */
tw_status tw_pool_start(tw_pool *pool, int32_t n_workers, tw_thread **threads);
void tw_pool_stop(tw_pool *pool);

/* In a forked child, where the workers do not exist: forgets them, and makes the pool as if it had
 * never been started, whatever state it was copied in. */
void tw_pool_abandon(tw_pool *pool);

/* Runs the job on the calling thread as slot 0 and on up to max_workers workers. One call at a
 * time. */
void tw_pool_run(tw_pool *pool, tw_job *job, int32_t max_workers);

#endif
