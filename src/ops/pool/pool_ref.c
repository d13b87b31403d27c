/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling: the references. Each output element walks over its window; each gradient element walks
 * over the windows that hold it. */
#include "core/dtype.h"
#include "core/error.h"
#include "ops/kernel.h"
#include "ops/pool/pool_shape.h"

typedef struct job {
    const tw_launch *launch;
    tw_pool_shape shape;
    tw_dtype type;                                 /* of what is read: x or dy */
    tw_pool_strides source, target, index_strides; /* of in[0], out[0] and the indices */
    const tw_view *indices;                        /* NULL: none */
} job;

/* An element as the wider of two types that hold every type's values exactly. */
typedef struct value {
    double real;
    int64_t whole;
} value;

static value read_value(tw_dtype type, const void *data, int64_t offset)
{
    if (!tw_dtype_is_integer(type)) return (value){.real = tw_load(type, data, offset)};
    return (value){.whole = tw_load_int(type, data, offset)};
}

/* Whether b takes a's place as the maximum: a NaN over numbers, else the strictly greater. */
static bool exceeds(tw_dtype type, value b, value a)
{
    if (type == TW_U64) return (uint64_t)b.whole > (uint64_t)a.whole;
    if (tw_dtype_is_integer(type)) return b.whole > a.whole;
    return b.real > a.real || (b.real != b.real && a.real == a.real);
}

static double as_real(tw_dtype type, value v)
{
    if (type == TW_U64) return (double)(uint64_t)v.whole;
    return tw_dtype_is_integer(type) ? (double)v.whole : v.real;
}

static void write_value(const job *j, int64_t offset, value v)
{
    tw_dtype to = j->launch->problem->out[0].dtype;
    if (tw_dtype_is_integer(j->type) && j->type != TW_U64 && tw_dtype_is_integer(to))
        tw_store_int(to, j->launch->out[0], offset, v.whole, 0);
    else if (j->type == to && j->type == TW_U64)
        tw_store_int(to, j->launch->out[0], offset, v.whole, 0);
    else
        tw_store(to, j->launch->out[0], offset, as_real(j->type, v), 0);
}

static int64_t offset_of(const tw_pool_strides *strides, const int64_t at[TW_MAX_SPATIAL])
{
    int64_t offset = 0;
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) offset += at[i] * strides->axis[i];
    return offset;
}

/* Counts `at` up in row-major order over [first, last); false when it is through. */
static bool next(int64_t at[TW_MAX_SPATIAL], const tw_pool_range *ranges)
{
    for (int32_t i = TW_MAX_SPATIAL - 1; i >= 0; i--) {
        if (++at[i] < ranges[i].last) return true;
        at[i] = ranges[i].first;
    }
    return false;
}

/* Starts `at`; false if a range is empty. */
static bool begin(int64_t at[TW_MAX_SPATIAL], const tw_pool_range *ranges)
{
    bool any = true;
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) {
        at[i] = ranges[i].first;
        any = any && ranges[i].first < ranges[i].last;
    }
    return any;
}

static int64_t x_offset(const job *j, const tw_pool_strides *strides,
                        const int64_t o[TW_MAX_SPATIAL], const int64_t tap[TW_MAX_SPATIAL])
{
    int64_t at[TW_MAX_SPATIAL];
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++)
        at[i] = tw_pool_start(&j->shape.axis[i], o[i]) + tap[i] * j->shape.axis[i].dilation;
    return offset_of(strides, at);
}

static void max_window(const job *j, int64_t n, int64_t c, const int64_t o[TW_MAX_SPATIAL])
{
    const void *x = j->launch->in[0];
    int64_t base = n * j->source.n + c * j->source.c, tap[TW_MAX_SPATIAL], best[TW_MAX_SPATIAL];
    tw_pool_range real[TW_MAX_SPATIAL];
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) real[i] = tw_pool_real(&j->shape.axis[i], o[i]);
    begin(tap, real);
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) best[i] = tap[i];
    value most = read_value(j->type, x, base + x_offset(j, &j->source, o, tap));
    while (next(tap, real)) {
        value v = read_value(j->type, x, base + x_offset(j, &j->source, o, tap));
        if (!exceeds(j->type, v, most)) continue;
        most = v;
        for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) best[i] = tap[i];
    }
    write_value(j, n * j->target.n + c * j->target.c + offset_of(&j->target, o), most);
    if (j->indices == NULL) return;
    int64_t at = n * j->index_strides.n + c * j->index_strides.c + offset_of(&j->index_strides, o);
    tw_store_int(j->indices->dtype, j->launch->out[1], at,
                 tw_pool_index_of(&j->shape, n * j->shape.c + c, o, best), 0);
}

