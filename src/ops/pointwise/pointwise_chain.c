/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise chains on the interpreter of tile/cpu: the space is brought to few, long dims, one of
 * them becomes the columns, and tiles of fixed size are spread over the threads.
 */
#include "core/error.h"
#include "ops/pointwise/pointwise.h"
#include "runtime/cpu/parallel.h"
#include "tile/cpu/chain_run.h"

enum { TILE_ELEMENTS = 16384, STRIDED_ROWS = 64, STRIDED_COLS = 256 };

/* ---- The space ------------------------------------------------------------------------------- */

/* A chain with operand lists of its own, for rearranging dims. */
typedef struct space {
    tw_chain chain;
    tw_view loads[TW_CHAIN_VALUES];
    tw_chain_store stores[TW_CHAIN_VALUES];
} space;

static tw_view *operand(space *s, int32_t i)
{
    return i < s->chain.n_loads ? &s->loads[i] : &s->stores[i - s->chain.n_loads].view;
}

static int32_t operands(const space *s) { return s->chain.n_loads + s->chain.n_stores; }

static void copy_chain(const tw_chain *chain, space *s)
{
    s->chain = *chain;
    for (int32_t i = 0; i < chain->n_loads; i++) s->loads[i] = chain->loads[i];
    for (int32_t i = 0; i < chain->n_stores; i++) s->stores[i] = chain->stores[i];
    s->chain.loads = s->loads;
    s->chain.stores = s->stores;
}

static void swap_dims(space *s, int32_t d, int32_t e)
{
    int64_t dim = s->chain.dims[d];
    s->chain.dims[d] = s->chain.dims[e];
    s->chain.dims[e] = dim;
    for (int32_t i = 0; i < operands(s); i++) {
        int64_t *strides = operand(s, i)->strides, stride = strides[d];
        strides[d] = strides[e];
        strides[e] = stride;
    }
}

static void remove_dim(space *s, int32_t d)
{
    s->chain.rank--;
    for (int32_t e = d; e < s->chain.rank; e++) {
        s->chain.dims[e] = s->chain.dims[e + 1];
        for (int32_t i = 0; i < operands(s); i++) {
            int64_t *strides = operand(s, i)->strides;
            strides[e] = strides[e + 1];
        }
    }
}

static bool merges(space *s, int32_t outer)
{
    for (int32_t i = 0; i < operands(s); i++) {
        const int64_t *strides = operand(s, i)->strides;
        if (strides[outer] != strides[outer + 1] * s->chain.dims[outer + 1]) return false;
    }
    return true;
}

/* Drops dims of 1, sorts the others by the first result's strides, and merges neighbours. */
static void simplify(space *s)
{
    for (int32_t d = s->chain.rank - 1; d >= 0; d--)
        if (s->chain.dims[d] == 1) remove_dim(s, d);
    const int64_t *key = s->stores[0].view.strides;
    for (int32_t d = 1; d < s->chain.rank; d++)
        for (int32_t e = d; e > 0 && key[e - 1] < key[e]; e--) swap_dims(s, e - 1, e);
    for (int32_t d = s->chain.rank - 2; d >= 0; d--) {
        if (!merges(s, d)) continue;
        s->chain.dims[d + 1] *= s->chain.dims[d];
        remove_dim(s, d);
    }
}

static bool has_index(const tw_chain *chain)
{
    for (int32_t i = 0; i < chain->n_steps; i++)
        if (chain->steps[i].attrs.mode == TW_PW_GEN_INDEX) return true;
    return false;
}

/* What an element costs with its columns along dim d: strided access beside the unit strides, and
 * the start of a row shared by its columns. */
static double column_cost(space *s, int32_t d)
{
    double cost = 64.0 / (double)(s->chain.dims[d] > 0 ? s->chain.dims[d] : 1);
    for (int32_t i = 0; i < operands(s); i++) {
        int64_t stride = operand(s, i)->strides[d];
        cost += stride == 0 ? 0.25 : stride == 1 ? 1 : 6;
    }
    return cost;
}

static int32_t choose_columns(space *s)
{
    int32_t best = s->chain.rank > 0 ? s->chain.rank - 1 : 0;
    for (int32_t d = s->chain.rank - 2; d >= 0; d--)
        if (column_cost(s, d) < column_cost(s, best)) best = d;
    return best;
}

