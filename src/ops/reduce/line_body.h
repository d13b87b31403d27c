/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stretches of a line as blocks of f32, and folds over a block: what the vector kernels of reduce,
 * softmax and loss are made of. A block's fold is f32 over a few independent accumulators; blocks
 * meet in double. So an element passes through at most LINE_BLOCK/(4·VLANES) + log2(4·VLANES)
 * additions in f32, whatever the length of the line.
 */
#ifndef TW_OPS_REDUCE_LINE_BODY_H
#define TW_OPS_REDUCE_LINE_BODY_H

#include <math.h>
#include <string.h>

#include <tilework/tensor.h>

#include "arch/cpu/vec.h"
#include "tile/cpu/vecmath.h"

enum { LINE_BLOCK = 1024 };

typedef struct line_view {
    tw_dtype type; /* f32, f16 or bf16 */
    void *data;
    int64_t stride;
} line_view;

/* The first m lanes, or all: a whole vector needs no mask, which is dear on some targets. */
TW_INLINE vf line_load(const float *p, int m) { return m >= VLANES ? vf_load(p) : vf_load_n(p, m); }
TW_INLINE void line_store(float *p, vf v, int m)
{
    if (m >= VLANES)
        vf_store(p, v);
    else
        vf_store_n(p, v, m);
}

TW_INLINE void line_widen(tw_dtype type, const uint16_t *p, int n, float *to)
{
    for (int i = 0; i < n; i += VLANES) {
        int m = n - i;
        if (m >= VLANES) {
            vf_store(to + i, type == TW_F16 ? vf_load_f16(p + i) : vf_load_bf16(p + i));
        } else {
            vf_store_n(to + i, type == TW_F16 ? vf_load_f16_n(p + i, m) : vf_load_bf16_n(p + i, m),
                       m);
        }
    }
}

TW_INLINE void line_narrow(tw_dtype type, const float *from, int n, uint16_t *p)
{
    int i = 0;
    for (; i + VLANES <= n; i += VLANES) {
        if (type == TW_F16)
            vf_store_f16(p + i, vf_load(from + i));
        else
            vf_store_bf16(p + i, vf_load(from + i));
    }
    if (i == n) return;
    if (type == TW_F16)
        vf_store_f16_n(p + i, vf_load_n(from + i, n - i), n - i);
    else
        vf_store_bf16_n(p + i, vf_load_n(from + i, n - i), n - i);
}

/* n <= LINE_BLOCK elements from `offset` on, as f32: in place where they are, else in `buffer`. */
static inline const float *line_read(const line_view *view, int64_t offset, int n, float *buffer)
{
    int64_t step = view->stride;
    if (view->type == TW_F32) {
        const float *p = (const float *)view->data + offset;
        if (step == 1) return p;
        for (int i = 0; i < n; i++) buffer[i] = p[i * step];
        return buffer;
    }
    const uint16_t *p = (const uint16_t *)view->data + offset;
    uint16_t gathered[LINE_BLOCK];
    if (step != 1) {
        for (int i = 0; i < n; i++) gathered[i] = p[i * step];
        p = gathered;
    }
    line_widen(view->type, p, n, buffer);
    return buffer;
}

/* Where a block may be computed before line_write: at its place if that is contiguous f32. */
static inline float *line_target(const line_view *view, int64_t offset, float *buffer)
{
    return view->type == TW_F32 && view->stride == 1 ? (float *)view->data + offset : buffer;
}

static inline void line_write(const line_view *view, int64_t offset, int n, const float *buffer)
{
    int64_t step = view->stride;
    if (view->type == TW_F32) {
        float *p = (float *)view->data + offset;
        if (p == buffer) return;
        for (int i = 0; i < n; i++) p[i * step] = buffer[i];
        return;
    }
    uint16_t *p = (uint16_t *)view->data + offset;
    if (step == 1) {
        line_narrow(view->type, buffer, n, p);
        return;
    }
    uint16_t narrow[LINE_BLOCK];
    line_narrow(view->type, buffer, n, narrow);
    for (int i = 0; i < n; i++) p[i * step] = narrow[i];
}

typedef enum line_fold {
    FOLD_SUM,
    FOLD_SUM_ABS,
    FOLD_SUM_SQUARE,
    FOLD_MAX,
    FOLD_MIN,
    FOLD_MAX_ABS
} line_fold;

