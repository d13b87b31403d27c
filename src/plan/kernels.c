/* SPDX-License-Identifier: Apache-2.0 */
/* For tools: rows, families, one row's answer to one problem, and what an operation costs. */
#include <string.h>

#include "core/error.h"
#include "plan/planner.h"

int32_t tw_kernel_count(void)
{
    int32_t n = 0;
    for (int32_t f = 0; f < tw_n_families; f++) n += tw_families[f]->n_kernels;
    return n;
}

static tw_status find(int32_t index, const tw_family **family, const tw_kernel **kernel)
{
    int32_t rest = index;
    for (int32_t f = 0; f < tw_n_families && index >= 0; f++) {
        if (rest < tw_families[f]->n_kernels) {
            *family = tw_families[f];
            *kernel = &tw_families[f]->kernels[rest];
            return TW_OK;
        }
        rest -= tw_families[f]->n_kernels;
    }
    return tw_fail(TW_INVALID_ARGUMENT, "index is %d; there are %d kernels, from 0", (int)index,
                   (int)tw_kernel_count());
}

tw_status tw_kernel_describe(int32_t index, tw_kernel_info *info)
{
    const tw_family *family;
    const tw_kernel *kernel;
    TW_REQUIRE(info, TW_INVALID_ARGUMENT, "info is NULL; give a place for the description");
    TW_TRY(find(index, &family, &kernel));
    *info = (tw_kernel_info){.size = sizeof *info,
                             .name = kernel->name,
                             .family = family->name,
                             .algorithm = kernel->algorithm,
                             .types = kernel->types,
                             .target = kernel->target,
                             .isa = kernel->isa,
                             .operation = tw_op_info_of(kernel->kind)->name,
                             .available = kernel->impl && kernel->isa <= tw_cpu_isa(),
                             .reference = kernel->reference,
                             .pattern = !tw_op_info_of(kernel->kind)->infer};
    return TW_OK;
}

/* Asks the planner, with fusion off and this row forced: the one place that knows how. */
tw_status tw_kernel_supports(int32_t index, const tw_graph *graph, const char **reason)
{
    static _Thread_local char text[256];
    const tw_family *family;
    const tw_kernel *kernel;
    TW_REQUIRE(graph && reason, TW_INVALID_ARGUMENT, "%s is NULL", graph ? "reason" : "graph");
    TW_TRY(find(index, &family, &kernel));
    tw_plan_options options = {
        .size = sizeof options, .kernel = kernel->name, .flags = TW_NO_FUSION};
    tw_plan *plan = NULL;
    tw_status status = tw_plan_create(graph, &options, &plan);
    *reason = NULL;
    if (status == TW_NOT_SUPPORTED) {
        const char *line = strstr(tw_last_error(), kernel->name);
        const char *colon = line ? strchr(line, ':') : NULL;
        size_t n = colon ? strcspn(colon + 2, "\n") : 0;
        if (n >= sizeof text) n = sizeof text - 1;
        if (n) memcpy(text, colon + 2, n);
        text[n] = '\0';
        *reason = text;
        return TW_OK;
    }
    if (status == TW_OK && strcmp(plan->steps[0].kernel->name, kernel->name) != 0)
        *reason = "the graph has no operation of this kernel's kind";
    tw_plan_free(plan);
    return status;
}

int32_t tw_family_count(void) { return tw_n_families; }

const char *tw_family_name(int32_t index)
{
    return index >= 0 && index < tw_n_families ? tw_families[index]->name : NULL;
}

/* ---- Operations ----------------------------------------------------------------------------- */

static const tw_tensor_desc *desc_of(const tw_graph *graph, tw_tensor tensor)
{
    return tensor == TW_NONE ? NULL : &graph->tensors[tensor].desc;
}

static double elements(const tw_graph *graph, tw_tensor tensor)
{
    const tw_tensor_desc *desc = desc_of(graph, tensor);
    double n = desc ? 1 : 0;
    for (int32_t d = 0; desc && d < desc->rank; d++) n *= (double)desc->dims[d];
    return n;
}

