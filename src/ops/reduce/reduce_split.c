/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reduce/reduce_split.h"

#include <math.h>

#include "core/dtype.h"
#include "core/error.h"

/* Enough items that a dozen threads share them evenly; each of 64 KiB of f32 or more. */
enum { ITEMS = 64, ITEM_ELEMENTS = 16384 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

tw_reduce_part tw_reduce_part_begin(tw_reduce_mode mode)
{
    bool least = mode == TW_REDUCE_MIN || mode == TW_REDUCE_ARGMIN;
    bool most = mode == TW_REDUCE_MAX || mode == TW_REDUCE_ARGMAX || mode == TW_REDUCE_LOG_SUM_EXP;
    double infinity = (double)INFINITY;
    return (tw_reduce_part){.value = least ? infinity : most ? -infinity : 0, .index = -1};
}

static void merge_arg(const tw_reduce_attrs *attrs, tw_reduce_part *part,
                      const tw_reduce_part *next)
{
    bool least = attrs->mode == TW_REDUCE_ARGMIN;
    bool better = part->index < 0 || isnan(next->value) ||
                  (least ? next->value < part->value : next->value > part->value) ||
                  (attrs->last_index && next->value == part->value);
    if (next->index >= 0 && better && !(isnan(part->value) && part->index >= 0)) *part = *next;
}

static void merge_log_sum_exp(tw_reduce_part *part, const tw_reduce_part *next)
{
    double top = next->value > part->value || isnan(next->value) ? next->value : part->value;
    if (isnan(part->value)) return;
    if (isfinite(top))
        part->extra = part->extra * exp(part->value - top) + next->extra * exp(next->value - top);
    part->value = top;
}

void tw_reduce_part_merge(const tw_reduce_attrs *attrs, tw_reduce_part *part,
                          const tw_reduce_part *next)
{
    switch (attrs->mode) {
    case TW_REDUCE_MAX:
    case TW_REDUCE_AMAX:
        if (next->value > part->value || isnan(next->value)) part->value = next->value;
        break;
    case TW_REDUCE_MIN:
        if (next->value < part->value || isnan(next->value)) part->value = next->value;
        break;
    case TW_REDUCE_ARGMAX:
    case TW_REDUCE_ARGMIN: merge_arg(attrs, part, next); break;
    case TW_REDUCE_LOG_SUM_EXP: merge_log_sum_exp(part, next); break;
    default: part->value += next->value; break;
    }
}

void tw_reduce_part_store(const tw_reduce_attrs *attrs, const tw_reduce_part *part, int64_t count,
                          tw_dtype type, void *y, int64_t offset)
{
    double value = part->value;
    switch (attrs->mode) {
    case TW_REDUCE_ARGMAX:
    case TW_REDUCE_ARGMIN:
        if (tw_dtype_is_float(type))
            tw_store(type, y, offset, (double)part->index, 0);
        else
            tw_store_int(type, y, offset, part->index, 0);
        return;
    case TW_REDUCE_MEAN: value /= (double)count; break;
    case TW_REDUCE_L2: value = sqrt(value); break;
    case TW_REDUCE_LOG_SUM: value = log(value); break;
    case TW_REDUCE_LOG_SUM_EXP:
        if (isfinite(value)) value += log(part->extra);
        break;
    default: break;
    }
    tw_store(type, y, offset, value, 0);
}

static bool vector_mode(tw_reduce_mode mode, bool columns)
{
    switch (mode) {
    case TW_REDUCE_SUM:
    case TW_REDUCE_MEAN:
    case TW_REDUCE_MAX:
    case TW_REDUCE_MIN:
    case TW_REDUCE_L1:
    case TW_REDUCE_L2:
    case TW_REDUCE_LOG_SUM:
    case TW_REDUCE_SUM_SQUARE:
    case TW_REDUCE_AMAX: return true;
    case TW_REDUCE_LOG_SUM_EXP:
    case TW_REDUCE_ARGMAX:
    case TW_REDUCE_ARGMIN: return !columns;
    default: return false;
    }
}

static const char *refuse(const tw_problem *problem, bool columns)
{
    tw_dtype x = problem->in[0].dtype;
    if (problem->epilogue || problem->prologue[0]) return "fused steps";
    if (x != TW_F32 && x != TW_F16 && x != TW_BF16) return "x is not f32, f16 or bf16";
    if (problem->attrs->reduce.compute != TW_F32) return "compute is not f32";
    if (tw_dtype_bits(problem->out[0].dtype) < 8) return "elements of y share bytes";
    if (!vector_mode(problem->attrs->reduce.mode, columns))
        return columns ? "no column form of this mode" : "no vector form of this mode";
    return NULL;
}

const char *tw_reduce_rows_refuse(const tw_problem *problem) { return refuse(problem, false); }

/* Takes the last dim out of a group: its size and its strides in x and y. */
static int64_t pop_dim(tw_axis_group *group, int64_t *x_step, int64_t *y_step)
{
    *x_step = 1;
    *y_step = 1;
    if (group->rank == 0) return group->count;
    int32_t d = --group->rank;
    int64_t dim = group->dims[d];
    *x_step = group->strides[0][d];
    *y_step = group->strides[1][d];
    group->count = 1;
    for (int32_t i = 0; i < d; i++) group->count *= group->dims[i];
    return dim;
}

tw_status tw_reduce_rows_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    void *memory;
    int64_t unused;
    TW_TRY(tw_arena_alloc(prepare->arena, 1, sizeof(tw_reduce_rows), &memory));
    tw_reduce_rows *r = memory;
    tw_reduce_lines(&problem->in[0], &problem->out[0], &problem->attrs->reduce, &r->lines);
    int64_t elements = r->lines.along.count;
    r->outputs = r->lines.kept.count;
    r->length = pop_dim(&r->lines.along, &r->step, &unused);
    r->segments = ceil_div(r->length, TW_REDUCE_SEGMENT);
    int64_t all = r->segments * r->lines.along.count;
    int64_t wanted = clamp(ceil_div(elements, 4 * ITEM_ELEMENTS), 1, all > 0 ? all : 1);
    r->chunks = r->outputs > 0 ? clamp(ITEMS / r->outputs, 1, wanted) : 1;
    r->per_chunk = ceil_div(all, r->chunks);
    if (r->per_chunk > 0) r->chunks = ceil_div(all, r->per_chunk);
    r->per_item = clamp(ITEM_ELEMENTS / (elements > 0 ? elements : 1), 1, 4096);
    int64_t bytes = r->outputs * r->chunks * (int64_t)sizeof(tw_reduce_part);
    prepare->state = r;
    /* Without room for the parts one thread works through them: the same sums in the same order. */
    prepare->workspace = r->chunks > 1 && bytes <= problem->workspace_limit ? bytes : 0;
    return TW_OK;
}

