/* SPDX-License-Identifier: Apache-2.0 */
/* Layout operations: validation and shape inference. */
#include "ops/layout/layout_graph.h"

#include "core/alloc.h"
#include "core/dtype.h"
#include "core/error.h"

/* The result has x's type, or a declared one that x's elements can be converted to. */
static tw_status settle_type(const tw_infer *infer, tw_dtype x)
{
    tw_tensor_desc *y = &infer->out[0];
    if (!infer->declared[0]) y->dtype = x;
    bool fits = y->dtype == x || (!tw_dtype_is_complex(x) && !tw_dtype_is_complex(y->dtype));
    TW_REQUIRE(
        fits, TW_INVALID_ARGUMENT,
        "%s: the element type of %s is %s, but that of %s is %s: complex elements are moved, "
        "never converted; declare %s",
        infer->info->name, infer->info->out_names[0], tw_dtype_name(y->dtype),
        infer->info->in_names[0], tw_dtype_name(x), tw_dtype_name(x));
    return TW_OK;
}

static tw_status require_declared(const tw_infer *infer)
{
    TW_REQUIRE(infer->declared[0], TW_INVALID_ARGUMENT,
               "%s: %s is not declared; its dims say what the result is", infer->info->name,
               infer->info->out_names[0]);
    return TW_OK;
}

static tw_status infer_reshape(tw_infer *infer)
{
    TW_TRY(require_declared(infer));
    int64_t from = tw_desc_elements(infer->in[0]), to = tw_desc_elements(&infer->out[0]);
    *infer->attrs = (tw_attrs){.layout = {.axis = 0}};
    TW_REQUIRE(from == to, TW_INVALID_ARGUMENT,
               "reshape: dims hold %lld elements, but x has %lld; the two counts must agree",
               (long long)to, (long long)from);
    return settle_type(infer, infer->in[0]->dtype);
}

static tw_status infer_transpose(tw_infer *infer)
{
    const tw_tensor_desc *x = infer->in[0];
    tw_layout_attrs kept = {.axis = 0};
    uint32_t seen = 0;
    infer->out[0].rank = x->rank;
    for (int32_t d = 0; d < x->rank; d++) {
        int32_t from = infer->attrs->layout.order[d];
        TW_REQUIRE(
            from >= 0 && from < x->rank, TW_INVALID_ARGUMENT,
            "transpose: order[%d] is %d, but x has rank %d; each entry is a dim of x, 0 to %d", d,
            from, x->rank, x->rank - 1);
        TW_REQUIRE((seen >> from & 1u) == 0, TW_INVALID_ARGUMENT,
                   "transpose: order[%d] is %d, which an earlier entry has; each dim appears once",
                   d, from);
        seen |= 1u << from;
        kept.order[d] = from;
        infer->out[0].dims[d] = x->dims[from];
    }
    *infer->attrs = (tw_attrs){.layout = kept};
    return settle_type(infer, x->dtype);
}

static tw_status infer_expand(tw_infer *infer)
{
    TW_TRY(require_declared(infer));
    const tw_tensor_desc *x = infer->in[0], *y = &infer->out[0];
    *infer->attrs = (tw_attrs){.layout = {.axis = 0}};
    TW_REQUIRE(
        y->rank >= x->rank, TW_INVALID_ARGUMENT,
        "expand: dims have rank %d, but x has rank %d; expansion adds dims in front, it drops "
        "none",
        y->rank, x->rank);
    for (int32_t d = 0; d < x->rank; d++) {
        int32_t e = d + y->rank - x->rank;
        TW_REQUIRE(x->dims[d] == 1 || x->dims[d] == y->dims[e], TW_INVALID_ARGUMENT,
                   "expand: dims[%d] is %lld, but dim %d of x is %lld; it must be %lld, or 1 in x",
                   e, (long long)y->dims[e], d, (long long)x->dims[d], (long long)x->dims[d]);
    }
    return settle_type(infer, x->dtype);
}

