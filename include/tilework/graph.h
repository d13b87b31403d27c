/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: what is to be computed, with no word on where or how.
 *
 * A graph is tensors and operations. Every call validates its arguments and infers the output's
 * shape at once, so a graph that was built is a graph that can run. Graphs are not locked: build on
 * one thread, then share freely. On failure a call leaves the graph as it was.
 *
 * Outputs. Each operation takes `tw_tensor *y`. If *y is TW_NONE, a virtual tensor of the inferred
 * shape is made and its number stored. If *y names a tensor that has no producer yet, its shape
 * must be the inferred one, and its element type and strides are honoured: the result is converted
 * once, on store. Pass the address of a tensor variable initialised to TW_NONE unless you need the
 * latter.
 *
 * Attribute structs: zero-initialise, set what you need, leave `size` 0 or sizeof. NULL means all
 * defaults. A zero stride, dilation or group count means 1.
 */
#ifndef TILEWORK_GRAPH_H
#define TILEWORK_GRAPH_H

#include <tilework/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tw_graph tw_graph;

TW_API tw_status tw_graph_create(tw_graph **graph);
TW_API void tw_graph_free(tw_graph *graph); /* NULL is fine; plans do not need their graph */
TW_API tw_status tw_graph_copy(const tw_graph *graph, tw_graph **copy);

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Declares a tensor. With no producer it is an input, bound at run time (a virtual tensor needs a
 * producer before a plan is made). With one it is an output bound at run time, or virtual. */
TW_API tw_status tw_graph_tensor(tw_graph *graph, const tw_tensor_desc *desc, tw_tensor *tensor);

/* A tensor whose content is known now. The data stays the caller's and must outlive every plan of
 * the graph; plans may pack it once. Layout as in `desc`. */
TW_API tw_status tw_graph_constant(tw_graph *graph, const tw_tensor_desc *desc, const void *data,
                                   tw_tensor *tensor);

/* A rank-0 constant held in the graph. */
TW_API tw_status tw_graph_scalar(tw_graph *graph, tw_dtype dtype, double value, tw_tensor *tensor);

/* Makes a virtual tensor an output that the caller binds. `strides` (in elements, or NULL for
 * row-major) must not let two elements share memory. */
TW_API tw_status tw_graph_output(tw_graph *graph, tw_tensor tensor, const int64_t *strides);

TW_API tw_status tw_graph_describe(const tw_graph *graph, tw_tensor tensor, tw_tensor_desc *desc);
TW_API tw_status tw_graph_set_name(tw_graph *graph, tw_tensor tensor, const char *name);
TW_API tw_status tw_graph_find(const tw_graph *graph, const char *name, tw_tensor *tensor);
TW_API int32_t tw_graph_tensor_count(const tw_graph *graph); /* numbers run from 1 to this */
TW_API int32_t tw_graph_op_count(const tw_graph *graph);

/* Lets `output` take over the memory of input `input` (same bytes, element type and strides): bind
 * either of the two, not both. Every reader of the old value runs before it is overwritten. */
TW_API tw_status tw_graph_donate(tw_graph *graph, tw_tensor output, tw_tensor input);

/* ---- Differentiation ------------------------------------------------------------------------- */

typedef struct tw_backward_options {
    size_t size;
    const tw_tensor *seeds; /* gradient of each of `of`; NULL: ones (`of` are scalars) */
    bool cut;               /* make forward and backward separate plans, see tw_phase */
} tw_backward_options;

/* Adds to the graph the gradients of sum(of · seeds) with respect to each of `wrt`. `grads[i]` is
 * a virtual tensor of wrt[i]'s shape; zeros where nothing depends on it. With `cut` the values that
 * the backward part needs are kept in one reserve tensor, whose number goes to *reserve: an output
 * of the forward phase, an input of the backward one, of u8, sized here. */
TW_API tw_status tw_graph_backward(tw_graph *graph, int32_t n_of, const tw_tensor *of,
                                   int32_t n_wrt, const tw_tensor *wrt,
                                   const tw_backward_options *options, tw_tensor *grads,
                                   tw_tensor *reserve);

/* ---- Matrix products and convolution --------------------------------------------------------- */

typedef struct tw_matmul_attrs {
    size_t size;
    tw_dtype compute; /* accumulator: TW_AUTO is f32 for floats up to f32, f64 for f64, i32 / i64
                         for integers */
} tw_matmul_attrs;

/* y[…,M,N] = Σ_k a[…,M,K]·b[…,K,N]. Leading dims broadcast; rank-1 operands as in NumPy.
 * Transposed operands: give their strides, or use tw_graph_transpose, which costs nothing. */
