/* SPDX-License-Identifier: Apache-2.0 */
/* Layout operations: the references. For every element of the output: where does it come from? */
#include "core/dtype.h"
#include "core/error.h"
#include "ops/kernel.h"
#include "ops/layout/layout_map.h"

#include <string.h>

/* An element of an input, or the fill value. */
typedef struct place {
    int32_t input; /* -1: the fill value */
    int64_t offset;
} place;

typedef place (*place_fn)(const tw_problem *problem, const int64_t *index);

static int64_t offset_of(const tw_view *view, const int64_t *index)
{
    int64_t offset = 0;
    for (int32_t d = 0; d < view->rank; d++) offset += index[d] * view->strides[d];
    return offset;
}

/* The next index in row-major order; false after the last. */
static bool next_index(const tw_view *view, int64_t *index)
{
    for (int32_t d = view->rank - 1; d >= 0; d--) {
        if (++index[d] < view->dims[d]) return true;
        index[d] = 0;
    }
    return false;
}

static bool is_empty(const tw_view *view)
{
    for (int32_t d = 0; d < view->rank; d++)
        if (view->dims[d] == 0) return true;
    return false;
}

static place place_reshape(const tw_problem *problem, const int64_t *index)
{
    const tw_view *x = &problem->in[0], *y = &problem->out[0];
    int64_t linear = 0, offset = 0;
    for (int32_t d = 0; d < y->rank; d++) linear = linear * y->dims[d] + index[d];
    for (int32_t d = x->rank - 1; d >= 0; d--) {
        offset += linear % x->dims[d] * x->strides[d];
        linear /= x->dims[d];
    }
    return (place){0, offset};
}

static place place_transpose(const tw_problem *problem, const int64_t *index)
{
    const tw_view *x = &problem->in[0];
    int64_t offset = 0;
    for (int32_t d = 0; d < x->rank; d++)
        offset += index[d] * x->strides[problem->attrs->layout.order[d]];
    return (place){0, offset};
}

static place place_expand(const tw_problem *problem, const int64_t *index)
{
    const tw_view *x = &problem->in[0];
    int32_t added = problem->out[0].rank - x->rank;
    int64_t offset = 0;
    for (int32_t d = 0; d < x->rank; d++)
        if (x->dims[d] != 1) offset += index[d + added] * x->strides[d];
    return (place){0, offset};
}

static place place_slice(const tw_problem *problem, const int64_t *index)
{
    const tw_layout_attrs *attrs = &problem->attrs->layout;
    const tw_view *x = &problem->in[0];
    int64_t offset = 0;
    for (int32_t d = 0; d < x->rank; d++)
        offset += (attrs->start[d] + index[d] * attrs->step[d]) * x->strides[d];
    return (place){0, offset};
}

static place place_slice_backward(const tw_problem *problem, const int64_t *index)
{
    const tw_layout_attrs *attrs = &problem->attrs->layout;
    const tw_view *dy = &problem->in[0];
    int64_t offset = 0;
    for (int32_t d = 0; d < dy->rank; d++) {
        int64_t from_start = index[d] - attrs->start[d], i = from_start / attrs->step[d];
        if (from_start < 0 || from_start % attrs->step[d] != 0 || i >= dy->dims[d])
            return (place){-1, 0};
        offset += i * dy->strides[d];
    }
    return (place){0, offset};
}

static place place_concat(const tw_problem *problem, const int64_t *index)
{
    int32_t axis = problem->attrs->layout.axis, input = 0;
    int64_t at = index[axis];
    while (at >= problem->in[input].dims[axis]) at -= problem->in[input++].dims[axis];
    const tw_view *x = &problem->in[input];
    return (place){input, offset_of(x, index) + (at - index[axis]) * x->strides[axis]};
}

static place place_pad(const tw_problem *problem, const int64_t *index)
{
    const tw_layout_attrs *attrs = &problem->attrs->layout;
    const tw_view *x = &problem->in[0];
    int64_t offset = 0;
    for (int32_t d = 0; d < x->rank; d++) {
        int64_t i = tw_pad_source(attrs->pad_mode, x->dims[d], index[d] - attrs->start[d]);
        if (i < 0) return (place){-1, 0};
        offset += i * x->strides[d];
    }
    return (place){0, offset};
}

static void copy_bits(int bits, void *to, int64_t to_index, const void *from, int64_t from_index)
{
    int64_t per_byte = 8 / bits;
    unsigned char *byte = (unsigned char *)to + to_index / per_byte;
    int shift = (int)(to_index % per_byte) * bits;
    unsigned mask = (1u << bits) - 1u;
    unsigned value = (unsigned)((const unsigned char *)from)[from_index / per_byte] >>
                     ((int)(from_index % per_byte) * bits);
    *byte = (unsigned char)((*byte & ~(mask << shift)) | (value & mask) << shift);
}

