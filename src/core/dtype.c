/* SPDX-License-Identifier: Apache-2.0 */
/* Every narrow float is described by four figures, and one routine each encodes and decodes it. */
#include "core/dtype.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef enum type_kind { ABSENT, FLOAT, SIGNED, UNSIGNED, BOOL, COMPLEX } type_kind;

/* What a format does with the codes that IEEE 754 gives to infinities and NaNs. */
typedef enum special {
    INFINITE,      /* as IEEE 754 does */
    NAN_ONLY,      /* all ones is NaN; no infinity */
    UNSIGNED_ZERO, /* the code of -0 is the only NaN; no infinity */
    POWER,         /* no sign, no zero, no subnormals; all ones is NaN */
    FINITE         /* neither; NaN is stored as the largest value */
} special;

typedef struct float_format {
    int exponent_bits, mantissa_bits, bias;
    special special;
} float_format;

typedef struct type_info {
    type_kind kind;
    int bits;
    float_format format;
} type_info;

#define FORMAT(exponent_bits, mantissa_bits, bias, special)                                        \
    {                                                                                              \
        exponent_bits, mantissa_bits, bias, special                                                \
    }
#define NONE                                                                                       \
    {                                                                                              \
        0, 0, 0, INFINITE                                                                          \
    }
static const type_info types[TW_DTYPE_END] = {
#define X(type, name, bits, kind, range) [type] = {kind, bits, range},
#include "core/dtype.def"
#undef X
};

static const type_info *info_of(tw_dtype type)
{
    size_t index = (size_t)type;
    return &types[index < TW_DTYPE_END ? index : TW_AUTO];
}

bool tw_dtype_valid(tw_dtype type) { return info_of(type)->kind != ABSENT; }
bool tw_dtype_is_float(tw_dtype type) { return info_of(type)->kind == FLOAT; }
bool tw_dtype_is_complex(tw_dtype type) { return info_of(type)->kind == COMPLEX; }

bool tw_dtype_is_integer(tw_dtype type)
{
    type_kind kind = info_of(type)->kind;
    return kind == SIGNED || kind == UNSIGNED;
}

bool tw_dtype_is_signed(tw_dtype type)
{
    const type_info *info = info_of(type);
    if (info->kind == FLOAT) return info->format.special != POWER;
    return info->kind == SIGNED || info->kind == COMPLEX;
}

int64_t tw_dtype_bytes(tw_dtype type, int64_t elements)
{
    int bits = info_of(type)->bits;
    if (bits == 0 || elements < 0) return -1;
    if (bits < 8) {
        int64_t per_byte = 8 / bits;
        return elements / per_byte + (elements % per_byte != 0);
    }
    return elements <= INT64_MAX / (bits / 8) ? elements * (bits / 8) : -1;
}

static double double_from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- Floats ---------------------------------------------------------------------------------- */

enum { DOUBLE_MANTISSA = 52, DOUBLE_BIAS = 1023, DOUBLE_TOP = 2047 };
#define DOUBLE_FRACTION ((UINT64_C(1) << DOUBLE_MANTISSA) - 1)

static double power_of_two(int exponent)
{
    return double_from_bits((uint64_t)(exponent + DOUBLE_BIAS) << DOUBLE_MANTISSA);
}

/* The code of the largest finite value, without a sign. */
static uint64_t largest_code(const float_format *f)
{
    uint64_t all_ones = (UINT64_C(1) << (f->exponent_bits + f->mantissa_bits)) - 1;
    switch (f->special) {
    case INFINITE: return all_ones - (UINT64_C(1) << f->mantissa_bits);
    case NAN_ONLY:
    case POWER: return all_ones - 1;
    case UNSIGNED_ZERO:
    case FINITE: break;
    }
    return all_ones;
}

static uint64_t sign_code(const float_format *f)
{
    return f->special == POWER ? 0 : UINT64_C(1) << (f->exponent_bits + f->mantissa_bits);
}

/* x / 2^shift to nearest even, for shifts of 1 to 63 and x that leaves room for the carry. */
static uint64_t shift_rounded(uint64_t x, int shift)
{
    uint64_t below_half = (UINT64_C(1) << (shift - 1)) - 1;
    return (x + below_half + ((x >> shift) & 1)) >> shift;
}

