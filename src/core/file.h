/* SPDX-License-Identifier: Apache-2.0 */
/* Files for formats and training: whole-file reads with a limit, atomic writes, folders. */
#ifndef TW_CORE_FILE_H
#define TW_CORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tilework/status.h>

/* Reads a file of at most `limit` bytes into tw_malloc memory. TW_NOT_FOUND, TW_IO_ERROR,
 * TW_BAD_FILE (larger than limit). */
tw_status tw_file_read(const char *path, int64_t limit, void **data, size_t *bytes);

/* Writes path atomically: a temporary file beside it, fsync, rename. TW_DISK_FULL leaves the old
 * file as it was and removes the temporary one. */
tw_status tw_file_write(const char *path, const void *data, size_t bytes);

bool tw_file_exists(const char *path);
int64_t tw_file_size(const char *path);       /* -1 if absent */
tw_status tw_folder_create(const char *path); /* with its parents; fine if it is there */
/* $TW_CACHE, $XDG_CACHE_HOME/tilework or ~/.cache/tilework; it need not exist. */
tw_status tw_cache_folder(char *path, size_t n);
bool tw_is_terminal(FILE *file);

#endif
