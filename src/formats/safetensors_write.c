/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/safetensors.h"

#include <stdlib.h>

#include <tilework/device.h>

#include "core/alloc.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "formats/bytes.h"

/* A JSON string, quotes included. Bytes from 0x80 on pass as they are: texts are UTF-8. */
static void add_string(tw_text *json, const char *text)
{
    tw_text_add(json, "\"");
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            tw_text_add(json, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            tw_text_add(json, "\\u%04x", (unsigned)*c);
        else
            tw_text_add(json, "%c", *c);
    }
    tw_text_add(json, "\"");
}

static void add_metadata(tw_text *json, int64_t n, const tw_metadata *pairs)
{
    add_string(json, TW_SAFETENSORS_METADATA);
    tw_text_add(json, ":{");
    for (int64_t i = 0; i < n; i++) {
        if (i) tw_text_add(json, ",");
        add_string(json, pairs[i].key);
        tw_text_add(json, ":");
        add_string(json, pairs[i].value);
    }
    tw_text_add(json, "}");
}

static void add_entry(tw_text *json, const tw_named_array *entry, int64_t begin)
{
    const tw_array *array = &entry->array;
    add_string(json, entry->name);
    tw_text_add(json, ":{\"dtype\":\"%s\",\"shape\":[", tw_safetensors_type(array->dtype));
    for (int32_t d = 0; d < array->rank; d++) {
        tw_text_add(json, d ? ",%lld" : "%lld", (long long)array->dims[d]);
    }
    tw_text_add(json, "],\"data_offsets\":[%lld,%lld]}", (long long)begin,
                (long long)(begin + array->bytes));
}

static tw_status check_entry(const tw_named_array *entry, int64_t index)
{
    TW_REQUIRE(entry->name && strcmp(entry->name, TW_SAFETENSORS_METADATA) != 0,
               TW_INVALID_ARGUMENT,
               "entries[%lld].name must be a text other than '" TW_SAFETENSORS_METADATA "'",
               (long long)index);
    TW_TRY(tw_array_check(&entry->array, entry->name));
    TW_REQUIRE(tw_safetensors_type(entry->array.dtype), TW_INVALID_ARGUMENT,
               "%s: safetensors has no element type %s; convert it first", entry->name,
               tw_dtype_name(entry->array.dtype));
    tw_tensor_desc desc = tw_desc(entry->array.dtype, entry->array.rank, entry->array.dims);
    TW_REQUIRE(tw_desc_elements(&desc) % 8 * tw_dtype_bits(desc.dtype) % 8 == 0,
               TW_INVALID_ARGUMENT, "%s: packed elements must fill whole bytes", entry->name);
    return TW_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tw_status check_names(int64_t n, const tw_named_array *entries)
{
    void *memory;
    TW_TRY(tw_calloc(n, sizeof(char *), &memory));
    const char **sorted = memory;
    for (int64_t i = 0; i < n; i++) sorted[i] = entries[i].name;
    if (n) qsort(sorted, (size_t)n, sizeof *sorted, by_text);
    tw_status status = TW_OK;
    for (int64_t i = 1; i < n && status == TW_OK; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) != 0) continue;
        status = tw_fail(TW_INVALID_ARGUMENT, "entries: there are two tensors '%s'", sorted[i]);
    }
    tw_free(memory);
    return status;
}

static tw_status check(int64_t n, const tw_named_array *entries, int64_t n_pairs,
                       const tw_metadata *pairs)
{
    TW_REQUIRE(n >= 0 && n_pairs >= 0 && (entries || !n) && (pairs || !n_pairs),
               TW_INVALID_ARGUMENT, "n and n_pairs must be from 0 on, with lists of that length");
    for (int64_t i = 0; i < n; i++) TW_TRY(check_entry(&entries[i], i));
    for (int64_t i = 0; i < n_pairs; i++) {
        TW_REQUIRE(pairs[i].key && pairs[i].value, TW_INVALID_ARGUMENT,
                   "pairs[%lld] has no key or no value", (long long)i);
    }
    return check_names(n, entries);
}

static tw_status format_head(tw_text *json, int64_t n, const tw_named_array *entries,
                             int64_t n_pairs, const tw_metadata *pairs)
{
    int64_t at = 0;
    tw_text_add(json, "{");
    if (n_pairs) add_metadata(json, n_pairs, pairs);
    for (int64_t i = 0; i < n; i++) {
        if (i || n_pairs) tw_text_add(json, ",");
        add_entry(json, &entries[i], at);
        at += entries[i].array.bytes;
    }
    tw_text_add(json, "}");
    while (json->length % 64 != 56) { /* with the 8 bytes before it: data begins aligned */
        tw_text_add(json, " ");
        TW_TRY(tw_text_status(json));
    }
    TW_TRY(tw_text_status(json));
    TW_REQUIRE(json->length <= TW_SAFETENSORS_HEAD_LIMIT, TW_INVALID_ARGUMENT,
               "names and metadata make a head of %zu bytes; at most %llu can be read back",
               json->length, (unsigned long long)TW_SAFETENSORS_HEAD_LIMIT);
    return TW_OK;
}

static tw_status write_file(const char *path, const tw_text *json, int64_t n,
                            const tw_named_array *entries)
{
    int64_t n_bytes = 8 + (int64_t)json->length;
    for (int64_t i = 0; i < n; i++) {
        TW_REQUIRE(tw_add_i64(n_bytes, entries[i].array.bytes, &n_bytes), TW_INVALID_ARGUMENT,
                   "entries: the file would exceed 2^63 bytes");
    }
    uint8_t *file = tw_malloc((size_t)n_bytes);
    if (!file) return tw_fail_memory((size_t)n_bytes);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)json->length >> 8 * i);
    memcpy(file + 8, json->data, json->length);
    uint8_t *at = file + 8 + json->length;
    for (int64_t i = 0; i < n; i++) {
        if (!entries[i].array.bytes) continue;
        memcpy(at, entries[i].array.data, (size_t)entries[i].array.bytes);
        at += entries[i].array.bytes;
    }
    tw_status status = tw_file_write(path, file, (size_t)n_bytes);
    tw_free(file);
    return status;
}

tw_status tw_tensors_write(const char *path, int64_t n, const tw_named_array *entries,
                           int64_t n_pairs, const tw_metadata *pairs)
{
    TW_REQUIRE(path, TW_INVALID_ARGUMENT, "path must not be NULL");
    TW_TRY(check(n, entries, n_pairs, pairs));
    tw_text json = {0};
    tw_status status = format_head(&json, n, entries, n_pairs, pairs);
    if (status == TW_OK) status = write_file(path, &json, n, entries);
    tw_text_free(&json);
    return status;
}
