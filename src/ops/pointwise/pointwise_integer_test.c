/* SPDX-License-Identifier: Apache-2.0 */
/* Integers, exact to the last bit of 64; inference and what it refuses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"
#include "ops/pointwise/pointwise.h"

typedef struct sum {
    tw_pointwise_mode mode;
    tw_dtype type;
    int64_t a, b, want;
} sum;

#define BIG INT64_C(9007199254740993) /* 2^53 + 1: no double */
static const sum sums[] = {
    {TW_PW_ADD, TW_I64, BIG, 2, BIG + 2},
    {TW_PW_SUB, TW_I64, BIG, -2, BIG + 2},
    {TW_PW_MUL, TW_I64, BIG, 3, 3 * BIG},
    {TW_PW_MAX, TW_I64, BIG, BIG - 1, BIG},
    {TW_PW_MIN, TW_I64, BIG, BIG - 1, BIG - 1},
    {TW_PW_IDENTITY, TW_I64, BIG, 0, BIG},
    {TW_PW_NEG, TW_I64, BIG, 0, -BIG},
    {TW_PW_EQ, TW_I64, BIG, BIG - 1, 0},
    {TW_PW_GT, TW_I64, BIG, BIG - 1, 1},
    {TW_PW_ADD, TW_I64, INT64_MAX, 1, INT64_MIN},
    {TW_PW_DIV, TW_I64, -7, 2, -3},
    {TW_PW_DIV, TW_I64, 7, 0, 0},
    {TW_PW_DIV, TW_I64, INT64_MIN, -1, INT64_MIN},
    {TW_PW_MOD, TW_I64, -7, 3, 2},
    {TW_PW_MOD, TW_I64, 7, -3, -2},
    {TW_PW_MOD, TW_I64, 7, 0, 0},
    {TW_PW_FMOD, TW_I64, -7, 3, -1},
    {TW_PW_FMOD, TW_I64, INT64_MIN, -1, 0},
    {TW_PW_POW, TW_I64, 3, 39, INT64_C(4052555153018976267)},
    {TW_PW_POW, TW_I64, -1, -3, -1},
    {TW_PW_POW, TW_I64, 2, -1, 0},
    {TW_PW_SIGN, TW_I64, -BIG, 0, -1},
    {TW_PW_SHIFT_LEFT, TW_I64, 1, 63, INT64_MIN},
    {TW_PW_SHIFT_LEFT, TW_I64, 1, 64, 0},
    {TW_PW_SHIFT_LEFT, TW_I32, 1, 31, INT32_MIN},
    {TW_PW_SHIFT_LEFT, TW_I32, 1, 32, 0},
    {TW_PW_SHIFT_LEFT, TW_U8, 3, 7, 128},
    {TW_PW_SHIFT_RIGHT, TW_I64, -8, 1, -4},
    {TW_PW_SHIFT_RIGHT, TW_I64, -8, 99, -1},
    {TW_PW_SHIFT_RIGHT, TW_U8, 200, 3, 25},
    {TW_PW_BITWISE_NOT, TW_U8, 0x0f, 0, 0xf0},
    {TW_PW_BITWISE_NOT, TW_I32, 5, 0, -6},
    {TW_PW_BITWISE_XOR, TW_I16, -1, 0x00ff, ~0xff},
    {TW_PW_BITWISE_AND, TW_BOOL, 1, 0, 0},
    {TW_PW_ADD, TW_I8, 100, 100, 127},
    {TW_PW_SUB, TW_U8, 3, 5, 0},
    {TW_PW_MUL, TW_I32, 65536, 65536, INT32_MAX},
    {TW_PW_ADD, TW_U64, -2, 1, -1}, /* 2^64 - 2 + 1 */
    {TW_PW_GT, TW_U64, -1, 1, 1},
    {TW_PW_DIV, TW_U64, -1, 2, INT64_MAX},
    {TW_PW_SHIFT_RIGHT, TW_U64, -1, 60, 15},
    {TW_PW_RELU, TW_I64, -BIG, 0, 0},
    {TW_PW_RELU6, TW_I64, BIG, 0, 6},
    {TW_PW_LOGICAL_XOR, TW_I64, BIG, 0, 1},
    {TW_PW_GEN_INDEX, TW_I64, BIG, 0, 0},
};

