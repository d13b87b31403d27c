/* SPDX-License-Identifier: Apache-2.0 */
/* Making plans: the passes in order, and what to do when the workspace is too large. */
#include <string.h>

#include "core/error.h"
#include "core/log.h"
#include "core/os.h"
#include "plan/planner.h"

static tw_status check_options(const tw_plan_options *options)
{
    uint32_t known = TW_ALLOW_NONDETERMINISTIC | TW_ALLOW_TF32 | TW_NO_REFERENCE | TW_NO_FUSION |
                     TW_FLUSH_SUBNORMALS | TW_ONLY_REFERENCE;
    TW_REQUIRE(options->size == 0 || options->size >= sizeof *options, TW_INVALID_ARGUMENT,
               "options->size is %zu; it must be 0 or sizeof(tw_plan_options), %zu", options->size,
               sizeof *options);
    TW_REQUIRE(!options->has_workspace_limit || options->workspace_limit >= 0, TW_INVALID_ARGUMENT,
               "workspace_limit is %lld; it must be 0 or more",
               (long long)options->workspace_limit);
    TW_REQUIRE((options->flags & ~known) == 0, TW_INVALID_ARGUMENT,
               "flags are %#x; %#x of them are unknown", (unsigned)options->flags,
               (unsigned)(options->flags & ~known));
    TW_REQUIRE((options->flags & (TW_NO_REFERENCE | TW_ONLY_REFERENCE)) !=
                   (TW_NO_REFERENCE | TW_ONLY_REFERENCE),
               TW_INVALID_ARGUMENT, "flags have both TW_NO_REFERENCE and TW_ONLY_REFERENCE");
    TW_REQUIRE(options->phase >= TW_PHASE_ALL && options->phase <= TW_PHASE_BACKWARD,
               TW_INVALID_ARGUMENT, "phase is %d; it must be a tw_phase, 0 to 2",
               (int)options->phase);
    TW_REQUIRE(!options->has_max_isa || (options->max_isa >= 0 && options->max_isa < TW_ISA_END),
               TW_INVALID_ARGUMENT, "max_isa is %d; it must be a tw_isa, 0 to %d",
               (int)options->max_isa, TW_ISA_END - 1);
    TW_REQUIRE(options->max_threads >= 0 && options->max_threads <= 1024, TW_INVALID_ARGUMENT,
               "max_threads is %d; it must be 0 (one for each CPU) to 1024",
               (int)options->max_threads);
    return TW_OK;
}

static tw_status check_kernel_name(const char *name)
{
    if (!name) return TW_OK;
    for (int32_t f = 0; f < tw_n_families; f++)
        for (int32_t k = 0; k < tw_families[f]->n_kernels; k++)
            if (strcmp(tw_families[f]->kernels[k].name, name) == 0) return TW_OK;
    return tw_fail(TW_NOT_FOUND, "kernel '%s' does not exist; `tw list` prints all names", name);
}

void tw_plan_free(tw_plan *plan)
{
    if (!plan || atomic_fetch_sub(&plan->shares, 1) > 1) return;
    tw_graph_free(plan->graph);
    tw_free(plan->steps);
    tw_free(plan->slots);
    tw_text_free(&plan->explanation);
    tw_arena_free(&plan->arena);
    tw_free(plan);
}

static tw_status start(const tw_graph *graph, const tw_plan_options *options, tw_plan **plan)
{
    void *memory;
    TW_TRY(tw_calloc(1, sizeof(tw_plan), &memory));
    tw_plan *p = memory;
    tw_status status;
    atomic_init(&p->shares, 1);
    p->options = *options;
    if (p->options.max_threads == 0) p->options.max_threads = tw_os_cpu_count();
    if (options->kernel)
        TW_TRY_OUT(tw_arena_string(&p->arena, options->kernel, &p->options.kernel));
    TW_TRY_OUT(tw_graph_copy(graph, &p->graph));
    *plan = p;
    return TW_OK;
out:
    tw_plan_free(p);
    return status;
}

