/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of data sets: the table, and what readers fill. */
#ifndef TW_FORMATS_DATASET_H
#define TW_FORMATS_DATASET_H

#include <tilework/data.h>

typedef struct tw_part {
    int64_t count;
    uint8_t *pixels; /* [count, channels, height, width] */
    uint8_t *labels; /* [count] */
} tw_part;

typedef struct tw_dataset_row tw_dataset_row;

struct tw_dataset {
    const tw_dataset_row *row;
    char *folder;
    tw_part parts[2]; /* by tw_split */
    char *text;
    int64_t text_bytes, text_split; /* the test part begins at text_split */
};

/* A published file. `sha256` is of the file itself, checked at the download; `content`, where
 * given, of the unpacked bytes, checked at each reading: packed copies differ between sources. */
typedef struct tw_dataset_file {
    const char *name;
    int64_t bytes;
    const char *sha256, *content;
    bool train; /* not needed for the test part */
} tw_dataset_file;

struct tw_dataset_row {
    tw_dataset_info info;
    const char *const *classes;
    const char *data_folder; /* below $TW_DATA */
    const tw_dataset_file *files;
    int32_t n_files;
    const char *sample;         /* a file that has the beginning of the test part alone, or NULL */
    const char *const *mirrors; /* NULL at the end; one that ends in '/' is followed by file.name */
    /* Reads from a folder that has the files (or, with `sample`, that one). */
    tw_status (*read)(tw_dataset *dataset, const char *folder, uint32_t flags, bool sample);
};

extern const tw_dataset_row tw_dataset_rows[];
extern const int32_t tw_dataset_n_rows;

tw_status tw_dataset_read_idx(tw_dataset *dataset, const char *folder, uint32_t flags, bool sample);
tw_status tw_dataset_read_cifar(tw_dataset *dataset, const char *folder, uint32_t flags,
                                bool sample);
tw_status tw_dataset_read_text(tw_dataset *dataset, const char *folder, uint32_t flags,
                               bool sample);
tw_status tw_dataset_read_digits(tw_dataset *dataset, const char *folder, uint32_t flags,
                                 bool sample);

/* "folder/file" in tw_malloc memory. */
tw_status tw_join_path(const char *folder, const char *file, char **path);

#endif