static void check_sum(const tw_kernel *kernel, const sum *s)
{
    const int64_t dims[1] = {1};
    const tw_pw_mode_info mode = tw_pw_mode_of(s->mode);
    bool predicate = (mode.flags & TW_PW_PREDICATE) != 0;
    th_tensor a = th_make(s->type, 1, dims), b = th_make(s->type, 1, dims);
    th_tensor y = th_make(predicate ? TW_BOOL : s->type, 1, dims);
    tw_store_int(s->type, a.data, 0, s->a, TW_CONVERT_WRAP);
    tw_store_int(s->type, b.data, 0, s->b, TW_CONVERT_WRAP);
    th_call call = {.kind = TW_OP_POINTWISE,
                    .attrs.pointwise = {.mode = s->mode},
                    .n_in = mode.arity,
                    .n_out = 1,
                    .in = {&a, &b},
                    .out = {&y}};
    if (!th_refuses(kernel, &call)) {
        assert_int_equal(th_run(kernel, &call), TW_OK);
        int64_t got = tw_load_int(y.desc.dtype, y.data, 0);
        if (got != s->want)
            fail_msg("%s: mode %s type %s (%lld, %lld) gives %lld, want %lld", kernel->name,
                     mode.name, tw_dtype_name(s->type), (long long)s->a, (long long)s->b,
                     (long long)got, (long long)s->want);
    } else {
        assert_false(kernel->reference);
    }
    th_free(&a), th_free(&b), th_free(&y);
}

static void test_integers(void **state)
{
    const tw_kernel *kernels[8];
    (void)state;
    int n = th_kernels(TW_OP_POINTWISE, kernels, 8);
    for (int k = 0; k < n; k++)
        for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) check_sum(kernels[k], &sums[i]);
}

/* Every pair of 8-bit operands, on kernels that take them. */
static void test_bytes(void **state)
{
    static const tw_pointwise_mode modes[] = {
        TW_PW_ADD,         TW_PW_SUB,        TW_PW_MUL,         TW_PW_MAX,         TW_PW_MIN,
        TW_PW_BITWISE_AND, TW_PW_BITWISE_OR, TW_PW_BITWISE_XOR, TW_PW_SHIFT_RIGHT, TW_PW_EQ,
        TW_PW_LT,          TW_PW_LOGICAL_OR, TW_PW_ADD_SQUARE,  TW_PW_SELECT,      TW_PW_CLAMP};
    static const tw_dtype types[] = {TW_I8, TW_U8};
    const tw_kernel *kernels[8];
    const int64_t column[2] = {256, 1}, row[1] = {256}, dims[2] = {256, 256};
    (void)state;
    int n = th_kernels(TW_OP_POINTWISE, kernels, 8), ran = 0, rows = 0;
    for (size_t i = 0; i < 2 * sizeof modes / sizeof modes[0]; i++) {
        tw_dtype type = types[i % 2];
        const tw_pw_mode_info mode = tw_pw_mode_of(modes[i / 2]);
        th_tensor a = th_make(type, 2, column), b = th_make(type, 1, row);
        th_tensor y = th_make(mode.flags & TW_PW_PREDICATE ? TW_BOOL : type, 2, dims);
        th_tensor want = th_make_like(&y.desc);
        for (int64_t v = 0; v < 256; v++)
            ((uint8_t *)a.data)[v] = ((uint8_t *)b.data)[v] = (uint8_t)v;
        th_call call = {.kind = TW_OP_POINTWISE,
                        .attrs.pointwise = {.mode = modes[i / 2]},
                        .n_in = mode.arity,
                        .n_out = 1,
                        .in = {&a, &b, &a},
                        .out = {&want}};
        assert_int_equal(th_run(th_reference(TW_OP_POINTWISE), &call), TW_OK);
        call.out[0] = &y;
        for (int k = 0; k < n; k++) {
            rows += i == 0 && !kernels[k]->reference;
            if (kernels[k]->reference || th_refuses(kernels[k], &call)) continue;
            assert_int_equal(th_run(kernels[k], &call), TW_OK);
            assert_true(th_equal(&y, &want, mode.name));
            ran++;
        }
        th_free(&a), th_free(&b), th_free(&y), th_free(&want);
    }
    assert_true(rows > 0 && ran > 8 * rows); /* each row takes most of the modes */
}

/* ---- Inference ------------------------------------------------------------------------------- */

static tw_status infer(tw_pointwise_attrs pointwise, int n_in, th_tensor *const *in,
                       tw_attrs *attrs, tw_tensor_desc *y)
{
    th_call call = {
        .kind = TW_OP_POINTWISE, .attrs.pointwise = pointwise, .n_in = n_in, .n_out = 1};
    for (int i = 0; i < n_in; i++) call.in[i] = in[i];
    return th_infer(&call, attrs, y);
}

