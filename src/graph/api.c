/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/api.h"

tw_status tw_graph_add_1(tw_graph *graph, tw_op_kind kind, const tw_attrs *attrs, int32_t n_in,
                         const tw_tensor *in, tw_tensor *y)
{
    TW_REQUIRE(y, TW_INVALID_ARGUMENT, "y is NULL; give a place for the result's number");
    tw_tensor out[4] = {*y, TW_UNWANTED, TW_UNWANTED, TW_UNWANTED};
    const tw_op_info *info = tw_op_info_of(kind);
    TW_TRY(tw_graph_add(graph, kind, attrs, n_in, in, info ? info->n_out : 1, out));
    *y = out[0];
    return TW_OK;
}

tw_status tw_graph_operand(const tw_graph *graph, tw_tensor tensor, const char *name,
                           const tw_tensor_desc **desc)
{
    TW_REQUIRE(graph, TW_INVALID_ARGUMENT, "graph is NULL; create one with tw_graph_create");
    TW_REQUIRE(tw_graph_has(graph, tensor), TW_INVALID_ARGUMENT,
               "%s is %d; it must be a tensor of this graph, 1 to %d", name, (int)tensor,
               (int)tw_graph_tensor_count(graph));
    *desc = &graph->tensors[tensor].desc;
    return TW_OK;
}

tw_status tw_graph_add_shaped(tw_graph *graph, tw_op_kind kind, const tw_attrs *attrs, int32_t n_in,
                              const tw_tensor *in, const tw_tensor_desc *shape, tw_tensor *y)
{
    TW_REQUIRE(y, TW_INVALID_ARGUMENT, "y is NULL; give a place for the result's number");
    if (*y != TW_NONE) return tw_graph_add_1(graph, kind, attrs, n_in, in, y);
    tw_tensor_desc desc = {.dtype = shape->dtype, .rank = shape->rank, .flags = TW_TENSOR_VIRTUAL};
    if (desc.rank > 0 && desc.rank <= TW_MAX_RANK) memcpy(desc.dims, shape->dims, sizeof desc.dims);
    int64_t mark = graph->n_tensors;
    tw_tensor made;
    TW_TRY(tw_graph_tensor(graph, &desc, &made));
    tw_status status = tw_graph_add_1(graph, kind, attrs, n_in, in, &made);
    if (status == TW_OK)
        *y = made;
    else
        graph->n_tensors = mark;
    return status;
}