/* The code nearest to a finite |value|, as if the exponent had no upper end. Codes of one format
 * grow with their values, so a carry out of the mantissa is right as it stands. */
static uint64_t magnitude_code(const float_format *f, uint64_t double_bits)
{
    uint64_t fraction = double_bits & DOUBLE_FRACTION;
    int exponent = (int)(double_bits >> DOUBLE_MANTISSA) - DOUBLE_BIAS + f->bias;
    int shift = DOUBLE_MANTISSA - f->mantissa_bits;
    int least = f->special == POWER ? 0 : 1; /* exponent of the smallest normal value */
    if (exponent >= least) {
        return shift_rounded((uint64_t)exponent << DOUBLE_MANTISSA | fraction, shift);
    }
    if (f->special == POWER) return 0;
    shift += 1 - exponent;
    if (shift > DOUBLE_MANTISSA + 1) return 0; /* below half of the smallest value */
    return shift_rounded(fraction | (DOUBLE_FRACTION + 1), shift);
}

/* NaN keeps its sign and the top of its payload where the format has room, and becomes quiet. */
static uint64_t nan_code(const float_format *f, uint64_t sign, uint64_t double_bits)
{
    uint64_t payload = (double_bits & DOUBLE_FRACTION) >> (DOUBLE_MANTISSA - f->mantissa_bits);
    switch (f->special) {
    case INFINITE:
        return sign | (largest_code(f) + 1) | (UINT64_C(1) << (f->mantissa_bits - 1)) | payload;
    case UNSIGNED_ZERO: return sign_code(f);
    case FINITE: return largest_code(f);
    case NAN_ONLY:
    case POWER: break;
    }
    return sign | (largest_code(f) + 1);
}

static uint64_t overflow_code(const float_format *f, uint64_t sign, bool infinite, uint32_t flags)
{
    bool saturate = (flags & TW_CONVERT_SATURATE) != 0 || f->special == FINITE;
    if (saturate && !(infinite && f->special == UNSIGNED_ZERO)) return sign | largest_code(f);
    if (f->special == UNSIGNED_ZERO) return sign_code(f);
    return sign | (largest_code(f) + 1); /* infinity, or NaN in formats without one */
}

static uint64_t encode_float(const float_format *f, double value, uint32_t flags)
{
    uint64_t bits = bits_of_double(value);
    uint64_t sign = bits >> 63 ? sign_code(f) : 0;
    bits &= ~(UINT64_C(1) << 63);
    if (value != value) return nan_code(f, sign, bits);
    if (f->special == POWER && value < 0) return largest_code(f) + 1;
    bool infinite = bits >> DOUBLE_MANTISSA == DOUBLE_TOP;
    uint64_t code = infinite ? UINT64_MAX : magnitude_code(f, bits);
    if (code > largest_code(f)) return overflow_code(f, sign, infinite, flags);
    if (code == 0 && f->special == UNSIGNED_ZERO) return 0;
    return sign | code;
}

static double decode_magnitude(const float_format *f, uint64_t code)
{
    uint64_t mantissa = code & ((UINT64_C(1) << f->mantissa_bits) - 1);
    int exponent = (int)(code >> f->mantissa_bits);
    if (exponent == 0 && f->special != POWER) {
        return (double)mantissa * power_of_two(1 - f->bias - f->mantissa_bits);
    }
    uint64_t fraction = mantissa << (DOUBLE_MANTISSA - f->mantissa_bits);
    uint64_t double_exponent = (uint64_t)(exponent - f->bias + DOUBLE_BIAS);
    return double_from_bits(double_exponent << DOUBLE_MANTISSA | fraction);
}

static double decode_float(const float_format *f, uint64_t bits)
{
    uint64_t sign = bits & sign_code(f);
    uint64_t code = bits & ((UINT64_C(1) << (f->exponent_bits + f->mantissa_bits)) - 1);
    uint64_t double_sign = sign ? UINT64_C(1) << 63 : 0;
    if (f->special == UNSIGNED_ZERO && sign && code == 0) return (double)NAN;
    if (code > largest_code(f)) {
        uint64_t payload = code - (largest_code(f) + 1);
        uint64_t top = (uint64_t)DOUBLE_TOP << DOUBLE_MANTISSA;
        if (f->special != INFINITE || payload != 0) top |= UINT64_C(1) << (DOUBLE_MANTISSA - 1);
        if (f->mantissa_bits > 0) top |= payload << (DOUBLE_MANTISSA - f->mantissa_bits);
        return double_from_bits(double_sign | top);
    }
    double magnitude = decode_magnitude(f, code);
    return sign ? -magnitude : magnitude;
}

