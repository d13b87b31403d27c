/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves the vector vocabulary of one target, lane by lane, against scalar C. Included by
 * vec_<target>_test.c, which defines TW_TARGET_<NAME> and VEC_ISA.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>

#include <cmocka.h>

#include "arch/cpu/vec.h"
#include <tilework/device.h>

enum { N_VALUES = 64, SKIPPED = 77 };
static float values[N_VALUES];
static int32_t integers[N_VALUES];

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void make_values(void)
{
    static const float special[] = {
        0.0f,     -0.0f,    1.0f,     -1.0f,     0.5f,  -0.5f,    1.5f,
        2.5f,     -2.5f,    0.3f,     -0.3f,     0.7f,  -0.7f,    8388607.5f,
        1e10f,    -1e10f,   INFINITY, -INFINITY, NAN,   1e-40f,   65504.f,
        65520.0f, -65536.f, 3.4e38f,  -3.4e38f,  6e-8f, -6.2e-5f, 2147483520.0f};
    const int n = (int)(sizeof special / sizeof *special);
    uint32_t state = 12345;
    for (int i = 0; i < N_VALUES; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = i < n ? special[i] : ((float)(state >> 8) / 8388608.0f - 1.0f) * 50.0f;
        integers[i] = (int32_t)(i % 3 == 0 ? state : state >> 24);
    }
    integers[1] = INT32_MIN;
    integers[2] = INT32_MAX;
    integers[3] = -1;
}

static void check_float(float got, float want, float a, float b, const char *what)
{
    const bool same = isnan(want) ? isnan(got) : bits_of(got) == bits_of(want);
    if (!same)
        fail_msg("%s(%a, %a): got %a, want %a", what, (double)a, (double)b, (double)got,
                 (double)want);
}

/* Every pair of values: block i of a against all rotations of b. */
#define EACH_PAIR(body)                                                                            \
    for (int i = 0; i + VLANES <= N_VALUES; i += VLANES)                                           \
        for (int shift = 0; shift < N_VALUES; shift++) {                                           \
            float a[VLANES], b[VLANES];                                                            \
            int32_t p[VLANES], q[VLANES];                                                          \
            for (int l = 0; l < VLANES; l++) {                                                     \
                a[l] = values[i + l], b[l] = values[(i + l + shift) % N_VALUES];                   \
                p[l] = integers[i + l], q[l] = integers[(i + l + shift) % N_VALUES];               \
            }                                                                                      \
            const vf va = vf_load(a), vb = vf_load(b);                                             \
            const vi vp = vi_load(p), vq = vi_load(q);                                             \
            (void)va, (void)vb, (void)vp, (void)vq;                                                \
            body                                                                                   \
        }
