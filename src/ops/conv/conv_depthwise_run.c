/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution, run time. */
#include <string.h>

#include "ops/conv/conv_depthwise.h"
#include "runtime/cpu/parallel.h"

typedef struct depthwise_run {
    const tw_conv_depthwise_plan *plan;
    const tw_launch *launch;
} depthwise_run;

/* One box of one item. */
typedef struct worker {
    const depthwise_run *run;
    const tw_conv_part *part;
    tw_conv_source x;
    float *tile;
} worker;

/* ---- Forward pass and data gradient ---------------------------------------------------------- */

static int64_t to_offset(const tw_conv_part *part, const int64_t at[4])
{
    int64_t offset = part->to_start + at[0] * part->to.dim0;
    for (int d = 0; d < 3; d++) offset += at[1 + d] * part->to.at[d];
    return offset;
}

/* Taps [first, last) along W of pixel `w` that lie inside the source. */
static tw_conv_range taps_inside(const tw_conv_part *part, int64_t w)
{
    const int64_t pos = w * part->step[2] - part->pad[2], dilation = part->dilation[2];
    tw_conv_range taps = {pos < 0 ? (-pos - 1) / dilation + 1 : 0, 0};
    if (pos < part->src[2]) taps.last = (part->src[2] - 1 - pos) / dilation + 1;
    taps.last = tw_conv_min(taps.last, part->taps[2]);
    if (taps.last < taps.first) taps.last = taps.first;
    return taps;
}

/* The kernel's rows that meet row (n, d, h) of pixels. */
static void set_rows(const worker *w, const int64_t at[4], tw_conv_depthwise_row *row)
{
    const tw_conv_part *part = w->part;
    row->n_rows = 0;
    for (int64_t td = 0; td < part->taps[0]; td++)
        for (int64_t th = 0; th < part->taps[1]; th++) {
            const int64_t d = at[1] * part->step[0] - part->pad[0] + td * part->dilation[0];
            const int64_t h = at[2] * part->step[1] - part->pad[1] + th * part->dilation[1];
            if (d < 0 || d >= part->src[0] || h < 0 || h >= part->src[1]) continue;
            row->x_rows[row->n_rows] =
                w->x.start + at[0] * w->x.image + d * w->x.at[0] + h * w->x.at[1];
            row->w_rows[row->n_rows++] = (td * part->taps[1] + th) * part->taps[2] * part->cin;
        }
}

/* Pixels [first, last) with the same taps inside. */
static void run_pixels(const worker *w, tw_conv_depthwise_row *row, tw_conv_range pixels,
                       tw_conv_range taps)
{
    const tw_conv_part *part = w->part;
    tw_conv_depthwise_row job = *row;
    const int64_t pos =
        pixels.first * part->step[2] - part->pad[2] + taps.first * part->dilation[2];
    job.pixels = pixels.last - pixels.first;
    job.taps = taps.last - taps.first;
    for (int64_t r = 0; r < job.n_rows; r++) {
        job.x_rows[r] += pos * w->x.at[2];
        job.w_rows[r] += taps.first * part->cin;
    }
    if (job.taps == 0) job.n_rows = 0;
    w->run->plan->target->row(&job);
    row->y += job.pixels * row->y_pixel;
}

static void finish(const worker *w, const int64_t at[4], int64_t n)
{
    const tw_launch *launch = w->run->launch;
    const tw_conv_part *part = w->part;
    if (w->run->plan->epilogue) {
        const int64_t row = (at[0] * part->dst[0] + at[1]) * part->dst[1] + at[2];
        const tw_chain_tile tile = {.program = w->run->plan->epilogue,
                                    .loads = launch->loads,
                                    .stores = launch->stores,
                                    .anchor = w->tile,
                                    .anchor_row = part->cin,
                                    .row = row * part->dst[2] + at[3],
                                    .rows = n,
                                    .cols = part->cin};
        w->run->plan->target->chain_run(&tile);
        return;
    }
    float *y = (float *)launch->out[0] + to_offset(part, at);
    for (int64_t c = 0; c < part->cin; c++)
        for (int64_t i = 0; i < n; i++)
            y[c * part->to.dim1 + i * part->to.at[2]] = w->tile[i * part->cin + c];
}

