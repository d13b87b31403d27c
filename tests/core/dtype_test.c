/* SPDX-License-Identifier: Apache-2.0 */
/* Every bit pattern of every type of at most 16 bits, and every rounding boundary between them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"

/* Written from the formats' specifications, not from the library's table. */
typedef struct spec {
    tw_dtype type;
    int bits, mantissa_bits, bias;
    unsigned largest;  /* code of the largest finite value */
    unsigned overflow; /* what a positive overflow gives */
    bool has_infinity, has_negative_zero;
    double max, smallest;
} spec;

static const spec specs[] = {
    {TW_F16, 16, 10, 15, 0x7bff, 0x7c00, true, true, 65504, 0x1p-24},
    {TW_BF16, 16, 7, 127, 0x7f7f, 0x7f80, true, true, 0x1.fep127, 0x1p-133},
    {TW_E4M3FN, 8, 3, 7, 0x7e, 0x7f, false, true, 448, 0x1p-9},
    {TW_E5M2, 8, 2, 15, 0x7b, 0x7c, true, true, 57344, 0x1p-16},
    {TW_E4M3FNUZ, 8, 3, 8, 0x7f, 0x80, false, false, 240, 0x1p-10},
    {TW_E5M2FNUZ, 8, 2, 16, 0x7f, 0x80, false, false, 57344, 0x1p-17},
    {TW_F4E2M1, 4, 1, 1, 0x7, 0x7, false, true, 6, 0.5},
};
enum { N_SPECS = sizeof specs / sizeof specs[0] };

static unsigned sign_of(const spec *s) { return 1u << (s->bits - 1); }

/* The value of a code without its sign, also just beyond the largest. */
static double magnitude(const spec *s, unsigned code)
{
    unsigned exponent = code >> s->mantissa_bits;
    double fraction = ldexp((double)(code % (1u << s->mantissa_bits)), -s->mantissa_bits);
    if (exponent == 0) return ldexp(fraction, 1 - s->bias);
    return ldexp(1 + fraction, (int)exponent - s->bias);
}

static bool is_nan_code(const spec *s, unsigned code)
{
    if (!s->has_negative_zero) return code == 0x80;
    unsigned low = code & (sign_of(s) - 1);
    return s->has_infinity ? low > s->overflow : low > s->largest;
}

static double value_of(const spec *s, unsigned code)
{
    unsigned low = code & (sign_of(s) - 1);
    double value = s->has_infinity && low == s->overflow ? HUGE_VAL : magnitude(s, low);
    return code & sign_of(s) ? -value : value;
}

static void check_code(const spec *s, double value, uint32_t flags, unsigned want)
{
    unsigned got = (unsigned)tw_encode(s->type, value, flags);
    if (got != want) {
        fail_msg("%s of %a (flags %u): code 0x%x, want 0x%x", tw_dtype_name(s->type), value, flags,
                 got, want);
    }
}

/* +value gives `code`; -value gives the same with the sign that the format can express. */
static void check_both(const spec *s, double value, uint32_t flags, unsigned code)
{
    check_code(s, value, flags, code);
    bool unsigned_zero = !s->has_negative_zero && (code == 0 || code == 0x80);
    check_code(s, -value, flags, unsigned_zero ? code : code | sign_of(s));
}

static void every_code_decodes(void **state)
{
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        const spec *s = &specs[i];
        for (unsigned code = 0; code < 1u << s->bits; code++) {
            double got = tw_decode(s->type, code), want = value_of(s, code);
            bool nan = is_nan_code(s, code);
            if (nan ? got == got : got != want || signbit(got) != signbit(want)) {
                fail_msg("%s code 0x%x: %a, want %a", tw_dtype_name(s->type), code, got,
                         nan ? (double)NAN : want);
            }
        }
    }
}

static void every_code_returns(void **state)
{
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        const spec *s = &specs[i];
        for (unsigned code = 0; code < 1u << s->bits; code++) {
            double value = tw_decode(s->type, code);
            unsigned got = (unsigned)tw_encode(s->type, value, 0);
            unsigned quiet = s->has_infinity ? 1u << (s->mantissa_bits - 1) : 0;
            unsigned want = is_nan_code(s, code) ? code | quiet : code;
            if (got != want) {
                fail_msg("%s code 0x%x came back as 0x%x", tw_dtype_name(s->type), code, got);
            }
        }
    }
}

