/* SPDX-License-Identifier: Apache-2.0 */
/* The fast kernels against the reference: every mode within its error bound; any shapes, strides,
 * broadcasts and types exactly; chains; the interpreter as an epilogue. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"
#include "ops/pointwise/pointwise.h"

static const tw_kernel *kernels[8]; /* the fast ones that run here */
static int n_kernels;

static int find_kernels(void **state)
{
    const tw_kernel *all[8];
    (void)state;
    int n = th_kernels(TW_OP_POINTWISE, all, 8);
    for (int k = 0; k < n; k++)
        if (!all[k]->reference) kernels[n_kernels++] = all[k];
    return n_kernels > 0 ? 0 : -1;
}

static int pick(uint64_t *seed, int n) { return (int)(th_random(seed) % (uint64_t)n); }

/* ---- Every mode ------------------------------------------------------------------------------ */

static double sigma(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }

/* The size of what is added up in the result: cancellation loses digits of that. NaN counts as
 * 0. */
static double summed(const tw_pointwise_attrs *p, double a, double b, double c)
{
    double v = 1.5957691216 * b * (1 + 0.044715 * b * b), e = exp(fmin(b, 20));
    double dv = 1.5957691216 * (1 + 3 * 0.044715 * b * b), m = e * (e + 2) + 2;
    switch ((int)p->mode) {
    case TW_PW_ADD:
    case TW_PW_SUB: return fabs(a) + fabs(p->alpha * b);
    case TW_PW_ADD_SQUARE: return fabs(a) + b * b;
    case TW_PW_FMA: return fabs(c);
    case TW_PW_LINEAR:
    case TW_PW_HARD_SIGMOID: return fabs(p->alpha * a) + fabs(p->beta);
    case TW_PW_GELU_TANH: { /* the argument's rounding is multiplied by itself */
        double u = 1.5957691216 * a * (1 + 0.044715 * a * a);
        return fabs(u * a * sigma(u));
    }
    case TW_PW_SILU: return p->alpha == 1 ? 0 : fabs(a * p->alpha * a * sigma(p->alpha * a));
    case TW_PW_GELU_BWD: return fabs(a) * (0.5 * erfc(-b * 0.70710678) + fabs(b) * exp(-b * b / 2));
    case TW_PW_GELU_TANH_BWD:
        return fabs(a) * (1 + fabs(v)) * (sigma(v) + fabs(b * dv) * sigma(v) * sigma(-v));
    case TW_PW_SILU_BWD: return fabs(a) * (1 + fabs(b)) * sigma(b);
    case TW_PW_MISH_BWD: return fabs(a) * (1 + 4 * fabs(b) * e * (1 + e) / (m * m));
    case TW_PW_HARD_SWISH_BWD: return fabs(a) * (fabs(b) < 3 ? 1 : 0);
    default: return 0;
    }
}

static double ulps_of(tw_pointwise_mode mode)
{
    switch ((int)mode) {
    case TW_PW_MISH_BWD:
    case TW_PW_TANH_BWD:
    case TW_PW_SIGMOID_BWD:
    case TW_PW_SOFTPLUS:
    case TW_PW_MISH: return 8;
    default: return 6;
    }
}

static void fill_mode_operand(th_tensor *t, uint64_t seed)
{
    for (int64_t i = 0, n = th_elements(t); i < n; i++) {
        double x = 16 * th_uniform(&seed) - 8;
        if (i % 4 == 1) x = ldexp(x, pick(&seed, 240) - 130);
        if (i % 4 == 2) x = x * 14;
        if (i % 97 == 5) x = INFINITY;
        if (i % 97 == 6) x = -INFINITY;
        if (i % 97 == 7) x = NAN;
        if (i % 97 == 8) x = 0;
        th_set(t, i, x);
    }
}

/* Exactly representable integers for modes that only those have. */
static void fill_small(th_tensor *t, uint64_t seed)
{
    bool is_signed = tw_dtype_is_signed(t->desc.dtype);
    th_fill_integers(t, seed, is_signed ? -4 : 0, t->desc.dtype == TW_BOOL ? 1 : 4);
}