static double divisor_of(const tw_pool_shape *shape, const int64_t o[TW_MAX_SPATIAL])
{
    double divisor = 1;
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++)
        divisor *= (double)tw_pool_divisor(&shape->axis[i], o[i], shape->include_pad);
    return divisor;
}

/* Integers up to 32 bits are summed exactly: a sum of fewer than 2^21 of them fits a double. */
static void average_window(const job *j, int64_t n, int64_t c, const int64_t o[TW_MAX_SPATIAL])
{
    const void *x = j->launch->in[0];
    int64_t base = n * j->source.n + c * j->source.c, tap[TW_MAX_SPATIAL];
    tw_pool_range real[TW_MAX_SPATIAL];
    double sum = 0;
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) real[i] = tw_pool_real(&j->shape.axis[i], o[i]);
    if (begin(tap, real)) {
        do {
            int64_t at = base + x_offset(j, &j->source, o, tap);
            sum += as_real(j->type, read_value(j->type, x, at));
        } while (next(tap, real));
    }
    tw_store(j->launch->problem->out[0].dtype, j->launch->out[0],
             n * j->target.n + c * j->target.c + offset_of(&j->target, o),
             sum / divisor_of(&j->shape, o), 0);
}

static bool is_empty(const tw_view *view)
{
    for (int32_t d = 0; d < view->rank; d++)
        if (view->dims[d] == 0) return true;
    return false;
}

static tw_status run_pool(const tw_launch *launch)
{
    const tw_problem *problem = launch->problem;
    const tw_view *x = &problem->in[0], *y = &problem->out[0];
    bool has_indices = problem->n_out > 1 && problem->out[1].dtype != TW_AUTO;
    if (is_empty(y)) return TW_OK;
    job j = {.launch = launch,
             .shape = tw_pool_shape_of(&problem->attrs->pool, x->rank, x->dims),
             .type = x->dtype,
             .source = tw_pool_strides_of(x),
             .target = tw_pool_strides_of(y)};
    if (has_indices) {
        j.indices = &problem->out[1];
        j.index_strides = tw_pool_strides_of(j.indices);
    }
    tw_pool_range out[TW_MAX_SPATIAL];
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) out[i] = (tw_pool_range){0, j.shape.axis[i].out};
    for (int64_t plane = 0; plane < j.shape.n * j.shape.c; plane++) {
        int64_t o[TW_MAX_SPATIAL], n = plane / j.shape.c, c = plane % j.shape.c;
        begin(o, out);
        do {
            if (problem->attrs->pool.mode == TW_POOL_MAX)
                max_window(&j, n, c, o);
            else
                average_window(&j, n, c, o);
        } while (next(o, out));
    }
    return TW_OK;
}

/* Output positions whose window reaches element i of an axis; not every one has a tap there. */
static tw_pool_range windows_over(const tw_pool_axis *axis, int64_t i)
{
    int64_t last = (i + axis->pad_lo) / axis->stride + 1;
    int64_t late = i + axis->pad_lo - axis->dilation * (axis->window - 1);
    tw_pool_range range = {late > 0 ? tw_pool_ceil_div(late, axis->stride) : 0, last};
    if (range.last > axis->out) range.last = axis->out;
    return range;
}

/* The tap of windows o that lies on element `at`; false if one axis has none. */
static bool tap_of(const tw_pool_shape *shape, const int64_t o[TW_MAX_SPATIAL],
                   const int64_t at[TW_MAX_SPATIAL], int64_t tap[TW_MAX_SPATIAL])
{
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) {
        int64_t from = at[i] - tw_pool_start(&shape->axis[i], o[i]);
        if (from % shape->axis[i].dilation != 0) return false;
        tap[i] = from / shape->axis[i].dilation;
    }
    return true;
}

