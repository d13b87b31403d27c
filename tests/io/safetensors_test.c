/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors: round trips, every rule a damaged file can break, real files. */
#include "io/io_support.h"

static tw_status parse(const void *bytes, size_t n)
{
    tw_tensors *tensors = NULL;
    tw_status status = tw_tensors_parse(bytes, n, 1 << 20, &tensors);
    if (status != TW_OK) assert_null(tensors);
    /* Touch every byte that a caller may read. */
    volatile unsigned sum = 0;
    for (int64_t i = 0; i < tw_tensors_count(tensors); i++) {
        tw_named_array e;
        assert_ok(tw_tensors_at(tensors, i, &e));
        for (int64_t b = 0; b < e.array.bytes; b++) sum = sum + ((uint8_t *)e.array.data)[b];
    }
    tw_tensors_free(tensors);
    return status;
}

/* A file of this head and n bytes of data; its length. */
static size_t make(uint8_t *file, const char *head, size_t n)
{
    size_t length = strlen(head);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)(length >> 8 * i);
    memcpy(file + 8, head, length);
    for (size_t i = 0; i < n; i++) file[8 + length + i] = (uint8_t)i;
    return 8 + length + n;
}

static void test_round_trip(void **state)
{
    (void)state;
    static const tw_dtype types[] = {TW_F64,  TW_F32,  TW_F16,      TW_BF16,     TW_E4M3FN,
                                     TW_E5M2, TW_E8M0, TW_E4M3FNUZ, TW_E5M2FNUZ, TW_F4E2M1,
                                     TW_I64,  TW_I32,  TW_I16,      TW_I8,       TW_U64,
                                     TW_U32,  TW_U16,  TW_U8,       TW_BOOL,     TW_C64};
    enum { N = sizeof types / sizeof *types };
    uint8_t data[8 * 6];
    char names[N][32];
    tw_named_array entries[N];
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)io_random(&seed);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "t\"%d\\\n\x01", i);
        tw_array a = {.dtype = types[i], .rank = 2, .dims = {i % 3, 2}, .data = data};
        a.bytes = 2 * (i % 3) * tw_dtype_bits(types[i]) / 8;
        entries[i] = (tw_named_array){names[i], a};
    }
    const tw_metadata pairs[] = {{"format", "pt"}, {"\xc3\xa9", "a \"quoted\" \\ text\n"}};
    const char *path = io_path("all.safetensors");
    assert_ok(tw_tensors_write(path, N, entries, 2, pairs));
    tw_tensors *t;
    assert_ok(tw_tensors_read(path, 0, &t));
    assert_int_equal(tw_tensors_count(t), N);
    for (int i = 0; i < N; i++) {
        tw_named_array e;
        assert_ok(tw_tensors_find(t, names[i], &e));
        assert_string_equal(e.name, names[i]);
        assert_int_equal(e.array.dtype, types[i]);
        assert_int_equal(e.array.rank, 2);
        assert_int_equal(e.array.dims[0], i % 3);
        assert_int_equal(e.array.bytes, entries[i].array.bytes);
        assert_memory_equal(e.array.data, data, (size_t)e.array.bytes);
        int bits = tw_dtype_bits(types[i]);
        assert_int_equal((uintptr_t)e.array.data % (uintptr_t)(bits < 8 ? 1 : bits / 8), 0);
    }
    assert_int_equal(tw_tensors_metadata_count(t), 2);
    assert_string_equal(tw_tensors_metadata(t, "format"), "pt");
    assert_string_equal(tw_tensors_metadata(t, pairs[1].key), pairs[1].value);
    assert_null(tw_tensors_metadata(t, "none"));
    tw_named_array e;
    assert_status(tw_tensors_find(t, "t", &e), TW_NOT_FOUND);
    assert_sentence("nearest");
    assert_status(tw_tensors_at(t, N, &e), TW_INVALID_ARGUMENT);
    tw_tensors_free(t);
}

