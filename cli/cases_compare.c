/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing a case's outputs with what it expects. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "core/dtype.h"

static int64_t storage_index(const case_tensor *t, int64_t linear)
{
    int64_t at = t->offset;
    for (int32_t d = t->desc.rank - 1; d >= 0; d--) {
        at += linear % t->desc.dims[d] * t->desc.strides[d];
        linear /= t->desc.dims[d];
    }
    return at;
}

static double get(const case_tensor *t, int64_t linear)
{
    return tw_load(t->desc.dtype, t->buffer, storage_index(t, linear));
}

static bool exact_type(const case_tensor *t)
{
    return tw_dtype_is_integer(t->desc.dtype) || t->desc.dtype == TW_BOOL;
}

static bool value_ok(case_run *run, const case_tensor *t, const cJSON *expect, int64_t i,
                     double want)
{
    const cJSON *check = cJSON_GetObjectItem(run->json, "check");
    bool exact = strcmp(case_attr_text(check, "kind", "close"), "exact") == 0 || exact_type(t);
    double got = get(t, i);
    double atol = case_attr_real(expect, "atol", 0), rtol = case_attr_real(expect, "rtol", 0);
    if (exact) want = tw_round_to(t->desc.dtype, want);
    bool good = isnan(want) || isnan(got)            ? isnan(want) && isnan(got)
                : isinf(want) || isinf(got) || exact ? want == got
                                                     : fabs(got - want) <= atol + rtol * fabs(want);
    if (!good)
        snprintf(run->why, sizeof run->why, "%s[%lld] = %.9g, expected %.9g", t->name, (long long)i,
                 got, want);
    return good;
}

static bool is_packed(const case_tensor *t)
{
    int64_t stride = 1;
    for (int32_t d = t->desc.rank - 1; d >= 0; d--) {
        if (t->desc.dims[d] > 1 && t->desc.strides[d] != stride) return false;
        stride *= t->desc.dims[d];
    }
    return true;
}

/* One value for all. Some outputs have billions of elements: one with the bits of its neighbour
 * needs no second look. */
static bool compare_fill(case_run *run, const case_tensor *t, const cJSON *expect, int64_t n)
{
    double value = case_number(cJSON_GetObjectItem(cJSON_GetObjectItem(expect, "fill"), "value"));
    size_t width = (size_t)tw_dtype_bits(t->desc.dtype) / 8;
    bool packed = is_packed(t) && width > 0;
    const char *first = t->buffer + t->offset * (int64_t)width;
    for (int64_t i = 0; i < n; i++) {
        const char *at = first + i * (int64_t)width;
        if (packed && i > 0 && memcmp(at, at - width, width) == 0) continue;
        if (!value_ok(run, t, expect, i, value)) return false;
    }
    return true;
}

static bool compare_data(case_run *run, const case_tensor *t, const cJSON *expect, int64_t n)
{
    const cJSON *data = cJSON_GetObjectItem(expect, "data"), *item = data ? data->child : NULL;
    for (int64_t i = 0; data && i < n; i++, item = item->next) {
        if (!item) {
            snprintf(run->why, sizeof run->why, "%s: the case lists too few values", t->name);
            return false;
        }
        if (!value_ok(run, t, expect, i, case_number(item))) return false;
    }
    const cJSON *spec = cJSON_GetObjectItem(expect, "fill");
    if (spec && !compare_fill(run, t, expect, n)) return false;
    const cJSON *probe;
    cJSON_ArrayForEach(
        probe, cJSON_GetObjectItem(
                   expect,
                   "probe")) if (!value_ok(run, t, expect,
                                           (int64_t)cJSON_GetArrayItem(probe, 0)->valuedouble,
                                           case_number(cJSON_GetArrayItem(probe, 1)))) return false;
    return true;
}

static bool near(case_run *run, const char *what, double got, double want, double tolerance)
{
    if (fabs(got - want) <= tolerance || got == want || (isnan(got) && isnan(want))) return true;
    snprintf(run->why, sizeof run->why, "%s = %.12g, expected %.12g within %g", what, got, want,
             tolerance);
    return false;
}

