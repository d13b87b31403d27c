/* SPDX-License-Identifier: Apache-2.0 */
/* Every cross-entropy kernel, the reference included, against formulas in long double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"

typedef struct shape {
    int32_t rank;
    int64_t dims[4], strides[4]; /* of the logits; strides[0] < 0: row-major */
} shape;

typedef struct setting {
    tw_dtype logits, labels;
    tw_reduction reduction;
    double smoothing;
    bool has_ignore;
} setting;

/* A problem with its tensors. Row r is position r of the logits without their class dim. */
typedef struct bench {
    shape shape;
    setting set;
    int64_t rows, classes, inner; /* inner: positions behind the class dim */
    th_tensor logits, labels, lse, dloss;
} bench;

enum { IGNORE = 2 };

static int64_t element(const bench *b, int64_t row, int64_t j)
{
    return (row / b->inner * b->classes + j) * b->inner + row % b->inner;
}

static bool indices(const bench *b) { return tw_dtype_is_integer(b->set.labels); }

static th_tensor make_rows(const bench *b, tw_dtype type, bool scalar)
{
    int64_t dims[4];
    int32_t rank = 0, class_dim = b->shape.rank > 1 ? 1 : 0;
    for (int32_t d = 0; !scalar && d < b->shape.rank; d++)
        if (d != class_dim) dims[rank++] = b->shape.dims[d];
    return th_make(type, rank, dims);
}

static th_tensor make_logits(const bench *b, tw_dtype type)
{
    return b->shape.strides[0] < 0
               ? th_make(type, b->shape.rank, b->shape.dims)
               : th_make_strided(type, b->shape.rank, b->shape.dims, b->shape.strides);
}

static bench make_bench(const shape *sh, const setting *set, uint64_t seed)
{
    bench b = {.shape = *sh, .set = *set, .rows = 1, .inner = 1};
    int32_t class_dim = sh->rank > 1 ? 1 : 0;
    b.classes = sh->dims[class_dim];
    for (int32_t d = 0; d < sh->rank; d++) {
        if (d != class_dim) b.rows *= sh->dims[d];
        if (d > class_dim) b.inner *= sh->dims[d];
    }
    b.logits = make_logits(&b, set->logits);
    th_fill_uniform(&b.logits, seed, -6, 6);
    if (indices(&b)) {
        b.labels = make_rows(&b, set->labels, false);
        th_fill_integers(&b.labels, seed + 1, 0, (int)b.classes - 1);
    } else {
        b.labels = th_make(set->labels, sh->rank, sh->dims);
        th_fill_uniform(&b.labels, seed + 1, 0, 1);
    }
    tw_dtype statistics = set->logits == TW_F64 ? TW_F64 : TW_F32;
    b.lse = make_rows(&b, statistics, false);
    b.dloss = make_rows(&b, statistics, set->reduction != TW_LOSS_NONE);
    th_fill_uniform(&b.dloss, seed + 2, 0.5, 2);
    return b;
}

static void free_bench(bench *b)
{
    th_free(&b->logits);
    th_free(&b->labels);
    th_free(&b->lse);
    th_free(&b->dloss);
}

static tw_cross_entropy_attrs attrs_of(const bench *b)
{
    return (tw_cross_entropy_attrs){.reduction = b->set.reduction,
                                    .smoothing = b->set.smoothing,
                                    .has_ignore = b->set.has_ignore,
                                    .ignore = IGNORE};
}

/* What is known of a row, in long double. */
typedef struct facts {
    long double top, log_sum, asked;
    bool ignored;
} facts;

static long double logit(const bench *b, int64_t row, int64_t j)
{
    return (long double)th_get(&b->logits, element(b, row, j));
}

static long double target(const bench *b, int64_t row, int64_t j)
{
    long double q = indices(b) ? th_get(&b->labels, row) == (double)j
                               : (long double)th_get(&b->labels, element(b, row, j));
    long double smoothing = (long double)b->set.smoothing;
    return (1 - smoothing) * q + smoothing / (long double)b->classes;
}

