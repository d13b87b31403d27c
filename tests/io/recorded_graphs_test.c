/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operation graphs that frameworks were recorded to give to cuDNN: each must translate into one of
 * ours without loss, and get a plan. The recordings are not part of the project: TW_TRACES names
 * their folder; without it, ../shared/cudnn/traces is tried, and else the test is skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include <tilework/tilework.h>

enum { MAX_TENSORS = 128, MAX_OPS = 64, MAX_MISSING = 32 };

typedef struct translation {
    const cJSON *def;
    tw_graph *graph;
    int n_tensors;
    const char *names[MAX_TENSORS];
    tw_tensor tensors[MAX_TENSORS];
    tw_tensor_desc recorded[MAX_TENSORS]; /* virtual ones too have strides there */
    bool produced[MAX_TENSORS], built[MAX_TENSORS];
    const char *missing; /* what stands in the way; NULL: nothing */
    tw_status status;
} translation;

/* ---- JSON ------------------------------------------------------------------------------------ */

static const cJSON *attr(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItem(object, name);
}

static double number(const cJSON *object, const char *name, double fallback)
{
    const cJSON *item = attr(object, name);
    const cJSON *first = cJSON_IsArray(item) ? cJSON_GetArrayItem(item, 0) : item;
    return cJSON_IsNumber(first) ? first->valuedouble : fallback;
}

static const char *word(const cJSON *object, const char *name)
{
    const cJSON *item = attr(object, name);
    const char *text =
        cJSON_GetStringValue(cJSON_IsArray(item) ? cJSON_GetArrayItem(item, 0) : item);
    return text ? text : "";
}

static int32_t list(const cJSON *object, const char *name, int64_t *values)
{
    int32_t n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, attr(object, name))
    {
        if (n < TW_MAX_RANK) values[n++] = (int64_t)item->valuedouble;
    }
    return n;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static tw_dtype type_of(const char *name)
{
    static const struct {
        const char *name;
        tw_dtype type;
    } types[] = {{"DATA_FLOAT", TW_F32},     {"DATA_DOUBLE", TW_F64},   {"DATA_HALF", TW_F16},
                 {"DATA_BFLOAT16", TW_BF16}, {"DATA_INT8", TW_I8},      {"DATA_INT32", TW_I32},
                 {"DATA_INT64", TW_I64},     {"DATA_BOOLEAN", TW_BOOL}, {"DATA_UINT8", TW_U8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, name) == 0) return types[i].type;
    return TW_AUTO;
}

static int find(const translation *t, const char *name)
{
    for (int i = 0; i < t->n_tensors; i++)
        if (strcmp(t->names[i], name) == 0) return i;
    return -1;
}

static void add_tensors(translation *t)
{
    const cJSON *json;
    cJSON_ArrayForEach(json, attr(t->def, "tensors"))
    {
        int i = t->n_tensors++;
        tw_tensor_desc desc = {.dtype = type_of(word(json, "TENSOR_DATA_TYPE")),
                               .has_strides = true};
        desc.rank = list(json, "TENSOR_DIMENSIONS", desc.dims);
        list(json, "TENSOR_STRIDES", desc.strides);
        desc.alignment = (int64_t)number(json, "TENSOR_BYTE_ALIGNMENT", 0);
        const cJSON *flag = attr(json, "TENSOR_IS_VIRTUAL");
        t->recorded[i] = desc;
        if (cJSON_IsTrue(cJSON_GetArrayItem(flag, 0))) {
            desc.flags = TW_TENSOR_VIRTUAL;
            desc.has_strides = false; /* the planner's choice */
        }
        if (attr(json, "TENSOR_RAGGED_OFFSET_DESC")) t->missing = "ragged tensors";
        t->names[i] = word(json, "t");
        if (t->status == TW_OK) t->status = tw_graph_tensor(t->graph, &desc, &t->tensors[i]);
    }
}

static tw_tensor operand(const translation *t, const cJSON *op, const char *name)
{
    int i = find(t, word(op, name));
    return i < 0 ? TW_NONE : t->tensors[i];
}

/* ---- Operations ------------------------------------------------------------------------------ */

