/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the softmax family share. */
#ifndef TW_OPS_SOFTMAX_SOFTMAX_H
#define TW_OPS_SOFTMAX_SOFTMAX_H

#include "ops/kernel.h"

extern const tw_op_info tw_softmax_ops[2];

#endif