static void test_empty(void **state)
{
    (void)state;
    tw_tensors *t;
    tw_named_array e;
    assert_ok(tw_tensors_write(io_path("none"), 0, NULL, 0, NULL));
    assert_ok(tw_tensors_read(io_path("none"), 0, &t));
    assert_int_equal(tw_tensors_count(t), 0);
    assert_status(tw_tensors_find(t, "x", &e), TW_NOT_FOUND);
    tw_tensors_free(t);
}

static void test_refused_by_writer(void **state)
{
    (void)state;
    float one = 1;
    tw_array a = {.dtype = TW_F32, .rank = 0, .data = &one, .bytes = 4};
    tw_named_array two[2] = {{"a", a}, {"a", a}};
    const char *path = io_path("refused");
    assert_status(tw_tensors_write(path, 2, two, 0, NULL), TW_INVALID_ARGUMENT);
    assert_sentence("two tensors 'a'");
    two[1].name = "__metadata__";
    assert_status(tw_tensors_write(path, 2, two, 0, NULL), TW_INVALID_ARGUMENT);
    two[1].name = "b";
    two[1].array.bytes = 5;
    assert_status(tw_tensors_write(path, 2, two, 0, NULL), TW_INVALID_ARGUMENT);
    two[1].array.bytes = 1;
    two[1].array.dtype = TW_I4;
    assert_status(tw_tensors_write(path, 2, two, 0, NULL), TW_INVALID_ARGUMENT);
    two[1].array.dtype = TW_F4E2M1; /* one packed element fills no byte */
    assert_status(tw_tensors_write(path, 2, two, 0, NULL), TW_INVALID_ARGUMENT);
    assert_false(io_exists(path));
    assert_status(tw_tensors_write("/dev/full", 1, two, 0, NULL), TW_DISK_FULL);
}

static void test_misaligned(void **state)
{
    (void)state;
    uint8_t file[512];
    size_t n = make(file,
                    "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                    "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[3,11]}}",
                    11);
    tw_tensors *t;
    tw_named_array e;
    assert_ok(tw_tensors_parse(file, n, 0, &t));
    assert_ok(tw_tensors_find(t, "b", &e));
    assert_int_equal((uintptr_t)e.array.data % 8, 0);
    assert_memory_equal(e.array.data, file + n - 8, 8);
    tw_tensors_free(t);
}

#define TENSOR(name, dtype, shape, begin, end)                                                     \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end   \
    "]}"

static void test_rules(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        const char *sentence;
        tw_status status;
    } bad[] = {
        {"{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[5]", "3", "8") "}",
         "overlaps", TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[3]", "0", "3") "," TENSOR("b", "U8", "[4]", "4", "8") "}", "hole",
         TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[4]", "0", "4") "}", "goes on", TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[9]", "0", "9") "}", "of 8 bytes", TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[8]", "0", "7") "}", "stands for 8", TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[8]", "8", "0") "}", "is at 8 to 0", TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[8]", "-8", "0") "}", "data_offsets", TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[8]", "0.5", "8") "}", "data_offsets", TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[8]", "0", "1e300") "}", "data_offsets", TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[8.5]", "0", "8") "}", "dim 0", TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[-1]", "0", "8") "}", "dim 0", TW_BAD_FILE},
        {"{" TENSOR("a", "F64", "[4294967296,4294967296]", "0", "8") "}", "limit", TW_BAD_FILE},
        {"{" TENSOR("a", "F4", "[15]", "0", "8") "}", "stands for", TW_BAD_FILE},
        {"{" TENSOR("a", "Q8", "[8]", "0", "8") "}", "element type", TW_NOT_SUPPORTED},
        {"{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,8]", "0", "8") "}", "rank 9", TW_NOT_SUPPORTED},
        {"{" TENSOR("a", "U8", "8", "0", "8") "}", "shape", TW_BAD_FILE},
        {"{\"a\":3}", "not a map", TW_BAD_FILE},
        {"{\"a\":{}}", "dtype", TW_BAD_FILE},
        {"[]", "not a JSON map", TW_BAD_FILE},
        {"{", "not valid JSON", TW_BAD_FILE},
        {"{}x", "goes on after", TW_BAD_FILE},
        {"{\"__metadata__\":{\"a\":1}}", "not a text", TW_BAD_FILE},
        {"{\"__metadata__\":[]}", "one map", TW_BAD_FILE},
        {"{\"a\":{\"shape\":[[[[1]]]]}}", "nested", TW_BAD_FILE},
        {"}", "nested", TW_BAD_FILE},
        {"{" TENSOR("a", "U8", "[8]", "0", "8") "," TENSOR("a", "U8", "[0]", "8", "8") "}",
         "two tensors 'a'", TW_BAD_FILE},
    };
    uint8_t file[1024];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n = make(file, bad[i].head, 8);
        tw_status status = io_parse_exact(parse, file, n);
        if (status != bad[i].status || !strstr(tw_last_error(), bad[i].sentence)) {
            fail_msg("%s: %s: %s", bad[i].head, tw_status_name(status), tw_last_error());
        }
    }
    /* The same with nothing wrong, in another order, with spaces after. */
    size_t n = make(file,
                    "{" TENSOR("b", "U8", "[5]", "3", "8") "," TENSOR(
                        "z", "I64", "[0]", "3", "3") "," TENSOR("a", "U8", "[3]", "0", "3") "}   ",
                    8);
    assert_ok(io_parse_exact(parse, file, n));
}

