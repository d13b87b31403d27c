/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the dropout family share. */
#ifndef TW_OPS_DROPOUT_H
#define TW_OPS_DROPOUT_H

#include "ops/kernel.h"

enum { TW_DROPOUT_OPS = 2 };
extern const tw_op_info tw_dropout_ops[TW_DROPOUT_OPS];

/* What kept elements are multiplied by; 0 at rate 1, where none is kept. */
static inline double tw_dropout_scale(double rate) { return rate < 1 ? 1 / (1 - rate) : 0; }

#endif
