/* SPDX-License-Identifier: Apache-2.0 */
/* What the packed GEMM needs of a target: its packing loops and the table that names them. */
#include "arch/cpu/vec.h"
#include "ops/gemm/gemm_packed.h"

static int lanes_of(int64_t left) { return left >= VLANES ? VLANES : left > 0 ? (int)left : 0; }

/* Contiguous across: one row for each k. */
static void pack_rows(const tw_gemm_piece *p)
{
    for (int64_t k = 0; k < p->k; k++) {
        const float *from = p->from + k * p->along;
        float *to = p->to + k * p->width;
        int64_t i = 0;
        for (; i + VLANES <= p->count; i += VLANES) vf_store(to + i, vf_load(from + i));
        const int rest = (int)(p->count - i);
        if (rest > 0) vf_store_n(to + i, vf_load_n(from + i, rest), lanes_of(p->width - i));
    }
}

/* Contiguous along k: squares of VLANES × VLANES are transposed in registers. Rows past the edge
 * repeat the last one: nobody stores what they become. */
static void pack_square(const tw_gemm_piece *p, int64_t i, int64_t k)
{
    const int rows = lanes_of(p->count - i), depth = lanes_of(p->k - k);
    const int lanes = lanes_of(p->width - i);
    const float *from = p->from + i * p->step + k;
    float *to = p->to + k * p->width + i;
    vf square[VLANES];
    if (depth == VLANES) {
        for (int r = 0; r < VLANES; r++)
            square[r] = vf_load(from + (r < rows ? r : rows - 1) * p->step);
        vf_transpose(square);
        if (lanes == VLANES)
            for (int r = 0; r < VLANES; r++) vf_store(to + r * p->width, square[r]);
        else
            for (int r = 0; r < VLANES; r++) vf_store_n(to + r * p->width, square[r], lanes);
        return;
    }
    for (int r = 0; r < VLANES; r++)
        square[r] = vf_load_n(from + (r < rows ? r : rows - 1) * p->step, depth);
    vf_transpose(square);
    for (int r = 0; r < depth; r++) vf_store_n(to + r * p->width, square[r], lanes);
}

static void pack_any(const tw_gemm_piece *p)
{
    const int64_t rest = p->count % VLANES, more = p->width - p->count;
    const int64_t zeros = rest == 0 ? 0 : more < VLANES - rest ? more : VLANES - rest;
    for (int64_t k = 0; k < p->k; k++) {
        float *to = p->to + k * p->width;
        for (int64_t i = 0; i < p->count; i++) to[i] = p->from[i * p->step + k * p->along];
        for (int64_t i = 0; i < zeros; i++) to[p->count + i] = 0.0f;
    }
}

static void pack(const tw_gemm_piece *p)
{
    if (p->step == 1) {
        pack_rows(p);
    } else if (p->along == 1) {
        for (int64_t k = 0; k < p->k; k += VLANES)
            for (int64_t i = 0; i < p->count; i += VLANES) pack_square(p, i, k);
    } else {
        pack_any(p);
    }
}

static const tw_gemm_target target = {.tile_rows = TW_TILE_ROWS,
                                      .tile_cols = TW_TILE_COLS,
                                      .multiply = TW_SYMBOL(tw_brgemm_f32),
                                      .pack = pack,
                                      .chain = TW_SYMBOL(tw_chain_run_f32)};

static tw_status prepare(const tw_problem *problem, tw_prepare *out)
{
    return tw_gemm_packed_prepare(problem, out, &target);
}

extern const tw_kernel_impl TW_SYMBOL(tw_gemm_packed_f32);
const tw_kernel_impl TW_SYMBOL(tw_gemm_packed_f32) = {
    .supports = tw_gemm_packed_supports, .prepare = prepare, .run = tw_gemm_packed_run};
