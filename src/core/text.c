/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/error.h"

static bool reserve(tw_text *text, size_t bytes)
{
    if (bytes <= text->capacity) return true;
    int64_t capacity = (int64_t)text->capacity;
    void *data = text->data;
    if (bytes > INT64_MAX || tw_grow(&data, &capacity, (int64_t)bytes, 1) != TW_OK) return false;
    text->data = data;
    text->capacity = (size_t)capacity;
    return true;
}

void tw_text_add(tw_text *text, const char *format, ...)
{
    if (text->broken) return;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    size_t room = text->capacity - text->length;
    int length = vsnprintf(text->data ? text->data + text->length : NULL, room, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length >= room) {
        if (reserve(text, text->length + (size_t)length + 1)) {
            vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        } else {
            if (text->data) text->data[text->length] = '\0';
            length = -1;
        }
    }
    va_end(again);
    if (length < 0) {
        text->broken = true;
    } else {
        text->length += (size_t)length;
    }
}

tw_status tw_text_status(const tw_text *text)
{
    TW_REQUIRE(!text->broken, TW_OUT_OF_MEMORY, "out of memory after %zu bytes of a text",
               text->length);
    return TW_OK;
}

void tw_text_free(tw_text *text)
{
    tw_free(text->data);
    *text = (tw_text){0};
}

/* Names are short; of longer ones the beginning decides. */
enum { NAME_BYTES = 64 };

static int min_int(int a, int b) { return a < b ? a : b; }

/* Levenshtein's distance, one row of the table at a time. */
static int edit_distance(const char *a, const char *b)
{
    int row[NAME_BYTES + 1];
    size_t length = strlen(b) < NAME_BYTES ? strlen(b) : NAME_BYTES;
    for (size_t j = 0; j <= length; j++) row[j] = (int)j;
    for (int i = 0; i < NAME_BYTES && a[i]; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= length; j++) {
            int above = row[j];
            int change = diagonal + (a[i] != b[j - 1]);
            row[j] = min_int(change, min_int(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[length];
}

const char *tw_nearest(const char *name, int n, const char *const *candidates)
{
    const char *nearest = NULL;
    int least = 0;
    for (int i = 0; i < n; i++) {
        int distance = edit_distance(name, candidates[i]);
        if (!nearest || distance < least) {
            nearest = candidates[i];
            least = distance;
        }
    }
    return nearest;
}
