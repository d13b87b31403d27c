/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "harness.h"

static void report(const th_tensor *got, int64_t linear, double g, double w, double allowed,
                   const char *what)
{
    fprintf(stderr, "%s: element %lld (", what, (long long)linear);
    int64_t index[TW_MAX_RANK], rest = linear;
    for (int32_t d = got->desc.rank - 1; d >= 0; d--) {
        index[d] = rest % got->desc.dims[d];
        rest /= got->desc.dims[d];
    }
    for (int32_t d = 0; d < got->desc.rank; d++)
        fprintf(stderr, "%s%lld", d ? ", " : "", (long long)index[d]);
    fprintf(stderr, "): got %.17g, want %.17g, off by %.3g, allowed %.3g\n", g, w, fabs(g - w),
            allowed);
}

static bool same_shape(const th_tensor *a, const th_tensor *b, const char *what)
{
    bool same = a->desc.rank == b->desc.rank;
    for (int32_t d = 0; same && d < a->desc.rank; d++) same = a->desc.dims[d] == b->desc.dims[d];
    if (!same) fprintf(stderr, "%s: shapes differ\n", what);
    return same;
}

/* NaN to NaN, infinity to the same infinity; -1: neither, compare by value. */
static int compare_special(double g, double w)
{
    if (isnan(g) || isnan(w)) return isnan(g) && isnan(w);
    if (isinf(g) || isinf(w)) return g == w;
    return -1;
}

bool th_equal(const th_tensor *got, const th_tensor *want, const char *what)
{
    if (!same_shape(got, want, what)) return false;
    for (int64_t i = 0, n = th_elements(got); i < n; i++) {
        double g = th_get(got, i), w = th_get(want, i);
        bool equal =
            isnan(g) || isnan(w) ? isnan(g) && isnan(w) : g == w && signbit(g) == signbit(w);
        if (equal && tw_dtype_is_integer(got->desc.dtype) && tw_dtype_is_integer(want->desc.dtype))
            equal = tw_load_int(got->desc.dtype, got->data, th_offset(got, i)) ==
                    tw_load_int(want->desc.dtype, want->data, th_offset(want, i));
        if (!equal) {
            report(got, i, g, w, 0, what);
            return false;
        }
    }
    return true;
}

bool th_close(const th_tensor *got, const th_tensor *want, const th_tensor *magnitude,
              int64_t terms, const char *what)
{
    if (!same_shape(got, want, what)) return false;
    tw_dtype type = got->desc.dtype;
    double u_out = tw_dtype_epsilon(type);
    double u_acc = type == TW_F64 ? 0x1p-53 : 0x1p-24;
    for (int64_t i = 0, n = th_elements(got); i < n; i++) {
        double g = th_get(got, i), w = th_get(want, i);
        int special = compare_special(g, w);
        double allowed =
            4 * u_out * fabs(w) + 4 * sqrt((double)terms) * u_acc * fabs(th_get(magnitude, i));
        if (special == 0 || (special < 0 && fabs(g - w) > allowed)) {
            report(got, i, g, w, allowed, what);
            return false;
        }
    }
    return true;
}

bool th_within_ulps(const th_tensor *got, const th_tensor *want, double ulps, const char *what)
{
    if (!same_shape(got, want, what)) return false;
    double u = tw_dtype_epsilon(got->desc.dtype);
    double least = got->desc.dtype == TW_F64 ? 0x1p-1022 : 0x1p-126;
    for (int64_t i = 0, n = th_elements(got); i < n; i++) {
        double g = th_get(got, i), w = th_get(want, i);
        int special = compare_special(g, w);
        double allowed = 2 * ulps * u * fmax(fabs(w), least);
        if (special == 0 || (special < 0 && fabs(g - w) > allowed)) {
            report(got, i, g, w, allowed, what);
            return false;
        }
    }
    return true;
}
