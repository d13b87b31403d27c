/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operation is: its attributes, and the record by which its family describes it (shape
 * inference, gradient, how exact its result is). Graph and plan see operations only through this.
 */
#ifndef TW_OPS_OP_H
#define TW_OPS_OP_H

#include <tilework/graph.h>

typedef enum tw_op_kind {
    TW_OP_NONE = 0,
#define TW_OP(NAME, value, family, text) TW_OP_##NAME = value,
#include "ops/ops.def"
#undef TW_OP
    TW_OP_END
} tw_op_kind;

/* Attributes of the layout family; each operation uses its own. */
typedef struct tw_layout_attrs {
    int32_t axis;                 /* concat */
    int32_t order[TW_MAX_RANK];   /* transpose: y dim d is x dim order[d] */
    int64_t start[TW_MAX_RANK];   /* slice, slice_backward; pad: lo */
    int64_t step[TW_MAX_RANK];    /* slice, slice_backward */
    int64_t end_pad[TW_MAX_RANK]; /* pad: hi */
    tw_pad_mode pad_mode;
    double value; /* pad */
} tw_layout_attrs;

/* In a graph all attributes are normalised: defaults are filled in, unused entries are 0. */
typedef union tw_attrs {
    tw_matmul_attrs matmul;
    tw_conv_attrs conv;
    tw_pool_attrs pool;
    tw_pointwise_attrs pointwise;
    tw_reduce_attrs reduce;
    tw_softmax_attrs softmax;
    tw_cross_entropy_attrs loss;
    tw_random_attrs random;
    tw_dropout_attrs dropout;
    tw_layout_attrs layout;
    tw_sgd_attrs sgd;
    tw_adam_attrs adam;
} tw_attrs;

/* One attribute in the table that hashing, saving and printing walk. */
typedef enum tw_field_type {
    TW_FIELD_I64,
    TW_FIELD_I32,
    TW_FIELD_F64,
    TW_FIELD_BOOL
} tw_field_type;
typedef struct tw_field {
    const char *name;
    tw_field_type type; /* enums are I32 */
    uint16_t offset, count;
} tw_field;

#define TW_FIELD(type, structure, member, kind)                                                    \
    {                                                                                              \
#        member, kind, (uint16_t)offsetof(structure, member),                                      \
            (uint16_t)(sizeof(((structure *)0)->member) / sizeof(type))                            \
    }

typedef struct tw_op_info tw_op_info;

/* Arguments of shape inference. `attrs` is a copy to be checked and normalised. */
typedef struct tw_infer {
    const tw_op_info *info;
    tw_attrs *attrs;
    int32_t n_in, n_out;
    const tw_tensor_desc *const *in; /* NULL: an optional operand that is absent */
    const bool *wanted;              /* outputs asked for; those that are not are not filled */
    const bool *declared;            /* outputs whose description the caller gave … */
    tw_tensor_desc *out; /* … is here on entry. On return: dtype, rank, dims. A declared
                                        output's dtype stays, after the family has accepted it; the
                                        graph then compares rank and dims itself */
} tw_infer;

/* In the `out` of a builder's add: an optional output that is not to be made. TW_NONE makes one. */
#define TW_UNWANTED ((tw_tensor)-1)

/* How operations are added from inside a family (gradients, problem strings): the graph's own
 * functions, handed down, since ops may not call graph. */
typedef struct tw_builder {
    void *graph;
    tw_status (*tensor)(void *graph, const tw_tensor_desc *desc, tw_tensor *tensor);
    tw_status (*scalar)(void *graph, tw_dtype dtype, double value, tw_tensor *tensor);
    /* out[i]: TW_NONE makes a tensor, a number uses a declared one, -1 skips an optional output */
    tw_status (*add)(void *graph, tw_op_kind kind, const tw_attrs *attrs, int32_t n_in,
                     const tw_tensor *in, int32_t n_out, tw_tensor *out);
    tw_status (*describe)(const void *graph, tw_tensor tensor, tw_tensor_desc *desc);
    tw_status (*output)(void *graph, tw_tensor tensor, const int64_t *strides);
} tw_builder;

/* Arguments of a gradient rule: adds operations and sets dx[i] for each wanted input. */
typedef struct tw_gradient {
    const tw_builder *builder;
    const tw_attrs *attrs;
    int32_t n_in, n_out;
    const tw_tensor *in, *out; /* the forward operation's; absent ones are TW_NONE */
    const tw_tensor *dy;       /* one for each output; TW_NONE: nothing flows from there */
    const bool *want;          /* one for each input */
    tw_tensor *dx;             /* TW_NONE on entry; leaving it so means a gradient of zero */
    int32_t op;                /* the forward operation, for add_output */
    /* Makes the forward operation produce an optional output that nobody asked for (indices of max
     * pooling, a mask, a log-sum-exp), with this element type. attrs, if not NULL, replace its
     * own. */
    tw_status (*add_output)(const struct tw_gradient *gradient, int32_t output, tw_dtype dtype,
                            const tw_attrs *attrs, tw_tensor *tensor);
} tw_gradient;

/* What a correct result may differ by (CONTRACT 2.3); how `verify` and the tests compute bounds. */
typedef enum tw_bound {
    TW_BOUND_EXACT, /* data movement, integers, indices: equal, or equal after one rounding */
    TW_BOUND_SUM,   /* a (bi)linear sum of K terms: the bound comes from running on |inputs| */
    TW_BOUND_SMOOTH /* a smooth function: `ulps` of the result plus K as for sums of its terms */
} tw_bound;

struct tw_op_info {
    tw_op_kind kind;
    const char *name;              /* as in ops.def */
    int32_t min_in, max_in, n_out; /* max_in -1: any number; trailing outputs may be optional */
    int32_t required_out;
    uint32_t optional_in; /* bit i: input i may be absent though it stands before min_in */
    const char *in_names[8], *out_names[4];
    const tw_field *fields; /* ends with a NULL name */
    tw_status (*infer)(tw_infer *infer);
    tw_status (*gradient)(const tw_gradient *gradient); /* NULL: not differentiable */
    tw_bound bound;
    double ulps;
    /* Terms summed into one output element, for the bound and for flop counts. NULL: 1. */
    int64_t (*terms)(const tw_attrs *attrs, const tw_tensor_desc *const *in,
                     const tw_tensor_desc *out);
    bool view;         /* reshape, transpose, expand, slice: free when strides can express it */
    bool elementwise;  /* output element i depends on input elements i (broadcast) alone */
    uint32_t in_place; /* bit i: output 0 may share input i's memory, element for element */
};

/* The record of a kind; NULL for a number that is none. */
const tw_op_info *tw_op_info_of(tw_op_kind kind);

#endif
