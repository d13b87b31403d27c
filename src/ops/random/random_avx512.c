/* SPDX-License-Identifier: Apache-2.0 */
/* random on AVX-512. */
#define TW_TARGET_AVX512
#include "arch/cpu/vec.h"

#include "ops/random/random_body.h"
