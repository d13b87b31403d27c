/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling: sizes and divisors against published corner cases, the references against a scan of the
 * padded input, and every kernel against the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"
#include "ops/pool/pool_fuzz.h"
#include "ops/pool/pool_shape.h"

enum { MOST = 16 };

/* ---- Values by hand -------------------------------------------------------------------------- */

typedef struct known {
    int32_t spatial;
    int64_t in[2];
    tw_pool_attrs attrs;
    int64_t out[2];
    double first_x, step_x;
    const double *want;
} known;

static const double c45[] = {-50, -48, -46, -44, -36, -34, -32, -30, -22, -20, -18, -16};
static const double c49[] = {-24, -21, -9, -6};
static const double c53[] = {1.5, 3.5, 5};
static const double c53b[] = {16, 24, 24, 12, 24, 36, 36, 18, 24, 36, 36, 18, 12, 18, 18, 9};
static const double c54[] = {1, 0.5, 0.5, 0.25};

/* Windows that would start past the input, overhangs, and paddings of one side. */
static const known knowns[] = {
    {2, {6, 7}, {.window = {1, 1}, .stride = {2, 2}, .ceil_mode = true}, {3, 4}, -50, 1, c45},
    {2,
     {5, 5},
     {.window = {3, 3}, .stride = {3, 3}, .pad_lo = {1, 1}, .pad_hi = {1, 1}, .ceil_mode = true},
     {2, 2},
     -30,
     1,
     c49},
    {1,
     {5},
     {.mode = TW_POOL_AVERAGE,
      .window = {2},
      .stride = {2},
      .ceil_mode = true,
      .include_pad = true},
     {3},
     1,
     1,
     c53},
    {2,
     {6, 6},
     {.mode = TW_POOL_AVERAGE,
      .window = {3, 3},
      .stride = {2, 2},
      .pad_lo = {1, 1},
      .pad_hi = {1, 1},
      .ceil_mode = true,
      .include_pad = true},
     {4, 4},
     36,
     0,
     c53b},
    {2,
     {2, 2},
     {.mode = TW_POOL_AVERAGE, .window = {2, 2}, .pad_hi = {1, 1}, .include_pad = true},
     {2, 2},
     1,
     0,
     c54},
    {2,
     {17, 17},
     {.mode = TW_POOL_AVERAGE,
      .window = {2, 2},
      .stride = {2, 2},
      .pad_lo = {1, 1},
      .ceil_mode = true},
     {9, 9},
     1,
     0,
     NULL},
    {2, {32, 32}, {.window = {1, 1}, .stride = {2, 2}, .ceil_mode = true}, {16, 16}, 1, 0, NULL},
    {2, {8, 10}, {.window = {3, 3}, .stride = {4, 4}, .ceil_mode = true}, {2, 3}, 1, 0, NULL},
};

static void known_values(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof knowns / sizeof knowns[0]; k++) {
        const known *c = &knowns[k];
        int64_t x_dims[4] = {1, 1, c->in[0], c->in[1]}, y_dims[4] = {1, 1, c->out[0], c->out[1]};
        th_tensor x = th_make(TW_F32, 2 + c->spatial, x_dims);
        th_tensor y = th_make(TW_F32, 2 + c->spatial, y_dims);
        th_call call = {.kind = TW_OP_POOL,
                        .attrs = {.pool = c->attrs},
                        .n_in = 1,
                        .n_out = 2,
                        .in = {&x},
                        .out = {&y}};
        tw_attrs attrs;
        tw_tensor_desc desc[4];
        for (int64_t i = 0; i < th_elements(&x); i++)
            th_set(&x, i, c->first_x + c->step_x * (double)i);
        assert_int_equal(th_infer(&call, &attrs, desc), TW_OK);
        for (int32_t i = 0; i < c->spatial; i++) assert_int_equal(desc[0].dims[2 + i], c->out[i]);
        assert_int_equal(th_run(th_reference(TW_OP_POOL), &call), TW_OK);
        for (int64_t i = 0; c->want && i < th_elements(&y); i++)
            if (th_get(&y, i) != c->want[i])
                fail_msg("case %d, %d: %g", (int)k, (int)i, th_get(&y, i));
        th_free(&x);
        th_free(&y);
    }
}

/* ---- The references against a scan of the padded input --------------------------------------- */

typedef struct scan {
    double most, sum, divisor;
    int64_t linear, spatial, window; /* of the maximum */
    bool any;
} scan;

