/* SPDX-License-Identifier: Apache-2.0 */
/* The reference kernels against the naive oracle, over all types and layouts. */
#include "ops/conv/conv_testing.h"

static const struct {
    tw_dtype a, b, out;
    int lo, hi;
} types[] = {
    {TW_F32, TW_F32, TW_F32, -9, 9},
    {TW_F64, TW_F64, TW_F64, -9, 9},
    {TW_F16, TW_F16, TW_F16, -2, 2},
    {TW_BF16, TW_BF16, TW_BF16, -1, 1},
    {TW_F16, TW_F32, TW_F32, -9, 9},
    {TW_E4M3FN, TW_E4M3FN, TW_F16, -2, 2},
    {TW_I8, TW_I8, TW_I32, -128, 127},
    {TW_U8, TW_I8, TW_I32, 0, 127},
    {TW_I8, TW_I8, TW_I8, -128, 127},
    {TW_U8, TW_U8, TW_F32, 0, 255},
    {TW_I4, TW_I4, TW_I4, -8, 7},
    {TW_I64, TW_I64, TW_I64, -1000000, 1000000},
    {TW_I16, TW_I16, TW_I64, -32768, 32767},
};
enum { TYPES = sizeof types / sizeof types[0] };

static void check(const conv_case *p, role result, int type, uint64_t seed)
{
    uint64_t s = seed;
    tw_dtype in[2] = {types[type].a, types[type].b};
    th_tensor tensor[3], *roles[3];
    for (int r = 0, i = 0; r < 3; r++) {
        tw_dtype dtype = r == (int)result ? types[type].out : in[i++];
        /* Neighbours in a byte are not guarded: sub-byte types stay dense. */
        test_layout layout =
            tw_dtype_bits(dtype) < 8 ? FIRST : (test_layout)pick(&s, 0, TEST_LAYOUTS - 1);
        tensor[r] = make_role(p, (role)r, dtype, layout);
        roles[r] = &tensor[r];
        if (r != (int)result) th_fill_integers(&tensor[r], s + 9, types[type].lo, types[type].hi);
    }
    th_tensor want = th_make(types[type].out, tensor[result].desc.rank, tensor[result].desc.dims);
    oracle(p, roles, result, false, &want);
    th_call call = call_of(p, roles, result);
    call.threads = seed % 5 == 0 ? 2 : 1;
    bool good = th_run(th_reference(call.kind), &call) == TW_OK &&
                th_equal(&tensor[result], &want, "reference") && th_guards_intact(&tensor[result]);
    if (!good) {
        fprintf(stderr, "seed %llu type %d result %d\n", (unsigned long long)seed, type, result);
        print_case("failed", p);
    }
    assert_true(good);
    for (int r = 0; r < 3; r++) th_free(&tensor[r]);
    th_free(&want);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 390; seed++) {
        conv_case p = random_case(seed);
        check(&p, (role)(seed % 3), (int)(seed / 3 % TYPES), seed);
    }
}

static void test_broadcast_and_empty(void **state)
{
    (void)state;
    conv_case p = square_case(2, 3, 5, 4, 3);
    th_tensor x = th_make_strided(TW_F32, 4, (int64_t[4]){2, 3, 5, 5}, (int64_t[4]){0, 25, 0, 1});
    th_tensor w = make_role(&p, ROLE_W, TW_F32, FIRST), y = make_role(&p, ROLE_Y, TW_F32, LAST);
    th_tensor want = make_role(&p, ROLE_Y, TW_F32, FIRST);
    th_tensor *roles[3] = {&x, &w, &y};
    th_fill_integers(&x, 1, -5, 5);
    th_fill_integers(&w, 2, -5, 5);
    oracle(&p, roles, ROLE_Y, false, &want);
    th_call call = call_of(&p, roles, ROLE_Y);
    assert_int_equal(th_run(th_reference(TW_OP_CONV), &call), TW_OK);
    assert_true(th_equal(&y, &want, "batch and height by stride 0"));
    th_free(&x), th_free(&w), th_free(&y), th_free(&want);

    for (int dim = 0; dim < 3; dim++) {
        p = square_case(dim != 0, dim == 1 ? 0 : 3, 5, dim == 2 ? 0 : 4, 3);
        for (int r = 0; r < 3; r++) check(&p, (role)r, 0, (uint64_t)r);
    }
    p = square_case(1, 2, 0, 2, 2); /* an image of height and width 0 */
    p.lo[0] = p.hi[0] = p.lo[1] = p.hi[1] = 1;
    for (int r = 0; r < 3; r++) check(&p, (role)r, 0, (uint64_t)r);
}

/* Strides over more than 2^31 elements of address space, of which a few pages are touched. */
static void test_far_strides(void **state)
{
    (void)state;
    conv_case p = square_case(1, 1, 2, 1, 2);
    th_tensor x = th_make_strided(TW_I8, 4, (int64_t[4]){1, 1, 2, 2},
                                  (int64_t[4]){1, 1, ((int64_t)1 << 20) + 3, 1});
    th_tensor w = make_role(&p, ROLE_W, TW_I8, FIRST), y = make_role(&p, ROLE_Y, TW_I32, FIRST);
    th_tensor *roles[3] = {&x, &w, &y}, want = make_role(&p, ROLE_Y, TW_I32, FIRST);
    th_fill_integers(&x, 1, -128, 127);
    th_fill_integers(&w, 2, -128, 127);
    oracle(&p, roles, ROLE_Y, false, &want);
    th_call call = call_of(&p, roles, ROLE_Y);
    assert_int_equal(th_run(th_reference(TW_OP_CONV), &call), TW_OK);
    assert_true(th_equal(&y, &want, "far rows"));
    th_free(&x), th_free(&w), th_free(&y), th_free(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_broadcast_and_empty),
                                       cmocka_unit_test(test_far_strides)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
