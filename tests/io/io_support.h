/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of files share: a folder of their own, test data, hostile variants of a file. */
#ifndef TW_TESTS_IO_SUPPORT_H
#define TW_TESTS_IO_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <tilework/data.h>
#include <tilework/device.h>

#define UNUSED_BY_SOME __attribute__((unused))

/* splitmix64. */
static uint64_t io_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Fails with the library's sentence. */
#define assert_ok(expression)                                                                      \
    do {                                                                                           \
        tw_status io_status = (expression);                                                        \
        if (io_status != TW_OK) {                                                                  \
            fail_msg("%s: %s: %s", #expression, tw_status_name(io_status), tw_last_error());       \
        }                                                                                          \
    } while (0)

#define assert_status(expression, expected)                                                        \
    do {                                                                                           \
        tw_status io_status = (expression);                                                        \
        if (io_status != (expected)) {                                                             \
            fail_msg("%s: %s instead of %s: %s", #expression, tw_status_name(io_status),           \
                     tw_status_name(expected), tw_last_error());                                   \
        }                                                                                          \
    } while (0)

#define assert_sentence(part)                                                                      \
    do {                                                                                           \
        if (!strstr(tw_last_error(), part)) {                                                      \
            fail_msg("'%s' is not in the sentence: %s", part, tw_last_error());                    \
        }                                                                                          \
    } while (0)

/* ---- Folders and files ----------------------------------------------------------------------- */

static char io_folder[64];

static UNUSED_BY_SOME int io_make_folder(void **state)
{
    (void)state;
    strcpy(io_folder, "/tmp/tw_io_XXXXXX");
    return mkdtemp(io_folder) ? 0 : -1;
}

static UNUSED_BY_SOME int io_remove_folder(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", io_folder);
    return system(command);
}

/* A path in the folder; four are valid at a time. */
static UNUSED_BY_SOME const char *io_path(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", io_folder, name);
    return path;
}

static UNUSED_BY_SOME void io_write(const char *path, const void *bytes, size_t n)
{
    remove(path); /* some file systems flush at once what truncates an old file */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static UNUSED_BY_SOME bool io_exists(const char *path) { return access(path, F_OK) == 0; }

/* The file in malloc memory; fails the test if it is not there. */
static UNUSED_BY_SOME uint8_t *io_read(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be read", path);
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*n ? *n : 1);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    fclose(file);
    return bytes;
}

/* A fixture beside the tests. CTest sets TW_SOURCE. */
static UNUSED_BY_SOME const char *io_fixture(const char *name)
{
    static char path[4096];
    const char *source = getenv("TW_SOURCE");
    snprintf(path, sizeof path, "%s/tests/io/data/%s", source ? source : ".", name);
    return path;
}

/* A file below $TW_DATA, or NULL, saying that the test skips. */
static UNUSED_BY_SOME const char *io_data(const char *name)
{
    static char path[4096];
    const char *data = getenv("TW_DATA");
    snprintf(path, sizeof path, "%s/%s", data ? data : "", name);
    if (data && io_exists(path)) return path;
    printf("skipped: $TW_DATA/%s is not there\n", name);
    return NULL;
}

/* ---- Hostile variants ------------------------------------------------------------------------ */

/* Parses and frees what came out. */
typedef tw_status (*io_parser)(const void *bytes, size_t n_bytes);

/* In memory of exactly n bytes, so that a sanitizer sees any read beyond. */
static UNUSED_BY_SOME tw_status io_parse_exact(io_parser parse, const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, bytes, n);
    tw_status status = parse(n ? copy : copy + 1, n);
    free(copy);
    return status;
}

/* Every file that is cut short is refused, and the sentence names a byte. */
static UNUSED_BY_SOME void io_check_cuts(io_parser parse, const uint8_t *bytes, size_t n)
{
    assert_ok(io_parse_exact(parse, bytes, n));
    for (size_t length = 0; length < n; length++) {
        tw_status status = io_parse_exact(parse, bytes, length);
        if (status != TW_BAD_FILE || !strstr(tw_last_error(), "byte ")) {
            fail_msg("cut to %zu of %zu bytes: %s: %s", length, n, tw_status_name(status),
                     tw_last_error());
        }
    }
}

/* Files with a few wrong bits are read or refused, with nothing worse. TW_FUZZ multiplies the
 * rounds, for long runs. */
static UNUSED_BY_SOME void io_check_flips(io_parser parse, const uint8_t *bytes, size_t n,
                                          int rounds)
{
    uint8_t *copy = malloc(n);
    const char *fuzz = getenv("TW_FUZZ");
    if (fuzz) rounds *= atoi(fuzz);
    for (int round = 0; round < rounds; round++) {
        uint64_t state = (uint64_t)round;
        memcpy(copy, bytes, n);
        for (uint64_t i = io_random(&state) % 4; i < 4; i++) {
            uint64_t bit = io_random(&state) % (8 * n);
            copy[bit / 8] = (uint8_t)(copy[bit / 8] ^ 1u << bit % 8);
        }
        tw_status status = io_parse_exact(parse, copy, n);
        bool refused = status == TW_BAD_FILE || status == TW_NOT_SUPPORTED;
        if (status != TW_OK && !(refused && strstr(tw_last_error(), "byte "))) {
            fail_msg("flips of round %d: %s: %s", round, tw_status_name(status), tw_last_error());
        }
    }
    free(copy);
}

#endif
