/* SPDX-License-Identifier: Apache-2.0 */
/* Running plans: bind pointers, check them, launch the steps in order. */
#include <stdio.h>
#include <string.h>

#include "arch/cpu/fpenv.h"
#include "core/error.h"
#include "core/os.h"
#include "plan/plan.h"

/* " (name)", or nothing for a tensor without one. */
static const char *label(const tw_plan *plan, int32_t slot, char room[64])
{
    const char *name = tw_graph_tensor_name(plan->graph, plan->slots[slot].tensor);
    room[0] = '\0';
    if (name[0]) snprintf(room, 64, " (%.60s)", name);
    return room;
}

static tw_status bind(const tw_plan *plan, int32_t n, const tw_binding *bindings, void **pointers)
{
    TW_REQUIRE(n == plan->n_slots, TW_INVALID_ARGUMENT,
               "n_bindings is %d; this plan binds %d tensors, each once", (int)n,
               (int)plan->n_slots);
    for (int32_t s = 0; s < plan->n_slots; s++) pointers[s] = NULL;
    for (int32_t b = 0; b < n; b++) {
        int64_t uid = bindings[b].uid;
        int32_t s = b; /* the usual case: in the plan's own order */
        if (plan->slots[s].uid != uid && plan->slots[s].other_uid != uid)
            for (s = 0; s < plan->n_slots; s++)
                if (plan->slots[s].uid == uid || plan->slots[s].other_uid == uid) break;
        TW_REQUIRE(s < plan->n_slots, TW_INVALID_ARGUMENT,
                   "bindings[%d].uid is %lld, which this plan does not bind", (int)b,
                   (long long)uid);
        TW_REQUIRE(!pointers[s], TW_INVALID_ARGUMENT,
                   "bindings[%d] binds tensor %lld a second time", (int)b, (long long)uid);
        TW_REQUIRE(bindings[b].data, TW_INVALID_ARGUMENT,
                   "bindings[%d].data is NULL; tensor %lld%s needs %lld bytes", (int)b,
                   (long long)uid, label(plan, s, (char[64]){0}), (long long)plan->slots[s].bytes);
        TW_REQUIRE((uintptr_t)bindings[b].data % (uintptr_t)plan->slots[s].alignment == 0,
                   TW_INVALID_ARGUMENT,
                   "bindings[%d].data is %p; tensor %lld needs its element's alignment, %lld bytes",
                   (int)b, bindings[b].data, (long long)uid, (long long)plan->slots[s].alignment);
        pointers[s] = bindings[b].data;
    }
    return TW_OK;
}

