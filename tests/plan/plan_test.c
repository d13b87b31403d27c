/* SPDX-License-Identifier: Apache-2.0 */
/* Whole plans: fused against unfused, cut in two, saved and loaded, cached, run by many threads. */
#include "small_network.h"

#include <math.h>
#include <string.h>

#include "core/os.h"

/* Runs a plan on fresh memory; the bindings keep the results. */
static void run(const training *t, const tw_plan *plan, tw_context *context, tw_binding *bindings)
{
    bind_all(t, plan, bindings);
    int64_t bytes = tw_plan_workspace(plan);
    void *workspace = tw_malloc((size_t)bytes + 1);
    memset(workspace, 0xFF, (size_t)bytes); /* NaN */
    OK(tw_run(plan, context, tw_plan_binding_count(plan), bindings, workspace, bytes));
    tw_free(workspace);
}

static int64_t bytes_of(const training *t, int64_t uid)
{
    tw_tensor_desc desc;
    OK(tw_graph_describe(t->graph, (tw_tensor)uid, &desc));
    return tw_desc_bytes(&desc);
}

static void same_bits(const training *t, const tw_binding *a, const tw_binding *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(a[i].uid, b[i].uid);
        assert_memory_equal(a[i].data, b[i].data, (size_t)bytes_of(t, a[i].uid));
    }
}

/* After one step of Adam a weight has moved by at most lr (here 1/64 to 13/64): rounding of
 * gradients can turn a tiny one's sign, so weights are compared where the bound is the step itself,
 * and the loss, which every kernel feeds, closely: some 300 terms, each rounded to f32. */
static void nearly_same(const training *t, const tw_binding *a, const tw_binding *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (a[i].uid != t->loss) continue;
        double x = (double)*(float *)a[i].data, y = (double)*(float *)b[i].data;
        assert_true(fabs(x - y) <= 4 * sqrt(300.0) * 0x1p-24 * (1 + fabs(y)));
        return;
    }
    fail_msg("the plan does not bind the loss");
}

static bool has_fused_step(const tw_plan *plan)
{
    return strstr(tw_plan_explain(plan), "then add+relu") != NULL;
}

static void fused_and_unfused(void **state)
{
    (void)state;
    training t;
    tw_binding fused[32], single[32], plain[32];
    tw_plan *plans[3];
    const uint32_t flags[3] = {0, TW_NO_FUSION, TW_ONLY_REFERENCE};
    OK(build(&t));
    for (int i = 0; i < 3; i++)
        OK(tw_plan_create(t.graph, &(tw_plan_options){.flags = flags[i]}, &plans[i]));
    assert_true(has_fused_step(plans[0]));
    assert_false(has_fused_step(plans[1]));
    assert_true(tw_plan_step_count(plans[0]) < tw_plan_step_count(plans[1]));
    run(&t, plans[0], NULL, fused);
    run(&t, plans[1], NULL, single);
    run(&t, plans[2], NULL, plain);
    int32_t n = tw_plan_binding_count(plans[0]);
    nearly_same(&t, fused, single, n);
    nearly_same(&t, fused, plain, n);
    unbind_all(fused, n), unbind_all(single, n), unbind_all(plain, n);
    for (int i = 0; i < 3; i++) tw_plan_free(plans[i]);
    tw_graph_free(t.graph);
}

/* ---- Forward and backward apart -------------------------------------------------------------- */

static tw_status build_for_cut(training *t, bool cut, tw_tensor *reserve)
{
    const tw_backward_options options = {.cut = cut};
    TRY(tw_graph_create(&t->graph));
    TRY(forward(t));
    TRY(tw_graph_output(t->graph, t->loss, NULL));
    TRY(tw_graph_backward(t->graph, 1, &t->loss, PARAMETERS, t->w, &options, t->grad, reserve));
    for (int i = 0; i < PARAMETERS; i++) TRY(tw_graph_output(t->graph, t->grad[i], NULL));
    return TW_OK;
}

static void *data_of(const tw_binding *bindings, int32_t n, int64_t uid)
{
    for (int32_t i = 0; i < n; i++)
        if (bindings[i].uid == uid) return bindings[i].data;
    return NULL;
}

static void cut_equals_whole(void **state)
{
    (void)state;
    training whole, cut;
    tw_tensor reserve = TW_NONE;
    tw_plan *all, *first, *second;
    tw_binding want[32], kept[32], got[32];
    OK(build_for_cut(&whole, false, NULL));
    OK(build_for_cut(&cut, true, &reserve));
    OK(tw_plan_create(whole.graph, NULL, &all));
    OK(tw_plan_create(cut.graph, &(tw_plan_options){.phase = TW_PHASE_FORWARD}, &first));
    OK(tw_plan_create(cut.graph, &(tw_plan_options){.phase = TW_PHASE_BACKWARD}, &second));
    run(&whole, all, NULL, want);
    run(&cut, first, NULL, kept);
    int32_t n_first = tw_plan_binding_count(first), n_second = tw_plan_binding_count(second);
    void *between = data_of(kept, n_first, reserve);
    assert_non_null(between);
    bind_all(&cut, second, got);
    for (int32_t i = 0; i < n_second; i++)
        if (got[i].uid == reserve) memcpy(got[i].data, between, (size_t)bytes_of(&cut, reserve));
    void *workspace = tw_malloc((size_t)tw_plan_workspace(second) + 1);
    OK(tw_run(second, NULL, n_second, got, workspace, tw_plan_workspace(second)));
    tw_free(workspace);
    for (int i = 0; i < PARAMETERS; i++) {
        const float *a = data_of(want, tw_plan_binding_count(all), whole.grad[i]);
        const float *b = data_of(got, n_second, cut.grad[i]);
        int64_t n = bytes_of(&cut, cut.grad[i]) / 4;
        for (int64_t k = 0; k < n; k++) /* one-pass and two-pass losses round differently */
            assert_true(fabs((double)a[k] - (double)b[k]) <= 0x1p-18 * (1 + fabs((double)a[k])));
    }
    assert_int_equal(tw_graph_backward(cut.graph, 1, &cut.loss, 1, cut.w, NULL, cut.grad, NULL),
                     TW_INVALID_ARGUMENT);
    unbind_all(want, tw_plan_binding_count(all)), unbind_all(kept, n_first);
    unbind_all(got, n_second);
    tw_plan_free(all), tw_plan_free(first), tw_plan_free(second);
    tw_graph_free(whole.graph), tw_graph_free(cut.graph);
}