#define FLOAT_OP(call, formula)                                                                    \
    {                                                                                              \
        float got[VLANES];                                                                         \
        vf_store(got, call);                                                                       \
        for (int l = 0; l < VLANES; l++) {                                                         \
            const float x = a[l], y = b[l];                                                        \
            (void)y;                                                                               \
            check_float(got[l], formula, x, y, #call);                                             \
        }                                                                                          \
    }
#define MASK_OP(call, formula)                                                                     \
    {                                                                                              \
        const uint32_t got = vm_bits(call);                                                        \
        for (int l = 0; l < VLANES; l++) {                                                         \
            const float x = a[l], y = b[l];                                                        \
            const int32_t s = p[l], t = q[l];                                                      \
            (void)x, (void)y, (void)s, (void)t;                                                    \
            if ((got >> l & 1u) != (uint32_t)(formula)) fail_msg("%s: lane %d", #call, l);         \
        }                                                                                          \
        assert_true(got >> (VLANES - 1) <= 1);                                                     \
    }
#define INT_OP(call, formula)                                                                      \
    {                                                                                              \
        int32_t got[VLANES];                                                                       \
        vi_store(got, call);                                                                       \
        for (int l = 0; l < VLANES; l++) {                                                         \
            const uint32_t s = (uint32_t)p[l], t = (uint32_t)q[l];                                 \
            (void)s, (void)t;                                                                      \
            assert_int_equal(got[l], (int32_t)(formula));                                          \
        }                                                                                          \
    }

static void test_arithmetic(void **state)
{
    (void)state;
    EACH_PAIR(FLOAT_OP(vf_add(va, vb), x + y) FLOAT_OP(vf_sub(va, vb), x - y)
                  FLOAT_OP(vf_mul(va, vb), x * y) FLOAT_OP(vf_div(va, vb), x / y)
                      FLOAT_OP(vf_sqrt(va), sqrtf(x)) FLOAT_OP(vf_abs(va), fabsf(x))
                          FLOAT_OP(vf_neg(va), float_of(bits_of(x) ^ 0x80000000u))
                              FLOAT_OP(vf_round(va), nearbyintf(x))
                                  FLOAT_OP(vf_floor(va), floorf(x)) FLOAT_OP(vf_ceil(va), ceilf(x)))
#if defined(TW_TARGET_SSE2)
    EACH_PAIR(FLOAT_OP(vf_fma(va, vb, va), x * y + x) FLOAT_OP(vf_fnma(va, vb, va), x - x * y))
#else
    EACH_PAIR(FLOAT_OP(vf_fma(va, vb, va), fmaf(x, y, x))
                  FLOAT_OP(vf_fnma(va, vb, va), fmaf(-x, y, x)))
#endif
}

static float larger(float x, float y) { return isnan(x) || isnan(y) ? NAN : x > y ? x : y; }
static float smaller(float x, float y) { return isnan(x) || isnan(y) ? NAN : x < y ? x : y; }

/* + 0 makes both zeros alike: which of them min and max return is left open. */
static void test_order(void **state)
{
    (void)state;
    EACH_PAIR(
        FLOAT_OP(vf_add(vf_max(va, vb), vf_zero()), larger(x, y) + 0.0f)
            FLOAT_OP(vf_add(vf_min(va, vb), vf_zero()), smaller(x, y) + 0.0f) FLOAT_OP(
                vf_select(vf_lt(va, vb), va, vb), x < y ? x : y) MASK_OP(vf_eq(va, vb), x == y)
                MASK_OP(vf_ne(va, vb), x != y) MASK_OP(vf_lt(va, vb), x < y)
                    MASK_OP(vf_le(va, vb), x <= y) MASK_OP(vf_gt(va, vb), x > y)
                        MASK_OP(vf_ge(va, vb), x >= y) MASK_OP(vf_isnan(va), x != x)
                            MASK_OP(vi_eq(vp, vq), s == t) MASK_OP(vi_gt(vp, vq), s > t)
                                MASK_OP(vm_and(vf_lt(va, vb), vi_gt(vp, vq)), x < y && s > t)
                                    MASK_OP(vm_or(vf_lt(va, vb), vi_gt(vp, vq)), x < y || s > t)
                                        MASK_OP(vm_xor(vf_lt(va, vb), vi_gt(vp, vq)),
                                                (x < y) != (s > t))
                                            MASK_OP(vm_not(vf_lt(va, vb)), !(x < y)))
}

static void test_integers(void **state)
{
    (void)state;
    EACH_PAIR(
        INT_OP(vi_add(vp, vq), s + t) INT_OP(vi_sub(vp, vq), s - t) INT_OP(vi_mul(vp, vq), s * t)
            INT_OP(vi_and(vp, vq), s & t) INT_OP(vi_or(vp, vq), s | t) INT_OP(vi_xor(vp, vq), s ^ t)
                INT_OP(vi_shl(vp, 5), s << 5) INT_OP(vi_shr(vp, 16), s >> 16) INT_OP(vi_shl(vp, 0),
                                                                                     s)
                    INT_OP(vi_shr(vp, 31), s >> 31) INT_OP(vi_sar(vp, 7), (int64_t)(int32_t)s >> 7)
                        INT_OP(vi_select(vi_gt(vp, vq), vp, vq), (int32_t)s > (int32_t)t ? s : t)
                            INT_OP(vi_from_vf(vf_from_vi(vi_sar(vp, 8))), (int64_t)(int32_t)s >> 8)
                                INT_OP(vi_bits(va), bits_of(a[l]))
                                    FLOAT_OP(vf_bits(vi_bits(va)), x))
    int32_t got[VLANES];
    vi_store(got, vi_from_vf(vf_add(vf_from_vi(vi_iota()), vf_set(0.5f))));
    for (int l = 0; l < VLANES; l++) assert_int_equal(got[l], (l + 1) / 2 * 2); /* ties to even */
    vi_store(got, vi_set(-7));
    for (int l = 0; l < VLANES; l++) assert_int_equal(got[l], -7);
}

static void test_masks(void **state)
{
    (void)state;
    for (int n = 0; n <= VLANES; n++) {
        const vm first = vm_first(n);
        assert_int_equal(vm_bits(first), (1u << n) - 1u);
        assert_int_equal(vm_any(first), n > 0);
        assert_int_equal(vm_all(first), n == VLANES);
    }
}

/* The memory past n belongs to no one: each buffer is exactly n elements, so that a sanitizer, and
 * the pattern behind it, tell. */
#define TAIL(element, load, store, vector)                                                         \
    for (int n = 0; n <= VLANES; n++) {                                                            \
        element *const from = malloc((size_t)n * sizeof(element) + 1);                             \
        element to[VLANES + 1];                                                                    \
        for (int l = 0; l < n; l++) from[l] = (element)(l + 1);                                    \
        for (int l = 0; l <= VLANES; l++) to[l] = 99;                                              \
        const vector all = load##_n(from, n);                                                      \
        store##_n(to, all, n);                                                                     \
        for (int l = 0; l <= VLANES; l++) assert_true(to[l] == (element)(l < n ? l + 1 : 99));     \
        store##_n(to, all, VLANES);                                                                \
        for (int l = 0; l < VLANES; l++) assert_true(to[l] == (element)(l < n ? l + 1 : 0));       \
        assert_true(to[VLANES] == 99);                                                             \
        free(from);                                                                                \
    }

static void test_tails(void **state)
{
    (void)state;
    TAIL(float, vf_load, vf_store, vf)
    TAIL(int32_t, vi_load, vi_store, vi)
    TAIL(uint16_t, vi_load_u16, vi_store_u16, vi)
    TAIL(uint16_t, vf_load_bf16, vf_store_bf16, vf)
    TAIL(uint16_t, vf_load_f16, vf_store_f16, vf)
    const uint8_t bytes[] = {200, 1, 255, 128, 5, 6, 7, 0, 9, 10, 11, 12, 13, 14, 15, 16};
    int8_t signs[16];
    int32_t words[16];
    for (int l = 0; l < 16; l++) signs[l] = (int8_t)bytes[l], words[l] = signs[l] * 1000;
    for (int n = 0; n <= VLANES; n++) {
        float u[VLANES], s[VLANES], w[VLANES];
        vf_store(u, n == VLANES ? vf_load_u8(bytes) : vf_load_u8_n(bytes, n));
        vf_store(s, n == VLANES ? vf_load_i8(signs) : vf_load_i8_n(signs, n));
        vf_store(w, n == VLANES ? vf_load_i32(words) : vf_load_i32_n(words, n));
        for (int l = 0; l < VLANES; l++) {
            assert_true(u[l] == (l < n ? (float)bytes[l] : 0.0f));
            assert_true(s[l] == (l < n ? (float)signs[l] : 0.0f));
            assert_true(w[l] == (l < n ? (float)words[l] : 0.0f));
        }
    }
}

static void test_across(void **state)
{
    (void)state;
    float lanes[VLANES * VLANES];
    for (int bad = -1; bad < VLANES; bad++) {
        for (int l = 0; l < VLANES; l++) lanes[l] = (float)((l * 5) % VLANES) - 2.0f;
        if (bad >= 0) lanes[bad] = NAN;
        const float sum = vf_sum(vf_load(lanes)), top = vf_hmax(vf_load(lanes));
        const float low = vf_hmin(vf_load(lanes));
        if (bad >= 0) {
            assert_true(isnan(sum) && isnan(top) && isnan(low));
        } else {
            assert_true(sum == (float)(VLANES * (VLANES - 1) / 2 - 2 * VLANES));
            assert_true(top == (float)(VLANES - 3) && low == -2.0f);
        }
    }
    vf rows[VLANES];
    for (int l = 0; l < VLANES * VLANES; l++) lanes[l] = (float)l;
    for (int r = 0; r < VLANES; r++) rows[r] = vf_load(lanes + r * VLANES);
    vf_transpose(rows);
    for (int r = 0; r < VLANES; r++) {
        float row[VLANES];
        vf_store(row, rows[r]);
        for (int l = 0; l < VLANES; l++) assert_true(row[l] == (float)(l * VLANES + r));
    }
}

static uint16_t narrowed(float x, bool bf16)
{
    uint16_t lanes[VLANES];
    if (bf16)
        vf_store_bf16(lanes, vf_set(x));
    else
        vf_store_f16(lanes, vf_set(x));
    return lanes[VLANES - 1];
}

static float f16_value(uint32_t half)
{
    const int exponent = (int)(half >> 10 & 31), mantissa = (int)(half & 1023);
    const float magnitude = exponent == 0 ? ldexpf((float)mantissa, -24)
                                          : ldexpf((float)(mantissa + 1024), exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

/* All of f16: its value is read, and what lies on, just below and just above the middle between two
 * neighbours rounds to the even one, down, and up. 0x7c00 stands for 65536 here. */
static void test_f16(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x7c00; half++) {
        uint16_t lanes[VLANES] = {(uint16_t)half, (uint16_t)(half | 0x8000)};
        float read[VLANES];
        vf_store(read, vf_load_f16(lanes));
        assert_true(bits_of(read[0]) == bits_of(f16_value(half)));
        assert_true(bits_of(read[1]) == bits_of(f16_value(half | 0x8000)));
        const float middle = (f16_value(half) + f16_value(half + 1)) / 2;
        assert_int_equal(narrowed(f16_value(half), false), half);
        assert_int_equal(narrowed(-middle, false), 0x8000 | (half + (half & 1)));
        assert_int_equal(narrowed(nextafterf(middle, 0), false), half);
        assert_int_equal(narrowed(nextafterf(middle, INFINITY), false), half + 1);
    }
    const uint16_t special[VLANES] = {0x7c00, 0xfc00, 0x7e01};
    float read[VLANES];
    vf_store(read, vf_load_f16(special));
    assert_true(read[0] == INFINITY && read[1] == -INFINITY && isnan(read[2]));
    assert_int_equal(narrowed(3e38f, false), 0x7c00);
    assert_int_equal(narrowed(-INFINITY, false), 0xfc00);
    assert_true((narrowed(NAN, false) & 0x7fff) > 0x7c00);
    assert_int_equal(narrowed(1e-40f, false), 0);
}

static void test_bf16(void **state)
{
    (void)state;
    for (uint32_t high = 0; high < 0x7f80; high++) {
        const uint32_t middle = high << 16 | 0x8000;
        const uint16_t lanes[VLANES] = {(uint16_t)high};
        float read[VLANES];
        vf_store(read, vf_load_bf16(lanes));
        assert_true(bits_of(read[0]) == high << 16);
        assert_int_equal(narrowed(float_of(high << 16), true), high);
        assert_int_equal(narrowed(float_of(middle | 0x80000000u), true),
                         0x8000 | (high + (high & 1)));
        assert_int_equal(narrowed(float_of(middle - 1), true), high);
        assert_int_equal(narrowed(float_of(middle + 1), true), high + 1);
    }
    assert_int_equal(narrowed(INFINITY, true), 0x7f80);
    assert_true((narrowed(float_of(0x7f800001), true) & 0x7fff) > 0x7f80);
    assert_true((narrowed(float_of(0xffffffff), true) & 0x7fff) > 0x7f80);
}

int main(void)
{
    if (tw_cpu_isa() < VEC_ISA) return SKIPPED;
    make_values();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_order),
        cmocka_unit_test(test_integers),   cmocka_unit_test(test_masks),
        cmocka_unit_test(test_tails),      cmocka_unit_test(test_across),
        cmocka_unit_test(test_f16),        cmocka_unit_test(test_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
