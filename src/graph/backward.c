/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reverse-mode differentiation. Operations are visited from last to first; each family's rule adds
 * the operations of its gradient. Where several paths meet, gradients are added up in the order in
 * which they are found, which is fixed, so that results repeat bit by bit.
 */
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "graph/graph.h"

typedef struct backward {
    tw_graph *graph;
    tw_builder builder;
    int64_t n_forward;   /* operations there were before */
    int64_t n_tensors;   /* tensors there were before */
    bool *depends;       /* on one of wrt, by tensor */
    tw_tensor *gradient; /* so far, by tensor */
    int32_t max_operands;
    bool *want; /* scratch for one operation */
    tw_tensor *dx, *dy;
} backward;

static tw_status check_arguments(const tw_graph *graph, int32_t n_of, const tw_tensor *of,
                                 int32_t n_wrt, const tw_tensor *wrt)
{
    TW_REQUIRE(graph, TW_INVALID_ARGUMENT, "graph is NULL; create one with tw_graph_create");
    TW_REQUIRE(n_of > 0 && of, TW_INVALID_ARGUMENT, "n_of is %d and of %s; give one tensor or more",
               (int)n_of, of ? "given" : "NULL");
    TW_REQUIRE(n_wrt > 0 && wrt, TW_INVALID_ARGUMENT,
               "n_wrt is %d and wrt %s; give one tensor or more", (int)n_wrt,
               wrt ? "given" : "NULL");
    TW_REQUIRE(graph->cut < 0, TW_INVALID_ARGUMENT,
               "the graph was already cut into forward and backward; differentiate it once only");
    for (int32_t i = 0; i < n_of; i++)
        TW_REQUIRE(
            tw_graph_has(graph, of[i]) && tw_dtype_is_float(graph->tensors[of[i]].desc.dtype),
            TW_INVALID_ARGUMENT, "of[%d] is %d; it must be a floating-point tensor of the graph",
            (int)i, (int)of[i]);
    for (int32_t i = 0; i < n_wrt; i++)
        TW_REQUIRE(
            tw_graph_has(graph, wrt[i]) && tw_dtype_is_float(graph->tensors[wrt[i]].desc.dtype),
            TW_INVALID_ARGUMENT, "wrt[%d] is %d; it must be a floating-point tensor of the graph",
            (int)i, (int)wrt[i]);
    return TW_OK;
}

static tw_status set_up(backward *b, tw_graph *graph)
{
    void *memory;
    b->graph = graph;
    b->builder = tw_graph_builder;
    b->builder.graph = graph;
    b->n_forward = graph->n_ops;
    b->n_tensors = graph->n_tensors;
    for (int64_t o = 0; o < graph->n_ops; o++) {
        if (graph->ops[o].n_in > b->max_operands) b->max_operands = graph->ops[o].n_in;
        if (graph->ops[o].n_out > b->max_operands) b->max_operands = graph->ops[o].n_out;
    }
    TW_TRY(tw_calloc(b->n_tensors, sizeof(bool), &memory));
    b->depends = memory;
    TW_TRY(tw_calloc(b->n_tensors, sizeof(tw_tensor), &memory));
    b->gradient = memory;
    TW_TRY(tw_calloc(b->max_operands, sizeof(bool), &memory));
    b->want = memory;
    TW_TRY(tw_calloc(b->max_operands, sizeof(tw_tensor), &memory));
    b->dx = memory;
    TW_TRY(tw_calloc(b->max_operands, sizeof(tw_tensor), &memory));
    b->dy = memory;
    return TW_OK;
}

static void mark_dependent(backward *b, int32_t n_wrt, const tw_tensor *wrt)
{
    for (int32_t i = 0; i < n_wrt; i++) b->depends[wrt[i]] = true;
    for (int64_t o = 0; o < b->n_forward; o++) {
        const tw_op *op = &b->graph->ops[o];
        bool any = false;
        for (int32_t i = 0; i < op->n_in; i++) any = any || b->depends[op->in[i]];
        for (int32_t i = 0; any && i < op->n_out; i++)
            if (op->out[i] != TW_NONE &&
                tw_dtype_is_float(b->graph->tensors[op->out[i]].desc.dtype))
                b->depends[op->out[i]] = true;
    }
    b->depends[TW_NONE] = false;
}

static tw_status expanded_scalar(backward *b, double value, tw_tensor like, tw_tensor *result)
{
    tw_tensor_desc desc = b->graph->tensors[like].desc;
    tw_tensor scalar;
    TW_TRY(tw_graph_scalar(b->graph, desc.dtype, value, &scalar));
    if (desc.rank == 0) {
        *result = TW_NONE;
        return tw_graph_unary(b->graph, TW_PW_IDENTITY, scalar, result);
    }
    *result = TW_NONE;
    return tw_graph_expand(b->graph, scalar, desc.rank, desc.dims, result);
}

