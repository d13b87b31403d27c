/* SPDX-License-Identifier: Apache-2.0 */
/* random: words against Philox, every row against the reference, ranges, moments, refusals. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"
#include "tile/cpu/philox.h"

enum { MAX_KERNELS = 16 };

static th_call call_for(tw_random_attrs attrs, th_tensor *y)
{
    return (th_call){
        .kind = TW_OP_RANDOM, .attrs = {.random = attrs}, .n_in = 0, .n_out = 1, .out = {y}};
}

static void draw(const tw_kernel *kernel, tw_random_attrs attrs, th_tensor *y)
{
    const th_call call = call_for(attrs, y);
    assert_int_equal(th_run(kernel, &call), TW_OK);
    assert_true(th_guards_intact(y));
}

static th_tensor draw_reference(tw_dtype dtype, int64_t n, tw_random_attrs attrs)
{
    th_tensor y = th_make(dtype, 1, &n);
    draw(th_reference(TW_OP_RANDOM), attrs, &y);
    return y;
}

/* ---- The words ------------------------------------------------------------------------------- */

static void bits_are_the_streams_words(void **state)
{
    (void)state;
    static const uint32_t first[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    th_tensor zero = draw_reference(TW_U32, 4, (tw_random_attrs){.distribution = TW_RANDOM_BITS});
    for (int i = 0; i < 4; i++) assert_true(th_get(&zero, i) == (double)first[i]);
    th_free(&zero);

    const tw_random_attrs attrs = {
        .distribution = TW_RANDOM_BITS, .seed = -5, .offset = INT64_C(0x123456789a)};
    const tw_philox stream = {(uint64_t)attrs.seed, (uint64_t)attrs.offset};
    th_tensor wide = draw_reference(TW_I64, 1000, attrs);
    th_tensor byte = draw_reference(TW_U8, 1000, attrs);
    th_tensor nibble = draw_reference(TW_U4, 1001, attrs);
    for (int64_t i = 0; i < 1000; i++) {
        const uint32_t word = tw_philox_word(stream, i);
        assert_true(th_get(&wide, i) == (double)word);
        assert_true(th_get(&byte, i) == (double)(word & 0xff));
        assert_true(th_get(&nibble, i) == (double)(word & 0xf));
    }
    th_free(&wide);
    th_free(&byte);
    th_free(&nibble);
}

static void seed_and_offset_may_be_tensors(void **state)
{
    (void)state;
    const int64_t n = 777;
    const tw_random_attrs attrs = {.seed = INT64_C(-7777777777), .offset = 42};
    const tw_kernel *kernels[MAX_KERNELS];
    const int count = th_kernels(TW_OP_RANDOM, kernels, MAX_KERNELS);
    th_tensor want = draw_reference(TW_F32, n, attrs);
    th_tensor seed = th_make(TW_I64, 0, NULL), offset = th_make(TW_I64, 0, NULL);
    th_tensor got = th_make(TW_F32, 1, &n);
    *(int64_t *)seed.data = attrs.seed;
    *(int64_t *)offset.data = attrs.offset;
    for (int k = 0; k < count; k++) {
        th_call call = call_for((tw_random_attrs){.seed = 1, .offset = 2}, &got);
        call.n_in = 2;
        call.in[0] = &seed;
        call.in[1] = &offset;
        assert_int_equal(th_run(kernels[k], &call), TW_OK);
        assert_true(th_equal(&got, &want, kernels[k]->name));
        call.in[0] = NULL;
        call.attrs.random.seed = attrs.seed;
        th_fill_value(&got, 0);
        assert_int_equal(th_run(kernels[k], &call), TW_OK);
        assert_true(th_equal(&got, &want, kernels[k]->name));
    }
    th_free(&want);
    th_free(&got);
    th_free(&seed);
    th_free(&offset);
}

/* ---- Rows against the reference -------------------------------------------------------------- */

typedef struct shape {
    int32_t rank;
    int64_t dims[3], strides[3]; /* strides 0: row-major */
} shape;

static const shape shapes[] = {
    {0, {0}, {0}},
    {1, {0}, {0}},
    {1, {1}, {0}},
    {1, {3}, {0}},
    {1, {255}, {0}},
    {1, {256}, {0}},
    {1, {257}, {0}},
    {1, {1000}, {3}},
    {2, {3, 0}, {0}},
    {2, {16384, 1}, {0}},
    {2, {5, 3277}, {0}},
    {3, {3, 37, 151}, {0}},
    {3, {4, 65, 70}, {4550, 1, 65}},   /* channels-last order */
    {3, {2, 90, 100}, {20000, 210, 2}} /* gaps everywhere */
};

static th_tensor make(tw_dtype dtype, const shape *s)
{
    if (s->strides[0] == 0) return th_make(dtype, s->rank, s->dims);
    return th_make_strided(dtype, s->rank, s->dims, s->strides);
}

static void check_rows(tw_random_attrs attrs, const shape *s)
{
    const tw_kernel *kernels[MAX_KERNELS];
    const int count = th_kernels(TW_OP_RANDOM, kernels, MAX_KERNELS);
    th_tensor want = make(TW_F32, s);
    draw(th_reference(TW_OP_RANDOM), attrs, &want);
    for (int k = 0; k < count; k++) {
        for (int32_t threads = 1; threads <= 3; threads += 2) {
            th_tensor got = make(TW_F32, s);
            th_call call = call_for(attrs, &got);
            call.threads = threads;
            assert_null(th_refuses(kernels[k], &call));
            assert_int_equal(th_run(kernels[k], &call), TW_OK);
            assert_true(th_equal(&got, &want, kernels[k]->name));
            assert_true(th_guards_intact(&got));
            th_free(&got);
        }
    }
    th_free(&want);
}

static void rows_agree_with_the_reference(void **state)
{
    (void)state;
    static const tw_random_attrs attrs[] = {
        {.distribution = TW_RANDOM_UNIFORM, .seed = 1},
        {.distribution = TW_RANDOM_UNIFORM, .a = -3.7, .b = 11.1, .seed = 2, .offset = -1},
        {.distribution = TW_RANDOM_UNIFORM, .a = -3.3e38, .b = 3.3e38, .seed = 3},
        {.distribution = TW_RANDOM_UNIFORM, .a = 1, .b = 1 + 0x1p-22, .seed = 4},
        {.distribution = TW_RANDOM_NORMAL, .a = 2, .b = 3, .seed = 5},
        {.distribution = TW_RANDOM_BERNOULLI, .a = 0.3, .seed = 6},
        {.distribution = TW_RANDOM_BERNOULLI, .a = 0, .seed = 7},
        {.distribution = TW_RANDOM_BERNOULLI, .a = 1, .seed = INT64_MIN},
    };
    for (size_t a = 0; a < sizeof attrs / sizeof attrs[0]; a++) {
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            check_rows(attrs[a], &shapes[s]);
        }
    }
}

