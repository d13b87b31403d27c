/* SPDX-License-Identifier: Apache-2.0 */
/* The references: any floating type, any strides, in place. */
#include "core/dtype.h"
#include "ops/dropout/dropout.h"
#include "ops/random/random.h"
#include "ops/random/walk.h"

/* y = x·scale, or 0: dropped elements are never read, so that NaN does not survive. Types up to
 * f32 are scaled in f32. */
static void store_scaled(const tw_launch *launch, const tw_walk *x, const tw_walk *y, bool keep)
{
    const double scale = tw_dropout_scale(launch->problem->attrs->dropout.rate);
    double value = 0;
    if (keep) {
        const double read = tw_load(x->view->dtype, launch->in[0], x->offset);
        const bool wide = x->view->dtype == TW_F64 || y->view->dtype == TW_F64;
        value = wide ? read * scale : (double)((float)read * (float)scale);
    }
    tw_store(y->view->dtype, launch->out[0], y->offset, value, 0);
}

static const char *supports(const tw_problem *problem)
{
    const bool fused = problem->epilogue != NULL || problem->prologue[0] != NULL;
    return fused ? "fused steps" : NULL;
}

static tw_status run_forward(const tw_launch *launch)
{
    const tw_problem *problem = launch->problem;
    const tw_dropout_attrs *attrs = &problem->attrs->dropout;
    const tw_view *y = &problem->out[0], *mask = NULL;
    const int64_t n = tw_view_elements(y);
    if (n == 0) return TW_OK;
    if (problem->n_out > 1 && problem->out[1].dtype != TW_AUTO) mask = &problem->out[1];
    const tw_philox stream = tw_random_stream(launch, 1, attrs->seed, attrs->offset);
    const uint64_t threshold = tw_philox_threshold(attrs->rate);
    tw_walk at_x = tw_walk_from(&problem->in[0], 0), at_y = tw_walk_from(y, 0);
    tw_walk at_mask = tw_walk_from(mask != NULL ? mask : y, 0);
    for (int64_t i = 0; i < n; i++) {
        const bool keep = tw_philox_word(stream, i) >= threshold;
        store_scaled(launch, &at_x, &at_y, keep);
        if (mask != NULL) tw_store_int(mask->dtype, launch->out[1], at_mask.offset, keep, 0);
        tw_walk_next(&at_x);
        tw_walk_next(&at_y);
        tw_walk_next(&at_mask);
    }
    return TW_OK;
}

static tw_status run_backward(const tw_launch *launch)
{
    const tw_problem *problem = launch->problem;
    const tw_view *dx = &problem->out[0], *mask = &problem->in[1];
    const int64_t n = tw_view_elements(dx);
    if (n == 0) return TW_OK;
    tw_walk at_dy = tw_walk_from(&problem->in[0], 0), at_dx = tw_walk_from(dx, 0);
    tw_walk at_mask = tw_walk_from(mask, 0);
    const bool none = problem->attrs->dropout.rate == 1;
    for (int64_t i = 0; i < n; i++) {
        const bool keep = !none && tw_load_int(mask->dtype, launch->in[1], at_mask.offset) != 0;
        store_scaled(launch, &at_dy, &at_dx, keep);
        tw_walk_next(&at_dy);
        tw_walk_next(&at_dx);
        tw_walk_next(&at_mask);
    }
    return TW_OK;
}

const tw_kernel_impl tw_dropout_forward_any__ref = {
    .supports = supports, .run = run_forward, .in_place = 1};
const tw_kernel_impl tw_dropout_backward_any__ref = {
    .supports = supports, .run = run_backward, .in_place = 1};
