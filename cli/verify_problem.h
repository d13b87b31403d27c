/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `tw verify` on one problem. */
#ifndef TW_CLI_VERIFY_PROBLEM_H
#define TW_CLI_VERIFY_PROBLEM_H

#include "verify_compare.h"

enum { VERIFY_KERNELS = 1024 };

typedef struct verifier {
    const char *kernel; /* only this one; NULL: all */
    uint64_t seed;
    bool has_isa, verbose;
    tw_isa isa;
    tw_context *one, *several; /* contexts whose results must agree */
    int64_t passed, failed;
    bool reached[VERIFY_KERNELS]; /* by index: some problem ran it */
} verifier;

/* Checks every kernel that takes the problem. Failures are printed and counted; the status is of
 * what stands in the way of checking at all, such as a problem that is none. */
tw_status verify_problem(verifier *v, const problem *p);

#endif