/* dims of the part that [start, start + dims·step) takes out of `whole`. */
static tw_status check_slice(const tw_infer *infer, const tw_tensor_desc *whole,
                             const tw_tensor_desc *part)
{
    const char *op = infer->info->name;
    const tw_layout_attrs *given = &infer->attrs->layout;
    tw_layout_attrs kept = {.axis = 0};
    TW_REQUIRE(
        part->rank == whole->rank, TW_INVALID_ARGUMENT,
        "%s: the slice has rank %d, but what it is taken from has rank %d; the ranks must agree",
        op, part->rank, whole->rank);
    for (int32_t d = 0; d < whole->rank; d++) {
        int64_t n = whole->dims[d], start = given->start[d];
        int64_t step = given->step[d] == 0 ? 1 : given->step[d];
        TW_REQUIRE(step >= 1, TW_INVALID_ARGUMENT, "%s: step[%d] is %lld; it must be 1 or more", op,
                   d, (long long)step);
        TW_REQUIRE(start >= 0 && start <= n, TW_INVALID_ARGUMENT,
                   "%s: start[%d] is %lld; it must lie in 0 to %lld, the dim sliced", op, d,
                   (long long)start, (long long)n);
        int64_t most = start < n ? (n - 1 - start) / step + 1 : 0;
        TW_REQUIRE(
            part->dims[d] <= most, TW_INVALID_ARGUMENT,
            "%s: dims[%d] is %lld, but only %lld elements of %lld lie at start %lld and every "
            "%lld after",
            op, d, (long long)part->dims[d], (long long)most, (long long)n, (long long)start,
            (long long)step);
        kept.start[d] = start;
        kept.step[d] = step;
    }
    *infer->attrs = (tw_attrs){.layout = kept};
    return TW_OK;
}

static tw_status infer_slice(tw_infer *infer)
{
    TW_TRY(require_declared(infer));
    TW_TRY(check_slice(infer, infer->in[0], &infer->out[0]));
    return settle_type(infer, infer->in[0]->dtype);
}

static tw_status infer_slice_backward(tw_infer *infer)
{
    TW_TRY(require_declared(infer));
    TW_TRY(check_slice(infer, &infer->out[0], infer->in[0]));
    return settle_type(infer, infer->in[0]->dtype);
}

static tw_status check_concat_operand(const tw_infer *infer, int32_t i, int32_t axis)
{
    const tw_tensor_desc *first = infer->in[0], *x = infer->in[i];
    TW_REQUIRE(x->dtype == first->dtype, TW_INVALID_ARGUMENT,
               "concat: operand %d has element type %s, operand 0 has %s; cast one of them first",
               i, tw_dtype_name(x->dtype), tw_dtype_name(first->dtype));
    TW_REQUIRE(x->rank == first->rank, TW_INVALID_ARGUMENT,
               "concat: operand %d has rank %d, operand 0 has rank %d; the ranks must agree", i,
               x->rank, first->rank);
    for (int32_t d = 0; d < x->rank; d++) {
        TW_REQUIRE(
            d == axis || x->dims[d] == first->dims[d], TW_INVALID_ARGUMENT,
            "concat: dim %d of operand %d is %lld, of operand 0 it is %lld; only dim %d, the "
            "axis, may differ",
            d, i, (long long)x->dims[d], (long long)first->dims[d], axis);
    }
    return TW_OK;
}

static tw_status infer_concat(tw_infer *infer)
{
    const tw_tensor_desc *first = infer->in[0];
    tw_tensor_desc *y = &infer->out[0];
    int32_t given = infer->attrs->layout.axis, axis = given < 0 ? given + first->rank : given;
    TW_REQUIRE(axis >= 0 && axis < first->rank, TW_INVALID_ARGUMENT,
               "concat: axis is %d, but the operands have rank %d; it must lie in %d to %d", given,
               first->rank, -first->rank, first->rank - 1);
    int64_t length = 0;
    for (int32_t i = 0; i < infer->n_in; i++) {
        TW_TRY(check_concat_operand(infer, i, axis));
        TW_REQUIRE(tw_add_i64(length, infer->in[i]->dims[axis], &length), TW_INVALID_ARGUMENT,
                   "concat: the operands' dims %d add up to more than 2^63 - 1", axis);
    }
    y->rank = first->rank;
    for (int32_t d = 0; d < first->rank; d++) y->dims[d] = d == axis ? length : first->dims[d];
    *infer->attrs = (tw_attrs){.layout = {.axis = axis}};
    return settle_type(infer, first->dtype);
}

