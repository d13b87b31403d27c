/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions of the packed GEMM: what it takes, and how it cuts a problem. They depend on the
 * problem and the machine's caches, never on the number of threads. */
#include "ops/gemm/gemm_packed.h"

#include "core/error.h"
#include "core/os.h"

enum {
    BLOCK_TILES = 8,       /* rows of a block, in tiles */
    BLOCK_PANELS = 8,      /* columns of a block, in panels of B */
    MOST_K = 512,          /* more gains nothing */
    MOST_K_ON_STACK = 384, /* so that a panel of B and a block of C fit there */
    DIRECT_K = 96,         /* rows of B at a time when it streams by unpacked: pages for the TLB */
    MAX_SLAB = 32 << 20,   /* bytes of B packed at a time */
    CONFLICT_BYTES = 2048  /* rows of A at multiples of this fall into the same few cache sets */
};

const char *tw_gemm_packed_supports(const tw_problem *problem)
{
    if (problem->prologue[0] || problem->prologue[1]) return "it takes no prologue";
    if (problem->in[0].dtype != TW_F32) return "a is not f32";
    if (problem->in[1].dtype != TW_F32) return "b is not f32";
    if (problem->attrs->matmul.compute != TW_F32) return "it accumulates in f32 only";
    if (!problem->epilogue) return problem->out[0].dtype == TW_F32 ? NULL : "the result is not f32";
    if (problem->out[0].rank == 0) return "it takes no epilogue on a scalar";
    return tw_chain_refuses(problem->epilogue);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The height of equal parts, none above `most`; at least 1. */
static int64_t even_part(int64_t total, int64_t most)
{
    return total > most ? ceil_div(total, ceil_div(total, most)) : total > 0 ? total : 1;
}

/* Columns should be contiguous in C, and many: else the transposed product is computed. The dim
 * that columns run along goes to *col_dim. */
static bool prefers_swap(const tw_problem *problem, const tw_gemm_shape *s, int32_t *col_dim)
{
    const bool b_vector = problem->in[1].rank == 1, a_vector = problem->in[0].rank == 1;
    const int32_t rank = problem->out[0].rank;
    bool swap = s->n == 1 && s->m > 1;
    if (!problem->epilogue && s->c.col != 1 && s->c.row == 1 && s->m > 1) swap = true;
    if (b_vector) swap = true;
    if (a_vector) swap = false;
    *col_dim = swap && !b_vector ? rank - 2 : rank - 1;
    return swap;
}

/* Strides of dims of one element are free: the most useful value. */
static void tidy_strides(tw_gemm_shape *s)
{
    if (s->k == 1) {
        s->a.col = 1;
        s->b.row = s->n;
    }
    if (s->n == 1) s->b.col = s->c.col = 1;
    if (s->m == 1) s->a.row = s->k;
}

static void choose_blocks(tw_gemm_packed *p, bool memory)
{
    const tw_gemm_shape *s = &p->shape;
    const tw_gemm_target *t = p->target;
    int64_t cache = tw_os_cache_bytes(1);
    if (cache <= 0) cache = 32 << 10;
    /* Of two panels that meet, A's stays in the first cache, while B's may pass by. */
    const int64_t fit = 2 * cache / (int64_t)sizeof(float) / (t->tile_rows + t->tile_cols);
    const int64_t most_k = least(fit, memory ? MOST_K : MOST_K_ON_STACK);
    p->block_k = even_part(s->k, p->b_way == TW_GEMM_DIRECT ? DIRECT_K : most_k);
    const int64_t tiles = p->b_way == TW_GEMM_LOCAL ? 2 * BLOCK_TILES : BLOCK_TILES;
    p->block_rows = even_part(s->m, tiles * t->tile_rows);
    p->block_cols = least(BLOCK_PANELS, ceil_div(s->n, t->tile_cols)) * t->tile_cols;
}

static bool conflicts(int64_t stride)
{
    return stride * (int64_t)sizeof(float) % CONFLICT_BYTES == 0;
}

static int64_t aligned(int64_t floats) { return ceil_div(floats, 16) * 16; }

static void choose_scratch(tw_gemm_packed *p)
{
    const int64_t width = p->target->tile_cols;
    const int64_t stage_cols = p->block_k >= p->shape.k ? width : p->block_cols;
    p->a_floats = p->a_way == TW_GEMM_LOCAL ? aligned(p->block_rows * p->block_k) : 0;
    p->b_floats = p->b_way == TW_GEMM_LOCAL ? aligned(p->block_k * width) : 0;
    p->c_floats = p->stage ? aligned(p->block_rows * stage_cols) : 0;
}

int64_t tw_gemm_packed_slot_floats(const tw_gemm_packed *p)
{
    const int64_t floats = p->a_floats + p->b_floats + p->c_floats;
    return floats > TW_GEMM_STACK_FLOATS ? floats : 0;
}

static tw_gemm_way way_of_b(const tw_gemm_packed *p, bool constant)
{
    const tw_gemm_shape *s = &p->shape;
    const tw_gemm_target *t = p->target;
    bool single = true;
    for (int32_t d = 0; d < s->batch_rank; d++) single = single && s->b.batch[d] == 0;
    const int64_t least_slab = s->k * BLOCK_PANELS * t->tile_cols * (int64_t)sizeof(float);
    if (s->b.col == 1 && s->m <= t->tile_rows) return TW_GEMM_DIRECT;
    if (constant && single) return TW_GEMM_CONSTANT;
    if (s->m > 2 * BLOCK_TILES * t->tile_rows && least_slab <= MAX_SLAB) return TW_GEMM_SLAB;
    return TW_GEMM_LOCAL;
}

/* A is read by broadcasts, so that packing pays only where its rows get in each other's way. */
static tw_gemm_way way_of_a(const tw_gemm_packed *p)
{
    const tw_gemm_shape *s = &p->shape;
    if (s->n <= 2 * p->target->tile_cols || s->m == 1) return TW_GEMM_DIRECT;
    if (s->a.col == 1 && !conflicts(s->a.row)) return TW_GEMM_DIRECT;
    const bool fits = s->m * s->k <= MAX_SLAB / (int64_t)sizeof(float);
    return p->b_way == TW_GEMM_SLAB && fits ? TW_GEMM_SLAB : TW_GEMM_LOCAL;
}

/* The fastest way, given memory. */
static void choose(tw_gemm_packed *p, bool constant)
{
    const tw_gemm_shape *s = &p->shape;
    p->b_way = way_of_b(p, constant);
    p->a_way = way_of_a(p);
    choose_blocks(p, true);
    choose_scratch(p);
    if (p->b_way != TW_GEMM_SLAB) return;
    const int64_t blocks = ceil_div(s->n, p->block_cols);
    const int64_t fit = MAX_SLAB / (int64_t)sizeof(float) / (p->block_cols * (s->k > 0 ? s->k : 1));
    p->slab_cols = least(blocks, fit) * p->block_cols;
    p->b_slab_floats = aligned(p->slab_cols * s->k);
    p->a_slab_floats = p->a_way == TW_GEMM_SLAB ? aligned(s->m * s->k) : 0;
}

/* A way that finds room on the stack. */
static void choose_without_memory(tw_gemm_packed *p)
{
    if (p->b_way != TW_GEMM_DIRECT) p->b_way = TW_GEMM_LOCAL;
    p->a_way = TW_GEMM_DIRECT;
    choose_blocks(p, false);
    p->block_rows = even_part(p->shape.m, BLOCK_TILES * p->target->tile_rows);
    p->block_cols = p->target->tile_cols;
    p->slab_cols = p->a_slab_floats = p->b_slab_floats = 0;
    choose_scratch(p);
}

static int64_t workspace(const tw_gemm_packed *p, int32_t slots)
{
    const int64_t slabs = p->a_slab_floats + p->b_slab_floats;
    return (slabs + tw_gemm_packed_slot_floats(p) * slots) * (int64_t)sizeof(float);
}

static tw_status pack_constant(tw_gemm_packed *p, const float *b, tw_arena *arena)
{
    const tw_gemm_shape *s = &p->shape;
    const int64_t width = p->target->tile_cols, panels = ceil_div(s->n, width);
    void *memory;
    TW_TRY(tw_arena_alloc(arena, panels * width * s->k, sizeof(float), &memory));
    p->constant = memory;
    for (int64_t j = 0; j < panels; j++) {
        const tw_gemm_piece piece = {.from = b + j * width * s->b.col,
                                     .count = least(width, s->n - j * width),
                                     .step = s->b.col,
                                     .k = s->k,
                                     .along = s->b.row,
                                     .width = width,
                                     .to = (float *)memory + j * width * s->k};
        p->target->pack(&piece);
    }
    return TW_OK;
}

tw_status tw_gemm_packed_prepare(const tw_problem *problem, tw_prepare *prepare,
                                 const tw_gemm_target *target)
{
    void *memory;
    int32_t col_dim;
    TW_TRY(tw_arena_alloc(prepare->arena, 1, sizeof(tw_gemm_packed), &memory));
    tw_gemm_packed *p = memory;
    p->target = target;
    p->shape = tw_gemm_shape_of(problem);
    p->swapped = prefers_swap(problem, &p->shape, &col_dim);
    if (p->swapped) tw_gemm_swap(&p->shape);
    tw_gemm_merge_batch(&p->shape, problem->epilogue == NULL);
    tidy_strides(&p->shape);
    p->stage = problem->epilogue != NULL || p->shape.c.col != 1;
    const float *constant = problem->in[p->swapped ? 0 : 1].data;
    choose(p, constant != NULL);
    if (workspace(p, problem->max_threads) > problem->workspace_limit) choose_without_memory(p);
    prepare->workspace = workspace(p, problem->max_threads);
    prepare->state = p;
    if (p->b_way == TW_GEMM_CONSTANT) TW_TRY(pack_constant(p, constant, prepare->arena));
    if (problem->epilogue)
        TW_TRY(tw_chain_compile(problem->epilogue, col_dim, prepare->arena, &p->epilogue));
    return TW_OK;
}
