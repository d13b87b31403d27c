/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors: u64 length of the head, the head (JSON: name → dtype, shape, data_offsets; and a
 * string map "__metadata__"), then the data. Offsets count from the end of the head; tensors must
 * cover the data exactly, in some order.
 */
#include "formats/safetensors.h"

#include <math.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include <tilework/device.h>

#include "core/alloc.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "formats/bytes.h"

typedef struct entry {
    const char *name;
    tw_array array;
    int64_t begin, end; /* within the data */
} entry;

struct tw_tensors {
    tw_arena arena; /* entries, names, metadata, and data that had to be aligned */
    uint8_t *bytes; /* the file */
    int64_t n, n_pairs;
    entry *entries;  /* by begin */
    entry **by_name; /* by name */
    tw_metadata *pairs;
};

static const struct {
    const char *name;
    tw_dtype dtype;
} names[] = {
    {"F64", TW_F64},
    {"F32", TW_F32},
    {"F16", TW_F16},
    {"BF16", TW_BF16},
    {"F8_E4M3", TW_E4M3FN},
    {"F8_E5M2", TW_E5M2},
    {"F8_E8M0", TW_E8M0},
    {"F8_E4M3FNUZ", TW_E4M3FNUZ},
    {"F8_E5M2FNUZ", TW_E5M2FNUZ},
    {"F4", TW_F4E2M1},
    {"I64", TW_I64},
    {"I32", TW_I32},
    {"I16", TW_I16},
    {"I8", TW_I8},
    {"U64", TW_U64},
    {"U32", TW_U32},
    {"U16", TW_U16},
    {"U8", TW_U8},
    {"BOOL", TW_BOOL},
    {"C64", TW_C64},
};

enum { N_NAMES = sizeof names / sizeof *names };

const char *tw_safetensors_type(tw_dtype dtype)
{
    for (int i = 0; i < N_NAMES; i++) {
        if (names[i].dtype == dtype) return names[i].name;
    }
    return NULL;
}

tw_dtype tw_safetensors_dtype(const char *name)
{
    for (int i = 0; i < N_NAMES; i++) {
        if (strcmp(names[i].name, name) == 0) return names[i].dtype;
    }
    return TW_AUTO;
}

/* ---- The head -------------------------------------------------------------------------------- */

/* Bounds depth and node count before the JSON parser allocates for them. */
static tw_status check_extent(const uint8_t *head, size_t n)
{
    int depth = 0, nodes = 0;
    bool text = false;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = head[i];
        if (text) {
            if (c == '\\')
                i++;
            else if (c == '"')
                text = false;
            continue;
        }
        text = c == '"';
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        if (c == ',' || c == '{' || c == '[') nodes++;
        TW_REQUIRE(depth >= 0 && depth <= 3, TW_BAD_FILE,
                   "byte %zu: the head is nested more than 3 deep", i + 8);
        TW_REQUIRE(nodes <= TW_SAFETENSORS_NODE_LIMIT, TW_BAD_FILE,
                   "byte %zu: the head has more than %d values", i + 8, TW_SAFETENSORS_NODE_LIMIT);
    }
    return TW_OK;
}

/* An integer from 0 to 2^53 - 1, beyond which JSON's numbers are not exact. */
static bool natural(const cJSON *item, int64_t *value)
{
    if (!cJSON_IsNumber(item)) return false;
    double number = item->valuedouble;
    if (!(number >= 0 && number < 9007199254740992.0) || number != floor(number)) return false;
    *value = (int64_t)number;
    return true;
}

static tw_status parse_shape(const cJSON *list, entry *e)
{
    TW_REQUIRE(cJSON_IsArray(list), TW_BAD_FILE, "byte 8: tensor '%s' has no list 'shape'",
               e->name);
    int n = cJSON_GetArraySize(list);
    TW_REQUIRE(n <= TW_MAX_RANK, TW_NOT_SUPPORTED, "byte 8: tensor '%s' has rank %d, above %d",
               e->name, n, TW_MAX_RANK);
    e->array.rank = n;
    int d = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        TW_REQUIRE(natural(item, &e->array.dims[d]), TW_BAD_FILE,
                   "byte 8: dim %d of tensor '%s' is not a number from 0 to 2^53 - 1", d, e->name);
        d++;
    }
    return TW_OK;
}

