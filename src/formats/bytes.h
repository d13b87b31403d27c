/* SPDX-License-Identifier: Apache-2.0 */
/* What the file formats share: byte order, allocation under a limit, sentences with a path. */
#ifndef TW_FORMATS_BYTES_H
#define TW_FORMATS_BYTES_H

#include <string.h>

#include <tilework/files.h>

static inline uint32_t tw_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint32_t tw_le16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

static inline uint32_t tw_le32(const uint8_t *p) { return tw_le16(p) | tw_le16(p + 2) << 16; }

static inline uint64_t tw_le64(const uint8_t *p)
{
    return (uint64_t)tw_le32(p) | (uint64_t)tw_le32(p + 4) << 32;
}

/* Reverses each of n elements of `width` bytes in place. */
void tw_swap_bytes(void *data, int64_t n, int width);

/* A caller's limit, with 0 read as TW_FILE_LIMIT. */
tw_status tw_limit(int64_t limit, int64_t *bytes);

/* Elements and bytes of a shape, for sizes that come from a file: TW_BAD_FILE, naming the byte
 * `at`, when the figure overflows or exceeds `limit`. */
tw_status tw_shape_bytes(const tw_array *shape, int64_t limit, int64_t at, int64_t *elements,
                         int64_t *bytes);

/* Sets size, bytes and data of an array whose dtype, rank and dims are set. Not zeroed. */
tw_status tw_array_allocate(tw_array *array, int64_t bytes);

/* An array that a caller gave to a writer: its type, rank, dims and bytes agree. */
tw_status tw_array_check(const tw_array *array, const char *what);

/* The thread's sentence again, with the path before it. */
tw_status tw_fail_in_file(tw_status status, const char *path);

/* Picture decoders; `image` is u8 [height, width, channels] of the file's own channels. */
tw_status tw_png_parse(const uint8_t *bytes, size_t n_bytes, int64_t limit, tw_array *image);
tw_status tw_jpeg_parse(const uint8_t *bytes, size_t n_bytes, int64_t limit, tw_array *image);

/* zlib's and libpng's memory through the library's hooks. */
void *tw_zlib_allocate(void *user, unsigned items, unsigned bytes);
void tw_zlib_free(void *user, void *pointer);

#endif