/* Only the row-major index counts, not the dims that it comes from. */
static void shape_does_not_matter(void **state)
{
    (void)state;
    const shape s = {3, {4, 65, 70}, {4550, 1, 65}};
    const tw_random_attrs attrs = {.distribution = TW_RANDOM_NORMAL, .b = 1, .seed = 9};
    th_tensor flat = draw_reference(TW_F32, INT64_C(4) * 65 * 70, attrs);
    th_tensor strided = make(TW_F32, &s);
    draw(th_reference(TW_OP_RANDOM), attrs, &strided);
    for (int64_t i = 0; i < th_elements(&flat); i++) {
        assert_true(th_get(&flat, i) == th_get(&strided, i));
    }
    th_free(&flat);
    th_free(&strided);
}

/* ---- Ranges and moments ---------------------------------------------------------------------- */

static void check_range(tw_dtype dtype, double a, double b)
{
    const bool real = tw_dtype_is_float(dtype);
    const double least = real ? tw_round_to(dtype, a) : ceil(a);
    const double most = real ? b : ceil(b) - 1;
    th_tensor y = draw_reference(dtype, 4096, (tw_random_attrs){.a = a, .b = b, .seed = 3});
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < 4096; i++) {
        const double value = th_get(&y, i);
        if (!(value >= least && value < b)) {
            fail_msg("%s over [%g, %g): element %lld is %g", tw_dtype_name(dtype), a, b,
                     (long long)i, value);
        }
        low = fmin(low, value);
        high = fmax(high, value);
    }
    /* 4,096 draws come nearer to each end than 1/8 of the range, up to the type's resolution. */
    const double slack = (b - a) / 8 + tw_dtype_epsilon(dtype) * 2 * fmax(fabs(a), fabs(b));
    if (!(low <= least + slack && high >= most - slack)) {
        fail_msg("%s over [%g, %g): only [%g, %g] was drawn", tw_dtype_name(dtype), a, b, low,
                 high);
    }
    th_free(&y);
}

