/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: validation and shape inference. */
#include "core/dtype.h"
#include "core/error.h"
#include "ops/reduce/reduce.h"

bool tw_reduce_is_arg(tw_reduce_mode mode)
{
    return mode == TW_REDUCE_ARGMAX || mode == TW_REDUCE_ARGMIN;
}

/* A count of true values does not fit a bool, nor does their mean. */
static tw_dtype type_from_bool(tw_reduce_mode mode)
{
    switch (mode) {
    case TW_REDUCE_MAX:
    case TW_REDUCE_MIN:
    case TW_REDUCE_AMAX: return TW_BOOL;
    case TW_REDUCE_MEAN:
    case TW_REDUCE_L2:
    case TW_REDUCE_LOG_SUM:
    case TW_REDUCE_LOG_SUM_EXP: return TW_F32;
    default: return TW_I64;
    }
}

static tw_dtype usual_type(tw_reduce_mode mode, tw_dtype x)
{
    if (tw_reduce_is_arg(mode)) return TW_I64;
    if (mode == TW_REDUCE_ANY || mode == TW_REDUCE_ALL) return TW_BOOL;
    return x == TW_BOOL ? type_from_bool(mode) : x;
}

static tw_dtype usual_compute(tw_dtype x)
{
    if (x == TW_F64) return TW_F64;
    return tw_dtype_is_float(x) ? TW_F32 : TW_I64;
}

static tw_status check_attrs(tw_reduce_attrs *attrs, const tw_tensor_desc *x)
{
    TW_REQUIRE(attrs->mode >= TW_REDUCE_SUM && attrs->mode <= TW_REDUCE_PROD_NONZERO,
               TW_INVALID_ARGUMENT, "reduce: mode is %d; accepted are 0 (sum) to %d (prod_nonzero)",
               (int)attrs->mode, TW_REDUCE_PROD_NONZERO);
    TW_REQUIRE(attrs->axes >> x->rank == 0, TW_INVALID_ARGUMENT,
               "reduce: axes is 0x%x, but x has rank %d: only its lowest %d bits may be set",
               (unsigned)attrs->axes, x->rank, x->rank);
    TW_REQUIRE(!tw_dtype_is_complex(x->dtype), TW_INVALID_ARGUMENT,
               "reduce: x is %s; accepted are real, integer and bool types",
               tw_dtype_name(x->dtype));
    tw_dtype compute = attrs->compute == TW_AUTO ? usual_compute(x->dtype) : attrs->compute;
    TW_REQUIRE(compute == TW_F32 || compute == TW_F64 || compute == TW_I32 || compute == TW_I64,
               TW_INVALID_ARGUMENT, "reduce: compute is %s; accepted are f32, f64, i32 and i64",
               tw_dtype_name(compute) ? tw_dtype_name(compute) : "no type");
    /* Integers are always summed exactly; reals never in less than was asked for. */
    if (!tw_dtype_is_float(x->dtype))
        compute = TW_I64;
    else if (x->dtype == TW_F64 || compute != TW_F32)
        compute = TW_F64;
    attrs->compute = compute;
    if (!tw_reduce_is_arg(attrs->mode)) attrs->last_index = false;
    return TW_OK;
}

static int64_t terms(const tw_attrs *attrs, const tw_tensor_desc *const *in,
                     const tw_tensor_desc *out)
{
    int64_t count = 1;
    (void)out;
    for (int32_t d = 0; d < in[0]->rank; d++)
        if ((attrs->reduce.axes >> d) & 1u && !tw_mul_i64(count, in[0]->dims[d], &count))
            return INT64_MAX;
    return count;
}

static void infer_dims(const tw_reduce_attrs *attrs, const tw_tensor_desc *x, tw_tensor_desc *y)
{
    y->rank = 0;
    for (int32_t d = 0; d < x->rank; d++) {
        bool reduced = (attrs->axes >> d) & 1u;
        if (reduced && attrs->drop) continue;
        y->dims[y->rank++] = reduced ? 1 : x->dims[d];
    }
}

static tw_status infer(tw_infer *infer)
{
    tw_reduce_attrs *attrs = &infer->attrs->reduce;
    const tw_tensor_desc *x = infer->in[0];
    TW_TRY(check_attrs(attrs, x));
    tw_tensor_desc y = infer->out[0];
    infer_dims(attrs, x, &y);
    if (tw_reduce_is_arg(attrs->mode) && terms(infer->attrs, infer->in, NULL) == 0) {
        bool empty = false;
        for (int32_t d = 0; d < y.rank; d++) empty = empty || y.dims[d] == 0;
        TW_REQUIRE(empty, TW_INVALID_ARGUMENT,
                   "reduce: %s of an empty set has no index; the reduced dims of x must not be 0",
                   attrs->mode == TW_REDUCE_ARGMAX ? "argmax" : "argmin");
    }
    if (!infer->declared[0]) y.dtype = usual_type(attrs->mode, x->dtype);
    TW_REQUIRE(!tw_dtype_is_complex(y.dtype), TW_INVALID_ARGUMENT,
               "reduce: y is declared %s; accepted are real, integer and bool types",
               tw_dtype_name(y.dtype));
    infer->out[0] = y;
    return TW_OK;
}

void tw_reduce_lines(const tw_view *x, const tw_view *y, const tw_reduce_attrs *attrs,
                     tw_lines *lines)
{
    /* y with x's dims: stride 0 along what is reduced. */
    tw_view wide = *x;
    int32_t at = 0;
    for (int32_t d = 0; d < x->rank; d++) {
        bool reduced = (attrs->axes >> d) & 1u;
        wide.strides[d] = reduced ? 0 : y->strides[at];
        if (!reduced || !attrs->drop) at++;
    }
    tw_lines_make((const tw_view *const[TW_LINES_OPERANDS]){x, &wide, NULL}, attrs->axes,
                  tw_reduce_is_arg(attrs->mode), lines);
}

static const tw_field fields[] = {
    TW_FIELD(int32_t, tw_reduce_attrs, mode, TW_FIELD_I32),
    TW_FIELD(uint32_t, tw_reduce_attrs, axes, TW_FIELD_I32),
    TW_FIELD(bool, tw_reduce_attrs, drop, TW_FIELD_BOOL),
    TW_FIELD(bool, tw_reduce_attrs, last_index, TW_FIELD_BOOL),
    TW_FIELD(int32_t, tw_reduce_attrs, compute, TW_FIELD_I32),
    {.name = NULL},
};

const tw_op_info tw_reduce_ops[1] = {{
    .kind = TW_OP_REDUCE,
    .name = "reduce",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .required_out = 1,
    .in_names = {"x"},
    .out_names = {"y"},
    .fields = fields,
    .infer = infer,
    .gradient = tw_reduce_gradient,
    .bound = TW_BOUND_SUM,
    .terms = terms,
}};
