/* SPDX-License-Identifier: Apache-2.0 */
#define TW_TARGET_NEON
#include "tile/cpu/chain_run_body.h"
