/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NumPy's .npy: "\x93NUMPY", two bytes of version, the head's length (u16 in version 1, u32 in 2
 * and 3), the head (a Python dict of descr, fortran_order and shape), then the elements.
 */
#include "formats/bytes.h"

#include <stdio.h>

#include <tilework/device.h>

#include "core/dtype.h"
#include "core/error.h"
#include "core/file.h"

#define HEAD_LIMIT 65536

static const struct {
    char kind, width;
    tw_dtype dtype;
} npy_types[] = {{'f', 8, TW_F64}, {'f', 4, TW_F32}, {'f', 2, TW_F16}, {'i', 8, TW_I64},
                 {'i', 4, TW_I32}, {'i', 2, TW_I16}, {'i', 1, TW_I8},  {'u', 8, TW_U64},
                 {'u', 4, TW_U32}, {'u', 2, TW_U16}, {'u', 1, TW_U8},  {'b', 1, TW_BOOL}};

enum { N_TYPES = sizeof npy_types / sizeof *npy_types };

/* ---- The head -------------------------------------------------------------------------------- */

typedef struct npy_head {
    const uint8_t *p;
    size_t at, end; /* byte offsets within the file */
    tw_array shape;
    int width;
    bool swap, fortran;
    bool has_descr, has_order, has_shape;
} npy_head;

static void skip_space(npy_head *h)
{
    while (h->at < h->end && (h->p[h->at] == ' ' || h->p[h->at] == '\n')) h->at++;
}

static bool accept(npy_head *h, char c)
{
    skip_space(h);
    if (h->at >= h->end || h->p[h->at] != (uint8_t)c) return false;
    h->at++;
    return true;
}

static tw_status expect(npy_head *h, char c)
{
    TW_REQUIRE(accept(h, c), TW_BAD_FILE, "byte %zu: expected '%c' in the head", h->at, c);
    return TW_OK;
}

/* A quoted text without escapes, of fewer than n bytes. */
static tw_status parse_text(npy_head *h, char *text, size_t n)
{
    skip_space(h);
    size_t begin = h->at, length = 0;
    TW_REQUIRE(h->at < h->end && (h->p[h->at] == '\'' || h->p[h->at] == '"'), TW_BAD_FILE,
               "byte %zu: expected a quoted text in the head", h->at);
    uint8_t quote = h->p[h->at++];
    while (h->at < h->end && h->p[h->at] != quote && length + 1 < n) {
        text[length++] = (char)h->p[h->at++];
    }
    TW_REQUIRE(h->at < h->end && h->p[h->at] == quote, TW_BAD_FILE,
               "byte %zu: a text in the head is too long or does not end", begin);
    h->at++;
    text[length] = '\0';
    return TW_OK;
}

static tw_status parse_descr(npy_head *h)
{
    char text[16];
    size_t begin = h->at;
    skip_space(h);
    TW_REQUIRE(h->at >= h->end || h->p[h->at] != '[', TW_NOT_SUPPORTED,
               "byte %zu: structured element types are not read; save each field on its own",
               h->at);
    TW_TRY(parse_text(h, text, sizeof text));
    if (strlen(text) == 3 && strchr("<>|=", text[0])) {
        for (int i = 0; i < N_TYPES; i++) {
            if (npy_types[i].kind != text[1] || npy_types[i].width + '0' != text[2]) continue;
            h->shape.dtype = npy_types[i].dtype;
            h->width = npy_types[i].width;
            h->swap = text[0] == '>';
            h->has_descr = true;
            return TW_OK;
        }
    }
    return tw_fail(TW_NOT_SUPPORTED,
                   "byte %zu: element type '%s' is not read; accepted are f8 f4 f2 i8 i4 i2 i1 u8 "
                   "u4 u2 u1 b1",
                   begin, text);
}

static tw_status parse_order(npy_head *h)
{
    skip_space(h);
    size_t left = h->end - h->at;
    const char *rest = (const char *)h->p + h->at;
    if (left >= 4 && memcmp(rest, "True", 4) == 0) {
        h->fortran = true;
        h->at += 4;
    } else {
        TW_REQUIRE(left >= 5 && memcmp(rest, "False", 5) == 0, TW_BAD_FILE,
                   "byte %zu: fortran_order must be True or False", h->at);
        h->fortran = false;
        h->at += 5;
    }
    h->has_order = true;
    return TW_OK;
}

