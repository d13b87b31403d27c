/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs and their tensors. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"

tw_status tw_graph_create(tw_graph **graph)
{
    TW_REQUIRE(graph, TW_INVALID_ARGUMENT, "graph is NULL; give a place for the new graph");
    void *memory;
    TW_TRY(tw_calloc(1, sizeof(tw_graph), &memory));
    tw_graph *g = memory;
    g->cut = -1;
    tw_status status = tw_grow((void **)&g->tensors, &g->tensor_capacity, 16, sizeof *g->tensors);
    if (status != TW_OK) {
        tw_free(g);
        return status;
    }
    g->n_tensors = 1;
    *graph = g;
    return TW_OK;
}

void tw_graph_free(tw_graph *graph)
{
    if (!graph) return;
    tw_free(graph->tensors);
    tw_free(graph->ops);
    tw_arena_free(&graph->arena);
    tw_free(graph);
}

bool tw_graph_has(const tw_graph *graph, tw_tensor tensor)
{
    return tensor >= 1 && tensor < graph->n_tensors;
}

const char *tw_graph_tensor_name(const tw_graph *graph, tw_tensor tensor)
{
    return graph->tensors[tensor].desc.name ? graph->tensors[tensor].desc.name : "";
}

int32_t tw_graph_tensor_count(const tw_graph *graph)
{
    return graph ? (int32_t)(graph->n_tensors - 1) : 0;
}

int32_t tw_graph_op_count(const tw_graph *graph) { return graph ? (int32_t)graph->n_ops : 0; }

static tw_status check_uid(const tw_graph *graph, int64_t uid)
{
    for (int64_t t = 1; t < graph->n_tensors; t++)
        TW_REQUIRE(graph->tensors[t].desc.uid != uid, TW_INVALID_ARGUMENT,
                   "uid %lld is already tensor %lld's; every tensor needs its own", (long long)uid,
                   (long long)t);
    return TW_OK;
}

static tw_status append(tw_graph *graph, const tw_tensor_node *node, tw_tensor *tensor)
{
    TW_REQUIRE(graph->n_tensors < INT32_MAX, TW_INVALID_ARGUMENT,
               "the graph has 2^31 - 2 tensors, the most it can hold");
    TW_TRY(tw_grow((void **)&graph->tensors, &graph->tensor_capacity, graph->n_tensors + 1,
                   sizeof *graph->tensors));
    const char *name = NULL;
    if (node->desc.name) TW_TRY(tw_arena_string(&graph->arena, node->desc.name, &name));
    tw_tensor_node *slot = &graph->tensors[graph->n_tensors];
    *slot = *node;
    slot->desc.size = sizeof slot->desc;
    slot->desc.name = name;
    if (slot->desc.uid == 0) slot->desc.uid = graph->n_tensors;
    *tensor = (tw_tensor)graph->n_tensors++;
    return TW_OK;
}

static tw_status check_declaration(const tw_graph *graph, const tw_tensor_desc *desc,
                                   const tw_tensor *tensor)
{
    TW_REQUIRE(graph, TW_INVALID_ARGUMENT, "graph is NULL; create one with tw_graph_create");
    TW_REQUIRE(desc, TW_INVALID_ARGUMENT,
               "desc is NULL; describe the tensor, for example by tw_desc");
    TW_REQUIRE(tensor, TW_INVALID_ARGUMENT, "tensor is NULL; give a place for its number");
    TW_REQUIRE(desc->uid >= 0, TW_INVALID_ARGUMENT, "uid is %lld; it must be 0 or positive",
               (long long)desc->uid);
    TW_REQUIRE(desc->ragged_offsets == TW_NONE || tw_graph_has(graph, desc->ragged_offsets),
               TW_INVALID_ARGUMENT, "ragged_offsets is %d, which is no tensor of this graph",
               (int)desc->ragged_offsets);
    return check_uid(graph, desc->uid ? desc->uid : graph->n_tensors);
}

tw_status tw_graph_tensor(tw_graph *graph, const tw_tensor_desc *desc, tw_tensor *tensor)
{
    TW_TRY(check_declaration(graph, desc, tensor));
    tw_tensor_node node = {.desc = *desc, .producer = -1};
    TW_TRY(tw_desc_check(&node.desc, !(desc->flags & TW_TENSOR_VIRTUAL), "tensor"));
    return append(graph, &node, tensor);
}