static tw_status accumulate(backward *b, tw_tensor tensor, tw_tensor gradient)
{
    const tw_tensor_desc *want = &b->graph->tensors[tensor].desc;
    const tw_tensor_desc *got = &b->graph->tensors[gradient].desc;
    bool same = want->rank == got->rank && want->dtype == got->dtype;
    for (int32_t d = 0; same && d < want->rank; d++) same = want->dims[d] == got->dims[d];
    TW_REQUIRE(same, TW_INTERNAL, "the gradient of tensor %d has another shape or type than it",
               (int)tensor);
    if (b->gradient[tensor] == TW_NONE) {
        b->gradient[tensor] = gradient;
        return TW_OK;
    }
    tw_tensor sum = TW_NONE;
    TW_TRY(tw_graph_binary(b->graph, TW_PW_ADD, b->gradient[tensor], gradient, &sum));
    b->gradient[tensor] = sum;
    return TW_OK;
}

static tw_status seed(backward *b, int32_t n_of, const tw_tensor *of, const tw_tensor *seeds)
{
    for (int32_t i = 0; i < n_of; i++) {
        tw_tensor gradient;
        if (seeds) {
            TW_REQUIRE(tw_graph_has(b->graph, seeds[i]), TW_INVALID_ARGUMENT,
                       "seeds[%d] is %d, which is no tensor of the graph", (int)i, (int)seeds[i]);
            gradient = seeds[i];
            const tw_tensor_desc *s = &b->graph->tensors[gradient].desc;
            const tw_tensor_desc *t = &b->graph->tensors[of[i]].desc;
            TW_REQUIRE(s->rank == t->rank && s->dtype == t->dtype &&
                           memcmp(s->dims, t->dims, sizeof s->dims) == 0,
                       TW_INVALID_ARGUMENT,
                       "seeds[%d] must have the shape and element type of of[%d]", (int)i, (int)i);
        } else {
            TW_REQUIRE(tw_desc_elements(&b->graph->tensors[of[i]].desc) == 1, TW_INVALID_ARGUMENT,
                       "of[%d] has %lld elements; without seeds it must have one", (int)i,
                       (long long)tw_desc_elements(&b->graph->tensors[of[i]].desc));
            TW_TRY(expanded_scalar(b, 1.0, of[i], &gradient));
        }
        TW_TRY(accumulate(b, of[i], gradient));
    }
    return TW_OK;
}

static tw_status add_output(const tw_gradient *gradient, int32_t output, tw_dtype dtype,
                            const tw_attrs *attrs, tw_tensor *tensor)
{
    tw_graph *graph = gradient->builder->graph;
    tw_op *op = &graph->ops[gradient->op];
    if (op->out[output] != TW_NONE) {
        *tensor = op->out[output];
        return TW_OK;
    }
    /* Infer once more, with the output wanted, to learn its shape. */
    const tw_tensor_desc *in[8];
    bool wanted[4] = {0}, declared[4] = {0};
    tw_tensor_desc out[4] = {{0}};
    tw_attrs normalised = attrs ? *attrs : op->attrs;
    for (int32_t i = 0; i < op->n_in && i < 8; i++)
        in[i] = op->in[i] == TW_NONE ? NULL : &graph->tensors[op->in[i]].desc;
    for (int32_t i = 0; i < op->n_out; i++) {
        wanted[i] = i == output || op->out[i] != TW_NONE;
        declared[i] = op->out[i] != TW_NONE;
        if (declared[i]) out[i] = graph->tensors[op->out[i]].desc;
    }
    tw_infer infer = {.info = op->info,
                      .attrs = &normalised,
                      .n_in = op->n_in,
                      .n_out = op->n_out,
                      .in = in,
                      .wanted = wanted,
                      .declared = declared,
                      .out = out};
    TW_TRY(op->info->infer(&infer));
    tw_tensor_desc desc = {.dtype = dtype, .rank = out[output].rank, .flags = TW_TENSOR_VIRTUAL};
    memcpy(desc.dims, out[output].dims, sizeof desc.dims);
    tw_tensor made;
    TW_TRY(tw_graph_tensor(graph, &desc, &made));
    graph->tensors[made].producer = gradient->op;
    op->out[output] = made;
    op->attrs = normalised;
    *tensor = made;
    return TW_OK;
}

static tw_status differentiate(backward *b, int64_t index)
{
    tw_op op = b->graph->ops[index]; /* a copy: the array may move while operations are added */
    bool flows = false, wanted = false;
    for (int32_t i = 0; i < op.n_out; i++) {
        b->dy[i] =
            op.out[i] == TW_NONE || op.out[i] >= b->n_tensors ? TW_NONE : b->gradient[op.out[i]];
        flows = flows || b->dy[i] != TW_NONE;
    }
    for (int32_t i = 0; i < op.n_in; i++) {
        b->want[i] = b->depends[op.in[i]];
        b->dx[i] = TW_NONE;
        wanted = wanted || b->want[i];
    }
    if (!flows || !wanted) return TW_OK;
    TW_REQUIRE(op.info->gradient, TW_INVALID_ARGUMENT,
               "operation %lld (%s) lies between of and wrt, but is not differentiable",
               (long long)index, op.info->name);
    tw_gradient request = {.builder = &b->builder,
                           .attrs = &op.attrs,
                           .n_in = op.n_in,
                           .n_out = op.n_out,
                           .in = op.in,
                           .out = op.out,
                           .dy = b->dy,
                           .want = b->want,
                           .dx = b->dx,
                           .op = (int32_t)index,
                           .add_output = add_output};
    TW_TRY(op.info->gradient(&request));
    for (int32_t i = 0; i < op.n_in; i++)
        if (b->want[i] && b->dx[i] != TW_NONE) TW_TRY(accumulate(b, op.in[i], b->dx[i]));
    return TW_OK;
}

