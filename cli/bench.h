/* SPDX-License-Identifier: Apache-2.0 */
/* `tw bench`: what is timed, how, and against which ceiling. */
#ifndef TW_CLI_BENCH_H
#define TW_CLI_BENCH_H

#include "verify_data.h"

/* ---- The machine (bench_machine.c) ----------------------------------------------------------- */

enum { MACHINE_STEPS = 4, MACHINE_SIZES = 48 * MACHINE_STEPS }; /* sizes in an octave; in all */

typedef struct machine {
    tw_context *context;
    int32_t threads;
    tw_isa isa;
    double flops; /* f32 multiply-adds in registers, all threads, a second */
    int64_t cache_bytes, memory_bytes;
    double bandwidth[MACHINE_SIZES]; /* by size of the data; 0: not measured yet */
} machine;

tw_status machine_measure(machine *m, int64_t threads);
void machine_free(machine *m);
/* Bytes a second, read and written, of copies that move `bytes`. Measured when first asked. */
tw_status machine_bandwidth(machine *m, double bytes, double *bandwidth);

/* ---- One problem (bench_measure.c) ----------------------------------------------------------- */

typedef struct bench_options {
    const char *kernel;
    bool cold;      /* rotate over buffers of more than twice the last cache */
    double seconds; /* of sampling for each problem */
} bench_options;

/* Seconds of one run. */
typedef struct bench_times {
    double median, least, p90;
    int64_t samples;
} bench_times;

/* Something that computes a problem. Contenders are sampled in turns, so that all meet the same
 * clock and the same neighbours. Other libraries' implementations are added to the table of
 * bench_contenders. */
typedef struct bench_contender {
    const char *name;
    tw_status (*open)(const problem *p, const bench_options *options, machine *m, void **state);
    tw_status (*run)(void *state); /* once; each call takes the next set of buffers */
    const char *(*kernel)(const void *state);
    void (*close)(void *state);
} bench_contender;

extern const bench_contender *const bench_contenders[]; /* the first is our own; ends with NULL */

typedef struct bench_result {
    const problem *problem;
    char kernel[128];
    bench_times times;
    double flops, bytes;
    double bound;       /* seconds that the machine needs at least */
    bool compute_bound; /* which side of the roofline the bound is on */
    double fraction;    /* bound / median */
} bench_result;

tw_status bench_measure(const problem *p, const bench_options *options, machine *m,
                        bench_result *result);

/* Samples of a function for about `seconds`, each of at least 20 µs, after warming up. */
tw_status bench_sample(tw_status (*run)(void *state), void *state, double seconds,
                       bench_times *times);

/* ---- Output (bench_report.c) ----------------------------------------------------------------- */

void bench_print_header(const machine *m);
void bench_print(const bench_result *result);
void bench_print_total(const bench_result *results, int64_t n);
tw_status bench_write_json(const char *path, const machine *m, const bench_result *results,
                           int64_t n);
tw_status bench_write_csv(const char *path, const bench_result *results, int64_t n);

/* `tw bench overhead` (bench_overhead.c): what a call costs besides its kernel. */
tw_status bench_overhead(machine *m, double seconds);

#endif
