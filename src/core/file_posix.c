/* SPDX-License-Identifier: Apache-2.0 */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/os.h"

/* A sentence for `error`, an errno, after `what` ("read", "write"…) failed on `path`. */
static tw_status fail_errno(const char *what, const char *path, int error)
{
    bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    bool absent = error == ENOENT || error == ENOTDIR;
    tw_status status = full ? TW_DISK_FULL : absent ? TW_NOT_FOUND : TW_IO_ERROR;
    return tw_fail(status, "cannot %s '%s': %s", what, path, strerror(error));
}

static int open_file(const char *path, int how, mode_t mode)
{
    int file;
    do {
        file = open(path, how | O_CLOEXEC, mode);
    } while (file < 0 && errno == EINTR);
    return file;
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct buffer {
    char *data;
    size_t bytes, capacity;
} buffer;

static tw_status buffer_resize(buffer *b, size_t capacity)
{
    char *data = tw_malloc(capacity);
    if (!data) return tw_fail_memory(capacity);
    if (b->bytes > 0) memcpy(data, b->data, b->bytes);
    tw_free(b->data);
    b->data = data;
    b->capacity = capacity;
    return TW_OK;
}

static tw_status fail_limit(const char *path, int64_t limit)
{
    return tw_fail(TW_BAD_FILE, "'%s' is larger than the %lld bytes that are read at most", path,
                   (long long)limit);
}

/* Reads to the end. The size that the system tells is a hint: pipes and /proc have none. */
static tw_status read_all(const char *path, int file, int64_t limit, buffer *b)
{
    struct stat info;
    if (fstat(file, &info) != 0) return fail_errno("read", path, errno);
    if (info.st_size > limit) return fail_limit(path, limit);
    TW_TRY(buffer_resize(b, (size_t)info.st_size + 1));
    for (;;) {
        if (b->bytes == b->capacity) TW_TRY(buffer_resize(b, 2 * b->capacity + 4096));
        ssize_t n = read(file, b->data + b->bytes, b->capacity - b->bytes);
        if (n == 0) return TW_OK;
        if (n < 0 && errno != EINTR) return fail_errno("read", path, errno);
        if (n > 0) b->bytes += (size_t)n;
        if (b->bytes > (uint64_t)limit) return fail_limit(path, limit);
    }
}

tw_status tw_file_read(const char *path, int64_t limit, void **data, size_t *bytes)
{
    TW_REQUIRE(limit >= 0, TW_INVALID_ARGUMENT, "tw_file_read: limit is %lld; it must be 0 or more",
               (long long)limit);
    int file = open_file(path, O_RDONLY, 0);
    if (file < 0) return fail_errno("open", path, errno);
    buffer b = {0};
    tw_status status = read_all(path, file, limit, &b);
    close(file);
    if (status != TW_OK) {
        tw_free(b.data);
        return status;
    }
    *data = b.data;
    *bytes = b.bytes;
    return TW_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static tw_status write_all(const char *path, int file, const void *data, size_t bytes)
{
    const char *next = data;
    while (bytes > 0) {
        ssize_t n = write(file, next, bytes);
        if (n < 0 && errno != EINTR) return fail_errno("write", path, errno);
        if (n > 0) {
            next += n;
            bytes -= (size_t)n;
        }
    }
    return TW_OK;
}

/* Some file systems and devices cannot synchronise and say EINVAL; there is no more to be done. */
static tw_status sync_file(const char *path, int file)
{
    while (fsync(file) != 0) {
        if (errno == EINVAL || errno == ENOTSUP) return TW_OK;
        if (errno != EINTR) return fail_errno("write", path, errno);
    }
    return TW_OK;
}

static tw_status write_and_close(const char *path, int file, const void *data, size_t bytes)
{
    tw_status status = write_all(path, file, data, bytes);
    if (status == TW_OK) status = sync_file(path, file);
    /* After EINTR the descriptor is closed all the same. */
    if (close(file) != 0 && errno != EINTR && status == TW_OK) {
        status = fail_errno("write", path, errno);
    }
    return status;
}

/* A rename lasts once the folder is on disk. */
static tw_status sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder) length = 0;
    memcpy(folder, path, length);
    strcpy(folder + length, length ? "" : ".");
    int file = open_file(folder, O_RDONLY | O_DIRECTORY, 0);
    if (file < 0) return TW_OK; /* a folder may be writable but not readable */
    tw_status status = sync_file(folder, file);
    close(file);
    return status;
}

