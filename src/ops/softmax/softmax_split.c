/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/softmax/softmax_split.h"

#include "core/error.h"

/* A work item is 64 KiB of f32 or more; a block of columns should stay in a second-level cache. */
enum { ITEM_ELEMENTS = 16384, BLOCK_ELEMENTS = 65536, LEAST_WIDTH = 16, LEAST_COLUMNS = 8 };

static void make_lines(const tw_problem *p, tw_lines *lines)
{
    const tw_view *views[TW_LINES_OPERANDS] = {&p->in[0], &p->out[0]};
    if (p->n_in > 1) {
        views[1] = &p->in[1];
        views[2] = &p->out[0];
    }
    tw_lines_make(views, p->attrs->softmax.axes, false, lines);
}

static bool vector_type(tw_dtype type)
{
    return type == TW_F32 || type == TW_F16 || type == TW_BF16;
}

static const char *refuse(const tw_problem *p, tw_lines *lines)
{
    if (p->epilogue || p->prologue[0] || p->prologue[1]) return "fused steps";
    for (int32_t i = 0; i < p->n_in; i++)
        if (!vector_type(p->in[i].dtype)) return "an input is not f32, f16 or bf16";
    if (!vector_type(p->out[0].dtype)) return "the output is not f32, f16 or bf16";
    make_lines(p, lines);
    if (lines->kept.count == 0 || lines->along.count == 0) return "the tensor is empty";
    return lines->along.rank > 1 ? "no single stride steps along a line" : NULL;
}

const char *tw_softmax_rows_refuse(const tw_problem *problem)
{
    tw_lines lines;
    return refuse(problem, &lines);
}

static bool has_columns(const tw_lines *lines, int32_t operands)
{
    int32_t last = lines->kept.rank - 1;
    if (last < 0 || lines->along.rank == 0 || lines->kept.dims[last] < LEAST_COLUMNS) return false;
    for (int32_t v = 0; v < operands; v++)
        if (lines->kept.strides[v][last] != 1) return false;
    return lines->along.strides[0][0] != 1;
}

const char *tw_softmax_columns_refuse(const tw_problem *problem)
{
    tw_lines lines;
    const char *reason = refuse(problem, &lines);
    if (reason) return reason;
    return has_columns(&lines, problem->n_in + 1) ? NULL
                                                  : "neighbouring lines do not lie side by side";
}

static tw_status prepare_lines(const tw_problem *problem, tw_prepare *prepare,
                               tw_softmax_split **split)
{
    void *memory = NULL;
    tw_lines lines;
    TW_TRY(tw_arena_alloc(prepare->arena, 1, sizeof(tw_softmax_split), &memory));
    make_lines(problem, &lines);
    *split = memory;
    (*split)->kept = lines.kept;
    (*split)->length = lines.along.count;
    for (int32_t v = 0; v < TW_LINES_OPERANDS; v++)
        (*split)->step[v] = lines.along.rank > 0 ? lines.along.strides[v][0] : 1;
    prepare->state = memory;
    return TW_OK;
}

tw_status tw_softmax_rows_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    tw_softmax_split *s = NULL;
    TW_TRY(prepare_lines(problem, prepare, &s));
    s->per_item = 1 + ITEM_ELEMENTS / s->length;
    return TW_OK;
}

tw_status tw_softmax_columns_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    tw_softmax_split *s = NULL;
    TW_TRY(prepare_lines(problem, prepare, &s));
    s->columns = s->kept.dims[--s->kept.rank];
    s->kept.count /= s->columns;
    s->width = BLOCK_ELEMENTS / s->length / LEAST_WIDTH * LEAST_WIDTH;
    if (s->width < LEAST_WIDTH) s->width = LEAST_WIDTH;
    if (s->width > TW_SOFTMAX_COLUMNS) s->width = TW_SOFTMAX_COLUMNS;
    s->blocks = (s->columns + s->width - 1) / s->width;
    return TW_OK;
}
