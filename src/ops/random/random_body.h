/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random over f32, any strides, threaded. Chunks of TW_RANDOM_CHUNK elements; inside, blocks of
 * words from the vector Philox. The arithmetic is the reference's, operation by operation, so the
 * bits are the same. Normals come from the C library's functions, one pair at a time.
 */
#include <string.h>

#include "ops/random/random.h"
#include "ops/random/walk.h"
#include "runtime/cpu/parallel.h"
#include "tile/cpu/philox_vec.h"

_Static_assert(TW_RANDOM_CHUNK % TW_PHILOX_BLOCK == 0, "chunks begin with a block");

typedef struct random_job {
    tw_draw draw;
    const tw_view *view;
    float *y;
    int64_t n;
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

static void random_chunk(void *arg, int32_t slot, int64_t item)
{
    (void)slot;
    const random_job *job = arg;
    const int64_t begin = item * TW_RANDOM_CHUNK;
    const int64_t end = job->n - begin < TW_RANDOM_CHUNK ? job->n : begin + TW_RANDOM_CHUNK;
    tw_walk walk = tw_walk_from(job->view, begin);
    for (int64_t first = begin; first < end; first += TW_PHILOX_BLOCK) {
        const int64_t left = end - first;
        const int64_t n = left < TW_PHILOX_BLOCK ? left : TW_PHILOX_BLOCK;
        if (job->dense && n == TW_PHILOX_BLOCK) {
            draw_block(&job->draw, first, job->y + first);
            continue;
        }
        float values[TW_PHILOX_BLOCK];
        draw_block(&job->draw, first, values);
        if (job->dense) {
            memcpy(job->y + first, values, (size_t)n * sizeof values[0]);
            continue;
        }
        for (int64_t i = 0; i < n; i++, tw_walk_next(&walk)) job->y[walk.offset] = values[i];
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
    random_job job = {
        .view = y, .y = launch->out[0], .n = tw_view_elements(y), .dense = tw_view_is_dense(y)};
    if (job.n == 0) return TW_OK;
    tw_draw_setup(launch, &job.draw);
    const int64_t chunks = (job.n - 1) / TW_RANDOM_CHUNK + 1;
    tw_parallel(launch->context, launch->problem->max_threads, chunks, random_chunk, &job);
    return TW_OK;
}

extern const tw_kernel_impl TW_SYMBOL(tw_random_threaded_f32);
const tw_kernel_impl TW_SYMBOL(tw_random_threaded_f32) = {.supports = supports, .run = run};
