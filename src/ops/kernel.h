/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel is: a stateless row with three functions. The planner asks `supports`, prepares the
 * first row that says yes, and `run` launches it. If supports says yes, the result must be right.
 */
#ifndef TW_OPS_KERNEL_H
#define TW_OPS_KERNEL_H

#include "core/alloc.h"
#include "ops/op.h"
#include "ops/pattern.h"
#include "tile/chain.h"

/* What one step of a plan has to do: an anchor operation, pointwise programs on its operands
 * (prologue) and on its first output (epilogue). Pure chains have info->kind POINTWISE and only an
 * epilogue. */
typedef struct tw_problem {
    const tw_op_info *info;
    const tw_attrs *attrs;
    int32_t n_in, n_out;
    const tw_view *in, *out; /* with an epilogue, out[0] describes the anchor's own result: nothing
                                 is stored there, the chain's stores are the outputs */
    const tw_chain *prologue[2]; /* for in[0], in[1]; NULL: none */
    const tw_chain *epilogue;    /* NULL: none */
    uint32_t flags;              /* TW_ALLOW_*, TW_FLUSH_SUBNORMALS */
    int32_t max_threads;         /* slots that workspace must be laid out for */
    int64_t workspace_limit;     /* what prepare may ask for */
} tw_problem;

typedef struct tw_prepare {
    tw_arena *arena;   /* for the state and for packed constants; lives as long as the plan */
    void *state;       /* out: handed to run; NULL if none */
    int64_t workspace; /* out: bytes for run, 64-byte aligned */
} tw_prepare;

typedef struct tw_launch {
    const tw_problem *problem;
    const void *state;
    void *const *in;    /* first elements, as problem->in */
    void *const *out;   /* as problem->out; [0] is NULL with an epilogue */
    void *const *loads; /* of the epilogue */
    void *const *stores;
    void *const *prologue_loads[2];
    void *workspace; /* prepare's bytes; content undefined */
    tw_context *context;
} tw_launch;

typedef struct tw_kernel_impl {
    /* NULL: yes. Else the reason as a static sentence fragment, such as "x is not f32". */
    const char *(*supports)(const tw_problem *problem);
    tw_status (*prepare)(const tw_problem *problem, tw_prepare *prepare); /* NULL: no state */
    tw_status (*run)(const tw_launch *launch);
    uint32_t in_place; /* bit i: each output may be the same memory as input i, in its layout */
} tw_kernel_impl;

typedef struct tw_kernel {
    const char *name, *algorithm, *types, *target;
    tw_op_kind kind;
    tw_isa isa;
    bool reference;
    const tw_kernel_impl *impl; /* NULL: not in this build (another architecture) */
} tw_kernel;

/* A key of a family's problem strings. */
typedef struct tw_problem_key {
    const char *key;
    const char *fallback; /* default, as text */
    const char *help;
} tw_problem_key;

/* Parsed values, by key; what a family reads while it builds a problem's graph. */
typedef struct tw_problem_args tw_problem_args;
int64_t tw_arg_int(const tw_problem_args *args, const char *key);
double tw_arg_real(const tw_problem_args *args, const char *key);
const char *tw_arg_text(const tw_problem_args *args, const char *key);
bool tw_arg_given(const tw_problem_args *args, const char *key);
/* The index of the value in a NULL-terminated list of names; failing names the nearest one. */
tw_status tw_arg_choice(const tw_problem_args *args, const char *key, const char *const *names,
                        int32_t *index);
tw_status tw_arg_dtype(const tw_problem_args *args, const char *key, tw_dtype *dtype);

typedef struct tw_family {
    const char *name;
    const tw_op_info *ops;
    int32_t n_ops;
    const tw_kernel *kernels; /* best first, for each operation; references last */
    int32_t n_kernels;
    const tw_problem_key *keys; /* ends with a NULL key */
    tw_status (*problem)(const tw_problem_args *args, const tw_builder *builder);
    const tw_pattern *patterns;
    int32_t n_patterns;
    /* Optional: the planner's price of a row for a problem; lower is better. NULL: manifest
     * order. */
    double (*rank)(const tw_problem *problem, const tw_kernel *kernel);
} tw_family;

extern const tw_family *const tw_families[];
extern const int32_t tw_n_families;
const tw_family *tw_family_of(tw_op_kind kind);

#endif
