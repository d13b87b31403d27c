/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_AVX512
#include "ops/optimizer/optimizer_body.h"
