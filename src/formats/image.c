/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of any format that is read, and the change of their channels. */
#include "formats/bytes.h"

#include <tilework/device.h>

#include "core/error.h"
#include "core/file.h"

static uint8_t luma(const uint8_t *rgb)
{
    return (uint8_t)((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
}

/* `from` is 1 to 4 channels, `to` 1 or 3. */
static void convert_pixel(const uint8_t *src, int64_t from, uint8_t *dst, int32_t to)
{
    if (to == 1) {
        dst[0] = from >= 3 ? luma(src) : src[0];
        return;
    }
    for (int c = 0; c < 3; c++) dst[c] = from >= 3 ? src[c] : src[0];
}

static tw_status convert_channels(tw_array *image, int32_t channels, int64_t limit)
{
    int64_t from = image->dims[2], pixels = image->dims[0] * image->dims[1], elements, bytes;
    if (channels == 0 || channels == from) return TW_OK;
    tw_array result = *image;
    result.dims[2] = channels;
    TW_TRY(tw_shape_bytes(&result, limit, 0, &elements, &bytes));
    TW_TRY(tw_array_allocate(&result, bytes));
    const uint8_t *src = image->data;
    uint8_t *dst = result.data;
    for (int64_t i = 0; i < pixels; i++) {
        convert_pixel(src + i * from, from, dst + i * channels, channels);
    }
    tw_array_free(image);
    *image = result;
    return TW_OK;
}

tw_status tw_image_parse(const void *bytes, size_t n_bytes, int32_t channels, int64_t limit,
                         tw_array *image)
{
    TW_REQUIRE(bytes && image, TW_INVALID_ARGUMENT, "bytes and image must not be NULL");
    TW_REQUIRE(channels == 0 || channels == 1 || channels == 3, TW_INVALID_ARGUMENT,
               "channels is %d; it must be 0 (as in the file), 1 or 3", channels);
    TW_TRY(tw_limit(limit, &limit));
    const uint8_t *p = bytes;
    tw_array result;
    if (n_bytes >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0) {
        TW_TRY(tw_png_parse(p, n_bytes, limit, &result));
    } else if (n_bytes >= 3 && memcmp(p, "\xff\xd8\xff", 3) == 0) {
        TW_TRY(tw_jpeg_parse(p, n_bytes, limit, &result));
    } else {
        return tw_fail(TW_BAD_FILE, "byte 0: this is neither a PNG nor a JPEG file");
    }
    tw_status status = convert_channels(&result, channels, limit);
    if (status != TW_OK) {
        tw_array_free(&result);
        return status;
    }
    *image = result;
    return TW_OK;
}

tw_status tw_image_read(const char *path, int32_t channels, int64_t limit, tw_array *image)
{
    TW_REQUIRE(path && image, TW_INVALID_ARGUMENT, "path and image must not be NULL");
    void *bytes;
    size_t n_bytes;
    TW_TRY(tw_limit(limit, &limit));
    TW_TRY(tw_file_read(path, limit, &bytes, &n_bytes));
    tw_status status = tw_image_parse(bytes, n_bytes, channels, limit, image);
    tw_free(bytes);
    return status == TW_OK ? TW_OK : tw_fail_in_file(status, path);
}
