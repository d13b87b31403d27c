/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which chains f32 arithmetic computes right. Integer steps are exact there as long as every value
 * stays within 2^24; that is proved from the types of the loads and the modes of the steps.
 */
#include <math.h>

#include "core/dtype.h"
#include "tile/cpu/chain_program.h"

#define EXACT 0x1p24 /* integers up to here are f32 values */

typedef struct range {
    double most;  /* bound of |value| */
    bool whole;   /* an integer */
    bool natural; /* not negative */
} range;

static const range anything = {INFINITY, false, false};

static range range_of_type(tw_dtype type)
{
    if (type == TW_BOOL) return (range){1, true, true};
    if (!tw_dtype_is_integer(type)) return anything;
    bool is_signed = tw_dtype_is_signed(type);
    return (range){ldexp(1, tw_dtype_bits(type) - is_signed), true, !is_signed};
}

/* Whether every value of the range has its place in the type as it is. */
static bool fits(const range *r, tw_dtype type, uint32_t convert)
{
    if (type == TW_AUTO || type == TW_F64) return true;
    if (type == TW_F32) return !(convert & TW_CONVERT_SATURATE) || r->whole;
    if (tw_dtype_is_float(type) || !r->whole) return false;
    range limit = range_of_type(type);
    if (limit.natural && !r->natural) return false;
    return type == TW_BOOL ? r->most <= 1 : r->most < limit.most;
}

static range rounded(const range *r, tw_dtype type)
{
    if (type == TW_AUTO || type == TW_F32 || type == TW_F64) return *r;
    if (tw_dtype_is_float(type)) return anything;
    range limit = range_of_type(type);
    limit.most = fmin(limit.most, r->most);
    if (r->natural) limit.natural = true;
    return limit;
}

static double parameter_bound(const tw_pointwise_attrs *attrs)
{
    double lo = isinf(attrs->alpha) ? 0 : fabs(attrs->alpha);
    double hi = isinf(attrs->beta) ? 0 : fabs(attrs->beta);
    return fmax(lo, hi);
}

/* The bound of a step's result in integer arithmetic; INFINITY for modes that f32 does not give
 * exactly. */
static double whole_bound(const tw_chain_step *s, double a, double b, double c, int64_t dim)
{
    switch ((int)s->attrs.mode) {
    case TW_PW_GEN_INDEX: return (double)dim;
    case TW_PW_BITWISE_NOT: return a + 1;
    case TW_PW_CLIP: return fmax(a, parameter_bound(&s->attrs));
    case TW_PW_RELU6: return fmax(a, 6);
    case TW_PW_SQUARE: return a * a;
    case TW_PW_LINEAR: return fabs(s->attrs.alpha) * a + fabs(s->attrs.beta);
    case TW_PW_ADD:
    case TW_PW_SUB: return a + fabs(s->attrs.alpha) * b;
    case TW_PW_MUL: return a * b;
    case TW_PW_ADD_SQUARE: return a + b * b;
    case TW_PW_BITWISE_AND:
    case TW_PW_BITWISE_OR:
    case TW_PW_BITWISE_XOR: return 2 * fmax(a, b) + 1;
    case TW_PW_SHIFT_LEFT: return a * exp2(fmin(b, 64));
    case TW_PW_SELECT: return fmax(b, c);
    case TW_PW_FMA: return a * b + c;
    case TW_PW_DIV:
    case TW_PW_POW:
    case TW_PW_MOD:
    case TW_PW_FMOD: return INFINITY;
    default: break;
    }
    return s->attrs.mode == TW_PW_SHIFT_RIGHT ? a : fmax(1, fmax(a, fmax(b, c)));
}

static bool is_predicate(tw_pointwise_mode mode)
{
    return (mode >= TW_PW_EQ && mode <= TW_PW_LOGICAL_XOR) || mode == TW_PW_LOGICAL_NOT ||
           mode == TW_PW_IS_NAN || mode == TW_PW_IS_INF;
}

