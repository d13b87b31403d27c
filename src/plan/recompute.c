/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to compute twice when the workspace is capped: at the step where most memory is in use, the
 * largest tensor that only waits there, that a cheap operation made, and whose operands are in
 * memory anyway when it is needed again.
 */
#include "core/error.h"
#include "plan/planner.h"

/* Bandwidth, not arithmetic: one pass over memory, and the same bits each time. */
static bool is_cheap(tw_op_kind kind)
{
    return kind == TW_OP_POINTWISE || kind == TW_OP_POOL || kind == TW_OP_DROPOUT ||
           kind == TW_OP_DROPOUT_BACKWARD || kind == TW_OP_CONCAT || kind == TW_OP_PAD ||
           kind == TW_OP_RESHAPE || kind == TW_OP_TRANSPOSE || kind == TW_OP_EXPAND ||
           kind == TW_OP_SLICE;
}

/* Memory of the workspace that the plan's tensors and scratch take in each step. */
static tw_status find_peak(tw_arena *scratch, const tw_planner *planner, int32_t *peak)
{
    const tw_plan *plan = planner->plan;
    void *memory;
    TW_TRY(tw_arena_alloc(scratch, plan->n_steps + 1, sizeof(int64_t), &memory));
    int64_t *used = memory;
    for (int32_t s = 0; s < plan->n_steps; s++) used[s] = plan->steps[s].scratch_bytes;
    for (int64_t t = 1; t < planner->graph->n_tensors; t++) {
        const tw_tensor_plan *info = &planner->tensors[t];
        if (info->root != t || info->bytes == 0) continue;
        for (int32_t s = info->first; s <= info->last; s++) used[s] += info->bytes;
    }
    *peak = 0;
    for (int32_t s = 1; s < plan->n_steps; s++)
        if (used[s] > used[*peak]) *peak = s;
    return TW_OK;
}

/* The first operation after the peak that reads t; -1 if views or the peak's step read it. */
static int32_t next_reader(const tw_planner *planner, tw_tensor t, int32_t peak)
{
    const tw_graph *graph = planner->graph;
    int32_t first = -1;
    for (int64_t o = 0; o < graph->n_ops; o++) {
        if (!planner->live[o]) continue;
        for (int32_t i = 0; i < graph->ops[o].n_in; i++) {
            tw_tensor in = graph->ops[o].in[i];
            if (in == TW_NONE || planner->tensors[in].root != t) continue;
            if (in != t || planner->step_of[o] == peak || planner->step_of[o] < 0) return -1;
            if (planner->step_of[o] > peak && first < 0) first = (int32_t)o;
        }
    }
    return first;
}

/* Is every operand still there, with the same content, when `step` runs? */
static bool operands_stay(const tw_planner *planner, const tw_op *op, int32_t step)
{
    const tw_graph *graph = planner->graph;
    for (int32_t i = 0; i < op->n_in; i++) {
        if (op->in[i] == TW_NONE) continue;
        tw_tensor root = planner->tensors[op->in[i]].root;
        const tw_tensor_node *node = &graph->tensors[root];
        if (node->donated_to != TW_NONE) return false;
        if (tw_planner_is_external(planner, root)) continue;
        bool bound = !(node->desc.flags & TW_TENSOR_VIRTUAL);
        if (!bound && planner->tensors[root].last < step) return false;
    }
    return true;
}

static bool waits(const tw_planner *planner, tw_tensor t, int32_t peak)
{
    const tw_tensor_plan *info = &planner->tensors[t];
    const tw_tensor_node *node = &planner->graph->tensors[t];
    return info->root == t && info->bytes > 0 && info->first < peak && peak < info->last &&
           node->producer >= 0 && !node->reserved && !info->shadow &&
           is_cheap(planner->graph->ops[node->producer].info->kind) &&
           planner->graph->ops[node->producer].out[0] == t;
}

tw_status tw_planner_find_recompute(const tw_planner *planner, tw_recompute *found)
{
    tw_arena scratch = {0};
    int32_t peak = 0;
    *found = (tw_recompute){.op = -1};
    if (planner->plan->n_steps == 0) return TW_OK;
    tw_status status = find_peak(&scratch, planner, &peak);
    tw_arena_free(&scratch);
    TW_TRY(status);
    for (int64_t t = 1; t < planner->graph->n_tensors; t++) {
        const tw_tensor_plan *info = &planner->tensors[t];
        if (info->bytes <= found->bytes || !waits(planner, (tw_tensor)t, peak)) continue;
        int32_t producer = planner->graph->tensors[t].producer;
        int32_t before = next_reader(planner, (tw_tensor)t, peak);
        if (before <= producer) continue;
        if (!operands_stay(planner, &planner->graph->ops[producer], planner->step_of[before]))
            continue;
        *found = (tw_recompute){
            .op = producer, .before = before, .tensor = (tw_tensor)t, .bytes = info->bytes};
    }
    return TW_OK;
}

tw_status tw_recompute_apply(tw_graph *graph, const tw_recompute *what)
{
    tw_tensor copy;
    TW_TRY(tw_graph_clone_op(graph, what->op, what->before, &copy));
    for (int64_t o = what->before + 1; o < graph->n_ops; o++)
        for (int32_t i = 0; i < graph->ops[o].n_in; i++)
            if (graph->ops[o].in[i] == what->tensor) graph->ops[o].in[i] = copy;
    return TW_OK;
}
