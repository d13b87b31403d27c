/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that runs out at the n-th allocation, for every n until nothing fails any more: each call
 * gives TW_OUT_OF_MEMORY, leaves its objects as they were, and leaks nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tilework/tilework.h>

#include "small_network.h"

static int64_t live, countdown = -1; /* blocks; allocations until one fails, -1: never */

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (countdown == 0) return NULL;
    if (countdown > 0) countdown--;
    void *p = NULL;
    if (posix_memalign(&p, alignment < sizeof p ? sizeof p : alignment, bytes ? bytes : 1) != 0)
        return NULL;
    live++;
    return p;
}

static void release(void *user, void *pointer, size_t bytes)
{
    (void)user;
    (void)bytes;
    if (pointer) live--;
    free(pointer);
}

/* Runs `action` with memory failing at the n-th allocation, for n = 0, 1, … until it succeeds. */
static void exhaust(tw_status (*action)(void *arg), void (*clean)(void *arg), void *arg)
{
    for (int64_t n = 0;; n++) {
        assert_true(n < 100000);
        int64_t before = live;
        countdown = n;
        tw_status status = action(arg);
        countdown = -1;
        if (status != TW_OK) {
            if (status != TW_OUT_OF_MEMORY)
                fail_msg("allocation %lld failed, and the call gave %s: %s", (long long)n,
                         tw_status_name(status), tw_last_error());
            assert_true(strlen(tw_last_error()) > 0);
        }
        clean(arg);
        assert_int_equal(live, before);
        if (status == TW_OK) return;
    }
}

static tw_status do_build(void *arg) { return build(arg); }

static void drop_graph(void *arg)
{
    training *t = arg;
    tw_graph_free(t->graph);
    t->graph = NULL;
}

static void graphs(void **state)
{
    (void)state;
    training t = {.graph = NULL};
    exhaust(do_build, drop_graph, &t);
}

/* A failed differentiation leaves the graph as it was: the same call works afterwards. */
static void differentiation_rolls_back(void **state)
{
    (void)state;
    training t = {.graph = NULL};
    OK(tw_graph_create(&t.graph));
    OK(forward(&t));
    int32_t tensors = tw_graph_tensor_count(t.graph), ops = tw_graph_op_count(t.graph);
    for (int64_t n = 0;; n++) {
        countdown = n;
        tw_status status = backward(&t);
        countdown = -1;
        if (status == TW_OK) break;
        assert_int_equal(status, TW_OUT_OF_MEMORY);
        assert_int_equal(tw_graph_tensor_count(t.graph), tensors);
        assert_int_equal(tw_graph_op_count(t.graph), ops);
    }
    OK(updates(&t));
    tw_plan *plan;
    OK(tw_plan_create(t.graph, NULL, &plan));
    tw_plan_free(plan);
    tw_graph_free(t.graph);
}

typedef struct planning {
    tw_graph *graph;
    tw_plan *plan, *loaded;
    tw_plan_options options;
    void *saved;
    size_t n_saved;
} planning;

static tw_status do_plan(void *arg)
{
    planning *p = arg;
    return tw_plan_create(p->graph, &p->options, &p->plan);
}

static tw_status do_cached(void *arg)
{
    planning *p = arg;
    return tw_plan_cached(p->graph, &p->options, &p->plan);
}

static tw_status do_save(void *arg)
{
    planning *p = arg;
    return tw_plan_save(p->plan, &p->saved, &p->n_saved);
}

static tw_status do_load(void *arg)
{
    planning *p = arg;
    return tw_plan_load(p->saved, p->n_saved, 0, NULL, &p->loaded);
}

static void drop_plan(void *arg)
{
    planning *p = arg;
    tw_plan_free(p->plan);
    p->plan = NULL;
    tw_plan_cache_clear();
}

static void drop_saved(void *arg)
{
    planning *p = arg;
    tw_free(p->saved);
    p->saved = NULL;
}

static void drop_loaded(void *arg)
{
    planning *p = arg;
    tw_plan_free(p->loaded);
    p->loaded = NULL;
}

static void plans(void **state)
{
    (void)state;
    training t = {.graph = NULL};
    OK(build(&t));
    planning p = {.graph = t.graph};
    exhaust(do_plan, drop_plan, &p);
    exhaust(do_cached, drop_plan, &p);
    OK(do_plan(&p));
    p.options.has_workspace_limit = true; /* shrinking and computing twice allocate too */
    p.options.workspace_limit = tw_plan_workspace(p.plan) * 9 / 10;
    exhaust(do_save, drop_saved, &p);
    OK(do_save(&p));
    exhaust(do_load, drop_loaded, &p);
    tw_plan_free(p.plan);
    tw_free(p.saved);
    tw_graph_free(t.graph);
}

typedef struct other {
    tw_context *context;
    tw_graph *graph;
} other;

static tw_status do_context(void *arg)
{
    const tw_context_options options = {.threads = 3};
    return tw_context_create(&options, &((other *)arg)->context);
}

static void drop_context(void *arg)
{
    tw_context_free(((other *)arg)->context);
    ((other *)arg)->context = NULL;
}

static tw_status do_problem(void *arg)
{
    return tw_problem_graph("conv n=2 c=3 h=5 k=4 r=3 pad=1", &((other *)arg)->graph);
}

static void drop_problem(void *arg)
{
    tw_graph_free(((other *)arg)->graph);
    ((other *)arg)->graph = NULL;
}

static void contexts_and_problems(void **state)
{
    (void)state;
    other o = {.context = NULL};
    exhaust(do_context, drop_context, &o);
    exhaust(do_problem, drop_problem, &o);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void runs_allocate_nothing(void **state)
{
    (void)state;
    training t = {.graph = NULL};
    tw_binding bindings[32];
    tw_plan *plan;
    tw_context *context;
    OK(build(&t));
    OK(tw_plan_create(t.graph, NULL, &plan));
    const tw_context_options options = {.threads = 2};
    OK(tw_context_create(&options, &context));
    bind_all(&t, plan, bindings);
    int32_t n = tw_plan_binding_count(plan);
    void *workspace = tw_malloc((size_t)tw_plan_workspace(plan));
    OK(tw_run(plan, context, n, bindings, workspace, tw_plan_workspace(plan)));
    countdown = 0; /* any allocation fails, and the run with it */
    for (int i = 0; i < 5; i++)
        OK(tw_run(plan, context, n, bindings, workspace, tw_plan_workspace(plan)));
    countdown = -1;
    unbind_all(bindings, n);
    tw_free(workspace);
    tw_context_free(context);
    tw_plan_free(plan);
    tw_graph_free(t.graph);
}

int main(void)
{
    const tw_allocator hooks = {.allocate = allocate, .free = release};
    if (tw_set_allocator(&hooks) != TW_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs), cmocka_unit_test(differentiation_rolls_back),
        cmocka_unit_test(plans), cmocka_unit_test(contexts_and_problems),
        cmocka_unit_test(runs_allocate_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
