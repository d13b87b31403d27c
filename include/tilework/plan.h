/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: how a graph is computed. A plan is immutable and may be used by many threads at once. All
 * choices are made in tw_plan_create; tw_run allocates nothing, reads no environment, and takes no
 * lock but its context's own.
 */
#ifndef TILEWORK_PLAN_H
#define TILEWORK_PLAN_H

#include <tilework/device.h>
#include <tilework/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tw_plan tw_plan;

/* Which part of a graph that was differentiated with `cut`. */
typedef enum tw_phase { TW_PHASE_ALL = 0, TW_PHASE_FORWARD = 1, TW_PHASE_BACKWARD = 2 } tw_phase;

enum {
    TW_ALLOW_NONDETERMINISTIC = 1,
    TW_ALLOW_TF32 = 2,   /* shortcuts in f32 products */
    TW_NO_REFERENCE = 4, /* fail rather than fall to a reference kernel where the family has
                                   a fast one */
    TW_NO_FUSION = 8,    /* one kernel for each operation */
    TW_FLUSH_SUBNORMALS = 16,
    TW_ONLY_REFERENCE = 32 /* reference kernels only: the oracle of tests */
};

typedef struct tw_plan_options {
    size_t size;
    bool has_workspace_limit;
    int64_t workspace_limit; /* bytes; 0 is legal for one operation */
    uint32_t flags;          /* TW_ALLOW_… , TW_NO_… */
    tw_phase phase;
    const char *kernel; /* only this kernel for the operations of its family; NULL: choose */
    tw_isa max_isa;     /* with has_max_isa: no kernel above this level */
    bool has_max_isa;
    int32_t max_threads; /* threads that workspace is laid out for; 0: one for each CPU.
                                 A context with more uses only this many. No effect on results */
} tw_plan_options;

/* Options NULL: defaults. Fails with TW_WORKSPACE_TOO_SMALL, naming the minimum, under a cap that
 * cannot be met. Thread-safe. */
TW_API tw_status tw_plan_create(const tw_graph *graph, const tw_plan_options *options,
                                tw_plan **plan);
TW_API void tw_plan_free(tw_plan *plan); /* NULL is fine */

/* Bytes that tw_run needs, 64-byte aligned. */
TW_API int64_t tw_plan_workspace(const tw_plan *plan);

/* Why it is as it is: one line for each step with the kernel, the problem string, workspace, fused
 * operations, and each better kernel with the reason why it refused. Lives as long as the plan. */
TW_API const char *tw_plan_explain(const tw_plan *plan);

/* Steps, for reports: the name of the kernel, the problem string, and the scratch bytes. */
typedef struct tw_step_info {
    size_t size;
    const char *kernel;
    const char *problem;
    const char *name; /* of the step's result tensor, or "" */
    int64_t workspace_bytes;
    bool reference;
} tw_step_info;
TW_API int32_t tw_plan_step_count(const tw_plan *plan);
TW_API tw_status tw_plan_step(const tw_plan *plan, int32_t step, tw_step_info *info);

/* Saves to / loads from memory. The text is portable; loading re-checks everything, chooses the
 * same kernels by name, and fails with TW_NOT_FOUND if this machine lacks one. Constants are saved
 * by uid and must be bound again: `constants` gives their data. *bytes is allocated with
 * tw_malloc. */
TW_API tw_status tw_plan_save(const tw_plan *plan, void **bytes, size_t *n_bytes);

typedef struct tw_binding {
    int64_t uid; /* tensor number, unless its description gave another id */
    void *data;  /* first element; const inputs are not written */
} tw_binding;

TW_API tw_status tw_plan_load(const void *bytes, size_t n_bytes, int32_t n_constants,
                              const tw_binding *constants, tw_plan **plan);

/* The tensors that a run binds, by uid, in the order in which tw_run finds them fastest. Inputs
 * that no needed operation reads are not among them. */
TW_API int32_t tw_plan_binding_count(const tw_plan *plan);
TW_API int64_t tw_plan_binding_uid(const tw_plan *plan, int32_t index); /* 0: no such index */

