/* SPDX-License-Identifier: Apache-2.0 */
/* Every softmax kernel, the reference included, against formulas in long double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"

enum { MAX_ELEMENTS = 200000 };

/* Statistics of a line, at the place of its first element. */
typedef struct oracle {
    long double top[MAX_ELEMENTS], sum[MAX_ELEMENTS], dot[MAX_ELEMENTS], magnitude[MAX_ELEMENTS];
    int64_t length;
} oracle;
static oracle facts;

typedef struct shape {
    int32_t rank;
    int64_t dims[4], strides[4]; /* strides[0] < 0: row-major */
    uint32_t axes;
} shape;

/* Row-major index of the first element of the line that element i is in. */
static int64_t line_of(const shape *s, int64_t i)
{
    int64_t first = 0, scale = 1;
    for (int32_t d = s->rank - 1; d >= 0; d--) {
        if (!((s->axes >> d) & 1u)) first += i % s->dims[d] * scale;
        i /= s->dims[d];
        scale *= s->dims[d];
    }
    return first;
}

static int64_t elements_of(const shape *s)
{
    int64_t n = 1;
    for (int32_t d = 0; d < s->rank; d++) n *= s->dims[d];
    return n;
}

static void measure_forward(const shape *s, const th_tensor *x)
{
    int64_t n = elements_of(s);
    facts.length = 1;
    for (int32_t d = 0; d < s->rank; d++)
        if ((s->axes >> d) & 1u) facts.length *= s->dims[d];
    for (int64_t i = 0; i < n; i++) {
        facts.top[i] = -(long double)INFINITY;
        facts.sum[i] = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        long double v = (long double)th_get(x, i), *top = &facts.top[line_of(s, i)];
        if (!isnan(*top) && (isnan(v) || v > *top)) *top = v;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t line = line_of(s, i);
        facts.sum[line] += expl((long double)th_get(x, i) - facts.top[line]);
    }
}

static void measure_backward(const shape *s, const th_tensor *y, const th_tensor *dy, bool is_log)
{
    int64_t n = elements_of(s);
    for (int64_t i = 0; i < n; i++) facts.dot[i] = facts.magnitude[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        long double term = (long double)th_get(dy, i);
        if (!is_log) term *= (long double)th_get(y, i);
        facts.dot[line_of(s, i)] += term;
        facts.magnitude[line_of(s, i)] += fabsl(term);
    }
}

static long double smallest(tw_dtype type)
{
    return type == TW_F16 ? 0x1p-24L : type == TW_BF16 ? 0x1p-133L : 0x1p-149L;
}

static bool close_to(double got, long double want, long double allowed, tw_dtype type, int64_t i)
{
    const long double stored = (long double)tw_round_to(type, (double)want);
    if (isinf(stored)) want = stored;
    if (isnan(want))
        allowed = isnan(got) ? 0 : -1;
    else if (isinf(want))
        allowed = (long double)got == want ? 0 : -1;
    if (allowed == 0 || (allowed > 0 && fabsl((long double)got - want) <= allowed)) return true;
    fprintf(stderr, "element %lld (%s): got %.9g, want %.12Lg, allowed %.3Lg\n", (long long)i,
            tw_dtype_name(type), got, want, allowed);
    return false;
}

/* exp(x - max) has the relative error u·|x - max| of its argument; the sum adds √K·u. */
static bool forward_right(const shape *s, const th_tensor *x, const th_tensor *y, bool is_log,
                          long double u_acc)
{
    long double u_out = (long double)tw_dtype_epsilon(y->desc.dtype);
    long double root = sqrtl((long double)facts.length);
    for (int64_t i = 0; i < elements_of(s); i++) {
        int64_t line = line_of(s, i);
        long double d = (long double)th_get(x, i) - facts.top[line];
        long double want = is_log ? d - logl(facts.sum[line]) : expl(d) / facts.sum[line];
        long double relative = 4 * u_out + u_acc * (4 + (is_log ? 0 : fabsl(d) + 4 * root));
        long double allowed =
            relative * fabsl(want) + smallest(y->desc.dtype) + (is_log ? 4 * root * u_acc : 0);
        if (!isfinite(facts.top[line])) want = (long double)NAN;
        if (isinf(d) && !is_log) allowed = smallest(y->desc.dtype);
        if (!close_to(th_get(y, i), want, allowed, y->desc.dtype, i)) return false;
    }
    return true;
}

