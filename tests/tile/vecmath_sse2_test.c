/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_SSE2
#define VEC_ISA TW_ISA_BASELINE
#include "tile/vecmath_body.h"
