/* SPDX-License-Identifier: Apache-2.0 */
/* tw_convert: whole arrays where both types are common floats, else element by element. */
#include <string.h>

#include <tilework/tensor.h>

#include "core/dtype.h"
#include "core/error.h"

/* ---- Common floats, in forms that compilers turn into vector code ---------------------------- */

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float f32_from_bf16(uint16_t bits) { return float_from_bits((uint32_t)bits << 16); }

static uint16_t bf16_from_f32(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static float f32_from_f16(uint16_t half)
{
    uint32_t magnitude = half & 0x7fffu;
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t normal = (magnitude << 13) + 0x38000000;
    uint32_t subnormal = bits_of_float((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t special = 0x7f800000 | (magnitude << 13) | (magnitude > 0x7c00 ? 0x400000 : 0);
    uint32_t bits = magnitude < 0x400 ? subnormal : magnitude < 0x7c00 ? normal : special;
    return float_from_bits(sign | bits);
}

/* Normal results round in integers. Subnormal ones round by adding 0.5, whose last bit is worth
 * 2^-24 as theirs is. */
static uint16_t f16_from_f32(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    uint32_t subnormal = bits_of_float(float_from_bits(magnitude) + 0.5f) - 0x3f000000;
    uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    uint32_t half = magnitude < 0x38800000 ? subnormal : normal;
    half = magnitude >= 0x477ff000 ? 0x7c00 : half; /* halfway past 65504, and infinity */
    half = magnitude > 0x7f800000 ? nan : half;
    return (uint16_t)(half | ((bits >> 16) & 0x8000));
}

/* ---- By way of f32 --------------------------------------------------------------------------- */

enum { CHUNK = 256 };

#define WIDEN(name, type, expression)                                                              \
    static void name(float *wide, const char *src, int64_t n)                                      \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x;                                                                                \
            memcpy(&x, src + i * (int64_t)sizeof x, sizeof x);                                     \
            wide[i] = (expression);                                                                \
        }                                                                                          \
    }

WIDEN(widen_f32, float, x)
WIDEN(widen_f16, uint16_t, f32_from_f16(x))
WIDEN(widen_bf16, uint16_t, f32_from_bf16(x))
WIDEN(widen_i16, int16_t, (float)x)
WIDEN(widen_u16, uint16_t, (float)x)
WIDEN(widen_i8, int8_t, (float)x)
WIDEN(widen_u8, uint8_t, (float)x)

#define NARROW(name, type, expression)                                                             \
    static void name(char *dst, const float *wide, int64_t n)                                      \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            float x = wide[i];                                                                     \
            type y = (expression);                                                                 \
            memcpy(dst + i * (int64_t)sizeof y, &y, sizeof y);                                     \
        }                                                                                          \
    }

NARROW(narrow_f64, double, (double)x)
NARROW(narrow_f32, float, x)
NARROW(narrow_f16, uint16_t, f16_from_f32(x))
NARROW(narrow_bf16, uint16_t, bf16_from_f32(x))

typedef void (*widen_function)(float *wide, const char *src, int64_t n);
typedef void (*narrow_function)(char *dst, const float *wide, int64_t n);

/* Types whose every value is an f32. */
static const widen_function widen_table[TW_DTYPE_END] = {
    [TW_F32] = widen_f32, [TW_F16] = widen_f16, [TW_BF16] = widen_bf16, [TW_I16] = widen_i16,
    [TW_U16] = widen_u16, [TW_I8] = widen_i8,   [TW_U8] = widen_u8,
};
static const narrow_function narrow_table[TW_DTYPE_END] = {
    [TW_F64] = narrow_f64,
    [TW_F32] = narrow_f32,
    [TW_F16] = narrow_f16,
    [TW_BF16] = narrow_bf16,
};

/* NaN passes. */
static void clamp(float *wide, int64_t n, float largest)
{
    for (int64_t i = 0; i < n; i++) {
        wide[i] = wide[i] > largest ? largest : wide[i] < -largest ? -largest : wide[i];
    }
}

typedef struct conversion {
    tw_dtype dst_type, src_type;
    void *dst;
    const void *src;
    uint32_t flags;
} conversion;

static bool goes_by_f32(const conversion *c)
{
    if (!widen_table[c->src_type] || !narrow_table[c->dst_type]) return false;
    /* An infinity saturates to more than an f32 can hold. */
    return c->dst_type != TW_F64 || !(c->flags & TW_CONVERT_SATURATE);
}

static void convert_by_f32(const conversion *c, int64_t n)
{
    float wide[CHUNK];
    int64_t src_bytes = tw_dtype_bytes(c->src_type, 1), dst_bytes = tw_dtype_bytes(c->dst_type, 1);
    for (int64_t start = 0; start < n; start += CHUNK) {
        int64_t length = n - start < CHUNK ? n - start : CHUNK;
        widen_table[c->src_type](wide, (const char *)c->src + start * src_bytes, length);
        if (c->flags & TW_CONVERT_SATURATE) clamp(wide, length, (float)tw_dtype_max(c->dst_type));
        narrow_table[c->dst_type]((char *)c->dst + start * dst_bytes, wide, length);
    }
}

