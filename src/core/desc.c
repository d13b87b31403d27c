/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of tensors and the names of element types. */
#include <string.h>

#include <tilework/tensor.h>

#include "core/alloc.h"
#include "core/dtype.h"

static const struct {
    const char *name;
    int bits;
} types[TW_DTYPE_END] = {
#define X(type, name, bits, kind, range) [type] = {name, bits},
#include "core/dtype.def"
#undef X
};

const char *tw_dtype_name(tw_dtype dtype)
{
    size_t index = (size_t)dtype;
    return index < TW_DTYPE_END ? types[index].name : NULL;
}

tw_dtype tw_dtype_from_name(const char *name)
{
    for (int i = 0; name && i < TW_DTYPE_END; i++) {
        if (types[i].name && strcmp(types[i].name, name) == 0) return (tw_dtype)i;
    }
    return TW_AUTO;
}

int tw_dtype_bits(tw_dtype dtype)
{
    size_t index = (size_t)dtype;
    return index < TW_DTYPE_END ? types[index].bits : 0;
}

static bool rank_fits(int32_t rank) { return rank >= 0 && rank <= TW_MAX_RANK; }

tw_tensor_desc tw_desc(tw_dtype dtype, int32_t rank, const int64_t *dims)
{
    tw_tensor_desc desc = {.size = sizeof desc, .dtype = dtype, .rank = rank};
    if (rank_fits(rank) && rank > 0) memcpy(desc.dims, dims, (size_t)rank * sizeof dims[0]);
    return desc;
}

/* A stride beyond int64_t becomes INT64_MAX, which tw_desc_bytes then refuses. */
static int64_t stride_after(int64_t stride, int64_t dim)
{
    int64_t next;
    return tw_mul_i64(stride, dim > 1 ? dim : 1, &next) ? next : INT64_MAX;
}

tw_tensor_desc tw_desc_channels_last(tw_dtype dtype, int32_t rank, const int64_t *dims)
{
    tw_tensor_desc desc = tw_desc(dtype, rank, dims);
    if (rank < 3 || !rank_fits(rank)) return desc;
    desc.has_strides = true;
    desc.strides[1] = 1;
    int64_t stride = stride_after(1, dims[1]);
    for (int32_t i = rank - 1; i >= 2; i--) {
        desc.strides[i] = stride;
        stride = stride_after(stride, dims[i]);
    }
    desc.strides[0] = stride;
    return desc;
}

static bool desc_valid(const tw_tensor_desc *desc)
{
    if (!desc || !rank_fits(desc->rank)) return false;
    for (int32_t i = 0; i < desc->rank; i++) {
        if (desc->dims[i] < 0) return false;
        if (desc->has_strides && desc->strides[i] < 0) return false;
    }
    return true;
}

static bool desc_empty(const tw_tensor_desc *desc)
{
    for (int32_t i = 0; i < desc->rank; i++) {
        if (desc->dims[i] == 0) return true;
    }
    return false;
}

int64_t tw_desc_elements(const tw_tensor_desc *desc)
{
    if (!desc_valid(desc)) return -1;
    if (desc_empty(desc)) return 0;
    int64_t elements = 1;
    for (int32_t i = 0; i < desc->rank; i++) {
        if (!tw_mul_i64(elements, desc->dims[i], &elements)) return -1;
    }
    return elements;
}

/* Elements from the first to past the last of a description that is valid and not empty. */
static bool strided_span(const tw_tensor_desc *desc, int64_t *span)
{
    *span = 1;
    for (int32_t i = 0; i < desc->rank; i++) {
        int64_t reach;
        if (!tw_mul_i64(desc->dims[i] - 1, desc->strides[i], &reach)) return false;
        if (!tw_add_i64(*span, reach, span)) return false;
    }
    return true;
}

int64_t tw_desc_bytes(const tw_tensor_desc *desc)
{
    if (!desc_valid(desc) || tw_dtype_bits(desc->dtype) == 0) return -1;
    if (desc_empty(desc)) return 0;
    int64_t span = tw_desc_elements(desc);
    if (span < 0 || (desc->has_strides && !strided_span(desc, &span))) return -1;
    return tw_dtype_bytes(desc->dtype, span);
}
