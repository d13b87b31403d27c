/* SPDX-License-Identifier: Apache-2.0 */
/* Weight gradient, run time: partial sums of groups of pixels, then their sum. */
#include <string.h>

#include "ops/conv/conv_batch.h"
#include "ops/conv/conv_pack.h"
#include "ops/conv/conv_wgrad.h"
#include "runtime/cpu/parallel.h"

/* Pixels that one call to the core sums over: dy's columns of a panel stay in the first-level cache
 * for all rows of the gradient. */
enum { SUM_LENGTH = 128 };

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
    int64_t first_row, last_row; /* of the kernel's D·H rows */
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
    list->most = TW_CONV_BATCH;
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
    list.most = tw_conv_min(tw_conv_max(SUM_LENGTH / tw_conv_max(list.job.k, 1), 1), TW_CONV_BATCH);
    list.job.a_col = images ? part->from.dim0 : part->step[2] * part->from.at[2];
    list.job.b_row = images ? w->dy.image : w->dy.at[2];
    /* The dim that k runs over is not walked. */
    valid.hi[images ? 0 : 3] = valid.lo[images ? 0 : 3] + 1;
    memcpy(at, valid.lo, sizeof at);
    if (any) {
        do
            tw_conv_push(&list, w->x + x_offset(w, at, tap),
                         (const float *)w->dy.data + dy_offset(w, at));
        while (tw_conv_next(&valid, at));
    }
    tw_conv_end(&list);
}

static void add_box(const worker *w)
{
    const tw_conv_part *part = &w->plan->part;
    for (int64_t row = w->first_row; row < w->last_row; row++)
        for (int64_t v = 0; v < part->taps[2]; v += w->plan->run)
            add_taps(w, (const int64_t[3]){row / part->taps[1], row % part->taps[1], v});
}

/* ---- Gathered windows ------------------------------------------------------------------------ */

/* One tap and channel along W: `inside` elements of x after `before` zeros, then `after` zeros. */
typedef struct line {
    int64_t before, inside, after, step;
} line;

static void gather_line(const line *l, const float *from, float *to)
{
    for (int64_t i = 0; i < l->before; i++) to[i] = 0;
    to += l->before;
    if (l->step == 1 && l->inside > 0)
        memcpy(to, from, (size_t)l->inside * sizeof *to);
    else
        for (int64_t i = 0; i < l->inside; i++) to[i] = from[i * l->step];
    to += l->inside;
    for (int64_t i = 0; i < l->after; i++) to[i] = 0;
}

/* Tap v along W of one row of pixels, for all of the item's kernel rows and channels. */
static void gather_tap(const worker *w, const int64_t at[4], int64_t v, const line *l, float *to)
{
    const tw_conv_part *part = &w->plan->part;
    const line zeros = {.before = l->before + l->inside + l->after};
    const int64_t first =
        (w->box->lo[3] + l->before) * part->step[2] - part->pad[2] + v * part->dilation[2];
    to += v * part->cin * part->row;
    for (int64_t r = w->first_row; r < w->last_row; r++) {
        const int64_t td = r / part->taps[1], th = r % part->taps[1];
        const int64_t d = at[1] * part->step[0] - part->pad[0] + td * part->dilation[0];
        const int64_t h = at[2] * part->step[1] - part->pad[1] + th * part->dilation[1];
        const bool inside =
            l->inside > 0 && d >= 0 && d < part->src[0] && h >= 0 && h < part->src[1];
        const float *from = w->x;
        if (inside)
            from += at[0] * part->from.dim0 + d * part->from.at[0] + h * part->from.at[1] +
                    first * part->from.at[2];
        for (int64_t c = 0; c < part->cin; c++, to += part->row)
            if (inside)
                gather_line(l, from + c * part->from.dim1, to);
            else
                gather_line(&zeros, from, to);
        to += (part->taps[2] - 1) * part->cin * part->row;
    }
}

/* All windows of the box, one after the other. */
static int64_t gather_windows(const worker *w)
{
    const tw_conv_part *part = &w->plan->part;
    tw_conv_source x = {.data = w->x, .image = part->from.dim0, .channel = part->from.dim1};
    int64_t at[4], pixel = 0;
    for (int d = 0; d < 3; d++) {
        x.at[d] = part->from.at[d];
        x.hi[d] = part->src[d];
    }
    memcpy(at, w->box->lo, sizeof at);
    do tw_conv_gather(part, &x, at[0], at + 1, w->windows + pixel++ * part->row);
    while (tw_conv_next(w->box, at));
    return pixel;
}

/* All windows of the box, transposed: element m of pixel i goes to windows[m · row + i]. Returns
 * the number of pixels. */
