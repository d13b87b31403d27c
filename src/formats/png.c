/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PNG through libpng. Its errors come by longjmp: everything that must survive one lives in a
 * struct outside the function that calls setjmp.
 */
#include "formats/bytes.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>

#include <tilework/device.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/file.h"

typedef struct png_job {
    jmp_buf jump;
    char message[128];
    bool no_memory;
    png_structp png;
    png_infop info;
    int passes;
    const uint8_t *src; /* reading */
    size_t n_src, at;
    void *dst; /* writing: grown as needed */
    int64_t capacity, length;
} png_job;

static void on_error(png_structp png, png_const_charp text)
{
    png_job *job = png_get_error_ptr(png);
    snprintf(job->message, sizeof job->message, "%s", text);
    longjmp(job->jump, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static png_voidp allocate(png_structp png, png_alloc_size_t bytes)
{
    png_job *job = png_get_mem_ptr(png);
    void *memory = tw_malloc(bytes);
    if (!memory) job->no_memory = true;
    return memory;
}

static void release(png_structp png, png_voidp memory)
{
    (void)png;
    tw_free(memory);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_bytes(png_structp png, png_bytep data, size_t n)
{
    png_job *job = png_get_io_ptr(png);
    if (n > job->n_src - job->at) {
        job->at = job->n_src;
        png_error(png, "the file is cut short");
    }
    memcpy(data, job->src + job->at, n);
    job->at += n;
}

static tw_status read_failure(const png_job *job)
{
    if (job->no_memory) return tw_fail_memory(SIZE_MAX);
    return tw_fail(TW_BAD_FILE, "byte %zu: the PNG file is damaged (%s)", job->at, job->message);
}

/* Reads up to the pixels and asks libpng for 8-bit grey, grey-alpha, RGB or RGBA. */
static tw_status read_head(png_job *job, tw_array *image)
{
    if (setjmp(job->jump)) return read_failure(job);
    /* Chunks that do not change pixels are skipped unread: they could hold much memory. */
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_read_fn(job->png, job, read_bytes);
    png_read_info(job->png, job->info);
    png_set_expand(job->png);
    png_set_scale_16(job->png);
    job->passes = png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    image->dims[0] = png_get_image_height(job->png, job->info);
    image->dims[1] = png_get_image_width(job->png, job->info);
    image->dims[2] = png_get_channels(job->png, job->info);
    return TW_OK;
}

static tw_status read_rows(png_job *job, const tw_array *image)
{
    if (setjmp(job->jump)) return read_failure(job);
    png_bytep pixels = image->data;
    size_t row_bytes = (size_t)(image->dims[1] * image->dims[2]);
    if (png_get_rowbytes(job->png, job->info) != row_bytes) {
        return tw_fail(TW_INTERNAL, "libpng's row is not %zu bytes", row_bytes);
    }
    for (int pass = 0; pass < job->passes; pass++) {
        for (int64_t y = 0; y < image->dims[0]; y++) {
            png_read_row(job->png, pixels + (size_t)y * row_bytes, NULL);
        }
    }
    png_read_end(job->png, NULL);
    return TW_OK;
}

static tw_status read_image(png_job *job, int64_t limit, tw_array *image)
{
    int64_t elements, bytes;
    job->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, job, on_error, on_warning, job,
                                        allocate, release);
    if (job->png) job->info = png_create_info_struct(job->png);
    if (!job->info) return tw_fail_memory(sizeof *job);
    TW_TRY(read_head(job, image));
    TW_TRY(tw_shape_bytes(image, limit, 16, &elements, &bytes));
    TW_TRY(tw_array_allocate(image, bytes));
    tw_status status = read_rows(job, image);
    if (status != TW_OK) tw_array_free(image);
    return status;
}

tw_status tw_png_parse(const uint8_t *bytes, size_t n_bytes, int64_t limit, tw_array *image)
{
    png_job job = {.src = bytes, .n_src = n_bytes};
    tw_array result = {.dtype = TW_U8, .rank = 3};
    tw_status status = read_image(&job, limit, &result);
    png_destroy_read_struct(&job.png, &job.info, NULL);
    if (status == TW_OK) *image = result;
    return status;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_bytes(png_structp png, png_bytep data, size_t n)
{
    png_job *job = png_get_io_ptr(png);
    if (tw_grow(&job->dst, &job->capacity, job->length + (int64_t)n, 1) != TW_OK) {
        job->no_memory = true;
        png_error(png, "out of memory");
    }
    memcpy((char *)job->dst + job->length, data, n);
    job->length += (int64_t)n;
}

static void flush_nothing(png_structp png) { (void)png; }

static tw_status write_image(png_job *job, const tw_array *image, int channels)
{
    job->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, job, on_error, on_warning, job,
                                         allocate, release);
    if (job->png) job->info = png_create_info_struct(job->png);
    if (!job->info) return tw_fail_memory(sizeof *job);
    if (setjmp(job->jump)) {
        if (job->no_memory) return tw_fail_memory(SIZE_MAX);
        return tw_fail(TW_INVALID_ARGUMENT, "libpng refuses the picture: %s", job->message);
    }
    png_set_write_fn(job->png, job, write_bytes, flush_nothing);
    png_set_IHDR(job->png, job->info, (png_uint_32)image->dims[1], (png_uint_32)image->dims[0], 8,
                 channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(job->png, job->info);
    for (int64_t y = 0; y < image->dims[0]; y++) {
        png_write_row(job->png, (png_const_bytep)image->data + y * image->dims[1] * channels);
    }
    png_write_end(job->png, NULL);
    return TW_OK;
}

tw_status tw_png_write(const char *path, const tw_array *image)
{
    TW_REQUIRE(path && image, TW_INVALID_ARGUMENT, "path and image must not be NULL");
    TW_TRY(tw_array_check(image, "image"));
    bool shape = image->rank == 2 || image->rank == 3;
    int64_t channels = image->rank == 3 ? image->dims[2] : 1;
    TW_REQUIRE(image->dtype == TW_U8 && shape && (channels == 1 || channels == 3),
               TW_INVALID_ARGUMENT,
               "image is %s of rank %d; it must be u8 [height, width], [height, width, 1] or "
               "[height, width, 3]",
               tw_dtype_name(image->dtype), image->rank);
    TW_REQUIRE(image->dims[0] > 0 && image->dims[1] > 0 && image->dims[0] <= INT32_MAX &&
                   image->dims[1] <= INT32_MAX,
               TW_INVALID_ARGUMENT, "image is %lld x %lld; PNG takes 1 to 2147483647 each way",
               (long long)image->dims[0], (long long)image->dims[1]);
    png_job job = {.src = NULL};
    tw_status status = write_image(&job, image, (int)channels);
    png_destroy_write_struct(&job.png, &job.info);
    if (status == TW_OK) status = tw_file_write(path, job.dst, (size_t)job.length);
    tw_free(job.dst);
    return status;
}
