/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference: one element at a time, every step in double or in 64-bit integers, each value
 * rounded where the program says so. Any types, any strides, in place.
 */
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/pointwise_math.h"
#include "runtime/cpu/parallel.h"

/* Integers stay integers until a step asks for real arithmetic. */
typedef struct value {
    enum { REAL, SIGNED, UNSIGNED } kind;
    double real;
    int64_t whole;
} value;

static value load(tw_dtype type, const void *base, int64_t index)
{
    if (tw_dtype_is_float(type)) return (value){.kind = REAL, .real = tw_load(type, base, index)};
    return (value){.kind = type == TW_U64 ? UNSIGNED : SIGNED,
                   .whole = tw_load_int(type, base, index)};
}

static double real_of(const value *v)
{
    if (v->kind == REAL) return v->real;
    return v->kind == UNSIGNED ? (double)(uint64_t)v->whole : (double)v->whole;
}

static int64_t whole_of(const value *v)
{
    if (v->kind != REAL) return v->whole;
    int64_t whole;
    tw_store(TW_I64, &whole, 0, v->real, 0);
    return whole;
}

static bool is_true(const value *v) { return v->kind == REAL ? v->real != 0 : v->whole != 0; }

static void store(tw_dtype type, void *base, int64_t index, const value *v, uint32_t flags)
{
    if (v->kind == REAL) {
        tw_store(type, base, index, v->real, flags);
    } else if (v->kind == SIGNED || v->whole >= 0) {
        tw_store_int(type, base, index, v->whole, flags);
    } else if (tw_dtype_is_integer(type)) {
        /* Above every signed number: the bits fit u64 and wrapped types; others saturate. */
        bool bits = type == TW_U64 || (flags & TW_CONVERT_WRAP);
        tw_store_int(type, base, index, bits ? v->whole : INT64_MAX,
                     flags | (bits ? TW_CONVERT_WRAP : 0));
    } else {
        tw_store(type, base, index, (double)(uint64_t)v->whole, flags);
    }
}

static value rounded(tw_dtype type, const value *v, uint32_t flags)
{
    uint64_t cell = 0;
    if (type == TW_AUTO) return *v;
    store(type, &cell, 0, v, flags);
    return load(type, &cell, 0);
}

static value evaluate(const tw_chain_step *step, const value *values, const int64_t *index)
{
    const value none = {.kind = SIGNED};
    const value *a = step->a < 0 ? &none : &values[step->a];
    const value *b = step->b < 0 ? &none : &values[step->b];
    const value *c = step->c < 0 ? &none : &values[step->c];
    const tw_pointwise_attrs *attrs = &step->attrs;
    bool is_real = tw_dtype_is_float(attrs->compute);
    value y = {.kind = is_real ? REAL : attrs->compute == TW_U64 ? UNSIGNED : SIGNED};
    if (attrs->mode == TW_PW_GEN_INDEX) {
        y.whole = index[attrs->axis];
        y.real = (double)y.whole;
    } else if (attrs->mode == TW_PW_SELECT) {
        const value *chosen = is_true(a) ? b : c;
        y.real = is_real ? real_of(chosen) : 0;
        y.whole = is_real ? 0 : whole_of(chosen);
    } else if (is_real) {
        y.real = tw_pw_real(attrs, real_of(a), real_of(b), real_of(c));
    } else {
        y.whole = tw_pw_whole(attrs, whole_of(a), whole_of(b), whole_of(c));
    }
    return rounded(step->round, &y, attrs->convert);
}

typedef struct reference_job {
    const tw_chain *chain;
    void *const *loads, *const *stores;
    int64_t elements;
} reference_job;

static int64_t offset_of(const tw_view *view, int32_t rank, const int64_t *index)
{
    int64_t offset = 0;
    for (int32_t d = 0; d < rank; d++) offset += index[d] * view->strides[d];
    return offset;
}

static void run_element(const reference_job *job, const int64_t *index)
{
    const tw_chain *chain = job->chain;
    value values[TW_CHAIN_VALUES];
    values[0] = (value){.kind = REAL};
    int32_t n = 1;
    for (int32_t i = 0; i < chain->n_loads; i++) {
        const tw_view *view = &chain->loads[i];
        values[n++] = load(view->dtype, job->loads[i], offset_of(view, chain->rank, index));
    }
    for (int32_t i = 0; i < chain->n_steps; i++)
        values[n++] = evaluate(&chain->steps[i], values, index);
    for (int32_t i = 0; i < chain->n_stores; i++) {
        const tw_chain_store *s = &chain->stores[i];
        int64_t offset = offset_of(&s->view, chain->rank, index);
        store(s->view.dtype, job->stores[i], offset, &values[s->value], s->convert);
    }
}

enum { ELEMENTS_PER_ITEM = 4096 };

static void run_item(void *arg, int32_t slot, int64_t item)
{
    (void)slot;
    const reference_job *job = arg;
    const tw_chain *chain = job->chain;
    int64_t index[TW_MAX_RANK] = {0}, first = item * ELEMENTS_PER_ITEM, rest = first;
    int64_t count =
        job->elements - first < ELEMENTS_PER_ITEM ? job->elements - first : ELEMENTS_PER_ITEM;
    for (int32_t d = chain->rank - 1; d >= 0; d--) {
        index[d] = rest % chain->dims[d];
        rest /= chain->dims[d];
    }
    for (int64_t i = 0; i < count; i++) {
        run_element(job, index);
        for (int32_t d = chain->rank - 1; d >= 0 && ++index[d] == chain->dims[d]; d--) index[d] = 0;
    }
}

static const char *supports(const tw_problem *problem)
{
    (void)problem;
    return NULL;
}

static tw_status run(const tw_launch *launch)
{
    tw_pw_job form;
    tw_pw_job_of(launch->problem, &form);
    const tw_chain *chain = &form.chain;
    reference_job job = {.chain = chain,
                         .loads = form.single ? launch->in : launch->loads,
                         .stores = form.single ? launch->out : launch->stores,
                         .elements = 1};
    for (int32_t d = 0; d < chain->rank; d++) job.elements *= chain->dims[d];
    bool shares_bytes = false;
    for (int32_t i = 0; i < chain->n_stores; i++)
        if (tw_dtype_bits(chain->stores[i].view.dtype) < 8) shares_bytes = true;
    int64_t items = (job.elements + ELEMENTS_PER_ITEM - 1) / ELEMENTS_PER_ITEM;
    tw_context *context = shares_bytes ? NULL : launch->context;
    tw_parallel(context, launch->problem->max_threads, items, run_item, &job);
    return TW_OK;
}

const tw_kernel_impl tw_pointwise_chain_any__ref = {
    .supports = supports, .prepare = NULL, .run = run, .in_place = 7};
