/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation in one call, with no graph in sight:
 *
 *     tw_conv_forward(&(tw_conv_call){.x = {&x_desc, x}, .w = {&w_desc, w}, .y = {&y_desc, y},
 *                                     .attrs = &same, .activation = &relu});
 *
 * Each call is the operation of the same name in <tilework/graph.h>; rules, attributes and results
 * are those. Its plan is made at the first call with these shapes and options and found again at
 * later ones: each thread remembers a few hundred, tw_plan_cached knows the others. What changes
 * from step to step of a training loop (lr, step, seed, offset) is bound and no part of the plan.
 *
 * Call structs: zero-initialise, set what you need, leave `size` 0 or sizeof. An operand whose desc
 * is NULL is absent; those that may be are marked optional. Descriptions give shapes in full, also
 * of results, whose element type and strides are honoured. Their uid, name and flags do not matter,
 * but nothing may be TW_TENSOR_VIRTUAL or ragged. attrs NULL means all defaults.
 *
 * Thread-safe. On failure results are undefined, everything else is as before.
 */
#ifndef TILEWORK_SIMPLE_H
#define TILEWORK_SIMPLE_H

#include <tilework/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What the calls share -------------------------------------------------------------------- */

typedef struct tw_input {
    const tw_tensor_desc *desc;
    const void *data; /* first element */
} tw_input;

typedef struct tw_output {
    const tw_tensor_desc *desc;
    void *data;
} tw_output;

/* Where and how. NULL or zeros: on the calling thread, without a workspace. */
typedef struct tw_call_options {
    size_t size;
    tw_context *context; /* NULL: the calling thread alone */

    /* 64-byte aligned; NULL: none. Plans use no more than this: give what `query` says, or what you
     * have. With none, convolutions fall to plain C, and a bias or activation behind a product of
     * another element type than y's may be refused with TW_WORKSPACE_TOO_SMALL. */
    void *workspace;
    int64_t workspace_bytes;
    uint32_t flags; /* TW_ALLOW_… , TW_NO_… , TW_FLUSH_SUBNORMALS, TW_ONLY_REFERENCE */

    /* Either of these not NULL: nothing is run, and operands need no data. */
    int64_t *query; /* gets the bytes with which the call is fastest */
    tw_plan **plan; /* gets a share of the plan, for tw_run. It binds the struct's tensors, and lr,
                       step, seed and offset, as TW_CALL_UID + their place among them, from 0 */
} tw_call_options;

enum { TW_CALL_UID = 100 };

/* Gives back what simple calls keep for the calling thread. That happens by itself when a thread
 * ends, and, at its next call, after tw_plan_cache_clear or tw_plan_cache_limit. */
TW_API void tw_calls_forget(void);

/* ---- Convolution and matrix products --------------------------------------------------------- */

/* y = activation(conv(x, w) + bias). Until it is stored the value has the accumulator's type; f32
 * where y is a narrower float. */
typedef struct tw_conv_call {
    size_t size;
    const tw_call_options *options;
    tw_input x, w;
    tw_input bias; /* optional: [K] */
    tw_output y;
    const tw_conv_attrs *attrs;
    const tw_pointwise_attrs *activation; /* a mode of one operand; NULL: none */
} tw_conv_call;
TW_API tw_status tw_conv_forward(const tw_conv_call *call);

typedef struct tw_conv_dgrad_call {
    size_t size;
    const tw_call_options *options;
    tw_input dy, w;
    tw_output dx;
    const tw_conv_attrs *attrs;
} tw_conv_dgrad_call;
TW_API tw_status tw_conv_dgrad(const tw_conv_dgrad_call *call);

typedef struct tw_conv_wgrad_call {
    size_t size;
    const tw_call_options *options;
    tw_input x, dy;
    tw_output dw;
    const tw_conv_attrs *attrs;
} tw_conv_wgrad_call;
TW_API tw_status tw_conv_wgrad(const tw_conv_wgrad_call *call);

/* y = activation(a·b + bias); types as for tw_conv_forward. Transposed operands: by strides. */
typedef struct tw_matmul_call {
    size_t size;
    const tw_call_options *options;
    tw_input a, b;
    tw_input bias; /* optional: any shape that broadcasts to y's, such as [N] */
    tw_output y;
    const tw_matmul_attrs *attrs;
    const tw_pointwise_attrs *activation; /* a mode of one operand; NULL: none */
} tw_matmul_call;
TW_API tw_status tw_matmul(const tw_matmul_call *call);

/* ---- Pooling --------------------------------------------------------------------------------- */

