/* SPDX-License-Identifier: Apache-2.0 */
/* One case from its JSON to a verdict; and scripts, which replay other cases. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "core/error.h"
#include "core/os.h"

static const char *check_kind(const cJSON *json)
{
    return case_attr_text(cJSON_GetObjectItem(json, "check"), "kind", "close");
}

static tw_status prepare(case_run *run, bool *known)
{
    const cJSON *expect = cJSON_GetObjectItem(run->json, "expect");
    TW_TRY(case_make_inputs(run));
    for (expect = expect ? expect->child : NULL; expect; expect = expect->next)
        if (cJSON_IsObject(expect)) TW_TRY(case_make_output(run, expect));
    const char *kind = check_kind(run->json);
    bool by_nature = strcmp(kind, "stat") == 0 || strcmp(kind, "differs") == 0;
    if (by_nature && run->n_outputs == 0) {
        TW_TRY(case_make_like_x(run, "y", TW_AUTO));
        const char *output = case_attr_text(cJSON_GetObjectItem(run->json, "check"), "output", "y");
        if (strcmp(output, "mask") == 0) TW_TRY(case_make_like_x(run, "mask", TW_BOOL));
    }
    return case_build(run, known);
}

static bool is_pinned(const case_run *run, tw_tensor tensor, const case_tensor **found)
{
    for (int32_t i = 0; i < run->n_inputs; i++)
        if (run->inputs[i].tensor == tensor) *found = &run->inputs[i];
    for (int32_t i = 0; i < run->n_outputs; i++)
        if (run->outputs[i].tensor == tensor) *found = &run->outputs[i];
    return *found != NULL;
}

/* Binds what the plan asks for: inputs that no operation reads are not among it. */
static tw_status execute(case_run *run, const tw_plan *plan)
{
    tw_binding bindings[2 * CASE_TENSORS];
    int32_t n = 0;
    for (int32_t i = 0; i < tw_plan_binding_count(plan); i++) {
        int64_t uid = tw_plan_binding_uid(plan, i);
        const case_tensor *t = NULL;
        if (!is_pinned(run, (tw_tensor)uid, &t)) continue;
        char *first;
        case_address(t, &first);
        bindings[n++] = (tw_binding){uid, first};
    }
    int64_t bytes = tw_plan_workspace(plan);
    void *workspace = bytes ? tw_malloc((size_t)bytes) : NULL;
    TW_REQUIRE(workspace || bytes == 0, TW_OUT_OF_MEMORY, "no memory for %lld bytes of workspace",
               (long long)bytes);
    tw_status status = tw_run(plan, run->context, n, bindings, workspace, bytes);
    tw_free(workspace);
    return status;
}

static char *snapshot(const case_run *run, size_t *n)
{
    *n = 0;
    for (int32_t i = 0; i < run->n_outputs; i++) *n += (size_t)run->outputs[i].buffer_bytes;
    char *bytes = malloc(*n + 1), *at = bytes;
    for (int32_t i = 0; bytes && i < run->n_outputs; i++) {
        if (run->outputs[i].buffer_bytes)
            memcpy(at, run->outputs[i].buffer, (size_t)run->outputs[i].buffer_bytes);
        at += run->outputs[i].buffer_bytes;
    }
    return bytes;
}

static bool repeats(case_run *run, const tw_plan *plan, int64_t times)
{
    size_t n;
    char *first = snapshot(run, &n);
    bool same = first != NULL;
    for (int64_t i = 1; same && i < times; i++) {
        if (execute(run, plan) != TW_OK) same = false;
        char *again = snapshot(run, &n);
        same = same && again && memcmp(first, again, n) == 0;
        free(again);
    }
    free(first);
    if (!same) snprintf(run->why, sizeof run->why, "repeated runs differ");
    return same;
}

