/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reduce/lines.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static void push_dim(tw_axis_group *group, const tw_view *const views[TW_LINES_OPERANDS], int32_t d)
{
    int32_t at = group->rank;
    int64_t dim = views[0]->dims[d];
    group->count *= dim;
    if (dim == 1) return;
    group->dims[at] = dim;
    for (int32_t v = 0; v < TW_LINES_OPERANDS; v++)
        group->strides[v][at] = views[v] ? views[v]->strides[d] : 0;
    group->rank++;
}

static void swap_dims(tw_axis_group *group, int32_t a, int32_t b)
{
    int64_t dim = group->dims[a];
    group->dims[a] = group->dims[b];
    group->dims[b] = dim;
    for (int32_t v = 0; v < TW_LINES_OPERANDS; v++) {
        int64_t stride = group->strides[v][a];
        group->strides[v][a] = group->strides[v][b];
        group->strides[v][b] = stride;
    }
}

/* Descending strides of the first operand; the second one decides between equals. */
static bool out_of_order(const tw_axis_group *group, int32_t a, int32_t b)
{
    if (group->strides[0][a] != group->strides[0][b])
        return group->strides[0][a] < group->strides[0][b];
    return group->strides[1][a] < group->strides[1][b];
}

static void sort_dims(tw_axis_group *group)
{
    for (int32_t i = 1; i < group->rank; i++)
        for (int32_t j = i; j > 0 && out_of_order(group, j - 1, j); j--) swap_dims(group, j - 1, j);
}

static bool can_merge(const tw_axis_group *group, int32_t outer, int32_t inner)
{
    for (int32_t v = 0; v < TW_LINES_OPERANDS; v++)
        if (group->strides[v][outer] != group->strides[v][inner] * group->dims[inner]) return false;
    return true;
}

static void merge_dims(tw_axis_group *group)
{
    int32_t rank = 0;
    for (int32_t d = 0; d < group->rank; d++) {
        if (rank > 0 && can_merge(group, rank - 1, d)) {
            group->dims[rank - 1] *= group->dims[d];
            for (int32_t v = 0; v < TW_LINES_OPERANDS; v++)
                group->strides[v][rank - 1] = group->strides[v][d];
        } else {
            if (rank != d) swap_dims(group, rank, d);
            rank++;
        }
    }
    group->rank = rank;
}

void tw_lines_make(const tw_view *const views[TW_LINES_OPERANDS], uint32_t axes, bool ordered,
                   tw_lines *lines)
{
    *lines = (tw_lines){.kept = {.count = 1}, .along = {.count = 1}};
    for (int32_t d = 0; d < views[0]->rank; d++)
        push_dim((axes >> d) & 1u ? &lines->along : &lines->kept, views, d);
    sort_dims(&lines->kept);
    if (!ordered) sort_dims(&lines->along);
    if (lines->kept.count == 0 || lines->along.count == 0) return;
    merge_dims(&lines->kept);
    merge_dims(&lines->along);
}

void tw_group_next(const tw_axis_group *group, tw_group_cursor *cursor)
{
    for (int32_t d = group->rank - 1; d >= 0; d--) {
        bool wraps = ++cursor->at[d] == group->dims[d];
        int64_t steps = wraps ? 1 - group->dims[d] : 1;
        for (int32_t v = 0; v < TW_LINES_OPERANDS; v++)
            cursor->offset[v] += steps * group->strides[v][d];
        if (!wraps) return;
        cursor->at[d] = 0;
    }
}

tw_status tw_parse_dims(const char *key, const char *text, int32_t *rank, int64_t *dims)
{
    *rank = 0;
    if (strcmp(text, "scalar") == 0) return TW_OK;
    for (const char *at = text;; at++) {
        char *end = NULL;
        TW_REQUIRE(*rank < TW_MAX_RANK, TW_INVALID_ARGUMENT, "%s=%s has more than %d dims", key,
                   text, TW_MAX_RANK);
        TW_REQUIRE(*at >= '0' && *at <= '9', TW_INVALID_ARGUMENT,
                   "%s=%s: expected dims such as 64x32x28, or scalar", key, text);
        dims[(*rank)++] = (int64_t)strtoll(at, &end, 10);
        at = end;
        if (*at == '\0') return TW_OK;
        TW_REQUIRE(*at == 'x', TW_INVALID_ARGUMENT, "%s=%s: dims are joined by x, not by '%c'", key,
                   text, *at);
    }
}

tw_status tw_parse_axes(const char *key, const char *text, int32_t rank, uint32_t *axes)
{
    *axes = 0;
    if (text[0] == '\0' || strcmp(text, "none") == 0) return TW_OK;
    if (strcmp(text, "all") == 0) {
        *axes = (1u << rank) - 1u;
        return TW_OK;
    }
    for (const char *at = text;; at++) {
        char *end = NULL;
        long axis = strtol(at, &end, 10);
        if (axis < 0) axis += rank;
        TW_REQUIRE(end != at && axis >= 0 && axis < rank, TW_INVALID_ARGUMENT,
                   "%s=%s: expected dims from %d to %d joined by commas, none, or all", key, text,
                   -rank, rank - 1);
        *axes |= 1u << axis;
        if (*end == '\0') return TW_OK;
        TW_REQUIRE(*end == ',', TW_INVALID_ARGUMENT, "%s=%s: dims are joined by commas, not '%c'",
                   key, text, *end);
        at = end;
    }
}