static bool backward_right(const shape *s, const th_tensor *y, const th_tensor *dy,
                           const th_tensor *dx, bool is_log, long double u_acc)
{
    long double u_out = (long double)tw_dtype_epsilon(dx->desc.dtype);
    long double root = sqrtl((long double)facts.length);
    for (int64_t i = 0; i < elements_of(s); i++) {
        int64_t line = line_of(s, i);
        long double v = (long double)th_get(y, i), g = (long double)th_get(dy, i);
        long double weight = is_log ? expl(v) : v;
        long double want = is_log ? g - weight * facts.dot[line] : v * (g - facts.dot[line]);
        long double part = fabsl(is_log ? g : v * g);
        long double terms = part + fabsl(weight) * facts.magnitude[line];
        long double allowed = 4 * u_out * fabsl(want) + 4 * root * u_acc * terms;
        allowed += 4 * u_acc * terms + smallest(dx->desc.dtype);
        if (!close_to(th_get(dx, i), want, allowed, dx->desc.dtype, i)) return false;
    }
    return true;
}

static th_tensor make(const shape *s, tw_dtype type, bool strided)
{
    return strided && s->strides[0] >= 0 ? th_make_strided(type, s->rank, s->dims, s->strides)
                                         : th_make(type, s->rank, s->dims);
}

static void fail_with(const tw_kernel *kernel, const shape *s, bool is_log, const th_tensor *x)
{
    fprintf(stderr, "%s log %d x %s axes 0x%x dims", kernel->name, is_log,
            tw_dtype_name(x->desc.dtype), s->axes);
    for (int32_t d = 0; d < s->rank; d++)
        fprintf(stderr, " %lld/%lld", (long long)s->dims[d], (long long)s->strides[d]);
    fprintf(stderr, "\n");
    fail();
}

/* Outputs may not overlap: those strides serve inputs only. */
static bool can_be_output(const shape *s)
{
    for (int32_t d = 0; d < s->rank; d++)
        if (s->strides[0] >= 0 && s->strides[d] == 0 && s->dims[d] > 1) return false;
    return true;
}

static void check_forward(const tw_kernel *kernel, const shape *s, th_tensor *x, tw_dtype type,
                          bool is_log)
{
    th_tensor y = make(s, type, can_be_output(s)), again = make(s, type, can_be_output(s));
    th_call call = {.kind = TW_OP_SOFTMAX, .n_in = 1, .n_out = 1, .in = {x}, .out = {&y}};
    call.attrs.softmax = (tw_softmax_attrs){.axes = s->axes, .log = is_log};
    if (!th_refuses(kernel, &call)) {
        bool good = th_run(kernel, &call) == TW_OK && th_guards_intact(&y) &&
                    forward_right(s, x, &y, is_log, kernel->reference ? 0x1p-53L : 0x1p-24L);
        call.out[0] = &again;
        call.threads = 2;
        good = good && th_run(kernel, &call) == TW_OK && th_equal(&again, &y, "two threads");
        if (!good) fail_with(kernel, s, is_log, x);
    }
    th_free(&y);
    th_free(&again);
}

static void check_backward(const tw_kernel *kernel, const shape *s, th_tensor *y, th_tensor *dy,
                           tw_dtype type, bool is_log)
{
    th_tensor dx = make(s, type, can_be_output(s)), again = make(s, type, can_be_output(s));
    th_call call = {.kind = TW_OP_SOFTMAX_BACKWARD, .n_in = 2, .n_out = 1};
    call.in[0] = y;
    call.in[1] = dy;
    call.out[0] = &dx;
    call.attrs.softmax = (tw_softmax_attrs){.axes = s->axes, .log = is_log};
    if (!th_refuses(kernel, &call)) {
        bool good = th_run(kernel, &call) == TW_OK && th_guards_intact(&dx) &&
                    backward_right(s, y, dy, &dx, is_log, kernel->reference ? 0x1p-53L : 0x1p-24L);
        call.out[0] = &again;
        call.threads = 2;
        good = good && th_run(kernel, &call) == TW_OK && th_equal(&again, &dx, "two threads");
        if (!good) fail_with(kernel, s, is_log, y);
    }
    th_free(&dx);
    th_free(&again);
}