tw_status tw_graph_constant(tw_graph *graph, const tw_tensor_desc *desc, const void *data,
                            tw_tensor *tensor)
{
    TW_TRY(check_declaration(graph, desc, tensor));
    TW_REQUIRE(!(desc->flags & TW_TENSOR_VIRTUAL), TW_INVALID_ARGUMENT,
               "flags have TW_TENSOR_VIRTUAL; a constant has memory of its own");
    tw_tensor_node node = {.desc = *desc, .producer = -1, .constant = true, .data = data};
    TW_TRY(tw_desc_check(&node.desc, true, "constant"));
    TW_REQUIRE(data || tw_desc_elements(&node.desc) == 0, TW_INVALID_ARGUMENT,
               "data is NULL; a constant needs its content now");
    return append(graph, &node, tensor);
}

tw_status tw_graph_scalar(tw_graph *graph, tw_dtype dtype, double value, tw_tensor *tensor)
{
    tw_tensor_desc desc = {.dtype = dtype, .has_strides = true};
    TW_TRY(check_declaration(graph, &desc, tensor));
    TW_TRY(tw_desc_check(&desc, true, "scalar"));
    TW_REQUIRE(!tw_dtype_is_complex(dtype), TW_INVALID_ARGUMENT,
               "scalar: dtype is %s; complex scalars are given by tw_graph_constant",
               tw_dtype_name(dtype));
    void *bytes;
    TW_TRY(tw_arena_alloc(&graph->arena, 16, 1, &bytes));
    tw_store(dtype, bytes, 0, value, 0);
    tw_tensor_node node = {
        .desc = desc, .producer = -1, .constant = true, .scalar = true, .data = bytes};
    return append(graph, &node, tensor);
}

static tw_status check_tensor(const tw_graph *graph, tw_tensor tensor, const char *name)
{
    TW_REQUIRE(graph, TW_INVALID_ARGUMENT, "graph is NULL; create one with tw_graph_create");
    TW_REQUIRE(tw_graph_has(graph, tensor), TW_INVALID_ARGUMENT,
               "%s is %d; the graph's tensors are 1 to %d", name, (int)tensor,
               (int)tw_graph_tensor_count(graph));
    return TW_OK;
}

tw_status tw_graph_output(tw_graph *graph, tw_tensor tensor, const int64_t *strides)
{
    TW_TRY(check_tensor(graph, tensor, "tensor"));
    tw_tensor_node *node = &graph->tensors[tensor];
    TW_REQUIRE(node->producer >= 0, TW_INVALID_ARGUMENT,
               "tensor %d (%s) is not the result of an operation, so it cannot be an output",
               (int)tensor, tw_graph_tensor_name(graph, tensor));
    tw_tensor_desc desc = node->desc;
    desc.flags &= ~(uint32_t)(TW_TENSOR_VIRTUAL | TW_TENSOR_WIDE);
    if (strides) {
        desc.has_strides = true;
        for (int32_t d = 0; d < desc.rank; d++) desc.strides[d] = strides[d];
    }
    TW_TRY(tw_desc_check(&desc, true, "output"));
    TW_TRY(tw_desc_check_output(&desc, "output"));
    node->desc = desc;
    return TW_OK;
}

tw_status tw_graph_describe(const tw_graph *graph, tw_tensor tensor, tw_tensor_desc *desc)
{
    TW_TRY(check_tensor(graph, tensor, "tensor"));
    TW_REQUIRE(desc, TW_INVALID_ARGUMENT, "desc is NULL; give a place for the description");
    *desc = graph->tensors[tensor].desc;
    return TW_OK;
}

tw_status tw_graph_set_name(tw_graph *graph, tw_tensor tensor, const char *name)
{
    TW_TRY(check_tensor(graph, tensor, "tensor"));
    const char *copy = NULL;
    if (name) TW_TRY(tw_arena_string(&graph->arena, name, &copy));
    graph->tensors[tensor].desc.name = copy;
    return TW_OK;
}

