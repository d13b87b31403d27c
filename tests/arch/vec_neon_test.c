/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_NEON
#define VEC_ISA TW_ISA_BASELINE
#include "arch/vec_body.h"