/* Every tap of a window in row-major order, in coordinates of the padded input. */
static scan scan_window(const fuzz *f, const int64_t *o)
{
    scan s = {.divisor = 0};
    int32_t spatial = f->rank - 2;
    int64_t taps = 1;
    for (int32_t i = 0; i < spatial; i++) taps *= f->attrs.window[i];
    for (int64_t t = 0; t < taps; t++) {
        int64_t rest = t, tap[3] = {0}, at[3], linear = o[0] * f->x_dims[1] + o[1], plane = 0;
        bool real = true, declared = true;
        for (int32_t i = spatial - 1; i >= 0; i--) {
            tap[i] = rest % f->attrs.window[i];
            rest /= f->attrs.window[i];
            int64_t padded = o[2 + i] * f->attrs.stride[i] + tap[i] * f->attrs.dilation[i];
            at[i] = padded - f->attrs.pad_lo[i];
            int64_t n = f->x_dims[2 + i];
            if (at[i] < 0 || at[i] >= n) real = false;
            if (padded >= f->attrs.pad_lo[i] + n + f->attrs.pad_hi[i]) declared = false;
        }
        if (declared && f->attrs.include_pad) s.divisor++;
        if (!real) continue;
        int64_t window = 0, ordered = 0;
        for (int32_t i = 0; i < spatial; i++) {
            int32_t e = f->attrs.column_major ? spatial - 1 - i : i;
            linear = linear * f->x_dims[2 + i] + at[i];
            ordered = ordered * f->x_dims[2 + e] + at[e];
            window = window * f->attrs.window[e] + tap[e];
            plane = ordered;
        }
        if (!f->attrs.include_pad) s.divisor++;
        double v = th_get(&f->x, linear);
        s.sum += v;
        if (!s.any || v > s.most) {
            s.most = v;
            s.linear = linear;
            s.spatial = plane;
            s.window = window;
        }
        s.any = true;
    }
    return s;
}

static int64_t expected_index(const fuzz *f, const scan *s, const int64_t *o)
{
    int64_t plane = 1;
    for (int32_t d = 2; d < f->rank; d++) plane *= f->x_dims[d];
    if (f->attrs.index == TW_POOL_INDEX_WINDOW) return s->window;
    if (f->attrs.index == TW_POOL_INDEX_SPATIAL) return s->spatial;
    return (o[0] * f->x_dims[1] + o[1]) * plane + s->spatial;
}

static void check_scan(fuzz *f, double *want_dx)
{
    for (int64_t k = 0; k < th_elements(&f->y); k++) {
        int64_t o[5], rest = k;
        for (int32_t d = f->rank - 1; d >= 0; d--) {
            o[d] = rest % f->y_dims[d];
            rest /= f->y_dims[d];
        }
        scan s = scan_window(f, o);
        double got = th_get(&f->y, k), want = s.most;
        if (f->attrs.mode == TW_POOL_AVERAGE) want = tw_round_to(f->type, s.sum / s.divisor);
        if (got != want)
            fail_msg("seed %d, element %d: got %g, want %g", (int)f->first_seed, (int)k, got, want);
        if (f->attrs.mode != TW_POOL_MAX || !f->has_index) continue;
        if ((int64_t)th_get(&f->index, k) != expected_index(f, &s, o))
            fail_msg("seed %d, index %d: got %g", (int)f->first_seed, (int)k, th_get(&f->index, k));
        want_dx[s.linear] += th_get(&f->dy, k);
    }
}

static void references(void **state)
{
    static const tw_dtype types[] = {TW_F64, TW_F32, TW_I32, TW_U8, TW_BF16, TW_I64};
    static double want_dx[1 << 16];
    int checked = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        fuzz f;
        if (!start_fuzz(&f, seed, types[seed % 6])) continue;
        th_call call = forward_call(&f), back = backward_call(&f);
        memset(want_dx, 0, sizeof want_dx);
        if (is_legal(&call)) {
            assert_true(th_elements(&f.x) <= 1 << 16);
            assert_int_equal(th_run(th_reference(TW_OP_POOL), &call), TW_OK);
            check_scan(&f, want_dx);
            assert_true(th_guards_intact(&f.y));
            if (f.has_index) {
                assert_int_equal(th_run(th_reference(TW_OP_POOL_BACKWARD), &back), TW_OK);
                for (int64_t i = 0; i < th_elements(&f.dx); i++)
                    assert_true(th_get(&f.dx, i) == want_dx[i]);
                checked++;
            }
        }
        end_fuzz(&f);
    }
    assert_true(checked > 50);
}

/* ---- Kernels against the reference ----------------------------------------------------------- */

/* The bound's magnitude: the operation on absolute values. */
static th_tensor magnitude_of(const th_call *call)
{
    th_tensor x = th_make_like(&call->in[0]->desc), y = th_make_like(&call->out[0]->desc);
    th_call abs = *call;
    for (int64_t i = 0; i < th_elements(&x); i++) th_set(&x, i, fabs(th_get(call->in[0], i)));
    abs.in[0] = &x;
    abs.out[0] = &y;
    abs.out[1] = NULL;
    assert_int_equal(th_run(th_reference(call->kind), &abs), TW_OK);
    th_free(&x);
    return y;
}

