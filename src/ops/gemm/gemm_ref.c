/* SPDX-License-Identifier: Apache-2.0 */
/* The reference: the sum as it is written. Any strides, any real types; f64 accumulation for
 * floats, 64-bit integers for integers, one rounding on store. */
#include "core/dtype.h"
#include "core/error.h"
#include "ops/gemm/gemm_shape.h"
#include "runtime/cpu/parallel.h"

typedef struct job {
    const tw_launch *launch;
    tw_gemm_shape shape;
    tw_dtype a_type, b_type, c_type;
    bool integers;
} job;

static bool is_integer(tw_dtype type) { return tw_dtype_is_integer(type) || type == TW_BOOL; }

static void element(const job *j, int64_t a, int64_t b, int64_t c)
{
    const tw_gemm_shape *s = &j->shape;
    const void *from_a = j->launch->in[0], *from_b = j->launch->in[1];
    uint64_t total = 0; /* wraps only where 64-bit operands themselves do */
    double sum = 0.0;
    for (int64_t k = 0; k < s->k; k++, a += s->a.col, b += s->b.row)
        if (j->integers)
            total += (uint64_t)tw_load_int(j->a_type, from_a, a) *
                     (uint64_t)tw_load_int(j->b_type, from_b, b);
        else
            sum += tw_load(j->a_type, from_a, a) * tw_load(j->b_type, from_b, b);
    if (!j->integers)
        tw_store(j->c_type, j->launch->out[0], c, sum, 0);
    else if (is_integer(j->c_type))
        tw_store_int(j->c_type, j->launch->out[0], c, (int64_t)total, 0);
    else
        tw_store(j->c_type, j->launch->out[0], c, (double)(int64_t)total, 0);
}

static void row(void *arg, int32_t slot, int64_t item)
{
    (void)slot;
    const job *j = arg;
    const tw_gemm_shape *s = &j->shape;
    const int64_t batch = item / s->m, m = item % s->m;
    const int64_t a = tw_gemm_batch_offset(s, &s->a, batch) + m * s->a.row;
    const int64_t b = tw_gemm_batch_offset(s, &s->b, batch);
    const int64_t c = tw_gemm_batch_offset(s, &s->c, batch) + m * s->c.row;
    for (int64_t n = 0; n < s->n; n++) element(j, a, b + n * s->b.col, c + n * s->c.col);
}

static const char *supports(const tw_problem *problem)
{
    if (problem->prologue[0] || problem->prologue[1]) return "it takes no prologue";
    if (problem->epilogue) return "it takes no epilogue";
    return NULL;
}

static tw_status run(const tw_launch *launch)
{
    const tw_problem *p = launch->problem;
    job j = {.launch = launch,
             .shape = tw_gemm_shape_of(p),
             .a_type = p->in[0].dtype,
             .b_type = p->in[1].dtype,
             .c_type = p->out[0].dtype};
    j.integers = is_integer(j.a_type) && is_integer(j.b_type);
    if (j.shape.n == 0) return TW_OK;
    /* Elements below a byte share one: their writers must not run side by side. */
    const bool serial = tw_dtype_bits(j.c_type) < 8;
    tw_parallel(serial ? NULL : launch->context, p->max_threads, j.shape.n_batch * j.shape.m, row,
                &j);
    return TW_OK;
}

extern const tw_kernel_impl tw_gemm_plain_any__ref;
const tw_kernel_impl tw_gemm_plain_any__ref = {.supports = supports, .run = run};
