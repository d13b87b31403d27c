/* SPDX-License-Identifier: Apache-2.0 */
/* Reading source pixels: bands (channels last, padded along W) and gathered windows. */
#include <string.h>

#include "core/dtype.h"
#include "ops/conv/conv_part.h"

/* What a band holds of a box: pixels that exist and, where products take all taps of a row along W,
 * the padding that windows meet. */
static void band_extent(const tw_conv_part *part, const tw_conv_box *box, int64_t lo[4],
                        int64_t hi[4])
{
    lo[0] = box->lo[0];
    hi[0] = box->hi[0];
    for (int d = 0; d < 3; d++) {
        int64_t range[2];
        tw_conv_reach(part, d, box->lo[1 + d], box->hi[1 + d], range);
        if (d < 2 || part->way == TW_CONV_IMAGES || part->clipped) {
            range[0] = tw_conv_min(tw_conv_max(range[0], 0), part->src[d]);
            range[1] = tw_conv_min(range[1], part->src[d]);
        }
        lo[1 + d] = range[0];
        hi[1 + d] = tw_conv_max(range[1], range[0]);
    }
}

/* Images of a band do not lie a multiple of 4 KiB apart: their pixels would share a cache set. */
static int64_t band_image(int64_t floats) { return floats % 1024 == 0 ? floats + 16 : floats; }

int64_t tw_conv_band_floats(const tw_conv_part *part)
{
    double floats = (double)part->cin;
    for (int d = 0; d < 3; d++) {
        int64_t range[2];
        tw_conv_reach(part, d, 0, part->box[1 + d], range);
        double size = (double)(range[1] - range[0]);
        if (d < 2 && size > (double)part->src[d]) size = (double)part->src[d];
        floats *= size > 0 ? size : 0;
    }
    floats = (floats + 16) * (double)part->box[0];
    return floats < 0x1p62 ? (int64_t)floats : INT64_MAX / 2;
}

void tw_conv_widen(tw_dtype type, const void *x, int64_t offset, int64_t stride, int64_t n,
                   float *to)
{
    if (stride == 1) {
        (void)tw_convert(TW_F32, to, type, (const uint16_t *)x + offset, n, 0);
        return;
    }
    for (int64_t i = 0; i < n; i++) to[i] = (float)tw_load(type, x, offset + i * stride);
}

static void widen_pixels(const tw_conv_part *part, const void *x, int64_t offset, int64_t n,
                         float *dst)
{
    const int64_t pixel = part->from.at[2], channel = part->from.dim1, cin = part->cin;
    if (channel == 1 && pixel == cin) {
        tw_conv_widen(part->narrow, x, offset, 1, n * cin, dst);
        return;
    }
    for (int64_t w = 0; w < n; w++, dst += cin)
        tw_conv_widen(part->narrow, x, offset + w * pixel, channel, cin, dst);
}

/* Channels of pixels [lo, hi) of one row, to consecutive pixels of dst. */
static void copy_pixels(const tw_conv_part *part, const float *row, int64_t lo, int64_t hi,
                        float *dst)
{
    const int64_t pixel = part->from.at[2], channel = part->from.dim1, cin = part->cin;
    if (channel == 1 && pixel == cin) {
        memcpy(dst, row + lo * pixel, (size_t)((hi - lo) * cin) * sizeof *dst);
        return;
    }
    if (channel == 1) {
        for (int64_t w = lo; w < hi; w++)
            memcpy(dst + (w - lo) * cin, row + w * pixel, (size_t)cin * sizeof *dst);
        return;
    }
    /* Sixteen channels at a time: one line of dst for each pixel. */
    for (int64_t c = 0; c < cin; c += 16) {
        const int64_t n = tw_conv_min(16, cin - c);
        for (int64_t w = lo; w < hi; w++) {
            const float *from = row + w * pixel + c * channel;
            float *to = dst + (w - lo) * cin + c;
            for (int64_t i = 0; i < n; i++) to[i] = from[i * channel];
        }
    }
}

