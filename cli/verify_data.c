/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"

enum { PATTERN = 0xA5 };

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

double random_uniform(uint64_t *state) { return (double)(random_next(state) >> 11) * 0x1p-53; }

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t memory_bytes(const operand *o) { return (size_t)o->bytes + (size_t)2 * GUARD_BYTES; }

static bool plan_binds(const tw_plan *plan, int64_t uid)
{
    for (int32_t i = 0; i < tw_plan_binding_count(plan); i++)
        if (tw_plan_binding_uid(plan, i) == uid) return true;
    return false;
}

static bool has(const operands *set, int64_t uid)
{
    for (int32_t i = 0; i < set->n; i++)
        if (set->items[i].uid == uid) return true;
    return false;
}

static tw_status add_operand(operands *set, const tw_tensor_desc *desc, const char *name,
                             bool output, bool skew)
{
    TW_REQUIRE(set->n < MAX_OPERANDS, TW_NOT_SUPPORTED, "more than %d tensors", MAX_OPERANDS);
    operand o = {.desc = *desc,
                 .elements = tw_desc_elements(desc),
                 .bytes = tw_desc_bytes(desc),
                 .uid = desc->uid,
                 .name = name ? name : "",
                 .output = output};
    TW_REQUIRE(o.elements >= 0 && o.bytes >= 0, TW_INVALID_ARGUMENT, "tensor '%s' is too large",
               o.name);
    o.memory = tw_malloc(memory_bytes(&o));
    if (!o.memory) return tw_fail_memory(memory_bytes(&o));
    memset(o.memory, PATTERN, memory_bytes(&o));
    size_t width = (size_t)((tw_dtype_bits(desc->dtype) + 7) / 8);
    o.first = o.memory + GUARD_BYTES + (skew ? width : 0);
    set->items[set->n++] = o;
    return TW_OK;
}

static tw_status add_operation(operands *set, const tw_graph *graph, const tw_plan *plan,
                               int32_t index, bool skew)
{
    tw_operation_info info;
    TW_TRY(tw_graph_operation(graph, index, &info));
    for (int32_t i = 0; i < info.n_in + info.n_out; i++) {
        bool output = i >= info.n_in;
        int32_t at = output ? i - info.n_in : i;
        tw_tensor tensor = output ? info.out[at] : info.in[at];
        tw_tensor_desc desc;
        if (tensor == TW_NONE) continue;
        TW_TRY(tw_graph_describe(graph, tensor, &desc));
        if (!plan_binds(plan, desc.uid) || has(set, desc.uid)) continue;
        const char *name = output && at < 4    ? info.out_names[at]
                           : !output && at < 8 ? info.in_names[at]
                                               : NULL;
        TW_TRY(add_operand(set, &desc, name, output, skew));
    }
    return TW_OK;
}

tw_status operands_make(operands *set, const tw_graph *graph, const tw_plan *plan, bool skew)
{
    *set = (operands){.n = 0};
    for (int32_t i = 0; i < tw_graph_op_count(graph); i++) {
        tw_status status = add_operation(set, graph, plan, i, skew);
        if (status != TW_OK) {
            operands_free(set);
            return status;
        }
    }
    return TW_OK;
}

void operands_free(operands *set)
{
    for (int32_t i = 0; i < set->n; i++) tw_free(set->items[i].memory);
    set->n = 0;
}

void operands_poison(operands *set)
{
    for (int32_t i = 0; i < set->n; i++) {
        operand *o = &set->items[i];
        if (o->output) memset(o->memory, PATTERN, memory_bytes(o));
    }
}

static bool has_pattern(const char *from, const char *to)
{
    for (const char *p = from; p < to; p++)
        if ((unsigned char)*p != PATTERN) return false;
    return true;
}

bool operands_guards_intact(const operands *set)
{
    for (int32_t i = 0; i < set->n; i++) {
        const operand *o = &set->items[i];
        if (!has_pattern(o->memory, o->first) ||
            !has_pattern(o->first + o->bytes, o->memory + memory_bytes(o)))
            return false;
    }
    return true;
}

