/* SPDX-License-Identifier: Apache-2.0 */
/* The chain interpreter as an epilogue: anchor tiles of every position and size, as gemm and conv
 * hand them over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tile/cpu/chain_run.h"

typedef struct target {
    tw_isa isa;
    tw_chain_run_fn run;
} target;

static const target targets[] = {
#if defined(__x86_64__)
    {TW_ISA_AVX512, tw_chain_run_f32__avx512},
    {TW_ISA_AVX2, tw_chain_run_f32__avx2},
    {TW_ISA_BASELINE, tw_chain_run_f32__sse2},
#elif defined(__aarch64__)
    {TW_ISA_BASELINE, tw_chain_run_f32__neon},
#endif
    {TW_ISA_END, NULL},
};

enum {
    IMAGES = 2,
    CHANNELS = 21,
    HEIGHT = 5,
    WIDTH = 7,
    PIXELS = IMAGES * HEIGHT * WIDTH,
    PITCH = 24
};

/* y[n,k,h,w] = relu(anchor + bias[k]), with the anchor as rows of pixels and columns of
 * channels. */
static const tw_chain_step steps[2] = {
    {.attrs = {.mode = TW_PW_ADD, .alpha = 1, .compute = TW_F32},
     .a = 0,
     .b = 1,
     .c = -1,
     .round = TW_F32},
    {.attrs = {.mode = TW_PW_RELU, .compute = TW_F32}, .a = 2, .b = -1, .c = -1, .round = TW_F32},
};

static void check_layout(const target *t, bool channels_last)
{
    static float anchor[PIXELS * PITCH], bias[CHANNELS], y[PIXELS * CHANNELS];
    const int64_t image = CHANNELS * HEIGHT * WIDTH, plane = HEIGHT * WIDTH;
    tw_view load = {.dtype = TW_F32,
                    .rank = 4,
                    .dims = {IMAGES, CHANNELS, HEIGHT, WIDTH},
                    .strides = {0, 1, 0, 0},
                    .alignment = 4};
    tw_chain_store store = {.value = 3, .view = load};
    const int64_t first[4] = {image, plane, WIDTH, 1};
    const int64_t last[4] = {image, 1, WIDTH * CHANNELS, CHANNELS};
    memcpy(store.view.strides, channels_last ? last : first, sizeof first);
    tw_chain chain = {.rank = 4,
                      .dims = {IMAGES, CHANNELS, HEIGHT, WIDTH},
                      .n_loads = 1,
                      .n_steps = 2,
                      .n_stores = 1,
                      .loads = &load,
                      .steps = steps,
                      .stores = &store,
                      .anchor_round = TW_F32};
    for (int i = 0; i < PIXELS * PITCH; i++) anchor[i] = (float)(i * 37 % 101 - 50);
    for (int i = 0; i < CHANNELS; i++) bias[i] = (float)(i % 5 - 2);
    for (int i = 0; i < PIXELS * CHANNELS; i++) y[i] = -1;

    tw_arena arena = {0};
    const tw_chain_program *program;
    assert_int_equal(tw_chain_compile(&chain, 1, &arena, &program), TW_OK);
    for (int64_t row = 0; row < PIXELS; row += 9) {
        for (int64_t col = 0; col < CHANNELS; col += 8) {
            const tw_chain_tile tile = {.program = program,
                                        .loads = (void *[]){bias},
                                        .stores = (void *[]){y},
                                        .anchor = anchor + row * PITCH + col,
                                        .anchor_row = PITCH,
                                        .row = row,
                                        .rows = PIXELS - row < 9 ? PIXELS - row : 9,
                                        .col = col,
                                        .cols = CHANNELS - col < 8 ? CHANNELS - col : 8};
            t->run(&tile);
        }
    }
    tw_arena_free(&arena);
    for (int64_t p = 0; p < PIXELS; p++) {
        for (int64_t k = 0; k < CHANNELS; k++) {
            const int64_t *s = store.view.strides;
            int64_t n = p / plane, h = p % plane / WIDTH, w = p % WIDTH;
            float sum = anchor[p * PITCH + k] + bias[k];
            float got = y[n * s[0] + k * s[1] + h * s[2] + w * s[3]];
            if (got != (sum > 0 ? sum : 0))
                fail_msg("pixel %d channel %d: %g, want %g", (int)p, (int)k, (double)got,
                         (double)(sum > 0 ? sum : 0));
        }
    }
}

static void test_epilogue(void **state)
{
    (void)state;
    for (const target *t = targets; t->run; t++) {
        if (t->isa > tw_cpu_isa()) continue;
        check_layout(t, false);
        check_layout(t, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_epilogue)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
