/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns: sub-graphs of several operations that one kernel can do at once. A family lists its
 * patterns; each has an operation kind of its own, which no caller can add, whose rows are in the
 * manifest like any other. Where no row takes a match, the planner goes on operation by operation.
 */
#ifndef TW_OPS_PATTERN_H
#define TW_OPS_PATTERN_H

#include "ops/op.h"

/* One operation as a pattern sees it. */
typedef struct tw_match_op {
    tw_op_kind kind;
    const tw_attrs *attrs;
    int32_t n_in, n_out;
    const tw_tensor *in, *out;
} tw_match_op;

/* The graph as a pattern sees it. Only operations that are still to be scheduled are shown. */
typedef struct tw_matcher {
    const void *planner;
    tw_match_op (*op)(const struct tw_matcher *matcher, int32_t op);
    /* The n-th operation that reads a tensor, itself or through a free view of it; -1: no more. */
    int32_t (*reader)(const struct tw_matcher *matcher, tw_tensor tensor, int32_t n);
    /* Does memory hold the tensor before the operation at hand runs? */
    bool (*available)(const struct tw_matcher *matcher, tw_tensor tensor);
    /* Must memory hold it afterwards, for other operations than the n given or for the caller? */
    bool (*needed)(const struct tw_matcher *matcher, tw_tensor tensor, int32_t n,
                   const int32_t *ops);
} tw_matcher;

typedef struct tw_match {
    int32_t n_ops, ops[8]; /* [0] is the root */
    tw_attrs attrs;        /* of the pattern's own kind */
    int32_t n_in, n_out;
    tw_tensor in[8], out[4];
} tw_match;

typedef struct tw_pattern {
    const char *name;
    tw_op_kind root; /* where matching begins: the first operation in the graph's order */
    tw_op_kind kind; /* what the rows are listed under */
    bool (*match)(const tw_matcher *matcher, int32_t root, tw_match *match);
} tw_pattern;

#endif
