/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One workspace for a plan: every tensor inside it from the step that writes it to the last that
 * reads it, every kernel's scratch for its own step. Largest first, each at the lowest place that
 * is free during its life.
 */
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "plan/planner.h"

typedef struct item {
    int32_t first, last;
    int64_t bytes, address;
    int64_t *result;
} item;

static bool in_workspace(const tw_planner *planner, tw_tensor root)
{
    const tw_tensor_node *node = &planner->graph->tensors[root];
    if (planner->tensors[root].shadow) return true;
    if (node->constant || tw_planner_is_external(planner, root)) return false;
    if (node->reserved && planner->plan->options.phase != TW_PHASE_ALL) return false;
    return (node->desc.flags & TW_TENSOR_VIRTUAL) != 0;
}

static void touch(tw_planner *planner, tw_tensor tensor, int32_t step)
{
    if (tensor == TW_NONE) return;
    tw_tensor_plan *root = &planner->tensors[planner->tensors[tensor].root];
    if (root->first < 0) root->first = step;
    root->last = step;
}

static void find_lives(tw_planner *planner)
{
    tw_plan *plan = planner->plan;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const tw_step *step = &plan->steps[s];
        const tw_chain *chain = step->problem.epilogue;
        for (int32_t i = 0; i < step->problem.n_in; i++) touch(planner, step->in_tensors[i], s);
        for (int32_t i = chain ? 1 : 0; i < step->problem.n_out; i++)
            touch(planner, step->out_tensors[i], s);
        for (int32_t i = 0; chain && i < chain->n_loads; i++)
            touch(planner, step->load_tensors[i], s);
        for (int32_t i = 0; chain && i < chain->n_stores; i++)
            touch(planner, step->store_tensors[i], s);
    }
}

static int64_t bytes_of(const tw_planner *planner, tw_tensor t)
{
    tw_tensor_desc desc = planner->graph->tensors[t].desc;
    desc.has_strides = true;
    memcpy(desc.strides, planner->tensors[t].strides, sizeof desc.strides);
    return tw_desc_bytes(&desc);
}

/* ---- Heirs: results that are written over an operand that dies in the same step ------------- */

static bool dies_here(const tw_planner *planner, tw_tensor t, int32_t step)
{
    tw_tensor root = planner->tensors[t].root;
    return t == root && in_workspace(planner, root) && !planner->tensors[root].shadow &&
           !planner->tensors[root].left && planner->tensors[root].last == step &&
           planner->tensors[root].first < step;
}

static bool begins_here(const tw_planner *planner, tw_tensor t, int32_t step)
{
    return t != TW_NONE && planner->tensors[t].root == t && in_workspace(planner, t) &&
           !planner->tensors[t].shadow && planner->tensors[t].first == step &&
           planner->tensors[t].heir_of == TW_NONE;
}

/* How often a step reads a root's memory. */
static int32_t count_reads(const tw_planner *planner, const tw_step *step, tw_tensor root)
{
    const tw_chain *chain = step->problem.epilogue;
    int32_t n = 0;
    for (int32_t i = 0; i < step->problem.n_in; i++)
        n += step->in_tensors[i] != TW_NONE && planner->tensors[step->in_tensors[i]].root == root;
    for (int32_t i = 0; chain && i < chain->n_loads; i++)
        n += planner->tensors[step->load_tensors[i]].root == root;
    return n;
}

static bool can_inherit(const tw_planner *planner, const tw_step *step, tw_tensor from,
                        tw_tensor to)
{
    return dies_here(planner, from, (int32_t)(step - planner->plan->steps)) &&
           count_reads(planner, step, from) == 1 && tw_planner_same_view(planner, from, to) &&
           bytes_of(planner, from) == bytes_of(planner, to) &&
           tw_dtype_bits(planner->graph->tensors[from].desc.dtype) ==
               tw_dtype_bits(planner->graph->tensors[to].desc.dtype);
}

static void inherit(tw_planner *planner, tw_tensor from, tw_tensor to)
{
    planner->tensors[from].left = true;
    while (planner->tensors[from].heir_of != TW_NONE) from = planner->tensors[from].heir_of;
    planner->tensors[to].heir_of = from;
    planner->tensors[from].last = planner->tensors[to].last;
}