static tw_status parse_dim(npy_head *h, int64_t *dim)
{
    skip_space(h);
    size_t begin = h->at;
    int64_t value = 0;
    while (h->at < h->end && h->p[h->at] >= '0' && h->p[h->at] <= '9') {
        int digit = h->p[h->at] - '0';
        TW_REQUIRE(value <= (INT64_MAX - digit) / 10, TW_BAD_FILE,
                   "byte %zu: a dim exceeds 64 bits", begin);
        value = value * 10 + digit;
        h->at++;
    }
    TW_REQUIRE(h->at > begin, TW_BAD_FILE, "byte %zu: expected a dim, a number from 0 on", begin);
    *dim = value;
    return TW_OK;
}

static tw_status parse_shape(npy_head *h)
{
    TW_TRY(expect(h, '('));
    h->shape.rank = 0;
    while (!accept(h, ')')) {
        TW_REQUIRE(h->shape.rank < TW_MAX_RANK, TW_NOT_SUPPORTED, "byte %zu: the rank is above %d",
                   h->at, TW_MAX_RANK);
        TW_TRY(parse_dim(h, &h->shape.dims[h->shape.rank]));
        h->shape.rank++;
        if (accept(h, ',')) continue;
        TW_TRY(expect(h, ')'));
        break;
    }
    h->has_shape = true;
    return TW_OK;
}

static tw_status parse_dict(npy_head *h)
{
    TW_TRY(expect(h, '{'));
    while (!accept(h, '}')) {
        char key[16];
        size_t begin = h->at;
        TW_TRY(parse_text(h, key, sizeof key));
        TW_TRY(expect(h, ':'));
        if (strcmp(key, "descr") == 0) {
            TW_TRY(parse_descr(h));
        } else if (strcmp(key, "fortran_order") == 0) {
            TW_TRY(parse_order(h));
        } else if (strcmp(key, "shape") == 0) {
            TW_TRY(parse_shape(h));
        } else {
            return tw_fail(TW_BAD_FILE, "byte %zu: '%s' is not a key of a .npy head", begin, key);
        }
        if (accept(h, ',')) continue;
        TW_TRY(expect(h, '}'));
        break;
    }
    TW_REQUIRE(h->has_descr && h->has_order && h->has_shape, TW_BAD_FILE,
               "byte %zu: the head lacks one of descr, fortran_order and shape", h->at);
    skip_space(h);
    TW_REQUIRE(h->at == h->end, TW_BAD_FILE, "byte %zu: the head goes on after its dict", h->at);
    return TW_OK;
}

static tw_status parse_head(npy_head *h, size_t n)
{
    const uint8_t *p = h->p;
    TW_REQUIRE(n >= 10 && memcmp(p, "\x93NUMPY", 6) == 0, TW_BAD_FILE,
               "byte 0: a .npy file begins with \\x93NUMPY and a head of 10 bytes or more");
    TW_REQUIRE(p[6] >= 1 && p[6] <= 3 && p[7] == 0, TW_NOT_SUPPORTED,
               "byte 6: format version %d.%d is not read; accepted are 1.0, 2.0 and 3.0", p[6],
               p[7]);
    TW_REQUIRE(p[6] == 1 || n >= 12, TW_BAD_FILE, "byte %zu: the head is cut short", n);
    h->at = p[6] == 1 ? 10 : 12;
    size_t length = p[6] == 1 ? tw_le16(p + 8) : tw_le32(p + 8);
    TW_REQUIRE(length <= HEAD_LIMIT && length <= n - h->at, TW_BAD_FILE,
               "byte 8: a head of %zu bytes is announced; the file has %zu more, the limit is %d",
               length, n - h->at, HEAD_LIMIT);
    h->end = h->at + length;
    return parse_dict(h);
}

/* ---- The elements ---------------------------------------------------------------------------- */

/* Column-major src to row-major dst. */
static void copy_fortran(const tw_array *shape, int width, const uint8_t *src, int64_t elements)
{
    int64_t index[TW_MAX_RANK] = {0}, stride[TW_MAX_RANK], step = 1;
    for (int32_t d = 0; d < shape->rank; d++) {
        stride[d] = step;
        step *= shape->dims[d];
    }
    uint8_t *dst = shape->data;
    int64_t from = 0;
    for (int64_t i = 0; i < elements; i++, dst += width) {
        memcpy(dst, src + from * width, (size_t)width);
        for (int32_t d = shape->rank - 1; d >= 0; d--) {
            from += stride[d];
            if (++index[d] < shape->dims[d]) break;
            from -= stride[d] * shape->dims[d];
            index[d] = 0;
        }
    }
}