static tw_status schedule(tw_planner *planner)
{
    TW_TRY(tw_planner_order(planner));
    TW_TRY(tw_planner_layout(planner));
    for (int32_t p = 0; p < planner->n_order; p++) {
        int32_t o = planner->order[p];
        const tw_op *op = &planner->graph->ops[o];
        if (planner->done[o]) continue;
        if (planner->tensors[op->out[0]].root != op->out[0]) {
            planner->done[o] = true; /* an alias: nothing to run */
            continue;
        }
        bool taken;
        TW_TRY(tw_planner_pattern(planner, o, &taken));
        if (taken) continue;
        tw_group group;
        TW_TRY(tw_planner_group(planner, p, &group));
        TW_TRY(tw_planner_select(planner, &group));
    }
    return tw_planner_memory(planner);
}

/* One attempt: `planner` has the limits or the script. */
static tw_status build(const tw_graph *graph, const tw_plan_options *options, tw_planner planner,
                       tw_plan **plan)
{
    TW_TRY(start(graph, options, plan));
    planner.plan = *plan;
    planner.graph = (*plan)->graph;
    tw_status status = schedule(&planner);
    if (status == TW_OK && planner.recompute)
        status = tw_planner_find_recompute(&planner, planner.recompute);
    if (status == TW_OK) status = tw_text_status(&(*plan)->explanation);
    tw_arena_free(&planner.scratch);
    if (status != TW_OK) {
        tw_plan_free(*plan);
        *plan = NULL;
    }
    return status;
}

tw_status tw_plan_from_script(const tw_graph *graph, const tw_plan_options *options,
                              const tw_script_step *script, int32_t n_script, tw_plan **plan)
{
    TW_TRY(check_options(options));
    tw_planner planner = {.script = script, .n_script = n_script};
    TW_TRY(build(graph, options, planner, plan));
    if ((*plan)->n_steps == n_script) return TW_OK;
    tw_plan_free(*plan);
    *plan = NULL;
    return tw_fail(TW_NOT_FOUND, "the saved plan has %d steps, this library makes another number",
                   (int)n_script);
}

/* Under a cap: what was tried, and the smallest plan so far. */
typedef struct shrinking {
    const tw_plan_options *options;
    int64_t *limit; /* scratch of each step */
    int32_t n_limit;
    tw_plan *best;
    tw_recompute next; /* for the best plan */
} shrinking;

/* Makes a plan and keeps it if it is smaller. */
static tw_status try_smaller(shrinking *s, const tw_graph *graph, int64_t scratch, bool *smaller)
{
    tw_recompute next = {.op = -1};
    tw_planner planner = {
        .scratch_limit = s->limit, .n_scratch_limit = s->n_limit, .recompute = &next};
    tw_plan *plan = NULL;
    for (int32_t i = 0; i < s->n_limit; i++) s->limit[i] = scratch;
    tw_status status = build(graph, s->options, planner, &plan);
    *smaller = status == TW_OK && plan->workspace < s->best->workspace;
    if (*smaller) {
        tw_plan_free(s->best);
        s->best = plan;
        s->next = next;
    } else
        tw_plan_free(plan);
    return status == TW_WORKSPACE_TOO_SMALL ? TW_OK : status;
}

/* Computes values twice, one after the other, as long as that helps. */
static tw_status recompute(shrinking *s, int64_t cap)
{
    bool smaller = true;
    tw_text note = {0};
    while (smaller && s->best->workspace > cap && s->next.op >= 0) {
        tw_graph *graph;
        tw_recompute what = s->next;
        TW_TRY(tw_graph_copy(s->best->graph, &graph));
        tw_status status = tw_recompute_apply(graph, &what);
        if (status == TW_OK) status = try_smaller(s, graph, 0, &smaller);
        tw_graph_free(graph);
        if (status != TW_OK) {
            tw_text_free(&note);
            return status;
        }
        if (smaller)
            tw_text_add(&note, "recomputed: tensor %d, %lld bytes\n", (int)what.tensor,
                        (long long)what.bytes);
    }
    if (note.data) tw_text_add(&s->best->explanation, "%s", note.data);
    tw_text_free(&note);
    return tw_text_status(&s->best->explanation);
}

