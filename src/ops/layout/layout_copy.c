/* SPDX-License-Identifier: Apache-2.0 */
/* From layout operations to lists of strided copies. */
#include "ops/layout/layout_copy.h"

#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "ops/layout/layout_map.h"

/* What a block and an item of the parallel loop move: small enough for a core's second-level
 * cache, some 5 µs of work. */
#define BLOCK_BYTES ((int64_t)65536)

/* ---- One job --------------------------------------------------------------------------------- */

static void swap_dims(tw_copy_job *job, int32_t a, int32_t b)
{
    int64_t *const lists[] = {job->dims, job->to, job->from};
    for (int i = 0; i < 3; i++) {
        int64_t kept = lists[i][a];
        lists[i][a] = lists[i][b];
        lists[i][b] = kept;
    }
}

static void drop_dim(tw_copy_job *job, int32_t d)
{
    int64_t *const lists[] = {job->dims, job->to, job->from};
    job->rank--;
    for (int i = 0; i < 3; i++)
        memmove(&lists[i][d], &lists[i][d + 1], (size_t)(job->rank - d) * sizeof(int64_t));
}

static void insert_unit_dim(tw_copy_job *job)
{
    int64_t *const lists[] = {job->dims, job->to, job->from};
    for (int i = 0; i < 3; i++) {
        memmove(&lists[i][1], &lists[i][0], (size_t)job->rank * sizeof(int64_t));
        lists[i][0] = i == 0 ? 1 : 0;
    }
    job->rank++;
}

/* Merges dims d and d + 1 where both sides step through them as through one. */
static void merge_dims(tw_copy_job *job)
{
    for (int32_t d = job->rank - 2; d >= 0; d--) {
        int64_t n = job->dims[d + 1];
        if (job->to[d] != job->to[d + 1] * n || job->from[d] != job->from[d + 1] * n) continue;
        job->dims[d + 1] *= job->dims[d];
        drop_dim(job, d);
    }
}

static void sort_dims(tw_copy_job *job)
{
    for (int32_t d = job->rank - 1; d >= 0; d--)
        if (job->dims[d] == 1) drop_dim(job, d);
    for (int32_t d = 1; d < job->rank; d++)
        for (int32_t e = d; e > 0 && job->to[e] > job->to[e - 1]; e--) swap_dims(job, e, e - 1);
    merge_dims(job);
    while (job->rank < 2) insert_unit_dim(job);
}

static tw_copy_kind kind_of(tw_copy_job *job)
{
    int32_t inner = job->rank - 1;
    if (job->dims[inner] > 1 && job->to[inner] != 1) return TW_COPY_STRIDED;
    if (job->input < 0 || job->from[inner] == 0) return TW_COPY_FILL;
    if (job->from[inner] == 1 || job->dims[inner] == 1) return TW_COPY_ROWS;
    for (int32_t d = inner - 1; d >= 0; d--) {
        if (job->from[d] != 1) continue;
        while (d < inner - 1) {
            swap_dims(job, d, d + 1);
            d++;
        }
        return TW_COPY_TRANSPOSE;
    }
    return TW_COPY_STRIDED;
}

static int64_t at_most(int64_t value, int64_t most) { return value < most ? value : most; }
static int64_t at_least(int64_t value, int64_t least) { return value > least ? value : least; }

/* Cuts a job into blocks, by its shape alone. */
static void cut_job(tw_copy_job *job, int32_t width)
{
    int64_t most = BLOCK_BYTES / width, *dims = &job->dims[job->rank - 2];
    if (job->streamed) {
        job->block[0] = at_most(dims[0], at_most(1024 / width, 256));
        job->block[1] = at_most(dims[1], 1024 / width);
    } else if (job->kind ==
               TW_COPY_TRANSPOSE) { /* square blocks read and write whole cache lines */
        int64_t side = 512 / width > 64 ? 512 / width : 64;
        job->block[0] = at_most(dims[0], side);
        job->block[1] = at_most(dims[1], at_least(most / job->block[0] / 64 * 64, 64));
    } else {
        job->block[1] = at_most(dims[1], most);
        job->block[0] = at_most(dims[0], at_least(most / job->block[1], 1));
    }
    job->blocks = 1;
    for (int i = 0; i < 2; i++) {
        job->grid[i] = (dims[i] - 1) / job->block[i] + 1;
        job->blocks *= job->grid[i];
    }
    for (int32_t d = 0; d < job->rank - 2; d++) job->blocks *= job->dims[d];
    job->blocks_per_item = at_least(most / (job->block[0] * job->block[1]), 1);
}

