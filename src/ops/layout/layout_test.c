/* SPDX-License-Identifier: Apache-2.0 */
/* Layout operations: the references against formulas of their own, and every kernel against the
 * reference, bit by bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include "core/dtype.h"
#include "harness.h"

enum { MOST = 16 };
/* Distinct content, whatever the type: random bytes of which no NaN is made. */
static void fill(th_tensor *t, uint64_t seed)
{
    if (tw_dtype_is_complex(t->desc.dtype)) {
        unsigned char *bytes = t->data;
        for (int64_t i = 0; i < t->span; i++)
            if (t->used[i]) bytes[i] = (unsigned char)(th_random(&seed) & 63);
    } else {
        th_fill_integers(t, seed, 0, tw_dtype_bits(t->desc.dtype) < 8 ? 1 : 6);
    }
}

static bool same_bytes(const th_tensor *a, const th_tensor *b, const char *what)
{
    int64_t bits = tw_dtype_bits(a->desc.dtype);
    for (int64_t i = 0, n = th_elements(a); i < n; i++) {
        int64_t p = th_offset(a, i), q = th_offset(b, i);
        bool same = bits < 8
                        ? tw_load(a->desc.dtype, a->data, p) == tw_load(b->desc.dtype, b->data, q)
                        : memcmp((char *)a->data + p * bits / 8, (char *)b->data + q * bits / 8,
                                 (size_t)bits / 8) == 0;
        if (!same) {
            fprintf(stderr, "%s: element %lld differs\n", what, (long long)i);
            return false;
        }
    }
    return true;
}

/* Runs every kernel that takes the call, on one and on two threads, and compares with the
 * reference. Returns how many fast kernels took it. */
static int check_kernels(th_call *call, const char *what)
{
    const tw_kernel *kernels[MOST];
    int n = th_kernels(call->kind, kernels, MOST), taken = 0;
    th_tensor *out = call->out[0], want = th_make_like(&out->desc);
    char line[256];
    call->out[0] = &want;
    assert_int_equal(th_run(th_reference(call->kind), call), TW_OK);
    assert_true(th_guards_intact(&want));
    call->out[0] = out;
    for (int k = 0; k < n; k++) {
        if (kernels[k]->reference || th_refuses(kernels[k], call) != NULL) continue;
        for (call->threads = 1; call->threads <= 2; call->threads++) {
            snprintf(line, sizeof line, "%s on %s, %d threads", what, kernels[k]->name,
                     call->threads);
            memset(out->data, 0xA5, (size_t)out->span);
            assert_int_equal(th_run(kernels[k], call), TW_OK);
            assert_true(same_bytes(out, &want, line));
            assert_true(th_guards_intact(out));
        }
        taken++;
    }
    memcpy(out->data, want.data, (size_t)out->span);
    th_free(&want);
    return taken;
}

static int run_one(tw_op_kind kind, const tw_attrs *attrs, th_tensor *x, th_tensor *y,
                   const char *what)
{
    th_call call = {.kind = kind, .attrs = *attrs, .n_in = 1, .n_out = 1, .in = {x}, .out = {y}};
    return check_kernels(&call, what);
}

/* ---- References against formulas ------------------------------------------------------------- */

static void reference_moves_elements(void **state)
{
    (void)state;
    th_tensor x = th_make(TW_F32, 2, (const int64_t[]){2, 3});
    th_tensor y = th_make(TW_F32, 2, (const int64_t[]){3, 2});
    tw_attrs attrs = {.layout = {.order = {1, 0}}};
    for (int i = 0; i < 6; i++) th_set(&x, i, i);
    run_one(TW_OP_TRANSPOSE, &attrs, &x, &y, "2x3");
    for (int i = 0; i < 6; i++) assert_true(th_get(&y, i) == i % 2 * 3 + i / 2);
    run_one(TW_OP_RESHAPE, &attrs, &x, &y, "2x3 to 3x2");
    for (int i = 0; i < 6; i++) assert_true(th_get(&y, i) == i);
    th_free(&x);
    th_free(&y);
}

