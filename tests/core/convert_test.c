/* SPDX-License-Identifier: Apache-2.0 */
/* tw_convert against single loads and stores, which dtype_test holds to the formats themselves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/dtype.h"

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static const tw_dtype halves[] = {TW_F16, TW_BF16};
static const tw_dtype wide[] = {TW_F32, TW_F64};

/* All 65,536 codes to f32 and f64 and back, in one call each. */
static void halves_return(void **state)
{
    (void)state;
    static uint16_t codes[65536], back[65536];
    static double values[65536];
    for (int i = 0; i < 65536; i++) codes[i] = (uint16_t)i;
    for (int t = 0; t < 4; t++) {
        tw_dtype half = halves[t & 1], type = wide[t >> 1];
        assert_int_equal(tw_convert(type, values, half, codes, 65536, 0), TW_OK);
        assert_int_equal(tw_convert(half, back, type, values, 65536, 0), TW_OK);
        for (int i = 0; i < 65536; i++) {
            double got = tw_load(type, values, i), want = tw_decode(half, (uint64_t)i);
            bool same = want != want ? got != got : got == want && signbit(got) == signbit(want);
            bool returned = want != want ? tw_decode(half, back[i]) != want : back[i] == i;
            if (!same || !returned) {
                fail_msg("%s code 0x%x: %a, want %a; back 0x%x", tw_dtype_name(half), i, got, want,
                         back[i]);
            }
        }
    }
}

enum { BATCH = 1024 };

static void check_batch(tw_dtype half, const float *values, int n)
{
    uint16_t got[BATCH];
    for (uint32_t flags = 0; flags <= TW_CONVERT_SATURATE; flags++) {
        assert_int_equal(tw_convert(half, got, TW_F32, values, n, flags), TW_OK);
        for (int i = 0; i < n; i++) {
            uint64_t want = tw_encode(half, (double)values[i], flags);
            if (got[i] != want) {
                fail_msg("%a to %s (flags %u): 0x%x, want 0x%x", (double)values[i],
                         tw_dtype_name(half), flags, got[i], (unsigned)want);
            }
        }
    }
}

/* f32 across its whole range by a step that is odd, so that all low bits occur. */
static void f32_sweep(void **state)
{
    (void)state;
    float values[BATCH];
    uint32_t bits = 0;
    for (int batch = 0; batch < 1000; batch++) {
        for (int i = 0; i < BATCH; i++, bits += 4193) memcpy(&values[i], &bits, sizeof bits);
        for (int t = 0; t < 2; t++) check_batch(halves[t], values, BATCH);
    }
}

/* Every midpoint between two half-width values, and the f32 on each side of it. */
static void f32_midpoints(void **state)
{
    (void)state;
    float values[BATCH];
    for (int t = 0; t < 2; t++) {
        int n = 0;
        for (uint32_t code = 0; tw_decode(halves[t], code + 1) < HUGE_VAL; code++) {
            double low = tw_decode(halves[t], code), high = tw_decode(halves[t], code + 1);
            float middle = (float)(low + (high - low) / 2);
            values[n++] = middle;
            values[n++] = nextafterf(-middle, 0);
            values[n++] = nextafterf(middle, HUGE_VALF);
            if (n > BATCH - 3) {
                check_batch(halves[t], values, n);
                n = 0;
            }
        }
        const float special[] = {65519.9f, 65520.0f, 0x1.ffp127f, HUGE_VALF, -HUGE_VALF, 0, -0.0f};
        check_batch(halves[t], values, n);
        check_batch(halves[t], special, 7);
    }
}

