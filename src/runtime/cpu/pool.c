/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job is handed over through one word, the gate:
 *
 *     bits  0–10  active   workers that are inside
 *     bits 11–21  room     workers that may still enter; 0: the gate is closed
 *     bit  22     waiting  the caller sleeps until active is 0
 *     bit  23     stop     the pool ends
 *     bits 24–31  epoch    the number of the job, so that a worker enters each job once
 *
 * The caller opens the gate, takes items itself, closes the gate and waits for active to be 0. A
 * worker enters by one compare-and-swap, which takes one from room and adds one to active; the room
 * that it saw is its slot. So a worker that is late, or asleep, is never waited for: with the gate
 * closed it cannot enter. While the gate is closed and nobody is inside, only the caller writes it.
 *
 * An epoch comes back after 256 jobs. A worker that last entered exactly 256 jobs ago then stays
 * out of one job; nothing else follows from it.
 */
#include "runtime/cpu/pool.h"

#include "arch/cpu/fpenv.h"
#include "core/error.h"

#define ACTIVE_ONE UINT32_C(1)
#define ACTIVE_MASK UINT32_C(0x7FF)
#define ROOM_SHIFT 11
#define ROOM_ONE (UINT32_C(1) << ROOM_SHIFT)
#define ROOM_MASK (UINT32_C(0x7FF) << ROOM_SHIFT)
#define WAITING (UINT32_C(1) << 22)
#define STOP (UINT32_C(1) << 23)
#define EPOCH_SHIFT 24

#define NO_EPOCH UINT32_MAX

/* Long enough for the gaps between the steps of a plan. With more threads than CPUs, spinning takes
 * time from the thread that is waited for. */
enum { SPIN_NS = 30000, CROWDED_SPIN_NS = 2000, PAUSES_PER_CLOCK = 16 };

static _Thread_local bool inside;

bool tw_job_active(void) { return inside; }

void tw_job_work(tw_job *job, int32_t slot)
{
    const uint64_t fpenv = tw_fpenv_swap(job->fpenv);
    const bool before = inside;
    inside = true;
    for (;;) {
        const int64_t item = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (item >= job->n) break;
        job->task(job->arg, slot, item);
    }
    inside = before;
    tw_fpenv_set(fpenv);
}

static void sleep_on(_Atomic uint32_t *word, uint32_t expected)
{
    tw_os_wait((uint32_t *)word, expected);
}

static void wake(_Atomic uint32_t *word) { tw_os_wake_all((uint32_t *)word); }

/* ---- Workers --------------------------------------------------------------------------------- */

static bool may_enter(uint32_t gate, uint32_t last_epoch)
{
    return (gate & ROOM_MASK) != 0 && gate >> EPOCH_SHIFT != last_epoch;
}

