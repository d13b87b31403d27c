/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays of recorded problems: one JSON object a line, with inputs, an operator in ONNX's words,
 * and expected results computed from the operator's definition.
 */
#ifndef TW_CLI_CASES_H
#define TW_CLI_CASES_H

#include <cjson/cJSON.h>

#include <tilework/tilework.h>

enum { CASE_TENSORS = 24, CASE_TEXT = 512 };

/* A tensor of a case, in a buffer laid out as the case says. */
typedef struct case_tensor {
    const char *name;
    tw_tensor_desc desc;
    char *buffer;         /* element storage index 0 */
    int64_t buffer_bytes; /* 0: the memory is another tensor's */
    int64_t offset;       /* elements before the first one */
    tw_tensor tensor;
    bool gap_nan;
    char *copy; /* of an output's buffer before the run, to see what gaps had */
} case_tensor;

typedef enum case_result { CASE_PASSED, CASE_FAILED, CASE_SKIPPED } case_result;

typedef struct case_run {
    const cJSON *json;
    const cJSON *attrs; /* of the case, or those that check.differs puts over them */
    const char *id, *op;
    tw_graph *graph;
    case_tensor inputs[CASE_TENSORS], outputs[CASE_TENSORS];
    int32_t n_inputs, n_outputs;
    tw_context *context;
    char why[CASE_TEXT]; /* of a failure or a skip */
} case_run;

/* Memory and content of the inputs, and of the outputs that `expect` names. */
tw_status case_make_inputs(case_run *run);
tw_status case_make_output(case_run *run, const cJSON *expect);
tw_status case_make_like_x(case_run *run, const char *name, tw_dtype dtype);
void case_free(case_run *run);
const case_tensor *case_input(const case_run *run, const char *name);
case_tensor *case_output(case_run *run, const char *name);
void case_address(const case_tensor *t, char **first);
void case_set(case_run *run, case_tensor *t, int64_t storage_index, double value);

/* Builds the case's graph: declares inputs, adds operations, ties results to outputs. *known is
 * false for an operator that has no translation. */
tw_status case_build(case_run *run, bool *known);

/* One operator on tensors of the graph; used for whole cases and for nodes of a Graph. */
typedef struct case_node {
    case_run *run;
    const char *op;
    const cJSON *attrs;
    /* operand name → tensor, TW_NONE if absent; result name → where to put the number */
    tw_tensor (*operand)(const struct case_node *node, const char *name);
    bool (*wants)(const struct case_node *node, const char *name);
    tw_status (*result)(const struct case_node *node, const char *name, tw_tensor tensor);
    tw_dtype (*result_type)(const struct case_node *node, const char *name);
    const cJSON *json;
} case_node;

/* An operand that must be there. */
tw_status case_require(const case_node *node, const char *name, tw_tensor *t);
tw_status case_add_node(const case_node *node, bool *known);
tw_status case_add_image_op(const case_node *node, bool *known);     /* conv, pool */
tw_status case_add_pointwise_op(const case_node *node, bool *known); /* and reductions, softmax */

/* A number, or one of the texts "nan", "inf", "-inf". */
double case_number(const cJSON *json);
int64_t case_attr_int(const cJSON *attrs, const char *name, int64_t fallback);
double case_attr_real(const cJSON *attrs, const char *name, double fallback);
const char *case_attr_text(const cJSON *attrs, const char *name, const char *fallback);
int32_t case_attr_list(const cJSON *attrs, const char *name, int64_t *values, int32_t room);

/* Compares the outputs as `check` says; false with run->why. */
bool case_compare(case_run *run);
bool case_compare_stat(case_run *run);

/* One line of a file. `file` gives scripts the other lines. */
case_result case_replay(const cJSON *json, const cJSON *const *file, int32_t n_file,
                        tw_context *context, char *why, const char **op);

#endif
