/* SPDX-License-Identifier: Apache-2.0 */
/* Adding operations: inference, checks of declared outputs, and the commit at the end. */
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "graph/graph.h"

#define MAX_OUT 4

static const char *operand_name(const tw_op_info *info, bool output, int32_t i)
{
    const char *const *names = output ? info->out_names : info->in_names;
    int32_t n = output ? MAX_OUT : 8;
    const char *name = i < n ? names[i] : NULL;
    return name ? name : output ? "output" : "input";
}

static tw_status check_inputs(const tw_graph *graph, const tw_op_info *info, int32_t n_in,
                              const tw_tensor *in)
{
    TW_REQUIRE(n_in >= info->min_in && (info->max_in < 0 || n_in <= info->max_in),
               TW_INVALID_ARGUMENT, "%s: %d inputs given; it takes %d to %d", info->name, (int)n_in,
               (int)info->min_in, (int)info->max_in);
    for (int32_t i = 0; i < n_in; i++) {
        const char *name = operand_name(info, false, i);
        bool optional = i >= info->min_in || (i < 32 && (info->optional_in >> i & 1));
        if (optional && in[i] == TW_NONE) continue;
        TW_REQUIRE(tw_graph_has(graph, in[i]), TW_INVALID_ARGUMENT,
                   "%s: %s is %d; it must be a tensor of this graph, 1 to %d", info->name, name,
                   (int)in[i], (int)tw_graph_tensor_count(graph));
        const tw_tensor_node *node = &graph->tensors[in[i]];
        TW_REQUIRE(node->producer >= 0 || !(node->desc.flags & TW_TENSOR_VIRTUAL),
                   TW_INVALID_ARGUMENT,
                   "%s: %s (tensor %d) is virtual and no operation produces it yet; add its "
                   "producer first",
                   info->name, name, (int)in[i]);
    }
    return TW_OK;
}

static bool is_read(const tw_graph *graph, tw_tensor tensor)
{
    for (int64_t o = 0; o < graph->n_ops; o++)
        for (int32_t i = 0; i < graph->ops[o].n_in; i++)
            if (graph->ops[o].in[i] == tensor) return true;
    return false;
}

static tw_status check_declared(const tw_graph *graph, const tw_op_info *info, int32_t i,
                                const tw_tensor *out)
{
    const char *name = operand_name(info, true, i);
    TW_REQUIRE(tw_graph_has(graph, out[i]), TW_INVALID_ARGUMENT,
               "%s: %s is %d; it must be TW_NONE or a declared tensor, 1 to %d", info->name, name,
               (int)out[i], (int)tw_graph_tensor_count(graph));
    const tw_tensor_node *node = &graph->tensors[out[i]];
    TW_REQUIRE(node->producer < 0 && !node->constant, TW_INVALID_ARGUMENT,
               "%s: %s (tensor %d) %s; declare a new tensor", info->name, name, (int)out[i],
               node->constant ? "is a constant" : "already has a producer");
    for (int32_t k = 0; k < i; k++)
        TW_REQUIRE(out[k] != out[i], TW_INVALID_ARGUMENT, "%s: tensor %d is given as two outputs",
                   info->name, (int)out[i]);
    TW_REQUIRE(!is_read(graph, out[i]), TW_INVALID_ARGUMENT,
               "%s: %s (tensor %d) is already read by an operation; add producers before readers",
               info->name, name, (int)out[i]);
    if (!node->desc.has_strides) return TW_OK;
    char what[96];
    snprintf(what, sizeof what, "%s: %s", info->name, name);
    return tw_desc_check_output(&node->desc, what);
}

static void dims_text(char *text, size_t n, const tw_tensor_desc *desc)
{
    size_t at = (size_t)snprintf(text, n, "[");
    for (int32_t d = 0; d < desc->rank && at < n; d++)
        at +=
            (size_t)snprintf(text + at, n - at, "%s%lld", d ? ", " : "", (long long)desc->dims[d]);
    if (at < n) snprintf(text + at, n - at, "]");
}

/* Compares the inferred shape of output i with the declared one. */
static tw_status compare(const tw_op_info *info, int32_t i, const tw_tensor_desc *inferred,
                         const tw_tensor_desc *given)
{
    bool same = inferred->rank == given->rank;
    for (int32_t d = 0; same && d < given->rank; d++) same = inferred->dims[d] == given->dims[d];
    if (same) return TW_OK;
    char want[200], got[200];
    dims_text(want, sizeof want, inferred);
    dims_text(got, sizeof got, given);
    return tw_fail(TW_INVALID_ARGUMENT, "%s: %s is declared as %s; the operands give %s",
                   info->name, operand_name(info, true, i), got, want);
}

typedef struct addition {
    const tw_op_info *info;
    tw_attrs attrs;
    const tw_tensor_desc **in;
    bool wanted[MAX_OUT], declared[MAX_OUT];
    tw_tensor_desc out[MAX_OUT];
} addition;

