/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backward pooling. By channel, each element of dx gathers from the windows over it; else each
 * plane of dx is zeroed and its windows scatter into it, in row-major order, on one thread.
 * Included by pool_body.h.
 *
 * An index that names no element of its window matches nothing (gather) or is skipped (scatter). An
 * index matches one element at most, so that fewer matches than windows tell of a bad one.
 */

static int64_t *slot_counter(const tw_launch *launch, int32_t slot)
{
    return (int64_t *)((char *)launch->workspace + slot * (int64_t)TW_POOL_SLOT_BYTES);
}

/* Runs the items, and checks for max pooling that every window found its element. */
static tw_status run_backward(const tw_launch *launch, tw_slot_task item)
{
    const tw_pool_plan *plan = launch->state;
    const tw_pool_shape *shape = &plan->shape;
    int64_t items = (plan->units + plan->units_per_item - 1) / plan->units_per_item, matches = 0;
    int64_t windows = shape->n * shape->c;
    tw_launch copy = *launch;
    if (shape->c == 0) return TW_OK;
    for (int32_t slot = 0; slot < launch->problem->max_threads; slot++)
        *slot_counter(launch, slot) = 0;
    tw_parallel(launch->context, launch->problem->max_threads, items, item, &copy);
    for (int32_t slot = 0; slot < launch->problem->max_threads; slot++)
        matches += *slot_counter(launch, slot);
    for (int i = 0; i < TW_MAX_SPATIAL; i++) windows *= shape->axis[i].out;
    return plan->max && matches != windows ? tw_pool_bad_index(launch) : TW_OK;
}

/* ---- Gather ---------------------------------------------------------------------------------- */

/* A window over an element: where its dy and index are, and which tap the element is. */
typedef struct over {
    int64_t dy, index, base;
    int32_t ordinal;
    float scale;
} over;

typedef struct over_list {
    over entries[TW_POOL_MOST_OVER];
    int count;
    bool begun; /* dx holds the sum of earlier lists */
} over_list;

/* The place of a pixel of dx and how far its windows have been listed. */
typedef struct pixel {
    int64_t n, at[TW_MAX_SPATIAL], dx;
} pixel;

TW_INLINE int64_t gather_vector(const tw_launch *launch, const over_list *list, int64_t dx,
                                int64_t c, int count)
{
    const tw_pool_plan *plan = launch->state;
    vf sum = vf_zero();
    int64_t matches = 0;
    if (list->begun) sum = load_contiguous(plan->x_type, launch->out[0], dx + c, count);
    for (int i = 0; i < list->count; i++) {
        const over *o = &list->entries[i];
        vf dy = load_contiguous(plan->y_type, launch->in[0], o->dy + c, count);
        if (!plan->max) {
            sum = vf_add(sum, vf_mul(dy, vf_set(o->scale)));
            continue;
        }
        vi ordinals =
            load_ordinals(plan, launch->in[1], o->index + c, o->base + c * plan->lane_index, count);
        vm here = vi_eq(ordinals, vi_set(o->ordinal));
        sum = vf_add(sum, vf_select(here, dy, vf_zero()));
        uint32_t bits = vm_bits(here) & (uint32_t)(((uint64_t)1 << count) - 1);
        matches += __builtin_popcount(bits);
    }
    store_lanes(plan->x_type, launch->out[0], dx + c, sum, count);
    return matches;
}

static int64_t gather_list(const tw_launch *launch, over_list *list, int64_t dx)
{
    const tw_pool_plan *plan = launch->state;
    int64_t c = 0, matches = 0, channels = plan->shape.c;
    for (; c + VLANES <= channels; c += VLANES)
        matches += gather_vector(launch, list, dx, c, VLANES);
    if (c < channels) matches += gather_vector(launch, list, dx, c, (int)(channels - c));
    list->begun = true;
    list->count = 0;
    return matches;
}

/* Output positions whose window reaches element i of an axis; not every one has a tap there. */
TW_INLINE tw_pool_range windows_over(const tw_pool_axis *axis, int64_t i)
{
    int64_t last = (i + axis->pad_lo) / axis->stride + 1;
    int64_t late = i + axis->pad_lo - axis->dilation * (axis->window - 1);
    tw_pool_range range = {late > 0 ? tw_pool_ceil_div(late, axis->stride) : 0, last};
    if (range.last > axis->out) range.last = axis->out;
    return range;
}

