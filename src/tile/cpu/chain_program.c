/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles a chain for the interpreter: where each operand is read, where each value lives, and in
 * what order. Three rules shape the result.
 *
 *   - f32 operands with contiguous columns are used where they are, and a result that goes to such
 *     memory is computed there; everything else is staged.
 *   - Nothing is stored before the last step that reads a load has been reached, since a store may
 *     be the same memory as a load.
 *   - Loads that are the same in every row are staged once for a block of columns.
 */
#include "tile/cpu/chain_program.h"

#include <string.h>

#include "core/dtype.h"
#include "core/error.h"

typedef struct compiler {
    const tw_chain *chain;
    tw_chain_program *program;
    tw_chain_operand *loads, *stores;
    tw_chain_value *values;
    tw_chain_instruction *setup, *body;
    int32_t last_load_step; /* the last step that reads a load; -1 if none does */
    bool void_round[TW_CHAIN_VALUES];
    int32_t last_step[TW_CHAIN_VALUES]; /* the last step that reads the value; -1 */
    bool stored[TW_CHAIN_VALUES];       /* needs a store instruction, not yet emitted */
    bool stored_load[TW_CHAIN_VALUES];
    bool ready[TW_CHAIN_VALUES];
    bool slot_taken[TW_CHAIN_VALUES];
} compiler;

static int32_t first_step_value(const compiler *k) { return 1 + k->chain->n_loads; }
static bool is_load(const compiler *k, int32_t v) { return v >= 1 && v <= k->chain->n_loads; }

/* ---- Dims ------------------------------------------------------------------------------------ */

static bool has_index(const tw_chain *chain)
{
    for (int32_t i = 0; i < chain->n_steps; i++)
        if (chain->steps[i].attrs.mode == TW_PW_GEN_INDEX) return true;
    return false;
}

/* Outer row dim i and the next one are one dim to this operand. */
static bool merges(const tw_chain_operand *o, const tw_chain_program *p, int32_t i)
{
    return o->row_strides[i] == o->row_strides[i + 1] * p->row_dims[i + 1];
}

static bool all_merge(const compiler *k, int32_t i)
{
    bool all = true;
    for (int32_t n = 0; all && n < k->chain->n_loads; n++)
        all = merges(&k->loads[n], k->program, i);
    for (int32_t n = 0; all && n < k->chain->n_stores; n++)
        all = merges(&k->stores[n], k->program, i);
    return all;
}

static void drop_outer(int64_t *list, int32_t i, int32_t n)
{
    memmove(&list[i], &list[i + 1], (size_t)(n - i - 1) * sizeof list[0]);
}

static void merge_rows(compiler *k)
{
    tw_chain_program *p = k->program;
    for (int32_t i = p->n_rows_dims - 2; i >= 0; i--) {
        if (!all_merge(k, i)) continue;
        int64_t product = p->row_dims[i] * p->row_dims[i + 1];
        drop_outer(p->row_dims, i, p->n_rows_dims);
        p->row_dims[i] = product;
        for (int32_t n = 0; n < k->chain->n_loads; n++)
            drop_outer(k->loads[n].row_strides, i, p->n_rows_dims);
        for (int32_t n = 0; n < k->chain->n_stores; n++)
            drop_outer(k->stores[n].row_strides, i, p->n_rows_dims);
        p->n_rows_dims--;
    }
}

static void set_operand(compiler *k, const tw_view *view, tw_chain_operand *o)
{
    const tw_chain_program *p = k->program;
    int32_t rank = k->chain->rank;
    o->dtype = view->dtype;
    o->element_bytes = tw_dtype_bits(view->dtype) / 8;
    o->col_stride = rank > 0 && k->chain->dims[p->col_dim] != 1 ? view->strides[p->col_dim] : 1;
    o->uniform = true;
    for (int32_t i = 0; i < p->n_rows_dims; i++) {
        o->row_strides[i] = view->strides[p->dim_of_row[i]];
        if (o->row_strides[i] != 0) o->uniform = false;
    }
}

