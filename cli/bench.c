/* SPDX-License-Identifier: Apache-2.0 */
/* tw bench: how far kernels are from what the machine could do. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "core/error.h"
#include "options.h"
#include "progress.h"

static const char help_text[] =
    "Times problems and compares them with the machine's bound: the time of the multiply-adds at\n"
    "the peak measured in registers, or of the bytes at the bandwidth measured for copies of that\n"
    "size, whichever is longer (mere reading can beat it). `tw bench overhead` times what\n"
    "surrounds a kernel.\n"
    "\n"
    "By default the same buffers are used again (--warm); --cold rotates over more than twice the\n"
    "last cache and takes the bandwidth of memory.";

typedef struct arguments {
    const char *set, *file, *json, *csv;
    int64_t threads;
    bool warm;
    bench_options how;
} arguments;

static tw_status measure_all(const arguments *a, const problem_set *set, machine *m,
                             bench_result *results)
{
    progress bar;
    bench_print_header(m);
    progress_start(&bar, "bench", "problems", set->n);
    for (int64_t i = 0; i < set->n; i++) {
        progress_set(&bar, i, set->items[i].text);
        tw_status status = bench_measure(&set->items[i], &a->how, m, &results[i]);
        progress_end(&bar);
        TW_TRY(status);
        bench_print(&results[i]);
    }
    bench_print_total(results, set->n);
    if (a->json) TW_TRY(bench_write_json(a->json, m, results, set->n));
    if (a->csv) TW_TRY(bench_write_csv(a->csv, results, set->n));
    return TW_OK;
}

static tw_status run(const arguments *a, int n_words, const char **words)
{
    machine m = {.threads = 0};
    problem_set set = {.n = 0};
    void *results = NULL;
    tw_status status;
    bool overhead = n_words == 1 && strcmp(words[0], "overhead") == 0;
    if (!overhead) TW_TRY_OUT(problem_set_gather(&set, n_words, words, a->set, a->file));
    for (int64_t i = 0; i < set.n; i++) { /* complain before hours of measuring */
        tw_graph *graph;
        TW_TRY_OUT(problem_graph(&set.items[i], &graph));
        tw_graph_free(graph);
    }
    TW_TRY_OUT(machine_measure(&m, a->threads));
    TW_TRY_OUT(tw_calloc(set.n, sizeof(bench_result), &results));
    status = overhead ? bench_overhead(&m, a->how.seconds) : measure_all(a, &set, &m, results);
out:
    tw_free(results);
    machine_free(&m);
    problem_set_free(&set);
    return status;
}

int command_bench(int argc, char **argv)
{
    arguments a = {.threads = 1, .how.seconds = 0.3};
    const option table[] = {
        {"set", OPTION_TEXT, &a.set, 0, 0, "NAMES", "problems of these sets: cnn, gemm, resnet50…"},
        {"file", OPTION_TEXT, &a.file, 0, 0, "FILE", "problems of a file, one a line"},
        {"threads", OPTION_INT, &a.threads, 1, 4096, "N", "threads (1)"},
        {"cold", OPTION_FLAG, &a.how.cold, 0, 0, NULL, "data in memory, not in a cache"},
        {"warm", OPTION_FLAG, &a.warm, 0, 0, NULL, "the same data each time (default)"},
        {"kernel", OPTION_TEXT, &a.how.kernel, 0, 0, "NAME", "only this kernel"},
        {"seconds", OPTION_REAL, &a.how.seconds, 0.001, 3600, "S", "for each problem (0.3)"},
        {"json", OPTION_TEXT, &a.json, 0, 0, "FILE", "also write the figures as JSON"},
        {"csv", OPTION_TEXT, &a.csv, 0, 0, "FILE", "also write the figures as CSV"},
        {NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL}};
    if (options_wants_help(argc, argv)) {
        options_help("bench PROBLEM… | --set NAME | --file FILE | overhead", help_text, table);
        return EXIT_OK;
    }
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    int n_words, code = EXIT_USAGE;
    bool good = words && options_parse(table, argc, argv, words, &n_words);
    if (good && a.warm && a.how.cold)
        fprintf(stderr, "tw bench: --warm or --cold, not both\n");
    else if (good) {
        tw_status status = run(&a, n_words, words);
        code = status == TW_OK ? EXIT_OK : report_failure("bench", status);
    }
    free(words);
    return code;
}
