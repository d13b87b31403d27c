/* SPDX-License-Identifier: Apache-2.0 */
/* Forward pass and data gradient, run time: packs the weights, then multiplies box by box. */
#include <string.h>

#include "ops/conv/conv_batch.h"
#include "ops/conv/conv_pack.h"
#include "ops/conv/conv_pixels.h"
#include "runtime/cpu/parallel.h"

typedef struct pixels_run {
    const tw_conv_pixels_plan *plan;
    const tw_launch *launch;
    const float *packed;
    bool exact; /* a weight is not finite: padding must be skipped, not multiplied */
} pixels_run;

/* One item: a box, a group and a range of columns. */
typedef struct worker {
    const pixels_run *run;
    const tw_conv_part *part;
    tw_conv_source source;
    int64_t group, col, cols, panel;
    float *rows, *tile;
} worker;

/* ---- Results --------------------------------------------------------------------------------- */

static int64_t pixel_number(const tw_conv_part *part, const int64_t at[4])
{
    return ((at[0] * part->dst[0] + at[1]) * part->dst[1] + at[2]) * part->dst[2] + at[3];
}

static float *result_at(const worker *w, const int64_t at[4])
{
    const tw_conv_part *part = w->part;
    int64_t offset =
        part->to_start + (w->group * part->cout + w->col) * part->to.dim1 + at[0] * part->to.dim0;
    for (int d = 0; d < 3; d++) offset += at[1 + d] * part->to.at[d];
    return (float *)w->run->launch->out[0] + offset;
}

/* Pixels of one row of the destination. */
static void scatter(const worker *w, const int64_t at[4], int64_t n, const float *tile, int64_t row)
{
    const tw_conv_strides *to = &w->part->to;
    float *out = result_at(w, at);
    for (int64_t c = 0; c < w->cols; c += 16) {
        const int64_t last = tw_conv_min(c + 16, w->cols);
        for (int64_t o = c; o < last; o++)
            for (int64_t i = 0; i < n; i++) out[i * to->at[2] + o * to->dim1] = tile[i * row + o];
    }
}