/* Σ over windows of dy, by the divisor or where the index names this element. */
static void gather(const job *j, int64_t n, int64_t c, const int64_t at[TW_MAX_SPATIAL])
{
    int64_t o[TW_MAX_SPATIAL], tap[TW_MAX_SPATIAL];
    tw_pool_range windows[TW_MAX_SPATIAL];
    value sum = {0, 0};
    double real_sum = 0;
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++)
        windows[i] = windows_over(&j->shape.axis[i], at[i]);
    if (begin(o, windows)) {
        do {
            if (!tap_of(&j->shape, o, at, tap)) continue;
            int64_t from = n * j->source.n + c * j->source.c + offset_of(&j->source, o);
            value v = read_value(j->type, j->launch->in[0], from);
            if (j->indices == NULL) {
                real_sum += as_real(j->type, v) / divisor_of(&j->shape, o);
                continue;
            }
            int64_t index = tw_load_int(j->indices->dtype, j->launch->in[1],
                                        n * j->index_strides.n + c * j->index_strides.c +
                                            offset_of(&j->index_strides, o));
            if (index != tw_pool_index_of(&j->shape, n * j->shape.c + c, o, tap)) continue;
            sum.real += v.real;
            sum.whole = (int64_t)((uint64_t)sum.whole + (uint64_t)v.whole);
        } while (next(o, windows));
    }
    int64_t to = n * j->target.n + c * j->target.c + offset_of(&j->target, at);
    if (j->indices == NULL)
        tw_store(j->launch->problem->out[0].dtype, j->launch->out[0], to, real_sum, 0);
    else
        write_value(j, to, sum);
}

/* An index must name a real element of its own window. */
static bool index_is_valid(const job *j, int64_t plane, const int64_t o[TW_MAX_SPATIAL],
                           int64_t index)
{
    int64_t tap[TW_MAX_SPATIAL];
    tw_pool_range real[TW_MAX_SPATIAL];
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) real[i] = tw_pool_real(&j->shape.axis[i], o[i]);
    if (!begin(tap, real)) return false;
    do {
        if (index == tw_pool_index_of(&j->shape, plane, o, tap)) return true;
    } while (next(tap, real));
    return false;
}

static tw_status check_indices(const job *j)
{
    tw_pool_range out[TW_MAX_SPATIAL];
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) out[i] = (tw_pool_range){0, j->shape.axis[i].out};
    for (int64_t plane = 0; plane < j->shape.n * j->shape.c; plane++) {
        int64_t o[TW_MAX_SPATIAL], n = plane / j->shape.c, c = plane % j->shape.c;
        begin(o, out);
        do {
            int64_t at =
                n * j->index_strides.n + c * j->index_strides.c + offset_of(&j->index_strides, o);
            int64_t index = tw_load_int(j->indices->dtype, j->launch->in[1], at);
            TW_REQUIRE(index_is_valid(j, plane, o, index), TW_INVALID_ARGUMENT,
                       "pool_backward: indices holds %lld for image %lld, channel %lld, position "
                       "(%lld, %lld, %lld); it must name an element of that window",
                       (long long)index, (long long)n, (long long)c, (long long)o[0],
                       (long long)o[1], (long long)o[2]);
        } while (next(o, out));
    }
    return TW_OK;
}

static tw_status run_pool_backward(const tw_launch *launch)
{
    const tw_problem *problem = launch->problem;
    const tw_view *dy = &problem->in[0], *dx = &problem->out[0];
    if (is_empty(dx)) return TW_OK;
    job j = {.launch = launch,
             .shape = tw_pool_shape_of(&problem->attrs->pool, dx->rank, dx->dims),
             .type = dy->dtype,
             .source = tw_pool_strides_of(dy),
             .target = tw_pool_strides_of(dx)};
    if (problem->attrs->pool.mode == TW_POOL_MAX) {
        j.indices = &problem->in[1];
        j.index_strides = tw_pool_strides_of(j.indices);
        TW_TRY(check_indices(&j));
    }
    tw_pool_range all[TW_MAX_SPATIAL];
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) all[i] = (tw_pool_range){0, j.shape.axis[i].in};
    for (int64_t plane = 0; plane < j.shape.n * j.shape.c; plane++) {
        int64_t at[TW_MAX_SPATIAL];
        begin(at, all);
        do {
            gather(&j, plane / j.shape.c, plane % j.shape.c, at);
        } while (next(at, all));
    }
    return TW_OK;
}

static const char *supports_all(const tw_problem *problem)
{
    return problem->epilogue != NULL ? "it has an epilogue" : NULL;
}

const tw_kernel_impl tw_pool_direct_any__ref = {.supports = supports_all, .run = run_pool};
const tw_kernel_impl tw_pool_backward_any__ref = {.supports = supports_all,
                                                  .run = run_pool_backward};
