/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pool/pool_lanes.h"

#include "core/dtype.h"
#include "core/error.h"

/* Taps that an item of the parallel loop visits at least: some 20 µs. */
#define ITEM_TAPS ((int64_t)65536)

static bool is_vector_type(tw_dtype type)
{
    return type == TW_F32 || type == TW_F16 || type == TW_BF16;
}

static const tw_view *index_view(const tw_problem *problem)
{
    bool backward = problem->info->kind == TW_OP_POOL_BACKWARD;
    int32_t count = backward ? problem->n_in : problem->n_out;
    const tw_view *views = backward ? problem->in : problem->out;
    return count > 1 && views[1].dtype != TW_AUTO ? &views[1] : NULL;
}

static const tw_view *x_view(const tw_problem *problem)
{
    return problem->info->kind == TW_OP_POOL_BACKWARD ? &problem->out[0] : &problem->in[0];
}

static const tw_view *y_view(const tw_problem *problem)
{
    return problem->info->kind == TW_OP_POOL_BACKWARD ? &problem->in[0] : &problem->out[0];
}

static bool channels_contiguous(const tw_problem *problem)
{
    const tw_view *x = x_view(problem), *y = y_view(problem), *index = index_view(problem);
    if (x->dims[1] < 2) return false;
    return x->strides[1] == 1 && y->strides[1] == 1 && (index == NULL || index->strides[1] == 1);
}

static const char *check_common(const tw_problem *problem)
{
    const tw_view *x = x_view(problem), *index = index_view(problem);
    int64_t plane = 1, reach = 1;
    if (problem->epilogue != NULL) return "it has an epilogue";
    if (index && index->dtype != TW_U8 && index->dtype != TW_I32 && index->dtype != TW_I64)
        return "indices are neither u8 nor i32 nor i64";
    for (int32_t i = 2; i < x->rank; i++) {
        plane *= x->dims[i];
        reach *= problem->attrs->pool.window[i - 2];
    }
    if (index && (plane > INT32_MAX || reach > INT32_MAX)) return "a plane exceeds 2^31 elements";
    return NULL;
}

const char *tw_pool_lanes_refuses(const tw_problem *problem)
{
    if (!is_vector_type(x_view(problem)->dtype)) return "x is neither f32 nor f16 nor bf16";
    if (!is_vector_type(y_view(problem)->dtype)) return "y is neither f32 nor f16 nor bf16";
    return check_common(problem);
}

/* Windows over one element, at most. */
static double windows_over_one(const tw_pool_attrs *attrs, int32_t spatial)
{
    double windows = 1;
    for (int32_t i = 0; i < spatial; i++) {
        int64_t reach = attrs->dilation[i] * (attrs->window[i] - 1) + 1;
        windows *= (double)tw_pool_ceil_div(reach, attrs->stride[i]);
    }
    return windows;
}

const char *tw_pool_gather_refuses(const tw_problem *problem)
{
    if (!is_vector_type(x_view(problem)->dtype)) return "dx is neither f32 nor f16 nor bf16";
    if (!is_vector_type(y_view(problem)->dtype)) return "dy is neither f32 nor f16 nor bf16";
    int32_t spatial = x_view(problem)->rank - 2;
    bool partial = windows_over_one(&problem->attrs->pool, spatial) > TW_POOL_MOST_OVER;
    if (partial && x_view(problem)->dtype != TW_F32)
        return "dx is narrower than f32, and partial sums of many windows would be rounded to it";
    if (!channels_contiguous(problem)) return "channels are not contiguous in dx, dy and indices";
    if (problem->max_threads * (int64_t)TW_POOL_SLOT_BYTES > problem->workspace_limit)
        return "the workspace is smaller than 64 bytes a thread";
    return check_common(problem);
}

const char *tw_pool_scatter_refuses(const tw_problem *problem)
{
    if (x_view(problem)->dtype != TW_F32) return "dx is not f32";
    if (y_view(problem)->dtype != TW_F32) return "dy is not f32";
    if (problem->max_threads * (int64_t)TW_POOL_SLOT_BYTES > problem->workspace_limit)
        return "the workspace is smaller than 64 bytes a thread";
    return check_common(problem);
}

/* Steps of the ordinals: those of tw_pool_linear over the window or over the input. */
static void set_ordinals(tw_pool_plan *plan)
{
    const tw_pool_shape *shape = &plan->shape;
    bool window = shape->index == TW_POOL_INDEX_WINDOW;
    int64_t sizes[TW_MAX_SPATIAL], plane = 1;
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) {
        const tw_pool_axis *axis = &shape->axis[i];
        int64_t at[TW_MAX_SPATIAL] = {0};
        for (int32_t k = 0; k < TW_MAX_SPATIAL; k++)
            sizes[k] = window ? shape->axis[k].window : shape->axis[k].in;
        at[i] = window ? 1 : axis->dilation;
        plan->ordinal_step[i] = tw_pool_linear(sizes, at, shape->column_major);
        plane *= axis->in;
    }
    plan->lane_index = 0;
    plan->index_count = sizes[0] * sizes[1] * sizes[2];
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) plan->index_sizes[i] = (uint32_t)sizes[i];
    if (window) return;
    if (!plan->by_channel) {
        int64_t at[TW_MAX_SPATIAL] = {0, 0, shape->axis[2].stride};
        plan->lane_index = tw_pool_linear(sizes, at, shape->column_major);
    } else if (shape->index == TW_POOL_INDEX_TENSOR) {
        plan->lane_index = plane;
    }
}

int64_t tw_pool_index_base(const tw_pool_plan *plan, int64_t plane, const int64_t o[TW_MAX_SPATIAL])
{
    static const int64_t first[TW_MAX_SPATIAL] = {0, 0, 0};
    return tw_pool_index_of(&plan->shape, plane, o, first);
}

