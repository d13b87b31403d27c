/* SPDX-License-Identifier: Apache-2.0 */
/* The GEMM core on every target of this machine: small integers, so that every sum is exact, in
 * buffers of exactly the bytes that it may touch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tile/cpu/brgemm.h"
#include <tilework/device.h>

typedef struct target {
    const char *name;
    tw_brgemm_fn run;
    int64_t rows, cols;
    tw_isa isa;
} target;

static const target targets[] = {
#if defined(__x86_64__)
    {"avx512", tw_brgemm_f32__avx512, 14, 32, TW_ISA_AVX512},
    {"avx2", tw_brgemm_f32__avx2, 6, 16, TW_ISA_AVX2},
    {"sse2", tw_brgemm_f32__sse2, 4, 8, TW_ISA_BASELINE},
#elif defined(__aarch64__)
    {"neon", tw_brgemm_f32__neon, 12, 8, TW_ISA_BASELINE},
#endif
    {NULL, NULL, 0, 0, TW_ISA_BASELINE}};

typedef struct shape {
    int64_t rows, cols, k, n_batch;
    bool unit_row, panels, accumulate;
} shape;

enum { MAX_BATCH = 3 };

/* The last element of a buffer is its last four bytes: a sanitizer sees any read beyond it. */
static float *make(int64_t n, uint32_t seed)
{
    float *p = malloc((size_t)(n > 0 ? n : 1) * sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(int32_t)(seed >> 24) - 128.0f;
    }
    return p;
}

static float expected(const tw_brgemm *job, int64_t m, int64_t n, int64_t panel, float before)
{
    double sum = job->accumulate ? (double)before : 0.0;
    for (int64_t i = 0; i < job->n_batch; i++)
        for (int64_t k = 0; k < job->k; k++) {
            const int64_t at = job->b_panel ? n / panel * job->b_panel + n % panel : n;
            sum += (double)job->a[i][m * job->a_row + k * job->a_col] *
                   (double)job->b[i][k * job->b_row + at];
        }
    return (float)sum;
}

static void check(const target *t, shape s)
{
    const int64_t padded = (s.cols + t->cols - 1) / t->cols * t->cols;
    const int64_t b_row = s.panels ? t->cols : s.cols + 3, c_row = s.cols + 2;
    const int64_t a_row = s.unit_row ? 1 : s.k + 1, a_col = s.unit_row ? s.rows + 1 : 1;
    const int64_t n_a = s.rows > 0 && s.k > 0 ? (s.rows - 1) * a_row + (s.k - 1) * a_col + 1 : 0;
    const int64_t n_b = s.panels ? padded * s.k : s.k > 0 ? (s.k - 1) * b_row + s.cols : 0;
    const int64_t n_c = s.rows > 0 ? (s.rows - 1) * c_row + s.cols : 0;
    float *a[MAX_BATCH], *b[MAX_BATCH], *c = make(n_c, 7), *before = make(n_c, 7);
    for (int i = 0; i < MAX_BATCH; i++) {
        a[i] = make(n_a, 100u + (uint32_t)i);
        b[i] = make(n_b, 200u + (uint32_t)i);
    }
    const tw_brgemm job = {.rows = s.rows,
                           .cols = s.cols,
                           .k = s.k,
                           .a_row = a_row,
                           .a_col = a_col,
                           .b_row = b_row,
                           .c_row = c_row,
                           .b_panel = s.panels ? t->cols * s.k : 0,
                           .b_padded = s.panels,
                           .n_batch = s.n_batch,
                           .a = (const float *const *)a,
                           .b = (const float *const *)b,
                           .c = c,
                           .accumulate = s.accumulate};
    t->run(&job);
    for (int64_t i = 0; i < n_c; i++) {
        const int64_t m = i / c_row, n = i % c_row;
        const float want = n < s.cols ? expected(&job, m, n, t->cols, before[i]) : before[i];
        if (!(c[i] == want))
            fail_msg("%s rows=%d cols=%d k=%d batch=%d unit=%d panels=%d accumulate=%d: "
                     "c[%d, %d] is %g, want %g",
                     t->name, (int)s.rows, (int)s.cols, (int)s.k, (int)s.n_batch, s.unit_row,
                     s.panels, s.accumulate, (int)m, (int)n, (double)c[i], (double)want);
    }
    for (int i = 0; i < MAX_BATCH; i++) free(a[i]), free(b[i]);
    free(c), free(before);
}

enum { FORMS = 8, BATCHES = MAX_BATCH + 1 };

static void check_forms(const target *t, int64_t rows, int64_t cols, int64_t k)
{
    for (int form = 0; form < FORMS * BATCHES; form++)
        check(t, (shape){rows, cols, k, form / FORMS, (form & 1) != 0, (form & 2) != 0,
                         (form & 4) != 0});
}

static void check_target(const target *t)
{
    const int64_t half = t->cols / 2;
    const int64_t cols[] = {
        0, 1, half - 1, half, half + 1, t->cols - 1, t->cols, t->cols + 1, 2 * t->cols + half + 2};
    static const int64_t depths[] = {0, 1, 2, 5};
    for (int64_t rows = 0; rows <= 2 * t->rows + 1; rows++)
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
            for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
                check_forms(t, rows, cols[c], depths[d]);
}

/* Every row count up to two tiles, columns about each edge, all forms of A and B. */
static void test_edges(void **state)
{
    (void)state;
    for (const target *t = targets; t->name; t++)
        if (tw_cpu_isa() >= t->isa) check_target(t);
}

/* NaN and infinity reach every element that depends on them, and no other. */
static void test_specials(void **state)
{
    (void)state;
    for (const target *t = targets; t->name; t++) {
        if (tw_cpu_isa() < t->isa) continue;
        enum { ROWS = 5, COLS = 9, K = 4 };
        float a[ROWS * K] = {0}, b[K * COLS], c[ROWS * COLS];
        const float *const pa = a, *const pb = b;
        for (int i = 0; i < K * COLS; i++) b[i] = 1.0f;
        const uint32_t bits = 0x7f800000u; /* +inf; 0·inf is NaN */
        memcpy(&b[2 * COLS + 8], &bits, sizeof bits);
        const tw_brgemm job = {.rows = ROWS,
                               .cols = COLS,
                               .k = K,
                               .a_row = K,
                               .a_col = 1,
                               .b_row = COLS,
                               .c_row = COLS,
                               .n_batch = 1,
                               .a = &pa,
                               .b = &pb,
                               .c = c};
        t->run(&job);
        for (int i = 0; i < ROWS * COLS; i++)
            if (i % COLS == COLS - 1)
                assert_true(c[i] != c[i]);
            else
                assert_true(c[i] == 0.0f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_edges),
                                       cmocka_unit_test(test_specials)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