/* 1-D pads of 0 1 2 3 against rows written by hand. */
static void reference_pads(void **state)
{
    static const struct {
        tw_pad_mode mode;
        int64_t lo, hi;
        const char *want;
    } rows[] = {
        {TW_PAD_CONSTANT, 2, 1, "9901239"}, {TW_PAD_REFLECT, 3, 2, "321012321"},
        {TW_PAD_EDGE, 2, 3, "000123333"},   {TW_PAD_WRAP, 4, 3, "01230123012"},
        {TW_PAD_CONSTANT, -1, -2, "1"},     {TW_PAD_REFLECT, -3, 3, "3210"},
        {TW_PAD_EDGE, -5, 3, "33"},         {TW_PAD_WRAP, -2, 4, "230123"},
        {TW_PAD_CONSTANT, -6, 4, "99"},     {TW_PAD_WRAP, 1, -3, "30"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t n = 4, m = (int64_t)strlen(rows[i].want);
        th_tensor x = th_make(TW_F32, 1, &n), y = th_make(TW_F32, 1, &m);
        tw_attrs attrs = {.layout = {.start = {rows[i].lo},
                                     .end_pad = {rows[i].hi},
                                     .pad_mode = rows[i].mode,
                                     .value = 9}};
        for (int k = 0; k < 4; k++) th_set(&x, k, k);
        run_one(TW_OP_PAD, &attrs, &x, &y, rows[i].want);
        for (int64_t k = 0; k < m; k++)
            assert_true(th_get(&y, k) == (double)(rows[i].want[k] - '0'));
        /* The gradient of Σ dy·y by x adds up dy where x went. */
        th_tensor dx = th_make(TW_F32, 1, &n);
        double sums[4] = {0};
        for (int64_t k = 0; k < m; k++) {
            if (rows[i].want[k] != '9') sums[rows[i].want[k] - '0'] += (double)(k + 1);
            th_set(&y, k, (double)(k + 1));
        }
        run_one(TW_OP_PAD_BACKWARD, &attrs, &y, &dx, rows[i].want);
        for (int k = 0; k < 4; k++) assert_true(th_get(&dx, k) == sums[k]);
        th_free(&dx);
        th_free(&x);
        th_free(&y);
    }
}

static void reference_slices(void **state)
{
    (void)state;
    th_tensor x = th_make(TW_I32, 2, (const int64_t[]){5, 7}), back = th_make_like(&x.desc);
    th_tensor y = th_make(TW_I32, 2, (const int64_t[]){2, 3});
    tw_attrs attrs = {.layout = {.start = {1, 2}, .step = {3, 2}}};
    for (int i = 0; i < 35; i++) th_set(&x, i, i);
    run_one(TW_OP_SLICE, &attrs, &x, &y, "slice");
    for (int i = 0; i < 6; i++) assert_true(th_get(&y, i) == (1 + i / 3 * 3) * 7 + 2 + i % 3 * 2);
    run_one(TW_OP_SLICE_BACKWARD, &attrs, &y, &back, "slice_backward");
    for (int i = 0; i < 35; i++) {
        int r = i / 7, c = i % 7;
        bool hit = (r == 1 || r == 4) && c >= 2 && c <= 6 && c % 2 == 0;
        assert_true(th_get(&back, i) == (hit ? i : 0));
    }
    th_free(&x);
    th_free(&y);
    th_free(&back);
}

/* ---- Kernels against the reference ----------------------------------------------------------- */

static const tw_dtype types[] = {TW_U8, TW_BF16, TW_F32, TW_F64, TW_C128, TW_C64, TW_BOOL, TW_I4};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* Every order of three dims, sizes around the tiles' edges, dense and gapped. */
static void transposes(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1},   {3, 5, 7},   {2, 16, 16},  {2, 17, 33},
                                       {1, 64, 65}, {3, 63, 64}, {1, 70, 130}, {64, 3, 20},
                                       {0, 4, 5},   {5, 4, 0}};
    static const int32_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int o = 0; o < 6; o++)
            for (int t = 0; t < N_TYPES; t++) {
                const int64_t *n = sizes[s], gap = (int64_t)(s + (size_t)o) % 3;
                int64_t m[3], strides[3] = {n[1] * (n[2] + gap), n[2] + gap, 1};
                tw_attrs attrs = {.layout = {.axis = 0}};
                for (int d = 0; d < 3; d++) {
                    attrs.layout.order[d] = orders[o][d];
                    m[d] = n[orders[o][d]];
                }
                th_tensor x = th_make_strided(types[t], 3, n, strides);
                th_tensor y = th_make_strided(
                    types[t], 3, m, (const int64_t[]){m[1] * (m[2] + gap), m[2] + gap, 1});
                char what[96];
                snprintf(what, sizeof what, "transpose %lldx%lldx%lld order %d%d%d %s gap %lld",
                         (long long)n[0], (long long)n[1], (long long)n[2], orders[o][0],
                         orders[o][1], orders[o][2], tw_dtype_name(types[t]), (long long)gap);
                fill(&x, s * 7 + (size_t)o);
                int taken = run_one(TW_OP_TRANSPOSE, &attrs, &x, &y, what);
                assert_int_equal(taken == 0, tw_dtype_bits(types[t]) < 8);
                th_free(&x);
                th_free(&y);
            }
}

