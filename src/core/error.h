/* SPDX-License-Identifier: Apache-2.0 */
/* The two macros that every fallible function is written with. */
#ifndef TW_CORE_ERROR_H
#define TW_CORE_ERROR_H

#include <tilework/status.h>

/* Tells the compiler what it cannot see: a failure is never TW_OK, so what a failed call would have
 * set is not read afterwards. */
static inline tw_status tw_never_ok(tw_status status)
{
#if defined(__GNUC__)
    if (status == TW_OK) __builtin_unreachable();
#endif
    return status;
}
#define tw_fail(...) tw_never_ok(tw_fail(__VA_ARGS__))

/* Returns `status` from the enclosing function, leaving a sentence, unless `condition` holds. */
#define TW_REQUIRE(condition, status, ...)                                                         \
    do {                                                                                           \
        if (!(condition)) return tw_fail((status), __VA_ARGS__);                                   \
    } while (0)

/* Hands a failure of `expression` on to the caller. */
#define TW_TRY(expression)                                                                         \
    do {                                                                                           \
        tw_status tw_try_status = (expression);                                                    \
        if (tw_try_status != TW_OK) return tw_try_status;                                          \
    } while (0)

/* The same in functions that clean up at `out`; they declare `tw_status status`. */
#define TW_TRY_OUT(expression)                                                                     \
    do {                                                                                           \
        if ((status = (expression)) != TW_OK) goto out;                                            \
    } while (0)

#define tw_fail_memory(bytes) tw_never_ok(tw_fail_memory(bytes))
tw_status(tw_fail_memory)(size_t bytes); /* TW_OUT_OF_MEMORY with the usual sentence */

#endif
