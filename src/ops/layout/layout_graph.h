/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the layout family share. */
#ifndef TW_OPS_LAYOUT_GRAPH_H
#define TW_OPS_LAYOUT_GRAPH_H

#include "ops/op.h"

enum { TW_LAYOUT_OPS = 8 };
extern const tw_op_info tw_layout_ops[TW_LAYOUT_OPS];

tw_status tw_layout_gradient_reshape(const tw_gradient *gradient);
tw_status tw_layout_gradient_transpose(const tw_gradient *gradient);
tw_status tw_layout_gradient_expand(const tw_gradient *gradient);
tw_status tw_layout_gradient_slice(const tw_gradient *gradient);
tw_status tw_layout_gradient_slice_backward(const tw_gradient *gradient);
tw_status tw_layout_gradient_concat(const tw_gradient *gradient);
tw_status tw_layout_gradient_pad(const tw_gradient *gradient);
tw_status tw_layout_gradient_pad_backward(const tw_gradient *gradient);

#endif
