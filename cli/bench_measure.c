/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "core/error.h"
#include "core/os.h"

enum { MAX_SAMPLES = 2000, LEAST_SAMPLES = 5, SAMPLE_NANOSECONDS = 20000, MAX_COPIES = 4096 };

/* ---- Sampling -------------------------------------------------------------------------------- */

typedef struct sampler {
    tw_status (*run)(void *state);
    void *state;
    int64_t repeat; /* runs in one sample */
    double *seconds;
    int64_t n;
} sampler;

static tw_status time_runs(const sampler *s, int64_t runs, double *seconds)
{
    int64_t start = tw_os_nanoseconds();
    for (int64_t i = 0; i < runs; i++) TW_TRY(s->run(s->state));
    *seconds = (double)(tw_os_nanoseconds() - start) * 1e-9;
    return TW_OK;
}

/* Until clocks and caches have settled: a tenth of the time, and until a sample is long enough. */
static tw_status warm_up(sampler *s, double budget)
{
    int64_t start = tw_os_nanoseconds();
    s->repeat = 1;
    for (;;) {
        double seconds;
        TW_TRY(time_runs(s, s->repeat, &seconds));
        bool settled = (double)(tw_os_nanoseconds() - start) * 1e-9 >= budget / 10;
        if (seconds * 1e9 < SAMPLE_NANOSECONDS)
            s->repeat *= 2;
        else if (settled)
            return TW_OK;
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bench_times summary(sampler *s)
{
    qsort(s->seconds, (size_t)s->n, sizeof *s->seconds, by_size);
    return (bench_times){.median = s->seconds[s->n / 2],
                         .least = s->seconds[0],
                         .p90 = s->seconds[(s->n - 1) * 9 / 10],
                         .samples = s->n};
}

/* Samples of all, in turns. */
static tw_status sample_all(sampler *s, int n, double budget, bench_times *times)
{
    for (int i = 0; i < n; i++) {
        s[i].seconds = tw_malloc(MAX_SAMPLES * sizeof(double));
        if (!s[i].seconds) return tw_fail_memory(MAX_SAMPLES * sizeof(double));
        TW_TRY(warm_up(&s[i], budget));
    }
    int64_t start = tw_os_nanoseconds(), samples = 0;
    while (samples < MAX_SAMPLES &&
           (samples < LEAST_SAMPLES ||
            (double)(tw_os_nanoseconds() - start) * 1e-9 < budget * (double)n)) {
        for (int i = 0; i < n; i++) {
            double seconds;
            TW_TRY(time_runs(&s[i], s[i].repeat, &seconds));
            s[i].seconds[s[i].n++] = seconds / (double)s[i].repeat;
        }
        samples++;
    }
    for (int i = 0; i < n; i++) times[i] = summary(&s[i]);
    return TW_OK;
}

tw_status bench_sample(tw_status (*run)(void *state), void *state, double seconds,
                       bench_times *times)
{
    sampler s = {.run = run, .state = state};
    tw_status status = sample_all(&s, 1, seconds, times);
    tw_free(s.seconds);
    return status;
}

/* ---- Tilework as a contender ----------------------------------------------------------------- */

typedef struct own {
    tw_graph *graph;
    tw_plan *plan;
    tw_context *context;
    operands *sets; /* of buffers, taken in turns */
    int64_t n_sets, next;
    void *workspace;
    tw_step_info step;
} own;

static void own_close(void *state)
{
    own *o = state;
    for (int64_t i = 0; i < o->n_sets; i++) operands_free(&o->sets[i]);
    tw_free(o->sets);
    tw_free(o->workspace);
    tw_plan_free(o->plan);
    tw_graph_free(o->graph);
    tw_free(o);
}

/* One set that stays in the cache, or more than fit into it twice (in a quarter of memory). */
static int64_t count_sets(const operands *set, const bench_options *options, const machine *m)
{
    int64_t bytes = 1;
    for (int32_t i = 0; i < set->n; i++) bytes += set->items[i].bytes;
    if (!options->cold) return 1;
    int64_t room =
        2 * m->cache_bytes < m->memory_bytes / 4 ? 2 * m->cache_bytes : m->memory_bytes / 4;
    int64_t n = room / bytes + 2;
    return n < MAX_COPIES ? n : MAX_COPIES;
}

static tw_status make_sets(own *o, const problem *p, const bench_options *options, const machine *m)
{
    operands first;
    TW_TRY(operands_make(&first, o->graph, o->plan, false));
    int64_t n = count_sets(&first, options, m);
    void *memory = NULL;
    tw_status status = tw_calloc(n, sizeof(operands), &memory);
    if (status != TW_OK) {
        operands_free(&first);
        return status;
    }
    o->sets = memory;
    o->sets[o->n_sets++] = first;
    TW_TRY(operands_fill(&o->sets[0], p, FILL_RANDOM, 1));
    for (; o->n_sets < n; o->n_sets++) {
        TW_TRY(operands_make(&o->sets[o->n_sets], o->graph, o->plan, false));
        operands_copy_inputs(&o->sets[o->n_sets], &o->sets[0]);
    }
    return TW_OK;
}

static tw_status own_fill(own *o, const problem *p, const bench_options *options, machine *m)
{
    const tw_plan_options plan_options = {
        .size = sizeof plan_options, .kernel = options->kernel, .max_threads = m->threads};
    o->context = m->context;
    TW_TRY(problem_graph(p, &o->graph));
    TW_TRY(tw_plan_create(o->graph, &plan_options, &o->plan));
    o->step.size = sizeof o->step;
    if (tw_plan_step_count(o->plan) > 0) TW_TRY(tw_plan_step(o->plan, 0, &o->step));
    TW_TRY(make_sets(o, p, options, m));
    o->workspace = tw_malloc((size_t)tw_plan_workspace(o->plan));
    return o->workspace ? TW_OK : tw_fail_memory((size_t)tw_plan_workspace(o->plan));
}

static tw_status own_open(const problem *p, const bench_options *options, machine *m, void **state)
{
    void *memory;
    TW_TRY(tw_calloc(1, sizeof(own), &memory));
    tw_status status = own_fill(memory, p, options, m);
    if (status != TW_OK)
        own_close(memory);
    else
        *state = memory;
    return status;
}

static tw_status own_run(void *state)
{
    own *o = state;
    tw_binding bindings[MAX_OPERANDS];
    int32_t n = operands_bind(&o->sets[o->next], bindings);
    o->next = o->next + 1 < o->n_sets ? o->next + 1 : 0;
    return tw_run(o->plan, o->context, n, bindings, o->workspace, tw_plan_workspace(o->plan));
}

static const char *own_kernel(const void *state)
{
    const own *o = state;
    return o->step.kernel ? o->step.kernel : "(nothing to do)";
}

static const bench_contender tilework = {
    .name = "tilework", .open = own_open, .run = own_run, .kernel = own_kernel, .close = own_close};

const bench_contender *const bench_contenders[] = {&tilework, NULL};
enum { CONTENDERS = sizeof bench_contenders / sizeof bench_contenders[0] - 1 };

/* ---- One problem ----------------------------------------------------------------------------- */

static tw_status find_bound(const problem *p, const bench_options *options, machine *m,
                            bench_result *r)
{
    tw_graph *graph;
    TW_TRY(problem_graph(p, &graph));
    for (int32_t i = 0; i < tw_graph_op_count(graph); i++) {
        tw_operation_info info;
        if (tw_graph_operation(graph, i, &info) != TW_OK) continue;
        r->flops += info.flops;
        r->bytes += info.bytes;
    }
    tw_graph_free(graph);
    double bandwidth, size = r->bytes;
    if (options->cold && size < 2.0 * (double)m->cache_bytes) size = 2.0 * (double)m->cache_bytes;
    TW_TRY(machine_bandwidth(m, size, &bandwidth));
    double compute = r->flops / m->flops, memory = r->bytes / bandwidth;
    r->compute_bound = compute > memory;
    r->bound = r->compute_bound ? compute : memory;
    return TW_OK;
}

tw_status bench_measure(const problem *p, const bench_options *options, machine *m,
                        bench_result *result)
{
    void *states[CONTENDERS] = {NULL};
    sampler samplers[CONTENDERS] = {{0}};
    bench_times times[CONTENDERS];
    tw_status status;
    *result = (bench_result){.problem = p};
    for (int i = 0; i < CONTENDERS; i++) {
        TW_TRY_OUT(bench_contenders[i]->open(p, options, m, &states[i]));
        samplers[i] = (sampler){.run = bench_contenders[i]->run, .state = states[i]};
    }
    snprintf(result->kernel, sizeof result->kernel, "%s", bench_contenders[0]->kernel(states[0]));
    TW_TRY_OUT(find_bound(p, options, m, result));
    TW_TRY_OUT(sample_all(samplers, CONTENDERS, options->seconds, times));
    result->times = times[0];
    result->fraction = times[0].median > 0 ? result->bound / times[0].median : 0;
out:
    for (int i = 0; i < CONTENDERS; i++) {
        tw_free(samplers[i].seconds);
        if (states[i]) bench_contenders[i]->close(states[i]);
    }
    return status;
}
