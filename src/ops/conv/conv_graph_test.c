/* SPDX-License-Identifier: Apache-2.0 */
/* Shape inference: what is normalised, and that each refusal names its argument and value. */
#include "ops/conv/conv_testing.h"

#include "ops/conv/conv_ops.h"

typedef struct question {
    int32_t rank;
    int64_t a[5], b[5], out[5];
    tw_dtype a_type, b_type, out_type;
    bool declared;
    tw_conv_attrs attrs;
} question;

static tw_status ask(tw_op_kind kind, const question *q, tw_attrs *attrs, tw_tensor_desc *out)
{
    tw_tensor_desc a = tw_desc(q->a_type ? q->a_type : TW_F32, q->rank, q->a);
    tw_tensor_desc b = tw_desc(q->b_type ? q->b_type : TW_F32, q->rank, q->b);
    const tw_tensor_desc *in[2] = {&a, &b};
    const bool wanted = true;
    *out = q->declared ? tw_desc(q->out_type ? q->out_type : TW_F32, q->rank, q->out)
                       : (tw_tensor_desc){0};
    *attrs = (tw_attrs){.conv = q->attrs};
    tw_infer infer = {.info = &tw_conv_ops[kind - TW_OP_CONV],
                      .attrs = attrs,
                      .n_in = 2,
                      .n_out = 1,
                      .in = in,
                      .wanted = &wanted,
                      .declared = &q->declared,
                      .out = out};
    return infer.info->infer(&infer);
}

static void test_shapes(void **state)
{
    (void)state;
    tw_attrs attrs;
    tw_tensor_desc out;
    question q = {.rank = 4,
                  .a = {2, 6, 9, 10},
                  .b = {4, 3, 3, 2},
                  .attrs = {.groups = 2,
                            .stride = {2, 0, 7},
                            .dilation = {0, 3, 7},
                            .pad_lo = {1, 0, 7},
                            .pad_hi = {0, 2, 7}}};
    assert_int_equal(ask(TW_OP_CONV, &q, &attrs, &out), TW_OK);
    const int64_t want[4] = {2, 4, 4, 9};
    assert_int_equal(out.rank, 4);
    assert_int_equal(out.dtype, TW_F32);
    assert_memory_equal(out.dims, want, sizeof want);
    assert_int_equal(attrs.conv.stride[1], 1);
    assert_int_equal(attrs.conv.dilation[0], 1);
    assert_int_equal(attrs.conv.stride[2], 0);
    assert_int_equal(attrs.conv.pad_hi[2], 0);
    assert_int_equal(attrs.conv.compute, TW_F32);

    q.a_type = TW_U8, q.b_type = TW_I8;
    assert_int_equal(ask(TW_OP_CONV, &q, &attrs, &out), TW_OK);
    assert_int_equal(out.dtype, TW_I32);
    q.declared = true, q.out_type = TW_I8;
    memcpy(q.out, want, sizeof want);
    assert_int_equal(ask(TW_OP_CONV, &q, &attrs, &out), TW_OK);
    assert_int_equal(out.dtype, TW_I8);
}

static void refused(tw_op_kind kind, const question *q, const char *name, const char *value)
{
    tw_attrs attrs;
    tw_tensor_desc out;
    assert_int_equal(ask(kind, q, &attrs, &out), TW_INVALID_ARGUMENT);
    if (!strstr(tw_last_error(), name) || !strstr(tw_last_error(), value))
        fail_msg("'%s' does not name %s and %s", tw_last_error(), name, value);
}

static const question good = {
    .rank = 4, .a = {2, 6, 9, 10}, .b = {4, 6, 3, 3}, .out = {2, 4, 7, 8}, .declared = true};

static void test_refusals(void **state)
{
    (void)state;
    tw_attrs attrs;
    tw_tensor_desc out;
    question q = good;
    assert_int_equal(ask(TW_OP_CONV, &q, &attrs, &out), TW_OK);
#define REFUSED(change, name, value)                                                               \
    q = good;                                                                                      \
    change;                                                                                        \
    refused(TW_OP_CONV, &q, name, value)
    REFUSED(q.rank = 2, "x", "2");
    REFUSED(q.a_type = TW_BOOL, "x", "bool");
    REFUSED(q.b_type = TW_I8, "w", "i8");
    REFUSED(q.attrs.compute = TW_I32, "compute", "i32");
    REFUSED(q.attrs.groups = -1, "groups", "-1");
    REFUSED(q.attrs.groups = 4, "x", "4");
    REFUSED((q.attrs.groups = 3, q.b[0] = 4), "w", "3");
    REFUSED(q.b[1] = 5, "w", "5");
    REFUSED(q.b[2] = 0, "w", "0");
    REFUSED(q.b[3] = 11, "w", "11");
    REFUSED(q.attrs.dilation[0] = 5, "w", "dilation 5");
    REFUSED(q.attrs.stride[1] = -2, "stride[1]", "-2");
    REFUSED(q.attrs.dilation[1] = -3, "dilation[1]", "-3");
    REFUSED(q.attrs.pad_lo[0] = -4, "pad_lo[0]", "-4");
    REFUSED(q.attrs.pad_hi[1] = -5, "pad_hi[1]", "-5");
    REFUSED(q.attrs.pad_lo[0] = INT64_MAX, "pad_lo[0]", "9223372036854775807");
    REFUSED(q.attrs.dilation[0] = INT64_MAX, "w", "9223372036854775807");
#undef REFUSED
}

static void test_gradient_refusals(void **state)
{
    (void)state;
    tw_attrs attrs;
    tw_tensor_desc out;
    const question dgrad = {
        .rank = 4, .a = {2, 4, 7, 8}, .b = {4, 6, 3, 3}, .out = {2, 6, 9, 10}, .declared = true};
    const question wgrad = {
        .rank = 4, .a = {2, 6, 9, 10}, .b = {2, 4, 7, 8}, .out = {4, 6, 3, 3}, .declared = true};
    question q = dgrad;
    assert_int_equal(ask(TW_OP_CONV_DGRAD, &q, &attrs, &out), TW_OK);
    assert_int_equal(ask(TW_OP_CONV_WGRAD, &wgrad, &attrs, &out), TW_OK);
#define REFUSED(start, kind, change, name, value)                                                  \
    q = start;                                                                                     \
    change;                                                                                        \
    refused(kind, &q, name, value)
    REFUSED(dgrad, TW_OP_CONV_DGRAD, q.declared = false, "dx", "not declared");
    REFUSED(dgrad, TW_OP_CONV_DGRAD, q.a[0] = 3, "dy", "3");
    REFUSED(dgrad, TW_OP_CONV_DGRAD, q.a[1] = 5, "dy", "5");
    REFUSED(dgrad, TW_OP_CONV_DGRAD, q.a[3] = 9, "dy", "9");
    REFUSED(dgrad, TW_OP_CONV_DGRAD, q.out[1] = 7, "dx", "7");
    REFUSED(dgrad, TW_OP_CONV_DGRAD, q.out_type = TW_BOOL, "dx", "bool");
    REFUSED(wgrad, TW_OP_CONV_WGRAD, q.out[0] = 5, "dw", "5");
    REFUSED(wgrad, TW_OP_CONV_WGRAD, q.out[1] = 5, "dw", "5");
    REFUSED(wgrad, TW_OP_CONV_WGRAD, q.out[2] = 2, "dy", "2");
    REFUSED(wgrad, TW_OP_CONV_WGRAD, q.declared = false, "dw", "not declared");
#undef REFUSED
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_gradient_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
