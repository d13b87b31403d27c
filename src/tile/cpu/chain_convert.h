/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of any element type to and from f32, for the chain interpreter. */
#ifndef TW_TILE_CPU_CHAIN_CONVERT_H
#define TW_TILE_CPU_CHAIN_CONVERT_H

#include <math.h>
#include <string.h>

#include "arch/cpu/vec.h"
#include "core/dtype.h"

enum { SEGMENT = 64 }; /* elements converted at a time where they must be gathered or narrowed */

/* ---- Loads of contiguous elements ------------------------------------------------------------ */

#define LOAD_ROW(type, element, vector_load)                                                       \
    static void load_##type(const void *from, int64_t n, float *to)                                \
    {                                                                                              \
        const element *p = from;                                                                   \
        int64_t i = 0;                                                                             \
        for (; i + VLANES <= n; i += VLANES) vf_store(to + i, vector_load(p + i));                 \
        if (i < n) vf_store_n(to + i, vector_load##_n(p + i, (int)(n - i)), (int)(n - i));         \
    }
LOAD_ROW(f32, float, vf_load)
LOAD_ROW(f16, uint16_t, vf_load_f16)
LOAD_ROW(bf16, uint16_t, vf_load_bf16)
LOAD_ROW(i8, int8_t, vf_load_i8)
LOAD_ROW(u8, uint8_t, vf_load_u8)
LOAD_ROW(i32, int32_t, vf_load_i32)
#undef LOAD_ROW

static void load_bool(const void *from, int64_t n, float *to)
{
    load_u8(from, n, to);
    for (int64_t i = 0; i < n; i += VLANES) {
        const int lanes = n - i < VLANES ? (int)(n - i) : VLANES;
        const vm set = vf_ne(vf_load_n(to + i, lanes), vf_zero());
        vf_store_n(to + i, vf_select(set, vf_set(1), vf_zero()), lanes);
    }
}

/* Types that C converts itself, one rounding each. */
#define LOAD_ROW(type, element)                                                                    \
    static void load_##type(const void *from, int64_t n, float *to)                                \
    {                                                                                              \
        const element *p = from;                                                                   \
        for (int64_t i = 0; i < n; i++) to[i] = (float)p[i];                                       \
    }
LOAD_ROW(f64, double)
LOAD_ROW(i64, int64_t)
LOAD_ROW(u64, uint64_t)
LOAD_ROW(u32, uint32_t)
LOAD_ROW(i16, int16_t)
LOAD_ROW(u16, uint16_t)
#undef LOAD_ROW

static void load_row(tw_dtype type, const void *from, int64_t n, float *to)
{
    switch (type) {
    case TW_F32: load_f32(from, n, to); return;
    case TW_F16: load_f16(from, n, to); return;
    case TW_BF16: load_bf16(from, n, to); return;
    case TW_I8: load_i8(from, n, to); return;
    case TW_U8: load_u8(from, n, to); return;
    case TW_BOOL: load_bool(from, n, to); return;
    case TW_I32: load_i32(from, n, to); return;
    case TW_F64: load_f64(from, n, to); return;
    case TW_I64: load_i64(from, n, to); return;
    case TW_U64: load_u64(from, n, to); return;
    case TW_U32: load_u32(from, n, to); return;
    case TW_I16: load_i16(from, n, to); return;
    case TW_U16: load_u16(from, n, to); return;
    default: break;
    }
    for (int64_t i = 0; i < n; i++) to[i] = (float)tw_load(type, from, i);
}

/* ---- Rounding in registers ------------------------------------------------------------------- */

TW_INLINE vf saturated(vf x, float most) { return vf_max(vf_min(x, vf_set(most)), vf_set(-most)); }

TW_INLINE vf rounded_f16(vf x)
{
    uint16_t narrow[VLANES];
    vf_store_f16(narrow, x);
    return vf_load_f16(narrow);
}

TW_INLINE vf rounded_bf16(vf x)
{
    uint16_t narrow[VLANES];
    vf_store_bf16(narrow, x);
    return vf_load_bf16(narrow);
}

typedef struct integer_type {
    float lo, hi; /* hi is one more than the largest value where f32 does not have that */
    bool truncate;
} integer_type;

/* To the nearest integer, or toward zero; NaN gives 0. Types of 32 bits and more end beyond their
 * largest value by one, for whoever stores them to mend. */
TW_INLINE vf rounded_integer(vf x, const integer_type *t)
{
    x = vf_select(vf_isnan(x), vf_zero(), x);
    const vf toward_zero = vf_select(vf_lt(x, vf_zero()), vf_ceil(x), vf_floor(x));
    x = t->truncate ? toward_zero : vf_round(x);
    return vf_max(vf_min(x, vf_set(t->hi)), vf_set(t->lo));
}

static bool integer_limits(tw_dtype type, uint32_t convert, integer_type *t)
{
    if (!tw_dtype_is_integer(type) || (convert & TW_CONVERT_WRAP)) return false;
    const int bits = tw_dtype_bits(type) - (tw_dtype_is_signed(type) ? 1 : 0);
    t->hi = (float)ldexp(1, bits) - (bits < 24 ? 1.0f : 0.0f);
    t->lo = tw_dtype_is_signed(type) ? -(float)ldexp(1, bits) : 0.0f;
    t->truncate = (convert & TW_CONVERT_TRUNCATE) != 0;
    return true;
}

/* Applies `expression` of the vector x to n floats in place. */
#define EACH_VECTOR(p, n, expression)                                                              \
    for (int64_t i_ = 0; i_ < (n); i_ += VLANES) {                                                 \
        const int lanes_ = (n)-i_ < VLANES ? (int)((n)-i_) : VLANES;                               \
        const vf x = vf_load_n((p) + i_, lanes_);                                                  \
        vf_store_n((p) + i_, (expression), lanes_);                                                \
    }

static void round_row(tw_dtype type, uint32_t convert, float *p, int64_t n)
{
    integer_type limits;
    const bool saturate = (convert & TW_CONVERT_SATURATE) != 0;
    if (type == TW_F16) {
        const float most = saturate ? 65504.0f : INFINITY;
        EACH_VECTOR(p, n, rounded_f16(saturated(x, most)))
    } else if (type == TW_BF16) {
        const float most = saturate ? 0x1.fep127f : INFINITY;
        EACH_VECTOR(p, n, rounded_bf16(saturated(x, most)))
    } else if (type == TW_F32) {
        if (saturate) EACH_VECTOR(p, n, saturated(x, 0x1.fffffep127f))
    } else if (type == TW_BOOL) {
        EACH_VECTOR(p, n, vf_select(vf_ne(x, vf_zero()), vf_set(1), vf_zero()))
    } else if (integer_limits(type, convert, &limits)) {
        EACH_VECTOR(p, n, rounded_integer(x, &limits))
    } else {
        for (int64_t i = 0; i < n; i++)
            p[i] = (float)tw_decode(type, tw_encode(type, (double)p[i], convert));
    }
}

/* ---- Stores of contiguous elements ----------------------------------------------------------- */

static void store_f32(const float *from, int64_t n, bool saturate, void *to)
{
    float *p = to;
    const float most = saturate ? 0x1.fffffep127f : INFINITY;
    for (int64_t i = 0; i < n; i += VLANES) {
        const int lanes = n - i < VLANES ? (int)(n - i) : VLANES;
        vf_store_n(p + i, saturated(vf_load_n(from + i, lanes), most), lanes);
    }
}

#define STORE_ROW(type, largest)                                                                   \
    static void store_##type(const float *from, int64_t n, bool saturate, void *to)                \
    {                                                                                              \
        uint16_t *p = to;                                                                          \
        const float most = saturate ? largest : INFINITY;                                          \
        int64_t i = 0;                                                                             \
        for (; i + VLANES <= n; i += VLANES)                                                       \
            vf_store_##type(p + i, saturated(vf_load(from + i), most));                            \
        const int rest = (int)(n - i);                                                             \
        if (rest > 0)                                                                              \
            vf_store_##type##_n(p + i, saturated(vf_load_n(from + i, rest), most), rest);          \
    }
STORE_ROW(f16, 65504.0f)
STORE_ROW(bf16, 0x1.fep127f)
#undef STORE_ROW

/* Up to SEGMENT elements of i8 … i32 by way of 32-bit lanes. False for other types. */
static bool store_integers(tw_dtype type, const float *from, int n, const integer_type *t, void *to)
{
    int32_t wide[SEGMENT];
    for (int i = 0; i < n; i += VLANES) {
        const vf x = rounded_integer(vf_load_n(from + i, n - i < VLANES ? n - i : VLANES), t);
        const vm beyond = vf_ge(x, vf_set(0x1p31f));
        const vi whole = vi_from_vf(vf_select(beyond, vf_zero(), x));
        vi_store(wide + i, vi_select(beyond, vi_set(INT32_MAX), whole));
    }
    uint8_t *bytes = to;
    uint16_t *halves = to;
    switch (type) {
    case TW_I8:
    case TW_U8:
        for (int i = 0; i < n; i++) bytes[i] = (uint8_t)wide[i];
        return true;
    case TW_I16:
    case TW_U16:
        for (int i = 0; i < n; i++) halves[i] = (uint16_t)wide[i];
        return true;
    case TW_I32: memcpy(to, wide, (size_t)n * sizeof wide[0]); return true;
    default: return false;
    }
}

static void store_bool(const float *from, int64_t n, void *to)
{
    uint8_t *bytes = to;
    for (int64_t i = 0; i < n; i++) bytes[i] = from[i] != 0;
}

static void store_row(tw_dtype type, uint32_t convert, const float *from, int64_t n, void *to)
{
    const bool saturate = (convert & TW_CONVERT_SATURATE) != 0;
    const int64_t bytes = tw_dtype_bits(type) / 8;
    integer_type limits;
    switch (type) {
    case TW_F32: store_f32(from, n, saturate, to); return;
    case TW_F16: store_f16(from, n, saturate, to); return;
    case TW_BF16: store_bf16(from, n, saturate, to); return;
    case TW_BOOL: store_bool(from, n, to); return;
    default: break;
    }
    const bool narrow = bytes < 8 && type != TW_U32 && integer_limits(type, convert, &limits);
    for (int64_t i = 0; i < n; i += SEGMENT) {
        const int count = n - i < SEGMENT ? (int)(n - i) : SEGMENT;
        void *place = (char *)to + i * bytes;
        if (narrow && store_integers(type, from + i, count, &limits, place)) continue;
        for (int e = 0; e < count; e++) tw_store(type, place, e, (double)from[i + e], convert);
    }
}

/* ---- Strided elements ------------------------------------------------------------------------ */

/* Copies n elements of `bytes` bytes, `from_step` and `to_step` bytes apart. */
static void copy_strided(int64_t bytes, const char *from, int64_t from_step, char *to,
                         int64_t to_step, int64_t n)
{
#define CASE(width)                                                                                \
case width:                                                                                        \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, width);         \
    return;
    switch (bytes) {
        CASE(1)
        CASE(2)
        CASE(4)
        CASE(8)
    default: return;
    }
#undef CASE
}

