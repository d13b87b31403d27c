/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: validation, shape inference by NumPy's rules, gradient. */
#include "core/dtype.h"
#include "ops/gemm/gemm_shape.h"
#include "ops/grad.h"
#include "ops/pointwise/pointwise.h"

static bool is_integer(tw_dtype type) { return tw_dtype_is_integer(type) || type == TW_BOOL; }

static tw_status check_operand(const char *name, const tw_tensor_desc *desc)
{
    TW_REQUIRE(!tw_dtype_is_complex(desc->dtype), TW_INVALID_ARGUMENT,
               "matmul: %s is %s; accepted are real types", name, tw_dtype_name(desc->dtype));
    TW_REQUIRE(desc->rank >= 1, TW_INVALID_ARGUMENT,
               "matmul: %s has rank 0; it must be a vector, a matrix or a batch of matrices", name);
    return TW_OK;
}

/* Whether |Σ| of k products may exceed int32: then accumulators are 64 bits wide. */
static bool may_overflow(tw_dtype a, tw_dtype b, int64_t k)
{
    return (double)k * (tw_dtype_max(a) + 1) * (tw_dtype_max(b) + 1) > 2147483647.0;
}

static tw_status check_compute(tw_matmul_attrs *attrs, const tw_tensor_desc *a,
                               const tw_tensor_desc *b)
{
    const tw_dtype compute = attrs->compute;
    if (is_integer(a->dtype) && is_integer(b->dtype)) {
        const bool wide = may_overflow(a->dtype, b->dtype, a->dims[a->rank - 1]);
        TW_REQUIRE(compute == TW_AUTO || compute == TW_I32 || compute == TW_I64,
                   TW_INVALID_ARGUMENT,
                   "matmul: compute is %s; for integer operands it must be i32, i64 or auto",
                   tw_dtype_name(compute));
        if (compute == TW_AUTO) attrs->compute = wide ? TW_I64 : TW_I32;
        return TW_OK;
    }
    const bool f64 = a->dtype == TW_F64 || b->dtype == TW_F64;
    TW_REQUIRE(compute == TW_AUTO || compute == TW_F64 || (compute == TW_F32 && !f64),
               TW_INVALID_ARGUMENT, "matmul: compute is %s; for %s and %s it must be %s or auto",
               tw_dtype_name(compute), tw_dtype_name(a->dtype), tw_dtype_name(b->dtype),
               f64 ? "f64" : "f32, f64");
    if (compute == TW_AUTO) attrs->compute = f64 ? TW_F64 : TW_F32;
    return TW_OK;
}

static tw_dtype result_type(tw_dtype a, tw_dtype b)
{
    if (!is_integer(a) || !is_integer(b)) return tw_pw_promote(a, b);
    return tw_dtype_bits(a) == 64 || tw_dtype_bits(b) == 64 ? TW_I64 : TW_I32;
}

/* The batch dims of a and b, broadcast against each other. */
static tw_status infer_batch(const tw_tensor_desc *a, const tw_tensor_desc *b, tw_tensor_desc *y)
{
    const int32_t a_rank = a->rank > 2 ? a->rank - 2 : 0, b_rank = b->rank > 2 ? b->rank - 2 : 0;
    y->rank = a_rank > b_rank ? a_rank : b_rank;
    for (int32_t d = 0; d < y->rank; d++) {
        const int32_t i = d - (y->rank - a_rank), j = d - (y->rank - b_rank);
        const int64_t from_a = i >= 0 ? a->dims[i] : 1, from_b = j >= 0 ? b->dims[j] : 1;
        TW_REQUIRE(from_a == from_b || from_a == 1 || from_b == 1, TW_INVALID_ARGUMENT,
                   "matmul: dim %d of a is %lld and dim %d of b is %lld; batch dims must be equal, "
                   "or one of them 1",
                   i, (long long)from_a, j, (long long)from_b);
        y->dims[d] = from_a == 1 ? from_b : from_a;
    }
    return TW_OK;
}

static tw_status infer(tw_infer *infer)
{
    const tw_tensor_desc *a = infer->in[0], *b = infer->in[1];
    tw_tensor_desc *y = &infer->out[0];
    TW_TRY(check_operand("a", a));
    TW_TRY(check_operand("b", b));
    const int32_t b_depth = b->rank > 1 ? b->rank - 2 : 0;
    TW_REQUIRE(b->dims[b_depth] == a->dims[a->rank - 1], TW_INVALID_ARGUMENT,
               "matmul: dim %d of b is %lld; it must be equal to dim %d of a, %lld", b_depth,
               (long long)b->dims[b_depth], a->rank - 1, (long long)a->dims[a->rank - 1]);
    TW_TRY(check_compute(&infer->attrs->matmul, a, b));
    TW_TRY(infer_batch(a, b, y));
    if (a->rank > 1) y->dims[y->rank++] = a->dims[a->rank - 2];
    if (b->rank > 1) y->dims[y->rank++] = b->dims[b->rank - 1];
    if (!infer->declared[0]) y->dtype = result_type(a->dtype, b->dtype);
    TW_REQUIRE(!tw_dtype_is_complex(y->dtype), TW_INVALID_ARGUMENT,
               "matmul: y is declared %s; accepted are real types", tw_dtype_name(y->dtype));
    return TW_OK;
}

/* ---- gradient ---- */

typedef struct operand {
    tw_tensor tensor;
    int32_t rank;
    int64_t dims[TW_MAX_RANK];
} operand;

