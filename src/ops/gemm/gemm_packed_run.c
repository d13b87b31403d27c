/* SPDX-License-Identifier: Apache-2.0 */
/* The packed GEMM at run time: loops over slabs, blocks, k and panels. */
#include "ops/gemm/gemm_packed.h"
#include "runtime/cpu/parallel.h"

enum { SLAB_PANELS = 8, SLAB_K = 64 };

/* The blocks that one parallel loop computes: all of them, or those of one slab of B. */
typedef struct stretch {
    const tw_gemm_packed *plan;
    const tw_launch *launch;
    const float *a, *b;
    float *c, *a_slab, *b_slab, *scratch;
    int64_t batch;     /* of the first matrix; the slabs' own */
    int64_t col, cols; /* columns of C */
} stretch;

/* One block of C, and the scratch of whoever computes it. */
typedef struct block {
    const stretch *all;
    int64_t batch, row, rows, col, cols;
    const float *a, *b; /* of this matrix of the batch */
    float *c;           /* the block's first element, unless it is staged */
    float *a_panels, *b_panel, *stage;
    int64_t stage_row;
    int64_t height; /* of a panel of A */
} block;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Rows of A as panels of equal height, but for the last. */
static void pack_a(const block *t, int64_t k, int64_t depth, float *to)
{
    const tw_gemm_packed *p = t->all->plan;
    const tw_gemm_matrix *a = &p->shape.a;
    for (int64_t r = 0; r < t->rows; r += t->height) {
        const int64_t rows = least(t->height, t->rows - r);
        const tw_gemm_piece piece = {.from = t->a + (t->row + r) * a->row + k * a->col,
                                     .count = rows,
                                     .step = a->row,
                                     .k = depth,
                                     .along = a->col,
                                     .width = rows,
                                     .to = to + r * depth};
        p->target->pack(&piece);
    }
}

/* The slab of A: [block of rows][block of k][panel][k][height]. */
static float *a_in_slab(const block *t, int64_t k)
{
    return t->all->a_slab + t->row * t->all->plan->shape.k + t->rows * k;
}

/* Where the panel of B at column `col` begins, for k from `k` on. */
static const float *panel_of_b(const block *t, int64_t col, int64_t k, int64_t depth,
                               tw_brgemm *job)
{
    const tw_gemm_packed *p = t->all->plan;
    const tw_gemm_shape *s = &p->shape;
    const int64_t width = p->target->tile_cols;
    const float *from = t->b + col * s->b.col + k * s->b.row;
    job->b_row = width;
    job->b_padded = true;
    switch (p->b_way) {
    case TW_GEMM_SLAB: return t->all->b_slab + (col - t->all->col) * s->k + k * width;
    case TW_GEMM_CONSTANT: return p->constant + col * s->k + k * width;
    case TW_GEMM_LOCAL: {
        const tw_gemm_piece piece = {.from = from,
                                     .count = job->cols,
                                     .step = s->b.col,
                                     .k = depth,
                                     .along = s->b.row,
                                     .width = width,
                                     .to = t->b_panel};
        p->target->pack(&piece);
        return t->b_panel;
    }
    default: break;
    }
    job->b_row = s->b.row;
    job->b_padded = false;
    return from;
}

/* c(:, panel) (+)= a(:, k…)·b(k…, panel), for the block's rows. */
static void multiply(const block *t, int64_t col, float *c, int64_t k, int64_t depth)
{
    const tw_gemm_packed *p = t->all->plan;
    const tw_gemm_matrix *in_a = &p->shape.a;
    const float *a = t->a + t->row * in_a->row + k * in_a->col, *b;
    tw_brgemm job = {.rows = t->rows,
                     .cols = least(p->target->tile_cols, t->col + t->cols - col),
                     .k = depth,
                     .a_row = in_a->row,
                     .a_col = in_a->col,
                     .c_row = p->stage ? t->stage_row : p->shape.c.row,
                     .n_batch = 1,
                     .a = &a,
                     .b = &b,
                     .c = c,
                     .accumulate = k > 0};
    b = panel_of_b(t, col, k, depth, &job);
    if (p->a_way == TW_GEMM_DIRECT) {
        p->target->multiply(&job);
        return;
    }
    const float *panels = p->a_way == TW_GEMM_SLAB ? a_in_slab(t, k) : t->a_panels;
    job.a_row = 1;
    for (int64_t r = 0; r < t->rows; r += t->height) {
        job.rows = job.a_col = least(t->height, t->rows - r);
        a = panels + r * depth;
        p->target->multiply(&job);
        job.c += t->height * job.c_row;
    }
}

