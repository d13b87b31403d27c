/* SPDX-License-Identifier: Apache-2.0 */
/* From a group to its pointwise program: values, loads, stores. */
#include <string.h>

#include "core/error.h"
#include "plan/planner.h"

typedef struct builder {
    tw_planner *planner;
    const tw_group *group;
    const tw_tensor_desc *space;
    bool has_anchor; /* the first operation is not itself a step */
    tw_view *loads;
    tw_chain_step *steps;
    tw_chain_store *stores;
    tw_tensor *load_tensors, *store_tensors;
    tw_chain *chain;
} builder;

static bool is_internal(const builder *b, tw_tensor t)
{
    return !tw_planner_is_external(b->planner, t) &&
           tw_group_has(b->group->n_ops, b->group->ops, b->planner->graph->tensors[t].producer);
}

/* A view stretched to the chain's space: NumPy broadcasting, stride 0 where a dim is repeated. */
static tw_view stretch(const tw_view *view, const tw_tensor_desc *space)
{
    tw_view wide = *view;
    wide.rank = space->rank;
    for (int32_t d = 0; d < space->rank; d++) {
        int32_t from = d - (space->rank - view->rank);
        bool repeats = from < 0 || view->dims[from] == 1;
        wide.dims[d] = space->dims[d];
        wide.strides[d] = repeats ? 0 : view->strides[from];
    }
    return wide;
}

static void add_loads(builder *b)
{
    const tw_graph *graph = b->planner->graph;
    for (int32_t k = b->has_anchor ? 1 : 0; k < b->group->n_ops; k++) {
        const tw_op *op = &graph->ops[b->group->ops[k]];
        for (int32_t i = 0; i < op->n_in; i++) {
            tw_tensor t = op->in[i];
            if (t == TW_NONE || is_internal(b, t)) continue;
            bool known = false;
            for (int32_t l = 0; l < b->chain->n_loads; l++)
                known = known || b->load_tensors[l] == t;
            if (known) continue;
            tw_view view = tw_planner_view(b->planner, t);
            b->load_tensors[b->chain->n_loads] = t;
            b->loads[b->chain->n_loads++] = stretch(&view, b->space);
        }
    }
}

/* The number of the value that holds tensor t; -1 for an absent operand. */
static int16_t value_of(const builder *b, tw_tensor t)
{
    if (t == TW_NONE) return -1;
    for (int32_t l = 0; l < b->chain->n_loads; l++)
        if (b->load_tensors[l] == t) return (int16_t)(1 + l);
    int32_t producer = b->planner->graph->tensors[t].producer;
    for (int32_t k = 0; k < b->group->n_ops; k++)
        if (b->group->ops[k] == producer)
            return (int16_t)(b->has_anchor && k == 0
                                 ? 0
                                 : 1 + b->chain->n_loads + k - (b->has_anchor ? 1 : 0));
    return -1;
}

static tw_dtype rounding_of(const builder *b, tw_tensor t)
{
    const tw_tensor_desc *desc = &b->planner->graph->tensors[t].desc;
    bool wide = (desc->flags & TW_TENSOR_VIRTUAL) && (desc->flags & TW_TENSOR_WIDE);
    return wide ? TW_AUTO : desc->dtype;
}

static void add_steps(builder *b)
{
    const tw_graph *graph = b->planner->graph;
    for (int32_t k = b->has_anchor ? 1 : 0; k < b->group->n_ops; k++) {
        const tw_op *op = &graph->ops[b->group->ops[k]];
        tw_chain_step *step = &b->steps[b->chain->n_steps++];
        step->attrs = op->attrs.pointwise;
        step->a = value_of(b, op->in[0]);
        step->b = op->n_in > 1 ? value_of(b, op->in[1]) : -1;
        step->c = op->n_in > 2 ? value_of(b, op->in[2]) : -1;
        step->round = rounding_of(b, op->out[0]);
    }
}

static void add_stores(builder *b)
{
    const tw_graph *graph = b->planner->graph;
    for (int32_t k = 0; k < b->group->n_ops; k++) {
        tw_tensor t = graph->ops[b->group->ops[k]].out[0];
        if (!tw_planner_needed(b->planner, t, b->group->n_ops, b->group->ops)) continue;
        tw_chain_store *store = &b->stores[b->chain->n_stores];
        store->value = value_of(b, t);
        store->view = tw_planner_view(b->planner, t);
        bool step = !(b->has_anchor && k == 0);
        store->convert = step ? graph->ops[b->group->ops[k]].attrs.pointwise.convert : 0;
        b->store_tensors[b->chain->n_stores++] = t;
    }
}

static tw_status allocate(builder *b)
{
    tw_arena *arena = &b->planner->plan->arena;
    int64_t n = b->group->n_ops;
    void *memory;
    TW_TRY(tw_arena_alloc(arena, 1, sizeof(tw_chain), &memory));
    b->chain = memory;
    TW_TRY(tw_arena_alloc(arena, 3 * n, sizeof(tw_view), &memory));
    b->loads = memory;
    TW_TRY(tw_arena_alloc(arena, n, sizeof(tw_chain_step), &memory));
    b->steps = memory;
    TW_TRY(tw_arena_alloc(arena, n, sizeof(tw_chain_store), &memory));
    b->stores = memory;
    return TW_OK;
}

tw_status tw_planner_chain(tw_planner *planner, const tw_group *group, tw_chain **chain,
                           tw_tensor *load_tensors, tw_tensor *store_tensors)
{
    const tw_graph *graph = planner->graph;
    const tw_op *first = &graph->ops[group->ops[0]];
    builder b = {.planner = planner,
                 .group = group,
                 .load_tensors = load_tensors,
                 .store_tensors = store_tensors,
                 .space = &graph->tensors[first->out[0]].desc,
                 .has_anchor = first->info->kind != TW_OP_POINTWISE};
    TW_TRY(allocate(&b));
    b.chain->rank = b.space->rank;
    memcpy(b.chain->dims, b.space->dims, sizeof b.chain->dims);
    b.chain->loads = b.loads;
    b.chain->steps = b.steps;
    b.chain->stores = b.stores;
    b.chain->anchor_round = b.has_anchor ? rounding_of(&b, first->out[0]) : TW_AUTO;
    add_loads(&b);
    add_steps(&b);
    add_stores(&b);
    *chain = b.chain;
    return TW_OK;
}
