/* SPDX-License-Identifier: Apache-2.0 */
/* dropout: the mask against Philox, every row against the reference, rates 0 and 1, gradients. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "core/error.h"
#include "harness.h"
#include "tile/cpu/philox.h"

enum { MAX_KERNELS = 16 };

typedef struct shape {
    int32_t rank;
    int64_t dims[3], x[3], y[3], mask[3]; /* strides, or 0: row-major */
} shape;

static const shape shapes[] = {
    {0, {0}, {0}, {0}, {0}},
    {1, {0}, {0}, {0}, {0}},
    {1, {1}, {0}, {0}, {0}},
    {1, {255}, {0}, {0}, {0}},
    {1, {257}, {0}, {0}, {0}},
    {2, {7, 0}, {0}, {0}, {0}},
    {2, {5, 3277}, {0}, {0}, {0}},
    {3, {3, 37, 151}, {0}, {0}, {0}},
    {3, {4, 65, 70}, {4550, 1, 65}, {4550, 1, 65}, {4550, 1, 65}},
    {3, {4, 65, 70}, {0}, {4550, 1, 65}, {9100, 140, 2}},
    {2, {300, 100}, {0, 1}, {101, 1}, {0}}, /* x is one row, repeated */
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static th_tensor make(tw_dtype dtype, const shape *s, const int64_t *strides)
{
    bool row_major = true;
    for (int32_t d = 0; d < s->rank; d++) row_major = row_major && strides[d] == 0;
    if (row_major) return th_make(dtype, s->rank, s->dims);
    return th_make_strided(dtype, s->rank, s->dims, strides);
}

static th_call forward_call(double rate, th_tensor *x, th_tensor *y, th_tensor *mask)
{
    return (th_call){
        .kind = TW_OP_DROPOUT,
        .attrs = {.dropout = {.rate = rate, .seed = INT64_C(0x7654321089), .offset = 17}},
        .n_in = 1,
        .n_out = 2,
        .in = {x},
        .out = {y, mask},
    };
}

static th_call backward_call(double rate, th_tensor *dy, th_tensor *mask, th_tensor *dx)
{
    return (th_call){
        .kind = TW_OP_DROPOUT_BACKWARD,
        .attrs = {.dropout = {.rate = rate}},
        .n_in = 2,
        .n_out = 1,
        .in = {dy, mask},
        .out = {dx},
    };
}

static bool kept(double rate, int64_t i)
{
    const tw_philox stream = {UINT64_C(0x7654321089), 17};
    return tw_philox_word(stream, i) >= tw_philox_threshold(rate);
}

static void run(const tw_kernel *kernel, const th_call *call)
{
    assert_null(th_refuses(kernel, call));
    assert_int_equal(th_run(kernel, call), TW_OK);
    for (int32_t i = 0; i < call->n_out; i++) {
        if (call->out[i] != NULL) assert_true(th_guards_intact(call->out[i]));
    }
}

static const double rates[] = {0, 0x1p-32, 0.1, 0.5, 0.9, 1 - 0x1p-31, 1};
enum { RATES = sizeof rates / sizeof rates[0] };

/* ---- The reference against the definition ---------------------------------------------------- */

static void check_definition(tw_dtype dtype, double rate)
{
    const int64_t n = 3001;
    th_tensor x = th_make(dtype, 1, &n), y = th_make(dtype, 1, &n), want = th_make(dtype, 1, &n);
    th_tensor mask = th_make(TW_BOOL, 1, &n), dx = th_make(dtype, 1, &n);
    th_fill_uniform(&x, 5, -2, 2);
    for (int64_t i = 0; i < n; i++) {
        th_set(&want, i, kept(rate, i) ? th_get(&x, i) / (1 - rate) : 0);
    }
    const th_call forward = forward_call(rate, &x, &y, &mask);
    run(th_reference(TW_OP_DROPOUT), &forward);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(((const uint8_t *)mask.data)[i], kept(rate, i));
    }
    assert_true(th_within_ulps(&y, &want, 2, "y"));
    const th_call backward = backward_call(rate, &x, &mask, &dx);
    run(th_reference(TW_OP_DROPOUT_BACKWARD), &backward);
    assert_true(th_equal(&dx, &y, "dx for dy = x"));
    th_free(&x);
    th_free(&y);
    th_free(&want);
    th_free(&mask);
    th_free(&dx);
}

static void reference_follows_the_definition(void **state)
{
    (void)state;
    static const tw_dtype types[] = {TW_F64, TW_F32, TW_F16, TW_BF16, TW_E4M3FN, TW_E5M2};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int r = 0; r < RATES; r++) check_definition(types[t], rates[r]);
    }
}

