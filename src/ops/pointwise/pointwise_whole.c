/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic of the modes, in 64 bits; it wraps, and is done on unsigned words because
 * overflow of signed ones is undefined. */
#include <math.h>

#include "ops/pointwise/pointwise_math.h"

typedef struct integers {
    const tw_pointwise_attrs *p;
    bool is_unsigned;
} integers;

static bool less(const integers *k, int64_t a, int64_t b)
{
    return k->is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
}

static int64_t add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t larger(const integers *k, int64_t a, int64_t b) { return less(k, a, b) ? b : a; }
static int64_t smaller(const integers *k, int64_t a, int64_t b) { return less(k, b, a) ? b : a; }

/* Division by -1 is a negation: the quotient of the smallest number would trap. */
static int64_t quotient(const integers *k, int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (k->is_unsigned) return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? sub(0, a) : a / b;
}

static int64_t remainder_of(const integers *k, int64_t a, int64_t b)
{
    return b == 0 ? 0 : sub(a, mul(quotient(k, a, b), b));
}

static int64_t floor_mod(const integers *k, int64_t a, int64_t b)
{
    int64_t r = remainder_of(k, a, b);
    return !k->is_unsigned && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Toward zero for a negative exponent, as division is; 0 to a negative power is 0. */
static int64_t power(const integers *k, int64_t a, int64_t b)
{
    if (!k->is_unsigned && b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    int64_t result = 1;
    for (uint64_t n = (uint64_t)b; n; n >>= 1) {
        if (n & 1) result = mul(result, a);
        a = mul(a, a);
    }
    return result;
}

/* A count that is negative or beyond the width shifts everything out. */
static int64_t shift_left(int64_t a, int64_t b)
{
    return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}

static int64_t shift_right(const integers *k, int64_t a, int64_t b)
{
    bool out = b < 0 || b > 63;
    if (k->is_unsigned) return out ? 0 : (int64_t)((uint64_t)a >> b);
    uint64_t fill = a < 0 ? UINT64_MAX : 0;
    if (out) return (int64_t)fill;
    return b == 0 ? a : (int64_t)((uint64_t)a >> b | fill << (64 - b));
}

/* A bound of `clip`, which is a whole number or infinite. */
static int64_t bound_of(double bound, const integers *k)
{
    int64_t least = k->is_unsigned ? 0 : INT64_MIN, most = k->is_unsigned ? -1 : INT64_MAX;
    if (isinf(bound)) return bound < 0 ? least : most;
    return k->is_unsigned && bound < 0 ? 0 : (int64_t)bound;
}

static int64_t clip(const integers *k, int64_t a)
{
    int64_t raised = larger(k, a, bound_of(k->p->alpha, k));
    return smaller(k, raised, bound_of(k->p->beta, k));
}

static int64_t whole_unary(const integers *k, int64_t a)
{
    bool negative = less(k, a, 0);
    switch ((int)k->p->mode) {
    case TW_PW_ABS: return negative ? sub(0, a) : a;
    case TW_PW_NEG: return sub(0, a);
    case TW_PW_RELU: return negative ? 0 : a;
    case TW_PW_RELU6: return negative ? 0 : smaller(k, a, 6);
    case TW_PW_CLIP: return clip(k, a);
    case TW_PW_SIGN: return negative ? -1 : a != 0;
    case TW_PW_SQUARE: return mul(a, a);
    case TW_PW_LOGICAL_NOT: return a == 0;
    case TW_PW_BITWISE_NOT: return ~a;
    case TW_PW_IS_NAN:
    case TW_PW_IS_INF: return 0;
    case TW_PW_LINEAR: return add(mul((int64_t)k->p->alpha, a), (int64_t)k->p->beta);
    default: return a; /* identity, ceil, floor, round */
    }
}

static int64_t whole_binary(const integers *k, int64_t a, int64_t b)
{
    switch ((int)k->p->mode) {
    case TW_PW_ADD: return add(a, mul((int64_t)k->p->alpha, b));
    case TW_PW_SUB: return sub(a, mul((int64_t)k->p->alpha, b));
    case TW_PW_MUL: return mul(a, b);
    case TW_PW_DIV: return quotient(k, a, b);
    case TW_PW_MAX: return larger(k, a, b);
    case TW_PW_MIN: return smaller(k, a, b);
    case TW_PW_POW: return power(k, a, b);
    case TW_PW_MOD: return floor_mod(k, a, b);
    case TW_PW_FMOD: return remainder_of(k, a, b);
    case TW_PW_ADD_SQUARE: return add(a, mul(b, b));
    case TW_PW_EQ: return a == b;
    case TW_PW_NE: return a != b;
    case TW_PW_LT: return less(k, a, b);
    case TW_PW_LE: return !less(k, b, a);
    case TW_PW_GT: return less(k, b, a);
    case TW_PW_GE: return !less(k, a, b);
    case TW_PW_LOGICAL_AND: return a != 0 && b != 0;
    case TW_PW_LOGICAL_OR: return a != 0 || b != 0;
    case TW_PW_LOGICAL_XOR: return (a != 0) != (b != 0);
    case TW_PW_BITWISE_AND: return a & b;
    case TW_PW_BITWISE_OR: return a | b;
    case TW_PW_BITWISE_XOR: return a ^ b;
    case TW_PW_SHIFT_LEFT: return shift_left(a, b);
    case TW_PW_SHIFT_RIGHT: return shift_right(k, a, b);
    default: return 0;
    }
}

int64_t tw_pw_whole(const tw_pointwise_attrs *attrs, int64_t a, int64_t b, int64_t c)
{
    const integers k = {attrs, attrs->compute == TW_U64};
    switch ((int)attrs->mode) {
    case TW_PW_SELECT: return a != 0 ? b : c;
    case TW_PW_FMA: return add(mul(a, b), c);
    case TW_PW_CLAMP: return smaller(&k, larger(&k, a, b), c);
    default: break;
    }
    return attrs->mode >= TW_PW_ADD ? whole_binary(&k, a, b) : whole_unary(&k, a);
}
