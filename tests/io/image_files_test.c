/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures: every kind of PNG and JPEG that is read, writing, damaged files. */
#include "io/io_support.h"

static tw_status parse(const void *bytes, size_t n)
{
    tw_array image = {0};
    tw_status status = tw_image_parse(bytes, n, 0, 1 << 20, &image);
    if (status != TW_OK) assert_null(image.data);
    tw_array_free(&image);
    return status;
}

static void check_shape(const tw_array *a, int64_t height, int64_t width, int64_t channels)
{
    assert_int_equal(a->dtype, TW_U8);
    assert_int_equal(a->rank, 3);
    assert_int_equal(a->dims[0], height);
    assert_int_equal(a->dims[1], width);
    assert_int_equal(a->dims[2], channels);
    assert_int_equal(a->bytes, height * width * channels);
}

/* What tests/io/data/README.md tells of each file. */
typedef int (*formula)(int64_t y, int64_t x, int64_t c);
static int plain(int64_t y, int64_t x, int64_t c) { return (int)(30 * y + 5 * x + 20 * c); }
static int wide(int64_t y, int64_t x, int64_t c)
{
    /* 16 bits to 8, rounded: v·255/65535. */
    int value = plain(y, x, c) * 257 + (x % 2 ? 100 : 0);
    return (value * 255 + 32767) / 65535;
}
static int palette(int64_t y, int64_t x, int64_t c)
{
    int k = (int)(x + y) % 4;
    return c == 0 ? 10 * k : c == 1 ? 20 * k + 1 : 200 - k;
}
static int bits(int64_t y, int64_t x, int64_t c) { return c == 0 && (x + y) % 2 ? 255 : 0; }

static const struct {
    const char *file;
    int64_t channels;
    formula value;
} pngs[] = {{"grey8.png", 1, plain}, {"grey_alpha8.png", 2, plain},    {"rgb8.png", 3, plain},
            {"rgba8.png", 4, plain}, {"palette2.png", 3, palette},     {"grey1.png", 1, bits},
            {"rgb16.png", 3, wide},  {"rgb8_interlaced.png", 3, plain}};

enum { N_PNGS = sizeof pngs / sizeof *pngs };

static void test_png_kinds(void **state)
{
    (void)state;
    for (int i = 0; i < N_PNGS; i++) {
        tw_array a;
        assert_ok(tw_image_read(io_fixture(pngs[i].file), 0, 0, &a));
        check_shape(&a, 5, 7, pngs[i].channels);
        const uint8_t *p = a.data;
        for (int64_t e = 0; e < a.bytes; e++) {
            int64_t c = e % a.dims[2], x = e / a.dims[2] % 7, y = e / a.dims[2] / 7;
            if (p[e] != pngs[i].value(y, x, c)) {
                fail_msg("%s (%d, %d, %d): %d instead of %d", pngs[i].file, (int)y, (int)x, (int)c,
                         p[e], pngs[i].value(y, x, c));
            }
        }
        tw_array_free(&a);
    }
}

/* Constant blocks at quality 100: grey is exact; RGB goes through YCbCr in 8 bits, which moves each
 * of three terms by at most half a step, times up to 1.772, plus the last rounding. */
static void test_jpeg_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int64_t channels;
        int tolerance;
    } files[] = {{"grey.jpg", 1, 0}, {"rgb.jpg", 3, 2}, {"rgb_progressive.jpg", 3, 2}};
    for (int i = 0; i < 3; i++) {
        tw_array a;
        assert_ok(tw_image_read(io_fixture(files[i].file), 0, 0, &a));
        check_shape(&a, 16, 24, files[i].channels);
        const uint8_t *p = a.data;
        for (int64_t e = 0; e < a.bytes; e++) {
            int64_t c = e % a.dims[2], x = e / a.dims[2] % 24, y = e / a.dims[2] / 24;
            int expected = (int)(40 * (x / 8) + 100 * (y / 8) + 20 * c);
            if (abs(p[e] - expected) > files[i].tolerance) {
                fail_msg("%s (%d, %d, %d): %d instead of %d", files[i].file, (int)y, (int)x, (int)c,
                         p[e], expected);
            }
        }
        tw_array_free(&a);
    }
}

