/* SPDX-License-Identifier: Apache-2.0 */
/* Weight gradient, run time: partial sums of groups of pixels, then their sum. */
#include <string.h>

#include "ops/conv/conv_batch.h"
#include "ops/conv/conv_pack.h"
#include "ops/conv/conv_wgrad.h"
#include "runtime/cpu/parallel.h"

typedef struct wgrad_run {
    const tw_conv_wgrad_plan *plan;
    const tw_launch *launch;
} wgrad_run;

/* One box of one item. */
typedef struct worker {
    const tw_conv_wgrad_plan *plan;
    const tw_conv_box *box;
    const float *x;    /* of this group of channels */
    tw_conv_source dy; /* channels last; starts at the item's first column */
    float *filter;     /* the group's partial gradient, from the item's first column on */
    int64_t cols;
    bool accumulate;
    float *windows;
} worker;

static int64_t x_offset(const worker *w, const int64_t at[4], const int64_t tap[3])
{
    const tw_conv_part *part = &w->plan->part;
    int64_t offset = at[0] * part->from.dim0;
    for (int d = 0; d < 3; d++)
        offset += (at[1 + d] * part->step[d] - part->pad[d] + tap[d] * part->dilation[d]) *
                  part->from.at[d];
    return offset;
}

static int64_t dy_offset(const worker *w, const int64_t at[4])
{
    int64_t offset = w->dy.start + at[0] * w->dy.image;
    for (int d = 0; d < 3; d++) offset += at[1 + d] * w->dy.at[d];
    return offset;
}

static void start(tw_conv_batch *list, const worker *w, int64_t row)
{
    list->core = w->plan->target->brgemm;
    list->job = (tw_brgemm){.cols = w->cols,
                            .a = list->a,
                            .b = list->b,
                            .c = w->filter + row * w->plan->filter_row,
                            .c_row = w->plan->filter_row,
                            .accumulate = w->accumulate};
}

/* The taps [tap, tap + run) along W: all pixels of the box at which they lie inside x. */
static void add_taps(const worker *w, const int64_t tap[3])
{
    const tw_conv_part *part = &w->plan->part;
    const bool images = part->way == TW_CONV_IMAGES;
    const int64_t number = (tap[0] * part->taps[1] + tap[1]) * part->taps[2] + tap[2];
    tw_conv_box valid = *w->box;
    tw_conv_batch list;
    int64_t at[4];
    bool any = true;
    for (int d = 0; d < 3; d++) {
        const tw_conv_range range =
            tw_conv_valid(part, d, tap[d], w->box->lo[1 + d], w->box->hi[1 + d]);
        valid.lo[1 + d] = range.first;
        valid.hi[1 + d] = range.last;
        any = any && range.first < range.last;
    }
    start(&list, w, number * part->cin);
    list.job.rows = w->plan->run * part->cin;
    list.job.a_row = part->from.dim1;
    list.job.k = images ? valid.hi[0] - valid.lo[0] : valid.hi[3] - valid.lo[3];
    list.job.a_col = images ? part->from.dim0 : part->step[2] * part->from.at[2];
    list.job.b_row = images ? w->dy.image : w->dy.at[2];
    /* The dim that k runs over is not walked. */
    valid.hi[images ? 0 : 3] = valid.lo[images ? 0 : 3] + 1;
    memcpy(at, valid.lo, sizeof at);
    if (any) {
        do tw_conv_push(&list, w->x + x_offset(w, at, tap), w->dy.data + dy_offset(w, at));
        while (tw_conv_next(&valid, at));
    }
    tw_conv_end(&list);
}

static void add_box(const worker *w)
{
    const tw_conv_part *part = &w->plan->part;
    int64_t tap[3];
    for (tap[0] = 0; tap[0] < part->taps[0]; tap[0]++)
        for (tap[1] = 0; tap[1] < part->taps[1]; tap[1]++)
            for (tap[2] = 0; tap[2] < part->taps[2]; tap[2] += w->plan->run) add_taps(w, tap);
}

