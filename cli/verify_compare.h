/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparison of results with the reference's. Results that are sums or smooth may differ by
 *
 *     c·u_out·|want| + 4·√terms·u_acc·S,   c = 4 for sums, the larger of 4 and 2·ulps otherwise
 *
 * where u_acc is f32's unit round-off (f64's for f64 results). For sums S is the same operation on
 * the inputs' absolute values. S is at least what a relative change of the inputs does to the
 * result, |f(x·(1 ± h)) - f(x)| / h, the largest over patterns of signs: a kernel may be as
 * wrong as the exact result of inputs that are off by a few units in the last place.
 */
#ifndef TW_CLI_VERIFY_COMPARE_H
#define TW_CLI_VERIFY_COMPARE_H

#include "verify_data.h"

/* Signs of the changes: all the same, drawn, and those of the other operand opposite. */
enum { SHIFT_PATTERNS = 3 };

/* Where and how much two results differ; the first element that does. */
typedef struct difference {
    const char *name;
    int64_t element;
    double got, want, allowed;
    char index[96]; /* "(1, 0, 3)" */
} difference;

typedef struct tolerance {
    tw_exactness exactness;
    double ulps;
    int64_t terms;
    const operand *magnitude;               /* of the terms; NULL: unknown */
    const operand *shifted[SHIFT_PATTERNS]; /* NULL: none */
    double shift;                           /* h: the relative change of the inputs */
} tolerance;

/* Equal values (any NaN equals any NaN); the sign of zero counts. */
bool compare_exact(const operand *got, const operand *want, difference *d);
/* The same, but zeros of either sign are equal: sums may give both. */
bool compare_values(const operand *got, const operand *want, difference *d);
bool compare_within(const operand *got, const operand *want, const tolerance *t, difference *d);
/* NaN where `want` is NaN, the same infinity where it is infinite, finite elsewhere. */
bool compare_specials(const operand *got, const operand *want, difference *d);
bool compare_bits(const operand *got, const operand *want, difference *d);

/* All of `want` and `magnitude` are integers that the accumulator holds exactly, so that every
 * order of summation gives the same. */
bool compare_is_integral(const operand *want, const operand *magnitude);

#endif
