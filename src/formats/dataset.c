/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a data set: where its files are, downloading those that are missing, reading them. */
#include "formats/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilework/device.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

#define MAX_MIRRORS 16

tw_status tw_join_path(const char *folder, const char *file, char **path)
{
    size_t n = strlen(folder) + strlen(file) + 2;
    char *joined = tw_malloc(n);
    if (!joined) return tw_fail_memory(n);
    snprintf(joined, n, "%s/%s", folder, file);
    *path = joined;
    return TW_OK;
}

/* ---- The table ------------------------------------------------------------------------------- */

int32_t tw_dataset_count(void) { return tw_dataset_n_rows; }

tw_status tw_dataset_describe(int32_t index, tw_dataset_info *info)
{
    TW_REQUIRE(info, TW_INVALID_ARGUMENT, "info must not be NULL");
    TW_REQUIRE(index >= 0 && index < tw_dataset_n_rows, TW_INVALID_ARGUMENT,
               "index is %d; there are %d data sets", index, tw_dataset_n_rows);
    *info = tw_dataset_rows[index].info;
    info->size = sizeof *info;
    return TW_OK;
}

static tw_status find_row(const char *name, const tw_dataset_row **row)
{
    const char *names[8];
    for (int32_t i = 0; i < tw_dataset_n_rows; i++) {
        names[i] = tw_dataset_rows[i].info.name;
        if (strcmp(name, names[i]) != 0) continue;
        *row = &tw_dataset_rows[i];
        return TW_OK;
    }
    tw_text list = {0};
    for (int32_t i = 0; i < tw_dataset_n_rows; i++) {
        tw_text_add(&list, i ? ", %s" : "%s", names[i]);
    }
    tw_status status = tw_text_status(&list);
    if (status == TW_OK) {
        status = tw_fail(TW_NOT_FOUND, "there is no data set '%s'; did you mean '%s'? There are %s",
                         name, tw_nearest(name, tw_dataset_n_rows, names), list.data);
    }
    tw_text_free(&list);
    return status;
}

/* ---- Where the files are --------------------------------------------------------------------- */

typedef struct places {
    const tw_dataset_row *row;
    const tw_dataset_options *options;
    uint32_t flags;
    char *folders[2]; /* to look in; the last one is where downloads go */
    int n;
    bool no_cache; /* the last one is not there: nowhere to download to */
} places;

static void free_places(places *p)
{
    for (int i = 0; i < p->n; i++) tw_free(p->folders[i]);
}

static tw_status add_place(places *p, const char *base, const char *below)
{
    TW_TRY(tw_join_path(base, below, &p->folders[p->n]));
    p->n++;
    return TW_OK;
}

static tw_status add_own_place(places *p, const char *folder)
{
    size_t n = strlen(folder) + 1;
    p->folders[0] = tw_malloc(n);
    if (!p->folders[0]) return tw_fail_memory(n);
    memcpy(p->folders[0], folder, n);
    p->n = 1;
    return TW_OK;
}

static tw_status list_places(places *p)
{
    char cache[4096], below[64];
    if (p->options && p->options->folder) return add_own_place(p, p->options->folder);
    const char *data = getenv("TW_DATA");
    if (data && data[0]) TW_TRY(add_place(p, data, p->row->data_folder));
    tw_status status = tw_cache_folder(cache, sizeof cache);
    p->no_cache = status != TW_OK;
    if (p->no_cache) return p->n ? TW_OK : status;
    snprintf(below, sizeof below, "datasets/%s", p->row->info.name);
    return add_place(p, cache, below);
}

static tw_status has_file(const char *folder, const char *file, bool *there)
{
    char *path;
    TW_TRY(tw_join_path(folder, file, &path));
    *there = tw_file_exists(path);
    tw_free(path);
    return TW_OK;
}

static bool is_needed(const places *p, const tw_dataset_file *file)
{
    return !file->train || !(p->flags & TW_DATASET_TEST_ONLY);
}

static tw_status is_complete(const places *p, const char *folder, bool *complete)
{
    *complete = true;
    for (int32_t i = 0; i < p->row->n_files && *complete; i++) {
        if (!is_needed(p, &p->row->files[i])) continue;
        TW_TRY(has_file(folder, p->row->files[i].name, complete));
    }
    return TW_OK;
}