/* Midpoints go to the even neighbour, values just beside them to the near one. */
static void every_midpoint_rounds(void **state)
{
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        const spec *s = &specs[i];
        for (unsigned code = 0; code < s->largest; code++) {
            double low = magnitude(s, code), high = magnitude(s, code + 1);
            double middle = low + (high - low) / 2;
            for (uint32_t flags = 0; flags <= TW_CONVERT_SATURATE; flags++) {
                check_both(s, middle, flags, code + (code & 1));
                check_both(s, nextafter(middle, low), flags, code);
                check_both(s, nextafter(middle, high), flags, code + 1);
                check_both(s, nextafter(high, low), flags, code + 1);
            }
        }
    }
}

static void overflow_is_as_asked(void **state)
{
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        const spec *s = &specs[i];
        double beyond = magnitude(s, s->largest + 1);
        double middle = s->max + (beyond - s->max) / 2;
        const double over[] = {nextafter(middle, beyond), beyond, 2 * beyond, 0x1p1000};
        assert_true(magnitude(s, s->largest) == s->max && tw_dtype_max(s->type) == s->max);
        assert_true(magnitude(s, 1) == s->smallest);
        check_both(s, nextafter(middle, 0), 0, s->largest);
        check_both(s, middle, 0, s->largest & 1 ? s->overflow : s->largest);
        check_both(s, middle, TW_CONVERT_SATURATE, s->largest);
        for (size_t k = 0; k < sizeof over / sizeof over[0]; k++) {
            check_both(s, over[k], 0, s->overflow);
            check_both(s, over[k], TW_CONVERT_SATURATE, s->largest);
        }
        check_both(s, HUGE_VAL, 0, s->overflow);
        check_both(s, HUGE_VAL, TW_CONVERT_SATURATE, s->has_negative_zero ? s->largest : 0x80);
        const double tiny[] = {0, 0x1p-1074, 0x1p-1022, s->smallest / 2};
        for (size_t k = 0; k < sizeof tiny / sizeof tiny[0]; k++) check_both(s, tiny[k], 0, 0);
    }
}

static void nan_stays_nan(void **state)
{
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        const spec *s = &specs[i];
        for (uint32_t flags = 0; flags <= TW_CONVERT_SATURATE; flags++) {
            unsigned code = (unsigned)tw_encode(s->type, (double)NAN, flags);
            if (s->type == TW_F4E2M1) {
                assert_int_equal(code, 7); /* has no NaN */
            } else {
                assert_true(is_nan_code(s, code));
            }
        }
    }
}

static void powers_of_two(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 255; code++) {
        double value = ldexp(1, (int)code - 127);
        assert_true(tw_decode(TW_E8M0, code) == value);
        assert_int_equal(tw_encode(TW_E8M0, value, 0), code);
        if (code == 254) break;
        assert_int_equal(tw_encode(TW_E8M0, 1.5 * value, 0), code + (code & 1));
        assert_int_equal(tw_encode(TW_E8M0, nextafter(1.5 * value, 0), 0), code);
        assert_int_equal(tw_encode(TW_E8M0, nextafter(1.5 * value, 9e99), 0), code + 1);
    }
    assert_true(isnan(tw_decode(TW_E8M0, 255)));
    assert_int_equal(tw_encode(TW_E8M0, 0, 0), 0);
    assert_int_equal(tw_encode(TW_E8M0, 0x1p-1074, 0), 0);
    assert_int_equal(tw_encode(TW_E8M0, 0x1p-128, 0), 0);
    assert_int_equal(tw_encode(TW_E8M0, -1, TW_CONVERT_SATURATE), 255);
    assert_int_equal(tw_encode(TW_E8M0, 0x1.7fp127, 0), 254);
    const double over[] = {0x1.8000001p127, 0x1p128, HUGE_VAL};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(tw_encode(TW_E8M0, over[k], 0), 255);
        assert_int_equal(tw_encode(TW_E8M0, over[k], TW_CONVERT_SATURATE), 254);
    }
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double bits_as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float bits_as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* f32 between random neighbours, subnormal ones too; f64 returns as it was. */
static void wide_floats(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 300000; i++) {
        uint32_t bits = (uint32_t)next_random(&seed) & 0x7fffffff;
        if (bits >= 0x7f7fffff) continue;
        double low = (double)bits_as_float(bits), high = (double)bits_as_float(bits + 1);
        double middle = low + (high - low) / 2;
        assert_true(tw_decode(TW_F32, bits) == low);
        assert_int_equal(tw_encode(TW_F32, low, 0), bits);
        assert_int_equal(tw_encode(TW_F32, middle, 0), bits + (bits & 1));
        assert_int_equal(tw_encode(TW_F32, nextafter(middle, low), 0), bits);
        assert_int_equal(tw_encode(TW_F32, -nextafter(middle, high), 0), 0x80000000u | (bits + 1));
        uint64_t wide = next_random(&seed);
        double value = bits_as_double(wide);
        if (value == value) assert_int_equal(tw_encode(TW_F64, value, 0), wide);
    }
    assert_int_equal(tw_encode(TW_F32, 1e39, 0), 0x7f800000);
    assert_int_equal(tw_encode(TW_F32, -1e39, TW_CONVERT_SATURATE), 0xff7fffff);
    assert_true(isnan(tw_decode(TW_F32, tw_encode(TW_F32, (double)NAN, 0))));
    assert_true(isinf(tw_decode(TW_F64, tw_encode(TW_F64, -HUGE_VAL, 0))));
}

