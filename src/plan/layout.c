/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strides of virtual tensors. Activations of convolutions and pools are channels-last, because the
 * kernels like that; pointwise results take the layout of an operand, so that training state
 * follows the caller's parameters; all else is row-major. Then views become aliases of the memory
 * they look at, wherever strides can say so.
 */
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "plan/planner.h"

static bool is_virtual(const tw_planner *planner, tw_tensor t)
{
    return (planner->graph->tensors[t].desc.flags & TW_TENSOR_VIRTUAL) != 0;
}

/* Packed strides, dims ordered from slowest to fastest. */
static void pack(tw_planner *planner, tw_tensor t, const int32_t *order)
{
    const tw_tensor_desc *desc = &planner->graph->tensors[t].desc;
    int64_t stride = 1;
    for (int32_t i = desc->rank - 1; i >= 0; i--) {
        planner->tensors[t].strides[order[i]] = stride;
        if (desc->dims[order[i]] > 0) stride *= desc->dims[order[i]];
    }
    planner->tensors[t].placed = true;
}

static void pack_row_major(tw_planner *planner, tw_tensor t)
{
    int32_t order[TW_MAX_RANK];
    for (int32_t d = 0; d < TW_MAX_RANK; d++) order[d] = d;
    pack(planner, t, order);
}

static void pack_channels_last(tw_planner *planner, tw_tensor t)
{
    int32_t rank = planner->graph->tensors[t].desc.rank;
    if (rank < 3) {
        pack_row_major(planner, t);
        return;
    }
    int32_t order[TW_MAX_RANK] = {0};
    for (int32_t d = 2; d < rank; d++) order[d - 1] = d;
    order[rank - 1] = 1;
    pack(planner, t, order);
}

/* The same order of dims as `like`, by its strides. */
static void pack_like(tw_planner *planner, tw_tensor t, tw_tensor like)
{
    const int64_t *strides = planner->tensors[like].strides;
    const tw_tensor_desc *desc = &planner->graph->tensors[t].desc;
    int32_t order[TW_MAX_RANK];
    for (int32_t d = 0; d < desc->rank; d++) {
        int32_t at = d;
        for (; at > 0; at--) {
            int32_t other = order[at - 1];
            bool before =
                strides[other] < strides[d] ||
                (strides[other] == strides[d] && desc->dims[other] < 2 && desc->dims[d] > 1);
            if (!before || desc->dims[other] < 2) break;
            order[at] = other;
        }
        order[at] = d;
    }
    pack(planner, t, order);
}

static void place_given(tw_planner *planner)
{
    for (int64_t t = 1; t < planner->graph->n_tensors; t++) {
        const tw_tensor_desc *desc = &planner->graph->tensors[t].desc;
        planner->tensors[t].root = (tw_tensor)t;
        planner->tensors[t].first = planner->tensors[t].last = planner->tensors[t].slot = -1;
        if (!desc->has_strides) continue;
        memcpy(planner->tensors[t].strides, desc->strides, sizeof desc->strides);
        planner->tensors[t].placed = true;
    }
}

/* The operands of an operation that are images, as bits: inputs from bit 0, outputs from bit 16. */
static uint32_t image_operands(tw_op_kind kind)
{
    switch (kind) {
    case TW_OP_CONV: return 0x10001;
    case TW_OP_CONV_DGRAD: return 0x10001;
    case TW_OP_CONV_WGRAD: return 0x00003;
    case TW_OP_POOL: return 0x30001;
    case TW_OP_POOL_BACKWARD: return 0x10003;
    default: return 0;
    }
}

static void place_images(tw_planner *planner)
{
    for (int64_t o = 0; o < planner->graph->n_ops; o++) {
        const tw_op *op = &planner->graph->ops[o];
        uint32_t images = image_operands(op->info->kind);
        for (int32_t i = 0; images && i < op->n_in; i++)
            if ((images >> i & 1) && op->in[i] && !planner->tensors[op->in[i]].placed)
                pack_channels_last(planner, op->in[i]);
        for (int32_t i = 0; images && i < op->n_out; i++)
            if ((images >> (16 + i) & 1) && op->out[i] && !planner->tensors[op->out[i]].placed)
                pack_channels_last(planner, op->out[i]);
    }
}

static bool same_dims(const tw_planner *planner, tw_tensor a, tw_tensor b)
{
    const tw_tensor_desc *x = &planner->graph->tensors[a].desc,
                         *y = &planner->graph->tensors[b].desc;
    return x->rank == y->rank && memcmp(x->dims, y->dims, sizeof x->dims) == 0;
}

