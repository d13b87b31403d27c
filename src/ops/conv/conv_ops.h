/* SPDX-License-Identifier: Apache-2.0 */
/* The records of conv, conv_dgrad and conv_wgrad. */
#ifndef TW_OPS_CONV_CONV_OPS_H
#define TW_OPS_CONV_CONV_OPS_H

#include "ops/op.h"

extern const tw_op_info tw_conv_ops[3];

#endif
