/* SPDX-License-Identifier: Apache-2.0 */
/* A progress line on a terminal: rate and time left. Prints nothing into a pipe. */
#ifndef TW_CLI_PROGRESS_H
#define TW_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <tilework/data.h>

typedef struct progress {
    const char *what, *unit;
    int64_t total, done;
    int64_t start, last; /* nanoseconds */
    bool shown, terminal;
} progress;

void progress_start(progress *p, const char *what, const char *unit, int64_t total);
/* `note` stands at the end of the line, or NULL. Draws at most ten times a second. */
void progress_set(progress *p, int64_t done, const char *note);
/* A tw_progress_fn that draws on the progress `user`; true: go on. */
bool progress_of_download(void *user, const tw_progress *p);
void progress_end(progress *p); /* removes the line */

#endif
