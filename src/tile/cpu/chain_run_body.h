/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain interpreter over the vector types: see chain_run.h, and chain_program.h for what it
 * executes. A tile is worked on in chunks: some columns of some rows that lie evenly in memory,
 * small enough that all staged values fit the first-level cache. Each instruction passes over the
 * chunk.
 */
#include "tile/cpu/chain_convert.h"
#include "tile/cpu/chain_math.h"
#include "tile/cpu/chain_program.h"

/* ---- Steps ----------------------------------------------------------------------------------- */

typedef struct rows_of {
    float *data;
    int64_t pitch; /* floats between rows; 0: one row for all */
} rows_of;

typedef struct step_job {
    rows_of y, a, b, c;
    int64_t rows, cols;
    float alpha, beta;
} step_job;

typedef void (*step_fn)(const step_job *job);

#define NO_LOAD(p, n) vf_zero()
#define NO_LOAD_N(p, n) vf_zero()
#define FULL(p, n) vf_load(p)
#define PART(p, n) vf_load_n(p, n)

/* One mode over a chunk. Operands that the mode does not have are not read. */
#define STEP(NAME, B, B_PART, C, C_PART)                                                           \
    static void step_##NAME(const step_job *s)                                                     \
    {                                                                                              \
        const vf alpha = vf_set(s->alpha), beta = vf_set(s->beta);                                 \
        for (int64_t r = 0; r < s->rows; r++) {                                                    \
            float *y = s->y.data + r * s->y.pitch;                                                 \
            const float *a = s->a.data + r * s->a.pitch, *b = s->b.data + r * s->b.pitch;          \
            const float *c = s->c.data + r * s->c.pitch;                                           \
            int64_t i = 0;                                                                         \
            (void)b, (void)c;                                                                      \
            for (; i + VLANES <= s->cols; i += VLANES)                                             \
                vf_store(y + i,                                                                    \
                         math_##NAME(vf_load(a + i), B(b + i, 0), C(c + i, 0), alpha, beta));      \
            const int n = (int)(s->cols - i);                                                      \
            if (n > 0)                                                                             \
                vf_store_n(y + i,                                                                  \
                           math_##NAME(vf_load_n(a + i, n), B_PART(b + i, n), C_PART(c + i, n),    \
                                       alpha, beta),                                               \
                           n);                                                                     \
        }                                                                                          \
    }
#define STEP_1(NAME) STEP(NAME, NO_LOAD, NO_LOAD_N, NO_LOAD, NO_LOAD_N)
#define STEP_2(NAME) STEP(NAME, FULL, PART, NO_LOAD, NO_LOAD_N)
#define STEP_3(NAME) STEP(NAME, FULL, PART, FULL, PART)

#define TW_POINTWISE(NAME, value, text, arity, formula) STEP_##arity(NAME)
#include <tilework/pointwise.def>
#undef TW_POINTWISE

static const step_fn steps[TW_PW_END] = {
#define TW_POINTWISE(NAME, value, text, arity, formula) [value] = step_##NAME,
#include <tilework/pointwise.def>
#undef TW_POINTWISE
};

/* ---- A chunk --------------------------------------------------------------------------------- */

typedef struct chunk {
    const tw_chain_tile *tile;
    const tw_chain_program *program;
    float *stage;
    int64_t col, cols, row, rows, pitch;
    int64_t index[TW_MAX_RANK]; /* of the first row, in the program's row dims */
} chunk;

/* Bytes from an operand's first element to its first one in the chunk. */
static int64_t operand_offset(const chunk *k, const tw_chain_operand *o)
{
    int64_t offset = k->col * o->col_stride;
    for (int32_t d = 0; d < k->program->n_rows_dims; d++) offset += k->index[d] * o->row_strides[d];
    return offset * o->element_bytes;
}

static int64_t row_step(const chunk *k, const tw_chain_operand *o)
{
    return o->row_strides[k->program->n_rows_dims - 1];
}

static rows_of place_of(const chunk *k, int32_t value)
{
    const tw_chain_program *p = k->program;
    const tw_chain_tile *tile = k->tile;
    rows_of place = {NULL, 0};
    if (value < 0) return place;
    const tw_chain_value *v = &p->values[value];
    const tw_chain_operand *o;
    switch (v->home) {
    case TW_HOME_SLOT:
        place.data = k->stage + v->index * p->slot_floats;
        place.pitch = v->one_row ? 0 : k->pitch;
        break;
    case TW_HOME_ANCHOR: /* const in the tile; no instruction writes to an anchor */
        place.data = (float *)(uintptr_t)tile->anchor + (k->row - tile->row) * tile->anchor_row +
                     (k->col - tile->col);
        place.pitch = tile->anchor_row;
        break;
    case TW_HOME_LOAD:
        o = &p->loads[v->index];
        place.data = (float *)(void *)((char *)tile->loads[v->index] + operand_offset(k, o));
        place.pitch = row_step(k, o);
        break;
    case TW_HOME_STORE:
        o = &p->stores[v->index];
        place.data = (float *)(void *)((char *)tile->stores[v->index] + operand_offset(k, o));
        place.pitch = row_step(k, o);
        break;
    }
    return place;
}

