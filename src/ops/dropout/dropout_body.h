/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dropout and its gradient over f32 with a bool mask, any strides, threaded, in blocks of
 * TW_PHILOX_BLOCK elements. A block of a tensor that is not dense, or a part of one, is gathered to
 * or scattered from a buffer on the stack; the arithmetic is the same, so the bits are the
 * reference's. A block is read in full before it is written: in place works.
 */
#include <string.h>

#include "ops/dropout/dropout.h"
#include "ops/random/pieces.h"
#include "ops/random/random.h"
#include "runtime/cpu/parallel.h"
#include "tile/cpu/philox_vec.h"

typedef struct operand {
    const tw_view *view; /* NULL: absent */
    void *data;
    size_t bytes; /* of an element: 4 or 1 */
    bool dense;
} operand;

typedef struct dropout_job {
    operand x, y, mask;
    bool backward; /* the mask is read, not drawn */
    bool none;     /* nothing is kept */
    tw_philox stream;
    uint32_t threshold;
    float scale;
    tw_pieces pieces;
} dropout_job;

/* One block of everything. */
typedef struct dropout_block {
    float x[TW_PHILOX_BLOCK], y[TW_PHILOX_BLOCK];
    uint8_t mask[TW_PHILOX_BLOCK];
} dropout_block;

static operand operand_of(const tw_view *view, void *data)
{
    if (view->dtype == TW_AUTO) return (operand){.view = NULL};
    return (operand){view, data, view->dtype == TW_F32 ? 4 : 1, tw_view_is_dense(view)};
}

/* Elements first to first + n - 1 of an operand, to or from a buffer. */
static void gather(const operand *from, int64_t first, int64_t n, void *to)
{
    if (from->dense) {
        const char *data = from->data;
        memcpy(to, data + first * (int64_t)from->bytes, (size_t)n * from->bytes);
        return;
    }
    tw_walk walk = tw_walk_from(from->view, first);
    for (int64_t done = 0; done < n;) {
        const int64_t row = tw_walk_run(&walk), step = tw_walk_step(&walk);
        const int64_t count = row < n - done ? row : n - done;
        if (from->bytes == 4) {
            const float *data = (const float *)from->data + walk.offset;
            for (int64_t i = 0; i < count; i++) ((float *)to)[done + i] = data[i * step];
        } else {
            const uint8_t *data = (const uint8_t *)from->data + walk.offset;
            for (int64_t i = 0; i < count; i++) ((uint8_t *)to)[done + i] = data[i * step];
        }
        tw_walk_advance(&walk, count);
        done += count;
    }
}

static void scatter(const operand *to, int64_t first, int64_t n, const void *from)
{
    if (to->dense) {
        char *data = to->data;
        memcpy(data + first * (int64_t)to->bytes, from, (size_t)n * to->bytes);
        return;
    }
    tw_walk walk = tw_walk_from(to->view, first);
    for (int64_t done = 0; done < n;) {
        const int64_t row = tw_walk_run(&walk), step = tw_walk_step(&walk);
        const int64_t count = row < n - done ? row : n - done;
        if (to->bytes == 4) {
            float *data = (float *)to->data + walk.offset;
            for (int64_t i = 0; i < count; i++) data[i * step] = ((const float *)from)[done + i];
        } else {
            uint8_t *data = (uint8_t *)to->data + walk.offset;
            for (int64_t i = 0; i < count; i++) data[i * step] = ((const uint8_t *)from)[done + i];
        }
        tw_walk_advance(&walk, count);
        done += count;
    }
}

/* Lane i of the mask becomes byte i, 0 or 1. Eight lanes at a time: each byte of the spread bits
 * keeps its own bit, and adding 0x7f carries any bit into the top one. */