typedef struct tw_pool_call {
    size_t size;
    const tw_call_options *options;
    tw_input x;
    tw_output y;
    tw_output indices; /* optional; of max pooling */
    const tw_pool_attrs *attrs;
} tw_pool_call;
TW_API tw_status tw_pool_forward(const tw_pool_call *call);

typedef struct tw_pool_backward_call {
    size_t size;
    const tw_call_options *options;
    tw_input dy;
    tw_input indices; /* max pooling needs them; averages have none */
    tw_output dx;
    const tw_pool_attrs *attrs;
} tw_pool_backward_call;
TW_API tw_status tw_pool_backward(const tw_pool_backward_call *call);

/* ---- Pointwise, reduction, softmax, loss ----------------------------------------------------- */

/* y = mode(a, b, c). y may be the memory of an operand with y's layout. */
typedef struct tw_pointwise_call {
    size_t size;
    const tw_call_options *options;
    tw_input a;
    tw_input b, c; /* as many as the mode takes */
    tw_output y;
    const tw_pointwise_attrs *attrs; /* mode; NULL: identity */
} tw_pointwise_call;
TW_API tw_status tw_pointwise(const tw_pointwise_call *call);

typedef struct tw_reduce_call {
    size_t size;
    const tw_call_options *options;
    tw_input x;
    tw_output y;
    const tw_reduce_attrs *attrs;
} tw_reduce_call;
TW_API tw_status tw_reduce(const tw_reduce_call *call);

typedef struct tw_softmax_call {
    size_t size;
    const tw_call_options *options;
    tw_input x;
    tw_output y; /* may be x's memory */
    const tw_softmax_attrs *attrs;
} tw_softmax_call;
TW_API tw_status tw_softmax_forward(const tw_softmax_call *call);

typedef struct tw_softmax_backward_call {
    size_t size;
    const tw_call_options *options;
    tw_input y, dy;
    tw_output dx;
    const tw_softmax_attrs *attrs;
} tw_softmax_backward_call;
TW_API tw_status tw_softmax_backward(const tw_softmax_backward_call *call);

typedef struct tw_cross_entropy_call {
    size_t size;
    const tw_call_options *options;
    tw_input logits, labels;
    tw_output loss;
    tw_output lse; /* optional: log-sum-exp, for the backward call */
    const tw_cross_entropy_attrs *attrs;
} tw_cross_entropy_call;
TW_API tw_status tw_cross_entropy_forward(const tw_cross_entropy_call *call);

typedef struct tw_cross_entropy_backward_call {
    size_t size;
    const tw_call_options *options;
    tw_input logits, labels, lse, dloss;
    tw_output dlogits;
    const tw_cross_entropy_attrs *attrs;
} tw_cross_entropy_backward_call;
TW_API tw_status tw_cross_entropy_backward(const tw_cross_entropy_backward_call *call);

/* ---- Layout and dropout ---------------------------------------------------------------------- */

/* y[i] = x[i], converted to y's element type; transposed: dim d of y is dim order[d] of x. Strides
 * say the layouts, so this also packs, unpacks and changes between them. */
typedef struct tw_copy_call {
    size_t size;
    const tw_call_options *options;
    tw_input x;
    tw_output y;
    bool transposed;
    int32_t order[TW_MAX_RANK];
} tw_copy_call;
TW_API tw_status tw_copy(const tw_copy_call *call);

typedef struct tw_dropout_call {
    size_t size;
    const tw_call_options *options;
    tw_input x;
    int64_t seed, offset;
    tw_output y;
    tw_output mask; /* optional: bool, true where kept */
    double rate;
} tw_dropout_call;
TW_API tw_status tw_dropout_forward(const tw_dropout_call *call);

typedef struct tw_dropout_backward_call {
    size_t size;
    const tw_call_options *options;
    tw_input dy, mask;
    tw_output dx;
    double rate;
} tw_dropout_backward_call;
TW_API tw_status tw_dropout_backward(const tw_dropout_backward_call *call);

/* ---- Optimizers, in place -------------------------------------------------------------------- */

typedef struct tw_sgd_call {
    size_t size;
    const tw_call_options *options;
    tw_output param;
    tw_input grad;
    tw_output velocity; /* optional without momentum */
    float lr;
    const tw_sgd_attrs *attrs;
} tw_sgd_call;
TW_API tw_status tw_sgd(const tw_sgd_call *call);

typedef struct tw_adam_call {
    size_t size;
    const tw_call_options *options;
    tw_output param;
    tw_input grad;
    tw_output m, v;
    float lr;
    int64_t step; /* the number of this step, from 1 */
    const tw_adam_attrs *attrs;
} tw_adam_call;
TW_API tw_status tw_adam(const tw_adam_call *call);

#ifdef __cplusplus
}
#endif
#endif
