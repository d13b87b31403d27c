/* SPDX-License-Identifier: Apache-2.0 */
/* A call: pack, recall or plan, bind, run. */
#include "simple/call.h"

/* Plans bind by number; a failure is told in the caller's words. */
static tw_status explain(const tw_call_kind *kind, const void *call, tw_status status)
{
    bool misplaced = status == TW_INVALID_ARGUMENT;
    for (int32_t i = 0; misplaced && i < TW_CALL_OPERANDS && kind->operands[i].name; i++) {
        tw_output operand = tw_call_operand_of(kind, call, i);
        int64_t element = operand.desc ? tw_dtype_bits(operand.desc->dtype) / 8 : 0;
        if (element == 0 || (intptr_t)operand.data % element == 0) continue;
        return tw_fail(status, "%s: %s.data is %p; it needs its element's alignment, %d bytes",
                       kind->name, kind->operands[i].name, operand.data, (int)element);
    }
    return tw_fail(status, "%s: %s", kind->name, tw_last_error());
}

static tw_status run(const tw_call_kind *kind, const void *call, const tw_call_plan *found)
{
    tw_binding bindings[TW_CALL_OPERANDS];
    for (int32_t b = 0; b < found->n; b++) {
        int32_t i = found->order[b];
        tw_output operand = tw_call_operand_of(kind, call, i);
        TW_REQUIRE(operand.data, TW_INVALID_ARGUMENT,
                   "%s: %s.data is NULL; the tensor needs %lld bytes", kind->name,
                   kind->operands[i].name, (long long)tw_desc_bytes(operand.desc));
        bindings[b] = (tw_binding){.uid = TW_CALL_UID + i, .data = operand.data};
    }
    const tw_call_options *options = ((const tw_call_head *)call)->options;
    tw_status status = options ? tw_run(found->plan, options->context, found->n, bindings,
                                        options->workspace, options->workspace_bytes)
                               : tw_run(found->plan, NULL, found->n, bindings, NULL, 0);
    return status == TW_OK ? TW_OK : explain(kind, call, status);
}

/* A share of the plan, or the workspace of the one that no cap holds down. */
static tw_status answer(const tw_call_kind *kind, const void *call, const tw_call_options *options)
{
    tw_call_plan made;
    if (options->query) {
        TW_TRY(tw_call_make_plan(kind, call, true, &made));
        *options->query = tw_plan_workspace(made.plan);
        tw_plan_free(made.plan);
    }
    if (options->plan) {
        TW_TRY(tw_call_make_plan(kind, call, false, &made));
        *options->plan = made.plan;
    }
    return TW_OK;
}

static tw_status plan_or_split(const tw_call_kind *kind, const void *call, tw_call_plan *plan)
{
    tw_status status = tw_call_make_plan(kind, call, false, plan);
    bool splits = status == TW_WORKSPACE_TOO_SMALL && kind->splits && kind->splits(call);
    return splits ? TW_OK : status;
}

tw_status tw_call_run(const tw_call_kind *kind, const void *call)
{
    tw_call_key key;
    TW_TRY(tw_call_pack(kind, call, &key));
    const tw_call_options *options = ((const tw_call_head *)call)->options;
    if (options && (options->query || options->plan)) return answer(kind, call, options);
    tw_call_plan found;
    bool kept = tw_call_recall(&key, &found);
    if (!kept) {
        TW_TRY(plan_or_split(kind, call, &found));
        kept = tw_call_remember(&key, &found);
    }
    tw_status status = found.plan ? run(kind, call, &found) : TW_OK;
    if (kept)
        tw_call_release();
    else
        tw_plan_free(found.plan);
    return found.plan ? status : kind->split(call);
}
