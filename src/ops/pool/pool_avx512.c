/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_AVX512
#include "ops/pool/pool_body.h"
