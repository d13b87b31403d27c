/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floating-point control word of the calling thread: rounding, traps, treatment of subnormals.
 * Sticky exception flags are not part of it. Compilers do not see the word as an operand: set it
 * around calls of functions, not around expressions.
 */
#ifndef TW_ARCH_CPU_FPENV_H
#define TW_ARCH_CPU_FPENV_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#    include <xmmintrin.h>

#    define TW_FPENV_DEFAULT UINT64_C(0x1F80) /* to nearest, no traps, subnormals kept */
#    define TW_FPENV_FLUSH UINT64_C(0x8040)   /* MXCSR: FTZ for results, DAZ for operands */
#    define TW_FPENV_CONTROL UINT32_C(0xFFC0)

static inline uint64_t tw_fpenv_get(void) { return _mm_getcsr() & TW_FPENV_CONTROL; }

static inline void tw_fpenv_set(uint64_t env)
{
    const uint32_t now = _mm_getcsr();
    const uint32_t next = (now & ~TW_FPENV_CONTROL) | (uint32_t)env;
    if (next != now) _mm_setcsr(next);
}

#elif defined(__aarch64__)

#    define TW_FPENV_DEFAULT UINT64_C(0)
#    define TW_FPENV_FLUSH UINT64_C(0x1080000) /* FPCR: FZ, and FZ16 for half precision */

static inline uint64_t tw_fpenv_get(void)
{
    uint64_t env;
    __asm__ volatile("mrs %0, fpcr" : "=r"(env));
    return env;
}

static inline void tw_fpenv_set(uint64_t env)
{
    if (env != tw_fpenv_get()) __asm__ volatile("msr fpcr, %0" : : "r"(env) : "memory");
}

#else /* flush mode has no effect */

#    define TW_FPENV_DEFAULT UINT64_C(0)
#    define TW_FPENV_FLUSH UINT64_C(0)

static inline uint64_t tw_fpenv_get(void) { return 0; }
static inline void tw_fpenv_set(uint64_t env) { (void)env; }

#endif

/* The default environment, with subnormals kept or flushed to zero: what plans run under. */
static inline uint64_t tw_fpenv_for(bool flush)
{
    return flush ? TW_FPENV_DEFAULT | TW_FPENV_FLUSH : TW_FPENV_DEFAULT;
}

/* Installs `env` and returns the one before it, for tw_fpenv_set on the way out. */
static inline uint64_t tw_fpenv_swap(uint64_t env)
{
    const uint64_t before = tw_fpenv_get();
    tw_fpenv_set(env);
    return before;
}

#endif
