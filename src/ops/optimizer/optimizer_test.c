/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: the references against formulas in double, every kernel against the reference bit by
 * bit, in place and not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"
#include "ops/optimizer/optimizer_graph.h"

enum { MOST = 16 };

/* All tensors of one call. */
typedef struct bench {
    th_tensor in[6], out[3];
    th_call call;
} bench;

typedef struct setting {
    tw_op_kind kind;
    tw_attrs attrs;
    tw_dtype type, state;
    bool velocity;
} setting;

static th_tensor scalar(tw_dtype type, double value)
{
    th_tensor t = th_make(type, 0, NULL);
    th_set(&t, 0, value);
    return t;
}

static void set_up(bench *b, const setting *s, const tw_tensor_desc *like)
{
    bool adam = s->kind == TW_OP_ADAM;
    int32_t states = adam ? 2 : s->velocity ? 1 : 0;
    memset(b, 0, sizeof *b);
    b->call = (th_call){.kind = s->kind, .attrs = s->attrs};
    b->call.n_in = adam ? TW_ADAM_INPUTS : TW_SGD_INPUTS;
    b->call.n_out = adam ? 3 : 2;
    for (int32_t i = 0; i < 2 + states; i++) {
        tw_tensor_desc desc = *like;
        desc.dtype = i < 2 ? s->type : s->state;
        b->in[i] = th_make_like(&desc);
        th_fill_uniform(&b->in[i], 7 + (uint64_t)i, adam && i == 3 ? 0 : -1, 1);
        b->call.in[i] = &b->in[i];
        if (i == 1) continue;
        int32_t o = i == 0 ? 0 : i - 1;
        b->out[o] = th_make_like(&desc);
        b->call.out[o] = &b->out[o];
    }
    int32_t lr = adam ? TW_ADAM_LR : TW_SGD_LR;
    b->in[lr] = scalar(TW_F32, 0.125);
    b->call.in[lr] = &b->in[lr];
    if (!adam) return;
    b->in[TW_ADAM_STEP] = scalar(TW_I64, 3);
    b->call.in[TW_ADAM_STEP] = &b->in[TW_ADAM_STEP];
}

static void tear_down(bench *b)
{
    for (int i = 0; i < 6; i++) th_free(&b->in[i]);
    for (int i = 0; i < 3; i++) th_free(&b->out[i]);
}

/* ---- Formulas -------------------------------------------------------------------------------- */

static void expect_sgd(const bench *b, const tw_sgd_attrs *a, int64_t i, double want[3])
{
    double w = th_get(&b->in[0], i), g = th_get(&b->in[1], i) + a->weight_decay * w;
    bool velocity = b->call.in[2] != NULL;
    double v = velocity ? a->momentum * th_get(&b->in[2], i) + (1 - a->dampening) * g : g;
    want[0] = w - 0.125 * (a->nesterov ? g + a->momentum * v : v);
    want[1] = v;
}

static void expect_adam(const bench *b, const tw_adam_attrs *a, int64_t i, double want[3])
{
    double b1 = a->beta1 == 0 ? 0.9 : a->beta1, b2 = a->beta2 == 0 ? 0.999 : a->beta2;
    double w = th_get(&b->in[0], i), g = th_get(&b->in[1], i), wd = a->weight_decay;
    if (!a->decoupled) g += wd * w;
    double m = b1 * th_get(&b->in[2], i) + (1 - b1) * g;
    double v = b2 * th_get(&b->in[3], i) + (1 - b2) * g * g;
    double step = m / (1 - b1 * b1 * b1) / (sqrt(v / (1 - b2 * b2 * b2)) + 1e-8);
    want[0] = w - 0.125 * (step + (a->decoupled ? wd * w : 0));
    want[1] = m;
    want[2] = v;
}

