/* SPDX-License-Identifier: Apache-2.0 */
/* How the vector kernels of the losses cut their rows: by the problem alone. */
#ifndef TW_OPS_LOSS_LOSS_SPLIT_H
#define TW_OPS_LOSS_LOSS_SPLIT_H

#include "ops/loss/loss.h"

typedef struct tw_loss_split {
    int64_t per_item, items; /* rows of one work item, and their number */
} tw_loss_split;

const char *tw_loss_rows_refuse(const tw_problem *problem);
tw_status tw_loss_rows_prepare(const tw_problem *problem, tw_prepare *prepare);

/* Bytes for one partial sum of each item; 0 where nothing is summed. */
int64_t tw_loss_parts_bytes(const tw_problem *problem, const tw_loss_split *split);

#endif