static void compare(fuzz *f, th_call *call, const tw_kernel *kernel, const th_tensor *want,
                    const th_tensor *want_index)
{
    char what[160];
    bool max = f->attrs.mode == TW_POOL_MAX && call->kind == TW_OP_POOL;
    int64_t terms = 1;
    for (int i = 0; i < 3; i++) terms *= f->attrs.window[i] > 0 ? f->attrs.window[i] : 1;
    snprintf(what, sizeof what, "%s, seed %d, %s, %d threads", kernel->name, (int)f->first_seed,
             f->channels_last ? "channels last" : "rows", call->threads);
    if (th_run(kernel, call) != TW_OK) fail_msg("%s: %s", what, tw_last_error());
    if (max) {
        assert_true(th_equal(call->out[0], want, what));
        if (f->has_index) assert_true(th_equal(call->out[1], want_index, what));
        if (f->has_index) assert_true(th_guards_intact(call->out[1]));
    } else {
        th_tensor magnitude = magnitude_of(call);
        assert_true(th_close(call->out[0], want, &magnitude, terms, what));
        th_free(&magnitude);
    }
    assert_true(th_guards_intact(call->out[0]));
}

static int check_kernels(fuzz *f, th_call *call)
{
    const tw_kernel *kernels[MOST];
    int n = th_kernels(call->kind, kernels, MOST), taken = 0;
    th_tensor want = th_make_like(&call->out[0]->desc), index = th_make_like(&f->index.desc);
    th_call reference = *call;
    reference.out[0] = &want;
    if (reference.out[1]) reference.out[1] = &index;
    assert_int_equal(th_run(th_reference(call->kind), &reference), TW_OK);
    for (int k = 0; k < n; k++) {
        if (kernels[k]->reference || th_refuses(kernels[k], call)) continue;
        for (call->threads = 1; call->threads <= 2; call->threads++) {
            if (call->threads == 2 && f->first_seed % 4 != 0) continue;
            compare(f, call, kernels[k], &want, &index);
        }
        taken++;
    }
    th_free(&want);
    th_free(&index);
    return taken;
}

static void kernels_match(void **state)
{
    static const tw_dtype types[] = {TW_F32, TW_F32, TW_BF16, TW_F16};
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        fuzz f;
        if (!start_fuzz(&f, seed, types[seed % 4])) continue;
        th_call call = forward_call(&f), back = backward_call(&f);
        if (is_legal(&call)) {
            assert_true(check_kernels(&f, &call) > 0);
            if (f.has_index || f.attrs.mode == TW_POOL_AVERAGE) {
                int taken = check_kernels(&f, &back);
                assert_true(taken > 0 || f.type != TW_F32);
            }
        }
        end_fuzz(&f);
    }
}