/* Two roundings, by way of f32, would be wrong just beside a midpoint. */
static void f64_rounds_once(void **state)
{
    (void)state;
    const double values[] = {1 + 0x1p-11 + 0x1p-50, 1 + 0x1p-8 + 0x1p-50, 1 + 0x1p-4 + 0x1p-50};
    const tw_dtype types[] = {TW_F16, TW_BF16, TW_E4M3FN};
    const double want[] = {1 + 0x1p-10, 1 + 0x1p-7, 1.125};
    for (int i = 0; i < 3; i++) {
        uint16_t code = 0;
        assert_int_equal(tw_convert(types[i], &code, TW_F64, &values[i], 1, 0), TW_OK);
        assert_true(tw_load(types[i], &code, 0) == want[i]);
    }
    const double large[] = {1e300, -1e300, HUGE_VAL};
    float got[3];
    assert_int_equal(tw_convert(TW_F32, got, TW_F64, large, 3, 0), TW_OK);
    assert_true(isinf(got[0]) && isinf(got[1]) && got[1] < 0);
    assert_int_equal(tw_convert(TW_F32, got, TW_F64, large, 3, TW_CONVERT_SATURATE), TW_OK);
    assert_true(got[0] == 0x1.fffffep127f && got[1] == -got[0] && got[2] == got[0]);
}

/* ---- Any pair of types ----------------------------------------------------------------------- */

enum { N = 523 }; /* two chunks and a part, and a part of a byte */

static void fill(tw_dtype type, unsigned char *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)(next_random(&seed) >> 33);
    /* Ordinary magnitudes, among which the narrow types tell values apart. */
    if (tw_dtype_is_float(type)) {
        for (int64_t i = 0; i < N; i += 2) {
            double u = (double)(next_random(&seed) >> 11) * 0x1p-53;
            tw_store(type, bytes, i, ldexp(u - 0.4, (int)(next_random(&seed) % 20) - 6), 0);
        }
    }
}

static void store_expected(tw_dtype dst_type, void *dst, tw_dtype src_type, const void *src,
                           uint32_t flags)
{
    for (int64_t i = 0; i < N; i++) {
        if (tw_dtype_is_float(src_type)) {
            tw_store(dst_type, dst, i, tw_load(src_type, src, i), flags);
        } else if (src_type == TW_U64) {
            uint64_t value;
            memcpy(&value, (const char *)src + 8 * i, sizeof value);
            bool large = value > INT64_MAX;
            if (large && dst_type == TW_F64) {
                tw_store(dst_type, dst, i, (double)value, flags);
            } else if (large && tw_dtype_is_float(dst_type)) {
                tw_store(dst_type, dst, i, tw_round_to_odd(value), flags);
            } else if (dst_type == TW_U64) {
                memcpy((char *)dst + 8 * i, &value, sizeof value);
            } else {
                bool wrap = (flags & TW_CONVERT_WRAP) || !large;
                tw_store_int(dst_type, dst, i, wrap ? (int64_t)value : INT64_MAX, flags);
            }
        } else {
            tw_store_int(dst_type, dst, i, tw_load_int(src_type, src, i), flags);
        }
    }
}

static bool same_element(tw_dtype type, const void *a, const void *b, int64_t i)
{
    if (tw_dtype_is_float(type)) {
        double x = tw_load(type, a, i), y = tw_load(type, b, i);
        return x != x ? y != y : x == y && signbit(x) == signbit(y);
    }
    return tw_load_int(type, a, i) == tw_load_int(type, b, i);
}

