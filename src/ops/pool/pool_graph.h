/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the pooling family share. */
#ifndef TW_OPS_POOL_GRAPH_H
#define TW_OPS_POOL_GRAPH_H

#include "ops/op.h"

enum { TW_POOL_OPS = 2 };
extern const tw_op_info tw_pool_ops[TW_POOL_OPS];

#endif