/* Takes n finished pixels, from `at` on in row-major order, from the tile to where they belong. */
static void finish(const worker *w, const int64_t first[4], int64_t n, const float *tile,
                   int64_t row)
{
    const tw_conv_pixels_plan *plan = w->run->plan;
    if (plan->epilogue) {
        const int64_t col = w->group * w->part->cout + w->col;
        const tw_chain_tile chain = {.program = plan->epilogue,
                                     .loads = w->run->launch->loads,
                                     .stores = plan->converts ? w->run->launch->out
                                                              : w->run->launch->stores,
                                     .anchor = tile,
                                     .anchor_row = row,
                                     .row = pixel_number(w->part, first),
                                     .rows = n,
                                     .col = col,
                                     .cols = w->cols};
        plan->target->chain_run(&chain);
        return;
    }
    const tw_conv_box whole = {
        .hi = {w->part->n, w->part->dst[0], w->part->dst[1], w->part->dst[2]}};
    int64_t at[4];
    memcpy(at, first, sizeof at);
    while (n > 0) {
        const int64_t count = tw_conv_min(n, whole.hi[3] - at[3]);
        scatter(w, at, count, tile, row);
        tile += count * row;
        n -= count;
        at[3] += count - 1;
        tw_conv_next(&whole, at);
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

static void start(tw_conv_batch *list, const worker *w, float *c, int64_t c_row)
{
    const tw_conv_target *target = w->run->plan->target;
    list->core = target->brgemm;
    list->most = TW_CONV_BATCH;
    list->job = (tw_brgemm){.cols = w->cols,
                            .b_row = target->tile_cols,
                            .b_panel = w->part->window * target->tile_cols,
                            .b_padded = true,
                            .a = list->a,
                            .b = list->b,
                            .c = c,
                            .c_row = c_row};
}

/* Taps of one kernel row at position `base + pos·pixel`, those inside the source. */
static void push_row(const worker *w, tw_conv_batch *list, int64_t base, int64_t pos,
                     const float *b)
{
    const tw_conv_part *part = w->part;
    const tw_conv_source *source = &w->source;
    const int64_t tap_floats = part->cin * w->run->plan->target->tile_cols;
    if (part->contiguous) {
        /* Only IMAGES meets padding here: one pixel, so its taps inside are one run too. */
        const int64_t skip = tw_conv_max(source->lo[2] - pos, 0);
        if (list->job.k > 0)
            tw_conv_push(list, (const float *)source->data + base + (pos + skip) * source->at[2],
                         b + skip * tap_floats);
        return;
    }
    for (int64_t t = 0; t < part->taps[2]; t++, pos += part->dilation[2], b += tap_floats)
        if (pos >= source->lo[2] && pos < source->hi[2])
            tw_conv_push(list, (const float *)source->data + base + pos * source->at[2], b);
}

/* Length of the run of taps at `pos` that lie inside the source. */
static int64_t run_inside(const worker *w, int64_t pos)
{
    const int64_t first = tw_conv_max(w->source.lo[2], pos);
    const int64_t last = tw_conv_min(w->source.hi[2], pos + w->part->taps[2]);
    return tw_conv_max(last - first, 0);
}

/* `n` pixels of one row, from `at` on; in IMAGES, pixel `at` of n images. */
static void multiply_row(const worker *w, const int64_t at[4], int64_t n, float *c, int64_t c_row)
{
    const tw_conv_part *part = w->part;
    const tw_conv_source *source = &w->source;
    const int64_t row_floats = part->taps[2] * part->cin * w->run->plan->target->tile_cols;
    const float *b =
        w->run->packed + part->packed + w->panel * part->window * w->run->plan->target->tile_cols;
    const int64_t image = source->start + at[0] * source->image;
    tw_conv_batch list;
    start(&list, w, c, c_row);
    list.job.rows = n;
    list.job.k = part->cin;
    if (part->contiguous && part->way == TW_CONV_IMAGES)
        list.job.k *= run_inside(w, at[3] * part->step[2] - part->pad[2]);
    else if (part->contiguous)
        list.job.k *= part->taps[2];
    list.job.a_row = part->way == TW_CONV_IMAGES ? source->image : part->step[2] * source->at[2];
    list.job.a_col = source->channel;
    for (int64_t td = 0; td < part->taps[0]; td++) {
        const int64_t d = at[1] * part->step[0] - part->pad[0] + td * part->dilation[0];
        for (int64_t th = 0; th < part->taps[1]; th++, b += row_floats) {
            const int64_t h = at[2] * part->step[1] - part->pad[1] + th * part->dilation[1];
            if (d < source->lo[0] || d >= source->hi[0] || h < source->lo[1] || h >= source->hi[1])
                continue;
            push_row(w, &list, image + d * source->at[0] + h * source->at[1],
                     at[3] * part->step[2] - part->pad[2], b);
        }
    }
    tw_conv_end(&list);
}

static bool is_direct(const worker *w) { return !w->run->plan->epilogue && w->part->to.dim1 == 1; }

static void run_rows(const worker *w, const tw_conv_box *box)
{
    const bool direct = is_direct(w);
    const int64_t tile_row = tw_conv_up(w->cols, 16) * 16;
    const int64_t most = w->run->exact && w->part->fills ? 1 : direct ? INT64_MAX : w->part->chunk;
    int64_t at[4];
    memcpy(at, box->lo, sizeof at);
    do {
        const int64_t n = tw_conv_min(box->hi[3] - at[3], most);
        if (direct) {
            multiply_row(w, at, n, result_at(w, at), w->part->to.at[2]);
        } else {
            multiply_row(w, at, n, w->tile, tile_row);
            finish(w, at, n, w->tile, tile_row);
        }
        at[3] += n - 1;
    } while (tw_conv_next(box, at));
}

/* Pixel by pixel, all images of the box at once. A tile has the box's own order, [n][d, h, w]. */
static void run_images(const worker *w, const tw_conv_box *box)
{
    const bool direct = is_direct(w);
    const int64_t images = box->hi[0] - box->lo[0], pixels = tw_conv_box_pixels(box) / images;
    const int64_t tile_row = tw_conv_up(w->cols, 16) * 16;
    tw_conv_box pixel = *box;
    int64_t at[4], i = 0;
    pixel.hi[0] = box->lo[0] + 1;
    memcpy(at, box->lo, sizeof at);
    do {
        if (direct)
            multiply_row(w, at, images, result_at(w, at), w->part->to.dim0);
        else
            multiply_row(w, at, images, w->tile + i++ * tile_row, pixels * tile_row);
    } while (tw_conv_next(&pixel, at));
    for (int64_t n = 0; !direct && n < images; n++, at[0]++)
        finish(w, at, pixels, w->tile + n * pixels * tile_row, tile_row);
}

static void run_gathered(const worker *w, const tw_conv_box *box)
{
    const tw_conv_part *part = w->part;
    const bool direct = is_direct(w) && part->to_pixel > 0;
    const int64_t tile_row = tw_conv_up(w->cols, 16) * 16;
    const int64_t tile_cols = w->run->plan->target->tile_cols;
    const float *b = w->run->packed + part->packed + w->panel * part->window * tile_cols;
    int64_t left = tw_conv_box_pixels(box), at[4], first[4];
    tw_conv_batch list;
    memcpy(at, box->lo, sizeof at);
    while (left > 0) {
        /* Equal chunks rather than full ones and a rest. */
        const int64_t n = tw_conv_up(left, tw_conv_up(left, part->chunk));
        memcpy(first, at, sizeof at);
        for (int64_t i = 0; i < n; i++) {
            tw_conv_gather(part, &w->source, at[0], at + 1, w->rows + i * part->row);
            tw_conv_next(box, at);
        }
        start(&list, w, direct ? result_at(w, first) : w->tile, direct ? part->to_pixel : tile_row);
        list.job.rows = n;
        list.job.k = part->window;
        list.job.a_row = part->row;
        list.job.a_col = 1;
        tw_conv_push(&list, w->rows, b);
        tw_conv_end(&list);
        if (!direct) finish(w, first, n, w->tile, tile_row);
        left -= n;
    }
}

/* ---- Items ----------------------------------------------------------------------------------- */

static void run_item(void *arg, int32_t slot, int64_t item)
{
    const pixels_run *run = arg;
    const tw_conv_pixels_plan *plan = run->plan;
    int64_t p = 0;
    while (item >= plan->first_item[p + 1]) p++;
    item -= plan->first_item[p];
    tw_conv_part part = plan->parts[p];
    const int64_t boxes = tw_conv_boxes(&part), splits = plan->splits[p];
    const int64_t panels = tw_conv_panels(&part, plan->target), tile_cols = plan->target->tile_cols;
    const tw_conv_box box = tw_conv_box_at(&part, item % boxes);
    const int64_t group = item / boxes % part.groups, split = item / boxes / part.groups;
    const int64_t first = split * panels / splits, last = (split + 1) * panels / splits;
    float *scratch =
        (float *)((char *)run->launch->workspace + plan->scratch_at) + slot * plan->slot_floats;
    if (run->exact && part.fills) {
        part.way = TW_CONV_ROWS;
        part.contiguous = false;
        part.band = part.clipped = part.narrow != TW_AUTO;
    }
    const size_t width = part.narrow == TW_AUTO ? sizeof(float) : sizeof(uint16_t);
    const char *source =
        (const char *)run->launch->in[0] + (size_t)(group * part.cin * part.from.dim1) * width;
    worker w = {.run = run,
                .part = &part,
                .group = group,
                .col = first * tile_cols,
                .cols = tw_conv_min(last * tile_cols, part.cout) - first * tile_cols,
                .panel = group * panels + first,
                .rows = scratch + plan->band_floats,
                .tile = scratch + plan->band_floats + plan->rows_floats};
    w.source = tw_conv_read_source(&part, &box, source, scratch);
    if (part.way == TW_CONV_GATHER)
        run_gathered(&w, &box);
    else if (part.way == TW_CONV_IMAGES)
        run_images(&w, &box);
    else
        run_rows(&w, &box);
}

static void pack_item(void *arg, int32_t slot, int64_t item)
{
    const pixels_run *run = arg;
    const tw_conv_pixels_plan *plan = run->plan;
    char *workspace = run->launch->workspace;
    int64_t p = 0;
    (void)slot;
    while (item >= plan->first_panel[p + 1]) p++;
    workspace[plan->flags_at + item] =
        tw_conv_pack_panel(&plan->parts[p], plan->target, item - plan->first_panel[p],
                           run->launch->in[1], (float *)run->launch->workspace);
}

tw_status tw_conv_pixels_run(const tw_launch *launch)
{
    const tw_conv_pixels_plan *plan = launch->state;
    const int32_t slots = launch->problem->max_threads;
    pixels_run run = {plan, launch, plan->packed, !plan->packed_finite};
    if (plan->first_item[plan->n_parts] == 0) return TW_OK;
    if (!plan->packed) {
        const int64_t panels = plan->first_panel[plan->n_parts];
        const char *finite = (const char *)launch->workspace + plan->flags_at;
        run.packed = launch->workspace;
        run.exact = false;
        tw_parallel(launch->context, slots, panels, pack_item, &run);
        for (int64_t i = 0; i < panels; i++) run.exact |= !finite[i];
    }
    tw_parallel(launch->context, slots, plan->first_item[plan->n_parts], run_item, &run);
    return TW_OK;
}
