/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/text.h"

static void appends(void **state)
{
    (void)state;
    tw_text text = {0};
    assert_int_equal(tw_text_status(&text), TW_OK);
    tw_text_add(&text, "%s", "");
    assert_string_equal(text.data, "");
    for (int i = 0; i < 2000; i++) tw_text_add(&text, "%d,", i % 10);
    assert_int_equal(tw_text_status(&text), TW_OK);
    assert_int_equal(text.length, 4000);
    assert_int_equal(strlen(text.data), 4000);
    for (size_t i = 0; i < 4000; i += 2) {
        assert_int_equal(text.data[i], '0' + (int)(i / 2 % 10));
        assert_int_equal(text.data[i + 1], ',');
    }
    tw_text_free(&text);
    assert_null(text.data);
    tw_text_add(&text, "%*d", 10000, 7); /* longer than any doubling of nothing */
    assert_int_equal(text.length, 10000);
    assert_string_equal(text.data + 9998, " 7");
    tw_text_free(&text);
}

/* Lengths around each capacity: the byte for the end is counted. */
static void every_length(void **state)
{
    (void)state;
    for (int n = 0; n < 70; n++) {
        tw_text text = {0};
        tw_text_add(&text, "%*s", n, "");
        tw_text_add(&text, "ab");
        assert_int_equal(text.length, n + 2);
        assert_string_equal(text.data + n, "ab");
        tw_text_free(&text);
    }
}

static bool refuse;

static void *maybe_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    size_t total = (bytes + alignment - 1) / alignment * alignment;
    return refuse ? NULL : aligned_alloc(alignment, total);
}

static void plain_free(void *user, void *pointer, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(pointer);
}

static void breaks_for_good(void **state)
{
    (void)state;
    tw_allocator allocator = {maybe_allocate, plain_free, NULL};
    assert_int_equal(tw_set_allocator(&allocator), TW_OK);
    tw_text text = {0};
    tw_text_add(&text, "kept");
    refuse = true;
    tw_text_add(&text, "%*d", 1000, 1);
    refuse = false;
    tw_text_add(&text, "more");
    assert_int_equal(tw_text_status(&text), TW_OUT_OF_MEMORY);
    assert_string_equal(text.data, "kept");
    tw_text_free(&text);
    assert_int_equal(tw_set_allocator(NULL), TW_OK);
}

static void nearest_name(void **state)
{
    (void)state;
    const char *const names[] = {"relu", "relu6", "gelu", "sigmoid", "softmax"};
    assert_string_equal(tw_nearest("sigmod", 5, names), "sigmoid");
    assert_string_equal(tw_nearest("gleu", 5, names), "gelu");
    assert_string_equal(tw_nearest("relu6", 5, names), "relu6");
    assert_string_equal(tw_nearest("", 5, names), "relu");
    assert_null(tw_nearest("relu", 0, names));
    char longer[300];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    const char *const two[] = {"relu", longer};
    assert_ptr_equal(tw_nearest(longer, 2, two), longer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends),
        cmocka_unit_test(every_length),
        cmocka_unit_test(breaks_for_good),
        cmocka_unit_test(nearest_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