static bool overlap(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes)
{
    return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

static bool same_strides(const tw_view *a, const tw_view *b)
{
    for (int32_t d = 0; d < a->rank; d++)
        if (a->dims[d] > 1 && a->strides[d] != b->strides[d]) return false;
    return a->rank == b->rank;
}

/* An epilogue reads and writes element by element, so a load may be what a store overwrites. */
static bool chain_in_place(const tw_step *step, int32_t written, int32_t read)
{
    const tw_chain *chain = step->problem.epilogue;
    for (int32_t i = 0; i < step->problem.n_in; i++)
        if (step->in[i].home == TW_HOME_BOUND && step->in[i].slot == read) return false;
    for (int32_t l = 0; l < chain->n_loads; l++) {
        if (step->loads[l].home != TW_HOME_BOUND || step->loads[l].slot != read) continue;
        for (int32_t s = 0; s < chain->n_stores; s++)
            if (step->stores[s].slot == written &&
                !same_strides(&chain->loads[l], &chain->stores[s].view))
                return false;
    }
    return true;
}

/* Same memory is fine for one step that reads and writes it element by element, if nothing else in
 * the plan touches either tensor. */
static bool in_place_pair(const tw_plan *plan, int32_t written, int32_t read)
{
    if (plan->n_steps != 1 || plan->slots[read].written) return false;
    const tw_step *step = &plan->steps[0];
    const tw_problem *p = &step->problem;
    if (p->epilogue) return chain_in_place(step, written, read);
    if (step->out[0].slot != written || step->out[0].home != TW_HOME_BOUND) return false;
    for (int32_t i = 0; i < p->n_in && i < 32; i++)
        if (step->in[i].home == TW_HOME_BOUND && step->in[i].slot == read &&
            (!(step->kernel->impl->in_place >> i & 1) || !same_strides(&p->in[i], &p->out[0])))
            return false;
    return true;
}

static tw_status check_overlap(const tw_plan *plan, void *const *pointers, const void *workspace)
{
    for (int32_t w = 0; w < plan->n_slots; w++) {
        const tw_slot *out = &plan->slots[w];
        if (!out->written) continue;
        TW_REQUIRE(!overlap(pointers[w], out->bytes, workspace, plan->workspace),
                   TW_INVALID_ARGUMENT, "workspace overlaps tensor %lld", (long long)out->uid);
        for (int32_t r = 0; r < plan->n_slots; r++) {
            const tw_slot *in = &plan->slots[r];
            if (r == w || (in->written && r < w)) continue;
            if (!overlap(pointers[w], out->bytes, pointers[r], in->bytes)) continue;
            TW_REQUIRE(pointers[w] == pointers[r] && in_place_pair(plan, w, r), TW_INVALID_ARGUMENT,
                       "tensors %lld%s and %lld%s overlap in memory; an output may share "
                       "memory only with an input of the same layout where the operation works in "
                       "place, or by tw_graph_donate",
                       (long long)out->uid, label(plan, w, (char[64]){0}), (long long)in->uid,
                       label(plan, r, (char[64]){0}));
        }
    }
    return TW_OK;
}

typedef struct frame {
    const tw_plan *plan;
    tw_context *context;
    void **pointers; /* by slot */
    char *workspace;
    void **operands; /* room for four lists of max_operands */
} frame;

static void **resolve(const frame *f, const tw_place *places, int32_t n, int32_t list)
{
    int32_t room =
        f->plan->max_operands > TW_STACK_OPERANDS ? f->plan->max_operands : TW_STACK_OPERANDS;
    void **result = f->operands + (int64_t)list * room;
    for (int32_t i = 0; i < n; i++) {
        const tw_place *place = &places[i];
        union {
            const void *given;
            void *kept;
        } constant = {.given = place->data};
        switch (place->home) {
        case TW_HOME_NONE: result[i] = NULL; break;
        case TW_HOME_BOUND: result[i] = (char *)f->pointers[place->slot] + place->bytes; break;
        case TW_HOME_CONSTANT: result[i] = constant.kept; break;
        case TW_HOME_WORKSPACE: result[i] = f->workspace + place->bytes; break;
        }
    }
    return result;
}

static tw_status run_step(const frame *f, const tw_step *step)
{
    const tw_problem *p = &step->problem;
    int32_t n_loads = p->epilogue ? p->epilogue->n_loads : 0;
    int32_t n_stores = p->epilogue ? p->epilogue->n_stores : 0;
    tw_launch launch = {.problem = p,
                        .state = step->state,
                        .context = f->context,
                        .in = resolve(f, step->in, p->n_in, 0),
                        .out = resolve(f, step->out, p->n_out, 1),
                        .loads = resolve(f, step->loads, n_loads, 2),
                        .stores = resolve(f, step->stores, n_stores, 3),
                        .workspace = f->workspace + step->scratch};
    return step->kernel->impl->run(&launch);
}

static tw_status run_steps(const frame *f, int64_t *nanoseconds)
{
    int64_t before = nanoseconds ? tw_os_nanoseconds() : 0;
    for (int32_t s = 0; s < f->plan->n_steps; s++) {
        TW_TRY(run_step(f, &f->plan->steps[s]));
        if (!nanoseconds) continue;
        int64_t now = tw_os_nanoseconds();
        nanoseconds[s] += now - before;
        before = now;
    }
    return TW_OK;
}

static tw_status check_call(const tw_plan *plan, int32_t n_bindings, const tw_binding *bindings,
                            const void *workspace, int64_t workspace_bytes)
{
    TW_REQUIRE(plan, TW_INVALID_ARGUMENT, "plan is NULL; make one with tw_plan_create");
    TW_REQUIRE(bindings || n_bindings == 0, TW_INVALID_ARGUMENT,
               "bindings is NULL, n_bindings is %d", (int)n_bindings);
    TW_REQUIRE(workspace_bytes >= plan->workspace, TW_WORKSPACE_TOO_SMALL,
               "workspace_bytes is %lld; this plan needs %lld", (long long)workspace_bytes,
               (long long)plan->workspace);
    TW_REQUIRE(workspace || plan->workspace == 0, TW_INVALID_ARGUMENT,
               "workspace is NULL; this plan needs %lld bytes", (long long)plan->workspace);
    TW_REQUIRE((uintptr_t)workspace % TW_ALIGNMENT == 0 || plan->workspace == 0,
               TW_INVALID_ARGUMENT, "workspace is %p; it must be aligned to %d bytes", workspace,
               TW_ALIGNMENT);
    return TW_OK;
}

static tw_status run(const tw_plan *plan, tw_context *context, int32_t n_bindings,
                     const tw_binding *bindings, void *workspace, int64_t *nanoseconds)
{
    void *stack_slots[TW_STACK_SLOTS], *stack_operands[4 * TW_STACK_OPERANDS];
    frame f = {.plan = plan,
               .context = context,
               .workspace = workspace,
               .pointers = stack_slots,
               .operands = stack_operands};
    if (plan->pointer_table >= 0) {
        f.pointers = (void **)(void *)(f.workspace + plan->pointer_table);
        f.operands = f.pointers + plan->n_slots;
    }
    TW_TRY(bind(plan, n_bindings, bindings, f.pointers));
    TW_TRY(check_overlap(plan, f.pointers, workspace));
    uint64_t saved = tw_fpenv_get();
    tw_fpenv_set(tw_fpenv_for((plan->options.flags & TW_FLUSH_SUBNORMALS) != 0));
    tw_status status = run_steps(&f, nanoseconds);
    tw_fpenv_set(saved);
    return status;
}

tw_status tw_run(const tw_plan *plan, tw_context *context, int32_t n_bindings,
                 const tw_binding *bindings, void *workspace, int64_t workspace_bytes)
{
    TW_TRY(check_call(plan, n_bindings, bindings, workspace, workspace_bytes));
    return run(plan, context, n_bindings, bindings, workspace, NULL);
}

tw_status tw_run_timed(const tw_plan *plan, tw_context *context, int32_t n_bindings,
                       const tw_binding *bindings, void *workspace, int64_t workspace_bytes,
                       int64_t *nanoseconds)
{
    TW_TRY(check_call(plan, n_bindings, bindings, workspace, workspace_bytes));
    TW_REQUIRE(nanoseconds, TW_INVALID_ARGUMENT, "nanoseconds is NULL; give room for %d figures",
               (int)plan->n_steps);
    return run(plan, context, n_bindings, bindings, workspace, nanoseconds);
}
