/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: validation. */
#include <math.h>

#include "core/dtype.h"
#include "core/error.h"
#include "ops/random/random.h"

tw_status tw_random_check_scalar(const tw_infer *infer, int32_t i)
{
    const tw_tensor_desc *desc = i < infer->n_in ? infer->in[i] : NULL;
    if (desc == NULL) return TW_OK;
    const char *op = infer->info->name, *name = infer->info->in_names[i];
    TW_REQUIRE(desc->dtype == TW_I64, TW_INVALID_ARGUMENT, "%s: %s is %s; it must be i64", op, name,
               tw_dtype_name(desc->dtype));
    TW_REQUIRE(tw_desc_elements(desc) == 1, TW_INVALID_ARGUMENT,
               "%s: %s has %lld elements; it must have exactly one", op, name,
               (long long)tw_desc_elements(desc));
    return TW_OK;
}

static tw_status check_uniform(tw_random_attrs *attrs, tw_dtype dtype)
{
    if (attrs->a == 0 && attrs->b == 0) attrs->b = 1;
    const double a = attrs->a, b = attrs->b;
    TW_REQUIRE(isfinite(a) && isfinite(b) && a < b, TW_INVALID_ARGUMENT,
               "random: uniform over [%g, %g); both ends must be finite, and a below b", a, b);
    if (!tw_dtype_is_float(dtype)) {
        TW_REQUIRE(ceil(a) < ceil(b), TW_INVALID_ARGUMENT,
                   "random: y is %s, and [%g, %g) contains no integer", tw_dtype_name(dtype), a, b);
        return TW_OK;
    }
    const double max = tw_dtype_max(dtype);
    TW_REQUIRE(fabs(a) <= max && fabs(b) <= max, TW_INVALID_ARGUMENT,
               "random: uniform over [%g, %g); the ends must lie within ±%g, the range of %s", a, b,
               max, tw_dtype_name(dtype));
    return TW_OK;
}

static tw_status check_distribution(tw_random_attrs *attrs, tw_dtype dtype)
{
    switch (attrs->distribution) {
    case TW_RANDOM_UNIFORM: return check_uniform(attrs, dtype);
    case TW_RANDOM_NORMAL:
        TW_REQUIRE(isfinite(attrs->a) && isfinite(attrs->b) && attrs->b >= 0, TW_INVALID_ARGUMENT,
                   "random: normal with mean %g and deviation %g; both must be finite, and the "
                   "deviation not negative",
                   attrs->a, attrs->b);
        return TW_OK;
    case TW_RANDOM_BERNOULLI:
        TW_REQUIRE(attrs->a >= 0 && attrs->a <= 1, TW_INVALID_ARGUMENT,
                   "random: a is %g; it is a probability, from 0 to 1", attrs->a);
        attrs->b = 0;
        return TW_OK;
    case TW_RANDOM_BITS:
        TW_REQUIRE(tw_dtype_is_integer(dtype), TW_INVALID_ARGUMENT,
                   "random: y is %s; raw bits need an integer type, such as u32",
                   tw_dtype_name(dtype));
        attrs->a = attrs->b = 0;
        return TW_OK;
    }
    return tw_fail(TW_INVALID_ARGUMENT,
                   "random: distribution is %d; it must be 0 to 3 (uniform, normal, bernoulli, "
                   "bits)",
                   (int)attrs->distribution);
}

static tw_status infer_random(tw_infer *infer)
{
    tw_random_attrs *attrs = &infer->attrs->random;
    TW_REQUIRE(infer->declared[0], TW_INVALID_ARGUMENT,
               "random: y is not declared; its dims and element type say what to draw");
    const tw_dtype dtype = infer->out[0].dtype;
    const bool number = tw_dtype_is_float(dtype) || tw_dtype_is_integer(dtype);
    TW_REQUIRE(number || (dtype == TW_BOOL && attrs->distribution == TW_RANDOM_BERNOULLI),
               TW_INVALID_ARGUMENT,
               "random: y is %s; it must be a floating or integer type, or bool for bernoulli",
               tw_dtype_name(dtype));
    for (int32_t i = 0; i < 2; i++) TW_TRY(tw_random_check_scalar(infer, i));
    TW_TRY(check_distribution(attrs, dtype));
    *attrs = (tw_random_attrs){
        .distribution = attrs->distribution,
        .a = attrs->a,
        .b = attrs->b,
        .seed = infer->n_in > 0 && infer->in[0] != NULL ? 0 : attrs->seed,
        .offset = infer->n_in > 1 && infer->in[1] != NULL ? 0 : attrs->offset,
    };
    return TW_OK;
}

static const tw_field fields[] = {
    TW_FIELD(tw_distribution, tw_random_attrs, distribution, TW_FIELD_I32),
    TW_FIELD(double, tw_random_attrs, a, TW_FIELD_F64),
    TW_FIELD(double, tw_random_attrs, b, TW_FIELD_F64),
    TW_FIELD(int64_t, tw_random_attrs, seed, TW_FIELD_I64),
    TW_FIELD(int64_t, tw_random_attrs, offset, TW_FIELD_I64),
    {.name = NULL},
};

const tw_op_info tw_random_ops[1] = {{
    .kind = TW_OP_RANDOM,
    .name = "random",
    .min_in = 0,
    .max_in = 2,
    .n_out = 1,
    .required_out = 1,
    .in_names = {"seed", "offset"},
    .out_names = {"y"},
    .fields = fields,
    .infer = infer_random,
    .bound = TW_BOUND_EXACT,
}};
