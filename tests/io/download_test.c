/* SPDX-License-Identifier: Apache-2.0 */
/* Downloads from a server that does everything wrong that a server can do. */
#include "io/http_server.h"

#include <sys/resource.h>

enum { N_CONTENT = 200000 };
static uint8_t content[N_CONTENT];
static char digest[65];
static http_server server;
static int dead_port; /* nobody listens */

static int set_up(void **state)
{
    uint64_t seed = 11;
    for (int i = 0; i < N_CONTENT; i++) content[i] = (uint8_t)io_random(&seed);
    tw_sha256(content, N_CONTENT, digest);
    server.content = content;
    server.n_content = N_CONTENT;
    http_start(&server);
    close(http_listen(&dead_port));
    return io_make_folder(state);
}

static int tear_down(void **state)
{
    http_stop(&server);
    return io_remove_folder(state);
}

/* Addresses for up to four faults; "dead" is a port where nobody listens. */
typedef struct job {
    tw_download_options options;
    char text[4][128];
    const char *urls[4];
} job;

static job *make_job(job *j, const char *name, int n, const char *const *faults)
{
    *j = (job){.options = {.size = sizeof j->options,
                           .n_urls = n,
                           .urls = j->urls,
                           .path = io_path(name),
                           .bytes = N_CONTENT,
                           .sha256 = digest,
                           .stall_seconds = 2}};
    for (int i = 0; i < n; i++) {
        bool dead = strcmp(faults[i], "dead") == 0;
        snprintf(j->text[i], sizeof j->text[i], "http://127.0.0.1:%d/%s/file",
                 dead ? dead_port : server.port, faults[i]);
        j->urls[i] = j->text[i];
    }
    atomic_store(&server.requests, 0);
    atomic_store(&server.resumed, 0);
    return j;
}

#define JOB(j, name, ...)                                                                          \
    make_job(j, name, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)),          \
             (const char *const[]){__VA_ARGS__})

/* The file is there, whole, and nothing is left beside it. */
static void check_file(const char *path)
{
    size_t n;
    char part[300];
    uint8_t *bytes = io_read(path, &n);
    assert_int_equal(n, N_CONTENT);
    assert_memory_equal(bytes, content, N_CONTENT);
    free(bytes);
    snprintf(part, sizeof part, "%s.part", path);
    assert_false(io_exists(part));
}

static void check_absent(const char *path, bool with_part)
{
    char part[300];
    snprintf(part, sizeof part, "%s.part", path);
    assert_false(io_exists(path));
    assert_int_equal(io_exists(part), with_part);
}

