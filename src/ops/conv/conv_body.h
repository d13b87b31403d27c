/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of one target: its GEMM core and pointwise interpreter, for the common code. */
#include "arch/cpu/vec.h"
#include "ops/conv/conv_depthwise_body.h"
#include "ops/conv/conv_pixels.h"
#include "ops/conv/conv_wgrad.h"

static const tw_conv_target target = {.brgemm = TW_SYMBOL(tw_brgemm_f32),
                                      .chain_run = TW_SYMBOL(tw_chain_run_f32),
                                      .tile_rows = TW_TILE_ROWS,
                                      .tile_cols = TW_TILE_COLS};

static const char *pixels_supports(const tw_problem *problem)
{
    return tw_conv_pixels_refuses(problem, &target);
}

static tw_status pixels_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    return tw_conv_pixels_prepare(problem, prepare, &target);
}

static const char *wgrad_supports(const tw_problem *problem)
{
    return tw_conv_wgrad_refuses(problem, &target);
}

static tw_status wgrad_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    return tw_conv_wgrad_prepare(problem, prepare, &target);
}

static const tw_conv_depthwise_target depthwise_target = {
    .row = depthwise_row, .sum = depthwise_sum, .chain_run = TW_SYMBOL(tw_chain_run_f32)};

static tw_status depthwise_prepare(const tw_problem *problem, tw_prepare *prepare)
{
    return tw_conv_depthwise_prepare(problem, prepare, &depthwise_target);
}

#define TW_CONV_ROW(name, supports_fn, prepare_fn, run_fn)                                         \
    extern const tw_kernel_impl TW_SYMBOL(tw_conv_##name);                                         \
    const tw_kernel_impl TW_SYMBOL(tw_conv_##name) = {                                             \
        .supports = supports_fn, .prepare = prepare_fn, .run = run_fn};
TW_CONV_ROW(brgemm_f32_f16_bf16, pixels_supports, pixels_prepare, tw_conv_pixels_run)
TW_CONV_ROW(brgemm_dgrad_f32_f16_bf16, pixels_supports, pixels_prepare, tw_conv_pixels_run)
TW_CONV_ROW(brgemm_wgrad_f32, wgrad_supports, wgrad_prepare, tw_conv_wgrad_run)
TW_CONV_ROW(depthwise_f32, tw_conv_depthwise_refuses, depthwise_prepare, tw_conv_depthwise_run)
TW_CONV_ROW(depthwise_dgrad_f32, tw_conv_depthwise_refuses, depthwise_prepare,
            tw_conv_depthwise_run)
TW_CONV_ROW(depthwise_wgrad_f32, tw_conv_depthwise_refuses, depthwise_prepare,
            tw_conv_depthwise_wgrad_run)
