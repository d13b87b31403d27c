/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"

enum { FILLS = 3, WORKSPACE_GUARD = 64, WORKSPACE_PATTERN = 0xFF };

/* The reference's answers for one kind of content. */
typedef struct oracle {
    operands want, magnitude, shifted[SHIFT_PATTERNS];
} oracle;

typedef struct bench {
    verifier *v;
    const problem *p;
    tw_graph *graph;
    tw_operation_info info;
    tw_plan *reference;
    oracle oracles[FILLS];
    const char *kernel; /* under test */
} bench;

/* ---- Reports --------------------------------------------------------------------------------- */

static void print_repeat(const bench *b)
{
    const char *limit = getenv("TW_MAX_ISA");
    printf("    %s%s%stw verify '%s' --kernel %s --seed %llu", limit ? "TW_MAX_ISA=" : "",
           limit ? limit : "", limit ? " " : "", b->p->text, b->kernel,
           (unsigned long long)b->v->seed);
    if (b->v->has_isa) printf(" --isa %s", tw_isa_name(b->v->isa));
    printf("\n");
}

/* d NULL: nothing to compare, `why` says all. */
static void report(bench *b, const char *check, bool good, const difference *d, const char *why)
{
    if (good)
        b->v->passed++;
    else
        b->v->failed++;
    if (good && !b->v->verbose) return;
    printf("%s %s %s '%s'", good ? "pass" : "FAIL", check, b->kernel, b->p->text);
    if (!good && d)
        printf(": %s[%s] is %.9g, should be %.9g, off by %.3g, allowed %.3g", d->name, d->index,
               d->got, d->want, fabs(d->got - d->want), d->allowed);
    if (!good && why) printf(": %s", why);
    printf("\n");
    if (!good) print_repeat(b);
    fflush(stdout);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* In a guarded workspace of exactly the size that the plan asks for. */
static tw_status run_plan(const tw_plan *plan, const operands *set, tw_context *context,
                          bool *guards)
{
    int64_t bytes = tw_plan_workspace(plan);
    size_t all = (size_t)bytes + (size_t)2 * WORKSPACE_GUARD;
    unsigned char *memory = tw_malloc(all);
    tw_binding bindings[MAX_OPERANDS];
    if (!memory) return tw_fail_memory(all);
    memset(memory, WORKSPACE_PATTERN, all);
    int32_t n = operands_bind(set, bindings);
    tw_status status = tw_run(plan, context, n, bindings, memory + WORKSPACE_GUARD, bytes);
    *guards = operands_guards_intact(set);
    for (int i = 0; i < WORKSPACE_GUARD; i++)
        *guards = *guards && memory[i] == WORKSPACE_PATTERN &&
                  memory[(size_t)bytes + WORKSPACE_GUARD + (size_t)i] == WORKSPACE_PATTERN;
    tw_free(memory);
    return status;
}

static bool inputs_untouched(const operands *set, const operands *original)
{
    for (int32_t i = 0; i < set->n; i++)
        if (!set->items[i].output &&
            memcmp(set->items[i].first, original->items[i].first, (size_t)set->items[i].bytes) != 0)
            return false;
    return true;
}

/* ---- The reference's answers ----------------------------------------------------------------- */

static double absolute(double value, int32_t index, void *arg)
{
    (void)index, (void)arg;
    return fabs(value);
}

/* Losses, their gradients and log-softmax are differences, of a logarithm and a logit, of a
 * probability and the label's. The size of the terms shows where all classes are equal. */
static double without_logits(double value, int32_t index, void *arg)
{
    (void)arg;
    return index == 0 ? 0 : value;
}

typedef struct shift {
    int pattern;
    double size;
    uint64_t state;
} shift;

static double shift_value(double value, int32_t index, void *arg)
{
    shift *s = arg;
    bool down = s->pattern == 1 ? (random_next(&s->state) & 1) != 0 : s->pattern == 2 && index % 2;
    return value * (down ? 1 - s->size : 1 + s->size);
}

/* Small, but more than the rounding of the widest steps among the inputs' types. */
static double shift_size(const operands *set)
{
    double size = 0x1p-14;
    for (int32_t i = 0; i < set->n; i++) {
        double step = 4 * tw_dtype_epsilon(set->items[i].desc.dtype);
        if (!set->items[i].output && step > size) size = step;
    }
    return size;
}

/* The reference on inputs that `function` changes. */
static tw_status ask_changed(const bench *b, const operands *want, operands *changed,
                             operand_function function, void *arg)
{
    bool guards;
    TW_TRY(operands_make(changed, b->graph, b->reference, false));
    operands_copy_inputs(changed, want);
    operands_map(changed, want, function, arg);
    return run_plan(b->reference, changed, NULL, &guards);
}

static tw_status ask(bench *b, fill how)
{
    oracle *o = &b->oracles[how];
    bool guards;
    TW_TRY(operands_make(&o->want, b->graph, b->reference, false));
    TW_TRY(operands_fill(&o->want, b->p, how, b->v->seed));
    TW_TRY(run_plan(b->reference, &o->want, NULL, &guards));
    TW_REQUIRE(guards, TW_INTERNAL, "the reference wrote outside its tensors");
    if (how == FILL_SPECIALS || b->info.exactness == TW_RESULT_EXACT) return TW_OK;
    bool sum = b->info.exactness == TW_RESULT_SUM;
    if (sum || strcmp(b->info.family, "loss") == 0 || strstr(b->p->text, " log=1"))
        TW_TRY(ask_changed(b, &o->want, &o->magnitude, sum ? absolute : without_logits, NULL));
    for (int i = 0; i < SHIFT_PATTERNS; i++) {
        shift s = {.pattern = i, .size = shift_size(&o->want), .state = b->v->seed};
        TW_TRY(ask_changed(b, &o->want, &o->shifted[i], shift_value, &s));
    }
    return TW_OK;
}

static void free_oracle(oracle *o)
{
    operands_free(&o->want);
    operands_free(&o->magnitude);
    for (int i = 0; i < SHIFT_PATTERNS; i++) operands_free(&o->shifted[i]);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Of one output. Sums of small integers must come out exactly. */
static bool output_right(const bench *b, const oracle *o, const operand *got, int32_t i, fill how,
                         difference *d)
{
    const operand *want = &o->want.items[i];
    if (how == FILL_SPECIALS && b->info.exactness != TW_RESULT_EXACT)
        return compare_specials(got, want, d);
    tolerance t = {.exactness = b->info.exactness, .ulps = b->info.ulps, .terms = b->info.terms};
    if (o->magnitude.n > 0) t.magnitude = &o->magnitude.items[i];
    t.shift = shift_size(&o->want);
    for (int k = 0; k < SHIFT_PATTERNS; k++)
        if (o->shifted[k].n > 0) t.shifted[k] = &o->shifted[k].items[i];
    if (how == FILL_INTEGERS && t.exactness == TW_RESULT_SUM && t.magnitude &&
        operand_is_float(want) && compare_is_integral(want, t.magnitude))
        return compare_values(got, want, d);
    return compare_within(got, want, &t, d);
}

static bool all_equal_bits(const operands *got, const operands *want, difference *d)
{
    for (int32_t i = 0; i < want->n; i++)
        if (want->items[i].output && !compare_bits(&got->items[i], &want->items[i], d))
            return false;
    return true;
}

/* The same bits a second time, and on more threads. */
static void check_repeat(bench *b, const tw_plan *plan, operands *got)
{
    static const char *const names[] = {"repeat", "threads"};
    for (int k = 0; k < 2; k++) {
        operands again;
        difference d;
        bool guards = false;
        tw_status status = operands_make(&again, b->graph, plan, false);
        operands_copy_inputs(&again, got);
        if (status == TW_OK)
            status = run_plan(plan, &again, k == 0 ? b->v->one : b->v->several, &guards);
        if (status != TW_OK)
            report(b, names[k], false, NULL, tw_last_error());
        else if (!guards)
            report(b, names[k], false, NULL, "it wrote outside its tensors or workspace");
        else {
            bool same = all_equal_bits(&again, got, &d);
            report(b, names[k], same, &d, NULL);
        }
        operands_free(&again);
    }
}

static void check_fill(bench *b, const tw_plan *plan, fill how)
{
    static const char *const names[] = {"integers", "random", "specials"};
    const oracle *o = &b->oracles[how];
    operands got;
    difference d;
    bool guards = false, good = true;
    /* Alignment is not to matter: integers come at odd addresses. */
    tw_status status = operands_make(&got, b->graph, plan, how == FILL_INTEGERS);
    operands_copy_inputs(&got, &o->want);
    if (status == TW_OK) status = run_plan(plan, &got, b->v->one, &guards);
    if (status != TW_OK) {
        report(b, names[how], false, NULL, tw_last_error());
        operands_free(&got);
        return;
    }
    for (int32_t i = 0; i < got.n && good; i++)
        if (got.items[i].output) good = output_right(b, o, &got.items[i], i, how, &d);
    report(b, names[how], good, &d, NULL);
    report(b, "guards", guards && inputs_untouched(&got, &o->want), NULL,
           guards ? "it changed an input" : "it wrote outside its tensors or workspace");
    if (how == FILL_RANDOM) check_repeat(b, plan, &got);
    operands_free(&got);
}

static tw_plan_options options_for(const bench *b)
{
    return (tw_plan_options){.size = sizeof(tw_plan_options),
                             .flags = TW_NO_FUSION,
                             .has_max_isa = b->v->has_isa,
                             .max_isa = b->v->isa};
}

static tw_status check_kernel(bench *b, int32_t index, const tw_kernel_info *k)
{
    tw_plan *plan = NULL;
    tw_plan_options options = options_for(b);
    options.kernel = b->kernel = k->name;
    tw_status status = tw_plan_create(b->graph, &options, &plan);
    if (status == TW_NOT_SUPPORTED) {
        if (b->v->kernel) fprintf(stderr, "%s: %s\n", b->p->text, tw_last_error());
        return TW_OK;
    }
    if (status != TW_OK) {
        report(b, "plan", false, NULL, tw_last_error());
        return status == TW_OUT_OF_MEMORY ? status : TW_OK;
    }
    if (index < VERIFY_KERNELS) b->v->reached[index] = true;
    for (int how = 0; how < FILLS; how++) check_fill(b, plan, (fill)how);
    tw_plan_free(plan);
    return TW_OK;
}

static tw_status check_kernels(bench *b)
{
    for (int32_t i = 0; i < tw_kernel_count(); i++) {
        tw_kernel_info k = {.size = sizeof k};
        TW_TRY(tw_kernel_describe(i, &k));
        bool asked = b->v->kernel ? strcmp(k.name, b->v->kernel) == 0 : true;
        if (!asked || !k.available || (!k.pattern && strcmp(k.operation, b->info.operation) != 0) ||
            strcmp(k.family, b->info.family) != 0 || (b->v->has_isa && k.isa > b->v->isa))
            continue;
        TW_TRY(check_kernel(b, i, &k));
    }
    return TW_OK;
}

/* What a user gets: the planner's own choice, with fusion. */
static tw_status check_default(bench *b)
{
    tw_plan *plan = NULL;
    tw_plan_options options = options_for(b);
    options.flags = 0;
    b->kernel = "(chosen)";
    TW_TRY(tw_plan_create(b->graph, &options, &plan));
    tw_step_info step = {.size = sizeof step};
    if (tw_plan_step_count(plan) == 1 && tw_plan_step(plan, 0, &step) == TW_OK)
        b->kernel = step.kernel;
    check_fill(b, plan, FILL_RANDOM);
    tw_plan_free(plan);
    return TW_OK;
}

tw_status verify_problem(verifier *v, const problem *p)
{
    bench b = {.v = v, .p = p};
    const tw_plan_options options = {.size = sizeof options,
                                     .flags = TW_NO_FUSION | TW_ONLY_REFERENCE};
    tw_status status;
    TW_TRY_OUT(problem_graph(p, &b.graph));
    TW_TRY_OUT(tw_graph_operation(b.graph, 0, &b.info));
    TW_TRY_OUT(tw_plan_create(b.graph, &options, &b.reference));
    b.kernel = "reference";
    for (int how = 0; how < FILLS; how++) {
        status = ask(&b, (fill)how);
        if (status == TW_OUT_OF_MEMORY) goto out;
        if (status != TW_OK) {
            report(&b, "reference", false, NULL, tw_last_error());
            status = TW_OK;
            goto out;
        }
    }
    TW_TRY_OUT(check_kernels(&b));
    if (!v->kernel) TW_TRY_OUT(check_default(&b));
out:
    for (int how = 0; how < FILLS; how++) free_oracle(&b.oracles[how]);
    tw_plan_free(b.reference);
    tw_graph_free(b.graph);
    return status;
}