/* Hands a finished, staged panel to the epilogue, or stores it by C's strides. */
static void finish(const block *t, int64_t col, const float *c)
{
    const tw_gemm_packed *p = t->all->plan;
    const tw_gemm_shape *s = &p->shape;
    const int64_t cols = least(p->target->tile_cols, t->col + t->cols - col);
    if (p->epilogue) {
        const tw_chain_tile tile = {.program = p->epilogue,
                                    .loads = t->all->launch->loads,
                                    .stores = t->all->launch->stores,
                                    .anchor = c,
                                    .anchor_row = t->stage_row,
                                    .row = t->batch * s->m + t->row,
                                    .rows = t->rows,
                                    .col = col,
                                    .cols = cols};
        p->target->chain(&tile);
        return;
    }
    float *to = t->c + (col - t->col) * s->c.col;
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t j = 0; j < cols; j++)
            to[r * s->c.row + j * s->c.col] = c[r * t->stage_row + j];
}

static void compute(const block *t)
{
    const tw_gemm_packed *p = t->all->plan;
    const int64_t all_k = p->shape.k, width = p->target->tile_cols;
    int64_t k = 0;
    do { /* once even if k is 0: C becomes 0 */
        const int64_t depth = least(p->block_k, all_k - k);
        const bool last = k + depth >= all_k;
        if (p->a_way == TW_GEMM_LOCAL) pack_a(t, k, depth, t->a_panels);
        for (int64_t j = 0; j < t->cols; j += width) {
            float *c = p->stage ? t->stage + j % t->stage_row : t->c + j;
            multiply(t, t->col + j, c, k, depth);
            if (p->stage && last) finish(t, t->col + j, c);
        }
        k += depth;
    } while (k < all_k);
}

static block block_of(const stretch *all, int64_t item, float *scratch)
{
    const tw_gemm_packed *p = all->plan;
    const tw_gemm_shape *s = &p->shape;
    const int64_t row_blocks = ceil_div(s->m, p->block_rows);
    const int64_t col_blocks = ceil_div(all->cols, p->block_cols);
    block t = {.all = all};
    t.batch = all->batch + item / (row_blocks * col_blocks);
    t.row = item % row_blocks * p->block_rows;
    t.rows = least(p->block_rows, s->m - t.row);
    t.col = all->col + item / row_blocks % col_blocks * p->block_cols;
    t.cols = least(p->block_cols, all->col + all->cols - t.col);
    t.a = all->a + tw_gemm_batch_offset(s, &s->a, t.batch);
    t.b = all->b + tw_gemm_batch_offset(s, &s->b, t.batch);
    if (!p->stage)
        t.c = all->c + tw_gemm_batch_offset(s, &s->c, t.batch) + t.row * s->c.row + t.col;
    else if (!p->epilogue)
        t.c =
            all->c + tw_gemm_batch_offset(s, &s->c, t.batch) + t.row * s->c.row + t.col * s->c.col;
    t.a_panels = scratch;
    t.b_panel = t.a_panels + p->a_floats;
    t.stage = t.b_panel + p->b_floats;
    t.stage_row = p->block_k >= s->k ? p->target->tile_cols : p->block_cols;
    t.height = ceil_div(t.rows, ceil_div(t.rows, p->target->tile_rows));
    return t;
}

static void compute_in_workspace(void *arg, int32_t slot, int64_t item)
{
    const stretch *all = arg;
    const block t =
        block_of(all, item, all->scratch + slot * tw_gemm_packed_slot_floats(all->plan));
    compute(&t);
}

static void compute_on_stack(void *arg, int32_t slot, int64_t item)
{
    _Alignas(64) float scratch[TW_GEMM_STACK_FLOATS];
    (void)slot;
    const block t = block_of(arg, item, scratch);
    compute(&t);
}

