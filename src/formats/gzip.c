/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking gzip into memory that grows as the content does, never beyond the limit. */
#include "formats/bytes.h"

#include <zlib.h>

#include "core/alloc.h"
#include "core/error.h"

#define CHUNK ((size_t)1 << 30) /* zlib counts in unsigned int */

typedef struct unpacking {
    z_stream z;
    const uint8_t *src;
    size_t n_src, src_done; /* src_done: bytes given to zlib */
    uint8_t *dst;
    size_t capacity, length, limit;
} unpacking;

void *tw_zlib_allocate(void *user, unsigned items, unsigned bytes)
{
    (void)user;
    if (bytes && items > SIZE_MAX / bytes) return NULL;
    return tw_malloc((size_t)items * bytes);
}

void tw_zlib_free(void *user, void *pointer)
{
    (void)user;
    tw_free(pointer);
}

static size_t offset_of(const unpacking *u) { return u->src_done - u->z.avail_in; }

static tw_status grow(unpacking *u)
{
    TW_REQUIRE(u->capacity < u->limit, TW_BAD_FILE,
               "byte %zu: the unpacked content exceeds the limit of %zu bytes", offset_of(u),
               u->limit);
    size_t wanted = u->capacity ? u->capacity : 32768;
    wanted = wanted > u->limit / 2 ? u->limit : wanted * 2;
    uint8_t *larger = tw_malloc(wanted);
    if (!larger) return tw_fail_memory(wanted);
    if (u->length) memcpy(larger, u->dst, u->length);
    tw_free(u->dst);
    u->dst = larger;
    u->capacity = wanted;
    return TW_OK;
}

/* One call of inflate; *ended tells the end of a member. At a full buffer of exactly `limit` bytes
 * one spare byte tells whether there is more. */
static tw_status step(unpacking *u, bool *ended)
{
    uint8_t spare;
    bool probing = u->length == u->limit;
    if (!probing && u->length == u->capacity) TW_TRY(grow(u));
    if (u->z.avail_in == 0) {
        size_t n = u->n_src - u->src_done;
        u->z.next_in = (uint8_t *)(uintptr_t)(u->src + u->src_done);
        u->z.avail_in = (uInt)(n < CHUNK ? n : CHUNK);
        u->src_done += u->z.avail_in;
    }
    size_t room = probing ? 1 : u->capacity - u->length;
    if (room > CHUNK) room = CHUNK;
    u->z.next_out = probing ? &spare : u->dst + u->length;
    u->z.avail_out = (uInt)room;
    int code = inflate(&u->z, Z_NO_FLUSH);
    size_t produced = room - u->z.avail_out;
    TW_REQUIRE(!probing || produced == 0, TW_BAD_FILE,
               "byte %zu: the unpacked content exceeds the limit of %zu bytes", offset_of(u),
               u->limit);
    u->length += produced;
    *ended = code == Z_STREAM_END;
    if (code == Z_OK || code == Z_STREAM_END) return TW_OK;
    if (code == Z_MEM_ERROR) return tw_fail_memory(65536);
    TW_REQUIRE(code != Z_BUF_ERROR, TW_BAD_FILE, "byte %zu: the gzip stream is cut short",
               offset_of(u));
    return tw_fail(TW_BAD_FILE, "byte %zu: the gzip stream is damaged (%s)", offset_of(u),
                   u->z.msg ? u->z.msg : "bad header");
}

static tw_status unpack(unpacking *u)
{
    for (;;) {
        bool ended = false;
        while (!ended) TW_TRY(step(u, &ended));
        if (offset_of(u) == u->n_src) return TW_OK;
        if (inflateReset(&u->z) != Z_OK) return tw_fail(TW_INTERNAL, "zlib refused a reset");
    }
}

tw_status tw_gunzip(const void *bytes, size_t n_bytes, int64_t limit, void **data, size_t *n_data)
{
    TW_REQUIRE(bytes && data && n_data, TW_INVALID_ARGUMENT,
               "bytes, data and n_data must not be NULL");
    TW_TRY(tw_limit(limit, &limit));
    unpacking u = {.src = bytes, .n_src = n_bytes, .limit = (size_t)limit};
    u.z.zalloc = tw_zlib_allocate;
    u.z.zfree = tw_zlib_free;
    int code = inflateInit2(&u.z, 15 + 16); /* the largest window, gzip framing */
    if (code != Z_OK) return tw_fail_memory(65536);
    tw_status status = grow(&u);
    if (status == TW_OK) status = unpack(&u);
    inflateEnd(&u.z);
    if (status != TW_OK) {
        tw_free(u.dst);
        return status;
    }
    *data = u.dst;
    *n_data = u.length;
    return TW_OK;
}
