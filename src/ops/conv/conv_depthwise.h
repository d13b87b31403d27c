/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution (one input and one output channel in each group) in f32. Channels are the
 * vector: pixels are channels last, copied to that order where they are not. Taps over padding are
 * skipped. Forward pass and data gradient run the parts of conv_part.h.
 */
#ifndef TW_OPS_CONV_CONV_DEPTHWISE_H
#define TW_OPS_CONV_CONV_DEPTHWISE_H

#include "ops/conv/conv_part.h"

enum { TW_CONV_KERNEL_ROWS = 64 };

/* y[i, c] = Σ_r Σ_t x[x_rows[r] + i·x_pixel + t·x_tap + c] · w[w_rows[r] + t·w_tap + c] */
typedef struct tw_conv_depthwise_row {
    const float *x, *w;
    float *y;
    int64_t x_pixel, x_tap, w_tap, y_pixel;
    int64_t pixels, channels, taps, n_rows;
    int64_t x_rows[TW_CONV_KERNEL_ROWS], w_rows[TW_CONV_KERNEL_ROWS];
} tw_conv_depthwise_row;
typedef void (*tw_conv_depthwise_fn)(const tw_conv_depthwise_row *row);

/* sum[c] += Σ_i x[i·x_pixel + c] · y[i·y_pixel + c] */
typedef struct tw_conv_depthwise_sum {
    const float *x, *y;
    float *sum;
    int64_t x_pixel, y_pixel, pixels, channels;
} tw_conv_depthwise_sum;
typedef void (*tw_conv_depthwise_sum_fn)(const tw_conv_depthwise_sum *row);

typedef struct tw_conv_depthwise_target {
    tw_conv_depthwise_fn row;
    tw_conv_depthwise_sum_fn sum;
    tw_chain_run_fn chain_run;
} tw_conv_depthwise_target;

typedef struct tw_conv_depthwise_plan {
    const tw_conv_depthwise_target *target;
    tw_conv_part *parts; /* all channels of a pixel: cin is C, one group */
    tw_conv_part dy;     /* weight gradient: copies dy where it is not channels last */
    int64_t *first_item;
    int64_t n_parts, taps, weights; /* weights: floats of a packed kernel */
    int64_t groups;                 /* weight gradient: of boxes */
    const tw_chain_program *epilogue;
    /* Workspace: [weights of all parts, or groups × weights][scratch of each slot: band, tile]. */
    int64_t scratch_at, band_floats, slot_floats, bytes;
} tw_conv_depthwise_plan;

const char *tw_conv_depthwise_refuses(const tw_problem *problem);
tw_status tw_conv_depthwise_prepare(const tw_problem *problem, tw_prepare *prepare,
                                    const tw_conv_depthwise_target *target);
tw_status tw_conv_depthwise_run(const tw_launch *launch);
tw_status tw_conv_depthwise_wgrad_run(const tw_launch *launch);

#endif
