/* SPDX-License-Identifier: Apache-2.0 */
/* What the convolution tests share: problems, tensors in many layouts, and a naive oracle. */
#ifndef TW_OPS_CONV_CONV_TESTING_H
#define TW_OPS_CONV_CONV_TESTING_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/dtype.h"
#include "harness.h"

#pragma GCC diagnostic ignored "-Wunused-function"

typedef struct conv_case {
    int spatial;
    int64_t n, c, k, groups;
    int64_t in[3], taps[3], stride[3], dilation[3], lo[3], hi[3];
    bool flip;
} conv_case;

/* Memory orders of a tensor: NCHW, NHWC, NHWC with gaps after every dim, and an arbitrary one. */
typedef enum test_layout { FIRST, LAST, GAPPED, SHUFFLED, TEST_LAYOUTS } test_layout;

static int64_t output_size_of(const conv_case *p, int d)
{
    int64_t room = p->in[d] + p->lo[d] + p->hi[d] - p->dilation[d] * (p->taps[d] - 1) - 1;
    return room < 0 ? 0 : room / p->stride[d] + 1;
}

static tw_conv_attrs attrs_of(const conv_case *p)
{
    tw_conv_attrs a = {.groups = p->groups, .flip = p->flip};
    for (int d = 0; d < p->spatial; d++) {
        a.stride[d] = p->stride[d];
        a.dilation[d] = p->dilation[d];
        a.pad_lo[d] = p->lo[d];
        a.pad_hi[d] = p->hi[d];
    }
    return a;
}

static void print_case(const char *what, const conv_case *p)
{
    fprintf(stderr, "%s: n %lld c %lld k %lld groups %lld flip %d", what, (long long)p->n,
            (long long)p->c, (long long)p->k, (long long)p->groups, p->flip);
    for (int d = 0; d < p->spatial; d++)
        fprintf(stderr, " | in %lld taps %lld stride %lld dilation %lld pads %lld %lld",
                (long long)p->in[d], (long long)p->taps[d], (long long)p->stride[d],
                (long long)p->dilation[d], (long long)p->lo[d], (long long)p->hi[d]);
    fprintf(stderr, "\n");
}

static th_tensor make_tensor(tw_dtype dtype, int rank, const int64_t *dims, test_layout layout)
{
    static const int orders[TEST_LAYOUTS][5] = {
        {4, 3, 2, 1, 0}, {1, 4, 3, 2, 0}, {1, 4, 3, 2, 0}, {3, 0, 1, 4, 2}};
    int64_t strides[5], next = 1, gap = layout >= GAPPED ? 3 : 0;
    for (int i = 0; i < 5; i++) {
        int d = orders[layout][i];
        if (d >= rank) continue;
        strides[d] = next;
        next = next * (dims[d] > 0 ? dims[d] : 1) + gap;
    }
    return th_make_strided(dtype, rank, dims, strides);
}

typedef enum role { ROLE_X, ROLE_W, ROLE_Y } role;

static th_tensor make_role(const conv_case *p, role which, tw_dtype dtype, test_layout layout)
{
    int64_t dims[5] = {p->n, p->c};
    if (which == ROLE_W) dims[0] = p->k, dims[1] = p->c / p->groups;
    if (which == ROLE_Y) dims[1] = p->k;
    for (int d = 0; d < p->spatial; d++)
        dims[2 + d] = which == ROLE_X   ? p->in[d]
                      : which == ROLE_W ? p->taps[d]
                                        : output_size_of(p, d);
    return make_tensor(dtype, 2 + p->spatial, dims, layout);
}

/* Row-major position of (i0, i1, at) in a tensor's dims. */
static int64_t linear_of(const th_tensor *t, int64_t i0, int64_t i1, const int64_t *at)
{
    int64_t linear = i0 * t->desc.dims[1] + i1;
    for (int32_t d = 2; d < t->desc.rank; d++) linear = linear * t->desc.dims[d] + at[d - 2];
    return linear;
}

static bool step(int64_t *at, const int64_t *dims, int spatial)
{
    for (int d = spatial - 1; d >= 0; d--) {
        if (++at[d] < dims[d]) return true;
        at[d] = 0;
    }
    return false;
}

/* What one product of a convolution joins: element numbers in x, w and y. */
typedef struct product_of {
    int64_t x, w, y;
} product_of;

/* Sums |or not| of a·b into `sums`, over every product of the definition, in the order of y. */
typedef struct oracle_job {
    const conv_case *p;
    const th_tensor *x, *w, *y;
    role result;
    bool magnitude;
    double *sums;
} oracle_job;