static void copy_band(const tw_conv_part *part, const int64_t lo[4], const int64_t hi[4],
                      const void *x, float *band)
{
    const int64_t cin = part->cin, width = hi[3] - lo[3];
    const int64_t first = tw_conv_min(tw_conv_max(lo[3], 0), hi[3]);
    const int64_t last = tw_conv_max(tw_conv_min(hi[3], part->src[2]), first);
    const int64_t image = (hi[1] - lo[1]) * (hi[2] - lo[2]) * width * cin;
    for (int64_t n = lo[0]; n < hi[0]; n++, band += band_image(image) - image)
        for (int64_t d = lo[1]; d < hi[1]; d++)
            for (int64_t h = lo[2]; h < hi[2]; h++) {
                const int64_t row =
                    n * part->from.dim0 + d * part->from.at[0] + h * part->from.at[1];
                float *pixels = band + (first - lo[3]) * cin;
                memset(band, 0, (size_t)((first - lo[3]) * cin) * sizeof *band);
                if (first < last && part->narrow != TW_AUTO)
                    widen_pixels(part, x, row + first * part->from.at[2], last - first, pixels);
                else if (first < last)
                    copy_pixels(part, (const float *)x + row, first, last, pixels);
                memset(band + (last - lo[3]) * cin, 0,
                       (size_t)((hi[3] - last) * cin) * sizeof *band);
                band += width * cin;
            }
}

tw_conv_source tw_conv_read_source(const tw_conv_part *part, const tw_conv_box *box, const void *x,
                                   float *band)
{
    tw_conv_source source = {
        .narrow = part->narrow, .data = x, .image = part->from.dim0, .channel = part->from.dim1};
    int64_t lo[4], hi[4];
    for (int d = 0; d < 3; d++) {
        source.at[d] = part->from.at[d];
        source.hi[d] = part->src[d];
    }
    if (!part->band) return source;
    band_extent(part, box, lo, hi);
    copy_band(part, lo, hi, x, band);
    source.narrow = TW_AUTO;
    source.data = band;
    source.channel = 1;
    source.at[2] = part->cin;
    source.at[1] = source.at[2] * (hi[3] - lo[3]);
    source.at[0] = source.at[1] * (hi[2] - lo[2]);
    source.image = band_image(source.at[0] * (hi[1] - lo[1]));
    source.start = -lo[0] * source.image;
    for (int d = 0; d < 3; d++) {
        source.start -= lo[1 + d] * source.at[d];
        source.lo[d] = lo[1 + d];
        source.hi[d] = hi[1 + d];
    }
    return source;
}

/* ---- Windows --------------------------------------------------------------------------------- */

static void copy_channels(const tw_conv_source *source, int64_t offset, int64_t n, float *to)
{
    if (source->narrow != TW_AUTO) {
        tw_conv_widen(source->narrow, source->data, offset, source->channel, n, to);
        return;
    }
    const float *from = (const float *)source->data + offset;
    if (source->channel == 1)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t c = 0; c < n; c++) to[c] = from[c * source->channel];
}

/* The taps along W at plane and row offset `base`. */
static void gather_row(const tw_conv_part *part, const tw_conv_source *source, int64_t base,
                       int64_t w, float *to)
{
    const int64_t cin = part->cin, taps = part->taps[2];
    if (part->contiguous && source->channel == 1 && w >= source->lo[2] &&
        w + taps <= source->hi[2]) {
        copy_channels(source, base + w * source->at[2], taps * cin, to);
        return;
    }
    for (int64_t t = 0; t < taps; t++, w += part->dilation[2], to += cin) {
        if (w >= source->lo[2] && w < source->hi[2])
            copy_channels(source, base + w * source->at[2], cin, to);
        else
            memset(to, 0, (size_t)cin * sizeof *to);
    }
}

void tw_conv_gather(const tw_conv_part *part, const tw_conv_source *source, int64_t n,
                    const int64_t p[3], float *row)
{
    const int64_t run = part->taps[2] * part->cin;
    const int64_t image = source->start + n * source->image;
    const int64_t w = p[2] * part->step[2] - part->pad[2];
    for (int64_t td = 0; td < part->taps[0]; td++) {
        const int64_t d = p[0] * part->step[0] - part->pad[0] + td * part->dilation[0];
        for (int64_t th = 0; th < part->taps[1]; th++, row += run) {
            const int64_t h = p[1] * part->step[1] - part->pad[1] + th * part->dilation[1];
            if (d < source->lo[0] || d >= source->hi[0] || h < source->lo[1] || h >= source->hi[1])
                memset(row, 0, (size_t)run * sizeof *row);
            else
                gather_row(part, source, image + d * source->at[0] + h * source->at[1], w, row);
        }
    }
}