static facts measure(const bench *b, int64_t row)
{
    facts f = {.top = -(long double)INFINITY};
    long double sum = 0;
    for (int64_t j = 0; j < b->classes; j++) {
        long double x = logit(b, row, j);
        if (!isnan(f.top) && (isnan(x) || x > f.top)) f.top = x;
        f.asked += target(b, row, j);
    }
    for (int64_t j = 0; j < b->classes; j++) sum += expl(logit(b, row, j) - f.top);
    f.log_sum = logl(sum);
    f.ignored = indices(b) && b->set.has_ignore && th_get(&b->labels, row) == IGNORE;
    return f;
}

static long double count_rows(const bench *b)
{
    int64_t count = 0;
    for (int64_t r = 0; r < b->rows; r++)
        count += !(indices(b) && b->set.has_ignore && th_get(&b->labels, r) == IGNORE);
    return (long double)count;
}

static bool close_to(double got, long double want, long double allowed, const char *what, int64_t i)
{
    if (isnan(want) && isnan(got)) return true;
    if (isinf(want) && (long double)got == want) return true;
    if (isfinite(want) && fabsl((long double)got - want) <= allowed) return true;
    fprintf(stderr, "%s %lld: got %.9g, want %.12Lg, allowed %.3Lg\n", what, (long long)i, got,
            want, allowed);
    return false;
}

/* Each term log_sum - (x - top) is a few roundings of its parts; sums over classes add √C·u. */
static bool forward_right(const bench *b, const th_tensor *loss, const th_tensor *lse,
                          long double u_acc)
{
    long double u_out = (long double)tw_dtype_epsilon(loss->desc.dtype), total = 0, slack = 0;
    long double root = sqrtl((long double)b->classes);
    for (int64_t r = 0; r < b->rows; r++) {
        facts f = measure(b, r);
        long double want = 0, size = 1;
        for (int64_t j = 0; j < b->classes && !f.ignored; j++) {
            long double q = target(b, r, j), d = logit(b, r, j) - f.top;
            if (q == 0) continue;
            want += q * (f.log_sum - d);
            size += isfinite(d) ? q * (fabsl(f.log_sum) + fabsl(d)) : 0;
        }
        long double allowed = 4 * u_acc * (root + 2) * size;
        long double lse_want = isfinite(f.top) ? f.top + f.log_sum : f.top;
        if (lse &&
            !close_to(th_get(lse, r), lse_want, allowed + 4 * u_out * fabsl(lse_want), "lse", r))
            return false;
        total += want;
        slack += allowed;
        if (b->set.reduction == TW_LOSS_NONE &&
            !close_to(th_get(loss, r), want, allowed + 4 * u_out * fabsl(want), "loss", r))
            return false;
    }
    if (b->set.reduction == TW_LOSS_NONE) return true;
    long double scale = b->set.reduction == TW_LOSS_MEAN ? 1 / count_rows(b) : 1;
    return close_to(th_get(loss, 0), total * scale,
                    slack * scale + 4 * u_out * fabsl(total * scale), "loss", 0);
}

static bool backward_right(const bench *b, const th_tensor *dlogits, long double u_acc)
{
    long double u_out = (long double)tw_dtype_epsilon(dlogits->desc.dtype);
    long double root = sqrtl((long double)b->classes);
    long double least = dlogits->desc.dtype == TW_F16 ? 0x1p-24L : 0x1p-126L;
    for (int64_t r = 0; r < b->rows; r++) {
        facts f = measure(b, r);
        bool each = b->set.reduction == TW_LOSS_NONE;
        long double scale = (long double)th_get(&b->dloss, each ? r : 0);
        if (b->set.reduction == TW_LOSS_MEAN) scale /= count_rows(b);
        for (int64_t j = 0; j < b->classes; j++) {
            long double d = logit(b, r, j) - f.top, q = target(b, r, j);
            long double share = f.asked * expl(d) / expl(f.log_sum);
            long double size = isinf(d) ? 0 : fabsl(d);
            long double want = f.ignored ? 0 : scale * (share - q);
            long double allowed = u_acc * fabsl(scale) * (share * (size + 4 * root + 24) + 4 * q);
            if (!close_to(th_get(dlogits, element(b, r, j)), want,
                          4 * u_out * fabsl(want) + allowed + least, "dlogits", element(b, r, j)))
                return false;
        }
    }
    return true;
}

