/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the text form of graphs and plans. The text is untrusted: every figure is checked, and
 * everything enters the graph through the same functions as a caller's own calls. */
#ifndef TW_GRAPH_READ_H
#define TW_GRAPH_READ_H

#include "graph/graph.h"
#include <tilework/plan.h>

/* A cursor over lines of space-separated words. */
struct tw_reader {
    const char *at, *end; /* the rest of the text */
    const char *line_end; /* of the current line */
    const char *start;
    int32_t n_constants; /* data of constants, by uid */
    const tw_binding *constants;
};

bool tw_read_line(tw_reader *reader);                          /* moves to the next line */
bool tw_read_word(tw_reader *reader, char *word, size_t room); /* false at the line's end */
/* TW_BAD_FILE with the byte offset. */
tw_status tw_read_fail(const tw_reader *reader, const char *what);
/* Whole number in text[0 … NUL), nothing else. */
bool tw_parse_i64(const char *text, int64_t *value);
/* Comma-separated whole numbers; the count, or -1. */
int32_t tw_parse_list(const char *text, int64_t *values, int32_t room);
/* The value of word "name=value"; NULL if the word is another key. */
const char *tw_key_value(const char *word, const char *name);

#endif