static void uniform_stays_in_its_range(void **state)
{
    (void)state;
    static const tw_dtype floats[] = {TW_F64,  TW_F32,      TW_F16,      TW_BF16,  TW_E4M3FN,
                                      TW_E5M2, TW_E4M3FNUZ, TW_E5M2FNUZ, TW_F4E2M1};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        check_range(floats[i], 0, 1);
        check_range(floats[i], -1, 0);
        check_range(floats[i], -6, -1);
        check_range(floats[i], 0.3, 5.9);
    }
    check_range(TW_F64, -1.7e308, 1.7e308);
    check_range(TW_F32, -3.4e38, 3.4e38);
    check_range(TW_BF16, 256, 258); /* its spacing there is 2 */
    static const tw_dtype integers[] = {TW_I64, TW_I32, TW_I16, TW_I8, TW_I4};
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        check_range(integers[i], -3, 5);
        check_range(integers[i], -0.5, 1.5);
    }
    check_range(TW_U8, 0, 256);
    check_range(TW_U2, 0, 4);
    check_range(TW_I64, -1e15, 1e15);
}

/* The mean and the mean square of n draws stay within six of their standard deviations, which
 * follow from the distribution's second and fourth moments. */
static void check_moments(tw_random_attrs attrs, double mean, double second, double fourth)
{
    enum { N = 40000 };
    th_tensor y = draw_reference(TW_F64, N, attrs);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < N; i++) {
        const double value = th_get(&y, i);
        sum += value;
        squares += value * value;
    }
    assert_true(fabs(sum / N - mean) <= 6 * sqrt((second - mean * mean) / N));
    assert_true(fabs(squares / N - second) <= 6 * sqrt((fourth - second * second) / N));
    th_free(&y);
}

static void moments_are_right(void **state)
{
    (void)state;
    check_moments((tw_random_attrs){.seed = 1}, 0.5, 1.0 / 3, 1.0 / 5);
    check_moments((tw_random_attrs){.distribution = TW_RANDOM_NORMAL, .b = 1, .seed = 2}, 0, 1, 3);
    check_moments((tw_random_attrs){.distribution = TW_RANDOM_BERNOULLI, .a = 0.1, .seed = 3}, 0.1,
                  0.1, 0.1);
}

static void streams_differ(void **state)
{
    (void)state;
    th_tensor base = draw_reference(TW_F32, 1000, (tw_random_attrs){.seed = 1});
    th_tensor seed = draw_reference(TW_F32, 1000, (tw_random_attrs){.seed = 2});
    th_tensor offset = draw_reference(TW_F32, 1000, (tw_random_attrs){.seed = 1, .offset = 1});
    int equal = 0;
    for (int64_t i = 0; i < 1000; i++) {
        equal += th_get(&base, i) == th_get(&seed, i);
        equal += th_get(&base, i) == th_get(&offset, i);
        if (i > 0) equal += th_get(&base, i - 1) == th_get(&offset, i);
    }
    assert_in_range(equal, 0, 3);
    th_free(&base);
    th_free(&seed);
    th_free(&offset);
}

