/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: coefficients, and the references. */
#include "ops/optimizer/optimizer_graph.h"

#include <math.h>

#include "core/dtype.h"
#include "core/error.h"

tw_sgd_coefs tw_sgd_coefs_of(const tw_launch *launch)
{
    const tw_sgd_attrs *attrs = &launch->problem->attrs->sgd;
    return (tw_sgd_coefs){.lr = *(const float *)launch->in[TW_SGD_LR],
                          .momentum = attrs->momentum,
                          .fresh = 1 - attrs->dampening,
                          .decay = attrs->weight_decay,
                          .nesterov = attrs->nesterov};
}

tw_status tw_adam_coefs_of(const tw_launch *launch, tw_adam_coefs *coefs)
{
    const tw_adam_attrs *attrs = &launch->problem->attrs->adam;
    double lr = *(const float *)launch->in[TW_ADAM_LR];
    int64_t step = *(const int64_t *)launch->in[TW_ADAM_STEP];
    TW_REQUIRE(step >= 1, TW_INVALID_ARGUMENT, "adam: step is %lld; steps count from 1",
               (long long)step);
    *coefs = (tw_adam_coefs){.beta1 = attrs->beta1,
                             .beta2 = attrs->beta2,
                             .fresh1 = 1 - attrs->beta1,
                             .fresh2 = 1 - attrs->beta2,
                             .eps = attrs->eps,
                             .rate = lr / (1 - pow(attrs->beta1, (double)step)),
                             .spread = 1 / sqrt(1 - pow(attrs->beta2, (double)step)),
                             .decay = attrs->decoupled ? 0 : attrs->weight_decay,
                             .shrink = attrs->decoupled ? 1 - lr * attrs->weight_decay : 1};
    return TW_OK;
}

/* One rounding of f32 arithmetic, or none of f64. Operations on f32 values done in double and
 * rounded once more are those of f32. */
static double fit(bool wide, double value) { return wide ? value : (double)(float)value; }

static int64_t offset_of(const tw_view *view, const int64_t *index)
{
    int64_t offset = 0;
    for (int32_t d = 0; d < view->rank; d++) offset += index[d] * view->strides[d];
    return offset;
}

static double read(const tw_launch *launch, int32_t i, const int64_t *index)
{
    const tw_view *view = &launch->problem->in[i];
    return tw_load(view->dtype, launch->in[i], offset_of(view, index));
}

static void write(const tw_launch *launch, int32_t i, const int64_t *index, double value)
{
    const tw_problem *problem = launch->problem;
    if (i >= problem->n_out || problem->out[i].dtype == TW_AUTO) return;
    tw_store(problem->out[i].dtype, launch->out[i], offset_of(&problem->out[i], index), value, 0);
}

static void sgd_element(const tw_launch *launch, const tw_sgd_coefs *c, const int64_t *index)
{
    bool wide = launch->problem->in[0].dtype == TW_F64;
    bool has_velocity = launch->problem->in[TW_SGD_VELOCITY].dtype != TW_AUTO;
    double w = read(launch, TW_SGD_PARAM, index), g = read(launch, TW_SGD_GRAD, index);
    double momentum = fit(wide, c->momentum), lr = fit(wide, c->lr);
    if (c->decay != 0) g = fit(wide, g + fit(wide, fit(wide, c->decay) * w));
    double step = g;
    if (has_velocity) {
        double v = fit(wide, momentum * read(launch, TW_SGD_VELOCITY, index));
        v = fit(wide, v + fit(wide, fit(wide, c->fresh) * g));
        step = c->nesterov ? fit(wide, g + fit(wide, momentum * v)) : v;
        write(launch, 1, index, v);
    }
    write(launch, 0, index, fit(wide, w - fit(wide, lr * step)));
}

static void adam_element(const tw_launch *launch, const tw_adam_coefs *c, const int64_t *index)
{
    bool wide = launch->problem->in[0].dtype == TW_F64;
    double w = read(launch, TW_ADAM_PARAM, index), g = read(launch, TW_ADAM_GRAD, index);
    double m = fit(wide, fit(wide, c->beta1) * read(launch, TW_ADAM_M, index));
    double v = fit(wide, fit(wide, c->beta2) * read(launch, TW_ADAM_V, index));
    if (c->decay != 0) g = fit(wide, g + fit(wide, fit(wide, c->decay) * w));
    m = fit(wide, m + fit(wide, fit(wide, c->fresh1) * g));
    v = fit(wide, v + fit(wide, fit(wide, c->fresh2) * fit(wide, g * g)));
    double root = fit(wide, fit(wide, sqrt(v)) * fit(wide, c->spread));
    double step = fit(wide, m / fit(wide, root + fit(wide, c->eps)));
    if (c->shrink != 1) w = fit(wide, w * fit(wide, c->shrink));
    write(launch, 0, index, fit(wide, w - fit(wide, fit(wide, c->rate) * step)));
    write(launch, 1, index, m);
    write(launch, 2, index, v);
}

/* The next index in row-major order; false after the last. */
static bool next_index(const tw_view *view, int64_t *index)
{
    for (int32_t d = view->rank - 1; d >= 0; d--) {
        if (++index[d] < view->dims[d]) return true;
        index[d] = 0;
    }
    return false;
}

static bool is_empty(const tw_view *view)
{
    for (int32_t d = 0; d < view->rank; d++)
        if (view->dims[d] == 0) return true;
    return false;
}

static tw_status run_sgd(const tw_launch *launch)
{
    const tw_view *param = &launch->problem->in[0];
    tw_sgd_coefs coefs = tw_sgd_coefs_of(launch);
    int64_t index[TW_MAX_RANK] = {0};
    if (is_empty(param)) return TW_OK;
    do sgd_element(launch, &coefs, index);
    while (next_index(param, index));
    return TW_OK;
}

static tw_status run_adam(const tw_launch *launch)
{
    const tw_view *param = &launch->problem->in[0];
    tw_adam_coefs coefs;
    int64_t index[TW_MAX_RANK] = {0};
    TW_TRY(tw_adam_coefs_of(launch, &coefs));
    if (is_empty(param)) return TW_OK;
    do adam_element(launch, &coefs, index);
    while (next_index(param, index));
    return TW_OK;
}

static const char *supports_all(const tw_problem *problem)
{
    return problem->epilogue != NULL ? "it has an epilogue" : NULL;
}

/* Each element is read before any of its results is written, so every output may be the memory of
 * the operand that it replaces. */
const tw_kernel_impl tw_optimizer_sgd_any__ref = {.supports = supports_all,
                                                  .run = run_sgd,
                                                  .in_place =
                                                      1u << TW_SGD_PARAM | 1u << TW_SGD_VELOCITY};
const tw_kernel_impl tw_optimizer_adam_any__ref = {.supports = supports_all,
                                                   .run = run_adam,
                                                   .in_place = 1u << TW_ADAM_PARAM |
                                                               1u << TW_ADAM_M | 1u << TW_ADAM_V};