tw_status tw_npy_parse(const void *bytes, size_t n_bytes, int64_t limit, tw_array *array)
{
    TW_REQUIRE(bytes && array, TW_INVALID_ARGUMENT, "bytes and array must not be NULL");
    TW_TRY(tw_limit(limit, &limit));
    npy_head h = {.p = bytes};
    int64_t elements, size;
    TW_TRY(parse_head(&h, n_bytes));
    TW_TRY(tw_shape_bytes(&h.shape, limit, 10, &elements, &size));
    TW_REQUIRE(n_bytes - h.end == (size_t)size, TW_BAD_FILE,
               "byte %zu: the shape stands for %lld bytes of elements, but %zu follow the head",
               h.end, (long long)size, n_bytes - h.end);
    TW_TRY(tw_array_allocate(&h.shape, size));
    if (h.fortran) {
        copy_fortran(&h.shape, h.width, h.p + h.end, elements);
    } else {
        memcpy(h.shape.data, h.p + h.end, (size_t)size);
    }
    if (h.swap && h.width > 1) tw_swap_bytes(h.shape.data, elements, h.width);
    *array = h.shape;
    return TW_OK;
}

tw_status tw_npy_read(const char *path, int64_t limit, tw_array *array)
{
    TW_REQUIRE(path && array, TW_INVALID_ARGUMENT, "path and array must not be NULL");
    void *bytes;
    size_t n_bytes;
    TW_TRY(tw_limit(limit, &limit));
    int64_t with_head = limit > INT64_MAX - HEAD_LIMIT ? limit : limit + HEAD_LIMIT;
    TW_TRY(tw_file_read(path, with_head, &bytes, &n_bytes));
    tw_status status = tw_npy_parse(bytes, n_bytes, limit, array);
    tw_free(bytes);
    return status == TW_OK ? TW_OK : tw_fail_in_file(status, path);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The whole head, a multiple of 64 bytes; its length. */
static size_t format_head(char *head, size_t n, const char *descr, const tw_array *array)
{
    size_t length = 10;
    length += (size_t)snprintf(head + length, n - length,
                               "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int32_t d = 0; d < array->rank; d++) {
        length += (size_t)snprintf(head + length, n - length, d ? ", %lld" : "%lld",
                                   (long long)array->dims[d]);
    }
    length += (size_t)snprintf(head + length, n - length, array->rank == 1 ? ",), }" : "), }");
    while (length % 64 != 63) head[length++] = ' ';
    head[length++] = '\n';
    memcpy(head, "\x93NUMPY\x01", 7);
    head[7] = 0;
    head[8] = (char)((length - 10) & 255);
    head[9] = (char)((length - 10) >> 8);
    return length;
}

tw_status tw_npy_write(const char *path, const tw_array *array)
{
    TW_REQUIRE(path && array, TW_INVALID_ARGUMENT, "path and array must not be NULL");
    TW_TRY(tw_array_check(array, "array"));
    int type = 0;
    while (type < N_TYPES && npy_types[type].dtype != array->dtype) type++;
    TW_REQUIRE(type < N_TYPES, TW_INVALID_ARGUMENT,
               "array.dtype is %s, which NumPy does not have; convert it first",
               tw_dtype_name(array->dtype));
    char descr[4], head[512];
    snprintf(descr, sizeof descr, "%c%c%c", npy_types[type].width == 1 ? '|' : '<',
             npy_types[type].kind, npy_types[type].width + '0');
    size_t n_head = format_head(head, sizeof head, descr, array);
    size_t n_bytes = n_head + (size_t)array->bytes;
    char *file = tw_malloc(n_bytes);
    if (!file) return tw_fail_memory(n_bytes);
    memcpy(file, head, n_head);
    if (array->bytes) memcpy(file + n_head, array->data, (size_t)array->bytes);
    tw_status status = tw_file_write(path, file, n_bytes);
    tw_free(file);
    return status;
}
