/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and content for the operands of a problem's graph. */
#ifndef TW_CLI_VERIFY_DATA_H
#define TW_CLI_VERIFY_DATA_H

#include "problem_set.h"
#include <tilework/tilework.h>

enum { MAX_OPERANDS = 32, GUARD_BYTES = 128 };

/* A tensor that a plan binds, between two guards. */
typedef struct operand {
    tw_tensor_desc desc; /* with strides */
    int64_t elements, bytes;
    int64_t uid;
    const char *name; /* in the operation: "x", "labels"…; "" beyond the named ones */
    bool output;
    char *memory;
    char *first; /* element (0, 0, …) */
} operand;

typedef struct operands {
    operand items[MAX_OPERANDS];
    int32_t n;
} operands;

typedef enum fill {
    FILL_INTEGERS, /* small ones: sums of products are exact */
    FILL_RANDOM,   /* uniform in [-2, 2) */
    FILL_SPECIALS  /* random, with NaN and infinities among them */
} fill;

/* What the plan binds of the graph. `skew`: first elements have their own alignment only. */
tw_status operands_make(operands *set, const tw_graph *graph, const tw_plan *plan, bool skew);
void operands_free(operands *set);

/* Content that the operation accepts: labels are class numbers, second moments are not negative,
 * and what a forward operation would have given a backward one comes from that operation. */
tw_status operands_fill(operands *set, const problem *p, fill how, uint64_t seed);

/* Pattern into outputs and all guards; and whether the guards still have it. */
void operands_poison(operands *set);
bool operands_guards_intact(const operands *set);

int32_t operands_bind(const operands *set, tw_binding *bindings);

/* Element `linear`, in row-major order of the dims. */
int64_t operand_offset(const operand *o, int64_t linear);
double operand_get(const operand *o, int64_t linear);
void operand_set(operand *o, int64_t linear, double value);
bool operand_is_float(const operand *o);

/* A new value for an element of the floating-point input number `index`. */
typedef double (*operand_function)(double value, int32_t index, void *arg);
/* dst[i] = function(src[i]) for every floating-point input of the same place. */
void operands_map(operands *dst, const operands *src, operand_function function, void *arg);
/* The same bytes in all inputs. */
void operands_copy_inputs(operands *dst, const operands *src);

/* splitmix64. */
uint64_t random_next(uint64_t *state);
double random_uniform(uint64_t *state); /* [0, 1) */

#endif
