/* SPDX-License-Identifier: Apache-2.0 */
/* From a problem's views and attributes to the one form that all kernels read. */
#include "ops/conv/conv_geometry.h"

static void read_view(const tw_view *view, int64_t dims[3], tw_conv_strides *strides)
{
    strides->dim0 = view->strides[0];
    strides->dim1 = view->strides[1];
    for (int d = 0; d < 3; d++) {
        int32_t from = view->rank - 3 + d; /* W is the view's last dim */
        dims[d] = from >= 2 ? view->dims[from] : 1;
        strides->at[d] = from >= 2 ? view->strides[from] : 0;
    }
}

void tw_conv_read_geometry(const tw_problem *problem, tw_conv_geometry *g)
{
    const tw_conv_attrs *attrs = &problem->attrs->conv;
    tw_op_kind kind = problem->info->kind;
    const tw_view *x = kind == TW_OP_CONV_DGRAD ? &problem->out[0] : &problem->in[0];
    const tw_view *w = kind == TW_OP_CONV_WGRAD ? &problem->out[0] : &problem->in[1];
    const tw_view *y = kind == TW_OP_CONV         ? &problem->out[0]
                       : kind == TW_OP_CONV_DGRAD ? &problem->in[0]
                                                  : &problem->in[1];
    *g = (tw_conv_geometry){
        .n = x->dims[0], .c = x->dims[1], .k = w->dims[0], .groups = attrs->groups};
    g->cg = g->c / g->groups;
    g->kg = g->k / g->groups;
    read_view(x, g->in, &g->x);
    read_view(w, g->taps, &g->w);
    read_view(y, g->out, &g->y);
    for (int d = 0; d < 3; d++) {
        int32_t from = x->rank - 5 + d;
        g->stride[d] = from >= 0 ? attrs->stride[from] : 1;
        g->dilation[d] = from >= 0 ? attrs->dilation[from] : 1;
        g->pad[d] = from >= 0 ? attrs->pad_lo[from] : 0;
        if (!attrs->flip) continue;
        g->w_start += (g->taps[d] - 1) * g->w.at[d];
        g->w.at[d] = -g->w.at[d];
    }
}