TW_INLINE vf fold_identity(line_fold fold)
{
    return fold == FOLD_MAX ? vf_set(-INFINITY) : fold == FOLD_MIN ? vf_set(INFINITY) : vf_zero();
}

/* acc with v folded in, v being an element, not a partial result. */
TW_INLINE vf fold_in(line_fold fold, vf acc, vf v)
{
    switch (fold) {
    case FOLD_SUM_ABS: return vf_add(acc, vf_abs(v));
    case FOLD_SUM_SQUARE: return vf_fma(v, v, acc);
    case FOLD_MAX: return vf_max(acc, v);
    case FOLD_MIN: return vf_min(acc, v);
    case FOLD_MAX_ABS: return vf_max(acc, vf_abs(v));
    default: return vf_add(acc, v);
    }
}

/* A partial result of one element. */
TW_INLINE vf fold_first(line_fold fold, vf v)
{
    return fold == FOLD_SUM_ABS || fold == FOLD_MAX_ABS ? vf_abs(v) : v;
}

TW_INLINE vf fold_join(line_fold fold, vf a, vf b)
{
    if (fold == FOLD_MIN) return vf_min(a, b);
    return fold == FOLD_MAX || fold == FOLD_MAX_ABS ? vf_max(a, b) : vf_add(a, b);
}

TW_INLINE float fold_lanes(line_fold fold, vf v)
{
    if (fold == FOLD_MIN) return vf_hmin(v);
    return fold == FOLD_MAX || fold == FOLD_MAX_ABS ? vf_hmax(v) : vf_sum(v);
}

TW_INLINE vf fold_tail(line_fold fold, const float *p, int n)
{
    return vf_select(vm_first(n), vf_load_n(p, n), fold_identity(fold));
}

/* `fold` is a constant at every call. */
TW_INLINE float line_fold_block(line_fold fold, const float *p, int n)
{
    vf a = fold_identity(fold), b = a, c = a, d = a;
    int i = 0;
    for (; i + 4 * VLANES <= n; i += 4 * VLANES) {
        a = fold_in(fold, a, vf_load(p + i));
        b = fold_in(fold, b, vf_load(p + i + VLANES));
        c = fold_in(fold, c, vf_load(p + i + 2 * VLANES));
        d = fold_in(fold, d, vf_load(p + i + 3 * VLANES));
    }
    for (; i + VLANES <= n; i += VLANES) a = fold_in(fold, a, vf_load(p + i));
    if (i < n) b = fold_in(fold, b, fold_tail(fold, p + i, n - i));
    return fold_lanes(fold, fold_join(fold, fold_join(fold, a, b), fold_join(fold, c, d)));
}

/* In double, where squares of f32 neither overflow nor vanish. */
static double line_sum_square_wide(const float *p, int n)
{
    double acc[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) acc[j] += (double)p[i + j] * (double)p[i + j];
    for (; i < n; i++) acc[0] += (double)p[i] * (double)p[i];
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++) acc[j] += acc[j + half];
    return acc[0];
}

/* The f32 sum is good if it did not overflow and is so large that squares below 2^-126, which lost
 * digits, do not count. */
static inline double line_sum_square(const float *p, int n)
{
    float sum = line_fold_block(FOLD_SUM_SQUARE, p, n);
    return sum > 1e-20f && sum < INFINITY ? (double)sum : line_sum_square_wide(p, n);
}

/* Σ exp(x - top), top not below any x and finite; the terms are stored at `terms` unless NULL. */
static inline float line_sum_exp(const float *p, int n, float top, float *terms)
{
    vf shift = vf_set(top), a = vf_zero(), b = vf_zero();
    int i = 0;
    for (; i + 2 * VLANES <= n; i += 2 * VLANES) {
        vf u = vf_exp(vf_sub(vf_load(p + i), shift));
        vf v = vf_exp(vf_sub(vf_load(p + i + VLANES), shift));
        a = vf_add(a, u);
        b = vf_add(b, v);
        if (terms) {
            vf_store(terms + i, u);
            vf_store(terms + i + VLANES, v);
        }
    }
    for (; i < n; i += VLANES) {
        int m = n - i < VLANES ? n - i : VLANES;
        vf u = vf_exp(vf_sub(line_load(p + i, m), shift));
        a = vf_add(a, vf_select(vm_first(m), u, vf_zero()));
        if (terms) line_store(terms + i, u, m);
    }
    return vf_sum(vf_add(a, b));
}

#endif
