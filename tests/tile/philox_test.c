/* SPDX-License-Identifier: Apache-2.0 */
/* Philox against the known answers that its authors publish, and the mapping to numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tile/cpu/philox.h"

static void known_answers(void **state)
{
    (void)state;
    static const struct {
        tw_philox_words counter;
        uint32_t key[2];
        tw_philox_words want;
    } answers[] = {
        {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         {0xffffffff, 0xffffffff},
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {0xa4093822, 0x299f31d0},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        const tw_philox_words got =
            tw_philox_4x32_10(answers[i].counter, answers[i].key[0], answers[i].key[1]);
        assert_memory_equal(&got, &answers[i].want, sizeof got);
    }
}

/* The last known answer, spelled as seed, offset and index. */
static void streams_map_to_key_and_counter(void **state)
{
    (void)state;
    const tw_philox stream = {.seed = UINT64_C(0x299f31d0a4093822),
                              .offset = UINT64_C(0x0370734413198a2e)};
    const tw_philox_words got = tw_philox_group(stream, UINT64_C(0x85a308d3243f6a88));
    assert_int_equal(got.w[0], 0xd16cfe09);
    assert_int_equal(got.w[3], 0x24126ea1);

    const tw_philox zero = {0, 0};
    static const uint32_t first[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    for (int64_t i = 0; i < 4; i++) assert_int_equal(tw_philox_word(zero, i), first[i]);
    assert_int_equal(tw_philox_word(zero, 6), tw_philox_group(zero, 1).w[2]);
    const int64_t far = INT64_C(0x123456789abcd);
    assert_int_equal(tw_philox_word(zero, far), tw_philox_group(zero, (uint64_t)far / 4).w[1]);
}

static void uniform_ends(void **state)
{
    (void)state;
    assert_true(tw_philox_uniform(0) == 0.0f);
    assert_true(tw_philox_uniform(0xff) == 0.0f);
    assert_true(tw_philox_uniform(UINT32_MAX) == 1.0f - 0x1p-24f);
    assert_true(tw_philox_uniform_open(0) == 0x1p-24f);
    assert_true(tw_philox_uniform_open(UINT32_MAX) == 1.0f);
    assert_true(tw_philox_uniform_f64(UINT32_MAX) == 1.0 - 0x1p-32);
}

static void thresholds(void **state)
{
    (void)state;
    assert_true(tw_philox_threshold(0.0) == 0);
    assert_true(tw_philox_threshold(1.0) == UINT64_C(1) << 32);
    assert_true(tw_philox_threshold(0.5) == UINT64_C(1) << 31);
    assert_true(tw_philox_threshold(0x1.8p-32) == 2);
    assert_true(tw_philox_threshold(0x0.8p-32) == 0);
}

static void normal_pairs(void **state)
{
    (void)state;
    double pair[2];
    tw_philox_normal_pair(UINT32_MAX, 12345, pair); /* u = 1: radius 0 */
    assert_true(pair[0] == 0.0 && pair[1] == 0.0);
    tw_philox_normal_pair(0, 0, pair); /* u = 2^-32, angle 0 */
    const double radius = sqrt(64.0 * log(2.0));
    assert_true(fabs(pair[0] - radius) <= 4 * 0x1p-53 * radius);
    assert_true(pair[1] == 0.0);
    tw_philox_normal_pair(0x7fffffff, UINT32_C(1) << 30, pair); /* u = 1/2, a quarter turn */
    const double half = sqrt(2.0 * log(2.0));
    assert_true(fabs(pair[1] - half) <= 4 * 0x1p-53 * half);
    assert_true(fabs(pair[0]) <= 4 * 0x1p-53 * half);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers), cmocka_unit_test(streams_map_to_key_and_counter),
        cmocka_unit_test(uniform_ends),  cmocka_unit_test(thresholds),
        cmocka_unit_test(normal_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