static void test_huge_head(void **state)
{
    (void)state;
    uint8_t file[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    assert_status(io_parse_exact(parse, file, sizeof file), TW_BAD_FILE);
    /* Very many values in a head are refused before a parser allocates for them. */
    size_t n = 8u << 20;
    uint8_t *big = malloc(n + 8);
    memset(big, ',', n + 8);
    for (int i = 0; i < 8; i++) big[i] = (uint8_t)(n >> 8 * i);
    memcpy(big + 8, "{\"a\":[", 6);
    tw_tensors *t = NULL;
    assert_status(tw_tensors_parse(big, n + 8, 0, &t), TW_BAD_FILE);
    assert_sentence("values");
    assert_null(t);
    free(big);
}

static void test_hostile(void **state)
{
    (void)state;
    uint8_t file[512];
    size_t n =
        make(file,
             "{\"__metadata__\":{\"k\":\"v\\u0041\"}," TENSOR(
                 "a", "BF16", "[2,3]", "0", "12") "," TENSOR("b", "I8", "[]", "12", "13") "}",
             13);
    io_check_cuts(parse, file, n);
    io_check_flips(parse, file, n, 20000);
}

static void test_real(void **state)
{
    (void)state;
    const char *path = io_data("models/silero-vad/silero_vad_16k.safetensors");
    if (!path) return;
    tw_tensors *t;
    tw_named_array e;
    assert_ok(tw_tensors_read(path, 0, &t));
    assert_ok(tw_tensors_find(t, "stft_conv.weight", &e));
    assert_int_equal(e.array.dtype, TW_F32);
    assert_int_equal(e.array.dims[0], 258);
    assert_int_equal(e.array.dims[2], 256);
    /* Written again and read, all is the same. */
    int64_t n = tw_tensors_count(t);
    tw_named_array *entries = calloc((size_t)n, sizeof *entries);
    for (int64_t i = 0; i < n; i++) assert_ok(tw_tensors_at(t, i, &entries[i]));
    assert_ok(tw_tensors_write(io_path("again"), n, entries, 0, NULL));
    tw_tensors *u;
    assert_ok(tw_tensors_read(io_path("again"), 0, &u));
    for (int64_t i = 0; i < n; i++) {
        assert_ok(tw_tensors_find(u, entries[i].name, &e));
        assert_int_equal(e.array.bytes, entries[i].array.bytes);
        assert_memory_equal(e.array.data, entries[i].array.data, (size_t)e.array.bytes);
    }
    tw_tensors_free(u);
    free(entries);
    tw_tensors_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_refused_by_writer),
        cmocka_unit_test(test_misaligned),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_huge_head),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests(tests, io_make_folder, io_remove_folder);
}
