/* SPDX-License-Identifier: Apache-2.0 */
/* Downloads through libcurl: several mirrors, resumption, size and digest checks. */
#include <tilework/data.h>
#include <tilework/device.h>

#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/os.h"
#include "core/text.h"
#include "formats/sha256.h"

#define ATTEMPTS 4 /* at one mirror, as long as each brings new bytes */
#define STALL_BYTES 1000L

typedef struct transfer {
    const tw_download_options *options;
    int64_t limit;
    char *part; /* path of the unfinished file */
    FILE *file;
    int64_t resumed, bytes;  /* length of the part before this attempt, and now */
    int64_t began, reported; /* nanoseconds */
    tw_status status;        /* why a callback stopped the transfer */
    int error;               /* errno of a failed write */
    long response;           /* HTTP's code */
    tw_text reasons;         /* one for each mirror that failed */
} transfer;

/* ---- The part file --------------------------------------------------------------------------- */

static tw_status fail_write(const transfer *t, int error)
{
    bool full = error == ENOSPC || error == EFBIG;
    return tw_fail(full ? TW_DISK_FULL : TW_IO_ERROR, "cannot write '%s': %s", t->part,
                   strerror(error));
}

static tw_status open_part(transfer *t, bool afresh)
{
    int64_t there = tw_file_size(t->part);
    bool useless = there > t->limit;
    t->file = fopen(t->part, afresh || useless ? "wb" : "ab");
    if (!t->file) return fail_write(t, errno);
    t->resumed = afresh || useless || there < 0 ? 0 : there;
    t->bytes = t->resumed;
    t->status = TW_OK;
    t->error = 0;
    t->began = tw_os_nanoseconds();
    t->reported = 0;
    return TW_OK;
}

static tw_status close_part(transfer *t)
{
    int failed = fclose(t->file);
    int error = t->error ? t->error : errno;
    t->file = NULL;
    if (failed || t->error) {
        /* A part that could not be written whole has no known length. */
        remove(t->part);
        return fail_write(t, error);
    }
    if (t->bytes == 0) remove(t->part);
    return TW_OK;
}

static tw_status digest_of(const char *path, char digest[65])
{
    FILE *file = fopen(path, "rb");
    TW_REQUIRE(file, TW_IO_ERROR, "cannot read '%s': %s", path, strerror(errno));
    static const size_t chunk = 1 << 16;
    uint8_t *buffer = tw_malloc(chunk);
    tw_sha256_state state;
    tw_sha256_begin(&state);
    size_t n = 1;
    while (buffer && n) {
        n = fread(buffer, 1, chunk, file);
        tw_sha256_add(&state, buffer, n);
    }
    bool failed = ferror(file) != 0;
    fclose(file);
    tw_free(buffer);
    if (!buffer) return tw_fail_memory(chunk);
    TW_REQUIRE(!failed, TW_IO_ERROR, "cannot read '%s'", path);
    tw_sha256_end(&state, digest);
    return TW_OK;
}

/* Begins the reason why this mirror failed; the caller goes on writing. */
static tw_text *reason(transfer *t, const char *url)
{
    tw_text_add(&t->reasons, "%s%s: ", t->reasons.length ? "; " : "", url);
    return &t->reasons;
}

/* ---- libcurl's callbacks --------------------------------------------------------------------- */

static size_t on_data(char *data, size_t one, size_t n, void *user)
{
    transfer *t = user;
    (void)one;
    if ((int64_t)n > t->limit - t->bytes) {
        t->status = TW_BAD_FILE;
        return 0;
    }
    errno = 0;
    if (fwrite(data, 1, n, t->file) != n) {
        t->error = errno ? errno : EIO;
        t->status = TW_IO_ERROR;
        return 0;
    }
    t->bytes += (int64_t)n;
    return n;
}

/* false: the caller wants to stop. */
static bool report(const transfer *t, int64_t now, int64_t total)
{
    const tw_download_options *o = t->options;
    const char *slash = strrchr(o->path, '/');
    double seconds = (double)(now - t->began) * 1e-9;
    tw_progress progress = {.size = sizeof progress,
                            .what = slash ? slash + 1 : o->path,
                            .bytes = t->bytes,
                            .total = o->bytes ? o->bytes : total};
    if (seconds > 0) progress.rate = (double)(t->bytes - t->resumed) / seconds;
    return o->progress(o->user, &progress);
}