static bool has_columns(const tw_lines *lines)
{
    const tw_axis_group *kept = &lines->kept, *along = &lines->along;
    if (kept->rank == 0 || along->rank == 0 || along->strides[0][along->rank - 1] == 1)
        return false;
    /* A stride of 0 sorts behind the stride of 1. */
    return kept->strides[0][kept->rank - 1] == 1;
}

const char *tw_reduce_columns_refuse(const tw_problem *problem)
{
    const char *reason = refuse(problem, true);
    tw_lines lines;
    if (reason) return reason;
    tw_reduce_lines(&problem->in[0], &problem->out[0], &problem->attrs->reduce, &lines);
    if (lines.kept.count == 0 || lines.along.count == 0) return "x is empty";
    return has_columns(&lines) ? NULL : "no kept dim has stride 1, or a reduced one has";
}

tw_status tw_reduce_columns_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    void *memory;
    int64_t unused;
    TW_TRY(tw_arena_alloc(prepare->arena, 1, sizeof(tw_reduce_columns), &memory));
    tw_reduce_columns *r = memory;
    tw_reduce_lines(&problem->in[0], &problem->out[0], &problem->attrs->reduce, &r->lines);
    int64_t outputs = r->lines.kept.count;
    r->columns = pop_dim(&r->lines.kept, &unused, &r->y_step);
    r->rows = pop_dim(&r->lines.along, &r->row_step, &unused);
    r->fold = 1;
    if (r->columns <= TW_REDUCE_COLUMNS / 4 && r->row_step == r->columns)
        r->fold = clamp(TW_REDUCE_COLUMNS / r->columns, 1, r->rows);
    r->wide_rows = ceil_div(r->rows, r->fold);
    r->blocks = ceil_div(r->columns, TW_REDUCE_COLUMNS);
    int64_t all = r->wide_rows * r->lines.along.count;
    int64_t items = r->lines.kept.count * r->blocks;
    int64_t width = r->fold * (r->columns < TW_REDUCE_COLUMNS ? r->columns : TW_REDUCE_COLUMNS);
    int64_t wanted = clamp(ceil_div(all * width, 4 * ITEM_ELEMENTS), 1, all);
    r->chunks = clamp(ITEMS / items, 1, wanted);
    r->per_chunk = ceil_div(all, r->chunks);
    r->chunks = ceil_div(all, r->per_chunk);
    int64_t bytes = outputs * r->chunks * (int64_t)sizeof(double);
    prepare->state = r;
    prepare->workspace = r->chunks > 1 && bytes <= problem->workspace_limit ? bytes : 0;
    return TW_OK;
}
