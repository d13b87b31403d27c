/* SPDX-License-Identifier: Apache-2.0 */
/* CPUID and XGETBV on x86-64; AArch64 has only its baseline. */
#include "arch/cpu/cpuid.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#    include <cpuid.h>
#    if defined(__linux__)
#        include <sys/syscall.h>
#        include <unistd.h>
#    endif
#endif

/* Where a feature's bit stands. */
enum { LEAF_1, LEAF_7_0, LEAF_7_1, LEAF_COUNT, LEAF_NONE = LEAF_COUNT };
enum { EAX, EBX, ECX, EDX };

/* State components of XCR0 that the operating system must save. */
enum {
    STATE_NONE = 0,
    STATE_AVX = 0x6,         /* xmm, ymm */
    STATE_AVX512 = 0xE6,     /* and opmask, both halves of zmm */
    STATE_AMX = 0x60000 | 6, /* tile configuration, tile data */
    STATE_TILE_DATA = 18     /* number of the component that needs permission */
};

static const struct {
    const char *name;
    uint8_t leaf, reg, bit;
    uint32_t state;
    tw_isa isa;
} features[TW_CPU_FEATURE_END] = {
    [TW_CPU_SSE2] = {"sse2", LEAF_1, EDX, 26, STATE_NONE, TW_ISA_BASELINE},
    [TW_CPU_AVX] = {"avx", LEAF_1, ECX, 28, STATE_AVX, TW_ISA_AVX2},
    [TW_CPU_FMA] = {"fma", LEAF_1, ECX, 12, STATE_AVX, TW_ISA_AVX2},
    [TW_CPU_F16C] = {"f16c", LEAF_1, ECX, 29, STATE_AVX, TW_ISA_AVX2},
    [TW_CPU_AVX2] = {"avx2", LEAF_7_0, EBX, 5, STATE_AVX, TW_ISA_AVX2},
    [TW_CPU_AVX_VNNI] = {"avx_vnni", LEAF_7_1, EAX, 4, STATE_AVX, TW_ISA_AVX2},
    [TW_CPU_AVX512F] = {"avx512f", LEAF_7_0, EBX, 16, STATE_AVX512, TW_ISA_AVX512},
    [TW_CPU_AVX512BW] = {"avx512bw", LEAF_7_0, EBX, 30, STATE_AVX512, TW_ISA_AVX512},
    [TW_CPU_AVX512DQ] = {"avx512dq", LEAF_7_0, EBX, 17, STATE_AVX512, TW_ISA_AVX512},
    [TW_CPU_AVX512VL] = {"avx512vl", LEAF_7_0, EBX, 31, STATE_AVX512, TW_ISA_AVX512},
    [TW_CPU_AVX512_VNNI] = {"avx512_vnni", LEAF_7_0, ECX, 11, STATE_AVX512, TW_ISA_AVX512},
    [TW_CPU_AVX512_BF16] = {"avx512_bf16", LEAF_7_1, EAX, 5, STATE_AVX512, TW_ISA_AVX512BF16},
    [TW_CPU_AVX512_FP16] = {"avx512_fp16", LEAF_7_0, EDX, 23, STATE_AVX512, TW_ISA_AVX512BF16},
    [TW_CPU_AMX_TILE] = {"amx_tile", LEAF_7_0, EDX, 24, STATE_AMX, TW_ISA_AMX},
    [TW_CPU_AMX_BF16] = {"amx_bf16", LEAF_7_0, EDX, 22, STATE_AMX, TW_ISA_AMX},
    [TW_CPU_AMX_INT8] = {"amx_int8", LEAF_7_0, EDX, 25, STATE_AMX, TW_ISA_AMX},
    [TW_CPU_AMX_FP16] = {"amx_fp16", LEAF_7_1, EAX, 21, STATE_AMX, TW_ISA_AMX},
    [TW_CPU_NEON] = {"neon", LEAF_NONE, 0, 0, STATE_NONE, TW_ISA_BASELINE},
};

#define BIT(feature) (UINT64_C(1) << (feature))

/* What each level adds to the one below it. */
static const uint64_t needed[TW_ISA_END] = {
    [TW_ISA_AVX2] = BIT(TW_CPU_AVX2) | BIT(TW_CPU_FMA) | BIT(TW_CPU_F16C),
    [TW_ISA_AVX512] =
        BIT(TW_CPU_AVX512F) | BIT(TW_CPU_AVX512BW) | BIT(TW_CPU_AVX512DQ) | BIT(TW_CPU_AVX512VL),
    [TW_ISA_AVX512BF16] = BIT(TW_CPU_AVX512_BF16) | BIT(TW_CPU_AVX512_VNNI),
    [TW_ISA_AMX] = BIT(TW_CPU_AMX_TILE) | BIT(TW_CPU_AMX_BF16) | BIT(TW_CPU_AMX_INT8),
};