static tw_status parse_entry(tw_tensors *t, const cJSON *item, int64_t n_data, entry *e)
{
    int64_t elements, bytes;
    TW_TRY(tw_arena_string(&t->arena, item->string, &e->name));
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    TW_REQUIRE(cJSON_IsString(dtype), TW_BAD_FILE, "byte 8: tensor '%s' has no text 'dtype'",
               e->name);
    e->array.dtype = tw_safetensors_dtype(dtype->valuestring);
    TW_REQUIRE(e->array.dtype != TW_AUTO, TW_NOT_SUPPORTED,
               "byte 8: tensor '%s' has element type '%.32s', which is not read", e->name,
               dtype->valuestring);
    TW_TRY(parse_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), e));
    TW_REQUIRE(cJSON_IsArray(offsets) && cJSON_GetArraySize(offsets) == 2 &&
                   natural(cJSON_GetArrayItem(offsets, 0), &e->begin) &&
                   natural(cJSON_GetArrayItem(offsets, 1), &e->end),
               TW_BAD_FILE, "byte 8: tensor '%s' has no two numbers 'data_offsets'", e->name);
    TW_REQUIRE(e->begin <= e->end && e->end <= n_data, TW_BAD_FILE,
               "byte 8: tensor '%s' is at %lld to %lld of %lld bytes of data", e->name,
               (long long)e->begin, (long long)e->end, (long long)n_data);
    TW_TRY(tw_shape_bytes(&e->array, n_data, 8, &elements, &bytes));
    TW_REQUIRE(bytes == e->end - e->begin && elements * tw_dtype_bits(e->array.dtype) % 8 == 0,
               TW_BAD_FILE, "byte 8: tensor '%s' has %lld bytes of data; its shape stands for %lld",
               e->name, (long long)(e->end - e->begin), (long long)bytes);
    e->array.size = sizeof e->array;
    e->array.bytes = bytes;
    return TW_OK;
}

static tw_status parse_metadata(tw_tensors *t, const cJSON *map)
{
    TW_REQUIRE(cJSON_IsObject(map) && t->n_pairs == 0, TW_BAD_FILE,
               "byte 8: '" TW_SAFETENSORS_METADATA "' must be one map of texts");
    void *pairs;
    TW_TRY(tw_arena_alloc(&t->arena, cJSON_GetArraySize(map), sizeof *t->pairs, &pairs));
    t->pairs = pairs;
    const cJSON *item;
    cJSON_ArrayForEach(item, map)
    {
        tw_metadata *pair = &t->pairs[t->n_pairs];
        TW_REQUIRE(cJSON_IsString(item), TW_BAD_FILE, "byte 8: metadata '%.64s' is not a text",
                   item->string);
        TW_TRY(tw_arena_string(&t->arena, item->string, &pair->key));
        TW_TRY(tw_arena_string(&t->arena, item->valuestring, &pair->value));
        t->n_pairs++;
    }
    return TW_OK;
}

static tw_status parse_entries(tw_tensors *t, const cJSON *root, int64_t n_data)
{
    TW_REQUIRE(cJSON_IsObject(root), TW_BAD_FILE, "byte 8: the head is not a JSON map");
    void *memory;
    int64_t n = cJSON_GetArraySize(root);
    TW_TRY(tw_arena_alloc(&t->arena, n, sizeof *t->entries, &memory));
    t->entries = memory;
    TW_TRY(tw_arena_alloc(&t->arena, n, sizeof *t->by_name, &memory));
    t->by_name = memory;
    const cJSON *item;
    cJSON_ArrayForEach(item, root)
    {
        if (strcmp(item->string, TW_SAFETENSORS_METADATA) == 0) {
            TW_TRY(parse_metadata(t, item));
            continue;
        }
        TW_REQUIRE(cJSON_IsObject(item), TW_BAD_FILE, "byte 8: tensor '%.64s' is not a map",
                   item->string);
        TW_TRY(parse_entry(t, item, n_data, &t->entries[t->n]));
        t->n++;
    }
    return TW_OK;
}

