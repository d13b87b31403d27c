/* SPDX-License-Identifier: Apache-2.0 */
/* From files in a folder to pictures and text in memory. */
#include "formats/dataset.h"

#include <stdio.h>
#include <stdlib.h>

#include <tilework/device.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/file.h"
#include "formats/bytes.h"

#define FILE_LIMIT ((int64_t)512 << 20) /* above the largest of the table, packed or not */

/* ---- Files ----------------------------------------------------------------------------------- */

static tw_status check_content(const tw_dataset_file *file, const void *data, size_t n)
{
    char digest[65];
    if (!file->content) return TW_OK;
    tw_sha256(data, n, digest);
    TW_REQUIRE(strcmp(digest, file->content) == 0, TW_BAD_FILE,
               "byte 0: this is not the published file: the SHA-256 of the content is %s instead "
               "of %s",
               digest, file->content);
    return TW_OK;
}

/* The whole file, unpacked if it is gzip. */
static tw_status read_unpacked(const char *path, void **data, size_t *n)
{
    void *packed;
    size_t n_packed;
    TW_TRY(tw_file_read(path, FILE_LIMIT, &packed, &n_packed));
    const uint8_t *p = packed;
    if (n_packed < 2 || p[0] != 0x1f || p[1] != 0x8b) {
        *data = packed;
        *n = n_packed;
        return TW_OK;
    }
    tw_status status = tw_gunzip(packed, n_packed, FILE_LIMIT, data, n);
    tw_free(packed);
    return status;
}

/* ---- IDX: mnist, fashion-mnist --------------------------------------------------------------- */

/* Checks a pair of arrays and makes it a part, taking over their data. */
static tw_status take_idx(tw_dataset *dataset, tw_split split, tw_array *pixels, tw_array *labels)
{
    const tw_dataset_info *info = &dataset->row->info;
    TW_REQUIRE(pixels->dtype == TW_U8 && pixels->rank == 3 && pixels->dims[1] == info->height &&
                   pixels->dims[2] == info->width,
               TW_BAD_FILE, "byte 0: the pictures must be u8 [n, %lld, %lld]",
               (long long)info->height, (long long)info->width);
    TW_REQUIRE(labels->dtype == TW_U8 && labels->rank == 1 && labels->dims[0] == pixels->dims[0],
               TW_BAD_FILE, "byte 0: the labels must be u8 [%lld], one for each picture",
               (long long)pixels->dims[0]);
    const uint8_t *label = labels->data;
    for (int64_t i = 0; i < labels->dims[0]; i++) {
        TW_REQUIRE(label[i] < info->classes, TW_BAD_FILE,
                   "byte %lld: label %d is not below the %d classes", (long long)i + 8, label[i],
                   info->classes);
    }
    dataset->parts[split] = (tw_part){pixels->dims[0], pixels->data, labels->data};
    pixels->data = NULL;
    labels->data = NULL;
    return TW_OK;
}

static tw_status read_idx_file(const tw_dataset_file *file, const char *folder, tw_array *array)
{
    char *path;
    void *data = NULL;
    size_t n;
    TW_TRY(tw_join_path(folder, file->name, &path));
    tw_status status = read_unpacked(path, &data, &n);
    if (status == TW_OK) status = check_content(file, data, n);
    if (status == TW_OK) status = tw_idx_parse(data, n, FILE_LIMIT, array);
    if (status != TW_OK) status = tw_fail_in_file(status, path);
    tw_free(data);
    tw_free(path);
    return status;
}

static tw_status read_idx_pair(tw_dataset *dataset, const char *folder, tw_split split)
{
    const tw_dataset_file *files = dataset->row->files + (split == TW_SPLIT_TRAIN ? 0 : 2);
    tw_array pixels = {0}, labels = {0};
    tw_status status = read_idx_file(&files[0], folder, &pixels);
    if (status == TW_OK) status = read_idx_file(&files[1], folder, &labels);
    if (status == TW_OK) {
        status = take_idx(dataset, split, &pixels, &labels);
        if (status != TW_OK) status = tw_fail_in_file(status, folder);
    }
    tw_array_free(&pixels);
    tw_array_free(&labels);
    return status;
}

tw_status tw_dataset_read_idx(tw_dataset *dataset, const char *folder, uint32_t flags, bool sample)
{
    (void)sample;
    if (!(flags & TW_DATASET_TEST_ONLY)) TW_TRY(read_idx_pair(dataset, folder, TW_SPLIT_TRAIN));
    return read_idx_pair(dataset, folder, TW_SPLIT_TEST);
}

/* ---- CIFAR-10: records of a label and three planes ------------------------------------------- */

#define CIFAR_PIXELS 3072
#define CIFAR_RECORD 3073
#define CIFAR_BATCH 10000

static tw_status allocate_part(tw_part *part, int64_t count)
{
    void *pixels, *labels;
    TW_TRY(tw_calloc(count, CIFAR_PIXELS, &pixels));
    part->pixels = pixels;
    TW_TRY(tw_calloc(count, 1, &labels));
    part->labels = labels;
    part->count = count;
    return TW_OK;
}

/* `at`: the records' place in the file, for the sentence. */
static tw_status take_records(tw_part *part, int64_t first, const uint8_t *records, int64_t n,
                              size_t at)
{
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *record = records + i * CIFAR_RECORD;
        TW_REQUIRE(record[0] < 10, TW_BAD_FILE,
                   "byte %lld of the unpacked content: label %d is not below the 10 classes",
                   (long long)at + i * CIFAR_RECORD, record[0]);
        part->labels[first + i] = record[0];
        memcpy(part->pixels + (first + i) * CIFAR_PIXELS, record + 1, CIFAR_PIXELS);
    }
    return TW_OK;
}

