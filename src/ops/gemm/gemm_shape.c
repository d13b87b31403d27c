/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm/gemm_shape.h"

/* Fills in the batch strides of an operand whose last `inner` dims are its matrix. */
static void batch_strides(const tw_gemm_shape *shape, const tw_view *view, int32_t inner,
                          tw_gemm_matrix *matrix)
{
    for (int32_t d = 0; d < shape->batch_rank; d++) {
        const int32_t e = d + view->rank - inner - shape->batch_rank;
        matrix->batch[d] = e < 0 || view->dims[e] == 1 ? 0 : view->strides[e];
    }
}

tw_gemm_shape tw_gemm_shape_of(const tw_problem *problem)
{
    const tw_view *a = &problem->in[0], *b = &problem->in[1], *c = &problem->out[0];
    tw_gemm_shape s = {.m = 1, .n = 1, .k = a->dims[a->rank - 1], .n_batch = 1};
    const int32_t has_m = a->rank > 1, has_n = b->rank > 1;
    s.a.col = a->strides[a->rank - 1];
    if (has_m) {
        s.m = a->dims[a->rank - 2];
        s.a.row = a->strides[a->rank - 2];
        s.c.row = c->strides[c->rank - 1 - has_n];
    }
    s.b.row = b->strides[b->rank - 1 - has_n];
    if (has_n) {
        s.n = b->dims[b->rank - 1];
        s.b.col = b->strides[b->rank - 1];
        s.c.col = c->strides[c->rank - 1];
    }
    s.batch_rank = c->rank - has_m - has_n;
    for (int32_t d = 0; d < s.batch_rank; d++) {
        s.batch[d] = c->dims[d];
        s.n_batch *= c->dims[d];
        s.c.batch[d] = c->strides[d];
    }
    batch_strides(&s, a, 1 + has_m, &s.a);
    batch_strides(&s, b, 1 + has_n, &s.b);
    return s;
}

int64_t tw_gemm_batch_offset(const tw_gemm_shape *shape, const tw_gemm_matrix *matrix,
                             int64_t index)
{
    int64_t offset = 0;
    for (int32_t d = shape->batch_rank - 1; d >= 0; d--) {
        offset += index % shape->batch[d] * matrix->batch[d];
        index /= shape->batch[d];
    }
    return offset;
}

static void transpose(tw_gemm_matrix *matrix)
{
    const int64_t row = matrix->row;
    matrix->row = matrix->col;
    matrix->col = row;
}

void tw_gemm_swap(tw_gemm_shape *shape)
{
    const tw_gemm_matrix a = shape->a;
    const int64_t m = shape->m;
    shape->a = shape->b;
    shape->b = a;
    shape->m = shape->n;
    shape->n = m;
    transpose(&shape->a);
    transpose(&shape->b);
    transpose(&shape->c);
}

void tw_gemm_merge_batch(tw_gemm_shape *shape, bool c_matters)
{
    for (; shape->batch_rank > 0 && shape->n_batch > 0; shape->batch_rank--) {
        const int32_t last = shape->batch_rank - 1;
        const int64_t count = shape->batch[last];
        if (count == 1) continue;
        if (shape->b.batch[last] != 0) return;
        if (shape->m == 1) {
            shape->a.row = shape->a.batch[last];
            shape->c.row = shape->c.batch[last];
        }
        const bool a_fits = shape->a.batch[last] == shape->m * shape->a.row;
        const bool c_fits = shape->c.batch[last] == shape->m * shape->c.row;
        if (shape->m != 1 && (!a_fits || (c_matters && !c_fits))) return;
        shape->m *= count;
        shape->n_batch /= count;
    }
}
