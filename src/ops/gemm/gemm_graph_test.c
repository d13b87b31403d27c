/* SPDX-License-Identifier: Apache-2.0 */
/* Inference, and the reference on every element type and rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"

enum { MAX_KERNELS = 16 };

/* y = a·b for [batch, m, k] and [1, k, n], all row-major. */
static double expected(const th_tensor *a, const th_tensor *b, int64_t row, int64_t col)
{
    const int64_t depth = a->desc.dims[2], cols = b->desc.dims[2];
    double sum = 0;
    for (int64_t k = 0; k < depth; k++)
        sum += th_get(a, row * depth + k) * th_get(b, k * cols + col);
    return sum;
}

/* Every element type through the reference: small integers, exact. */
static void test_types(void **state)
{
    static const struct {
        tw_dtype a, b, y, expected;
        int lo, hi;
    } rows[] = {{TW_F64, TW_F64, TW_AUTO, TW_F64, -3, 3},
                {TW_F32, TW_F64, TW_AUTO, TW_F64, -3, 3},
                {TW_F16, TW_F16, TW_AUTO, TW_F16, -3, 3},
                {TW_BF16, TW_BF16, TW_AUTO, TW_BF16, -2, 2},
                {TW_F16, TW_BF16, TW_AUTO, TW_F32, -3, 3},
                {TW_F16, TW_F16, TW_F32, TW_F32, -3, 3},
                {TW_E4M3FN, TW_E5M2, TW_F32, TW_F32, -2, 2},
                {TW_E4M3FNUZ, TW_E5M2FNUZ, TW_F16, TW_F16, -2, 2},
                {TW_F4E2M1, TW_F4E2M1, TW_F32, TW_F32, -2, 2},
                {TW_I8, TW_I8, TW_AUTO, TW_I32, -128, 127},
                {TW_U8, TW_I8, TW_AUTO, TW_I32, 0, 127},
                {TW_U8, TW_U8, TW_I8, TW_I8, 0, 2},
                {TW_I16, TW_I16, TW_AUTO, TW_I32, -1000, 1000},
                {TW_I32, TW_I32, TW_I64, TW_I64, -100000, 100000},
                {TW_I64, TW_I8, TW_AUTO, TW_I64, -100, 100},
                {TW_I4, TW_U4, TW_AUTO, TW_I32, 0, 7},
                {TW_I2, TW_U2, TW_I4, TW_I4, 0, 1},
                {TW_BOOL, TW_BOOL, TW_AUTO, TW_I32, 0, 1},
                {TW_I8, TW_F32, TW_AUTO, TW_F32, -3, 3},
                {TW_I8, TW_I8, TW_F32, TW_F32, -3, 3},
                {TW_U64, TW_U64, TW_U64, TW_U64, 0, 100},
                {TW_U16, TW_U32, TW_AUTO, TW_I32, 0, 100}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t a_dims[3] = {2, 3, 5}, b_dims[3] = {1, 5, 4}, y_dims[3] = {2, 3, 4};
        th_tensor a = th_make(rows[i].a, 3, a_dims), b = th_make(rows[i].b, 3, b_dims);
        th_call call = {.kind = TW_OP_MATMUL, .n_in = 2, .n_out = 1, .in = {&a, &b}};
        tw_attrs attrs;
        tw_tensor_desc desc;
        assert_int_equal(th_infer(&call, &attrs, &desc), TW_OK);
        th_tensor y = th_make(rows[i].y == TW_AUTO ? desc.dtype : rows[i].y, 3, y_dims);
        call.out[0] = &y;
        assert_int_equal(y.desc.dtype, rows[i].expected);
        th_fill_integers(&a, 21, rows[i].lo, rows[i].hi);
        th_fill_integers(&b, 22, rows[i].lo, rows[i].hi);
        assert_int_equal(th_run(th_reference(TW_OP_MATMUL), &call), TW_OK);
        for (int64_t e = 0; e < th_elements(&y); e++)
            if (th_get(&y, e) != expected(&a, &b, e / 4, e % 4))
                fail_msg("%s·%s: element %d is %g, want %g", tw_dtype_name(rows[i].a),
                         tw_dtype_name(rows[i].b), (int)e, th_get(&y, e),
                         expected(&a, &b, e / 4, e % 4));
        th_free(&a);
        th_free(&b);
        th_free(&y);
    }
}

/* ---- inference ---- */

typedef struct dims {
    int32_t rank;
    int64_t dims[4];
} dims;

static tw_status infer_dims(tw_dtype type, dims a, dims b, tw_dtype compute, tw_tensor_desc *y)
{
    th_tensor in_a = th_make(type, a.rank, a.dims), in_b = th_make(type, b.rank, b.dims);
    const th_call call = {.kind = TW_OP_MATMUL,
                          .attrs = {.matmul = {.compute = compute}},
                          .n_in = 2,
                          .n_out = 1,
                          .in = {&in_a, &in_b}};
    tw_attrs attrs;
    const tw_status status = th_infer(&call, &attrs, y);
    if (status == TW_OK && compute == TW_AUTO) assert_int_not_equal(attrs.matmul.compute, TW_AUTO);
    th_free(&in_a);
    th_free(&in_b);
    return status;
}

