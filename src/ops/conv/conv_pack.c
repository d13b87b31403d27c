/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/conv/conv_pack.h"

#include <string.h>

int64_t tw_conv_panels(const tw_conv_part *part, const tw_conv_target *target)
{
    return tw_conv_up(part->cout, target->tile_cols);
}

int64_t tw_conv_packed_floats(const tw_conv_part *part, const tw_conv_target *target)
{
    return part->groups * tw_conv_panels(part, target) * part->window * target->tile_cols;
}

bool tw_conv_all_finite(const float *values, int64_t n)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

/* One tap: cin rows of `cols` columns. Sixteen input channels at a time, so that both the lines
 * read and those written stay in the first-level cache. */
static void pack_tap(const tw_conv_part *part, const float *w, int64_t cols, int64_t tile_cols,
                     float *to)
{
    for (int64_t first = 0; first < part->cin; first += 16, to += 16 * tile_cols) {
        const int64_t n = tw_conv_min(16, part->cin - first);
        const float *from = w + first * part->w_in;
        for (int64_t o = 0; o < cols; o++)
            for (int64_t i = 0; i < n; i++)
                to[i * tile_cols + o] = from[i * part->w_in + o * part->w_out];
        for (int64_t i = 0; cols < tile_cols && i < n; i++)
            memset(to + i * tile_cols + cols, 0, (size_t)(tile_cols - cols) * sizeof *to);
    }
}

static void pack_tap_rows(const tw_conv_part *part, const float *w, int64_t cols, int64_t tile_cols,
                          float *to)
{
    for (int64_t i = 0; i < part->cin; i++, to += tile_cols) {
        memcpy(to, w + i * part->w_in, (size_t)cols * sizeof *to);
        memset(to + cols, 0, (size_t)(tile_cols - cols) * sizeof *to);
    }
}

static void widen_tap(const tw_conv_part *part, const void *w, int64_t offset, int64_t cols,
                      int64_t tile_cols, float *to)
{
    for (int64_t i = 0; i < part->cin; i++, to += tile_cols) {
        tw_conv_widen(part->w_narrow, w, offset + i * part->w_in, part->w_out, cols, to);
        memset(to + cols, 0, (size_t)(tile_cols - cols) * sizeof *to);
    }
}

bool tw_conv_pack_panel(const tw_conv_part *part, const tw_conv_target *target, int64_t index,
                        const void *w, float *packed)
{
    const int64_t tile_cols = target->tile_cols, panels = tw_conv_panels(part, target);
    const int64_t group = index / panels, first = index % panels * tile_cols;
    const int64_t cols = tw_conv_min(tile_cols, part->cout - first);
    const int64_t start = part->w_start + group * part->w_group + first * part->w_out;
    float *panel = packed + part->packed + index * part->window * tile_cols, *to = panel;
    for (int64_t d = 0; d < part->taps[0]; d++)
        for (int64_t h = 0; h < part->taps[1]; h++)
            for (int64_t v = 0; v < part->taps[2]; v++, to += part->cin * tile_cols) {
                const int64_t at =
                    start + d * part->w_tap[0] + h * part->w_tap[1] + v * part->w_tap[2];
                const float *tap = (const float *)w + at;
                if (part->w_narrow != TW_AUTO)
                    widen_tap(part, w, at, cols, tile_cols, to);
                else if (part->w_out == 1)
                    pack_tap_rows(part, tap, cols, tile_cols, to);
                else
                    pack_tap(part, tap, cols, tile_cols, to);
            }
    return tw_conv_all_finite(panel, part->window * tile_cols);
}