static void run_row(const worker *w, const tw_conv_box *box, const int64_t at[4])
{
    const tw_conv_part *part = w->part;
    const bool direct = !w->run->plan->epilogue && part->to.dim1 == 1;
    const int64_t lo = box->lo[3], hi = box->hi[3], last_tap = part->taps[2] - 1;
    tw_conv_depthwise_row row = {.x = w->x.data,
                                 .w = (const float *)w->run->launch->workspace + part->packed,
                                 .x_pixel = part->step[2] * w->x.at[2],
                                 .x_tap = part->dilation[2] * w->x.at[2],
                                 .w_tap = part->cin,
                                 .y_pixel = direct ? part->to.at[2] : part->cin,
                                 .channels = part->cin};
    row.y = direct ? (float *)w->run->launch->out[0] + to_offset(part, at) : w->tile;
    set_rows(w, at, &row);
    /* Where the first and the last tap are inside, all are. */
    tw_conv_range middle = {lo, hi};
    if (last_tap >= 0) {
        const tw_conv_range first = tw_conv_valid(part, 2, 0, lo, hi);
        const tw_conv_range last = tw_conv_valid(part, 2, last_tap, lo, hi);
        middle.first = tw_conv_max(first.first, last.first);
        middle.last = tw_conv_min(first.last, last.last);
    }
    for (int64_t i = lo; i < hi;) {
        tw_conv_range pixels = {i, i + 1};
        if (i == middle.first && middle.last > i) pixels.last = middle.last;
        const tw_conv_range all = {0, part->taps[2]};
        run_pixels(w, &row, pixels, pixels.last > i + 1 ? all : taps_inside(part, i));
        i = pixels.last;
    }
    if (!direct) finish(w, at, hi - lo);
}

static void run_item(void *arg, int32_t slot, int64_t item)
{
    const depthwise_run *run = arg;
    const tw_conv_depthwise_plan *plan = run->plan;
    int64_t p = 0, at[4];
    while (item >= plan->first_item[p + 1]) p++;
    const tw_conv_part *part = &plan->parts[p];
    const tw_conv_box box = tw_conv_box_at(part, item - plan->first_item[p]);
    float *scratch =
        (float *)((char *)run->launch->workspace + plan->scratch_at) + slot * plan->slot_floats;
    worker w = {.run = run, .part = part, .tile = scratch + plan->band_floats};
    tw_conv_box rows = box;
    w.x = tw_conv_read_source(part, &box, run->launch->in[0], scratch);
    rows.hi[3] = rows.lo[3] + 1;
    memcpy(at, box.lo, sizeof at);
    do run_row(&w, &box, at);
    while (tw_conv_next(&rows, at));
}

/* Kernels as [tap][channel]. */
static void pack(const tw_conv_part *part, const float *from, float *to)
{
    to += part->packed;
    for (int64_t d = 0; d < part->taps[0]; d++)
        for (int64_t h = 0; h < part->taps[1]; h++)
            for (int64_t v = 0; v < part->taps[2]; v++, to += part->cin) {
                const float *tap = from + part->w_start + d * part->w_tap[0] + h * part->w_tap[1] +
                                   v * part->w_tap[2];
                for (int64_t c = 0; c < part->cin; c++) to[c] = tap[c * part->w_group];
            }
}

tw_status tw_conv_depthwise_run(const tw_launch *launch)
{
    const tw_conv_depthwise_plan *plan = launch->state;
    depthwise_run run = {plan, launch};
    for (int64_t p = 0; p < plan->n_parts; p++)
        pack(&plan->parts[p], launch->in[1], launch->workspace);
    tw_parallel(launch->context, launch->problem->max_threads, plan->first_item[plan->n_parts],
                run_item, &run);
    return TW_OK;
}

