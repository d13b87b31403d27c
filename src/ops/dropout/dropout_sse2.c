/* SPDX-License-Identifier: Apache-2.0 */
/* dropout on SSE2. */
#define TW_TARGET_SSE2
#include "arch/cpu/vec.h"

#include "ops/dropout/dropout_body.h"
