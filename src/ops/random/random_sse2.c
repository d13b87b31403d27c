/* SPDX-License-Identifier: Apache-2.0 */
/* random on SSE2. */
#define TW_TARGET_SSE2
#include "arch/cpu/vec.h"

#include "ops/random/random_body.h"
