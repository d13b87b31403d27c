/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise operators, reductions, softmax, dropout and casts of cases. */
#include <math.h>
#include <string.h>

#include "cases.h"
#include "core/error.h"

/* ---- Unary and binary ------------------------------------------------------------------------ */

/* alpha and beta: the case's attribute for ours, with ONNX's default, or NULL. */
typedef struct unary {
    const char *op;
    tw_pointwise_mode mode;
    const char *alpha;
    double alpha_default;
    const char *beta;
    double beta_default;
} unary;

static const unary unary_ops[] = {{"Relu", TW_PW_RELU, NULL, 0, NULL, 0},
                                  {"Relu6", TW_PW_RELU6, NULL, 0, NULL, 0},
                                  {"LeakyRelu", TW_PW_LEAKY_RELU, "alpha", 0.01, NULL, 0},
                                  {"Elu", TW_PW_ELU, "alpha", 1, NULL, 0},
                                  {"Silu", TW_PW_SILU, NULL, 0, NULL, 0},
                                  {"Sigmoid", TW_PW_SIGMOID, NULL, 0, NULL, 0},
                                  {"Tanh", TW_PW_TANH, NULL, 0, NULL, 0},
                                  {"Softplus", TW_PW_SOFTPLUS, "beta", 1, NULL, 0},
                                  {"HardSwish", TW_PW_HARD_SWISH, NULL, 0, NULL, 0},
                                  {"HardSigmoid", TW_PW_HARD_SIGMOID, "alpha", 0.2, "beta", 0.5},
                                  {"Mish", TW_PW_MISH, NULL, 0, NULL, 0},
                                  {"Exp", TW_PW_EXP, NULL, 0, NULL, 0},
                                  {"Erf", TW_PW_ERF, NULL, 0, NULL, 0},
                                  {"Clip", TW_PW_CLIP, "min", -HUGE_VAL, "max", HUGE_VAL}};

static const struct {
    const char *op;
    tw_pointwise_mode mode;
} binary_ops[] = {{"Add", TW_PW_ADD}, {"Sub", TW_PW_SUB}, {"Mul", TW_PW_MUL},
                  {"Div", TW_PW_DIV}, {"Max", TW_PW_MAX}, {"Min", TW_PW_MIN}};

static tw_status add_unary(const case_node *node, const unary *u, tw_pointwise_mode mode,
                           tw_tensor *y)
{
    tw_tensor x;
    TW_TRY(case_require(node, "x", &x));
    tw_pointwise_attrs attrs = {.mode = mode};
    if (u && u->alpha) {
        attrs.has_alpha = true;
        attrs.alpha = case_attr_real(node->attrs, u->alpha, u->alpha_default);
    }
    if (u && u->beta) {
        attrs.has_beta = true;
        attrs.beta = case_attr_real(node->attrs, u->beta, u->beta_default);
    }
    *y = TW_NONE;
    return tw_graph_pointwise(node->run->graph, &attrs, x, TW_NONE, TW_NONE, y);
}

static tw_status gradient_of(const case_node *node, tw_tensor y)
{
    tw_tensor x, dy, dx;
    TW_TRY(case_require(node, "x", &x));
    TW_TRY(case_require(node, "dy", &dy));
    tw_backward_options options = {.seeds = &dy};
    TW_TRY(tw_graph_backward(node->run->graph, 1, &y, 1, &x, &options, &dx, NULL));
    return node->result(node, "dx", dx);
}

static bool names_op(const char *given, const char *op, bool *backward)
{
    size_t n = strlen(op);
    if (strncmp(given, op, n) != 0) return false;
    *backward = strcmp(given + n, "Backward") == 0;
    return *backward || !given[n];
}

static tw_status try_unary(const case_node *node, bool *known)
{
    bool backward = false;
    const unary *found = NULL;
    tw_pointwise_mode mode = TW_PW_GELU;
    if (names_op(node->op, "Gelu", &backward)) {
        *known = true;
        if (strcmp(case_attr_text(node->attrs, "approximate", "none"), "tanh") == 0)
            mode = TW_PW_GELU_TANH;
    }
    for (size_t i = 0; !*known && i < sizeof unary_ops / sizeof unary_ops[0]; i++)
        if (names_op(node->op, unary_ops[i].op, &backward)) {
            *known = true;
            found = &unary_ops[i];
            mode = found->mode;
        }
    if (!*known) return TW_OK;
    tw_tensor y;
    TW_TRY(add_unary(node, found, mode, &y));
    return backward ? gradient_of(node, y) : node->result(node, "y", y);
}