/* Runs. Every tensor that the plan binds must be given, once, in any order. context NULL:
 * the calling thread alone. On failure outputs are undefined, everything else is as before. */
TW_API tw_status tw_run(const tw_plan *plan, tw_context *context, int32_t n_bindings,
                        const tw_binding *bindings, void *workspace, int64_t workspace_bytes);

/* The same, timing each step: nanoseconds[i] is increased by step i's time. */
TW_API tw_status tw_run_timed(const tw_plan *plan, tw_context *context, int32_t n_bindings,
                              const tw_binding *bindings, void *workspace, int64_t workspace_bytes,
                              int64_t *nanoseconds);

/* ---- Plan cache ------------------------------------------------------------------------------ */

/* Process-wide, by content of graph and options. The caller gets a share and frees it as usual. */
TW_API tw_status tw_plan_cached(const tw_graph *graph, const tw_plan_options *options,
                                tw_plan **plan);
TW_API void tw_plan_cache_limit(int64_t bytes); /* default 64 MiB */
TW_API void tw_plan_cache_clear(void);
/* Changes with each of the two: who holds shares of plans to save look-ups gives them back then. */
TW_API uint64_t tw_plan_cache_generation(void);
typedef struct tw_plan_cache_stats {
    size_t size;
    int64_t plans, bytes, hits, misses, evictions;
} tw_plan_cache_stats;
TW_API tw_status tw_plan_cache_describe(tw_plan_cache_stats *stats);

/* ---- Kernels and problems, for tools --------------------------------------------------------- */

typedef struct tw_kernel_info {
    size_t size;
    const char *name; /* permanent: tw_<family>_<algorithm>_<types>__<target> */
    const char *family;
    const char *algorithm;
    const char *types;
    const char *target;
    const char *operation;
    tw_isa isa;
    bool available; /* this build and this CPU can run it */
    bool reference;
    bool pattern; /* it takes several operations at once, when a plan has them so */
} tw_kernel_info;
TW_API int32_t tw_kernel_count(void);
TW_API tw_status tw_kernel_describe(int32_t index, tw_kernel_info *info);

/* Whether a kernel takes operation 0 of a graph. *reason: NULL if it does, else why not. */
TW_API tw_status tw_kernel_supports(int32_t index, const tw_graph *graph, const char **reason);

/* How a correct result may differ from the exact one. u is the unit round-off. */
typedef enum tw_exactness {
    TW_RESULT_EXACT = 0, /* equal to the reference */
    TW_RESULT_SUM = 1, /* a sum of `terms` products: 4·u_out·|y| + 4·√terms·u_acc·M, where M is the
                            same operation on the inputs' absolute values */
    TW_RESULT_SMOOTH = 2 /* `ulps` units in the last place of y, and what 4·√terms·u_acc of relative
                            error in the inputs do to it */
} tw_exactness;

/* Operation `index` of a graph, in the order of building, and what it costs at least. */
typedef struct tw_operation_info {
    size_t size;
    const char *operation; /* as in tw_kernel_info */
    const char *family;
    int32_t n_in, n_out;
    const tw_tensor *in, *out; /* TW_NONE where absent; valid until the graph changes */
    const char *const *in_names, *const *out_names; /* "x", "dy"…, of the first 8 and 4 */
    tw_exactness exactness;
    double ulps;
    int64_t terms; /* summed into one element of the first output */
    double flops;  /* at least; a multiply-add is 2; 0 where nothing is computed */
    double bytes;  /* each operand read once, each result written once */
} tw_operation_info;
TW_API tw_status tw_graph_operation(const tw_graph *graph, int32_t index, tw_operation_info *info);

/* Builds the graph of a problem string, "conv n=64 c=64 h=28 k=64 r=3 pad=1 dtype=f32": family,
 * then key=value pairs. The error names the column and the nearest valid key. */
TW_API tw_status tw_problem_graph(const char *problem, tw_graph **graph);
/* Keys, defaults and meaning for a family, one line each; NULL if there is no such family. */
TW_API const char *tw_problem_help(const char *family);
TW_API int32_t tw_family_count(void);
TW_API const char *tw_family_name(int32_t index);

#ifdef __cplusplus
}
#endif
#endif
