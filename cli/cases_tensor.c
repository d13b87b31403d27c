/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of cases: dtype, strides, offset, fills. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cases.h"
#include "core/alloc.h"
#include "core/dtype.h"
#include "core/error.h"

static const struct {
    const char *name;
    tw_dtype type;
} dtypes[] = {{"f64", TW_F64},
              {"f32", TW_F32},
              {"f16", TW_F16},
              {"bf16", TW_BF16},
              {"f8e4m3fn", TW_E4M3FN},
              {"f8e5m2", TW_E5M2},
              {"f8e4m3fnuz", TW_E4M3FNUZ},
              {"f8e5m2fnuz", TW_E5M2FNUZ},
              {"i64", TW_I64},
              {"i32", TW_I32},
              {"i16", TW_I16},
              {"i8", TW_I8},
              {"u8", TW_U8},
              {"i4", TW_I4},
              {"u4", TW_U4},
              {"bool", TW_BOOL}};

static tw_dtype type_of(const cJSON *json)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(json, "dtype"));
    for (size_t i = 0; name && i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0) return dtypes[i].type;
    return TW_AUTO;
}

static uint64_t splitmix64(uint64_t i)
{
    uint64_t z = i + 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void case_set(case_run *run, case_tensor *t, int64_t storage_index, double value)
{
    (void)run;
    tw_store(t->desc.dtype, t->buffer, storage_index, value, 0);
}

static tw_status describe(const cJSON *json, case_tensor *t)
{
    const cJSON *shape = cJSON_GetObjectItem(json, "shape");
    const cJSON *strides = cJSON_GetObjectItem(json, "strides");
    int64_t stride = 1;
    t->desc = (tw_tensor_desc){
        .dtype = type_of(json), .rank = cJSON_GetArraySize(shape), .has_strides = true};
    TW_REQUIRE(t->desc.dtype != TW_AUTO && t->desc.rank <= TW_MAX_RANK, TW_BAD_FILE,
               "tensor %s: unknown dtype or more than %d dims", t->name, TW_MAX_RANK);
    for (int32_t d = t->desc.rank - 1; d >= 0; d--) {
        t->desc.dims[d] = (int64_t)cJSON_GetArrayItem(shape, d)->valuedouble;
        t->desc.strides[d] =
            strides ? (int64_t)cJSON_GetArrayItem(strides, d)->valuedouble : stride;
        if (t->desc.dims[d] > 0) stride *= t->desc.dims[d];
    }
    const cJSON *offset = cJSON_GetObjectItem(json, "offset");
    t->offset = offset ? (int64_t)offset->valuedouble : 0;
    return TW_OK;
}

/* Elements from storage index 0 to past the last one. */
static int64_t storage(const case_tensor *t)
{
    int64_t last = t->offset;
    for (int32_t d = 0; d < t->desc.rank; d++) {
        if (t->desc.dims[d] == 0) return t->offset;
        last += (t->desc.dims[d] - 1) * t->desc.strides[d];
    }
    return last + 1;
}

/* Address space without memory behind it until it is touched: some cases span gigabytes. */
static tw_status allocate(case_tensor *t, int64_t elements)
{
    t->buffer_bytes = tw_dtype_bytes(t->desc.dtype, elements) + 64;
    t->buffer = mmap(NULL, (size_t)t->buffer_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t->buffer != MAP_FAILED) return TW_OK;
    t->buffer = NULL;
    return tw_fail(TW_OUT_OF_MEMORY, "tensor %s: no room for %lld bytes", t->name,
                   (long long)t->buffer_bytes);
}

static void fill(case_run *run, case_tensor *t, const cJSON *spec, int64_t n)
{
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItem(spec, "kind"));
    double start = case_attr_real(spec, "start", 0), step = case_attr_real(spec, "step", 1);
    double lo = case_attr_real(spec, "lo", 0), hi = case_attr_real(spec, "hi", 1);
    const cJSON *value = cJSON_GetObjectItem(spec, "value");
    const cJSON *mod = cJSON_GetObjectItem(spec, "mod");
    int64_t m = mod && !cJSON_IsNull(mod) ? (int64_t)mod->valuedouble : 0;
    uint64_t seed = (uint64_t)case_attr_int(spec, "seed", 0);
    double constant = value ? case_number(value) : 0;
    if (kind[0] == 'c' && constant == 0 && !signbit(constant)) return; /* as mapped */
    for (int64_t i = 0; i < n; i++) {
        double v = constant;
        if (kind[0] == 'i') v = start + step * (double)(m ? i % m : i);
        if (kind[0] == 's')
            v = lo + (hi - lo) * ((double)(splitmix64(seed + (uint64_t)i) >> 11) * 0x1p-53);
        case_set(run, t, i, v);
    }
}

