/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax cross-entropy: validation and shape inference. */
#include "core/dtype.h"
#include "core/error.h"
#include "ops/loss/loss.h"

bool tw_loss_has_indices(tw_dtype labels) { return tw_dtype_is_integer(labels); }

static tw_status check_attrs(const char *op, tw_cross_entropy_attrs *attrs, tw_dtype labels)
{
    TW_REQUIRE(attrs->reduction >= TW_LOSS_MEAN && attrs->reduction <= TW_LOSS_NONE,
               TW_INVALID_ARGUMENT,
               "%s: reduction is %d; accepted are 0 (mean), 1 (sum) and 2 (none)", op,
               (int)attrs->reduction);
    TW_REQUIRE(attrs->smoothing >= 0 && attrs->smoothing <= 1, TW_INVALID_ARGUMENT,
               "%s: smoothing is %g; it must be from 0 to 1", op, attrs->smoothing);
    TW_REQUIRE(!attrs->has_ignore || tw_loss_has_indices(labels), TW_INVALID_ARGUMENT,
               "%s: ignore is given, but labels are %s probabilities; it needs integer labels", op,
               tw_dtype_name(labels));
    if (!attrs->has_ignore) attrs->ignore = 0;
    return TW_OK;
}

/* dim d of the labels as a dim of the logits. */
static int32_t logits_dim(int32_t d, int32_t class_dim) { return d < class_dim ? d : d + 1; }

static tw_status check_indices(const char *op, const tw_tensor_desc *logits,
                               const tw_tensor_desc *labels)
{
    int32_t class_dim = tw_loss_class_dim(logits->rank);
    TW_REQUIRE(labels->rank == logits->rank - 1, TW_INVALID_ARGUMENT,
               "%s: labels are %s with rank %d; integer labels have the logits' dims without the "
               "class dim, rank %d",
               op, tw_dtype_name(labels->dtype), labels->rank, logits->rank - 1);
    for (int32_t d = 0; d < labels->rank; d++) {
        int32_t e = logits_dim(d, class_dim);
        TW_REQUIRE(labels->dims[d] == logits->dims[e], TW_INVALID_ARGUMENT,
                   "%s: dim %d of labels is %lld; it must be dim %d of logits, %lld", op, d,
                   (long long)labels->dims[d], e, (long long)logits->dims[e]);
    }
    return TW_OK;
}

static tw_status check_probabilities(const char *op, const tw_tensor_desc *logits,
                                     const tw_tensor_desc *labels)
{
    TW_REQUIRE(tw_dtype_is_float(labels->dtype), TW_INVALID_ARGUMENT,
               "%s: labels are %s; accepted are integers (class numbers) and floating-point types "
               "(probabilities)",
               op, tw_dtype_name(labels->dtype));
    TW_REQUIRE(labels->rank == logits->rank, TW_INVALID_ARGUMENT,
               "%s: labels are %s with rank %d; probabilities have the logits' rank, %d", op,
               tw_dtype_name(labels->dtype), labels->rank, logits->rank);
    for (int32_t d = 0; d < labels->rank; d++)
        TW_REQUIRE(labels->dims[d] == logits->dims[d], TW_INVALID_ARGUMENT,
                   "%s: dim %d of labels is %lld; it must be that of logits, %lld", op, d,
                   (long long)labels->dims[d], (long long)logits->dims[d]);
    return TW_OK;
}

static tw_status check_operands(const char *op, const tw_tensor_desc *logits,
                                const tw_tensor_desc *labels)
{
    TW_REQUIRE(tw_dtype_is_float(logits->dtype), TW_INVALID_ARGUMENT,
               "%s: logits are %s; accepted are floating-point types", op,
               tw_dtype_name(logits->dtype));
    TW_REQUIRE(logits->rank >= 1, TW_INVALID_ARGUMENT,
               "%s: logits have rank 0; they need a class dim: [C] or [N, C, ...]", op);
    if (tw_loss_has_indices(labels->dtype))
        TW_TRY(check_indices(op, logits, labels));
    else
        TW_TRY(check_probabilities(op, logits, labels));
    int32_t class_dim = tw_loss_class_dim(logits->rank);
    int64_t rows = 1;
    for (int32_t d = 0; d < logits->rank; d++)
        if (d != class_dim && logits->dims[d] == 0) rows = 0;
    TW_REQUIRE(logits->dims[class_dim] > 0 || rows == 0, TW_INVALID_ARGUMENT,
               "%s: logits have no classes: dim %d is 0; it must be 1 or more", op, class_dim);
    return TW_OK;
}

/* The logits' dims without the class dim. */
static void row_dims(const tw_tensor_desc *logits, tw_tensor_desc *desc)
{
    int32_t class_dim = tw_loss_class_dim(logits->rank);
    desc->rank = logits->rank - 1;
    for (int32_t d = 0; d < desc->rank; d++) desc->dims[d] = logits->dims[logits_dim(d, class_dim)];
}

static tw_dtype statistics_type(tw_dtype logits) { return logits == TW_F64 ? TW_F64 : TW_F32; }

