/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls: each is refused with a sentence that names what is wrong, and changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tilework/tilework.h>

#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != TW_OK) fail_msg("%s: %s", #expression, tw_last_error());               \
    } while (0)

/* The call is refused, and its sentence has these words. */
#define REFUSED(expression, words)                                                                 \
    do {                                                                                           \
        tw_status refused_status = (expression);                                                   \
        if (refused_status != TW_INVALID_ARGUMENT)                                                 \
            fail_msg("%s gave %s", #expression, tw_status_name(refused_status));                   \
        if (!strstr(tw_last_error(), (words)))                                                     \
            fail_msg("%s: no '%s' in: %s", #expression, (words), tw_last_error());                 \
    } while (0)

static tw_tensor tensor(tw_graph *g, tw_dtype dtype, int32_t rank, const int64_t *dims)
{
    tw_tensor_desc desc = tw_desc(dtype, rank, dims);
    tw_tensor t;
    OK(tw_graph_tensor(g, &desc, &t));
    return t;
}

static void null_pointers(void **state)
{
    (void)state;
    tw_graph *g;
    tw_tensor t = TW_NONE;
    tw_tensor_desc desc = tw_desc(TW_F32, 1, (int64_t[]){4});
    OK(tw_graph_create(&g));
    REFUSED(tw_graph_create(NULL), "graph is NULL");
    REFUSED(tw_graph_tensor(NULL, &desc, &t), "graph is NULL");
    REFUSED(tw_graph_tensor(g, NULL, &t), "desc is NULL");
    REFUSED(tw_graph_tensor(g, &desc, NULL), "tensor is NULL");
    REFUSED(tw_graph_constant(g, &desc, NULL, &t), "data is NULL");
    OK(tw_graph_tensor(g, &desc, &t));
    REFUSED(tw_graph_unary(g, TW_PW_RELU, t, NULL), "y is NULL");
    REFUSED(tw_graph_concat(g, 2, NULL, 0, &t), "x NULL");
    REFUSED(tw_graph_backward(g, 1, &t, 1, &t, NULL, NULL, NULL), "grads is NULL");
    REFUSED(tw_plan_create(NULL, NULL, NULL), "NULL");
    REFUSED(tw_run(NULL, NULL, 0, NULL, NULL, 0), "plan is NULL");
    REFUSED(tw_convert(TW_F32, NULL, TW_F16, NULL, 3, 0), "NULL");
    assert_int_equal(tw_graph_tensor_count(g), 1);
    assert_int_equal(tw_graph_op_count(g), 0);
    tw_graph_free(g);
    tw_graph_free(NULL);
    tw_plan_free(NULL);
    tw_context_free(NULL);
}

static void descriptions(void **state)
{
    (void)state;
    tw_graph *g;
    tw_tensor t;
    OK(tw_graph_create(&g));
    tw_tensor_desc bad = tw_desc(TW_F32, 2, (int64_t[]){4, -3});
    REFUSED(tw_graph_tensor(g, &bad, &t), "dim 1 is -3");
    bad = (tw_tensor_desc){.dtype = TW_F32, .rank = 9};
    REFUSED(tw_graph_tensor(g, &bad, &t), "rank is 9");
    bad = (tw_tensor_desc){.dtype = (tw_dtype)77, .rank = 0};
    REFUSED(tw_graph_tensor(g, &bad, &t), "dtype is 77");
    bad = tw_desc(TW_F32, 2, (int64_t[]){INT64_MAX / 2, 4});
    REFUSED(tw_graph_tensor(g, &bad, &t), "2^63");
    bad = (tw_tensor_desc){
        .dtype = TW_F32, .rank = 1, .dims = {4}, .strides = {-1}, .has_strides = true};
    REFUSED(tw_graph_tensor(g, &bad, &t), "stride 0 is -1");
    bad = tw_desc(TW_F32, 1, (int64_t[]){4});
    bad.alignment = 48;
    REFUSED(tw_graph_tensor(g, &bad, &t), "alignment is 48");
    bad.alignment = 0;
    bad.flags = 64;
    REFUSED(tw_graph_tensor(g, &bad, &t), "flags are 0x40");
    bad.flags = 0;
    bad.size = 3;
    REFUSED(tw_graph_tensor(g, &bad, &t), "size is 3");
    assert_int_equal(tw_graph_tensor_count(g), 0);
    tw_graph_free(g);
}

static void operations(void **state)
{
    (void)state;
    tw_graph *g;
    OK(tw_graph_create(&g));
    tw_tensor x = tensor(g, TW_F32, 4, (int64_t[]){2, 3, 5, 5});
    tw_tensor w = tensor(g, TW_F32, 4, (int64_t[]){4, 3, 3, 3});
    tw_tensor odd = tensor(g, TW_F32, 4, (int64_t[]){4, 2, 3, 3});
    tw_tensor large = tensor(g, TW_F32, 4, (int64_t[]){4, 3, 7, 3});
    tw_tensor a = tensor(g, TW_F32, 2, (int64_t[]){3, 4}), y = TW_NONE;
    int32_t tensors = tw_graph_tensor_count(g);
    REFUSED(tw_graph_conv(g, 99, w, NULL, &y), "x is 99");
    REFUSED(tw_graph_conv(g, x, odd, NULL, &y), "w");
    REFUSED(tw_graph_conv(g, x, large, NULL, &y), "padded input");
    REFUSED(tw_graph_conv(g, x, w, &(tw_conv_attrs){.pad_lo = {-1}}, &y), "pad_lo");
    REFUSED(tw_graph_conv(g, x, w, &(tw_conv_attrs){.groups = 2}, &y), "groups");
    REFUSED(tw_graph_conv(g, x, a, NULL, &y), "rank");
    REFUSED(tw_graph_conv(g, x, w, &(tw_conv_attrs){.size = 5}, &y), "size is 5");
    REFUSED(tw_graph_matmul(g, a, a, NULL, &y), "a");
    REFUSED(tw_graph_pool(g, x, &(tw_pool_attrs){.window = {9, 9}}, &y, NULL), "window");
    REFUSED(tw_graph_unary(g, (tw_pointwise_mode)60, x, &y), "mode is 60");
    REFUSED(tw_graph_binary(g, TW_PW_ADD, x, a, &y), "b");
    REFUSED(tw_graph_unary(g, TW_PW_BITWISE_NOT, x, &y), "integer");
    REFUSED(tw_graph_reduce(g, a, &(tw_reduce_attrs){.axes = 4}, &y), "axes");
    REFUSED(tw_graph_cross_entropy(g, a, x, NULL, &y, NULL), "labels");
    REFUSED(tw_graph_reshape(g, a, 1, (int64_t[]){11}, &y), "11");
    REFUSED(tw_graph_reshape(g, a, 2, (int64_t[]){-1, -1}, &y), "-1");
    REFUSED(tw_graph_transpose(g, a, (int32_t[]){0, 0}, &y), "order");
    REFUSED(tw_graph_slice(g, a, (int64_t[]){2, 0}, (int64_t[]){2, 4}, NULL, &y), "start");
    REFUSED(tw_graph_expand(g, a, 2, (int64_t[]){6, 4}, &y), "dim");
    REFUSED(tw_graph_dropout(g, x, TW_NONE, TW_NONE, &(tw_dropout_attrs){.rate = 1.5}, &y, NULL),
            "rate");
    assert_int_equal(tw_graph_tensor_count(g), tensors);
    assert_int_equal(tw_graph_op_count(g), 0);
    assert_int_equal(y, TW_NONE);
    tw_graph_free(g);
}

static void outputs(void **state)
{
    (void)state;
    tw_graph *g;
    tw_tensor y = TW_NONE, z = TW_NONE, later;
    OK(tw_graph_create(&g));
    tw_tensor x = tensor(g, TW_F32, 2, (int64_t[]){3, 4});
    tw_tensor wrong = tensor(g, TW_F32, 2, (int64_t[]){3, 5});
    tw_tensor_desc inner = tw_desc(TW_F32, 2, (int64_t[]){3, 4});
    inner.flags = TW_TENSOR_VIRTUAL;
    OK(tw_graph_tensor(g, &inner, &later));
    REFUSED(tw_graph_unary(g, TW_PW_EXP, x, &wrong), "[3, 5]");
    REFUSED(tw_graph_unary(g, TW_PW_EXP, later, &y), "no operation produces it yet");
    OK(tw_graph_unary(g, TW_PW_EXP, x, &y));
    REFUSED(tw_graph_unary(g, TW_PW_EXP, x, &y), "already has a producer");
    REFUSED(tw_graph_output(g, x, NULL), "not the result of an operation");
    REFUSED(tw_graph_output(g, y, (int64_t[]){0, 1}), "share memory");
    REFUSED(tw_graph_output(g, y, (int64_t[]){2, 1}), "do not overlap");
    REFUSED(tw_graph_donate(g, y, wrong), "differ");
    REFUSED(tw_graph_donate(g, x, y), "not the result");
    OK(tw_graph_unary(g, TW_PW_NEG, y, &z));
    OK(tw_graph_donate(g, z, x));
    REFUSED(tw_graph_donate(g, y, x), "already part of a donation");
    tw_graph_free(g);
}

static void plans_and_runs(void **state)
{
    (void)state;
    tw_graph *g;
    tw_plan *plan;
    tw_tensor y = TW_NONE;
    float memory[32] = {0};
    OK(tw_graph_create(&g));
    tw_tensor a = tensor(g, TW_F32, 2, (int64_t[]){2, 3}),
              b = tensor(g, TW_F32, 2, (int64_t[]){3, 2});
    OK(tw_graph_matmul(g, a, b, NULL, &y));
    OK(tw_graph_output(g, y, NULL));
    REFUSED(tw_plan_create(g, &(tw_plan_options){.flags = 1u << 20}, &plan), "flags");
    REFUSED(tw_plan_create(g, &(tw_plan_options){.phase = TW_PHASE_FORWARD}, &plan), "cut");
    REFUSED(tw_plan_create(g, &(tw_plan_options){.max_threads = -1}, &plan), "max_threads is -1");
    assert_int_equal(tw_plan_create(g, &(tw_plan_options){.kernel = "tw_nothing__ref"}, &plan),
                     TW_NOT_FOUND);
    OK(tw_plan_create(g, &(tw_plan_options){.has_workspace_limit = true}, &plan));
    tw_binding good[] = {{a, memory}, {b, memory + 8}, {y, memory + 16}};
    REFUSED(tw_run(plan, NULL, 2, good, NULL, 0), "n_bindings is 2");
    tw_binding twice[] = {{a, memory}, {a, memory + 8}, {y, memory + 16}};
    REFUSED(tw_run(plan, NULL, 3, twice, NULL, 0), "a second time");
    tw_binding unknown[] = {{a, memory}, {77, memory + 8}, {y, memory + 16}};
    REFUSED(tw_run(plan, NULL, 3, unknown, NULL, 0), "uid is 77");
    tw_binding missing[] = {{a, memory}, {b, NULL}, {y, memory + 16}};
    REFUSED(tw_run(plan, NULL, 3, missing, NULL, 0), "data is NULL");
    tw_binding shared[] = {{a, memory}, {b, memory + 8}, {y, memory + 2}};
    REFUSED(tw_run(plan, NULL, 3, shared, NULL, 0), "overlap in memory");
    tw_binding crooked[] = {{a, (char *)memory + 1}, {b, memory + 8}, {y, memory + 16}};
    REFUSED(tw_run(plan, NULL, 3, crooked, NULL, 0), "alignment");
    OK(tw_run(plan, NULL, 3, good, NULL, 0));
    tw_plan_free(plan);
    tw_graph_free(g);
}

static void workspace(void **state)
{
    (void)state;
    tw_graph *g;
    tw_plan *plan;
    tw_tensor product = TW_NONE, y = TW_NONE;
    const int64_t square[] = {64, 64};
    OK(tw_graph_create(&g));
    tw_tensor a = tensor(g, TW_F32, 2, square);
    OK(tw_graph_matmul(g, a, a, NULL, &product));
    OK(tw_graph_softmax(g, product, NULL, &y));
    OK(tw_graph_output(g, y, NULL));
    assert_int_equal(tw_plan_create(g, &(tw_plan_options){.has_workspace_limit = true}, &plan),
                     TW_WORKSPACE_TOO_SMALL);
    assert_non_null(strstr(tw_last_error(), "at least"));
    OK(tw_plan_create(g, NULL, &plan));
    float *memory = calloc(2 * 64 * 64, sizeof *memory);
    char *room = tw_malloc((size_t)tw_plan_workspace(plan) + 64);
    tw_binding bindings[] = {{a, memory}, {y, memory + 64 * 64}};
    int64_t bytes = tw_plan_workspace(plan);
    assert_int_equal(tw_run(plan, NULL, 2, bindings, room, bytes - 1), TW_WORKSPACE_TOO_SMALL);
    REFUSED(tw_run(plan, NULL, 2, bindings, NULL, bytes), "workspace is NULL");
    REFUSED(tw_run(plan, NULL, 2, bindings, room + 4, bytes), "aligned to 64");
    OK(tw_run(plan, NULL, 2, bindings, room, bytes));
    tw_free(room);
    free(memory);
    tw_plan_free(plan);
    tw_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_pointers),  cmocka_unit_test(descriptions),
        cmocka_unit_test(operations),     cmocka_unit_test(outputs),
        cmocka_unit_test(plans_and_runs), cmocka_unit_test(workspace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
