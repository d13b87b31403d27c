/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the pointwise family share. */
#ifndef TW_OPS_POINTWISE_H
#define TW_OPS_POINTWISE_H

#include "ops/kernel.h"

enum {
    TW_PW_INTEGER = 1,  /* has a meaning on integers, and is exact there */
    TW_PW_BITS = 2,     /* integers only */
    TW_PW_PREDICATE = 4 /* gives bool */
};

typedef struct tw_pw_mode_info {
    const char *name; /* NULL: no such mode */
    int32_t arity;
    uint32_t flags;
    double alpha, beta; /* defaults */
} tw_pw_mode_info;

/* The record of a mode; its name is NULL for a number that is none. */
tw_pw_mode_info tw_pw_mode_of(tw_pointwise_mode mode);

/* The mode of a name as in problem strings; TW_PW_END if there is none, after tw_fail. */
tw_status tw_pw_mode_from_name(const char *name, tw_pointwise_mode *mode);

/* The type that NumPy-like promotion gives to two real types. */
tw_dtype tw_pw_promote(tw_dtype a, tw_dtype b);

extern const tw_op_info tw_pw_ops[1];

tw_status tw_pw_infer(tw_infer *infer);
tw_status tw_pw_gradient(const tw_gradient *gradient);

/* The same for modes that are gradients themselves, by their operand 0 (dy) or 1 (x or y). */
tw_status tw_pw_gradient_of_gradient(const tw_gradient *gradient, int32_t operand, tw_tensor *dx);

/* A problem in the one form that kernels work on: the chain that it is, or the chain of one step
 * that the single operation amounts to. */
typedef struct tw_pw_job {
    tw_chain chain;
    bool single; /* operands come from launch->in and out, not from loads and stores */
    tw_view loads[3];
    tw_chain_step step;
    tw_chain_store store;
} tw_pw_job;

/* Fills `job`, whose chain may point into `job` itself: it must not move afterwards. */
void tw_pw_job_of(const tw_problem *problem, tw_pw_job *job);

#endif