/* ---- Integers -------------------------------------------------------------------------------- */

static const struct {
    tw_dtype type;
    int64_t min, max;
} integers[] = {
    {TW_I2, -2, 1},     {TW_U2, 0, 3},   {TW_I4, -8, 7},          {TW_U4, 0, 15},
    {TW_I8, -128, 127}, {TW_U8, 0, 255}, {TW_I16, -32768, 32767}, {TW_U16, 0, 65535},
};

static int64_t clamped(int64_t value, int64_t min, int64_t max)
{
    return value < min ? min : value > max ? max : value;
}

static int64_t wrapped(int64_t value, int64_t min, int64_t max)
{
    int64_t span = max - min + 1, shifted = (value - min) % span;
    return (shifted < 0 ? shifted + span : shifted) + min;
}

static void check_integer(int k, double value, uint32_t flags, int64_t want)
{
    tw_dtype type = integers[k].type;
    uint64_t code = tw_encode(type, value, flags);
    double got = tw_decode(type, code);
    if (got != (double)want) {
        fail_msg("%s of %.17g (flags %u): %g, want %lld", tw_dtype_name(type), value, flags, got,
                 (long long)want);
    }
}

static void narrow_integers(void **state)
{
    (void)state;
    for (int k = 0; k < (int)(sizeof integers / sizeof integers[0]); k++) {
        int64_t min = integers[k].min, max = integers[k].max, margin = 3 * (max - min) / 2 + 3;
        for (int64_t n = min - margin; n <= max + margin; n++) {
            double x = (double)n, half = x + 0.5;
            int64_t even = n + (n & 1), whole = half < 0 ? n + 1 : n;
            check_integer(k, x, 0, clamped(n, min, max));
            check_integer(k, x, TW_CONVERT_WRAP, wrapped(n, min, max));
            check_integer(k, half, 0, clamped(even, min, max));
            check_integer(k, nextafter(half, x), 0, clamped(n, min, max));
            check_integer(k, nextafter(half, x + 1), 0, clamped(n + 1, min, max));
            check_integer(k, half, TW_CONVERT_TRUNCATE, clamped(whole, min, max));
            int64_t stored = 0;
            tw_store_int(integers[k].type, &stored, 0, n, 0);
            assert_int_equal(tw_load_int(integers[k].type, &stored, 0), clamped(n, min, max));
            tw_store_int(integers[k].type, &stored, 0, n, TW_CONVERT_WRAP);
            assert_int_equal(tw_load_int(integers[k].type, &stored, 0), wrapped(n, min, max));
        }
        check_integer(k, (double)NAN, 0, 0);
        check_integer(k, HUGE_VAL, 0, max);
        check_integer(k, -HUGE_VAL, TW_CONVERT_WRAP, min);
        check_integer(k, 1e300, 0, max);
    }
}