/* The folder that has what is asked for, or NULL; *sample: only the beginning of the test part. */
static tw_status find_folder(const places *p, const char **folder, bool *sample)
{
    bool there;
    *folder = NULL;
    *sample = false;
    for (int i = 0; i < p->n && !*folder; i++) {
        TW_TRY(is_complete(p, p->folders[i], &there));
        if (there) *folder = p->folders[i];
    }
    bool partly = p->row->sample && p->flags & TW_DATASET_TEST_ONLY;
    for (int i = 0; i < p->n && !*folder && partly; i++) {
        TW_TRY(has_file(p->folders[i], p->row->sample, &there));
        if (!there) continue;
        *folder = p->folders[i];
        *sample = true;
    }
    return TW_OK;
}

/* ---- Downloading ----------------------------------------------------------------------------- */

typedef struct addresses {
    char *urls[MAX_MIRRORS];
    int32_t n;
} addresses;

static tw_status add_address(addresses *a, const char *base, size_t n_base, const char *rest)
{
    TW_REQUIRE(a->n < MAX_MIRRORS, TW_INVALID_ARGUMENT, "TW_MIRROR has more than %d addresses",
               MAX_MIRRORS);
    size_t n = n_base + strlen(rest) + 1;
    char *url = tw_malloc(n);
    if (!url) return tw_fail_memory(n);
    snprintf(url, n, "%.*s%s", (int)n_base, base, rest);
    a->urls[a->n++] = url;
    return TW_OK;
}

static tw_status list_addresses(const tw_dataset_row *row, const char *file, addresses *a)
{
    const char *own = getenv("TW_MIRROR");
    char rest[128];
    if (!own || !own[0]) {
        for (const char *const *mirror = row->mirrors; *mirror; mirror++) {
            size_t n = strlen(*mirror);
            TW_TRY(add_address(a, *mirror, n, (*mirror)[n - 1] == '/' ? file : ""));
        }
        return TW_OK;
    }
    while (*own) {
        size_t n = strcspn(own, ",");
        bool slash = n && own[n - 1] == '/';
        snprintf(rest, sizeof rest, "%s%s/%s", slash ? "" : "/", row->info.name, file);
        if (n) TW_TRY(add_address(a, own, n, rest));
        own += n + (own[n] == ',');
    }
    TW_REQUIRE(a->n, TW_INVALID_ARGUMENT, "TW_MIRROR holds no address");
    return TW_OK;
}

static tw_status download_file(const places *p, const tw_dataset_file *file, const char *path)
{
    addresses a = {.n = 0};
    tw_status status = list_addresses(p->row, file->name, &a);
    if (status == TW_OK) {
        tw_download_options options = {.size = sizeof options,
                                       .n_urls = a.n,
                                       .urls = (const char *const *)a.urls,
                                       .path = path,
                                       .bytes = file->bytes,
                                       .sha256 = file->sha256};
        if (p->options) {
            options.progress = p->options->progress;
            options.user = p->options->user;
        }
        status = tw_download(&options);
    }
    for (int32_t i = 0; i < a.n; i++) tw_free(a.urls[i]);
    return status;
}