/* ---- Weight gradient ------------------------------------------------------------------------- */

/* All taps of one row (n, d, h) of the box. */
static void sum_row(const worker *w, const tw_conv_source *dy, const tw_conv_box *box,
                    const int64_t at[4], float *sums)
{
    const tw_conv_part *part = w->part;
    tw_conv_depthwise_row rows;
    set_rows(w, at, &rows);
    const int64_t y = dy->start + at[0] * dy->image + at[1] * dy->at[0] + at[2] * dy->at[1];
    for (int64_t t = 0; t < part->taps[2]; t++) {
        const tw_conv_range range = tw_conv_valid(part, 2, t, box->lo[3], box->hi[3]);
        const int64_t pos = range.first * part->step[2] - part->pad[2] + t * part->dilation[2];
        if (range.first == range.last) continue;
        for (int64_t r = 0; r < rows.n_rows; r++) {
            const tw_conv_depthwise_sum job = {
                .x = (const float *)w->x.data + rows.x_rows[r] + pos * w->x.at[2],
                .y = (const float *)dy->data + y + range.first * dy->at[2],
                .sum = sums + rows.w_rows[r] + t * part->cin,
                .x_pixel = part->step[2] * w->x.at[2],
                .y_pixel = dy->at[2],
                .pixels = range.last - range.first,
                .channels = part->cin};
            w->run->plan->target->sum(&job);
        }
    }
}

static void sum_item(void *arg, int32_t slot, int64_t item)
{
    const depthwise_run *run = arg;
    const tw_conv_depthwise_plan *plan = run->plan;
    const tw_conv_part *part = &plan->parts[0];
    const int64_t boxes = plan->first_item[1];
    float *scratch =
        (float *)((char *)run->launch->workspace + plan->scratch_at) + slot * plan->slot_floats;
    float *sums = (float *)run->launch->workspace + item * plan->weights;
    worker w = {.run = run, .part = part};
    memset(sums, 0, (size_t)plan->weights * sizeof *sums);
    for (int64_t i = item * boxes / plan->groups; i < (item + 1) * boxes / plan->groups; i++) {
        const tw_conv_box box = tw_conv_box_at(part, i);
        tw_conv_box rows = box;
        int64_t at[4];
        w.x = tw_conv_read_source(part, &box, run->launch->in[0], scratch);
        const tw_conv_source dy =
            tw_conv_read_source(&plan->dy, &box, run->launch->in[1], scratch + plan->band_floats);
        rows.hi[3] = rows.lo[3] + 1;
        memcpy(at, box.lo, sizeof at);
        do sum_row(&w, &dy, &box, at, sums);
        while (tw_conv_next(&rows, at));
    }
}

tw_status tw_conv_depthwise_wgrad_run(const tw_launch *launch)
{
    const tw_conv_depthwise_plan *plan = launch->state;
    const tw_conv_part *part = &plan->parts[0];
    const float *sums = launch->workspace;
    depthwise_run run = {plan, launch};
    tw_parallel(launch->context, launch->problem->max_threads, plan->groups, sum_item, &run);
    for (int64_t i = 0; i < plan->weights; i++) {
        const int64_t tap = i / part->cin, v = tap % part->taps[2], h = tap / part->taps[2];
        const int64_t to = part->w_start + i % part->cin * part->w_group + v * part->w_tap[2] +
                           h % part->taps[1] * part->w_tap[1] + h / part->taps[1] * part->w_tap[0];
        float sum = 0;
        for (int64_t g = 0; g < plan->groups; g++) sum += sums[g * plan->weights + i];
        ((float *)launch->out[0])[to] = sum;
    }
    return TW_OK;
}
