/* SPDX-License-Identifier: Apache-2.0 */
/* The table of modes: names and arities from tilework/pointwise.def, defaults and classes here. */
#include "ops/pointwise/pointwise.h"

#include <math.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "core/text.h"

typedef struct mode_name {
    const char *name;
    int32_t arity;
} mode_name;

static const mode_name names[TW_PW_END] = {
#define TW_POINTWISE(NAME, value, text, arity, formula) [value] = {text, arity},
#include <tilework/pointwise.def>
#undef TW_POINTWISE
};

static const char *const texts[] = {
#define TW_POINTWISE(NAME, value, text, arity, formula) text,
#include <tilework/pointwise.def>
#undef TW_POINTWISE
};

#define INTEGER TW_PW_INTEGER
#define BITS (TW_PW_INTEGER | TW_PW_BITS)
#define PREDICATE (TW_PW_INTEGER | TW_PW_PREDICATE)

static const unsigned char classes[TW_PW_END] = {
    [TW_PW_IDENTITY] = INTEGER,      [TW_PW_ABS] = INTEGER,
    [TW_PW_NEG] = INTEGER,           [TW_PW_CEIL] = INTEGER,
    [TW_PW_FLOOR] = INTEGER,         [TW_PW_ROUND] = INTEGER,
    [TW_PW_RELU] = INTEGER,          [TW_PW_RELU6] = INTEGER,
    [TW_PW_CLIP] = INTEGER,          [TW_PW_SIGN] = INTEGER,
    [TW_PW_SQUARE] = INTEGER,        [TW_PW_GEN_INDEX] = INTEGER,
    [TW_PW_LINEAR] = INTEGER,        [TW_PW_ADD] = INTEGER,
    [TW_PW_SUB] = INTEGER,           [TW_PW_MUL] = INTEGER,
    [TW_PW_DIV] = INTEGER,           [TW_PW_MAX] = INTEGER,
    [TW_PW_MIN] = INTEGER,           [TW_PW_POW] = INTEGER,
    [TW_PW_MOD] = INTEGER,           [TW_PW_FMOD] = INTEGER,
    [TW_PW_ADD_SQUARE] = INTEGER,    [TW_PW_SELECT] = INTEGER,
    [TW_PW_FMA] = INTEGER,           [TW_PW_CLAMP] = INTEGER,
    [TW_PW_BITWISE_NOT] = BITS,      [TW_PW_BITWISE_AND] = BITS,
    [TW_PW_BITWISE_OR] = BITS,       [TW_PW_BITWISE_XOR] = BITS,
    [TW_PW_SHIFT_LEFT] = BITS,       [TW_PW_SHIFT_RIGHT] = BITS,
    [TW_PW_LOGICAL_NOT] = PREDICATE, [TW_PW_IS_NAN] = PREDICATE,
    [TW_PW_IS_INF] = PREDICATE,      [TW_PW_EQ] = PREDICATE,
    [TW_PW_NE] = PREDICATE,          [TW_PW_LT] = PREDICATE,
    [TW_PW_LE] = PREDICATE,          [TW_PW_GT] = PREDICATE,
    [TW_PW_GE] = PREDICATE,          [TW_PW_LOGICAL_AND] = PREDICATE,
    [TW_PW_LOGICAL_OR] = PREDICATE,  [TW_PW_LOGICAL_XOR] = PREDICATE,
};

#define SELU_ALPHA 1.6732632423543772
#define SELU_BETA 1.0507009873554805

typedef struct mode_defaults {
    double alpha, beta;
} mode_defaults;

/* Modes without parameters keep 0, so that equal operations have equal attributes. */
static const mode_defaults defaults[TW_PW_END] = {
    [TW_PW_LEAKY_RELU] = {0.01, 0},
    [TW_PW_ELU] = {1, 0},
    [TW_PW_SELU] = {SELU_ALPHA, SELU_BETA},
    [TW_PW_CELU] = {1, 0},
    [TW_PW_SILU] = {1, 0},
    [TW_PW_SOFTPLUS] = {1, 0},
    [TW_PW_HARD_SIGMOID] = {0.2, 0.5},
    [TW_PW_CLIP] = {-INFINITY, INFINITY},
    [TW_PW_LINEAR] = {1, 0},
    [TW_PW_ADD] = {1, 0},
    [TW_PW_SUB] = {1, 0},
    [TW_PW_LEAKY_RELU_BWD] = {0.01, 0},
    [TW_PW_ELU_BWD] = {1, 0},
    [TW_PW_SELU_BWD] = {SELU_ALPHA, SELU_BETA},
    [TW_PW_CELU_BWD] = {1, 0},
    [TW_PW_SILU_BWD] = {1, 0},
    [TW_PW_SOFTPLUS_BWD] = {1, 0},
    [TW_PW_HARD_SIGMOID_BWD] = {0.2, 0.5},
    [TW_PW_CLIP_BWD] = {-INFINITY, INFINITY},
};

tw_pw_mode_info tw_pw_mode_of(tw_pointwise_mode mode)
{
    size_t i = (size_t)mode;
    if (i >= TW_PW_END) return (tw_pw_mode_info){.name = NULL};
    return (tw_pw_mode_info){.name = names[i].name,
                             .arity = names[i].arity,
                             .flags = classes[i],
                             .alpha = defaults[i].alpha,
                             .beta = defaults[i].beta};
}

tw_status tw_pw_mode_from_name(const char *name, tw_pointwise_mode *mode)
{
    for (int i = 0; i < TW_PW_END; i++) {
        *mode = (tw_pointwise_mode)i;
        if (names[i].name && strcmp(names[i].name, name) == 0) return TW_OK;
    }
    return tw_fail(TW_INVALID_ARGUMENT,
                   "pointwise: mode \"%s\" does not exist; did you mean \"%s\"?", name,
                   tw_nearest(name, (int)(sizeof texts / sizeof texts[0]), texts));
}

static tw_dtype promote_integers(tw_dtype a, tw_dtype b)
{
    int a_bits = tw_dtype_bits(a), b_bits = tw_dtype_bits(b);
    bool a_signed = tw_dtype_is_signed(a), b_signed = tw_dtype_is_signed(b);
    if (a_signed == b_signed) return a_bits >= b_bits ? a : b;
    int signed_bits = a_signed ? a_bits : b_bits, unsigned_bits = a_signed ? b_bits : a_bits;
    if (signed_bits > unsigned_bits) return a_signed ? a : b;
    return unsigned_bits < 8     ? TW_I8
           : unsigned_bits == 8  ? TW_I16
           : unsigned_bits == 16 ? TW_I32
                                 : TW_I64;
}

tw_dtype tw_pw_promote(tw_dtype a, tw_dtype b)
{
    if (a == b || b == TW_BOOL) return a;
    if (a == TW_BOOL) return b;
    bool a_float = tw_dtype_is_float(a), b_float = tw_dtype_is_float(b);
    if (a_float != b_float) return a_float ? a : b;
    if (!a_float) return promote_integers(a, b);
    int a_bits = tw_dtype_bits(a), b_bits = tw_dtype_bits(b);
    if (a_bits == b_bits) return TW_F32; /* f16 with bf16, or two forms of fp8 */
    return a_bits > b_bits ? a : b;
}