static tw_status infer_forward(tw_infer *infer)
{
    const char *op = "cross_entropy";
    const tw_tensor_desc *logits = infer->in[0], *labels = infer->in[1];
    static const char *const names[2] = {"loss", "lse"};
    TW_TRY(check_operands(op, logits, labels));
    TW_TRY(check_attrs(op, &infer->attrs->loss, labels->dtype));
    for (int32_t i = 0; i < infer->n_out; i++) {
        if (!infer->wanted[i]) continue;
        tw_tensor_desc out = infer->out[i];
        if (!infer->declared[i]) out.dtype = statistics_type(logits->dtype);
        TW_REQUIRE(tw_dtype_is_float(out.dtype), TW_INVALID_ARGUMENT,
                   "%s: %s is declared %s; accepted are floating-point types", op, names[i],
                   tw_dtype_name(out.dtype));
        out.rank = 0;
        if (i == 1 || infer->attrs->loss.reduction == TW_LOSS_NONE) row_dims(logits, &out);
        infer->out[i] = out;
    }
    return TW_OK;
}

static tw_status check_row_operand(const char *name, const tw_tensor_desc *got,
                                   const tw_tensor_desc *want)
{
    const char *op = "cross_entropy_backward";
    TW_REQUIRE(tw_dtype_is_float(got->dtype), TW_INVALID_ARGUMENT,
               "%s: %s is %s; accepted are floating-point types", op, name,
               tw_dtype_name(got->dtype));
    TW_REQUIRE(got->rank == want->rank, TW_INVALID_ARGUMENT, "%s: %s has rank %d; it must be %d",
               op, name, got->rank, want->rank);
    for (int32_t d = 0; d < got->rank; d++)
        TW_REQUIRE(got->dims[d] == want->dims[d], TW_INVALID_ARGUMENT,
                   "%s: dim %d of %s is %lld; it must be %lld", op, d, name,
                   (long long)got->dims[d], (long long)want->dims[d]);
    return TW_OK;
}

static tw_status infer_backward(tw_infer *infer)
{
    const char *op = "cross_entropy_backward";
    const tw_tensor_desc *logits = infer->in[0];
    tw_tensor_desc rows = {.rank = 0}, dlogits = infer->out[0];
    TW_REQUIRE(infer->n_in == 4 && infer->in[3], TW_INVALID_ARGUMENT, "%s: dloss is missing", op);
    TW_TRY(check_operands(op, logits, infer->in[1]));
    TW_TRY(check_attrs(op, &infer->attrs->loss, infer->in[1]->dtype));
    row_dims(logits, &rows);
    if (infer->in[2]) TW_TRY(check_row_operand("lse", infer->in[2], &rows));
    if (infer->attrs->loss.reduction != TW_LOSS_NONE) rows.rank = 0;
    TW_TRY(check_row_operand("dloss", infer->in[3], &rows));
    if (!infer->declared[0]) dlogits.dtype = logits->dtype;
    TW_REQUIRE(tw_dtype_is_float(dlogits.dtype), TW_INVALID_ARGUMENT,
               "%s: dlogits is declared %s; accepted are floating-point types", op,
               tw_dtype_name(dlogits.dtype));
    dlogits.rank = logits->rank;
    for (int32_t d = 0; d < logits->rank; d++) dlogits.dims[d] = logits->dims[d];
    infer->out[0] = dlogits;
    return TW_OK;
}

static int64_t terms(const tw_attrs *attrs, const tw_tensor_desc *const *in,
                     const tw_tensor_desc *out)
{
    (void)attrs;
    (void)out;
    return in[0]->dims[tw_loss_class_dim(in[0]->rank)];
}

static const tw_field fields[] = {
    TW_FIELD(int32_t, tw_cross_entropy_attrs, reduction, TW_FIELD_I32),
    TW_FIELD(double, tw_cross_entropy_attrs, smoothing, TW_FIELD_F64),
    TW_FIELD(bool, tw_cross_entropy_attrs, has_ignore, TW_FIELD_BOOL),
    TW_FIELD(int64_t, tw_cross_entropy_attrs, ignore, TW_FIELD_I64),
    {.name = NULL},
};

const tw_op_info tw_loss_ops[TW_LOSS_OPS] = {
    {
        .kind = TW_OP_CROSS_ENTROPY,
        .name = "cross_entropy",
        .min_in = 2,
        .max_in = 2,
        .n_out = 2,
        .required_out = 1,
        .in_names = {"logits", "labels"},
        .out_names = {"loss", "lse"},
        .fields = fields,
        .infer = infer_forward,
        .gradient = tw_loss_gradient,
        .bound = TW_BOUND_SMOOTH,
        .ulps = 8,
        .terms = terms,
    },
    {
        .kind = TW_OP_CROSS_ENTROPY_BACKWARD,
        .name = "cross_entropy_backward",
        .min_in = 4,
        .max_in = 4,
        .n_out = 1,
        .required_out = 1,
        .optional_in = 1u << 2,
        .in_names = {"logits", "labels", "lse", "dloss"},
        .out_names = {"dlogits"},
        .fields = fields,
        .infer = infer_backward,
        .bound = TW_BOUND_SMOOTH,
        .ulps = 32,
        .terms = terms,
        .in_place = 1,
    },
    {
        .kind = TW_OP_CROSS_ENTROPY_BOTH,
        .name = "cross_entropy_both",
        .min_in = 3,
        .max_in = 3,
        .n_out = 3,
        .required_out = 1,
        .in_names = {"logits", "labels", "dloss"},
        .out_names = {"loss", "lse", "dlogits"},
        .fields = fields,
        .bound = TW_BOUND_SMOOTH,
        .ulps = 32,
        .terms = terms,
    },
};
