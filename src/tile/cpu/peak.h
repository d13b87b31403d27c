/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling that benchmarks divide by: f32 operations a second of one thread that does nothing
 * but multiply-adds in registers (a multiply and an addition where the target has no fused one). */
#ifndef TW_TILE_CPU_PEAK_H
#define TW_TILE_CPU_PEAK_H

/* Measures for about 20 ms and gives the best of several rounds. */
double tw_peak_flops__avx512(void);
double tw_peak_flops__avx2(void);
double tw_peak_flops__sse2(void);
double tw_peak_flops__neon(void);

#endif
