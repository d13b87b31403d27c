/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/report.h"

#include <string.h>

#include "core/error.h"
#include "core/log.h"

const char *tw_pointwise_name(tw_pointwise_mode mode)
{
    switch (mode) {
#define TW_POINTWISE(NAME, value, text, arity, formula)                                            \
    case TW_PW_##NAME:                                                                             \
        return text;
#include <tilework/pointwise.def>
#undef TW_POINTWISE
    case TW_PW_END: break;
    }
    return "?";
}

static void add_view(tw_text *text, const char *name, const tw_view *view)
{
    if (view->dtype == TW_AUTO) return;
    tw_text_add(text, " %s=%s[", name, tw_dtype_name(view->dtype));
    for (int32_t d = 0; d < view->rank; d++)
        tw_text_add(text, "%s%lld", d ? "x" : "", (long long)view->dims[d]);
    tw_text_add(text, "]");
}

static bool field_is_zero(const tw_field *field, const char *at)
{
    size_t width = field->type == TW_FIELD_I32 ? 4 : field->type == TW_FIELD_BOOL ? 1 : 8;
    for (size_t i = 0; i < width * field->count; i++)
        if (at[i]) return false;
    return true;
}

static void add_value(tw_text *text, tw_field_type type, const char *at)
{
    int64_t wide;
    int32_t narrow;
    double real;
    switch (type) {
    case TW_FIELD_I64:
        memcpy(&wide, at, sizeof wide);
        tw_text_add(text, "%lld", (long long)wide);
        break;
    case TW_FIELD_I32:
        memcpy(&narrow, at, sizeof narrow);
        tw_text_add(text, "%ld", (long)narrow);
        break;
    case TW_FIELD_F64:
        memcpy(&real, at, sizeof real);
        tw_text_add(text, "%.17g", real);
        break;
    case TW_FIELD_BOOL: tw_text_add(text, "%d", at[0] != 0); break;
    }
}

void tw_report_attrs(tw_text *text, const tw_op_info *info, const tw_attrs *attrs)
{
    for (const tw_field *field = info->fields; field && field->name; field++) {
        const char *at = (const char *)attrs + field->offset;
        if (field_is_zero(field, at)) continue;
        size_t width = field->type == TW_FIELD_I32 ? 4 : field->type == TW_FIELD_BOOL ? 1 : 8;
        int n = field->count;
        while (n > 1 && memcmp(at + width * (size_t)(n - 1), "\0\0\0\0\0\0\0", width) == 0) n--;
        tw_text_add(text, " %s=", field->name);
        for (int i = 0; i < n; i++) {
            if (i) tw_text_add(text, ",");
            add_value(text, field->type, at + width * (size_t)i);
        }
    }
}

static void add_chain(tw_text *text, const tw_chain *chain, bool pure)
{
    for (int32_t i = 0; i < chain->n_steps; i++)
        tw_text_add(text, "%s%s",
                    i      ? "+"
                    : pure ? "pointwise "
                           : " then ",
                    tw_pointwise_name(chain->steps[i].attrs.mode));
    if (!pure) return;
    for (int32_t i = 0; i < chain->n_loads; i++) add_view(text, i ? "" : "loads", &chain->loads[i]);
    for (int32_t i = 0; i < chain->n_stores; i++)
        add_view(text, i ? "" : "stores", &chain->stores[i].view);
}

tw_status tw_report_step(tw_plan *plan, tw_step *step)
{
    const tw_problem *p = &step->problem;
    const tw_op_info *info = p->info;
    tw_text text = {0};
    bool pure = p->epilogue && p->n_out == 0;
    if (pure)
        add_chain(&text, p->epilogue, true);
    else {
        tw_text_add(&text, "%s", info->name);
        for (int32_t i = 0; i < p->n_in; i++)
            add_view(&text, i < 8 && info->in_names[i] ? info->in_names[i] : "in", &p->in[i]);
        for (int32_t i = 0; i < p->n_out; i++)
            add_view(&text, i < 4 && info->out_names[i] ? info->out_names[i] : "out", &p->out[i]);
        tw_report_attrs(&text, info, p->attrs);
        if (p->epilogue) add_chain(&text, p->epilogue, false);
    }
    tw_status status = tw_text_status(&text);
    if (status == TW_OK)
        status = tw_arena_string(&plan->arena, text.data ? text.data : "", &step->text);
    tw_text_free(&text);
    TW_TRY(status);
    tw_tensor result = pure ? step->store_tensors[p->epilogue->n_stores - 1]
                       : p->epilogue && p->epilogue->n_stores > 0
                           ? step->store_tensors[p->epilogue->n_stores - 1]
                           : step->out_tensors[0];
    step->name = result == TW_NONE ? "" : tw_graph_tensor_name(plan->graph, result);
    return TW_OK;
}

void tw_report_choice(tw_plan *plan, const tw_step *step, int32_t index, const char *refusals)
{
    tw_text_add(&plan->explanation, "step %d: %s\n    %s\n    %lld bytes of scratch\n", (int)index,
                step->kernel->name, step->text, (long long)step->scratch_bytes);
    if (refusals) tw_text_add(&plan->explanation, "%s", refusals);
    if (step->kernel->reference && refusals)
        tw_log(TW_LOG_DISPATCH, "%s runs on its reference kernel:\n%s", step->text, refusals);
}
