/* SPDX-License-Identifier: Apache-2.0 */
/* The level of instructions in use, and the description of the machine. */
#include "runtime/cpu/cpu_info.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/log.h"
#include "core/os.h"

static const char *const isa_names[TW_ISA_END] = {
    [TW_ISA_BASELINE] = "baseline",     [TW_ISA_AVX2] = "avx2", [TW_ISA_AVX512] = "avx512",
    [TW_ISA_AVX512BF16] = "avx512bf16", [TW_ISA_AMX] = "amx",
};

/*
 * All that is cached fits one word, so that a single atomic publishes it: features from bit 0, the
 * detected level, the level in use, and a bit that tells the word from zero. Threads that race
 * compute the same word; the first to store it logs.
 */
enum { DETECTED_SHIFT = 48, USED_SHIFT = 52, KNOWN_SHIFT = 56, LEVEL_MASK = 15 };
_Static_assert((int)TW_CPU_FEATURE_END <= (int)DETECTED_SHIFT, "features overlap the levels");
static _Atomic uint64_t cached;

/* Whether `text` names a level. */
static bool parse_isa(const char *text, tw_isa *isa)
{
    for (int i = 0; i < TW_ISA_END; i++) {
        if (strcmp(text, isa_names[i]) == 0) {
            *isa = (tw_isa)i;
            return true;
        }
    }
    return false;
}

static uint64_t detect(void)
{
    tw_cpuid cpu;
    tw_cpuid_read(&cpu);
    const char *text = getenv("TW_MAX_ISA");
    const bool given = text != NULL && text[0] != '\0';
    tw_isa limit = TW_ISA_AMX;
    const bool understood = !given || parse_isa(text, &limit);
    const tw_isa used = cpu.isa < limit ? cpu.isa : limit;

    uint64_t word = cpu.features | (uint64_t)cpu.isa << DETECTED_SHIFT |
                    (uint64_t)used << USED_SHIFT | UINT64_C(1) << KNOWN_SHIFT;
    uint64_t before = 0;
    if (!atomic_compare_exchange_strong(&cached, &before, word)) return before;
    if (!understood) {
        tw_log(TW_LOG_ERROR,
               "TW_MAX_ISA is \"%s\"; it must be baseline, avx2, avx512, avx512bf16 or amx, "
               "so it is ignored",
               text);
    }
    return word;
}

static uint64_t known(void)
{
    const uint64_t word = atomic_load_explicit(&cached, memory_order_acquire);
    return word != 0 ? word : detect();
}

static tw_isa level_at(uint64_t word, int shift) { return (tw_isa)(word >> shift & LEVEL_MASK); }

tw_isa tw_cpu_isa(void) { return level_at(known(), USED_SHIFT); }

const char *tw_isa_name(tw_isa isa)
{
    return (int)isa >= 0 && isa < TW_ISA_END ? isa_names[isa] : "unknown";
}

bool tw_cpu_has(tw_cpu_feature feature)
{
    const uint64_t word = known();
    return (word >> feature & 1) != 0 && tw_cpu_feature_isa(feature) <= level_at(word, USED_SHIFT);
}

bool tw_cpu_request_amx(void)
{
    enum { UNASKED, GRANTED, REFUSED };
    static _Atomic int answer = UNASKED;
    if (tw_cpu_isa() < TW_ISA_AMX) return false;
    int now = atomic_load_explicit(&answer, memory_order_acquire);
    if (now == UNASKED) {
        now = tw_cpuid_request_amx() ? GRANTED : REFUSED;
        atomic_store_explicit(&answer, now, memory_order_release);
    }
    return now == GRANTED;
}

/* Names of what was detected, as many as fit, with blanks between them. */
static void list_features(uint64_t features, char *text, size_t bytes)
{
    size_t used = 0;
    for (int f = 0; f < TW_CPU_FEATURE_END; f++) {
        if ((features >> f & 1) == 0) continue;
        const char *name = tw_cpu_feature_name((tw_cpu_feature)f);
        const size_t length = strlen(name);
        if (used + length + 2 > bytes) break;
        if (used > 0) text[used++] = ' ';
        memcpy(text + used, name, length);
        used += length;
    }
    text[used] = '\0';
}

tw_status tw_cpu_describe(tw_cpu_info *info)
{
    TW_REQUIRE(info != NULL, TW_INVALID_ARGUMENT, "info is NULL; it must point to a tw_cpu_info");
    TW_REQUIRE(info->size == sizeof *info, TW_INVALID_ARGUMENT,
               "info->size is %zu; it must be sizeof(tw_cpu_info), which is %zu", info->size,
               sizeof *info);
    tw_cpuid cpu;
    tw_cpuid_read(&cpu);
    memcpy(info->vendor, cpu.vendor, sizeof info->vendor);
    memcpy(info->model, cpu.model, sizeof info->model);
    const uint64_t word = known();
    info->detected = level_at(word, DETECTED_SHIFT);
    info->used = level_at(word, USED_SHIFT);
    info->logical_cpus = tw_os_cpu_count();
    info->l1d_bytes = tw_os_cache_bytes(1);
    info->l2_bytes = tw_os_cache_bytes(2);
    info->l3_bytes = tw_os_cache_bytes(3);
    info->memory_bytes = tw_os_memory_bytes();
    list_features(cpu.features, info->features, sizeof info->features);
    return TW_OK;
}