static tw_conv_attrs conv_attrs(const cJSON *op, const char *name)
{
    const cJSON *desc = attr(op, name);
    tw_conv_attrs a = {.flip = strcmp(word(desc, "CONVOLUTION_CONV_MODE"), "CONVOLUTION") == 0};
    int64_t values[TW_MAX_RANK];
    struct {
        const char *name;
        int64_t *to;
    } fields[] = {{"CONVOLUTION_DILATIONS", a.dilation},
                  {"CONVOLUTION_FILTER_STRIDES", a.stride},
                  {"CONVOLUTION_PRE_PADDINGS", a.pad_lo},
                  {"CONVOLUTION_POST_PADDINGS", a.pad_hi}};
    for (size_t f = 0; f < 4; f++) {
        int32_t n = list(desc, fields[f].name, values);
        for (int32_t d = 0; d < n && d < TW_MAX_SPATIAL; d++) fields[f].to[d] = values[d];
    }
    return a;
}

/* cuDNN tells groups by the channels of x (or dx) and w (or dw). */
static void set_groups(const translation *t, tw_tensor x, tw_tensor w, tw_conv_attrs *a)
{
    tw_tensor_desc xd, wd;
    if (tw_graph_describe(t->graph, x, &xd) != TW_OK) return;
    if (tw_graph_describe(t->graph, w, &wd) != TW_OK) return;
    a->groups = wd.dims[1] > 0 ? xd.dims[1] / wd.dims[1] : 1;
}

static tw_status conv(translation *t, const cJSON *op, const char *kind)
{
    if (strcmp(kind, "CONVOLUTION_FORWARD") == 0) {
        tw_conv_attrs a = conv_attrs(op, "OPERATION_CONVOLUTION_FORWARD_CONV_DESC");
        tw_tensor x = operand(t, op, "OPERATION_CONVOLUTION_FORWARD_X");
        tw_tensor w = operand(t, op, "OPERATION_CONVOLUTION_FORWARD_W");
        tw_tensor y = operand(t, op, "OPERATION_CONVOLUTION_FORWARD_Y");
        set_groups(t, x, w, &a);
        return tw_graph_conv(t->graph, x, w, &a, &y);
    }
    if (strcmp(kind, "CONVOLUTION_BACKWARD_DATA") == 0) {
        tw_conv_attrs a = conv_attrs(op, "OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC");
        tw_tensor dy = operand(t, op, "OPERATION_CONVOLUTION_BWD_DATA_DY");
        tw_tensor w = operand(t, op, "OPERATION_CONVOLUTION_BWD_DATA_W");
        tw_tensor dx = operand(t, op, "OPERATION_CONVOLUTION_BWD_DATA_DX");
        set_groups(t, dx, w, &a);
        return tw_graph_conv_dgrad(t->graph, dy, w, &a, NULL, &dx);
    }
    tw_conv_attrs a = conv_attrs(op, "OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC");
    tw_tensor x = operand(t, op, "OPERATION_CONVOLUTION_BWD_FILTER_X");
    tw_tensor dy = operand(t, op, "OPERATION_CONVOLUTION_BWD_FILTER_DY");
    tw_tensor dw = operand(t, op, "OPERATION_CONVOLUTION_BWD_FILTER_DW");
    set_groups(t, x, dw, &a);
    return tw_graph_conv_wgrad(t->graph, x, dy, &a, NULL, &dw);
}

static const struct {
    const char *name;
    tw_pointwise_mode mode;
} modes[] = {{"POINTWISE_MUL", TW_PW_MUL},
             {"POINTWISE_SUB", TW_PW_SUB},
             {"POINTWISE_ADD", TW_PW_ADD},
             {"POINTWISE_EXP", TW_PW_EXP},
             {"POINTWISE_LOG", TW_PW_LOG},
             {"POINTWISE_DIV", TW_PW_DIV},
             {"POINTWISE_IDENTITY", TW_PW_IDENTITY},
             {"POINTWISE_RELU_FWD", TW_PW_RELU},
             {"POINTWISE_CMP_GE", TW_PW_GE},
             {"POINTWISE_CMP_LT", TW_PW_LT},
             {"POINTWISE_CMP_GT", TW_PW_GT},
             {"POINTWISE_LOGICAL_AND", TW_PW_LOGICAL_AND},
             {"POINTWISE_GEN_INDEX", TW_PW_GEN_INDEX},
             {"POINTWISE_BINARY_SELECT", TW_PW_SELECT}};

