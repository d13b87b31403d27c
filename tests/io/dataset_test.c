/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets: in the library, in $TW_DATA, downloaded from a local server, damaged. */
#include "io/http_server.h"

#include <sys/stat.h>
#include <zlib.h>

static http_server server;
static char data_folder[4096]; /* $TW_DATA as the test was started, or "" */
static char www[128];          /* what the server serves */

static int set_up(void **state)
{
    if (io_make_folder(state)) return -1;
    const char *data = getenv("TW_DATA");
    snprintf(data_folder, sizeof data_folder, "%s", data ? data : "");
    snprintf(www, sizeof www, "%s/www", io_folder);
    if (mkdir(www, 0777)) return -1;
    server.folder = www;
    http_start(&server);
    return 0;
}

static int tear_down(void **state)
{
    http_stop(&server);
    return io_remove_folder(state);
}

/* Each test begins without data, with an empty cache, and with no way to the network. */
static int fresh(void **state)
{
    (void)state;
    static int number;
    char cache[128];
    snprintf(cache, sizeof cache, "%s/cache%d", io_folder, number++);
    setenv("TW_CACHE", cache, 1);
    setenv("TW_MIRROR", "http://127.0.0.1:1/", 1);
    unsetenv("TW_DATA");
    return 0;
}

static bool use_data(const char *file)
{
    if (data_folder[0]) setenv("TW_DATA", data_folder, 1);
    return io_data(file) != NULL;
}