/* A pointwise program reads each element before it writes that place; other kernels say so. */
static void find_heirs(tw_planner *planner)
{
    for (int32_t s = 0; s < planner->plan->n_steps; s++) {
        const tw_step *step = &planner->plan->steps[s];
        const tw_problem *p = &step->problem;
        for (int32_t k = 0; p->epilogue && k < p->epilogue->n_stores; k++) {
            tw_tensor to = step->store_tensors[k];
            for (int32_t l = 0; l < p->epilogue->n_loads && begins_here(planner, to, s); l++)
                if (can_inherit(planner, step, step->load_tensors[l], to))
                    inherit(planner, step->load_tensors[l], to);
        }
        for (int32_t i = 0; !p->epilogue && i < p->n_in && i < 32; i++) {
            tw_tensor from = step->in_tensors[i], to = step->out_tensors[0];
            if ((step->kernel->impl->in_place >> i & 1) && from != TW_NONE &&
                begins_here(planner, to, s) && can_inherit(planner, step, from, to))
                inherit(planner, from, to);
        }
    }
}

static int larger_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : (x->result < y->result ? -1 : 1);
}

/* placed[0 … n) is sorted by address. */
static int64_t lowest_gap(const item *placed, int64_t n, const item *it)
{
    int64_t address = 0;
    for (int64_t i = 0; i < n; i++) {
        bool together = placed[i].first <= it->last && it->first <= placed[i].last;
        if (!together || placed[i].address + placed[i].bytes <= address) continue;
        if (placed[i].address - address >= it->bytes) break;
        address = placed[i].address + placed[i].bytes;
    }
    return address;
}

static int64_t lay_out(item *items, int64_t n, item *placed)
{
    int64_t top = 0;
    qsort(items, (size_t)n, sizeof *items, larger_first);
    for (int64_t i = 0; i < n; i++) {
        item *it = &items[i];
        it->address = lowest_gap(placed, i, it);
        *it->result = it->address;
        if (it->address + it->bytes > top) top = it->address + it->bytes;
        int64_t at = i;
        for (; at > 0 && placed[at - 1].address > it->address; at--) placed[at] = placed[at - 1];
        placed[at] = *it;
    }
    return top;
}

static int64_t round_up(int64_t bytes)
{
    return (bytes + TW_ALIGNMENT - 1) / TW_ALIGNMENT * TW_ALIGNMENT;
}

static tw_status lay_out_all(tw_planner *planner)
{
    tw_plan *plan = planner->plan;
    int64_t n = 0, room = planner->graph->n_tensors + plan->n_steps;
    void *memory;
    TW_TRY(tw_arena_alloc(&planner->scratch, 2 * room, sizeof(item), &memory));
    item *items = memory, *placed = items + room;
    for (int64_t t = 1; t < planner->graph->n_tensors; t++) {
        tw_tensor_plan *info = &planner->tensors[t];
        if (info->root != t || info->first < 0 || !in_workspace(planner, (tw_tensor)t)) continue;
        if (info->heir_of != TW_NONE) continue;
        info->bytes = round_up(bytes_of(planner, (tw_tensor)t));
        items[n++] = (item){info->first, info->last, info->bytes, 0, &info->address};
    }
    for (int32_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].scratch_bytes > 0)
            items[n++] =
                (item){s, s, round_up(plan->steps[s].scratch_bytes), 0, &plan->steps[s].scratch};
    plan->workspace = lay_out(items, n, placed);
    for (int64_t t = 1; t < planner->graph->n_tensors; t++)
        if (planner->tensors[t].heir_of != TW_NONE)
            planner->tensors[t].address = planner->tensors[planner->tensors[t].heir_of].address;
    return TW_OK;
}

/* ---- Slots and places ----------------------------------------------------------------------- */

static tw_status add_slot(tw_planner *planner, tw_tensor tensor, int64_t *capacity)
{
    tw_plan *plan = planner->plan;
    const tw_tensor_node *node = &planner->graph->tensors[tensor];
    TW_TRY(tw_grow((void **)&plan->slots, capacity, plan->n_slots + 1, sizeof *plan->slots));
    int bits = tw_dtype_bits(node->desc.dtype);
    plan->slots[plan->n_slots] = (tw_slot){.uid = node->desc.uid,
                                           .bytes = tw_desc_bytes(&node->desc),
                                           .tensor = tensor,
                                           .alignment = bits >= 8 ? bits / 8 : 1};
    if (node->donated_to != TW_NONE)
        plan->slots[plan->n_slots].other_uid = planner->graph->tensors[node->donated_to].desc.uid;
    if (tw_dtype_is_complex(node->desc.dtype)) plan->slots[plan->n_slots].alignment /= 2;
    planner->tensors[tensor].slot = plan->n_slots++;
    return TW_OK;
}

