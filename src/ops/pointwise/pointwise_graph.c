/* SPDX-License-Identifier: Apache-2.0 */
/* Validation, normalisation and shape inference of pointwise operations. */
#include "ops/pointwise/pointwise.h"

#include <math.h>

#include "core/dtype.h"
#include "core/error.h"

static const char *const operand_names[3] = {"a", "b", "c"};

/* Operands whose type takes part in promotion: not a condition, and not the count of a shift. */
static bool takes_part(tw_pointwise_mode mode, int32_t operand)
{
    if (mode == TW_PW_SELECT) return operand != 0;
    if (mode == TW_PW_SHIFT_LEFT || mode == TW_PW_SHIFT_RIGHT) return operand == 0;
    return true;
}

static tw_status check_operands(const tw_infer *infer, const tw_pw_mode_info *mode)
{
    for (int32_t i = 0; i < 3; i++) {
        bool given = i < infer->n_in && infer->in[i];
        TW_REQUIRE(given || i >= mode->arity, TW_INVALID_ARGUMENT,
                   "pointwise: %s is missing; mode %s takes %d operands", operand_names[i],
                   mode->name, mode->arity);
        TW_REQUIRE(!given || i<mode->arity, TW_INVALID_ARGUMENT,
                               "pointwise: %s is given, but mode %s takes %d operand%s",
                               operand_names[i], mode->name, mode->arity, mode->arity> 1
                       ? "s"
                       : "");
        if (!given) continue;
        tw_dtype type = infer->in[i]->dtype;
        TW_REQUIRE(!tw_dtype_is_complex(type) && tw_dtype_valid(type), TW_INVALID_ARGUMENT,
                   "pointwise: %s has type %s; any real type is accepted", operand_names[i],
                   tw_dtype_name(type) ? tw_dtype_name(type) : "auto");
        TW_REQUIRE(!(mode->flags & TW_PW_BITS) || tw_dtype_is_integer(type) ||
                       (type == TW_BOOL && infer->attrs->pointwise.mode >= TW_PW_BITWISE_AND &&
                        infer->attrs->pointwise.mode <= TW_PW_BITWISE_XOR),
                   TW_INVALID_ARGUMENT, "pointwise: %s has type %s; mode %s takes integers",
                   operand_names[i], tw_dtype_name(type), mode->name);
    }
    return TW_OK;
}

static tw_status broadcast(const tw_infer *infer, int32_t arity, tw_tensor_desc *y)
{
    y->rank = 0;
    for (int32_t i = 0; i < arity; i++)
        if (infer->in[i]->rank > y->rank) y->rank = infer->in[i]->rank;
    for (int32_t d = 0; d < y->rank; d++) {
        int64_t dim = 1;
        for (int32_t i = 0; i < arity; i++) {
            int32_t own = d - (y->rank - infer->in[i]->rank);
            int64_t n = own < 0 ? 1 : infer->in[i]->dims[own];
            TW_REQUIRE(n == dim || n == 1 || dim == 1, TW_INVALID_ARGUMENT,
                       "pointwise: %s has dim %d = %lld, but the operands before it have %lld "
                       "there; dims must be equal or 1",
                       operand_names[i], own, (long long)n, (long long)dim);
            if (n != 1) dim = n;
        }
        y->dims[d] = dim;
    }
    return TW_OK;
}

static bool whole(double x) { return floor(x) == x && fabs(x) < 0x1p53; }

/* Whether integer arithmetic gives what the mode asks for with these parameters. */
static bool integer_parameters(const tw_pointwise_attrs *attrs)
{
    switch (attrs->mode) {
    case TW_PW_ADD:
    case TW_PW_SUB: return whole(attrs->alpha);
    case TW_PW_LINEAR: return whole(attrs->alpha) && whole(attrs->beta);
    case TW_PW_CLIP:
        return (whole(attrs->alpha) || attrs->alpha == -INFINITY) &&
               (whole(attrs->beta) || attrs->beta == INFINITY);
    default: return true;
    }
}

static tw_status normalise_parameters(const tw_pw_mode_info *mode, int32_t rank,
                                      tw_pointwise_attrs *attrs)
{
    if (!attrs->has_alpha) attrs->alpha = mode->alpha;
    if (!attrs->has_beta) attrs->beta = mode->beta;
    attrs->has_alpha = attrs->has_beta = true;
    attrs->size = sizeof *attrs;
    bool divides =
        attrs->mode == TW_PW_SOFTPLUS || attrs->mode == TW_PW_CELU || attrs->mode == TW_PW_CELU_BWD;
    TW_REQUIRE(!divides || attrs->alpha != 0, TW_INVALID_ARGUMENT,
               "pointwise: alpha is 0; mode %s divides by it, so it must not be 0", mode->name);
    uint32_t known = TW_CONVERT_SATURATE | TW_CONVERT_TRUNCATE | TW_CONVERT_WRAP;
    TW_REQUIRE((attrs->convert & ~known) == 0, TW_INVALID_ARGUMENT,
               "pointwise: convert is 0x%x; it is a sum of TW_CONVERT_* flags (at most 0x%x)",
               (unsigned)attrs->convert, (unsigned)known);
    if (attrs->mode != TW_PW_GEN_INDEX) {
        attrs->axis = 0;
        return TW_OK;
    }
    TW_REQUIRE(attrs->axis >= -rank && attrs->axis < rank, TW_INVALID_ARGUMENT,
               "pointwise: axis is %lld; a has rank %d, so it must lie in [%d, %d)",
               (long long)attrs->axis, rank, -rank, rank);
    if (attrs->axis < 0) attrs->axis += rank;
    return TW_OK;
}

/* What the operands have in common: the promoted type, and whether all of them are integers. */
typedef struct operand_types {
    tw_dtype promoted;
    bool any_f64, all_integers;
} operand_types;

