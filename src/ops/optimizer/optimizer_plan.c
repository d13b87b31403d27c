/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer family: its manifest and its problem strings. */
#include "core/error.h"
#include "ops/optimizer/optimizer_graph.h"

#define TW_MANIFEST "ops/optimizer/optimizer.def"
#include "ops/manifest.h"

static const tw_problem_key keys[] = {
    {"op", "adam", "adam, sgd"},
    {"n", "1000000", "parameters"},
    {"momentum", "0.9", "sgd: 0 means no velocity"},
    {"decay", "0", "weight decay"},
    {"nesterov", "0", "sgd: 1 for Nesterov's momentum"},
    {"decoupled", "0", "adam: 1 for AdamW"},
    {"dtype", "f32", "element type of parameters and gradients"},
    {"state", "f32", "element type of velocity and moments"},
    {NULL, NULL, NULL},
};

typedef struct optimizer_problem {
    const tw_builder *builder;
    tw_tensor_desc param, state;
} optimizer_problem;

static tw_status add_tensor(const optimizer_problem *p, const tw_tensor_desc *desc,
                            tw_tensor *tensor)
{
    return p->builder->tensor(p->builder->graph, desc, tensor);
}

static tw_status build_sgd(const tw_problem_args *args, const optimizer_problem *p)
{
    tw_attrs attrs = {.sgd = {.momentum = tw_arg_real(args, "momentum"),
                              .weight_decay = tw_arg_real(args, "decay"),
                              .nesterov = tw_arg_int(args, "nesterov") != 0}};
    bool velocity = attrs.sgd.momentum != 0;
    tw_tensor_desc lr = tw_desc(TW_F32, 0, NULL);
    tw_tensor in[TW_SGD_INPUTS] = {TW_NONE}, out[2] = {TW_NONE, TW_UNWANTED};
    TW_TRY(add_tensor(p, &p->param, &in[TW_SGD_PARAM]));
    TW_TRY(add_tensor(p, &p->param, &in[TW_SGD_GRAD]));
    if (velocity) TW_TRY(add_tensor(p, &p->state, &in[TW_SGD_VELOCITY]));
    TW_TRY(add_tensor(p, &lr, &in[TW_SGD_LR]));
    TW_TRY(add_tensor(p, &p->param, &out[0]));
    if (velocity) TW_TRY(add_tensor(p, &p->state, &out[1]));
    return p->builder->add(p->builder->graph, TW_OP_SGD, &attrs, TW_SGD_INPUTS, in, 2, out);
}

/* The step is a constant: bound memory would have to hold a valid count. */
static tw_status build_adam(const tw_problem_args *args, const optimizer_problem *p)
{
    tw_attrs attrs = {.adam = {.weight_decay = tw_arg_real(args, "decay"),
                               .decoupled = tw_arg_int(args, "decoupled") != 0}};
    tw_tensor_desc lr = tw_desc(TW_F32, 0, NULL);
    tw_tensor in[TW_ADAM_INPUTS], out[3];
    TW_TRY(add_tensor(p, &p->param, &in[TW_ADAM_PARAM]));
    TW_TRY(add_tensor(p, &p->param, &in[TW_ADAM_GRAD]));
    TW_TRY(add_tensor(p, &p->state, &in[TW_ADAM_M]));
    TW_TRY(add_tensor(p, &p->state, &in[TW_ADAM_V]));
    TW_TRY(add_tensor(p, &lr, &in[TW_ADAM_LR]));
    TW_TRY(p->builder->scalar(p->builder->graph, TW_I64, 10, &in[TW_ADAM_STEP]));
    TW_TRY(add_tensor(p, &p->param, &out[0]));
    TW_TRY(add_tensor(p, &p->state, &out[1]));
    TW_TRY(add_tensor(p, &p->state, &out[2]));
    return p->builder->add(p->builder->graph, TW_OP_ADAM, &attrs, TW_ADAM_INPUTS, in, 3, out);
}

static tw_status problem(const tw_problem_args *args, const tw_builder *builder)
{
    static const char *const names[] = {"adam", "sgd", NULL};
    optimizer_problem p = {.builder = builder};
    int64_t n = tw_arg_int(args, "n");
    tw_dtype type, state;
    int32_t which;
    TW_TRY(tw_arg_choice(args, "op", names, &which));
    TW_TRY(tw_arg_dtype(args, "dtype", &type));
    TW_TRY(tw_arg_dtype(args, "state", &state));
    p.param = tw_desc(type, 1, &n);
    p.state = tw_desc(state, 1, &n);
    return which == 1 ? build_sgd(args, &p) : build_adam(args, &p);
}

const tw_family tw_family_optimizer = {
    .name = "optimizer",
    .ops = tw_optimizer_ops,
    .n_ops = TW_OPTIMIZER_OPS,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .keys = keys,
    .problem = problem,
};
