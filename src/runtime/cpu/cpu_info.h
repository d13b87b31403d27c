/* SPDX-License-Identifier: Apache-2.0 */
/* CPU features as kernels may use them: detected, and allowed by TW_MAX_ISA. */
#ifndef TW_RUNTIME_CPU_CPU_INFO_H
#define TW_RUNTIME_CPU_CPU_INFO_H

#include <stdbool.h>

#include "arch/cpu/cpuid.h"

/* Cached: costs one atomic load. */
bool tw_cpu_has(tw_cpu_feature feature);

/* Makes the tile registers usable, once for the process; false where the level in use is below AMX
 * or the system refuses. `supports` of an AMX kernel asks this, so that processes which never plan
 * one do not pay for larger signal frames and context switches. */
bool tw_cpu_request_amx(void);

#endif
