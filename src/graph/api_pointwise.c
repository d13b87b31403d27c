/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise operations, casts, layout operations and optimizers. */
#include "core/dtype.h"
#include "graph/api.h"

static int arity_of(tw_pointwise_mode mode)
{
    switch (mode) {
#define TW_POINTWISE(NAME, value, text, arity, formula)                                            \
    case TW_PW_##NAME:                                                                             \
        return arity;
#include <tilework/pointwise.def>
#undef TW_POINTWISE
    case TW_PW_END: break;
    }
    return 0;
}

tw_status tw_graph_pointwise(tw_graph *graph, const tw_pointwise_attrs *attrs, tw_tensor a,
                             tw_tensor b, tw_tensor c, tw_tensor *y)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.pointwise, attrs);
    tw_tensor in[] = {a, b, c};
    int n = arity_of(all.pointwise.mode);
    TW_REQUIRE(n > 0, TW_INVALID_ARGUMENT, "mode is %d, which is no pointwise mode",
               (int)all.pointwise.mode);
    for (int i = n; i < 3; i++)
        TW_REQUIRE(in[i] == TW_NONE, TW_INVALID_ARGUMENT,
                   "%c is tensor %d; this mode takes %d operands, so it must be TW_NONE", 'a' + i,
                   (int)in[i], n);
    return tw_graph_add_1(graph, TW_OP_POINTWISE, &all, n, in, y);
}

tw_status tw_graph_unary(tw_graph *graph, tw_pointwise_mode mode, tw_tensor a, tw_tensor *y)
{
    tw_pointwise_attrs attrs = {.mode = mode};
    return tw_graph_pointwise(graph, &attrs, a, TW_NONE, TW_NONE, y);
}

tw_status tw_graph_binary(tw_graph *graph, tw_pointwise_mode mode, tw_tensor a, tw_tensor b,
                          tw_tensor *y)
{
    tw_pointwise_attrs attrs = {.mode = mode};
    return tw_graph_pointwise(graph, &attrs, a, b, TW_NONE, y);
}

tw_status tw_graph_cast(tw_graph *graph, tw_tensor x, tw_dtype dtype, uint32_t convert,
                        tw_tensor *y)
{
    tw_attrs all = {.pointwise = {.mode = TW_PW_IDENTITY, .convert = convert}};
    const tw_tensor_desc *desc;
    TW_TRY(tw_graph_operand(graph, x, "x", &desc));
    tw_tensor_desc shape = *desc;
    shape.dtype = dtype == TW_AUTO ? desc->dtype : dtype;
    return tw_graph_add_shaped(graph, TW_OP_POINTWISE, &all, 1, &x, &shape, y);
}

/* ---- Layout --------------------------------------------------------------------------------- */

static tw_status check_dims_argument(int32_t rank, const int64_t *dims)
{
    TW_REQUIRE(rank >= 0 && rank <= TW_MAX_RANK, TW_INVALID_ARGUMENT,
               "rank is %d; it must be 0 to %d", (int)rank, TW_MAX_RANK);
    TW_REQUIRE(dims || rank == 0, TW_INVALID_ARGUMENT, "dims is NULL; give %d dims", (int)rank);
    return TW_OK;
}

/* Replaces a -1 among dims by what the element count leaves for it. */
static tw_status resolve_dims(const tw_tensor_desc *x, tw_tensor_desc *shape)
{
    int64_t known = 1, total = tw_desc_elements(x);
    int32_t open = -1;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (shape->dims[d] == -1) {
            TW_REQUIRE(open < 0, TW_INVALID_ARGUMENT,
                       "reshape: dims %d and %d are both -1; only one may be", (int)open, (int)d);
            open = d;
        } else
            TW_REQUIRE(tw_mul_i64(known, shape->dims[d], &known), TW_INVALID_ARGUMENT,
                       "reshape: dim %d is %lld; dims must be 0 or more, or one -1", (int)d,
                       (long long)shape->dims[d]);
    }
    if (open < 0) return TW_OK;
    TW_REQUIRE(known > 0 && total % known == 0, TW_INVALID_ARGUMENT,
               "reshape: %lld elements cannot be cut into pieces of %lld for dim %d",
               (long long)total, (long long)known, (int)open);
    shape->dims[open] = total / known;
    return TW_OK;
}

tw_status tw_graph_reshape(tw_graph *graph, tw_tensor x, int32_t rank, const int64_t *dims,
                           tw_tensor *y)
{
    tw_attrs all = {0};
    const tw_tensor_desc *desc;
    TW_TRY(tw_graph_operand(graph, x, "x", &desc));
    TW_TRY(check_dims_argument(rank, dims));
    tw_tensor_desc shape = tw_desc(desc->dtype, rank, dims);
    TW_TRY(resolve_dims(desc, &shape));
    return tw_graph_add_shaped(graph, TW_OP_RESHAPE, &all, 1, &x, &shape, y);
}