/* isinf warns of a lost digit with mingw-w64's headers. */
static bool is_infinite(double value) { return fabs(value) > DBL_MAX; }

static uint64_t encode_f32(double value, uint32_t flags)
{
    float narrow = (float)value;
    if (is_infinite((double)narrow) && (flags & TW_CONVERT_SATURATE))
        narrow = narrow < 0 ? -FLT_MAX : FLT_MAX;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

static double decode_f32(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return (double)value;
}

static uint64_t encode_f64(double value, uint32_t flags)
{
    if (is_infinite(value) && (flags & TW_CONVERT_SATURATE)) value = value < 0 ? -DBL_MAX : DBL_MAX;
    return bits_of_double(value);
}

/* ---- Integers -------------------------------------------------------------------------------- */

static uint64_t low_mask(int bits) { return bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX; }

/* Integers arrive as a sign and a magnitude, so that i64 and u64 take the same way. */
static uint64_t encode_integer(const type_info *info, bool negative, uint64_t magnitude,
                               uint32_t flags)
{
    uint64_t mask = low_mask(info->bits);
    if (!(flags & TW_CONVERT_WRAP)) {
        uint64_t most = info->kind == SIGNED ? mask >> 1 : mask;
        if (negative) most = info->kind == SIGNED ? most + 1 : 0;
        if (magnitude > most) magnitude = most;
    }
    return (negative ? 0 - magnitude : magnitude) & mask;
}

static uint64_t encode_integer_from_double(const type_info *info, double value, uint32_t flags)
{
    if (value != value) return 0;
    double whole = flags & TW_CONVERT_TRUNCATE ? trunc(value) : rint(value);
    double magnitude = fabs(whole);
    bool beyond = magnitude >= 0x1p64;
    if (beyond && !is_infinite(magnitude) && (flags & TW_CONVERT_WRAP)) {
        magnitude = fmod(magnitude, 0x1p64);
        beyond = false;
    }
    if (is_infinite(magnitude)) flags &= ~(uint32_t)TW_CONVERT_WRAP;
    return encode_integer(info, whole < 0, beyond ? UINT64_MAX : (uint64_t)magnitude, flags);
}

static int64_t decode_integer(const type_info *info, uint64_t bits)
{
    uint64_t mask = low_mask(info->bits);
    bits &= mask;
    if (info->kind == SIGNED && bits > mask >> 1) bits |= ~mask;
    return (int64_t)bits;
}

double tw_round_to_odd(uint64_t magnitude)
{
    int shift = 0;
    while (magnitude >> shift >> (DOUBLE_MANTISSA + 1)) shift++;
    uint64_t kept = magnitude >> shift;
    if (kept << shift != magnitude) kept |= 1;
    return (double)kept * power_of_two(shift);
}

/* ---- Any type -------------------------------------------------------------------------------- */

uint64_t tw_encode(tw_dtype type, double value, uint32_t flags)
{
    if (type == TW_F32) return encode_f32(value, flags);
    if (type == TW_F64) return encode_f64(value, flags);
    const type_info *info = info_of(type);
    switch (info->kind) {
    case FLOAT: return encode_float(&info->format, value, flags);
    case SIGNED:
    case UNSIGNED: return encode_integer_from_double(info, value, flags);
    case BOOL: return value != 0;
    case COMPLEX:
    case ABSENT: break;
    }
    return 0;
}

double tw_decode(tw_dtype type, uint64_t bits)
{
    if (type == TW_F32) return decode_f32(bits);
    if (type == TW_F64) return double_from_bits(bits);
    const type_info *info = info_of(type);
    switch (info->kind) {
    case FLOAT: return decode_float(&info->format, bits);
    case SIGNED: return (double)decode_integer(info, bits);
    case UNSIGNED: return (double)(bits & low_mask(info->bits));
    case BOOL: return (bits & 0xff) != 0;
    case COMPLEX:
    case ABSENT: break;
    }
    return 0;
}

static uint64_t read_bits(int bits, const void *base, int64_t index)
{
    const unsigned char *bytes = base;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (bits) {
    case 8: return bytes[index];
    case 16: memcpy(&two, bytes + 2 * index, sizeof two); return two;
    case 32: memcpy(&four, bytes + 4 * index, sizeof four); return four;
    case 64: memcpy(&eight, bytes + 8 * index, sizeof eight); return eight;
    case 4: return (uint64_t)(bytes[index / 2] >> (index % 2 * 4)) & 0xf;
    case 2: return (uint64_t)(bytes[index / 4] >> (index % 4 * 2)) & 0x3;
    default: return 0;
    }
}

/* Replaces `bits` bits of a byte, `shift` from its low end. */
static void write_part(unsigned char *byte, int bits, int shift, uint64_t code)
{
    unsigned mask = (1u << bits) - 1;
    *byte = (unsigned char)((*byte & ~(mask << shift)) | (((unsigned)code & mask) << shift));
}

static void write_bits(int bits, void *base, int64_t index, uint64_t code)
{
    unsigned char *bytes = base;
    uint16_t two = (uint16_t)code;
    uint32_t four = (uint32_t)code;
    switch (bits) {
    case 8: bytes[index] = (unsigned char)code; break;
    case 16: memcpy(bytes + 2 * index, &two, sizeof two); break;
    case 32: memcpy(bytes + 4 * index, &four, sizeof four); break;
    case 64: memcpy(bytes + 8 * index, &code, sizeof code); break;
    case 4: write_part(bytes + index / 2, 4, (int)(index % 2 * 4), code); break;
    case 2: write_part(bytes + index / 4, 2, (int)(index % 4 * 2), code); break;
    default: break;
    }
}

double tw_load(tw_dtype type, const void *base, int64_t index)
{
    if (type == TW_F32) {
        float value;
        memcpy(&value, (const char *)base + 4 * index, sizeof value);
        return (double)value;
    }
    return tw_decode(type, read_bits(info_of(type)->bits, base, index));
}

int64_t tw_load_int(tw_dtype type, const void *base, int64_t index)
{
    const type_info *info = info_of(type);
    uint64_t bits = read_bits(info->bits, base, index);
    return info->kind == BOOL ? bits != 0 : decode_integer(info, bits);
}

void tw_store(tw_dtype type, void *base, int64_t index, double value, uint32_t flags)
{
    write_bits(info_of(type)->bits, base, index, tw_encode(type, value, flags));
}

/* The code of an integer in any type: rounded once, also where a double cannot hold it. */
static uint64_t encode_from_integer(tw_dtype type, int64_t value, uint32_t flags)
{
    const type_info *info = info_of(type);
    bool negative = value < 0;
    uint64_t magnitude = negative ? 0 - (uint64_t)value : (uint64_t)value;
    if (tw_dtype_is_integer(type)) return encode_integer(info, negative, magnitude, flags);
    if (type == TW_F64) return bits_of_double((double)value);
    double odd = tw_round_to_odd(magnitude);
    return tw_encode(type, negative ? -odd : odd, flags);
}

void tw_store_int(tw_dtype type, void *base, int64_t index, int64_t value, uint32_t flags)
{
    write_bits(info_of(type)->bits, base, index, encode_from_integer(type, value, flags));
}

double tw_round_to(tw_dtype type, double value)
{
    return tw_decode(type, tw_encode(type, value, 0));
}

double tw_dtype_epsilon(tw_dtype type)
{
    const type_info *info = info_of(type);
    return info->kind == FLOAT ? power_of_two(-info->format.mantissa_bits - 1) : 0;
}

double tw_dtype_max(tw_dtype type)
{
    const type_info *info = info_of(type);
    switch (info->kind) {
    case FLOAT: return tw_decode(type, largest_code(&info->format));
    case SIGNED: return (double)(low_mask(info->bits) >> 1);
    case UNSIGNED: return (double)low_mask(info->bits);
    case BOOL: return 1;
    case COMPLEX:
    case ABSENT: break;
    }
    return 0;
}
