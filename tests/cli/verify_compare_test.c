/* SPDX-License-Identifier: Apache-2.0 */
/* What `tw verify` accepts as equal: data that was changed a little must not pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "verify_compare.h"

enum { N = 64 };

typedef struct pair {
    float got[N], want[N], magnitude[N];
    operand g, w, m;
} pair;

static operand operand_of(float *data)
{
    const int64_t dims[2] = {8, N / 8};
    operand o = {.desc = tw_desc(TW_F32, 2, dims),
                 .elements = N,
                 .bytes = N * (int64_t)sizeof(float),
                 .name = "y",
                 .output = true,
                 .first = (char *)data};
    o.desc.strides[0] = N / 8;
    o.desc.strides[1] = 1;
    return o;
}

static void make(pair *p)
{
    for (int i = 0; i < N; i++) {
        p->got[i] = p->want[i] = (float)(i - N / 2) * 0.25f;
        p->magnitude[i] = 16;
    }
    p->g = operand_of(p->got);
    p->w = operand_of(p->want);
    p->m = operand_of(p->magnitude);
}

static void test_exact(void **state)
{
    pair p;
    difference d;
    (void)state;
    make(&p);
    assert_true(compare_exact(&p.g, &p.w, &d));
    p.got[19] = nextafterf(p.got[19], 100);
    assert_false(compare_exact(&p.g, &p.w, &d));
    assert_int_equal(d.element, 19);
    assert_string_equal(d.index, "2, 3");
    make(&p);
    p.got[N / 2] = -0.0f;
    assert_false(compare_exact(&p.g, &p.w, &d));
    assert_true(compare_values(&p.g, &p.w, &d));
    p.got[3] = NAN;
    assert_false(compare_values(&p.g, &p.w, &d));
}

/* 4·u·|want| + 4·√terms·u·magnitude: just inside and just outside. */
static void test_bound(void **state)
{
    pair p;
    difference d;
    (void)state;
    make(&p);
    tolerance t = {.exactness = TW_RESULT_SUM, .terms = 100, .magnitude = &p.m};
    const double u = 0x1p-24;
    for (int sign = -1; sign <= 1; sign += 2) {
        double allowed = 4 * u * fabs((double)p.want[5]) + 4 * 10 * u * 16;
        p.got[5] = (float)(p.want[5] + sign * 0.95 * allowed);
        assert_true(compare_within(&p.g, &p.w, &t, &d));
        p.got[5] = (float)(p.want[5] + sign * 1.05 * allowed);
        assert_false(compare_within(&p.g, &p.w, &t, &d));
        assert_int_equal(d.element, 5);
    }
    /* an accumulator one type narrower is wrong by far more */
    p.got[5] = (float)(p.want[5] + 0x1p-11 * 16);
    assert_false(compare_within(&p.g, &p.w, &t, &d));
}

static void test_smooth(void **state)
{
    pair p, q;
    difference d;
    (void)state;
    make(&p);
    make(&q);
    tolerance t = {.exactness = TW_RESULT_SMOOTH, .ulps = 8, .terms = 1, .shift = 0x1p-14};
    p.got[7] = p.want[7] * (1 + 15 * 0x1p-24f);
    assert_true(compare_within(&p.g, &p.w, &t, &d));
    p.got[7] = p.want[7] * (1 + 20 * 0x1p-24f);
    assert_false(compare_within(&p.g, &p.w, &t, &d));
    /* a result that its inputs move by ten times their change may be off by that much more */
    q.want[7] = p.want[7] * (1 + 10 * 0x1p-14f);
    t.shifted[0] = &q.w;
    assert_true(compare_within(&p.g, &p.w, &t, &d));
}

static void test_specials(void **state)
{
    pair p;
    difference d;
    (void)state;
    make(&p);
    p.want[1] = p.got[1] = NAN;
    p.want[2] = p.got[2] = INFINITY;
    assert_true(compare_specials(&p.g, &p.w, &d));
    p.got[2] = -INFINITY;
    assert_false(compare_specials(&p.g, &p.w, &d));
    p.got[2] = NAN;
    assert_false(compare_specials(&p.g, &p.w, &d));
    p.got[2] = INFINITY;
    p.got[1] = 0;
    assert_false(compare_specials(&p.g, &p.w, &d));
    p.got[1] = NAN;
    p.got[9] = INFINITY;
    assert_false(compare_specials(&p.g, &p.w, &d));
    assert_int_equal(d.element, 9);
}

static void test_integral(void **state)
{
    pair p;
    (void)state;
    make(&p);
    assert_false(compare_is_integral(&p.w, &p.m)); /* quarters */
    for (int i = 0; i < N; i++) p.want[i] = (float)i;
    assert_true(compare_is_integral(&p.w, &p.m));
    p.magnitude[3] = 0x1p25f;
    assert_false(compare_is_integral(&p.w, &p.m));
}

static void test_mostly_zero(void **state)
{
    pair p;
    difference d;
    (void)state;
    make(&p);
    tolerance t = {.exactness = TW_RESULT_SUM, .terms = 9, .magnitude = &p.m};
    memset(p.got, 0, sizeof p.got);
    assert_false(compare_within(&p.g, &p.w, &t, &d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),    cmocka_unit_test(test_bound),
        cmocka_unit_test(test_smooth),   cmocka_unit_test(test_specials),
        cmocka_unit_test(test_integral), cmocka_unit_test(test_mostly_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