TW_API tw_status tw_graph_matmul(tw_graph *graph, tw_tensor a, tw_tensor b,
                                 const tw_matmul_attrs *attrs, tw_tensor *y);

#define TW_MAX_SPATIAL 3

typedef struct tw_conv_attrs {
    size_t size;
    int64_t stride[TW_MAX_SPATIAL];   /* 0 means 1 */
    int64_t dilation[TW_MAX_SPATIAL]; /* 0 means 1 */
    int64_t pad_lo[TW_MAX_SPATIAL];
    int64_t pad_hi[TW_MAX_SPATIAL];
    int64_t groups; /* 0 means 1 */
    bool flip;      /* true: mathematical convolution; false: cross-correlation */
    tw_dtype compute;
} tw_conv_attrs;

/* y[N,K,…] from x[N,C,…] and w[K,C/groups,…], one to three spatial dims. Padding is skipped, not
 * multiplied by zero. Fuse bias and activation by adding them with pointwise operations. */
TW_API tw_status tw_graph_conv(tw_graph *graph, tw_tensor x, tw_tensor w,
                               const tw_conv_attrs *attrs, tw_tensor *y);

/* Gradient of conv by x. `dims` is x's shape (needed: a strided convolution forgets it); it may be
 * NULL when *dx is declared. */
TW_API tw_status tw_graph_conv_dgrad(tw_graph *graph, tw_tensor dy, tw_tensor w,
                                     const tw_conv_attrs *attrs, const int64_t *dims,
                                     tw_tensor *dx);

/* Gradient of conv by w; `dims` is w's shape, or NULL when *dw is declared. */
TW_API tw_status tw_graph_conv_wgrad(tw_graph *graph, tw_tensor x, tw_tensor dy,
                                     const tw_conv_attrs *attrs, const int64_t *dims,
                                     tw_tensor *dw);

/* ---- Pooling --------------------------------------------------------------------------------- */

typedef enum tw_pool_mode { TW_POOL_MAX = 0, TW_POOL_AVERAGE = 1 } tw_pool_mode;

typedef enum tw_pool_index {
    TW_POOL_INDEX_SPATIAL = 0, /* row-major over the input's spatial dims, per (n, c) */
    TW_POOL_INDEX_TENSOR = 1,  /* row-major over the whole input (ONNX) */
    TW_POOL_INDEX_WINDOW = 2   /* within the window: small, what gradients use */
} tw_pool_index;

typedef struct tw_pool_attrs {
    size_t size;
    tw_pool_mode mode;
    int64_t window[TW_MAX_SPATIAL]; /* 0 means 1 */
    int64_t stride[TW_MAX_SPATIAL]; /* 0 means 1 */
    int64_t dilation[TW_MAX_SPATIAL];
    int64_t pad_lo[TW_MAX_SPATIAL];
    int64_t pad_hi[TW_MAX_SPATIAL];
    bool ceil_mode;      /* the last, partial window counts if it starts inside input + pad_lo */
    bool include_pad;    /* average: declared padding counts in the divisor */
    bool column_major;   /* index order of the spatial dims (ONNX storage_order 1) */
    tw_pool_index index; /* meaning of the second output of max pooling */
} tw_pool_attrs;

/* y (and indices, if not NULL: i64 unless declared otherwise) of x[N,C,…]. */
TW_API tw_status tw_graph_pool(tw_graph *graph, tw_tensor x, const tw_pool_attrs *attrs,
                               tw_tensor *y, tw_tensor *indices);

/* dx of pooling; `dims` is x's shape. Max needs `indices` as the forward pass gave them. */
TW_API tw_status tw_graph_pool_backward(tw_graph *graph, tw_tensor dy, tw_tensor indices,
                                        const tw_pool_attrs *attrs, const int64_t *dims,
                                        tw_tensor *dx);

/* ---- Pointwise ------------------------------------------------------------------------------- */

/* Modes, with arity and formula, are the table in tilework/pointwise.def. */
typedef enum tw_pointwise_mode {
#define TW_POINTWISE(NAME, value, text, arity, formula) TW_PW_##NAME = value,
#include <tilework/pointwise.def>
#undef TW_POINTWISE
    TW_PW_END
} tw_pointwise_mode;

typedef struct tw_pointwise_attrs {
    size_t size;
    tw_pointwise_mode mode;
    double alpha, beta; /* parameters of some modes; their meaning and default are in the table */
    bool has_alpha, has_beta;
    int64_t axis;     /* GEN_INDEX */
    tw_dtype compute; /* type of the arithmetic; TW_AUTO: f32, or f64 / integer as the inputs are */
    uint32_t convert; /* TW_CONVERT_* for the store */
} tw_pointwise_attrs;

