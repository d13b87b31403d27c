/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups: an anchor and the pointwise operations behind it that can run on its result while that is
 * in registers or cache. Grouping never decides whether something works: select.c takes operations
 * off the end again until a kernel accepts the rest.
 */
#include <string.h>

#include "core/error.h"
#include "plan/planner.h"

enum { LOOK_AHEAD = 64, MAX_LOADS = TW_STACK_OPERANDS, MAX_STORES = 8 };

bool tw_group_has(int32_t n_ops, const int32_t *ops, int64_t op)
{
    for (int32_t i = 0; i < n_ops; i++)
        if (ops[i] == op) return true;
    return false;
}

bool tw_planner_available(const tw_planner *planner, tw_tensor tensor)
{
    tw_tensor root = planner->tensors[tensor].root;
    return tw_planner_is_external(planner, root) ||
           planner->done[planner->graph->tensors[root].producer];
}

bool tw_planner_needed(const tw_planner *planner, tw_tensor tensor, int32_t n_ops,
                       const int32_t *ops)
{
    const tw_graph *graph = planner->graph;
    const tw_tensor_node *node = &graph->tensors[tensor];
    if (!(node->desc.flags & TW_TENSOR_VIRTUAL)) return true;
    if (node->reserved && planner->plan->options.phase == TW_PHASE_FORWARD) return true;
    for (int64_t o = 0; o < graph->n_ops; o++) {
        if (!planner->live[o] || tw_group_has(n_ops, ops, o)) continue;
        for (int32_t i = 0; i < graph->ops[o].n_in; i++)
            if (graph->ops[o].in[i] == tensor) return true;
    }
    return false;
}

static bool same_dims(const tw_tensor_desc *a, const tw_tensor_desc *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

/* Would running `op` now overwrite a donated tensor that some operation still has to read? */
static bool overwrites_too_early(const tw_planner *planner, const tw_group *group, const tw_op *op)
{
    const tw_graph *graph = planner->graph;
    tw_tensor donor = graph->tensors[op->out[0]].donor;
    if (donor == TW_NONE) return false;
    for (int64_t o = 0; o < graph->n_ops; o++) {
        if (!planner->live[o] || planner->done[o] || &graph->ops[o] == op ||
            tw_group_has(group->n_ops, group->ops, o))
            continue;
        for (int32_t i = 0; i < graph->ops[o].n_in; i++) {
            tw_tensor t = graph->ops[o].in[i];
            if (t != TW_NONE && planner->tensors[t].root == donor) return true;
        }
    }
    return false;
}

/* Whether a pointwise operation may run as part of the group. */
static bool joins(const tw_planner *planner, const tw_group *group, int32_t index,
                  const tw_tensor_desc *space)
{
    const tw_graph *graph = planner->graph;
    const tw_op *op = &graph->ops[index];
    if (op->info->kind != TW_OP_POINTWISE || !same_dims(&graph->tensors[op->out[0]].desc, space))
        return false;
    bool linked = false;
    for (int32_t i = 0; i < op->n_in; i++) {
        tw_tensor t = op->in[i];
        if (t == TW_NONE) continue;
        int32_t producer = graph->tensors[t].producer;
        if (!tw_planner_is_external(planner, t) &&
            tw_group_has(group->n_ops, group->ops, producer)) {
            /* The value in registers is the anchor's first result, at its own shape. */
            if (t != graph->ops[producer].out[0] || !same_dims(&graph->tensors[t].desc, space))
                return false;
            linked = true;
        } else if (!tw_planner_available(planner, t))
            return false;
    }
    return linked && !overwrites_too_early(planner, group, op);
}

static int32_t count_loads(const tw_planner *planner, const tw_group *group)
{
    int32_t n = 0;
    for (int32_t k = 0; k < group->n_ops; k++) n += planner->graph->ops[group->ops[k]].n_in;
    return n;
}

/* May values of this tensor pass through the pointwise interpreter? */
static bool fusible_result(const tw_planner *planner, tw_tensor t)
{
    return t != TW_NONE && planner->graph->tensors[t].desc.rank >= 1;
}

tw_status tw_planner_group(tw_planner *planner, int32_t anchor_position, tw_group *group)
{
    const tw_graph *graph = planner->graph;
    int32_t anchor = planner->order[anchor_position];
    const tw_op *op = &graph->ops[anchor];
    group->n_ops = 1;
    group->ops[0] = anchor;
    if (planner->plan->options.flags & TW_NO_FUSION) return TW_OK;
    if (op->info->view || !fusible_result(planner, op->out[0])) return TW_OK;
    const tw_tensor_desc *space = &graph->tensors[op->out[0]].desc;
    int32_t end = anchor_position + LOOK_AHEAD;
    if (end > planner->n_order) end = planner->n_order;
    for (int32_t p = anchor_position + 1; p < end; p++) {
        int32_t next = planner->order[p];
        if (planner->done[next] || !joins(planner, group, next, space)) continue;
        if (count_loads(planner, group) + graph->ops[next].n_in > MAX_LOADS) break;
        if (group->n_ops >= MAX_STORES) break;
        group->ops[group->n_ops++] = next;
    }
    return TW_OK;
}
