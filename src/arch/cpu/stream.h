/* SPDX-License-Identifier: Apache-2.0 */
/* Stores that bypass the caches: for results too large to be found there again. They save reading
 * each line before it is overwritten. */
#ifndef TW_ARCH_CPU_STREAM_H
#define TW_ARCH_CPU_STREAM_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#    include <emmintrin.h>

static inline void tw_stream_line(void *to, const void *from)
{
    for (int i = 0; i < 4; i++)
        _mm_stream_si128((__m128i *)to + i, _mm_loadu_si128((const __m128i *)from + i));
}
/* Orders streamed stores before what other threads are told of them. */
static inline void tw_stream_fence(void) { _mm_sfence(); }

#else

static inline void tw_stream_line(void *to, const void *from) { memcpy(to, from, 64); }
static inline void tw_stream_fence(void) {}

#endif

/* Copies, with whole lines streamed; the ranges do not overlap. A fence must follow. */
static inline void tw_stream_copy(char *to, const char *from, int64_t bytes)
{
    int64_t head = (int64_t)(-(uintptr_t)to & 63), at;
    if (head > bytes) head = bytes;
    memcpy(to, from, (size_t)head);
    for (at = head; at + 64 <= bytes; at += 64) tw_stream_line(to + at, from + at);
    memcpy(to + at, from + at, (size_t)(bytes - at));
}

#endif
