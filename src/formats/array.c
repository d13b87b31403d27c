/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bytes.h"

#include "core/alloc.h"
#include "core/dtype.h"
#include "core/error.h"

void tw_array_free(tw_array *array)
{
    if (!array) return;
    tw_free(array->data);
    memset(array, 0, sizeof *array);
}

void tw_swap_bytes(void *data, int64_t n, int width)
{
    uint8_t *p = data;
    for (int64_t i = 0; i < n; i++, p += width) {
        for (int lo = 0, hi = width - 1; lo < hi; lo++, hi--) {
            uint8_t byte = p[lo];
            p[lo] = p[hi];
            p[hi] = byte;
        }
    }
}

tw_status tw_limit(int64_t limit, int64_t *bytes)
{
    TW_REQUIRE(limit >= 0, TW_INVALID_ARGUMENT,
               "limit is %lld; it must be a number of bytes, or 0 for the default",
               (long long)limit);
    *bytes = limit ? limit : TW_FILE_LIMIT;
    return TW_OK;
}

tw_status tw_shape_bytes(const tw_array *shape, int64_t limit, int64_t at, int64_t *elements,
                         int64_t *bytes)
{
    int64_t count = 1;
    bool empty = false, fits = true;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (shape->dims[d] == 0) empty = true;
    }
    for (int32_t d = 0; d < shape->rank && !empty; d++) {
        fits = fits && tw_mul_i64(count, shape->dims[d], &count);
    }
    if (empty) count = 0;
    /* Eight times the limit in bits stays within range for every element type up to 128 bits. */
    int bits = tw_dtype_bits(shape->dtype);
    fits = fits && count <= INT64_MAX / bits && (count * bits + 7) / 8 <= limit;
    TW_REQUIRE(fits, TW_BAD_FILE,
               "byte %lld: the shape stands for more than the limit of %lld bytes", (long long)at,
               (long long)limit);
    *elements = count;
    *bytes = tw_dtype_bytes(shape->dtype, count);
    return TW_OK;
}

tw_status tw_array_allocate(tw_array *array, int64_t bytes)
{
    void *data = tw_malloc(bytes ? (size_t)bytes : 1);
    if (!data) return tw_fail_memory((size_t)bytes);
    array->size = sizeof *array;
    array->data = data;
    array->bytes = bytes;
    return TW_OK;
}

tw_status tw_array_check(const tw_array *array, const char *what)
{
    TW_REQUIRE(tw_dtype_valid(array->dtype), TW_INVALID_ARGUMENT, "%s: %d is not an element type",
               what, (int)array->dtype);
    TW_REQUIRE(array->rank >= 0 && array->rank <= TW_MAX_RANK, TW_INVALID_ARGUMENT,
               "%s: the rank is %d; it must be 0 to %d", what, array->rank, TW_MAX_RANK);
    tw_tensor_desc desc = tw_desc(array->dtype, array->rank, array->dims);
    int64_t elements = tw_desc_elements(&desc);
    TW_REQUIRE(elements >= 0, TW_INVALID_ARGUMENT,
               "%s: the dims must be from 0 on and their "
               "product must fit 63 bits",
               what);
    int64_t bytes = tw_dtype_bytes(array->dtype, elements);
    TW_REQUIRE(array->bytes == bytes, TW_INVALID_ARGUMENT,
               "%s: bytes is %lld; the shape stands for %lld", what, (long long)array->bytes,
               (long long)bytes);
    TW_REQUIRE(array->data || bytes == 0, TW_INVALID_ARGUMENT, "%s: data is NULL", what);
    return TW_OK;
}

tw_status tw_fail_in_file(tw_status status, const char *path)
{
    char sentence[1024];
    strncpy(sentence, tw_last_error(), sizeof sentence - 1);
    sentence[sizeof sentence - 1] = '\0';
    /* core/file.c's own sentences have the path already. */
    if (strstr(sentence, path)) return status;
    return tw_fail(status, "%s: %s", path, sentence);
}