static void convert_f64_to_f32(const conversion *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double wide;
        memcpy(&wide, (const char *)c->src + 8 * i, sizeof wide);
        float narrow = (float)wide;
        memcpy((char *)c->dst + 4 * i, &narrow, sizeof narrow);
    }
}

/* ---- Element by element ---------------------------------------------------------------------- */

/* Beyond int64_t. Integers other than u64 saturate or wrap as from INT64_MAX or the low bits. */
static void convert_large_u64(const conversion *c, int64_t index, uint64_t value)
{
    if (c->dst_type == TW_F64) {
        tw_store(TW_F64, c->dst, index, (double)value, c->flags);
    } else if (tw_dtype_is_float(c->dst_type)) {
        tw_store(c->dst_type, c->dst, index, tw_round_to_odd(value), c->flags);
    } else {
        bool wrap = (c->flags & TW_CONVERT_WRAP) != 0;
        tw_store_int(c->dst_type, c->dst, index, wrap ? (int64_t)value : INT64_MAX, c->flags);
    }
}

static void convert_integers(const conversion *c, int64_t first, int64_t n)
{
    for (int64_t i = first; i < n; i++) {
        int64_t value = tw_load_int(c->src_type, c->src, i);
        if (c->src_type == TW_U64 && value < 0) {
            convert_large_u64(c, i, (uint64_t)value);
        } else {
            tw_store_int(c->dst_type, c->dst, i, value, c->flags);
        }
    }
}

static void convert_floats(const conversion *c, int64_t first, int64_t n)
{
    for (int64_t i = first; i < n; i++) {
        tw_store(c->dst_type, c->dst, i, tw_load(c->src_type, c->src, i), c->flags);
    }
}

/* Whole bytes of equal types; returns the number of elements done. */
static int64_t copy_same(const conversion *c, int64_t n)
{
    bool saturate = (c->flags & TW_CONVERT_SATURATE) && tw_dtype_is_float(c->dst_type);
    if (c->src_type != c->dst_type || saturate || c->src_type == TW_BOOL) return 0;
    int bits = tw_dtype_bits(c->src_type);
    if (bits < 8) n -= n % (8 / bits);
    memmove(c->dst, c->src, (size_t)tw_dtype_bytes(c->src_type, n));
    return n;
}

static void convert(const conversion *c, int64_t n)
{
    bool saturate = (c->flags & TW_CONVERT_SATURATE) != 0;
    int64_t first = copy_same(c, n);
    if (first == n) return;
    if (goes_by_f32(c)) {
        convert_by_f32(c, n);
    } else if (c->src_type == TW_F64 && c->dst_type == TW_F32 && !saturate) {
        convert_f64_to_f32(c, n);
    } else if (tw_dtype_is_float(c->src_type)) {
        convert_floats(c, first, n);
    } else {
        convert_integers(c, first, n);
    }
}

static tw_status check_type(const char *argument, tw_dtype type)
{
    TW_REQUIRE(tw_dtype_valid(type) && !tw_dtype_is_complex(type), TW_INVALID_ARGUMENT,
               "tw_convert: %s is %d; it must be an element type other than c64 and c128", argument,
               (int)type);
    return TW_OK;
}

tw_status tw_convert(tw_dtype dst_type, void *dst, tw_dtype src_type, const void *src, int64_t n,
                     uint32_t flags)
{
    const uint32_t known = TW_CONVERT_SATURATE | TW_CONVERT_TRUNCATE | TW_CONVERT_WRAP;
    TW_TRY(check_type("dst_type", dst_type));
    TW_TRY(check_type("src_type", src_type));
    TW_REQUIRE(n >= 0, TW_INVALID_ARGUMENT, "tw_convert: n is %lld; it must be 0 or more",
               (long long)n);
    TW_REQUIRE((flags & ~known) == 0, TW_INVALID_ARGUMENT,
               "tw_convert: flags are 0x%x; only TW_CONVERT_SATURATE, _TRUNCATE and _WRAP exist",
               (unsigned)flags);
    if (n == 0) return TW_OK;
    TW_REQUIRE(dst && src, TW_INVALID_ARGUMENT, "tw_convert: %s is NULL with n = %lld",
               dst ? "src" : "dst", (long long)n);
    TW_REQUIRE(dst != src || tw_dtype_bits(dst_type) == tw_dtype_bits(src_type),
               TW_INVALID_ARGUMENT,
               "tw_convert: in place from %s to %s; that needs two types of the same size",
               tw_dtype_name(src_type), tw_dtype_name(dst_type));
    conversion c = {dst_type, src_type, dst, src, flags};
    convert(&c, n);
    return TW_OK;
}