/* A conversion straight from memory: the load itself rounds once. */
static bool is_cast_to_f32(const tw_chain *chain, const tw_chain_step *s)
{
    return s->attrs.mode == TW_PW_IDENTITY && s->a >= 1 && s->a <= chain->n_loads &&
           s->round == TW_F32;
}

static const char *integer_step(const tw_chain *chain, const tw_chain_step *s, const range *v,
                                range *result)
{
    static const range zero = {0, true, true};
    const range *a = s->a < 0 ? &zero : &v[s->a], *b = s->b < 0 ? &zero : &v[s->b];
    const range *c = s->c < 0 ? &zero : &v[s->c];
    bool first_matters = s->attrs.mode != TW_PW_GEN_INDEX && s->attrs.mode != TW_PW_SELECT;
    if (first_matters && !(a->whole && a->most <= EXACT)) return "integers beyond 2^24";
    if (!(b->whole && b->most <= EXACT && c->whole && c->most <= EXACT))
        return "integers beyond 2^24";
    if (s->attrs.compute == TW_U64) return "64-bit unsigned arithmetic";
    int64_t dim = chain->rank > 0 ? chain->dims[s->attrs.axis] : 1;
    result->most = whole_bound(s, a->most, b->most, c->most, dim);
    result->whole = true;
    result->natural = false;
    if (!(result->most <= EXACT)) return "integer arithmetic that may pass 2^24";
    if (is_predicate(s->attrs.mode)) *result = (range){1, true, true};
    if ((s->attrs.convert & TW_CONVERT_WRAP) && !fits(result, s->round, 0))
        return "integers that wrap around";
    return NULL;
}

static const char *step_range(const tw_chain *chain, const tw_chain_step *s, const range *v,
                              range *result)
{
    *result = anything;
    bool predicate = is_predicate(s->attrs.mode);
    if (s->attrs.compute == TW_F32) {
        if (predicate) *result = (range){1, true, true};
        return NULL;
    }
    if (is_cast_to_f32(chain, s)) return NULL;
    if (s->attrs.compute == TW_F64) return "f64 arithmetic";
    return integer_step(chain, s, v, result);
}

static const char *type_reason(tw_dtype type)
{
    if (tw_dtype_is_complex(type)) return "a complex operand";
    return tw_dtype_bits(type) < 8 ? "an operand of a type narrower than a byte" : NULL;
}

const char *tw_chain_ranges(const tw_chain *chain, bool *round_is_void)
{
    range v[TW_CHAIN_VALUES];
    v[0] = anything;
    for (int32_t i = 0; i < chain->n_loads; i++) v[1 + i] = range_of_type(chain->loads[i].dtype);
    for (int32_t i = 0; i < 1 + chain->n_loads; i++) round_is_void[i] = true;
    for (int32_t i = 0; i < chain->n_steps; i++) {
        const tw_chain_step *s = &chain->steps[i];
        int32_t value = 1 + chain->n_loads + i;
        const char *reason = step_range(chain, s, v, &v[value]);
        if (reason) return reason;
        round_is_void[value] = fits(&v[value], s->round, s->attrs.convert);
        v[value] = rounded(&v[value], s->round);
    }
    return NULL;
}

const char *tw_chain_refuses(const tw_chain *chain)
{
    bool round_is_void[TW_CHAIN_VALUES];
    if (1 + chain->n_loads + chain->n_steps > TW_CHAIN_VALUES || chain->n_stores > TW_CHAIN_VALUES)
        return "more values than the interpreter has room for";
    for (int32_t i = 0; i < chain->n_loads; i++) {
        const char *reason = type_reason(chain->loads[i].dtype);
        if (reason) return reason;
    }
    for (int32_t i = 0; i < chain->n_stores; i++) {
        const char *reason = type_reason(chain->stores[i].view.dtype);
        if (reason) return reason;
    }
    return tw_chain_ranges(chain, round_is_void);
}