static bool strided_columns(space *s, int32_t col_dim)
{
    if (s->chain.rank == 0) return false;
    for (int32_t i = 0; i < operands(s); i++)
        if (operand(s, i)->strides[col_dim] > 1) return true;
    return false;
}

/* ---- The kernel ------------------------------------------------------------------------------ */

typedef struct chain_state {
    const tw_chain_program *program;
    int64_t rows, cols;           /* of the whole space */
    int64_t tile_rows, tile_cols; /* of an item */
    int64_t items, items_across;
    bool single;
} chain_state;

static const char *supports(const tw_problem *problem)
{
    tw_pw_job job;
    tw_pw_job_of(problem, &job);
    return tw_chain_refuses(&job.chain);
}

static int64_t pieces(int64_t n, int64_t each) { return (n + each - 1) / each; }

static void set_tiles(space *s, int32_t col_dim, chain_state *state)
{
    state->rows = state->cols = 1;
    for (int32_t d = 0; d < s->chain.rank; d++)
        *(d == col_dim ? &state->cols : &state->rows) *= s->chain.dims[d];
    bool strided = strided_columns(s, col_dim);
    int64_t widest = strided ? STRIDED_COLS : TILE_ELEMENTS;
    state->tile_cols = state->cols < widest ? state->cols : widest;
    if (state->tile_cols < 1) state->tile_cols = 1;
    state->tile_rows = TILE_ELEMENTS / state->tile_cols;
    if (strided && state->tile_rows < STRIDED_ROWS) state->tile_rows = STRIDED_ROWS;
    state->items_across = pieces(state->cols, state->tile_cols);
    state->items = state->items_across * pieces(state->rows, state->tile_rows);
}

static tw_status prepare(const tw_problem *problem, tw_prepare *prepare)
{
    void *memory;
    tw_pw_job job;
    space s;
    tw_pw_job_of(problem, &job);
    copy_chain(&job.chain, &s);
    if (!has_index(&job.chain)) simplify(&s);
    int32_t col_dim = choose_columns(&s);
    TW_TRY(tw_arena_alloc(prepare->arena, 1, sizeof(chain_state), &memory));
    chain_state *state = memory;
    state->single = job.single;
    set_tiles(&s, col_dim, state);
    prepare->state = state;
    prepare->workspace = 0;
    return tw_chain_compile(&s.chain, col_dim, prepare->arena, &state->program);
}

typedef struct chain_job {
    const chain_state *state;
    void *const *loads, *const *stores;
    tw_chain_run_fn run;
} chain_job;

static void run_item(void *arg, int32_t slot, int64_t item)
{
    (void)slot;
    const chain_job *job = arg;
    const chain_state *state = job->state;
    int64_t row = item / state->items_across * state->tile_rows;
    int64_t col = item % state->items_across * state->tile_cols;
    tw_chain_tile tile = {.program = state->program,
                          .loads = job->loads,
                          .stores = job->stores,
                          .row = row,
                          .rows = state->tile_rows,
                          .col = col,
                          .cols = state->tile_cols};
    if (tile.rows > state->rows - row) tile.rows = state->rows - row;
    if (tile.cols > state->cols - col) tile.cols = state->cols - col;
    job->run(&tile);
}

static tw_status run_on(const tw_launch *launch, tw_chain_run_fn run)
{
    const chain_state *state = launch->state;
    chain_job job = {.state = state,
                     .loads = state->single ? launch->in : launch->loads,
                     .stores = state->single ? launch->out : launch->stores,
                     .run = run};
    tw_parallel(launch->context, launch->problem->max_threads, state->items, run_item, &job);
    return TW_OK;
}

#define CHAIN_ROW(target)                                                                          \
    static tw_status run_##target(const tw_launch *launch)                                         \
    {                                                                                              \
        return run_on(launch, tw_chain_run_f32__##target);                                         \
    }                                                                                              \
    const tw_kernel_impl tw_pointwise_chain_mixed__##target = {                                    \
        .supports = supports, .prepare = prepare, .run = run_##target, .in_place = 7};

#if defined(__x86_64__) || defined(_M_X64)
CHAIN_ROW(avx512)
CHAIN_ROW(avx2)
CHAIN_ROW(sse2)
#elif defined(__aarch64__)
CHAIN_ROW(neon)
#endif