static tw_status pointwise(translation *t, const cJSON *op)
{
    const cJSON *desc = attr(op, "OPERATION_POINTWISE_PW_DESCRIPTOR");
    const char *name = word(desc, "POINTWISE_MODE");
    tw_pointwise_attrs a = {.mode = TW_PW_END, .axis = (int64_t)number(desc, "POINTWISE_AXIS", 0)};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(modes[i].name, name) == 0) a.mode = modes[i].mode;
    if (a.mode == TW_PW_END) {
        t->missing = name;
        return TW_OK;
    }
    tw_tensor x = operand(t, op, "OPERATION_POINTWISE_XDESC");
    tw_tensor b = operand(t, op, "OPERATION_POINTWISE_BDESC");
    tw_tensor mask = operand(t, op, "OPERATION_POINTWISE_TDESC");
    tw_tensor y = operand(t, op, "OPERATION_POINTWISE_YDESC");
    if (a.mode == TW_PW_SELECT) return tw_graph_pointwise(t->graph, &a, mask, x, b, &y);
    if ((a.mode == TW_PW_ADD || a.mode == TW_PW_SUB) && b != TW_NONE) {
        a.has_alpha = true;
        a.alpha = number(op, "OPERATION_POINTWISE_ALPHA2", 1);
    }
    return tw_graph_pointwise(t->graph, &a, x, b, TW_NONE, &y);
}

/* [B, H, M, K] times [B, G, K, N] where each of the G matrices serves H/G heads in a row. */
static tw_status grouped_heads(translation *t, tw_tensor a, tw_tensor b, tw_tensor c)
{
    tw_tensor_desc ad, bd, cd;
    tw_tensor a5 = TW_NONE, b5 = TW_NONE, c5 = TW_NONE;
    tw_status status = tw_graph_describe(t->graph, a, &ad);
    if (status == TW_OK) status = tw_graph_describe(t->graph, b, &bd);
    if (status == TW_OK) status = tw_graph_describe(t->graph, c, &cd);
    if (status != TW_OK) return status;
    int64_t groups = bd.dims[1], heads = ad.dims[1] / groups;
    const int64_t a_dims[] = {ad.dims[0], groups, heads, ad.dims[2], ad.dims[3]};
    const int64_t b_dims[] = {bd.dims[0], groups, 1, bd.dims[2], bd.dims[3]};
    status = tw_graph_reshape(t->graph, a, 5, a_dims, &a5);
    if (status == TW_OK) status = tw_graph_reshape(t->graph, b, 5, b_dims, &b5);
    if (status == TW_OK) status = tw_graph_matmul(t->graph, a5, b5, NULL, &c5);
    return status == TW_OK ? tw_graph_reshape(t->graph, c5, 4, cd.dims, &c) : status;
}

static bool has_grouped_heads(const translation *t, tw_tensor a, tw_tensor b)
{
    tw_tensor_desc ad, bd;
    if (tw_graph_describe(t->graph, a, &ad) != TW_OK) return false;
    if (tw_graph_describe(t->graph, b, &bd) != TW_OK) return false;
    return ad.rank == 4 && bd.rank == 4 && bd.dims[1] > 1 && ad.dims[1] > bd.dims[1] &&
           ad.dims[1] % bd.dims[1] == 0;
}

static tw_status matmul(translation *t, const cJSON *op)
{
    tw_tensor a = operand(t, op, "OPERATION_MATMUL_ADESC");
    tw_tensor b = operand(t, op, "OPERATION_MATMUL_BDESC");
    tw_tensor c = operand(t, op, "OPERATION_MATMUL_CDESC");
    if (attr(op, "OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC") ||
        attr(op, "OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC") ||
        attr(op, "OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC")) {
        t->missing = "MATMUL with sizes given at run time";
        return TW_OK;
    }
    if (has_grouped_heads(t, a, b)) return grouped_heads(t, a, b, c);
    return tw_graph_matmul(t->graph, a, b, NULL, &c);
}

static tw_status reduction(translation *t, const cJSON *op)
{
    tw_tensor x = operand(t, op, "OPERATION_REDUCTION_XDESC");
    tw_tensor y = operand(t, op, "OPERATION_REDUCTION_YDESC");
    const char *mode = word(attr(op, "OPERATION_REDUCTION_DESC"), "REDUCTION_OPERATOR");
    tw_reduce_attrs a = {.mode = strcmp(mode, "REDUCE_TENSOR_MAX") == 0 ? TW_REDUCE_MAX
                                                                        : TW_REDUCE_SUM};
    tw_tensor_desc xd, yd;
    if (tw_graph_describe(t->graph, x, &xd) != TW_OK) return TW_INVALID_ARGUMENT;
    if (tw_graph_describe(t->graph, y, &yd) != TW_OK) return TW_INVALID_ARGUMENT;
    for (int32_t d = 0; d < xd.rank; d++)
        if (yd.dims[d] == 1 && xd.dims[d] != 1) a.axes |= 1u << d;
    if (xd.rank == 4 && yd.dims[1] > 1 && xd.dims[1] > yd.dims[1]) { /* heads of a group */
        const int64_t dims[] = {xd.dims[0], yd.dims[1], xd.dims[1] / yd.dims[1], xd.dims[2],
                                xd.dims[3]};
        tw_tensor split = TW_NONE;
        a.axes = 1u << 2;
        a.drop = true;
        tw_status status = tw_graph_reshape(t->graph, x, 5, dims, &split);
        return status == TW_OK ? tw_graph_reduce(t->graph, split, &a, &y) : status;
    }
    return tw_graph_reduce(t->graph, x, &a, &y);
}