/* One item: one block of rows by one of k. */
static void pack_a_slab(void *arg, int32_t slot, int64_t item)
{
    const stretch *all = arg;
    const tw_gemm_packed *p = all->plan;
    const int64_t row_blocks = ceil_div(p->shape.m, p->block_rows);
    const int64_t k = item / row_blocks * p->block_k;
    const block t = block_of(all, item % row_blocks, NULL);
    (void)slot;
    pack_a(&t, k, least(p->block_k, p->shape.k - k), a_in_slab(&t, k));
}

/* One item: SLAB_PANELS panels by SLAB_K rows of B. Each row is read along, each page once. */
static void pack_b_slab(void *arg, int32_t slot, int64_t item)
{
    const stretch *all = arg;
    const tw_gemm_packed *p = all->plan;
    const tw_gemm_matrix *b = &p->shape.b;
    const int64_t width = p->target->tile_cols, depth = p->shape.k;
    const int64_t k_parts = ceil_div(depth, SLAB_K);
    const int64_t first = item / k_parts * SLAB_PANELS * width, k = item % k_parts * SLAB_K;
    const int64_t end = least(first + SLAB_PANELS * width, all->cols);
    const float *from = all->b + tw_gemm_batch_offset(&p->shape, b, all->batch);
    (void)slot;
    for (int64_t col = first; col < end; col += width) {
        const tw_gemm_piece piece = {.from = from + (all->col + col) * b->col + k * b->row,
                                     .count = least(width, all->cols - col),
                                     .step = b->col,
                                     .k = least(SLAB_K, depth - k),
                                     .along = b->row,
                                     .width = width,
                                     .to = all->b_slab + col * depth + k * width};
        p->target->pack(&piece);
    }
}

static void in_parallel(stretch *all, int64_t items, tw_slot_task task)
{
    tw_parallel(all->launch->context, all->launch->problem->max_threads, items, task, all);
}

static void run_blocks(stretch *all, int64_t n_batch)
{
    const tw_gemm_packed *p = all->plan;
    const int64_t items =
        n_batch * ceil_div(p->shape.m, p->block_rows) * ceil_div(all->cols, p->block_cols);
    in_parallel(all, items,
                tw_gemm_packed_slot_floats(p) > 0 ? compute_in_workspace : compute_on_stack);
}

static void run_slabs(stretch *all)
{
    const tw_gemm_packed *p = all->plan;
    const tw_gemm_shape *s = &p->shape;
    const bool whole = p->slab_cols >= s->n;
    int64_t packed = -1; /* offset of the matrix that the slab of B holds */
    for (all->batch = 0; all->batch < s->n_batch; all->batch++) {
        if (p->a_way == TW_GEMM_SLAB)
            in_parallel(all, ceil_div(s->m, p->block_rows) * ceil_div(s->k, p->block_k),
                        pack_a_slab);
        const int64_t offset = tw_gemm_batch_offset(s, &s->b, all->batch);
        for (all->col = 0; all->col < s->n; all->col += p->slab_cols) {
            all->cols = least(p->slab_cols, s->n - all->col);
            if (!whole || offset != packed)
                in_parallel(all,
                            ceil_div(all->cols, SLAB_PANELS * p->target->tile_cols) *
                                ceil_div(s->k, SLAB_K),
                            pack_b_slab);
            packed = offset;
            run_blocks(all, 1);
        }
        all->col = 0;
        all->cols = s->n;
    }
}

tw_status tw_gemm_packed_run(const tw_launch *launch)
{
    const tw_gemm_packed *p = launch->state;
    stretch all = {.plan = p,
                   .launch = launch,
                   .a = launch->in[p->swapped ? 1 : 0],
                   .b = launch->in[p->swapped ? 0 : 1],
                   .c = launch->out[0],
                   .b_slab = launch->workspace,
                   .cols = p->shape.n};
    if (p->shape.m == 0 || p->shape.n == 0 || p->shape.n_batch == 0) return TW_OK;
    if (launch->workspace) {
        all.a_slab = all.b_slab + p->b_slab_floats;
        all.scratch = all.a_slab + p->a_slab_floats;
    }
    if (p->b_way == TW_GEMM_SLAB)
        run_slabs(&all);
    else
        run_blocks(&all, p->shape.n_batch);
    return TW_OK;
}