/* Adds window o to the list unless the pixel falls between its taps. */
TW_INLINE void list_window(const tw_pool_plan *plan, const pixel *p, const int64_t *o,
                           over_list *list)
{
    over *entry = &list->entries[list->count];
    int64_t ordinal = 0;
    double divisor = 1;
    entry->dy = p->n * plan->y.n;
    entry->index = p->n * plan->index.n;
    for (int i = 0; i < TW_MAX_SPATIAL; i++) {
        const tw_pool_axis *axis = &plan->shape.axis[i];
        int64_t from = p->at[i] - tw_pool_start(axis, o[i]);
        if (axis->dilation > 1 && from % axis->dilation != 0) return;
        if (axis->dilation > 1) from /= axis->dilation;
        ordinal += from * plan->ordinal_step[i];
        entry->dy += o[i] * plan->y.axis[i];
        entry->index += o[i] * plan->index.axis[i];
        if (!plan->max) divisor *= (double)tw_pool_divisor(axis, o[i], plan->shape.include_pad);
    }
    entry->ordinal = (int32_t)ordinal;
    entry->scale = (float)(1 / divisor);
    if (plan->max) entry->base = tw_pool_index_base(plan, p->n * plan->shape.c, o);
    list->count++;
}

static int64_t gather_pixel(const tw_launch *launch, const pixel *p)
{
    const tw_pool_plan *plan = launch->state;
    tw_pool_range r[TW_MAX_SPATIAL];
    int64_t o[TW_MAX_SPATIAL], matches = 0;
    over_list list;
    list.count = 0;
    list.begun = false;
    for (int i = 0; i < TW_MAX_SPATIAL; i++) r[i] = windows_over(&plan->shape.axis[i], p->at[i]);
    for (o[0] = r[0].first; o[0] < r[0].last; o[0]++)
        for (o[1] = r[1].first; o[1] < r[1].last; o[1]++)
            for (o[2] = r[2].first; o[2] < r[2].last; o[2]++) {
                if (list.count == TW_POOL_MOST_OVER) matches += gather_list(launch, &list, p->dx);
                list_window(plan, p, o, &list);
            }
    if (list.count > 0 || !list.begun) matches += gather_list(launch, &list, p->dx);
    return matches;
}

static void gather_item(void *arg, int32_t slot, int64_t item)
{
    const tw_launch *launch = arg;
    const tw_pool_plan *plan = launch->state;
    const tw_pool_axis *axis = plan->shape.axis;
    const int64_t sizes[3] = {plan->shape.n, axis[0].in, axis[1].in};
    int64_t unit = item * plan->units_per_item, end = unit + plan->units_per_item, matches = 0;
    if (end > plan->units) end = plan->units;
    for (; unit < end; unit++) {
        int64_t at[3];
        split_number(unit, 3, sizes, at);
        pixel p = {.n = at[0], .at = {at[1], at[2], 0}};
        p.dx = p.n * plan->x.n + at[1] * plan->x.axis[0] + at[2] * plan->x.axis[1];
        for (; p.at[2] < axis[2].in; p.at[2]++) {
            matches += gather_pixel(launch, &p);
            p.dx += plan->x.axis[2];
        }
    }
    *slot_counter(launch, slot) += matches;
}

static tw_status run_gather(const tw_launch *launch) { return run_backward(launch, gather_item); }

const tw_kernel_impl TW_SYMBOL(tw_pool_gather_mixed) = {
    .supports = tw_pool_gather_refuses, .prepare = tw_pool_gather_prepare, .run = run_gather};

/* ---- Scatter --------------------------------------------------------------------------------- */

static void zero_plane(const tw_pool_plan *plan, float *dx)
{
    const tw_pool_axis *axis = plan->shape.axis;
    for (int64_t d = 0; d < axis[0].in; d++)
        for (int64_t h = 0; h < axis[1].in; h++) {
            float *row = dx + d * plan->x.axis[0] + h * plan->x.axis[1];
            if (plan->x.axis[2] == 1)
                memset(row, 0, (size_t)axis[2].in * sizeof(float));
            else
                for (int64_t w = 0; w < axis[2].in; w++) row[w * plan->x.axis[2]] = 0;
        }
}

/* A row of windows, with what axes 0 and 1 contribute. */
typedef struct window_row {
    int64_t plane, o[TW_MAX_SPATIAL];
    tw_pool_range real[TW_MAX_SPATIAL];
    int64_t start; /* of dx, for taps (0, 0) of axes 0 and 1 */
    int64_t dy, index;
    double divisor;
} window_row;

/* Splits an index, less its plane's first, into a window's taps; false unless they are real. */
TW_INLINE bool split_index(const tw_pool_plan *plan, int64_t index, const window_row *row,
                           int64_t *tap)
{
    const uint32_t *sizes = plan->index_sizes;
    bool reversed = plan->shape.column_major;
    bool in_window = plan->shape.index == TW_POOL_INDEX_WINDOW;
    if (index < 0 || index >= plan->index_count) return false;
    uint32_t rest = (uint32_t)index;
    for (int k = 0; k < TW_MAX_SPATIAL; k++) {
        int i = reversed ? k : TW_MAX_SPATIAL - 1 - k;
        const tw_pool_axis *axis = &plan->shape.axis[i];
        tap[i] = rest % sizes[i];
        rest /= sizes[i];
        if (!in_window) {
            int64_t from = tap[i] - tw_pool_start(axis, row->o[i]);
            tap[i] = from;
            if (axis->dilation > 1) {
                if (from % axis->dilation != 0) return false;
                tap[i] = from / axis->dilation;
            }
        }
        if (tap[i] < row->real[i].first || tap[i] >= row->real[i].last) return false;
    }
    return true;
}

