/* SPDX-License-Identifier: Apache-2.0 */
/* The two ceilings of a roofline: multiply-adds, and copies at the size of the problem. */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "core/error.h"
#include "core/os.h"

enum {
    COPY_ROUNDS = 12,
    COPY_NANOSECONDS = 4000000,
    LEAST_COPY = 12 * MACHINE_STEPS,
    LONG_TASK = 1 << 20
};

tw_status machine_measure(machine *m, int64_t threads)
{
    tw_cpu_info cpu = {.size = sizeof cpu};
    TW_TRY(tw_cpu_describe(&cpu));
    const tw_context_options options = {.size = sizeof options, .threads = (int32_t)threads};
    *m = (machine){.isa = cpu.used, .memory_bytes = cpu.memory_bytes};
    TW_TRY(tw_context_create(&options, &m->context));
    m->threads = tw_context_threads(m->context);
    m->cache_bytes = cpu.l3_bytes > 0 ? cpu.l3_bytes : cpu.l2_bytes;
    return tw_cpu_peak(m->isa, m->threads, &m->flops);
}

void machine_free(machine *m)
{
    tw_context_free(m->context);
    m->context = NULL;
}

typedef struct copy_job {
    char *memory;
    size_t piece;   /* bytes of one thread's source and of its destination */
    int64_t repeat; /* copies in one task, so that small ones do not measure the loop */
} copy_job;

static void copy_piece(void *arg, int64_t item)
{
    const copy_job *job = arg;
    char *from = job->memory + (size_t)item * 2 * job->piece;
    for (int64_t i = 0; i < job->repeat; i++) memcpy(from + job->piece, from, job->piece);
}

/* The best of several rounds of some milliseconds. */
static tw_status time_copies(const machine *m, copy_job *job, double *bandwidth)
{
    double moved = 2.0 * (double)job->piece * (double)job->repeat * m->threads;
    *bandwidth = 0;
    for (int round = 0; round < COPY_ROUNDS; round++) {
        int64_t start = tw_os_nanoseconds(), now = start, copies = 0;
        while (copies == 0 || now - start < COPY_NANOSECONDS) {
            TW_TRY(tw_context_for(m->context, m->threads, copy_piece, job));
            now = tw_os_nanoseconds();
            copies++;
        }
        double rate = moved * (double)copies / ((double)(now - start) * 1e-9);
        if (rate > *bandwidth) *bandwidth = rate;
    }
    return TW_OK;
}

tw_status machine_bandwidth(machine *m, double bytes, double *bandwidth)
{
    int at = bytes > 1 ? (int)lround(MACHINE_STEPS * log2(bytes)) : 0;
    double most = (double)(m->memory_bytes > 0 ? m->memory_bytes : 1 << 30) / 8;
    if (at > MACHINE_STEPS * log2(most)) at = (int)(MACHINE_STEPS * log2(most));
    if (at < LEAST_COPY) at = LEAST_COPY; /* smaller ones measure memcpy's calls */
    if (at >= MACHINE_SIZES) at = MACHINE_SIZES - 1;
    if (m->bandwidth[at] == 0) {
        size_t piece = (size_t)exp2((double)at / MACHINE_STEPS) / 2 / (size_t)m->threads;
        copy_job job = {.piece = (piece + 63) & ~(size_t)63};
        job.repeat = 1 + LONG_TASK / (int64_t)job.piece;
        job.memory = tw_malloc(2 * job.piece * (size_t)m->threads);
        if (!job.memory) return tw_fail_memory(2 * job.piece * (size_t)m->threads);
        memset(job.memory, 1, 2 * job.piece * (size_t)m->threads);
        tw_status status = time_copies(m, &job, &m->bandwidth[at]);
        tw_free(job.memory);
        TW_TRY(status);
    }
    *bandwidth = m->bandwidth[at];
    return TW_OK;
}