static bool compare_checksum(case_run *run, const case_tensor *t, const cJSON *expect, int64_t n)
{
    const cJSON *sums = cJSON_GetObjectItem(expect, "checksum");
    double sum = 0, wsum = 0, min = (double)INFINITY, max = -(double)INFINITY;
    if (!sums || n == 0) return true;
    for (int64_t i = 0; i < n; i++) {
        double v = get(t, i);
        sum += v;
        wsum += v * (double)(i % 251);
        min = fmin(min, v);
        max = fmax(max, v);
    }
    double tol = case_attr_real(sums, "tol_minmax", 0);
    return near(run, "sum", sum, case_attr_real(sums, "sum", 0),
                case_attr_real(sums, "tol_sum", 0)) &&
           near(run, "wsum", wsum, case_attr_real(sums, "wsum", 0),
                case_attr_real(sums, "tol_wsum", 0)) &&
           near(run, "min", min, case_attr_real(sums, "min", 0), tol) &&
           near(run, "max", max, case_attr_real(sums, "max", 0), tol);
}

static bool compare_bits(case_run *run, const case_tensor *t, const cJSON *expect, int64_t n)
{
    const cJSON *bits = cJSON_GetObjectItem(expect, "bits"), *item = bits ? bits->child : NULL;
    int width = tw_dtype_bits(t->desc.dtype) / 8;
    for (int64_t i = 0; item && i < n; i++, item = item->next) {
        uint64_t got = 0, want = (uint64_t)item->valuedouble;
        memcpy(&got, t->buffer + storage_index(t, i) * width, (size_t)width);
        bool nan = isnan(get(t, i)) && isnan(tw_decode(t->desc.dtype, want));
        if (got == want || nan) continue;
        snprintf(run->why, sizeof run->why, "%s[%lld] has bits %#llx, expected %#llx", t->name,
                 (long long)i, (unsigned long long)got, (unsigned long long)want);
        return false;
    }
    return true;
}

static bool all_finite(case_run *run, const case_tensor *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(get(t, i))) {
            snprintf(run->why, sizeof run->why, "%s[%lld] = %g, expected a finite value", t->name,
                     (long long)i, get(t, i));
            return false;
        }
    return true;
}

/* Bytes between the elements have what was there before. */
static bool gaps_intact(case_run *run, const case_tensor *t, int64_t n)
{
    int bits = tw_dtype_bits(t->desc.dtype);
    if (!t->copy) return true;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = storage_index(t, i) * bits / 8;
        memcpy(t->copy + at, t->buffer + at, (size_t)(bits + 7) / 8);
    }
    if (memcmp(t->copy, t->buffer, (size_t)t->buffer_bytes) == 0) return true;
    snprintf(run->why, sizeof run->why, "%s: memory between the elements was written", t->name);
    return false;
}

bool case_compare(case_run *run)
{
    const cJSON *check = cJSON_GetObjectItem(run->json, "check");
    const cJSON *expected = cJSON_GetObjectItem(run->json, "expect");
    bool finite = strcmp(case_attr_text(check, "kind", "close"), "all_finite") == 0;
    for (int32_t i = 0; i < run->n_outputs; i++) {
        const case_tensor *t = &run->outputs[i];
        const cJSON *expect = cJSON_GetObjectItem(expected, t->name);
        int64_t n = tw_desc_elements(&t->desc);
        if (!expect) continue;
        bool good = finite
                        ? all_finite(run, t, n)
                        : compare_data(run, t, expect, n) && compare_checksum(run, t, expect, n) &&
                              compare_bits(run, t, expect, n);
        if (!good || !gaps_intact(run, t, n)) return false;
    }
    return true;
}

bool case_compare_stat(case_run *run)
{
    const cJSON *check = cJSON_GetObjectItem(run->json, "check");
    const case_tensor *counted = case_output(run, case_attr_text(check, "output", "y"));
    const case_tensor *y = case_output(run, "y"), *x = case_input(run, "x");
    double lo_hi[2] = {0, 1}, kept = case_attr_real(check, "kept_value", 1);
    const cJSON *range = cJSON_GetObjectItem(check, "zero_fraction");
    for (int i = 0; i < 2 && range; i++) lo_hi[i] = cJSON_GetArrayItem(range, i)->valuedouble;
    int64_t n = counted && y && x ? tw_desc_elements(&y->desc) : 0, zeros = 0;
    for (int64_t i = 0; i < n; i++) {
        double want = tw_round_to(y->desc.dtype, get(x, i) * kept), v = get(y, i);
        zeros += get(counted, i) == 0;
        if (v != 0 && v != want) {
            snprintf(run->why, sizeof run->why, "kept y[%lld] = %g, expected %g", (long long)i, v,
                     want);
            return false;
        }
    }
    double fraction = n ? (double)zeros / (double)n : 0;
    if (n && fraction >= lo_hi[0] && fraction <= lo_hi[1]) return true;
    snprintf(run->why, sizeof run->why, "a fraction of %g is zero, expected %g to %g", fraction,
             lo_hi[0], lo_hi[1]);
    return false;
}
