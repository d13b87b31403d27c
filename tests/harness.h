/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the families' tests share: guarded tensors, fills, and a way to run one kernel on them
 * without a graph or a plan.
 */
#ifndef TW_TESTS_HARNESS_H
#define TW_TESTS_HARNESS_H

#include "ops/kernel.h"

/* A tensor in memory of its own: guard pages at both ends (the last element ends at the page), and
 * a pattern in every byte that no element uses. */
typedef struct th_tensor {
    tw_tensor_desc desc;
    void *data; /* element (0, 0, …) */
    void *map;
    size_t map_bytes;
    unsigned char *used; /* one flag for each byte of [data, data + span) */
    int64_t span;
} th_tensor;

/* Row-major, or with strides in elements. Aborts when memory is short. */
th_tensor th_make(tw_dtype dtype, int32_t rank, const int64_t *dims);
th_tensor th_make_strided(tw_dtype dtype, int32_t rank, const int64_t *dims,
                          const int64_t *strides);
th_tensor th_make_like(const tw_tensor_desc *desc);
void th_free(th_tensor *tensor);

int64_t th_elements(const th_tensor *tensor);
/* Element `linear`, counted in row-major order of the dims whatever the strides. */
int64_t th_offset(const th_tensor *tensor, int64_t linear);
double th_get(const th_tensor *tensor, int64_t linear);
void th_set(th_tensor *tensor, int64_t linear, double value);
bool th_guards_intact(const th_tensor *tensor); /* the pattern between elements is untouched */

/* splitmix64, the generator of all test data: reproducible everywhere. */
uint64_t th_random(uint64_t *state);
double th_uniform(uint64_t *state);                                      /* [0, 1) */
void th_fill_integers(th_tensor *tensor, uint64_t seed, int lo, int hi); /* both included */
void th_fill_uniform(th_tensor *tensor, uint64_t seed, double lo, double hi);
void th_fill_value(th_tensor *tensor, double value);

/* One kernel, or the search for one. */
const tw_kernel *th_kernel(const char *name); /* NULL if there is none by this name */
int th_kernels(tw_op_kind kind, const tw_kernel **kernels, int max); /* those this CPU can run */
const tw_kernel *th_reference(tw_op_kind kind);

typedef struct th_call {
    tw_op_kind kind;
    tw_attrs attrs; /* as a user writes them; inference normalises */
    int32_t n_in, n_out;
    th_tensor *in[8], *out[4]; /* NULL: absent */
    const tw_chain *epilogue;
    void *loads[16], *stores[8];
    int32_t threads; /* 0 or 1: the calling thread alone */
    uint32_t flags;
    bool has_limit;
    int64_t workspace_limit;
} th_call;

/* Shape inference alone: status, normalised attrs, and output descriptions in desc (n_out). */
tw_status th_infer(const th_call *call, tw_attrs *attrs, tw_tensor_desc *desc);
/* The kernel's reason for refusing, or NULL. Inference must succeed. */
const char *th_refuses(const tw_kernel *kernel, const th_call *call);
/* Inference, prepare and run, in a guarded workspace. */
tw_status th_run(const tw_kernel *kernel, const th_call *call);

/* Bit-equal content (any NaN equals any NaN). On a difference prints where, and returns false. */
bool th_equal(const th_tensor *got, const th_tensor *want, const char *what);
/* |got - want| <= c·u_out·|want| + c·sqrt(terms)·u_acc·magnitude, element by element, c = 4, where
 * magnitude is the same operation on |inputs|; NaN matches NaN, infinities themselves. */
bool th_close(const th_tensor *got, const th_tensor *want, const th_tensor *magnitude,
              int64_t terms, const char *what);
/* |got - want| <= ulps units in the last place of got's type at |want| (at least f32's least
 * normal). */
bool th_within_ulps(const th_tensor *got, const th_tensor *want, double ulps, const char *what);

#endif
