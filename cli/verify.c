/* SPDX-License-Identifier: Apache-2.0 */
/* tw verify: every kernel against the reference. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "core/error.h"
#include "core/text.h"
#include "options.h"
#include "progress.h"
#include "verify_problem.h"

static const char help_text[] =
    "Runs every kernel that takes a problem and compares it with the reference: small integers\n"
    "exactly, random data within the bound of the arithmetic, NaN and infinities in their places,\n"
    "the same bits again and on more threads, nothing written elsewhere. Prints a line for each\n"
    "failure and the command that repeats it.\n"
    "\n"
    "Sets are the files in shapes/; `all` are those that cover every kernel.";

typedef struct verify_options {
    const char *set, *file, *kernel, *isa;
    int64_t seed, threads;
    bool verbose;
} verify_options;

static bool find_isa(const char *name, tw_isa *isa)
{
    const char *names[TW_ISA_END];
    for (int i = 0; i < TW_ISA_END; i++) {
        names[i] = tw_isa_name((tw_isa)i);
        if (strcmp(names[i], name) == 0) {
            *isa = (tw_isa)i;
            return true;
        }
    }
    fprintf(stderr, "tw verify: --isa %s: no such level; the nearest one is %s\n", name,
            tw_nearest(name, TW_ISA_END, names));
    return false;
}

static bool check_kernel_name(const char *name)
{
    const char *names[VERIFY_KERNELS];
    int n = 0;
    for (int32_t i = 0; i < tw_kernel_count() && n < VERIFY_KERNELS; i++) {
        tw_kernel_info k = {.size = sizeof k};
        if (tw_kernel_describe(i, &k) != TW_OK) continue;
        if (strcmp(k.name, name) == 0) return true;
        names[n++] = k.name;
    }
    fprintf(stderr, "tw verify: --kernel %s: no such kernel; the nearest one is %s\n", name,
            tw_nearest(name, n, names));
    return false;
}

static tw_status make_contexts(verifier *v, int64_t threads)
{
    tw_context_options options = {.size = sizeof options, .threads = 1};
    TW_TRY(tw_context_create(&options, &v->one));
    options.threads = (int32_t)threads;
    return tw_context_create(&options, &v->several);
}

static tw_status verify_all(verifier *v, const problem_set *set)
{
    progress bar;
    tw_status status = TW_OK;
    progress_start(&bar, "verify", "problems", set->n);
    for (int64_t i = 0; i < set->n && status == TW_OK; i++) {
        progress_set(&bar, i, set->items[i].text);
        int64_t failed = v->failed;
        status = verify_problem(v, &set->items[i]);
        if (v->failed > failed) bar.shown = false; /* lines were printed over it */
    }
    progress_end(&bar);
    return status;
}

/* Of the set that is to cover everything: rows that this machine can run and no problem reached. */
static void report_unreached(verifier *v)
{
    for (int32_t i = 0; i < tw_kernel_count() && i < VERIFY_KERNELS; i++) {
        tw_kernel_info k = {.size = sizeof k};
        if (v->reached[i] || tw_kernel_describe(i, &k) != TW_OK || !k.available) continue;
        if (v->has_isa && k.isa > v->isa) continue;
        printf("FAIL no problem of the set reaches %s\n", k.name);
        v->failed++;
    }
}

static int run(const verify_options *o, const problem_set *set)
{
    verifier v = {.kernel = o->kernel, .seed = (uint64_t)o->seed, .verbose = o->verbose};
    if (o->isa) {
        if (!find_isa(o->isa, &v.isa)) return EXIT_USAGE;
        v.has_isa = true;
    }
    if (o->kernel && !check_kernel_name(o->kernel)) return EXIT_USAGE;
    tw_status status = make_contexts(&v, o->threads);
    if (status == TW_OK) status = verify_all(&v, set);
    tw_context_free(v.one);
    tw_context_free(v.several);
    if (status != TW_OK) return report_failure("verify", status);
    if (o->set && strcmp(o->set, "all") == 0 && !o->kernel) report_unreached(&v);
    printf("%lld passed, %lld failed\n", (long long)v.passed, (long long)v.failed);
    return v.failed > 0 || v.passed == 0 ? EXIT_FAILED : EXIT_OK;
}

int command_verify(int argc, char **argv)
{
    verify_options o = {.seed = 1, .threads = 2};
    const option table[] = {
        {"set", OPTION_TEXT, &o.set, 0, 0, "NAMES", "problems of these sets, joined by commas"},
        {"file", OPTION_TEXT, &o.file, 0, 0, "FILE", "problems of a file, one a line"},
        {"kernel", OPTION_TEXT, &o.kernel, 0, 0, "NAME", "only this kernel"},
        {"seed", OPTION_INT, &o.seed, 0, 1e18, "N", "of the data (1)"},
        {"threads", OPTION_INT, &o.threads, 1, 4096, "N", "to compare one thread with (2)"},
        {"isa", OPTION_TEXT, &o.isa, 0, 0, "LEVEL", "no kernel above: baseline, avx2, avx512…"},
        {"verbose", OPTION_FLAG, &o.verbose, 0, 0, NULL, "a line for each check"},
        {NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL}};
    if (options_wants_help(argc, argv)) {
        options_help("verify PROBLEM… | --set NAME | --file FILE", help_text, table);
        return EXIT_OK;
    }
    problem_set set = {.n = 0};
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    int n_words, code = EXIT_USAGE;
    if (words && options_parse(table, argc, argv, words, &n_words)) {
        tw_status status = problem_set_gather(&set, n_words, words, o.set, o.file);
        code = status == TW_OK ? run(&o, &set) : report_failure("verify", status);
    }
    problem_set_free(&set);
    free(words);
    return code;
}