int32_t operands_bind(const operands *set, tw_binding *bindings)
{
    for (int32_t i = 0; i < set->n; i++)
        bindings[i] = (tw_binding){.uid = set->items[i].uid, .data = set->items[i].first};
    return set->n;
}

/* ---- Elements -------------------------------------------------------------------------------- */

int64_t operand_offset(const operand *o, int64_t linear)
{
    int64_t offset = 0;
    for (int32_t d = o->desc.rank - 1; d >= 0; d--) {
        offset += linear % o->desc.dims[d] * o->desc.strides[d];
        linear /= o->desc.dims[d];
    }
    return offset;
}

double operand_get(const operand *o, int64_t linear)
{
    return tw_load(o->desc.dtype, o->first, operand_offset(o, linear));
}

void operand_set(operand *o, int64_t linear, double value)
{
    tw_store(o->desc.dtype, o->first, operand_offset(o, linear), value, 0);
}

bool operand_is_float(const operand *o) { return tw_dtype_is_float(o->desc.dtype); }

void operands_map(operands *dst, const operands *src, operand_function function, void *arg)
{
    int32_t ordinal = 0;
    for (int32_t i = 0; i < src->n; i++) {
        const operand *from = &src->items[i];
        if (from->output || !operand_is_float(from)) continue;
        for (int64_t e = 0; e < from->elements; e++)
            operand_set(&dst->items[i], e, function(operand_get(from, e), ordinal, arg));
        ordinal++;
    }
}

void operands_copy_inputs(operands *dst, const operands *src)
{
    for (int32_t i = 0; i < src->n; i++)
        if (!src->items[i].output)
            memcpy(dst->items[i].first, src->items[i].first, (size_t)src->items[i].bytes);
}

/* ---- Content --------------------------------------------------------------------------------- */

static double special(uint64_t *state, double value)
{
    switch (random_next(state) % 16) {
    case 0: return (double)NAN;
    case 1: return (double)INFINITY;
    case 2: return -(double)INFINITY;
    case 3: return 0;
    case 4: return -0.0;
    default: return value;
    }
}

static double draw(const operand *o, fill how, uint64_t *state)
{
    tw_dtype type = o->desc.dtype;
    if (type == TW_BOOL) return (double)(random_next(state) & 1);
    if (type == TW_I2 || type == TW_U2) return (double)(random_next(state) & 1);
    if (tw_dtype_is_integer(type))
        return (double)(int64_t)(random_next(state) % 8) - (tw_dtype_is_signed(type) ? 4 : 0);
    if (how == FILL_INTEGERS) return (double)(int64_t)(random_next(state) % 9) - 4;
    double value = 4 * random_uniform(state) - 2;
    /* One element in four lines or so: whole lines must stay finite somewhere. */
    return how == FILL_SPECIALS && random_next(state) % 4 == 0 ? special(state, value) : value;
}

static void fill_operand(operand *o, fill how, uint64_t *state)
{
    bool wide = tw_dtype_is_complex(o->desc.dtype);
    for (int64_t e = 0; e < o->elements; e++) {
        if (!wide) {
            operand_set(o, e, draw(o, how, state));
            continue;
        }
        tw_dtype part = o->desc.dtype == TW_C64 ? TW_F32 : TW_F64;
        for (int64_t k = 0; k < 2; k++)
            tw_store(part, o->first, 2 * operand_offset(o, e) + k, 2 * random_uniform(state), 0);
    }
}

static operand *find(operands *set, const char *name, bool output)
{
    for (int32_t i = 0; i < set->n; i++)
        if (set->items[i].output == output && strcmp(set->items[i].name, name) == 0)
            return &set->items[i];
    return NULL;
}

static void make_absolute(operand *o)
{
    for (int64_t e = 0; e < o->elements; e++) operand_set(o, e, fabs(operand_get(o, e)));
}

