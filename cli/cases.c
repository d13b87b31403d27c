/* SPDX-License-Identifier: Apache-2.0 */
/* tw cases: replays files of recorded problems. */
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "commands.h"
#include "core/file.h"
#include "options.h"

enum { FILE_LIMIT = 256 << 20, MAX_CASES = 4096 };

typedef struct totals {
    int32_t passed, failed, skipped;
    const char *only;
    bool quiet;
    tw_context *context;
} totals;

static void count(totals *t, const char *id, case_result result, const char *why)
{
    t->passed += result == CASE_PASSED;
    t->failed += result == CASE_FAILED;
    t->skipped += result == CASE_SKIPPED;
    if (result == CASE_FAILED)
        printf("FAILED  %s: %s\n", id, why);
    else if (result == CASE_SKIPPED && !t->quiet)
        printf("skipped %s: %s\n", id, why);
}

static int32_t parse_lines(char *text, const cJSON **cases)
{
    int32_t n = 0;
    for (char *line = strtok(text, "\n"); line && n < MAX_CASES; line = strtok(NULL, "\n")) {
        cases[n] = cJSON_Parse(line);
        if (!cases[n]) return -n - 1;
        n++;
    }
    return n;
}

static void free_cases(const cJSON **cases, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        union {
            const cJSON *given;
            cJSON *kept;
        } json = {.given = cases[i]};
        cJSON_Delete(json.kept);
    }
    free(cases);
}

static void replay_all(totals *t, const cJSON *const *cases, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const char *id = case_attr_text(cases[i], "id", "?"), *op;
        char why[CASE_TEXT] = "";
        if (t->only && strcmp(id, t->only) != 0) continue;
        case_result result = case_replay(cases[i], cases, n, t->context, why, &op);
        count(t, id, result, why);
    }
}

static int replay_file(totals *t, const char *path)
{
    void *data;
    size_t bytes;
    tw_status status = tw_file_read(path, FILE_LIMIT, &data, &bytes);
    if (status != TW_OK) return report_failure("cases", status);
    char *text = malloc(bytes + 1);
    const cJSON **cases = calloc(MAX_CASES, sizeof *cases);
    int code = EXIT_FAILED;
    if (text && cases) {
        memcpy(text, data, bytes);
        text[bytes] = '\0';
        int32_t n = parse_lines(text, cases);
        if (n < 0)
            fprintf(stderr, "tw cases: %s: line %d is not JSON\n", path, -n);
        else
            code = EXIT_OK;
        if (n > 0) replay_all(t, cases, n);
        free_cases(cases, n < 0 ? -n - 1 : n);
    }
    free(text);
    tw_free(data);
    return code;
}

int command_cases(int argc, char **argv)
{
    totals t = {0};
    int64_t threads = 0;
    const option table[] = {
        {"id", OPTION_TEXT, &t.only, 0, 0, "ID", "only this case"},
        {"threads", OPTION_INT, &threads, 0, 1024, "N", "threads of the library (0: all CPUs)"},
        {"quiet", OPTION_FLAG, &t.quiet, 0, 0, NULL, "do not name skipped cases"},
        {NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL}};
    const char *files[256];
    int n_files;
    if (options_wants_help(argc, argv)) {
        options_help("cases FILE… [--id ID]",
                     "Replays recorded problems, one JSON object a line, and compares with their\n"
                     "expected results. Ends with 'N passed, N failed, N skipped'.",
                     table);
        return EXIT_OK;
    }
    if (argc > 256 || !options_parse(table, argc, argv, files, &n_files)) return EXIT_USAGE;
    if (n_files == 0) {
        fprintf(stderr, "tw cases: name one file or more\n");
        return EXIT_USAGE;
    }
    tw_context_options options = {.size = sizeof options, .threads = (int32_t)threads};
    tw_status status = tw_context_create(&options, &t.context);
    if (status != TW_OK) return report_failure("cases", status);
    int code = EXIT_OK;
    for (int i = 0; i < n_files && code == EXIT_OK; i++) code = replay_file(&t, files[i]);
    tw_context_free(t.context);
    printf("%d passed, %d failed, %d skipped\n", (int)t.passed, (int)t.failed, (int)t.skipped);
    return code != EXIT_OK ? code : t.failed ? EXIT_FAILED : EXIT_OK;
}
