/* SPDX-License-Identifier: Apache-2.0 */
/* The reference: one element after the other, each from its own words. Formulas: NOTES.md. */
#include <math.h>

#include "core/dtype.h"
#include "ops/random/random.h"
#include "ops/random/walk.h"

static bool given(const tw_problem *problem, int32_t i)
{
    return i < problem->n_in && problem->in[i].dtype != TW_AUTO;
}

tw_philox tw_random_stream(const tw_launch *launch, int32_t first, int64_t seed, int64_t offset)
{
    if (given(launch->problem, first)) seed = *(const int64_t *)launch->in[first];
    if (given(launch->problem, first + 1)) offset = *(const int64_t *)launch->in[first + 1];
    return (tw_philox){.seed = (uint64_t)seed, .offset = (uint64_t)offset};
}

/* Types up to f32 are drawn in f32 arithmetic, so that vector code gives the same bits. */
static double in_arithmetic(tw_dtype dtype, double value)
{
    return dtype == TW_F64 ? value : (double)(float)value;
}

/* The largest value of a floating type below b. Sign and magnitude: bits order the magnitudes. */
static double value_below(tw_dtype dtype, double b)
{
    const double rounded = tw_round_to(dtype, b);
    if (rounded < b) return rounded;
    if (rounded == 0) return -tw_decode(dtype, 1);
    const uint64_t bits = tw_encode(dtype, rounded, 0);
    return tw_decode(dtype, rounded > 0 ? bits - 1 : bits + 1);
}

static void setup_uniform(tw_draw *draw, double a, double b)
{
    if (!tw_dtype_is_float(draw->dtype)) {
        draw->a = ceil(a);
        draw->b = ceil(b) - ceil(a);
        return;
    }
    const double limit = draw->dtype == TW_F64 ? tw_dtype_max(TW_F64) : tw_dtype_max(TW_F32);
    const double half = b / 2 - a / 2 > limit / 2 ? 0.5 : 1;
    draw->start = in_arithmetic(draw->dtype, a * half);
    draw->width = in_arithmetic(draw->dtype, b * half - a * half);
    draw->unscale = 1 / half;
    draw->last = value_below(draw->dtype, b);
}

void tw_draw_setup(const tw_launch *launch, tw_draw *draw)
{
    const tw_random_attrs *attrs = &launch->problem->attrs->random;
    *draw = (tw_draw){
        .distribution = attrs->distribution,
        .dtype = launch->problem->out[0].dtype,
        .stream = tw_random_stream(launch, 0, attrs->seed, attrs->offset),
        .a = attrs->a,
        .b = attrs->b,
    };
    if (attrs->distribution == TW_RANDOM_UNIFORM) setup_uniform(draw, attrs->a, attrs->b);
    if (attrs->distribution == TW_RANDOM_BERNOULLI) draw->threshold = tw_philox_threshold(attrs->a);
}

static double uniform(const tw_draw *draw, uint32_t word)
{
    if (!tw_dtype_is_float(draw->dtype)) {
        return draw->a + floor(draw->b * tw_philox_uniform_f64(word));
    }
    double value;
    if (draw->dtype == TW_F64) {
        value = draw->unscale * (draw->start + draw->width * tw_philox_uniform_f64(word));
    } else {
        const float moved = (float)draw->width * tw_philox_uniform(word);
        const float sum = (float)draw->start + moved;
        value = tw_round_to(draw->dtype, (double)((float)draw->unscale * sum));
    }
    return value < draw->last ? value : draw->last;
}

static double normal(const tw_draw *draw, int64_t index)
{
    double pair[2];
    const tw_philox_words group = tw_philox_group(draw->stream, (uint64_t)index / 4);
    const int first = (int)(index % 4) & ~1;
    tw_philox_normal_pair(group.w[first], group.w[first + 1], pair);
    return draw->a + draw->b * pair[index % 2];
}

void tw_draw_store(const tw_draw *draw, int64_t index, void *base, int64_t offset)
{
    if (draw->distribution == TW_RANDOM_NORMAL) {
        tw_store(draw->dtype, base, offset, normal(draw, index), 0);
        return;
    }
    const uint32_t word = tw_philox_word(draw->stream, index);
    switch (draw->distribution) {
    case TW_RANDOM_BERNOULLI:
        tw_store(draw->dtype, base, offset, word < draw->threshold ? 1 : 0, 0);
        break;
    case TW_RANDOM_BITS:
        tw_store_int(draw->dtype, base, offset, (int64_t)word, TW_CONVERT_WRAP);
        break;
    default: tw_store(draw->dtype, base, offset, uniform(draw, word), 0); break;
    }
}

static const char *supports(const tw_problem *problem)
{
    const bool fused = problem->epilogue != NULL || problem->prologue[0] != NULL;
    return fused ? "fused steps" : NULL;
}

static tw_status run(const tw_launch *launch)
{
    const tw_view *y = &launch->problem->out[0];
    const int64_t n = tw_view_elements(y);
    if (n == 0) return TW_OK;
    tw_draw draw;
    tw_draw_setup(launch, &draw);
    tw_walk walk = tw_walk_from(y, 0);
    for (int64_t i = 0; i < n; i++, tw_walk_next(&walk)) {
        tw_draw_store(&draw, i, launch->out[0], walk.offset);
    }
    return TW_OK;
}

const tw_kernel_impl tw_random_plain_any__ref = {.supports = supports, .run = run};