/* NaN wins and its index is that of the first; −inf alone has a valid index. */
static void specials(void **state)
{
    static const double rows[][6] = {
        {1, NAN, 3, NAN, 2, 0},
        {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
        {INFINITY, 1, NAN, -INFINITY, 5, INFINITY}};
    static const double values[3] = {NAN, -INFINITY, NAN};
    static const int first[3] = {1, 0, 2};
    const tw_kernel *kernels[MOST];
    int n = th_kernels(TW_OP_POOL, kernels, MOST);
    (void)state;
    for (int r = 0; r < 3; r++)
        for (int last = 0; last < 2; last++) {
            int64_t dims[3] = {1, 20, 6}, small[3] = {1, 20, 1};
            fuzz f = {.rank = 3, .channels_last = last != 0, .first_seed = 1};
            th_tensor x = make(&f, TW_F32, dims), y = make(&f, TW_F32, small),
                      index = make(&f, TW_U8, small);
            th_call call = {.kind = TW_OP_POOL,
                            .n_in = 1,
                            .n_out = 2,
                            .in = {&x},
                            .out = {&y, &index},
                            .attrs = {.pool = {.window = {6}, .index = TW_POOL_INDEX_WINDOW}}};
            for (int64_t i = 0; i < 120; i++) th_set(&x, i, rows[r][i % 6]);
            for (int k = 0; k < n; k++) {
                assert_int_equal(th_run(kernels[k], &call), TW_OK);
                for (int64_t i = 0; i < 20; i++) {
                    double got = th_get(&y, i);
                    assert_true(isnan(values[r]) ? isnan(got) : got == values[r]);
                    assert_true(th_get(&index, i) == first[r]);
                }
            }
            th_free(&x);
            th_free(&y);
            th_free(&index);
        }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void bad_indices(void **state)
{
    const tw_kernel *kernels[MOST];
    int n = th_kernels(TW_OP_POOL_BACKWARD, kernels, MOST);
    (void)state;
    for (int last = 0; last < 2; last++)
        for (int type = 0; type < 3; type++) {
            static const tw_dtype types[] = {TW_U8, TW_I32, TW_I64};
            fuzz f = {.rank = 4, .channels_last = last != 0};
            int64_t big[4] = {2, 19, 5, 6}, small[4] = {2, 19, 3, 3};
            th_tensor dx = make(&f, TW_F32, big), dy = make(&f, TW_F32, small);
            th_tensor index = make(&f, types[type], small);
            th_call call = {.kind = TW_OP_POOL_BACKWARD,
                            .n_in = 2,
                            .n_out = 1,
                            .in = {&dy, &index},
                            .out = {&dx},
                            .attrs = {.pool = {.window = {2, 2},
                                               .stride = {2, 2},
                                               .ceil_mode = true,
                                               .index = TW_POOL_INDEX_WINDOW}}};
            th_fill_value(&dy, 1);
            for (int k = 0; k < n; k++) {
                if (th_refuses(kernels[k], &call) != NULL) continue;
                th_fill_value(&index, 1);
                assert_int_equal(th_run(kernels[k], &call), TW_OK);
                th_set(&index, 100, 200); /* no tap */
                if (th_run(kernels[k], &call) == TW_OK) fail_msg("%s", kernels[k]->name);
                assert_non_null(strstr(tw_last_error(), "indices"));
                th_set(&index, 100, 1);
                th_set(&index, 8, 2); /* a tap below the input */
                assert_int_equal(th_run(kernels[k], &call), TW_INVALID_ARGUMENT);
                if (type == 0) continue;
                th_set(&index, 8, type == 1 ? -1 : 0x1p32 + 1);
                assert_int_equal(th_run(kernels[k], &call), TW_INVALID_ARGUMENT);
            }
            th_free(&dx);
            th_free(&dy);
            th_free(&index);
        }
}

static void refuse(const tw_pool_attrs *attrs, const int64_t *dims, tw_dtype index,
                   const char *word)
{
    th_tensor x = th_make(TW_F32, 4, dims), y = th_make(index, 4, dims);
    th_call call = {.kind = TW_OP_POOL,
                    .attrs = {.pool = *attrs},
                    .n_in = 1,
                    .n_out = 2,
                    .in = {&x},
                    .out = {NULL, index != TW_F64 ? &y : NULL}};
    tw_attrs normalised;
    tw_tensor_desc desc[4];
    if (th_infer(&call, &normalised, desc) == TW_OK) fail_msg("%s was accepted", word);
    if (strstr(tw_last_error(), word) == NULL) fail_msg("no \"%s\": %s", word, tw_last_error());
    th_free(&x);
    th_free(&y);
}

static void refusals(void **state)
{
    static const int64_t dims[4] = {1, 1, 3, 3}, wide[4] = {1, 1, 20, 20};
    const tw_dtype none = TW_F64;
    (void)state;
    refuse(&(const tw_pool_attrs){.window = {4, 2}}, dims, none, "window[0]");
    refuse(&(const tw_pool_attrs){.window = {2, 2}, .dilation = {1, 3}}, dims, none, "window[1]");
    refuse(&(const tw_pool_attrs){.window = {-1, 2}}, dims, none, "window[0]");
    refuse(&(const tw_pool_attrs){.stride = {1, -2}}, dims, none, "stride[1]");
    refuse(&(const tw_pool_attrs){.window = {2, 2}, .pad_lo = {2, 0}}, dims, none, "pad_lo[0]");
    refuse(&(const tw_pool_attrs){.window = {2, 2}, .pad_hi = {0, 2}}, dims, none, "pad_hi[1]");
    refuse(
        &(const tw_pool_attrs){.window = {2, 2}, .dilation = {4, 1}, .pad_lo = {1}, .pad_hi = {1}},
        dims, none, "pad_lo[0]");
    refuse(&(const tw_pool_attrs){.mode = (tw_pool_mode)3}, dims, none, "mode");
    refuse(&(const tw_pool_attrs){.mode = TW_POOL_AVERAGE}, dims, TW_I64, "indices");
    refuse(&(const tw_pool_attrs){.window = {17, 17}, .index = TW_POOL_INDEX_WINDOW}, wide, TW_U8,
           "288");
    refuse(&(const tw_pool_attrs){.window = {2, 2}}, wide, TW_F32, "integer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),  cmocka_unit_test(references),
        cmocka_unit_test(kernels_match), cmocka_unit_test(specials),
        cmocka_unit_test(bad_indices),   cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