static void wide_integers(void **state)
{
    (void)state;
    const double over[] = {0x1p31, 0x1p32, 0x1p63, 0x1p64, 1e300, HUGE_VAL};
    for (int k = 0; k < 6; k++) {
        assert_int_equal((int64_t)tw_encode(TW_I64, over[k], 0),
                         k < 2 ? (int64_t)over[k] : INT64_MAX);
        assert_int_equal((uint32_t)tw_encode(TW_I32, over[k], 0), INT32_MAX);
        assert_int_equal((uint32_t)tw_encode(TW_I32, -over[k], 0), 0x80000000u);
        assert_int_equal(tw_encode(TW_U64, -over[k], 0), 0);
    }
    assert_true(tw_encode(TW_U64, 0x1p64, 0) == UINT64_MAX);
    assert_true(tw_encode(TW_U64, 0x1p63, 0) == UINT64_C(1) << 63);
    assert_true(tw_encode(TW_U64, -1, TW_CONVERT_WRAP) == UINT64_MAX);
    assert_true(tw_encode(TW_U32, 0x1p64 + 0x1p20, TW_CONVERT_WRAP) == 1u << 20);
    assert_true((int64_t)tw_encode(TW_I64, -0x1p63, 0) == INT64_MIN);
    assert_true((int64_t)tw_encode(TW_I64, -1e300, 0) == INT64_MIN);
    int64_t i = INT64_MIN + 1;
    tw_store_int(TW_I64, &i, 0, INT64_MIN, 0);
    assert_true(tw_load_int(TW_I64, &i, 0) == INT64_MIN);
    assert_true(tw_decode(TW_U64, UINT64_MAX) == 0x1p64);
    tw_store_int(TW_U64, &i, 0, -5, 0);
    assert_true(tw_load_int(TW_U64, &i, 0) == 0);
}

static void booleans(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned char bytes[1] = {(unsigned char)byte};
        assert_true(tw_load(TW_BOOL, bytes, 0) == (byte != 0));
        assert_int_equal(tw_load_int(TW_BOOL, bytes, 0), byte != 0);
    }
    assert_int_equal(tw_encode(TW_BOOL, -0.0, 0), 0);
    assert_int_equal(tw_encode(TW_BOOL, 0.25, 0), 1);
    assert_int_equal(tw_encode(TW_BOOL, (double)NAN, 0), 1);
}

/* ---- Integers into floats: one rounding although a double does not hold the integer ---------- */

static unsigned nearest_code(const spec *s, uint64_t n)
{
    unsigned low = 0,
             high = s->largest + 1; /* value(low) <= n < value(high), or low is the largest */
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if ((long double)magnitude(s, middle) <= (long double)n) {
            low = middle;
        } else {
            high = middle;
        }
    }
    long double below = (long double)n - (long double)magnitude(s, low);
    long double above = (long double)magnitude(s, low + 1) - (long double)n;
    if (above < below || (above == below && (low & 1))) low++;
    return low > s->largest ? s->overflow : low;
}

