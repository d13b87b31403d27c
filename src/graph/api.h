/* SPDX-License-Identifier: Apache-2.0 */
/* What the typed functions of <tilework/graph.h> share. */
#ifndef TW_GRAPH_API_H
#define TW_GRAPH_API_H

#include <string.h>

#include "core/error.h"
#include "graph/graph.h"

/* Attributes: a copy of the caller's struct, which may be NULL or of another version's size. */
#define TW_TAKE_ATTRS(target, given)                                                               \
    do {                                                                                           \
        if (given) {                                                                               \
            TW_REQUIRE((given)->size == 0 || (given)->size >= sizeof *(given),                     \
                       TW_INVALID_ARGUMENT,                                                        \
                       "attrs->size is %zu; it must be 0 or sizeof the struct, %zu",               \
                       (given)->size, sizeof *(given));                                            \
            (target) = *(given);                                                                   \
            (target).size = 0;                                                                     \
        }                                                                                          \
    } while (0)

/* Adds an operation whose only output is *y. */
tw_status tw_graph_add_1(tw_graph *graph, tw_op_kind kind, const tw_attrs *attrs, int32_t n_in,
                         const tw_tensor *in, tw_tensor *y);

/* The same where the output's shape is an argument: unless *y is declared already, a virtual tensor
 * of `shape` is. Nothing is left behind on failure. */
tw_status tw_graph_add_shaped(tw_graph *graph, tw_op_kind kind, const tw_attrs *attrs, int32_t n_in,
                              const tw_tensor *in, const tw_tensor_desc *shape, tw_tensor *y);

/* The description of an operand, or a sentence that names it. */
tw_status tw_graph_operand(const tw_graph *graph, tw_tensor tensor, const char *name,
                           const tw_tensor_desc **desc);

#endif
