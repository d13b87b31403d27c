/* SPDX-License-Identifier: Apache-2.0 */
/* Forward pooling: each group of lanes walks over its window. Included by pool_body.h. */

/* A window of neighbouring lanes, all with the same real taps. */
typedef struct window {
    tw_pool_range real[TW_MAX_SPATIAL];
    int64_t at;                   /* of the first lane's tap (0, 0, 0), in elements of x */
    int64_t step[TW_MAX_SPATIAL]; /* from tap to tap, in elements */
    int64_t lane;                 /* from lane to lane */
    int64_t base;                 /* of the first lane's indices */
    float scale;                  /* 1 / divisor */
} window;

typedef struct maximum {
    vf value;
    vi ordinal;
} maximum;

/* How a window's lanes are read; constants where the compiler is to make a special case of them. */
typedef struct reader {
    tw_dtype type;
    int64_t lane;
    int count;
    bool indices;
} reader;

/* A lane's maximum gives way to a greater one, or to the first NaN. */
TW_INLINE maximum max_window(const tw_pool_plan *plan, const void *x, const window *w,
                             const reader from)
{
    const int64_t *ordinal_step = plan->ordinal_step;
    const tw_pool_range *r = w->real;
    int64_t first = 0;
    for (int i = 0; i < TW_MAX_SPATIAL; i++) first += r[i].first * ordinal_step[i];
    maximum best = {vf_set(-INFINITY), vi_set((int32_t)first)};
    for (int64_t d = r[0].first; d < r[0].last; d++)
        for (int64_t h = r[1].first; h < r[1].last; h++) {
            int64_t at = w->at + d * w->step[0] + h * w->step[1];
            int64_t ordinal = d * ordinal_step[0] + h * ordinal_step[1];
            for (int64_t k = r[2].first; k < r[2].last; k++) {
                vf v = load_lanes(from.type, x, at + k * w->step[2], from.lane, from.count);
                vm more = vm_and(vm_not(vf_le(v, best.value)), vf_eq(best.value, best.value));
                best.value = vf_select(more, v, best.value);
                if (!from.indices) continue;
                vi here = vi_set((int32_t)(ordinal + k * ordinal_step[2]));
                best.ordinal = vi_select(more, here, best.ordinal);
            }
        }
    return best;
}

/* Partial sums of 64 taps at most keep the rounding error of large windows small. */
TW_INLINE vf average_window(const void *x, const window *w, const reader from)
{
    const tw_pool_range *r = w->real;
    vf sum = vf_zero();
    for (int64_t d = r[0].first; d < r[0].last; d++)
        for (int64_t h = r[1].first; h < r[1].last; h++) {
            int64_t at = w->at + d * w->step[0] + h * w->step[1], k = r[2].first;
            while (k < r[2].last) {
                int64_t end = k + 64 < r[2].last ? k + 64 : r[2].last;
                vf part = vf_zero();
                for (; k < end; k++) {
                    int64_t tap = at + k * w->step[2];
                    part = vf_add(part, load_lanes(from.type, x, tap, from.lane, from.count));
                }
                sum = vf_add(sum, part);
            }
        }
    return vf_mul(sum, vf_set(w->scale));
}

TW_INLINE void pool_window(const tw_launch *launch, const window *w, int64_t y_at, int64_t index_at,
                           const reader from)
{
    const tw_pool_plan *plan = launch->state;
    if (!plan->max) {
        vf mean = average_window(launch->in[0], w, from);
        store_lanes(plan->y_type, launch->out[0], y_at, mean, from.count);
        return;
    }
    maximum best = max_window(plan, launch->in[0], w, from);
    store_lanes(plan->y_type, launch->out[0], y_at, best.value, from.count);
    if (from.indices)
        store_indices(plan, launch->out[1], index_at, best.ordinal, w->base, from.count);
}

/* Whole vectors of f32 next to each other, or every second one, are the usual cases. */
static void pool_lanes(const tw_launch *launch, const window *w, int64_t y_at, int64_t index_at,
                       int count)
{
    const tw_pool_plan *plan = launch->state;
    bool indices = plan->index_type != TW_AUTO, usual = plan->x_type == TW_F32 && count == VLANES;
    if (usual && w->lane == 1 && indices)
        pool_window(launch, w, y_at, index_at, (reader){TW_F32, 1, VLANES, true});
    else if (usual && w->lane == 1)
        pool_window(launch, w, y_at, index_at, (reader){TW_F32, 1, VLANES, false});
    else if (usual && w->lane == 2 && indices)
        pool_window(launch, w, y_at, index_at, (reader){TW_F32, 2, VLANES, true});
    else if (usual && w->lane == 2)
        pool_window(launch, w, y_at, index_at, (reader){TW_F32, 2, VLANES, false});
    else
        pool_window(launch, w, y_at, index_at, (reader){plan->x_type, w->lane, count, indices});
}

/* One row of the output, at n, c (0 by channel), and o[0], o[1]. */
typedef struct output_row {
    int64_t n, c, o[TW_MAX_SPATIAL];
    window w; /* with the ranges of axes 0 and 1 */
    int64_t x_at, y_at, index_at;
    double divisor; /* of axes 0 and 1 */
} output_row;

