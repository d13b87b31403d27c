/* SPDX-License-Identifier: Apache-2.0 */
/* From geometry to parts and boxes. */
#include "ops/conv/conv_part.h"

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

/* ---- How pixels are read --------------------------------------------------------------------- */

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

void tw_conv_merge_pixels(tw_conv_part *part)
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

tw_conv_range tw_conv_valid(const tw_conv_part *part, int d, int64_t t, int64_t lo, int64_t hi)
{
    const int64_t shift = t * part->dilation[d] - part->pad[d]; /* source position of output 0 */
    const int64_t step = part->step[d];
    const int64_t first = shift >= 0 ? 0 : (-shift - 1) / step + 1;
    const int64_t last = shift >= part->src[d] ? 0 : (part->src[d] - 1 - shift) / step + 1;
    tw_conv_range range = {tw_conv_max(first, lo), tw_conv_min(last, hi)};
    if (range.last <= range.first) range.first = range.last = lo;
    return range;
}

bool tw_conv_leaves(const tw_conv_part *part, int d)
{
    int64_t range[2];
    if (part->dst[d] == 0 || part->taps[d] == 0) return false;
    tw_conv_reach(part, d, 0, part->dst[d], range);
    return range[0] < 0 || range[1] > part->src[d];
}

void tw_conv_cut(tw_conv_part *part, int64_t pixels)
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

/* The share of products along dim d that a window's zeros add, as a factor of 1 or more. */
static double zeros(const tw_conv_part *part, int d)
{
    int64_t inside = 0;
    if (part->taps[d] > 64) return 1;
    for (int64_t t = 0; t < part->taps[d]; t++) {
        const tw_conv_range range = tw_conv_valid(part, d, t, 0, part->dst[d]);
        inside += range.last - range.first;
    }
    return inside > 0 ? (double)(part->taps[d] * part->dst[d]) / (double)inside : 1;
}

/* Cost of a product of n rows against one of full tiles: a step of k takes no less than a few
 * cycles however few rows share it. */
static double tiling(int64_t n, int64_t tile_rows)
{
    const double height = (double)n / (double)tw_conv_max(tw_conv_up(n, tile_rows), 1);
    const double least = 0.3 * (double)tile_rows;
    return n == 0 ? 1 : (height > least ? 1 : least / height) + 0.8 / height;
}

static bool same_set(int64_t floats) { return floats > 0 && floats % 1024 == 0; }

/* Prices of the three ways in multiply-add steps for each that is needed. */
static tw_conv_way cheapest(const tw_conv_part *part, const tw_conv_target *target)
{
    const double depth = (double)tw_conv_max(part->taps[2] * part->cin, 1);
    const double window = depth * (double)tw_conv_max(part->taps[0] * part->taps[1], 1);
    const double panels = (double)tw_conv_max(tw_conv_up(part->cout, target->tile_cols), 1);
    const double zeros_w = zeros(part, 2), zeros_dh = zeros(part, 0) * zeros(part, 1);
    double rows = tiling(part->dst[2], target->tile_rows) * zeros_w + 1 / depth;
    double images = tiling(part->n, target->tile_rows) + 1 / depth + 12 / window;
    double gather =
        tiling(part->n * tw_conv_product(part->dst), target->tile_rows) * zeros_w * zeros_dh +
        (0.15 + 8 / depth) / panels;
    if (same_set(part->step[2] * part->from.at[2])) rows *= 2;
    if (same_set(part->from.dim0)) images *= 2;
    if (images < rows && images < gather) return TW_CONV_IMAGES;
    return rows < gather ? TW_CONV_ROWS : TW_CONV_GATHER;
}

/* Boxes of whole tiles of images. */
static void cut_images(tw_conv_part *part, const tw_conv_target *target, int64_t pixels)
{
    const int64_t images = part->n, most = 4 * target->tile_rows;
    const int64_t box = tw_conv_up(images, tw_conv_max(tw_conv_up(images, most), 1));
    part->n = 1;
    tw_conv_cut(part, tw_conv_max(pixels / tw_conv_max(box, 1), 1));
    part->n = images;
    part->box[0] = tw_conv_max(box, 1);
    part->boxes[0] = tw_conv_up(images, part->box[0]);
}

static void set_sizes(tw_conv_part *part, const tw_conv_target *target)
{
    part->window = tw_conv_product(part->taps) * part->cin;
    /* Rows a multiple of 2 KiB apart would share few sets of the first-level cache. */
    part->row = part->window % 512 == 0 ? part->window + 16 : part->window;
    part->chunk = tw_conv_max(GATHERED / (4 * tw_conv_max(part->row, 1)), target->tile_rows);
    part->chunk = tw_conv_min(part->chunk, 4 * target->tile_rows);
    part->chunk -= part->chunk % target->tile_rows;
    part->to_pixel = tw_conv_pixel_stride(part->n, part->dst, &part->to);
}

void tw_conv_choose(tw_conv_part *part, const tw_conv_target *target, int64_t pixels)
{
    if (part->from.dim1 == 1 && part->to.dim1 == 1) tw_conv_merge_pixels(part);
    part->way = cheapest(part, target);
    if (part->way == TW_CONV_IMAGES)
        cut_images(part, target, pixels);
    else
        tw_conv_cut(part, pixels);
    const bool narrow = part->narrow != TW_AUTO;
    if (narrow && part->way == TW_CONV_IMAGES) {
        part->way = TW_CONV_ROWS; /* which reads its pixels from a band */
        tw_conv_cut(part, pixels);
    }
    const bool padded = tw_conv_leaves(part, 2) && part->way != TW_CONV_IMAGES;
    part->band =
        narrow || part->from.dim1 != 1 || padded || (part->groups > 1 && part->taps[2] > 1);
    if (part->band && tw_conv_band_floats(part) > LARGEST_BAND / 4) {
        part->band = false;
        if (narrow || part->from.dim1 != 1 || padded) part->way = TW_CONV_GATHER;
    }
    part->contiguous = part->dilation[2] == 1 &&
                       (part->band || part->from.at[2] == part->cin || part->taps[2] == 1);
    part->fills =
        part->way == TW_CONV_GATHER
            ? tw_conv_leaves(part, 0) || tw_conv_leaves(part, 1) || tw_conv_leaves(part, 2)
            : padded;
    set_sizes(part, target);
}

/* ---- Boxes ----------------------------------------------------------------------------------- */

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
