/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise rows over the vector types: see conv_depthwise.h. */
#include "ops/conv/conv_depthwise.h"

/* Pixels that share a load of the weights. */
enum { BLOCK = 4 };

TW_INLINE vf load_lanes(const float *p, int lanes)
{
    return lanes == VLANES ? vf_load(p) : vf_load_n(p, lanes);
}

/* `count` pixels (1 or BLOCK) and one vector of channels. */
TW_INLINE void row_block(const tw_conv_depthwise_row *row, int64_t pixel, int64_t c, int count,
                         int lanes)
{
    vf sum[BLOCK];
    for (int i = 0; i < count; i++) sum[i] = vf_zero();
    for (int64_t r = 0; r < row->n_rows; r++) {
        const float *x = row->x + row->x_rows[r] + pixel * row->x_pixel + c;
        const float *w = row->w + row->w_rows[r] + c;
        for (int64_t t = 0; t < row->taps; t++, x += row->x_tap, w += row->w_tap) {
            const vf weight = load_lanes(w, lanes);
            for (int i = 0; i < count; i++)
                sum[i] = vf_fma(load_lanes(x + i * row->x_pixel, lanes), weight, sum[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        float *y = row->y + (pixel + i) * row->y_pixel + c;
        if (lanes == VLANES)
            vf_store(y, sum[i]);
        else
            vf_store_n(y, sum[i], lanes);
    }
}

static void depthwise_row(const tw_conv_depthwise_row *row)
{
    const int64_t whole = row->channels - row->channels % VLANES;
    const int rest = (int)(row->channels - whole);
    int64_t pixel = 0;
    for (; pixel + BLOCK <= row->pixels; pixel += BLOCK) {
        for (int64_t c = 0; c < whole; c += VLANES) row_block(row, pixel, c, BLOCK, VLANES);
        if (rest > 0) row_block(row, pixel, whole, BLOCK, rest);
    }
    for (; pixel < row->pixels; pixel++) {
        for (int64_t c = 0; c < whole; c += VLANES) row_block(row, pixel, c, 1, VLANES);
        if (rest > 0) row_block(row, pixel, whole, 1, rest);
    }
}

/* Four vectors of channels, so that as many additions are under way. */
TW_INLINE void sum_block(const tw_conv_depthwise_sum *row, int64_t c)
{
    vf sum[BLOCK];
    for (int j = 0; j < BLOCK; j++) sum[j] = vf_load(row->sum + c + j * VLANES);
    const float *x = row->x + c, *y = row->y + c;
    for (int64_t i = 0; i < row->pixels; i++, x += row->x_pixel, y += row->y_pixel)
        for (int j = 0; j < BLOCK; j++)
            sum[j] = vf_fma(vf_load(x + j * VLANES), vf_load(y + j * VLANES), sum[j]);
    for (int j = 0; j < BLOCK; j++) vf_store(row->sum + c + j * VLANES, sum[j]);
}

static void depthwise_sum(const tw_conv_depthwise_sum *row)
{
    int64_t c = 0;
    for (; c + BLOCK * VLANES <= row->channels; c += BLOCK * VLANES) sum_block(row, c);
    for (; c < row->channels; c += VLANES) {
        const int64_t left = row->channels - c;
        const int lanes = left < VLANES ? (int)left : VLANES;
        vf sum = vf_load_n(row->sum + c, lanes);
        for (int64_t i = 0; i < row->pixels; i++)
            sum = vf_fma(vf_load_n(row->x + i * row->x_pixel + c, lanes),
                         vf_load_n(row->y + i * row->y_pixel + c, lanes), sum);
        vf_store_n(row->sum + c, sum, lanes);
    }
}
