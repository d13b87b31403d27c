/* SPDX-License-Identifier: Apache-2.0 */
/* Brings both forms of a pointwise problem to one. */
#include "ops/pointwise/pointwise.h"

/* An operand as seen from the space of the result: dims aligned at the end, stride 0 where it
 * broadcasts. */
static tw_view spread(const tw_view *operand, const tw_view *space)
{
    tw_view view = *operand;
    view.rank = space->rank;
    for (int32_t d = 0; d < space->rank; d++) {
        int32_t own = d - (space->rank - operand->rank);
        bool repeats = own < 0 || operand->dims[own] == 1;
        view.dims[d] = space->dims[d];
        view.strides[d] = repeats ? 0 : operand->strides[own];
    }
    return view;
}

void tw_pw_job_of(const tw_problem *problem, tw_pw_job *job)
{
    *job = (tw_pw_job){.single = problem->epilogue == NULL};
    if (!job->single) {
        job->chain = *problem->epilogue;
        return;
    }
    const tw_view *y = &problem->out[0];
    int32_t n_loads = tw_pw_mode_of(problem->attrs->pointwise.mode).arity;
    job->step = (tw_chain_step){.attrs = problem->attrs->pointwise,
                                .a = 1,
                                .b = n_loads > 1 ? 2 : -1,
                                .c = n_loads > 2 ? 3 : -1,
                                .round = y->dtype};
    job->store = (tw_chain_store){
        .value = (int16_t)(1 + n_loads), .convert = problem->attrs->pointwise.convert, .view = *y};
    for (int32_t i = 0; i < n_loads; i++) job->loads[i] = spread(&problem->in[i], y);
    job->chain = (tw_chain){.rank = y->rank,
                            .n_loads = n_loads,
                            .n_steps = 1,
                            .n_stores = 1,
                            .loads = job->loads,
                            .steps = &job->step,
                            .stores = &job->store,
                            .anchor_round = TW_AUTO};
    for (int32_t d = 0; d < y->rank; d++) job->chain.dims[d] = y->dims[d];
}