/* y = mode(a, b, c), broadcasting as NumPy does; unused operands TW_NONE. Compare and logical modes
 * give bool. In place (donation) is allowed. */
TW_API tw_status tw_graph_pointwise(tw_graph *graph, const tw_pointwise_attrs *attrs, tw_tensor a,
                                    tw_tensor b, tw_tensor c, tw_tensor *y);

/* The same with defaults: tw_graph_unary(g, TW_PW_RELU, x, &y). */
TW_API tw_status tw_graph_unary(tw_graph *graph, tw_pointwise_mode mode, tw_tensor a, tw_tensor *y);
TW_API tw_status tw_graph_binary(tw_graph *graph, tw_pointwise_mode mode, tw_tensor a, tw_tensor b,
                                 tw_tensor *y);

/* Conversion to *y's element type, or to `dtype` when *y is TW_NONE. convert: TW_CONVERT_*. */
TW_API tw_status tw_graph_cast(tw_graph *graph, tw_tensor x, tw_dtype dtype, uint32_t convert,
                               tw_tensor *y);

/* ---- Reduction, softmax, losses -------------------------------------------------------------- */

typedef enum tw_reduce_mode {
    TW_REDUCE_SUM = 0,
    TW_REDUCE_MEAN = 1,
    TW_REDUCE_MAX = 2,
    TW_REDUCE_MIN = 3,
    TW_REDUCE_PROD = 4,
    TW_REDUCE_L1 = 5,
    TW_REDUCE_L2 = 6,
    TW_REDUCE_LOG_SUM = 7,
    TW_REDUCE_LOG_SUM_EXP = 8,
    TW_REDUCE_SUM_SQUARE = 9,
    TW_REDUCE_ANY = 10,
    TW_REDUCE_ALL = 11,
    TW_REDUCE_ARGMAX = 12,
    TW_REDUCE_ARGMIN = 13,
    TW_REDUCE_AMAX = 14,
    TW_REDUCE_PROD_NONZERO = 15 /* product of the non-zero elements */
} tw_reduce_mode;

typedef struct tw_reduce_attrs {
    size_t size;
    tw_reduce_mode mode;
    uint32_t axes;   /* bit d set: dim d is reduced. Bits beyond the rank are an error. 0: none */
    bool drop;       /* true: reduced dims disappear; false: they stay as 1 */
    bool last_index; /* arg modes: the last of equals instead of the first */
    tw_dtype compute;
} tw_reduce_attrs;

TW_API tw_status tw_graph_reduce(tw_graph *graph, tw_tensor x, const tw_reduce_attrs *attrs,
                                 tw_tensor *y);

typedef struct tw_softmax_attrs {
    size_t size;
    uint32_t axes; /* bit d: dim d belongs to the row that is normalised. 0: the last dim */
    bool log;      /* log-softmax */
} tw_softmax_attrs;

/* In place is allowed. */
TW_API tw_status tw_graph_softmax(tw_graph *graph, tw_tensor x, const tw_softmax_attrs *attrs,
                                  tw_tensor *y);
TW_API tw_status tw_graph_softmax_backward(tw_graph *graph, tw_tensor y, tw_tensor dy,
                                           const tw_softmax_attrs *attrs, tw_tensor *dx);

typedef enum tw_reduction { TW_LOSS_MEAN = 0, TW_LOSS_SUM = 1, TW_LOSS_NONE = 2 } tw_reduction;

typedef struct tw_cross_entropy_attrs {
    size_t size;
    tw_reduction reduction; /* MEAN divides by the labels that count */
    double smoothing;       /* label smoothing, 0 to 1 */
    bool has_ignore;
    int64_t ignore; /* label that does not count */
} tw_cross_entropy_attrs;

/* Softmax cross-entropy of logits [N,C,…] with integer labels [N,…], or probabilities of the
 * logits' shape. loss: a scalar, or [N,…] for NONE. `lse` (or NULL) gets the log-sum-exp [N,…]. */
TW_API tw_status tw_graph_cross_entropy(tw_graph *graph, tw_tensor logits, tw_tensor labels,
                                        const tw_cross_entropy_attrs *attrs, tw_tensor *loss,
                                        tw_tensor *lse);
TW_API tw_status tw_graph_cross_entropy_backward(tw_graph *graph, tw_tensor logits,
                                                 tw_tensor labels, tw_tensor lse, tw_tensor dloss,
                                                 const tw_cross_entropy_attrs *attrs,
                                                 tw_tensor *dlogits);

/* ---- Random numbers (Philox 4x32-10: the same on every backend) ------------------------------ */