/* lo and hi may be at most so large. */
static int64_t pad_reach(tw_pad_mode mode, int64_t n)
{
    switch (mode) {
    case TW_PAD_REFLECT: return n > 0 ? n - 1 : 0;
    case TW_PAD_WRAP: return n;
    case TW_PAD_EDGE: return n > 0 ? INT64_MAX : 0;
    case TW_PAD_CONSTANT: break;
    }
    return INT64_MAX;
}

static tw_status check_pad(const tw_infer *infer, const int64_t *x_dims, int32_t rank,
                           int64_t *y_dims)
{
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    const char *op = infer->info->name;
    const tw_layout_attrs *given = &infer->attrs->layout;
    int32_t mode = (int32_t)given->pad_mode;
    TW_REQUIRE(mode >= TW_PAD_CONSTANT && mode <= TW_PAD_WRAP, TW_INVALID_ARGUMENT,
               "%s: mode is %d; it must be 0 (constant), 1 (reflect), 2 (edge) or 3 (wrap)", op,
               mode);
    tw_layout_attrs kept = {.pad_mode = given->pad_mode};
    if (mode == TW_PAD_CONSTANT) kept.value = given->value;
    for (int32_t d = 0; d < rank; d++) {
        int64_t n = x_dims[d], lo = given->start[d], hi = given->end_pad[d];
        int64_t reach = pad_reach(given->pad_mode, n);
        TW_REQUIRE(lo <= reach && hi <= reach, TW_INVALID_ARGUMENT,
                   "%s: %s[%d] is %lld; a dim of %lld can be padded by %lld at most in mode %s", op,
                   lo > reach ? "lo" : "hi", d, (long long)(lo > reach ? lo : hi), (long long)n,
                   (long long)reach, names[mode]);
        int64_t grown = n, cropped = 0;
        bool fits = tw_add_i64(grown, lo > 0 ? lo : 0, &grown) &&
                    tw_add_i64(grown, hi > 0 ? hi : 0, &grown) && lo > INT64_MIN &&
                    hi > INT64_MIN && tw_add_i64(lo < 0 ? -lo : 0, hi < 0 ? -hi : 0, &cropped);
        TW_REQUIRE(fits && cropped <= grown, TW_INVALID_ARGUMENT,
                   "%s: lo[%d] = %lld and hi[%d] = %lld make dim %d of %lld %s", op, d,
                   (long long)lo, d, (long long)hi, d, (long long)n,
                   fits ? "negative; crop by no more than there is" : "exceed 2^63 - 1");
        y_dims[d] = grown - cropped;
        kept.start[d] = lo;
        kept.end_pad[d] = hi;
    }
    *infer->attrs = (tw_attrs){.layout = kept};
    return TW_OK;
}

static tw_status infer_pad(tw_infer *infer)
{
    const tw_tensor_desc *x = infer->in[0];
    infer->out[0].rank = x->rank;
    TW_TRY(check_pad(infer, x->dims, x->rank, infer->out[0].dims));
    return settle_type(infer, x->dtype);
}

static tw_status infer_pad_backward(tw_infer *infer)
{
    TW_TRY(require_declared(infer));
    const tw_tensor_desc *dy = infer->in[0], *dx = &infer->out[0];
    int64_t dims[TW_MAX_RANK];
    TW_REQUIRE(
        !tw_dtype_is_complex(dy->dtype) && !tw_dtype_is_complex(dx->dtype), TW_INVALID_ARGUMENT,
        "pad_backward: the element type of dy is %s; it must be a real one, since elements are "
        "added",
        tw_dtype_name(dy->dtype));
    TW_TRY(check_pad(infer, dx->dims, dx->rank, dims));
    TW_REQUIRE(dy->rank == dx->rank, TW_INVALID_ARGUMENT,
               "pad_backward: dy has rank %d, dx has rank %d; the ranks must agree", dy->rank,
               dx->rank);
    for (int32_t d = 0; d < dx->rank; d++)
        TW_REQUIRE(dy->dims[d] == dims[d], TW_INVALID_ARGUMENT,
                   "pad_backward: dim %d of dy is %lld; the padded dim of dx is %lld", d,
                   (long long)dy->dims[d], (long long)dims[d]);
    return TW_OK;
}