static void load_strided(tw_dtype type, const char *from, int64_t step, int64_t n, float *to)
{
    const int64_t bytes = tw_dtype_bits(type) / 8;
    _Alignas(8) char raw[8 * SEGMENT];
    for (int64_t i = 0; i < n; i += SEGMENT) {
        const int64_t count = n - i < SEGMENT ? n - i : SEGMENT;
        copy_strided(bytes, from + i * step, step, raw, bytes, count);
        load_row(type, raw, count, to + i);
    }
}

static void store_strided(tw_dtype type, uint32_t convert, const float *from, int64_t n, char *to,
                          int64_t step)
{
    const int64_t bytes = tw_dtype_bits(type) / 8;
    _Alignas(8) char raw[8 * SEGMENT];
    for (int64_t i = 0; i < n; i += SEGMENT) {
        const int64_t count = n - i < SEGMENT ? n - i : SEGMENT;
        store_row(type, convert, from + i, count, raw);
        copy_strided(bytes, raw, bytes, to + i * step, step, count);
    }
}

static void fill_row(float value, int64_t n, float *to)
{
    const vf x = vf_set(value);
    int64_t i = 0;
    for (; i + VLANES <= n; i += VLANES) vf_store(to + i, x);
    if (i < n) vf_store_n(to + i, x, (int)(n - i));
}

#endif