/* A box of elements: dims, strides on both sides, and first elements. */
static void add_job(tw_copy_plan *plan, const tw_copy_job *box)
{
    tw_copy_job *job = &plan->jobs[plan->n_jobs];
    int64_t elements = 1;
    *job = *box;
    for (int32_t d = 0; d < job->rank; d++) {
        elements *= job->dims[d];
        if (job->input < 0) job->from[d] = 0;
    }
    if (job->input < 0) job->from_offset = 0;
    if (elements == 0) return;
    sort_dims(job);
    job->kind = kind_of(job);
    job->streamed = plan->may_stream && job->kind == TW_COPY_TRANSPOSE && plan->width <= 8 &&
                    elements >= TW_COPY_STREAM_BYTES / plan->width &&
                    job->dims[job->rank - 1] >= 512 / plan->width &&
                    job->dims[job->rank - 2] >= 64 / plan->width;
    cut_job(job, plan->width);
    job->first_item = tw_copy_items(plan, plan->n_jobs);
    plan->bytes += elements * plan->width;
    plan->n_jobs++;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static tw_copy_job box_of(int32_t input, const tw_view *part, const int64_t *to,
                          const int64_t *from)
{
    tw_copy_job box = {.input = input, .rank = part->rank};
    for (int32_t d = 0; d < part->rank; d++) {
        box.dims[d] = part->dims[d];
        box.to[d] = to[d];
        box.from[d] = from[d];
    }
    return box;
}

/* Dims of a view with contiguous ones merged and those of 1 left out. */
static int32_t collapse(const tw_view *view, int64_t *dims, int64_t *strides)
{
    int32_t rank = 0;
    for (int32_t d = 0; d < view->rank; d++) {
        if (view->dims[d] == 1) continue;
        if (rank > 0 && strides[rank - 1] == view->strides[d] * view->dims[d]) {
            dims[rank - 1] *= view->dims[d];
            strides[rank - 1] = view->strides[d];
        } else {
            dims[rank] = view->dims[d];
            strides[rank++] = view->strides[d];
        }
    }
    return rank;
}

/* Cuts the dims of x and y, from the innermost, to common ones. False if a cut of one would split
 * an element of the other's dim. Neither may be empty. */
static bool common_dims(const tw_view *x, const tw_view *y, tw_copy_job *box)
{
    int64_t x_dims[TW_MAX_RANK], x_strides[TW_MAX_RANK], y_dims[TW_MAX_RANK],
        y_strides[TW_MAX_RANK];
    int32_t i = collapse(x, x_dims, x_strides) - 1, j = collapse(y, y_dims, y_strides) - 1;
    *box = (tw_copy_job){.input = 0};
    while (i >= 0 && j >= 0) {
        int64_t n = at_most(x_dims[i], y_dims[j]);
        if (x_dims[i] % n != 0 || y_dims[j] % n != 0) return false;
        box->dims[box->rank] = n;
        box->to[box->rank] = y_strides[j];
        box->from[box->rank++] = x_strides[i];
        x_strides[i] *= n;
        y_strides[j] *= n;
        if ((x_dims[i] /= n) == 1) i--;
        if ((y_dims[j] /= n) == 1) j--;
    }
    for (int32_t d = 0; d < box->rank / 2; d++) swap_dims(box, d, box->rank - 1 - d);
    return true;
}

static void plan_concat(const tw_problem *problem, tw_copy_plan *plan)
{
    const tw_view *y = &problem->out[0];
    int32_t axis = problem->attrs->layout.axis;
    int64_t at = 0;
    for (int32_t i = 0; i < problem->n_in; i++) {
        const tw_view *x = &problem->in[i];
        tw_copy_job box = box_of(i, x, y->strides, x->strides);
        box.to_offset = at * y->strides[axis];
        at += x->dims[axis];
        add_job(plan, &box);
    }
}

/* A stretch of one dim of a padded tensor, and where its elements come from. */
typedef struct segment {
    int64_t begin, length; /* in the output */
    int64_t source, step;  /* first element of x, and steps from one to the next */
    bool filled;           /* with the constant */
} segment;

/* What lies before, inside and behind x along a dim. */
static void cut_dim(const tw_layout_attrs *pad, int32_t d, int64_t n, segment cut[3])
{
    int64_t first = -pad->start[d], last = n + pad->end_pad[d];
    const int64_t from[3] = {first, at_least(first, 0), at_least(first, n)};
    const int64_t to[3] = {at_most(last, 0), at_most(last, n), last};
    int64_t outside = pad->pad_mode == TW_PAD_REFLECT ? -1 : pad->pad_mode == TW_PAD_WRAP;
    for (int i = 0; i < 3; i++) {
        bool filled = i != 1 && pad->pad_mode == TW_PAD_CONSTANT;
        cut[i] = (segment){from[i] - first, at_least(to[i] - from[i], 0), 0, i == 1 ? 1 : outside,
                           filled};
        if (cut[i].length > 0 && !filled) cut[i].source = tw_pad_source(pad->pad_mode, n, from[i]);
    }
}

static void plan_pad(const tw_layout_attrs *pad, const tw_problem *problem, tw_copy_plan *plan)
{
    const tw_view *x = &problem->in[0], *y = &problem->out[0];
    segment cuts[TW_MAX_RANK][3];
    int32_t at[TW_MAX_RANK] = {0}, d;
    for (d = 0; d < x->rank; d++) cut_dim(pad, d, x->dims[d], cuts[d]);
    do {
        tw_copy_job box = {.input = 0, .rank = x->rank};
        for (d = 0; d < x->rank; d++) {
            const segment *cut = &cuts[d][at[d]];
            box.dims[d] = cut->length;
            box.to[d] = y->strides[d];
            box.from[d] = x->strides[d] * cut->step;
            box.to_offset += cut->begin * y->strides[d];
            box.from_offset += cut->source * x->strides[d];
            if (cut->filled) box.input = -1;
        }
        add_job(plan, &box);
        for (d = x->rank - 1; d >= 0 && ++at[d] == 3; d--) at[d] = 0;
    } while (d >= 0);
}

/* Zeros with dy among them. Where the slice takes every element this is padding; else all is zeroed
 * first. */
static void plan_slice_backward(const tw_problem *problem, tw_copy_plan *plan)
{
    const tw_layout_attrs *attrs = &problem->attrs->layout;
    const tw_view *dy = &problem->in[0], *dx = &problem->out[0];
    tw_layout_attrs pad = {.pad_mode = TW_PAD_CONSTANT};
    bool whole = true;
    tw_copy_job box = box_of(0, dy, dx->strides, dy->strides);
    for (int32_t d = 0; d < dy->rank; d++) {
        if (attrs->step[d] != 1 && dy->dims[d] > 1) whole = false;
        pad.start[d] = attrs->start[d];
        pad.end_pad[d] = dx->dims[d] - attrs->start[d] - dy->dims[d];
        box.to[d] *= attrs->step[d];
        box.to_offset += attrs->start[d] * dx->strides[d];
    }
    if (whole) {
        plan_pad(&pad, problem, plan);
        return;
    }
    tw_copy_job all = box_of(-1, dx, dx->strides, dx->strides);
    add_job(plan, &all);
    plan->first_phase = plan->n_jobs;
    add_job(plan, &box);
}

static void plan_view(const tw_problem *problem, tw_copy_plan *plan)
{
    const tw_layout_attrs *attrs = &problem->attrs->layout;
    const tw_view *x = &problem->in[0], *y = &problem->out[0];
    tw_copy_job box = {.input = 0, .rank = y->rank};
    for (int32_t d = 0; d < y->rank; d++) {
        int32_t e = d - (y->rank - x->rank); /* expand adds dims in front */
        box.dims[d] = y->dims[d];
        box.to[d] = y->strides[d];
        if (problem->info->kind == TW_OP_TRANSPOSE) {
            box.from[d] = x->strides[attrs->order[d]];
        } else if (problem->info->kind == TW_OP_SLICE) {
            box.from[d] = x->strides[d] * attrs->step[d];
            if (y->dims[d] > 0) box.from_offset += x->strides[d] * attrs->start[d];
        } else if (e >= 0 && x->dims[e] != 1) {
            box.from[d] = x->strides[e];
        }
    }
    add_job(plan, &box);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static bool is_empty(const tw_view *view)
{
    for (int32_t d = 0; d < view->rank; d++)
        if (view->dims[d] == 0) return true;
    return false;
}

const char *tw_copy_refuses(const tw_problem *problem)
{
    const tw_view *x = &problem->in[0], *y = &problem->out[0];
    tw_copy_job box;
    if (problem->epilogue != NULL) return "it has an epilogue";
    if (x->dtype != y->dtype) return "the element type changes";
    if (tw_dtype_bits(x->dtype) < 8) return "elements are smaller than a byte";
    if (problem->info->kind == TW_OP_RESHAPE && !is_empty(x) && !common_dims(x, y, &box))
        return "the gaps of x and y fall into the same dim at different places";
    return NULL;
}

static void encode_fill(const tw_problem *problem, tw_copy_plan *plan)
{
    tw_dtype type = problem->out[0].dtype;
    double value = problem->info->kind == TW_OP_PAD ? problem->attrs->layout.value : 0;
    if (type == TW_C64)
        memcpy(plan->fill, (const float[2]){(float)value, 0}, 8);
    else if (type == TW_C128)
        memcpy(plan->fill, (const double[2]){value, 0}, 16);
    else
        tw_store(type, plan->fill, 0, value, 0);
}

static int64_t most_jobs(const tw_problem *problem)
{
    int64_t jobs = 1;
    switch (problem->info->kind) {
    case TW_OP_CONCAT: return problem->n_in;
    case TW_OP_PAD:
    case TW_OP_SLICE_BACKWARD:
        for (int32_t d = 0; d < problem->in[0].rank; d++) jobs *= 3;
        return jobs + 1;
    default: return 1;
    }
}

tw_status tw_copy_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    void *memory;
    TW_TRY(tw_arena_alloc(prepare->arena, 1, sizeof(tw_copy_plan), &memory));
    tw_copy_plan *plan = memory;
    TW_TRY(tw_arena_alloc(prepare->arena, most_jobs(problem) + 1, sizeof(tw_copy_job), &memory));
    plan->jobs = memory;
    plan->width = tw_dtype_bits(problem->out[0].dtype) / 8;
    prepare->state = plan;
    int64_t scratch = problem->max_threads * (int64_t)TW_COPY_SCRATCH;
    plan->may_stream = scratch <= problem->workspace_limit;
    encode_fill(problem, plan);
    if (is_empty(&problem->out[0])) return TW_OK;
    tw_copy_job box;
    switch (problem->info->kind) {
    case TW_OP_CONCAT: plan_concat(problem, plan); break;
    case TW_OP_PAD: plan_pad(&problem->attrs->layout, problem, plan); break;
    case TW_OP_SLICE_BACKWARD: plan_slice_backward(problem, plan); break;
    case TW_OP_RESHAPE:
        if (common_dims(&problem->in[0], &problem->out[0], &box)) add_job(plan, &box);
        break;
    default: plan_view(problem, plan); break;
    }
    for (int32_t i = 0; i < plan->n_jobs; i++)
        if (plan->jobs[i].streamed) prepare->workspace = scratch;
    return TW_OK;
}
