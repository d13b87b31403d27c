/* SPDX-License-Identifier: Apache-2.0 */
/* A growing string, and the nearest of a list of names for error sentences. */
#ifndef TW_CORE_TEXT_H
#define TW_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include <tilework/status.h>

/* Zero-initialise. A failed append marks the text as broken; tw_text_status tells at the end, so
 * that callers need not check each append. */
typedef struct tw_text {
    char *data; /* NUL-terminated; NULL while empty */
    size_t length, capacity;
    bool broken;
} tw_text;

void tw_text_add(tw_text *text, const char *format, ...) TW_PRINTF(2, 3);
tw_status tw_text_status(const tw_text *text);
void tw_text_free(tw_text *text);

/* The candidate with the smallest edit distance to `name`; NULL if n is 0. */
const char *tw_nearest(const char *name, int n, const char *const *candidates);

#endif
