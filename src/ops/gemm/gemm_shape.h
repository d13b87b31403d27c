/* SPDX-License-Identifier: Apache-2.0 */
/* What all kernels of the family see of a problem: three matrices and a batch. */
#ifndef TW_OPS_GEMM_SHAPE_H
#define TW_OPS_GEMM_SHAPE_H

#include "ops/kernel.h"

/* Strides in elements; 0 in a batch dim that broadcasts. */
typedef struct tw_gemm_matrix {
    int64_t row, col;
    int64_t batch[TW_MAX_RANK];
} tw_gemm_matrix;

/* c[m, n] = Σ_k a[m, k]·b[k, n] for every index of the batch dims. */
typedef struct tw_gemm_shape {
    int64_t m, n, k, n_batch;
    int32_t batch_rank;
    int64_t batch[TW_MAX_RANK];
    tw_gemm_matrix a, b, c;
} tw_gemm_shape;

extern const tw_op_info tw_gemm_ops[1];

tw_gemm_shape tw_gemm_shape_of(const tw_problem *problem);

/* The offset of matrix `index`, counted in row-major order of the batch dims. */
int64_t tw_gemm_batch_offset(const tw_gemm_shape *shape, const tw_gemm_matrix *matrix,
                             int64_t index);

/* Computes cᵀ = bᵀ·aᵀ instead: m and n, a and b, rows and columns change places. */
void tw_gemm_swap(tw_gemm_shape *shape);

/* Makes the innermost batch dims part of m where b does not depend on them and strides allow. */
void tw_gemm_merge_batch(tw_gemm_shape *shape, bool c_matters);

#endif
