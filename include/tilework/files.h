/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of tensors and pictures: IDX, .npy, PNG, JPEG, safetensors. Part of libtilework_io.
 *
 * Every file is taken as hostile. Readers check sizes before they allocate and offsets before they
 * read, and answer TW_BAD_FILE with the byte offset at which the content is wrong. `limit` bounds
 * both the file's and the decoded bytes; 0 means TW_FILE_LIMIT. A well-formed file of a kind that
 * is not read gives TW_NOT_SUPPORTED. Other failures: TW_NOT_FOUND, TW_IO_ERROR, TW_OUT_OF_MEMORY.
 * On failure the result is untouched.
 *
 * Writers are atomic: another file is written beside the old one and takes its place at the end.
 * TW_DISK_FULL and TW_IO_ERROR leave the old file as it was.
 *
 * All functions are thread-safe as long as threads do not share what they write to.
 */
#ifndef TILEWORK_FILES_H
#define TILEWORK_FILES_H

#include <tilework/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TW_FILE_LIMIT ((int64_t)1 << 32) /* bytes */

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* A row-major tensor in host memory. */
typedef struct tw_array {
    size_t size; /* sizeof(tw_array); set by readers, 0 is read as the first version */
    tw_dtype dtype;
    int32_t rank;
    int64_t dims[TW_MAX_RANK];
    void *data; /* 64-byte aligned where a reader allocated it */
    int64_t bytes;
} tw_array;

/* Frees the data of an array that a reader filled, and zeroes the array. NULL is fine. */
TW_API void tw_array_free(tw_array *array);

/* ---- IDX (MNIST) and gzip -------------------------------------------------------------------- */

/* Reads an IDX file, plain or gzip: u8 i8 i16 i32 f32 f64, rank 1 to 8. Values are converted from
 * the file's big-endian order. Free with tw_array_free. */
TW_API tw_status tw_idx_read(const char *path, int64_t limit, tw_array *array);
TW_API tw_status tw_idx_parse(const void *bytes, size_t n_bytes, int64_t limit, tw_array *array);

/* Unpacks gzip, of one or several members, to at most `limit` bytes. *data: free with tw_free. */
TW_API tw_status tw_gunzip(const void *bytes, size_t n_bytes, int64_t limit, void **data,
                           size_t *n_data);

/* ---- NumPy .npy ------------------------------------------------------------------------------ */

/* Reads format versions 1 to 3: f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 b1 in either byte order. Fortran
 * order is converted to row-major. Free with tw_array_free. */
TW_API tw_status tw_npy_read(const char *path, int64_t limit, tw_array *array);
TW_API tw_status tw_npy_parse(const void *bytes, size_t n_bytes, int64_t limit, tw_array *array);

/* Writes version 1. TW_INVALID_ARGUMENT for element types that NumPy does not have. */
TW_API tw_status tw_npy_write(const char *path, const tw_array *array);

/* ---- Pictures -------------------------------------------------------------------------------- */

/* Reads a PNG or JPEG file, told apart by content, to u8 [height, width, channels]. PNG: palettes
 * become RGB, narrow grey becomes 8 bits, 16 bits are rounded to 8. `channels`: 0 keeps what the
 * file has (1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha); 1 gives grey (0.299 R + 0.587 G +
 * 0.114 B) and 3 RGB, without alpha. No colour management. Free with tw_array_free. */
TW_API tw_status tw_image_read(const char *path, int32_t channels, int64_t limit, tw_array *image);
TW_API tw_status tw_image_parse(const void *bytes, size_t n_bytes, int32_t channels, int64_t limit,
                                tw_array *image);

/* Writes u8 [height, width], [height, width, 1] or [height, width, 3] as PNG. */
TW_API tw_status tw_png_write(const char *path, const tw_array *image);

/* ---- safetensors ----------------------------------------------------------------------------- */

typedef struct tw_named_array {
    const char *name;
    tw_array array;
} tw_named_array;

typedef struct tw_metadata {
    const char *key, *value; /* UTF-8 */
} tw_metadata;

/* A safetensors file in memory; immutable, so threads may share it. */
typedef struct tw_tensors tw_tensors;

/* Reads f64 f32 f16 bf16, the 8-bit floats and e8m0, f4e2m1, integers of 8 to 64 bits, bool, c64.
 * Overlapping tensors, holes and duplicate names are TW_BAD_FILE. Free with tw_tensors_free. */
TW_API tw_status tw_tensors_read(const char *path, int64_t limit, tw_tensors **tensors);
TW_API tw_status tw_tensors_parse(const void *bytes, size_t n_bytes, int64_t limit,
                                  tw_tensors **tensors);
TW_API void tw_tensors_free(tw_tensors *tensors); /* NULL is fine */

/* Tensors in the order of their data. Names and data belong to `tensors`; data is aligned to its
 * element. find: TW_NOT_FOUND, naming the nearest name there is. */
TW_API int64_t tw_tensors_count(const tw_tensors *tensors);
TW_API tw_status tw_tensors_at(const tw_tensors *tensors, int64_t index, tw_named_array *entry);
TW_API tw_status tw_tensors_find(const tw_tensors *tensors, const char *name,
                                 tw_named_array *entry);

/* The file's own map of texts. A key that is not there gives NULL. */
TW_API int64_t tw_tensors_metadata_count(const tw_tensors *tensors);
TW_API tw_status tw_tensors_metadata_at(const tw_tensors *tensors, int64_t index,
                                        tw_metadata *pair);
TW_API const char *tw_tensors_metadata(const tw_tensors *tensors, const char *key);

/* Writes `n` tensors, in this order, and `n_pairs` metadata pairs. Names must differ and may not be
 * "__metadata__"; array.bytes must be what dims and element type amount to. */
TW_API tw_status tw_tensors_write(const char *path, int64_t n, const tw_named_array *entries,
                                  int64_t n_pairs, const tw_metadata *pairs);

#ifdef __cplusplus
}
#endif
#endif
