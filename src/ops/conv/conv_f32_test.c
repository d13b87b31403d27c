/* SPDX-License-Identifier: Apache-2.0 */
/* The f32 rows of every target against the naive oracle. */
#include "ops/conv/conv_testing.h"

typedef struct check_options {
    test_layout layout[3]; /* of x, w, y */
    bool integers;
    int threads;
    uint64_t seed;
} check_options;

typedef struct check_set {
    th_tensor tensor[3], want, magnitude;
    th_tensor *roles[3];
} check_set;

static check_set make_set(const conv_case *p, role result, const check_options *o)
{
    check_set s;
    for (int r = 0; r < 3; r++) {
        s.tensor[r] = make_role(p, (role)r, TW_F32, o->layout[r]);
        if (r == (int)result) continue;
        if (o->integers)
            th_fill_integers(&s.tensor[r], o->seed + (uint64_t)r, -8, 8);
        else
            th_fill_uniform(&s.tensor[r], o->seed + (uint64_t)r, -1, 1);
    }
    s.want = th_make(TW_F32, s.tensor[result].desc.rank, s.tensor[result].desc.dims);
    s.magnitude = th_make(TW_F64, s.tensor[result].desc.rank, s.tensor[result].desc.dims);
    return s;
}

static void link_roles(check_set *s)
{
    for (int r = 0; r < 3; r++) s->roles[r] = &s->tensor[r];
}

static void free_set(check_set *s)
{
    for (int r = 0; r < 3; r++) th_free(&s->tensor[r]);
    th_free(&s->want);
    th_free(&s->magnitude);
}

/* Runs every fast row on one problem; returns how many took it. */
static int check_rows(const conv_case *p, role result, const check_options *o)
{
    const tw_kernel *kernels[32];
    int n = th_kernels(kind_of(result), kernels, 32), taken = 0;
    check_set s = make_set(p, result, o);
    link_roles(&s);
    th_call call = call_of(p, s.roles, result);
    call.threads = o->threads;
    oracle(p, s.roles, result, false, &s.want);
    if (!o->integers) oracle(p, s.roles, result, true, &s.magnitude);
    for (int k = 0; k < n; k++) {
        if (kernels[k]->reference || th_refuses(kernels[k], &call)) continue;
        taken++;
        th_fill_value(&s.tensor[result], NAN);
        bool good = th_run(kernels[k], &call) == TW_OK;
        good = good && th_guards_intact(&s.tensor[result]);
        good = good && (o->integers ? th_equal(&s.tensor[result], &s.want, kernels[k]->name)
                                    : th_close(&s.tensor[result], &s.want, &s.magnitude,
                                               terms_of(p, result), kernels[k]->name));
        if (!good) {
            fprintf(stderr, "layouts %d %d %d seed %llu\n", o->layout[0], o->layout[1],
                    o->layout[2], (unsigned long long)o->seed);
            print_case(kernels[k]->name, p);
        }
        assert_true(good);
    }
    free_set(&s);
    return taken;
}

/* Every pass, integers exactly and reals within the bound. */
static void check_all(const conv_case *p, uint64_t seed)
{
    uint64_t s = seed;
    for (int r = 0; r < 3; r++)
        for (int integers = 0; integers < 2; integers++) {
            check_options o = {.integers = integers, .seed = seed, .threads = 1 + (seed % 7 == 0)};
            for (int i = 0; i < 3; i++)
                o.layout[i] = pick(&s, 0, 1) ? LAST : (test_layout)pick(&s, 0, TEST_LAYOUTS - 1);
            check_rows(p, (role)r, &o);
        }
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        conv_case p = random_case(seed + 1000);
        check_all(&p, seed);
    }
}

static void test_depthwise(void **state)
{
    (void)state;
    static const int64_t channels[] = {2, 3, 15, 16, 17, 31, 64, 67};
    for (uint64_t seed = 0; seed < 160; seed++) {
        conv_case p = random_case(seed + 3000);
        p.c = p.k = p.groups = channels[seed % 8];
        if (seed % 5 == 0) p.lo[0] += 9, p.lo[1] += 11;
        if (seed % 5 == 1) p.hi[0] += 9, p.hi[1] += 11;
        check_all(&p, seed);
    }
}

static void test_tile_edges(void **state)
{
    (void)state;
    static const int64_t widths[] = {1, 2, 3, 5, 7, 11, 13, 14, 15, 16, 17, 28, 29};
    static const int64_t channels[] = {1, 3, 8, 15, 16, 17, 31, 32, 33, 65};
    for (uint64_t i = 0; i < 13; i++)
        for (uint64_t j = 0; j < 10; j += 1 + i % 3) {
            conv_case p = square_case(2, channels[(i + j) % 10] / 2 + 1, 3, channels[j], 3);
            p.in[1] = widths[i] + 2;
            if (i % 4 == 1) p.lo[1] = 1;
            if (i % 4 == 2) p.hi[1] = 2, p.lo[0] = 1;
            check_all(&p, i * 10 + j);
        }
}

