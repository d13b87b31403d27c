/* SPDX-License-Identifier: Apache-2.0 */
/* A finished plan: steps, places, bindings. */
#ifndef TW_PLAN_PLAN_H
#define TW_PLAN_PLAN_H

#include <stdatomic.h>

#include "core/alloc.h"
#include "core/text.h"
#include "graph/graph.h"
#include "ops/kernel.h"
#include <tilework/plan.h>

/* Where an operand's first element is. */
typedef enum tw_home {
    TW_HOME_NONE,     /* absent */
    TW_HOME_BOUND,    /* bytes into binding `slot` */
    TW_HOME_CONSTANT, /* at data */
    TW_HOME_WORKSPACE /* bytes into the workspace */
} tw_home;

typedef struct tw_place {
    tw_home home;
    int32_t slot;
    int64_t bytes;
    const void *data;
} tw_place;

typedef struct tw_step {
    const tw_kernel *kernel;
    tw_problem problem;
    void *state;
    int32_t n_ops;   /* of the group; 0 for the copy of a shadow */
    int64_t scratch; /* byte offset into the workspace */
    int64_t scratch_bytes;
    const tw_place *in, *out, *loads, *stores;
    const tw_tensor *in_tensors, *out_tensors, *load_tensors, *store_tensors;
    const char *text; /* the problem, for reports */
    const char *name; /* of the result */
} tw_step;

/* What the caller binds. A donated pair shares a slot and may be bound by either id. */
typedef struct tw_slot {
    int64_t uid, other_uid; /* other_uid: the donated output's, or 0 */
    int64_t bytes;
    int64_t alignment;
    tw_tensor tensor;
    bool written;
} tw_slot;

struct tw_plan {
    atomic_int shares;
    tw_arena arena;
    tw_graph *graph;         /* a copy */
    tw_plan_options options; /* kernel copied */
    tw_step *steps;
    int32_t n_steps;
    tw_slot *slots;
    int32_t n_slots;
    int32_t max_operands; /* of one kind in one step */
    int64_t workspace;
    int64_t pointer_table; /* byte offset in the workspace for large plans, or -1 */
    tw_text explanation;
};

/* Small plans resolve pointers on the stack. */
enum { TW_STACK_SLOTS = 128, TW_STACK_OPERANDS = 16 };

#endif
