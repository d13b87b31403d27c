/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random over f32, any strides, threaded: blocks of words from the vector Philox. The arithmetic is
 * the reference's, operation by operation, so the bits are the same. Normals come from the C
 * library's functions, one pair at a time.
 */
#include <string.h>

#include "ops/random/pieces.h"
#include "ops/random/random.h"
#include "runtime/cpu/parallel.h"
#include "tile/cpu/philox_vec.h"

typedef struct random_job {
    tw_draw draw;
    const tw_view *view;
    float *y;
    tw_pieces pieces;
    bool dense;
} random_job;

TW_INLINE void uniform_block(const tw_draw *draw, const uint32_t *words, float *y)
{
    const vf start = vf_set((float)draw->start), width = vf_set((float)draw->width);
    const vf unscale = vf_set((float)draw->unscale), last = vf_set((float)draw->last);
    for (int i = 0; i < TW_PHILOX_BLOCK; i += VLANES) {
        const vi word = vi_load((const int32_t *)words + i);
        const vf u = vf_mul(vf_from_vi(vi_shr(word, 8)), vf_set(0x1p-24f));
        const vf value = vf_mul(unscale, vf_add(start, vf_mul(width, u)));
        vf_store(y + i, vf_select(vf_lt(value, last), value, last));
    }
}

TW_INLINE void bernoulli_block(const tw_draw *draw, const uint32_t *words, float *y)
{
    const bool always = draw->threshold > UINT32_MAX;
    for (int i = 0; i < TW_PHILOX_BLOCK; i += VLANES) {
        const vi word = vi_load((const int32_t *)words + i);
        const vm one = tw_philox_below(word, (uint32_t)draw->threshold);
        vf_store(y + i, always ? vf_set(1) : vf_select(one, vf_set(1), vf_zero()));
    }
}

TW_INLINE void normal_block(const tw_draw *draw, const uint32_t *words, float *y)
{
    for (int i = 0; i < TW_PHILOX_BLOCK; i += 2) {
        double pair[2];
        tw_philox_normal_pair(words[i], words[i + 1], pair);
        y[i] = (float)(draw->a + draw->b * pair[0]);
        y[i + 1] = (float)(draw->a + draw->b * pair[1]);
    }
}

static void draw_block(const tw_draw *draw, int64_t first, float *y)
{
    uint32_t words[TW_PHILOX_BLOCK];
    tw_philox_block(draw->stream, first, words);
    if (draw->distribution == TW_RANDOM_UNIFORM) {
        uniform_block(draw, words, y);
    } else if (draw->distribution == TW_RANDOM_BERNOULLI) {
        bernoulli_block(draw, words, y);
    } else {
        normal_block(draw, words, y);
    }
}

/* Elements first to first + n - 1, from values. */
static void scatter(const random_job *job, int64_t first, int64_t n, const float *values)
{
    if (job->dense) {
        memcpy(job->y + first, values, (size_t)n * sizeof values[0]);
        return;
    }
    tw_walk walk = tw_walk_from(job->view, first);
    while (n > 0) {
        const int64_t row = tw_walk_run(&walk), step = tw_walk_step(&walk);
        const int64_t count = row < n ? row : n;
        for (int64_t i = 0; i < count; i++) job->y[walk.offset + i * step] = values[i];
        tw_walk_advance(&walk, count);
        values += count;
        n -= count;
    }
}

/* A run need not begin or end with a block. */
static void draw_run(const random_job *job, int64_t first, int64_t n)
{
    while (n > 0) {
        const int64_t skip = first % TW_PHILOX_BLOCK, left = TW_PHILOX_BLOCK - skip;
        const int64_t count = left < n ? left : n;
        if (job->dense && count == TW_PHILOX_BLOCK) {
            draw_block(&job->draw, first, job->y + first);
        } else {
            float values[TW_PHILOX_BLOCK];
            draw_block(&job->draw, first - skip, values);
            scatter(job, first, count, values + skip);
        }
        first += count;
        n -= count;
    }
}

static void draw_item(void *arg, int32_t slot, int64_t item)
{
    (void)slot;
    const random_job *job = arg;
    for (int64_t lane = 0; lane < job->pieces.lanes; lane++) {
        int64_t n;
        const int64_t first = tw_piece_run(&job->pieces, item, lane, &n);
        draw_run(job, first, n);
    }
}

static const char *supports(const tw_problem *problem)
{
    if (problem->epilogue != NULL || problem->prologue[0] != NULL) return "fused steps";
    return problem->out[0].dtype == TW_F32 ? NULL : "y is not f32";
}

static tw_status run(const tw_launch *launch)
{
    const tw_view *y = &launch->problem->out[0];
    if (tw_view_elements(y) == 0) return TW_OK;
    random_job job = {
        .view = y, .y = launch->out[0], .pieces = tw_pieces_of(y), .dense = tw_view_is_dense(y)};
    tw_draw_setup(launch, &job.draw);
    tw_parallel(launch->context, launch->problem->max_threads, job.pieces.items, draw_item, &job);
    return TW_OK;
}

extern const tw_kernel_impl TW_SYMBOL(tw_random_threaded_f32);
const tw_kernel_impl TW_SYMBOL(tw_random_threaded_f32) = {.supports = supports, .run = run};