static void test_awkward(void **state)
{
    (void)state;
    conv_case p = square_case(3, 5, 4, 6, 1);
    check_all(&p, 1); /* 1×1 */
    p.stride[0] = p.stride[1] = 3;
    check_all(&p, 2); /* stride beyond the kernel: pixels that nothing touches */
    p = square_case(2, 4, 3, 4, 2);
    p.dilation[0] = p.dilation[1] = 4;
    p.lo[0] = p.hi[0] = p.lo[1] = p.hi[1] = 2;
    check_all(&p, 3); /* dilation beyond the image */
    p.lo[0] = p.hi[1] = 7;
    check_all(&p, 4); /* padding beyond the kernel */
    p = square_case(0, 4, 5, 4, 3);
    check_all(&p, 5); /* no images */
    p = square_case(2, 0, 5, 4, 3);
    check_all(&p, 6); /* no channels: zeros */
    p = square_case(2, 4, 5, 0, 3);
    check_all(&p, 7);
    p = square_case(2, 3, 0, 4, 2);
    p.lo[0] = p.hi[0] = p.lo[1] = p.hi[1] = 1;
    check_all(&p, 8); /* an image of size 0 */
    p = square_case(1, 12, 6, 12, 3);
    p.groups = 12;
    check_all(&p, 9); /* depthwise */
    p.stride[0] = 2;
    p.hi[1] = 1;
    check_all(&p, 10);
    p.groups = 3;
    check_all(&p, 11);
    p = square_case(70, 2, 2, 3, 2);
    check_all(&p, 12); /* many tiny images */
    p = square_case(1, 2, 90, 3, 2);
    check_all(&p, 13); /* several boxes of one image */
}

/* An infinite or NaN operand next to padding: the padded products must not exist. */
static void test_not_finite(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        conv_case p = random_case(seed + 5000);
        for (int d = 0; d < 3; d++) p.lo[d] += 1 + (int64_t)(seed % 2);
        for (int r = 0; r < 3; r++) {
            check_options o = {
                .layout = {LAST, LAST, seed % 3 ? LAST : FIRST}, .integers = true, .seed = seed};
            const tw_kernel *kernels[32];
            int n = th_kernels(kind_of((role)r), kernels, 32);
            check_set s = make_set(&p, (role)r, &o);
            link_roles(&s);
            /* The operand that meets padding of x: w, or dy in a weight gradient. */
            th_tensor *odd = s.roles[r == ROLE_W ? ROLE_Y : ROLE_W];
            for (int64_t i = 0; i < th_elements(odd); i += 1 + (int64_t)seed % 5)
                th_set(odd, i,
                       i % 2      ? (double)INFINITY
                       : seed % 4 ? -(double)INFINITY
                                  : (double)NAN);
            oracle(&p, s.roles, (role)r, false, &s.want);
            th_call call = call_of(&p, s.roles, (role)r);
            for (int k = 0; k < n; k++) {
                if (th_refuses(kernels[k], &call)) continue;
                assert_int_equal(th_run(kernels[k], &call), TW_OK);
                bool good = th_equal(&s.tensor[r], &s.want, kernels[k]->name);
                if (!good) print_case(kernels[k]->name, &p);
                assert_true(good);
            }
            free_set(&s);
        }
    }
}

static void test_threads(void **state)
{
    (void)state;
    for (int r = 0; r < 3; r++) {
        conv_case p = square_case(5, 19, 12, 33, 3);
        check_options o = {.layout = {LAST, LAST, LAST}, .seed = 4};
        const tw_kernel *kernels[32];
        int n = th_kernels(kind_of((role)r), kernels, 32);
        check_set s = make_set(&p, (role)r, &o);
        link_roles(&s);
        th_call call = call_of(&p, s.roles, (role)r);
        for (int k = 0; k < n; k++) {
            call.out[0] = &s.tensor[r];
            if (th_refuses(kernels[k], &call)) continue;
            call.threads = 3;
            assert_int_equal(th_run(kernels[k], &call), TW_OK);
            call.threads = 1;
            th_tensor again = make_role(&p, (role)r, TW_F32, LAST);
            call.out[0] = &again;
            assert_int_equal(th_run(kernels[k], &call), TW_OK);
            assert_true(th_equal(&s.tensor[r], &again, kernels[k]->name));
            th_free(&again);
        }
        free_set(&s);
    }
}

/* The rows that must take ordinary problems, so that the tests above test something. */
static void test_fast_rows_are_taken(void **state)
{
    (void)state;
    const int levels = tw_cpu_isa() < TW_ISA_AVX512 ? (int)tw_cpu_isa() + 1 : TW_ISA_AVX512 + 1;
    for (int r = 0; r < 3; r++) {
        conv_case p = square_case(2, 8, 9, 16, 3);
        for (int layout = 0; layout < TEST_LAYOUTS; layout++) {
            test_layout l = (test_layout)layout;
            check_options o = {.layout = {l, l, l}, .integers = true};
            assert_true(check_rows(&p, (role)r, &o) >= levels);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fast_rows_are_taken),
                                       cmocka_unit_test(test_awkward),
                                       cmocka_unit_test(test_tile_edges),
                                       cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_depthwise),
                                       cmocka_unit_test(test_not_finite),
                                       cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
