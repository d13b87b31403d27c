/* SPDX-License-Identifier: Apache-2.0 */
/* CPU levels, TW_MAX_ISA and the description of the machine. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cpu/cpu_info.h"

static const char *program;

/* Exit status of a child that could not run this program: under an emulator of its processor. */
enum { FOREIGN = 77 };

static void levels_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"baseline", "avx2", "avx512", "avx512bf16", "amx"};
    for (int i = 0; i < TW_ISA_END; i++) assert_string_equal(tw_isa_name((tw_isa)i), names[i]);
    assert_string_equal(tw_isa_name(TW_ISA_END), "unknown");
    assert_string_equal(tw_isa_name((tw_isa)-1), "unknown");
}

static tw_cpu_info describe(void)
{
    tw_cpu_info info = {.size = sizeof info};
    assert_int_equal(tw_cpu_describe(&info), TW_OK);
    return info;
}

static void description_is_plausible(void **state)
{
    (void)state;
    const tw_cpu_info info = describe();
    assert_true(info.detected >= TW_ISA_BASELINE && info.detected < TW_ISA_END);
    assert_true(info.used <= info.detected);
    assert_int_equal(info.used, tw_cpu_isa());
    assert_in_range(info.logical_cpus, 1, 1 << 20);
    assert_true(info.memory_bytes >= 1 << 20);
    assert_true(info.l1d_bytes == 0 || info.l1d_bytes >= 4096);
    assert_true(info.l2_bytes == 0 || info.l2_bytes >= info.l1d_bytes);
    assert_true(info.l3_bytes >= 0);
    assert_non_null(memchr(info.vendor, 0, sizeof info.vendor));
    assert_non_null(memchr(info.model, 0, sizeof info.model));
    assert_non_null(memchr(info.features, 0, sizeof info.features));
#if defined(__x86_64__)
    assert_non_null(strstr(info.features, "sse2"));
    assert_true(strlen(info.vendor) == 12);
    assert_int_equal(strstr(info.features, "avx2") != NULL, info.detected >= TW_ISA_AVX2);
    assert_int_equal(strstr(info.features, "amx_bf16") != NULL, info.detected >= TW_ISA_AMX);
#elif defined(__aarch64__)
    assert_string_equal(info.features, "neon");
    assert_int_equal(info.detected, TW_ISA_BASELINE);
#endif
}

/* The compiler's own detection, where there is one. */
static void detection_agrees_with_the_compiler(void **state)
{
    (void)state;
#if defined(__x86_64__)
    const tw_isa isa = describe().detected;
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    assert_int_equal(isa >= TW_ISA_AVX2, avx2);
    assert_int_equal(isa >= TW_ISA_AVX512, avx2 && avx512);
#else
    skip();
#endif
}

static void wrong_sizes_are_refused(void **state)
{
    (void)state;
    tw_cpu_info info = {.size = 0};
    assert_int_equal(tw_cpu_describe(&info), TW_INVALID_ARGUMENT);
    assert_non_null(strstr(tw_last_error(), "size is 0"));
    assert_int_equal(tw_cpu_describe(NULL), TW_INVALID_ARGUMENT);
}

static void features_follow_the_level(void **state)
{
    (void)state;
    const tw_isa used = tw_cpu_isa();
    assert_int_equal(tw_cpu_has(TW_CPU_AVX2), used >= TW_ISA_AVX2);
    assert_int_equal(tw_cpu_has(TW_CPU_AVX512BW), used >= TW_ISA_AVX512);
    assert_int_equal(tw_cpu_has(TW_CPU_AVX512_BF16), used >= TW_ISA_AVX512BF16);
    assert_int_equal(tw_cpu_has(TW_CPU_AMX_TILE), used >= TW_ISA_AMX);
    if (used < TW_ISA_AMX) assert_false(tw_cpu_request_amx());
    assert_int_equal(tw_cpu_request_amx(), tw_cpu_request_amx());
}

/* Runs this program again with TW_MAX_ISA set; what it prints is "<level in use> <error lines>". */
static void level_in_child(const char *max_isa, int *level, int *errors)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("TW_MAX_ISA", max_isa, 1);
        execl(program, program, "level", (char *)NULL);
        _exit(errno == ENOEXEC ? FOREIGN : 1);
    }
    close(ends[1]);
    FILE *answer = fdopen(ends[0], "r");
    assert_non_null(answer);
    const int read = fscanf(answer, "%d %d", level, errors);
    fclose(answer);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == FOREIGN) skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read, 2);
}

static void environment_lowers_the_level(void **state)
{
    (void)state;
    const int detected = (int)describe().detected;
    int level, errors;
    for (int limit = 0; limit < TW_ISA_END; limit++) {
        level_in_child(tw_isa_name((tw_isa)limit), &level, &errors);
        assert_int_equal(level, limit < detected ? limit : detected);
        assert_int_equal(errors, 0);
    }
    level_in_child("", &level, &errors);
    assert_int_equal(level, detected);
    assert_int_equal(errors, 0);
}

static void unknown_levels_are_reported_and_ignored(void **state)
{
    (void)state;
    int level, errors;
    level_in_child("AVX3", &level, &errors);
    assert_int_equal(level, describe().detected);
    assert_int_equal(errors, 1);
}

static void count_line(void *user, uint32_t topic, const char *line)
{
    int *errors = user;
    *errors += topic == TW_LOG_ERROR && strstr(line, "TW_MAX_ISA") != NULL;
}

static int print_level(void)
{
    int errors = 0;
    tw_set_log(TW_LOG_ERROR, count_line, &errors);
    int level = (int)tw_cpu_isa();
    setenv("TW_MAX_ISA", "baseline", 1);
    if (level != (int)tw_cpu_isa()) level = -1; /* it was read twice */
    return printf("%d %d\n", level, errors) > 0 && fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc > 1 && strcmp(argv[1], "level") == 0) return print_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_have_names),
        cmocka_unit_test(description_is_plausible),
        cmocka_unit_test(detection_agrees_with_the_compiler),
        cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(features_follow_the_level),
        cmocka_unit_test(environment_lowers_the_level),
        cmocka_unit_test(unknown_levels_are_reported_and_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