/* Random problems: ranks, dims, steps, strides of both sides. */
typedef struct fuzz {
    uint64_t seed;
    int32_t rank;
    int64_t dims[4], x_strides[4], y_strides[4];
} fuzz;

static int64_t pick(fuzz *f, int64_t n) { return (int64_t)(th_random(&f->seed) % (uint64_t)n); }

/* Strides of a random memory order, with gaps; for inputs some dims broadcast. */
static void pick_strides(fuzz *f, const int64_t *dims, int64_t *strides, bool input)
{
    int32_t order[4] = {0, 1, 2, 3};
    int64_t stride = 1;
    if (pick(f, 3) > 0)
        for (int32_t d = f->rank - 1; d > 0; d--) {
            int32_t e = (int32_t)pick(f, d + 1), kept = order[d];
            order[d] = order[e];
            order[e] = kept;
        }
    bool gaps = pick(f, 2) == 0;
    if (gaps) stride += pick(f, 2);
    for (int32_t i = f->rank - 1; i >= 0; i--) {
        int32_t d = order[i];
        strides[d] = stride;
        stride *= dims[d] > 0 ? dims[d] : 1;
        if (gaps) stride += pick(f, 3);
        if (input && pick(f, 8) == 0) strides[d] = 0;
    }
}

static fuzz start_fuzz(uint64_t seed)
{
    fuzz f = {.seed = seed};
    f.rank = 1 + (int32_t)pick(&f, 4);
    for (int32_t d = 0; d < f.rank; d++)
        f.dims[d] = pick(&f, 12) == 0 ? 0 : 1 + pick(&f, f.rank < 3 ? 150 : 14);
    return f;
}

static void check_fuzz(fuzz *f, tw_op_kind kind, const tw_attrs *attrs, const int64_t *x_dims,
                       const int64_t *y_dims)
{
    tw_dtype type = types[pick(f, N_TYPES - 1)];
    char what[96];
    pick_strides(f, x_dims, f->x_strides, true);
    pick_strides(f, y_dims, f->y_strides, false);
    th_tensor x = th_make_strided(type, f->rank, x_dims, f->x_strides);
    th_tensor y = th_make_strided(type, f->rank, y_dims, f->y_strides);
    snprintf(what, sizeof what, "%s seed %llu rank %d %s", tw_op_info_of(kind)->name,
             (unsigned long long)f->seed, f->rank, tw_dtype_name(type));
    fill(&x, f->seed);
    assert_true(run_one(kind, attrs, &x, &y, what) > 0);
    th_free(&x);
    th_free(&y);
}

