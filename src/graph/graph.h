/* SPDX-License-Identifier: Apache-2.0 */
/* The graph's own data, as graph, plan and differentiation share it. */
#ifndef TW_GRAPH_GRAPH_H
#define TW_GRAPH_GRAPH_H

#include "core/alloc.h"
#include "core/text.h"
#include "ops/op.h"

typedef struct tw_tensor_node {
    tw_tensor_desc desc; /* name lives in the graph's arena; uid is filled in */
    int32_t producer;    /* index of the operation, or -1 */
    bool constant;
    const void *data;       /* of a constant: the caller's, or the graph's own for scalars */
    bool scalar;            /* data points into the arena */
    tw_tensor donor;        /* the input whose memory this output takes over, or TW_NONE */
    tw_tensor donated_to;   /* the reverse */
    bool reserved;          /* lives in the reserve between forward and backward … */
    int64_t reserve_offset; /* … at this byte */
} tw_tensor_node;

typedef struct tw_op {
    const tw_op_info *info;
    tw_attrs attrs;
    int32_t n_in, n_out;
    tw_tensor *in, *out; /* in the arena; absent operands are TW_NONE, outputs not asked for too */
} tw_op;

struct tw_graph {
    tw_arena arena;
    tw_tensor_node *tensors;            /* [0] is unused: numbers start at 1 */
    int64_t n_tensors, tensor_capacity; /* n_tensors counts [0] */
    tw_op *ops;                         /* in an order in which they can run */
    int64_t n_ops, op_capacity;
    int64_t cut;       /* index of the first backward operation, or -1 */
    tw_tensor reserve; /* TW_NONE without a cut */
};

bool tw_graph_has(const tw_graph *graph, tw_tensor tensor);
const char *tw_graph_tensor_name(const tw_graph *graph, tw_tensor tensor); /* "" if it has none */

/* The one way in which operations enter a graph. out[i]: TW_NONE makes a tensor, a number uses a
 * declared one, TW_UNWANTED skips an optional output. */
tw_status tw_graph_add(tw_graph *graph, tw_op_kind kind, const tw_attrs *attrs, int32_t n_in,
                       const tw_tensor *in, int32_t n_out, tw_tensor *out);

/* Inserts a copy of an operation before another; *copy takes the place of its first output. Numbers
 * of operations from `before` on go up by one. For planners, on a graph of their own. */
tw_status tw_graph_clone_op(tw_graph *graph, int64_t op, int64_t before, tw_tensor *copy);

/* Checks a description and fills in strides (row-major) where `fill` and none were given. `what`
 * begins the error sentence. */
tw_status tw_desc_check(tw_tensor_desc *desc, bool fill, const char *what);
/* Refuses strides that let two elements share memory. */
tw_status tw_desc_check_output(const tw_tensor_desc *desc, const char *what);

extern const tw_builder tw_graph_builder; /* with .graph NULL: copy and fill in */

/* Text form, for saved plans and as cache key. `line` of parse errors counts from *line. */
void tw_graph_write(const tw_graph *graph, tw_text *text);
typedef struct tw_reader tw_reader; /* read.h */
tw_status tw_graph_read(tw_reader *reader, tw_graph **graph);

#endif