tw_status tw_graph_transpose(tw_graph *graph, tw_tensor x, const int32_t *order, tw_tensor *y)
{
    tw_attrs all = {0};
    const tw_tensor_desc *desc;
    TW_TRY(tw_graph_operand(graph, x, "x", &desc));
    TW_REQUIRE(order || desc->rank == 0, TW_INVALID_ARGUMENT, "order is NULL; give %d dim numbers",
               (int)desc->rank);
    for (int32_t d = 0; d < desc->rank; d++) all.layout.order[d] = order[d];
    return tw_graph_add_1(graph, TW_OP_TRANSPOSE, &all, 1, &x, y);
}

tw_status tw_graph_expand(tw_graph *graph, tw_tensor x, int32_t rank, const int64_t *dims,
                          tw_tensor *y)
{
    tw_attrs all = {0};
    const tw_tensor_desc *desc;
    TW_TRY(tw_graph_operand(graph, x, "x", &desc));
    TW_TRY(check_dims_argument(rank, dims));
    tw_tensor_desc shape = tw_desc(desc->dtype, rank, dims);
    return tw_graph_add_shaped(graph, TW_OP_EXPAND, &all, 1, &x, &shape, y);
}

tw_status tw_graph_slice(tw_graph *graph, tw_tensor x, const int64_t *start, const int64_t *dims,
                         const int64_t *step, tw_tensor *y)
{
    tw_attrs all = {0};
    const tw_tensor_desc *desc;
    TW_TRY(tw_graph_operand(graph, x, "x", &desc));
    TW_TRY(check_dims_argument(desc->rank, dims));
    TW_REQUIRE(start || desc->rank == 0, TW_INVALID_ARGUMENT, "start is NULL; give %d positions",
               (int)desc->rank);
    for (int32_t d = 0; d < desc->rank; d++) {
        all.layout.start[d] = start[d];
        all.layout.step[d] = step ? step[d] : 1;
    }
    tw_tensor_desc shape = tw_desc(desc->dtype, desc->rank, dims);
    return tw_graph_add_shaped(graph, TW_OP_SLICE, &all, 1, &x, &shape, y);
}

tw_status tw_graph_concat(tw_graph *graph, int32_t n, const tw_tensor *x, int32_t axis,
                          tw_tensor *y)
{
    tw_attrs all = {.layout = {.axis = axis}};
    TW_REQUIRE(n > 0 && x, TW_INVALID_ARGUMENT, "n is %d and x %s; give one tensor or more", (int)n,
               x ? "given" : "NULL");
    return tw_graph_add_1(graph, TW_OP_CONCAT, &all, n, x, y);
}

tw_status tw_graph_pad(tw_graph *graph, tw_tensor x, const int64_t *lo, const int64_t *hi,
                       tw_pad_mode mode, double value, tw_tensor *y)
{
    tw_attrs all = {.layout = {.pad_mode = mode, .value = value}};
    const tw_tensor_desc *desc;
    TW_TRY(tw_graph_operand(graph, x, "x", &desc));
    TW_REQUIRE((lo && hi) || desc->rank == 0, TW_INVALID_ARGUMENT,
               "lo or hi is NULL; give %d figures each", (int)desc->rank);
    for (int32_t d = 0; d < desc->rank; d++) {
        all.layout.start[d] = lo[d];
        all.layout.end_pad[d] = hi[d];
    }
    return tw_graph_add_1(graph, TW_OP_PAD, &all, 1, &x, y);
}

/* ---- Optimizers ----------------------------------------------------------------------------- */

tw_status tw_graph_sgd(tw_graph *graph, tw_tensor param, tw_tensor grad, tw_tensor velocity,
                       tw_tensor lr, const tw_sgd_attrs *attrs, tw_tensor *new_param,
                       tw_tensor *new_velocity)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.sgd, attrs);
    TW_REQUIRE(new_param, TW_INVALID_ARGUMENT, "new_param is NULL; give a place for its number");
    TW_REQUIRE((velocity != TW_NONE) == (new_velocity != NULL), TW_INVALID_ARGUMENT,
               "velocity and new_velocity go together: give both or neither");
    tw_tensor in[] = {param, grad, velocity, lr};
    tw_tensor out[2] = {*new_param, new_velocity ? *new_velocity : TW_UNWANTED};
    TW_TRY(tw_graph_add(graph, TW_OP_SGD, &all, 4, in, 2, out));
    *new_param = out[0];
    if (new_velocity) *new_velocity = out[1];
    return TW_OK;
}

tw_status tw_graph_adam(tw_graph *graph, tw_tensor param, tw_tensor grad, tw_tensor m, tw_tensor v,
                        tw_tensor lr, tw_tensor step, const tw_adam_attrs *attrs,
                        tw_tensor *new_param, tw_tensor *new_m, tw_tensor *new_v)
{
    tw_attrs all = {0};
    TW_TAKE_ATTRS(all.adam, attrs);
    TW_REQUIRE(new_param && new_m && new_v, TW_INVALID_ARGUMENT,
               "new_param, new_m or new_v is NULL; give places for their numbers");
    tw_tensor in[] = {param, grad, m, v, lr, step};
    tw_tensor out[3] = {*new_param, *new_m, *new_v};
    TW_TRY(tw_graph_add(graph, TW_OP_ADAM, &all, 6, in, 3, out));
    *new_param = out[0];
    *new_m = out[1];
    *new_v = out[2];
    return TW_OK;
}