/* Waits until the gate may be open for this worker, or the pool ends. */
static uint32_t wait_at_gate(tw_pool *pool, uint32_t last_epoch)
{
    for (;;) {
        uint32_t gate;
        const int64_t deadline = tw_os_nanoseconds() + pool->spin_ns;
        do {
            for (int i = 0; i < PAUSES_PER_CLOCK; i++) {
                gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
                if (may_enter(gate, last_epoch) || (gate & STOP) != 0) return gate;
                tw_os_pause();
            }
        } while (tw_os_nanoseconds() < deadline);

        /* Either the caller sees this sleeper after it opened the gate, or the load sees the open
         * gate: both sides write first and read then, in the one order of seq_cst. */
        atomic_fetch_add(&pool->sleepers, 1);
        gate = atomic_load(&pool->gate);
        if (!may_enter(gate, last_epoch) && (gate & STOP) == 0) sleep_on(&pool->gate, gate);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
}

/* The slot for the open job, or 0 if others took all the room. */
static int32_t enter(tw_pool *pool, uint32_t *last_epoch)
{
    uint32_t gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
    while (may_enter(gate, *last_epoch)) {
        const uint32_t entered = gate - ROOM_ONE + ACTIVE_ONE;
        if (atomic_compare_exchange_weak_explicit(&pool->gate, &gate, entered, memory_order_acquire,
                                                  memory_order_relaxed)) {
            *last_epoch = gate >> EPOCH_SHIFT;
            return (int32_t)((gate & ROOM_MASK) >> ROOM_SHIFT);
        }
    }
    return 0;
}

static void leave(tw_pool *pool)
{
    const uint32_t before =
        atomic_fetch_sub_explicit(&pool->gate, ACTIVE_ONE, memory_order_acq_rel);
    if ((before & ACTIVE_MASK) != 1 || (before & WAITING) == 0) return;
    atomic_fetch_add_explicit(&pool->finished, 1, memory_order_release);
    wake(&pool->finished);
}

static void worker_main(void *arg)
{
    tw_pool *pool = arg;
    uint32_t last_epoch = NO_EPOCH;
    /* A new thread has its creator's control word. */
    tw_fpenv_set(TW_FPENV_DEFAULT);
    while ((wait_at_gate(pool, last_epoch) & STOP) == 0) {
        const int32_t slot = enter(pool, &last_epoch);
        if (slot == 0) continue;
        tw_job_work(pool->job, slot);
        leave(pool);
    }
}

/* ---- The caller ------------------------------------------------------------------------------ */

tw_status tw_pool_start(tw_pool *pool, int32_t n_workers, tw_thread **threads)
{
    pool->threads = threads;
    pool->n_workers = 0;
    pool->spin_ns = n_workers < tw_os_cpu_count() ? SPIN_NS : CROWDED_SPIN_NS;
    while (pool->n_workers < n_workers) {
        TW_TRY(tw_os_thread_start(worker_main, pool, &threads[pool->n_workers]));
        pool->n_workers++;
    }
    return TW_OK;
}

void tw_pool_stop(tw_pool *pool)
{
    atomic_fetch_or(&pool->gate, STOP);
    wake(&pool->gate);
    for (int32_t i = 0; i < pool->n_workers; i++) tw_os_thread_join(pool->threads[i]);
    pool->n_workers = 0;
}

void tw_pool_abandon(tw_pool *pool)
{
    for (int32_t i = 0; i < pool->n_workers; i++) tw_os_thread_forget(pool->threads[i]);
    pool->n_workers = 0;
    atomic_store(&pool->gate, 0);
    atomic_store(&pool->sleepers, 0);
    atomic_store(&pool->finished, 0);
}

static uint32_t active_workers(tw_pool *pool)
{
    return atomic_load_explicit(&pool->gate, memory_order_acquire) & ACTIVE_MASK;
}

/* Returns when nobody is inside; the gate is closed. */
static void wait_for_workers(tw_pool *pool)
{
    if (active_workers(pool) == 0) return;
    const int64_t deadline = tw_os_nanoseconds() + pool->spin_ns;
    do {
        for (int i = 0; i < PAUSES_PER_CLOCK; i++) {
            if (active_workers(pool) == 0) return;
            tw_os_pause();
        }
    } while (tw_os_nanoseconds() < deadline);

    /* The last to leave after this sees the bit; `finished` is read before active is. */
    atomic_fetch_or_explicit(&pool->gate, WAITING, memory_order_acq_rel);
    for (;;) {
        const uint32_t finished = atomic_load_explicit(&pool->finished, memory_order_acquire);
        if (active_workers(pool) == 0) return;
        sleep_on(&pool->finished, finished);
    }
}

void tw_pool_run(tw_pool *pool, tw_job *job, int32_t max_workers)
{
    if (max_workers > pool->n_workers) max_workers = pool->n_workers;
    if (max_workers > 0) {
        const uint32_t gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
        const uint32_t epoch = (gate >> EPOCH_SHIFT) + 1;
        pool->job = job;
        atomic_store(&pool->gate, epoch << EPOCH_SHIFT | (uint32_t)max_workers << ROOM_SHIFT);
        if (atomic_load(&pool->sleepers) != 0) wake(&pool->gate);
    }
    tw_job_work(job, 0);
    if (max_workers > 0) {
        atomic_fetch_and_explicit(&pool->gate, ~ROOM_MASK, memory_order_acq_rel);
        wait_for_workers(pool);
    }
}
