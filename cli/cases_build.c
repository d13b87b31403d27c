/* SPDX-License-Identifier: Apache-2.0 */
/* From a case to a graph: its tensors, its operator or the nodes of its Graph, its results. */
#include <math.h>
#include <string.h>

#include "cases.h"
#include "core/error.h"

double case_number(const cJSON *json)
{
    const char *text = cJSON_GetStringValue(json);
    if (!text) return json->valuedouble;
    return text[0] == 'n' ? (double)NAN : text[0] == '-' ? -(double)INFINITY : (double)INFINITY;
}

int64_t case_attr_int(const cJSON *attrs, const char *name, int64_t fallback)
{
    const cJSON *item = cJSON_GetObjectItem(attrs, name);
    return cJSON_IsNumber(item) ? (int64_t)item->valuedouble
           : cJSON_IsBool(item) ? cJSON_IsTrue(item)
                                : fallback;
}

double case_attr_real(const cJSON *attrs, const char *name, double fallback)
{
    const cJSON *item = cJSON_GetObjectItem(attrs, name);
    return cJSON_IsNumber(item) || cJSON_IsString(item) ? case_number(item) : fallback;
}

const char *case_attr_text(const cJSON *attrs, const char *name, const char *fallback)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(attrs, name));
    return text ? text : fallback;
}

int32_t case_attr_list(const cJSON *attrs, const char *name, int64_t *values, int32_t room)
{
    const cJSON *list = cJSON_GetObjectItem(attrs, name), *item;
    int32_t n = 0;
    cJSON_ArrayForEach(item, list) if (n < room) values[n++] = (int64_t)item->valuedouble;
    return list ? n : -1;
}

tw_status case_require(const case_node *node, const char *name, tw_tensor *t)
{
    *t = node->operand(node, name);
    TW_REQUIRE(*t != TW_NONE, TW_INVALID_ARGUMENT, "%s: operand %s is missing", node->op, name);
    return TW_OK;
}

/* ---- A case as one node ---------------------------------------------------------------------- */

static tw_tensor case_operand(const case_node *node, const char *name)
{
    const case_tensor *t = case_input(node->run, name);
    return t ? t->tensor : TW_NONE;
}

static bool case_wants(const case_node *node, const char *name)
{
    return case_output(node->run, name) != NULL;
}

static tw_dtype case_result_type(const case_node *node, const char *name)
{
    const case_tensor *t = case_output(node->run, name);
    return t ? t->desc.dtype : TW_AUTO;
}

/* A result that is not compared may still be given strides: bad ones must be refused. */
static tw_status apply_strides(const case_node *node, const char *name, tw_tensor tensor)
{
    int64_t strides[TW_MAX_RANK] = {0};
    const cJSON *given = cJSON_GetObjectItem(node->run->json, "output_strides");
    int32_t n = case_attr_list(given, name, strides, TW_MAX_RANK);
    return n < 0 ? TW_OK : tw_graph_output(node->run->graph, tensor, strides);
}

static tw_status case_result_is(const case_node *node, const char *name, tw_tensor tensor)
{
    case_tensor *t = case_output(node->run, name);
    if (!t) return apply_strides(node, name, tensor);
    tw_tensor_desc got;
    TW_TRY(tw_graph_describe(node->run->graph, tensor, &got));
    bool same = got.rank == t->desc.rank &&
                memcmp(got.dims, t->desc.dims, (size_t)got.rank * sizeof got.dims[0]) == 0;
    TW_REQUIRE(same, TW_INVALID_ARGUMENT, "%s: the shape differs from the expected one", name);
    if (!(got.flags & TW_TENSOR_VIRTUAL) || got.dtype != t->desc.dtype) {
        tw_tensor copy = TW_NONE; /* an output of its own, in the expected type */
        TW_TRY(tw_graph_cast(node->run->graph, tensor, t->desc.dtype, 0, &copy));
        tensor = copy;
    }
    t->tensor = tensor;
    return tw_graph_output(node->run->graph, tensor, t->desc.strides);
}

/* ---- Nodes of a Graph case ------------------------------------------------------------------- */

typedef struct named {
    const char *name;
    tw_tensor tensor;
} named;
static _Thread_local struct {
    named list[64];
    int32_t n;
} known_names;

static tw_tensor look_up(const char *name)
{
    for (int32_t i = 0; name && i < known_names.n; i++)
        if (strcmp(known_names.list[i].name, name) == 0) return known_names.list[i].tensor;
    return TW_NONE;
}

static tw_tensor node_operand(const case_node *node, const char *name)
{
    return look_up(case_attr_text(cJSON_GetObjectItem(node->json, "in"), name, NULL));
}

static bool node_wants(const case_node *node, const char *name)
{
    return cJSON_GetObjectItem(cJSON_GetObjectItem(node->json, "out"), name) != NULL;
}

static tw_dtype node_result_type(const case_node *node, const char *name)
{
    (void)node;
    (void)name;
    return TW_AUTO;
}

static tw_status node_result(const case_node *node, const char *name, tw_tensor tensor)
{
    const char *given = case_attr_text(cJSON_GetObjectItem(node->json, "out"), name, NULL);
    if (given && known_names.n < 64) known_names.list[known_names.n++] = (named){given, tensor};
    return TW_OK;
}

static tw_status build_graph_case(case_run *run, bool *known)
{
    known_names.n = 0;
    for (int32_t i = 0; i < run->n_inputs; i++)
        known_names.list[known_names.n++] = (named){run->inputs[i].name, run->inputs[i].tensor};
    const cJSON *json, *output;
    cJSON_ArrayForEach(json, cJSON_GetObjectItem(run->attrs, "nodes"))
    {
        case_node node = {.run = run,
                          .op = case_attr_text(json, "op", ""),
                          .json = json,
                          .attrs = cJSON_GetObjectItem(json, "attrs"),
                          .operand = node_operand,
                          .wants = node_wants,
                          .result = node_result,
                          .result_type = node_result_type};
        TW_TRY(case_add_node(&node, known));
        if (!*known) return TW_OK;
    }
    case_node results = {.run = run};
    cJSON_ArrayForEach(output, cJSON_GetObjectItem(run->attrs, "outputs")) TW_TRY(case_result_is(
        &results, cJSON_GetStringValue(output), look_up(cJSON_GetStringValue(output))));
    return TW_OK;
}

tw_status case_add_node(const case_node *node, bool *known)
{
    *known = false;
    TW_TRY(case_add_image_op(node, known));
    return *known ? TW_OK : case_add_pointwise_op(node, known);
}

tw_status case_build(case_run *run, bool *known)
{
    TW_TRY(tw_graph_create(&run->graph));
    for (int32_t i = 0; i < run->n_inputs; i++) {
        tw_tensor_desc desc = run->inputs[i].desc;
        desc.name = run->inputs[i].name;
        TW_TRY(tw_graph_tensor(run->graph, &desc, &run->inputs[i].tensor));
    }
    if (strcmp(run->op, "Graph") == 0) return build_graph_case(run, known);
    case_node node = {.run = run,
                      .op = run->op,
                      .attrs = run->attrs,
                      .json = run->json,
                      .operand = case_operand,
                      .wants = case_wants,
                      .result = case_result_is,
                      .result_type = case_result_type};
    return case_add_node(&node, known);
}
