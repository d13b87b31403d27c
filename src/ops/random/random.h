/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the random family share, some of it with dropout. */
#ifndef TW_OPS_RANDOM_H
#define TW_OPS_RANDOM_H

#include "ops/kernel.h"
#include "tile/cpu/philox.h"

extern const tw_op_info tw_random_ops[1];

/* Checks input i, a seed or an offset: absent, or one i64. */
tw_status tw_random_check_scalar(const tw_infer *infer, int32_t i);

/* The stream of a launch: seed and offset are inputs `first` and first + 1, or the attributes. */
tw_philox tw_random_stream(const tw_launch *launch, int32_t first, int64_t seed, int64_t offset);

/* A distribution over one element type, ready to draw from. */
typedef struct tw_draw {
    tw_distribution distribution;
    tw_dtype dtype;
    tw_philox stream;
    uint64_t threshold; /* bernoulli */
    double a, b;        /* as in the attributes; uniform over integers: the first integer, and how
                           many there are */
    /* Uniform over floats: the lesser of `last` and unscale·(start + width·u). unscale is 2, and
     * the others are halves, where b - a alone would overflow. */
    double start, width, unscale;
    double last; /* the largest value below b */
} tw_draw;

void tw_draw_setup(const tw_launch *launch, tw_draw *draw);

/* Stores element `index` of the stream at base[offset]. */
void tw_draw_store(const tw_draw *draw, int64_t index, void *base, int64_t offset);

#endif
