/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_AVX512
#define VEC_ISA TW_ISA_AVX512
#include "tile/vecmath_body.h"
