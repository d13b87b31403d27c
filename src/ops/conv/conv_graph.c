/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution in a graph: checks, output shapes and gradients.
 *
 *   conv   y = x * w          dgrad   dx from dy and w          wgrad   dw from x and dy
 *
 * The three are each other's gradients, so every order of differentiation is available.
 */
#include "core/alloc.h"
#include "core/dtype.h"
#include "core/error.h"
#include "ops/conv/conv_ops.h"
#include "ops/grad.h"

/* The three tensors of a convolution by role, whichever of them is the result. */
typedef struct roles {
    const tw_tensor_desc *x, *w, *y;
    const char *x_name, *w_name, *y_name;
} roles;

static bool computes(tw_dtype type) { return tw_dtype_is_float(type) || tw_dtype_is_integer(type); }

static tw_status check_types(const tw_infer *infer)
{
    for (int i = 0; i < 2; i++)
        TW_REQUIRE(computes(infer->in[i]->dtype), TW_INVALID_ARGUMENT,
                   "%s: %s has type %s; a real floating-point or integer type is needed",
                   infer->info->name, infer->info->in_names[i], tw_dtype_name(infer->in[i]->dtype));
    TW_REQUIRE(tw_dtype_is_float(infer->in[0]->dtype) == tw_dtype_is_float(infer->in[1]->dtype),
               TW_INVALID_ARGUMENT,
               "%s: %s is %s and %s is %s; both must be floating-point or both integers",
               infer->info->name, infer->info->in_names[0], tw_dtype_name(infer->in[0]->dtype),
               infer->info->in_names[1], tw_dtype_name(infer->in[1]->dtype));
    tw_dtype compute = infer->attrs->conv.compute;
    bool wide = tw_dtype_is_float(infer->in[0]->dtype) ? compute == TW_F64 || compute == TW_F32 ||
                                                             compute == TW_F16 || compute == TW_BF16
                                                       : compute == TW_I32 || compute == TW_I64;
    TW_REQUIRE(compute == TW_AUTO || wide, TW_INVALID_ARGUMENT,
               "%s: compute is %s; f32, f64, f16 or bf16 go with floating-point operands, i32 or "
               "i64 with integers",
               infer->info->name, tw_dtype_name(compute) ? tw_dtype_name(compute) : "no type");
    return TW_OK;
}

static bool is_64_bit(tw_dtype type) { return type == TW_F64 || type == TW_I64 || type == TW_U64; }

/* The result's type where none is declared: the operands' own, f32 for mixed floating-point types,
 * the accumulator's for integers. */
static tw_status settle_types(const tw_infer *infer, tw_dtype *type)
{
    tw_dtype a = infer->in[0]->dtype, b = infer->in[1]->dtype;
    bool wide = is_64_bit(a) || is_64_bit(b);
    tw_dtype *compute = &infer->attrs->conv.compute;
    if (tw_dtype_is_float(a)) {
        if (*compute == TW_AUTO) *compute = wide ? TW_F64 : TW_F32;
        *type = a == b ? a : wide ? TW_F64 : TW_F32;
    } else {
        if (*compute == TW_AUTO) *compute = wide ? TW_I64 : TW_I32;
        *type = *compute;
    }
    if (!infer->declared[0] || infer->out[0].dtype == TW_AUTO) return TW_OK;
    *type = infer->out[0].dtype;
    TW_REQUIRE(computes(*type), TW_INVALID_ARGUMENT,
               "%s: %s has type %s; a real floating-point or integer type is needed",
               infer->info->name, infer->info->out_names[0], tw_dtype_name(*type));
    return TW_OK;
}

static tw_status normalise(const char *op, tw_conv_attrs *attrs, int32_t spatial)
{
    attrs->size = sizeof *attrs;
    if (attrs->groups == 0) attrs->groups = 1;
    TW_REQUIRE(attrs->groups > 0, TW_INVALID_ARGUMENT,
               "%s: groups is %lld; it must be 1 or more (0 means 1)", op,
               (long long)attrs->groups);
    for (int32_t d = 0; d < TW_MAX_SPATIAL; d++) {
        if (d >= spatial) {
            attrs->stride[d] = attrs->dilation[d] = attrs->pad_lo[d] = attrs->pad_hi[d] = 0;
            continue;
        }
        const struct {
            const char *name;
            int64_t *value;
            bool pad;
        } field[] = {{"stride", &attrs->stride[d], false},
                     {"dilation", &attrs->dilation[d], false},
                     {"pad_lo", &attrs->pad_lo[d], true},
                     {"pad_hi", &attrs->pad_hi[d], true}};
        for (int i = 0; i < 4; i++) {
            TW_REQUIRE(*field[i].value >= 0, TW_INVALID_ARGUMENT,
                       "%s: %s[%d] is %lld; it must be %s", op, field[i].name, (int)d,
                       (long long)*field[i].value,
                       field[i].pad ? "0 or more" : "1 or more (0 means 1)");
            if (!field[i].pad && *field[i].value == 0) *field[i].value = 1;
        }
    }
    return TW_OK;
}