const char *tw_cpu_feature_name(tw_cpu_feature feature) { return features[feature].name; }

tw_isa tw_cpu_feature_isa(tw_cpu_feature feature) { return features[feature].isa; }

#if defined(__x86_64__)

static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

#    if defined(__linux__)

/* <asm/prctl.h> of older systems lacks these. */
enum { GET_SUPPORTED_STATES = 0x1021, REQUEST_STATE = 0x1023 };

/* Linux gives tile registers only on request; an older kernel, or a sandbox, has no such call. */
static bool system_offers_amx(void)
{
    uint64_t states = 0;
    return syscall(SYS_arch_prctl, GET_SUPPORTED_STATES, &states) == 0 &&
           (states >> STATE_TILE_DATA & 1) != 0;
}

bool tw_cpuid_request_amx(void)
{
    return syscall(SYS_arch_prctl, REQUEST_STATE, STATE_TILE_DATA) == 0;
}

#    else

static bool system_offers_amx(void) { return false; }
bool tw_cpuid_request_amx(void) { return false; }

#    endif

static uint64_t usable_states(const uint32_t leaves[LEAF_COUNT][4])
{
    const uint32_t osxsave = UINT32_C(1) << 27;
    if ((leaves[LEAF_1][ECX] & osxsave) == 0) return 0;
    uint64_t states = read_xcr0();
    if ((states & STATE_AMX) == STATE_AMX && !system_offers_amx()) {
        states &= ~(UINT64_C(1) << STATE_TILE_DATA);
    }
    return states;
}

static void read_leaf(uint32_t leaf, uint32_t subleaf, uint32_t regs[4])
{
    memset(regs, 0, 4 * sizeof regs[0]);
    (void)__get_cpuid_count(leaf, subleaf, &regs[EAX], &regs[EBX], &regs[ECX], &regs[EDX]);
}

static uint64_t read_features(void)
{
    uint32_t leaves[LEAF_COUNT][4];
    read_leaf(1, 0, leaves[LEAF_1]);
    read_leaf(7, 0, leaves[LEAF_7_0]);
    const uint32_t last_subleaf = leaves[LEAF_7_0][EAX];
    memset(leaves[LEAF_7_1], 0, sizeof leaves[LEAF_7_1]);
    if (last_subleaf >= 1) read_leaf(7, 1, leaves[LEAF_7_1]);

    const uint64_t states = usable_states((const uint32_t(*)[4])leaves);
    uint64_t found = 0;
    for (int f = 0; f < TW_CPU_FEATURE_END; f++) {
        if (features[f].leaf == LEAF_NONE) continue;
        const bool there = (leaves[features[f].leaf][features[f].reg] >> features[f].bit & 1) != 0;
        if (there && (states & features[f].state) == features[f].state) found |= BIT(f);
    }
    return found;
}

static void read_names(tw_cpuid *cpu)
{
    uint32_t regs[4];
    read_leaf(0, 0, regs);
    memcpy(cpu->vendor, &regs[EBX], 4);
    memcpy(cpu->vendor + 4, &regs[EDX], 4);
    memcpy(cpu->vendor + 8, &regs[ECX], 4);

    char brand[49] = {0};
    for (uint32_t i = 0; i < 3; i++) {
        read_leaf(0x80000002u + i, 0, regs);
        memcpy(brand + 16 * i, regs, 16);
    }
    const size_t blanks = strspn(brand, " ");
    memcpy(cpu->model, brand + blanks, sizeof brand - blanks);
}

#else

bool tw_cpuid_request_amx(void) { return false; }

static uint64_t read_features(void)
{
#    if defined(__aarch64__)
    return BIT(TW_CPU_NEON);
#    else
    return 0;
#    endif
}

static void read_names(tw_cpuid *cpu)
{
#    if defined(__aarch64__)
    memcpy(cpu->model, "AArch64", sizeof "AArch64");
#    else
    (void)cpu;
#    endif
}

#endif

void tw_cpuid_read(tw_cpuid *cpu)
{
    memset(cpu, 0, sizeof *cpu);
    read_names(cpu);
    cpu->features = read_features();
    cpu->isa = TW_ISA_BASELINE;
    for (int level = TW_ISA_AVX2; level < TW_ISA_END; level++) {
        if ((cpu->features & needed[level]) != needed[level]) break;
        if (needed[level] != 0) cpu->isa = (tw_isa)level;
    }
}