static void compare(const tw_kernel *kernel, const th_call *call, const th_tensor *want)
{
    const th_tensor *y = call->out[0];
    tw_attrs attrs;
    tw_tensor_desc desc[4];
    assert_int_equal(th_infer(call, &attrs, desc), TW_OK);
    double ulps = ulps_of(attrs.pointwise.mode);
    for (int64_t i = 0, n = th_elements(y); i < n; i++) {
        double v[3] = {0}, g = th_get(y, i), w = th_get(want, i);
        for (int k = 0; k < call->n_in; k++) v[k] = th_get(call->in[k], i);
        double sum = summed(&attrs.pointwise, v[0], v[1], v[2]);
        double allowed = 0x1p-23 * ulps * (fabs(w) + (sum > 0 ? sum : 0)) + ulps * 0x1p-149;
        /* a slope's vanishing factor has few digits once it is subnormal, and dy and the argument's
         * own derivative (below 512 there) multiply what it lost */
        if (attrs.pointwise.mode >= TW_PW_RELU_BWD && v[0] == v[0])
            allowed += 512 * 0x1p-149 * fabs(v[0]);
        bool same = isnan(w) ? isnan(g) : isinf(w) ? g == w : fabs(g - w) <= allowed;
        /* a step around the largest finite value */
        if (!same && fabs(w) > 3.4028e38 && fabs(g) > 3.4028e38 && g * w > 0) same = true;
        if (!same)
            fail_msg("%s: mode %s (%a, %a, %a) gives %.9g, want %.9g, allowed %.3g", kernel->name,
                     tw_pw_mode_of(attrs.pointwise.mode).name, v[0], v[1], v[2], g, w, allowed);
    }
}

static void check_mode(tw_pointwise_mode number, const double *alpha)
{
    enum { N = 40009 };
    const int64_t dims[1] = {N};
    const tw_pw_mode_info mode = tw_pw_mode_of(number);
    bool bits = (mode.flags & TW_PW_BITS) != 0;
    th_tensor in[3], y, want, again;
    th_call call = {.kind = TW_OP_POINTWISE,
                    .attrs.pointwise = {.mode = number},
                    .n_in = mode.arity,
                    .n_out = 1};
    if (alpha) {
        call.attrs.pointwise.has_alpha = true;
        call.attrs.pointwise.alpha = *alpha;
    }
    for (int i = 0; i < mode.arity; i++) {
        in[i] = th_make(bits ? TW_I8 : TW_F32, 1, dims);
        if (bits)
            fill_small(&in[i], (uint64_t)i);
        else
            fill_mode_operand(&in[i], 1000u * (unsigned)number + (unsigned)i);
        if (i == 1 && (number == TW_PW_TANH_BWD_Y || number == TW_PW_SIGMOID_BWD_Y))
            th_fill_uniform(&in[i], 7, -1, 1); /* a y that the forward mode gives */
        call.in[i] = &in[i];
    }
    y = th_make(bits ? TW_I32 : TW_F32, 1, dims);
    want = th_make_like(&y.desc);
    again = th_make_like(&y.desc);
    call.out[0] = &want;
    assert_int_equal(th_run(th_reference(TW_OP_POINTWISE), &call), TW_OK);
    for (int k = 0; k < n_kernels; k++) {
        call.out[0] = &y;
        call.threads = 1;
        if (th_refuses(kernels[k], &call)) continue;
        assert_int_equal(th_run(kernels[k], &call), TW_OK);
        compare(kernels[k], &call, &want);
        call.out[0] = &again;
        call.threads = 3;
        assert_int_equal(th_run(kernels[k], &call), TW_OK);
        assert_true(th_equal(&again, &y, mode.name));
        assert_true(th_guards_intact(&y));
    }
    for (int i = 0; i < mode.arity; i++) th_free(&in[i]);
    th_free(&y), th_free(&want), th_free(&again);
}

static void test_modes(void **state)
{
    (void)state;
    for (int m = 0; m < TW_PW_END; m++)
        if (tw_pw_mode_of((tw_pointwise_mode)m).name) check_mode((tw_pointwise_mode)m, NULL);
    const double alpha = 0.75;
    check_mode(TW_PW_ADD, &alpha);
    check_mode(TW_PW_SUB, &alpha);
    check_mode(TW_PW_LINEAR, &alpha);
    check_mode(TW_PW_SILU, &alpha);
    check_mode(TW_PW_LEAKY_RELU, &alpha);
    check_mode(TW_PW_CLIP, &alpha);
}

/* ---- Shapes, strides, types ------------------------------------------------------------------ */

/* A tensor of `dims` in a random memory order, with gaps. */
static th_tensor make_scattered(tw_dtype type, int rank, const int64_t *dims, uint64_t *seed)
{
    int64_t strides[TW_MAX_RANK], stride = 1 + (pick(seed, 4) == 0);
    int order[TW_MAX_RANK];
    for (int d = 0; d < rank; d++) order[d] = rank - 1 - d;
    if (pick(seed, 2))
        for (int d = rank - 1; d > 0; d--) {
            int e = pick(seed, d + 1), o = order[d];
            order[d] = order[e];
            order[e] = o;
        }
    for (int d = 0; d < rank; d++) {
        strides[order[d]] = stride;
        stride = stride * dims[order[d]] + (pick(seed, 4) == 0);
    }
    return th_make_strided(type, rank, dims, strides);
}

