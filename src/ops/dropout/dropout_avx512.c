/* SPDX-License-Identifier: Apache-2.0 */
/* dropout on AVX-512. */
#define TW_TARGET_AVX512
#include "arch/cpu/vec.h"

#include "ops/dropout/dropout_body.h"