/* ---- The data -------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(entry *const *)a)->name, (*(entry *const *)b)->name);
}

static tw_status check_order(tw_tensors *t, int64_t n_data, size_t origin)
{
    int64_t at = 0;
    if (t->n) qsort(t->entries, (size_t)t->n, sizeof *t->entries, by_place);
    for (int64_t i = 0; i < t->n; i++) {
        const entry *e = &t->entries[i];
        TW_REQUIRE(e->begin == at, TW_BAD_FILE, "byte %lld: tensor '%s' %s",
                   (long long)origin + e->begin, e->name,
                   e->begin < at ? "overlaps another one" : "leaves a hole before it");
        at = e->end;
        t->by_name[i] = &t->entries[i];
    }
    TW_REQUIRE(at == n_data, TW_BAD_FILE, "byte %lld: the data goes on after the last tensor",
               (long long)origin + at);
    if (t->n) qsort(t->by_name, (size_t)t->n, sizeof *t->by_name, by_name);
    for (int64_t i = 1; i < t->n; i++) {
        TW_REQUIRE(strcmp(t->by_name[i - 1]->name, t->by_name[i]->name) != 0, TW_BAD_FILE,
                   "byte 8: there are two tensors '%s'", t->by_name[i]->name);
    }
    return TW_OK;
}

/* Points each tensor into the file, or at a copy where that would be misaligned. */
static tw_status place_data(tw_tensors *t, uint8_t *data)
{
    for (int64_t i = 0; i < t->n; i++) {
        entry *e = &t->entries[i];
        int bits = tw_dtype_bits(e->array.dtype);
        uintptr_t unit = bits < 8 ? 1 : (uintptr_t)bits / 8;
        e->array.data = data + e->begin;
        if ((uintptr_t)e->array.data % unit == 0) continue;
        TW_TRY(tw_arena_alloc(&t->arena, e->array.bytes, 1, &e->array.data));
        memcpy(e->array.data, data + e->begin, (size_t)e->array.bytes);
    }
    return TW_OK;
}

static tw_status parse(tw_tensors *t, size_t n_bytes)
{
    TW_REQUIRE(n_bytes >= 8, TW_BAD_FILE, "byte %zu: the file is cut short", n_bytes);
    uint64_t n_head = tw_le64(t->bytes);
    TW_REQUIRE(n_head <= n_bytes - 8 && n_head <= TW_SAFETENSORS_HEAD_LIMIT, TW_BAD_FILE,
               "byte 0: a head of %llu bytes is announced; the file has %zu more, the limit is "
               "%llu",
               (unsigned long long)n_head, n_bytes - 8,
               (unsigned long long)TW_SAFETENSORS_HEAD_LIMIT);
    const char *head = (const char *)t->bytes + 8, *end = NULL;
    size_t origin = 8 + (size_t)n_head;
    int64_t n_data = (int64_t)(n_bytes - origin);
    TW_TRY(check_extent(t->bytes + 8, (size_t)n_head));
    cJSON *root = cJSON_ParseWithLengthOpts(head, (size_t)n_head, &end, 0);
    TW_REQUIRE(root, TW_BAD_FILE, "byte %lld: the head is not valid JSON",
               end ? (long long)(end - head) + 8 : 8);
    tw_status status = parse_entries(t, root, n_data);
    cJSON_Delete(root);
    TW_TRY(status);
    for (; end < head + n_head; end++) {
        TW_REQUIRE(*end == ' ', TW_BAD_FILE, "byte %lld: the head goes on after its JSON",
                   (long long)(end - head) + 8);
    }
    TW_TRY(check_order(t, n_data, origin));
    return place_data(t, t->bytes + origin);
}

/* ---- The interface --------------------------------------------------------------------------- */

/* Takes over `bytes`, also on failure. */
static tw_status adopt(void *bytes, size_t n_bytes, tw_tensors **tensors)
{
    void *memory;
    tw_status status = tw_calloc(1, sizeof **tensors, &memory);
    if (status != TW_OK) {
        tw_free(bytes);
        return status;
    }
    tw_tensors *t = memory;
    t->bytes = bytes;
    status = parse(t, n_bytes);
    if (status != TW_OK) {
        tw_tensors_free(t);
        return status;
    }
    *tensors = t;
    return TW_OK;
}

