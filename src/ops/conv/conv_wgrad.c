/* SPDX-License-Identifier: Apache-2.0 */
/* Weight gradient, plan time: how sums run, groups of pixels, and the layout of the workspace. */
#include "ops/conv/conv_wgrad.h"

#include <string.h>

#include "core/error.h"
#include "ops/conv/conv_pixels.h"

enum { MOST_GROUPS = 16, FEW_ITEMS = 16 };

/* Bytes of partial gradients, and of operands that one box reads. */
#define MOST_PARTIALS ((int64_t)32 << 20)
#define BOX_BYTES ((int64_t)384 << 10)
#define GATHERED ((int64_t)1 << 17)

static int64_t round_up(int64_t n, int64_t to) { return tw_conv_up(n, to) * to; }

/* Cost of a tile of n rows, against full ones. */
static double tiling(int64_t n, int64_t tile_rows)
{
    const double height = (double)n / (double)tw_conv_max(tw_conv_up(n, tile_rows), 1);
    const double least = 0.3 * (double)tile_rows;
    return n == 0 ? 1 : (height > least ? 1 : least / height) + 0.8 / height;
}

static tw_conv_way cheapest(const tw_conv_wgrad_plan *plan)
{
    const tw_conv_part *part = &plan->part;
    const int64_t tile_rows = plan->target->tile_rows;
    const double panels = (double)tw_conv_max(tw_conv_up(part->cout, plan->target->tile_cols), 1);
    const double tile = tiling(plan->run * part->cin, tile_rows);
    const double rows = tile * (1 + 1 / (double)tw_conv_max(part->dst[2], 1));
    const double images = tile * (1.1 + 1 / (double)tw_conv_max(part->n, 1));
    const double gather = tiling(part->window, tile_rows) + 0.35 / panels;
    if (gather < rows && gather < images) return TW_CONV_GATHER;
    return images < rows ? TW_CONV_IMAGES : TW_CONV_ROWS;
}

/* Boxes whose operands stay in the second-level cache; windows of a gathered one do too. */
static void set_boxes(tw_conv_wgrad_plan *plan)
{
    tw_conv_part *part = &plan->part;
    int64_t pixels = BOX_BYTES / (4 * tw_conv_max(part->cin + part->cout, 1));
    if (part->way == TW_CONV_GATHER)
        pixels = tw_conv_min(pixels, GATHERED / (4 * tw_conv_max(part->window, 1)));
    double all = (double)part->n;
    for (int d = 0; d < 3; d++) all *= (double)part->dst[d];
    if (all / MOST_GROUPS < (double)pixels) pixels = (int64_t)(all / MOST_GROUPS);
    pixels = tw_conv_max(pixels, 32);
    if (part->way == TW_CONV_IMAGES) {
        /* Few pixels of many images. */
        const int64_t images = part->n, box = tw_conv_min(images, tw_conv_max(pixels, 64));
        part->n = 1;
        tw_conv_cut(part, tw_conv_max(pixels / tw_conv_max(box, 1), 1));
        part->n = images;
        part->box[0] = tw_conv_max(box, 1);
        part->boxes[0] = tw_conv_up(images, part->box[0]);
    } else {
        tw_conv_cut(part, pixels);
    }
}

static void set_dy(tw_conv_wgrad_plan *plan)
{
    const tw_conv_part *part = &plan->part;
    plan->dy = (tw_conv_part){
        .n = part->n, .cin = part->cout, .from = part->to, .way = TW_CONV_IMAGES, .groups = 1};
    for (int d = 0; d < 3; d++) {
        plan->dy.src[d] = plan->dy.dst[d] = part->dst[d];
        plan->dy.taps[d] = plan->dy.step[d] = plan->dy.dilation[d] = 1;
    }
    memcpy(plan->dy.box, part->box, sizeof part->box);
    plan->dy.band = part->to.dim1 != 1 || (part->way == TW_CONV_GATHER && part->to_pixel == 0);
}

static void make_plan(const tw_problem *problem, tw_conv_wgrad_plan *plan)
{
    tw_conv_geometry g;
    tw_conv_part *part = &plan->part;
    tw_conv_read_geometry(problem, &g);
    tw_conv_forward_part(&g, part);
    tw_conv_merge_pixels(part);
    part->window = tw_conv_product(part->taps) * part->cin;
    part->to_pixel = tw_conv_pixel_stride(part->n, part->dst, &part->to);
    const bool one_run = part->dilation[2] == 1 && part->from.dim1 == 1 &&
                         part->from.at[2] == part->cin && !tw_conv_leaves(part, 2);
    plan->run = one_run ? part->taps[2] : 1;
    part->way = cheapest(plan);
    for (int d = 0; d < 3; d++) part->fills |= tw_conv_leaves(part, d);
    set_boxes(plan);
    set_dy(plan);
    const int64_t boxes = tw_conv_boxes(part);
    const int64_t panels = tw_conv_up(part->cout, plan->target->tile_cols);
    plan->filter_row = round_up(part->cout, 16);
    plan->filter = part->window * plan->filter_row;
    const int64_t room = MOST_PARTIALS / tw_conv_max(plan->filter * part->groups * 4, 1);
    plan->groups = tw_conv_min(boxes, tw_conv_max(tw_conv_min(room, MOST_GROUPS), 1));
    plan->splits = 1;
    if (plan->groups > 0 && plan->groups * part->groups < FEW_ITEMS)
        plan->splits =
            tw_conv_max(tw_conv_min(FEW_ITEMS / (plan->groups * part->groups), panels), 1);
    plan->scratch_at = round_up(plan->groups * part->groups * plan->filter * 4, 64);
    plan->dy_floats = plan->dy.band ? round_up(tw_conv_band_floats(&plan->dy), 16) : 0;
    const int64_t pixels = part->box[0] * part->box[1] * part->box[2] * part->box[3];
    part->row = pixels % 512 == 0 ? pixels + 16 : pixels;
    plan->slot_floats = plan->dy_floats;
    if (part->way == TW_CONV_GATHER) plan->slot_floats += round_up(part->row * part->window, 16);
    plan->bytes = plan->scratch_at + plan->slot_floats * 4 * problem->max_threads;
}

const char *tw_conv_wgrad_refuses(const tw_problem *problem, const tw_conv_target *target)
{
    const char *reason = tw_conv_refuses_types(problem);
    if (reason) return reason;
    if (problem->epilogue) return "a weight gradient takes no epilogue";
    tw_conv_wgrad_plan plan = {.target = target};
    make_plan(problem, &plan);
    return plan.bytes > problem->workspace_limit ? "the workspace limit is too small" : NULL;
}

tw_status tw_conv_wgrad_prepare(const tw_problem *problem, tw_prepare *prepare,
                                const tw_conv_target *target)
{
    void *memory = NULL;
    TW_TRY(tw_arena_alloc(prepare->arena, 1, sizeof(tw_conv_wgrad_plan), &memory));
    tw_conv_wgrad_plan *plan = memory;
    plan->target = target;
    make_plan(problem, plan);
    prepare->state = plan;
    prepare->workspace = plan->bytes;
    return TW_OK;
}
