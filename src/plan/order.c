/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which operations a plan needs, and their order: the graph's own, except that an operation that
 * overwrites a donated input waits for every reader of the old value.
 */
#include <string.h>

#include "core/error.h"
#include "plan/planner.h"

bool tw_planner_in_phase(const tw_planner *planner, int32_t op)
{
    int64_t cut = planner->graph->cut;
    switch (planner->plan->options.phase) {
    case TW_PHASE_FORWARD: return cut < 0 || op < cut;
    case TW_PHASE_BACKWARD: return cut >= 0 && op >= cut;
    case TW_PHASE_ALL: break;
    }
    return true;
}

bool tw_planner_is_external(const tw_planner *planner, tw_tensor tensor)
{
    const tw_tensor_node *node = &planner->graph->tensors[tensor];
    return node->producer < 0 || !tw_planner_in_phase(planner, node->producer);
}

static bool is_root_output(const tw_planner *planner, tw_tensor tensor)
{
    const tw_tensor_node *node = &planner->graph->tensors[tensor];
    if (!(node->desc.flags & TW_TENSOR_VIRTUAL)) return true;
    return node->reserved && planner->plan->options.phase == TW_PHASE_FORWARD;
}

/* An operation lives if it writes something bound or something that a living one reads. */
static void mark_live(tw_planner *planner, bool *needed)
{
    const tw_graph *graph = planner->graph;
    for (int64_t o = graph->n_ops - 1; o >= 0; o--) {
        if (!tw_planner_in_phase(planner, (int32_t)o)) continue;
        const tw_op *op = &graph->ops[o];
        bool live = false;
        for (int32_t i = 0; i < op->n_out; i++)
            if (op->out[i] != TW_NONE)
                live = live || needed[op->out[i]] || is_root_output(planner, op->out[i]);
        planner->live[o] = live;
        for (int32_t i = 0; live && i < op->n_in; i++) needed[op->in[i]] = true;
    }
}

/* What of the forward part the backward phase can see. */
static tw_status check_phase(const tw_planner *planner)
{
    const tw_graph *graph = planner->graph;
    if (planner->plan->options.phase == TW_PHASE_ALL) return TW_OK;
    TW_REQUIRE(graph->cut >= 0, TW_INVALID_ARGUMENT,
               "phase is %d, but the graph was not differentiated with a cut; use TW_PHASE_ALL",
               (int)planner->plan->options.phase);
    return TW_OK;
}

/* reads[o]: operation o reads the donor's memory, directly or through views. */
static void find_readers(const tw_graph *graph, tw_tensor donor, bool *seen, bool *reads)
{
    memset(seen, 0, (size_t)graph->n_tensors * sizeof *seen);
    seen[donor] = true;
    for (int64_t o = 0; o < graph->n_ops; o++) {
        const tw_op *op = &graph->ops[o];
        reads[o] = false;
        for (int32_t i = 0; i < op->n_in; i++)
            reads[o] = reads[o] || (op->in[i] != TW_NONE && seen[op->in[i]]);
        bool may_alias = op->info->view || (op->info->kind == TW_OP_POINTWISE &&
                                            op->attrs.pointwise.mode == TW_PW_IDENTITY);
        if (reads[o] && may_alias) seen[op->out[0]] = true;
    }
}

typedef struct edge {
    int32_t before, after;
} edge;

static tw_status donation_edges(tw_planner *planner, edge **edges, int64_t *n)
{
    const tw_graph *graph = planner->graph;
    void *seen, *reads, *list = NULL;
    int64_t capacity = 0;
    *n = 0;
    TW_TRY(tw_arena_alloc(&planner->scratch, graph->n_tensors, sizeof(bool), &seen));
    TW_TRY(tw_arena_alloc(&planner->scratch, graph->n_ops, sizeof(bool), &reads));
    for (int64_t t = 1; t < graph->n_tensors; t++) {
        const tw_tensor_node *node = &graph->tensors[t];
        if (node->donor == TW_NONE || !planner->live[node->producer]) continue;
        find_readers(graph, node->donor, seen, reads);
        for (int64_t o = 0; o < graph->n_ops; o++) {
            if (!((bool *)reads)[o] || !planner->live[o] || o == node->producer) continue;
            tw_status status = tw_grow(&list, &capacity, *n + 1, sizeof(edge));
            if (status != TW_OK) {
                tw_free(list);
                return status;
            }
            ((edge *)list)[(*n)++] = (edge){(int32_t)o, node->producer};
        }
    }
    *edges = list;
    return TW_OK;
}

static bool ready(const tw_planner *planner, int32_t o, const edge *edges, int64_t n)
{
    const tw_op *op = &planner->graph->ops[o];
    for (int32_t i = 0; i < op->n_in; i++)
        if (op->in[i] != TW_NONE && !tw_planner_is_external(planner, op->in[i]) &&
            !planner->done[planner->graph->tensors[op->in[i]].producer])
            return false;
    for (int64_t e = 0; e < n; e++)
        if (edges[e].after == o && !planner->done[edges[e].before]) return false;
    return true;
}

/* Takes the first operation that is ready, again and again; operations that wait are looked at once
 * more when something was taken. */
static tw_status sort(tw_planner *planner, const edge *edges, int64_t n_edges)
{
    int64_t n_ops = planner->graph->n_ops, left = 0, start = 0;
    for (int64_t o = 0; o < n_ops; o++) left += planner->live[o];
    while (left > 0) {
        int64_t taken = 0, blocked = -1;
        for (int64_t o = start; o < n_ops; o++) {
            if (!planner->live[o] || planner->done[o]) continue;
            if (!ready(planner, (int32_t)o, edges, n_edges)) {
                if (blocked < 0) blocked = o;
                continue;
            }
            planner->done[o] = true;
            planner->order[planner->n_order++] = (int32_t)o;
            taken++;
        }
        TW_REQUIRE(
            taken > 0, TW_INVALID_ARGUMENT,
            "donations contradict each other: operation %lld (%s) overwrites a tensor that is "
            "needed to compute its own operands",
            (long long)blocked, planner->graph->ops[blocked].info->name);
        left -= taken;
        start = blocked < 0 ? 0 : blocked;
    }
    memset(planner->done, 0, (size_t)n_ops * sizeof *planner->done);
    return TW_OK;
}

tw_status tw_planner_order(tw_planner *planner)
{
    tw_graph *graph = planner->graph;
    void *needed, *memory;
    TW_TRY(check_phase(planner));
    TW_TRY(tw_arena_alloc(&planner->scratch, graph->n_tensors, sizeof(bool), &needed));
    TW_TRY(tw_arena_alloc(&planner->scratch, graph->n_ops, sizeof(bool), &memory));
    planner->live = memory;
    TW_TRY(tw_arena_alloc(&planner->scratch, graph->n_ops, sizeof(bool), &memory));
    planner->done = memory;
    TW_TRY(tw_arena_alloc(&planner->scratch, graph->n_ops, sizeof(int32_t), &memory));
    planner->order = memory;
    TW_TRY(tw_arena_alloc(&planner->scratch, graph->n_ops, sizeof(int32_t), &memory));
    planner->step_of = memory;
    for (int64_t o = 0; o < graph->n_ops; o++) planner->step_of[o] = -1;
    mark_live(planner, needed);
    edge *edges = NULL;
    int64_t n_edges;
    TW_TRY(donation_edges(planner, &edges, &n_edges));
    tw_status status = sort(planner, edges, n_edges);
    tw_free(edges);
    return status;
}