static tw_status check_rank(const char *op, const char *name, const tw_tensor_desc *desc,
                            int32_t rank)
{
    TW_REQUIRE(desc->rank == rank && rank >= 3 && rank <= 2 + TW_MAX_SPATIAL, TW_INVALID_ARGUMENT,
               "%s: %s has rank %d; all tensors of a convolution have the same rank, 3 to 5 (two "
               "and one to three spatial dims)",
               op, name, (int)desc->rank);
    return TW_OK;
}

/* The output's size along spatial dim d. */
static tw_status output_size(const char *op, const roles *r, const tw_conv_attrs *attrs, int32_t d,
                             int64_t *size)
{
    int64_t in = r->x->dims[2 + d], taps = r->w->dims[2 + d], padded, extent;
    TW_REQUIRE(taps > 0, TW_INVALID_ARGUMENT,
               "%s: %s has size 0 in dim %d; a kernel has a tap or more", op, r->w_name,
               (int)(2 + d));
    bool fits =
        tw_add_i64(in, attrs->pad_lo[d], &padded) && tw_add_i64(padded, attrs->pad_hi[d], &padded);
    TW_REQUIRE(fits, TW_INVALID_ARGUMENT,
               "%s: pad_lo[%d] %lld and pad_hi[%d] %lld: the padded size exceeds 64 bits", op,
               (int)d, (long long)attrs->pad_lo[d], (int)d, (long long)attrs->pad_hi[d]);
    fits = tw_mul_i64(taps - 1, attrs->dilation[d], &extent) && extent < INT64_MAX &&
           extent + 1 <= padded;
    TW_REQUIRE(fits, TW_INVALID_ARGUMENT,
               "%s: %s is larger than the padded input: %lld taps with dilation %lld in dim %d do "
               "not fit into %lld + %lld + %lld",
               op, r->w_name, (long long)taps, (long long)attrs->dilation[d], (int)(2 + d),
               (long long)in, (long long)attrs->pad_lo[d], (long long)attrs->pad_hi[d]);
    *size = (padded - extent - 1) / attrs->stride[d] + 1;
    return TW_OK;
}

/* Channels, groups and the two given tensors against each other. */
static tw_status check_channels(const char *op, const roles *r, int64_t groups)
{
    int64_t c = r->x->dims[1], k = r->w->dims[0], per_group = r->w->dims[1];
    TW_REQUIRE(c % groups == 0, TW_INVALID_ARGUMENT,
               "%s: %s has %lld channels, which groups %lld does not divide", op, r->x_name,
               (long long)c, (long long)groups);
    TW_REQUIRE(k % groups == 0, TW_INVALID_ARGUMENT,
               "%s: %s has %lld output channels, which groups %lld does not divide", op, r->w_name,
               (long long)k, (long long)groups);
    TW_REQUIRE(
        per_group == c / groups, TW_INVALID_ARGUMENT,
        "%s: %s has %lld input channels (dim 1); %s's %lld channels in %lld groups need %lld", op,
        r->w_name, (long long)per_group, r->x_name, (long long)c, (long long)groups,
        (long long)(c / groups));
    return TW_OK;
}

/* y against what x and w make. */
static tw_status check_result(const char *op, const roles *r, const tw_conv_attrs *attrs)
{
    TW_REQUIRE(r->y->dims[0] == r->x->dims[0], TW_INVALID_ARGUMENT,
               "%s: %s has batch %lld; %s has %lld", op, r->y_name, (long long)r->y->dims[0],
               r->x_name, (long long)r->x->dims[0]);
    TW_REQUIRE(r->y->dims[1] == r->w->dims[0], TW_INVALID_ARGUMENT,
               "%s: %s has %lld channels; %s has %lld output channels", op, r->y_name,
               (long long)r->y->dims[1], r->w_name, (long long)r->w->dims[0]);
    for (int32_t d = 0; d < r->x->rank - 2; d++) {
        int64_t size;
        TW_TRY(output_size(op, r, attrs, d, &size));
        TW_REQUIRE(r->y->dims[2 + d] == size, TW_INVALID_ARGUMENT,
                   "%s: %s has size %lld in dim %d; %s of %lld and %s of %lld with these pads, "
                   "stride and dilation make %lld",
                   op, r->y_name, (long long)r->y->dims[2 + d], (int)(2 + d), r->x_name,
                   (long long)r->x->dims[2 + d], r->w_name, (long long)r->w->dims[2 + d],
                   (long long)size);
    }
    return TW_OK;
}

