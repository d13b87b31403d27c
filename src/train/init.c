/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values, drawn by the library's own random operation so that numbers are the same. */
#include <tilework/train.h>

#include <math.h>

#include <tilework/tilework.h>

#include "core/dtype.h"
#include "core/error.h"

static bool is_scaled(tw_init_kind kind)
{
    return kind >= TW_INIT_GLOROT_UNIFORM && kind <= TW_INIT_HE_NORMAL;
}

/* The fans in double: they only go into a square root. */
static tw_status scale_of(const tw_init *init, const tw_array *array, double *scale)
{
    TW_REQUIRE(array->rank >= 2, TW_INVALID_ARGUMENT,
               "array has rank %d; Glorot and He initial values need 2 or more", array->rank);
    double receptive = 1, gain = init->gain != 0 ? init->gain : 1;
    for (int32_t d = 2; d < array->rank; d++) receptive *= (double)array->dims[d];
    double in = receptive * (double)array->dims[init->transposed ? 0 : 1];
    double out = receptive * (double)array->dims[init->transposed ? 1 : 0];
    bool he = init->kind == TW_INIT_HE_UNIFORM || init->kind == TW_INIT_HE_NORMAL;
    bool uniform = init->kind == TW_INIT_GLOROT_UNIFORM || init->kind == TW_INIT_HE_UNIFORM;
    *scale = gain * sqrt((uniform ? 6 : 2) / (he ? in : in + out));
    return TW_OK;
}

static tw_status fill_constant(double value, tw_array *array, int64_t elements)
{
    enum { CHUNK = 256 }; /* whole bytes of any packed type */
    double chunk[CHUNK];
    for (int i = 0; i < CHUNK; i++) chunk[i] = value;
    char *dst = array->data;
    for (int64_t at = 0; at < elements; at += CHUNK) {
        int64_t n = elements - at < CHUNK ? elements - at : CHUNK;
        TW_TRY(tw_convert(array->dtype, dst, TW_F64, chunk, n, 0));
        dst += tw_dtype_bytes(array->dtype, CHUNK);
    }
    return TW_OK;
}

static tw_status run_plan(const tw_graph *graph, tw_tensor y, void *data)
{
    tw_plan *plan;
    TW_TRY(tw_plan_create(graph, NULL, &plan));
    int64_t bytes = tw_plan_workspace(plan);
    void *workspace = bytes ? tw_malloc((size_t)bytes) : NULL;
    tw_status status = bytes && !workspace ? tw_fail_memory((size_t)bytes) : TW_OK;
    tw_binding binding = {.uid = y, .data = data};
    if (status == TW_OK) status = tw_run(plan, NULL, 1, &binding, workspace, bytes);
    tw_free(workspace);
    tw_plan_free(plan);
    return status;
}

static tw_status fill_random(const tw_random_attrs *attrs, const tw_array *array)
{
    tw_graph *graph;
    TW_TRY(tw_graph_create(&graph));
    tw_tensor_desc desc = tw_desc(array->dtype, array->rank, array->dims);
    tw_tensor y = TW_NONE;
    tw_status status = tw_graph_tensor(graph, &desc, &y);
    if (status == TW_OK) {
        status = tw_graph_random(graph, attrs, array->dtype, array->rank, array->dims, TW_NONE,
                                 TW_NONE, &y);
    }
    if (status == TW_OK) status = run_plan(graph, y, array->data);
    tw_graph_free(graph);
    return status;
}

static tw_status check(const tw_init *init, const tw_array *array, int64_t *elements)
{
    TW_REQUIRE(init && array, TW_INVALID_ARGUMENT, "init and array must not be NULL");
    TW_REQUIRE(init->kind >= TW_INIT_CONSTANT && init->kind <= TW_INIT_HE_NORMAL,
               TW_INVALID_ARGUMENT, "init.kind is %d; it must be one of TW_INIT_*",
               (int)init->kind);
    tw_tensor_desc desc = tw_desc(array->dtype, array->rank, array->dims);
    *elements = tw_desc_elements(&desc);
    TW_REQUIRE(*elements >= 0 && array->bytes == tw_dtype_bytes(array->dtype, *elements) &&
                   (array->data || !array->bytes),
               TW_INVALID_ARGUMENT,
               "array: type, dims, bytes (%lld) and data must describe one tensor",
               (long long)array->bytes);
    TW_REQUIRE(init->kind == TW_INIT_CONSTANT || tw_dtype_is_float(array->dtype),
               TW_INVALID_ARGUMENT, "array.dtype is %s; random values need a float type",
               tw_dtype_name(array->dtype));
    return TW_OK;
}

tw_status tw_init_fill(const tw_init *init, tw_array *array)
{
    int64_t elements;
    double scale = init ? init->value : 0;
    TW_TRY(check(init, array, &elements));
    if (init->kind == TW_INIT_CONSTANT) return fill_constant(scale, array, elements);
    if (is_scaled(init->kind)) TW_TRY(scale_of(init, array, &scale));
    if (elements == 0) return TW_OK;
    bool normal = init->kind == TW_INIT_NORMAL || init->kind == TW_INIT_GLOROT_NORMAL ||
                  init->kind == TW_INIT_HE_NORMAL;
    tw_random_attrs attrs = {.size = sizeof attrs,
                             .distribution = normal ? TW_RANDOM_NORMAL : TW_RANDOM_UNIFORM,
                             .a = normal ? 0 : -scale,
                             .b = scale,
                             .seed = init->seed,
                             .offset = init->stream};
    return fill_random(&attrs, array);
}
