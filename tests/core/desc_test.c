/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <tilework/tensor.h>

static tw_tensor_desc strided(int64_t dim0, int64_t dim1, int64_t stride0, int64_t stride1)
{
    tw_tensor_desc desc = tw_desc(TW_F32, 2, (int64_t[]){dim0, dim1});
    desc.has_strides = true;
    desc.strides[0] = stride0;
    desc.strides[1] = stride1;
    return desc;
}

static void row_major(void **state)
{
    (void)state;
    tw_tensor_desc desc = tw_desc(TW_F32, 3, (int64_t[]){2, 3, 5});
    assert_int_equal(desc.size, sizeof desc);
    assert_true(desc.rank == 3 && desc.dims[2] == 5 && !desc.has_strides && desc.uid == 0);
    assert_int_equal(tw_desc_elements(&desc), 30);
    assert_int_equal(tw_desc_bytes(&desc), 120);
    tw_tensor_desc scalar = tw_desc(TW_F64, 0, NULL);
    assert_int_equal(tw_desc_elements(&scalar), 1);
    assert_int_equal(tw_desc_bytes(&scalar), 8);
    tw_tensor_desc packed = tw_desc(TW_I4, 1, (int64_t[]){7});
    assert_int_equal(tw_desc_bytes(&packed), 4);
}

static void channels_last(void **state)
{
    (void)state;
    tw_tensor_desc desc = tw_desc_channels_last(TW_F16, 4, (int64_t[]){2, 3, 5, 7});
    const int64_t want[] = {105, 1, 21, 3};
    assert_true(desc.has_strides);
    assert_memory_equal(desc.strides, want, sizeof want);
    assert_int_equal(tw_desc_bytes(&desc), 2 * 210);
    assert_false(tw_desc_channels_last(TW_F16, 2, (int64_t[]){2, 3}).has_strides);
    tw_tensor_desc huge =
        tw_desc_channels_last(TW_U8, 4, (int64_t[]){1, INT64_C(1) << 40, INT64_C(1) << 40, 2});
    assert_int_equal(tw_desc_bytes(&huge), -1);
}

static void spans(void **state)
{
    (void)state;
    tw_tensor_desc padded = strided(3, 4, 10, 1), broadcast = strided(1000, 4, 0, 1);
    assert_int_equal(tw_desc_bytes(&padded), 4 * 24);
    assert_int_equal(tw_desc_bytes(&broadcast), 4 * 4);
    assert_int_equal(tw_desc_elements(&broadcast), 4000);
    tw_tensor_desc empty = strided(0, INT64_MAX, 1, INT64_MAX);
    assert_int_equal(tw_desc_elements(&empty), 0);
    assert_int_equal(tw_desc_bytes(&empty), 0);
}

static void refusals(void **state)
{
    (void)state;
    tw_tensor_desc negative = strided(3, -1, 1, 1), backward = strided(3, 3, -3, 1);
    tw_tensor_desc large = strided(INT64_C(1) << 40, INT64_C(1) << 40, 1, 1);
    tw_tensor_desc far = strided(3, 3, INT64_MAX / 2, INT64_MAX / 2);
    tw_tensor_desc wide = tw_desc(TW_F64, 1, (int64_t[]){INT64_MAX / 4});
    tw_tensor_desc untyped = tw_desc(TW_AUTO, 1, (int64_t[]){4});
    tw_tensor_desc deep = {.dtype = TW_F32, .rank = TW_MAX_RANK + 1};
    const int64_t dims[TW_MAX_RANK + 1] = {1};
    assert_int_equal(tw_desc(TW_F32, TW_MAX_RANK + 1, dims).rank, TW_MAX_RANK + 1);
    assert_int_equal(tw_desc_elements(NULL), -1);
    assert_int_equal(tw_desc_elements(&negative), -1);
    assert_int_equal(tw_desc_elements(&backward), -1);
    assert_int_equal(tw_desc_elements(&large), -1);
    assert_int_equal(tw_desc_elements(&deep), -1);
    assert_int_equal(tw_desc_bytes(&large), -1);
    assert_int_equal(tw_desc_bytes(&far), -1);
    assert_int_equal(tw_desc_bytes(&wide), -1);
    assert_int_equal(tw_desc_bytes(&untyped), -1);
    assert_int_equal(tw_desc_elements(&untyped), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_major),
        cmocka_unit_test(channels_last),
        cmocka_unit_test(spans),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
