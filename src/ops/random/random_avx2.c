/* SPDX-License-Identifier: Apache-2.0 */
/* random on AVX2. */
#define TW_TARGET_AVX2
#include "arch/cpu/vec.h"

#include "ops/random/random_body.h"
