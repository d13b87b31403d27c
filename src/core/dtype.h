/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing single elements of any type: what reference kernels are made of. */
#ifndef TW_CORE_DTYPE_H
#define TW_CORE_DTYPE_H

#include <stdbool.h>

#include <tilework/tensor.h>

bool tw_dtype_valid(tw_dtype type);
bool tw_dtype_is_float(tw_dtype type);   /* f64 … f4e2m1 */
bool tw_dtype_is_integer(tw_dtype type); /* i64 … u2, not bool */
bool tw_dtype_is_signed(tw_dtype type);
bool tw_dtype_is_complex(tw_dtype type);
int64_t tw_dtype_bytes(tw_dtype type, int64_t elements); /* rounded up to whole bytes */
double tw_dtype_epsilon(tw_dtype type); /* unit round-off, half the gap above 1; 0: integers */
double tw_dtype_max(tw_dtype type);     /* largest finite value */

/* The element at `index` (in elements; sub-byte types are unpacked). Integers beyond 2^53 lose
 * digits as a double: use the integer forms for them. */
double tw_load(tw_dtype type, const void *base, int64_t index);
/* Of integers and bool; u64 wraps. */
int64_t tw_load_int(tw_dtype type, const void *base, int64_t index);

/* Rounds once, from double: to nearest even; flags are TW_CONVERT_*. Writers of sub-byte types must
 * not share a byte with other threads. */
void tw_store(tw_dtype type, void *base, int64_t index, double value, uint32_t flags);
void tw_store_int(tw_dtype type, void *base, int64_t index, int64_t value, uint32_t flags);

/* value rounded to `type` and back, as a store and a load would. */
double tw_round_to(tw_dtype type, double value);

/* The bits of one element, and back, for conversions and tests. */
uint64_t tw_encode(tw_dtype type, double value, uint32_t flags);
double tw_decode(tw_dtype type, uint64_t bits);

/* The nearest double with an odd last bit when `magnitude` does not fit, so that a second rounding,
 * to a narrower type, gives what one rounding would have given. */
double tw_round_to_odd(uint64_t magnitude);

#endif