static tw_status try_binary(const case_node *node, bool *known)
{
    for (size_t i = 0; i < sizeof binary_ops / sizeof binary_ops[0]; i++) {
        if (strcmp(binary_ops[i].op, node->op) != 0) continue;
        tw_tensor a, b, y = TW_NONE;
        *known = true;
        TW_TRY(case_require(node, "a", &a));
        TW_TRY(case_require(node, "b", &b));
        TW_TRY(tw_graph_binary(node->run->graph, binary_ops[i].mode, a, b, &y));
        return node->result(node, "y", y);
    }
    return TW_OK;
}

/* ---- Softmax --------------------------------------------------------------------------------- */

static tw_status softmax(const case_node *node, bool log, bool backward)
{
    tw_tensor x, y = TW_NONE;
    tw_tensor_desc desc;
    TW_TRY(case_require(node, "x", &x));
    TW_TRY(tw_graph_describe(node->run->graph, x, &desc));
    bool flatten = case_attr_int(node->attrs, "opset", 13) <= 12;
    int64_t axis = case_attr_int(node->attrs, "axis", flatten ? 1 : -1);
    if (axis < 0) axis += desc.rank;
    TW_REQUIRE(axis >= 0 && axis <= desc.rank, TW_INVALID_ARGUMENT, "axis is out of range");
    tw_softmax_attrs attrs = {.log = log, .axes = 1u << axis};
    if (flatten) attrs.axes = ((1u << desc.rank) - 1) & ~((1u << axis) - 1);
    TW_TRY(tw_graph_softmax(node->run->graph, x, &attrs, &y));
    return backward ? gradient_of(node, y) : node->result(node, "y", y);
}

static tw_status try_softmax(const case_node *node, bool *known)
{
    bool backward = false;
    *known = names_op(node->op, "Softmax", &backward);
    if (*known) return softmax(node, false, backward);
    *known = names_op(node->op, "LogSoftmax", &backward);
    return *known ? softmax(node, true, backward) : TW_OK;
}

/* ---- Reductions ------------------------------------------------------------------------------ */

static const struct {
    const char *op;
    tw_reduce_mode mode;
} reduce_ops[] = {{"ReduceSum", TW_REDUCE_SUM},
                  {"ReduceMean", TW_REDUCE_MEAN},
                  {"ReduceMax", TW_REDUCE_MAX},
                  {"ReduceMin", TW_REDUCE_MIN},
                  {"ReduceProd", TW_REDUCE_PROD},
                  {"ReduceLogSumExp", TW_REDUCE_LOG_SUM_EXP},
                  {"ReduceL1", TW_REDUCE_L1},
                  {"ReduceL2", TW_REDUCE_L2},
                  {"ReduceSumSquare", TW_REDUCE_SUM_SQUARE},
                  {"ReduceLogSum", TW_REDUCE_LOG_SUM},
                  {"ArgMax", TW_REDUCE_ARGMAX},
                  {"ArgMin", TW_REDUCE_ARGMIN}};

static tw_status reduce_axes(const case_node *node, int32_t rank, bool arg, uint32_t *axes)
{
    int64_t list[TW_MAX_RANK];
    int32_t n = case_attr_list(node->attrs, "axes", list, TW_MAX_RANK);
    if (arg) {
        n = 1;
        list[0] = case_attr_int(node->attrs, "axis", 0);
    }
    *axes = 0;
    for (int32_t i = 0; i < n; i++) {
        if (list[i] < 0) list[i] += rank;
        TW_REQUIRE(list[i] >= 0 && list[i] < rank, TW_INVALID_ARGUMENT,
                   "axes: %lld is out of range", (long long)list[i]);
        *axes |= 1u << list[i];
    }
    if (n <= 0 && case_attr_int(node->attrs, "noop_with_empty_axes", 0) == 0)
        *axes = (1u << rank) - 1;
    return TW_OK;
}

