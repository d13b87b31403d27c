/* SPDX-License-Identifier: Apache-2.0 */
/* When all tensors of an optimizer can be walked as flat arrays. */
#ifndef TW_OPS_OPTIMIZER_FLAT_H
#define TW_OPS_OPTIMIZER_FLAT_H

#include "ops/optimizer/optimizer_graph.h"

#define TW_FLAT_ITEM ((int64_t)16384) /* elements of an item of the parallel loop */

const char *tw_flat_refuses(const tw_problem *problem);

static inline int64_t tw_flat_elements(const tw_view *view)
{
    int64_t n = 1;
    for (int32_t d = 0; d < view->rank; d++) n *= view->dims[d];
    return n;
}

#endif
