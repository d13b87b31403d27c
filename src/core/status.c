/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tilework/status.h>

#include "core/log.h"

#define SENTENCE_BYTES 1024

static _Thread_local char last_sentence[SENTENCE_BYTES];

static const char *const status_names[] = {
#define X(name) [name] = #name,
#include "core/status.def"
#undef X
};

const char *tw_status_name(tw_status status)
{
    size_t n = sizeof status_names / sizeof status_names[0];
    size_t index = (size_t)status;
    return index < n && status_names[index] ? status_names[index] : "TW_UNKNOWN";
}

const char *tw_last_error(void) { return last_sentence; }

tw_status tw_fail(tw_status status, const char *format, ...)
{
    /* Formatted aside: the arguments may quote tw_last_error() itself. */
    char sentence[SENTENCE_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (length < 0) sentence[0] = '\0';
    memcpy(last_sentence, sentence, strlen(sentence) + 1);
    if (tw_log_wanted(TW_LOG_ERROR)) {
        tw_log(TW_LOG_ERROR, "%s: %s", tw_status_name(status), last_sentence);
    }
    return status;
}

int tw_version(void) { return TW_VERSION; }

_Static_assert(TW_VERSION == 100, "tw_version_text must say the same");

const char *tw_version_text(void) { return "0.1.0"; }
