/* SPDX-License-Identifier: Apache-2.0 */
/* random on NEON. */
#define TW_TARGET_NEON
#include "arch/cpu/vec.h"

#include "ops/random/random_body.h"
