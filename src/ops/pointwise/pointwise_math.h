/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of every mode, in double and in 64-bit integers: what the reference kernel evaluates
 * and tests compare with. */
#ifndef TW_OPS_POINTWISE_MATH_H
#define TW_OPS_POINTWISE_MATH_H

#include "ops/op.h"

/* mode(a, b, c); operands that the mode does not have are ignored. Not for GEN_INDEX, which depends
 * on a place and not on a value, nor for modes of integers only. */
double tw_pw_real(const tw_pointwise_attrs *attrs, double a, double b, double c);

/* The same for modes with a meaning on integers. Overflow wraps; with `compute` u64 the operands
 * and the result are unsigned. */
int64_t tw_pw_whole(const tw_pointwise_attrs *attrs, int64_t a, int64_t b, int64_t c);

#endif
