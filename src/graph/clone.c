/* SPDX-License-Identifier: Apache-2.0 */
/* Computing a value a second time, just before it is needed again. */
#include <string.h>

#include "core/error.h"
#include "graph/graph.h"

/* Room for one operation at `at`; those from there on move up by one. */
static tw_status make_room(tw_graph *graph, int64_t at)
{
    TW_TRY(
        tw_grow((void **)&graph->ops, &graph->op_capacity, graph->n_ops + 1, sizeof *graph->ops));
    TW_TRY(tw_grow((void **)&graph->tensors, &graph->tensor_capacity, graph->n_tensors + 1,
                   sizeof *graph->tensors));
    memmove(&graph->ops[at + 1], &graph->ops[at], (size_t)(graph->n_ops - at) * sizeof *graph->ops);
    graph->n_ops++;
    for (int64_t t = 1; t < graph->n_tensors; t++)
        if (graph->tensors[t].producer >= at) graph->tensors[t].producer++;
    if (graph->cut >= at) graph->cut++;
    return TW_OK;
}

tw_status tw_graph_clone_op(tw_graph *graph, int64_t op, int64_t before, tw_tensor *copy)
{
    const tw_op original = graph->ops[op];
    void *numbers;
    TW_REQUIRE(op < before && before < graph->n_ops, TW_INTERNAL,
               "the copy must come after the original");
    TW_TRY(
        tw_arena_alloc(&graph->arena, original.n_in + original.n_out, sizeof(tw_tensor), &numbers));
    TW_TRY(make_room(graph, before));
    tw_op clone = original;
    clone.in = numbers;
    clone.out = clone.in + clone.n_in;
    memcpy(clone.in, original.in, (size_t)clone.n_in * sizeof *clone.in);
    tw_tensor made = (tw_tensor)graph->n_tensors++;
    graph->tensors[made] = graph->tensors[original.out[0]];
    graph->tensors[made].producer = (int32_t)before;
    graph->tensors[made].desc.uid = 0; /* virtual: never bound */
    clone.out[0] = made;               /* further outputs are not computed again */
    graph->ops[before] = clone;
    *copy = made;
    return TW_OK;
}