/* Fetches what is missing into the last folder. */
static tw_status download(const places *p)
{
    const char *folder = p->folders[p->n - 1];
    TW_TRY(tw_folder_create(folder));
    for (int32_t i = 0; i < p->row->n_files; i++) {
        const tw_dataset_file *file = &p->row->files[i];
        if (!is_needed(p, file)) continue;
        char *path;
        TW_TRY(tw_join_path(folder, file->name, &path));
        tw_status status = tw_file_exists(path) ? TW_OK : download_file(p, file, path);
        tw_free(path);
        TW_TRY(status);
    }
    return TW_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static tw_status locate(const places *p, const char **folder, bool *sample)
{
    TW_TRY(find_folder(p, folder, sample));
    if (*folder) return TW_OK;
    TW_REQUIRE(!(p->flags & TW_DATASET_OFFLINE), TW_NOT_FOUND,
               "the files of data set '%s' are not in '%s'%s%s%s, and downloading is off",
               p->row->info.name, p->folders[0], p->n > 1 ? " or '" : "",
               p->n > 1 ? p->folders[1] : "", p->n > 1 ? "'" : "");
    TW_REQUIRE(!p->no_cache, TW_NOT_FOUND,
               "data set '%s' must be downloaded, but there is no folder for caches: set TW_CACHE, "
               "XDG_CACHE_HOME or HOME",
               p->row->info.name);
    TW_TRY(download(p));
    *folder = p->folders[p->n - 1];
    return TW_OK;
}

static tw_status fill(tw_dataset *dataset, places *p)
{
    const char *folder = "";
    bool sample = false;
    if (p->row->n_files) {
        TW_TRY(list_places(p));
        TW_TRY(locate(p, &folder, &sample));
    }
    size_t n = strlen(folder) + 1;
    dataset->folder = tw_malloc(n);
    if (!dataset->folder) return tw_fail_memory(n);
    memcpy(dataset->folder, folder, n);
    return p->row->read(dataset, folder, p->flags, sample);
}

tw_status tw_dataset_open(const char *name, const tw_dataset_options *options, tw_dataset **dataset)
{
    TW_REQUIRE(name && dataset, TW_INVALID_ARGUMENT, "name and dataset must not be NULL");
    places p = {.options = options, .flags = options ? options->flags : 0};
    TW_REQUIRE(!(p.flags & ~(uint32_t)(TW_DATASET_OFFLINE | TW_DATASET_TEST_ONLY)),
               TW_INVALID_ARGUMENT, "options.flags is 0x%x; only TW_DATASET_* are known", p.flags);
    TW_TRY(find_row(name, &p.row));
    void *memory;
    TW_TRY(tw_calloc(1, sizeof **dataset, &memory));
    tw_dataset *d = memory;
    d->row = p.row;
    tw_status status = fill(d, &p);
    free_places(&p);
    if (status != TW_OK) {
        tw_dataset_free(d);
        return status;
    }
    *dataset = d;
    return TW_OK;
}

void tw_dataset_free(tw_dataset *dataset)
{
    if (!dataset) return;
    for (int i = 0; i < 2; i++) {
        tw_free(dataset->parts[i].pixels);
        tw_free(dataset->parts[i].labels);
    }
    tw_free(dataset->text);
    tw_free(dataset->folder);
    tw_free(dataset);
}

/* ---- Access ---------------------------------------------------------------------------------- */

static tw_status check_access(const tw_dataset *dataset, tw_split split, tw_dataset_kind kind)
{
    TW_REQUIRE(dataset, TW_INVALID_ARGUMENT, "dataset must not be NULL");
    TW_REQUIRE(split == TW_SPLIT_TRAIN || split == TW_SPLIT_TEST, TW_INVALID_ARGUMENT,
               "split is %d; it must be TW_SPLIT_TRAIN or TW_SPLIT_TEST", (int)split);
    TW_REQUIRE(dataset->row->info.kind == kind, TW_INVALID_ARGUMENT, "data set '%s' is %s",
               dataset->row->info.name,
               kind == TW_DATASET_TEXT ? "pictures, not a text" : "a text, not pictures");
    return TW_OK;
}

tw_status tw_dataset_images(const tw_dataset *dataset, tw_split split, tw_images *images)
{
    TW_REQUIRE(images, TW_INVALID_ARGUMENT, "images must not be NULL");
    TW_TRY(check_access(dataset, split, TW_DATASET_IMAGES));
    const tw_dataset_info *info = &dataset->row->info;
    const tw_part *part = &dataset->parts[split];
    *images = (tw_images){.size = sizeof *images,
                          .count = part->count,
                          .channels = info->channels,
                          .height = info->height,
                          .width = info->width,
                          .pixels = part->pixels,
                          .labels = part->labels,
                          .classes = info->classes};
    return TW_OK;
}

tw_status tw_dataset_text(const tw_dataset *dataset, tw_split split, const char **text,
                          int64_t *bytes)
{
    TW_REQUIRE(text && bytes, TW_INVALID_ARGUMENT, "text and bytes must not be NULL");
    TW_TRY(check_access(dataset, split, TW_DATASET_TEXT));
    bool train = split == TW_SPLIT_TRAIN;
    *text = dataset->text + (train ? 0 : dataset->text_split);
    *bytes = train ? dataset->text_split : dataset->text_bytes - dataset->text_split;
    return TW_OK;
}

const char *tw_dataset_class(const tw_dataset *dataset, int32_t label)
{
    if (!dataset || label < 0 || label >= dataset->row->info.classes) return NULL;
    return dataset->row->classes[label];
}

const char *tw_dataset_folder(const tw_dataset *dataset) { return dataset ? dataset->folder : ""; }