static void count_labels(const tw_images *images, int64_t counts[10])
{
    memset(counts, 0, 10 * sizeof *counts);
    for (int64_t i = 0; i < images->count; i++) {
        assert_true(images->labels[i] < 10);
        counts[images->labels[i]]++;
    }
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void test_names(void **state)
{
    (void)state;
    tw_dataset *d = NULL;
    tw_dataset_info info;
    assert_true(tw_dataset_count() >= 5);
    for (int32_t i = 0; i < tw_dataset_count(); i++) {
        assert_ok(tw_dataset_describe(i, &info));
        assert_true(info.name && info.title && info.licence && info.origin);
        assert_true(info.train > 0 && info.test > 0);
    }
    assert_status(tw_dataset_describe(tw_dataset_count(), &info), TW_INVALID_ARGUMENT);
    assert_status(tw_dataset_open("minst", NULL, &d), TW_NOT_FOUND);
    assert_sentence("did you mean 'mnist'");
    assert_null(d);
    tw_dataset_options options = {.flags = TW_DATASET_OFFLINE};
    assert_status(tw_dataset_open("mnist", &options, &d), TW_NOT_FOUND);
    assert_sentence("datasets/mnist");
    assert_sentence("downloading is off");
    options.flags = 1u << 20;
    assert_status(tw_dataset_open("mnist", &options, &d), TW_INVALID_ARGUMENT);
    assert_status(tw_dataset_open("mnist", NULL, &d), TW_NETWORK); /* port 1 */
}

/* ---- The embedded digits --------------------------------------------------------------------- */

static void test_digits(void **state)
{
    (void)state;
    tw_dataset *d;
    tw_images part[2];
    int64_t counts[10];
    assert_ok(tw_digits_embedded(&d));
    assert_string_equal(tw_dataset_folder(d), "");
    assert_string_equal(tw_dataset_class(d, 7), "7");
    assert_null(tw_dataset_class(d, 10));
    for (int split = 0; split < 2; split++) {
        assert_ok(tw_dataset_images(d, (tw_split)split, &part[split]));
        assert_int_equal(part[split].count, split ? 1000 : 4000);
        assert_int_equal(part[split].channels * part[split].height * part[split].width, 784);
        count_labels(&part[split], counts);
        for (int c = 0; c < 10; c++) assert_int_equal(counts[c], split ? 100 : 400);
    }
    /* Picture by picture as the documentation says. */
    const char *source = getenv("TW_SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s/data/digits/digits-images-idx3-ubyte.gz",
             source ? source : ".");
    tw_array all;
    assert_ok(tw_idx_read(path, 0, &all));
    assert_int_equal(all.dims[0], 5000);
    int64_t next[2] = {0, 0};
    for (int64_t i = 0; i < 5000; i++) {
        int split = i % 500 % 5 == 4;
        int64_t at = next[split]++;
        assert_int_equal(part[split].labels[at], i / 500);
        assert_memory_equal(part[split].pixels + 784 * at, (uint8_t *)all.data + 784 * i, 784);
    }
    tw_array_free(&all);
    const char *text;
    int64_t bytes;
    assert_status(tw_dataset_text(d, TW_SPLIT_TEST, &text, &bytes), TW_INVALID_ARGUMENT);
    assert_status(tw_dataset_images(d, (tw_split)2, &part[0]), TW_INVALID_ARGUMENT);
    tw_dataset_free(d);
}

/* ---- $TW_DATA -------------------------------------------------------------------------------- */

static void test_data_mnist(void **state)
{
    (void)state;
    if (!use_data("mnist/train-images-idx3-ubyte.gz")) return;
    tw_dataset *d;
    tw_images images;
    int64_t counts[10];
    static const int64_t expected[] = {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949};
    assert_ok(tw_dataset_open("mnist", NULL, &d));
    assert_ok(tw_dataset_images(d, TW_SPLIT_TRAIN, &images));
    assert_int_equal(images.count, 60000);
    count_labels(&images, counts);
    for (int c = 0; c < 10; c++) assert_int_equal(counts[c], expected[c]);
    assert_ok(tw_dataset_images(d, TW_SPLIT_TEST, &images));
    assert_int_equal(images.count, 10000);
    assert_true(strstr(tw_dataset_folder(d), "mnist") != NULL);
    tw_dataset_free(d);
}

static void test_data_cifar(void **state)
{
    (void)state;
    if (!use_data("cifar10/test_1000.bin.gz")) return;
    tw_dataset *d = NULL;
    tw_images images;
    int64_t counts[10];
    static const int64_t expected[] = {103, 89, 100, 103, 90, 86, 112, 102, 106, 109};
    tw_dataset_options options = {.flags = TW_DATASET_OFFLINE};
    assert_status(tw_dataset_open("cifar10", &options, &d), TW_NOT_FOUND);
    options.flags |= TW_DATASET_TEST_ONLY;
    assert_ok(tw_dataset_open("cifar10", &options, &d));
    assert_ok(tw_dataset_images(d, TW_SPLIT_TRAIN, &images));
    assert_int_equal(images.count, 0);
    assert_ok(tw_dataset_images(d, TW_SPLIT_TEST, &images));
    assert_int_equal(images.count, 1000);
    assert_int_equal(images.channels, 3);
    count_labels(&images, counts);
    for (int c = 0; c < 10; c++) assert_int_equal(counts[c], expected[c]);
    assert_string_equal(tw_dataset_class(d, 9), "truck");
    tw_dataset_free(d);
}

static void test_data_shakespeare(void **state)
{
    (void)state;
    if (!use_data("text/tinyshakespeare.txt")) return;
    tw_dataset *d;
    tw_images images;
    const char *train, *test;
    int64_t n, m;
    assert_ok(tw_dataset_open("shakespeare", NULL, &d));
    assert_ok(tw_dataset_text(d, TW_SPLIT_TRAIN, &train, &n));
    assert_ok(tw_dataset_text(d, TW_SPLIT_TEST, &test, &m));
    assert_int_equal(n + m, 1115394);
    assert_true(test == train + n);
    assert_memory_equal(train, "First Citizen:\n", 15);
    assert_status(tw_dataset_images(d, TW_SPLIT_TEST, &images), TW_INVALID_ARGUMENT);
    tw_dataset_free(d);
}

/* ---- Downloads ------------------------------------------------------------------------------- */

static void serve(const char *name, const char *below)
{
    char from[4200], to[256];
    snprintf(from, sizeof from, "%s/%s", data_folder, below);
    snprintf(to, sizeof to, "%s/%s", www, name);
    unlink(to);
    assert_int_equal(symlink(from, to), 0);
}

static void use_mirrors(const char *first, const char *second)
{
    char mirrors[256];
    snprintf(mirrors, sizeof mirrors, "http://127.0.0.1:%d/%s,http://127.0.0.1:%d/%s/", server.port,
             first, server.port, second);
    setenv("TW_MIRROR", mirrors, 1);
    atomic_store(&server.requests, 0);
}

static bool count_calls(void *user, const tw_progress *progress)
{
    assert_true(progress->bytes <= progress->total);
    ++*(int *)user;
    return true;
}

static void test_download(void **state)
{
    (void)state;
    if (!use_data("mnist/t10k-images-idx3-ubyte.gz")) return;
    unsetenv("TW_DATA");
    serve("mnist", "mnist");
    serve("shakespeare", "text");
    use_mirrors("corrupt", "cut");
    tw_dataset *d;
    tw_images images;
    int calls = 0;
    tw_dataset_options options = {
        .flags = TW_DATASET_TEST_ONLY, .progress = count_calls, .user = &calls};
    assert_ok(tw_dataset_open("mnist", &options, &d));
    assert_ok(tw_dataset_images(d, TW_SPLIT_TEST, &images));
    assert_int_equal(images.count, 10000);
    assert_true(calls >= 2);
    assert_int_equal(atomic_load(&server.requests), 6); /* each: corrupt, cut, the rest */
    tw_dataset_free(d);

    /* Now it is in the cache. */
    options.flags |= TW_DATASET_OFFLINE;
    assert_ok(tw_dataset_open("mnist", &options, &d));
    assert_int_equal(atomic_load(&server.requests), 6);
    tw_dataset_free(d);

    options = (tw_dataset_options){.folder = io_path("own")};
    assert_ok(tw_dataset_open("shakespeare", &options, &d));
    assert_true(io_exists(io_path("own/tinyshakespeare.txt")));
    tw_dataset_free(d);
}

static void test_no_mirror_is_right(void **state)
{
    (void)state;
    if (!use_data("mnist/t10k-images-idx3-ubyte.gz")) return;
    unsetenv("TW_DATA");
    serve("mnist", "mnist");
    use_mirrors("corrupt", "missing");
    tw_dataset *d = NULL;
    tw_dataset_options options = {.flags = TW_DATASET_TEST_ONLY, .folder = io_path("wrong")};
    assert_status(tw_dataset_open("mnist", &options, &d), TW_NETWORK);
    assert_sentence("404");
    assert_false(io_exists(io_path("wrong/t10k-images-idx3-ubyte.gz")));
    assert_false(io_exists(io_path("wrong/t10k-images-idx3-ubyte.gz.part")));
    assert_null(d);
}

static void test_damaged_cache(void **state)
{
    (void)state;
    if (!use_data("text/tinyshakespeare.txt")) return;
    size_t n;
    uint8_t *text = io_read(io_data("text/tinyshakespeare.txt"), &n);
    text[n / 2] ^= 1;
    mkdir(io_path("damaged"), 0777);
    io_write(io_path("damaged/tinyshakespeare.txt"), text, n);
    free(text);
    tw_dataset *d = NULL;
    tw_dataset_options options = {.folder = io_path("damaged")};
    assert_status(tw_dataset_open("shakespeare", &options, &d), TW_BAD_FILE);
    assert_sentence("damaged/tinyshakespeare.txt");
    assert_sentence("SHA-256");
}

/* ---- Hostile files --------------------------------------------------------------------------- */

/* fashion-mnist's test part: `pictures` of side x side, and labels. */
static void write_fashion(const char *folder, uint8_t pictures, uint8_t side, const uint8_t *labels,
                          uint8_t n_labels)
{
    char path[256];
    uint8_t images[16 + 4 * 28 * 28] = {0, 0, 8, 3,    0, 0, 0, pictures,
                                        0, 0, 0, side, 0, 0, 0, side};
    uint8_t file[16] = {0, 0, 8, 1, 0, 0, 0, n_labels};
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/t10k-images-idx3-ubyte.gz", folder);
    io_write(path, images, 16u + (size_t)pictures * side * side);
    memcpy(file + 8, labels, n_labels);
    snprintf(path, sizeof path, "%s/t10k-labels-idx1-ubyte.gz", folder);
    io_write(path, file, 8u + n_labels);
}

static void test_hostile_idx(void **state)
{
    (void)state;
    tw_dataset *d = NULL;
    tw_dataset_options options = {.flags = TW_DATASET_OFFLINE | TW_DATASET_TEST_ONLY,
                                  .folder = io_path("fashion")};
    write_fashion(options.folder, 3, 28, (const uint8_t[]){0, 9, 5}, 3);
    assert_ok(tw_dataset_open("fashion-mnist", &options, &d));
    assert_string_equal(tw_dataset_class(d, 9), "Ankle boot");
    tw_dataset_free(d);
    d = NULL;
    write_fashion(options.folder, 3, 28, (const uint8_t[]){0, 10, 5}, 3);
    assert_status(tw_dataset_open("fashion-mnist", &options, &d), TW_BAD_FILE);
    assert_sentence("byte 9");
    write_fashion(options.folder, 3, 28, (const uint8_t[]){0, 9}, 2);
    assert_status(tw_dataset_open("fashion-mnist", &options, &d), TW_BAD_FILE);
    write_fashion(options.folder, 3, 27, (const uint8_t[]){0, 9, 5}, 3);
    assert_status(tw_dataset_open("fashion-mnist", &options, &d), TW_BAD_FILE);
    assert_null(d);
}

enum { BATCH = 30730000 };

static void write_member(gzFile file, const char *name, unsigned bytes, bool wrong_sum)
{
    char head[512] = "";
    unsigned sum = wrong_sum ? 1 : 0;
    snprintf(head, 100, "%s", name);
    snprintf(head + 124, 12, "%011o", bytes);
    head[156] = '0';
    memset(head + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += (unsigned char)head[i];
    snprintf(head + 148, 8, "%06o", sum);
    assert_int_equal(gzwrite(file, head, 512), 512);
}

/* Records of a batch: the label is the batch's number, pixels are the record's number. */
static void write_batch(gzFile file, const char *name, uint8_t label)
{
    uint8_t record[3073];
    write_member(file, name, BATCH, false);
    for (int i = 0; i < 10000; i++) {
        memset(record, i & 255, sizeof record);
        record[0] = label;
        assert_int_equal(gzwrite(file, record, sizeof record), (int)sizeof record);
    }
    static const char padding[512];
    assert_int_equal(gzwrite(file, padding, (512 - BATCH % 512) % 512), (512 - BATCH % 512) % 512);
}

static gzFile open_cifar(const char *folder)
{
    char path[256];
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/cifar-10-binary.tar.gz", folder);
    gzFile file = gzopen(path, "wb1");
    assert_non_null(file);
    return file;
}

static void test_cifar_archive(void **state)
{
    (void)state;
    tw_dataset *d = NULL;
    tw_images images;
    int64_t counts[10];
    static const char zeros[1024];
    tw_dataset_options options = {.flags = TW_DATASET_OFFLINE, .folder = io_path("cifar")};
    gzFile file = open_cifar(options.folder);
    static const char *const names[] = {"data_batch_5.bin", "data_batch_1.bin", "test_batch.bin",
                                        "data_batch_3.bin", "data_batch_2.bin", "data_batch_4.bin"};
    static const uint8_t labels[] = {5, 1, 9, 3, 2, 4};
    write_member(file, "cifar-10-batches-bin/readme.html", 0, false);
    for (int i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "cifar-10-batches-bin/%s", names[i]);
        write_batch(file, name, labels[i]);
    }
    assert_int_equal(gzwrite(file, zeros, sizeof zeros), (int)sizeof zeros);
    assert_int_equal(gzclose(file), Z_OK);
    assert_ok(tw_dataset_open("cifar10", &options, &d));
    assert_ok(tw_dataset_images(d, TW_SPLIT_TRAIN, &images));
    assert_int_equal(images.count, 50000);
    for (int64_t i = 0; i < 50000; i += 777) {
        assert_int_equal(images.labels[i], i / 10000 + 1);
        assert_int_equal(images.pixels[i * 3072 + 3071], i % 10000 & 255);
    }
    assert_ok(tw_dataset_images(d, TW_SPLIT_TEST, &images));
    count_labels(&images, counts);
    assert_int_equal(counts[9], 10000);
    tw_dataset_free(d);
}

static void test_hostile_cifar(void **state)
{
    (void)state;
    tw_dataset *d = NULL;
    tw_dataset_options options = {.flags = TW_DATASET_OFFLINE, .folder = io_path("bad_cifar")};
    static const struct {
        const char *name;
        unsigned bytes;
        bool wrong_sum;
        const char *sentence;
    } bad[] = {{"a/test_batch.bin", BATCH, false, "cut short"},
               {"a/test_batch.bin", 0, false, "instead of 30730000"},
               {"a/readme", 0, false, "cut short"}, /* no end of the archive */
               {"a/readme", 0, true, "checksum"},
               {"a/readme", 0xffffffff, false, "cut short"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gzFile file = open_cifar(options.folder);
        write_member(file, bad[i].name, bad[i].bytes, bad[i].wrong_sum);
        if (i == 2) assert_int_equal(gzwrite(file, "x", 1), 1);
        assert_int_equal(gzclose(file), Z_OK);
        assert_status(tw_dataset_open("cifar10", &options, &d), TW_BAD_FILE);
        assert_sentence(bad[i].sentence);
    }
    gzFile file = open_cifar(options.folder);
    write_member(file, "a/readme", 0, false);
    assert_int_equal(gzclose(file), Z_OK);
    assert_status(tw_dataset_open("cifar10", &options, &d), TW_BAD_FILE);
    assert_sentence("without all of");

    /* The short form: records alone. */
    uint8_t records[2 * 3073] = {0};
    options.flags |= TW_DATASET_TEST_ONLY;
    options.folder = io_path("sample");
    mkdir(options.folder, 0777);
    io_write(io_path("sample/test_1000.bin.gz"), records, sizeof records);
    assert_ok(tw_dataset_open("cifar10", &options, &d));
    tw_dataset_free(d);
    records[3073] = 10;
    io_write(io_path("sample/test_1000.bin.gz"), records, sizeof records);
    assert_status(tw_dataset_open("cifar10", &options, &d), TW_BAD_FILE);
    assert_sentence("byte 3073");
    io_write(io_path("sample/test_1000.bin.gz"), records, 3074);
    assert_status(tw_dataset_open("cifar10", &options, &d), TW_BAD_FILE);
}

#define FRESH(test) cmocka_unit_test_setup(test, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(test_names),
        FRESH(test_digits),
        FRESH(test_data_mnist),
        FRESH(test_data_cifar),
        FRESH(test_data_shakespeare),
        FRESH(test_download),
        FRESH(test_no_mirror_is_right),
        FRESH(test_damaged_cache),
        FRESH(test_hostile_idx),
        FRESH(test_cifar_archive),
        FRESH(test_hostile_cifar),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