static void test_inference(void **state)
{
    (void)state;
    const int64_t wide[3] = {4, 1, 5}, tall[2] = {3, 1}, zero[3] = {4, 0, 5};
    th_tensor a = th_make(TW_BF16, 3, wide), b = th_make(TW_F16, 2, tall);
    th_tensor i8 = th_make(TW_I8, 2, tall), u8 = th_make(TW_U8, 2, tall);
    th_tensor none = th_make(TW_F32, 3, zero);
    tw_attrs attrs;
    tw_tensor_desc y;
    assert_int_equal(
        infer((tw_pointwise_attrs){.mode = TW_PW_ADD}, 2, (th_tensor *[]){&a, &b}, &attrs, &y),
        TW_OK);
    assert_int_equal(y.dtype, TW_F32);
    assert_int_equal(y.rank, 3);
    assert_true(y.dims[0] == 4 && y.dims[1] == 3 && y.dims[2] == 5);
    assert_true(attrs.pointwise.compute == TW_F32 && attrs.pointwise.alpha == 1);
    assert_int_equal(
        infer((tw_pointwise_attrs){.mode = TW_PW_ADD}, 2, (th_tensor *[]){&i8, &u8}, &attrs, &y),
        TW_OK);
    assert_true(y.dtype == TW_I16 && attrs.pointwise.compute == TW_I64);
    assert_int_equal(
        infer((tw_pointwise_attrs){.mode = TW_PW_LT}, 2, (th_tensor *[]){&a, &i8}, &attrs, &y),
        TW_OK);
    assert_int_equal(y.dtype, TW_BOOL);
    assert_int_equal(
        infer((tw_pointwise_attrs){.mode = TW_PW_EXP}, 1, (th_tensor *[]){&i8}, &attrs, &y), TW_OK);
    assert_int_equal(y.dtype, TW_F32);
    assert_int_equal(
        infer((tw_pointwise_attrs){.mode = TW_PW_MUL}, 2, (th_tensor *[]){&none, &a}, &attrs, &y),
        TW_OK);
    assert_true(y.dims[1] == 0);
    assert_int_equal(infer((tw_pointwise_attrs){.mode = TW_PW_SELECT}, 3,
                           (th_tensor *[]){&b, &u8, &i8}, &attrs, &y),
                     TW_OK);
    assert_true(y.dtype == TW_I16 && attrs.pointwise.compute == TW_I64);
    th_free(&a), th_free(&b), th_free(&i8), th_free(&u8), th_free(&none);
}

static void check_refusal(tw_status status, const char *word)
{
    assert_int_equal(status, TW_INVALID_ARGUMENT);
    if (!strstr(tw_last_error(), word)) fail_msg("\"%s\" lacks \"%s\"", tw_last_error(), word);
}

static void test_refusals(void **state)
{
    (void)state;
    const int64_t three[1] = {3}, four[1] = {4};
    th_tensor a = th_make(TW_F32, 1, three), b = th_make(TW_F32, 1, four);
    tw_attrs attrs;
    tw_tensor_desc y;
    th_tensor *const both[3] = {&a, &b, &a};
    check_refusal(infer((tw_pointwise_attrs){.mode = TW_PW_ADD}, 2, both, &attrs, &y), "b has dim");
    check_refusal(infer((tw_pointwise_attrs){.mode = TW_PW_ADD}, 1, both, &attrs, &y),
                  "b is missing");
    check_refusal(infer((tw_pointwise_attrs){.mode = TW_PW_EXP}, 2, both, &attrs, &y),
                  "b is given");
    check_refusal(infer((tw_pointwise_attrs){.mode = (tw_pointwise_mode)60}, 1, both, &attrs, &y),
                  "mode");
    check_refusal(infer((tw_pointwise_attrs){.mode = TW_PW_BITWISE_NOT}, 1, both, &attrs, &y),
                  "a has type f32");
    check_refusal(
        infer((tw_pointwise_attrs){.mode = TW_PW_EXP, .compute = TW_F16}, 1, both, &attrs, &y),
        "compute is f16");
    check_refusal(
        infer((tw_pointwise_attrs){.mode = TW_PW_EXP, .compute = TW_I64}, 1, both, &attrs, &y),
        "compute is i64");
    check_refusal(
        infer((tw_pointwise_attrs){.mode = TW_PW_GEN_INDEX, .axis = 1}, 1, both, &attrs, &y),
        "axis is 1");
    check_refusal(
        infer((tw_pointwise_attrs){.mode = TW_PW_SOFTPLUS, .has_alpha = true}, 1, both, &attrs, &y),
        "alpha is 0");
    check_refusal(
        infer((tw_pointwise_attrs){.mode = TW_PW_NEG, .convert = 64}, 1, both, &attrs, &y),
        "convert is 0x40");
    th_free(&a), th_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
