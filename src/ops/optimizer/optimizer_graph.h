/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the optimizer family share: operand numbers and coefficients. */
#ifndef TW_OPS_OPTIMIZER_GRAPH_H
#define TW_OPS_OPTIMIZER_GRAPH_H

#include "ops/kernel.h"

enum { TW_OPTIMIZER_OPS = 2 };
extern const tw_op_info tw_optimizer_ops[TW_OPTIMIZER_OPS];

enum { TW_SGD_PARAM, TW_SGD_GRAD, TW_SGD_VELOCITY, TW_SGD_LR, TW_SGD_INPUTS };
enum {
    TW_ADAM_PARAM,
    TW_ADAM_GRAD,
    TW_ADAM_M,
    TW_ADAM_V,
    TW_ADAM_LR,
    TW_ADAM_STEP,
    TW_ADAM_INPUTS
};

/* Coefficients of one run; for f32 arithmetic each is rounded to f32 before use. */
typedef struct tw_sgd_coefs {
    double lr, momentum, fresh /* 1 - dampening */, decay;
    bool nesterov;
} tw_sgd_coefs;

typedef struct tw_adam_coefs {
    double beta1, beta2, fresh1 /* 1 - beta1 */, fresh2, eps;
    double rate;   /* lr / (1 - beta1^step) */
    double spread; /* 1 / sqrt(1 - beta2^step) */
    double decay;  /* added to the gradient, by the weight; 0 if decoupled */
    double shrink; /* factor of the weights; 1 unless decoupled */
} tw_adam_coefs;

/* Read lr and step; the run fails, naming step, if that is below 1. */
tw_sgd_coefs tw_sgd_coefs_of(const tw_launch *launch);
tw_status tw_adam_coefs_of(const tw_launch *launch, tw_adam_coefs *coefs);

#endif