/* A placed tensor without broadcast strides that t may copy its order from. */
static bool is_model(const tw_planner *planner, tw_tensor t, tw_tensor model)
{
    if (model == TW_NONE || model == t || !planner->tensors[model].placed) return false;
    if (!same_dims(planner, t, model)) return false;
    const tw_tensor_desc *desc = &planner->graph->tensors[model].desc;
    for (int32_t d = 0; d < desc->rank; d++)
        if (desc->dims[d] > 1 && planner->tensors[model].strides[d] == 0) return false;
    return true;
}

static bool follow_operand(tw_planner *planner, const tw_op *op, tw_tensor t)
{
    if (t == TW_NONE || planner->tensors[t].placed) return false;
    for (int32_t i = 0; i < op->n_out + op->n_in; i++) {
        tw_tensor model = i < op->n_out ? op->out[i] : op->in[i - op->n_out];
        if (!is_model(planner, t, model)) continue;
        pack_like(planner, t, model);
        return true;
    }
    return false;
}

/* Layouts spread through operations that work element by element, forwards and backwards. */
static void spread(tw_planner *planner)
{
    bool changed = true;
    for (int pass = 0; changed && pass < 8; pass++) {
        changed = false;
        for (int64_t o = 0; o < planner->graph->n_ops; o++) {
            const tw_op *op = &planner->graph->ops[o];
            if (!op->info->elementwise) continue;
            for (int32_t i = 0; i < op->n_out; i++)
                changed = follow_operand(planner, op, op->out[i]) || changed;
            for (int32_t i = 0; i < op->n_in; i++)
                changed = follow_operand(planner, op, op->in[i]) || changed;
        }
    }
}

/* ---- Views ---------------------------------------------------------------------------------- */

/* Strides of x's memory under y's dims (row-major meaning kept); false if none exist. Runs of dims
 * of equal product are matched from the front; within a run x must be contiguous. */
static bool reshape_strides(const tw_tensor_desc *x, const int64_t *xs, const tw_tensor_desc *y,
                            int64_t *ys)
{
    int32_t i = 0, j = 0;
    for (int32_t d = 0; d < y->rank; d++) ys[d] = 0;
    if (tw_desc_elements(x) == 0) return true;
    while (i < x->rank || j < y->rank) {
        while (i < x->rank && x->dims[i] == 1) i++;
        while (j < y->rank && y->dims[j] == 1) j++;
        if (i == x->rank || j == y->rank) break;
        int32_t i_end = i + 1, j_end = j + 1;
        int64_t a = x->dims[i], b = y->dims[j];
        while (a != b) {
            if (a < b)
                a *= x->dims[i_end++];
            else
                b *= y->dims[j_end++];
        }
        int64_t stride = 0, extent = 1;
        for (int32_t k = i_end - 1; k >= i; k--) {
            if (x->dims[k] == 1) continue;
            if (extent == 1)
                stride = xs[k];
            else if (xs[k] != stride * extent)
                return false;
            extent *= x->dims[k];
        }
        for (int32_t k = j_end - 1; k >= j; k--) {
            ys[k] = stride;
            stride *= y->dims[k];
        }
        i = i_end;
        j = j_end;
    }
    return true;
}

static bool view_strides(const tw_planner *planner, const tw_op *op, int64_t *strides,
                         int64_t *offset)
{
    const tw_tensor_desc *x = &planner->graph->tensors[op->in[0]].desc;
    const tw_tensor_desc *y = &planner->graph->tensors[op->out[0]].desc;
    const int64_t *xs = planner->tensors[op->in[0]].strides;
    const tw_layout_attrs *attrs = &op->attrs.layout;
    *offset = 0;
    switch (op->info->kind) {
    case TW_OP_POINTWISE: memcpy(strides, xs, sizeof(int64_t) * TW_MAX_RANK); return true;
    case TW_OP_RESHAPE: return reshape_strides(x, xs, y, strides);
    case TW_OP_TRANSPOSE:
        for (int32_t d = 0; d < y->rank; d++) strides[d] = xs[attrs->order[d]];
        return true;
    case TW_OP_EXPAND:
        for (int32_t d = 0; d < y->rank; d++) {
            int32_t from = d - (y->rank - x->rank);
            strides[d] = from >= 0 && x->dims[from] != 1 ? xs[from] : 0;
        }
        return true;
    case TW_OP_SLICE:
        for (int32_t d = 0; d < y->rank; d++) {
            strides[d] = xs[d] * attrs->step[d];
            if (y->dims[d] > 0) *offset += xs[d] * attrs->start[d];
        }
        return true;
    default: return false;
    }
}