static void share_of_dropped_elements_is_the_rate(void **state)
{
    (void)state;
    enum { N = 100000 };
    for (int r = 0; r < RATES; r++) {
        int64_t dropped = 0;
        for (int64_t i = 0; i < N; i++) dropped += !kept(rates[r], i);
        const double deviation = sqrt(N * rates[r] * (1 - rates[r]));
        assert_true(fabs((double)dropped - N * rates[r]) <= 6 * deviation + 1);
    }
}

/* ---- Rows against the references ------------------------------------------------------------- */

typedef struct operands {
    th_tensor x, y, mask;
} operands;

static operands make_operands(const shape *s)
{
    operands o = {make(TW_F32, s, s->x), make(TW_F32, s, s->y), make(TW_BOOL, s, s->mask)};
    th_fill_uniform(&o.x, 11, -1, 1);
    return o;
}

static void free_operands(operands *o)
{
    th_free(&o->x);
    th_free(&o->y);
    th_free(&o->mask);
}

static void check_forward_row(const tw_kernel *kernel, const shape *s, double rate)
{
    operands want = make_operands(s);
    const th_call reference = forward_call(rate, &want.x, &want.y, &want.mask);
    run(th_reference(TW_OP_DROPOUT), &reference);
    for (int variant = 0; variant < 4; variant++) {
        operands got = make_operands(s);
        const bool with_mask = variant < 2;
        th_call call = forward_call(rate, &got.x, &got.y, with_mask ? &got.mask : NULL);
        call.threads = 1 + variant % 2 * 2;
        run(kernel, &call);
        assert_true(th_equal(&got.y, &want.y, kernel->name));
        if (with_mask) assert_true(th_equal(&got.mask, &want.mask, kernel->name));
        free_operands(&got);
    }
    free_operands(&want);
}

static void check_backward_row(const tw_kernel *kernel, const shape *s, double rate)
{
    operands want = make_operands(s);
    th_fill_integers(&want.mask, 3, 0, 1);
    const th_call reference = backward_call(rate, &want.x, &want.mask, &want.y);
    run(th_reference(TW_OP_DROPOUT_BACKWARD), &reference);
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        th_tensor dx = make(TW_F32, s, s->y);
        th_call call = backward_call(rate, &want.x, &want.mask, &dx);
        call.threads = threads;
        run(kernel, &call);
        assert_true(th_equal(&dx, &want.y, kernel->name));
        th_free(&dx);
    }
    free_operands(&want);
}

static void for_rows(tw_op_kind kind, void (*check)(const tw_kernel *, const shape *, double))
{
    static const double rates_of_rows[] = {0, 0.1, 1 - 0x1p-31, 1};
    const tw_kernel *kernels[MAX_KERNELS];
    const int count = th_kernels(kind, kernels, MAX_KERNELS);
    assert_true(count >= 1);
    for (int k = 0; k < count; k++) {
        for (int s = 0; s < SHAPES; s++) {
            for (int r = 0; r < 4; r++) check(kernels[k], &shapes[s], rates_of_rows[r]);
        }
    }
}

static void forward_rows_agree(void **state)
{
    (void)state;
    for_rows(TW_OP_DROPOUT, check_forward_row);
}

static void backward_rows_agree(void **state)
{
    (void)state;
    for_rows(TW_OP_DROPOUT_BACKWARD, check_backward_row);
}

/* ---- Special values -------------------------------------------------------------------------- */

static void fill_specials(th_tensor *x)
{
    static const double specials[] = {NAN, INFINITY, -INFINITY, -0.0, 0x1p-149, -0x1p-130, 3e38};
    for (int64_t i = 0; i < th_elements(x); i++) th_set(x, i, specials[i % 7]);
}

/* Bit for bit: a NaN keeps its sign and payload, a zero its sign. */
static void rate_0_is_identity(void **state)
{
    (void)state;
    const int64_t n = 1003;
    const tw_kernel *kernels[MAX_KERNELS];
    const int count = th_kernels(TW_OP_DROPOUT, kernels, MAX_KERNELS);
    for (int k = 0; k < count; k++) {
        th_tensor x = th_make(TW_F32, 1, &n), y = th_make(TW_F32, 1, &n);
        fill_specials(&x);
        const th_call call = forward_call(0, &x, &y, NULL);
        run(kernels[k], &call);
        assert_memory_equal(x.data, y.data, (size_t)n * 4);
        th_free(&x);
        th_free(&y);
    }
}