static int64_t pad_backward_terms(const tw_attrs *attrs, const tw_tensor_desc *const *in,
                                  const tw_tensor_desc *out)
{
    int64_t terms = 1;
    (void)in;
    for (int32_t d = 0; d < out->rank; d++) {
        int64_t lo = attrs->layout.start[d], hi = attrs->layout.end_pad[d], most = 3;
        if (attrs->layout.pad_mode == TW_PAD_EDGE) most = 1 + (lo > 0 ? lo : 0) + (hi > 0 ? hi : 0);
        if (attrs->layout.pad_mode == TW_PAD_CONSTANT) most = 1;
        if (!tw_mul_i64(terms, most, &terms)) return INT64_MAX;
    }
    return terms;
}

static const tw_field transpose_fields[] = {TW_FIELD(int32_t, tw_layout_attrs, order, TW_FIELD_I32),
                                            {.name = NULL}};
static const tw_field concat_fields[] = {TW_FIELD(int32_t, tw_layout_attrs, axis, TW_FIELD_I32),
                                         {.name = NULL}};
static const tw_field slice_fields[] = {TW_FIELD(int64_t, tw_layout_attrs, start, TW_FIELD_I64),
                                        TW_FIELD(int64_t, tw_layout_attrs, step, TW_FIELD_I64),
                                        {.name = NULL}};
static const tw_field pad_fields[] = {
    TW_FIELD(int64_t, tw_layout_attrs, start, TW_FIELD_I64),
    TW_FIELD(int64_t, tw_layout_attrs, end_pad, TW_FIELD_I64),
    TW_FIELD(tw_pad_mode, tw_layout_attrs, pad_mode, TW_FIELD_I32),
    TW_FIELD(double, tw_layout_attrs, value, TW_FIELD_F64),
    {.name = NULL}};
static const tw_field no_fields[] = {{.name = NULL}};

#define LAYOUT_OP(KIND, id, x, y)                                                                  \
    .kind = TW_OP_##KIND, .name = #id, .min_in = 1, .max_in = 1, .n_out = 1, .required_out = 1,    \
    .in_names = {x}, .out_names = {y}, .infer = infer_##id, .gradient = tw_layout_gradient_##id,   \
    .bound = TW_BOUND_EXACT

const tw_op_info tw_layout_ops[TW_LAYOUT_OPS] = {
    {LAYOUT_OP(RESHAPE, reshape, "x", "y"), .fields = no_fields, .view = true},
    {LAYOUT_OP(TRANSPOSE, transpose, "x", "y"), .fields = transpose_fields, .view = true},
    {LAYOUT_OP(EXPAND, expand, "x", "y"), .fields = no_fields, .view = true},
    {LAYOUT_OP(SLICE, slice, "x", "y"), .fields = slice_fields, .view = true},
    {LAYOUT_OP(SLICE_BACKWARD, slice_backward, "dy", "dx"), .fields = slice_fields},
    {.kind = TW_OP_CONCAT,
     .name = "concat",
     .min_in = 1,
     .max_in = -1,
     .n_out = 1,
     .required_out = 1,
     .in_names = {"x"},
     .out_names = {"y"},
     .fields = concat_fields,
     .infer = infer_concat,
     .gradient = tw_layout_gradient_concat,
     .bound = TW_BOUND_EXACT},
    {LAYOUT_OP(PAD, pad, "x", "y"), .fields = pad_fields},
    {.kind = TW_OP_PAD_BACKWARD,
     .name = "pad_backward",
     .min_in = 1,
     .max_in = 1,
     .n_out = 1,
     .required_out = 1,
     .in_names = {"dy"},
     .out_names = {"dx"},
     .fields = pad_fields,
     .infer = infer_pad_backward,
     .gradient = tw_layout_gradient_pad_backward,
     .bound = TW_BOUND_SUM,
     .terms = pad_backward_terms},
};
