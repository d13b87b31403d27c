/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a family's manifest. <f>_plan.c does
 *
 *     #define TW_MANIFEST "ops/pool/pool.def"
 *     #include "ops/manifest.h"
 *
 * which declares every row's tw_kernel_impl and defines the static table `manifest_rows`. A row is
 *
 *     TW_ROW(family, algorithm, types, target, KIND)
 *
 * and its symbol tw_<family>_<algorithm>_<types>__<target> is pasted from the columns, so that a
 * kernel cannot be named otherwise. Targets: avx512 avx2 sse2 neon, and ref, the last row of every
 * operation. Rows of other architectures stay listed, without an implementation.
 */
#include "ops/kernel.h"

#if defined(__x86_64__) || defined(_M_X64)
#    define TW_IMPL_avx512(symbol) &symbol
#    define TW_IMPL_avx2(symbol) &symbol
#    define TW_IMPL_sse2(symbol) &symbol
#    define TW_IMPL_neon(symbol) NULL
#elif defined(__aarch64__)
#    define TW_IMPL_avx512(symbol) NULL
#    define TW_IMPL_avx2(symbol) NULL
#    define TW_IMPL_sse2(symbol) NULL
#    define TW_IMPL_neon(symbol) &symbol
#else
#    define TW_IMPL_avx512(symbol) NULL
#    define TW_IMPL_avx2(symbol) NULL
#    define TW_IMPL_sse2(symbol) NULL
#    define TW_IMPL_neon(symbol) NULL
#endif
#define TW_IMPL_ref(symbol) &symbol

enum {
    TW_ISA_OF_avx512 = TW_ISA_AVX512,
    TW_ISA_OF_avx2 = TW_ISA_AVX2,
    TW_ISA_OF_sse2 = TW_ISA_BASELINE,
    TW_ISA_OF_neon = TW_ISA_BASELINE,
    TW_ISA_OF_ref = TW_ISA_BASELINE,
    TW_REFERENCE_avx512 = 0,
    TW_REFERENCE_avx2 = 0,
    TW_REFERENCE_sse2 = 0,
    TW_REFERENCE_neon = 0,
    TW_REFERENCE_ref = 1
};

#define TW_ROW(family, algorithm, types, target, kind)                                             \
    extern const tw_kernel_impl tw_##family##_##algorithm##_##types##__##target;
#include TW_MANIFEST
#undef TW_ROW

#define TW_ROW(family, algorithm, types, target, kind)                                             \
    {"tw_" #family "_" #algorithm "_" #types "__" #target,                                         \
     #algorithm,                                                                                   \
     #types,                                                                                       \
     #target,                                                                                      \
     TW_OP_##kind,                                                                                 \
     (tw_isa)TW_ISA_OF_##target,                                                                   \
     TW_REFERENCE_##target != 0,                                                                   \
     TW_IMPL_##target(tw_##family##_##algorithm##_##types##__##target)},
static const tw_kernel manifest_rows[] = {
#include TW_MANIFEST
};
#undef TW_ROW
