/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG through libjpeg(-turbo). Its errors come by longjmp, as in png.c. */
#include "formats/bytes.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <tilework/device.h>

#include "core/error.h"

/* A progressive file may hold any number of scans, each as costly as a picture; real ones have
 * about ten. */
#define SCAN_LIMIT 100

/* libjpeg's message for stray bytes between segments, which real cameras write. */
#define EXTRANEOUS_DATA "Corrupt JPEG data: %u extraneous bytes before marker 0x%02x"

typedef struct jpeg_job {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
    bool no_memory;
    const uint8_t *src;
} jpeg_job;

static void on_error(j_common_ptr common)
{
    jpeg_job *job = common->client_data;
    common->err->format_message(common, job->message);
    job->no_memory = strstr(job->message, "nsufficient memory") != NULL;
    longjmp(job->jump, 1);
}

/* libjpeg would fill in grey where data is missing; here a damaged file is refused. */
static void on_message(j_common_ptr common, int level)
{
    if (level >= 0) return;
    const char *text = common->err->jpeg_message_table[common->err->msg_code];
    if (strcmp(text, EXTRANEOUS_DATA) != 0) on_error(common);
}

static void on_progress(j_common_ptr common)
{
    jpeg_job *job = common->client_data;
    if (job->info.input_scan_number <= SCAN_LIMIT) return;
    snprintf(job->message, sizeof job->message, "more than %d scans", SCAN_LIMIT);
    longjmp(job->jump, 1);
}

static tw_status failure(const jpeg_job *job)
{
    const struct jpeg_source_mgr *source = job->info.src;
    long long at = source && source->next_input_byte ? source->next_input_byte - job->src : 0;
    if (job->no_memory) return tw_fail_memory(SIZE_MAX);
    return tw_fail(TW_BAD_FILE, "byte %lld: the JPEG file is damaged (%s)", at < 0 ? 0 : at,
                   job->message);
}

static tw_status read_head(jpeg_job *job, size_t n_bytes, tw_array *image)
{
    if (setjmp(job->jump)) return failure(job);
    jpeg_create_decompress(&job->info);
    job->info.client_data = job;
    jpeg_mem_src(&job->info, job->src, (unsigned long)n_bytes);
    jpeg_read_header(&job->info, TRUE);
    TW_REQUIRE(job->info.jpeg_color_space != JCS_CMYK && job->info.jpeg_color_space != JCS_YCCK,
               TW_NOT_SUPPORTED,
               "byte 0: this JPEG file is CMYK, which is not read; accepted are grey and RGB");
    bool grey = job->info.jpeg_color_space == JCS_GRAYSCALE;
    job->info.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    image->dims[0] = job->info.image_height;
    image->dims[1] = job->info.image_width;
    image->dims[2] = grey ? 1 : 3;
    return TW_OK;
}

static tw_status read_rows(jpeg_job *job, const tw_array *image)
{
    if (setjmp(job->jump)) return failure(job);
    job->progress.progress_monitor = on_progress;
    job->info.progress = &job->progress;
    jpeg_start_decompress(&job->info);
    size_t row_bytes = (size_t)(image->dims[1] * image->dims[2]);
    while (job->info.output_scanline < job->info.output_height) {
        JSAMPROW row = (JSAMPROW)image->data + row_bytes * job->info.output_scanline;
        jpeg_read_scanlines(&job->info, &row, 1);
    }
    jpeg_finish_decompress(&job->info);
    return TW_OK;
}

static tw_status read_image(jpeg_job *job, size_t n_bytes, int64_t limit, tw_array *image)
{
    int64_t elements, bytes;
    TW_TRY(read_head(job, n_bytes, image));
    TW_TRY(tw_shape_bytes(image, limit, 0, &elements, &bytes));
    TW_TRY(tw_array_allocate(image, bytes));
    tw_status status = read_rows(job, image);
    if (status != TW_OK) tw_array_free(image);
    return status;
}

tw_status tw_jpeg_parse(const uint8_t *bytes, size_t n_bytes, int64_t limit, tw_array *image)
{
    jpeg_job job;
    tw_array result = {.dtype = TW_U8, .rank = 3};
    memset(&job, 0, sizeof job);
    job.src = bytes;
    job.info.err = jpeg_std_error(&job.errors);
    job.info.client_data = &job;
    job.errors.error_exit = on_error;
    job.errors.emit_message = on_message;
    tw_status status = read_image(&job, n_bytes, limit, &result);
    jpeg_destroy_decompress(&job.info);
    if (status == TW_OK) *image = result;
    return status;
}
