/* SPDX-License-Identifier: Apache-2.0 */
/* What the processor says of itself. Uncached and unlimited: kernels ask runtime/cpu/cpu_info.h. */
#ifndef TW_ARCH_CPU_CPUID_H
#define TW_ARCH_CPU_CPUID_H

#include <stdbool.h>
#include <stdint.h>

#include <tilework/device.h>

/* Features by bit number of tw_cpuid.features; the table with their names is in cpuid.c. */
typedef enum tw_cpu_feature {
    TW_CPU_SSE2,
    TW_CPU_AVX,
    TW_CPU_FMA,
    TW_CPU_F16C,
    TW_CPU_AVX2,
    TW_CPU_AVX_VNNI,
    TW_CPU_AVX512F,
    TW_CPU_AVX512BW,
    TW_CPU_AVX512DQ,
    TW_CPU_AVX512VL,
    TW_CPU_AVX512_VNNI,
    TW_CPU_AVX512_BF16,
    TW_CPU_AVX512_FP16,
    TW_CPU_AMX_TILE,
    TW_CPU_AMX_BF16,
    TW_CPU_AMX_INT8,
    TW_CPU_AMX_FP16,
    TW_CPU_NEON,
    TW_CPU_FEATURE_END
} tw_cpu_feature;

typedef struct tw_cpuid {
    char vendor[16];
    char model[64];
    uint64_t features; /* bit f: feature f is there and the operating system keeps its registers */
    tw_isa isa;        /* the highest level that these features make up */
} tw_cpuid;

void tw_cpuid_read(tw_cpuid *cpu);

/* As in tw_cpu_info.features. */
const char *tw_cpu_feature_name(tw_cpu_feature feature);

/* The level that a feature belongs to: forbidding the level forbids the feature. */
tw_isa tw_cpu_feature_isa(tw_cpu_feature feature);

/* Asks the operating system for the tile registers, for the whole process and its later children.
 * False: using AMX would fault. To be called before the first tile instruction, at plan time. */
bool tw_cpuid_request_amx(void);

#endif