static void set_bits(case_tensor *t, int64_t i, const cJSON *bits)
{
    int width = tw_dtype_bits(t->desc.dtype) / 8;
    const char *text = cJSON_GetStringValue(bits);
    uint64_t value = text ? strtoull(text, NULL, 0) : (uint64_t)bits->valuedouble;
    memcpy(t->buffer + i * width, &value, (size_t)width); /* little-endian hosts */
}

static void fill_gaps(case_run *run, case_tensor *t, int64_t n)
{
    char *reached = calloc((size_t)n + 1, 1);
    int64_t index[TW_MAX_RANK] = {0};
    for (bool more = reached && tw_desc_elements(&t->desc) > 0; more;) {
        int64_t at = t->offset;
        for (int32_t d = 0; d < t->desc.rank; d++) at += index[d] * t->desc.strides[d];
        reached[at] = 1;
        int32_t d = t->desc.rank - 1;
        while (d >= 0 && ++index[d] == t->desc.dims[d]) index[d--] = 0;
        more = d >= 0;
    }
    for (int64_t i = 0; reached && i < n; i++)
        if (!reached[i]) case_set(run, t, i, (double)NAN);
    free(reached);
}

static tw_status make_input(case_run *run, const cJSON *json)
{
    TW_REQUIRE(run->n_inputs < CASE_TENSORS, TW_BAD_FILE, "more than %d inputs", CASE_TENSORS);
    case_tensor *t = &run->inputs[run->n_inputs++];
    t->name = json->string;
    TW_TRY(describe(json, t));
    const cJSON *data = cJSON_GetObjectItem(json, "data"),
                *bits = cJSON_GetObjectItem(json, "bits");
    const cJSON *listed = data ? data : bits;
    int64_t n = storage(t), given = listed ? cJSON_GetArraySize(listed) : 0;
    if (given > n) n = given;
    TW_TRY(allocate(t, n));
    int64_t i = 0;
    for (const cJSON *item = listed ? listed->child : NULL; item; item = item->next, i++) {
        if (data)
            case_set(run, t, i, case_number(item));
        else
            set_bits(t, i, item);
    }
    const cJSON *spec = cJSON_GetObjectItem(json, "fill");
    if (spec) fill(run, t, spec, n);
    const cJSON *pair;
    cJSON_ArrayForEach(pair, cJSON_GetObjectItem(json, "set"))
        case_set(run, t, (int64_t)cJSON_GetArrayItem(pair, 0)->valuedouble,
                 case_number(cJSON_GetArrayItem(pair, 1)));
    if (cJSON_GetObjectItem(json, "gap")) fill_gaps(run, t, n);
    return TW_OK;
}

tw_status case_make_inputs(case_run *run)
{
    const cJSON *json;
    cJSON_ArrayForEach(json, cJSON_GetObjectItem(run->json, "inputs"))
        TW_TRY(make_input(run, json));
    return TW_OK;
}

const case_tensor *case_input(const case_run *run, const char *name)
{
    for (int32_t i = 0; i < run->n_inputs; i++)
        if (strcmp(run->inputs[i].name, name) == 0) return &run->inputs[i];
    return NULL;
}

