/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of operands for the GEMM core. */
#ifndef TW_OPS_CONV_CONV_BATCH_H
#define TW_OPS_CONV_CONV_BATCH_H

#include "tile/cpu/brgemm.h"

enum { TW_CONV_BATCH = 64 };

/* A batch under construction: pointers are handed to the core when the list is full. */
typedef struct tw_conv_batch {
    tw_brgemm job;
    tw_brgemm_fn core;
    int64_t most; /* entries handed over at a time */
    const float *a[TW_CONV_BATCH], *b[TW_CONV_BATCH];
} tw_conv_batch;

static inline void tw_conv_flush(tw_conv_batch *list)
{
    list->core(&list->job);
    list->job.n_batch = 0;
    list->job.accumulate = true;
}

static inline void tw_conv_push(tw_conv_batch *list, const float *a, const float *b)
{
    if (list->job.n_batch == list->most) tw_conv_flush(list);
    list->a[list->job.n_batch] = a;
    list->b[list->job.n_batch++] = b;
}

/* Without a single tap the result is zeros, which the core stores too. */
static inline void tw_conv_end(tw_conv_batch *list)
{
    if (list->job.n_batch > 0 || !list->job.accumulate) tw_conv_flush(list);
}

#endif
