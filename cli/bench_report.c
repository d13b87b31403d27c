/* SPDX-License-Identifier: Apache-2.0 */
/* Tables, JSON and CSV of measured problems. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

void bench_print_header(const machine *m)
{
    printf("%d thread%s, %s: peak %.1f GFLOP/s of f32 multiply-adds\n\n", (int)m->threads,
           m->threads == 1 ? "" : "s", tw_isa_name(m->isa), m->flops * 1e-9);
    printf("%10s %10s %10s %9s %9s %8s %-5s  %-38s %s\n", "median µs", "min", "p90", "GFLOP/s",
           "GB/s", "of bound", "bound", "kernel", "problem");
}

void bench_print(const bench_result *r)
{
    const bench_times *t = &r->times;
    printf("%9.2f %10.2f %10.2f %9.2f %9.2f %7.1f%% %-5s  %-38s %s%s%s\n", t->median * 1e6,
           t->least * 1e6, t->p90 * 1e6, r->flops / t->median * 1e-9, r->bytes / t->median * 1e-9,
           100 * r->fraction, r->compute_bound ? "flops" : "bytes", r->kernel, r->problem->text,
           *r->problem->name ? "  # " : "", r->problem->name);
    fflush(stdout);
}

static bool counts(const bench_result *r) { return r->fraction > 0 && isfinite(r->fraction); }

static double geomean(const bench_result *results, int64_t n, double *worst)
{
    double sum = 0, weight = 0;
    *worst = (double)INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (!counts(&results[i])) continue;
        double count = (double)results[i].problem->count;
        sum += count * log(results[i].fraction);
        weight += count;
        if (results[i].fraction < *worst) *worst = results[i].fraction;
    }
    return weight > 0 ? exp(sum / weight) : 0;
}

void bench_print_total(const bench_result *results, int64_t n)
{
    double worst, mean = geomean(results, n, &worst);
    if (mean > 0) printf("geomean %.3f, worst %.3f (fraction of the bound)\n", mean, worst);
}

static cJSON *json_of(const bench_result *r)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "problem", r->problem->text);
    cJSON_AddStringToObject(row, "name", r->problem->name);
    cJSON_AddNumberToObject(row, "count", (double)r->problem->count);
    cJSON_AddStringToObject(row, "kernel", r->kernel);
    cJSON_AddNumberToObject(row, "median_s", r->times.median);
    cJSON_AddNumberToObject(row, "min_s", r->times.least);
    cJSON_AddNumberToObject(row, "p90_s", r->times.p90);
    cJSON_AddNumberToObject(row, "samples", (double)r->times.samples);
    cJSON_AddNumberToObject(row, "flops", r->flops);
    cJSON_AddNumberToObject(row, "bytes", r->bytes);
    cJSON_AddNumberToObject(row, "bound_s", r->bound);
    cJSON_AddStringToObject(row, "bound_by", r->compute_bound ? "flops" : "bytes");
    cJSON_AddNumberToObject(row, "fraction", r->fraction);
    return row;
}

tw_status bench_write_json(const char *path, const machine *m, const bench_result *results,
                           int64_t n)
{
    double worst, mean = geomean(results, n, &worst);
    cJSON *root = cJSON_CreateObject(), *rows = cJSON_CreateArray();
    cJSON_AddStringToObject(root, "version", tw_version_text());
    cJSON_AddNumberToObject(root, "threads", m->threads);
    cJSON_AddStringToObject(root, "isa", tw_isa_name(m->isa));
    cJSON_AddNumberToObject(root, "peak_flops", m->flops);
    if (mean > 0) {
        cJSON_AddNumberToObject(root, "geomean", mean);
        cJSON_AddNumberToObject(root, "worst", worst);
    }
    cJSON_AddItemToObject(root, "results", rows);
    for (int64_t i = 0; i < n; i++) cJSON_AddItemToArray(rows, json_of(&results[i]));
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text) return tw_fail(TW_OUT_OF_MEMORY, "no memory for the JSON text");
    tw_status status = tw_file_write(path, text, strlen(text));
    free(text);
    return status;
}

tw_status bench_write_csv(const char *path, const bench_result *results, int64_t n)
{
    tw_text text = {0};
    tw_text_add(&text, "problem,name,count,kernel,median_s,min_s,p90_s,flops,bytes,bound_s,"
                       "bound_by,fraction\n");
    for (int64_t i = 0; i < n; i++) {
        const bench_result *r = &results[i];
        tw_text_add(&text, "\"%s\",\"%s\",%lld,%s,%.4g,%.4g,%.4g,%.6g,%.6g,%.4g,%s,%.4f\n",
                    r->problem->text, r->problem->name, (long long)r->problem->count, r->kernel,
                    r->times.median, r->times.least, r->times.p90, r->flops, r->bytes, r->bound,
                    r->compute_bound ? "flops" : "bytes", r->fraction);
    }
    tw_status status = tw_text_status(&text);
    if (status == TW_OK) status = tw_file_write(path, text.data, text.length);
    tw_text_free(&text);
    return status;
}