static output_row find_row(const tw_pool_plan *plan, int64_t unit)
{
    const tw_pool_axis *axis = plan->shape.axis;
    const int64_t sizes[4] = {plan->shape.n, plan->by_channel ? 1 : plan->shape.c, axis[0].out,
                              axis[1].out};
    int64_t at[4];
    split_number(unit, 4, sizes, at);
    output_row row = {.n = at[0], .c = at[1], .o = {at[2], at[3], 0}, .divisor = 1};
    row.x_at = row.n * plan->x.n + row.c * plan->x.c;
    row.y_at = row.n * plan->y.n + row.c * plan->y.c;
    row.index_at = row.n * plan->index.n + row.c * plan->index.c;
    for (int i = 0; i < 2; i++) {
        row.x_at += tw_pool_start(&axis[i], row.o[i]) * plan->x.axis[i];
        row.y_at += row.o[i] * plan->y.axis[i];
        row.index_at += row.o[i] * plan->index.axis[i];
        row.w.real[i] = tw_pool_real(&axis[i], row.o[i]);
        row.divisor *= (double)tw_pool_divisor(&axis[i], row.o[i], plan->shape.include_pad);
    }
    for (int i = 0; i < TW_MAX_SPATIAL; i++) row.w.step[i] = axis[i].dilation * plan->x.axis[i];
    row.w.lane = plan->by_channel ? plan->x.c : axis[2].stride * plan->x.axis[2];
    return row;
}

/* Points the row's window at column o. */
TW_INLINE void set_column(const tw_pool_plan *plan, output_row *row, int64_t o)
{
    const tw_pool_axis *axis = &plan->shape.axis[2];
    row->o[2] = o;
    row->w.real[2] = tw_pool_real(axis, o);
    row->w.at = row->x_at + tw_pool_start(axis, o) * plan->x.axis[2];
    double columns = (double)tw_pool_divisor(axis, o, plan->shape.include_pad);
    row->w.scale = (float)(1 / (row->divisor * columns));
    if (plan->index_type != TW_AUTO)
        row->w.base = tw_pool_index_base(plan, row->n * plan->shape.c + row->c, row->o);
}

static void pool_channels(const tw_launch *launch, output_row *row)
{
    const tw_pool_plan *plan = launch->state;
    for (int64_t o = 0; o < plan->shape.axis[2].out; o++) {
        set_column(plan, row, o);
        window w = row->w;
        int64_t y_at = row->y_at + o * plan->y.axis[2];
        int64_t index_at = row->index_at + o * plan->index.axis[2], c = 0;
        for (; c + VLANES <= plan->shape.c; c += VLANES) {
            pool_lanes(launch, &w, y_at + c, index_at + c, VLANES);
            w.at += VLANES;
            w.base += VLANES * plan->lane_index;
        }
        if (c < plan->shape.c)
            pool_lanes(launch, &w, y_at + c, index_at + c, (int)(plan->shape.c - c));
    }
}

/* Columns [first, last) have whole windows. */
static tw_pool_range whole_columns(const tw_pool_axis *axis)
{
    int64_t reach = axis->dilation * (axis->window - 1) + 1, last = axis->in + axis->pad_lo - reach;
    tw_pool_range columns = {tw_pool_ceil_div(axis->pad_lo, axis->stride),
                             last < 0 ? 0 : last / axis->stride + 1};
    if (columns.last > axis->out) columns.last = axis->out;
    return columns;
}

static void pool_columns(const tw_launch *launch, output_row *row)
{
    const tw_pool_plan *plan = launch->state;
    const tw_pool_axis *axis = &plan->shape.axis[2];
    tw_pool_range whole = whole_columns(axis);
    for (int64_t o = 0; o < axis->out;) {
        int64_t count = 1;
        if (plan->vectors && o >= whole.first && o < whole.last) count = whole.last - o;
        if (count > VLANES) count = VLANES;
        if (count > 1 && count < VLANES && whole.last - whole.first >= VLANES) {
            o = whole.last - VLANES; /* a whole vector, of which some are computed again */
            count = VLANES;
        }
        set_column(plan, row, o);
        int64_t y_at = row->y_at + o * plan->y.axis[2];
        int64_t index_at = row->index_at + o * plan->index.axis[2];
        pool_lanes(launch, &row->w, y_at, index_at, (int)count);
        o += count;
    }
}

static void pool_item(void *arg, int32_t slot, int64_t item)
{
    const tw_launch *launch = arg;
    const tw_pool_plan *plan = launch->state;
    int64_t unit = item * plan->units_per_item, end = unit + plan->units_per_item;
    (void)slot;
    if (end > plan->units) end = plan->units;
    for (; unit < end; unit++) {
        output_row row = find_row(plan, unit);
        if (plan->by_channel)
            pool_channels(launch, &row);
        else
            pool_columns(launch, &row);
    }
}

static tw_status run_lanes(const tw_launch *launch)
{
    const tw_pool_plan *plan = launch->state;
    int64_t items = (plan->units + plan->units_per_item - 1) / plan->units_per_item;
    tw_launch copy = *launch;
    if (plan->shape.c == 0) return TW_OK;
    tw_parallel(launch->context, launch->problem->max_threads, items, pool_item, &copy);
    return TW_OK;
}

const tw_kernel_impl TW_SYMBOL(tw_pool_lanes_mixed) = {
    .supports = tw_pool_lanes_refuses, .prepare = tw_pool_lanes_prepare, .run = run_lanes};
