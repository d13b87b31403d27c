/* SPDX-License-Identifier: Apache-2.0 */
/* Index maps that shape inference, the references and the kernels share. */
#ifndef TW_OPS_LAYOUT_MAP_H
#define TW_OPS_LAYOUT_MAP_H

#include "ops/op.h"

/* Where position q of a dim of n elements comes from; q < 0 and q >= n lie in the padding. -1: the
 * constant. Reflection and wrapping reach one dim's length at most; inference has checked it. */
static inline int64_t tw_pad_source(tw_pad_mode mode, int64_t n, int64_t q)
{
    if (q >= 0 && q < n) return q;
    switch (mode) {
    case TW_PAD_REFLECT: return q < 0 ? -q : 2 * (n - 1) - q;
    case TW_PAD_EDGE: return q < 0 ? 0 : n - 1;
    case TW_PAD_WRAP: return q < 0 ? q + n : q - n;
    case TW_PAD_CONSTANT: break;
    }
    return -1;
}

#endif