static void degenerate_parameters(void **state)
{
    (void)state;
    th_tensor y = draw_reference(
        TW_F32, 100, (tw_random_attrs){.distribution = TW_RANDOM_NORMAL, .a = 7, .seed = 1});
    for (int64_t i = 0; i < 100; i++) assert_true(th_get(&y, i) == 7);
    th_free(&y);
    y = draw_reference(TW_BOOL, 100,
                       (tw_random_attrs){.distribution = TW_RANDOM_BERNOULLI, .a = 1, .seed = 1});
    for (int64_t i = 0; i < 100; i++) assert_true(((const uint8_t *)y.data)[i] == 1);
    th_free(&y);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void check_refused(tw_dtype dtype, tw_random_attrs attrs, const char *part)
{
    const int64_t n = 4;
    th_tensor y = th_make(dtype, 1, &n);
    const th_call call = call_for(attrs, &y);
    tw_attrs normal;
    tw_tensor_desc desc[4];
    assert_int_equal(th_infer(&call, &normal, desc), TW_INVALID_ARGUMENT);
    if (strstr(tw_last_error(), part) == NULL) fail_msg("\"%s\" lacks %s", tw_last_error(), part);
    th_free(&y);
}

static void ill_defined_draws_are_refused(void **state)
{
    (void)state;
    check_refused(TW_F32, (tw_random_attrs){.a = 1, .b = 1}, "[1, 1)");
    check_refused(TW_F32, (tw_random_attrs){.a = 2, .b = 1}, "[2, 1)");
    check_refused(TW_F32, (tw_random_attrs){.a = 0, .b = (double)NAN}, "finite");
    check_refused(TW_F32, (tw_random_attrs){.a = 0, .b = 1e39}, "range of f32");
    check_refused(TW_I32, (tw_random_attrs){.a = 0.25, .b = 0.75}, "no integer");
    check_refused(TW_BOOL, (tw_random_attrs){.a = 0, .b = 1}, "bool");
    check_refused(TW_C64, (tw_random_attrs){.a = 0, .b = 1}, "c64");
    check_refused(TW_F32, (tw_random_attrs){.distribution = TW_RANDOM_BITS}, "integer type");
    check_refused(TW_F32, (tw_random_attrs){.distribution = TW_RANDOM_NORMAL, .b = -1}, "-1");
    check_refused(TW_F32, (tw_random_attrs){.distribution = TW_RANDOM_BERNOULLI, .a = 1.5}, "1.5");
    check_refused(TW_F32, (tw_random_attrs){.distribution = (tw_distribution)9}, "is 9");
}

static void bad_seeds_are_refused(void **state)
{
    (void)state;
    const int64_t n = 2;
    th_tensor y = th_make(TW_F32, 1, &n), two = th_make(TW_I64, 1, &n);
    th_tensor narrow = th_make(TW_I32, 0, NULL);
    tw_attrs normal;
    tw_tensor_desc desc[4];
    th_call call = call_for((tw_random_attrs){.b = 1}, &y);
    call.n_in = 2;
    call.in[0] = &narrow;
    assert_int_equal(th_infer(&call, &normal, desc), TW_INVALID_ARGUMENT);
    assert_non_null(strstr(tw_last_error(), "seed is i32"));
    call.in[0] = NULL;
    call.in[1] = &two;
    assert_int_equal(th_infer(&call, &normal, desc), TW_INVALID_ARGUMENT);
    assert_non_null(strstr(tw_last_error(), "offset has 2 elements"));
    th_free(&y);
    th_free(&two);
    th_free(&narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_the_streams_words),
        cmocka_unit_test(seed_and_offset_may_be_tensors),
        cmocka_unit_test(rows_agree_with_the_reference),
        cmocka_unit_test(shape_does_not_matter),
        cmocka_unit_test(uniform_stays_in_its_range),
        cmocka_unit_test(moments_are_right),
        cmocka_unit_test(streams_differ),
        cmocka_unit_test(degenerate_parameters),
        cmocka_unit_test(ill_defined_draws_are_refused),
        cmocka_unit_test(bad_seeds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