static void test_shapes(void **state)
{
    static const struct {
        dims a, b, y;
    } good[] = {{{1, {3}}, {1, {3}}, {0, {0}}},
                {{1, {3}}, {2, {3, 5}}, {1, {5}}},
                {{2, {4, 3}}, {1, {3}}, {1, {4}}},
                {{1, {3}}, {4, {2, 6, 3, 5}}, {3, {2, 6, 5}}},
                {{3, {2, 4, 3}}, {1, {3}}, {2, {2, 4}}},
                {{3, {7, 4, 3}}, {2, {3, 5}}, {3, {7, 4, 5}}},
                {{4, {2, 1, 4, 3}}, {3, {6, 3, 5}}, {4, {2, 6, 4, 5}}},
                {{3, {0, 4, 3}}, {3, {1, 3, 5}}, {3, {0, 4, 5}}}};
    static const struct {
        dims a, b;
        tw_dtype type, compute;
        const char *words;
    } bad[] = {
        {{0, {0}}, {1, {3}}, TW_F32, TW_AUTO, "a has rank 0"},
        {{1, {3}}, {0, {0}}, TW_F32, TW_AUTO, "b has rank 0"},
        {{2, {4, 3}}, {2, {4, 5}}, TW_F32, TW_AUTO, "dim 0 of b is 4"},
        {{3, {2, 4, 3}}, {3, {3, 3, 5}}, TW_F32, TW_AUTO, "dim 0 of a is 2 and dim 0 of b is 3"},
        {{2, {4, 3}}, {2, {3, 5}}, TW_F32, TW_F16, "compute is f16"},
        {{2, {4, 3}}, {2, {3, 5}}, TW_F64, TW_F32, "compute is f32"},
        {{2, {4, 3}}, {2, {3, 5}}, TW_I8, TW_F32, "compute is f32"},
        {{2, {4, 3}}, {2, {3, 5}}, TW_C64, TW_AUTO, "a is c64"}};
    tw_tensor_desc y;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(infer_dims(TW_F32, good[i].a, good[i].b, TW_AUTO, &y), TW_OK);
        assert_int_equal(y.rank, good[i].y.rank);
        for (int32_t d = 0; d < y.rank; d++) assert_int_equal(y.dims[d], good[i].y.dims[d]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(infer_dims(bad[i].type, bad[i].a, bad[i].b, bad[i].compute, &y),
                         TW_INVALID_ARGUMENT);
        if (!strstr(tw_last_error(), bad[i].words))
            fail_msg("\"%s\" lacks \"%s\"", tw_last_error(), bad[i].words);
    }
}

/* Vectors, through every kernel. */
static void test_vectors(void **state)
{
    static const struct {
        dims a, b, y;
    } rows[] = {{{1, {70}}, {1, {70}}, {0, {0}}},
                {{1, {40}}, {2, {40, 50}}, {1, {50}}},
                {{2, {50, 40}}, {1, {40}}, {1, {50}}},
                {{1, {40}}, {3, {3, 40, 50}}, {2, {3, 50}}},
                {{3, {3, 20, 40}}, {1, {40}}, {2, {3, 20}}}};
    const tw_kernel *kernels[MAX_KERNELS];
    const int n = th_kernels(TW_OP_MATMUL, kernels, MAX_KERNELS);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        th_tensor a = th_make(TW_F32, rows[i].a.rank, rows[i].a.dims);
        th_tensor b = th_make(TW_F32, rows[i].b.rank, rows[i].b.dims);
        th_tensor y = th_make(TW_F32, rows[i].y.rank, rows[i].y.dims);
        th_fill_integers(&a, 31, -3, 3);
        th_fill_integers(&b, 32, -3, 3);
        const bool a_vector = a.desc.rank == 1, b_vector = b.desc.rank == 1;
        const int64_t depth = a.desc.dims[a.desc.rank - 1];
        const int64_t m = a_vector ? 1 : a.desc.dims[a.desc.rank - 2];
        const int64_t cols = b_vector ? 1 : b.desc.dims[b.desc.rank - 1];
        const th_call call = {
            .kind = TW_OP_MATMUL, .n_in = 2, .n_out = 1, .in = {&a, &b}, .out = {&y}};
        for (int k = 0; k < n; k++) {
            assert_int_equal(th_run(kernels[k], &call), TW_OK);
            for (int64_t e = 0; e < th_elements(&y); e++) {
                const int64_t matrix = e / (m * cols), r = e / cols % m, c = e % cols;
                const int64_t a_first = (a.desc.rank > 2 ? matrix * m : 0) + r;
                const int64_t b_first = b.desc.rank > 2 ? matrix * depth : 0;
                double want = 0;
                for (int64_t d = 0; d < depth; d++)
                    want += th_get(&a, a_first * depth + d) * th_get(&b, (b_first + d) * cols + c);
                if (th_get(&y, e) != want)
                    fail_msg("%s, row %d: element %d is %g, want %g", kernels[k]->name, (int)i,
                             (int)e, th_get(&y, e), want);
            }
        }
        th_free(&a);
        th_free(&b);
        th_free(&y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
