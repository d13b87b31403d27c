/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers over dense tensors of one layout: one pass, threaded. Every operation is rounded on
 * its own, in the reference's order, so that results are the reference's bit by bit. Each vector is
 * loaded before any result of it is stored: every output may be the memory of what it replaces.
 */
#include "arch/cpu/vec.h"

#include "core/error.h"
#include "ops/optimizer/optimizer_flat.h"
#include "runtime/cpu/parallel.h"

typedef struct flat_tensor {
    void *data; /* NULL: absent */
    tw_dtype type;
} flat_tensor;

typedef struct flat_task {
    flat_tensor in[4], out[3];
    int64_t n;
    tw_sgd_coefs sgd;
    tw_adam_coefs adam;
} flat_task;

static flat_tensor operand(const tw_launch *launch, int32_t i)
{
    return (flat_tensor){launch->in[i], launch->problem->in[i].dtype};
}

static flat_tensor result(const tw_launch *launch, int32_t i)
{
    bool absent = i >= launch->problem->n_out || launch->problem->out[i].dtype == TW_AUTO;
    if (absent) return (flat_tensor){NULL, TW_AUTO};
    return (flat_tensor){launch->out[i], launch->problem->out[i].dtype};
}

TW_INLINE vf load(const flat_tensor *t, int64_t at, int count)
{
    const float *wide = (const float *)t->data + at;
    const uint16_t *narrow = (const uint16_t *)t->data + at;
    bool whole = count == VLANES;
    if (t->type == TW_F32) return whole ? vf_load(wide) : vf_load_n(wide, count);
    if (t->type == TW_BF16) return whole ? vf_load_bf16(narrow) : vf_load_bf16_n(narrow, count);
    return whole ? vf_load_f16(narrow) : vf_load_f16_n(narrow, count);
}

TW_INLINE void store_f32(float *p, vf v, int count)
{
    if (count == VLANES)
        vf_store(p, v);
    else
        vf_store_n(p, v, count);
}

TW_INLINE void store(const flat_tensor *t, int64_t at, vf v, int count)
{
    uint16_t *narrow = (uint16_t *)t->data + at;
    bool whole = count == VLANES;
    if (t->data == NULL) return;
    if (t->type == TW_F32)
        store_f32((float *)t->data + at, v, count);
    else if (t->type == TW_BF16 && whole)
        vf_store_bf16(narrow, v);
    else if (t->type == TW_BF16)
        vf_store_bf16_n(narrow, v, count);
    else if (whole)
        vf_store_f16(narrow, v);
    else
        vf_store_f16_n(narrow, v, count);
}

TW_INLINE vf scaled_sum(vf a, double scale, vf b)
{
    return vf_add(a, vf_mul(vf_set((float)scale), b));
}

TW_INLINE void sgd_vector(const flat_task *t, int64_t at, int count)
{
    const tw_sgd_coefs *c = &t->sgd;
    vf w = load(&t->in[TW_SGD_PARAM], at, count), g = load(&t->in[TW_SGD_GRAD], at, count);
    if (c->decay != 0) g = scaled_sum(g, c->decay, w);
    vf step = g;
    if (t->in[TW_SGD_VELOCITY].data != NULL) {
        vf v = vf_mul(vf_set((float)c->momentum), load(&t->in[TW_SGD_VELOCITY], at, count));
        v = scaled_sum(v, c->fresh, g);
        step = c->nesterov ? scaled_sum(g, c->momentum, v) : v;
        store(&t->out[1], at, v, count);
    }
    store(&t->out[0], at, vf_sub(w, vf_mul(vf_set((float)c->lr), step)), count);
}

TW_INLINE void adam_vector(const flat_task *t, int64_t at, int count)
{
    const tw_adam_coefs *c = &t->adam;
    vf w = load(&t->in[TW_ADAM_PARAM], at, count), g = load(&t->in[TW_ADAM_GRAD], at, count);
    vf m = vf_mul(vf_set((float)c->beta1), load(&t->in[TW_ADAM_M], at, count));
    vf v = vf_mul(vf_set((float)c->beta2), load(&t->in[TW_ADAM_V], at, count));
    if (c->decay != 0) g = scaled_sum(g, c->decay, w);
    m = scaled_sum(m, c->fresh1, g);
    v = scaled_sum(v, c->fresh2, vf_mul(g, g));
    vf root = vf_mul(vf_sqrt(v), vf_set((float)c->spread));
    vf step = vf_div(m, vf_add(root, vf_set((float)c->eps)));
    if (c->shrink != 1) w = vf_mul(w, vf_set((float)c->shrink));
    store(&t->out[0], at, vf_sub(w, vf_mul(vf_set((float)c->rate), step)), count);
    store(&t->out[1], at, m, count);
    store(&t->out[2], at, v, count);
}

#define FLAT_ITEM(name)                                                                            \
    static void name##_item(void *arg, int32_t slot, int64_t item)                                 \
    {                                                                                              \
        const flat_task *t = arg;                                                                  \
        int64_t at = item * TW_FLAT_ITEM, end = at + TW_FLAT_ITEM;                                 \
        (void)slot;                                                                                \
        if (end > t->n) end = t->n;                                                                \
        for (; at + VLANES <= end; at += VLANES) name##_vector(t, at, VLANES);                     \
        if (at < end) name##_vector(t, at, (int)(end - at));                                       \
    }

FLAT_ITEM(sgd)
FLAT_ITEM(adam)

static void run_items(const tw_launch *launch, tw_slot_task item, flat_task *task)
{
    task->n = tw_flat_elements(&launch->problem->in[0]);
    int64_t items = (task->n + TW_FLAT_ITEM - 1) / TW_FLAT_ITEM;
    tw_parallel(launch->context, launch->problem->max_threads, items, item, task);
}

static tw_status run_sgd(const tw_launch *launch)
{
    flat_task task = {.sgd = tw_sgd_coefs_of(launch)};
    for (int32_t i = 0; i <= TW_SGD_VELOCITY; i++) task.in[i] = operand(launch, i);
    for (int32_t i = 0; i < 2; i++) task.out[i] = result(launch, i);
    run_items(launch, sgd_item, &task);
    return TW_OK;
}

static tw_status run_adam(const tw_launch *launch)
{
    flat_task task = {.n = 0};
    TW_TRY(tw_adam_coefs_of(launch, &task.adam));
    for (int32_t i = 0; i <= TW_ADAM_V; i++) task.in[i] = operand(launch, i);
    for (int32_t i = 0; i < 3; i++) task.out[i] = result(launch, i);
    run_items(launch, adam_item, &task);
    return TW_OK;
}

const tw_kernel_impl TW_SYMBOL(tw_optimizer_sgd_mixed) = {.supports = tw_flat_refuses,
                                                          .run = run_sgd,
                                                          .in_place = 1u << TW_SGD_PARAM |
                                                                      1u << TW_SGD_VELOCITY};
const tw_kernel_impl TW_SYMBOL(tw_optimizer_adam_mixed) = {
    .supports = tw_flat_refuses,
    .run = run_adam,
    .in_place = 1u << TW_ADAM_PARAM | 1u << TW_ADAM_M | 1u << TW_ADAM_V};
