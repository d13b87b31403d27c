/* SPDX-License-Identifier: Apache-2.0 */
/* Fused steps on the result: relu(conv + bias[k]) + residual, and conv + bias as a second output.
 * Small integers, so that all is exact. */
#include "ops/conv/conv_testing.h"

typedef struct fused {
    th_tensor tensor[3], bias, residual, out, sum;
    th_tensor *roles[3];
    tw_view loads[2];
    tw_chain_step steps[3];
    tw_chain_store stores[2];
    tw_chain chain;
} fused;

static tw_view view_of(const th_tensor *t, bool channels_only)
{
    tw_view v = {.dtype = t->desc.dtype, .rank = t->desc.rank, .alignment = 2};
    memcpy(v.dims, t->desc.dims, sizeof v.dims);
    memcpy(v.strides, t->desc.strides, sizeof v.strides);
    for (int32_t d = 0; channels_only && d < v.rank; d++)
        if (d != 1) v.strides[d] = 0;
    return v;
}

static tw_chain_step chain_step(tw_pointwise_mode mode, int16_t a, int16_t b)
{
    const bool add = mode == TW_PW_ADD;
    return (tw_chain_step){
        .attrs = {.mode = mode, .alpha = add ? 1 : 0, .has_alpha = add, .compute = TW_F32},
        .a = a,
        .b = b,
        .c = -1,
        .round = TW_F32};
}

static void set_up(fused *f, const conv_case *p, role result, test_layout layout, uint64_t seed)
{
    for (int r = 0; r < 3; r++) {
        f->tensor[r] = make_role(p, (role)r, TW_F32, layout);
        f->roles[r] = &f->tensor[r];
        if (r != (int)result) th_fill_integers(&f->tensor[r], seed + (uint64_t)r, -4, 4);
    }
    f->bias = make_role(p, result, TW_F32, FIRST);
    f->residual = make_role(p, result, TW_F32, SHUFFLED);
    f->out = make_role(p, result, TW_F32, layout);
    f->sum = make_role(p, result, TW_F32, LAST);
    th_fill_integers(&f->bias, seed + 3, -9, 9);
    th_fill_integers(&f->residual, seed + 4, -9, 9);
    f->loads[0] = view_of(&f->bias, true);
    f->loads[1] = view_of(&f->residual, false);
    f->steps[0] = chain_step(TW_PW_ADD, 0, 1);
    f->steps[1] = chain_step(TW_PW_RELU, 3, -1);
    f->steps[2] = chain_step(TW_PW_ADD, 4, 2);
    f->stores[0] = (tw_chain_store){.value = 5, .view = view_of(&f->out, false)};
    f->stores[1] = (tw_chain_store){.value = 3, .view = view_of(&f->sum, false)};
    f->chain = (tw_chain){.rank = f->out.desc.rank,
                          .n_loads = 2,
                          .n_steps = 3,
                          .n_stores = 2,
                          .loads = f->loads,
                          .steps = f->steps,
                          .stores = f->stores,
                          .anchor_round = TW_F32};
    memcpy(f->chain.dims, f->out.desc.dims, sizeof f->chain.dims);
}

static void tear_down(fused *f)
{
    for (int r = 0; r < 3; r++) th_free(&f->tensor[r]);
    th_free(&f->bias), th_free(&f->residual), th_free(&f->out), th_free(&f->sum);
}

static bool good(const fused *f, const th_tensor *conv, const char *what)
{
    int64_t pixels = 1;
    for (int32_t d = 2; d < conv->desc.rank; d++) pixels *= conv->desc.dims[d];
    for (int64_t i = 0; i < th_elements(conv); i++) {
        const int64_t channel = i / pixels % conv->desc.dims[1];
        const double sum = th_get(conv, i) + th_get(&f->bias, channel * pixels);
        const double out = (sum > 0 ? sum : 0) + th_get(&f->residual, i);
        if (th_get(&f->out, i) == out && th_get(&f->sum, i) == sum) continue;
        fprintf(stderr, "%s: element %lld is %g and %g, want %g and %g\n", what, (long long)i,
                th_get(&f->out, i), th_get(&f->sum, i), out, sum);
        return false;
    }
    return th_guards_intact(&f->out) && th_guards_intact(&f->sum);
}

static int check(const conv_case *p, role result, test_layout layout, uint64_t seed)
{
    const tw_kernel *kernels[32];
    const int n = th_kernels(kind_of(result), kernels, 32);
    int taken = 0;
    fused f;
    set_up(&f, p, result, layout, seed);
    th_tensor want = make_role(p, result, TW_F32, FIRST);
    oracle(p, f.roles, result, false, &want);
    for (int k = 0; k < n; k++) {
        th_call call = call_of(p, f.roles, result);
        call.epilogue = &f.chain;
        call.loads[0] = f.bias.data, call.loads[1] = f.residual.data;
        call.stores[0] = f.out.data, call.stores[1] = f.sum.data;
        call.threads = 1 + (int32_t)(seed % 2);
        if (th_refuses(kernels[k], &call)) continue;
        taken++;
        assert_int_equal(th_run(kernels[k], &call), TW_OK);
        const bool right = good(&f, &want, kernels[k]->name);
        if (!right) print_case(kernels[k]->name, p);
        assert_true(right);
    }
    tear_down(&f);
    th_free(&want);
    return taken;
}

static void test_random(void **state)
{
    (void)state;
    int taken = 0;
    for (uint64_t seed = 0; seed < 120; seed++) {
        conv_case p = random_case(seed + 9000);
        if (seed % 4 == 0) p.k = p.groups = p.c;
        for (int r = 0; r < 2; r++)
            taken += check(&p, r ? ROLE_Y : ROLE_X, (test_layout)(seed % TEST_LAYOUTS), seed);
    }
    assert_true(taken > 120);
}

static void test_each_way(void **state)
{
    (void)state;
    conv_case p = square_case(40, 16, 6, 33, 3); /* images are rows */
    assert_true(check(&p, ROLE_Y, LAST, 1) > 0);
    p = square_case(1, 16, 40, 33, 3); /* pixels along W are rows */
    assert_true(check(&p, ROLE_Y, LAST, 2) > 0);
    p.lo[1] = p.hi[1] = 1;
    assert_true(check(&p, ROLE_Y, FIRST, 3) > 0);
    p = square_case(1, 32, 5, 96, 3); /* windows are gathered */
    assert_true(check(&p, ROLE_Y, LAST, 4) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_way),
                                       cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