static void integers_round_once(void **state)
{
    (void)state;
    const spec *bf16 = &specs[1];
    uint64_t seed = 7;
    for (int i = 0; i < 200000; i++) {
        uint64_t n = next_random(&seed) >> (next_random(&seed) % 64);
        /* Half of them just beside a midpoint of bf16, where two roundings would go wrong. */
        if (i & 1) {
            uint64_t top = UINT64_C(0x8080) << 48 | (next_random(&seed) & 0x7f) << 56;
            n = (top + (i & 2 ? 1 : i & 4 ? UINT64_MAX : 0)) >> (next_random(&seed) % 8);
        }
        uint16_t half = 0;
        float single = 0;
        assert_int_equal(tw_convert(TW_BF16, &half, TW_U64, &n, 1, 0), TW_OK);
        assert_int_equal(tw_convert(TW_F32, &single, TW_U64, &n, 1, 0), TW_OK);
        if (half != nearest_code(bf16, n) || single != (float)n) {
            fail_msg("u64 %llu: bf16 0x%x, f32 %a", (unsigned long long)n, half, (double)single);
        }
        int64_t m = -(int64_t)(n >> 1);
        tw_store_int(TW_F32, &single, 0, m, 0);
        tw_store_int(TW_BF16, &half, 0, m, 0);
        if (single != (float)m || (half & 0x7fff) != nearest_code(bf16, n >> 1)) {
            fail_msg("i64 %lld: bf16 0x%x, f32 %a", (long long)m, half, (double)single);
        }
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void packing(void **state)
{
    (void)state;
    unsigned char bytes[2] = {0, 0};
    tw_store_int(TW_I4, bytes, 0, -1, 0);
    tw_store_int(TW_I4, bytes, 1, 2, 0);
    tw_store_int(TW_U4, bytes, 2, 9, 0);
    assert_int_equal(bytes[0], 0x2f);
    assert_int_equal(bytes[1], 0x09);
    for (int i = 0; i < 4; i++) tw_store_int(TW_U2, bytes, 4 + i, i, 0);
    assert_int_equal(bytes[0], 0x2f);
    assert_int_equal(bytes[1], 0xe4);
    tw_store(TW_F4E2M1, bytes, 1, -6.0, 0);
    assert_int_equal(bytes[0], 0xff);
    assert_true(tw_load(TW_F4E2M1, bytes, 1) == -6.0);
    assert_true(tw_load(TW_I2, bytes, 7) == -1);

    const tw_dtype packed[] = {TW_I4, TW_U4, TW_F4E2M1, TW_I2, TW_U2};
    for (int t = 0; t < 5; t++) {
        int bits = tw_dtype_bits(packed[t]), n = 64 / bits;
        for (int i = 0; i < n; i++) {
            for (unsigned code = 0; code < 1u << bits; code++) {
                uint64_t seed = (uint64_t)i, word = next_random(&seed), before = word;
                double value = tw_decode(packed[t], code);
                tw_store(packed[t], &word, i, value, 0);
                uint64_t mask = ((UINT64_C(1) << bits) - 1) << (i * bits);
                assert_true(tw_load(packed[t], &word, i) == value);
                assert_true((word & ~mask) == (before & ~mask));
            }
        }
        assert_int_equal(tw_dtype_bytes(packed[t], 0), 0);
        assert_int_equal(tw_dtype_bytes(packed[t], 9), (9 * bits + 7) / 8);
    }
}

static void properties(void **state)
{
    (void)state;
    for (int i = TW_AUTO + 1; i < TW_DTYPE_END; i++) {
        tw_dtype type = (tw_dtype)i;
        assert_true(tw_dtype_valid(type));
        assert_int_equal(tw_dtype_from_name(tw_dtype_name(type)), type);
        int kinds = tw_dtype_is_float(type) + tw_dtype_is_integer(type) + tw_dtype_is_complex(type);
        assert_int_equal(kinds, type != TW_BOOL);
        if (tw_dtype_bits(type) >= 8) {
            assert_int_equal(tw_dtype_bytes(type, 3), 3 * tw_dtype_bits(type) / 8);
            assert_int_equal(tw_dtype_bytes(type, INT64_MAX),
                             tw_dtype_bits(type) == 8 ? INT64_MAX : -1);
        }
        double u = tw_dtype_epsilon(type);
        if (!tw_dtype_is_float(type)) {
            assert_true(u == 0);
        } else if (type != TW_E8M0) { /* 1 and 1 + 2u are neighbours */
            assert_true(tw_round_to(type, 1 + 2 * u) == 1 + 2 * u);
            assert_true(tw_round_to(type, 1 + u) == 1 || type == TW_F64);
        }
    }
    assert_true(tw_dtype_max(TW_F32) == 0x1.fffffep127);
    assert_true(tw_dtype_max(TW_E8M0) == 0x1p127);
    assert_true(tw_dtype_max(TW_I16) == 32767 && tw_dtype_max(TW_U4) == 15);
    assert_true(tw_dtype_is_signed(TW_F16) && tw_dtype_is_signed(TW_I2));
    assert_false(tw_dtype_is_signed(TW_E8M0) || tw_dtype_is_signed(TW_U8) ||
                 tw_dtype_is_signed(TW_BOOL));
    const int unknown[] = {TW_AUTO, TW_DTYPE_END, -1, 1000};
    for (int k = 0; k < 4; k++) {
        assert_false(tw_dtype_valid((tw_dtype)unknown[k]));
        assert_null(tw_dtype_name((tw_dtype)unknown[k]));
        assert_int_equal(tw_dtype_bits((tw_dtype)unknown[k]), 0);
        assert_int_equal(tw_dtype_bytes((tw_dtype)unknown[k], 1), -1);
    }
    assert_int_equal(tw_dtype_from_name("f33"), TW_AUTO);
    assert_int_equal(tw_dtype_from_name(NULL), TW_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_decodes),
        cmocka_unit_test(every_code_returns),
        cmocka_unit_test(every_midpoint_rounds),
        cmocka_unit_test(overflow_is_as_asked),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(powers_of_two),
        cmocka_unit_test(wide_floats),
        cmocka_unit_test(narrow_integers),
        cmocka_unit_test(wide_integers),
        cmocka_unit_test(booleans),
        cmocka_unit_test(integers_round_once),
        cmocka_unit_test(packing),
        cmocka_unit_test(properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