static void fail_with(const tw_kernel *kernel, const bench *b)
{
    fprintf(stderr, "%s logits %s labels %s reduction %d smoothing %g ignore %d dims", kernel->name,
            tw_dtype_name(b->set.logits), tw_dtype_name(b->set.labels), (int)b->set.reduction,
            b->set.smoothing, b->set.has_ignore);
    for (int32_t d = 0; d < b->shape.rank; d++)
        fprintf(stderr, " %lld/%lld", (long long)b->shape.dims[d], (long long)b->shape.strides[d]);
    fprintf(stderr, "\n");
    fail();
}

static void check_forward(const tw_kernel *kernel, bench *b, bool with_lse)
{
    tw_dtype type = b->set.logits == TW_F64 ? TW_F64 : TW_F32;
    th_tensor loss = make_rows(b, type, b->set.reduction != TW_LOSS_NONE);
    th_tensor again = th_make_like(&loss.desc);
    th_call call = {.kind = TW_OP_CROSS_ENTROPY, .n_in = 2, .n_out = with_lse ? 2 : 1};
    call.in[0] = &b->logits;
    call.in[1] = &b->labels;
    call.out[0] = &loss;
    call.out[1] = with_lse ? &b->lse : NULL;
    call.attrs.loss = attrs_of(b);
    if (!th_refuses(kernel, &call)) {
        bool good = th_run(kernel, &call) == TW_OK && th_guards_intact(&loss) &&
                    th_guards_intact(&b->lse) &&
                    forward_right(b, &loss, with_lse ? &b->lse : NULL,
                                  kernel->reference ? 0x1p-52L : 0x1p-24L);
        call.out[0] = &again;
        call.threads = 2;
        good = good && th_run(kernel, &call) == TW_OK && th_equal(&again, &loss, "two threads");
        call.has_limit = true;
        good = good && th_run(kernel, &call) == TW_OK && th_equal(&again, &loss, "no workspace");
        if (!good) fail_with(kernel, b);
    }
    th_free(&loss);
    th_free(&again);
}

static void check_backward(const tw_kernel *kernel, bench *b, bool with_lse)
{
    th_tensor dlogits = make_logits(b, b->set.logits), again = make_logits(b, b->set.logits);
    th_call call = {.kind = TW_OP_CROSS_ENTROPY_BACKWARD, .n_in = 4, .n_out = 1};
    call.in[0] = &b->logits;
    call.in[1] = &b->labels;
    call.in[2] = with_lse ? &b->lse : NULL;
    call.in[3] = &b->dloss;
    call.out[0] = &dlogits;
    call.attrs.loss = attrs_of(b);
    if (!th_refuses(kernel, &call)) {
        bool good = th_run(kernel, &call) == TW_OK && th_guards_intact(&dlogits) &&
                    backward_right(b, &dlogits, kernel->reference ? 0x1p-52L : 0x1p-24L);
        call.out[0] = &again;
        call.threads = 2;
        good = good && th_run(kernel, &call) == TW_OK && th_equal(&again, &dlogits, "two threads");
        if (!good) fail_with(kernel, b);
    }
    th_free(&dlogits);
    th_free(&again);
}

static void check_bench(bench *b)
{
    const tw_kernel *kernels[20];
    int n = th_kernels(TW_OP_CROSS_ENTROPY, kernels, 20);
    for (int k = 0; k < n; k++) check_forward(kernels[k], b, k % 2 == 0);
    check_forward(th_reference(TW_OP_CROSS_ENTROPY), b, true);
    n = th_kernels(TW_OP_CROSS_ENTROPY_BACKWARD, kernels, 20);
    for (int k = 0; k < n; k++) {
        check_backward(kernels[k], b, false);
        check_backward(kernels[k], b, true);
    }
}

