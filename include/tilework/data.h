/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets by name, and the downloads behind them. Part of libtilework_io. */
#ifndef TILEWORK_DATA_H
#define TILEWORK_DATA_H

#include <tilework/files.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Downloads ------------------------------------------------------------------------------- */

typedef struct tw_progress {
    size_t size;
    const char *what; /* the file's name */
    int64_t bytes;    /* so far, those of an earlier, resumed attempt included */
    int64_t total;    /* 0: unknown */
    double rate;      /* bytes a second of this attempt */
} tw_progress;

/* Called on the downloading thread, at most about ten times a second. false: stop, and the call
 * returns TW_INTERRUPTED; what has arrived stays for the next attempt. */
typedef bool (*tw_progress_fn)(void *user, const tw_progress *progress);

typedef struct tw_download_options {
    size_t size;
    int32_t n_urls;
    const char *const *urls; /* tried in order; https, or http to a loopback address */
    const char *path;        /* the file to make; path.part beside it holds an unfinished one */
    int64_t bytes;           /* expected size; 0: unknown, at most `limit` */
    int64_t limit;           /* 0: TW_FILE_LIMIT */
    const char *sha256;      /* 64 hexadecimal digits, or NULL: not checked */
    int32_t stall_seconds;   /* give up on a mirror that sends under 1 KB/s this long; 0: 30 */
    int32_t total_seconds;   /* give up on an attempt after this; 0: six hours */
    tw_progress_fn progress; /* may be NULL */
    void *user;
} tw_download_options;

/* Downloads one file. Certificates are always verified. Proxies come from the usual environment
 * variables, except for loopback addresses. An attempt that breaks off is resumed; a file of the
 * wrong size or digest is removed and the next mirror is tried; the right one is renamed to `path`
 * at the end. TW_NETWORK: the sentence has each mirror's reason. TW_DISK_FULL, TW_IO_ERROR,
 * TW_INTERRUPTED end it at once. Two processes must not download to one path at a time. */
TW_API tw_status tw_download(const tw_download_options *options);

/* SHA-256 of bytes, as 64 hexadecimal digits and a NUL. */
TW_API void tw_sha256(const void *bytes, size_t n_bytes, char digest[65]);

/* ---- Data sets ------------------------------------------------------------------------------- */

typedef enum tw_dataset_kind { TW_DATASET_IMAGES = 0, TW_DATASET_TEXT = 1 } tw_dataset_kind;
typedef enum tw_split { TW_SPLIT_TRAIN = 0, TW_SPLIT_TEST = 1 } tw_split;

/* What there is by name: mnist, fashion-mnist, cifar10, shakespeare, digits. */
typedef struct tw_dataset_info {
    size_t size;
    const char *name;
    const char *title;
    const char *licence; /* as its publishers state it */
    const char *origin;
    tw_dataset_kind kind;
    int64_t train, test;             /* pictures, or bytes of text */
    int64_t channels, height, width; /* 0 for text */
    int32_t classes;                 /* 0 for text */
    int64_t download_bytes;          /* 0: in the library */
} tw_dataset_info;

TW_API int32_t tw_dataset_count(void);
TW_API tw_status tw_dataset_describe(int32_t index, tw_dataset_info *info);

enum {
    TW_DATASET_OFFLINE = 1,  /* never download: TW_NOT_FOUND instead */
    TW_DATASET_TEST_ONLY = 2 /* the test part is enough; the other one may be empty */
};

typedef struct tw_dataset_options {
    size_t size;
    const char *folder; /* look only here and download to here; NULL: see below */
    uint32_t flags;     /* TW_DATASET_* */
    tw_progress_fn progress;
    void *user;
} tw_dataset_options;

typedef struct tw_dataset tw_dataset; /* immutable; threads may share it */

/* Opens a data set and reads it into memory. Without a folder the files are looked for in
 * $TW_DATA/<name>, then in datasets/<name> of the cache folder ($TW_CACHE, $XDG_CACHE_HOME/tilework
 * or ~/.cache/tilework), where they are downloaded to if they are in neither. TW_MIRROR replaces
 * the built-in addresses: one or several base addresses, separated by commas, below which files are
 * at <name>/<file>. `options` may be NULL. TW_NOT_FOUND for an unknown name (naming the nearest) or
 * missing files; TW_BAD_FILE for damaged ones; and tw_download's failures.
 *
 * "digits" needs no file: 5,000 pictures of MNIST's training set, 500 of each class, are in the
 * library. Every fifth of each class is the test part: 4,000 and 1,000 pictures, 400 and 100 of
 * each class. "shakespeare": the last tenth is the test part. The others are split as published. */
TW_API tw_status tw_dataset_open(const char *name, const tw_dataset_options *options,
                                 tw_dataset **dataset);
TW_API void tw_dataset_free(tw_dataset *dataset); /* NULL is fine */

/* The same as tw_dataset_open("digits", NULL, …). */
TW_API tw_status tw_digits_embedded(tw_dataset **dataset);

/* Pictures as bytes, with no scaling; both arrays belong to the data set. */
typedef struct tw_images {
    size_t size;
    int64_t count, channels, height, width;
    const uint8_t *pixels; /* [count, channels, height, width] */
    const uint8_t *labels; /* [count], each below `classes` */
    int32_t classes;
} tw_images;

/* TW_INVALID_ARGUMENT if the data set is a text. */
TW_API tw_status tw_dataset_images(const tw_dataset *dataset, tw_split split, tw_images *images);

/* The text of one part; not NUL-terminated. TW_INVALID_ARGUMENT if the data set is pictures. */
TW_API tw_status tw_dataset_text(const tw_dataset *dataset, tw_split split, const char **text,
                                 int64_t *bytes);

/* The name of a class, such as "Ankle boot"; NULL if there is none by this number. */
TW_API const char *tw_dataset_class(const tw_dataset *dataset, int32_t label);
/* The folder that it was read from; "" for what is in the library. */
TW_API const char *tw_dataset_folder(const tw_dataset *dataset);

#ifdef __cplusplus
}
#endif
#endif