/* First kernels that make do with less scratch, then none at all, then values computed twice. */
static tw_status shrink(const tw_graph *graph, const tw_plan_options *options, tw_plan **plan)
{
    int64_t cap = options->workspace_limit;
    shrinking s = {.options = options,
                   .n_limit = 4 * (*plan)->n_steps + 64,
                   .best = *plan,
                   .next = {.op = -1}};
    void *memory = NULL;
    bool smaller;
    tw_status status;
    *plan = NULL;
    TW_TRY_OUT(tw_calloc(s.n_limit, sizeof(int64_t), &memory));
    s.limit = memory;
    TW_TRY_OUT(try_smaller(&s, graph, cap / 2, &smaller));
    if (s.best->workspace > cap) TW_TRY_OUT(try_smaller(&s, graph, 0, &smaller));
    if (s.best->workspace > cap) TW_TRY_OUT(recompute(&s, cap));
    if (s.best->workspace > cap)
        status = tw_fail(TW_WORKSPACE_TOO_SMALL,
                         "workspace_limit is %lld bytes; this graph needs at least %lld",
                         (long long)cap, (long long)s.best->workspace);
out:
    tw_free(memory);
    if (status == TW_OK)
        *plan = s.best;
    else
        tw_plan_free(s.best);
    return status;
}

tw_status tw_plan_create(const tw_graph *graph, const tw_plan_options *options, tw_plan **plan)
{
    const tw_plan_options none = {0};
    if (!options) options = &none;
    TW_REQUIRE(graph && plan, TW_INVALID_ARGUMENT, "%s is NULL", graph ? "plan" : "graph");
    TW_TRY(check_options(options));
    TW_TRY(check_kernel_name(options->kernel));
    tw_plan *made = NULL;
    TW_TRY(build(graph, options, (tw_planner){.plan = NULL}, &made));
    if (options->has_workspace_limit && made->workspace > options->workspace_limit)
        TW_TRY(shrink(graph, options, &made));
    tw_log(TW_LOG_PLAN, "plan of %d steps, %lld bytes of workspace\n%s", (int)made->n_steps,
           (long long)made->workspace, made->explanation.data ? made->explanation.data : "");
    *plan = made;
    return TW_OK;
}

int64_t tw_plan_workspace(const tw_plan *plan) { return plan ? plan->workspace : 0; }

const char *tw_plan_explain(const tw_plan *plan)
{
    return plan && plan->explanation.data ? plan->explanation.data : "";
}

int32_t tw_plan_step_count(const tw_plan *plan) { return plan ? plan->n_steps : 0; }

tw_status tw_plan_step(const tw_plan *plan, int32_t step, tw_step_info *info)
{
    TW_REQUIRE(plan && info, TW_INVALID_ARGUMENT, "%s is NULL", plan ? "info" : "plan");
    TW_REQUIRE(step >= 0 && step < plan->n_steps, TW_INVALID_ARGUMENT,
               "step is %d; the plan has %d steps, from 0", (int)step, (int)plan->n_steps);
    const tw_step *s = &plan->steps[step];
    *info = (tw_step_info){.size = sizeof *info,
                           .kernel = s->kernel->name,
                           .problem = s->text,
                           .name = s->name,
                           .workspace_bytes = s->scratch_bytes,
                           .reference = s->kernel->reference};
    return TW_OK;
}

int32_t tw_plan_binding_count(const tw_plan *plan) { return plan ? plan->n_slots : 0; }

int64_t tw_plan_binding_uid(const tw_plan *plan, int32_t index)
{
    return plan && index >= 0 && index < plan->n_slots ? plan->slots[index].uid : 0;
}