static int on_progress(void *user, curl_off_t total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    transfer *t = user;
    (void)down;
    (void)up_total;
    (void)up;
    int64_t now = tw_os_nanoseconds();
    if (t->reported && now - t->reported < 100000000) return 0;
    t->reported = now;
    if (report(t, now, total ? t->resumed + total : 0)) return 0;
    t->status = TW_INTERRUPTED;
    return 1;
}

/* ---- One attempt ----------------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    int length = 0;
    unsigned a, b, c, d;
    if (strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0) return true;
    if (sscanf(host, "%3u.%3u.%3u.%3u%n", &a, &b, &c, &d, &length) != 4) return false;
    return host[length] == '\0' && a == 127 && b < 256 && c < 256 && d < 256;
}

/* Plain http is for tests and for a mirror on this machine: nothing protects it elsewhere. */
static tw_status check_url(const char *url, bool *loopback)
{
    char *scheme = NULL, *host = NULL;
    CURLU *parsed = curl_url();
    if (!parsed) return tw_fail_memory(1);
    bool valid = curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
                 curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                 curl_url_get(parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK;
    bool http = valid && strcmp(scheme, "http") == 0;
    *loopback = http && is_loopback(host);
    valid = valid && (strcmp(scheme, "https") == 0 || *loopback);
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(parsed);
    TW_REQUIRE(valid, TW_INVALID_ARGUMENT,
               "'%s' must be an https address, or http to a loopback address", url);
    return TW_OK;
}

static void set_limits(CURL *curl, const tw_download_options *o)
{
    long stall = o->stall_seconds > 0 ? o->stall_seconds : 30;
    long total = o->total_seconds > 0 ? o->total_seconds : 6 * 3600;
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, stall);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, stall);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, total);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, (long)CURLPROTO_HTTPS);
#endif
}

static void set_transfer(CURL *curl, transfer *t, const char *url, bool loopback)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "tilework");
    if (loopback) curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->resumed);
    if (!t->options->progress) return;
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
}

/* Appends to the part what the mirror sends. *code tells how the transfer ended; the status is for
 * what no other mirror can mend. */
static tw_status attempt(transfer *t, const char *url, bool afresh, CURLcode *code)
{
    bool loopback;
    TW_TRY(check_url(url, &loopback));
    TW_TRY(open_part(t, afresh));
    if (t->options->bytes && t->bytes == t->options->bytes) {
        *code = CURLE_OK; /* all there: a crash came between the last byte and the check */
        return close_part(t);
    }
    CURL *curl = curl_easy_init();
    if (curl) {
        char message[CURL_ERROR_SIZE] = "";
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
        set_limits(curl, t->options);
        set_transfer(curl, t, url, loopback);
        *code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &t->response);
        curl_easy_cleanup(curl);
        if (*code != CURLE_OK && t->status == TW_OK) {
            tw_text_add(reason(t, url), "%s", message[0] ? message : curl_easy_strerror(*code));
        }
    }
    TW_TRY(close_part(t));
    if (!curl) return tw_fail_memory(1);
    if (t->status == TW_INTERRUPTED) {
        return tw_fail(TW_INTERRUPTED, "the download of '%s' was stopped", t->options->path);
    }
    return TW_OK;
}

/* ---- Mirrors --------------------------------------------------------------------------------- */

/* Checks size and digest; a wrong file is removed, with a reason. */
static tw_status check_part(transfer *t, const char *url, bool *right)
{
    const tw_download_options *o = t->options;
    char digest[65];
    *right = true;
    if (t->bytes == 0) {
        *right = false;
        tw_text_add(reason(t, url), "an empty file came");
    } else if (o->bytes && t->bytes != o->bytes) {
        *right = false;
        tw_text_add(reason(t, url), "%lld bytes came instead of %lld", (long long)t->bytes,
                    (long long)o->bytes);
    } else if (o->sha256) {
        TW_TRY(digest_of(t->part, digest));
        *right = strcmp(digest, o->sha256) == 0;
        if (!*right) {
            tw_text_add(reason(t, url), "the SHA-256 is %s instead of %s", digest, o->sha256);
        }
    }
    if (!*right) remove(t->part);
    return TW_OK;
}