static void random_slices(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        fuzz f = start_fuzz(seed);
        int64_t part[4];
        tw_attrs attrs = {.layout = {.axis = 0}};
        for (int32_t d = 0; d < f.rank; d++) {
            int64_t step = pick(&f, 3) == 0 ? 1 + pick(&f, 3) : 1,
                    start = pick(&f, f.dims[d] / 2 + 1);
            int64_t most = (f.dims[d] - start + step - 1) / step;
            attrs.layout.start[d] = start;
            attrs.layout.step[d] = step;
            part[d] = most > 0 ? most - pick(&f, most > 2 ? 2 : 1) : 0;
        }
        check_fuzz(&f, TW_OP_SLICE, &attrs, f.dims, part);
        check_fuzz(&f, TW_OP_SLICE_BACKWARD, &attrs, part, f.dims);
    }
}

static void random_pads(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        fuzz f = start_fuzz(seed);
        int64_t padded[4];
        tw_attrs attrs = {.layout = {.pad_mode = (tw_pad_mode)(seed % 4), .value = 3}};
        for (int32_t d = 0; d < f.rank; d++) {
            int64_t n = f.dims[d], lo = pick(&f, n / 2 + 1), hi = pick(&f, n / 2 + 1);
            if (pick(&f, 4) == 0) lo = -lo;
            if (pick(&f, 4) == 0) hi = -hi;
            if (n == 1 && attrs.layout.pad_mode == TW_PAD_REFLECT) lo = hi = 0;
            attrs.layout.start[d] = lo;
            attrs.layout.end_pad[d] = hi;
            padded[d] = n + lo + hi;
        }
        check_fuzz(&f, TW_OP_PAD, &attrs, f.dims, padded);
    }
}

static void random_expansions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        fuzz f = start_fuzz(seed);
        const tw_attrs attrs = {.layout = {.axis = 0}};
        int64_t small[4];
        for (int32_t d = 0; d < f.rank; d++) small[d] = pick(&f, 2) == 0 ? 1 : f.dims[d];
        check_fuzz(&f, TW_OP_EXPAND, &attrs, small, f.dims);
        check_fuzz(&f, TW_OP_TRANSPOSE, &(const tw_attrs){.layout = {.order = {0, 1, 2, 3}}},
                   f.dims, f.dims);
    }
}