static tw_status plan_and_run(case_run *run, bool *known, bool *same)
{
    TW_TRY(prepare(run, known));
    *same = true;
    if (!*known) return TW_OK;
    tw_plan_options options = {.size = sizeof options};
    const cJSON *limit = cJSON_GetObjectItem(run->json, "workspace_limit");
    options.has_workspace_limit = limit != NULL;
    options.workspace_limit = limit ? (int64_t)limit->valuedouble : 0;
    tw_plan *plan;
    TW_TRY(tw_plan_create(run->graph, &options, &plan));
    tw_status status = execute(run, plan);
    int64_t times = case_attr_int(cJSON_GetObjectItem(run->json, "check"), "repeat", 1);
    if (status == TW_OK) *same = repeats(run, plan, times);
    tw_plan_free(plan);
    return status;
}

/* Our names for what a case calls otherwise. */
static bool mentions(const char *sentence, const char *argument)
{
    static const char *const also[][2] = {{"kernel_shape", "window"},
                                          {"kernel_shape", "kernel"},
                                          {"kernel_shape", "w is larger"},
                                          {"pads", "pad"},
                                          {"y", "output"}};
    if (strstr(sentence, argument)) return true;
    for (size_t i = 0; i < sizeof also / sizeof also[0]; i++)
        if (strcmp(also[i][0], argument) == 0 && strstr(sentence, also[i][1])) return true;
    return false;
}

static case_result judge_status(case_run *run, tw_status status)
{
    const cJSON *expect = cJSON_GetObjectItem(run->json, "expect");
    const char *want = case_attr_text(expect, "status", "ok");
    const char *argument = case_attr_text(expect, "argument", "");
    if (strcmp(want, "ok") == 0 && status == TW_OK) return CASE_PASSED;
    if (strcmp(want, "ok") != 0 && status == TW_INVALID_ARGUMENT &&
        mentions(tw_last_error(), argument))
        return CASE_PASSED;
    snprintf(run->why, sizeof run->why, "expected %s of %s, got %s: %.300s", want, argument,
             tw_status_name(status), status == TW_OK ? "" : tw_last_error());
    return CASE_FAILED;
}

static case_result differs(case_run *run, size_t n, const char *first)
{
    cJSON *attrs = cJSON_Duplicate(cJSON_GetObjectItem(run->json, "attrs"), true), *item;
    const cJSON *over = cJSON_GetObjectItem(cJSON_GetObjectItem(run->json, "check"), "attrs");
    cJSON_ArrayForEach(item, over)
        cJSON_ReplaceItemInObject(attrs, item->string, cJSON_Duplicate(item, true));
    case_run again = {
        .json = run->json, .attrs = attrs, .id = run->id, .op = run->op, .context = run->context};
    bool known = false, same;
    tw_status status = plan_and_run(&again, &known, &same);
    size_t m = 0;
    char *second = status == TW_OK ? snapshot(&again, &m) : NULL;
    bool equal = second && m == n && memcmp(first, second, n) == 0;
    free(second);
    case_free(&again);
    cJSON_Delete(attrs);
    if (!equal && status == TW_OK) return CASE_PASSED;
    snprintf(run->why, sizeof run->why, "the attribute makes no difference");
    return CASE_FAILED;
}

static case_result judge(case_run *run, tw_status status, bool same)
{
    const char *kind = check_kind(run->json);
    if (strcmp(kind, "status") == 0) return judge_status(run, status);
    if (status != TW_OK) {
        snprintf(run->why, sizeof run->why, "%s: %.400s", tw_status_name(status), tw_last_error());
        return strcmp(kind, "differs") == 0 ? CASE_PASSED : CASE_FAILED;
    }
    if (!same) return CASE_FAILED;
    if (strcmp(kind, "stat") == 0) return case_compare_stat(run) ? CASE_PASSED : CASE_FAILED;
    if (strcmp(kind, "differs") == 0) {
        size_t n;
        char *first = snapshot(run, &n);
        case_result result = first ? differs(run, n, first) : CASE_FAILED;
        free(first);
        return result;
    }
    return case_compare(run) ? CASE_PASSED : CASE_FAILED;
}

/* ---- Scripts --------------------------------------------------------------------------------- */

typedef struct script {
    const cJSON *const *file;
    int32_t n_file;
    tw_context *context;
    char *why;
} script;

