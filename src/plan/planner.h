/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's state and passes, in the order in which tw_plan_create runs them:
 *
 *   order.c   which operations are needed, in an order that respects donations
 *   layout.c  strides of virtual tensors; views become aliases
 *   pattern.c sub-graphs that one kernel does at once
 *   group.c   anchors and the pointwise operations that fuse with them
 *   chain.c   a group's pointwise program
 *   select.c  the kernel of each group, and why the others were not taken
 *   recompute.c  values to compute twice, when the workspace is capped
 *   memory.c  one workspace for all that lives inside the plan
 */
#ifndef TW_PLAN_PLANNER_H
#define TW_PLAN_PLANNER_H

#include "plan/plan.h"

typedef struct tw_tensor_plan {
    tw_tensor root; /* the tensor whose memory this one lies in; itself unless a view */
    int64_t offset; /* elements from root's first */
    int64_t strides[TW_MAX_RANK];
    bool placed;         /* strides are final */
    bool stored;         /* some step writes it (roots only) */
    int32_t first, last; /* steps between which the root's memory is in use; -1: never */
    int64_t bytes;       /* of a root in the workspace */
    int64_t address;     /* its place there */
    tw_tensor heir_of;   /* the root whose memory this one takes over as that dies, or TW_NONE */
    bool left;           /* its memory has an heir */
    int32_t slot;        /* of a bound root, or -1 */
    bool shadow;         /* a donated output that is computed in the workspace and then copied */
} tw_tensor_plan;

typedef struct tw_group {
    int32_t n_ops;
    int32_t ops[TW_CHAIN_VALUES]; /* graph operations; [0] is the anchor */
} tw_group;

/* What a saved plan prescribes for one step. */
typedef struct tw_script_step {
    int32_t n_ops; /* of the group; 0: the copy of a shadow */
    int64_t scratch_limit;
    const char *kernel;
} tw_script_step;

/* A value that could be computed again after the step where most memory is in use. */
typedef struct tw_recompute {
    int32_t op;     /* that computes it; -1: there is none */
    int32_t before; /* the first operation that reads it after the peak */
    tw_tensor tensor;
    int64_t bytes;
} tw_recompute;

typedef struct tw_planner {
    tw_plan *plan;
    tw_graph *graph; /* the plan's copy */
    tw_tensor_plan *tensors;
    int32_t *order; /* live operations */
    int32_t n_order;
    bool *done;       /* by operation: scheduled already */
    bool *live;       /* by operation */
    int32_t *step_of; /* by operation: the step that does it; -1: none */
    int32_t step_capacity;
    tw_arena scratch;       /* freed with the planner */
    int64_t *scratch_limit; /* by step, or NULL: unlimited */
    int32_t n_scratch_limit;
    const tw_script_step *script; /* NULL: choose */
    int32_t n_script;
    tw_recompute *recompute; /* filled in when the plan is made, if not NULL */
} tw_planner;

/* Builds a plan whose choices are given. */
tw_status tw_plan_from_script(const tw_graph *graph, const tw_plan_options *options,
                              const tw_script_step *script, int32_t n_script, tw_plan **plan);

tw_status tw_planner_order(tw_planner *planner);
tw_status tw_planner_layout(tw_planner *planner);
tw_status tw_planner_group(tw_planner *planner, int32_t anchor_position, tw_group *group);
tw_status tw_planner_chain(tw_planner *planner, const tw_group *group, tw_chain **chain,
                           tw_tensor *load_tensors, tw_tensor *store_tensors);
tw_status tw_planner_select(tw_planner *planner, tw_group *group);
/* Patterns: *taken tells whether a step was made that does this operation among others. */
tw_status tw_planner_pattern(tw_planner *planner, int32_t op, bool *taken);
tw_status tw_planner_select_match(tw_planner *planner, const tw_pattern *pattern,
                                  const tw_match *match, bool *taken);
tw_status tw_planner_copy_step(tw_planner *planner, tw_tensor tensor); /* a shadow into its donor */
tw_status tw_planner_memory(tw_planner *planner);

tw_status tw_planner_find_recompute(const tw_planner *planner, tw_recompute *found);
tw_status tw_recompute_apply(tw_graph *graph, const tw_recompute *what);

bool tw_planner_in_phase(const tw_planner *planner, int32_t op);
bool tw_planner_is_external(const tw_planner *planner,
                            tw_tensor tensor); /* in memory before the plan runs */
bool tw_group_has(int32_t n_ops, const int32_t *ops, int64_t op);
/* Does memory hold the tensor before the next step? A view does as soon as its root does. */
bool tw_planner_available(const tw_planner *planner, tw_tensor tensor);
/* Must memory hold it afterwards, for operations other than these n_ops or for the caller? */
bool tw_planner_needed(const tw_planner *planner, tw_tensor tensor, int32_t n_ops,
                       const int32_t *ops);
/* Do two tensors, each in its root's memory, lie there in the same way? */
bool tw_planner_same_view(const tw_planner *planner, tw_tensor a, tw_tensor b);
tw_view tw_planner_view(const tw_planner *planner, tw_tensor tensor);

#endif
