/* SPDX-License-Identifier: Apache-2.0 */
/* From geometry to parts and boxes. */
#include "ops/conv/conv_part.h"

/* About what a copied float costs, and what a tile of few rows loses, decides between the two ways
 * of reading: see NOTES.md. */
enum { FEWEST_ROWS = 6 };

void tw_conv_forward_part(const tw_conv_geometry *g, tw_conv_part *part)
{
    *part = (tw_conv_part){.n = g->n,
                           .cin = g->cg,
                           .cout = g->kg,
                           .groups = g->groups,
                           .from = g->x,
                           .to = g->y,
                           .w_start = g->w_start,
                           .w_group = g->kg * g->w.dim0,
                           .w_in = g->w.dim1,
                           .w_out = g->w.dim0};
    for (int d = 0; d < 3; d++) {
        part->src[d] = g->in[d];
        part->dst[d] = g->out[d];
        part->taps[d] = g->taps[d];
        part->step[d] = g->stride[d];
        part->dilation[d] = g->dilation[d];
        part->pad[d] = g->pad[d];
        part->w_tap[d] = g->w.at[d];
    }
}

static int64_t classes(const tw_conv_geometry *g, int d)
{
    return tw_conv_max(tw_conv_min(g->stride[d], g->in[d]), 1);
}

int64_t tw_conv_dgrad_parts(const tw_conv_geometry *g)
{
    int64_t parts = 1;
    for (int d = 0; d < 3; d++) {
        if (classes(g, d) > INT32_MAX) return INT32_MAX;
        parts = tw_conv_min(parts * classes(g, d), INT32_MAX);
    }
    return parts;
}

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * Class `residue` along dim d: positions i = stride·j + residue. Tap t meets output
 * o = (i + pad − t·dilation) / stride where that is whole: t = first + u·apart, and then
 * o = j + e − u·dilation/gcd. Counting u backwards makes it a correlation.
 */
static void set_class(const tw_conv_geometry *g, int d, int64_t residue, tw_conv_part *part)
{
    int64_t stride = g->stride[d], dilation = g->dilation[d];
    int64_t gcd = greatest_divisor(stride, dilation), apart = stride / gcd, first = 0, e = 0, n = 0;
    while (first < tw_conv_min(apart, g->taps[d]) &&
           (residue + g->pad[d] - first * dilation) % stride != 0)
        first++;
    if (first < tw_conv_min(apart, g->taps[d])) {
        n = (g->taps[d] - 1 - first) / apart + 1;
        e = (residue + g->pad[d] - first * dilation) / stride;
    }
    part->src[d] = g->out[d];
    part->dst[d] = tw_conv_up(g->in[d] - residue, stride);
    part->taps[d] = n;
    part->step[d] = 1;
    part->dilation[d] = dilation / gcd;
    part->pad[d] = n > 0 ? (n - 1) * part->dilation[d] - e : 0;
    part->to.at[d] = stride * g->x.at[d];
    part->to_start += residue * g->x.at[d];
    part->w_tap[d] = -apart * g->w.at[d];
    if (n > 0) part->w_start += (first + (n - 1) * apart) * g->w.at[d];
}

void tw_conv_dgrad_part(const tw_conv_geometry *g, int64_t index, tw_conv_part *part)
{
    *part = (tw_conv_part){.n = g->n,
                           .cin = g->kg,
                           .cout = g->cg,
                           .groups = g->groups,
                           .from = g->y,
                           .to = g->x,
                           .w_start = g->w_start,
                           .w_group = g->kg * g->w.dim0,
                           .w_in = g->w.dim0,
                           .w_out = g->w.dim1};
    for (int d = 2; d >= 0; d--) {
        set_class(g, d, index % classes(g, d), part);
        index /= classes(g, d);
    }
    if (tw_conv_product(part->taps) == 0) part->taps[0] = part->taps[1] = part->taps[2] = 0;
}

/* ---- How pixels are read -------------------------------------------------------------------------- */

int64_t tw_conv_pixel_stride(int64_t n, const int64_t dims[3], const tw_conv_strides *strides)
{
    const int64_t size[4] = {dims[2], dims[1], dims[0], n};
    const int64_t step[4] = {strides->at[2], strides->at[1], strides->at[0], strides->dim0};
    int64_t stride = 0, pixels = 1;
    for (int i = 0; i < 4; i++) {
        if (size[i] > 1 && pixels == 1) stride = step[i];
        if (size[i] > 1 && step[i] != stride * pixels) return 0;
        pixels *= size[i];
    }
    return pixels > 1 ? stride : 1;
}