/* This mirror cannot continue the part: it knows no ranges, or has a shorter file (416). */
static bool cannot_resume(const transfer *t, CURLcode code)
{
    return code == CURLE_RANGE_ERROR || code == CURLE_BAD_DOWNLOAD_RESUME ||
           (code == CURLE_HTTP_RETURNED_ERROR && t->response == 416);
}

/* All attempts at one mirror. */
static tw_status try_mirror(transfer *t, const char *url, bool *right)
{
    bool afresh = false;
    *right = false;
    for (int i = 0; i < ATTEMPTS && !*right; i++) {
        CURLcode code = CURLE_FAILED_INIT;
        TW_TRY(attempt(t, url, afresh, &code));
        bool resumed = t->resumed > 0, gained = t->bytes > t->resumed;
        if (t->status == TW_BAD_FILE) {
            tw_text_add(reason(t, url), "more than %lld bytes came", (long long)t->limit);
            remove(t->part);
            gained = false;
        } else if (code == CURLE_OK) {
            TW_TRY(check_part(t, url, right));
            gained = false;
        }
        /* The part may have been another mirror's, or damaged: once from the beginning. */
        bool stale = resumed && !*right &&
                     (t->status == TW_BAD_FILE || code == CURLE_OK || cannot_resume(t, code));
        if (!gained && !stale) break;
        afresh = stale;
    }
    return TW_OK;
}

static tw_status try_mirrors(transfer *t)
{
    const tw_download_options *o = t->options;
    for (int32_t i = 0; i < o->n_urls; i++) {
        bool right;
        TW_TRY(try_mirror(t, o->urls[i], &right));
        if (!right) continue;
        if (o->progress) report(t, tw_os_nanoseconds(), 0);
        /* Not synchronised first: what a crash could lose here, a new download brings back. */
        TW_REQUIRE(rename(t->part, o->path) == 0, TW_IO_ERROR, "cannot rename '%s' to '%s': %s",
                   t->part, o->path, strerror(errno));
        return TW_OK;
    }
    TW_TRY(tw_text_status(&t->reasons));
    return tw_fail(TW_NETWORK, "'%s' could not be downloaded: %s", o->path, t->reasons.data);
}

static tw_status start_curl(void)
{
    static tw_mutex mutex;
    static bool started;
    tw_os_lock(&mutex);
    if (!started) started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    bool ready = started;
    tw_os_unlock(&mutex);
    TW_REQUIRE(ready, TW_NETWORK, "libcurl could not be initialised");
    return TW_OK;
}

static tw_status check_options(const tw_download_options *o)
{
    TW_REQUIRE(o && o->path && o->urls && o->n_urls > 0, TW_INVALID_ARGUMENT,
               "options needs a path and one address or more");
    TW_REQUIRE(o->bytes >= 0 && o->limit >= 0, TW_INVALID_ARGUMENT,
               "bytes is %lld and limit %lld; they must be from 0 on", (long long)o->bytes,
               (long long)o->limit);
    TW_REQUIRE(!o->sha256 || strspn(o->sha256, "0123456789abcdef") == 64, TW_INVALID_ARGUMENT,
               "sha256 must be 64 lower-case hexadecimal digits or NULL");
    for (int32_t i = 0; i < o->n_urls; i++) {
        bool loopback;
        TW_REQUIRE(o->urls[i], TW_INVALID_ARGUMENT, "urls[%d] is NULL", i);
        TW_TRY(check_url(o->urls[i], &loopback));
    }
    return TW_OK;
}

tw_status tw_download(const tw_download_options *options)
{
    TW_TRY(check_options(options));
    TW_TRY(start_curl());
    int64_t limit = options->limit ? options->limit : TW_FILE_LIMIT;
    transfer t = {.options = options, .limit = options->bytes ? options->bytes : limit};
    size_t length = strlen(options->path) + sizeof ".part";
    t.part = tw_malloc(length);
    if (!t.part) return tw_fail_memory(length);
    snprintf(t.part, length, "%s.part", options->path);
    tw_status status = try_mirrors(&t);
    tw_text_free(&t.reasons);
    tw_free(t.part);
    return status;
}