static void dropped_elements_are_plus_zero(void **state)
{
    (void)state;
    const int64_t n = 1003;
    const tw_kernel *kernels[MAX_KERNELS];
    const int count = th_kernels(TW_OP_DROPOUT, kernels, MAX_KERNELS);
    for (int k = 0; k < count; k++) {
        th_tensor x = th_make(TW_F32, 1, &n), y = th_make(TW_F32, 1, &n);
        fill_specials(&x);
        for (int half = 0; half < 2; half++) {
            const double rate = half ? 0.5 : 1;
            const th_call call = forward_call(rate, &x, &y, NULL);
            run(kernels[k], &call);
            for (int64_t i = 0; i < n; i++) {
                const double value = th_get(&y, i);
                if (!kept(rate, i)) assert_true(value == 0 && !signbit(value));
                if (kept(rate, i) && i % 7 == 0) assert_true(isnan(value));
                if (kept(rate, i) && i % 7 == 1) assert_true(value == (double)INFINITY);
            }
        }
        th_free(&x);
        th_free(&y);
    }
}

static void any_byte_of_a_mask_is_true(void **state)
{
    (void)state;
    const int64_t n = 600;
    const tw_kernel *kernels[MAX_KERNELS];
    const int count = th_kernels(TW_OP_DROPOUT_BACKWARD, kernels, MAX_KERNELS);
    for (int k = 0; k < count; k++) {
        th_tensor dy = th_make(TW_F32, 1, &n), dx = th_make(TW_F32, 1, &n);
        th_tensor mask = th_make(TW_BOOL, 1, &n);
        th_fill_value(&dy, 1);
        for (int64_t i = 0; i < n; i++) ((uint8_t *)mask.data)[i] = (uint8_t)i;
        for (int one = 0; one < 2; one++) {
            const th_call call = backward_call(one ? 1 : 0.5, &dy, &mask, &dx);
            run(kernels[k], &call);
            for (int64_t i = 0; i < n; i++) {
                assert_true(th_get(&dx, i) == (!one && (uint8_t)i != 0 ? 2 : 0));
            }
        }
        th_free(&dy);
        th_free(&dx);
        th_free(&mask);
    }
}

static void in_place(void **state)
{
    (void)state;
    const int64_t n = 20000;
    const tw_kernel *kernels[MAX_KERNELS];
    const int count = th_kernels(TW_OP_DROPOUT, kernels, MAX_KERNELS);
    th_tensor x = th_make(TW_F32, 1, &n), want = th_make(TW_F32, 1, &n);
    th_fill_uniform(&x, 2, -1, 1);
    const th_call reference = forward_call(0.3, &x, &want, NULL);
    run(th_reference(TW_OP_DROPOUT), &reference);
    for (int k = 0; k < count; k++) {
        th_fill_uniform(&x, 2, -1, 1);
        th_call call = forward_call(0.3, &x, &x, NULL);
        call.threads = 3;
        assert_true((kernels[k]->impl->in_place & 1) != 0);
        run(kernels[k], &call);
        assert_true(th_equal(&x, &want, kernels[k]->name));
    }
    th_free(&x);
    th_free(&want);
}

/* ---- Refusals and gradient ------------------------------------------------------------------- */

static void check_refused(const th_call *call, const char *part)
{
    tw_attrs normal;
    tw_tensor_desc desc[4];
    assert_int_equal(th_infer(call, &normal, desc), TW_INVALID_ARGUMENT);
    if (strstr(tw_last_error(), part) == NULL) fail_msg("\"%s\" lacks %s", tw_last_error(), part);
}

static void ill_defined_calls_are_refused(void **state)
{
    (void)state;
    const int64_t n = 4, m = 5;
    th_tensor x = th_make(TW_F32, 1, &n), y = th_make(TW_F32, 1, &n), i = th_make(TW_I32, 1, &n);
    th_tensor mask = th_make(TW_BOOL, 1, &n), longer = th_make(TW_BOOL, 1, &m);
    th_call call = forward_call(-0.1, &x, &y, NULL);
    check_refused(&call, "-0.1");
    call = forward_call((double)NAN, &x, &y, NULL);
    check_refused(&call, "nan");
    call = forward_call(0.5, &i, &y, NULL);
    check_refused(&call, "x is i32");
    call = forward_call(0.5, &x, &i, NULL);
    check_refused(&call, "y is declared as i32");
    call = forward_call(0.5, &x, &y, &x);
    check_refused(&call, "mask is f32");
    call = backward_call(0.5, &x, &longer, &y);
    check_refused(&call, "dim 0 of mask is 5");
    call = backward_call(1.5, &x, &mask, &y);
    check_refused(&call, "1.5");
    th_free(&x);
    th_free(&y);
    th_free(&i);
    th_free(&mask);
    th_free(&longer);
}

