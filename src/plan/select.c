/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of a group: the first row of the family that accepts it. If only a reference row
 * would, the last operation leaves the group and the search starts again, so that fusion never
 * costs speed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "plan/planner.h"
#include "plan/report.h"

typedef struct choice {
    const tw_kernel *kernel;
    tw_prepare prepare;
    tw_text refusals; /* a line for each better row */
    bool has_fast;    /* the operation has a row that is no reference */
} choice;

static void refuse(choice *c, const tw_kernel *kernel, const char *format, ...) TW_PRINTF(3, 4);
static void refuse(choice *c, const tw_kernel *kernel, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    tw_text_add(&c->refusals, "    not %s: %s\n", kernel->name, reason);
}

/* The row that a saved plan names for the next step, or NULL. */
static const char *scripted(const tw_planner *planner)
{
    int32_t step = planner->plan->n_steps;
    return planner->script && step < planner->n_script ? planner->script[step].kernel : NULL;
}

/* Reasons that have nothing to do with the problem. */
static bool ruled_out(const tw_planner *planner, const tw_kernel *kernel, bool forced, choice *c)
{
    const tw_plan_options *options = &planner->plan->options;
    tw_isa limit =
        options->has_max_isa && options->max_isa < tw_cpu_isa() ? options->max_isa : tw_cpu_isa();
    const char *saved = scripted(planner);
    if (saved && strcmp(kernel->name, saved) != 0)
        refuse(c, kernel, "the saved plan has %s", saved);
    else if (forced && strcmp(kernel->name, options->kernel) != 0)
        refuse(c, kernel, "%s was asked for", options->kernel);
    else if (!kernel->impl)
        refuse(c, kernel, "it is not in this build");
    else if (kernel->isa > limit)
        refuse(c, kernel, "it needs %s, the limit is %s", tw_isa_name(kernel->isa),
               tw_isa_name(limit));
    else if (!kernel->reference && (options->flags & TW_ONLY_REFERENCE))
        refuse(c, kernel, "only reference kernels were asked for");
    else
        return false;
    return true;
}

static tw_status try_row(tw_planner *planner, const tw_problem *problem, const tw_kernel *kernel,
                         choice *c)
{
    const char *reason = kernel->impl->supports(problem);
    if (reason) {
        refuse(c, kernel, "%s", reason);
        return TW_OK;
    }
    c->prepare = (tw_prepare){.arena = &planner->plan->arena};
    if (kernel->impl->prepare) TW_TRY(kernel->impl->prepare(problem, &c->prepare));
    if (c->prepare.workspace > problem->workspace_limit) {
        refuse(c, kernel, "it needs %lld bytes of workspace, %lld are allowed",
               (long long)c->prepare.workspace, (long long)problem->workspace_limit);
        return TW_OK;
    }
    c->kernel = kernel;
    return TW_OK;
}

/* Does options->kernel name a row for this kind of operation? */
static bool is_forced(const tw_planner *planner, const tw_family *family, tw_op_kind kind)
{
    const char *name = planner->plan->options.kernel;
    for (int32_t k = 0; name && k < family->n_kernels; k++)
        if (family->kernels[k].kind == kind && strcmp(family->kernels[k].name, name) == 0)
            return true;
    return false;
}

static tw_status choose(tw_planner *planner, const tw_problem *problem, choice *c)
{
    const tw_family *family = tw_family_of(problem->info->kind);
    bool forced = is_forced(planner, family, problem->info->kind);
    for (int32_t k = 0; k < family->n_kernels && !c->kernel; k++) {
        const tw_kernel *kernel = &family->kernels[k];
        if (kernel->kind != problem->info->kind) continue;
        c->has_fast = c->has_fast || (!kernel->reference && kernel->impl);
        if (!ruled_out(planner, kernel, forced, c)) TW_TRY(try_row(planner, problem, kernel, c));
    }
    return TW_OK;
}

/* ---- The step ------------------------------------------------------------------------------- */

typedef struct draft {
    tw_step step;
    tw_tensor loads[TW_STACK_OPERANDS + 8], stores[TW_CHAIN_VALUES];
    const tw_group *group;
} draft;

static tw_status views_of(tw_planner *planner, const tw_tensor *tensors, int32_t n,
                          const tw_view **views)
{
    void *memory;
    TW_TRY(tw_arena_alloc(&planner->plan->arena, n, sizeof(tw_view), &memory));
    for (int32_t i = 0; i < n; i++) ((tw_view *)memory)[i] = tw_planner_view(planner, tensors[i]);
    *views = memory;
    return TW_OK;
}

/* Bytes that the next step's kernel may use. */
static int64_t scratch_limit(const tw_planner *planner)
{
    int32_t step = planner->plan->n_steps;
    if (planner->script && step < planner->n_script) return planner->script[step].scratch_limit;
    if (planner->scratch_limit && step < planner->n_scratch_limit)
        return planner->scratch_limit[step];
    return INT64_MAX;
}