/* The bound tensor whose memory `root` uses, or TW_NONE. */
static tw_tensor bound_tensor(const tw_planner *planner, tw_tensor root)
{
    const tw_tensor_node *node = &planner->graph->tensors[root];
    if (node->constant || in_workspace(planner, root)) return TW_NONE;
    if (node->reserved && planner->plan->options.phase != TW_PHASE_ALL)
        return planner->graph->reserve;
    return node->donor != TW_NONE ? node->donor : root;
}

static tw_status find_slots(tw_planner *planner)
{
    int64_t capacity = 0;
    for (int64_t t = 1; t < planner->graph->n_tensors; t++) {
        const tw_tensor_plan *info = &planner->tensors[t];
        if (info->root != t || info->first < 0) continue;
        tw_tensor bound = bound_tensor(planner, (tw_tensor)t);
        if (bound == TW_NONE) continue;
        if (planner->tensors[bound].slot < 0) TW_TRY(add_slot(planner, bound, &capacity));
        tw_slot *slot = &planner->plan->slots[planner->tensors[bound].slot];
        if (!tw_planner_is_external(planner, (tw_tensor)t)) slot->written = true;
    }
    /* A shadow is copied to its donor's memory by a step that names the donor as its output. */
    for (int64_t t = 1; t < planner->graph->n_tensors; t++)
        if (planner->tensors[t].shadow)
            planner->plan->slots[planner->tensors[planner->graph->tensors[t].donor].slot].written =
                true;
    return TW_OK;
}

static tw_place place_of(const tw_planner *planner, tw_tensor tensor)
{
    if (tensor == TW_NONE) return (tw_place){.home = TW_HOME_NONE};
    const tw_tensor_plan *info = &planner->tensors[tensor];
    const tw_tensor_node *root = &planner->graph->tensors[info->root];
    int64_t bytes = info->offset * tw_dtype_bits(planner->graph->tensors[tensor].desc.dtype) / 8;
    if (root->constant)
        return (tw_place){.home = TW_HOME_CONSTANT, .data = (const char *)root->data + bytes};
    tw_tensor bound = bound_tensor(planner, info->root);
    if (bound == TW_NONE)
        return (tw_place){.home = TW_HOME_WORKSPACE,
                          .bytes = planner->tensors[info->root].address + bytes};
    if (bound == planner->graph->reserve && bound != info->root) bytes += root->reserve_offset;
    return (tw_place){.home = TW_HOME_BOUND, .slot = planner->tensors[bound].slot, .bytes = bytes};
}

static tw_status places(tw_planner *planner, const tw_tensor *tensors, int32_t n,
                        const tw_place **result)
{
    void *memory;
    TW_TRY(tw_arena_alloc(&planner->plan->arena, n, sizeof(tw_place), &memory));
    for (int32_t i = 0; i < n; i++) ((tw_place *)memory)[i] = place_of(planner, tensors[i]);
    *result = memory;
    if (n > planner->plan->max_operands) planner->plan->max_operands = n;
    return TW_OK;
}

static tw_status place_steps(tw_planner *planner)
{
    for (int32_t s = 0; s < planner->plan->n_steps; s++) {
        tw_step *step = &planner->plan->steps[s];
        const tw_problem *p = &step->problem;
        TW_TRY(places(planner, step->in_tensors, p->n_in, &step->in));
        TW_TRY(places(planner, step->out_tensors, p->n_out, &step->out));
        if (!p->epilogue) continue;
        if (p->n_out > 0) ((tw_place *)step->out)[0].home = TW_HOME_NONE;
        TW_TRY(places(planner, step->load_tensors, p->epilogue->n_loads, &step->loads));
        TW_TRY(places(planner, step->store_tensors, p->epilogue->n_stores, &step->stores));
    }
    return TW_OK;
}

tw_status tw_planner_memory(tw_planner *planner)
{
    tw_plan *plan = planner->plan;
    find_lives(planner);
    find_heirs(planner);
    TW_TRY(find_slots(planner));
    TW_TRY(lay_out_all(planner));
    TW_TRY(place_steps(planner));
    plan->pointer_table = -1;
    if (plan->n_slots > TW_STACK_SLOTS || plan->max_operands > TW_STACK_OPERANDS) {
        plan->pointer_table = plan->workspace;
        plan->workspace +=
            round_up((plan->n_slots + 4 * (int64_t)plan->max_operands) * (int64_t)sizeof(void *));
    }
    return TW_OK;
}