static int64_t scatter_max(const tw_launch *launch, window_row *row, float *dx)
{
    const tw_pool_plan *plan = launch->state;
    const tw_pool_axis *axis = plan->shape.axis;
    const float *dy = (const float *)launch->in[0] + row->dy;
    int64_t matches = 0, *o = &row->o[2], base = 0;
    if (plan->shape.index == TW_POOL_INDEX_TENSOR) base = row->plane * plan->index_count;
    for (*o = 0; *o < axis[2].out; (*o)++) {
        int64_t at = row->index + *o * plan->index.axis[2], tap[TW_MAX_SPATIAL];
        int64_t index = plan->index_type == TW_U8    ? ((const uint8_t *)launch->in[1])[at]
                        : plan->index_type == TW_I32 ? ((const int32_t *)launch->in[1])[at]
                                                     : ((const int64_t *)launch->in[1])[at];
        row->real[2] = tw_pool_real(&axis[2], *o);
        if (index < base || !split_index(plan, index - base, row, tap)) continue;
        int64_t to = row->start + tw_pool_start(&axis[2], *o) * plan->x.axis[2];
        for (int i = 0; i < TW_MAX_SPATIAL; i++) to += tap[i] * axis[i].dilation * plan->x.axis[i];
        dx[to] += dy[*o * plan->y.axis[2]];
        matches++;
    }
    return matches;
}

static void scatter_average(const tw_launch *launch, window_row *row, float *dx)
{
    const tw_pool_plan *plan = launch->state;
    const tw_pool_axis *axis = plan->shape.axis;
    const float *dy = (const float *)launch->in[0] + row->dy;
    const tw_pool_range *r = row->real;
    int64_t step = axis[2].dilation * plan->x.axis[2];
    for (int64_t o = 0; o < axis[2].out; o++) {
        tw_pool_range columns = tw_pool_real(&axis[2], o);
        double divisor =
            row->divisor * (double)tw_pool_divisor(&axis[2], o, plan->shape.include_pad);
        float value = dy[o * plan->y.axis[2]] * (float)(1 / divisor);
        int64_t to = row->start + tw_pool_start(&axis[2], o) * plan->x.axis[2];
        for (int64_t d = r[0].first; d < r[0].last; d++)
            for (int64_t h = r[1].first; h < r[1].last; h++) {
                int64_t at = to + d * axis[0].dilation * plan->x.axis[0] +
                             h * axis[1].dilation * plan->x.axis[1];
                for (int64_t k = columns.first; k < columns.last; k++) dx[at + k * step] += value;
            }
    }
}

static int64_t scatter_plane(const tw_launch *launch, int64_t plane)
{
    const tw_pool_plan *plan = launch->state;
    const tw_pool_axis *axis = plan->shape.axis;
    int64_t n = plane / plan->shape.c, c = plane % plan->shape.c, matches = 0;
    float *dx = (float *)launch->out[0] + n * plan->x.n + c * plan->x.c;
    window_row row = {.plane = plane};
    zero_plane(plan, dx);
    for (row.o[0] = 0; row.o[0] < axis[0].out; row.o[0]++)
        for (row.o[1] = 0; row.o[1] < axis[1].out; row.o[1]++) {
            row.start = 0;
            row.divisor = 1;
            row.dy = n * plan->y.n + c * plan->y.c;
            row.index = n * plan->index.n + c * plan->index.c;
            for (int i = 0; i < 2; i++) {
                row.real[i] = tw_pool_real(&axis[i], row.o[i]);
                row.start += tw_pool_start(&axis[i], row.o[i]) * plan->x.axis[i];
                row.dy += row.o[i] * plan->y.axis[i];
                row.index += row.o[i] * plan->index.axis[i];
                row.divisor *= (double)tw_pool_divisor(&axis[i], row.o[i], plan->shape.include_pad);
            }
            row.o[2] = 0;
            if (plan->max)
                matches += scatter_max(launch, &row, dx);
            else
                scatter_average(launch, &row, dx);
        }
    return matches;
}

static void scatter_item(void *arg, int32_t slot, int64_t item)
{
    const tw_launch *launch = arg;
    const tw_pool_plan *plan = launch->state;
    int64_t plane = item * plan->units_per_item, end = plane + plan->units_per_item, matches = 0;
    if (end > plan->units) end = plan->units;
    for (; plane < end; plane++) matches += scatter_plane(launch, plane);
    *slot_counter(launch, slot) += matches;
}

static tw_status run_scatter(const tw_launch *launch) { return run_backward(launch, scatter_item); }

const tw_kernel_impl TW_SYMBOL(tw_pool_scatter_f32) = {
    .supports = tw_pool_scatter_refuses, .prepare = tw_pool_scatter_prepare, .run = run_scatter};
