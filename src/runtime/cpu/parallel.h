/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parallel loops for kernels. Results must not depend on the number of threads: cut the work into
 * items by the problem alone, let slots take items in any order, and never share sums between
 * slots. Scratch is per slot: slot < max_slots, so a kernel lays out max_slots pieces of workspace.
 */
#ifndef TW_RUNTIME_CPU_PARALLEL_H
#define TW_RUNTIME_CPU_PARALLEL_H

#include <tilework/device.h>

typedef void (*tw_slot_task)(void *arg, int32_t slot, int64_t item);

/* Calls task(arg, slot, item) once for every item in [0, n). At most max_slots calls run at once,
 * each with its own slot. Returns when all are done. context NULL, or busy in another thread: all
 * items run here, on slot 0. Items should be some 5 µs or more. Tasks must not fork. Takes no lock,
 * and allocates only where a forked child first uses the context. */
void tw_parallel(tw_context *context, int32_t max_slots, int64_t n, tw_slot_task task, void *arg);

#endif
