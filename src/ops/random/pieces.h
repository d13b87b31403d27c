/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the threads of an element-by-element kernel share a tensor: by the shape and strides of the
 * output alone. Row-major memory is cut into long runs of elements. Where another dim than the last
 * is the fastest in memory (channels-last), an item is a short run for every index of that dim: it
 * then owns whole cache lines, and finds them in the cache again for the next index. Cut as
 * row-major, two threads wrote to the same lines, and 64 channels ran no faster on two threads.
 */
#ifndef TW_OPS_RANDOM_PIECES_H
#define TW_OPS_RANDOM_PIECES_H

#include "ops/random/walk.h"

enum { TW_LONG_RUN = 16384, TW_SHORT_RUN = 256, TW_PIECE_ELEMENTS = 4096 };

/* Elements are [outer, lanes, inner], row-major. */
typedef struct tw_pieces {
    int64_t lanes, inner;
    int64_t run;       /* elements of a run */
    int64_t per_inner; /* runs that cover inner */
    int64_t items;
} tw_pieces;

/* The dim that is fastest in memory, or -1 where that is the last dim that counts. */
static inline int32_t tw_fastest_dim(const tw_view *view)
{
    int32_t fastest = -1, last = -1;
    for (int32_t d = 0; d < view->rank; d++) {
        if (view->dims[d] == 1) continue;
        last = d;
        if (fastest < 0 || view->strides[d] <= view->strides[fastest]) fastest = d;
    }
    return fastest == last ? -1 : fastest;
}

/* For a view that is not empty. */
static inline tw_pieces tw_pieces_of(const tw_view *view)
{
    tw_pieces pieces = {.lanes = 1, .inner = tw_view_elements(view), .run = TW_LONG_RUN};
    const int32_t fastest = tw_fastest_dim(view);
    int64_t outer = 1;
    if (fastest >= 0) {
        pieces.lanes = view->dims[fastest];
        for (int32_t d = 0; d < fastest; d++) outer *= view->dims[d];
        pieces.inner /= outer * pieces.lanes;
        const int64_t runs = TW_PIECE_ELEMENTS / TW_SHORT_RUN / pieces.lanes;
        pieces.run = TW_SHORT_RUN * (runs > 1 ? runs : 1);
    }
    pieces.per_inner = (pieces.inner - 1) / pieces.run + 1;
    pieces.items = outer * pieces.per_inner;
    return pieces;
}

/* The first element of an item's run for one lane, and the run's length. */
static inline int64_t tw_piece_run(const tw_pieces *pieces, int64_t item, int64_t lane, int64_t *n)
{
    const int64_t outer = item / pieces->per_inner;
    const int64_t begin = item % pieces->per_inner * pieces->run;
    const int64_t left = pieces->inner - begin;
    *n = left < pieces->run ? left : pieces->run;
    return (outer * pieces->lanes + lane) * pieces->inner + begin;
}

#endif