/* f32 that is contiguous along rows: square blocks are transposed in registers. */
static void load_transposed(const float *from, int64_t step, const chunk *k, rows_of to)
{
    for (int64_t r = 0; r < k->rows; r += VLANES) {
        for (int64_t c = 0; c < k->cols; c += VLANES) {
            const int rows = k->rows - r < VLANES ? (int)(k->rows - r) : VLANES;
            const int cols = k->cols - c < VLANES ? (int)(k->cols - c) : VLANES;
            vf block[VLANES];
            for (int i = 0; i < VLANES; i++)
                block[i] = i < cols ? vf_load_n(from + (c + i) * step + r, rows) : vf_zero();
            vf_transpose(block);
            for (int i = 0; i < rows; i++)
                vf_store_n(to.data + (r + i) * to.pitch + c, block[i], cols);
        }
    }
}

static void store_transposed(rows_of from, const chunk *k, float *to, int64_t step)
{
    for (int64_t r = 0; r < k->rows; r += VLANES) {
        for (int64_t c = 0; c < k->cols; c += VLANES) {
            const int rows = k->rows - r < VLANES ? (int)(k->rows - r) : VLANES;
            const int cols = k->cols - c < VLANES ? (int)(k->cols - c) : VLANES;
            vf block[VLANES];
            for (int i = 0; i < VLANES; i++)
                block[i] =
                    i < rows ? vf_load_n(from.data + (r + i) * from.pitch + c, cols) : vf_zero();
            vf_transpose(block);
            for (int i = 0; i < cols; i++) vf_store_n(to + (c + i) * step + r, block[i], rows);
        }
    }
}

static void run_load(const chunk *k, const tw_chain_instruction *in)
{
    const tw_chain_operand *o = &k->program->loads[in->index];
    const char *from = (const char *)k->tile->loads[in->index] + operand_offset(k, o);
    const int64_t step = row_step(k, o) * o->element_bytes;
    const rows_of to = place_of(k, in->value);
    const int64_t rows = k->program->values[in->value].one_row ? 1 : k->rows;
    if (o->dtype == TW_F32 && o->col_stride > 1 && row_step(k, o) == 1 && rows > 1) {
        load_transposed((const float *)(const void *)from, o->col_stride, k, to);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        const char *row = from + r * step;
        float *y = to.data + r * to.pitch;
        if (o->col_stride == 1) {
            load_row(o->dtype, row, k->cols, y);
        } else if (o->col_stride == 0) {
            float value;
            load_row(o->dtype, row, 1, &value);
            fill_row(value, k->cols, y);
        } else {
            load_strided(o->dtype, row, o->col_stride * o->element_bytes, k->cols, y);
        }
    }
}

static void run_store(const chunk *k, const tw_chain_instruction *in)
{
    const tw_chain_operand *o = &k->program->stores[in->index];
    char *to = (char *)k->tile->stores[in->index] + operand_offset(k, o);
    const int64_t step = row_step(k, o) * o->element_bytes;
    const rows_of from = place_of(k, in->value);
    const bool plain = o->dtype == TW_F32 && !(o->convert & TW_CONVERT_SATURATE);
    if (plain && o->col_stride > 1 && row_step(k, o) == 1 && k->rows > 1) {
        store_transposed(from, k, (float *)(void *)to, o->col_stride);
        return;
    }
    for (int64_t r = 0; r < k->rows; r++) {
        const float *x = from.data + r * from.pitch;
        char *row = to + r * step;
        if (o->col_stride == 1)
            store_row(o->dtype, o->convert, x, k->cols, row);
        else
            store_strided(o->dtype, o->convert, x, k->cols, row, o->col_stride * o->element_bytes);
    }
}