static tw_dtype random_type(uint64_t *seed)
{
    static const tw_dtype types[] = {TW_F32, TW_F32, TW_F32,    TW_BF16, TW_F16, TW_I8,  TW_U8,
                                     TW_I32, TW_I16, TW_E4M3FN, TW_I64,  TW_U16, TW_U32, TW_BOOL};
    return types[pick(seed, (int)(sizeof types / sizeof types[0]))];
}

static int random_dims(uint64_t *seed, int64_t *dims)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 17, 40, 67};
    int rank = pick(seed, 5);
    int64_t total = 1;
    for (int d = 0; d < rank; d++) {
        dims[d] = sizes[pick(seed, 8)];
        if (total * dims[d] > 20000) dims[d] = 2;
        total *= dims[d];
    }
    if (rank > 0 && pick(seed, 40) == 0) dims[pick(seed, rank)] = 0;
    return rank;
}

static void check_shape(uint64_t seed)
{
    static const tw_pointwise_mode modes[] = {
        TW_PW_ADD, TW_PW_MUL,      TW_PW_RELU,  TW_PW_SELECT,    TW_PW_FMA,        TW_PW_GT,
        TW_PW_MAX, TW_PW_IDENTITY, TW_PW_CLAMP, TW_PW_GEN_INDEX, TW_PW_LOGICAL_AND};
    uint64_t start = seed;
    int64_t dims[TW_MAX_RANK], own[TW_MAX_RANK];
    int rank = random_dims(&seed, dims);
    th_call call = {.kind = TW_OP_POINTWISE, .n_out = 1, .threads = 1 + pick(&seed, 2)};
    call.attrs.pointwise.mode = modes[pick(&seed, (int)(sizeof modes / sizeof modes[0]))];
    if (rank == 0 && call.attrs.pointwise.mode == TW_PW_GEN_INDEX)
        call.attrs.pointwise.mode = TW_PW_RELU;
    if (rank > 0 && call.attrs.pointwise.mode == TW_PW_GEN_INDEX)
        call.attrs.pointwise.axis = pick(&seed, rank);
    call.n_in = tw_pw_mode_of(call.attrs.pointwise.mode).arity;
    th_tensor in[3], y, want;
    for (int i = 0; i < call.n_in; i++) {
        int skip = i > 0 && rank > 0 && pick(&seed, 3) == 0 ? pick(&seed, rank + 1) : 0;
        for (int d = skip; d < rank; d++)
            own[d - skip] = i > 0 && pick(&seed, 4) == 0 ? 1 : dims[d];
        in[i] = make_scattered(random_type(&seed), rank - skip, own, &seed);
        fill_small(&in[i], seed);
        call.in[i] = &in[i];
    }
    y = make_scattered(random_type(&seed), rank, dims, &seed);
    want = th_make_like(&y.desc);
    call.out[0] = &want;
    assert_int_equal(th_run(th_reference(TW_OP_POINTWISE), &call), TW_OK);
    call.out[0] = &y;
    for (int k = 0; k < n_kernels; k++) {
        if (th_refuses(kernels[k], &call)) continue;
        assert_int_equal(th_run(kernels[k], &call), TW_OK);
        if (!th_equal(&y, &want, "shape") || !th_guards_intact(&y))
            fail_msg("%s: mode %s, seed %llu", kernels[k]->name,
                     tw_pw_mode_of(call.attrs.pointwise.mode).name, (unsigned long long)start);
    }
    for (int i = 0; i < call.n_in; i++) th_free(&in[i]);
    th_free(&y), th_free(&want);
}

static void test_shapes(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 600; i++) check_shape(i * 7919);
}