static void add_pixel(const oracle_job *job, int64_t n, int64_t k, const int64_t *at)
{
    const conv_case *p = job->p;
    int64_t cg = p->c / p->groups, group = k / (p->k / p->groups), tap[3] = {0};
    do {
        int64_t in[3], filter[3];
        bool inside = true;
        for (int d = 0; d < p->spatial; d++) {
            in[d] = at[d] * p->stride[d] - p->lo[d] + tap[d] * p->dilation[d];
            filter[d] = p->flip ? p->taps[d] - 1 - tap[d] : tap[d];
            if (in[d] < 0 || in[d] >= p->in[d]) inside = false;
        }
        for (int64_t c = 0; inside && c < cg; c++) {
            int64_t index[3] = {linear_of(job->x, n, group * cg + c, in),
                                linear_of(job->w, k, c, filter), linear_of(job->y, n, k, at)};
            double x = job->result == ROLE_X ? 1 : th_get(job->x, index[0]);
            double w = job->result == ROLE_W ? 1 : th_get(job->w, index[1]);
            double y = job->result == ROLE_Y ? 1 : th_get(job->y, index[2]);
            double term = x * w * y;
            job->sums[index[job->result]] += job->magnitude ? fabs(term) : term;
        }
    } while (step(tap, p->taps, p->spatial));
}

/* The definition, as a scatter of products over y's positions: shares no code with the library. */
static void oracle(const conv_case *p, th_tensor *const roles[3], role result, bool magnitude,
                   th_tensor *out)
{
    int64_t dims[3] = {0}, total = th_elements(roles[result]), positions = p->n * p->k;
    oracle_job job = {p,
                      roles[ROLE_X],
                      roles[ROLE_W],
                      roles[ROLE_Y],
                      result,
                      magnitude,
                      calloc((size_t)total + 1, sizeof(double))};
    for (int d = 0; d < p->spatial; d++) {
        dims[d] = output_size_of(p, d);
        positions *= dims[d];
    }
    for (int64_t nk = 0; positions > 0 && nk < p->n * p->k; nk++) {
        int64_t at[3] = {0};
        do add_pixel(&job, nk / p->k, nk % p->k, at);
        while (step(at, dims, p->spatial));
    }
    for (int64_t i = 0; i < total; i++) th_set(out, i, job.sums[i]);
    free(job.sums);
}

static tw_op_kind kind_of(role result)
{
    return result == ROLE_Y ? TW_OP_CONV : result == ROLE_X ? TW_OP_CONV_DGRAD : TW_OP_CONV_WGRAD;
}

static th_call call_of(const conv_case *p, th_tensor *const roles[3], role result)
{
    th_call call = {.kind = kind_of(result), .n_in = 2, .n_out = 1, .attrs.conv = attrs_of(p)};
    call.in[0] = roles[result == ROLE_X ? ROLE_Y : ROLE_X];
    call.in[1] = roles[result == ROLE_W ? ROLE_Y : ROLE_W];
    call.out[0] = roles[result];
    return call;
}

static int64_t terms_of(const conv_case *p, role result)
{
    int64_t terms = result == ROLE_Y   ? p->c / p->groups
                    : result == ROLE_X ? p->k / p->groups
                                       : p->n;
    for (int d = 0; d < p->spatial; d++)
        terms *= result == ROLE_W ? output_size_of(p, d) : p->taps[d];
    return terms;
}

static int64_t pick(uint64_t *state, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(th_random(state) % (uint64_t)(hi - lo + 1));
}

/* A legal problem of at most some 10^5 products. */
static conv_case random_case(uint64_t seed)
{
    uint64_t s = seed * 77 + 5;
    conv_case p = {
        .spatial = (int)pick(&s, 1, 3), .n = pick(&s, 0, 3), .flip = pick(&s, 0, 3) == 0};
    int64_t room = p.spatial == 1 ? 24 : p.spatial == 2 ? 9 : 5;
    p.groups = pick(&s, 0, 2) == 0 ? pick(&s, 1, 3) : 1;
    p.c = p.groups * pick(&s, 1, p.groups > 1 ? 3 : 6);
    p.k = p.groups * pick(&s, 1, p.groups > 1 ? 4 : 7);
    for (int d = 0; d < p.spatial; d++) {
        p.in[d] = pick(&s, 1, room);
        p.taps[d] = pick(&s, 1, 4);
        p.stride[d] = pick(&s, 0, 1) ? 1 : pick(&s, 1, 5);
        p.dilation[d] = pick(&s, 0, 1) ? 1 : pick(&s, 1, 4);
        p.lo[d] = pick(&s, 0, 3);
        p.hi[d] = pick(&s, 0, 3);
        while (output_size_of(&p, d) == 0) p.in[d]++;
    }
    return p;
}

static conv_case square_case(int64_t n, int64_t c, int64_t size, int64_t k, int64_t taps)
{
    conv_case p = {.spatial = 2, .n = n, .c = c, .k = k, .groups = 1};
    for (int d = 0; d < 2; d++) {
        p.in[d] = size;
        p.taps[d] = taps;
        p.stride[d] = p.dilation[d] = 1;
    }
    return p;
}

#endif
