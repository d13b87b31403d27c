/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, and tw_parallel on top of the pool or of the caller's own parallel-for. */
#include <stdlib.h>

#include "arch/cpu/fpenv.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/log.h"
#include "runtime/cpu/pool.h"

/* `owner` of a context that no thread is using; else 1 + the fork generation of the process whose
 * thread took it, so that a forked child can tell its own threads from its parent's. */
enum { FREE = 0 };

struct tw_context {
    int32_t threads; /* with the caller */
    tw_parallel_for parallel_for;
    void *parallel_user;
    uint32_t generation; /* of the process that started the workers; read by the owner */
    alignas(64) _Atomic uint32_t owner;
    tw_pool pool;
    tw_thread *handles[]; /* threads - 1 */
};

/* ---- Creation -------------------------------------------------------------------------------- */

/* TW_THREADS, or 0 where it is not set or not a number of threads. */
static int32_t threads_from_environment(void)
{
    const char *text = getenv("TW_THREADS");
    if (text == NULL || text[0] == '\0') return 0;
    char *end;
    const long threads = strtol(text, &end, 10);
    if (*end == '\0' && threads >= 1 && threads <= TW_MAX_THREADS) return (int32_t)threads;
    tw_log(TW_LOG_ERROR, "TW_THREADS is \"%s\"; it must be a number from 1 to %d, so it is ignored",
           text, TW_MAX_THREADS);
    return 0;
}

static int32_t default_threads(void)
{
    const int32_t threads = threads_from_environment();
    if (threads != 0) return threads;
    const int cpus = tw_os_cpu_count();
    return cpus < TW_MAX_THREADS ? cpus : TW_MAX_THREADS;
}

static tw_status check_options(const tw_context_options *options)
{
    TW_REQUIRE(options->size == 0 || options->size == sizeof *options, TW_INVALID_ARGUMENT,
               "options->size is %zu; it must be 0 or sizeof(tw_context_options), which is %zu",
               options->size, sizeof *options);
    TW_REQUIRE(options->threads >= 0 && options->threads <= TW_MAX_THREADS, TW_INVALID_ARGUMENT,
               "options->threads is %d; it must be from 1 to %d, or 0 for the default",
               options->threads, TW_MAX_THREADS);
    return TW_OK;
}

tw_status tw_context_create(const tw_context_options *options, tw_context **context)
{
    const tw_context_options defaults = {0};
    if (options == NULL) options = &defaults;
    TW_REQUIRE(context != NULL, TW_INVALID_ARGUMENT,
               "context is NULL; it must point to where the new context goes");
    TW_TRY(check_options(options));
    const int32_t threads = options->threads != 0 ? options->threads : default_threads();
    const int32_t workers = options->parallel_for != NULL ? 0 : threads - 1;

    void *memory;
    TW_TRY(tw_calloc(1, sizeof(tw_context) + (size_t)workers * sizeof(tw_thread *), &memory));
    tw_context *created = memory;
    created->threads = threads;
    created->parallel_for = options->parallel_for;
    created->parallel_user = options->parallel_user;
    created->generation = tw_os_fork_generation();
    const tw_status status = tw_pool_start(&created->pool, workers, created->handles);
    if (status != TW_OK) {
        tw_context_free(created);
        return status;
    }
    *context = created;
    return TW_OK;
}

void tw_context_free(tw_context *context)
{
    if (context == NULL) return;
    if (context->generation == tw_os_fork_generation()) {
        tw_pool_stop(&context->pool);
    } else {
        tw_pool_abandon(&context->pool);
    }
    tw_free(context);
}

int32_t tw_context_threads(const tw_context *context)
{
    return context != NULL ? context->threads : 1;
}

/* ---- Parallel loops -------------------------------------------------------------------------- */

/* In a child the parent's workers are replaced. If the system refuses some, the others will do. */
static void restart_after_fork(tw_context *context, uint32_t generation)
{
    tw_pool_abandon(&context->pool);
    context->generation = generation;
    if (context->parallel_for != NULL) return;
    (void)tw_pool_start(&context->pool, context->threads - 1, context->handles);
}

/* False while another thread of this process uses the context. A thread that used it in the parent
 * at the time of the fork is not here any more, and does not count. */
static bool try_acquire(tw_context *context)
{
    const uint32_t generation = tw_os_fork_generation();
    const uint32_t mine = generation + 1;
    uint32_t owner = atomic_load_explicit(&context->owner, memory_order_relaxed);
    if (owner == mine) return false;
    if (!atomic_compare_exchange_strong_explicit(&context->owner, &owner, mine,
                                                 memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    if (context->generation != generation) restart_after_fork(context, generation);
    return true;
}

static void release(tw_context *context)
{
    atomic_store_explicit(&context->owner, FREE, memory_order_release);
}

static void work_as_slot(void *arg, int64_t slot) { tw_job_work(arg, (int32_t)slot); }

static int32_t slots_for(const tw_context *context, int32_t max_slots, int64_t n)
{
    if (context == NULL || tw_job_active()) return 1;
    int32_t slots = context->threads < max_slots ? context->threads : max_slots;
    if (n < slots) slots = (int32_t)n;
    return slots;
}

void tw_parallel(tw_context *context, int32_t max_slots, int64_t n, tw_slot_task task, void *arg)
{
    if (n <= 0) return;
    tw_job job = {.task = task, .arg = arg, .n = n, .fpenv = tw_fpenv_get()};
    atomic_init(&job.next, 0);
    const int32_t slots = slots_for(context, max_slots, n);
    if (slots <= 1 || !try_acquire(context)) {
        tw_job_work(&job, 0);
        return;
    }
    if (context->parallel_for != NULL) {
        context->parallel_for(context->parallel_user, slots, work_as_slot, &job);
    } else {
        tw_pool_run(&context->pool, &job, slots - 1);
    }
    release(context);
}