/* ---- Saved plans ----------------------------------------------------------------------------- */

static void saved_plans_repeat(void **state)
{
    (void)state;
    training t;
    tw_plan *plan, *loaded;
    void *bytes;
    size_t n_bytes;
    tw_binding a[32], b[32];
    OK(build(&t));
    OK(tw_plan_create(t.graph, NULL, &plan));
    OK(tw_plan_save(plan, &bytes, &n_bytes));
    OK(tw_plan_load(bytes, n_bytes, 0, NULL, &loaded));
    assert_int_equal(tw_plan_step_count(plan), tw_plan_step_count(loaded));
    for (int32_t s = 0; s < tw_plan_step_count(plan); s++) {
        tw_step_info x = {.size = sizeof x}, y = {.size = sizeof y};
        OK(tw_plan_step(plan, s, &x));
        OK(tw_plan_step(loaded, s, &y));
        assert_string_equal(x.kernel, y.kernel);
    }
    run(&t, plan, NULL, a);
    run(&t, loaded, NULL, b);
    int32_t n = tw_plan_binding_count(plan);
    same_bits(&t, a, b, n);
    unbind_all(a, n), unbind_all(b, n);
    tw_plan_free(loaded);

    /* Cut anywhere, or with any one byte changed, it is refused. */
    char *copy = malloc(n_bytes);
    for (size_t k = 0; k < n_bytes; k += 7) {
        assert_int_not_equal(tw_plan_load(bytes, k, 0, NULL, &loaded), TW_OK);
        memcpy(copy, bytes, n_bytes);
        copy[k] = (char)(copy[k] ^ (1 << k % 8));
        assert_int_not_equal(tw_plan_load(copy, n_bytes, 0, NULL, &loaded), TW_OK);
    }
    memcpy(copy, bytes, n_bytes);
    copy[strlen("tilework-plan ")] = '7';
    assert_int_equal(tw_plan_load(copy, n_bytes, 0, NULL, &loaded), TW_VERSION_MISMATCH);
    free(copy);
    tw_free(bytes);
    tw_plan_free(plan);
    tw_graph_free(t.graph);
}

/* ---- Cache ----------------------------------------------------------------------------------- */

static void cached_plans(void **state)
{
    (void)state;
    training t;
    tw_plan *a, *b;
    tw_plan_cache_stats stats = {.size = sizeof stats};
    OK(build(&t));
    tw_plan_cache_clear();
    OK(tw_plan_cached(t.graph, NULL, &a));
    OK(tw_plan_cached(t.graph, NULL, &b));
    assert_ptr_equal(a, b);
    OK(tw_plan_cache_describe(&stats));
    assert_int_equal(stats.plans, 1);
    assert_true(stats.hits >= 1 && stats.bytes > 0);
    tw_plan_cache_limit(1); /* evicts it; the holders keep theirs */
    OK(tw_plan_cache_describe(&stats));
    assert_int_equal(stats.plans, 0);
    assert_true(tw_plan_step_count(a) > 0);
    tw_plan_cache_limit(64 << 20);
    tw_plan_free(a), tw_plan_free(b);
    tw_graph_free(t.graph);
}

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct worker {
    const training *t;
    const tw_plan *plan;
    tw_context *context;
    tw_binding bindings[32];
} worker;

static void work(void *arg)
{
    worker *w = arg;
    run(w->t, w->plan, w->context, w->bindings);
}

static void any_number_of_threads(void **state)
{
    (void)state;
    enum { WORKERS = 4 };
    training t;
    tw_plan *plan;
    tw_binding alone[32];
    worker workers[WORKERS];
    tw_thread *threads[WORKERS];
    tw_context *shared;
    const tw_context_options two = {.threads = 2};
    OK(build(&t));
    OK(tw_plan_create(t.graph, NULL, &plan));
    OK(tw_context_create(&two, &shared));
    run(&t, plan, NULL, alone);
    int32_t n = tw_plan_binding_count(plan);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.t = &t, .plan = plan, .context = shared};
        OK(tw_os_thread_start(work, &workers[i], &threads[i]));
    }
    for (int i = 0; i < WORKERS; i++) {
        tw_os_thread_join(threads[i]);
        same_bits(&t, alone, workers[i].bindings, n);
        unbind_all(workers[i].bindings, n);
    }
    for (int32_t count = 1; count <= 5; count++) {
        const tw_context_options options = {.threads = count};
        tw_context *context;
        tw_binding got[32];
        OK(tw_context_create(&options, &context));
        run(&t, plan, context, got);
        same_bits(&t, alone, got, n);
        unbind_all(got, n);
        tw_context_free(context);
    }
    unbind_all(alone, n);
    tw_context_free(shared);
    tw_plan_free(plan);
    tw_graph_free(t.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_and_unfused), cmocka_unit_test(cut_equals_whole),
        cmocka_unit_test(saved_plans_repeat), cmocka_unit_test(cached_plans),
        cmocka_unit_test(any_number_of_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