/* The index along an original dim: it runs along the columns, from row to row, or not at all. */
static void run_index(const chunk *k, const tw_chain_instruction *in)
{
    const tw_chain_program *p = k->program;
    const rows_of to = place_of(k, in->value);
    for (int64_t r = 0; r < k->rows; r++) {
        float *y = to.data + r * to.pitch;
        if (in->index == p->col_dim) {
            for (int64_t c = 0; c < k->cols; c++) y[c] = (float)(k->col + c);
            continue;
        }
        int64_t index = 0;
        for (int32_t d = 0; d < p->n_rows_dims; d++)
            if (p->dim_of_row[d] == in->index)
                index = k->index[d] + (d == p->n_rows_dims - 1 ? r : 0);
        fill_row((float)index, k->cols, y);
    }
}

static void run_round(const chunk *k, const tw_chain_instruction *in)
{
    const rows_of x = place_of(k, in->value);
    for (int64_t r = 0; r < k->rows; r++)
        round_row(in->type, in->convert, x.data + r * x.pitch, k->cols);
}

static void run_copy(const chunk *k, const tw_chain_instruction *in)
{
    const tw_chain_tile *tile = k->tile;
    const float *from = tile->anchor + (k->row - tile->row) * tile->anchor_row + k->col - tile->col;
    const rows_of to = place_of(k, in->value);
    for (int64_t r = 0; r < k->rows; r++)
        load_f32(from + r * tile->anchor_row, k->cols, to.data + r * to.pitch);
}

static bool even(const step_job *s, const tw_chain_instruction *in)
{
    const int64_t n = s->cols;
    return s->y.pitch == n && s->a.pitch == n && (in->b < 0 || s->b.pitch == n) &&
           (in->c < 0 || s->c.pitch == n);
}

static void run_step(const chunk *k, const tw_chain_instruction *in)
{
    /* An operand that the mode does not have is never read; a's place stands in for it. */
    step_job s = {.y = place_of(k, in->value),
                  .a = place_of(k, in->a),
                  .b = place_of(k, in->b < 0 ? in->a : in->b),
                  .c = place_of(k, in->c < 0 ? in->a : in->c),
                  .rows = k->rows,
                  .cols = k->cols,
                  .alpha = in->alpha,
                  .beta = in->beta};
    if (even(&s, in)) { /* rows without gaps are one row */
        s.cols *= s.rows;
        s.rows = 1;
    }
    steps[in->mode](&s);
}

static void run_instructions(const chunk *k, const tw_chain_instruction *list, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        switch (list[i].action) {
        case TW_ACT_LOAD: run_load(k, &list[i]); break;
        case TW_ACT_INDEX: run_index(k, &list[i]); break;
        case TW_ACT_COPY: run_copy(k, &list[i]); break;
        case TW_ACT_STEP: run_step(k, &list[i]); break;
        case TW_ACT_ROUND: run_round(k, &list[i]); break;
        case TW_ACT_STORE: run_store(k, &list[i]); break;
        }
    }
}

/* ---- A tile ---------------------------------------------------------------------------------- */

static void set_row(chunk *k, int64_t row)
{
    k->row = row;
    for (int32_t d = k->program->n_rows_dims - 1; d >= 0; d--) {
        k->index[d] = row % k->program->row_dims[d];
        row /= k->program->row_dims[d];
    }
}

/* All rows of the tile, for the chunk's columns. */
static void run_rows(chunk *k)
{
    const tw_chain_program *p = k->program;
    const int64_t inner = p->row_dims[p->n_rows_dims - 1], end = k->tile->row + k->tile->rows;
    const int64_t most = p->whole_tile ? INT64_MAX : p->slot_floats / k->pitch;
    for (int64_t row = k->tile->row; row < end; row += k->rows) {
        set_row(k, row);
        k->rows = inner - k->index[p->n_rows_dims - 1];
        if (k->rows > end - row) k->rows = end - row;
        if (k->rows > most) k->rows = most;
        run_instructions(k, p->body, p->n_body);
    }
}

void TW_SYMBOL(tw_chain_run_f32)(const tw_chain_tile *tile)
{
    _Alignas(64) float stage[TW_CHAIN_STAGE_FLOATS];
    const tw_chain_program *p = tile->program;
    chunk k = {.tile = tile, .program = p, .stage = stage};
    if (tile->rows <= 0) return;
    const int64_t end = tile->col + tile->cols;
    for (k.col = tile->col; k.col < end; k.col += k.cols) {
        k.cols = end - k.col;
        if (k.cols > p->chunk_cols && !p->whole_tile) k.cols = p->chunk_cols;
        k.pitch = (k.cols + TW_CHAIN_ALIGN - 1) / TW_CHAIN_ALIGN * TW_CHAIN_ALIGN;
        k.rows = 1;
        set_row(&k, tile->row);
        run_instructions(&k, p->setup, p->n_setup);
        run_rows(&k);
    }
}