static int64_t terms_of(const tw_graph *graph, const tw_op *op)
{
    enum { MAX_IN = 8 };
    const tw_tensor_desc *in[MAX_IN] = {NULL};
    if (!op->info->terms || op->n_in > MAX_IN) return 1;
    for (int32_t i = 0; i < op->n_in; i++) in[i] = desc_of(graph, op->in[i]);
    return op->info->terms(&op->attrs, in, desc_of(graph, op->out[0]));
}

/* One for each element of the largest operand: no operation that computes needs less. */
static double least_flops(const tw_graph *graph, const tw_op *op)
{
    double most = 0;
    for (int32_t i = 0; i < op->n_in + op->n_out; i++) {
        double n = elements(graph, i < op->n_in ? op->in[i] : op->out[i - op->n_in]);
        if (n > most) most = n;
    }
    return most;
}

/* A convolution's three passes multiply the same pairs: each y with each w of its group. */
static double conv_flops(const tw_graph *graph, tw_tensor y, tw_tensor w)
{
    double filters = (double)desc_of(graph, w)->dims[0];
    return filters > 0 ? 2 * elements(graph, y) * elements(graph, w) / filters : 0;
}

static double flops_of(const tw_graph *graph, const tw_op *op, int64_t terms)
{
    switch (op->info->kind) {
    case TW_OP_MATMUL: return 2 * (double)terms * elements(graph, op->out[0]);
    case TW_OP_CONV: return conv_flops(graph, op->out[0], op->in[1]);
    case TW_OP_CONV_DGRAD: return conv_flops(graph, op->in[0], op->in[1]);
    case TW_OP_CONV_WGRAD: return conv_flops(graph, op->in[1], op->out[0]);
    case TW_OP_POOL: return (double)terms * elements(graph, op->out[0]);
    default: return op->info->bound == TW_BOUND_EXACT ? 0 : least_flops(graph, op);
    }
}

static double bytes_of(const tw_graph *graph, const tw_op *op)
{
    double bits = 0;
    for (int32_t i = 0; i < op->n_in + op->n_out; i++) {
        tw_tensor tensor = i < op->n_in ? op->in[i] : op->out[i - op->n_in];
        if (tensor == TW_NONE) continue;
        bits += elements(graph, tensor) * tw_dtype_bits(desc_of(graph, tensor)->dtype);
    }
    return bits / 8;
}

tw_status tw_graph_operation(const tw_graph *graph, int32_t index, tw_operation_info *info)
{
    static const tw_exactness exactness[] = {[TW_BOUND_EXACT] = TW_RESULT_EXACT,
                                             [TW_BOUND_SUM] = TW_RESULT_SUM,
                                             [TW_BOUND_SMOOTH] = TW_RESULT_SMOOTH};
    TW_REQUIRE(graph && info, TW_INVALID_ARGUMENT, "%s is NULL", graph ? "info" : "graph");
    TW_REQUIRE(index >= 0 && index < graph->n_ops, TW_INVALID_ARGUMENT,
               "index is %d; the graph has %lld operations, from 0", (int)index,
               (long long)graph->n_ops);
    const tw_op *op = &graph->ops[index];
    const int64_t terms = terms_of(graph, op);
    *info = (tw_operation_info){.size = sizeof *info,
                                .operation = op->info->name,
                                .family = tw_family_of(op->info->kind)->name,
                                .n_in = op->n_in,
                                .n_out = op->n_out,
                                .in = op->in,
                                .out = op->out,
                                .in_names = op->info->in_names,
                                .out_names = op->info->out_names,
                                .exactness = exactness[op->info->bound],
                                .ulps = op->info->ulps,
                                .terms = terms,
                                .flops = flops_of(graph, op, terms),
                                .bytes = bytes_of(graph, op)};
    return TW_OK;
}
