/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_SSE2
#include "tile/cpu/chain_run_body.h"