static void test_sha256(void **state)
{
    (void)state;
    char d[65];
    tw_sha256("", 0, d);
    assert_string_equal(d, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    tw_sha256("abc", 3, d);
    assert_string_equal(d, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    tw_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, d);
    assert_string_equal(d, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    uint8_t *million = malloc(1000000);
    memset(million, 'a', 1000000);
    tw_sha256(million, 1000000, d);
    assert_string_equal(d, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static bool note_progress(void *user, const tw_progress *progress)
{
    tw_progress *last = user;
    assert_true(progress->bytes >= last->bytes);
    assert_int_equal(progress->total, N_CONTENT);
    assert_string_equal(progress->what, "good");
    *last = *progress;
    return true;
}

static void test_good(void **state)
{
    (void)state;
    job j;
    tw_progress last = {.bytes = 0};
    JOB(&j, "good", "good");
    j.options.progress = note_progress;
    j.options.user = &last;
    assert_ok(tw_download(&j.options));
    check_file(j.options.path);
    assert_int_equal(last.bytes, N_CONTENT);
    assert_true(last.rate > 0);
    assert_int_equal(atomic_load(&server.requests), 1);
    /* Neither size nor digest need be known. */
    JOB(&j, "unknown", "good");
    j.options.bytes = 0;
    j.options.sha256 = NULL;
    assert_ok(tw_download(&j.options));
    check_file(j.options.path);
}

static void test_resume(void **state)
{
    (void)state;
    job j;
    assert_ok(tw_download(&JOB(&j, "cut", "cut")->options)); /* breaks off, goes on at once */
    check_file(j.options.path);
    assert_int_equal(atomic_load(&server.requests), 2);
    assert_int_equal(atomic_load(&server.resumed), 1);

    /* A part of an earlier run, from another mirror. */
    io_write(io_path("later.part"), content, 150000);
    assert_ok(tw_download(&JOB(&j, "later", "dead", "missing", "good")->options));
    check_file(j.options.path);
    assert_int_equal(atomic_load(&server.resumed), 2); /* asked of the two that answer */

    /* Every attempt breaks off; the next mirror finishes. */
    assert_ok(tw_download(&JOB(&j, "drip", "drip", "drip", "good")->options));
    check_file(j.options.path);

    /* All was there but the rename. */
    io_write(io_path("whole.part"), content, N_CONTENT);
    assert_ok(tw_download(&JOB(&j, "whole", "dead")->options));
    check_file(j.options.path);
}

static void test_cannot_resume(void **state)
{
    (void)state;
    job j;
    io_write(io_path("norange.part"), content, 1000);
    assert_ok(tw_download(&JOB(&j, "norange", "norange")->options));
    check_file(j.options.path);
    /* A damaged part: the digest tells, and the same mirror serves it afresh. */
    io_write(io_path("stale.part"), "rubbish", 7);
    assert_ok(tw_download(&JOB(&j, "stale", "good")->options));
    check_file(j.options.path);
    /* A part that is too long. */
    uint8_t *longer = calloc(N_CONTENT + 5, 1);
    io_write(io_path("longer.part"), longer, N_CONTENT + 5);
    free(longer);
    assert_ok(tw_download(&JOB(&j, "longer", "good")->options));
    check_file(j.options.path);
}

static void test_bad_mirrors(void **state)
{
    (void)state;
    job j;
    assert_ok(tw_download(&JOB(&j, "many", "dead", "missing", "corrupt", "good")->options));
    check_file(j.options.path);
    assert_ok(tw_download(&JOB(&j, "sizes", "long", "short", "redirect", "good")->options));
    check_file(j.options.path);

    assert_status(tw_download(&JOB(&j, "none", "dead", "missing", "corrupt", "long")->options),
                  TW_NETWORK);
    assert_sentence("404");
    assert_sentence("SHA-256");
    assert_sentence("more than 200000 bytes");
    check_absent(j.options.path, false);
    assert_status(tw_download(&JOB(&j, "none", "redirect")->options), TW_NETWORK);
    assert_status(tw_download(&JOB(&j, "none", "short")->options), TW_NETWORK);
    assert_sentence("100000 bytes came instead of 200000");

    /* Without a known size, the limit holds. */
    JOB(&j, "none", "good");
    j.options.bytes = 0;
    j.options.limit = 1000;
    assert_status(tw_download(&j.options), TW_NETWORK);
    check_absent(j.options.path, false);
}

static void test_stall(void **state)
{
    (void)state;
    job j;
    JOB(&j, "stall", "stall", "good");
    j.options.stall_seconds = 1;
    assert_ok(tw_download(&j.options));
    check_file(j.options.path);
}

static bool refuse(void *user, const tw_progress *progress)
{
    (void)user;
    (void)progress;
    return false;
}

static void test_interrupted(void **state)
{
    (void)state;
    job j;
    JOB(&j, "stop", "good", "good");
    j.options.progress = refuse;
    assert_status(tw_download(&j.options), TW_INTERRUPTED);
    assert_true(atomic_load(&server.requests) <= 1); /* no other mirror is tried */
    j.options.progress = NULL;
    assert_ok(tw_download(&j.options));
    check_file(j.options.path);
}

static void test_disk_full(void **state)
{
    (void)state;
    job j;
    struct rlimit old, small = {.rlim_cur = 50000};
    JOB(&j, "full", "good", "good");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tw_status status = tw_download(&j.options);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, TW_DISK_FULL);
    assert_int_equal(atomic_load(&server.requests), 1);
    check_absent(j.options.path, false);

    /* The same from a device without room. */
    JOB(&j, "device", "good");
    assert_int_equal(symlink("/dev/full", io_path("device.part")), 0);
    assert_status(tw_download(&j.options), TW_DISK_FULL);
    check_absent(j.options.path, false);

    JOB(&j, "no/such/folder", "good");
    assert_status(tw_download(&j.options), TW_IO_ERROR);
}

static void test_arguments(void **state)
{
    (void)state;
    static const char *const refused[] = {"http://example.com/x",
                                          "http://127.0.0.1.example.com/x",
                                          "http://10.0.0.1/x",
                                          "http://127.0.0.1@example.com/",
                                          "ftp://127.0.0.1/x",
                                          "file:///etc/passwd",
                                          "http://localhost.example.com/",
                                          "rubbish",
                                          "http://128.0.0.1/"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        tw_download_options o = {.n_urls = 1, .urls = &refused[i], .path = io_path("x")};
        tw_status status = tw_download(&o);
        if (status != TW_INVALID_ARGUMENT) fail_msg("%s was not refused", refused[i]);
    }
    job j;
    JOB(&j, "x", "good");
    j.options.sha256 = "abc";
    assert_status(tw_download(&j.options), TW_INVALID_ARGUMENT);
    j.options.sha256 = NULL;
    j.options.n_urls = 0;
    assert_status(tw_download(&j.options), TW_INVALID_ARGUMENT);
    assert_int_equal(atomic_load(&server.requests), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),      cmocka_unit_test(test_good),
        cmocka_unit_test(test_resume),      cmocka_unit_test(test_cannot_resume),
        cmocka_unit_test(test_bad_mirrors), cmocka_unit_test(test_stall),
        cmocka_unit_test(test_interrupted), cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
