/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forward pass and data gradient, plan time: parts, boxes and the layout of the workspace.
 *
 * A box's pixels meet the weights in one of three ways; conv_part.c prices them.
 *
 *   ROWS     The taps of one kernel row are a contiguous run of the source for every pixel of a
 *            row, so a row of pixels is one batch-reduce product over the kernel's rows. Nothing is
 *            copied, or only rows with their padding.
 *   IMAGES   The same pixel of many images is one product over its taps inside the source. Nothing
 *            is copied, and padding costs nothing: best for small images of large batches.
 *   GATHER   Windows are copied to the rows of a matrix that spans rows and images.
 */
#include "ops/conv/conv_pixels.h"

#include <string.h>

#include "core/error.h"
#include "ops/conv/conv_pack.h"

enum { MAX_PARTS = 128, FEW_ITEMS = 16 };

/* ---- Prepare --------------------------------------------------------------------------------- */

const char *tw_conv_refuses_types(const tw_problem *problem)
{
    if (problem->in[0].dtype != TW_F32 || problem->in[1].dtype != TW_F32)
        return "an operand is not f32";
    if (problem->attrs->conv.compute == TW_F64) return "f64 accumulation is asked for";
    if (problem->prologue[0] || problem->prologue[1]) return "it takes no prologue";
    if (!problem->epilogue && problem->out[0].dtype != TW_F32) return "the result is not f32";
    return NULL;
}

static bool is_wide_or_half(tw_dtype type)
{
    return type == TW_F32 || type == TW_F16 || type == TW_BF16;
}

static const char *refuses_types(const tw_problem *problem)
{
    if (!is_wide_or_half(problem->in[0].dtype) || !is_wide_or_half(problem->in[1].dtype))
        return "an operand is not f32, f16 or bf16";
    if (problem->attrs->conv.compute == TW_F64) return "f64 accumulation is asked for";
    if (problem->prologue[0] || problem->prologue[1]) return "it takes no prologue";
    if (!problem->epilogue && !is_wide_or_half(problem->out[0].dtype))
        return "the result is not f32, f16 or bf16";
    return NULL;
}

static bool converts(const tw_problem *problem)
{
    return !problem->epilogue && problem->out[0].dtype != TW_F32;
}

static tw_dtype narrow_type(tw_dtype type) { return type == TW_F32 ? TW_AUTO : type; }

static int64_t round_up(int64_t n, int64_t to) { return tw_conv_up(n, to) * to; }

/* Weights that overflow the second-level cache are read again for each box: larger ones then. */
#define CACHED_WEIGHTS ((int64_t)1 << 20)
enum { PIXELS_PER_READ = 224 };

static int64_t target_pixels(const tw_conv_part *part, const tw_conv_target *target)
{
    double pixels = (double)part->n, weights = 4.0 * (double)part->cin * (double)part->cout;
    for (int d = 0; d < 3; d++) {
        pixels *= (double)part->dst[d];
        weights *= (double)part->taps[d];
    }
    const int64_t share = pixels / 24 < 512 ? (int64_t)(pixels / 24) : 512;
    const bool large = weights > (double)CACHED_WEIGHTS;
    return tw_conv_max(share, large ? PIXELS_PER_READ : 2 * target->tile_rows);
}

static int64_t box_pixels(const tw_conv_part *part)
{
    return part->box[0] * part->box[1] * part->box[2] * part->box[3];
}

/* Chooses for one part and adds it to the plan's totals. */
static void add_part(tw_conv_pixels_plan *plan, int64_t index, bool direct)
{
    tw_conv_part *part = &plan->parts[index];
    const tw_conv_target *target = plan->target;
    tw_conv_choose(part, target, target_pixels(part, target));
    int64_t panels = tw_conv_panels(part, target);
    int64_t boxes = tw_conv_boxes(part) * part->groups;
    plan->splits[index] = 1;
    if (boxes > 0 && boxes < FEW_ITEMS)
        plan->splits[index] = tw_conv_max(tw_conv_min(FEW_ITEMS / boxes, panels), 1);
    plan->first_item[index + 1] = plan->first_item[index] + boxes * plan->splits[index];
    plan->first_panel[index + 1] = plan->first_panel[index] + panels * part->groups;
    part->packed = plan->packed_floats;
    plan->packed_floats += tw_conv_packed_floats(part, target);
    if (part->band) plan->band_floats = tw_conv_max(plan->band_floats, tw_conv_band_floats(part));
    if (part->way == TW_CONV_GATHER)
        plan->rows_floats = tw_conv_max(plan->rows_floats, part->chunk * part->row);
    int64_t pixels = part->way == TW_CONV_IMAGES ? box_pixels(part) : part->chunk;
    if (part->way == TW_CONV_GATHER && part->to_pixel == 0) direct = false;
    int64_t tile = direct ? 0 : pixels * round_up(part->cout, 16);
    plan->tile_floats = tw_conv_max(plan->tile_floats, round_up(tile, 16));
}

static void lay_out(tw_conv_pixels_plan *plan, int32_t slots)
{
    int64_t flags = round_up(plan->first_panel[plan->n_parts], 64);
    plan->flags_at = plan->packed ? 0 : round_up(plan->packed_floats * 4, 64);
    plan->scratch_at = plan->flags_at + (plan->packed ? 0 : flags);
    plan->band_floats = round_up(plan->band_floats, 16);
    plan->rows_floats = round_up(plan->rows_floats, 16);
    plan->slot_floats = plan->tile_floats + plan->band_floats + plan->rows_floats;
    plan->bytes = plan->scratch_at + plan->slot_floats * 4 * slots;
}

