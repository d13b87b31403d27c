/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_AVX2
#include "ops/reduce/reduce_columns_body.h"
#include "ops/reduce/reduce_rows_body.h"
