/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* unshare */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/file.h"

static char folder[] = "/tmp/tilework_file_test_XXXXXX";
static char path_buffer[8][256];

/* A path in the test's folder; eight live at a time. */
static const char *in_folder(const char *name)
{
    static int next;
    char *path = path_buffer[next++ % 8];
    snprintf(path, sizeof path_buffer[0], "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n - 2;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[sizeof folder + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static bool holds(const char *path, const void *want, size_t bytes)
{
    void *data;
    size_t n;
    if (tw_file_read(path, 1 << 24, &data, &n) != TW_OK) return false;
    bool same = n == bytes && memcmp(data, want, n) == 0;
    tw_free(data);
    return same;
}

static void write_then_read(void **state)
{
    (void)state;
    const char *path = in_folder("a.bin");
    const size_t sizes[] = {0, 1, 4096, 1 << 20};
    char *data = tw_malloc(1 << 20);
    for (int i = 0; i < 1 << 20; i++) data[i] = (char)(i * 7 + (i >> 8));
    for (int k = 0; k < 4; k++) {
        assert_int_equal(tw_file_write(path, data, sizes[k]), TW_OK);
        assert_true(holds(path, data, sizes[k]));
        assert_int_equal(tw_file_size(path), sizes[k]);
        assert_int_equal(entries(folder), 1);
    }
    tw_free(data);
    assert_true(tw_file_exists(path));
    assert_false(tw_file_exists(in_folder("b.bin")));
    assert_int_equal(tw_file_size(in_folder("b.bin")), -1);
}

static void limits_and_absence(void **state)
{
    (void)state;
    const char *path = in_folder("limit");
    void *data = NULL;
    size_t bytes;
    assert_int_equal(tw_file_write(path, "12345", 5), TW_OK);
    assert_int_equal(tw_file_read(path, 5, &data, &bytes), TW_OK);
    tw_free(data);
    data = NULL;
    assert_int_equal(tw_file_read(path, 4, &data, &bytes), TW_BAD_FILE);
    assert_non_null(strstr(tw_last_error(), "4 bytes"));
    assert_int_equal(tw_file_read(path, -1, &data, &bytes), TW_INVALID_ARGUMENT);
    assert_int_equal(tw_file_read("/proc/self/maps", 10, &data, &bytes), TW_BAD_FILE);
    assert_int_equal(tw_file_read(in_folder("none"), 10, &data, &bytes), TW_NOT_FOUND);
    assert_non_null(strstr(tw_last_error(), "none"));
    assert_int_equal(tw_file_read(folder, 1 << 20, &data, &bytes), TW_IO_ERROR);
    assert_int_equal(tw_file_write(in_folder("none/x"), "1", 1), TW_NOT_FOUND);
    assert_null(data);
    /* A file without a size is read to its end. */
    assert_int_equal(tw_file_read("/proc/self/status", 1 << 20, &data, &bytes), TW_OK);
    assert_true(bytes > 100);
    tw_free(data);
    assert_int_equal(unlink(path), 0);
}

static mode_t mode_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? info.st_mode & 07777 : 0;
}

static void mode_and_links_stay(void **state)
{
    (void)state;
    const char *path = in_folder("mode"), *link_path = in_folder("link");
    mode_t mask = umask(027);
    assert_int_equal(tw_file_write(path, "1", 1), TW_OK);
    assert_int_equal(mode_of(path), 0640);
    umask(mask);
    assert_int_equal(chmod(path, 0604), 0);
    assert_int_equal(tw_file_write(path, "2", 1), TW_OK);
    assert_int_equal(mode_of(path), 0604);
    assert_int_equal(symlink("mode", link_path), 0);
    assert_int_equal(tw_file_write(link_path, "3", 1), TW_OK);
    struct stat info;
    assert_true(lstat(link_path, &info) == 0 && S_ISLNK(info.st_mode));
    assert_true(holds(path, "3", 1));
    assert_int_equal(unlink(link_path) + unlink(path), 0);
}

/* Another reader sees the whole old content or the whole new one, never a part. */
static void readers_see_whole_files(void **state)
{
    (void)state;
    enum { BYTES = 100000, ROUNDS = 200 };
    static char content[BYTES];
    const char *path = in_folder("whole");
    memset(content, 'a', BYTES);
    assert_int_equal(tw_file_write(path, content, BYTES), TW_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (int i = 0; i < ROUNDS; i++) {
            memset(content, 'a' + i % 26, BYTES);
            if (tw_file_write(path, content, BYTES) != TW_OK) _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        void *data;
        size_t n;
        assert_int_equal(tw_file_read(path, BYTES, &data, &n), TW_OK);
        assert_int_equal(n, BYTES);
        const char *text = data;
        for (int i = 1; i < BYTES; i++) {
            if (text[i] != text[0]) fail_msg("byte %d is '%c', byte 0 '%c'", i, text[i], text[0]);
        }
        tw_free(data);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(unlink(path), 0);
}

/* ---- A full disk ----------------------------------------------------------------------------- */

enum { BIG = 1 << 20 };
static char big[BIG];

/* In a child: the old file is there, a big write fails, nothing is left behind. 0 if so. */
static int fill_disk(const char *where)
{
    char path[300];
    snprintf(path, sizeof path, "%s/model", where);
    if (tw_file_write(path, "old", 3) != TW_OK) return 1;
    if (tw_file_write(path, big, BIG) != TW_DISK_FULL) return 2;
    if (!strstr(tw_last_error(), "model")) return 3;
    if (!holds(path, "old", 3)) return 4;
    if (entries(where) != 1) return 5;
    return unlink(path) == 0 ? 0 : 6;
}

static int in_child(int (*run)(void))
{
    pid_t child = fork();
    if (child == 0) _exit(run());
    int status = -1;
    if (waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_with_limit(void)
{
    struct rlimit limit = {BIG / 2, BIG / 2};
    signal(SIGXFSZ, SIG_IGN);
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 ? fill_disk(in_folder("full")) : 7;
}

enum { NO_MOUNT = 77 };

/* A file system of half the size, in a mount namespace of the child's own. */
static int run_on_small_disk(void)
{
    const char *where = in_folder("full");
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return NO_MOUNT;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return NO_MOUNT;
    if (mount("tmpfs", where, "tmpfs", 0, "size=512k") != 0) return NO_MOUNT;
    return fill_disk(where);
}

static void full_disk(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("full"), 0777), 0);
    assert_int_equal(in_child(run_with_limit), 0);
    int code = in_child(run_on_small_disk);
    if (code == NO_MOUNT) {
        print_message("no right to mount: the small file system is left out\n");
    } else {
        assert_int_equal(code, 0);
    }
    if (tw_file_exists("/dev/full")) {
        assert_int_equal(tw_file_write("/dev/full", big, BIG), TW_DISK_FULL);
    }
    assert_int_equal(tw_file_write("/dev/null", big, BIG), TW_OK);
    assert_int_equal(rmdir(in_folder("full")), 0);
}

/* ---- Interrupted calls ----------------------------------------------------------------------- */

static void on_alarm(int number) { (void)number; }

static void interrupt_after(useconds_t delay)
{
    struct itimerval often = {{0, 500}, {0, 500}};
    usleep(delay);
    setitimer(ITIMER_REAL, &often, NULL);
}

/* The child writes into a pipe, we read from it, and a timer interrupts both; the side that starts
 * late makes the other one block. */
static void through_pipe(const char *path, useconds_t reader_delay, useconds_t writer_delay)
{
    struct itimerval never = {{0, 0}, {0, 0}};
    assert_int_equal(mkfifo(path, 0600), 0);
    int reading = open(path, O_RDONLY | O_NONBLOCK), writing = open(path, O_WRONLY);
    assert_true(reading >= 0 && writing >= 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        interrupt_after(writer_delay);
        _exit(tw_file_write(path, big, BIG) == TW_OK ? 0 : 1);
    }
    close(writing);
    interrupt_after(reader_delay);
    void *data = NULL;
    size_t bytes = 0;
    tw_status status = tw_file_read(path, BIG, &data, &bytes);
    setitimer(ITIMER_REAL, &never, NULL);
    close(reading);
    int code = -1;
    while (waitpid(child, &code, 0) < 0 && errno == EINTR) continue;
    assert_int_equal(status, TW_OK);
    assert_int_equal(code, 0);
    assert_true(bytes == BIG && memcmp(data, big, BIG) == 0);
    tw_free(data);
    assert_int_equal(unlink(path), 0);
}

static void interrupted_calls_go_on(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm}, before; /* without SA_RESTART */
    for (int i = 0; i < BIG; i++) big[i] = (char)(i % 251);
    sigaction(SIGALRM, &action, &before);
    through_pipe(in_folder("pipe"), 20000, 0);
    through_pipe(in_folder("pipe"), 0, 20000);
    sigaction(SIGALRM, &before, NULL);
}

/* ---- Folders --------------------------------------------------------------------------------- */

static void folders(void **state)
{
    (void)state;
    const char *deep = in_folder("x/y//z/");
    assert_int_equal(tw_folder_create(deep), TW_OK);
    assert_int_equal(tw_folder_create(deep), TW_OK);
    assert_int_equal(tw_file_write(in_folder("x/y/z/f"), "1", 1), TW_OK);
    assert_int_not_equal(tw_folder_create(in_folder("x/y/z/f")), TW_OK);
    assert_int_not_equal(tw_folder_create(in_folder("x/y/z/f/g")), TW_OK);
    assert_int_equal(tw_folder_create(""), TW_INVALID_ARGUMENT);

    char cache[64];
    setenv("TW_CACHE", "/c/own", 1);
    setenv("XDG_CACHE_HOME", "/c/xdg", 1);
    setenv("HOME", "/c/home", 1);
    assert_int_equal(tw_cache_folder(cache, sizeof cache), TW_OK);
    assert_string_equal(cache, "/c/own");
    assert_int_equal(tw_cache_folder(cache, 6), TW_INVALID_ARGUMENT);
    unsetenv("TW_CACHE");
    assert_int_equal(tw_cache_folder(cache, sizeof cache), TW_OK);
    assert_string_equal(cache, "/c/xdg/tilework");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_int_equal(tw_cache_folder(cache, sizeof cache), TW_OK);
    assert_string_equal(cache, "/c/home/.cache/tilework");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(tw_cache_folder(cache, sizeof cache), TW_NOT_FOUND);
    FILE *null = fopen("/dev/null", "r");
    assert_non_null(null);
    assert_false(tw_is_terminal(null));
    fclose(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_then_read),
        cmocka_unit_test(limits_and_absence),
        cmocka_unit_test(mode_and_links_stay),
        cmocka_unit_test(readers_see_whole_files),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(interrupted_calls_go_on),
        cmocka_unit_test(folders),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