static void test_settings(void **state)
{
    const shape shapes[] = {{.rank = 2, .dims = {7, 5}, .strides = {-1}},
                            {.rank = 2, .dims = {3, 1030}, .strides = {-1}},
                            {.rank = 2, .dims = {70, 300}, .strides = {-1}},
                            {.rank = 1, .dims = {9}, .strides = {-1}},
                            {.rank = 4, .dims = {2, 17, 2, 3}, .strides = {-1}},
                            {.rank = 4, .dims = {2, 17, 2, 3}, .strides = {102, 1, 51, 17}},
                            {.rank = 3, .dims = {4, 3, 5}, .strides = {40, 13, 2}}};
    const tw_dtype logits[] = {TW_F32, TW_F64, TW_F16, TW_BF16};
    const tw_dtype labels[] = {TW_I64, TW_F32, TW_I32, TW_U8, TW_F16};
    (void)state;
    for (uint64_t i = 0; i < 7 * 4 * 5 * 3 * 2; i++) {
        const setting set = {.logits = logits[i / 7 % 4],
                             .labels = labels[i / 28 % 5],
                             .reduction = (tw_reduction)(i / 140 % 3),
                             .smoothing = (double)(i % 3) * 0.1,
                             .has_ignore = i / 420 == 1 && tw_dtype_is_integer(labels[i / 28 % 5])};
        if (set.labels == TW_U8 && shapes[i % 7].dims[1] > 256) continue;
        bench b = make_bench(&shapes[i % 7], &set, i);
        check_bench(&b);
        free_bench(&b);
    }
}

static void test_full_smoothing(void **state)
{
    const shape s = {.rank = 2, .dims = {5, 40}, .strides = {-1}};
    const setting set = {.logits = TW_F32, .labels = TW_I32, .smoothing = 1};
    bench b = make_bench(&s, &set, 3);
    (void)state;
    check_bench(&b);
    free_bench(&b);
}

/* Large logits, infinities and NaN; and log-sum-exps whose f32 value has lost its digits. */
static void test_specials(void **state)
{
    const double inf = (double)INFINITY;
    const double cells[] = {(double)NAN, inf, -inf, 30000, -30000};
    const shape s = {.rank = 2, .dims = {12, 40}, .strides = {-1}};
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        const setting set = {
            .logits = TW_F32, .labels = seed % 2 ? TW_I64 : TW_F32, .reduction = TW_LOSS_NONE};
        uint64_t rng = seed;
        bench b = make_bench(&s, &set, seed);
        for (int i = 0; i < 6; i++)
            th_set(&b.logits, (int64_t)(th_random(&rng) % 480), cells[th_random(&rng) % 5]);
        for (int i = 0; seed % 5 == 0 && i < 40; i++) th_set(&b.logits, i, -inf);
        for (int i = 80; i < 120; i++) th_set(&b.logits, i, 9000 + i);
        check_bench(&b);
        free_bench(&b);
    }
}

/* The mean over no labels is NaN; gradients of ignored rows are 0. */
static void test_all_ignored(void **state)
{
    const shape s = {.rank = 2, .dims = {6, 11}, .strides = {-1}};
    const setting set = {.logits = TW_F32, .labels = TW_I64, .has_ignore = true};
    bench b = make_bench(&s, &set, 1);
    (void)state;
    th_fill_value(&b.labels, IGNORE);
    check_bench(&b);
    free_bench(&b);
}

static void test_no_rows(void **state)
{
    const shape s = {.rank = 2, .dims = {0, 11}, .strides = {-1}};
    (void)state;
    for (int reduction = 0; reduction < 3; reduction++) {
        const setting set = {
            .logits = TW_F32, .labels = TW_I64, .reduction = (tw_reduction)reduction};
        bench b = make_bench(&s, &set, 1);
        check_bench(&b);
        free_bench(&b);
    }
}

static void test_labels_out_of_range(void **state)
{
    const shape s = {.rank = 3, .dims = {3, 5, 4}, .strides = {-1}};
    const setting set = {.logits = TW_F32, .labels = TW_I64, .has_ignore = true};
    const int64_t bad[] = {5, -1, -100, INT64_MAX, INT64_MIN};
    const tw_kernel *kernels[40];
    int n = th_kernels(TW_OP_CROSS_ENTROPY, kernels, 20);
    (void)state;
    n += th_kernels(TW_OP_CROSS_ENTROPY_BACKWARD, kernels + n, 20);
    for (int i = 0; i < 5 * n; i++) {
        bench b = make_bench(&s, &set, 1);
        th_tensor out = kernels[i / 5]->kind == TW_OP_CROSS_ENTROPY ? make_rows(&b, TW_F32, true)
                                                                    : make_logits(&b, TW_F32);
        bool backward = kernels[i / 5]->kind == TW_OP_CROSS_ENTROPY_BACKWARD;
        th_call call = {.kind = kernels[i / 5]->kind, .n_in = backward ? 4 : 2, .n_out = 1};
        char value[32];
        call.in[0] = &b.logits;
        call.in[1] = &b.labels;
        call.in[3] = &b.dloss;
        call.out[0] = &out;
        call.attrs.loss = attrs_of(&b);
        ((int64_t *)b.labels.data)[2 * 4 + 1] = bad[i % 5];
        ((int64_t *)b.labels.data)[2 * 4 + 3] = 77; /* not the first */
        assert_int_equal(th_run(kernels[i / 5], &call), TW_INVALID_ARGUMENT);
        assert_non_null(strstr(tw_last_error(), "labels[2, 1]"));
        snprintf(value, sizeof value, "is %lld;", (long long)bad[i % 5]);
        assert_non_null(strstr(tw_last_error(), value));
        th_free(&out);
        free_bench(&b);
    }
}