static void check_pair(tw_dtype dst_type, tw_dtype src_type, uint32_t flags)
{
    static unsigned char src[8 * N], want[8 * N], got[8 * N + 8];
    uint64_t seed = (uint64_t)dst_type * 64 + (uint64_t)src_type;
    fill(src_type, src, sizeof src, seed);
    memset(want, 0xa5, sizeof want);
    memset(got, 0xa5, sizeof got);
    store_expected(dst_type, want, src_type, src, flags);
    assert_int_equal(tw_convert(dst_type, got, src_type, src, N, flags), TW_OK);
    for (int64_t i = 0; i < N; i++) {
        if (!same_element(dst_type, got, want, i)) {
            fail_msg("%s to %s, flags %u, element %lld: %.17g gave %.17g, want %.17g",
                     tw_dtype_name(src_type), tw_dtype_name(dst_type), flags, (long long)i,
                     tw_load(src_type, src, i), tw_load(dst_type, got, i),
                     tw_load(dst_type, want, i));
        }
    }
    /* Nothing is written past the last element, not even in its byte. */
    int64_t end = tw_dtype_bytes(dst_type, N), used = (int64_t)N * tw_dtype_bits(dst_type) % 8;
    if (used) assert_int_equal(got[end - 1] >> used, 0xa5 >> used);
    for (int k = 0; k < 8; k++) assert_int_equal(got[end + k], 0xa5);
    if (tw_dtype_bits(dst_type) != tw_dtype_bits(src_type)) return;
    assert_int_equal(tw_convert(dst_type, src, src_type, src, N, flags), TW_OK);
    for (int64_t i = 0; i < N; i++) assert_true(same_element(dst_type, src, want, i));
}

static void every_pair(void **state)
{
    (void)state;
    const uint32_t flags[] = {0, TW_CONVERT_SATURATE, TW_CONVERT_TRUNCATE, TW_CONVERT_WRAP};
    for (int dst = TW_F64; dst <= TW_BOOL; dst++) {
        for (int src = TW_F64; src <= TW_BOOL; src++) {
            for (int k = 0; k < 4; k++) check_pair((tw_dtype)dst, (tw_dtype)src, flags[k]);
        }
    }
}

static void large_unsigned(void **state)
{
    (void)state;
    const uint64_t values[] = {UINT64_MAX, UINT64_C(1) << 63, (UINT64_C(1) << 63) + 5};
    int64_t signed_got[3];
    uint8_t bytes[3];
    assert_int_equal(tw_convert(TW_I64, signed_got, TW_U64, values, 3, 0), TW_OK);
    assert_int_equal(tw_convert(TW_U8, bytes, TW_U64, values, 3, TW_CONVERT_WRAP), TW_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(signed_got[i] == INT64_MAX);
        assert_int_equal(bytes[i], values[i] & 0xff);
    }
    assert_int_equal(tw_convert(TW_U8, bytes, TW_U64, values, 3, 0), TW_OK);
    assert_int_equal(bytes[1], 255);
}

static void refusals(void **state)
{
    (void)state;
    float x = 1;
    double y = 1;
    assert_int_equal(tw_convert(TW_C64, &y, TW_F32, &x, 1, 0), TW_INVALID_ARGUMENT);
    assert_non_null(strstr(tw_last_error(), "dst_type"));
    assert_int_equal(tw_convert(TW_F64, &y, TW_AUTO, &x, 1, 0), TW_INVALID_ARGUMENT);
    assert_int_equal(tw_convert(TW_F64, &y, TW_F32, &x, -1, 0), TW_INVALID_ARGUMENT);
    assert_int_equal(tw_convert(TW_F64, &y, TW_F32, NULL, 1, 0), TW_INVALID_ARGUMENT);
    assert_non_null(strstr(tw_last_error(), "src"));
    assert_int_equal(tw_convert(TW_F64, NULL, TW_F32, &x, 1, 0), TW_INVALID_ARGUMENT);
    assert_int_equal(tw_convert(TW_F64, &y, TW_F32, &x, 1, 8), TW_INVALID_ARGUMENT);
    assert_int_equal(tw_convert(TW_F64, &y, TW_F32, &y, 1, 0), TW_INVALID_ARGUMENT);
    assert_int_equal(tw_convert(TW_F64, NULL, TW_F32, NULL, 0, 0), TW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_return), cmocka_unit_test(f32_sweep),
        cmocka_unit_test(f32_midpoints), cmocka_unit_test(f64_rounds_once),
        cmocka_unit_test(every_pair),    cmocka_unit_test(large_unsigned),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