tw_status tw_tensors_parse(const void *bytes, size_t n_bytes, int64_t limit, tw_tensors **tensors)
{
    TW_REQUIRE(bytes && tensors, TW_INVALID_ARGUMENT, "bytes and tensors must not be NULL");
    TW_TRY(tw_limit(limit, &limit));
    TW_REQUIRE(n_bytes <= (size_t)limit, TW_BAD_FILE, "byte 0: %zu bytes exceed the limit of %lld",
               n_bytes, (long long)limit);
    void *copy = tw_malloc(n_bytes ? n_bytes : 1);
    if (!copy) return tw_fail_memory(n_bytes);
    memcpy(copy, bytes, n_bytes);
    return adopt(copy, n_bytes, tensors);
}

tw_status tw_tensors_read(const char *path, int64_t limit, tw_tensors **tensors)
{
    TW_REQUIRE(path && tensors, TW_INVALID_ARGUMENT, "path and tensors must not be NULL");
    void *bytes;
    size_t n_bytes;
    TW_TRY(tw_limit(limit, &limit));
    TW_TRY(tw_file_read(path, limit, &bytes, &n_bytes));
    tw_status status = adopt(bytes, n_bytes, tensors);
    return status == TW_OK ? TW_OK : tw_fail_in_file(status, path);
}

void tw_tensors_free(tw_tensors *tensors)
{
    if (!tensors) return;
    tw_arena_free(&tensors->arena);
    tw_free(tensors->bytes);
    tw_free(tensors);
}

int64_t tw_tensors_count(const tw_tensors *tensors) { return tensors ? tensors->n : 0; }

int64_t tw_tensors_metadata_count(const tw_tensors *tensors)
{
    return tensors ? tensors->n_pairs : 0;
}

tw_status tw_tensors_at(const tw_tensors *tensors, int64_t index, tw_named_array *found)
{
    TW_REQUIRE(tensors && found, TW_INVALID_ARGUMENT, "tensors and entry must not be NULL");
    TW_REQUIRE(index >= 0 && index < tensors->n, TW_INVALID_ARGUMENT,
               "index is %lld; the file has %lld tensors", (long long)index, (long long)tensors->n);
    *found = (tw_named_array){tensors->entries[index].name, tensors->entries[index].array};
    return TW_OK;
}

/* The sentence of a failed search, with the nearest name. */
static tw_status fail_missing(const tw_tensors *t, const char *name)
{
    void *list;
    int n = t->n < 4096 ? (int)t->n : 4096;
    TW_TRY(tw_calloc(n, sizeof(char *), &list));
    const char **candidates = list;
    for (int i = 0; i < n; i++) candidates[i] = t->entries[i].name;
    const char *nearest = tw_nearest(name, n, candidates);
    tw_status status =
        nearest ? tw_fail(TW_NOT_FOUND, "there is no tensor '%s'; the nearest name is '%s'", name,
                          nearest)
                : tw_fail(TW_NOT_FOUND, "there is no tensor '%s'; the file has none", name);
    tw_free(list);
    return status;
}

tw_status tw_tensors_find(const tw_tensors *tensors, const char *name, tw_named_array *found)
{
    TW_REQUIRE(tensors && name && found, TW_INVALID_ARGUMENT,
               "tensors, name and entry must not be NULL");
    int64_t lo = 0, hi = tensors->n;
    while (lo < hi) {
        int64_t middle = lo + (hi - lo) / 2;
        const entry *e = tensors->by_name[middle];
        int order = strcmp(name, e->name);
        if (order == 0) {
            *found = (tw_named_array){e->name, e->array};
            return TW_OK;
        }
        if (order < 0)
            hi = middle;
        else
            lo = middle + 1;
    }
    return fail_missing(tensors, name);
}

tw_status tw_tensors_metadata_at(const tw_tensors *tensors, int64_t index, tw_metadata *pair)
{
    TW_REQUIRE(tensors && pair, TW_INVALID_ARGUMENT, "tensors and pair must not be NULL");
    TW_REQUIRE(index >= 0 && index < tensors->n_pairs, TW_INVALID_ARGUMENT,
               "index is %lld; the file has %lld pairs", (long long)index,
               (long long)tensors->n_pairs);
    *pair = tensors->pairs[index];
    return TW_OK;
}

const char *tw_tensors_metadata(const tw_tensors *tensors, const char *key)
{
    if (!tensors || !key) return NULL;
    for (int64_t i = 0; i < tensors->n_pairs; i++) {
        if (strcmp(tensors->pairs[i].key, key) == 0) return tensors->pairs[i].value;
    }
    return NULL;
}
