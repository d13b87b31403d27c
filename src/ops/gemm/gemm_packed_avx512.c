/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_AVX512
#include "ops/gemm/gemm_packed_body.h"
