/* SPDX-License-Identifier: Apache-2.0 */
/* Reference softmax: any type, any axes, any strides, in double. A line is read in full before its
 * first element is written, and each element before it is overwritten, so in place works. */
#include <math.h>

#include "core/dtype.h"
#include "core/error.h"
#include "ops/reduce/lines.h"
#include "ops/softmax/softmax.h"

typedef struct line {
    const tw_problem *problem;
    const tw_axis_group *group;
    void *data[TW_LINES_OPERANDS];
    int64_t start[TW_LINES_OPERANDS];
} line;

static tw_group_cursor line_begin(const line *l)
{
    return (tw_group_cursor){.offset = {l->start[0], l->start[1], l->start[2]}};
}

static double load(const line *l, int32_t operand, const tw_group_cursor *at)
{
    return tw_load(l->problem->in[operand].dtype, l->data[operand], at->offset[operand]);
}

static double line_max(const line *l)
{
    double top = -(double)INFINITY;
    tw_group_cursor at = line_begin(l);
    for (int64_t i = 0; i < l->group->count; i++, tw_group_next(l->group, &at)) {
        double v = load(l, 0, &at);
        if (isnan(v)) return v;
        if (v > top) top = v;
    }
    return top;
}

/* An infinite maximum makes x - max NaN where x is that infinity: by way of the sum the whole line
 * becomes NaN, as it should. */
static void softmax_line(const line *l)
{
    const tw_problem *p = l->problem;
    double top = line_max(l), sum = 0;
    tw_group_cursor at = line_begin(l);
    for (int64_t i = 0; i < l->group->count; i++, tw_group_next(l->group, &at))
        sum += exp(load(l, 0, &at) - top);
    at = line_begin(l);
    for (int64_t i = 0; i < l->group->count; i++, tw_group_next(l->group, &at)) {
        double shifted = load(l, 0, &at) - top;
        double y = p->attrs->softmax.log ? shifted - log(sum) : exp(shifted) / sum;
        tw_store(p->out[0].dtype, l->data[1], at.offset[1], y, 0);
    }
}

/* dx = y·(dy - Σ y·dy), or with log dx = dy - exp(y)·Σ dy. */
static void backward_line(const line *l)
{
    const tw_problem *p = l->problem;
    bool is_log = p->attrs->softmax.log;
    double sum = 0;
    tw_group_cursor at = line_begin(l);
    for (int64_t i = 0; i < l->group->count; i++, tw_group_next(l->group, &at))
        sum += is_log ? load(l, 1, &at) : load(l, 0, &at) * load(l, 1, &at);
    at = line_begin(l);
    for (int64_t i = 0; i < l->group->count; i++, tw_group_next(l->group, &at)) {
        double y = load(l, 0, &at), dy = load(l, 1, &at);
        double dx = is_log ? dy - exp(y) * sum : y * (dy - sum);
        tw_store(p->out[0].dtype, l->data[2], at.offset[2], dx, 0);
    }
}

static const char *supports(const tw_problem *problem)
{
    return problem->epilogue || problem->prologue[0] || problem->prologue[1] ? "fused steps" : NULL;
}

static tw_status run_lines(const tw_launch *launch, void (*task)(const line *))
{
    const tw_problem *p = launch->problem;
    const tw_view *views[TW_LINES_OPERANDS] = {&p->in[0], p->n_in > 1 ? &p->in[1] : &p->out[0],
                                               p->n_in > 1 ? &p->out[0] : NULL};
    tw_lines lines;
    tw_lines_make(views, p->attrs->softmax.axes, true, &lines);
    line l = {.problem = p, .group = &lines.along, .data = {launch->in[0]}};
    l.data[1] = p->n_in > 1 ? launch->in[1] : launch->out[0];
    l.data[2] = p->n_in > 1 ? launch->out[0] : NULL;
    tw_group_cursor at = {.offset = {0}};
    for (int64_t i = 0; i < lines.kept.count; i++, tw_group_next(&lines.kept, &at)) {
        for (int32_t v = 0; v < TW_LINES_OPERANDS; v++) l.start[v] = at.offset[v];
        task(&l);
    }
    return TW_OK;
}

static tw_status run_forward(const tw_launch *launch) { return run_lines(launch, softmax_line); }
static tw_status run_backward(const tw_launch *launch) { return run_lines(launch, backward_line); }

extern const tw_kernel_impl tw_softmax_plain_any__ref, tw_softmax_plainbwd_any__ref;
const tw_kernel_impl tw_softmax_plain_any__ref = {
    .supports = supports, .run = run_forward, .in_place = 1};
const tw_kernel_impl tw_softmax_plainbwd_any__ref = {
    .supports = supports, .run = run_backward, .in_place = 3};
