/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference kernels: the sums as they are written, one output element at a time. Any strides, any
 * real types; f64 accumulation for floating point, exact 64-bit integers for integers, one rounding
 * on store. Positions over padding are skipped.
 */
#include "core/dtype.h"
#include "ops/conv/conv_geometry.h"
#include "runtime/cpu/parallel.h"

/* The two operands of a sum, and how far to step through them. */
typedef struct operands {
    const void *a, *b;
    tw_dtype a_type, b_type;
    bool integers;
    double sum;
    uint64_t total; /* wraps, where the 64-bit types themselves do */
} operands;

static void add_product(operands *o, int64_t a, int64_t b)
{
    if (o->integers)
        o->total +=
            (uint64_t)tw_load_int(o->a_type, o->a, a) * (uint64_t)tw_load_int(o->b_type, o->b, b);
    else
        o->sum += tw_load(o->a_type, o->a, a) * tw_load(o->b_type, o->b, b);
}

typedef struct reference {
    tw_conv_geometry g;
    operands empty;
    tw_dtype type;
    void *out;
} reference;

static int64_t offset(const tw_conv_strides *s, int64_t i0, int64_t i1, const int64_t at[3])
{
    return i0 * s->dim0 + i1 * s->dim1 + at[0] * s->at[0] + at[1] * s->at[1] + at[2] * s->at[2];
}

static void put(const reference *r, const operands *o, int64_t index)
{
    if (o->integers)
        tw_store_int(r->type, r->out, index, (int64_t)o->total, 0);
    else
        tw_store(r->type, r->out, index, o->sum, 0);
}

/* Calls for every position of a box, in row-major order: for (at = 0; at < dims; next). */
static bool next(int64_t at[3], const int64_t dims[3])
{
    for (int d = 2; d >= 0; d--) {
        if (++at[d] < dims[d]) return true;
        at[d] = 0;
    }
    return false;
}

/* The input position that output position p meets with tap t; false over padding. */
static bool input_at(const tw_conv_geometry *g, const int64_t p[3], const int64_t t[3],
                     int64_t at[3])
{
    for (int d = 0; d < 3; d++) {
        at[d] = p[d] * g->stride[d] - g->pad[d] + t[d] * g->dilation[d];
        if (at[d] < 0 || at[d] >= g->in[d]) return false;
    }
    return true;
}

/* The output position whose tap t meets input position at; false if there is none. */
static bool output_at(const tw_conv_geometry *g, const int64_t at[3], const int64_t t[3],
                      int64_t p[3])
{
    for (int d = 0; d < 3; d++) {
        int64_t scaled = at[d] + g->pad[d] - t[d] * g->dilation[d];
        if (scaled < 0 || scaled % g->stride[d] != 0) return false;
        p[d] = scaled / g->stride[d];
        if (p[d] >= g->out[d]) return false;
    }
    return true;
}

static void forward_plane(void *arg, int32_t slot, int64_t item)
{
    const reference *r = arg;
    const tw_conv_geometry *g = &r->g;
    int64_t n = item / g->k, k = item % g->k, group = k / g->kg, p[3] = {0};
    (void)slot;
    do {
        operands o = r->empty;
        int64_t t[3] = {0}, at[3];
        do {
            if (!input_at(g, p, t, at)) continue;
            for (int64_t c = 0; c < g->cg; c++)
                add_product(&o, offset(&g->x, n, group * g->cg + c, at),
                            g->w_start + offset(&g->w, k, c, t));
        } while (next(t, g->taps));
        put(r, &o, offset(&g->y, n, k, p));
    } while (next(p, g->out));
}

