/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch-reduce GEMM over the vector types: see brgemm.h.
 *
 * A tile of C lives in rows × vectors accumulators over the whole batch and k. Each step of k loads
 * the vectors of B once, broadcasts one element of each row of A, and issues rows × vectors fused
 * multiply-adds: TW_TILE_ROWS × TW_TILE_VECTORS is chosen so that this fills the register file and
 * hides the latency of the multiply-add. Tiles of fewer rows are the same function with another
 * constant, so that every row count is fully unrolled. The loop over k is not: its few additions
 * are free beside 28 multiply-adds, and unrolled by 2 or 4 it was no faster (AVX-512, gcc) or lost
 * accumulators to the stack (clang).
 */
#include "arch/cpu/vec.h"
#include "tile/cpu/brgemm.h"

/* Unrolling is spelled out: not every compiler takes an array out of memory after it has unrolled
 * the loops that index it. */
#if TW_TILE_ROWS == 14
#    define TW_FOR_ROWS(X)                                                                         \
        X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif TW_TILE_ROWS == 12
#    define TW_FOR_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#elif TW_TILE_ROWS == 6
#    define TW_FOR_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#elif TW_TILE_ROWS == 4
#    define TW_FOR_ROWS(X) X(1) X(2) X(3) X(4)
#else
#    error "list the row counts of this target's tile"
#endif
_Static_assert(TW_TILE_VECTORS == 2, "a tile is a full and a last vector, or a last one alone");

/* What the compiler specialises a tile for. */
typedef struct tile_shape {
    int rows;
    bool full;     /* two vectors; else the last one alone */
    bool masked;   /* the last vector has `lanes` columns; else VLANES */
    bool unit_row; /* a_row is 1 */
} tile_shape;

/* Where the tile is. */
typedef struct tile_at {
    int64_t row, col, b_offset;
    int lanes;
} tile_at;

typedef struct tile_acc {
    vf first, last;
} tile_acc;

TW_INLINE void tile_row(tile_acc *acc, float a, vf first, vf last, bool full)
{
    const vf x = vf_set(a);
    if (full) acc->first = vf_fma(x, first, acc->first);
    acc->last = vf_fma(x, last, acc->last);
}

TW_INLINE void tile_accumulate(tile_acc *acc, const tw_brgemm *job, int64_t batch, tile_at at,
                               tile_shape shape)
{
    /* Rows are addressed from three pointers: each then lies within reach of an addressing mode. */
    const int64_t a_row = shape.unit_row ? 1 : job->a_row;
    const float *a0 = job->a[batch] + at.row * a_row;
    const float *a5 = a0 + 5 * a_row, *a10 = a5 + 5 * a_row;
    const float *b = job->b[batch] + at.b_offset;
    const float *b_last = shape.full ? b + VLANES : b;
    const int64_t a_col = job->a_col, b_row = job->b_row;
    const bool partial = shape.masked && !job->b_padded;
    for (int64_t k = job->k; k > 0; k--) {
        const vf last = partial ? vf_load_n(b_last, at.lanes) : vf_load(b_last);
        const vf first = shape.full ? vf_load(b) : last;
#define TW_STEP(r)                                                                                 \
    if (r <= shape.rows)                                                                           \
        tile_row(&acc[r - 1],                                                                      \
                 ((r - 1) < 5    ? a0                                                              \
                  : (r - 1) < 10 ? a5                                                              \
                                 : a10)[(r - 1) % 5 * a_row],                                      \
                 first, last, shape.full);
        TW_FOR_ROWS(TW_STEP)
#undef TW_STEP
        a0 += a_col, a5 += a_col, a10 += a_col;
        b += b_row, b_last += b_row;
    }
}