/* Reshapes between dense and gapped tensors; those without common dims may go to the reference. */
static void reshapes(void **state)
{
    static const struct {
        int32_t x_rank, y_rank;
        int64_t x[4], y[4], x_gap, y_gap;
        bool fast;
    } rows[] = {
        {2, 2, {6, 4}, {4, 6}, 0, 0, true},      {2, 2, {6, 4}, {4, 6}, 0, 3, true},
        {2, 2, {6, 4}, {4, 6}, 2, 0, true},      {2, 2, {6, 4}, {4, 6}, 2, 3, false},
        {3, 2, {4, 6, 5}, {4, 30}, 1, 1, true},  {3, 2, {4, 6, 5}, {24, 5}, 1, 1, true},
        {1, 4, {720}, {6, 5, 4, 6}, 0, 7, true}, {3, 3, {2, 12, 8}, {8, 3, 8}, 5, 4, true},
        {2, 1, {0, 4}, {0}, 0, 0, true},         {0, 3, {1}, {1, 1, 1}, 0, 0, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t x_strides[4], y_strides[4], stride = 1;
        for (int32_t d = rows[i].x_rank - 1; d >= 0; d--) {
            x_strides[d] = stride;
            stride = stride * rows[i].x[d] + (d == rows[i].x_rank - 1 ? rows[i].x_gap : 0);
        }
        stride = 1;
        for (int32_t d = rows[i].y_rank - 1; d >= 0; d--) {
            y_strides[d] = stride;
            stride = stride * rows[i].y[d] + (d == rows[i].y_rank - 1 ? rows[i].y_gap : 0);
        }
        th_tensor x = th_make_strided(TW_F32, rows[i].x_rank, rows[i].x, x_strides);
        th_tensor y = th_make_strided(TW_F32, rows[i].y_rank, rows[i].y, y_strides);
        for (int64_t k = 0; k < th_elements(&x); k++) th_set(&x, k, (double)k);
        int taken =
            run_one(TW_OP_RESHAPE, &(const tw_attrs){.layout = {.axis = 0}}, &x, &y, "reshape");
        assert_int_equal(taken > 0, rows[i].fast);
        for (int64_t k = 0; k < th_elements(&y); k++) assert_true(th_get(&y, k) == (double)k);
        th_free(&x);
        th_free(&y);
    }
}

static void concats(void **state)
{
    (void)state;
    for (int32_t axis = -3; axis < 3; axis++) {
        int32_t a = axis < 0 ? axis + 3 : axis;
        int64_t dims[3] = {3, 4, 5}, total[3] = {3, 4, 5}, at = 0;
        static const int64_t lengths[3] = {2, 0, 70};
        th_tensor x[3], y;
        total[a] = 72;
        y = th_make_strided(TW_F32, 3, total,
                            (const int64_t[]){total[1] * (total[2] + 1), total[2] + 1, 1});
        th_call call = {.kind = TW_OP_CONCAT,
                        .attrs = {.layout = {.axis = axis}},
                        .n_in = 3,
                        .n_out = 1,
                        .out = {&y}};
        for (int i = 0; i < 3; i++) {
            dims[a] = lengths[i];
            x[i] = th_make(TW_F32, 3, dims);
            th_fill_integers(&x[i], (uint64_t)i, -9, 9);
            call.in[i] = &x[i];
        }
        assert_true(check_kernels(&call, "concat") > 0);
        for (int i = 0; i < 3; i++) {
            for (int64_t k = 0; k < th_elements(&x[i]); k++) {
                int64_t index[3], rest = k, linear = 0;
                for (int d = 2; d >= 0; d--) {
                    index[d] = rest % x[i].desc.dims[d];
                    rest /= x[i].desc.dims[d];
                }
                index[a] += at;
                for (int d = 0; d < 3; d++) linear = linear * total[d] + index[d];
                assert_true(th_get(&x[i], k) == th_get(&y, linear));
            }
            at += lengths[i];
            th_free(&x[i]);
        }
        th_free(&y);
    }
}

/* Large enough for several items of the parallel loop. */
static void large_copies(void **state)
{
    (void)state;
    th_tensor x = th_make(TW_F32, 3, (const int64_t[]){5, 130, 517});
    th_tensor z = th_make_strided(TW_F32, 3, (const int64_t[]){5, 132, 520},
                                  (const int64_t[]){132 * 523, 523, 1});
    th_fill_integers(&x, 3, -99, 99);
    run_one(TW_OP_PAD,
            &(const tw_attrs){.layout = {.start = {0, 1, 2}, .end_pad = {0, 1, 1}, .value = 1}}, &x,
            &z, "large pad");
    run_one(TW_OP_PAD,
            &(const tw_attrs){
                .layout = {.start = {0, 1, 2}, .end_pad = {0, 1, 1}, .pad_mode = TW_PAD_REFLECT}},
            &x, &z, "large reflection");
    th_free(&x);
    th_free(&z);
}

/* Over 8 MiB: assembled in scratch, or directly where the workspace is too small. */
static void streamed_transposes(void **state)
{
    static const tw_dtype widths[] = {TW_U8, TW_F16, TW_F32, TW_F64};
    (void)state;
    for (int t = 0; t < 4; t++) {
        int64_t n = ((int64_t)9 << 20) / (tw_dtype_bits(widths[t]) / 8) / 1035;
        th_tensor x = th_make(widths[t], 2, (const int64_t[]){1035, n});
        th_tensor y =
            th_make_strided(widths[t], 2, (const int64_t[]){n, 1035}, (const int64_t[]){1037, 1});
        tw_attrs attrs = {.layout = {.order = {1, 0}}};
        th_call call = {.kind = TW_OP_TRANSPOSE,
                        .attrs = attrs,
                        .n_in = 1,
                        .n_out = 1,
                        .in = {&x},
                        .out = {&y},
                        .has_limit = t == 0};
        th_fill_integers(&x, 5, 0, 100);
        assert_true(check_kernels(&call, "streamed") > 0);
        th_free(&x);
        th_free(&y);
    }
}

static void converts(void **state)
{
    (void)state;
    th_tensor x = th_make(TW_F32, 1, (const int64_t[]){4}),
              y = th_make(TW_I8, 1, (const int64_t[]){4});
    static const double in[4] = {1.5, 2.5, -300, 7}, want[4] = {2, 2, -128, 7};
    for (int i = 0; i < 4; i++) th_set(&x, i, in[i]);
    run_one(TW_OP_RESHAPE, &(const tw_attrs){.layout = {.axis = 0}}, &x, &y, "conversion");
    for (int i = 0; i < 4; i++) assert_true(th_get(&y, i) == want[i]);
    th_free(&x);
    th_free(&y);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refuse(tw_op_kind kind, const tw_attrs *attrs, th_tensor *x, th_tensor *y,
                   const char *word)
{
    th_call call = {.kind = kind, .attrs = *attrs, .n_in = 1, .n_out = 1, .in = {x}, .out = {y}};
    tw_attrs normalised;
    tw_tensor_desc desc[4];
    assert_int_equal(th_infer(&call, &normalised, desc), TW_INVALID_ARGUMENT);
    if (strstr(tw_last_error(), word) == NULL) fail_msg("no \"%s\" in: %s", word, tw_last_error());
}

static void refusals(void **state)
{
    (void)state;
    th_tensor x = th_make(TW_F32, 2, (const int64_t[]){3, 4}),
              y = th_make(TW_F32, 2, (const int64_t[]){3, 5});
    th_tensor c = th_make(TW_C64, 2, (const int64_t[]){3, 4});
    refuse(TW_OP_RESHAPE, &(const tw_attrs){.layout = {.axis = 0}}, &x, &y, "12");
    refuse(TW_OP_RESHAPE, &(const tw_attrs){.layout = {.axis = 0}}, &x, &c, "complex");
    refuse(TW_OP_TRANSPOSE, &(const tw_attrs){.layout = {.order = {0, 0}}}, &x, &x, "order[1]");
    refuse(TW_OP_TRANSPOSE, &(const tw_attrs){.layout = {.order = {0, 2}}}, &x, &x, "order[1]");
    refuse(TW_OP_EXPAND, &(const tw_attrs){.layout = {.axis = 0}}, &x, &y, "dims[1]");
    refuse(TW_OP_SLICE, &(const tw_attrs){.layout = {.start = {0, 1}}}, &x, &x, "dims[1]");
    refuse(TW_OP_SLICE, &(const tw_attrs){.layout = {.start = {0, -1}}}, &x, &x, "start[1]");
    refuse(TW_OP_SLICE, &(const tw_attrs){.layout = {.step = {1, -1}}}, &x, &x, "step[1]");
    refuse(TW_OP_CONCAT, &(const tw_attrs){.layout = {.axis = 2}}, &x, &x, "axis");
    refuse(TW_OP_PAD, &(const tw_attrs){.layout = {.start = {3}, .pad_mode = TW_PAD_REFLECT}}, &x,
           &x, "lo[0]");
    refuse(TW_OP_PAD, &(const tw_attrs){.layout = {.end_pad = {0, 5}, .pad_mode = TW_PAD_WRAP}}, &x,
           &x, "hi[1]");
    refuse(TW_OP_PAD, &(const tw_attrs){.layout = {.start = {-4}}}, &x, &x, "negative");
    refuse(TW_OP_PAD, &(const tw_attrs){.layout = {.pad_mode = (tw_pad_mode)7}}, &x, &x, "mode");
    th_free(&x);
    th_free(&y);
    th_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_moves_elements),
        cmocka_unit_test(reference_pads),
        cmocka_unit_test(reference_slices),
        cmocka_unit_test(transposes),
        cmocka_unit_test(random_slices),
        cmocka_unit_test(random_pads),
        cmocka_unit_test(random_expansions),
        cmocka_unit_test(reshapes),
        cmocka_unit_test(concats),
        cmocka_unit_test(large_copies),
        cmocka_unit_test(streamed_transposes),
        cmocka_unit_test(converts),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