static tw_status try_reduce(const case_node *node, bool *known)
{
    for (size_t i = 0; i < sizeof reduce_ops / sizeof reduce_ops[0]; i++) {
        if (strcmp(reduce_ops[i].op, node->op) != 0) continue;
        tw_tensor x, y = TW_NONE;
        tw_tensor_desc desc;
        bool arg = reduce_ops[i].mode == TW_REDUCE_ARGMAX || reduce_ops[i].mode == TW_REDUCE_ARGMIN;
        *known = true;
        TW_TRY(case_require(node, "x", &x));
        TW_TRY(tw_graph_describe(node->run->graph, x, &desc));
        tw_reduce_attrs attrs = {.mode = reduce_ops[i].mode,
                                 .drop = case_attr_int(node->attrs, "keepdims", 1) == 0,
                                 .last_index =
                                     case_attr_int(node->attrs, "select_last_index", 0) != 0};
        TW_TRY(reduce_axes(node, desc.rank, arg, &attrs.axes));
        TW_TRY(tw_graph_reduce(node->run->graph, x, &attrs, &y));
        return node->result(node, "y", y);
    }
    return TW_OK;
}

/* ---- Dropout and casts ----------------------------------------------------------------------- */

static tw_status dropout(const case_node *node)
{
    tw_tensor x, y = TW_NONE, mask = TW_NONE;
    TW_TRY(case_require(node, "x", &x));
    bool training = case_attr_int(node->attrs, "training_mode", 0) != 0;
    tw_dropout_attrs attrs = {.rate = training ? case_attr_real(node->attrs, "ratio", 0.5) : 0,
                              .seed = case_attr_int(node->attrs, "seed", 0)};
    bool wants_mask = node->wants(node, "mask");
    TW_TRY(tw_graph_dropout(node->run->graph, x, TW_NONE, TW_NONE, &attrs, &y,
                            wants_mask ? &mask : NULL));
    TW_TRY(node->result(node, "y", y));
    return wants_mask ? node->result(node, "mask", mask) : TW_OK;
}

static tw_status dropout_backward(const case_node *node)
{
    tw_tensor dy, mask, dx = TW_NONE;
    TW_TRY(case_require(node, "dy", &dy));
    TW_TRY(case_require(node, "mask", &mask));
    tw_dropout_attrs attrs = {.rate = case_attr_real(node->attrs, "ratio", 0.5)};
    TW_TRY(tw_graph_dropout_backward(node->run->graph, dy, mask, &attrs, &dx));
    return node->result(node, "dx", dx);
}

static bool is_float8(tw_dtype type) { return type >= TW_E4M3FN && type <= TW_E5M2FNUZ; }

static tw_status cast(const case_node *node)
{
    tw_tensor x, y = TW_NONE;
    TW_TRY(case_require(node, "x", &x));
    tw_dtype to = node->result_type(node, "y");
    /* ONNX: saturate is about fp8; floats are truncated to integers, which wrap unless asked. */
    bool saturate = case_attr_int(node->attrs, "saturate", 1) != 0;
    tw_tensor_desc desc;
    TW_TRY(tw_graph_describe(node->run->graph, x, &desc));
    uint32_t convert = TW_CONVERT_TRUNCATE;
    if (is_float8(to) && saturate) convert |= TW_CONVERT_SATURATE;
    if (!is_float8(to) && !saturate) convert |= TW_CONVERT_WRAP;
    TW_TRY(tw_graph_cast(node->run->graph, x, to, convert, &y));
    return node->result(node, "y", y);
}

static tw_status try_other(const case_node *node, bool *known)
{
    *known = true;
    if (strcmp(node->op, "Dropout") == 0) return dropout(node);
    if (strcmp(node->op, "DropoutBackward") == 0) return dropout_backward(node);
    if (strcmp(node->op, "Cast") == 0) return cast(node);
    *known = false;
    return TW_OK;
}

tw_status case_add_pointwise_op(const case_node *node, bool *known)
{
    TW_TRY(try_other(node, known));
    if (!*known) TW_TRY(try_unary(node, known));
    if (!*known) TW_TRY(try_binary(node, known));
    if (!*known) TW_TRY(try_softmax(node, known));
    if (!*known) TW_TRY(try_reduce(node, known));
    return TW_OK;
}