static void set_shape(tw_tensor_desc *out, const tw_tensor_desc *shape)
{
    out->dtype = shape->dtype;
    out->rank = shape->rank;
    for (int32_t d = 0; d < shape->rank; d++) out->dims[d] = shape->dims[d];
}

static tw_status infer_forward(tw_infer *infer)
{
    const char *op = infer->info->name;
    const roles r = {infer->in[0], infer->in[1], &infer->out[0], "x", "w", "y"};
    tw_conv_attrs *attrs = &infer->attrs->conv;
    tw_tensor_desc y = {.rank = r.x->rank};
    TW_TRY(check_types(infer));
    TW_TRY(check_rank(op, "x", r.x, r.x->rank));
    TW_TRY(check_rank(op, "w", r.w, r.x->rank));
    TW_TRY(normalise(op, attrs, r.x->rank - 2));
    TW_TRY(check_channels(op, &r, attrs->groups));
    TW_TRY(settle_types(infer, &y.dtype));
    y.dims[0] = r.x->dims[0];
    y.dims[1] = r.w->dims[0];
    for (int32_t d = 0; d < y.rank - 2; d++) TW_TRY(output_size(op, &r, attrs, d, &y.dims[2 + d]));
    set_shape(&infer->out[0], &y);
    return TW_OK;
}

/* dgrad and wgrad: the result's shape is the declared one, if the others agree with it. */
static tw_status infer_gradient(tw_infer *infer, const roles *r)
{
    const char *op = infer->info->name, *result = infer->info->out_names[0];
    tw_conv_attrs *attrs = &infer->attrs->conv;
    int32_t rank = infer->in[0]->rank;
    tw_tensor_desc out = infer->out[0];
    TW_REQUIRE(infer->declared[0], TW_INVALID_ARGUMENT,
               "%s: %s is not declared; its dims must be given, since a strided convolution "
               "forgets them",
               op, result);
    TW_TRY(check_types(infer));
    TW_TRY(check_rank(op, infer->info->in_names[0], infer->in[0], rank));
    TW_TRY(check_rank(op, infer->info->in_names[1], infer->in[1], rank));
    TW_TRY(check_rank(op, result, &infer->out[0], rank));
    for (int32_t d = 0; d < rank; d++)
        TW_REQUIRE(out.dims[d] >= 0, TW_INVALID_ARGUMENT,
                   "%s: %s has size %lld in dim %d; sizes are 0 or more", op, result,
                   (long long)out.dims[d], (int)d);
    TW_TRY(normalise(op, attrs, rank - 2));
    TW_TRY(check_channels(op, r, attrs->groups));
    TW_TRY(check_result(op, r, attrs));
    TW_TRY(settle_types(infer, &out.dtype));
    set_shape(&infer->out[0], &out);
    return TW_OK;
}

static tw_status infer_dgrad(tw_infer *infer)
{
    const roles r = {&infer->out[0], infer->in[1], infer->in[0], "dx", "w", "dy"};
    return infer_gradient(infer, &r);
}