static void test_channels(void **state)
{
    (void)state;
    tw_array a;
    assert_ok(tw_image_read(io_fixture("rgba8.png"), 3, 0, &a));
    check_shape(&a, 5, 7, 3);
    const uint8_t *p = a.data;
    for (int c = 0; c < 3; c++) assert_int_equal(p[(2 * 7 + 3) * 3 + c], plain(2, 3, c));
    tw_array_free(&a);
    assert_ok(tw_image_read(io_fixture("rgb8.png"), 1, 0, &a));
    check_shape(&a, 5, 7, 1);
    int luma = (299 * plain(2, 3, 0) + 587 * plain(2, 3, 1) + 114 * plain(2, 3, 2) + 500) / 1000;
    assert_int_equal(((uint8_t *)a.data)[2 * 7 + 3], luma);
    tw_array_free(&a);
    assert_ok(tw_image_read(io_fixture("grey_alpha8.png"), 3, 0, &a));
    p = a.data;
    for (int c = 0; c < 3; c++) assert_int_equal(p[(2 * 7 + 3) * 3 + c], plain(2, 3, 0));
    tw_array_free(&a);
    assert_status(tw_image_read(io_fixture("rgb8.png"), 2, 0, &a), TW_INVALID_ARGUMENT);
}

static void test_png_write(void **state)
{
    (void)state;
    uint8_t pixels[11 * 13 * 3];
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)io_random(&seed);
    tw_array rgb = {.dtype = TW_U8, .rank = 3, .dims = {11, 13, 3}, .data = pixels}, back;
    rgb.bytes = 11 * 13 * 3;
    assert_ok(tw_png_write(io_path("rgb.png"), &rgb));
    assert_ok(tw_image_read(io_path("rgb.png"), 0, 0, &back));
    check_shape(&back, 11, 13, 3);
    assert_memory_equal(back.data, pixels, sizeof pixels);
    tw_array_free(&back);
    tw_array grey = {.dtype = TW_U8, .rank = 2, .dims = {11, 13}, .data = pixels, .bytes = 143};
    assert_ok(tw_png_write(io_path("grey.png"), &grey));
    assert_ok(tw_image_read(io_path("grey.png"), 0, 0, &back));
    check_shape(&back, 11, 13, 1);
    assert_memory_equal(back.data, pixels, 143);
    tw_array_free(&back);
    grey.dims[0] = 0;
    grey.bytes = 0;
    assert_status(tw_png_write(io_path("none.png"), &grey), TW_INVALID_ARGUMENT);
    rgb.dims[2] = 4;
    assert_status(tw_png_write(io_path("none.png"), &rgb), TW_INVALID_ARGUMENT);
    rgb.dims[2] = 3;
    assert_status(tw_png_write("/dev/full", &rgb), TW_DISK_FULL);
}

static void check_hostile(const char *file, int rounds)
{
    size_t n;
    uint8_t *bytes = io_read(io_fixture(file), &n);
    io_check_cuts(parse, bytes, n);
    io_check_flips(parse, bytes, n, rounds);
    free(bytes);
}

static void test_png_hostile(void **state)
{
    (void)state;
    for (int i = 0; i < N_PNGS; i++) check_hostile(pngs[i].file, 1000);
}

static void test_jpeg_hostile(void **state)
{
    (void)state;
    check_hostile("grey.jpg", 2000);
    check_hostile("rgb.jpg", 2000);
    check_hostile("rgb_progressive.jpg", 2000);
}

static void test_limits(void **state)
{
    (void)state;
    tw_array a = {0};
    assert_status(tw_image_read(io_fixture("rgb8.png"), 0, 104, &a), TW_BAD_FILE); /* needs 105 */
    assert_ok(tw_image_read(io_fixture("rgb8.png"), 0, 105, &a));
    tw_array_free(&a);
    assert_status(tw_image_parse("GIF89a", 6, 0, 0, &a), TW_BAD_FILE);
    assert_status(tw_image_parse("", 0, 0, 0, &a), TW_BAD_FILE);
    assert_status(tw_image_read(io_path("none.png"), 0, 0, &a), TW_NOT_FOUND);
}

static void test_real_pictures(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int64_t height, width, channels;
    } files[] = {{"images/astronaut.png", 512, 512, 3},
                 {"images/coffee.png", 400, 600, 3},
                 {"images/chelsea.png", 300, 451, 3},
                 {"images/rocket.jpg", 427, 640, 3},
                 {"images/camera.png", 512, 512, 1}};
    for (int i = 0; i < 5; i++) {
        const char *path = io_data(files[i].file);
        if (!path) return;
        tw_array a;
        assert_ok(tw_image_read(path, 0, 0, &a));
        check_shape(&a, files[i].height, files[i].width, files[i].channels);
        int64_t sum = 0; /* a real picture is neither black nor white */
        for (int64_t e = 0; e < a.bytes; e++) sum += ((uint8_t *)a.data)[e];
        assert_in_range(sum / a.bytes, 40, 200);
        tw_array_free(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png_kinds),   cmocka_unit_test(test_jpeg_kinds),
        cmocka_unit_test(test_channels),    cmocka_unit_test(test_png_write),
        cmocka_unit_test(test_png_hostile), cmocka_unit_test(test_jpeg_hostile),
        cmocka_unit_test(test_limits),      cmocka_unit_test(test_real_pictures),
    };
    return cmocka_run_group_tests(tests, io_make_folder, io_remove_folder);
}
