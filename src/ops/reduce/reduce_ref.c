/* SPDX-License-Identifier: Apache-2.0 */
/* Reference reductions: any type, any strides. Reals in double, integers exactly. */
#include <math.h>

#include "core/dtype.h"
#include "core/error.h"
#include "ops/reduce/reduce.h"

/* Sums and products of 64-bit integers, held exactly or saturated. */
__extension__ typedef __int128 wide_int;
static const wide_int wide_max = (wide_int)(((unsigned __int128)1 << 127) - 1);

/* Sums go to `block` first and from there to `value`, so that a long sum of doubles loses digits
 * with the square root of its length, not with the length. */
enum { BLOCK = 4096 };

typedef struct real_state {
    double value, block;
    double shift; /* log-sum-exp: the maximum; l2: the power of two that x is divided by */
    int64_t count, index;
} real_state;

typedef struct int_state {
    wide_int value;
    int64_t count, index;
} int_state;

typedef struct line {
    const tw_reduce_attrs *attrs;
    const tw_axis_group *group;
    tw_dtype type;
    const void *x;
    int64_t start; /* offset of the line's first element */
} line;

static bool prefers_real(tw_reduce_mode mode, double a, double best)
{
    if (isnan(best)) return false;
    if (isnan(a)) return true;
    return mode == TW_REDUCE_MIN || mode == TW_REDUCE_ARGMIN ? a < best : a > best;
}

static void take_real(real_state *s, const tw_reduce_attrs *attrs, double v)
{
    bool better = prefers_real(attrs->mode, v, s->value);
    if (s->count == 0 || better || (attrs->last_index && v == s->value)) {
        s->value = v;
        s->index = s->count;
    }
}

static void add_real(real_state *s, double v)
{
    s->block += v;
    if (s->count % BLOCK == BLOCK - 1) {
        s->value += s->block;
        s->block = 0;
    }
}

static void step_real(real_state *s, const tw_reduce_attrs *attrs, double v)
{
    switch (attrs->mode) {
    case TW_REDUCE_MAX:
    case TW_REDUCE_MIN:
    case TW_REDUCE_ARGMAX:
    case TW_REDUCE_ARGMIN: take_real(s, attrs, v); break;
    case TW_REDUCE_AMAX: take_real(s, attrs, fabs(v)); break;
    case TW_REDUCE_PROD: s->value *= v; break;
    case TW_REDUCE_PROD_NONZERO: s->value *= v == 0 ? 1 : v; break;
    case TW_REDUCE_L1: add_real(s, fabs(v)); break;
    case TW_REDUCE_L2: add_real(s, v / s->shift * (v / s->shift)); break;
    case TW_REDUCE_SUM_SQUARE: add_real(s, v * v); break;
    case TW_REDUCE_LOG_SUM_EXP: add_real(s, exp(v - s->shift)); break;
    case TW_REDUCE_ANY: s->value = s->value != 0 || v != 0; break;
    case TW_REDUCE_ALL: s->value = s->value != 0 && v != 0; break;
    default: add_real(s, v); break;
    }
    s->count++;
}

static double first_value(tw_reduce_mode mode)
{
    switch (mode) {
    case TW_REDUCE_PROD:
    case TW_REDUCE_PROD_NONZERO:
    case TW_REDUCE_ALL: return 1;
    case TW_REDUCE_MAX: return -(double)INFINITY;
    case TW_REDUCE_MIN: return (double)INFINITY;
    default: return 0;
    }
}

/* The value of the set from its state. */
static double finish_real(const real_state *s, tw_reduce_mode mode, int64_t count)
{
    double sum = s->value + s->block;
    switch (mode) {
    case TW_REDUCE_MEAN: return sum / (double)count;
    case TW_REDUCE_L2: return sqrt(sum) * s->shift;
    case TW_REDUCE_LOG_SUM: return log(sum);
    case TW_REDUCE_LOG_SUM_EXP: return log(sum) + s->shift;
    default: return sum;
    }
}

static real_state run_real(const line *l, tw_reduce_mode mode, double shift)
{
    tw_reduce_attrs attrs = *l->attrs;
    real_state s = {.value = first_value(mode), .shift = shift};
    tw_group_cursor at = {.offset = {l->start}};
    attrs.mode = mode;
    for (int64_t i = 0; i < l->group->count; i++, tw_group_next(l->group, &at))
        step_real(&s, &attrs, tw_load(l->type, l->x, at.offset[0]));
    return s;
}

/* Two modes look at the largest element first. Where it is not finite, it is the result. */
static double reduce_real(const line *l)
{
    tw_reduce_mode mode = l->attrs->mode;
    double shift = 0;
    if (mode == TW_REDUCE_LOG_SUM_EXP) {
        shift = run_real(l, TW_REDUCE_MAX, 0).value;
        if (!isfinite(shift)) return shift;
    } else if (mode == TW_REDUCE_L2) {
        double peak = run_real(l, TW_REDUCE_AMAX, 0).value;
        int exponent = 0;
        if (peak == 0 || !isfinite(peak)) return peak;
        frexp(peak, &exponent);
        shift = ldexp(1, exponent - 1);
    }
    real_state s = run_real(l, mode, shift);
    return tw_reduce_is_arg(mode) ? (double)s.index : finish_real(&s, mode, l->group->count);
}

static wide_int add_saturated(wide_int a, wide_int b)
{
    wide_int sum;
    if (__builtin_add_overflow(a, b, &sum)) return b > 0 ? wide_max : -wide_max;
    return sum;
}