static void dgrad_plane(void *arg, int32_t slot, int64_t item)
{
    const reference *r = arg;
    const tw_conv_geometry *g = &r->g;
    int64_t n = item / g->c, c = item % g->c, group = c / g->cg, at[3] = {0};
    (void)slot;
    do {
        operands o = r->empty;
        int64_t t[3] = {0}, p[3];
        do {
            if (!output_at(g, at, t, p)) continue;
            for (int64_t k = group * g->kg; k < (group + 1) * g->kg; k++)
                add_product(&o, offset(&g->y, n, k, p),
                            g->w_start + offset(&g->w, k, c % g->cg, t));
        } while (next(t, g->taps));
        put(r, &o, offset(&g->x, n, c, at));
    } while (next(at, g->in));
}

static void wgrad_filter(void *arg, int32_t slot, int64_t item)
{
    const reference *r = arg;
    const tw_conv_geometry *g = &r->g;
    int64_t k = item / g->cg, c = item % g->cg, channel = k / g->kg * g->cg + c, t[3] = {0};
    (void)slot;
    do {
        operands o = r->empty;
        for (int64_t n = 0; n < g->n; n++) {
            int64_t p[3] = {0}, at[3];
            if (tw_conv_product(g->out) == 0) break;
            do {
                if (input_at(g, p, t, at))
                    add_product(&o, offset(&g->x, n, channel, at), offset(&g->y, n, k, p));
            } while (next(p, g->out));
        }
        put(r, &o, g->w_start + offset(&g->w, k, c, t));
    } while (next(t, g->taps));
}

typedef struct all_items {
    tw_slot_task task;
    reference *reference;
    int64_t n;
} all_items;

static void run_all(void *arg, int32_t slot, int64_t item)
{
    const all_items *all = arg;
    (void)item;
    for (int64_t i = 0; i < all->n; i++) all->task(all->reference, slot, i);
}

static tw_status run(const tw_launch *launch, tw_slot_task task, int64_t items)
{
    const tw_problem *problem = launch->problem;
    reference r = {.empty = {.a = launch->in[0],
                             .b = launch->in[1],
                             .a_type = problem->in[0].dtype,
                             .b_type = problem->in[1].dtype,
                             .integers = !tw_dtype_is_float(problem->in[0].dtype)},
                   .type = problem->out[0].dtype,
                   .out = launch->out[0]};
    all_items all = {task, &r, items};
    tw_conv_read_geometry(problem, &r.g);
    /* Elements that share a byte are one thread's business. */
    if (tw_dtype_bits(r.type) < 8)
        tw_parallel(launch->context, problem->max_threads, items > 0, run_all, &all);
    else
        tw_parallel(launch->context, problem->max_threads, items, task, &r);
    return TW_OK;
}

static int64_t elements(const tw_view *view)
{
    int64_t n = 1;
    for (int32_t d = 0; d < view->rank; d++) n *= view->dims[d];
    return n;
}

static int64_t planes(const tw_view *view)
{
    return elements(view) == 0 ? 0 : view->dims[0] * view->dims[1];
}

static tw_status run_forward(const tw_launch *launch)
{
    return run(launch, forward_plane, planes(&launch->problem->out[0]));
}

static tw_status run_dgrad(const tw_launch *launch)
{
    return run(launch, dgrad_plane, planes(&launch->problem->out[0]));
}

static tw_status run_wgrad(const tw_launch *launch)
{
    return run(launch, wgrad_filter, planes(&launch->problem->out[0]));
}

static const char *supports(const tw_problem *problem)
{
    if (problem->prologue[0] || problem->prologue[1]) return "it takes no prologue";
    if (problem->epilogue) return "it takes no epilogue";
    return NULL;
}

#define REFERENCE(algorithm, run_function)                                                         \
    extern const tw_kernel_impl tw_conv_##algorithm##_any__ref;                                    \
    const tw_kernel_impl tw_conv_##algorithm##_any__ref = {.supports = supports,                   \
                                                           .run = run_function};
REFERENCE(plain, run_forward)
REFERENCE(plain_dgrad, run_dgrad)
REFERENCE(plain_wgrad, run_wgrad)