static tw_status problem_of(tw_planner *planner, const tw_group *group, draft *d)
{
    const tw_op *anchor = &planner->graph->ops[group->ops[0]];
    tw_problem *problem = &d->step.problem;
    *problem = (tw_problem){.info = anchor->info,
                            .attrs = &anchor->attrs,
                            .flags = planner->plan->options.flags,
                            .max_threads = planner->plan->options.max_threads,
                            .workspace_limit = scratch_limit(planner)};
    bool pure = anchor->info->kind == TW_OP_POINTWISE;
    d->group = group;
    if (!pure) {
        problem->n_in = anchor->n_in;
        problem->n_out = anchor->n_out;
        d->step.in_tensors = anchor->in;
        d->step.out_tensors = anchor->out;
        TW_TRY(views_of(planner, anchor->in, anchor->n_in, &problem->in));
        TW_TRY(views_of(planner, anchor->out, anchor->n_out, &problem->out));
    }
    if (!pure && group->n_ops == 1) return TW_OK;
    tw_chain *chain;
    TW_TRY(tw_planner_chain(planner, group, &chain, d->loads, d->stores));
    problem->epilogue = chain;
    return TW_OK;
}

static tw_status keep(tw_arena *arena, const tw_tensor *from, int32_t n, const tw_tensor **to)
{
    void *memory;
    TW_TRY(tw_arena_alloc(arena, n, sizeof(tw_tensor), &memory));
    if (n) memcpy(memory, from, (size_t)n * sizeof *from);
    *to = memory;
    return TW_OK;
}

static tw_status append(tw_planner *planner, const tw_step *step)
{
    tw_plan *plan = planner->plan;
    int64_t capacity = planner->step_capacity;
    TW_TRY(tw_grow((void **)&plan->steps, &capacity, plan->n_steps + 1, sizeof *plan->steps));
    planner->step_capacity = (int32_t)capacity;
    plan->steps[plan->n_steps++] = *step;
    return TW_OK;
}

/* May `output` be written over its donor while this step still reads that? */
static bool safe_in_place(const tw_planner *planner, const tw_step *step, tw_tensor output)
{
    tw_tensor donor = planner->graph->tensors[output].donor;
    const tw_problem *p = &step->problem;
    for (int32_t i = 0; i < p->n_in; i++) {
        tw_tensor t = step->in_tensors[i];
        if (t == TW_NONE || planner->tensors[t].root != donor) continue;
        bool allowed = i < 32 && (step->kernel->impl->in_place >> i & 1) && !p->epilogue;
        if (!allowed || !tw_planner_same_view(planner, t, output)) return false;
    }
    for (int32_t i = 0; p->epilogue && i < p->epilogue->n_loads; i++) {
        tw_tensor t = step->load_tensors[i];
        if (planner->tensors[t].root == donor && !tw_planner_same_view(planner, t, output))
            return false;
    }
    return true;
}

static tw_status write_donations(tw_planner *planner, const tw_step *step)
{
    const tw_problem *p = &step->problem;
    int32_t n_stores = p->epilogue ? p->epilogue->n_stores : 0;
    for (int32_t i = 0; i < p->n_out + n_stores; i++) {
        bool anchor = i < p->n_out;
        if (anchor && i == 0 && p->epilogue) continue;
        tw_tensor t = anchor ? step->out_tensors[i] : step->store_tensors[i - p->n_out];
        if (t == TW_NONE || planner->graph->tensors[t].donor == TW_NONE) continue;
        if (safe_in_place(planner, step, t)) continue;
        planner->tensors[t].shadow = true;
        TW_TRY(tw_planner_copy_step(planner, t));
    }
    return TW_OK;
}

static tw_status finish(tw_planner *planner, draft *d, choice *c)
{
    tw_arena *arena = &planner->plan->arena;
    const tw_problem *p = &d->step.problem;
    d->step.kernel = c->kernel;
    d->step.n_ops = d->group->n_ops;
    d->step.state = c->prepare.state;
    d->step.scratch_bytes = c->prepare.workspace;
    if (p->epilogue) {
        TW_TRY(keep(arena, d->loads, p->epilogue->n_loads, &d->step.load_tensors));
        TW_TRY(keep(arena, d->stores, p->epilogue->n_stores, &d->step.store_tensors));
    }
    TW_TRY(tw_report_step(planner->plan, &d->step));
    tw_report_choice(planner->plan, &d->step, planner->plan->n_steps, c->refusals.data);
    TW_TRY(append(planner, &d->step));
    for (int32_t i = 0; i < d->group->n_ops; i++) {
        planner->done[d->group->ops[i]] = true;
        planner->step_of[d->group->ops[i]] = planner->plan->n_steps - 1;
    }
    return write_donations(planner, &d->step);
}

/* No row at all: only possible by the caller's own limits. */
static tw_status nothing_fits(const tw_planner *planner, const tw_problem *problem, const choice *c)
{
    if (planner->script)
        return tw_fail(TW_NOT_FOUND, "%s: the saved plan's kernel cannot run here:\n%s",
                       problem->info->name, c->refusals.data ? c->refusals.data : "");
    tw_status status = planner->scratch_limit ? TW_WORKSPACE_TOO_SMALL : TW_NOT_SUPPORTED;
    return tw_fail(status, "%s: no kernel is left under the plan's options:\n%s",
                   problem->info->name, c->refusals.data ? c->refusals.data : "");
}