static tw_status infer_wgrad(tw_infer *infer)
{
    const roles r = {infer->in[0], &infer->out[0], infer->in[1], "x", "dw", "dy"};
    return infer_gradient(infer, &r);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Adds a gradient by `like`, whose type and dims the result takes. */
static tw_status add_gradient(const tw_gradient *g, tw_op_kind kind, tw_tensor a, tw_tensor b,
                              tw_tensor like, tw_tensor *result)
{
    const tw_builder *builder = g->builder;
    tw_tensor_desc desc;
    TW_TRY(builder->describe(builder->graph, like, &desc));
    TW_TRY(tw_grad_virtual(builder, desc.dtype, desc.rank, desc.dims, result));
    return builder->add(builder->graph, kind, g->attrs, 2, (const tw_tensor[2]){a, b}, 1, result);
}

static tw_status gradient_forward(const tw_gradient *g)
{
    tw_tensor x = g->in[0], w = g->in[1], dy = g->dy[0];
    if (g->want[0]) TW_TRY(add_gradient(g, TW_OP_CONV_DGRAD, dy, w, x, &g->dx[0]));
    if (g->want[1]) TW_TRY(add_gradient(g, TW_OP_CONV_WGRAD, x, dy, w, &g->dx[1]));
    return TW_OK;
}

static tw_status gradient_dgrad(const tw_gradient *g)
{
    tw_tensor dy = g->in[0], w = g->in[1], ddx = g->dy[0];
    if (g->want[0]) TW_TRY(add_gradient(g, TW_OP_CONV, ddx, w, dy, &g->dx[0]));
    if (g->want[1]) TW_TRY(add_gradient(g, TW_OP_CONV_WGRAD, ddx, dy, w, &g->dx[1]));
    return TW_OK;
}

static tw_status gradient_wgrad(const tw_gradient *g)
{
    tw_tensor x = g->in[0], dy = g->in[1], ddw = g->dy[0];
    if (g->want[0]) TW_TRY(add_gradient(g, TW_OP_CONV_DGRAD, dy, ddw, x, &g->dx[0]));
    if (g->want[1]) TW_TRY(add_gradient(g, TW_OP_CONV, x, ddw, dy, &g->dx[1]));
    return TW_OK;
}

/* ---- Lengths of the sums --------------------------------------------------------------------- */

static int64_t product(const tw_tensor_desc *desc, int64_t from)
{
    for (int32_t d = 2; d < desc->rank; d++) from *= desc->dims[d];
    return from;
}

static int64_t terms_forward(const tw_attrs *attrs, const tw_tensor_desc *const *in,
                             const tw_tensor_desc *out)
{
    (void)attrs, (void)out;
    return product(in[1], in[1]->dims[1]);
}

static int64_t terms_dgrad(const tw_attrs *attrs, const tw_tensor_desc *const *in,
                           const tw_tensor_desc *out)
{
    (void)out;
    return product(in[1], in[1]->dims[0] / attrs->conv.groups);
}

static int64_t terms_wgrad(const tw_attrs *attrs, const tw_tensor_desc *const *in,
                           const tw_tensor_desc *out)
{
    (void)attrs, (void)out;
    return product(in[1], in[1]->dims[0]);
}

static const tw_field fields[] = {
    TW_FIELD(int64_t, tw_conv_attrs, stride, TW_FIELD_I64),
    TW_FIELD(int64_t, tw_conv_attrs, dilation, TW_FIELD_I64),
    TW_FIELD(int64_t, tw_conv_attrs, pad_lo, TW_FIELD_I64),
    TW_FIELD(int64_t, tw_conv_attrs, pad_hi, TW_FIELD_I64),
    TW_FIELD(int64_t, tw_conv_attrs, groups, TW_FIELD_I64),
    TW_FIELD(bool, tw_conv_attrs, flip, TW_FIELD_BOOL),
    TW_FIELD(tw_dtype, tw_conv_attrs, compute, TW_FIELD_I32),
    {NULL, TW_FIELD_I64, 0, 0},
};

const tw_op_info tw_conv_ops[3] = {
    {.kind = TW_OP_CONV,
     .name = "conv",
     .min_in = 2,
     .max_in = 2,
     .n_out = 1,
     .required_out = 1,
     .in_names = {"x", "w"},
     .out_names = {"y"},
     .fields = fields,
     .infer = infer_forward,
     .gradient = gradient_forward,
     .bound = TW_BOUND_SUM,
     .terms = terms_forward},
    {.kind = TW_OP_CONV_DGRAD,
     .name = "conv_dgrad",
     .min_in = 2,
     .max_in = 2,
     .n_out = 1,
     .required_out = 1,
     .in_names = {"dy", "w"},
     .out_names = {"dx"},
     .fields = fields,
     .infer = infer_dgrad,
     .gradient = gradient_dgrad,
     .bound = TW_BOUND_SUM,
     .terms = terms_dgrad},
    {.kind = TW_OP_CONV_WGRAD,
     .name = "conv_wgrad",
     .min_in = 2,
     .max_in = 2,
     .n_out = 1,
     .required_out = 1,
     .in_names = {"x", "dy"},
     .out_names = {"dw"},
     .fields = fields,
     .infer = infer_wgrad,
     .gradient = gradient_wgrad,
     .bound = TW_BOUND_SUM,
     .terms = terms_wgrad},
};