/* The same memory under other dims: a transpose if dims and strides only change places. */
static tw_status reshape(translation *t, const cJSON *op)
{
    tw_tensor x = operand(t, op, "OPERATION_RESHAPE_XDESC");
    tw_tensor y = operand(t, op, "OPERATION_RESHAPE_YDESC");
    tw_tensor_desc xd = t->recorded[find(t, word(op, "OPERATION_RESHAPE_XDESC"))];
    tw_tensor_desc yd = t->recorded[find(t, word(op, "OPERATION_RESHAPE_YDESC"))];
    int32_t order[TW_MAX_RANK];
    uint32_t used = 0;
    bool turns = xd.rank == yd.rank;
    for (int32_t d = 0; turns && d < yd.rank; d++) {
        int32_t from = -1;
        for (int32_t e = xd.rank - 1; e >= 0; e--)
            if (!(used >> e & 1) && xd.dims[e] == yd.dims[d] && xd.strides[e] == yd.strides[d])
                from = e;
        turns = from >= 0;
        if (turns) used |= 1u << (order[d] = from);
    }
    if (turns) return tw_graph_transpose(t->graph, x, order, &y);
    return tw_graph_reshape(t->graph, x, yd.rank, yd.dims, &y);
}

/* A scalar that is recorded as [1, 1, 1, 1], of any integer type. */
static tw_status scalar(translation *t, tw_tensor given, tw_tensor *result)
{
    tw_tensor flat = TW_NONE;
    *result = TW_NONE;
    if (given == TW_NONE) return TW_OK;
    tw_status status = tw_graph_reshape(t->graph, given, 0, NULL, &flat);
    return status == TW_OK ? tw_graph_cast(t->graph, flat, TW_I64, 0, result) : status;
}

static tw_status rng(translation *t, const cJSON *op)
{
    const cJSON *desc = attr(op, "OPERATION_RNG_DESC");
    tw_random_attrs a = {.distribution = TW_RANDOM_BERNOULLI,
                         .a = number(desc, "RNG_BERNOULLI_DIST_PROBABILITY", 0.5)};
    tw_tensor y = operand(t, op, "OPERATION_RNG_YDESC"), seed, offset;
    tw_tensor_desc yd;
    tw_status status = tw_graph_describe(t->graph, y, &yd);
    if (status == TW_OK) status = scalar(t, operand(t, op, "OPERATION_RNG_SEED"), &seed);
    if (status == TW_OK) status = scalar(t, operand(t, op, "OPERATION_RNG_OFFSET_DESC"), &offset);
    if (status != TW_OK) return status;
    return tw_graph_random(t->graph, &a, yd.dtype, yd.rank, yd.dims, seed, offset, &y);
}

static tw_status add_op(translation *t, const cJSON *op)
{
    const char *kind = word(op, "op") + strlen("OPERATION_");
    if (strncmp(kind, "CONVOLUTION", 11) == 0) return conv(t, op, kind);
    if (strcmp(kind, "POINTWISE") == 0) return pointwise(t, op);
    if (strcmp(kind, "MATMUL") == 0) return matmul(t, op);
    if (strcmp(kind, "REDUCTION") == 0) return reduction(t, op);
    if (strcmp(kind, "RESHAPE") == 0) return reshape(t, op);
    if (strcmp(kind, "RNG") == 0) return rng(t, op);
    t->missing = kind;
    return TW_OK;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static bool is_result(const char *key)
{
    static const char *const ends[] = {"_Y",     "_YDESC", "_DX",       "_DW",
                                       "_CDESC", "_ODESC", "_STATSDESC"};
    size_t n = strlen(key);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (n > strlen(ends[i]) && strcmp(key + n - strlen(ends[i]), ends[i]) == 0) return true;
    return false;
}

static void mark(translation *t, const cJSON *op, bool *flags)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, op)
    {
        bool names_tensor = is_result(item->string) && cJSON_IsString(item);
        int i = names_tensor ? find(t, item->valuestring) : -1;
        if (i >= 0) flags[i] = true;
    }
}

