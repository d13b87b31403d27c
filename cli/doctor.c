/* SPDX-License-Identifier: Apache-2.0 */
/* tw doctor: the machine, and what of it the library uses. */
#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "core/file.h"
#include "options.h"

typedef struct report {
    tw_cpu_info cpu;
    int32_t threads;
    int64_t free_memory;
    const char *gpu, *gpu_why;
    char cache[1024];
} report;

/* The driver is loaded like any optional library; without it everything runs on the CPU. */
static void look_for_gpu(report *r)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    r->gpu = driver ? "driver found" : "none";
#ifdef TW_WITH_CUDA
    r->gpu_why = driver ? "kernels for it are in this build"
                        : "no libcuda.so.1: install NVIDIA's driver to use a GPU";
#else
    r->gpu_why = driver ? "this build has no GPU kernels, so plans run on the CPU"
                        : "no libcuda.so.1, and this build has no GPU kernels";
#endif
    if (driver) dlclose(driver);
}

static tw_status gather(report *r)
{
    r->cpu.size = sizeof r->cpu;
    tw_status status = tw_cpu_describe(&r->cpu);
    if (status != TW_OK) return status;
    tw_context *context;
    status = tw_context_create(NULL, &context);
    if (status != TW_OK) return status;
    r->threads = tw_context_threads(context);
    tw_context_free(context);
    r->free_memory = (int64_t)sysconf(_SC_AVPHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    look_for_gpu(r);
    if (tw_cache_folder(r->cache, sizeof r->cache) != TW_OK) strcpy(r->cache, "(none)");
    return TW_OK;
}

static void print_json(const report *r)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "version", tw_version_text());
    cJSON *cpu = cJSON_AddObjectToObject(json, "cpu");
    cJSON_AddStringToObject(cpu, "model", r->cpu.model);
    cJSON_AddStringToObject(cpu, "detected", tw_isa_name(r->cpu.detected));
    cJSON_AddStringToObject(cpu, "used", tw_isa_name(r->cpu.used));
    cJSON_AddStringToObject(cpu, "features", r->cpu.features);
    cJSON_AddNumberToObject(cpu, "logical_cpus", r->cpu.logical_cpus);
    cJSON_AddNumberToObject(cpu, "threads", r->threads);
    cJSON_AddNumberToObject(cpu, "l1d_bytes", (double)r->cpu.l1d_bytes);
    cJSON_AddNumberToObject(cpu, "l2_bytes", (double)r->cpu.l2_bytes);
    cJSON_AddNumberToObject(cpu, "l3_bytes", (double)r->cpu.l3_bytes);
    cJSON_AddNumberToObject(json, "memory_bytes", (double)r->cpu.memory_bytes);
    cJSON_AddNumberToObject(json, "free_memory_bytes", (double)r->free_memory);
    cJSON *gpu = cJSON_AddObjectToObject(json, "gpu");
    cJSON_AddStringToObject(gpu, "state", r->gpu);
    cJSON_AddStringToObject(gpu, "reason", r->gpu_why);
    cJSON_AddStringToObject(json, "cache_folder", r->cache);
    char *text = cJSON_Print(json);
    if (text) puts(text);
    free(text);
    cJSON_Delete(json);
}

static void print_text(const report *r)
{
    const tw_cpu_info *c = &r->cpu;
    printf("tilework   %s\n", tw_version_text());
    printf("cpu        %s\n", c->model);
    printf("isa        %s is used; the processor has %s", tw_isa_name(c->used),
           tw_isa_name(c->detected));
    printf(c->used < c->detected ? " (TW_MAX_ISA holds it back)\n" : "\n");
    printf("features   %s\n", c->features);
    printf("threads    %d of %d logical CPUs (TW_THREADS changes it)\n", (int)r->threads,
           (int)c->logical_cpus);
    printf("caches     L1 %lld KiB, L2 %lld KiB a core, L3 %lld KiB\n",
           (long long)c->l1d_bytes >> 10, (long long)c->l2_bytes >> 10,
           (long long)c->l3_bytes >> 10);
    printf("memory     %.1f GiB, %.1f GiB free\n", (double)c->memory_bytes / (1 << 30),
           (double)r->free_memory / (1 << 30));
    printf("gpu        %s: %s\n", r->gpu, r->gpu_why);
    printf("cache      %s\n", r->cache);
    const char *data = getenv("TW_DATA");
    printf("TW_DATA    %s\n",
           data ? data : "not set: data sets come from the cache or the network");
}

int command_doctor(int argc, char **argv)
{
    bool json = false;
    const option table[] = {{"json", OPTION_FLAG, &json, 0, 0, NULL, "as JSON"},
                            {NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL}};
    const char *words[64];
    int n_words;
    if (options_wants_help(argc, argv)) {
        options_help("doctor [--json]", "Prints what this machine has, and what of it is used.",
                     table);
        return EXIT_OK;
    }
    if (argc > 64 || !options_parse(table, argc, argv, words, &n_words)) return EXIT_USAGE;
    if (n_words > 0) {
        fprintf(stderr, "tw doctor: takes no argument, '%s' given\n", words[0]);
        return EXIT_USAGE;
    }
    report r = {0};
    tw_status status = gather(&r);
    if (status != TW_OK) return report_failure("doctor", status);
    if (json)
        print_json(&r);
    else
        print_text(&r);
    return EXIT_OK;
}