case_tensor *case_output(case_run *run, const char *name)
{
    for (int32_t i = 0; i < run->n_outputs; i++)
        if (strcmp(run->outputs[i].name, name) == 0) return &run->outputs[i];
    return NULL;
}

/* The memory of an output that shares an input's, by the case's `alias`. */
static bool share(case_run *run, case_tensor *t)
{
    const cJSON *alias = cJSON_GetObjectItem(cJSON_GetObjectItem(run->json, "alias"), t->name);
    const case_tensor *input = alias ? case_input(run, cJSON_GetStringValue(alias)) : NULL;
    if (!input) return false;
    t->buffer = input->buffer;
    t->offset = input->offset;
    memcpy(t->desc.strides, input->desc.strides, sizeof t->desc.strides);
    return true;
}

tw_status case_make_output(case_run *run, const cJSON *expect)
{
    TW_REQUIRE(run->n_outputs < CASE_TENSORS, TW_BAD_FILE, "more than %d outputs", CASE_TENSORS);
    case_tensor *t = &run->outputs[run->n_outputs++];
    t->name = expect->string;
    TW_TRY(describe(expect, t));
    const cJSON *strides =
        cJSON_GetObjectItem(cJSON_GetObjectItem(run->json, "output_strides"), t->name);
    for (int32_t d = 0; strides && d < t->desc.rank; d++)
        t->desc.strides[d] = (int64_t)cJSON_GetArrayItem(strides, d)->valuedouble;
    if (share(run, t)) return TW_OK;
    int64_t n = storage(t);
    TW_TRY(allocate(t, n));
    const cJSON *check = cJSON_GetObjectItem(run->json, "check");
    if (cJSON_GetObjectItem(check, "poison_outputs"))
        for (int64_t i = 0; i < n; i++) case_set(run, t, i, (double)NAN);
    if (!cJSON_GetObjectItem(check, "gaps_untouched")) return TW_OK;
    memset(t->buffer, 0x5A, (size_t)t->buffer_bytes);
    t->copy = tw_malloc((size_t)t->buffer_bytes);
    TW_REQUIRE(t->copy, TW_OUT_OF_MEMORY, "no memory for a copy of output %s", t->name);
    memcpy(t->copy, t->buffer, (size_t)t->buffer_bytes);
    return TW_OK;
}

/* Statistical checks name no output: y is like x, and the mask goes with it. */
tw_status case_make_like_x(case_run *run, const char *name, tw_dtype dtype)
{
    const case_tensor *x = case_input(run, "x");
    TW_REQUIRE(x && run->n_outputs < CASE_TENSORS, TW_BAD_FILE, "the case has no x");
    case_tensor *t = &run->outputs[run->n_outputs++];
    int64_t stride = 1;
    t->name = name;
    t->desc = x->desc;
    t->desc.dtype = dtype == TW_AUTO ? x->desc.dtype : dtype;
    for (int32_t d = t->desc.rank - 1; d >= 0; d--) {
        t->desc.strides[d] = stride;
        if (t->desc.dims[d] > 0) stride *= t->desc.dims[d];
    }
    return allocate(t, storage(t));
}

void case_address(const case_tensor *t, char **first)
{
    *first = t->buffer + t->offset * tw_dtype_bits(t->desc.dtype) / 8;
}

void case_free(case_run *run)
{
    for (int32_t i = 0; i < run->n_inputs; i++)
        if (run->inputs[i].buffer)
            munmap(run->inputs[i].buffer, (size_t)run->inputs[i].buffer_bytes);
    for (int32_t i = 0; i < run->n_outputs; i++) {
        if (run->outputs[i].buffer_bytes)
            munmap(run->outputs[i].buffer, (size_t)run->outputs[i].buffer_bytes);
        tw_free(run->outputs[i].copy);
    }
    tw_graph_free(run->graph);
    run->n_inputs = run->n_outputs = 0;
    run->graph = NULL;
}
