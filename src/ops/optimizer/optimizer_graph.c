/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: validation and shape inference. They are not differentiable. */
#include "ops/optimizer/optimizer_graph.h"

#include <math.h>

#include "core/dtype.h"
#include "core/error.h"

static tw_status check_float(const tw_infer *infer, const char *name, tw_dtype type)
{
    bool fits = type == TW_F64 || type == TW_F32 || type == TW_F16 || type == TW_BF16;
    TW_REQUIRE(fits, TW_INVALID_ARGUMENT,
               "%s: %s has element type %s; it must be f64, f32, f16 or bf16", infer->info->name,
               name, tw_dtype_name(type));
    return TW_OK;
}

/* Operand i is present and has the parameter's shape and a float type. */
static tw_status check_like_param(const tw_infer *infer, int32_t i)
{
    const char *op = infer->info->name, *name = infer->info->in_names[i];
    const tw_tensor_desc *param = infer->in[0], *t = infer->in[i];
    TW_REQUIRE(t != NULL, TW_INVALID_ARGUMENT, "%s: %s is absent; it is needed", op, name);
    TW_REQUIRE(t->rank == param->rank, TW_INVALID_ARGUMENT, "%s: %s has rank %d, param has rank %d",
               op, name, t->rank, param->rank);
    for (int32_t d = 0; d < t->rank; d++)
        TW_REQUIRE(t->dims[d] == param->dims[d], TW_INVALID_ARGUMENT,
                   "%s: dim %d of %s is %lld, of param it is %lld; the shapes must agree", op, d,
                   name, (long long)t->dims[d], (long long)param->dims[d]);
    return check_float(infer, name, t->dtype);
}

static tw_status check_scalar(const tw_infer *infer, int32_t i, tw_dtype type)
{
    const char *op = infer->info->name, *name = infer->info->in_names[i];
    const tw_tensor_desc *t = i < infer->n_in ? infer->in[i] : NULL;
    TW_REQUIRE(t != NULL, TW_INVALID_ARGUMENT, "%s: %s is absent; it must be a scalar of type %s",
               op, name, tw_dtype_name(type));
    TW_REQUIRE(t->dtype == type, TW_INVALID_ARGUMENT, "%s: %s has element type %s; it must be %s",
               op, name, tw_dtype_name(t->dtype), tw_dtype_name(type));
    TW_REQUIRE(tw_desc_elements(t) == 1, TW_INVALID_ARGUMENT,
               "%s: %s has %lld elements; it must have exactly one", op, name,
               (long long)tw_desc_elements(t));
    return TW_OK;
}

static tw_status check_attr(const tw_infer *infer, const char *name, double value, double least,
                            double below)
{
    TW_REQUIRE(value >= least && value < below, TW_INVALID_ARGUMENT,
               "%s: %s is %g; it must be at least %g and below %g", infer->info->name, name, value,
               least, below);
    return TW_OK;
}

/* Output i is what becomes of input `from`. */
static tw_status settle_output(tw_infer *infer, int32_t i, int32_t from)
{
    const tw_tensor_desc *in = infer->in[from];
    tw_tensor_desc *out = &infer->out[i];
    if (i >= infer->n_out || !infer->wanted[i]) return TW_OK;
    TW_REQUIRE(in != NULL, TW_INVALID_ARGUMENT, "%s: %s is asked for, but %s is absent",
               infer->info->name, infer->info->out_names[i], infer->info->in_names[from]);
    if (!infer->declared[i]) out->dtype = in->dtype;
    out->rank = in->rank;
    for (int32_t d = 0; d < in->rank; d++) out->dims[d] = in->dims[d];
    return check_float(infer, infer->info->out_names[i], out->dtype);
}

static tw_status infer_sgd(tw_infer *infer)
{
    const tw_sgd_attrs given = infer->attrs->sgd;
    bool has_velocity = infer->n_in > TW_SGD_VELOCITY && infer->in[TW_SGD_VELOCITY] != NULL;
    TW_TRY(check_attr(infer, "momentum", given.momentum, 0, HUGE_VAL));
    TW_TRY(check_attr(infer, "weight_decay", given.weight_decay, 0, HUGE_VAL));
    TW_TRY(check_attr(infer, "dampening", given.dampening, -HUGE_VAL, HUGE_VAL));
    TW_REQUIRE(has_velocity || given.momentum == 0, TW_INVALID_ARGUMENT,
               "sgd: velocity is absent, but momentum is %g; give a velocity, or momentum 0",
               given.momentum);
    TW_REQUIRE(has_velocity || given.dampening == 0, TW_INVALID_ARGUMENT,
               "sgd: velocity is absent, but dampening is %g; it must be 0 then", given.dampening);
    infer->attrs->sgd = (tw_sgd_attrs){.momentum = given.momentum,
                                       .weight_decay = given.weight_decay,
                                       .dampening = given.dampening,
                                       .nesterov = given.nesterov};
    TW_TRY(check_like_param(infer, TW_SGD_PARAM));
    TW_TRY(check_like_param(infer, TW_SGD_GRAD));
    if (has_velocity) TW_TRY(check_like_param(infer, TW_SGD_VELOCITY));
    TW_TRY(check_scalar(infer, TW_SGD_LR, TW_F32));
    TW_TRY(settle_output(infer, 0, TW_SGD_PARAM));
    return settle_output(infer, 1, TW_SGD_VELOCITY);
}

