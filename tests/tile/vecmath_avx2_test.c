/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_AVX2
#define VEC_ISA TW_ISA_AVX2
#include "tile/vecmath_body.h"