static void set_dims(compiler *k, int32_t col_dim)
{
    const tw_chain *chain = k->chain;
    tw_chain_program *p = k->program;
    p->col_dim = col_dim;
    for (int32_t d = 0; d < chain->rank; d++) {
        if (d == col_dim || chain->dims[d] == 1) continue;
        p->dim_of_row[p->n_rows_dims] = d;
        p->row_dims[p->n_rows_dims++] = chain->dims[d];
    }
    for (int32_t i = 0; i < chain->n_loads; i++) set_operand(k, &chain->loads[i], &k->loads[i]);
    for (int32_t i = 0; i < chain->n_stores; i++) {
        set_operand(k, &chain->stores[i].view, &k->stores[i]);
        k->stores[i].convert = chain->stores[i].convert;
    }
    if (!has_index(chain)) merge_rows(k);
    if (p->n_rows_dims == 0) p->row_dims[p->n_rows_dims++] = 1;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool is_direct(const tw_chain_operand *o)
{
    return o->dtype == TW_F32 && o->col_stride == 1 && !(o->convert & TW_CONVERT_SATURATE);
}

static int32_t take_slot(compiler *k)
{
    int32_t slot = 0;
    while (k->slot_taken[slot]) slot++;
    k->slot_taken[slot] = true;
    if (slot >= k->program->n_slots) k->program->n_slots = slot + 1;
    return slot;
}

/* Gives back a value's slot once nothing will read it. */
static void release(compiler *k, int32_t v, int32_t step)
{
    if (v < 0 || k->values[v].home != TW_HOME_SLOT || k->values[v].one_row || !k->ready[v]) return;
    if (k->last_step[v] > step || k->stored[v] || (is_load(k, v) && k->stored_load[v])) return;
    k->slot_taken[k->values[v].index] = false;
}

static void find_uses(compiler *k)
{
    const tw_chain *chain = k->chain;
    k->last_load_step = -1;
    for (int32_t v = 0; v < TW_CHAIN_VALUES; v++) k->last_step[v] = -1;
    for (int32_t i = 0; i < chain->n_steps; i++) {
        const int16_t operands[3] = {chain->steps[i].a, chain->steps[i].b, chain->steps[i].c};
        if (chain->steps[i].attrs.mode == TW_PW_GEN_INDEX) continue;
        for (int32_t o = 0; o < 3; o++) {
            if (operands[o] < 0) continue;
            k->last_step[operands[o]] = i;
            if (is_load(k, operands[o])) k->last_load_step = i;
        }
    }
    for (int32_t i = 0; i < chain->n_stores; i++) {
        k->stored[chain->stores[i].value] = true;
        if (is_load(k, chain->stores[i].value)) k->stored_load[chain->stores[i].value] = true;
    }
}

/* The store whose memory may hold the value from the start; -1 if none. */
static int32_t direct_store(const compiler *k, int32_t value)
{
    if (value - first_step_value(k) < k->last_load_step) return -1;
    for (int32_t i = 0; i < k->chain->n_stores; i++)
        if (k->chain->stores[i].value == value && is_direct(&k->stores[i])) return i;
    return -1;
}

/* A store that does the rounding itself: the only reader, of the same type and flags. */
static bool store_rounds(const compiler *k, const tw_chain_step *step, int32_t value)
{
    int32_t readers = 0;
    bool same = false;
    for (int32_t i = 0; i < k->chain->n_stores; i++) {
        const tw_chain_store *s = &k->chain->stores[i];
        if (s->value != value) continue;
        readers++;
        same = s->view.dtype == step->round && s->convert == step->attrs.convert;
    }
    return readers == 1 && same && k->last_step[value] < 0;
}

/* ---- Instructions ---------------------------------------------------------------------------- */

static tw_chain_instruction *emit(compiler *k, tw_chain_action action, int32_t value)
{
    tw_chain_instruction *i = &k->body[k->program->n_body++];
    *i = (tw_chain_instruction){
        .action = action, .value = (int16_t)value, .a = -1, .b = -1, .c = -1};
    return i;
}

static void emit_round(compiler *k, int32_t value, tw_dtype type, uint32_t convert)
{
    tw_chain_instruction *i = emit(k, TW_ACT_ROUND, value);
    i->type = type;
    i->convert = convert;
}

/* Makes a load's value available: at once, where it is, or by a staging instruction. */
static void need_load(compiler *k, int32_t v)
{
    if (!is_load(k, v) || k->ready[v]) return;
    const tw_chain_operand *o = &k->loads[v - 1];
    k->ready[v] = true;
    if (is_direct(o) && !k->stored_load[v]) {
        k->values[v] = (tw_chain_value){.home = TW_HOME_LOAD, .index = v - 1};
        return;
    }
    k->values[v] =
        (tw_chain_value){.home = TW_HOME_SLOT, .index = take_slot(k), .one_row = o->uniform};
    if (!o->uniform) {
        emit(k, TW_ACT_LOAD, v)->index = v - 1;
        return;
    }
    k->setup[k->program->n_setup++] =
        (tw_chain_instruction){.action = TW_ACT_LOAD, .value = (int16_t)v, .index = v - 1};
}

static void need_anchor(compiler *k)
{
    tw_dtype round = k->chain->anchor_round;
    k->ready[0] = true;
    k->values[0] = (tw_chain_value){.home = TW_HOME_ANCHOR};
    if (round == TW_AUTO || round == TW_F32 || round == TW_F64) return;
    if (k->last_step[0] < 0 && !k->stored[0]) return;
    k->values[0] = (tw_chain_value){.home = TW_HOME_SLOT, .index = take_slot(k)};
    emit(k, TW_ACT_COPY, 0);
    emit_round(k, 0, round, 0);
}

static void emit_stores(compiler *k, int32_t step)
{
    for (int32_t i = 0; i < k->chain->n_stores; i++) {
        int32_t v = k->chain->stores[i].value;
        if (!k->ready[v] || !k->stored[v]) continue;
        if (k->values[v].home == TW_HOME_STORE && k->values[v].index == i) continue;
        emit(k, TW_ACT_STORE, v)->index = i;
    }
    for (int32_t v = 0; v < first_step_value(k) + k->chain->n_steps; v++) {
        if (!k->ready[v] || !k->stored[v]) continue;
        k->stored[v] = k->stored_load[v] = false;
        release(k, v, step);
    }
}

static void need_stored_loads(compiler *k)
{
    for (int32_t v = 1; v <= k->chain->n_loads; v++)
        if (k->stored_load[v]) need_load(k, v);
}

/* First of all: what is staged before the body keeps its slots to itself. */
static void need_uniform_loads(compiler *k)
{
    for (int32_t v = 1; v <= k->chain->n_loads; v++)
        if (k->loads[v - 1].uniform && (k->last_step[v] >= 0 || k->stored_load[v])) need_load(k, v);
}

static void emit_step(compiler *k, int32_t n)
{
    const tw_chain_step *s = &k->chain->steps[n];
    int32_t value = first_step_value(k) + n;
    bool index = s->attrs.mode == TW_PW_GEN_INDEX;
    const int16_t operands[3] = {index ? -1 : s->a, s->b, s->c};
    for (int32_t o = 0; o < 3; o++)
        if (operands[o] >= 0) need_load(k, operands[o]);
    if (n >= k->last_load_step) need_stored_loads(k);
    for (int32_t o = 0; o < 3; o++) release(k, operands[o], n);
    int32_t store = direct_store(k, value);
    k->values[value] = store >= 0 ? (tw_chain_value){.home = TW_HOME_STORE, .index = store}
                                  : (tw_chain_value){.home = TW_HOME_SLOT, .index = take_slot(k)};
    k->ready[value] = true;
    tw_chain_instruction *i = emit(k, index ? TW_ACT_INDEX : TW_ACT_STEP, value);
    i->a = operands[0];
    i->b = operands[1];
    i->c = operands[2];
    i->index = (int32_t)s->attrs.axis;
    i->mode = s->attrs.mode;
    i->alpha = (float)s->attrs.alpha;
    i->beta = (float)s->attrs.beta;
    if (!k->void_round[value] && !store_rounds(k, s, value))
        emit_round(k, value, s->round, s->attrs.convert);
    if (n >= k->last_load_step) emit_stores(k, n);
    release(k, value, n);
}

static void set_chunks(compiler *k)
{
    tw_chain_program *p = k->program;
    int64_t each = TW_CHAIN_SLOT_FLOATS;
    if (p->n_slots > 0 && each > TW_CHAIN_STAGE_FLOATS / p->n_slots)
        each = TW_CHAIN_STAGE_FLOATS / p->n_slots / TW_CHAIN_ALIGN * TW_CHAIN_ALIGN;
    p->slot_floats = p->chunk_cols = each;
    bool strided = false;
    for (int32_t i = 0; i < p->n_loads; i++) strided |= k->loads[i].col_stride > 1;
    for (int32_t i = 0; i < p->n_stores; i++) strided |= k->stores[i].col_stride > 1;
    if (strided && p->chunk_cols > 64) p->chunk_cols = 64;
    p->whole_tile = p->n_slots == 0 && p->n_body == 1;
}

static tw_status allocate(compiler *k, tw_arena *arena)
{
    const tw_chain *chain = k->chain;
    int64_t n_values = 1 + chain->n_loads + chain->n_steps;
    int64_t n_code = 2 + chain->n_loads + 2 * chain->n_steps + chain->n_stores;
    void *memory;
    TW_TRY(tw_arena_alloc(arena, 1, sizeof *k->program, &memory));
    k->program = memory;
    TW_TRY(tw_arena_alloc(arena, chain->n_loads + 1, sizeof *k->loads, &memory));
    k->loads = memory;
    TW_TRY(tw_arena_alloc(arena, chain->n_stores + 1, sizeof *k->stores, &memory));
    k->stores = memory;
    TW_TRY(tw_arena_alloc(arena, n_values, sizeof *k->values, &memory));
    k->values = memory;
    TW_TRY(tw_arena_alloc(arena, n_code, sizeof *k->body, &memory));
    k->body = memory;
    TW_TRY(tw_arena_alloc(arena, chain->n_loads + 1, sizeof *k->setup, &memory));
    k->setup = memory;
    *k->program = (tw_chain_program){.n_loads = chain->n_loads,
                                     .n_stores = chain->n_stores,
                                     .n_values = (int32_t)n_values,
                                     .loads = k->loads,
                                     .stores = k->stores,
                                     .values = k->values,
                                     .setup = k->setup,
                                     .body = k->body};
    return TW_OK;
}

tw_status tw_chain_compile(const tw_chain *chain, int32_t col_dim, tw_arena *arena,
                           const tw_chain_program **program)
{
    compiler k = {.chain = chain};
    const char *reason = tw_chain_refuses(chain);
    TW_REQUIRE(!reason, TW_NOT_SUPPORTED, "chain: the interpreter does not take %s", reason);
    TW_TRY(allocate(&k, arena));
    (void)tw_chain_ranges(chain, k.void_round);
    set_dims(&k, col_dim);
    find_uses(&k);
    need_uniform_loads(&k);
    need_anchor(&k);
    for (int32_t i = 0; i < chain->n_steps; i++) emit_step(&k, i);
    need_stored_loads(&k);
    emit_stores(&k, chain->n_steps);
    set_chunks(&k);
    *program = k.program;
    return TW_OK;
}
