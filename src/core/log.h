/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines by topic; see tw_set_log. */
#ifndef TW_CORE_LOG_H
#define TW_CORE_LOG_H

#include <stdbool.h>

#include <tilework/device.h>

bool tw_log_wanted(uint32_t topic);
void tw_log(uint32_t topic, const char *format, ...) TW_PRINTF(2, 3);

#endif
