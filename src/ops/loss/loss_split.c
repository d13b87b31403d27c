/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/loss/loss_split.h"

#include "core/error.h"

/* A work item is 64 KiB of f32 or more. */
enum { ITEM_ELEMENTS = 16384 };

static bool vector_type(tw_dtype type)
{
    return type == TW_F32 || type == TW_F16 || type == TW_BF16;
}

const char *tw_loss_rows_refuse(const tw_problem *problem)
{
    bool backward = problem->info->kind == TW_OP_CROSS_ENTROPY_BACKWARD;
    tw_dtype labels = problem->in[1].dtype;
    if (problem->epilogue || problem->prologue[0] || problem->prologue[1]) return "fused steps";
    if (!vector_type(problem->in[0].dtype)) return "logits are not f32, f16 or bf16";
    if (!tw_loss_has_indices(labels) && !vector_type(labels))
        return "probabilities are not f32, f16 or bf16";
    bool both = problem->info->kind == TW_OP_CROSS_ENTROPY_BOTH;
    if (both && !vector_type(problem->out[2].dtype)) return "dlogits is not f32, f16 or bf16";
    if (backward && !vector_type(problem->out[0].dtype)) return "dlogits is not f32, f16 or bf16";
    for (int32_t i = 0; !backward && i < problem->n_out; i++)
        if (problem->out[i].dtype != TW_AUTO && tw_dtype_bits(problem->out[i].dtype) < 8)
            return "elements of an output share bytes";
    return NULL;
}

int64_t tw_loss_parts_bytes(const tw_problem *problem, const tw_loss_split *split)
{
    bool sums = problem->info->kind != TW_OP_CROSS_ENTROPY_BACKWARD &&
                problem->attrs->loss.reduction != TW_LOSS_NONE && split->items > 1;
    return sums ? split->items * (int64_t)sizeof(double) : 0;
}

tw_status tw_loss_rows_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    void *memory = NULL;
    tw_lines lines;
    TW_TRY(tw_arena_alloc(prepare->arena, 1, sizeof(tw_loss_split), &memory));
    tw_loss_split *split = memory;
    tw_loss_lines(problem, &lines);
    split->per_item = 1 + ITEM_ELEMENTS / (lines.along.count > 0 ? lines.along.count : 1);
    split->items = (lines.kept.count + split->per_item - 1) / split->per_item;
    prepare->state = split;
    /* Without room for the sums one thread adds them up: the same figures, in the same order. */
    int64_t bytes = tw_loss_parts_bytes(problem, split);
    prepare->workspace = bytes <= problem->workspace_limit ? bytes : 0;
    return TW_OK;
}
