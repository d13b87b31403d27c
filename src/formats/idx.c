/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IDX: two zero bytes, an element type, the rank, the dims as big-endian u32, then the elements,
 * big-endian, row-major.
 */
#include "formats/bytes.h"

#include <tilework/device.h>

#include "core/error.h"
#include "core/file.h"

static const struct {
    uint8_t code;
    tw_dtype dtype;
    int width;
} idx_types[] = {{0x08, TW_U8, 1},  {0x09, TW_I8, 1},  {0x0b, TW_I16, 2},
                 {0x0c, TW_I32, 4}, {0x0d, TW_F32, 4}, {0x0e, TW_F64, 8}};

static tw_status parse_plain(const uint8_t *p, size_t n, int64_t limit, tw_array *array)
{
    tw_array shape = {.dtype = TW_AUTO};
    int width = 0;
    TW_REQUIRE(n >= 4, TW_BAD_FILE, "byte %zu: an IDX file has a head of 4 bytes", n);
    TW_REQUIRE(p[0] == 0 && p[1] == 0, TW_BAD_FILE,
               "byte 0: an IDX file begins with two zero bytes; these are 0x%02x 0x%02x", p[0],
               p[1]);
    for (size_t i = 0; i < sizeof idx_types / sizeof *idx_types; i++) {
        if (idx_types[i].code != p[2]) continue;
        shape.dtype = idx_types[i].dtype;
        width = idx_types[i].width;
    }
    TW_REQUIRE(width, TW_BAD_FILE, "byte 2: 0x%02x is not an element type of IDX", p[2]);
    TW_REQUIRE(p[3] >= 1 && p[3] <= TW_MAX_RANK, TW_BAD_FILE,
               "byte 3: the rank is %d; it must be 1 to %d", p[3], TW_MAX_RANK);
    shape.rank = p[3];
    size_t head = 4 + 4 * (size_t)shape.rank;
    TW_REQUIRE(n >= head, TW_BAD_FILE, "byte %zu: the head of %zu bytes is cut short", n, head);
    for (int32_t d = 0; d < shape.rank; d++) shape.dims[d] = tw_be32(p + 4 + 4 * d);
    int64_t elements, bytes;
    TW_TRY(tw_shape_bytes(&shape, limit, 4, &elements, &bytes));
    TW_REQUIRE(n - head == (size_t)bytes, TW_BAD_FILE,
               "byte %zu: the shape stands for %lld bytes of elements, but %zu follow the head",
               head, (long long)bytes, n - head);
    TW_TRY(tw_array_allocate(&shape, bytes));
    memcpy(shape.data, p + head, (size_t)bytes);
    if (width > 1) tw_swap_bytes(shape.data, elements, width);
    *array = shape;
    return TW_OK;
}

tw_status tw_idx_parse(const void *bytes, size_t n_bytes, int64_t limit, tw_array *array)
{
    TW_REQUIRE(bytes && array, TW_INVALID_ARGUMENT, "bytes and array must not be NULL");
    TW_TRY(tw_limit(limit, &limit));
    const uint8_t *p = bytes;
    if (n_bytes < 2 || p[0] != 0x1f || p[1] != 0x8b) {
        return parse_plain(p, n_bytes, limit, array);
    }
    void *plain;
    size_t n_plain;
    int64_t head = 4 + 4 * TW_MAX_RANK; /* the limit is one on elements */
    TW_TRY(tw_gunzip(bytes, n_bytes, limit > INT64_MAX - head ? limit : limit + head, &plain,
                     &n_plain));
    tw_status status = parse_plain(plain, n_plain, limit, array);
    tw_free(plain);
    return status;
}

tw_status tw_idx_read(const char *path, int64_t limit, tw_array *array)
{
    TW_REQUIRE(path && array, TW_INVALID_ARGUMENT, "path and array must not be NULL");
    void *bytes;
    size_t n_bytes;
    TW_TRY(tw_limit(limit, &limit));
    TW_TRY(tw_file_read(path, limit > INT64_MAX - 4096 ? limit : limit + 4096, &bytes, &n_bytes));
    tw_status status = tw_idx_parse(bytes, n_bytes, limit, array);
    tw_free(bytes);
    return status == TW_OK ? TW_OK : tw_fail_in_file(status, path);
}