/* ---- Gathered windows -------------------------------------------------------------------------------- */

/* Pixels [lo, hi) along W of x's row at `base`, for one tap and channel; zeros over padding. */
static void gather_line(const tw_conv_part *part, const float *x, int64_t tap, tw_conv_range box,
                        float *to)
{
    const tw_conv_range valid = tw_conv_valid(part, 2, tap, box.first, box.last);
    const int64_t pixel = part->from.at[2], step = part->step[2] * pixel;
    const int64_t n = valid.last - valid.first;
    const int64_t start_at = valid.first * part->step[2] - part->pad[2] + tap * part->dilation[2];
    const float *from = n > 0 ? x + start_at * pixel : x;
    memset(to, 0, (size_t)(valid.first - box.first) * sizeof *to);
    to += valid.first - box.first;
    if (step == 1 && n > 0)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
    memset(to + n, 0, (size_t)(box.last - valid.last) * sizeof *to);
}

/* One row of pixels: window element m of pixel i goes to to[m · row + i]. */
static void gather_row(const worker *w, const int64_t at[4], float *to)
{
    const tw_conv_part *part = &w->plan->part;
    const tw_conv_range box = {w->box->lo[3], w->box->hi[3]};
    for (int64_t td = 0; td < part->taps[0]; td++)
        for (int64_t th = 0; th < part->taps[1]; th++) {
            const int64_t d = at[1] * part->step[0] - part->pad[0] + td * part->dilation[0];
            const int64_t h = at[2] * part->step[1] - part->pad[1] + th * part->dilation[1];
            const bool inside = d >= 0 && d < part->src[0] && h >= 0 && h < part->src[1];
            for (int64_t m = 0; m < part->taps[2] * part->cin; m++, to += part->row) {
                if (!inside) {
                    memset(to, 0, (size_t)(box.last - box.first) * sizeof *to);
                    continue;
                }
                const int64_t line = at[0] * part->from.dim0 + d * part->from.at[0] +
                                     h * part->from.at[1] + m % part->cin * part->from.dim1;
                gather_line(part, w->x + line, m / part->cin, box, to);
            }
        }
}

static bool dy_is_finite(const worker *w)
{
    int64_t at[4];
    memcpy(at, w->box->lo, sizeof at);
    do {
        if (!tw_conv_all_finite(w->dy.data + dy_offset(w, at), w->cols)) return false;
    } while (tw_conv_next(w->box, at));
    return true;
}

static void add_gathered(const worker *w)
{
    const tw_conv_part *part = &w->plan->part;
    const int64_t width = w->box->hi[3] - w->box->lo[3];
    tw_conv_box rows = *w->box;
    tw_conv_batch list;
    int64_t at[4], pixel = 0;
    if (part->fills && !dy_is_finite(w)) {
        add_box(w); /* skips padding instead of multiplying its zeros */
        return;
    }
    rows.hi[3] = rows.lo[3] + 1;
    memcpy(at, rows.lo, sizeof at);
    do {
        gather_row(w, at, w->windows + pixel);
        pixel += width;
    } while (tw_conv_next(&rows, at));
    start(&list, w, 0);
    list.job.rows = part->window;
    list.job.k = pixel;
    list.job.a_row = part->row;
    list.job.a_col = 1;
    list.job.b_row = w->plan->dy.band ? part->cout : part->to_pixel;
    tw_conv_push(&list, w->windows, w->dy.data + dy_offset(w, w->box->lo));
    tw_conv_end(&list);
}

/* ---- Items ------------------------------------------------------------------------------------------- */

