/* SPDX-License-Identifier: Apache-2.0 */
/* dropout on NEON. */
#define TW_TARGET_NEON
#include "arch/cpu/vec.h"

#include "ops/dropout/dropout_body.h"
