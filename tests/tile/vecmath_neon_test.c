/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_NEON
#define VEC_ISA TW_ISA_BASELINE
#include "tile/vecmath_body.h"
