/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values: the library's own numbers, bounds and moments, types. */
#include "io/io_support.h"

#include <math.h>

#include <tilework/tilework.h>
#include <tilework/train.h>

enum { ELEMENTS = 64 * 32 * 3 * 3 };

static tw_array make(tw_dtype dtype, int32_t rank, const int64_t *dims)
{
    tw_tensor_desc desc = tw_desc(dtype, rank, dims);
    tw_array a = {.dtype = dtype, .rank = rank, .bytes = tw_desc_bytes(&desc)};
    for (int32_t d = 0; d < rank; d++) a.dims[d] = dims[d];
    a.data = tw_malloc((size_t)a.bytes + 1);
    memset(a.data, 0xa5, (size_t)a.bytes + 1);
    return a;
}

static const int64_t conv[] = {64, 32, 3, 3};

/* The numbers of tw_graph_random, which this draws on its own. */
static void draw(tw_random_attrs attrs, float *values)
{
    tw_graph *graph;
    tw_plan *plan;
    tw_tensor y = TW_NONE;
    assert_ok(tw_graph_create(&graph));
    assert_ok(tw_graph_random(graph, &attrs, TW_F32, 4, conv, TW_NONE, TW_NONE, &y));
    assert_ok(tw_graph_output(graph, y, NULL));
    assert_ok(tw_plan_create(graph, NULL, &plan));
    int64_t bytes = tw_plan_workspace(plan);
    void *workspace = tw_malloc((size_t)bytes + 1);
    assert_ok(tw_run(plan, NULL, 1, &(tw_binding){y, values}, workspace, bytes));
    tw_free(workspace);
    tw_plan_free(plan);
    tw_graph_free(graph);
}

static void test_numbers(void **state)
{
    (void)state;
    static float expected[ELEMENTS];
    tw_array a = make(TW_F32, 4, conv);
    double bound = sqrt(6.0 / (32 * 9)), deviation = 2 * sqrt(2.0 / (32 * 9 + 64 * 9));
    assert_ok(tw_init_fill(&(tw_init){.kind = TW_INIT_HE_UNIFORM, .seed = 5, .stream = 9}, &a));
    draw((tw_random_attrs){.a = -bound, .b = bound, .seed = 5, .offset = 9}, expected);
    assert_memory_equal(a.data, expected, sizeof expected);
    assert_ok(tw_init_fill(
        &(tw_init){.kind = TW_INIT_GLOROT_NORMAL, .gain = 2, .seed = 5, .stream = 9}, &a));
    draw(
        (tw_random_attrs){.distribution = TW_RANDOM_NORMAL, .b = deviation, .seed = 5, .offset = 9},
        expected);
    assert_memory_equal(a.data, expected, sizeof expected);
    tw_array_free(&a);
}

/* n samples: the mean is within 6 deviation/sqrt(n) of 0, the variance within 6 sqrt(2/n) of its
 * value relatively (a normal's; a uniform's spreads less). */
static void check_moments(const tw_init *init, int64_t *dims, double deviation, double bound)
{
    tw_array a = make(TW_F32, 4, dims);
    assert_ok(tw_init_fill(init, &a));
    const float *x = a.data;
    double sum = 0, squares = 0, n = ELEMENTS;
    for (int64_t i = 0; i < ELEMENTS; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        assert_true(fabs((double)x[i]) <= bound);
    }
    assert_true(fabs(sum / n) <= 6 * deviation / sqrt(n));
    assert_true(fabs(squares / n / (deviation * deviation) - 1) <= 6 * sqrt(2 / n));
    tw_array_free(&a);
}