/* Creates a file beside `path` under a name that nobody uses. */
static int create_beside(const char *path, char *name, size_t n)
{
    enum { ATTEMPTS = 100 };
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        unsigned stamp = (unsigned)tw_os_nanoseconds();
        int length = snprintf(name, n, "%s.%ld-%08x.tmp", path, (long)getpid(), stamp);
        if (length < 0 || (size_t)length >= n) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int file = open_file(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (file >= 0 || errno != EEXIST) return file;
    }
    return -1;
}

static tw_status replace(const char *path, const struct stat *old, const void *data, size_t bytes)
{
    char name[PATH_MAX];
    int file = create_beside(path, name, sizeof name);
    if (file < 0) return fail_errno("write", path, errno);
    /* Fails where modes mean nothing; the content matters more. */
    if (old && fchmod(file, old->st_mode & 07777) != 0) errno = 0;
    tw_status status = write_and_close(path, file, data, bytes);
    if (status == TW_OK && rename(name, path) != 0) status = fail_errno("write", path, errno);
    if (status != TW_OK) {
        unlink(name);
        return status;
    }
    return sync_folder_of(path);
}

tw_status tw_file_write(const char *path, const void *data, size_t bytes)
{
    struct stat old;
    if (stat(path, &old) != 0) return replace(path, NULL, data, bytes);
    if (!S_ISREG(old.st_mode)) { /* a device or a pipe: nothing to replace */
        int file = open_file(path, O_WRONLY, 0);
        if (file < 0) return fail_errno("write", path, errno);
        return write_and_close(path, file, data, bytes);
    }
    char target[PATH_MAX]; /* what a symbolic link points to is replaced, not the link */
    if (!realpath(path, target)) return fail_errno("write", path, errno);
    return replace(target, &old, data, bytes);
}

/* ---- Folders and the rest -------------------------------------------------------------------- */

bool tw_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

int64_t tw_file_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_size : -1;
}

static tw_status create_one(const char *path)
{
    struct stat info;
    if (mkdir(path, 0777) == 0) return TW_OK;
    int error = errno;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return TW_OK;
    return fail_errno("create the folder", path, error);
}

tw_status tw_folder_create(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    TW_REQUIRE(length > 0 && length < sizeof part, TW_INVALID_ARGUMENT,
               "tw_folder_create: the path has %zu bytes; it must have 1 to %zu", length,
               sizeof part - 1);
    memcpy(part, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        if (part[i] != '/') continue;
        part[i] = '\0';
        TW_TRY(create_one(part));
        part[i] = '/';
    }
    return create_one(part);
}

tw_status tw_cache_folder(char *path, size_t n)
{
    const char *own = getenv("TW_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;
    if (own && *own) {
        length = snprintf(path, n, "%s", own);
    } else if (xdg && *xdg == '/') { /* its specification ignores relative ones */
        length = snprintf(path, n, "%s/tilework", xdg);
    } else {
        TW_REQUIRE(home && *home, TW_NOT_FOUND,
                   "there is no folder for caches: set TW_CACHE, XDG_CACHE_HOME or HOME");
        length = snprintf(path, n, "%s/.cache/tilework", home);
    }
    TW_REQUIRE(
        length >= 0 &&
                (size_t)
                    length<n, TW_INVALID_ARGUMENT,
                           "tw_cache_folder: the path has %d bytes; the buffer has room for %zu",
                           length, n> 0
            ? n - 1
            : 0);
    return TW_OK;
}

bool tw_is_terminal(FILE *file) { return isatty(fileno(file)) == 1; }
