/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the reduce family share. */
#ifndef TW_OPS_REDUCE_REDUCE_H
#define TW_OPS_REDUCE_REDUCE_H

#include "ops/kernel.h"
#include "ops/reduce/lines.h"

extern const tw_op_info tw_reduce_ops[1];

bool tw_reduce_is_arg(tw_reduce_mode mode);

/* The gradient rule; see NOTES.md for the choice at ties and at zeros. */
tw_status tw_reduce_gradient(const tw_gradient *gradient);

/* Lines of x (operand 0) and y (operand 1): `along` is what is reduced. The result of an arg mode
 * is an index, so there the row-major order of a line is kept. */
void tw_reduce_lines(const tw_view *x, const tw_view *y, const tw_reduce_attrs *attrs,
                     tw_lines *lines);

#endif