static bool ready(const translation *t, const cJSON *op)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, op)
    {
        int i = cJSON_IsString(item) ? find(t, item->valuestring) : -1;
        if (i >= 0 && !is_result(item->string) && t->produced[i] && !t->built[i]) return false;
    }
    return true;
}

/* Recorded operations stand in any order: those whose operands are there first. */
static void add_ops(translation *t)
{
    const cJSON *ops = attr(t->def, "ops"), *op;
    bool done[MAX_OPS] = {false};
    cJSON_ArrayForEach(op, ops) mark(t, op, t->produced);
    for (int round = 0; round < MAX_OPS; round++) {
        int i = 0;
        cJSON_ArrayForEach(op, ops)
        {
            int at = i++;
            if (at >= MAX_OPS || done[at] || t->missing || t->status != TW_OK || !ready(t, op))
                continue;
            t->status = add_op(t, op);
            done[at] = true;
            mark(t, op, t->built);
        }
    }
}

typedef struct totals {
    int graphs, built, missing;
    char *names[MAX_MISSING];
    int counts[MAX_MISSING];
} totals;

static void count_missing(totals *sum, const char *name)
{
    int i = 0;
    while (i < MAX_MISSING - 1 && sum->names[i] && strcmp(sum->names[i], name) != 0) i++;
    if (!sum->names[i]) sum->names[i] = strdup(name);
    sum->counts[i]++;
    sum->missing++;
}

static void translate(const cJSON *json, totals *sum)
{
    translation t = {.def = attr(json, "def")};
    tw_plan *plan = NULL;
    assert_int_equal(tw_graph_create(&t.graph), TW_OK);
    add_tensors(&t);
    add_ops(&t);
    sum->graphs++;
    if (t.missing)
        count_missing(sum, t.missing);
    else {
        if (t.status == TW_OK) t.status = tw_plan_create(t.graph, NULL, &plan);
        if (t.status != TW_OK)
            fail_msg("%s (%s): %s", word(json, "id"), word(json, "pattern"), tw_last_error());
        sum->built++;
    }
    tw_plan_free(plan);
    tw_graph_free(t.graph);
}

static char *unpack(const char *path)
{
    char command[1400];
    size_t n = 0, room = 1 << 20;
    snprintf(command, sizeof command, "xz -dc '%s'", path);
    FILE *pipe = popen(command, "r");
    char *text = malloc(room + 1);
    while (pipe && text) {
        n += fread(text + n, 1, room - n, pipe);
        if (n < room) break;
        text = realloc(text, (room *= 2) + 1);
    }
    if (pipe) pclose(pipe);
    if (text) text[n] = '\0';
    return text;
}

static const char *folder(void)
{
    const char *given = getenv("TW_TRACES"), *source = getenv("TW_SOURCE");
    static char beside[1024];
    if (given) return given;
    snprintf(beside, sizeof beside, "%s/../shared/cudnn/traces", source ? source : ".");
    return access(beside, R_OK) == 0 ? beside : NULL;
}

static void recorded_graphs(void **state)
{
    (void)state;
    static const char *const files[] = {"pytorch_2.11.summary.json.xz", "jax.summary.json.xz"};
    totals sum = {.graphs = 0};
    if (!folder()) {
        print_message("skipped: no recordings; set TW_TRACES to their folder\n");
        skip();
    }
    for (size_t f = 0; f < 2; f++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s", folder(), files[f]);
        char *text = unpack(path);
        cJSON *json = cJSON_Parse(text ? text : "");
        if (!json) fail_msg("%s cannot be read", path);
        const cJSON *graph;
        cJSON_ArrayForEach(graph, attr(json, "graphs")) translate(graph, &sum);
        cJSON_Delete(json);
        free(text);
    }
    print_message("%d graphs: %d built and planned, %d need what is not there yet\n", sum.graphs,
                  sum.built, sum.missing);
    for (int i = 0; i < MAX_MISSING && sum.names[i]; i++)
        print_message("  %4d  %s\n", sum.counts[i], sum.names[i]);
    for (int i = 0; i < MAX_MISSING; i++) free(sum.names[i]);
    assert_int_equal(sum.graphs, 868);
    assert_int_equal(sum.built + sum.missing, 868);
    assert_int_equal(sum.missing, 21); /* attention as one operation, ragged and late sizes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(recorded_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
