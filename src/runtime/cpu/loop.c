/* SPDX-License-Identifier: Apache-2.0 */
/* tw_context_for: the threads of a context, for the caller's own loops. */
#include "core/error.h"
#include "runtime/cpu/parallel.h"

typedef struct loop {
    tw_task task;
    void *arg;
} loop;

static void run_item(void *arg, int32_t slot, int64_t item)
{
    const loop *l = arg;
    (void)slot;
    l->task(l->arg, item);
}

tw_status tw_context_for(tw_context *context, int64_t n, tw_task task, void *arg)
{
    TW_REQUIRE(task, TW_INVALID_ARGUMENT, "task is NULL; give the function to call");
    TW_REQUIRE(n >= 0, TW_INVALID_ARGUMENT, "n is %lld; it must be 0 or more", (long long)n);
    loop l = {.task = task, .arg = arg};
    int32_t threads = context ? tw_context_threads(context) : 1;
    tw_parallel(context, threads, n, run_item, &l);
    return TW_OK;
}
