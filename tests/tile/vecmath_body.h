/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the vector functions of one target against double, in units in the last place of f32,
 * and checks them against the bounds below. Included by vecmath_<target>_test.c. Every exponent is
 * swept with a few hundred mantissas; TW_EXHAUSTIVE=1 takes every float (minutes a function).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tile/cpu/vecmath.h"
#include <tilework/device.h>

enum { SKIPPED = 77 };

static double sigmoid_of(double x)
{
    double e = exp(-fabs(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

static double sigmoid_slope_of(double x)
{
    double e = exp(-fabs(x));
    return e / ((1 + e) * (1 + e));
}

static double cdf_of(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

static vf cdf_vector(vf x)
{
    vf density;
    return vf_normal_cdf(x, &density);
}

/* Products with something that vanishes: -0 at -inf, digits kept where the factor is subnormal. */
static double gelu_of(double x) { return x < -40 ? 0 : x * cdf_of(x); }
static double silu_of(double x) { return x < -800 ? 0 : x * sigmoid_of(x); }
static vf silu_vector(vf x) { return vf_gated(x, x); }

static double pdf_of(double x) { return 0.39894228040143267794 * exp(-0.5 * x * x); }

static vf pdf_vector(vf x)
{
    vf density;
    (void)vf_normal_cdf(x, &density);
    return density;
}

/* Calls through pointers need functions that are not forced inline. */
#define WRAP(name)                                                                                 \
    static vf name##_vector(vf x) { return vf_##name(x); }
WRAP(exp)
WRAP(expm1)
WRAP(log)
WRAP(log1p)
WRAP(tanh)
WRAP(sigmoid)
WRAP(sigmoid_slope)
WRAP(erf)
WRAP(gelu)
WRAP(sin)
WRAP(cos)
WRAP(tan)

typedef struct function {
    const char *name;
    vf (*vector)(vf);
    double (*scalar)(double);
    double ulps; /* as vecmath.h states */
} function;

static const function functions[] = {
    {"exp", exp_vector, exp, 1.2},
    {"expm1", expm1_vector, expm1, 1.6},
    {"log", log_vector, log, 1.2},
    {"log1p", log1p_vector, log1p, 2.0},
    {"tanh", tanh_vector, tanh, 2.0},
    {"sigmoid", sigmoid_vector, sigmoid_of, 2.5},
    {"sigmoid_slope", sigmoid_slope_vector, sigmoid_slope_of, 5},
    {"erf", erf_vector, erf, 2.0},
    {"cdf", cdf_vector, cdf_of, 6},
    {"pdf", pdf_vector, pdf_of, 4},
    {"gelu", gelu_vector, gelu_of, 6},
    {"silu", silu_vector, silu_of, 3.5},
    {"sin", sin_vector, sin, 2.0},
    {"cos", cos_vector, cos, 2.0},
    {"tan", tan_vector, tan, 4.0},
};

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* |got - want| in units of the last place that f32 has at `want`. */
static double ulps_between(float got, double want)
{
    float rounded = (float)want;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(got)) return rounded == got ? 0 : INFINITY;
    int exponent;
    (void)frexp(want, &exponent);
    double ulp = ldexp(1, exponent - 24);
    return fabs((double)got - want) / (ulp < 0x1p-149 ? 0x1p-149 : ulp);
}

/* The worst error over patterns first, first + step, … below 2^32. */
static double worst_error(const function *f, uint64_t step, float *where)
{
    double worst = 0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += step * VLANES) {
        float in[VLANES], out[VLANES];
        for (int i = 0; i < VLANES; i++) {
            uint64_t place = bits + (uint64_t)i * step;
            in[i] = float_of((uint32_t)(place + place / 8191 % step));
        }
        vf_store(out, f->vector(vf_load(in)));
        for (int i = 0; i < VLANES; i++) {
            double error = ulps_between(out[i], f->scalar((double)in[i]));
            if (error <= worst) continue;
            worst = error;
            *where = in[i];
        }
    }
    return worst;
}

static void test_errors(void **state)
{
    (void)state;
    const char *setting = getenv("TW_VECMATH_STEP");
    uint64_t step = getenv("TW_EXHAUSTIVE") ? 1 : setting ? (uint64_t)atoi(setting) : 16381;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        float where = 0;
        double worst = worst_error(&functions[i], step, &where);
        if (getenv("TW_VERBOSE"))
            printf("%-14s %.3f ulp at %a\n", functions[i].name, worst, (double)where);
        if (!(worst <= functions[i].ulps))
            fail_msg("%s: %.3f ulp at %a, bound %.2f", functions[i].name, worst, (double)where,
                     functions[i].ulps);
    }
}

/* Near the multiples of pi/2, where the reduction cancels most. */
static void test_angles(void **state)
{
    (void)state;
    for (int n = 1; n < 5300; n++) {
        const float base = (float)(n * 1.57079632679489661923);
        float in[VLANES], s[VLANES], c[VLANES], t[VLANES];
        for (int i = 0; i < VLANES; i++) {
            in[i] = base;
            for (int k = 0; k < i; k++) in[i] = nextafterf(in[i], k % 2 ? INFINITY : -INFINITY);
        }
        vf_store(s, vf_sin(vf_load(in)));
        vf_store(c, vf_cos(vf_load(in)));
        vf_store(t, vf_tan(vf_load(in)));
        for (int i = 0; i < VLANES; i++) {
            assert_true(ulps_between(s[i], sin((double)in[i])) <= 2.0);
            assert_true(ulps_between(c[i], cos((double)in[i])) <= 2.0);
            assert_true(ulps_between(t[i], tan((double)in[i])) <= 4.0);
        }
    }
}

static void test_pow(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int n = 0; n < 40000; n++) {
        float x[VLANES], y[VLANES], z[VLANES];
        for (int i = 0; i < VLANES; i++) {
            seed = seed * 1664525u + 1013904223u;
            x[i] = float_of(seed & (n % 4 ? 0x7fffffffu : 0xffffffffu));
            seed = seed * 1664525u + 1013904223u;
            y[i] = (float)((double)seed * 0x1p-32 - 0.5) * (n % 3 ? 8.0f : 200.0f);
            if (n % 5 == 0) y[i] = roundf(y[i]);
        }
        vf_store(z, vf_pow(vf_load(x), vf_load(y)));
        for (int i = 0; i < VLANES; i++) {
            double error = ulps_between(z[i], pow((double)x[i], (double)y[i]));
            if (!(error <= 4)) fail_msg("pow(%a, %a): %g ulp", (double)x[i], (double)y[i], error);
        }
    }
}

static void test_specials(void **state)
{
    (void)state;
    static const float special[] = {0.0f, -0.0f,   1e-45f,  -1e-45f, 1e-39f,   -1e-39f, INFINITY,
                                    1.0f, -1.0f,   88.0f,   -88.0f,  88.7228f, 89.0f,   -INFINITY,
                                    NAN,  -103.9f, -104.1f, 3.4e38f, -3.4e38f, 17.0f,   -17.0f};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        for (size_t k = 0; k < sizeof special / sizeof special[0]; k++) {
            float out[VLANES];
            vf_store(out, functions[i].vector(vf_set(special[k])));
            double error = ulps_between(out[0], functions[i].scalar((double)special[k]));
            if (!(error <= functions[i].ulps))
                fail_msg("%s(%a) = %a: %g ulp", functions[i].name, (double)special[k],
                         (double)out[0], error);
        }
    }
}

int main(void)
{
    if (tw_cpu_isa() < VEC_ISA) return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_angles),
        cmocka_unit_test(test_pow),
        cmocka_unit_test(test_specials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
