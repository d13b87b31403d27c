/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients against central differences: the engine of gradient_test.c. */
#ifndef TW_TESTS_GRADIENT_CHECK_H
#define TW_TESTS_GRADIENT_CHECK_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tilework/tilework.h>

#include "harness.h"

#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != TW_OK) fail_msg("%s: %s", #expression, tw_last_error());               \
    } while (0)

enum { MAX_INPUTS = 3 };

typedef struct shape {
    int32_t rank;
    int64_t dims[5];
} shape;

typedef struct check {
    char name[64];
    int32_t n;
    shape in[MAX_INPUTS];
    double lo, hi; /* range of the inputs */
    double hole;   /* |x| stays above this: kinks at 0 */
    void (*build)(const struct check *c, tw_graph *g, const tw_tensor *in, tw_tensor *y);
    int mode; /* of families with one */
    tw_attrs attrs;
} check;

typedef struct run {
    tw_graph *graph;
    tw_plan *plan;
    tw_tensor in[MAX_INPUTS], grad[MAX_INPUTS], weights, loss;
    double *x[MAX_INPUTS], *dx[MAX_INPUTS], *r;
    int64_t elements[MAX_INPUTS], y_elements;
    double result;
    void *workspace;
} run;

static tw_tensor input(tw_graph *g, const shape *s)
{
    tw_tensor_desc desc = tw_desc(TW_F64, s->rank, s->dims);
    tw_tensor t;
    OK(tw_graph_tensor(g, &desc, &t));
    return t;
}

static void evaluate(run *r, const check *c)
{
    tw_binding b[2 * MAX_INPUTS + 2];
    int32_t n = 0, have = tw_plan_binding_count(r->plan);
    for (int32_t i = 0; i < have; i++) {
        int64_t uid = tw_plan_binding_uid(r->plan, i);
        void *data = uid == r->weights ? (void *)r->r : uid == r->loss ? (void *)&r->result : NULL;
        for (int32_t k = 0; k < c->n; k++) {
            if (uid == r->in[k]) data = r->x[k];
            if (uid == r->grad[k]) data = r->dx[k];
        }
        b[n++] = (tw_binding){uid, data};
    }
    OK(tw_run(r->plan, NULL, n, b, r->workspace, tw_plan_workspace(r->plan)));
}

/* loss = Σ y·weights, and its gradients. False if the operation says that it has none. */
static bool set_up(run *r, const check *c)
{
    tw_tensor y = TW_NONE, product = TW_NONE;
    tw_tensor_desc desc;
    OK(tw_graph_create(&r->graph));
    for (int32_t k = 0; k < c->n; k++) r->in[k] = input(r->graph, &c->in[k]);
    c->build(c, r->graph, r->in, &y);
    OK(tw_graph_describe(r->graph, y, &desc));
    if (desc.dtype != TW_F64) return false;
    r->y_elements = tw_desc_elements(&desc);
    desc.flags = 0;
    desc.has_strides = false;
    desc.uid = 0;
    OK(tw_graph_tensor(r->graph, &desc, &r->weights));
    OK(tw_graph_binary(r->graph, TW_PW_MUL, y, r->weights, &product));
    tw_reduce_attrs sum = {.axes = (1u << desc.rank) - 1, .drop = true};
    OK(tw_graph_reduce(r->graph, product, &sum, &r->loss));
    OK(tw_graph_output(r->graph, r->loss, NULL));
    if (tw_graph_backward(r->graph, 1, &r->loss, c->n, r->in, NULL, r->grad, NULL) != TW_OK) {
        assert_non_null(strstr(tw_last_error(), "not differentiable"));
        return false;
    }
    for (int32_t k = 0; k < c->n; k++) OK(tw_graph_output(r->graph, r->grad[k], NULL));
    OK(tw_plan_create(r->graph, NULL, &r->plan));
    return true;
}

static void fill(run *r, const check *c)
{
    uint64_t seed = 7;
    r->r = malloc((size_t)(r->y_elements + 1) * sizeof *r->r);
    for (int64_t i = 0; i < r->y_elements; i++) r->r[i] = th_uniform(&seed) + 0.5;
    for (int32_t k = 0; k < c->n; k++) {
        r->elements[k] = 1;
        for (int32_t d = 0; d < c->in[k].rank; d++) r->elements[k] *= c->in[k].dims[d];
        r->x[k] = malloc((size_t)(r->elements[k] + 1) * sizeof(double));
        r->dx[k] = malloc((size_t)(r->elements[k] + 1) * sizeof(double));
        for (int64_t i = 0; i < r->elements[k]; i++) {
            double v = c->lo + (c->hi - c->lo) * th_uniform(&seed);
            if (fabs(v) < c->hole) v = v < 0 ? v - c->hole : v + c->hole;
            r->x[k][i] = v;
        }
    }
    r->workspace = tw_malloc((size_t)tw_plan_workspace(r->plan));
}

static void compare(run *r, const check *c)
{
    const double h = cbrt(0x1p-52);
    evaluate(r, c);
    double *analytic[MAX_INPUTS];
    for (int32_t k = 0; k < c->n; k++) {
        analytic[k] = malloc((size_t)(r->elements[k] + 1) * sizeof(double));
        memcpy(analytic[k], r->dx[k], (size_t)r->elements[k] * sizeof(double));
    }
    for (int32_t k = 0; k < c->n; k++)
        for (int64_t i = 0; i < r->elements[k]; i++) {
            double x = r->x[k][i];
            r->x[k][i] = x + h;
            evaluate(r, c);
            double above = r->result;
            r->x[k][i] = x - h;
            evaluate(r, c);
            double below = r->result, numeric = (above - below) / (2 * h);
            r->x[k][i] = x;
            double size = 1 + fabs(above) + fabs(numeric) + (double)r->y_elements;
            double allowed = 64 * h * h * size;
            if (!(fabs(numeric - analytic[k][i]) <= allowed))
                fail_msg(
                    "%s: d/d input %d [%lld]: got %.12g, differences give %.12g (allowed %.2g)",
                    c->name, (int)k, (long long)i, analytic[k][i], numeric, allowed);
        }
    for (int32_t k = 0; k < c->n; k++) free(analytic[k]);
}

static bool check_gradient(const check *c)
{
    run r = {0};
    bool differentiable = set_up(&r, c);
    if (differentiable) {
        fill(&r, c);
        compare(&r, c);
    }
    for (int32_t k = 0; k < c->n; k++) {
        free(r.x[k]);
        free(r.dx[k]);
    }
    free(r.r);
    tw_free(r.workspace);
    tw_plan_free(r.plan);
    tw_graph_free(r.graph);
    return differentiable;
}

#endif
