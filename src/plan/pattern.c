/* SPDX-License-Identifier: Apache-2.0 */
/* Matching of the families' patterns against the graph, operation by operation. */
#include "ops/pattern.h"

#include <string.h>

#include "plan/planner.h"

static tw_match_op show_op(const tw_matcher *matcher, int32_t index)
{
    const tw_planner *planner = matcher->planner;
    const tw_op *op = &planner->graph->ops[index];
    return (tw_match_op){.kind = op->info->kind,
                         .attrs = &op->attrs,
                         .n_in = op->n_in,
                         .n_out = op->n_out,
                         .in = op->in,
                         .out = op->out};
}

static bool reads(const tw_op *op, tw_tensor tensor)
{
    for (int32_t i = 0; i < op->n_in; i++)
        if (op->in[i] == tensor) return true;
    return false;
}

static int32_t find_reader(const tw_matcher *matcher, tw_tensor tensor, int32_t n)
{
    const tw_planner *planner = matcher->planner;
    for (int64_t o = 0; o < planner->graph->n_ops; o++)
        if (planner->live[o] && !planner->done[o] && reads(&planner->graph->ops[o], tensor) &&
            n-- == 0)
            return (int32_t)o;
    return -1;
}

static bool is_available(const tw_matcher *matcher, tw_tensor tensor)
{
    return tw_planner_available(matcher->planner, tensor);
}

static bool is_needed(const tw_matcher *matcher, tw_tensor tensor, int32_t n, const int32_t *ops)
{
    return tw_planner_needed(matcher->planner, tensor, n, ops);
}

/* Does the saved plan's next step, or the caller, name a row of this kind? */
static bool names_row(tw_op_kind kind, const char *name)
{
    const tw_family *family = tw_family_of(kind);
    for (int32_t k = 0; name && k < family->n_kernels; k++)
        if (family->kernels[k].kind == kind && strcmp(family->kernels[k].name, name) == 0)
            return true;
    return false;
}

static bool may_try(const tw_planner *planner, const tw_pattern *pattern)
{
    int32_t step = planner->plan->n_steps;
    if (planner->script)
        return step < planner->n_script && names_row(pattern->kind, planner->script[step].kernel);
    const tw_plan_options *options = &planner->plan->options;
    if (options->flags & TW_ONLY_REFERENCE) return false;
    if (!(options->flags & TW_NO_FUSION) && !options->kernel) return true;
    return names_row(pattern->kind, options->kernel);
}

/* Donated inputs make the order of steps matter: such operations are scheduled one by one. */
static bool takes_over_memory(const tw_planner *planner, const tw_match *match)
{
    for (int32_t i = 0; i < match->n_out; i++)
        if (match->out[i] != TW_NONE && planner->graph->tensors[match->out[i]].donor != TW_NONE)
            return true;
    return false;
}

tw_status tw_planner_pattern(tw_planner *planner, int32_t op, bool *taken)
{
    const tw_matcher matcher = {.planner = planner,
                                .op = show_op,
                                .reader = find_reader,
                                .available = is_available,
                                .needed = is_needed};
    tw_op_kind kind = planner->graph->ops[op].info->kind;
    *taken = false;
    for (int32_t f = 0; f < tw_n_families; f++)
        for (int32_t p = 0; p < tw_families[f]->n_patterns && !*taken; p++) {
            const tw_pattern *pattern = &tw_families[f]->patterns[p];
            tw_match match = {.n_ops = 0};
            if (pattern->root != kind || !may_try(planner, pattern)) continue;
            if (!pattern->match(&matcher, op, &match) || takes_over_memory(planner, &match))
                continue;
            tw_status status = tw_planner_select_match(planner, pattern, &match, taken);
            if (status != TW_OK) return status;
        }
    return TW_OK;
}
