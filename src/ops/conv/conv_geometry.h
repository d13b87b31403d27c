/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolution as kernels see it: always three spatial dims (D, H, W; leading ones have size 1),
 * and cross-correlation always (a flipped kernel becomes negative strides of w).
 *
 *   y[n, g·kg + k, p] = Σ_c Σ_t x[n, g·cg + c, p·stride − pad + t·dilation] · w[g·kg + k, c, t]
 */
#ifndef TW_OPS_CONV_CONV_GEOMETRY_H
#define TW_OPS_CONV_CONV_GEOMETRY_H

#include "ops/kernel.h"

/* Element strides: of dims 0 and 1 (N and channels; for w K and C/groups), and of D, H, W. */
typedef struct tw_conv_strides {
    int64_t dim0, dim1, at[3];
} tw_conv_strides;

typedef struct tw_conv_geometry {
    int64_t n, c, k, groups, cg, kg;
    int64_t in[3], out[3], taps[3];
    int64_t stride[3], dilation[3], pad[3]; /* pad: before the first element */
    tw_conv_strides x, w, y;
    int64_t w_start; /* of tap 0, in elements from w's first element: not 0 in a flipped kernel */
} tw_conv_geometry;

void tw_conv_read_geometry(const tw_problem *problem, tw_conv_geometry *g);

static inline int64_t tw_conv_product(const int64_t v[3]) { return v[0] * v[1] * v[2]; }

#endif
