/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights as the GEMM core reads them: [group][panel][tap, input channel][tile columns], zeros in
 * the columns beyond the last output channel.
 */
#ifndef TW_OPS_CONV_CONV_PACK_H
#define TW_OPS_CONV_CONV_PACK_H

#include "ops/conv/conv_part.h"

int64_t tw_conv_panels(const tw_conv_part *part, const tw_conv_target *target);

/* Floats of one part's packed weights. */
int64_t tw_conv_packed_floats(const tw_conv_part *part, const tw_conv_target *target);

/* Packs panel `index` of group·panels; false if a weight in it is infinite or NaN. */
bool tw_conv_pack_panel(const tw_conv_part *part, const tw_conv_target *target, int64_t index,
                        const void *w, float *packed);

bool tw_conv_all_finite(const float *values, int64_t n);

#endif
