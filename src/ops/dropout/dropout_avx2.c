/* SPDX-License-Identifier: Apache-2.0 */
/* dropout on AVX2. */
#define TW_TARGET_AVX2
#include "arch/cpu/vec.h"

#include "ops/dropout/dropout_body.h"