static wide_int multiply_saturated(wide_int a, wide_int b)
{
    wide_int product;
    if (__builtin_mul_overflow(a, b, &product)) return (a > 0) == (b > 0) ? wide_max : -wide_max;
    return product;
}

static void step_int(int_state *s, const tw_reduce_attrs *attrs, wide_int v)
{
    wide_int magnitude = v < 0 ? -v : v;
    wide_int seen = attrs->mode == TW_REDUCE_AMAX ? magnitude : v;
    bool least = attrs->mode == TW_REDUCE_MIN || attrs->mode == TW_REDUCE_ARGMIN;
    switch (attrs->mode) {
    case TW_REDUCE_MAX:
    case TW_REDUCE_MIN:
    case TW_REDUCE_AMAX:
    case TW_REDUCE_ARGMAX:
    case TW_REDUCE_ARGMIN:
        if (s->count == 0 || (least ? seen < s->value : seen > s->value) ||
            (attrs->last_index && seen == s->value)) {
            s->value = seen;
            s->index = s->count;
        }
        break;
    case TW_REDUCE_PROD: s->value = multiply_saturated(s->value, v); break;
    case TW_REDUCE_PROD_NONZERO: s->value = multiply_saturated(s->value, v == 0 ? 1 : v); break;
    case TW_REDUCE_L1: s->value += magnitude; break;
    case TW_REDUCE_L2:
    case TW_REDUCE_SUM_SQUARE: s->value = add_saturated(s->value, magnitude * magnitude); break;
    case TW_REDUCE_ANY: s->value = s->value != 0 || v != 0; break;
    case TW_REDUCE_ALL: s->value = s->value != 0 && v != 0; break;
    default: s->value += v; break;
    }
    s->count++;
}

static wide_int load_wide(const line *l, int64_t offset)
{
    int64_t v = tw_load_int(l->type, l->x, offset);
    return l->type == TW_U64 ? (wide_int)(uint64_t)v : (wide_int)v;
}

static int_state reduce_int(const line *l)
{
    tw_reduce_mode mode = l->attrs->mode;
    bool one = mode == TW_REDUCE_PROD || mode == TW_REDUCE_PROD_NONZERO || mode == TW_REDUCE_ALL;
    int_state s = {.value = one ? 1 : 0};
    tw_group_cursor at = {.offset = {l->start}};
    for (int64_t i = 0; i < l->group->count; i++, tw_group_next(l->group, &at))
        step_int(&s, l->attrs, load_wide(l, at.offset[0]));
    return s;
}

static void store_wide(tw_dtype type, void *y, int64_t offset, wide_int value)
{
    if (tw_dtype_is_float(type)) {
        tw_store(type, y, offset, (double)value, 0);
    } else if (type == TW_U64) {
        const wide_int top = (wide_int)UINT64_MAX;
        uint64_t stored = value < 0 ? 0 : value > top ? UINT64_MAX : (uint64_t)value;
        tw_store_int(type, y, offset, (int64_t)stored, TW_CONVERT_WRAP);
    } else {
        if (value > INT64_MAX) value = INT64_MAX;
        if (value < INT64_MIN) value = INT64_MIN;
        tw_store_int(type, y, offset, (int64_t)value, 0);
    }
}

/* LOG_SUM_EXP of integers runs in double, like that of reals. */
static bool works_in_double(const line *l)
{
    return tw_dtype_is_float(l->type) || l->attrs->mode == TW_REDUCE_LOG_SUM_EXP ||
           (l->group->count == 0 &&
            (l->attrs->mode == TW_REDUCE_MAX || l->attrs->mode == TW_REDUCE_MIN));
}

static void reduce_line(const line *l, tw_dtype type, void *y, int64_t offset)
{
    tw_reduce_mode mode = l->attrs->mode;
    if (tw_reduce_is_arg(mode)) {
        int64_t index = tw_dtype_is_float(l->type) ? (int64_t)reduce_real(l) : reduce_int(l).index;
        store_wide(type, y, offset, index);
    } else if (works_in_double(l)) {
        tw_store(type, y, offset, reduce_real(l), 0);
    } else {
        wide_int value = reduce_int(l).value;
        real_state s = {.value = (double)value, .shift = 1};
        if (mode == TW_REDUCE_MEAN || mode == TW_REDUCE_L2 || mode == TW_REDUCE_LOG_SUM)
            tw_store(type, y, offset, finish_real(&s, mode, l->group->count), 0);
        else
            store_wide(type, y, offset, value);
    }
}

static const char *supports(const tw_problem *problem)
{
    return problem->epilogue || problem->prologue[0] ? "fused steps" : NULL;
}

static tw_status run(const tw_launch *launch)
{
    const tw_problem *p = launch->problem;
    const tw_reduce_attrs *attrs = &p->attrs->reduce;
    tw_lines lines;
    tw_reduce_lines(&p->in[0], &p->out[0], attrs, &lines);
    line l = {.attrs = attrs, .group = &lines.along, .type = p->in[0].dtype, .x = launch->in[0]};
    tw_group_cursor at = {.offset = {0}};
    for (int64_t i = 0; i < lines.kept.count; i++, tw_group_next(&lines.kept, &at)) {
        l.start = at.offset[0];
        reduce_line(&l, p->out[0].dtype, launch->out[0], at.offset[1]);
    }
    return TW_OK;
}

extern const tw_kernel_impl tw_reduce_plain_any__ref;
const tw_kernel_impl tw_reduce_plain_any__ref = {.supports = supports, .run = run};