typedef struct tar_member {
    char name[101];
    size_t at, bytes; /* of the content */
} tar_member;

/* The member whose head is at *at; *at moves to the next head. A block of zeros ends the archive:
 * an empty name. */
static tw_status next_member(const uint8_t *tar, size_t n, size_t *at, tar_member *member)
{
    size_t here = *at;
    TW_REQUIRE(n - here >= 512, TW_BAD_FILE,
               "byte %zu of the unpacked content: the archive is cut short", here);
    const uint8_t *head = tar + here;
    memcpy(member->name, head, 100);
    member->name[100] = '\0';
    if (!member->name[0]) return TW_OK;
    unsigned long sum = 0;
    for (int i = 0; i < 512; i++) sum += i >= 148 && i < 156 ? ' ' : head[i];
    char field[13] = "";
    memcpy(field, head + 148, 8);
    TW_REQUIRE(strtoul(field, NULL, 8) == sum, TW_BAD_FILE,
               "byte %zu of the unpacked content: an archive head has a wrong checksum", here);
    memcpy(field, head + 124, 12);
    unsigned long bytes = strtoul(field, NULL, 8);
    member->at = here + 512;
    TW_REQUIRE(bytes <= n - member->at, TW_BAD_FILE,
               "byte %zu of the unpacked content: '%s' of %lu bytes is cut short", here,
               member->name, bytes);
    member->bytes = bytes;
    size_t padded = (bytes + 511) / 512 * 512;
    *at = padded > n - member->at ? n : member->at + padded;
    return TW_OK;
}

/* Which batch a member is: 0 to 4 of the training part, 5 the test part, -1 none. */
static int batch_of(const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    int number = -1;
    char end = 0;
    if (strcmp(base, "test_batch.bin") == 0) return 5;
    if (sscanf(base, "data_batch_%1d.bi%c", &number, &end) != 2 || end != 'n') return -1;
    return number >= 1 && number <= 5 ? number - 1 : -1;
}

static tw_status take_archive(tw_dataset *dataset, const uint8_t *tar, size_t n, bool test_only)
{
    tar_member member;
    unsigned found = 0;
    tw_part *train = &dataset->parts[TW_SPLIT_TRAIN], *test = &dataset->parts[TW_SPLIT_TEST];
    if (!test_only) TW_TRY(allocate_part(train, 5 * CIFAR_BATCH));
    TW_TRY(allocate_part(test, CIFAR_BATCH));
    for (size_t at = 0; at < n;) {
        TW_TRY(next_member(tar, n, &at, &member));
        if (!member.name[0]) break;
        int batch = batch_of(member.name);
        if (batch < 0) continue;
        TW_REQUIRE(member.bytes == (size_t)CIFAR_BATCH * CIFAR_RECORD, TW_BAD_FILE,
                   "byte %zu of the unpacked content: '%s' has %zu bytes instead of %d", member.at,
                   member.name, member.bytes, CIFAR_BATCH * CIFAR_RECORD);
        found |= 1u << batch;
        if (batch < 5 && test_only) continue;
        TW_TRY(take_records(batch < 5 ? train : test, batch < 5 ? batch * CIFAR_BATCH : 0,
                            tar + member.at, CIFAR_BATCH, member.at));
    }
    TW_REQUIRE(found == 63, TW_BAD_FILE,
               "byte %zu of the unpacked content: the archive ends without all of data_batch_1.bin "
               "to data_batch_5.bin and test_batch.bin",
               n);
    return TW_OK;
}

static tw_status take_sample(tw_dataset *dataset, const uint8_t *records, size_t n)
{
    TW_REQUIRE(n % CIFAR_RECORD == 0, TW_BAD_FILE,
               "byte %zu of the unpacked content: records have %d bytes; the last one is cut short",
               n - n % CIFAR_RECORD, CIFAR_RECORD);
    tw_part *test = &dataset->parts[TW_SPLIT_TEST];
    TW_TRY(allocate_part(test, (int64_t)(n / CIFAR_RECORD)));
    return take_records(test, 0, records, test->count, 0);
}

tw_status tw_dataset_read_cifar(tw_dataset *dataset, const char *folder, uint32_t flags,
                                bool sample)
{
    const tw_dataset_row *row = dataset->row;
    char *path;
    void *data = NULL;
    size_t n;
    TW_TRY(tw_join_path(folder, sample ? row->sample : row->files[0].name, &path));
    tw_status status = read_unpacked(path, &data, &n);
    if (status == TW_OK) {
        status = sample ? take_sample(dataset, data, n)
                        : take_archive(dataset, data, n, flags & TW_DATASET_TEST_ONLY);
    }
    if (status != TW_OK) status = tw_fail_in_file(status, path);
    tw_free(data);
    tw_free(path);
    return status;
}

/* ---- Text ------------------------------------------------------------------------------------ */

tw_status tw_dataset_read_text(tw_dataset *dataset, const char *folder, uint32_t flags, bool sample)
{
    (void)flags;
    (void)sample;
    const tw_dataset_file *file = &dataset->row->files[0];
    char *path;
    void *data = NULL;
    size_t n;
    TW_TRY(tw_join_path(folder, file->name, &path));
    tw_status status = tw_file_read(path, FILE_LIMIT, &data, &n);
    if (status == TW_OK) status = check_content(file, data, n);
    if (status == TW_OK) {
        dataset->text = data;
        dataset->text_bytes = (int64_t)n;
        dataset->text_split = dataset->row->info.train;
    } else {
        status = tw_fail_in_file(status, path);
        tw_free(data);
    }
    tw_free(path);
    return status;
}