tw_status tw_graph_find(const tw_graph *graph, const char *name, tw_tensor *tensor)
{
    TW_REQUIRE(graph && name && tensor, TW_INVALID_ARGUMENT, "graph, name or tensor is NULL");
    for (int64_t t = 1; t < graph->n_tensors; t++)
        if (graph->tensors[t].desc.name && strcmp(graph->tensors[t].desc.name, name) == 0) {
            *tensor = (tw_tensor)t;
            return TW_OK;
        }
    return tw_fail(TW_NOT_FOUND, "no tensor of the graph is named '%s'", name);
}

tw_status tw_graph_donate(tw_graph *graph, tw_tensor output, tw_tensor input)
{
    TW_TRY(check_tensor(graph, output, "output"));
    TW_TRY(check_tensor(graph, input, "input"));
    tw_tensor_node *to = &graph->tensors[output], *from = &graph->tensors[input];
    TW_REQUIRE(to->producer >= 0, TW_INVALID_ARGUMENT,
               "output %d is not the result of an operation", (int)output);
    TW_REQUIRE(from->producer < 0 && !from->constant && !(from->desc.flags & TW_TENSOR_VIRTUAL),
               TW_INVALID_ARGUMENT, "input %d is not bound by the caller, so it cannot be donated",
               (int)input);
    TW_REQUIRE(from->donated_to == TW_NONE && to->donor == TW_NONE, TW_INVALID_ARGUMENT,
               "input %d or output %d is already part of a donation", (int)input, (int)output);
    tw_tensor_desc desc = to->desc;
    if (desc.flags & TW_TENSOR_VIRTUAL) {
        desc.flags &= ~(uint32_t)(TW_TENSOR_VIRTUAL | TW_TENSOR_WIDE);
        desc.has_strides = true;
        memcpy(desc.strides, from->desc.strides, sizeof desc.strides);
    }
    bool same = desc.dtype == from->desc.dtype && desc.rank == from->desc.rank;
    for (int32_t d = 0; same && d < desc.rank; d++)
        same = desc.dims[d] == from->desc.dims[d] &&
               (desc.strides[d] == from->desc.strides[d] || desc.dims[d] < 2);
    TW_REQUIRE(same, TW_INVALID_ARGUMENT,
               "output %d and input %d differ in element type, dims or strides; a donation needs "
               "the same",
               (int)output, (int)input);
    TW_TRY(tw_desc_check_output(&desc, "donated output"));
    to->desc = desc;
    to->donor = input;
    from->donated_to = output;
    return TW_OK;
}

static tw_status copy_into(const tw_graph *from, tw_graph *to)
{
    TW_TRY(
        tw_grow((void **)&to->tensors, &to->tensor_capacity, from->n_tensors, sizeof *to->tensors));
    TW_TRY(tw_grow((void **)&to->ops, &to->op_capacity, from->n_ops + 1, sizeof *to->ops));
    for (int64_t t = 1; t < from->n_tensors; t++) {
        tw_tensor_node node = from->tensors[t];
        if (node.desc.name) TW_TRY(tw_arena_string(&to->arena, node.desc.name, &node.desc.name));
        if (node.scalar) {
            void *bytes;
            TW_TRY(tw_arena_alloc(&to->arena, 16, 1, &bytes));
            memcpy(bytes, node.data, 16);
            node.data = bytes;
        }
        to->tensors[t] = node;
    }
    for (int64_t i = 0; i < from->n_ops; i++) {
        tw_op op = from->ops[i];
        void *numbers;
        TW_TRY(tw_arena_alloc(&to->arena, op.n_in + op.n_out, sizeof(tw_tensor), &numbers));
        op.in = numbers;
        op.out = op.in + op.n_in;
        memcpy(op.in, from->ops[i].in, (size_t)op.n_in * sizeof *op.in);
        memcpy(op.out, from->ops[i].out, (size_t)op.n_out * sizeof *op.out);
        to->ops[i] = op;
    }
    to->n_tensors = from->n_tensors;
    to->n_ops = from->n_ops;
    to->cut = from->cut;
    to->reserve = from->reserve;
    return TW_OK;
}

tw_status tw_graph_copy(const tw_graph *graph, tw_graph **copy)
{
    TW_REQUIRE(graph && copy, TW_INVALID_ARGUMENT, "graph or copy is NULL");
    tw_graph *g;
    TW_TRY(tw_graph_create(&g));
    tw_status status = copy_into(graph, g);
    if (status != TW_OK) {
        tw_graph_free(g);
        return status;
    }
    *copy = g;
    return TW_OK;
}