static void copy_element(const tw_view *to, void *y, int64_t to_index, const tw_view *from,
                         const void *x, int64_t from_index)
{
    int bits = tw_dtype_bits(from->dtype), to_bits = tw_dtype_bits(to->dtype);
    if (from->dtype == to->dtype && bits >= 8) {
        int64_t bytes = bits / 8;
        memcpy((char *)y + to_index * bytes, (const char *)x + from_index * bytes, (size_t)bytes);
    } else if (from->dtype == to->dtype) {
        copy_bits(bits, y, to_index, x, from_index);
    } else if (bits < 8 || to_bits < 8) {
        tw_store(to->dtype, y, to_index, tw_load(from->dtype, x, from_index), 0);
    } else {
        (void)tw_convert(to->dtype, (char *)y + to_index * (to_bits / 8), from->dtype,
                         (const char *)x + from_index * (bits / 8), 1, 0);
    }
}

static void fill_element(const tw_view *to, void *y, int64_t index, double value)
{
    if (to->dtype == TW_C64)
        memcpy((char *)y + index * 8, (const float[2]){(float)value, 0}, 8);
    else if (to->dtype == TW_C128)
        memcpy((char *)y + index * 16, (const double[2]){value, 0}, 16);
    else
        tw_store(to->dtype, y, index, value, 0);
}

static tw_status run_places(const tw_launch *launch, place_fn place_of)
{
    const tw_problem *problem = launch->problem;
    const tw_view *y = &problem->out[0];
    int64_t index[TW_MAX_RANK] = {0};
    if (is_empty(y)) return TW_OK;
    do {
        place from = place_of(problem, index);
        int64_t to = offset_of(y, index);
        if (from.input < 0)
            fill_element(y, launch->out[0], to, problem->attrs->layout.value);
        else
            copy_element(y, launch->out[0], to, &problem->in[from.input], launch->in[from.input],
                         from.offset);
    } while (next_index(y, index));
    return TW_OK;
}

/* Positions of padded dim d whose source is element i: a few, or a run (edge). */
typedef struct sources {
    int64_t at[3];
    int64_t count;
    bool run; /* at[0], at[0] + 1, … */
} sources;

static sources sources_of(const tw_layout_attrs *attrs, int32_t d, int64_t n, int64_t i)
{
    int64_t lo = attrs->start[d], size = n + lo + attrs->end_pad[d];
    sources s = {.count = 0};
    if (attrs->pad_mode == TW_PAD_EDGE) {
        int64_t first = i == 0 ? 0 : i + lo, last = i == n - 1 ? size - 1 : i + lo;
        if (first < 0) first = 0;
        if (last > size - 1) last = size - 1;
        return (sources){{first}, last >= first ? last - first + 1 : 0, true};
    }
    int64_t q[3] = {i, i, i}; /* before, inside and behind the dim */
    if (attrs->pad_mode == TW_PAD_REFLECT) q[0] = -i, q[2] = 2 * (n - 1) - i;
    if (attrs->pad_mode == TW_PAD_WRAP) q[0] = i - n, q[2] = i + n;
    for (int k = 0; k < 3; k++) {
        bool again = k != 1 && q[k] == i;
        if (!again && q[k] + lo >= 0 && q[k] + lo < size) s.at[s.count++] = q[k] + lo;
    }
    return s;
}

/* Σ dy over all combinations of the dims' sources, in row-major order. */
static double gather(const tw_view *dy, const void *data, const sources *s)
{
    int64_t k[TW_MAX_RANK] = {0};
    double sum = 0;
    for (int32_t d = 0; d < dy->rank; d++)
        if (s[d].count == 0) return 0;
    for (;;) {
        int64_t offset = 0;
        for (int32_t d = 0; d < dy->rank; d++)
            offset += (s[d].run ? s[d].at[0] + k[d] : s[d].at[k[d]]) * dy->strides[d];
        sum += tw_load(dy->dtype, data, offset);
        int32_t d = dy->rank - 1;
        while (d >= 0 && ++k[d] == s[d].count) k[d--] = 0;
        if (d < 0) return sum;
    }
}

static tw_status run_pad_backward(const tw_launch *launch)
{
    const tw_view *dy = &launch->problem->in[0], *dx = &launch->problem->out[0];
    const tw_layout_attrs *attrs = &launch->problem->attrs->layout;
    int64_t index[TW_MAX_RANK] = {0};
    sources s[TW_MAX_RANK];
    if (is_empty(dx)) return TW_OK;
    do {
        for (int32_t d = 0; d < dx->rank; d++) s[d] = sources_of(attrs, d, dx->dims[d], index[d]);
        double sum = gather(dy, launch->in[0], s);
        tw_store(dx->dtype, launch->out[0], offset_of(dx, index), sum, 0);
    } while (next_index(dx, index));
    return TW_OK;
}

static const char *supports_all(const tw_problem *problem)
{
    return problem->epilogue != NULL ? "it has an epilogue" : NULL;
}

#define LAYOUT_REF(op)                                                                             \
    static tw_status run_##op(const tw_launch *launch) { return run_places(launch, place_##op); }  \
    const tw_kernel_impl tw_layout_##op##_any__ref = {.supports = supports_all, .run = run_##op};

LAYOUT_REF(reshape)
LAYOUT_REF(transpose)
LAYOUT_REF(expand)
LAYOUT_REF(slice)
LAYOUT_REF(slice_backward)
LAYOUT_REF(concat)
LAYOUT_REF(pad)

const tw_kernel_impl tw_layout_pad_backward_any__ref = {.supports = supports_all,
                                                        .run = run_pad_backward};
