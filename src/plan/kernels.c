/* SPDX-License-Identifier: Apache-2.0 */
/* The manifests, for tools: rows, families, and one row's answer to one problem. */
#include <string.h>

#include "core/error.h"
#include "plan/planner.h"

int32_t tw_kernel_count(void)
{
    int32_t n = 0;
    for (int32_t f = 0; f < tw_n_families; f++) n += tw_families[f]->n_kernels;
    return n;
}

static tw_status find(int32_t index, const tw_family **family, const tw_kernel **kernel)
{
    int32_t rest = index;
    for (int32_t f = 0; f < tw_n_families && index >= 0; f++) {
        if (rest < tw_families[f]->n_kernels) {
            *family = tw_families[f];
            *kernel = &tw_families[f]->kernels[rest];
            return TW_OK;
        }
        rest -= tw_families[f]->n_kernels;
    }
    return tw_fail(TW_INVALID_ARGUMENT, "index is %d; there are %d kernels, from 0", (int)index,
                   (int)tw_kernel_count());
}

tw_status tw_kernel_describe(int32_t index, tw_kernel_info *info)
{
    const tw_family *family;
    const tw_kernel *kernel;
    TW_REQUIRE(info, TW_INVALID_ARGUMENT, "info is NULL; give a place for the description");
    TW_TRY(find(index, &family, &kernel));
    *info = (tw_kernel_info){.size = sizeof *info,
                             .name = kernel->name,
                             .family = family->name,
                             .algorithm = kernel->algorithm,
                             .types = kernel->types,
                             .target = kernel->target,
                             .isa = kernel->isa,
                             .operation = tw_op_info_of(kernel->kind)->name,
                             .available = kernel->impl && kernel->isa <= tw_cpu_isa(),
                             .reference = kernel->reference};
    return TW_OK;
}

/* Asks the planner, with fusion off and this row forced: the one place that knows how. */
tw_status tw_kernel_supports(int32_t index, const tw_graph *graph, const char **reason)
{
    static _Thread_local char text[256];
    const tw_family *family;
    const tw_kernel *kernel;
    TW_REQUIRE(graph && reason, TW_INVALID_ARGUMENT, "%s is NULL", graph ? "reason" : "graph");
    TW_TRY(find(index, &family, &kernel));
    tw_plan_options options = {
        .size = sizeof options, .kernel = kernel->name, .flags = TW_NO_FUSION};
    tw_plan *plan = NULL;
    tw_status status = tw_plan_create(graph, &options, &plan);
    *reason = NULL;
    if (status == TW_NOT_SUPPORTED) {
        const char *line = strstr(tw_last_error(), kernel->name);
        const char *colon = line ? strchr(line, ':') : NULL;
        size_t n = colon ? strcspn(colon + 2, "\n") : 0;
        if (n >= sizeof text) n = sizeof text - 1;
        if (n) memcpy(text, colon + 2, n);
        text[n] = '\0';
        *reason = text;
        return TW_OK;
    }
    if (status == TW_OK && strcmp(plan->steps[0].kernel->name, kernel->name) != 0)
        *reason = "the graph has no operation of this kernel's kind";
    tw_plan_free(plan);
    return status;
}

int32_t tw_family_count(void) { return tw_n_families; }

const char *tw_family_name(int32_t index)
{
    return index >= 0 && index < tw_n_families ? tw_families[index]->name : NULL;
}