static void test_in_place(void **state)
{
    static const tw_dtype types[] = {TW_F32, TW_BF16, TW_I8};
    const int64_t dims[2] = {37, 53}, strides[2] = {1, 41};
    (void)state;
    for (int i = 0; i < 6 * n_kernels; i++) {
        const tw_kernel *kernel = kernels[i / 6];
        tw_dtype type = types[i % 3];
        th_tensor a = i % 6 < 3 ? th_make(type, 2, dims) : th_make_strided(type, 2, dims, strides);
        th_tensor b = th_make_like(&a.desc), want = th_make_like(&a.desc);
        fill_small(&a, 3), fill_small(&b, 4);
        th_call call = {.kind = TW_OP_POINTWISE,
                        .attrs.pointwise = {.mode = TW_PW_SUB},
                        .n_in = 2,
                        .n_out = 1,
                        .in = {&a, &b},
                        .out = {&want}};
        assert_int_equal(th_run(kernel, &call), TW_OK);
        call.out[0] = i % 2 ? &a : &b;
        assert_int_equal(th_run(kernel, &call), TW_OK);
        assert_true(th_equal(call.out[0], &want, "in place"));
        assert_true(th_guards_intact(call.out[0]));
        th_free(&a), th_free(&b), th_free(&want);
    }
}

/* ---- Chains ---------------------------------------------------------------------------------- */

enum { MAX_LOADS = 4, MAX_STEPS = 10, MAX_STORES = 3 };

typedef struct random_chain {
    tw_chain chain;
    tw_view loads[MAX_LOADS];
    tw_chain_step steps[MAX_STEPS];
    tw_chain_store stores[MAX_STORES];
    th_tensor in[MAX_LOADS], out[MAX_STORES], want[MAX_STORES];
} random_chain;

static tw_view view_of(const th_tensor *t, int rank, const int64_t *dims)
{
    tw_view view = {.dtype = t->desc.dtype, .rank = rank, .alignment = 1};
    for (int d = 0; d < rank; d++) {
        view.dims[d] = dims[d];
        view.strides[d] = t->desc.dims[d] == 1 ? 0 : t->desc.strides[d];
    }
    return view;
}

static void make_step(random_chain *r, int n, uint64_t *seed)
{
    static const tw_pointwise_mode modes[] = {TW_PW_ADD,        TW_PW_SUB,    TW_PW_MAX,  TW_PW_MIN,
                                              TW_PW_GT,         TW_PW_SELECT, TW_PW_RELU, TW_PW_ABS,
                                              TW_PW_LOGICAL_OR, TW_PW_CLAMP};
    static const tw_dtype rounds[] = {TW_AUTO, TW_F32, TW_BF16, TW_F16, TW_I8};
    tw_pointwise_mode mode = modes[pick(seed, 10)];
    const tw_pw_mode_info info = tw_pw_mode_of(mode);
    int known = r->chain.n_loads + n;
    tw_chain_step *s = &r->steps[n];
    s->attrs = (tw_pointwise_attrs){.mode = mode, .alpha = 1, .compute = TW_F32};
    s->a = (int16_t)(1 + pick(seed, known));
    s->b = info.arity > 1 ? (int16_t)(1 + pick(seed, known)) : (int16_t)-1;
    s->c = info.arity > 2 ? (int16_t)(1 + pick(seed, known)) : (int16_t)-1;
    s->round = info.flags & TW_PW_PREDICATE ? TW_BOOL : rounds[pick(seed, 5)];
}

/* Small integers and modes that keep them whole, so that f32 and double agree to the bit. */
static void make_chain(random_chain *r, uint64_t *seed)
{
    int64_t dims[TW_MAX_RANK], own[TW_MAX_RANK];
    int rank = random_dims(seed, dims);
    memset(r, 0, sizeof *r);
    r->chain = (tw_chain){.rank = rank,
                          .n_loads = 1 + pick(seed, MAX_LOADS),
                          .n_steps = 1 + pick(seed, MAX_STEPS),
                          .n_stores = 1 + pick(seed, MAX_STORES),
                          .loads = r->loads,
                          .steps = r->steps,
                          .stores = r->stores};
    memcpy(r->chain.dims, dims, sizeof dims);
    for (int i = 0; i < r->chain.n_loads; i++) {
        for (int d = 0; d < rank; d++) own[d] = pick(seed, 4) == 0 ? 1 : dims[d];
        r->in[i] = make_scattered(random_type(seed), rank, own, seed);
        fill_small(&r->in[i], *seed);
        r->loads[i] = view_of(&r->in[i], rank, dims);
    }
    for (int i = 0; i < r->chain.n_steps; i++) make_step(r, i, seed);
    for (int i = 0; i < r->chain.n_stores; i++) {
        r->out[i] = make_scattered(random_type(seed), rank, dims, seed);
        r->want[i] = th_make_like(&r->out[i].desc);
        r->stores[i].view = view_of(&r->out[i], rank, dims);
        int last = r->chain.n_loads + r->chain.n_steps;
        r->stores[i].value = (int16_t)(i == 0 ? last : 1 + pick(seed, last));
    }
}