TW_INLINE void tile_put(float *c, const tile_acc *acc, int lanes, tile_shape shape, bool accumulate)
{
    vf first = acc->first, last = acc->last;
    if (shape.full) {
        if (accumulate) first = vf_add(vf_load(c), first);
        vf_store(c, first);
        c += VLANES;
    }
    if (shape.masked) {
        if (accumulate) last = vf_add(vf_load_n(c, lanes), last);
        vf_store_n(c, last, lanes);
    } else {
        if (accumulate) last = vf_add(vf_load(c), last);
        vf_store(c, last);
    }
}

TW_INLINE void tile_run(const tw_brgemm *job, tile_at at, tile_shape shape)
{
    tile_acc acc[TW_TILE_ROWS];
    const int64_t c_row = job->c_row;
    float *c = job->c + at.row * c_row + at.col;
#define TW_START(r)                                                                                \
    if (r <= shape.rows) {                                                                         \
        __builtin_prefetch(c + (r - 1) * c_row, 1);                                                \
        acc[r - 1].first = acc[r - 1].last = vf_zero();                                            \
    }
    TW_FOR_ROWS(TW_START)
#undef TW_START
    for (int64_t batch = 0; batch < job->n_batch; batch++)
        tile_accumulate(acc, job, batch, at, shape);
#define TW_PUT(r)                                                                                  \
    if (r <= shape.rows) tile_put(c + (r - 1) * c_row, &acc[r - 1], at.lanes, shape, accumulate);
    const bool accumulate = job->accumulate;
    TW_FOR_ROWS(TW_PUT)
#undef TW_PUT
}

/* ---- Every row count: both vectors (any a_row, 1), the last one partial, the last alone ---- */
/* By pointer: a structure passed in memory is copied by a wide load that waits for the stores of
 * C before it. */
typedef void (*tile_fn)(const tw_brgemm *job, const tile_at *at);

#define TW_TILE(name, rows, full, masked, unit_row)                                                \
    static void tile_##name##_##rows(const tw_brgemm *job, const tile_at *at)                      \
    {                                                                                              \
        tile_run(job, *at, (tile_shape){rows, full, masked, unit_row});                            \
    }
#define TW_TILES(rows)                                                                             \
    TW_TILE(full, rows, true, false, false)                                                        \
    TW_TILE(unit, rows, true, false, true)                                                         \
    TW_TILE(edge, rows, true, true, false)                                                         \
    TW_TILE(one, rows, false, true, false)
#define TW_TILE_NAMES(rows) {tile_full_##rows, tile_unit_##rows, tile_edge_##rows, tile_one_##rows},
enum { TILE_FULL = 0, TILE_UNIT = 1, TILE_EDGE = 2, TILE_ONE = 3, TILE_FORMS = 4 };

TW_FOR_ROWS(TW_TILES)
static const tile_fn tiles[TW_TILE_ROWS][TILE_FORMS] = {TW_FOR_ROWS(TW_TILE_NAMES)};

void TW_SYMBOL(tw_brgemm_f32)(const tw_brgemm *job)
{
    const int64_t n_tiles = (job->rows + TW_TILE_ROWS - 1) / TW_TILE_ROWS;
    const int64_t height = n_tiles > 0 ? job->rows / n_tiles : 0;
    const int64_t taller = n_tiles > 0 ? job->rows % n_tiles : 0;
    const int64_t b_panel = job->b_panel > 0 ? job->b_panel : TW_TILE_COLS;
    tile_at at = {0, 0, 0, VLANES};
    for (; at.col < job->cols; at.col += TW_TILE_COLS, at.b_offset += b_panel) {
        const int64_t left = job->cols - at.col;
        int form = job->a_row == 1 ? TILE_UNIT : TILE_FULL;
        if (left <= VLANES) {
            form = TILE_ONE;
            at.lanes = (int)left;
        } else if (left < TW_TILE_COLS) {
            form = TILE_EDGE;
            at.lanes = (int)(left - VLANES);
        }
        at.row = 0;
        for (int64_t t = 0; t < n_tiles; t++) {
            const int64_t rows = height + (t < taller);
            tiles[rows - 1][form](job, &at);
            at.row += rows;
        }
    }
}
