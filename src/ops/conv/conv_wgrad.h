/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weight gradient in f32 on the GEMM core.
 *
 *   dw[t, c, k] = Σ_pixels x[pixel · step − pad + t · dilation, c] · dy[pixel, k]
 *
 * Rows of a product are input channels (of all taps along W where these are one run of memory), its
 * columns output channels, its sum runs over pixels. The pixels are cut into a number of groups
 * that depends on the problem alone; each group sums into a buffer of its own, and the buffers are
 * added in order.
 */
#ifndef TW_OPS_CONV_CONV_WGRAD_H
#define TW_OPS_CONV_CONV_WGRAD_H

#include "ops/conv/conv_part.h"

/* What the sum of one product runs over: pixels along W (ROWS), one pixel of many images (IMAGES),
 * or gathered windows (GATHER). */
typedef struct tw_conv_wgrad_plan {
    const tw_conv_target *target;
    tw_conv_part part;          /* of the forward pass */
    tw_conv_part dy;            /* copies dy, channels last, where it is not */
    bool lines;                 /* gathered windows are transposed: [window element][pixel] */
    int64_t run;                /* taps along W that one product takes together */
    int64_t groups;             /* of pixels */
    int64_t splits, tap_splits; /* of the columns, and of the kernel's rows */
    int64_t filter_row, filter; /* floats from row to row, and of a whole gradient of one group */
    /* Workspace: [groups × part.groups gradients][scratch of each slot: dy, windows]. */
    int64_t scratch_at, dy_floats, slot_floats, bytes;
} tw_conv_wgrad_plan;

const char *tw_conv_wgrad_refuses(const tw_problem *problem, const tw_conv_target *target);
tw_status tw_conv_wgrad_prepare(const tw_problem *problem, tw_prepare *prepare,
                                const tw_conv_target *target);
tw_status tw_conv_wgrad_run(const tw_launch *launch);

#endif
