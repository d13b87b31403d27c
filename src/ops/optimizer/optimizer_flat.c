/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/optimizer/optimizer_flat.h"

static bool is_flat_type(tw_dtype type)
{
    return type == TW_F32 || type == TW_F16 || type == TW_BF16;
}

/* Whether a view's elements fill a range of memory, each place once: its strides, sorted, are the
 * products of the dims below. */
static bool is_dense(const tw_view *view)
{
    int64_t next = 1;
    bool used[TW_MAX_RANK] = {false};
    for (int32_t i = 0; i < view->rank; i++) {
        int32_t found = -1;
        for (int32_t d = 0; d < view->rank && found < 0; d++)
            if (!used[d] && (view->dims[d] == 1 || view->strides[d] == next)) found = d;
        if (found < 0) return false;
        used[found] = true;
        next *= view->dims[found];
    }
    return true;
}

static bool same_order(const tw_view *a, const tw_view *b)
{
    for (int32_t d = 0; d < a->rank; d++)
        if (a->dims[d] > 1 && a->strides[d] != b->strides[d]) return false;
    return true;
}

static const char *check(const tw_problem *problem, const tw_view *view)
{
    if (view->dtype == TW_AUTO) return NULL;
    if (!is_flat_type(view->dtype)) return "a tensor is neither f32 nor f16 nor bf16";
    if (!same_order(&problem->in[0], view)) return "strides differ between the tensors";
    return NULL;
}

const char *tw_flat_refuses(const tw_problem *problem)
{
    int32_t operands = problem->info->kind == TW_OP_SGD ? TW_SGD_LR : TW_ADAM_LR;
    const char *reason = NULL;
    if (problem->epilogue != NULL) return "it has an epilogue";
    for (int32_t i = 0; i < operands && !reason; i++) reason = check(problem, &problem->in[i]);
    for (int32_t i = 0; i < problem->n_out && !reason; i++)
        reason = check(problem, &problem->out[i]);
    if (!reason && tw_flat_elements(&problem->in[0]) > 0 && !is_dense(&problem->in[0]))
        reason = "param is not dense";
    return reason;
}
