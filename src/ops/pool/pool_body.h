/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling over vectors: what forward and backward share. */
#include "arch/cpu/vec.h"

#include <math.h>
#include <string.h>

#include "core/error.h"
#include "ops/pool/pool_lanes.h"
#include "runtime/cpu/parallel.h"

/* Elements at + i·lane for i < count; the other lanes are 0. */
TW_INLINE vf load_contiguous(tw_dtype type, const void *data, int64_t at, int count)
{
    const float *wide = (const float *)data + at;
    const uint16_t *narrow = (const uint16_t *)data + at;
    bool whole = count == VLANES;
    if (type == TW_F32) return whole ? vf_load(wide) : vf_load_n(wide, count);
    if (type == TW_BF16) return whole ? vf_load_bf16(narrow) : vf_load_bf16_n(narrow, count);
    return whole ? vf_load_f16(narrow) : vf_load_f16_n(narrow, count);
}

TW_INLINE vf load_lanes(tw_dtype type, const void *data, int64_t at, int64_t lane, int count)
{
    if (lane == 1 || count == 1) return load_contiguous(type, data, at, count);
    if (type == TW_F32) {
        const float *from = (const float *)data + at;
        float to[VLANES] = {0};
        if (lane == 2 && count == VLANES)
            for (int i = 0; i < VLANES; i++) to[i] = from[2 * i];
        else
            for (int i = 0; i < count; i++) to[i] = from[i * lane];
        return vf_load(to);
    }
    const uint16_t *from = (const uint16_t *)data + at;
    uint16_t to[VLANES] = {0};
    for (int i = 0; i < count; i++) to[i] = from[i * lane];
    return load_contiguous(type, to, 0, VLANES);
}

TW_INLINE void store_lanes(tw_dtype type, void *data, int64_t at, vf v, int count)
{
    float *wide = (float *)data + at;
    uint16_t *narrow = (uint16_t *)data + at;
    bool whole = count == VLANES;
    if (type == TW_F32 && whole)
        vf_store(wide, v);
    else if (type == TW_F32)
        vf_store_n(wide, v, count);
    else if (type == TW_BF16)
        vf_store_bf16_n(narrow, v, count);
    else
        vf_store_f16_n(narrow, v, count);
}

/* Stores base + i·step + ordinals[i] for i < count. */
TW_INLINE void store_indices(const tw_pool_plan *plan, void *data, int64_t at, vi ordinals,
                             int64_t base, int count)
{
    int32_t ordinal[VLANES];
    int64_t step = plan->lane_index;
    uint8_t *bytes = (uint8_t *)data + at;
    int32_t *words = (int32_t *)data + at;
    int64_t *longs = (int64_t *)data + at;
    vi_store(ordinal, ordinals);
    if (plan->index_type == TW_U8 && step == 0 && base == 0 && count == VLANES)
        for (int i = 0; i < VLANES; i++) bytes[i] = (uint8_t)ordinal[i];
    else if (plan->index_type == TW_U8)
        for (int i = 0; i < count; i++) bytes[i] = (uint8_t)(base + i * step + ordinal[i]);
    else if (plan->index_type == TW_I32)
        for (int i = 0; i < count; i++) words[i] = (int32_t)(base + i * step + ordinal[i]);
    else
        for (int i = 0; i < count; i++) longs[i] = base + i * step + ordinal[i];
}

/* The ordinals of stored indices; -1 for one that no 32-bit ordinal can be. */
TW_INLINE vi load_ordinals(const tw_pool_plan *plan, const void *data, int64_t at, int64_t base,
                           int count)
{
    int32_t ordinal[VLANES];
    int64_t step = plan->lane_index;
    const uint8_t *bytes = (const uint8_t *)data + at;
    const int32_t *words = (const int32_t *)data + at;
    const int64_t *longs = (const int64_t *)data + at;
    if (plan->index_type == TW_U8 && step == 0 && base == 0 && count == VLANES) {
        for (int i = 0; i < VLANES; i++) ordinal[i] = bytes[i];
        return vi_load(ordinal);
    }
    for (int i = 0; i < VLANES; i++) ordinal[i] = -1;
    for (int i = 0; i < count; i++) {
        int64_t index = plan->index_type == TW_U8    ? bytes[i]
                        : plan->index_type == TW_I32 ? words[i]
                                                     : longs[i];
        int64_t wanted = base + i * step;
        bool fits = index >= wanted && index - wanted <= INT32_MAX;
        ordinal[i] = fits ? (int32_t)(index - wanted) : -1;
    }
    return vi_load(ordinal);
}

/* A unit's number as a position over sizes, last fastest. */
TW_INLINE void split_number(int64_t number, int n, const int64_t *sizes, int64_t *at)
{
    for (int i = n - 1; i >= 0; i--) {
        at[i] = number % sizes[i];
        number /= sizes[i];
    }
}

#include "ops/pool/pool_forward_body.h"

#include "ops/pool/pool_backward_body.h"