static tw_status run_chain(const tw_kernel *kernel, random_chain *r, th_tensor *out, int threads)
{
    th_tensor *any = &r->in[0];
    th_call call = {.kind = TW_OP_POINTWISE,
                    .attrs.pointwise = {.mode = TW_PW_IDENTITY},
                    .n_in = 1,
                    .n_out = 1,
                    .in = {any},
                    .epilogue = &r->chain,
                    .threads = threads};
    for (int i = 0; i < r->chain.n_loads; i++) call.loads[i] = r->in[i].data;
    for (int i = 0; i < r->chain.n_stores; i++) call.stores[i] = out[i].data;
    if (th_refuses(kernel, &call)) fail_msg("refused: %s", th_refuses(kernel, &call));
    return th_run(kernel, &call);
}

static void check_chain(uint64_t seed)
{
    uint64_t start = seed;
    random_chain r;
    make_chain(&r, &seed);
    assert_int_equal(run_chain(th_reference(TW_OP_POINTWISE), &r, r.want, 1), TW_OK);
    for (int k = 0; k < n_kernels; k++) {
        assert_int_equal(run_chain(kernels[k], &r, r.out, 1 + k % 2), TW_OK);
        for (int i = 0; i < r.chain.n_stores; i++)
            if (!th_equal(&r.out[i], &r.want[i], "chain") || !th_guards_intact(&r.out[i]))
                fail_msg("%s: store %d, seed %llu", kernels[k]->name, i, (unsigned long long)start);
    }
    for (int i = 0; i < r.chain.n_loads; i++) th_free(&r.in[i]);
    for (int i = 0; i < r.chain.n_stores; i++) th_free(&r.out[i]), th_free(&r.want[i]);
}

static void test_chains(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 500; i++) check_chain(i * 104729);
}

/* gelu, then a product, in bf16: one chain gives the bits of two operations. */
static void test_chain_equals_operations(void **state)
{
    const int64_t dims[2] = {33, 71};
    (void)state;
    for (int k = 0; k < n_kernels; k++) {
        random_chain r = {0};
        th_tensor t = th_make(TW_BF16, 2, dims);
        r.in[0] = th_make(TW_BF16, 2, dims), r.in[1] = th_make(TW_BF16, 2, dims);
        r.out[0] = th_make(TW_BF16, 2, dims), r.want[0] = th_make(TW_BF16, 2, dims);
        th_fill_uniform(&r.in[0], 1, -4, 4), th_fill_uniform(&r.in[1], 2, -4, 4);
        for (int i = 0; i < 2; i++) r.loads[i] = view_of(&r.in[i], 2, dims);
        r.steps[0] = (tw_chain_step){.attrs = {.mode = TW_PW_GELU, .compute = TW_F32},
                                     .a = 1,
                                     .b = -1,
                                     .c = -1,
                                     .round = TW_BF16};
        r.steps[1] = (tw_chain_step){.attrs = {.mode = TW_PW_MUL, .compute = TW_F32},
                                     .a = 3,
                                     .b = 2,
                                     .c = -1,
                                     .round = TW_BF16};
        r.stores[0] = (tw_chain_store){.value = 4, .view = view_of(&r.out[0], 2, dims)};
        r.chain = (tw_chain){.rank = 2,
                             .dims = {33, 71},
                             .n_loads = 2,
                             .n_steps = 2,
                             .n_stores = 1,
                             .loads = r.loads,
                             .steps = r.steps,
                             .stores = r.stores};
        assert_int_equal(run_chain(kernels[k], &r, r.out, 1), TW_OK);
        th_call call = {.kind = TW_OP_POINTWISE,
                        .attrs.pointwise = {.mode = TW_PW_GELU},
                        .n_in = 1,
                        .n_out = 1,
                        .in = {&r.in[0]},
                        .out = {&t}};
        assert_int_equal(th_run(kernels[k], &call), TW_OK);
        call = (th_call){.kind = TW_OP_POINTWISE,
                         .attrs.pointwise = {.mode = TW_PW_MUL},
                         .n_in = 2,
                         .n_out = 1,
                         .in = {&t, &r.in[1]},
                         .out = {&r.want[0]}};
        assert_int_equal(th_run(kernels[k], &call), TW_OK);
        assert_true(th_equal(&r.out[0], &r.want[0], "chain of two"));
        th_free(&t), th_free(&r.in[0]), th_free(&r.in[1]), th_free(&r.out[0]), th_free(&r.want[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_chain_equals_operations),
    };
    return cmocka_run_group_tests(tests, find_kernels, NULL);
}