/* A dozen roundings of values of magnitude 4 at most, and one to the output's type. */
static void check_formula(const setting *s)
{
    bench b;
    tw_tensor_desc desc = tw_desc(s->type, 2, (const int64_t[]){3, 5});
    set_up(&b, s, &desc);
    assert_int_equal(th_run(th_reference(s->kind), &b.call), TW_OK);
    for (int64_t i = 0; i < 15; i++) {
        double want[3];
        if (s->kind == TW_OP_ADAM)
            expect_adam(&b, &s->attrs.adam, i, want);
        else
            expect_sgd(&b, &s->attrs.sgd, i, want);
        for (int o = 0; o < 3; o++) {
            if (b.call.out[o] == NULL) continue;
            double got = th_get(&b.out[o], i), scale = fabs(want[o]) > 1 ? fabs(want[o]) : 1;
            double u = s->type == TW_F64 ? 0x1p-53 : 0x1p-24;
            double bound = 64 * u * scale + tw_dtype_epsilon(b.out[o].desc.dtype) * fabs(want[o]);
            if (!(fabs(got - want[o]) <= bound))
                fail_msg("output %d element %d: got %.9g, want %.9g", o, (int)i, got, want[o]);
        }
    }
    tear_down(&b);
}

static const setting settings[] = {
    {TW_OP_SGD, {.sgd = {.momentum = 0}}, TW_F32, TW_F32, false},
    {TW_OP_SGD, {.sgd = {.momentum = 0.9}}, TW_F32, TW_F32, true},
    {TW_OP_SGD,
     {.sgd = {.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}},
     TW_F32,
     TW_F32,
     true},
    {TW_OP_SGD, {.sgd = {.momentum = 0.5, .dampening = 0.25}}, TW_BF16, TW_F32, true},
    {TW_OP_SGD, {.sgd = {.momentum = 0.9, .weight_decay = 0.01}}, TW_F64, TW_F64, true},
    {TW_OP_SGD, {.sgd = {.weight_decay = 0.01}}, TW_F16, TW_F32, false},
    {TW_OP_ADAM, {.adam = {.weight_decay = 0}}, TW_F32, TW_F32, true},
    {TW_OP_ADAM, {.adam = {.weight_decay = 0.01}}, TW_F32, TW_F32, true},
    {TW_OP_ADAM, {.adam = {.weight_decay = 0.01, .decoupled = true}}, TW_F32, TW_F32, true},
    {TW_OP_ADAM, {.adam = {.beta1 = 0.5, .beta2 = 0.75}}, TW_BF16, TW_F32, true},
    {TW_OP_ADAM, {.adam = {.beta1 = 0.5}}, TW_F16, TW_F32, true},
    {TW_OP_ADAM, {.adam = {.weight_decay = 0.01}}, TW_F64, TW_F64, true},
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

static void formulas(void **state)
{
    (void)state;
    for (int i = 0; i < N_SETTINGS; i++) check_formula(&settings[i]);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static void check_outputs(const bench *got, const bench *want, const char *kernel)
{
    for (int o = 0; o < 3; o++) {
        if (got->call.out[o] == NULL) continue;
        assert_true(th_equal(got->call.out[o], &want->out[o], kernel));
        assert_true(th_guards_intact(got->call.out[o]));
    }
}

/* in_place: each output is the memory of what it replaces. */
static int check_kernels(const setting *s, const tw_tensor_desc *desc, bool in_place)
{
    const tw_kernel *kernels[MOST];
    int n = th_kernels(s->kind, kernels, MOST), taken = 0;
    bench want;
    set_up(&want, s, desc);
    assert_int_equal(th_run(th_reference(s->kind), &want.call), TW_OK);
    for (int k = 0; k < n; k++) {
        for (int threads = 1; threads <= 2; threads++) {
            bench got;
            set_up(&got, s, desc);
            got.call.threads = threads;
            for (int o = 0; o < 3 && in_place; o++)
                if (got.call.out[o]) got.call.out[o] = &got.in[o == 0 ? 0 : o + 1];
            if (th_refuses(kernels[k], &got.call) == NULL) {
                taken += !kernels[k]->reference;
                assert_int_equal(th_run(kernels[k], &got.call), TW_OK);
                check_outputs(&got, &want, kernels[k]->name);
            }
            tear_down(&got);
        }
    }
    tear_down(&want);
    return taken;
}

static void kernels_equal_the_reference(void **state)
{
    static const int64_t sizes[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 33, 1000, 16384, 40001};
    (void)state;
    for (int i = 0; i < N_SETTINGS; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            tw_tensor_desc desc = tw_desc(settings[i].type, 1, &sizes[k]);
            int taken = check_kernels(&settings[i], &desc, k % 2 == 0);
            assert_int_equal(taken > 0, settings[i].type != TW_F64);
        }
}

static void strided_tensors(void **state)
{
    (void)state;
    tw_tensor_desc dense = tw_desc(TW_F32, 3, (const int64_t[]){3, 5, 4});
    dense.has_strides = true;
    memcpy(dense.strides, (const int64_t[]){5, 1, 15}, 3 * sizeof(int64_t));
    tw_tensor_desc gapped = dense;
    memcpy(gapped.strides, (const int64_t[]){30, 6, 1}, 3 * sizeof(int64_t));
    for (int i = 0; i < N_SETTINGS; i++) {
        if (settings[i].type != TW_F32) continue;
        assert_true(check_kernels(&settings[i], &dense, false) > 0);
        assert_int_equal(check_kernels(&settings[i], &gapped, true), 0);
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void step_counts_from_one(void **state)
{
    const tw_kernel *kernels[MOST];
    int n = th_kernels(TW_OP_ADAM, kernels, MOST);
    bench b;
    tw_tensor_desc desc = tw_desc(TW_F32, 1, (const int64_t[]){4});
    (void)state;
    set_up(&b, &settings[6], &desc);
    for (int k = 0; k < n; k++)
        for (int step = -1; step <= 0; step++) {
            th_set(&b.in[TW_ADAM_STEP], 0, step);
            assert_int_equal(th_run(kernels[k], &b.call), TW_INVALID_ARGUMENT);
            assert_non_null(strstr(tw_last_error(), "step"));
        }
    th_set(&b.in[TW_ADAM_STEP], 0, 0x1p40); /* the correction is 1 by then */
    assert_int_equal(th_run(kernels[0], &b.call), TW_OK);
    for (int i = 0; i < 4; i++) assert_true(isfinite(th_get(&b.out[0], i)));
    tear_down(&b);
}

static void refuse(bench *b, const char *word)
{
    tw_attrs attrs;
    tw_tensor_desc desc[4];
    assert_int_equal(th_infer(&b->call, &attrs, desc), TW_INVALID_ARGUMENT);
    if (strstr(tw_last_error(), word) == NULL) fail_msg("no \"%s\": %s", word, tw_last_error());
}

static void refusals(void **state)
{
    bench b;
    tw_tensor_desc desc = tw_desc(TW_F32, 1, (const int64_t[]){4});
    th_tensor other = th_make(TW_F32, 1, (const int64_t[]){5}), whole = scalar(TW_I32, 1);
    (void)state;
    set_up(&b, &settings[0], &desc);
    b.call.attrs.sgd.momentum = 0.9;
    refuse(&b, "velocity");
    b.call.attrs.sgd.momentum = NAN;
    refuse(&b, "momentum");
    b.call.attrs.sgd.momentum = 0;
    b.call.in[TW_SGD_GRAD] = &other;
    refuse(&b, "grad");
    b.call.in[TW_SGD_GRAD] = &b.in[TW_SGD_GRAD];
    b.call.in[TW_SGD_LR] = &whole;
    refuse(&b, "lr");
    tear_down(&b);
    set_up(&b, &settings[6], &desc);
    b.call.attrs.adam.beta2 = 1;
    refuse(&b, "beta2");
    b.call.attrs.adam.beta2 = 0;
    b.call.in[TW_ADAM_STEP] = &whole;
    refuse(&b, "step");
    tear_down(&b);
    th_free(&other);
    th_free(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas),        cmocka_unit_test(kernels_equal_the_reference),
        cmocka_unit_test(strided_tensors), cmocka_unit_test(step_counts_from_one),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