static void check_all(const shape *s, tw_dtype in, tw_dtype out, uint64_t seed)
{
    const tw_kernel *kernels[40];
    for (int is_log = 0; is_log < 2; is_log++) {
        int n = th_kernels(TW_OP_SOFTMAX, kernels, 40);
        th_tensor x = make(s, in, true), dy = make(s, in, true);
        th_fill_uniform(&x, seed, -20, 20);
        measure_forward(s, &x);
        for (int k = 0; k < n; k++) check_forward(kernels[k], s, &x, out, is_log == 1);
        th_fill_uniform(&x, seed + 1, is_log ? -6 : 0, is_log ? 0 : 1);
        th_fill_uniform(&dy, seed + 2, -1, 1);
        measure_backward(s, &x, &dy, is_log == 1);
        n = th_kernels(TW_OP_SOFTMAX_BACKWARD, kernels, 40);
        for (int k = 0; k < n; k++) check_backward(kernels[k], s, &x, &dy, out, is_log == 1);
        th_free(&x);
        th_free(&dy);
    }
}

static void test_lengths(void **state)
{
    const int64_t lengths[] = {1, 2, 7, 15, 16, 17, 33, 64, 255, 1023, 1024, 1025, 3000};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        shape s = {.rank = 2, .dims = {3, lengths[i]}, .strides = {-1}, .axes = 2};
        check_all(&s, TW_F32, TW_F32, i);
        check_all(&s, TW_F16, TW_F16, i);
        check_all(&s, TW_BF16, TW_F32, i);
        check_all(&s, TW_F32, TW_BF16, i);
    }
}

static void test_columns(void **state)
{
    const int64_t widths[] = {1, 5, 8, 15, 16, 17, 49, 255, 257, 600};
    const int64_t lengths[] = {1, 2, 31, 32, 33, 100};
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (size_t j = 0; j < sizeof lengths / sizeof lengths[0]; j++) {
            shape s = {.rank = 3, .dims = {2, lengths[j], widths[i]}, .strides = {-1}, .axes = 2};
            check_all(&s, TW_F32, TW_F32, i + j);
            check_all(&s, TW_F16, TW_BF16, i + j);
        }
}

