/* SPDX-License-Identifier: Apache-2.0 */
/* Weight gradient, plan time: how sums run, groups of pixels, and the layout of the workspace. */
#include "ops/conv/conv_wgrad.h"

#include <string.h>

#include "core/error.h"
#include "ops/conv/conv_pixels.h"

/* A group's sums are written and read once more: that should be little beside a group's pixels. */
enum { MOST_GROUPS = 16, GROUP_PIXELS = 1024, FEW_ITEMS = 16, MOST_IMAGES = 16 };

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

/* Prices of the three ways in multiply-add steps for each that is needed. */
static tw_conv_way cheapest(const tw_conv_wgrad_plan *plan)
{
    const tw_conv_part *part = &plan->part;
    const int64_t tile_rows = plan->target->tile_rows;
    const double panels = (double)tw_conv_max(tw_conv_up(part->cout, plan->target->tile_cols), 1);
    const double tile = tiling(plan->run * part->cin, tile_rows);
    const double images_at_once = (double)tw_conv_max(tw_conv_min(part->n, MOST_IMAGES), 1);
    const double rows = tile * (1 + 0.3 / (double)tw_conv_max(part->dst[2], 1));
    const double images = tile * (1.15 + 1 / images_at_once);
    const double depth = (double)tw_conv_max(part->taps[2] * part->cin, 1);
    const double copy = plan->lines ? 0.3 : 0.6 + 8 / depth;
    /* Each step of a sum reads a window of its own: a line or two of it at a time. */
    const double width = (double)part->window;
    const double far = plan->lines ? 0 : 0.25 * width / (width + 1024);
    const double gather = tiling(part->window, tile_rows) + far + copy / panels;
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
    pixels = tw_conv_max(pixels, 32);
    if (part->way == TW_CONV_IMAGES) {
        /* Few pixels of many images. */
        const int64_t images = part->n, box = tw_conv_min(images, MOST_IMAGES);
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

/* Groups of pixels, then parts of the columns and of the kernel's rows: work items. */
static void set_items(tw_conv_wgrad_plan *plan, int64_t panels)
{
    const tw_conv_part *part = &plan->part;
    const int64_t bytes = tw_conv_max(plan->filter * part->groups * 4, 1);
    double pixels = (double)part->n;
    for (int d = 0; d < 3; d++) pixels *= (double)part->dst[d];
    int64_t groups = tw_conv_min(MOST_PARTIALS / bytes, MOST_GROUPS);
    if (pixels / GROUP_PIXELS < (double)groups) groups = (int64_t)(pixels / GROUP_PIXELS);
    plan->groups = tw_conv_min(tw_conv_max(groups, 1), tw_conv_boxes(part));
    const int64_t items = tw_conv_max(plan->groups * part->groups, 1);
    const int64_t kernel_rows = part->taps[0] * part->taps[1];
    const bool whole = part->way == TW_CONV_GATHER && !plan->lines;
    plan->tap_splits = whole ? 1 : tw_conv_min(tw_conv_up(FEW_ITEMS, items), kernel_rows);
    plan->splits = tw_conv_min(tw_conv_up(FEW_ITEMS, items * plan->tap_splits), panels);
    plan->splits = tw_conv_max(plan->splits, 1);
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
    plan->lines = part->step[2] * part->from.at[2] == 1 || part->from.dim1 != 1;
    part->contiguous = part->dilation[2] == 1 && part->from.at[2] == part->cin;
    part->way = cheapest(plan);
    for (int d = 0; d < 3; d++) part->fills |= tw_conv_leaves(part, d);
    set_boxes(plan);
    set_dy(plan);
    const int64_t panels = tw_conv_up(part->cout, plan->target->tile_cols);
    plan->filter_row = round_up(part->cout, 16);
    plan->filter = part->window * plan->filter_row;
    set_items(plan, panels);
    plan->scratch_at = round_up(plan->groups * part->groups * plan->filter * 4, 64);
    plan->dy_floats = plan->dy.band ? round_up(tw_conv_band_floats(&plan->dy), 16) : 0;
    const int64_t pixels = part->box[0] * part->box[1] * part->box[2] * part->box[3];
    const int64_t row = plan->lines ? pixels : part->window;
    part->row = row % 512 == 0 ? row + 16 : row;
    plan->slot_floats = plan->dy_floats;
    if (part->way == TW_CONV_GATHER)
        plan->slot_floats += round_up(part->row * (plan->lines ? part->window : pixels), 16);
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
