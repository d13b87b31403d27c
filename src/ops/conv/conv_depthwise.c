/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution, plan time. */
#include "ops/conv/conv_depthwise.h"

#include <string.h>

#include "core/error.h"
#include "ops/conv/conv_pixels.h"

/* BOX_FLOATS: of one box of pixels. */
enum { MAX_PARTS = 128, MOST_GROUPS = 16, BOX_FLOATS = 1 << 14 };

static int64_t round_up(int64_t n, int64_t to) { return tw_conv_up(n, to) * to; }

static bool is_wgrad(const tw_problem *problem) { return problem->info->kind == TW_OP_CONV_WGRAD; }

static int64_t count_parts(const tw_problem *problem, const tw_conv_geometry *g)
{
    return problem->info->kind == TW_OP_CONV_DGRAD ? tw_conv_dgrad_parts(g) : 1;
}

static void make_part(const tw_problem *problem, const tw_conv_geometry *g, int64_t index,
                      tw_conv_part *part)
{
    if (problem->info->kind == TW_OP_CONV_DGRAD)
        tw_conv_dgrad_part(g, index, part);
    else
        tw_conv_forward_part(g, part);
    part->cin = part->cout = part->groups; /* one pixel's channels, as a copy sees them */
    part->groups = 1;
    part->way = TW_CONV_IMAGES; /* copies leave padding out */
    part->band = part->from.dim1 != 1;
    tw_conv_cut(part, tw_conv_max(BOX_FLOATS / tw_conv_max(part->cin, 1), 1));
}

static void set_dy(tw_conv_depthwise_plan *plan)
{
    const tw_conv_part *part = &plan->parts[0];
    plan->dy = *part;
    plan->dy.from = part->to;
    plan->dy.band = part->to.dim1 != 1;
    for (int d = 0; d < 3; d++) {
        plan->dy.src[d] = part->dst[d];
        plan->dy.taps[d] = plan->dy.step[d] = plan->dy.dilation[d] = 1;
        plan->dy.pad[d] = 0;
    }
}

static void make_plan(const tw_problem *problem, const tw_conv_geometry *g,
                      tw_conv_depthwise_plan *plan)
{
    int64_t tile_floats = 0;
    for (int64_t i = 0; i < plan->n_parts; i++) {
        tw_conv_part *part = &plan->parts[i];
        make_part(problem, g, i, part);
        part->packed = plan->weights;
        plan->weights += tw_conv_product(part->taps) * part->cin;
        plan->first_item[i + 1] = plan->first_item[i] + tw_conv_boxes(part);
        if (part->band)
            plan->band_floats = tw_conv_max(plan->band_floats, tw_conv_band_floats(part));
        if (problem->epilogue || part->to.dim1 != 1)
            tile_floats = tw_conv_max(tile_floats, part->box[3] * part->cin);
    }
    plan->band_floats = round_up(plan->band_floats, 16);
    plan->groups = 1;
    if (is_wgrad(problem)) {
        set_dy(plan);
        tile_floats = plan->dy.band ? tw_conv_band_floats(&plan->dy) : 0;
        plan->groups = tw_conv_min(plan->first_item[1], MOST_GROUPS);
    }
    plan->slot_floats = plan->band_floats + round_up(tile_floats, 16);
    plan->scratch_at = round_up(plan->groups * plan->weights * 4, 64);
    plan->bytes = plan->scratch_at + plan->slot_floats * 4 * problem->max_threads;
}

const char *tw_conv_depthwise_refuses(const tw_problem *problem)
{
    const char *reason = tw_conv_refuses_types(problem);
    if (reason) return reason;
    tw_conv_geometry g;
    tw_conv_read_geometry(problem, &g);
    if (g.cg != 1 || g.kg != 1 || g.groups == 1) return "it is not depthwise";
    if (g.taps[0] * g.taps[1] > TW_CONV_KERNEL_ROWS) return "the kernel has too many rows";
    if (count_parts(problem, &g) > MAX_PARTS) return "the stride has too many residue classes";
    if (problem->epilogue) {
        if (is_wgrad(problem)) return "a weight gradient takes no epilogue";
        if (count_parts(problem, &g) > 1) return "a strided data gradient takes no epilogue";
        if ((reason = tw_chain_refuses(problem->epilogue)) != NULL) return reason;
    }
    if (problem->workspace_limit == INT64_MAX) return NULL;
    tw_conv_part parts[MAX_PARTS];
    int64_t items[MAX_PARTS + 1] = {0};
    tw_conv_depthwise_plan plan = {
        .parts = parts, .first_item = items, .n_parts = count_parts(problem, &g)};
    make_plan(problem, &g, &plan);
    return plan.bytes > problem->workspace_limit ? "the workspace limit is too small" : NULL;
}

tw_status tw_conv_depthwise_prepare(const tw_problem *problem, tw_prepare *prepare,
                                    const tw_conv_depthwise_target *target)
{
    tw_conv_geometry g;
    void *memory = NULL;
    tw_conv_read_geometry(problem, &g);
    TW_TRY(tw_arena_alloc(prepare->arena, 1, sizeof(tw_conv_depthwise_plan), &memory));
    tw_conv_depthwise_plan *plan = memory;
    plan->target = target;
    plan->n_parts = count_parts(problem, &g);
    TW_TRY(tw_arena_alloc(prepare->arena, plan->n_parts, sizeof *plan->parts, &memory));
    plan->parts = memory;
    TW_TRY(tw_arena_alloc(prepare->arena, plan->n_parts + 1, sizeof(int64_t), &memory));
    plan->first_item = memory;
    make_plan(problem, &g, plan);
    if (problem->epilogue)
        TW_TRY(tw_chain_compile(problem->epilogue, 1, prepare->arena, &plan->epilogue));
    prepare->state = plan;
    prepare->workspace = plan->bytes;
    return TW_OK;
}