static void test_strides_and_axes(void **state)
{
    const shape bases[] = {
        {.rank = 4, .dims = {2, 3, 4, 9}, .strides = {-1}},
        {.rank = 4, .dims = {2, 3, 4, 9}, .strides = {108, 1, 27, 3}},   /* channels-last */
        {.rank = 4, .dims = {2, 3, 4, 9}, .strides = {1, 2, 6, 24}},     /* reversed */
        {.rank = 4, .dims = {2, 3, 4, 9}, .strides = {700, 200, 41, 3}}, /* gaps */
        {.rank = 4, .dims = {2, 3, 4, 9}, .strides = {0, 9, 0, 1}},      /* broadcast */
        {.rank = 4, .dims = {2, 3, 4, 9}, .strides = {12, 4, 1, 0}},
        {.rank = 3, .dims = {2, 0, 4}, .strides = {-1}},
        {.rank = 0, .strides = {-1}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
        for (uint32_t axes = bases[i].rank > 0; axes < 1u << bases[i].rank; axes++) {
            shape s = bases[i];
            s.axes = axes;
            check_all(&s, TW_F32, TW_F32, i + axes);
            check_all(&s, TW_F64, TW_F64, i + axes);
            check_all(&s, TW_F16, TW_F16, i + axes);
        }
}

static void test_specials(void **state)
{
    const double inf = (double)INFINITY, nan = (double)NAN;
    const double cells[] = {nan, inf, -inf, 3e38, -3e38, 1e-40, 10000, -10000, 0};
    const shape shapes[2] = {{.rank = 2, .dims = {12, 40}, .strides = {-1}, .axes = 2},
                             {.rank = 2, .dims = {40, 12}, .strides = {-1}, .axes = 1}};
    const tw_kernel *kernels[40];
    int n = th_kernels(TW_OP_SOFTMAX, kernels, 40);
    (void)state;
    for (int i = 0; i < 2; i++)
        for (uint64_t seed = 0; seed < 30; seed++) {
            uint64_t rng = seed;
            th_tensor x = th_make(TW_F32, 2, shapes[i].dims);
            th_fill_value(&x, seed % 2 ? -inf : 1);
            for (int j = 0; j < 9; j++)
                th_set(&x, (int64_t)(th_random(&rng) % 480), cells[th_random(&rng) % 9]);
            measure_forward(&shapes[i], &x);
            for (int k = 0; k < n; k++)
                for (int is_log = 0; is_log < 2; is_log++)
                    check_forward(kernels[k], &shapes[i], &x, TW_F32, is_log == 1);
            th_free(&x);
        }
}

/* y over x, dx over y, dx over dy: the same bits as apart. */
static void test_in_place(void **state)
{
    const int64_t dims[3][3] = {{5, 40, 1}, {3, 2500, 1}, {2, 30, 50}};
    const tw_dtype types[2] = {TW_F32, TW_F16};
    const tw_kernel *kernels[80];
    int n = th_kernels(TW_OP_SOFTMAX, kernels, 40);
    (void)state;
    n += th_kernels(TW_OP_SOFTMAX_BACKWARD, kernels + n, 40);
    for (int c = 0; c < 3 * 2 * n; c++) {
        const tw_kernel *kernel = kernels[c / 6];
        int n_in = kernel->kind == TW_OP_SOFTMAX ? 1 : 2;
        th_tensor a = th_make(types[c % 2], 3, dims[c / 2 % 3]), b = th_make_like(&a.desc);
        th_tensor apart = th_make_like(&a.desc);
        th_call call = {.kind = kernel->kind, .n_in = n_in, .n_out = 1, .in = {&a, &b}};
        call.attrs.softmax.axes = 2;
        for (int over = 0; over < n_in; over++) {
            th_fill_uniform(&a, (uint64_t)c, 0, 1);
            th_fill_uniform(&b, (uint64_t)c + 1, -1, 1);
            call.out[0] = &apart;
            if (th_refuses(kernel, &call)) continue;
            assert_true((kernel->impl->in_place >> over) & 1u);
            assert_int_equal(th_run(kernel, &call), TW_OK);
            call.out[0] = call.in[over];
            assert_int_equal(th_run(kernel, &call), TW_OK);
            assert_true(th_equal(call.out[0], &apart, kernel->name));
        }
        th_free(&a);
        th_free(&b);
        th_free(&apart);
    }
}

static void expect_refusal(tw_op_kind kind, uint32_t axes, th_tensor *a, th_tensor *b,
                           const char *word)
{
    th_call call = {.kind = kind, .n_in = b ? 2 : 1, .n_out = 1, .in = {a, b}};
    tw_attrs attrs;
    tw_tensor_desc desc[4];
    call.attrs.softmax.axes = axes;
    assert_int_equal(th_infer(&call, &attrs, desc), TW_INVALID_ARGUMENT);
    assert_non_null(strstr(tw_last_error(), word));
}

static void test_refusals(void **state)
{
    th_tensor a = th_make(TW_F32, 2, (const int64_t[2]){2, 3});
    th_tensor b = th_make(TW_F32, 2, (const int64_t[2]){2, 4});
    th_tensor c = th_make(TW_C64, 2, (const int64_t[2]){2, 3});
    (void)state;
    expect_refusal(TW_OP_SOFTMAX, 4, &a, NULL, "axes");
    expect_refusal(TW_OP_SOFTMAX, 1, &c, NULL, "c64");
    expect_refusal(TW_OP_SOFTMAX_BACKWARD, 1, &a, &b, "dy");
    th_free(&a);
    th_free(&b);
    th_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),          cmocka_unit_test(test_columns),
        cmocka_unit_test(test_strides_and_axes), cmocka_unit_test(test_specials),
        cmocka_unit_test(test_in_place),         cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