/* The groups of a saved plan are those that it was made with. */
static tw_status follow_script(const tw_planner *planner, tw_group *group)
{
    int32_t step = planner->plan->n_steps;
    if (!planner->script) return TW_OK;
    bool fits = step < planner->n_script && planner->script[step].n_ops >= 1 &&
                planner->script[step].n_ops <= group->n_ops;
    TW_REQUIRE(fits, TW_NOT_FOUND, "step %d of the saved plan cannot be repeated by this library",
               (int)step);
    group->n_ops = planner->script[step].n_ops;
    return TW_OK;
}

tw_status tw_planner_select(tw_planner *planner, tw_group *group)
{
    tw_status status;
    TW_TRY(follow_script(planner, group));
    for (;;) {
        draft d = {.group = group};
        choice c = {0};
        TW_TRY_OUT(problem_of(planner, group, &d));
        TW_TRY_OUT(choose(planner, &d.step.problem, &c));
        bool fast = c.kernel && !c.kernel->reference;
        if (!fast && group->n_ops > 1 && !planner->script) {
            group->n_ops--;
            tw_text_free(&c.refusals);
            continue;
        }
        if (!c.kernel)
            status = nothing_fits(planner, &d.step.problem, &c);
        else if (!fast && c.has_fast && (planner->plan->options.flags & TW_NO_REFERENCE))
            status =
                tw_fail(TW_NOT_SUPPORTED,
                        "%s would run on its reference kernel, which TW_NO_REFERENCE forbids:\n%s",
                        d.step.problem.info->name, c.refusals.data ? c.refusals.data : "");
        else
            status = finish(planner, &d, &c);
    out:
        tw_text_free(&c.refusals);
        return status;
    }
}

/* ---- Patterns -------------------------------------------------------------------------------- */

static tw_status draft_match(tw_planner *planner, const tw_pattern *pattern, const tw_match *match,
                             draft *d)
{
    tw_arena *arena = &planner->plan->arena;
    void *attrs;
    TW_TRY(tw_arena_alloc(arena, 1, sizeof(tw_attrs), &attrs));
    memcpy(attrs, &match->attrs, sizeof match->attrs);
    tw_problem *p = &d->step.problem;
    *p = (tw_problem){.info = tw_op_info_of(pattern->kind),
                      .attrs = attrs,
                      .n_in = match->n_in,
                      .n_out = match->n_out,
                      .flags = planner->plan->options.flags,
                      .max_threads = planner->plan->options.max_threads,
                      .workspace_limit = scratch_limit(planner)};
    TW_TRY(keep(arena, match->in, match->n_in, &d->step.in_tensors));
    TW_TRY(keep(arena, match->out, match->n_out, &d->step.out_tensors));
    TW_TRY(views_of(planner, match->in, match->n_in, &p->in));
    return views_of(planner, match->out, match->n_out, &p->out);
}

tw_status tw_planner_select_match(tw_planner *planner, const tw_pattern *pattern,
                                  const tw_match *match, bool *taken)
{
    tw_group group = {.n_ops = match->n_ops};
    memcpy(group.ops, match->ops, (size_t)match->n_ops * sizeof match->ops[0]);
    draft d = {.group = &group};
    choice c = {0};
    tw_status status = draft_match(planner, pattern, match, &d);
    if (status == TW_OK) status = choose(planner, &d.step.problem, &c);
    *taken = status == TW_OK && c.kernel;
    if (*taken) status = finish(planner, &d, &c);
    tw_text_free(&c.refusals);
    return status;
}

/* ---- Copies of shadows ---------------------------------------------------------------------- */

tw_status tw_planner_copy_step(tw_planner *planner, tw_tensor tensor)
{
    tw_arena *arena = &planner->plan->arena;
    void *memory;
    TW_TRY(tw_arena_alloc(arena, 2, sizeof(tw_tensor), &memory));
    tw_tensor *ends = memory;
    ends[0] = tensor;                                /* read from the workspace … */
    ends[1] = planner->graph->tensors[tensor].donor; /* … written to the caller's memory */
    TW_TRY(tw_arena_alloc(arena, 1, sizeof(tw_attrs), &memory));
    draft d = {0};
    choice c = {0};
    tw_problem *p = &d.step.problem;
    *p = (tw_problem){.info = tw_op_info_of(TW_OP_EXPAND),
                      .attrs = memory,
                      .n_in = 1,
                      .n_out = 1,
                      .max_threads = planner->plan->options.max_threads};
    TW_TRY(views_of(planner, &ends[0], 1, &p->in));
    TW_TRY(views_of(planner, &ends[1], 1, &p->out));
    d.step.in_tensors = &ends[0];
    d.step.out_tensors = &ends[1];
    tw_group none = {0};
    d.group = &none;
    tw_status status = choose(planner, p, &c);
    if (status == TW_OK && !c.kernel) status = nothing_fits(planner, p, &c);
    if (status == TW_OK) status = finish(planner, &d, &c);
    tw_text_free(&c.refusals);
    return status;
}
