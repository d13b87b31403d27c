/* SPDX-License-Identifier: Apache-2.0 */
/* The machine, the thread context, allocation hooks and the log. */
#ifndef TILEWORK_DEVICE_H
#define TILEWORK_DEVICE_H

#include <tilework/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Instruction sets ------------------------------------------------------------------------ */

/* Levels of CPU instruction sets; each contains the ones before it on its architecture. */
typedef enum tw_isa {
    TW_ISA_BASELINE = 0, /* SSE2 on x86-64, NEON on AArch64 */
    TW_ISA_AVX2 = 1,     /* with FMA and F16C */
    TW_ISA_AVX512 = 2,   /* F, BW, DQ, VL, VNNI where present */
    TW_ISA_AVX512BF16 = 3,
    TW_ISA_AMX = 4,
    TW_ISA_END = 5
} tw_isa;

/* The level in use: the best that CPU and operating system offer, or the lower one that the
 * environment variable TW_MAX_ISA names (baseline, avx2, avx512, avx512bf16, amx). Read once. */
TW_API tw_isa tw_cpu_isa(void);
TW_API const char *tw_isa_name(tw_isa isa);

typedef struct tw_cpu_info {
    size_t size; /* set to sizeof before the call */
    char vendor[16];
    char model[64];
    tw_isa detected;                       /* what CPUID says */
    tw_isa used;                           /* after TW_MAX_ISA */
    int32_t logical_cpus;                  /* that this process may run on */
    int64_t l1d_bytes, l2_bytes, l3_bytes; /* per core, per core, shared; 0 if unknown */
    int64_t memory_bytes;                  /* physical */
    char features[256]; /* space-separated: "avx2 fma avx512f avx512_vnni amx_bf16 …" */
} tw_cpu_info;

TW_API tw_status tw_cpu_describe(tw_cpu_info *info);

/* ---- Contexts -------------------------------------------------------------------------------- */

/* A context owns threads. A plan runs on one. Several threads may use one context at once: the
 * first gets the pool, the others run on their own thread. Forked children may use it. */
typedef struct tw_context tw_context;

/* A caller's own parallel-for: call task(arg, i) once for every i in [0, n), in any order, on any
 * threads, and return when all are done. */
typedef void (*tw_task)(void *arg, int64_t index);
typedef void (*tw_parallel_for)(void *user, int64_t n, tw_task task, void *arg);

typedef struct tw_context_options {
    size_t size;
    int32_t threads;              /* 0: TW_THREADS, else one for each CPU we may run on */
    tw_parallel_for parallel_for; /* NULL: the context's own pool */
    void *parallel_user;
} tw_context_options;

TW_API tw_status tw_context_create(const tw_context_options *options, tw_context **context);
TW_API void tw_context_free(tw_context *context);
TW_API int32_t tw_context_threads(const tw_context *context);

/* Calls task(arg, i) once for every i in [0, n) on the context's threads (NULL: on this one), and
 * returns when all are done. */
TW_API tw_status tw_context_for(tw_context *context, int64_t n, tw_task task, void *arg);

/* For tools: f32 operations a second that `threads` threads reach together with multiply-adds in
 * registers at a level of instructions. Measures for some 20 ms. */
TW_API tw_status tw_cpu_peak(tw_isa isa, int32_t threads, double *flops);

/* ---- Allocation and log ---------------------------------------------------------------------- */

/* Every allocation of the library goes through these. Set them before the first other call, on one
 * thread. alignment is a power of two. allocate may return NULL; free gets what allocate gave. */
typedef struct tw_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*free)(void *user, void *pointer, size_t bytes);
    void *user;
} tw_allocator;

TW_API tw_status tw_set_allocator(const tw_allocator *allocator); /* NULL: the C library's */

/* 64-byte aligned memory through the hooks; for callers who have nothing better. */
TW_API void *tw_malloc(size_t bytes);
TW_API void tw_free(void *pointer);

/* Log topics, also read once from TW_LOG (comma-separated: error,dispatch,plan,run,io,all). */
enum { TW_LOG_ERROR = 1, TW_LOG_DISPATCH = 2, TW_LOG_PLAN = 4, TW_LOG_RUN = 8, TW_LOG_IO = 16 };
typedef void (*tw_log_sink)(void *user, uint32_t topic, const char *line);

/* sink NULL: standard error. Nothing is logged unless `topics` or TW_LOG asks. */
TW_API void tw_set_log(uint32_t topics, tw_log_sink sink, void *user);

#ifdef __cplusplus
}
#endif
#endif
