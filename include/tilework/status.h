/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and the sentence that goes with a failure. */
#ifndef TILEWORK_STATUS_H
#define TILEWORK_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* TW_API marks what the shared library exports; the list itself is cmake/exports.txt. */
#if defined(_WIN32) && defined(TW_SHARED)
#    ifdef TW_BUILDING
#        define TW_API __declspec(dllexport)
#    else
#        define TW_API __declspec(dllimport)
#    endif
#elif defined(__GNUC__)
#    define TW_API __attribute__((visibility("default")))
#else
#    define TW_API
#endif

#if defined(__MINGW32__)
#    define TW_PRINTF(fmt, args) __attribute__((format(gnu_printf, fmt, args)))
#elif defined(__GNUC__)
#    define TW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#    define TW_PRINTF(fmt, args)
#endif

/* What a call can return. Values never change; new ones are added at the end. */
typedef enum tw_status {
    TW_OK = 0,
    TW_INVALID_ARGUMENT = 1,    /* the call itself is wrong; the sentence names the argument */
    TW_NOT_SUPPORTED = 2,       /* well-formed, but an option forbids it (no_reference, a kernel) */
    TW_OUT_OF_MEMORY = 3,       /* host or device memory is exhausted */
    TW_WORKSPACE_TOO_SMALL = 4, /* the sentence names the bytes that are needed */
    TW_NOT_FOUND = 5,           /* a file, a name, a kernel or a tensor that is not there */
    TW_IO_ERROR = 6,            /* the operating system refused to read or write */
    TW_BAD_FILE = 7,            /* a file's content is damaged; the sentence has the byte offset */
    TW_DISK_FULL = 8,           /* no space left; the old file, if any, is untouched */
    TW_NETWORK = 9,             /* a download failed */
    TW_NO_DRIVER = 10,          /* no GPU driver, or one that is too old */
    TW_DEVICE_LOST = 11,        /* a fault on the device; work goes on in a new context */
    TW_NOT_USABLE_AFTER_FORK = 12,
    TW_INTERRUPTED = 13,      /* the caller asked to stop */
    TW_VERSION_MISMATCH = 14, /* a saved object of another format version */
    TW_INTERNAL = 15          /* a defect of the library: please report it */
} tw_status;

/* The name of a status, such as "TW_OUT_OF_MEMORY"; "TW_UNKNOWN" for other numbers. Static
 * storage. */
TW_API const char *tw_status_name(tw_status status);

/* The sentence that explains the last failure on the calling thread: the argument, its value, the
 * rule and what would be accepted. Empty when nothing failed yet. Valid until the thread's next
 * failing call. */
TW_API const char *tw_last_error(void);

/* Sets the thread's sentence and returns `status`: for code that extends the library (formats,
 * training, bindings). At most 1,023 bytes are kept. */
TW_API tw_status tw_fail(tw_status status, const char *format, ...) TW_PRINTF(2, 3);

/* Library version as 10000*major + 100*minor + patch, and as text. */
#define TW_VERSION 100
TW_API int tw_version(void);
TW_API const char *tw_version_text(void);

#ifdef __cplusplus
}
#endif
#endif
