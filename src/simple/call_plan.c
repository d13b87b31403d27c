/* SPDX-License-Identifier: Apache-2.0 */
/* From a call to its plan: declare the operands, let the kind add its operations, plan. */
#include "simple/call.h"

/* The new value of an updated operand, which is bound by the old one's id. */
enum { UPDATED_UID = TW_CALL_UID + TW_CALL_OPERANDS };

static tw_status declare(const tw_call_kind *kind, tw_call_graph *g, int32_t i)
{
    const tw_call_operand *operand = &kind->operands[i];
    tw_tensor_desc desc = *g->desc[i];
    desc.uid = TW_CALL_UID + i;
    desc.name = operand->name;
    desc.flags = 0;
    if (operand->role == TW_ROLE_OUT) return tw_graph_tensor(g->graph, &desc, &g->out[i]);
    TW_TRY(tw_graph_tensor(g->graph, &desc, &g->in[i]));
    if (operand->role != TW_ROLE_UPDATE) return TW_OK;
    desc.uid = UPDATED_UID + i;
    return tw_graph_tensor(g->graph, &desc, &g->out[i]);
}

static tw_status build(const tw_call_kind *kind, const void *call, tw_call_graph *g)
{
    TW_TRY(tw_graph_create(&g->graph));
    for (int32_t i = 0; i < TW_CALL_OPERANDS && kind->operands[i].name; i++) {
        g->desc[i] = tw_call_operand_of(kind, call, i).desc;
        if (g->desc[i]) TW_TRY(declare(kind, g, i));
    }
    TW_TRY(kind->build(g, call));
    for (int32_t i = 0; i < TW_CALL_OPERANDS && kind->operands[i].name; i++)
        if (kind->operands[i].role == TW_ROLE_UPDATE && g->desc[i])
            TW_TRY(tw_graph_donate(g->graph, g->out[i], g->in[i]));
    return TW_OK;
}

static tw_status plan_graph(const tw_call_kind *kind, const void *call, bool unlimited,
                            const tw_graph *graph, tw_plan **plan)
{
    const tw_call_options *given = ((const tw_call_head *)call)->options;
    tw_plan_options options = {.has_workspace_limit = !unlimited, .max_threads = 1};
    if (given) {
        options.workspace_limit = unlimited ? 0 : given->workspace_bytes;
        options.flags = given->flags;
        if (given->context) options.max_threads = tw_context_threads(given->context);
    }
    tw_status status = tw_plan_cached(graph, &options, plan);
    return status == TW_OK ? TW_OK : tw_fail(status, "%s: %s", kind->name, tw_last_error());
}

static void bind_in_order(tw_call_plan *made)
{
    made->n = tw_plan_binding_count(made->plan);
    for (int32_t b = 0; b < made->n && b < TW_CALL_OPERANDS; b++) {
        int64_t operand = tw_plan_binding_uid(made->plan, b) - TW_CALL_UID;
        made->order[b] = (uint8_t)(operand % TW_CALL_OPERANDS);
    }
}

tw_status tw_call_make_plan(const tw_call_kind *kind, const void *call, bool unlimited,
                            tw_call_plan *plan)
{
    tw_call_graph g = {.graph = NULL};
    *plan = (tw_call_plan){.plan = NULL};
    tw_status status = build(kind, call, &g);
    if (status == TW_OK) status = plan_graph(kind, call, unlimited, g.graph, &plan->plan);
    if (status == TW_OK) bind_in_order(plan);
    tw_graph_free(g.graph);
    return status;
}