static void test_moments(void **state)
{
    (void)state;
    int64_t dims[] = {64, 32, 3, 3}, swapped[] = {32, 64, 3, 3};
    double in = 32 * 9, out = 64 * 9, u = sqrt(3.0), far = 7; /* of a normal: 6.7 deviations */
    for (int t = 0; t < 2; t++) {
        int64_t *d = t ? swapped : dims;
        tw_init init = {.transposed = t, .seed = 1, .kind = TW_INIT_GLOROT_UNIFORM};
        double s = sqrt(2 / (in + out)), h = sqrt(2 / in);
        check_moments(&init, d, s, u * s * (1 + 1e-7));
        init.kind = TW_INIT_GLOROT_NORMAL;
        check_moments(&init, d, s, far * s);
        init.kind = TW_INIT_HE_UNIFORM;
        check_moments(&init, d, h, u * h * (1 + 1e-7));
        init.kind = TW_INIT_HE_NORMAL;
        init.gain = 0.5;
        check_moments(&init, d, h / 2, far * h / 2);
        init.kind = TW_INIT_UNIFORM;
        init.value = 3;
        check_moments(&init, d, 3 / u, 3);
        init.kind = TW_INIT_NORMAL;
        check_moments(&init, d, 3, 21);
    }
}

static void test_streams(void **state)
{
    (void)state;
    tw_array a = make(TW_F32, 4, conv), b = make(TW_F32, 4, conv);
    tw_init init = {.kind = TW_INIT_NORMAL, .value = 1, .seed = 3};
    assert_ok(tw_init_fill(&init, &a));
    assert_ok(tw_init_fill(&init, &b));
    assert_memory_equal(a.data, b.data, (size_t)a.bytes);
    init.stream = 1;
    assert_ok(tw_init_fill(&init, &b));
    const float *x = a.data, *y = b.data;
    int equal = 0;
    for (int64_t i = 0; i < ELEMENTS; i++) equal += x[i] == y[i];
    assert_true(equal < 10);
    tw_array_free(&a);
    tw_array_free(&b);
}

static void test_types(void **state)
{
    (void)state;
    static const tw_dtype floats[] = {TW_F64, TW_F32, TW_F16, TW_BF16};
    static const int64_t dims[] = {30, 5};
    double values[150];
    for (int i = 0; i < 4; i++) {
        tw_array a = make(floats[i], 2, dims);
        assert_ok(tw_init_fill(&(tw_init){.kind = TW_INIT_UNIFORM, .value = 1}, &a));
        assert_ok(tw_convert(TW_F64, values, floats[i], a.data, 150, 0));
        double sum = 0;
        for (int e = 0; e < 150; e++) {
            assert_true(fabs(values[e]) <= 1);
            sum += fabs(values[e]);
        }
        assert_true(sum > 30);
        tw_array_free(&a);
    }
    static const tw_dtype any[] = {TW_F32, TW_F16, TW_E4M3FN, TW_F4E2M1, TW_I4, TW_U8, TW_I64};
    static const int64_t long_dims[] = {1, 700}; /* more than one piece */
    double many[700];
    for (int i = 0; i < 7; i++) {
        tw_array a = make(any[i], 2, long_dims);
        assert_ok(tw_init_fill(&(tw_init){.value = 3}, &a));
        assert_ok(tw_convert(TW_F64, many, any[i], a.data, 700, 0));
        for (int e = 0; e < 700; e++) assert_true(many[e] == 3);
        assert_int_equal(((uint8_t *)a.data)[a.bytes], 0xa5); /* nothing beyond */
        tw_array_free(&a);
    }
}

static void test_arguments(void **state)
{
    (void)state;
    int64_t dims[] = {4, 0};
    tw_array none = make(TW_F32, 2, dims), row, integers;
    assert_ok(tw_init_fill(&(tw_init){.kind = TW_INIT_HE_NORMAL}, &none));
    dims[1] = 4;
    row = make(TW_F32, 1, dims);
    integers = make(TW_I32, 2, dims);
    assert_status(tw_init_fill(&(tw_init){.kind = TW_INIT_HE_NORMAL}, &row), TW_INVALID_ARGUMENT);
    assert_sentence("rank 1");
    assert_status(tw_init_fill(&(tw_init){.kind = TW_INIT_NORMAL}, &integers), TW_INVALID_ARGUMENT);
    assert_status(tw_init_fill(&(tw_init){.kind = (tw_init_kind)7}, &row), TW_INVALID_ARGUMENT);
    row.bytes--;
    assert_status(tw_init_fill(&(tw_init){.value = 1}, &row), TW_INVALID_ARGUMENT);
    tw_array_free(&none);
    tw_array_free(&row);
    tw_array_free(&integers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),   cmocka_unit_test(test_moments),
        cmocka_unit_test(test_streams),   cmocka_unit_test(test_types),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
