/* SPDX-License-Identifier: Apache-2.0 */
/* Forward pass and data gradient in f32: parts (conv_part.h) on the GEMM core. */
#ifndef TW_OPS_CONV_CONV_PIXELS_H
#define TW_OPS_CONV_CONV_PIXELS_H

#include "ops/conv/conv_part.h"

typedef struct tw_conv_pixels_plan {
    const tw_conv_target *target;
    tw_conv_part *parts;
    int64_t *first_item, *first_panel; /* n_parts + 1 */
    int64_t *splits;                   /* of a part's columns */
    int64_t n_parts, packed_floats;
    const float *packed; /* NULL: packed in run */
    bool packed_finite;
    const tw_chain_program *epilogue;
    bool converts; /* the epilogue is only the conversion of a narrow result */
    /* Workspace: [packed weights][one byte a panel][scratch of each slot: band, windows, tile]. */
    int64_t flags_at, scratch_at, band_floats, rows_floats, tile_floats, slot_floats, bytes;
} tw_conv_pixels_plan;

const char *tw_conv_pixels_refuses(const tw_problem *problem, const tw_conv_target *target);
tw_status tw_conv_pixels_prepare(const tw_problem *problem, tw_prepare *prepare,
                                 const tw_conv_target *target);
tw_status tw_conv_pixels_run(const tw_launch *launch);

/* What all purely f32 kernels of the family refuse; NULL: nothing. */
const char *tw_conv_refuses_types(const tw_problem *problem);

#endif
