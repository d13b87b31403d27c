/* SPDX-License-Identifier: Apache-2.0 */
/* tw_cpu_peak: every thread measures at the same time, since they share clock and power. */
#include "core/error.h"
#include "runtime/cpu/parallel.h"
#include "tile/cpu/peak.h"

typedef double (*peak_function)(void);

static peak_function peak_of(tw_isa isa)
{
#if defined(__x86_64__) || defined(_M_X64)
    return isa >= TW_ISA_AVX512 ? tw_peak_flops__avx512
           : isa == TW_ISA_AVX2 ? tw_peak_flops__avx2
                                : tw_peak_flops__sse2;
#elif defined(__aarch64__)
    (void)isa;
    return tw_peak_flops__neon;
#else
    (void)isa;
    return NULL;
#endif
}

enum { PEAK_MAX_THREADS = 4096 };

typedef struct peak_job {
    peak_function measure;
    double flops[PEAK_MAX_THREADS];
} peak_job;

static void measure(void *arg, int32_t slot, int64_t item)
{
    peak_job *job = arg;
    (void)slot;
    job->flops[item] = job->measure();
}

tw_status tw_cpu_peak(tw_isa isa, int32_t threads, double *flops)
{
    TW_REQUIRE(flops, TW_INVALID_ARGUMENT, "flops is NULL; give a place for the figure");
    TW_REQUIRE(threads >= 1 && threads <= PEAK_MAX_THREADS, TW_INVALID_ARGUMENT,
               "threads is %d; it must be 1 to %d", (int)threads, PEAK_MAX_THREADS);
    TW_REQUIRE(isa >= TW_ISA_BASELINE && isa <= tw_cpu_isa(), TW_INVALID_ARGUMENT,
               "isa is %d; it must be 0 to %d, %s, the level in use", (int)isa, (int)tw_cpu_isa(),
               tw_isa_name(tw_cpu_isa()));
    peak_job job = {.measure = peak_of(isa)};
    TW_REQUIRE(job.measure, TW_NOT_SUPPORTED, "this build has no vector code to measure");
    tw_context *context;
    const tw_context_options options = {.size = sizeof options, .threads = threads};
    TW_TRY(tw_context_create(&options, &context));
    tw_parallel(context, threads, threads, measure, &job);
    tw_context_free(context);
    *flops = 0;
    for (int32_t i = 0; i < threads; i++) *flops += job.flops[i];
    return TW_OK;
}
