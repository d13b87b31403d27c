/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of tensor descriptions. */
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "graph/graph.h"

static tw_status check_dims(const tw_tensor_desc *desc, const char *what)
{
    TW_REQUIRE(tw_dtype_valid(desc->dtype), TW_INVALID_ARGUMENT,
               "%s: dtype is %d; it must be an element type, TW_F64 (1) to TW_C128 (%d)", what,
               (int)desc->dtype, TW_DTYPE_END - 1);
    TW_REQUIRE(desc->rank >= 0 && desc->rank <= TW_MAX_RANK, TW_INVALID_ARGUMENT,
               "%s: rank is %d; it must be 0 to %d", what, (int)desc->rank, TW_MAX_RANK);
    int64_t elements = 1;
    for (int32_t d = 0; d < desc->rank; d++) {
        TW_REQUIRE(desc->dims[d] >= 0, TW_INVALID_ARGUMENT,
                   "%s: dim %d is %lld; dims must be 0 or more", what, (int)d,
                   (long long)desc->dims[d]);
        if (desc->dims[d] == 0) continue;
        TW_REQUIRE(tw_mul_i64(elements, desc->dims[d], &elements), TW_INVALID_ARGUMENT,
                   "%s: the number of elements exceeds 2^63 - 1", what);
    }
    TW_REQUIRE(tw_mul_i64(elements, 16, &elements), TW_INVALID_ARGUMENT,
               "%s: the size in bytes exceeds 2^63 - 1", what);
    return TW_OK;
}

static tw_status check_strides(const tw_tensor_desc *desc, const char *what)
{
    int64_t last = 0;
    for (int32_t d = 0; d < desc->rank; d++) {
        int64_t reach;
        TW_REQUIRE(desc->strides[d] >= 0, TW_INVALID_ARGUMENT,
                   "%s: stride %d is %lld; strides must be 0 or more (negative ones are not "
                   "accepted)",
                   what, (int)d, (long long)desc->strides[d]);
        if (desc->dims[d] < 2) continue;
        TW_REQUIRE(tw_mul_i64(desc->dims[d] - 1, desc->strides[d], &reach) &&
                       tw_add_i64(last, reach, &last) && tw_mul_i64(last, 16, &reach),
                   TW_INVALID_ARGUMENT, "%s: strides reach beyond 2^63 - 1 bytes", what);
    }
    return TW_OK;
}

tw_status tw_desc_check(tw_tensor_desc *desc, bool fill, const char *what)
{
    TW_REQUIRE(desc->size == 0 || desc->size >= sizeof *desc, TW_INVALID_ARGUMENT,
               "%s: size is %zu; it must be 0 or sizeof(tw_tensor_desc), %zu", what, desc->size,
               sizeof *desc);
    TW_TRY(check_dims(desc, what));
    TW_REQUIRE(desc->alignment >= 0 && (desc->alignment & (desc->alignment - 1)) == 0,
               TW_INVALID_ARGUMENT, "%s: alignment is %lld; it must be 0 or a power of two", what,
               (long long)desc->alignment);
    uint32_t known = TW_TENSOR_VIRTUAL | TW_TENSOR_WIDE;
    TW_REQUIRE((desc->flags & ~known) == 0, TW_INVALID_ARGUMENT,
               "%s: flags are %#x; only TW_TENSOR_VIRTUAL and TW_TENSOR_WIDE exist", what,
               (unsigned)desc->flags);
    for (int32_t d = desc->rank; d < TW_MAX_RANK; d++) desc->dims[d] = 0;
    if (desc->has_strides) {
        for (int32_t d = desc->rank; d < TW_MAX_RANK; d++) desc->strides[d] = 0;
        return check_strides(desc, what);
    }
    memset(desc->strides, 0, sizeof desc->strides);
    if (fill) {
        int64_t stride = 1;
        for (int32_t d = desc->rank - 1; d >= 0; d--) {
            desc->strides[d] = stride;
            if (desc->dims[d] > 0) stride *= desc->dims[d];
        }
        desc->has_strides = true;
    }
    return TW_OK;
}

/* Dims of more than one element, by ascending stride. */
static int32_t sorted_dims(const tw_tensor_desc *desc, int32_t *order)
{
    int32_t n = 0;
    for (int32_t d = 0; d < desc->rank; d++) {
        if (desc->dims[d] < 2) continue;
        int32_t at = n++;
        for (; at > 0 && desc->strides[order[at - 1]] > desc->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    return n;
}

/* Marks every element's offset; false when one is hit twice. For spans of at most a few MiB. */
static bool offsets_distinct(const tw_tensor_desc *desc, unsigned char *seen)
{
    int64_t index[TW_MAX_RANK] = {0};
    for (;;) {
        int64_t offset = 0;
        for (int32_t d = 0; d < desc->rank; d++) offset += index[d] * desc->strides[d];
        if (seen[offset]++) return false;
        int32_t d = desc->rank - 1;
        while (d >= 0 && ++index[d] == desc->dims[d]) index[d--] = 0;
        if (d < 0) return true;
    }
}

tw_status tw_desc_check_output(const tw_tensor_desc *desc, const char *what)
{
    int32_t order[TW_MAX_RANK];
    int32_t n = sorted_dims(desc, order);
    for (int32_t d = 0; d < desc->rank; d++)
        if (desc->dims[d] == 0) return TW_OK;
    int64_t reach = 0;
    bool nested = true; /* each stride steps over all that the smaller ones reach: no overlap */
    for (int32_t i = 0; i < n; i++) {
        int64_t stride = desc->strides[order[i]];
        TW_REQUIRE(
            stride > 0, TW_INVALID_ARGUMENT,
            "%s: stride %d is 0 over a dim of %lld: the elements of an output must not share "
            "memory",
            what, (int)order[i], (long long)desc->dims[order[i]]);
        nested = nested && stride > reach;
        reach += (desc->dims[order[i]] - 1) * stride;
    }
    if (nested) return TW_OK;
    const int64_t limit = 1 << 22; /* beyond this, interleaved strides are refused unproved */
    bool distinct = false;
    if (reach < limit) {
        void *seen;
        TW_TRY(tw_calloc(reach + 1, 1, &seen));
        distinct = offsets_distinct(desc, seen);
        tw_free(seen);
    }
    TW_REQUIRE(distinct, TW_INVALID_ARGUMENT,
               "%s: its strides let two elements share memory; an output needs strides that do not "
               "overlap",
               what);
    return TW_OK;
}