static operand_types types_of(const tw_infer *infer, const tw_pw_mode_info *mode)
{
    operand_types t = {.promoted = TW_AUTO, .all_integers = true};
    for (int32_t i = 0; i < mode->arity; i++) {
        if (!takes_part(infer->attrs->pointwise.mode, i)) continue;
        tw_dtype type = infer->in[i]->dtype;
        t.promoted = t.promoted == TW_AUTO ? type : tw_pw_promote(t.promoted, type);
        if (type == TW_F64) t.any_f64 = true;
        if (tw_dtype_is_float(type)) t.all_integers = false;
    }
    return t;
}

static tw_status normalise_compute(const operand_types *types, const tw_pw_mode_info *mode,
                                   tw_pointwise_attrs *attrs)
{
    tw_dtype integer = types->promoted == TW_U64 ? TW_U64 : TW_I64;
    bool index = attrs->mode == TW_PW_GEN_INDEX;
    bool exact = (mode->flags & TW_PW_INTEGER) && integer_parameters(attrs) &&
                 (types->all_integers || index);
    switch (attrs->compute) {
    case TW_AUTO:
        attrs->compute = index ? TW_I64 : types->any_f64 ? TW_F64 : exact ? integer : TW_F32;
        return TW_OK;
    case TW_F32:
    case TW_F64:
        TW_REQUIRE(!(mode->flags & TW_PW_BITS), TW_INVALID_ARGUMENT,
                   "pointwise: compute is %s; mode %s is defined on integers, so it must be auto "
                   "or i64",
                   tw_dtype_name(attrs->compute), mode->name);
        return TW_OK;
    case TW_I32:
    case TW_I64:
    case TW_U64:
        TW_REQUIRE(exact, TW_INVALID_ARGUMENT,
                   "pointwise: compute is %s; that needs integer operands, integer parameters and "
                   "a mode with a meaning on integers (mode is %s)",
                   tw_dtype_name(attrs->compute), mode->name);
        attrs->compute = index ? TW_I64 : integer;
        return TW_OK;
    default: break;
    }
    return tw_fail(TW_INVALID_ARGUMENT,
                   "pointwise: compute is %s; auto, f32, f64, i32, i64 and u64 are accepted",
                   tw_dtype_name(attrs->compute) ? tw_dtype_name(attrs->compute) : "unknown");
}

static tw_dtype result_type(const operand_types *types, const tw_pw_mode_info *mode,
                            const tw_pointwise_attrs *attrs)
{
    if (mode->flags & TW_PW_PREDICATE) return TW_BOOL;
    if (attrs->mode == TW_PW_GEN_INDEX) return TW_I64;
    bool float_of_integers = types->all_integers && !tw_dtype_is_integer(attrs->compute);
    return float_of_integers ? attrs->compute : types->promoted;
}

tw_status tw_pw_infer(tw_infer *infer)
{
    tw_pointwise_attrs *attrs = &infer->attrs->pointwise;
    tw_pw_mode_info mode = tw_pw_mode_of(attrs->mode);
    TW_REQUIRE(mode.name, TW_INVALID_ARGUMENT,
               "pointwise: mode is %d; it must be one of the tw_pointwise_mode values",
               (int)attrs->mode);
    TW_TRY(check_operands(infer, &mode));
    tw_tensor_desc *y = &infer->out[0];
    TW_TRY(broadcast(infer, mode.arity, y));
    TW_TRY(normalise_parameters(&mode, y->rank, attrs));
    operand_types types = types_of(infer, &mode);
    TW_TRY(normalise_compute(&types, &mode, attrs));
    /* Bits keep their places in a narrower type; saturation would scramble them. */
    if (mode.flags & TW_PW_BITS) attrs->convert |= TW_CONVERT_WRAP;
    if (!infer->declared[0]) {
        y->dtype = result_type(&types, &mode, attrs);
        return TW_OK;
    }
    TW_REQUIRE(tw_dtype_valid(y->dtype) && !tw_dtype_is_complex(y->dtype), TW_INVALID_ARGUMENT,
               "pointwise: y is declared as %s; any real type is accepted",
               tw_dtype_name(y->dtype) ? tw_dtype_name(y->dtype) : "auto");
    return TW_OK;
}

static const tw_field fields[] = {
    TW_FIELD(int32_t, tw_pointwise_attrs, mode, TW_FIELD_I32),
    TW_FIELD(double, tw_pointwise_attrs, alpha, TW_FIELD_F64),
    TW_FIELD(double, tw_pointwise_attrs, beta, TW_FIELD_F64),
    TW_FIELD(bool, tw_pointwise_attrs, has_alpha, TW_FIELD_BOOL),
    TW_FIELD(bool, tw_pointwise_attrs, has_beta, TW_FIELD_BOOL),
    TW_FIELD(int64_t, tw_pointwise_attrs, axis, TW_FIELD_I64),
    TW_FIELD(int32_t, tw_pointwise_attrs, compute, TW_FIELD_I32),
    TW_FIELD(int32_t, tw_pointwise_attrs, convert, TW_FIELD_I32),
    {.name = NULL},
};

const tw_op_info tw_pw_ops[1] = {{.kind = TW_OP_POINTWISE,
                                  .name = "pointwise",
                                  .min_in = 1,
                                  .max_in = 3,
                                  .n_out = 1,
                                  .required_out = 1,
                                  .in_names = {"a", "b", "c"},
                                  .out_names = {"y"},
                                  .fields = fields,
                                  .infer = tw_pw_infer,
                                  .gradient = tw_pw_gradient,
                                  .bound = TW_BOUND_SMOOTH,
                                  .ulps = 8,
                                  .elementwise = true,
                                  .in_place = 7}};
