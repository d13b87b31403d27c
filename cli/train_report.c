/* SPDX-License-Identifier: Apache-2.0 */
/* The table at the end of a training run. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "train.h"

enum { MAX_ROWS = 256 };

typedef struct row {
    const char *name, *kernel;
    int64_t nanoseconds;
} row;

static int slower_first(const void *a, const void *b)
{
    const row *x = a, *y = b;
    return x->nanoseconds < y->nanoseconds ? 1 : x->nanoseconds > y->nanoseconds ? -1 : 0;
}

static int gather(const train_run *run, row *rows, int64_t *total)
{
    int n = 0;
    *total = 0;
    for (int32_t s = 0; s < tw_plan_step_count(run->full.plan); s++) {
        tw_step_info info = {.size = sizeof info};
        if (tw_plan_step(run->full.plan, s, &info) != TW_OK) continue;
        *total += run->step_time[s];
        int at = 0;
        const char *name = info.name[0] ? info.name : info.problem;
        while (at < n && (strcmp(rows[at].name, name) != 0 || rows[at].kernel != info.kernel)) at++;
        if (at == n && n < MAX_ROWS) rows[n++] = (row){name, info.kernel, 0};
        if (at < n) rows[at].nanoseconds += run->step_time[s];
    }
    qsort(rows, (size_t)n, sizeof *rows, slower_first);
    return n;
}

static double peak_megabytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

/* A digest of all weights: equal runs print equal lines. */
static void weights_digest(const network *net, char digest[65])
{
    size_t bytes = (size_t)network_elements(net) * sizeof(float), at = 0;
    char *all = malloc(bytes);
    strcpy(digest, "?");
    for (int32_t i = 0; all && i < net->n_parameters; i++) {
        size_t n = (size_t)net->parameters[i].elements * sizeof(float);
        memcpy(all + at, net->parameters[i].value, n);
        at += n;
    }
    if (all) tw_sha256(all, bytes, digest);
    free(all);
}

static void report_json(const train_run *run, const row *rows, int n)
{
    char digest[65];
    weights_digest(&run->net, digest);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "test_accuracy", run->test_accuracy);
    cJSON_AddNumberToObject(json, "test_loss", run->test_loss);
    cJSON_AddNumberToObject(json, "images_per_second",
                            run->seconds > 0 ? (double)run->images / run->seconds : 0);
    cJSON_AddNumberToObject(json, "seconds", run->seconds);
    cJSON_AddNumberToObject(json, "peak_megabytes", peak_megabytes());
    cJSON_AddStringToObject(json, "weights_sha256", digest);
    cJSON *steps = cJSON_AddArrayToObject(json, "time_by_step");
    for (int i = 0; i < n; i++) {
        cJSON *step = cJSON_CreateObject();
        cJSON_AddStringToObject(step, "name", rows[i].name);
        cJSON_AddStringToObject(step, "kernel", rows[i].kernel);
        cJSON_AddNumberToObject(step, "seconds", (double)rows[i].nanoseconds * 1e-9);
        cJSON_AddItemToArray(steps, step);
    }
    char *text = cJSON_Print(json);
    if (text) puts(text);
    free(text);
    cJSON_Delete(json);
}

void train_report(const train_run *run)
{
    row rows[MAX_ROWS];
    int64_t total;
    int n = gather(run, rows, &total);
    if (run->settings.json) {
        report_json(run, rows, n);
        return;
    }
    char digest[65];
    weights_digest(&run->net, digest);
    printf("\nwhere the time went:\n");
    int64_t rest = total;
    for (int i = 0; i < n && i < 14; i++) {
        rest -= rows[i].nanoseconds;
        printf("  %-22.22s %5.1f %%  %8.1f ms  %s\n", rows[i].name,
               total ? 100.0 * (double)rows[i].nanoseconds / (double)total : 0.0,
               (double)rows[i].nanoseconds * 1e-6, rows[i].kernel);
    }
    if (n > 14)
        printf("  %-22s %5.1f %%  %8.1f ms\n", "all other steps",
               total ? 100.0 * (double)rest / (double)total : 0.0, (double)rest * 1e-6);
    printf("\n  %-22s %.2f %%\n", "test accuracy", 100 * run->test_accuracy);
    printf("  %-22s %.0f images/s\n", "training speed",
           run->seconds > 0 ? (double)run->images / run->seconds : 0.0);
    printf("  %-22s %.1f s\n", "training time", run->seconds);
    printf("  %-22s %.0f MB\n", "peak memory", peak_megabytes());
    printf("  %-22s %lld\n", "parameters", (long long)network_elements(&run->net));
    printf("  %-22s %.16s\n", "weights (SHA-256)", digest);
}