static tw_status infer(tw_graph *graph, addition *a, int32_t n_in, int32_t n_out,
                       const tw_tensor *out)
{
    const tw_op_info *info = a->info;
    TW_REQUIRE(n_out == info->n_out, TW_INTERNAL, "%s: %d output slots given, it has %d",
               info->name, (int)n_out, (int)info->n_out);
    for (int32_t i = 0; i < n_out; i++) {
        a->wanted[i] = out[i] != TW_UNWANTED;
        a->declared[i] = a->wanted[i] && out[i] != TW_NONE;
        TW_REQUIRE(a->wanted[i] || i >= info->required_out, TW_INVALID_ARGUMENT,
                   "%s: %s is required; give a place for its number", info->name,
                   operand_name(info, true, i));
        if (!a->declared[i]) continue;
        TW_TRY(check_declared(graph, info, i, out));
        a->out[i] = graph->tensors[out[i]].desc;
    }
    tw_infer request = {.info = info,
                        .attrs = &a->attrs,
                        .n_in = n_in,
                        .n_out = n_out,
                        .in = a->in,
                        .wanted = a->wanted,
                        .declared = a->declared,
                        .out = a->out};
    TW_TRY(info->infer(&request));
    for (int32_t i = 0; i < n_out; i++) {
        if (a->declared[i])
            TW_TRY(compare(info, i, &a->out[i], &graph->tensors[out[i]].desc));
        else if (a->wanted[i]) {
            tw_tensor_desc made = {
                .dtype = a->out[i].dtype, .rank = a->out[i].rank, .flags = TW_TENSOR_VIRTUAL};
            memcpy(made.dims, a->out[i].dims, sizeof made.dims);
            TW_TRY(tw_desc_check(&made, false, info->name));
            a->out[i] = made;
        }
    }
    return TW_OK;
}

/* Memory first, then changes that cannot fail. */
static tw_status commit(tw_graph *graph, const addition *a, const tw_op *op, tw_tensor *out)
{
    TW_TRY(
        tw_grow((void **)&graph->ops, &graph->op_capacity, graph->n_ops + 1, sizeof *graph->ops));
    TW_TRY(tw_grow((void **)&graph->tensors, &graph->tensor_capacity, graph->n_tensors + MAX_OUT,
                   sizeof *graph->tensors));
    for (int32_t i = 0; i < op->n_out; i++) {
        op->out[i] = TW_NONE;
        if (!a->wanted[i]) continue;
        if (!a->declared[i]) {
            tw_tensor_node *node = &graph->tensors[graph->n_tensors];
            *node = (tw_tensor_node){.desc = a->out[i]};
            node->desc.size = sizeof node->desc;
            node->desc.uid = graph->n_tensors;
            out[i] = (tw_tensor)graph->n_tensors++;
        }
        op->out[i] = out[i];
        graph->tensors[out[i]].producer = (int32_t)graph->n_ops;
    }
    graph->ops[graph->n_ops++] = *op;
    return TW_OK;
}

static tw_status add_checked(tw_graph *graph, addition *a, tw_op *op, const tw_tensor *in,
                             tw_tensor *out)
{
    TW_TRY(infer(graph, a, op->n_in, op->n_out, out));
    void *numbers;
    TW_TRY(tw_arena_alloc(&graph->arena, op->n_in + op->n_out, sizeof(tw_tensor), &numbers));
    tw_tensor *kept = numbers;
    if (op->n_in) memcpy(kept, in, (size_t)op->n_in * sizeof *kept);
    op->in = kept;
    op->out = kept + op->n_in;
    op->attrs = a->attrs;
    return commit(graph, a, op, out);
}

tw_status tw_graph_add(tw_graph *graph, tw_op_kind kind, const tw_attrs *attrs, int32_t n_in,
                       const tw_tensor *in, int32_t n_out, tw_tensor *out)
{
    TW_REQUIRE(graph, TW_INVALID_ARGUMENT, "graph is NULL; create one with tw_graph_create");
    const tw_op_info *info = tw_op_info_of(kind);
    TW_REQUIRE(info && info->infer, TW_INVALID_ARGUMENT, "operation kind %d does not exist",
               (int)kind);
    TW_TRY(check_inputs(graph, info, n_in, in));
    addition a = {.info = info};
    if (attrs) a.attrs = *attrs;
    void *in_descs;
    TW_TRY(tw_calloc(n_in, sizeof *a.in, &in_descs));
    a.in = in_descs;
    for (int32_t i = 0; i < n_in; i++)
        a.in[i] = in[i] == TW_NONE ? NULL : &graph->tensors[in[i]].desc;
    tw_op op = {.info = info, .n_in = n_in, .n_out = n_out};
    tw_status status = add_checked(graph, &a, &op, in, out);
    tw_free(in_descs);
    return status;
}

/* ---- The graph as families see it ----------------------------------------------------------- */

static tw_status builder_tensor(void *graph, const tw_tensor_desc *desc, tw_tensor *tensor)
{
    return tw_graph_tensor(graph, desc, tensor);
}

static tw_status builder_scalar(void *graph, tw_dtype dtype, double value, tw_tensor *tensor)
{
    return tw_graph_scalar(graph, dtype, value, tensor);
}

static tw_status builder_add(void *graph, tw_op_kind kind, const tw_attrs *attrs, int32_t n_in,
                             const tw_tensor *in, int32_t n_out, tw_tensor *out)
{
    return tw_graph_add(graph, kind, attrs, n_in, in, n_out, out);
}

static tw_status builder_describe(const void *graph, tw_tensor tensor, tw_tensor_desc *desc)
{
    return tw_graph_describe(graph, tensor, desc);
}

static tw_status builder_output(void *graph, tw_tensor tensor, const int64_t *strides)
{
    return tw_graph_output(graph, tensor, strides);
}

const tw_builder tw_graph_builder = {.tensor = builder_tensor,
                                     .scalar = builder_scalar,
                                     .add = builder_add,
                                     .describe = builder_describe,
                                     .output = builder_output};