static int64_t count_parts(const tw_problem *problem, const tw_conv_geometry *g)
{
    return problem->info->kind == TW_OP_CONV ? 1 : tw_conv_dgrad_parts(g);
}

/* Fills in a plan whose arrays are there. */
static void make_plan(const tw_problem *problem, const tw_conv_geometry *g,
                      tw_conv_pixels_plan *plan)
{
    for (int64_t i = 0; i < plan->n_parts; i++) {
        if (problem->info->kind == TW_OP_CONV)
            tw_conv_forward_part(g, &plan->parts[i]);
        else
            tw_conv_dgrad_part(g, i, &plan->parts[i]);
        plan->parts[i].narrow = narrow_type(problem->in[0].dtype);
        plan->parts[i].w_narrow = narrow_type(problem->in[1].dtype);
        bool own = !problem->epilogue && !plan->converts;
        add_part(plan, i, own && problem->out[0].strides[1] == 1);
    }
    lay_out(plan, problem->max_threads);
}

const char *tw_conv_pixels_refuses(const tw_problem *problem, const tw_conv_target *target)
{
    const char *reason = refuses_types(problem);
    if (reason) return reason;
    tw_conv_geometry g;
    tw_conv_read_geometry(problem, &g);
    if (converts(problem) && count_parts(problem, &g) > 1)
        return "a strided data gradient gives f32";
    if (count_parts(problem, &g) > MAX_PARTS) return "the stride has too many residue classes";
    if (problem->epilogue) {
        if (count_parts(problem, &g) > 1) return "a strided data gradient takes no epilogue";
        if ((reason = tw_chain_refuses(problem->epilogue)) != NULL) return reason;
    }
    if (problem->workspace_limit == INT64_MAX && problem->in[0].dtype == TW_F32) return NULL;
    tw_conv_part parts[MAX_PARTS];
    int64_t items[MAX_PARTS + 1] = {0}, panels[MAX_PARTS + 1] = {0}, splits[MAX_PARTS];
    tw_conv_pixels_plan plan = {.target = target,
                                .parts = parts,
                                .first_item = items,
                                .first_panel = panels,
                                .splits = splits,
                                .n_parts = count_parts(problem, &g),
                                .converts = converts(problem)};
    make_plan(problem, &g, &plan);
    for (int64_t i = 0; i < plan.n_parts; i++) /* weights that are not finite need a band then */
        if (parts[i].narrow != TW_AUTO && parts[i].fills && !parts[i].band)
            return "padded windows of a narrow type do not fit into scratch";
    return plan.bytes > problem->workspace_limit ? "the workspace limit is too small" : NULL;
}

static bool pack_constant(const tw_conv_pixels_plan *plan, const void *w, float *packed)
{
    bool finite = true;
    for (int64_t i = 0; i < plan->n_parts; i++)
        for (int64_t p = plan->first_panel[i]; p < plan->first_panel[i + 1]; p++)
            finite &= tw_conv_pack_panel(&plan->parts[i], plan->target, p - plan->first_panel[i], w,
                                         packed);
    return finite;
}

static tw_status arena(tw_arena *arena, int64_t n, size_t bytes, void *pointer)
{
    void *memory = NULL;
    TW_TRY(tw_arena_alloc(arena, n, bytes, &memory));
    memcpy(pointer, &memory, sizeof memory);
    return TW_OK;
}

/* An epilogue without steps: the result, stored as what out[0] is. */
static tw_status compile_conversion(const tw_problem *problem, tw_arena *memory,
                                    tw_conv_pixels_plan *plan)
{
    tw_chain *chain;
    tw_chain_store *store;
    const tw_view *out = &problem->out[0];
    TW_TRY(arena(memory, 1, sizeof *chain, &chain));
    TW_TRY(arena(memory, 1, sizeof *store, &store));
    store->view = *out;
    chain->rank = out->rank;
    memcpy(chain->dims, out->dims, sizeof chain->dims);
    chain->n_stores = 1;
    chain->stores = store;
    return tw_chain_compile(chain, 1, memory, &plan->epilogue);
}

tw_status tw_conv_pixels_prepare(const tw_problem *problem, tw_prepare *prepare,
                                 const tw_conv_target *target)
{
    tw_conv_geometry g;
    tw_conv_pixels_plan *plan;
    tw_conv_read_geometry(problem, &g);
    TW_TRY(arena(prepare->arena, 1, sizeof *plan, &plan));
    plan->target = target;
    plan->n_parts = count_parts(problem, &g);
    plan->converts = converts(problem);
    TW_TRY(arena(prepare->arena, plan->n_parts, sizeof *plan->parts, &plan->parts));
    TW_TRY(arena(prepare->arena, plan->n_parts + 1, sizeof(int64_t), &plan->first_item));
    TW_TRY(arena(prepare->arena, plan->n_parts + 1, sizeof(int64_t), &plan->first_panel));
    TW_TRY(arena(prepare->arena, plan->n_parts, sizeof(int64_t), &plan->splits));
    make_plan(problem, &g, plan);
    if (problem->in[1].data) {
        float *packed;
        TW_TRY(arena(prepare->arena, tw_conv_max(plan->packed_floats, 1), sizeof *packed, &packed));
        plan->packed_finite = pack_constant(plan, problem->in[1].data, packed);
        plan->packed = packed;
        lay_out(plan, problem->max_threads);
    }
    if (problem->epilogue)
        TW_TRY(tw_chain_compile(problem->epilogue, 1, prepare->arena, &plan->epilogue));
    if (plan->converts) TW_TRY(compile_conversion(problem, prepare->arena, plan));
    prepare->state = plan;
    prepare->workspace = plan->bytes;
    return TW_OK;
}