/* Class numbers, probabilities, what a square root or a logarithm is taken of. */
static void constrain(operands *set, const problem *p, uint64_t *state)
{
    operand *labels = find(set, "labels", false), *logits = find(set, "logits", false);
    operand *v = find(set, "v", false), *x = find(set, "x", false);
    for (int64_t e = 0; labels && logits && e < labels->elements; e++) {
        int64_t classes = logits->desc.dims[logits->desc.rank > 1];
        if (operand_is_float(labels))
            operand_set(labels, e, random_uniform(state));
        else if (classes > 0)
            operand_set(labels, e, (double)(random_next(state) % (uint64_t)classes % 120));
    }
    if (x && strstr(p->text, "mode=log_sum ")) make_absolute(x);
    if (v) make_absolute(v);
}

/* ---- What a forward operation hands to its gradient ------------------------------------------ */

/* "…pass=bwd…" with pass=fwd, and with the second output asked for. */
static bool forward_text(const char *backward, char *text, size_t room)
{
    const char *at = strstr(backward, "pass=bwd");
    if (!at) return false;
    bool pool = strncmp(backward, "pool ", 5) == 0;
    int n = snprintf(text, room, "%.*spass=fwd%s%s", (int)(at - backward), backward, at + 8,
                     pool && !strstr(backward, "indices=") ? " indices=1" : "");
    return n > 0 && (size_t)n < room;
}

static void hand_over(operands *to, operands *from)
{
    for (int32_t i = 0; i < from->n; i++) {
        const operand *result = &from->items[i];
        operand *target = result->output ? find(to, result->name, false) : NULL;
        if (target && target->bytes == result->bytes)
            memcpy(target->first, result->first, (size_t)result->bytes);
    }
}

static void share_inputs(operands *forward, operands *backward)
{
    for (int32_t i = 0; i < forward->n; i++) {
        operand *input = &forward->items[i];
        const operand *same = input->output ? NULL : find(backward, input->name, false);
        if (same && same->bytes == input->bytes)
            memcpy(input->first, same->first, (size_t)same->bytes);
    }
}

static tw_status run_forward(operands *set, const char *text, fill how, uint64_t *state)
{
    tw_graph *graph = NULL;
    tw_plan *plan = NULL;
    operands forward = {.n = 0};
    tw_binding bindings[MAX_OPERANDS];
    void *workspace = NULL;
    const tw_plan_options options = {.size = sizeof options, .flags = TW_ONLY_REFERENCE};
    tw_status status;
    TW_TRY_OUT(tw_problem_graph(text, &graph));
    TW_TRY_OUT(tw_plan_create(graph, &options, &plan));
    TW_TRY_OUT(operands_make(&forward, graph, plan, false));
    for (int32_t i = 0; i < forward.n; i++)
        if (!forward.items[i].output) fill_operand(&forward.items[i], how, state);
    share_inputs(&forward, set);
    workspace = tw_malloc((size_t)tw_plan_workspace(plan));
    int32_t n = operands_bind(&forward, bindings);
    TW_TRY_OUT(tw_run(plan, NULL, n, bindings, workspace, tw_plan_workspace(plan)));
    hand_over(set, &forward);
out:
    tw_free(workspace);
    operands_free(&forward);
    tw_plan_free(plan);
    tw_graph_free(graph);
    return status;
}

tw_status operands_fill(operands *set, const problem *p, fill how, uint64_t seed)
{
    char text[2048];
    uint64_t state = 4 * seed + (uint64_t)how;
    state = random_next(&state); /* neighbouring seeds are neighbouring states otherwise */
    for (int32_t i = 0; i < set->n; i++)
        if (!set->items[i].output) fill_operand(&set->items[i], how, &state);
    constrain(set, p, &state);
    if (!forward_text(p->text, text, sizeof text)) return TW_OK;
    return run_forward(set, text, how, &state);
}