static tw_status infer_adam(tw_infer *infer)
{
    tw_adam_attrs given = infer->attrs->adam;
    if (given.beta1 == 0) given.beta1 = 0.9;
    if (given.beta2 == 0) given.beta2 = 0.999;
    if (given.eps == 0) given.eps = 1e-8;
    TW_TRY(check_attr(infer, "beta1", given.beta1, 0, 1));
    TW_TRY(check_attr(infer, "beta2", given.beta2, 0, 1));
    TW_TRY(check_attr(infer, "eps", given.eps, 0, HUGE_VAL));
    TW_TRY(check_attr(infer, "weight_decay", given.weight_decay, 0, HUGE_VAL));
    infer->attrs->adam = (tw_adam_attrs){.beta1 = given.beta1,
                                         .beta2 = given.beta2,
                                         .eps = given.eps,
                                         .weight_decay = given.weight_decay,
                                         .decoupled = given.decoupled};
    for (int32_t i = TW_ADAM_PARAM; i <= TW_ADAM_V; i++) TW_TRY(check_like_param(infer, i));
    TW_TRY(check_scalar(infer, TW_ADAM_LR, TW_F32));
    TW_TRY(check_scalar(infer, TW_ADAM_STEP, TW_I64));
    TW_TRY(settle_output(infer, 0, TW_ADAM_PARAM));
    TW_TRY(settle_output(infer, 1, TW_ADAM_M));
    return settle_output(infer, 2, TW_ADAM_V);
}

static const tw_field sgd_fields[] = {TW_FIELD(double, tw_sgd_attrs, momentum, TW_FIELD_F64),
                                      TW_FIELD(double, tw_sgd_attrs, weight_decay, TW_FIELD_F64),
                                      TW_FIELD(double, tw_sgd_attrs, dampening, TW_FIELD_F64),
                                      TW_FIELD(bool, tw_sgd_attrs, nesterov, TW_FIELD_BOOL),
                                      {.name = NULL}};
static const tw_field adam_fields[] = {TW_FIELD(double, tw_adam_attrs, beta1, TW_FIELD_F64),
                                       TW_FIELD(double, tw_adam_attrs, beta2, TW_FIELD_F64),
                                       TW_FIELD(double, tw_adam_attrs, eps, TW_FIELD_F64),
                                       TW_FIELD(double, tw_adam_attrs, weight_decay, TW_FIELD_F64),
                                       TW_FIELD(bool, tw_adam_attrs, decoupled, TW_FIELD_BOOL),
                                       {.name = NULL}};

/* Every kernel rounds after each operation, in the same order: results are equal bit by bit. */
const tw_op_info tw_optimizer_ops[TW_OPTIMIZER_OPS] = {
    {.kind = TW_OP_SGD,
     .name = "sgd",
     .min_in = TW_SGD_INPUTS,
     .max_in = TW_SGD_INPUTS,
     .optional_in = 1u << TW_SGD_VELOCITY,
     .n_out = 2,
     .required_out = 1,
     .in_names = {"param", "grad", "velocity", "lr"},
     .out_names = {"new_param", "new_velocity"},
     .fields = sgd_fields,
     .infer = infer_sgd,
     .bound = TW_BOUND_EXACT,
     .in_place = 1u << TW_SGD_PARAM | 1u << TW_SGD_VELOCITY},
    {.kind = TW_OP_ADAM,
     .name = "adam",
     .min_in = TW_ADAM_INPUTS,
     .max_in = TW_ADAM_INPUTS,
     .n_out = 3,
     .required_out = 1,
     .in_names = {"param", "grad", "m", "v", "lr", "step"},
     .out_names = {"new_param", "new_m", "new_v"},
     .fields = adam_fields,
     .infer = infer_adam,
     .bound = TW_BOUND_EXACT,
     .in_place = 1u << TW_ADAM_PARAM | 1u << TW_ADAM_M | 1u << TW_ADAM_V},
};