static int64_t gather_lines(const worker *w)
{
    const tw_conv_part *part = &w->plan->part;
    const int64_t lo = w->box->lo[3], hi = w->box->hi[3];
    tw_conv_box rows = *w->box;
    int64_t pixel = 0;
    rows.hi[3] = lo + 1;
    for (int64_t v = 0; v < part->taps[2]; v++) {
        const tw_conv_range valid = tw_conv_valid(part, 2, v, lo, hi);
        const line l = {.before = valid.first - lo,
                        .inside = valid.last - valid.first,
                        .after = hi - valid.last,
                        .step = part->step[2] * part->from.at[2]};
        int64_t at[4];
        memcpy(at, rows.lo, sizeof at);
        pixel = 0;
        do {
            gather_tap(w, at, v, &l, w->windows + pixel);
            pixel += hi - lo;
        } while (tw_conv_next(&rows, at));
    }
    return pixel;
}

static bool dy_is_finite(const worker *w)
{
    int64_t at[4];
    memcpy(at, w->box->lo, sizeof at);
    do {
        if (!tw_conv_all_finite((const float *)w->dy.data + dy_offset(w, at), w->cols))
            return false;
    } while (tw_conv_next(w->box, at));
    return true;
}

static void add_gathered(const worker *w)
{
    const tw_conv_part *part = &w->plan->part;
    tw_conv_batch list;
    if (part->fills && !dy_is_finite(w)) {
        add_box(w); /* skips padding instead of multiplying its zeros */
        return;
    }
    const int64_t row_floats = part->taps[2] * part->cin;
    start(&list, w, w->first_row * row_floats);
    list.job.rows = (w->last_row - w->first_row) * row_floats;
    list.job.k = w->plan->lines ? gather_lines(w) : gather_windows(w);
    list.job.a_row = w->plan->lines ? part->row : 1;
    list.job.a_col = w->plan->lines ? 1 : part->row;
    list.job.b_row = w->plan->dy.band ? part->cout : part->to_pixel;
    tw_conv_push(&list, w->windows, (const float *)w->dy.data + dy_offset(w, w->box->lo));
    tw_conv_end(&list);
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* Bytes of gradient that are added to box after box: they stay in the second-level cache. */
#define CACHED_FILTER ((int64_t)1 << 19)

static void add_boxes(worker *w, tw_conv_range boxes, const float *dy, float *copy, int64_t col)
{
    for (int64_t i = boxes.first; i < boxes.last; i++) {
        const tw_conv_box box = tw_conv_box_at(&w->plan->part, i);
        w->box = &box;
        w->accumulate = i > boxes.first;
        w->dy = tw_conv_read_source(&w->plan->dy, &box, dy, copy);
        w->dy.start += col;
        if (w->plan->part.way == TW_CONV_GATHER)
            add_gathered(w);
        else
            add_box(w);
    }
}

static void run_item(void *arg, int32_t slot, int64_t item)
{
    const wgrad_run *run = arg;
    const tw_conv_wgrad_plan *plan = run->plan;
    const tw_conv_part *part = &plan->part;
    const int64_t share = item % plan->groups, rest = item / plan->groups;
    const int64_t group = rest % part->groups, split = rest / part->groups % plan->splits;
    const int64_t tap_split = rest / part->groups / plan->splits;
    const int64_t kernel_rows = part->taps[0] * part->taps[1];
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
                .first_row = tap_split * kernel_rows / plan->tap_splits,
                .last_row = (tap_split + 1) * kernel_rows / plan->tap_splits,
                .windows = scratch + plan->dy_floats};
    const tw_conv_range range = {first, (share + 1) * boxes / plan->groups};
    const int64_t last_row = w.last_row, row_bytes = 4 * part->taps[2] * part->cin * w.cols;
    const bool fits = (last_row - w.first_row) * row_bytes <= CACHED_FILTER;
    if (fits || part->way == TW_CONV_GATHER || plan->dy.band) {
        add_boxes(&w, range, dy, scratch, col);
        return;
    }
    for (; w.first_row < last_row; w.first_row++) {
        w.last_row = w.first_row + 1;
        add_boxes(&w, range, dy, scratch, col);
    }
}

enum { SUM_ROWS = 64, SUM_COLS = 32 };

/* Rows (tap, channel) of the gradient: added up over the groups of pixels, and stored. Many rows,
 * so that a channels-last gradient is written in long runs. */
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
    tw_parallel(launch->context, slots,
                plan->groups * part->groups * plan->splits * plan->tap_splits, run_item, &run);
    tw_parallel(launch->context, slots, part->groups * tw_conv_up(part->window, SUM_ROWS), sum_item,
                &run);
    return TW_OK;
}
