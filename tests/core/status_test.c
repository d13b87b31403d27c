/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/error.h"
#include "core/log.h"
#include "core/os.h"

static void names(void **state)
{
    (void)state;
    assert_string_equal(tw_status_name(TW_OK), "TW_OK");
    assert_string_equal(tw_status_name(TW_DISK_FULL), "TW_DISK_FULL");
    assert_string_equal(tw_status_name(TW_INTERNAL), "TW_INTERNAL");
    for (int i = 0; i <= TW_INTERNAL; i++) {
        assert_string_not_equal(tw_status_name((tw_status)i), "TW_UNKNOWN");
    }
    assert_string_equal(tw_status_name((tw_status)(TW_INTERNAL + 1)), "TW_UNKNOWN");
    assert_string_equal(tw_status_name((tw_status)-1), "TW_UNKNOWN");
}

static void version(void **state)
{
    (void)state;
    int v = tw_version();
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    assert_string_equal(tw_version_text(), text);
}

static tw_status require(int n)
{
    TW_REQUIRE(n > 0, TW_INVALID_ARGUMENT, "n is %d; it must be positive", n);
    return TW_OK;
}

static tw_status handed_on(int n)
{
    TW_TRY(require(n));
    return TW_NOT_FOUND;
}

static void sentences(void **state)
{
    (void)state;
    assert_int_equal(require(1), TW_OK);
    assert_int_equal(handed_on(1), TW_NOT_FOUND);
    assert_int_equal(handed_on(-3), TW_INVALID_ARGUMENT);
    assert_string_equal(tw_last_error(), "n is -3; it must be positive");
    assert_int_equal(tw_fail(TW_BAD_FILE, "reading: %s", tw_last_error()), TW_BAD_FILE);
    assert_string_equal(tw_last_error(), "reading: n is -3; it must be positive");
    assert_int_equal(tw_fail(TW_INTERNAL, "%*d", 5000, 1), TW_INTERNAL);
    assert_int_equal(strlen(tw_last_error()), 1023);
    assert_int_equal(tw_fail_memory(123), TW_OUT_OF_MEMORY);
    assert_non_null(strstr(tw_last_error(), "123"));
}

/* ---- One sentence for each thread ------------------------------------------------------------ */

enum { THREADS = 8, ROUNDS = 2000 };

typedef struct worker {
    int id;
    bool empty_first, own_always;
} worker;

static void fail_often(void *arg)
{
    worker *w = arg;
    w->empty_first = tw_last_error()[0] == '\0';
    w->own_always = true;
    for (int i = 0; i < ROUNDS; i++) {
        char want[64];
        snprintf(want, sizeof want, "thread %d round %d", w->id, i);
        tw_fail(TW_INTERNAL, "thread %d round %d", w->id, i);
        if (i % 64 == 0) tw_os_yield();
        if (strcmp(tw_last_error(), want) != 0) w->own_always = false;
    }
}

static void each_thread_has_its_own(void **state)
{
    (void)state;
    worker workers[THREADS] = {{0}};
    tw_thread *threads[THREADS];
    tw_fail(TW_NOT_FOUND, "the main thread's");
    for (int i = 0; i < THREADS; i++) {
        workers[i].id = i;
        assert_int_equal(tw_os_thread_start(fail_often, &workers[i], &threads[i]), TW_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        tw_os_thread_join(threads[i]);
        assert_true(workers[i].empty_first);
        assert_true(workers[i].own_always);
    }
    assert_string_equal(tw_last_error(), "the main thread's");
}

/* ---- The log --------------------------------------------------------------------------------- */

typedef struct heard {
    int lines;
    uint32_t topic;
    char last[4096];
} heard;

static void listen(void *user, uint32_t topic, const char *line)
{
    heard *h = user;
    h->lines++;
    h->topic = topic;
    snprintf(h->last, sizeof h->last, "%s", line);
}

static void log_by_topic(void **state)
{
    (void)state;
    heard h = {0};
    tw_log(TW_LOG_RUN, "to nobody");
    assert_true(tw_log_wanted(TW_LOG_IO)); /* from TW_LOG, see main */
    assert_false(tw_log_wanted(TW_LOG_RUN));
    tw_set_log(TW_LOG_PLAN | TW_LOG_ERROR, listen, &h);
    tw_log(TW_LOG_PLAN, "row %d", 7);
    assert_int_equal(h.lines, 1);
    assert_int_equal(h.topic, TW_LOG_PLAN);
    assert_string_equal(h.last, "row 7");
    tw_log(TW_LOG_RUN, "unwanted");
    assert_int_equal(h.lines, 1);
    tw_log(TW_LOG_IO, "wanted by TW_LOG");
    assert_int_equal(h.lines, 2);
    tw_fail(TW_NOT_FOUND, "no such thing");
    assert_int_equal(h.topic, TW_LOG_ERROR);
    assert_string_equal(h.last, "TW_NOT_FOUND: no such thing");
    tw_log(TW_LOG_PLAN, "%*d", 100000, 1);
    assert_int_equal(h.lines, 4);
    tw_set_log(0, NULL, NULL);
    tw_fail(TW_NOT_FOUND, "unheard");
    assert_int_equal(h.lines, 4);
}

int main(void)
{
    setenv("TW_LOG", "nonsense,io,", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),        cmocka_unit_test(version),
        cmocka_unit_test(sentences),    cmocka_unit_test(each_thread_has_its_own),
        cmocka_unit_test(log_by_topic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