static case_result replay_id(const script *s, const char *id)
{
    const char *op;
    for (int32_t i = 0; i < s->n_file; i++)
        if (strcmp(case_attr_text(s->file[i], "id", ""), id) == 0)
            return case_replay(s->file[i], s->file, s->n_file, s->context, s->why, &op);
    snprintf(s->why, CASE_TEXT, "no case %s in this file", id);
    return CASE_FAILED;
}

typedef struct parallel_run {
    const script *s;
    const char *id;
    case_result result;
    char why[CASE_TEXT];
} parallel_run;

static void run_thread(void *arg)
{
    parallel_run *p = arg;
    script own = *p->s;
    own.why = p->why;
    p->result = replay_id(&own, p->id);
}

static case_result in_threads(const script *s, const char *id, int64_t n)
{
    enum { MOST = 16 };
    tw_thread *threads[MOST];
    parallel_run runs[MOST];
    int32_t started = 0;
    case_result result = CASE_PASSED;
    for (; started < n && started < MOST; started++) {
        runs[started] = (parallel_run){.s = s, .id = id};
        if (tw_os_thread_start(run_thread, &runs[started], &threads[started]) != TW_OK) break;
    }
    for (int32_t i = 0; i < started; i++) {
        tw_os_thread_join(threads[i]);
        if (runs[i].result == CASE_PASSED) continue;
        result = runs[i].result;
        memcpy(s->why, runs[i].why, CASE_TEXT);
    }
    return result;
}

static case_result in_child(const script *s, const char *id)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit((int)replay_id(s, id));
    int state = 0;
    bool ended = child > 0 && waitpid(child, &state, 0) == child && WIFEXITED(state);
    if (ended && WEXITSTATUS(state) == CASE_SKIPPED) return CASE_SKIPPED;
    if (ended && WEXITSTATUS(state) == CASE_PASSED) return CASE_PASSED;
    snprintf(s->why, CASE_TEXT, "%s failed in a forked child", id);
    return CASE_FAILED;
}

static case_result run_step(script *s, const cJSON *step)
{
    const char *id = case_attr_text(step, "run", NULL), *action = case_attr_text(step, "do", "");
    int64_t n = case_attr_int(step, "n", 1);
    if (strcmp(action, "set_threads") == 0) {
        tw_context_options options = {.size = sizeof options, .threads = (int32_t)n};
        tw_context *context = NULL;
        if (tw_context_create(&options, &context) != TW_OK) return CASE_FAILED;
        s->context = context;
    }
    if (!id) return CASE_PASSED;
    if (strcmp(action, "fork") == 0) return in_child(s, id);
    if (strcmp(action, "threads") == 0) return in_threads(s, id, n);
    return replay_id(s, id);
}

static case_result replay_script(script *s, const cJSON *json)
{
    tw_context *given = s->context;
    case_result result = CASE_PASSED;
    const cJSON *step;
    cJSON_ArrayForEach(step, cJSON_GetObjectItem(json, "steps"))
    {
        tw_context *before = s->context;
        result = run_step(s, step);
        if (s->context != before && before != given) tw_context_free(before);
        if (result != CASE_PASSED) break;
    }
    if (s->context != given) tw_context_free(s->context);
    return result;
}

case_result case_replay(const cJSON *json, const cJSON *const *file, int32_t n_file,
                        tw_context *context, char *why, const char **op)
{
    *op = case_attr_text(json, "op", "");
    if (strcmp(*op, "Script") == 0) {
        script s = {.file = file, .n_file = n_file, .context = context, .why = why};
        return replay_script(&s, json);
    }
    case_run run = {.json = json,
                    .attrs = cJSON_GetObjectItem(json, "attrs"),
                    .op = *op,
                    .id = case_attr_text(json, "id", "?"),
                    .context = context};
    bool known = true, same = true;
    tw_status status = plan_and_run(&run, &known, &same);
    case_result result = CASE_SKIPPED;
    if (known)
        result = judge(&run, status, same);
    else
        snprintf(run.why, sizeof run.why, "operation %s is not there yet", *op);
    memcpy(why, run.why, CASE_TEXT);
    case_free(&run);
    return result;
}
