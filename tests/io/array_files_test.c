/* SPDX-License-Identifier: Apache-2.0 */
/* IDX, gzip and .npy: good files, damaged ones, and real ones. */
#include "io/io_support.h"

#include <sys/resource.h>
#include <signal.h>
#include <zlib.h>

#define SMALL (1 << 20) /* limit of hostile files */

static size_t gzip(const void *data, size_t n, uint8_t *out, size_t room)
{
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)data, .avail_in = (uInt)n};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t length = room - z.avail_out;
    deflateEnd(&z);
    return length;
}

/* ---- IDX ------------------------------------------------------------------------------------- */

static tw_status parse_idx(const void *bytes, size_t n)
{
    tw_array array = {0};
    tw_status status = tw_idx_parse(bytes, n, SMALL, &array);
    if (status != TW_OK) assert_null(array.data);
    tw_array_free(&array);
    return status;
}

static const uint8_t idx_i16[] = {0, 0, 0x0b, 2, 0,    0,    0,    2, 0, 0, 0,    3,
                                  0, 1, 0,    2, 0xff, 0xff, 0x80, 0, 1, 0, 0x7f, 0xff};

static void test_idx_values(void **state)
{
    (void)state;
    static const int16_t expected[] = {1, 2, -1, -32768, 256, 32767};
    uint8_t packed[256];
    size_t n = gzip(idx_i16, sizeof idx_i16, packed, sizeof packed);
    for (int variant = 0; variant < 2; variant++) {
        tw_array a;
        if (variant)
            assert_ok(tw_idx_parse(packed, n, 0, &a));
        else
            assert_ok(tw_idx_parse(idx_i16, sizeof idx_i16, 0, &a));
        assert_int_equal(a.dtype, TW_I16);
        assert_int_equal(a.rank, 2);
        assert_int_equal(a.dims[0], 2);
        assert_int_equal(a.dims[1], 3);
        assert_int_equal(a.bytes, 12);
        assert_memory_equal(a.data, expected, sizeof expected);
        tw_array_free(&a);
    }
}

static void test_idx_types(void **state)
{
    (void)state;
    static const struct {
        uint8_t code, bytes[8];
        size_t width;
        tw_dtype dtype;
        double value;
    } types[] = {{0x08, {200}, 1, TW_U8, 200},
                 {0x09, {0xfe}, 1, TW_I8, -2},
                 {0x0b, {0xff, 0xfd}, 2, TW_I16, -3},
                 {0x0c, {0, 1, 0, 0}, 4, TW_I32, 65536},
                 {0x0d, {0x3f, 0xc0, 0, 0}, 4, TW_F32, 1.5},
                 {0x0e, {0xbf, 0xf8, 0, 0, 0, 0, 0, 0}, 8, TW_F64, -1.5}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint8_t file[16] = {0, 0, types[i].code, 1, 0, 0, 0, 1};
        memcpy(file + 8, types[i].bytes, types[i].width);
        tw_array a;
        double value;
        assert_ok(tw_idx_parse(file, 8 + types[i].width, 0, &a));
        assert_int_equal(a.dtype, types[i].dtype);
        assert_ok(tw_convert(TW_F64, &value, a.dtype, a.data, 1, 0));
        assert_true(value == types[i].value);
        tw_array_free(&a);
    }
}