static void alias(tw_planner *planner, const tw_op *op)
{
    tw_tensor x = op->in[0], y = op->out[0];
    const tw_tensor_node *from = &planner->graph->tensors[x], *to = &planner->graph->tensors[y];
    int64_t strides[TW_MAX_RANK] = {0}, offset;
    if (!is_virtual(planner, y) || to->desc.has_strides || to->reserved) return;
    if (from->desc.dtype != to->desc.dtype || !planner->tensors[x].placed) return;
    if (!view_strides(planner, op, strides, &offset)) return;
    if (offset * tw_dtype_bits(to->desc.dtype) % 8 != 0) return; /* inside a byte */
    tw_tensor_plan *plan = &planner->tensors[y];
    plan->root = planner->tensors[x].root;
    plan->offset = planner->tensors[x].offset + offset;
    memcpy(plan->strides, strides, sizeof strides);
    plan->placed = true;
}

/* The identity without a change of type. */
static bool is_copy(const tw_planner *planner, const tw_op *op)
{
    return op->info->kind == TW_OP_POINTWISE && op->attrs.pointwise.mode == TW_PW_IDENTITY &&
           planner->graph->tensors[op->in[0]].desc.dtype ==
               planner->graph->tensors[op->out[0]].desc.dtype;
}

/* Views of tensors in the order of the operations; a result of a view that is not an alias, and any
 * tensor that nothing decided about, becomes row-major. */
static void resolve(tw_planner *planner)
{
    for (int64_t o = 0; o < planner->graph->n_ops; o++) {
        const tw_op *op = &planner->graph->ops[o];
        for (int32_t i = 0; i < op->n_in; i++)
            if (op->in[i] && !planner->tensors[op->in[i]].placed)
                pack_row_major(planner, op->in[i]);
        if (op->info->view || is_copy(planner, op)) alias(planner, op);
        for (int32_t i = 0; i < op->n_out; i++)
            if (op->out[i] && !planner->tensors[op->out[i]].placed) {
                bool followed = op->info->elementwise && follow_operand(planner, op, op->out[i]);
                if (!followed) pack_row_major(planner, op->out[i]);
            }
    }
}

tw_status tw_planner_layout(tw_planner *planner)
{
    void *memory;
    TW_TRY(tw_arena_alloc(&planner->scratch, planner->graph->n_tensors, sizeof(tw_tensor_plan),
                          &memory));
    planner->tensors = memory;
    place_given(planner);
    place_images(planner);
    spread(planner);
    resolve(planner);
    return TW_OK;
}

tw_view tw_planner_view(const tw_planner *planner, tw_tensor tensor)
{
    tw_view view = {.dtype = TW_AUTO};
    if (tensor == TW_NONE) return view;
    const tw_tensor_node *node = &planner->graph->tensors[tensor];
    const tw_tensor_plan *plan = &planner->tensors[tensor];
    const tw_tensor_node *root = &planner->graph->tensors[plan->root];
    int bits = tw_dtype_bits(node->desc.dtype);
    view.dtype = node->desc.dtype;
    view.rank = node->desc.rank;
    memcpy(view.dims, node->desc.dims, sizeof view.dims);
    memcpy(view.strides, plan->strides, sizeof view.strides);
    view.alignment = plan->root == tensor && node->desc.alignment > 0 ? node->desc.alignment
                     : bits < 8                                       ? 1
                                                                      : bits / 8;
    if (root->constant) view.data = (const char *)root->data + plan->offset * bits / 8;
    return view;
}

bool tw_planner_same_view(const tw_planner *planner, tw_tensor a, tw_tensor b)
{
    const tw_tensor_plan *x = &planner->tensors[a], *y = &planner->tensors[b];
    if (x->offset != y->offset) return false;
    for (int32_t d = 0; d < planner->graph->tensors[a].desc.rank; d++)
        if (planner->graph->tensors[a].desc.dims[d] > 1 && x->strides[d] != y->strides[d])
            return false;
    return planner->graph->tensors[a].desc.rank == planner->graph->tensors[b].desc.rank;
}
