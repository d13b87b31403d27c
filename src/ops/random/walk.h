/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor's elements in row-major order of its dims, whatever its strides. */
#ifndef TW_OPS_RANDOM_WALK_H
#define TW_OPS_RANDOM_WALK_H

#include "ops/kernel.h"

typedef struct tw_walk {
    const tw_view *view;
    int64_t index[TW_MAX_RANK];
    int64_t offset; /* of the element, in elements */
} tw_walk;

/* Starts at element `linear` of a view that is not empty. */
static inline tw_walk tw_walk_from(const tw_view *view, int64_t linear)
{
    tw_walk walk = {.view = view};
    for (int32_t d = view->rank - 1; d >= 0; d--) {
        walk.index[d] = linear % view->dims[d];
        walk.offset += walk.index[d] * view->strides[d];
        linear /= view->dims[d];
    }
    return walk;
}

static inline void tw_walk_next(tw_walk *walk)
{
    const tw_view *view = walk->view;
    for (int32_t d = view->rank - 1; d >= 0; d--) {
        walk->offset += view->strides[d];
        if (++walk->index[d] < view->dims[d]) return;
        walk->offset -= view->dims[d] * view->strides[d];
        walk->index[d] = 0;
    }
}

/* Elements from here to the end of the last dim: they are equally spaced. */
static inline int64_t tw_walk_run(const tw_walk *walk)
{
    const int32_t last = walk->view->rank - 1;
    return last < 0 ? 1 : walk->view->dims[last] - walk->index[last];
}

static inline int64_t tw_walk_step(const tw_walk *walk)
{
    const int32_t last = walk->view->rank - 1;
    return last < 0 ? 0 : walk->view->strides[last];
}

/* n elements on, 1 <= n <= tw_walk_run. */
static inline void tw_walk_advance(tw_walk *walk, int64_t n)
{
    const int32_t last = walk->view->rank - 1;
    if (last < 0) return;
    walk->index[last] += n - 1;
    walk->offset += (n - 1) * walk->view->strides[last];
    tw_walk_next(walk);
}

static inline int64_t tw_view_elements(const tw_view *view)
{
    int64_t n = 1;
    for (int32_t d = 0; d < view->rank; d++) n *= view->dims[d];
    return n;
}

/* Whether element i, row-major, has offset i. */
static inline bool tw_view_is_dense(const tw_view *view)
{
    int64_t stride = 1;
    for (int32_t d = view->rank - 1; d >= 0; d--) {
        if (view->dims[d] != 1 && view->strides[d] != stride) return false;
        stride *= view->dims[d];
    }
    return true;
}

#endif