static tw_status make_plan(const tw_problem *problem, tw_prepare *prepare, tw_pool_plan **result)
{
    const tw_view *x = x_view(problem), *y = y_view(problem), *index = index_view(problem);
    void *memory;
    TW_TRY(tw_arena_alloc(prepare->arena, 1, sizeof(tw_pool_plan), &memory));
    tw_pool_plan *plan = memory;
    plan->shape = tw_pool_shape_of(&problem->attrs->pool, x->rank, x->dims);
    plan->x = tw_pool_strides_of(x);
    plan->y = tw_pool_strides_of(y);
    plan->x_type = x->dtype;
    plan->y_type = y->dtype;
    plan->max = problem->attrs->pool.mode == TW_POOL_MAX;
    plan->by_channel = channels_contiguous(problem);
    plan->vectors = plan->by_channel || plan->y.axis[2] == 1;
    if (index != NULL) {
        plan->index = tw_pool_strides_of(index);
        plan->index_type = index->dtype;
        plan->vectors = plan->vectors && (plan->by_channel || plan->index.axis[2] == 1);
    }
    set_ordinals(plan);
    prepare->state = plan;
    *result = plan;
    return TW_OK;
}

/* Cuts the units into items, by the work of one. */
static void cut_units(tw_pool_plan *plan, int64_t units, double taps_per_unit)
{
    double items = (double)ITEM_TAPS / (taps_per_unit < 1 ? 1 : taps_per_unit);
    plan->units = units;
    plan->units_per_item = items < 1 ? 1 : (int64_t)items;
}

tw_status tw_pool_lanes_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    tw_pool_plan *plan;
    TW_TRY(make_plan(problem, prepare, &plan));
    const tw_pool_shape *shape = &plan->shape;
    int64_t channels = plan->by_channel ? 1 : shape->c, lanes = plan->by_channel ? shape->c : 1;
    cut_units(plan, shape->n * channels * shape->axis[0].out * shape->axis[1].out,
              (double)shape->axis[2].out * (double)lanes * (double)shape->taps);
    return TW_OK;
}

tw_status tw_pool_gather_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    tw_pool_plan *plan;
    TW_TRY(make_plan(problem, prepare, &plan));
    const tw_pool_shape *shape = &plan->shape;
    double taps = (double)shape->taps;
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) taps /= (double)shape->axis[i].stride;
    cut_units(plan, shape->n * shape->axis[0].in * shape->axis[1].in,
              (double)shape->axis[2].in * (double)shape->c * (taps < 1 ? 1 : taps));
    prepare->workspace = problem->max_threads * (int64_t)TW_POOL_SLOT_BYTES;
    return TW_OK;
}

tw_status tw_pool_scatter_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    tw_pool_plan *plan;
    TW_TRY(make_plan(problem, prepare, &plan));
    const tw_pool_shape *shape = &plan->shape;
    double work = 1, taps = plan->max ? 4 : (double)shape->taps;
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) {
        work *= (double)shape->axis[i].in;
        taps *= (double)shape->axis[i].out;
    }
    cut_units(plan, shape->n * shape->c, work + taps);
    prepare->workspace = problem->max_threads * (int64_t)TW_POOL_SLOT_BYTES;
    return TW_OK;
}

/* ---- Bad indices ----------------------------------------------------------------------------- */

static bool names_real_tap(const tw_pool_shape *shape, int64_t plane,
                           const int64_t o[TW_MAX_SPATIAL], int64_t index)
{
    tw_pool_range r[TW_MAX_SPATIAL];
    int64_t t[TW_MAX_SPATIAL];
    for (int32_t i = 0; i < TW_MAX_SPATIAL; i++) r[i] = tw_pool_real(&shape->axis[i], o[i]);
    for (t[0] = r[0].first; t[0] < r[0].last; t[0]++)
        for (t[1] = r[1].first; t[1] < r[1].last; t[1]++)
            for (t[2] = r[2].first; t[2] < r[2].last; t[2]++)
                if (tw_pool_index_of(shape, plane, o, t) == index) return true;
    return false;
}

static tw_status check_plane(const tw_launch *launch, int64_t n, int64_t c)
{
    const tw_pool_plan *plan = launch->state;
    const tw_pool_shape *shape = &plan->shape;
    int64_t o[TW_MAX_SPATIAL], base = n * plan->index.n + c * plan->index.c;
    for (o[0] = 0; o[0] < shape->axis[0].out; o[0]++)
        for (o[1] = 0; o[1] < shape->axis[1].out; o[1]++)
            for (o[2] = 0; o[2] < shape->axis[2].out; o[2]++) {
                int64_t at = base + o[0] * plan->index.axis[0] + o[1] * plan->index.axis[1] +
                             o[2] * plan->index.axis[2];
                int64_t index = tw_load_int(plan->index_type, launch->in[1], at);
                TW_REQUIRE(names_real_tap(shape, n * shape->c + c, o, index), TW_INVALID_ARGUMENT,
                           "pool_backward: indices holds %lld for image %lld, channel %lld, "
                           "position (%lld, %lld, %lld); it must name an element of that window",
                           (long long)index, (long long)n, (long long)c, (long long)o[0],
                           (long long)o[1], (long long)o[2]);
            }
    return TW_OK;
}

tw_status tw_pool_bad_index(const tw_launch *launch)
{
    const tw_pool_plan *plan = launch->state;
    for (int64_t plane = 0; plane < plan->shape.n * plan->shape.c; plane++)
        TW_TRY(check_plane(launch, plane / plan->shape.c, plane % plan->shape.c));
    return tw_fail(TW_INVALID_ARGUMENT,
                   "pool_backward: indices changed while they were read; they must not");
}