typedef enum tw_distribution {
    TW_RANDOM_UNIFORM = 0,   /* [a, b) */
    TW_RANDOM_NORMAL = 1,    /* mean a, standard deviation b */
    TW_RANDOM_BERNOULLI = 2, /* 1 with probability a */
    TW_RANDOM_BITS = 3       /* raw 32-bit words */
} tw_distribution;

typedef struct tw_random_attrs {
    size_t size;
    tw_distribution distribution;
    double a, b;
    int64_t seed, offset; /* used where no seed / offset tensor is given */
} tw_random_attrs;

/* Fills a tensor of `rank` dims (or declared *y). Element i, row-major, depends on (seed, offset,
 * i) alone. seed, offset: i64 scalars, or TW_NONE. */
TW_API tw_status tw_graph_random(tw_graph *graph, const tw_random_attrs *attrs, tw_dtype dtype,
                                 int32_t rank, const int64_t *dims, tw_tensor seed,
                                 tw_tensor offset, tw_tensor *y);

typedef struct tw_dropout_attrs {
    size_t size;
    double rate; /* 0 to 1: the share of elements that become 0; kept ones are divided by 1-rate */
    int64_t seed, offset;
} tw_dropout_attrs;

/* y and, if not NULL, mask (bool, true where kept). */
TW_API tw_status tw_graph_dropout(tw_graph *graph, tw_tensor x, tw_tensor seed, tw_tensor offset,
                                  const tw_dropout_attrs *attrs, tw_tensor *y, tw_tensor *mask);
TW_API tw_status tw_graph_dropout_backward(tw_graph *graph, tw_tensor dy, tw_tensor mask,
                                           const tw_dropout_attrs *attrs, tw_tensor *dx);

/* ---- Layout ---------------------------------------------------------------------------------- */

/* All of these are free where strides can express them. */
TW_API tw_status tw_graph_reshape(tw_graph *graph, tw_tensor x, int32_t rank, const int64_t *dims,
                                  tw_tensor *y); /* one dim may be -1 */
TW_API tw_status tw_graph_transpose(tw_graph *graph, tw_tensor x, const int32_t *order,
                                    tw_tensor *y);
TW_API tw_status tw_graph_expand(tw_graph *graph, tw_tensor x, int32_t rank, const int64_t *dims,
                                 tw_tensor *y); /* broadcast, NumPy rules */
/* y[i] = x[start + i·step]: start inside, step >= 1, dims as given. */
TW_API tw_status tw_graph_slice(tw_graph *graph, tw_tensor x, const int64_t *start,
                                const int64_t *dims, const int64_t *step, tw_tensor *y);
TW_API tw_status tw_graph_concat(tw_graph *graph, int32_t n, const tw_tensor *x, int32_t axis,
                                 tw_tensor *y);

typedef enum tw_pad_mode {
    TW_PAD_CONSTANT = 0,
    TW_PAD_REFLECT = 1,
    TW_PAD_EDGE = 2,
    TW_PAD_WRAP = 3
} tw_pad_mode;
/* lo and hi, one each for every dim; negative ones crop. */
TW_API tw_status tw_graph_pad(tw_graph *graph, tw_tensor x, const int64_t *lo, const int64_t *hi,
                              tw_pad_mode mode, double value, tw_tensor *y);

/* ---- Optimizers ------------------------------------------------------------------------------ */

typedef struct tw_sgd_attrs {
    size_t size;
    double momentum, weight_decay, dampening;
    bool nesterov;
} tw_sgd_attrs;

/* g += weight_decay·w; v = momentum·v + (1-dampening)·g (v = g at the first step when v starts at
 * 0); w -= lr·(nesterov ? g + momentum·v : v). lr: f32 scalar tensor. velocity: TW_NONE without
 * momentum. New values go to *new_param and *new_velocity, which are usually donated. */
TW_API tw_status tw_graph_sgd(tw_graph *graph, tw_tensor param, tw_tensor grad, tw_tensor velocity,
                              tw_tensor lr, const tw_sgd_attrs *attrs, tw_tensor *new_param,
                              tw_tensor *new_velocity);

typedef struct tw_adam_attrs {
    size_t size;
    double beta1, beta2, eps; /* 0 means 0.9, 0.999, 1e-8 */
    double weight_decay;
    bool decoupled; /* AdamW: the decay acts on the weights, not on the gradient */
} tw_adam_attrs;

/* m, v: moments of param's shape. step: i64 scalar, the number of this step, from 1. */
TW_API tw_status tw_graph_adam(tw_graph *graph, tw_tensor param, tw_tensor grad, tw_tensor m,
                               tw_tensor v, tw_tensor lr, tw_tensor step,
                               const tw_adam_attrs *attrs, tw_tensor *new_param, tw_tensor *new_m,
                               tw_tensor *new_v);

#ifdef __cplusplus
}
#endif
#endif