/* A builder that only writes down what it was asked for. */
typedef struct recorder {
    tw_op_kind kind;
    tw_tensor in[2];
    double rate;
    int adds, outputs;
    tw_dtype dtype;
} recorder;

static tw_status record_tensor(void *graph, const tw_tensor_desc *desc, tw_tensor *tensor)
{
    ((recorder *)graph)->dtype = desc->dtype;
    *tensor = 30;
    return TW_OK;
}

static tw_status record_add(void *graph, tw_op_kind kind, const tw_attrs *attrs, int32_t n_in,
                            const tw_tensor *in, int32_t n_out, tw_tensor *out)
{
    recorder *r = graph;
    TW_REQUIRE(n_in == 2 && n_out == 1 && out[0] == 30, TW_INTERNAL, "unexpected operands");
    r->kind = kind;
    r->rate = attrs->dropout.rate;
    r->in[0] = in[0];
    r->in[1] = in[1];
    r->adds++;
    return TW_OK;
}

static tw_status describe_f16(const void *graph, tw_tensor tensor, tw_tensor_desc *desc)
{
    (void)graph;
    (void)tensor;
    *desc = tw_desc(TW_F16, 1, (const int64_t[]){4});
    return TW_OK;
}

static tw_status add_mask(const tw_gradient *gradient, int32_t output, tw_dtype dtype,
                          const tw_attrs *attrs, tw_tensor *tensor)
{
    TW_REQUIRE(output == 1 && dtype == TW_BOOL && attrs == NULL, TW_INTERNAL, "not the mask");
    ((recorder *)gradient->builder->graph)->outputs++;
    *tensor = 20;
    return TW_OK;
}

static void check_gradient(tw_op_kind kind, tw_tensor mask, bool want, recorder *r)
{
    const tw_builder builder = {
        .graph = r, .tensor = record_tensor, .add = record_add, .describe = describe_f16};
    const tw_attrs attrs = {.dropout = {.rate = 0.25, .seed = 5}};
    const bool forward = kind == TW_OP_DROPOUT;
    const tw_tensor in[2] = {1, forward ? TW_NONE : mask}, out[2] = {2, forward ? mask : TW_NONE};
    const tw_tensor dy[2] = {10, TW_NONE};
    const bool wanted[2] = {want, false};
    tw_tensor dx[2] = {TW_NONE, TW_NONE};
    const tw_gradient gradient = {.builder = &builder,
                                  .attrs = &attrs,
                                  .n_in = forward ? 1 : 2,
                                  .n_out = forward ? 2 : 1,
                                  .in = in,
                                  .out = out,
                                  .dy = dy,
                                  .want = wanted,
                                  .dx = dx,
                                  .add_output = add_mask};
    assert_int_equal(tw_op_info_of(kind)->gradient(&gradient), TW_OK);
    assert_int_equal(dx[0], want ? 30 : TW_NONE);
}

static void gradients_go_through_the_mask(void **state)
{
    (void)state;
    static const struct {
        tw_op_kind kind;
        tw_tensor mask, used;
    } cases[] = {
        {TW_OP_DROPOUT, 7, 7}, {TW_OP_DROPOUT, TW_NONE, 20}, {TW_OP_DROPOUT_BACKWARD, 8, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        recorder r = {0};
        check_gradient(cases[i].kind, cases[i].mask, true, &r);
        assert_int_equal(r.adds, 1);
        assert_int_equal(r.kind, TW_OP_DROPOUT_BACKWARD);
        assert_int_equal(r.in[0], 10);
        assert_int_equal(r.in[1], cases[i].used);
        assert_int_equal(r.outputs, cases[i].used == 20);
        assert_true(r.rate == 0.25 && r.dtype == TW_F16);
        r = (recorder){0};
        check_gradient(cases[i].kind, cases[i].mask, false, &r);
        assert_int_equal(r.adds + r.outputs, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_follows_the_definition),
        cmocka_unit_test(share_of_dropped_elements_is_the_rate),
        cmocka_unit_test(forward_rows_agree),
        cmocka_unit_test(backward_rows_agree),
        cmocka_unit_test(rate_0_is_identity),
        cmocka_unit_test(dropped_elements_are_plus_zero),
        cmocka_unit_test(any_byte_of_a_mask_is_true),
        cmocka_unit_test(in_place),
        cmocka_unit_test(ill_defined_calls_are_refused),
        cmocka_unit_test(gradients_go_through_the_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