static void test_in_place(void **state)
{
    const shape s = {.rank = 2, .dims = {6, 1300}, .strides = {-1}};
    const tw_kernel *kernels[20];
    int n = th_kernels(TW_OP_CROSS_ENTROPY_BACKWARD, kernels, 20);
    (void)state;
    for (int k = 0; k < n; k++) {
        const setting set = {.logits = k % 2 ? TW_F16 : TW_F32, .labels = TW_I32};
        bench b = make_bench(&s, &set, 5);
        th_tensor apart = make_logits(&b, set.logits);
        th_call call = {.kind = TW_OP_CROSS_ENTROPY_BACKWARD, .n_in = 4, .n_out = 1};
        call.in[0] = &b.logits;
        call.in[1] = &b.labels;
        call.in[3] = &b.dloss;
        call.out[0] = &apart;
        call.attrs.loss = attrs_of(&b);

        assert_int_equal(th_run(kernels[k], &call), TW_OK);
        call.out[0] = &b.logits;
        if (kernels[k]->impl->in_place & 1u) {
            assert_int_equal(th_run(kernels[k], &call), TW_OK);
            assert_true(th_equal(&b.logits, &apart, kernels[k]->name));
        }
        th_free(&apart);
        free_bench(&b);
    }
}

static void expect_refusal(int32_t label_rank, tw_dtype logits, tw_dtype labels,
                           const tw_cross_entropy_attrs *attrs, const char *word)
{
    const int64_t dims[3] = {4, 3, 2};
    th_tensor x = th_make(logits, 2, dims), t = th_make(labels, label_rank, dims);
    th_call call = {.kind = TW_OP_CROSS_ENTROPY, .n_in = 2, .n_out = 2, .in = {&x, &t}};
    tw_attrs normal;
    tw_tensor_desc desc[4];
    call.attrs.loss = *attrs;
    assert_int_equal(th_infer(&call, &normal, desc), TW_INVALID_ARGUMENT);
    if (!strstr(tw_last_error(), word)) fprintf(stderr, "%s\n", tw_last_error());
    assert_non_null(strstr(tw_last_error(), word));
    th_free(&x);
    th_free(&t);
}

static void test_refusals(void **state)
{
    const tw_cross_entropy_attrs plain = {.reduction = TW_LOSS_MEAN};
    const double nan = (double)NAN;
    (void)state;
    expect_refusal(2, TW_F32, TW_I64, &plain, "labels");
    expect_refusal(1, TW_F32, TW_F32, &plain, "labels");
    expect_refusal(1, TW_F32, TW_BOOL, &plain, "labels");
    expect_refusal(1, TW_I32, TW_I64, &plain, "logits");
    expect_refusal(1, TW_F32, TW_I64, &(tw_cross_entropy_attrs){.smoothing = 1.5}, "smoothing");
    expect_refusal(1, TW_F32, TW_I64, &(tw_cross_entropy_attrs){.smoothing = nan}, "smoothing");
    expect_refusal(1, TW_F32, TW_I64, &(tw_cross_entropy_attrs){.reduction = (tw_reduction)3},
                   "reduction");
    expect_refusal(2, TW_F32, TW_F32, &(tw_cross_entropy_attrs){.has_ignore = true}, "ignore");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings), cmocka_unit_test(test_full_smoothing),
        cmocka_unit_test(test_specials), cmocka_unit_test(test_all_ignored),
        cmocka_unit_test(test_no_rows),  cmocka_unit_test(test_labels_out_of_range),
        cmocka_unit_test(test_in_place), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
