/* SPDX-License-Identifier: Apache-2.0 */
/* Paths are UTF-8 at the interface and UTF-16 towards the system. */
#include "core/file.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <io.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/os.h"

enum { WIDE_PATH = 4096 };

static tw_status fail_system(const char *what, const char *path, DWORD error)
{
    tw_status status = TW_IO_ERROR;
    if (error == ERROR_DISK_FULL || error == ERROR_HANDLE_DISK_FULL) status = TW_DISK_FULL;
    if (error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND) status = TW_NOT_FOUND;
    char reason[256];
    DWORD kind = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
    DWORD n = FormatMessageA(kind, NULL, error, 0, reason, sizeof reason, NULL);
    while (n > 0 && (reason[n - 1] == '\n' || reason[n - 1] == '\r')) n--;
    reason[n] = '\0';
    return tw_fail(status, "cannot %s '%s': %s (error %lu)", what, path, reason, error);
}

static tw_status widen(const char *path, wchar_t *wide)
{
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, WIDE_PATH);
    TW_REQUIRE(n > 0, TW_INVALID_ARGUMENT,
               "the path '%s' is not UTF-8, or longer than %d characters", path, WIDE_PATH - 1);
    return TW_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static DWORD piece(size_t bytes) { return bytes < (1u << 30) ? (DWORD)bytes : 1u << 30; }

static tw_status read_all(const char *path, HANDLE file, int64_t limit, void **data, size_t *bytes)
{
    LARGE_INTEGER size;
    if (!GetFileSizeEx(file, &size)) return fail_system("read", path, GetLastError());
    TW_REQUIRE(size.QuadPart <= limit, TW_BAD_FILE,
               "'%s' is larger than the %lld bytes that are read at most", path, (long long)limit);
    size_t total = (size_t)size.QuadPart, done = 0;
    char *memory = tw_malloc(total);
    if (!memory) return tw_fail_memory(total);
    while (done < total) {
        DWORD n = 0;
        if (!ReadFile(file, memory + done, piece(total - done), &n, NULL) || n == 0) {
            DWORD error = GetLastError();
            tw_free(memory);
            return fail_system("read", path, error);
        }
        done += n;
    }
    *data = memory;
    *bytes = total;
    return TW_OK;
}

tw_status tw_file_read(const char *path, int64_t limit, void **data, size_t *bytes)
{
    wchar_t wide[WIDE_PATH];
    TW_REQUIRE(limit >= 0, TW_INVALID_ARGUMENT, "tw_file_read: limit is %lld; it must be 0 or more",
               (long long)limit);
    TW_TRY(widen(path, wide));
    HANDLE file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL,
                              OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) return fail_system("open", path, GetLastError());
    tw_status status = read_all(path, file, limit, data, bytes);
    CloseHandle(file);
    return status;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static tw_status write_and_close(const char *path, HANDLE file, const void *data, size_t bytes)
{
    DWORD error = 0;
    for (size_t done = 0; done < bytes && error == 0;) {
        DWORD n = 0;
        if (!WriteFile(file, (const char *)data + done, piece(bytes - done), &n, NULL)) {
            error = GetLastError();
        }
        done += n;
    }
    if (error == 0 && !FlushFileBuffers(file)) error = GetLastError();
    CloseHandle(file);
    return error == 0 ? TW_OK : fail_system("write", path, error);
}

tw_status tw_file_write(const char *path, const void *data, size_t bytes)
{
    char name[WIDE_PATH];
    wchar_t wide[WIDE_PATH], wide_name[WIDE_PATH];
    TW_TRY(widen(path, wide));
    int length = snprintf(name, sizeof name, "%s.%lu-%08x.tmp", path, GetCurrentProcessId(),
                          (unsigned)tw_os_nanoseconds());
    TW_REQUIRE(length > 0 && (size_t)length < sizeof name, TW_INVALID_ARGUMENT,
               "the path '%s' is too long", path);
    TW_TRY(widen(name, wide_name));
    HANDLE file =
        CreateFileW(wide_name, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) return fail_system("write", path, GetLastError());
    tw_status status = write_and_close(path, file, data, bytes);
    DWORD how = MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH;
    if (status == TW_OK && !MoveFileExW(wide_name, wide, how)) {
        status = fail_system("write", path, GetLastError());
    }
    if (status != TW_OK) DeleteFileW(wide_name);
    return status;
}

/* ---- Folders and the rest -------------------------------------------------------------------- */

static bool attributes_of(const char *path, WIN32_FILE_ATTRIBUTE_DATA *info)
{
    wchar_t wide[WIDE_PATH];
    if (MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, WIDE_PATH) <= 0) return false;
    return GetFileAttributesExW(wide, GetFileExInfoStandard, info) != 0;
}

bool tw_file_exists(const char *path)
{
    WIN32_FILE_ATTRIBUTE_DATA info;
    return attributes_of(path, &info);
}

int64_t tw_file_size(const char *path)
{
    WIN32_FILE_ATTRIBUTE_DATA info;
    if (!attributes_of(path, &info)) return -1;
    return (int64_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow);
}

static tw_status create_one(const char *path)
{
    wchar_t wide[WIDE_PATH];
    TW_TRY(widen(path, wide));
    if (CreateDirectoryW(wide, NULL)) return TW_OK;
    DWORD error = GetLastError();
    WIN32_FILE_ATTRIBUTE_DATA info;
    bool there = attributes_of(path, &info) && (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY);
    return there ? TW_OK : fail_system("create the folder", path, error);
}

tw_status tw_folder_create(const char *path)
{
    char part[WIDE_PATH];
    size_t length = strlen(path);
    TW_REQUIRE(length > 0 && length < sizeof part, TW_INVALID_ARGUMENT,
               "tw_folder_create: the path has %zu bytes; it must have 1 to %zu", length,
               sizeof part - 1);
    memcpy(part, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        char separator = part[i];
        if ((separator != '/' && separator != '\\') || part[i - 1] == ':') continue;
        part[i] = '\0';
        TW_TRY(create_one(part));
        part[i] = separator;
    }
    return create_one(part);
}

tw_status tw_cache_folder(char *path, size_t n)
{
    const char *own = getenv("TW_CACHE"), *local = getenv("LOCALAPPDATA");
    int length;
    if (own && *own) {
        length = snprintf(path, n, "%s", own);
    } else {
        TW_REQUIRE(local && *local, TW_NOT_FOUND,
                   "there is no folder for caches: set TW_CACHE or LOCALAPPDATA");
        length = snprintf(path, n, "%s\\tilework\\cache", local);
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

bool tw_is_terminal(FILE *file) { return _isatty(_fileno(file)) != 0; }