static tw_status describe(const tw_builder *builder, tw_tensor tensor, operand *o)
{
    tw_tensor_desc desc;
    TW_TRY(builder->describe(builder->graph, tensor, &desc));
    *o = (operand){.tensor = tensor, .rank = desc.rank};
    for (int32_t d = 0; d < desc.rank; d++) o->dims[d] = desc.dims[d];
    return TW_OK;
}

/* A dim of 1 before dim `at`. */
static tw_status insert_dim(const tw_builder *builder, operand *o, int32_t at)
{
    TW_REQUIRE(o->rank < TW_MAX_RANK, TW_INVALID_ARGUMENT,
               "matmul: its gradient with a vector operand needs rank %d; at most %d is possible",
               o->rank + 1, TW_MAX_RANK);
    for (int32_t d = o->rank++; d > at; d--) o->dims[d] = o->dims[d - 1];
    o->dims[at] = 1;
    return tw_grad_reshape(builder, o->tensor, o->rank, o->dims, &o->tensor);
}

/* All dims but the last become one. */
static tw_status flatten(const tw_builder *builder, operand *o)
{
    int64_t rows = 1;
    for (int32_t d = 0; d < o->rank - 1; d++) rows *= o->dims[d];
    o->dims[1] = o->dims[o->rank - 1];
    o->dims[0] = rows;
    o->rank = 2;
    return tw_grad_reshape(builder, o->tensor, o->rank, o->dims, &o->tensor);
}

static tw_status transposed(const tw_builder *builder, const operand *o, tw_tensor *y)
{
    tw_attrs attrs = {.layout = {.axis = 0}};
    for (int32_t d = 0; d < o->rank; d++) attrs.layout.order[d] = d;
    attrs.layout.order[o->rank - 2] = o->rank - 1;
    attrs.layout.order[o->rank - 1] = o->rank - 2;
    *y = TW_NONE;
    return builder->add(builder->graph, TW_OP_TRANSPOSE, &attrs, 1, &o->tensor, 1, y);
}

/* The product x·y, of which `vector` says that its last dim (1) or the one before it (2) is 1 and
 * belongs to a vector: it is dropped. Summed over what `like` was broadcast to. */
static tw_status product(const tw_gradient *g, const tw_tensor in[2], int32_t vector,
                         tw_tensor like, tw_tensor *dx)
{
    const tw_builder *builder = g->builder;
    tw_tensor sum = TW_NONE;
    operand o;
    TW_TRY(builder->add(builder->graph, TW_OP_MATMUL, g->attrs, 2, in, 1, &sum));
    TW_TRY(describe(builder, sum, &o));
    if (vector > 0) {
        for (int32_t d = o.rank - vector; d < o.rank - 1; d++) o.dims[d] = o.dims[d + 1];
        TW_TRY(tw_grad_reshape(builder, sum, o.rank - 1, o.dims, &sum));
    }
    return tw_grad_sum_to(builder, sum, like, dx);
}

/* da = dy·bᵀ and db = aᵀ·dy, with vectors as matrices of one row (a) or column (b). */
static tw_status gradient(const tw_gradient *g)
{
    const tw_builder *builder = g->builder;
    tw_tensor_desc y;
    operand a, b, dy;
    if (g->dy[0] == TW_NONE) return TW_OK;
    TW_TRY(builder->describe(builder->graph, g->out[0], &y));
    if (!tw_dtype_is_float(y.dtype) || is_integer(g->attrs->matmul.compute)) return TW_OK;
    TW_TRY(describe(builder, g->in[0], &a));
    TW_TRY(describe(builder, g->in[1], &b));
    TW_TRY(describe(builder, g->dy[0], &dy));
    const bool a_vector = a.rank == 1, b_vector = b.rank == 1;
    if (b_vector) {
        TW_TRY(insert_dim(builder, &b, 1));
        TW_TRY(insert_dim(builder, &dy, dy.rank));
    }
    if (a_vector) {
        TW_TRY(insert_dim(builder, &a, 0));
        TW_TRY(insert_dim(builder, &dy, dy.rank - 1));
    }
    if (g->want[0]) {
        tw_tensor in[2] = {dy.tensor, TW_NONE};
        TW_TRY(transposed(builder, &b, &in[1]));
        TW_TRY(product(g, in, a_vector ? 2 : 0, g->in[0], &g->dx[0]));
    }
    if (g->want[1]) {
        /* One b for all of a's batch: the sum over the batch is part of one product. */
        if (b.rank == 2 && a.rank > 2) {
            TW_TRY(flatten(builder, &a));
            TW_TRY(flatten(builder, &dy));
        }
        tw_tensor in[2] = {TW_NONE, dy.tensor};
        TW_TRY(transposed(builder, &a, &in[0]));
        TW_TRY(product(g, in, b_vector ? 1 : 0, g->in[1], &g->dx[1]));
    }
    return TW_OK;
}

static int64_t terms(const tw_attrs *attrs, const tw_tensor_desc *const *in,
                     const tw_tensor_desc *out)
{
    (void)attrs;
    (void)out;
    return in[0]->dims[in[0]->rank - 1];
}

static const tw_field fields[] = {
    TW_FIELD(tw_dtype, tw_matmul_attrs, compute, TW_FIELD_I32),
    {.name = NULL},
};

const tw_op_info tw_gemm_ops[1] = {
    {
        .kind = TW_OP_MATMUL,
        .name = "matmul",
        .min_in = 2,
        .max_in = 2,
        .n_out = 1,
        .required_out = 1,
        .in_names = {"a", "b"},
        .out_names = {"y"},
        .fields = fields,
        .infer = infer,
        .gradient = gradient,
        .bound = TW_BOUND_SUM,
        .terms = terms,
    },
};
