/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"

static bool differ(const operand *o, int64_t element, const double figures[3], difference *d)
{
    *d = (difference){.name = o->name,
                      .element = element,
                      .got = figures[0],
                      .want = figures[1],
                      .allowed = figures[2]};
    int64_t index[TW_MAX_RANK], rest = element;
    for (int32_t i = o->desc.rank - 1; i >= 0; i--) {
        index[i] = rest % o->desc.dims[i];
        rest /= o->desc.dims[i];
    }
    size_t at = 0;
    for (int32_t i = 0; i < o->desc.rank && at < sizeof d->index; i++) {
        int n = snprintf(d->index + at, sizeof d->index - at, "%s%lld", i ? ", " : "",
                         (long long)index[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return false;
}

static bool integers_equal(const operand *a, const operand *b, int64_t element)
{
    return tw_load_int(a->desc.dtype, a->first, operand_offset(a, element)) ==
           tw_load_int(b->desc.dtype, b->first, operand_offset(b, element));
}

static bool complex_equal(const operand *a, const operand *b, int64_t element)
{
    size_t width = (size_t)tw_dtype_bits(a->desc.dtype) / 8;
    return memcmp(a->first + width * (size_t)operand_offset(a, element),
                  b->first + width * (size_t)operand_offset(b, element), width) == 0;
}

bool compare_exact(const operand *got, const operand *want, difference *d)
{
    tw_dtype type = want->desc.dtype;
    for (int64_t e = 0; e < want->elements; e++) {
        if (tw_dtype_is_complex(type)) {
            if (complex_equal(got, want, e)) continue;
            return differ(got, e, (double[3]){0}, d);
        }
        double g = operand_get(got, e), w = operand_get(want, e);
        bool equal = isnan(w) ? isnan(g) != 0 : g == w && (signbit(g) != 0) == (signbit(w) != 0);
        if (equal && tw_dtype_is_integer(type)) equal = integers_equal(got, want, e);
        if (!equal) return differ(got, e, (double[3]){g, w, 0}, d);
    }
    return true;
}

bool compare_values(const operand *got, const operand *want, difference *d)
{
    for (int64_t e = 0; e < want->elements; e++) {
        double g = operand_get(got, e), w = operand_get(want, e);
        if (!(isnan(w) ? isnan(g) != 0 : g == w)) return differ(got, e, (double[3]){g, w, 0}, d);
    }
    return true;
}

/* The smallest positive value of a type: results that small may lose all their digits. */
static double smallest(tw_dtype type)
{
    switch (type) {
    case TW_F64: return 0x1p-1074;
    case TW_F16: return 0x1p-24;
    case TW_BF16: return 0x1p-133;
    case TW_E4M3FN: return 0x1p-9;
    case TW_E5M2: return 0x1p-16;
    case TW_E4M3FNUZ: return 0x1p-10;
    case TW_E5M2FNUZ: return 0x1p-17;
    default: return 0x1p-149;
    }
}

static double allowed_at(const operand *want, int64_t e, const tolerance *t)
{
    tw_dtype type = want->desc.dtype;
    double w = operand_get(want, e), size = 0;
    if (t->magnitude) size = fabs(operand_get(t->magnitude, e));
    for (int i = 0; i < SHIFT_PATTERNS; i++) {
        if (!t->shifted[i]) continue;
        double change = fabs(operand_get(t->shifted[i], e) - w) / t->shift;
        if (change > size) size = change;
    }
    double c = t->exactness == TW_RESULT_SMOOTH && 2 * t->ulps > 4 ? 2 * t->ulps : 4;
    double u_acc = type == TW_F64 ? 0x1p-53 : 0x1p-24;
    double terms = t->terms > 1 ? (double)t->terms : 1;
    return c * tw_dtype_epsilon(type) * fabs(w) + 4 * sqrt(terms) * u_acc * size +
           c * smallest(type);
}

bool compare_within(const operand *got, const operand *want, const tolerance *t, difference *d)
{
    if (t->exactness == TW_RESULT_EXACT || !operand_is_float(want))
        return compare_exact(got, want, d);
    for (int64_t e = 0; e < want->elements; e++) {
        double g = operand_get(got, e), w = operand_get(want, e);
        double allowed = isfinite(w) ? allowed_at(want, e, t) : 0;
        bool equal = isnan(w) ? isnan(g) != 0 : g == w || fabs(g - w) <= allowed;
        if (!equal) return differ(got, e, (double[3]){g, w, allowed}, d);
    }
    return true;
}

bool compare_specials(const operand *got, const operand *want, difference *d)
{
    if (!operand_is_float(want)) return compare_exact(got, want, d);
    for (int64_t e = 0; e < want->elements; e++) {
        double g = operand_get(got, e), w = operand_get(want, e);
        bool same = isnan(w) ? isnan(g) != 0 : isinf(w) ? g == w : isfinite(g) != 0;
        if (!same) return differ(got, e, (double[3]){g, w, 0}, d);
    }
    return true;
}

bool compare_bits(const operand *got, const operand *want, difference *d)
{
    if (memcmp(got->first, want->first, (size_t)want->bytes) == 0) return true;
    if (!compare_exact(got, want, d)) return false;
    return differ(got, 0, (double[3]){0}, d); /* bytes between elements, or the bits of a NaN */
}

bool compare_is_integral(const operand *want, const operand *magnitude)
{
    double limit = want->desc.dtype == TW_F64 ? 0x1p53 : 0x1p24;
    for (int64_t e = 0; e < want->elements; e++) {
        double w = operand_get(want, e), m = operand_get(magnitude, e);
        if (!(fabs(w) <= limit && fabs(m) <= limit) || w != rint(w) || m != rint(m)) return false;
    }
    return true;
}