TW_INLINE void store_mask(uint8_t *bytes, vm mask)
{
    const uint32_t bits = vm_bits(mask);
    const uint64_t each = UINT64_C(0x0101010101010101);
    for (int i = 0; i < VLANES; i += 8) {
        const uint64_t own = (bits >> i & 0xff) * each & UINT64_C(0x8040201008040201);
        const uint64_t ones = (own + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & each;
        memcpy(bytes + i, &ones, VLANES < 8 ? VLANES : 8);
    }
}

TW_INLINE vm draw_mask(const dropout_job *job, const uint32_t *words)
{
    return vm_not(tw_philox_below(vi_load((const int32_t *)words), job->threshold));
}

TW_INLINE void forward_block(const dropout_job *job, int64_t first, const float *x,
                             dropout_block *block)
{
    uint32_t words[TW_PHILOX_BLOCK];
    const vf scale = vf_set(job->scale);
    tw_philox_block(job->stream, first, words);
    for (int i = 0; i < TW_PHILOX_BLOCK; i += VLANES) {
        const vm keep = job->none ? vm_first(0) : draw_mask(job, words + i);
        const vf value = vf_mul(vf_load(x + i), scale);
        vf_store(block->y + i, vf_select(keep, value, vf_zero()));
        store_mask(block->mask + i, keep);
    }
}

TW_INLINE void backward_block(const dropout_job *job, const float *dy, const uint8_t *mask,
                              float *dx)
{
    const vf scale = vf_set(job->scale);
    for (int i = 0; i < TW_PHILOX_BLOCK; i += VLANES) {
        const vm set = vf_ne(vf_load_u8(mask + i), vf_zero());
        const vm keep = job->none ? vm_first(0) : set;
        vf_store(dx + i, vf_select(keep, vf_mul(vf_load(dy + i), scale), vf_zero()));
    }
}

/* Elements skip to skip + n - 1 of the block that begins with element `start`. */
static void run_block(const dropout_job *job, int64_t start, int64_t skip, int64_t n)
{
    dropout_block block;
    const float *x = (const float *)job->x.data + start;
    const int64_t first = start + skip;
    const bool whole = n == TW_PHILOX_BLOCK;
    if (!whole) memset(&block, 0, sizeof block);
    if (!whole || !job->x.dense) {
        gather(&job->x, first, n, block.x + skip);
        x = block.x;
    }
    if (job->backward) {
        gather(&job->mask, first, n, block.mask + skip);
        backward_block(job, x, block.mask, block.y);
    } else {
        forward_block(job, start, x, &block);
        if (job->mask.view != NULL) scatter(&job->mask, first, n, block.mask + skip);
    }
    scatter(&job->y, first, n, block.y + skip);
}

/* A run need not begin or end with a block. */
static void dropout_run(const dropout_job *job, int64_t first, int64_t n)
{
    while (n > 0) {
        const int64_t skip = first % TW_PHILOX_BLOCK, left = TW_PHILOX_BLOCK - skip;
        const int64_t count = left < n ? left : n;
        run_block(job, first - skip, skip, count);
        first += count;
        n -= count;
    }
}

static void dropout_item(void *arg, int32_t slot, int64_t item)
{
    (void)slot;
    const dropout_job *job = arg;
    for (int64_t lane = 0; lane < job->pieces.lanes; lane++) {
        int64_t n;
        const int64_t first = tw_piece_run(&job->pieces, item, lane, &n);
        dropout_run(job, first, n);
    }
}

static tw_status run_job(const tw_launch *launch, dropout_job *job)
{
    const tw_problem *problem = launch->problem;
    const double rate = problem->attrs->dropout.rate;
    job->x = operand_of(&problem->in[0], launch->in[0]);
    job->y = operand_of(&problem->out[0], launch->out[0]);
    job->scale = (float)tw_dropout_scale(rate);
    if (tw_view_elements(&problem->out[0]) == 0) return TW_OK;
    job->pieces = tw_pieces_of(&problem->out[0]);
    tw_parallel(launch->context, problem->max_threads, job->pieces.items, dropout_item, job);
    return TW_OK;
}

static tw_status run_forward(const tw_launch *launch)
{
    const tw_problem *problem = launch->problem;
    const tw_dropout_attrs *attrs = &problem->attrs->dropout;
    const uint64_t threshold = tw_philox_threshold(attrs->rate);
    dropout_job job = {
        .none = threshold > UINT32_MAX,
        .threshold = (uint32_t)threshold,
        .stream = tw_random_stream(launch, 1, attrs->seed, attrs->offset),
    };
    if (problem->n_out > 1) job.mask = operand_of(&problem->out[1], launch->out[1]);
    return run_job(launch, &job);
}

static tw_status run_backward(const tw_launch *launch)
{
    dropout_job job = {
        .backward = true,
        .none = launch->problem->attrs->dropout.rate == 1,
        .mask = operand_of(&launch->problem->in[1], launch->in[1]),
    };
    return run_job(launch, &job);
}

static const char *supports_types(const tw_problem *problem, tw_dtype mask)
{
    if (problem->epilogue != NULL || problem->prologue[0] != NULL) return "fused steps";
    if (problem->in[0].dtype != TW_F32) return "the input is not f32";
    if (problem->out[0].dtype != TW_F32) return "the output is not f32";
    return mask == TW_BOOL || mask == TW_AUTO ? NULL : "the mask is not bool";
}

static const char *supports_forward(const tw_problem *problem)
{
    return supports_types(problem, problem->n_out > 1 ? problem->out[1].dtype : TW_AUTO);
}

static const char *supports_backward(const tw_problem *problem)
{
    return supports_types(problem, problem->in[1].dtype);
}

extern const tw_kernel_impl TW_SYMBOL(tw_dropout_threaded_f32);
const tw_kernel_impl TW_SYMBOL(tw_dropout_threaded_f32) = {
    .supports = supports_forward, .run = run_forward, .in_place = 1};

extern const tw_kernel_impl TW_SYMBOL(tw_dropout_threaded_backward_f32);
const tw_kernel_impl TW_SYMBOL(tw_dropout_threaded_backward_f32) = {
    .supports = supports_backward, .run = run_backward, .in_place = 1};
