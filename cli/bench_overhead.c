/* SPDX-License-Identifier: Apache-2.0 */
/* Nanoseconds of what surrounds a kernel: a call, the plan cache, planning, an empty loop. */
#include <stdio.h>

#include "bench.h"
#include "core/error.h"

typedef struct call {
    tw_graph *graph;
    tw_plan *plan;
    tw_context *context;
    operands set;
    tw_binding bindings[MAX_OPERANDS];
    int32_t n_bindings;
    machine *m;
} call;

static const problem tiny = {.text = "pointwise mode=add dims=1", .name = "", .count = 1};

static tw_status run_held(void *state)
{
    call *c = state;
    return tw_run(c->plan, NULL, c->n_bindings, c->bindings, NULL, 0);
}

static tw_status run_cached(void *state)
{
    call *c = state;
    tw_plan *plan;
    TW_TRY(tw_plan_cached(c->graph, NULL, &plan));
    tw_status status = tw_run(plan, NULL, c->n_bindings, c->bindings, NULL, 0);
    tw_plan_free(plan);
    return status;
}

/* The same addition as a simple call, which finds the plan by its description. */
static tw_status run_simple(void *state)
{
    static const tw_pointwise_attrs add = {.mode = TW_PW_ADD};
    static const tw_tensor_desc one = {.dtype = TW_F32, .rank = 1, .dims = {1}};
    static float a = 1, b = 2, y;
    (void)state;
    return tw_pointwise(
        &(tw_pointwise_call){.a = {&one, &a}, .b = {&one, &b}, .y = {&one, &y}, .attrs = &add});
}

static tw_status make_plan(void *state)
{
    call *c = state;
    tw_plan *plan;
    TW_TRY(tw_plan_create(c->graph, NULL, &plan));
    tw_plan_free(plan);
    return TW_OK;
}

static tw_status make_graph(void *state)
{
    tw_graph *graph;
    (void)state;
    TW_TRY(tw_problem_graph(tiny.text, &graph));
    tw_graph_free(graph);
    return TW_OK;
}

static void nothing(void *arg, int64_t index) { (void)arg, (void)index; }

static tw_status empty_loop(void *state)
{
    call *c = state;
    return tw_context_for(c->m->context, c->m->threads, nothing, NULL);
}

static tw_status prepare(call *c)
{
    TW_TRY(problem_graph(&tiny, &c->graph));
    TW_TRY(tw_plan_create(c->graph, NULL, &c->plan));
    TW_REQUIRE(tw_plan_workspace(c->plan) == 0, TW_INTERNAL, "one operation needs a workspace");
    TW_TRY(operands_make(&c->set, c->graph, c->plan, false));
    TW_TRY(operands_fill(&c->set, &tiny, FILL_RANDOM, 1));
    c->n_bindings = operands_bind(&c->set, c->bindings);
    return TW_OK;
}

tw_status bench_overhead(machine *m, double seconds)
{
    static const struct {
        const char *what;
        tw_status (*run)(void *state);
    } rows[] = {{"tw_run, one addition, plan held", run_held},
                {"tw_pointwise, the same addition", run_simple},
                {"tw_plan_cached and tw_run", run_cached},
                {"tw_plan_create", make_plan},
                {"tw_problem_graph", make_graph},
                {"empty parallel loop", empty_loop}};
    call c = {.m = m};
    tw_status status = prepare(&c);
    if (status == TW_OK) printf("%10s %10s %10s  %s\n", "median ns", "min", "p90", "what");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == TW_OK; i++) {
        bench_times t;
        status = bench_sample(rows[i].run, &c, seconds, &t);
        if (status == TW_OK)
            printf("%10.1f %10.1f %10.1f  %s\n", t.median * 1e9, t.least * 1e9, t.p90 * 1e9,
                   rows[i].what);
    }
    operands_free(&c.set);
    tw_plan_free(c.plan);
    tw_graph_free(c.graph);
    return status;
}
