/* SPDX-License-Identifier: Apache-2.0 */
/* tw list and tw explain: kernels, and the choice among them. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "core/text.h"
#include "options.h"

static bool check_family(const char *name)
{
    const char *names[64];
    int n = 0;
    for (; n < tw_family_count() && n < 64; n++) {
        names[n] = tw_family_name(n);
        if (strcmp(names[n], name) == 0) return true;
    }
    fprintf(stderr, "tw list: no family '%s'; the nearest one is '%s'\n", name,
            tw_nearest(name, n, names));
    return false;
}

static void add_json(cJSON *rows, const tw_kernel_info *k)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", k->name);
    cJSON_AddStringToObject(row, "family", k->family);
    cJSON_AddStringToObject(row, "operation", k->operation);
    cJSON_AddStringToObject(row, "types", k->types);
    cJSON_AddStringToObject(row, "target", k->target);
    cJSON_AddBoolToObject(row, "available", k->available);
    cJSON_AddBoolToObject(row, "reference", k->reference);
    cJSON_AddItemToArray(rows, row);
}

static int list_kernels(const char *family, bool json)
{
    cJSON *rows = json ? cJSON_CreateArray() : NULL;
    if (!json)
        printf("%-12s %-24s %-14s %-8s %s\n", "family", "operation", "types", "target", "kernel");
    for (int32_t i = 0; i < tw_kernel_count(); i++) {
        tw_kernel_info k = {.size = sizeof k};
        if (tw_kernel_describe(i, &k) != TW_OK) return EXIT_FAILED;
        if (family && strcmp(family, k.family) != 0) continue;
        if (json)
            add_json(rows, &k);
        else
            printf("%-12s %-24s %-14s %-8s %s%s\n", k.family, k.operation, k.types, k.target,
                   k.name, k.available ? "" : " (not on this machine)");
    }
    char *text = json ? cJSON_Print(rows) : NULL;
    if (text) puts(text);
    free(text);
    cJSON_Delete(rows);
    return EXIT_OK;
}

int command_list(int argc, char **argv)
{
    bool json = false;
    const option table[] = {{"json", OPTION_FLAG, &json, 0, 0, NULL, "as JSON"},
                            {NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL}};
    const char *words[64];
    int n_words;
    if (options_wants_help(argc, argv)) {
        options_help(
            "list [FAMILY] [--json]",
            "Prints every kernel, best first for each operation; with a FAMILY, its kernels\n"
            "and the keys of its problem strings.",
            table);
        return EXIT_OK;
    }
    if (argc > 64 || !options_parse(table, argc, argv, words, &n_words)) return EXIT_USAGE;
    const char *family = n_words > 0 ? words[0] : NULL;
    if (family && !check_family(family)) return EXIT_USAGE;
    int code = list_kernels(family, json);
    if (family && !json)
        printf("\nproblem strings: %s key=value …\n\n%-10s %-12s %s\n%s", family, "key", "default",
               "meaning", tw_problem_help(family));
    return code;
}

/* ---- Explain --------------------------------------------------------------------------------- */

/* Words of the command line as one problem string. */
static bool join(const char **words, int n, char *text, size_t room)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        int used = snprintf(text + at, room - at, "%s%s", i ? " " : "", words[i]);
        if (used < 0 || (size_t)used >= room - at) return false;
        at += (size_t)used;
    }
    return n > 0;
}

int command_explain(int argc, char **argv)
{
    const char *kernel = NULL;
    int64_t limit = -1;
    bool reference = false;
    const option table[] = {
        {"kernel", OPTION_TEXT, &kernel, 0, 0, "NAME", "what if only this kernel were allowed"},
        {"workspace", OPTION_INT, &limit, 0, 9e18, "BYTES",
         "what if no more workspace were allowed"},
        {"no-reference", OPTION_FLAG, &reference, 0, 0, NULL, "fail where a reference would run"},
        {NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL}};
    const char *words[64];
    int n_words;
    char problem[2048];
    if (options_wants_help(argc, argv)) {
        options_help("explain PROBLEM",
                     "Prints the kernel that would run a problem, and for each better one why it\n"
                     "refused. `tw list FAMILY` has the keys of problems.",
                     table);
        return EXIT_OK;
    }
    if (argc > 64 || !options_parse(table, argc, argv, words, &n_words)) return EXIT_USAGE;
    if (!join(words, n_words, problem, sizeof problem)) {
        fprintf(stderr, "tw explain: give a problem, such as 'gemm m=64 n=64 k=64'\n");
        return EXIT_USAGE;
    }
    tw_graph *graph = NULL;
    tw_plan *plan = NULL;
    tw_plan_options options = {.size = sizeof options,
                               .kernel = kernel,
                               .has_workspace_limit = limit >= 0,
                               .workspace_limit = limit >= 0 ? limit : 0,
                               .flags = reference ? TW_NO_REFERENCE : 0};
    tw_status status = tw_problem_graph(problem, &graph);
    if (status == TW_OK) status = tw_plan_create(graph, &options, &plan);
    int code = EXIT_OK;
    if (status == TW_OK)
        printf("%sworkspace: %lld bytes\n", tw_plan_explain(plan),
               (long long)tw_plan_workspace(plan));
    else
        code = report_failure("explain", status);
    tw_plan_free(plan);
    tw_graph_free(graph);
    return code;
}