/* Each result is a virtual tensor of its own, even where two gradients are one value. */
static tw_status collect(backward *b, int32_t n_wrt, const tw_tensor *wrt, tw_tensor *grads)
{
    for (int32_t i = 0; i < n_wrt; i++) {
        tw_tensor gradient = b->gradient[wrt[i]];
        if (gradient == TW_NONE) TW_TRY(expanded_scalar(b, 0.0, wrt[i], &gradient));
        bool shared = gradient < b->n_tensors;
        for (int32_t k = 0; k < i; k++) shared = shared || grads[k] == gradient;
        grads[i] = gradient;
        if (!shared) continue;
        grads[i] = TW_NONE;
        TW_TRY(tw_graph_unary(b->graph, TW_PW_IDENTITY, gradient, &grads[i]));
    }
    return TW_OK;
}

/* Puts every virtual value of the forward part that the backward part reads into the reserve. */
static tw_status cut(backward *b, tw_tensor *reserve)
{
    tw_graph *graph = b->graph;
    int64_t bytes = 0;
    for (int64_t o = b->n_forward; o < graph->n_ops; o++)
        for (int32_t i = 0; i < graph->ops[o].n_in; i++) {
            tw_tensor_node *node = &graph->tensors[graph->ops[o].in[i]];
            if (node->reserved || node->producer < 0 || node->producer >= b->n_forward) continue;
            if (!(node->desc.flags & TW_TENSOR_VIRTUAL)) continue;
            int64_t size = tw_dtype_bytes(node->desc.dtype, tw_desc_elements(&node->desc));
            node->reserved = true;
            node->reserve_offset = bytes;
            TW_REQUIRE(tw_add_i64(bytes, (size + 63) / 64 * 64, &bytes), TW_INVALID_ARGUMENT,
                       "the reserve would exceed 2^63 - 1 bytes");
        }
    tw_tensor_desc desc = tw_desc(TW_U8, 1, &bytes);
    desc.name = "reserve";
    desc.alignment = 64;
    TW_TRY(tw_graph_tensor(graph, &desc, &graph->reserve));
    graph->cut = b->n_forward;
    *reserve = graph->reserve;
    return TW_OK;
}

static tw_status run(backward *b, int32_t n_of, const tw_tensor *of, const tw_tensor *seeds)
{
    TW_TRY(seed(b, n_of, of, seeds));
    for (int64_t o = b->n_forward - 1; o >= 0; o--) TW_TRY(differentiate(b, o));
    return TW_OK;
}

/* Takes back what a failed call added; outputs added to forward operations go too. */
static void roll_back(backward *b)
{
    tw_graph *graph = b->graph;
    if (b->n_tensors == 0) return;
    graph->n_ops = b->n_forward;
    graph->n_tensors = b->n_tensors;
    for (int64_t o = 0; o < graph->n_ops; o++)
        for (int32_t i = 0; i < graph->ops[o].n_out; i++)
            if (graph->ops[o].out[i] >= b->n_tensors) graph->ops[o].out[i] = TW_NONE;
    for (int64_t t = 1; t < graph->n_tensors; t++) {
        if (graph->tensors[t].producer >= graph->n_ops) graph->tensors[t].producer = -1;
        graph->tensors[t].reserved = false;
    }
}

tw_status tw_graph_backward(tw_graph *graph, int32_t n_of, const tw_tensor *of, int32_t n_wrt,
                            const tw_tensor *wrt, const tw_backward_options *options,
                            tw_tensor *grads, tw_tensor *reserve)
{
    TW_TRY(check_arguments(graph, n_of, of, n_wrt, wrt));
    TW_REQUIRE(grads, TW_INVALID_ARGUMENT, "grads is NULL; give room for %d numbers", (int)n_wrt);
    TW_REQUIRE(!(options && options->cut) || reserve, TW_INVALID_ARGUMENT,
               "reserve is NULL; a cut needs a place for the reserve's number");
    backward b = {0};
    tw_status status;
    TW_TRY_OUT(set_up(&b, graph));
    mark_dependent(&b, n_wrt, wrt);
    TW_TRY_OUT(run(&b, n_of, of, options ? options->seeds : NULL));
    TW_TRY_OUT(collect(&b, n_wrt, wrt, grads));
    if (options && options->cut) TW_TRY_OUT(cut(&b, reserve));
out:
    if (status != TW_OK) roll_back(&b);
    tw_free(b.depends);
    tw_free(b.gradient);
    tw_free(b.want);
    tw_free(b.dx);
    tw_free(b.dy);
    return status;
}
