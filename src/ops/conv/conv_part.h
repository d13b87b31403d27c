/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the f32 kernels compute: correlations of channels-last pixels.
 *
 *   dst[n, p, o] = Σ_t Σ_i src[n, p·step − pad + t·dilation, i] · W_t[i, o]
 *
 * A forward pass is one such part. A data gradient is one part for each residue class of x's
 * positions modulo the stride: within a class the taps that contribute are a regular subset, so
 * each class is a correlation with step 1 and no multiplication by inserted zeros. A weight
 * gradient walks the forward part's pixels.
 *
 * A part's pixels are cut into boxes, the work items: ranges of images, or of planes, rows or
 * pixels of one image. The cut depends on the problem alone.
 */
#ifndef TW_OPS_CONV_CONV_PART_H
#define TW_OPS_CONV_CONV_PART_H

#include "ops/conv/conv_geometry.h"
#include "tile/cpu/brgemm.h"
#include "tile/cpu/chain_run.h"

/* What a target gives; the thin <target> files fill it in. */
typedef struct tw_conv_target {
    tw_brgemm_fn brgemm;
    tw_chain_run_fn chain_run;
    int64_t tile_rows, tile_cols;
} tw_conv_target;

enum { TW_CONV_N = 0, TW_CONV_D = 1, TW_CONV_H = 2, TW_CONV_W = 3 };

typedef struct tw_conv_box {
    int64_t lo[4], hi[4]; /* N, D, H, W */
} tw_conv_box;

/* What the rows of one product are. ROWS: pixels along W. IMAGES: the same pixel of many images.
 * GATHER: windows copied from consecutive pixels. */
typedef enum tw_conv_way { TW_CONV_ROWS, TW_CONV_IMAGES, TW_CONV_GATHER } tw_conv_way;

typedef struct tw_conv_part {
    int64_t n, cin, cout, groups; /* channels of one group */
    int64_t src[3], dst[3], taps[3], step[3], dilation[3], pad[3];
    tw_conv_strides from, to;
    int64_t to_start; /* of destination pixel 0 */
    /* Weight (t, i, o) of group g is w_start + g·w_group + i·w_in + o·w_out + t·w_tap. */
    int64_t w_start, w_group, w_in, w_out, w_tap[3];
    tw_dtype narrow, w_narrow; /* types that are widened as they are copied; TW_AUTO: f32 */
    int64_t packed;            /* where this part's packed weights start */
    int64_t box[4], boxes[4];
    bool band; /* source rows are copied, channels last and with their zero padding */
    tw_conv_way way;
    bool contiguous;  /* a row of taps is one run of memory */
    bool fills;       /* copies put zeros where there is padding */
    bool clipped;     /* bands hold no padding */
    int64_t chunk;    /* pixels gathered, or finished, at a time */
    int64_t window;   /* taps · cin */
    int64_t row;      /* floats from one gathered window to the next */
    int64_t to_pixel; /* elements between consecutive destination pixels; 0: not one number */
} tw_conv_part;

/* Source pixels as a kernel reads them: x itself, or a band. */
typedef struct tw_conv_source {
    tw_dtype narrow; /* TW_AUTO: data are floats */
    const void *data;
    int64_t start; /* offset of (n 0, position 0, channel 0): may lie outside the memory */
    int64_t image, at[3], channel;
    int64_t lo[3], hi[3]; /* positions that exist */
} tw_conv_source;

void tw_conv_forward_part(const tw_conv_geometry *g, tw_conv_part *part);

/* Residue classes: their number, and one of them. */
int64_t tw_conv_dgrad_parts(const tw_conv_geometry *g);
void tw_conv_dgrad_part(const tw_conv_geometry *g, int64_t index, tw_conv_part *part);

/* Chooses how the source is read and cuts the pixels into boxes of about `pixels`. */
void tw_conv_choose(tw_conv_part *part, const tw_conv_target *target, int64_t pixels);
int64_t tw_conv_boxes(const tw_conv_part *part);
tw_conv_box tw_conv_box_at(const tw_conv_part *part, int64_t index);

/* Floats of scratch for the band of one box, and the band itself. */
int64_t tw_conv_band_floats(const tw_conv_part *part);
tw_conv_source tw_conv_read_source(const tw_conv_part *part, const tw_conv_box *box, const void *x,
                                   float *band);

/* n elements of x from `offset` on, `stride` apart, as floats. */
void tw_conv_widen(tw_dtype type, const void *x, int64_t offset, int64_t stride, int64_t n,
                   float *to);

/* Copies the window of pixel p (D, H, W) of image n to row[taps · cin], zeros over padding. */
void tw_conv_gather(const tw_conv_part *part, const tw_conv_source *source, int64_t n,
                    const int64_t p[3], float *row);

/* The first and past the last source position that outputs [lo, hi) meet along dim d. */
void tw_conv_reach(const tw_conv_part *part, int d, int64_t lo, int64_t hi, int64_t range[2]);

/* The output positions along dim d, within [lo, hi), at which tap t reads inside the source. */
typedef struct tw_conv_range {
    int64_t first, last;
} tw_conv_range;
tw_conv_range tw_conv_valid(const tw_conv_part *part, int d, int64_t t, int64_t lo, int64_t hi);

/* Does any window leave the source along dim d? */
bool tw_conv_leaves(const tw_conv_part *part, int d);

/* Cuts the pixels into boxes of about `pixels`, and gives a 1×1 kernel over dense pixels one long
 * row: for callers that choose for themselves how to read. */
void tw_conv_cut(tw_conv_part *part, int64_t pixels);
void tw_conv_merge_pixels(tw_conv_part *part);

/* Steps through a box in row-major order; false at its end. */
bool tw_conv_next(const tw_conv_box *box, int64_t at[4]);
int64_t tw_conv_box_pixels(const tw_conv_box *box);

/* Elements between consecutive pixels, if that is one number over the whole tensor; else 0. */
int64_t tw_conv_pixel_stride(int64_t n, const int64_t dims[3], const tw_conv_strides *strides);

static inline int64_t tw_conv_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tw_conv_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t tw_conv_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