static void test_idx_hostile(void **state)
{
    (void)state;
    uint8_t packed[256];
    size_t n = gzip(idx_i16, sizeof idx_i16, packed, sizeof packed);
    io_check_cuts(parse_idx, idx_i16, sizeof idx_i16);
    io_check_cuts(parse_idx, packed, n);
    io_check_flips(parse_idx, idx_i16, sizeof idx_i16, 4000);
    io_check_flips(parse_idx, packed, n, 4000);

    /* Dims whose product overflows, and one that promises far more than there is. */
    uint8_t huge[36] = {0, 0, 0x0e, 8};
    memset(huge + 4, 0xff, 32);
    tw_array a = {0};
    assert_status(tw_idx_parse(huge, sizeof huge, 0, &a), TW_BAD_FILE);
    assert_sentence("byte 4");
    huge[3] = 1;
    assert_status(tw_idx_parse(huge, 8, 0, &a), TW_BAD_FILE);
    assert_status(tw_idx_parse(idx_i16, sizeof idx_i16, 11, &a), TW_BAD_FILE); /* 12 of data */
    assert_status(tw_idx_parse(idx_i16, sizeof idx_i16, -1, &a), TW_INVALID_ARGUMENT);
    assert_null(a.data);

    /* No elements at all is a legal file. */
    static const uint8_t none[] = {0, 0, 8, 2, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    assert_ok(tw_idx_parse(none, sizeof none, 0, &a));
    assert_int_equal(a.bytes, 0);
    tw_array_free(&a);
}

static void test_gzip_bomb(void **state)
{
    (void)state;
    size_t n_plain = 32u << 20, n;
    uint8_t *plain = calloc(n_plain, 1), *packed = malloc(1 << 16);
    void *data = NULL;
    size_t length = gzip(plain, n_plain, packed, 1 << 16);
    assert_true(length < 40000);
    assert_status(tw_gunzip(packed, length, SMALL, &data, &n), TW_BAD_FILE);
    assert_sentence("exceeds the limit");
    assert_status(tw_gunzip(packed, length, (int64_t)n_plain - 1, &data, &n), TW_BAD_FILE);
    assert_null(data);
    assert_ok(tw_gunzip(packed, length, (int64_t)n_plain, &data, &n));
    assert_int_equal(n, n_plain);
    assert_memory_equal(data, plain, n_plain);
    tw_free(data);
    free(plain);
    free(packed);
}

static void test_gzip_members(void **state)
{
    (void)state;
    uint8_t packed[128];
    void *data;
    size_t n = gzip("one ", 4, packed, 64), m = gzip("two", 3, packed + n, 64), length;
    assert_ok(tw_gunzip(packed, n + m, 100, &data, &length));
    assert_int_equal(length, 7);
    assert_memory_equal(data, "one two", 7);
    tw_free(data);
    packed[n + m] = 'x'; /* rubbish after the last member */
    assert_status(tw_gunzip(packed, n + m + 1, 100, &data, &length), TW_BAD_FILE);
}

/* ---- .npy ------------------------------------------------------------------------------------ */

static tw_status parse_npy(const void *bytes, size_t n)
{
    tw_array array = {0};
    tw_status status = tw_npy_parse(bytes, n, SMALL, &array);
    if (status != TW_OK) assert_null(array.data);
    tw_array_free(&array);
    return status;
}

/* A file with this head; its length. */
static size_t make_npy(uint8_t *file, int version, const char *head, const void *data, size_t n)
{
    size_t length = strlen(head), at = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (uint8_t)version;
    file[7] = 0;
    for (size_t i = 8; i < at; i++) file[i] = (uint8_t)(length >> 8 * (i - 8));
    memcpy(file + at, head, length);
    if (n) memcpy(file + at + length, data, n);
    return at + length + n;
}

static void test_npy_round_trip(void **state)
{
    (void)state;
    static const tw_dtype types[] = {TW_F64, TW_F32, TW_F16, TW_I64, TW_I32, TW_I16,
                                     TW_I8,  TW_U64, TW_U32, TW_U16, TW_U8,  TW_BOOL};
    uint8_t data[6 * 8];
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)io_random(&seed);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (int32_t rank = 0; rank <= 3; rank++) {
            tw_array a = {.dtype = types[i], .rank = rank, .dims = {1, 2, 3}, .data = data}, b;
            if (rank == 1) a.dims[0] = 6;
            int64_t elements = rank == 0 ? 1 : rank == 2 ? 2 : 6;
            a.bytes = elements * tw_dtype_bits(types[i]) / 8;
            assert_ok(tw_npy_write(io_path("a.npy"), &a));
            assert_ok(tw_npy_read(io_path("a.npy"), 0, &b));
            assert_int_equal(b.dtype, a.dtype);
            assert_int_equal(b.rank, rank);
            for (int32_t d = 0; d < rank; d++) assert_int_equal(b.dims[d], a.dims[d]);
            assert_int_equal(b.bytes, a.bytes);
            assert_memory_equal(a.data, b.data, (size_t)a.bytes);
            tw_array_free(&b);
        }
    }
    tw_array bf16 = {.dtype = TW_BF16, .rank = 1, .dims = {1}, .data = data, .bytes = 2};
    assert_status(tw_npy_write(io_path("b.npy"), &bf16), TW_INVALID_ARGUMENT);
    bf16.dtype = TW_F16;
    bf16.bytes = 3;
    assert_status(tw_npy_write(io_path("b.npy"), &bf16), TW_INVALID_ARGUMENT);
    assert_false(io_exists(io_path("b.npy")));
}

static void test_npy_orders(void **state)
{
    (void)state;
    uint8_t file[256];
    static const uint8_t big[] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
    static const int16_t columns[] = {1, 3, 5, 2, 4, 6}, rows[] = {1, 2, 3, 4, 5, 6};
    tw_array a;
    for (int version = 1; version <= 3; version++) {
        size_t n =
            make_npy(file, version, "{'descr': '>i2', 'fortran_order': False, 'shape': (3, 2), }\n",
                     big, sizeof big);
        assert_ok(tw_npy_parse(file, n, 0, &a));
        assert_memory_equal(a.data, rows, sizeof rows);
        tw_array_free(&a);
        /* Keys in another order, double quotes, no spaces. */
        n = make_npy(file, version, "{\"shape\":(3,2),\"fortran_order\":True,\"descr\":\"<i2\"}",
                     columns, sizeof columns);
        assert_ok(tw_npy_parse(file, n, 0, &a));
        assert_int_equal(a.dims[0], 3);
        assert_memory_equal(a.data, rows, sizeof rows);
        tw_array_free(&a);
    }
}