static void run_item(void *arg, int32_t slot, int64_t item)
{
    const wgrad_run *run = arg;
    const tw_conv_wgrad_plan *plan = run->plan;
    const tw_conv_part *part = &plan->part;
    const int64_t share = item % plan->groups, rest = item / plan->groups;
    const int64_t group = rest % part->groups, split = rest / part->groups;
    const int64_t panels = tw_conv_up(part->cout, plan->target->tile_cols);
    const int64_t col = split * panels / plan->splits * plan->target->tile_cols;
    const int64_t end = (split + 1) * panels / plan->splits * plan->target->tile_cols;
    const int64_t boxes = tw_conv_boxes(part), first = share * boxes / plan->groups;
    const float *dy = (const float *)run->launch->in[1] + group * part->cout * part->to.dim1;
    char *workspace = run->launch->workspace;
    float *scratch = (float *)(workspace + plan->scratch_at) + slot * plan->slot_floats;
    worker w = {.plan = plan,
                .x = (const float *)run->launch->in[0] + group * part->cin * part->from.dim1,
                .filter = (float *)workspace + (share * part->groups + group) * plan->filter + col,
                .cols = tw_conv_min(end, part->cout) - col,
                .windows = scratch + plan->dy_floats};
    for (int64_t i = first; i < (share + 1) * boxes / plan->groups; i++) {
        const tw_conv_box box = tw_conv_box_at(part, i);
        w.box = &box;
        w.accumulate = i > first;
        w.dy = tw_conv_read_source(&plan->dy, &box, dy, scratch);
        w.dy.start += col;
        if (part->way == TW_CONV_GATHER)
            add_gathered(&w);
        else
            add_box(&w);
    }
}

enum { SUM_ROWS = 16, SUM_COLS = 64 };

/* Sixteen rows (tap, channel) of the gradient: added up over the groups of pixels, and stored. */
static void sum_item(void *arg, int32_t slot, int64_t item)
{
    const wgrad_run *run = arg;
    const tw_conv_wgrad_plan *plan = run->plan;
    const tw_conv_part *part = &plan->part;
    const int64_t blocks = tw_conv_up(part->window, SUM_ROWS), group = item / blocks;
    const int64_t first = item % blocks * SUM_ROWS;
    const int64_t rows = tw_conv_min(SUM_ROWS, part->window - first);
    const float *partial = (const float *)run->launch->workspace + group * plan->filter;
    float *out = (float *)run->launch->out[0] + part->w_start + group * part->w_group;
    int64_t to[SUM_ROWS];
    float sum[SUM_ROWS][SUM_COLS];
    (void)slot;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t tap = (first + r) / part->cin, v = tap % part->taps[2];
        const int64_t h = tap / part->taps[2] % part->taps[1];
        to[r] = (first + r) % part->cin * part->w_in + v * part->w_tap[2] + h * part->w_tap[1] +
                tap / part->taps[2] / part->taps[1] * part->w_tap[0];
    }
    for (int64_t col = 0; col < part->cout; col += SUM_COLS) {
        const int64_t cols = tw_conv_min(SUM_COLS, part->cout - col);
        memset(sum, 0, sizeof sum);
        for (int64_t g = 0; g < plan->groups; g++)
            for (int64_t r = 0; r < rows; r++) {
                const float *from = partial + g * part->groups * plan->filter +
                                    (first + r) * plan->filter_row + col;
                for (int64_t o = 0; o < cols; o++) sum[r][o] += from[o];
            }
        for (int64_t o = 0; o < cols; o++)
            for (int64_t r = 0; r < rows; r++) out[to[r] + (col + o) * part->w_out] = sum[r][o];
    }
}

tw_status tw_conv_wgrad_run(const tw_launch *launch)
{
    const tw_conv_wgrad_plan *plan = launch->state;
    const tw_conv_part *part = &plan->part;
    const int32_t slots = launch->problem->max_threads;
    wgrad_run run = {plan, launch};
    if (plan->filter == 0) return TW_OK;
    tw_parallel(launch->context, slots, plan->groups * part->groups * plan->splits, run_item, &run);
    tw_parallel(launch->context, slots, part->groups * tw_conv_up(part->window, SUM_ROWS), sum_item,
                &run);
    return TW_OK;
}
