/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real arithmetic of the modes. Written so that every function has its limits at the infinities:
 * a product of something that vanishes with something that grows is 0, never inf·0.
 */
#include "ops/pointwise/pointwise_math.h"

#include <math.h>

#define SQRT_HALF 0.70710678118654752440
#define SQRT_2_PI 0.79788456080286535588    /* sqrt(2/pi) */
#define INV_SQRT_2PI 0.39894228040143267794 /* 1/sqrt(2·pi) */
#define GELU_CUBE 0.044715

/* x·factor, where a factor of 0 is the limit of one that vanishes faster than x grows. */
static double damped(double x, double factor) { return factor == 0 && !isnan(x) ? 0 : x * factor; }

static double sigmoid(double x)
{
    double e = exp(-fabs(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

/* sigmoid(x)·(1 - sigmoid(x)) with no cancellation */
static double sigmoid_slope(double x)
{
    double e = exp(-fabs(x));
    return e / ((1 + e) * (1 + e));
}

static double clip(double x, double lo, double hi)
{
    if (isnan(x)) return x;
    double raised = x < lo ? lo : x;
    return raised > hi ? hi : raised;
}

static double larger(double a, double b) { return isnan(a) || a > b ? a : b; }
static double smaller(double a, double b) { return isnan(a) || a < b ? a : b; }
static double relu(double x) { return x <= 0 ? 0 : x; }
static double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static double elu(double x, double alpha) { return x > 0 ? x : alpha * expm1(x); }
static double celu(double x, double alpha) { return x > 0 ? x : alpha * expm1(x / alpha); }

static double softplus(double x, double alpha)
{
    double z = alpha * x;
    if (z > 40) return x;
    return (z > 0 ? z + log1p(exp(-z)) : log1p(exp(z))) / alpha;
}

static double softsign(double x) { return isinf(x) ? copysign(1, x) : x / (1 + fabs(x)); }

/* Standard normal distribution and density. */
static double normal_cdf(double x) { return 0.5 * erfc(-x * SQRT_HALF); }
static double normal_pdf(double x) { return INV_SQRT_2PI * exp(-0.5 * x * x); }
static double gelu(double x) { return damped(x, normal_cdf(x)); }
static double gelu_slope(double x) { return normal_cdf(x) + damped(x, normal_pdf(x)); }

static double gelu_tanh_argument(double x) { return 2 * SQRT_2_PI * x * (1 + GELU_CUBE * x * x); }
static double gelu_tanh(double x) { return damped(x, sigmoid(gelu_tanh_argument(x))); }

static double gelu_tanh_slope(double x)
{
    double v = gelu_tanh_argument(x);
    double dv = 2 * SQRT_2_PI * (1 + 3 * GELU_CUBE * x * x);
    return sigmoid(v) + damped(x * dv, sigmoid_slope(v));
}

static double silu(double x, double alpha) { return damped(x, sigmoid(alpha * x)); }

static double silu_slope(double x, double alpha)
{
    return sigmoid(alpha * x) + damped(alpha * x, sigmoid_slope(alpha * x));
}

/* tanh(softplus(x)) = n / (n + 2) with n = e^x·(e^x + 2) */
static double tanh_softplus(double x)
{
    if (x > 40) return 1;
    double e = exp(x), n = e * (e + 2);
    return n / (n + 2);
}

static double mish(double x) { return damped(x, tanh_softplus(x)); }

/* The derivative of tanh(softplus(x)) is 4·e^x·(1 + e^x)/(n + 2)^2. */
static double mish_slope(double x)
{
    if (x > 40) return 1;
    double e = exp(x), m = e * (e + 2) + 2;
    return tanh_softplus(x) + damped(x, 4 * e * (1 + e) / (m * m));
}

static double tanh_slope(double x)
{
    double e = exp(-2 * fabs(x));
    return 4 * e / ((1 + e) * (1 + e));
}

static double hard_swish_slope(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5; }

static double hard_sigmoid_slope(double x, double alpha, double beta)
{
    double y = alpha * x + beta;
    return y > 0 && y < 1 ? alpha : 0;
}

/* The remainder with the sign of b. */
static double floor_mod(double a, double b)
{
    double r = fmod(a, b);
    if (r == 0) return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

static double real_unary(const tw_pointwise_attrs *p, double a)
{
    switch ((int)p->mode) {
    case TW_PW_IDENTITY: return a;
    case TW_PW_ABS: return fabs(a);
    case TW_PW_NEG: return -a;
    case TW_PW_CEIL: return ceil(a);
    case TW_PW_FLOOR: return floor(a);
    case TW_PW_ROUND: return rint(a);
    case TW_PW_SQRT: return sqrt(a);
    case TW_PW_RSQRT: return 1 / sqrt(a);
    case TW_PW_RECIPROCAL: return 1 / a;
    case TW_PW_EXP: return exp(a);
    case TW_PW_EXPM1: return expm1(a);
    case TW_PW_LOG: return log(a);
    case TW_PW_LOG1P: return log1p(a);
    case TW_PW_SIN: return sin(a);
    case TW_PW_COS: return cos(a);
    case TW_PW_TAN: return tan(a);
    case TW_PW_ERF: return erf(a);
    case TW_PW_TANH: return tanh(a);
    case TW_PW_SIGMOID: return sigmoid(a);
    case TW_PW_RELU: return relu(a);
    case TW_PW_RELU6: return clip(a, 0, 6);
    case TW_PW_LEAKY_RELU: return a > 0 ? a : p->alpha * a;
    case TW_PW_ELU: return elu(a, p->alpha);
    case TW_PW_SELU: return p->beta * elu(a, p->alpha);
    case TW_PW_CELU: return celu(a, p->alpha);
    case TW_PW_GELU: return gelu(a);
    case TW_PW_GELU_TANH: return gelu_tanh(a);
    case TW_PW_SILU: return silu(a, p->alpha);
    case TW_PW_MISH: return mish(a);
    case TW_PW_SOFTPLUS: return softplus(a, p->alpha);
    case TW_PW_SOFTSIGN: return softsign(a);
    case TW_PW_HARD_SIGMOID: return clip(p->alpha * a + p->beta, 0, 1);
    case TW_PW_HARD_SWISH: return damped(a, clip(a / 6 + 0.5, 0, 1));
    case TW_PW_CLIP: return clip(a, p->alpha, p->beta);
    case TW_PW_SIGN: return sign(a);
    case TW_PW_SQUARE: return a * a;
    case TW_PW_LOGICAL_NOT: return a == 0;
    case TW_PW_IS_NAN: return isnan(a);
    case TW_PW_IS_INF: return isinf(a) != 0;
    case TW_PW_LINEAR: return p->alpha * a + p->beta;
    default: return NAN;
    }
}

static double real_binary(const tw_pointwise_attrs *p, double a, double b)
{
    switch ((int)p->mode) {
    case TW_PW_ADD: return a + p->alpha * b;
    case TW_PW_SUB: return a - p->alpha * b;
    case TW_PW_MUL: return a * b;
    case TW_PW_DIV: return a / b;
    case TW_PW_MAX: return larger(a, b);
    case TW_PW_MIN: return smaller(a, b);
    case TW_PW_POW: return pow(a, b);
    case TW_PW_MOD: return floor_mod(a, b);
    case TW_PW_FMOD: return fmod(a, b);
    case TW_PW_ATAN2: return atan2(a, b);
    case TW_PW_ADD_SQUARE: return a + b * b;
    case TW_PW_PRELU: return a > 0 ? a : b * a;
    case TW_PW_EQ: return a == b;
    case TW_PW_NE: return a != b;
    case TW_PW_LT: return a < b;
    case TW_PW_LE: return a <= b;
    case TW_PW_GT: return a > b;
    case TW_PW_GE: return a >= b;
    case TW_PW_LOGICAL_AND: return a != 0 && b != 0;
    case TW_PW_LOGICAL_OR: return a != 0 || b != 0;
    case TW_PW_LOGICAL_XOR: return (a != 0) != (b != 0);
    default: return NAN;
    }
}

static double real_gradient(const tw_pointwise_attrs *p, double dy, double x)
{
    switch ((int)p->mode) {
    case TW_PW_RELU_BWD: return x > 0 ? dy : 0;
    case TW_PW_RELU6_BWD: return x > 0 && x < 6 ? dy : 0;
    case TW_PW_LEAKY_RELU_BWD: return x > 0 ? dy : p->alpha * dy;
    case TW_PW_ELU_BWD: return x > 0 ? dy : dy * p->alpha * exp(x);
    case TW_PW_SELU_BWD: return dy * p->beta * (x > 0 ? 1 : p->alpha * exp(x));
    case TW_PW_CELU_BWD: return x > 0 ? dy : dy * exp(x / p->alpha);
    case TW_PW_GELU_BWD: return dy * gelu_slope(x);
    case TW_PW_GELU_TANH_BWD: return dy * gelu_tanh_slope(x);
    case TW_PW_SILU_BWD: return dy * silu_slope(x, p->alpha);
    case TW_PW_MISH_BWD: return dy * mish_slope(x);
    case TW_PW_SOFTPLUS_BWD: return dy * sigmoid(p->alpha * x);
    case TW_PW_SOFTSIGN_BWD: return dy / (1 + fabs(x)) / (1 + fabs(x));
    case TW_PW_HARD_SIGMOID_BWD: {
        double slope = hard_sigmoid_slope(x, p->alpha, p->beta);
        return slope == 0 ? 0 : slope * dy;
    }
    case TW_PW_HARD_SWISH_BWD: return dy * hard_swish_slope(x);
    case TW_PW_CLIP_BWD: return x > p->alpha && x < p->beta ? dy : 0;
    case TW_PW_TANH_BWD: return dy * tanh_slope(x);
    case TW_PW_SIGMOID_BWD: return dy * sigmoid_slope(x);
    case TW_PW_TANH_BWD_Y: return dy * ((1 - x) * (1 + x));
    case TW_PW_SIGMOID_BWD_Y: return dy * (x * (1 - x));
    case TW_PW_ABS_BWD: return x > 0 ? dy : x < 0 ? -dy : x;
    default: return NAN;
    }
}

double tw_pw_real(const tw_pointwise_attrs *attrs, double a, double b, double c)
{
    switch ((int)attrs->mode) {
    case TW_PW_SELECT: return a != 0 ? b : c;
    case TW_PW_FMA: return fma(a, b, c);
    case TW_PW_CLAMP: return smaller(larger(a, b), c);
    default: break;
    }
    if (attrs->mode >= TW_PW_RELU_BWD) return real_gradient(attrs, a, b);
    return attrs->mode >= TW_PW_ADD ? real_binary(attrs, a, b) : real_unary(attrs, a);
}