static void test_npy_hostile(void **state)
{
    (void)state;
    uint8_t file[256];
    static const float values[] = {1, 2, 3, 4, 5, 6};
    size_t n = make_npy(file, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n",
                        values, sizeof values);
    io_check_cuts(parse_npy, file, n);
    io_check_flips(parse_npy, file, n, 6000);
    static const struct {
        const char *head;
        tw_status status;
    } bad[] = {
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", TW_NOT_SUPPORTED},
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }", TW_NOT_SUPPORTED},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }",
         TW_NOT_SUPPORTED},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", TW_BAD_FILE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
         TW_BAD_FILE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4), }",
         TW_BAD_FILE},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", TW_BAD_FILE},
        {"{'descr': '<f4', 'fortran_order': False, }", TW_BAD_FILE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", TW_BAD_FILE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } trailing", TW_BAD_FILE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", TW_BAD_FILE},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        n = make_npy(file, 1, bad[i].head, values, 4);
        tw_status status = io_parse_exact(parse_npy, file, n);
        if (status != bad[i].status) fail_msg("%s: %s", bad[i].head, tw_last_error());
    }
}

/* ---- Files that cannot be read or written ---------------------------------------------------- */

static void test_system_errors(void **state)
{
    (void)state;
    float one = 1;
    tw_array a = {.dtype = TW_F32, .rank = 0, .data = &one, .bytes = 4}, b;
    assert_status(tw_npy_read(io_path("none.npy"), 0, &b), TW_NOT_FOUND);
    assert_sentence("none.npy");
    assert_status(tw_idx_read(io_path("none.idx"), 0, &b), TW_NOT_FOUND);
    assert_status(tw_npy_write(io_path("no/such/folder.npy"), &a), TW_NOT_FOUND);
    io_write(io_path("bad.npy"), "rubbish", 7);
    assert_status(tw_npy_read(io_path("bad.npy"), 0, &b), TW_BAD_FILE);
    assert_sentence("bad.npy");
    assert_sentence("byte 0");
}

static void test_disk_full(void **state)
{
    (void)state;
    static float values[65536];
    tw_array a = {.dtype = TW_F32, .rank = 1, .dims = {1}, .data = values, .bytes = 4}, b;
    struct rlimit old, small = {.rlim_cur = 4096};
    assert_ok(tw_npy_write(io_path("full.npy"), &a));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    a.dims[0] = 65536;
    a.bytes = sizeof values;
    tw_status status = tw_npy_write(io_path("full.npy"), &a);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, TW_DISK_FULL);
    assert_ok(tw_npy_read(io_path("full.npy"), 0, &b)); /* the old file is whole */
    assert_int_equal(b.dims[0], 1);
    tw_array_free(&b);
}

/* ---- Real files ------------------------------------------------------------------------------ */

static void test_real_mnist(void **state)
{
    (void)state;
    const char *path = io_data("mnist/train-images-idx3-ubyte.gz");
    if (!path) return;
    tw_array a;
    assert_ok(tw_idx_read(path, 0, &a));
    assert_int_equal(a.dtype, TW_U8);
    assert_int_equal(a.dims[0], 60000);
    assert_int_equal(a.dims[1], 28);
    assert_int_equal(a.dims[2], 28);
    tw_array_free(&a);
    assert_ok(tw_idx_read(io_data("mnist/train-labels-idx1-ubyte.gz"), 0, &a));
    static const int64_t expected[] = {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949};
    int64_t count[256] = {0};
    for (int64_t i = 0; i < a.dims[0]; i++) count[((uint8_t *)a.data)[i]]++;
    for (int i = 0; i < 10; i++) assert_int_equal(count[i], expected[i]);
    tw_array_free(&a);
}

static void test_real_npy(void **state)
{
    (void)state;
    const char *path = io_data("models/wakeword-dscnn/features_45.npy");
    if (!path) return;
    tw_array a;
    assert_ok(tw_npy_read(path, 0, &a));
    assert_int_equal(a.dtype, TW_F32);
    assert_int_equal(a.rank, 4);
    assert_int_equal(a.dims[0], 45);
    assert_int_equal(a.dims[1], 40);
    /* Written back, the file is the same from the first element on. */
    assert_ok(tw_npy_write(io_path("copy.npy"), &a));
    size_t n, m;
    uint8_t *original = io_read(path, &n), *copy = io_read(io_path("copy.npy"), &m);
    assert_memory_equal(original + n - a.bytes, copy + m - a.bytes, (size_t)a.bytes);
    free(original);
    free(copy);
    tw_array_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx_values),    cmocka_unit_test(test_idx_types),
        cmocka_unit_test(test_idx_hostile),   cmocka_unit_test(test_gzip_bomb),
        cmocka_unit_test(test_gzip_members),  cmocka_unit_test(test_npy_round_trip),
        cmocka_unit_test(test_npy_orders),    cmocka_unit_test(test_npy_hostile),
        cmocka_unit_test(test_system_errors), cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_real_mnist),    cmocka_unit_test(test_real_npy),
    };
    return cmocka_run_group_tests(tests, io_make_folder, io_remove_folder);
}