/* A 1×1 kernel over dense pixels: one long row. */
static void merge_pixels(tw_conv_part *part)
{
    for (int d = 0; d < 3; d++)
        if (part->taps[d] != 1 || part->step[d] != 1 || part->pad[d] != 0 ||
            part->src[d] != part->dst[d])
            return;
    int64_t from = tw_conv_pixel_stride(part->n, part->src, &part->from);
    int64_t to = tw_conv_pixel_stride(part->n, part->dst, &part->to);
    if (from == 0 || to == 0) return;
    part->src[2] = part->dst[2] = part->n * tw_conv_product(part->dst);
    part->n = part->src[0] = part->src[1] = part->dst[0] = part->dst[1] = 1;
    part->from.at[2] = from;
    part->to.at[2] = to;
}

void tw_conv_reach(const tw_conv_part *part, int d, int64_t lo, int64_t hi, int64_t range[2])
{
    range[0] = lo * part->step[d] - part->pad[d];
    range[1] =
        (hi - 1) * part->step[d] - part->pad[d] + (part->taps[d] - 1) * part->dilation[d] + 1;
}

/* Does any window leave the source along dim d? */
static bool leaves(const tw_conv_part *part, int d)
{
    int64_t range[2];
    if (part->dst[d] == 0 || part->taps[d] == 0) return false;
    tw_conv_reach(part, d, 0, part->dst[d], range);
    return range[0] < 0 || range[1] > part->src[d];
}

static void cut(tw_conv_part *part, int64_t pixels)
{
    const int64_t size[4] = {part->n, part->dst[0], part->dst[1], part->dst[2]};
    int64_t lower = 1;
    for (int i = 3; i >= 0; i--) {
        /* Units of dim i that make up the target; equal boxes rather than full ones and a rest. */
        int64_t units = tw_conv_max(pixels / tw_conv_max(lower, 1), 1);
        int64_t count = tw_conv_up(size[i], units);
        part->box[i] = count > 0 ? tw_conv_up(size[i], count) : 1;
        part->boxes[i] = tw_conv_up(size[i], part->box[i]);
        lower *= size[i];
    }
}

/* Bytes of windows gathered at a time: they stay in the second-level cache. */
#define GATHERED ((int64_t)1 << 17)

/* Bytes of band beyond which windows are gathered straight from the source. */
#define LARGEST_BAND ((int64_t)1 << 22)

void tw_conv_choose(tw_conv_part *part, const tw_conv_target *target, int64_t pixels)
{
    if (part->from.dim1 == 1 && part->to.dim1 == 1) merge_pixels(part);
    cut(part, pixels);
    int64_t row = part->dst[2], tiles = tw_conv_max(tw_conv_up(row, target->tile_rows), 1);
    bool grouped = part->groups > 1 && part->taps[2] > 1;
    part->band = part->from.dim1 != 1 || leaves(part, 2) || grouped;
    if (part->band && tw_conv_band_floats(part) > LARGEST_BAND / 4) part->band = false;
    part->contiguous = part->dilation[2] == 1 &&
                       (part->band || part->from.at[2] == part->cin || part->taps[2] == 1);
    bool unreadable = !part->band && (part->from.dim1 != 1 || leaves(part, 2));
    part->gather = unreadable || (row / tiles < FEWEST_ROWS && row < target->tile_rows &&
                                  part->taps[2] * part->cin >= 8);
    part->fills = leaves(part, 2) || (part->gather && (leaves(part, 0) || leaves(part, 1)));
    part->window = tw_conv_product(part->taps) * part->cin;
    /* Rows a multiple of 2 KiB apart would share few sets of the first-level cache. */
    part->row = part->window % 512 == 0 ? part->window + 16 : part->window;
    part->chunk = tw_conv_max(GATHERED / (4 * tw_conv_max(part->row, 1)), target->tile_rows);
    part->chunk = tw_conv_min(part->chunk, 4 * target->tile_rows);
    part->chunk -= part->chunk % target->tile_rows;
    part->to_pixel = tw_conv_pixel_stride(part->n, part->dst, &part->to);
}

/* ---- Boxes ----------------------------------------------------------------------------------------- */

int64_t tw_conv_boxes(const tw_conv_part *part)
{
    return part->boxes[0] * part->boxes[1] * part->boxes[2] * part->boxes[3];
}

tw_conv_box tw_conv_box_at(const tw_conv_part *part, int64_t index)
{
    const int64_t size[4] = {part->n, part->dst[0], part->dst[1], part->dst[2]};
    tw_conv_box box;
    for (int i = 3; i >= 0; i--) {
        box.lo[i] = index % part->boxes[i] * part->box[i];
        box.hi[i] = tw_conv_min(box.lo[i] + part->box[i], size[i]);
        index /= part->boxes[i];
    }
    return box;
}

int64_t tw_conv_box_pixels(const tw_conv_box *box)
{
    int64_t pixels = 1;
    for (int i = 0; i < 4; i++) pixels *= box->hi[i] - box->lo[i];
    return pixels;
}

bool tw_conv_next(const tw_conv_box *box, int64_t at[4])
{
    for (int i = 3; i >= 0; i--) {
        if (++at[i] < box->hi[i]) return true;
        at[i] = box->lo[i];
    }
    return false;
}
