/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved plans: a header, the options, a line for each step, the graph's text, and a check sum.
 *
 *     tilework-plan 1
 *     options flags=0 phase=0 threads=2 limit=-1 isa=-1 steps=2
 *     step ops=3 scratch=9223372036854775807 kernel=tw_conv_brgemm_f32__avx512
 *     graph tensors=…
 *     end 0123456789abcdef
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "graph/read.h"
#include "plan/planner.h"

#define MAGIC "tilework-plan "
enum { FORMAT = 1, MAX_NAME = 128 };

tw_status tw_plan_save(const tw_plan *plan, void **bytes, size_t *n_bytes)
{
    TW_REQUIRE(plan && bytes && n_bytes, TW_INVALID_ARGUMENT, "plan, bytes or n_bytes is NULL");
    const tw_plan_options *o = &plan->options;
    tw_text text = {0};
    tw_text_add(&text,
                MAGIC "%d\noptions flags=%u phase=%d threads=%d limit=%lld isa=%d steps=%d\n",
                FORMAT, (unsigned)o->flags, (int)o->phase, (int)o->max_threads,
                o->has_workspace_limit ? (long long)o->workspace_limit : -1LL,
                o->has_max_isa ? (int)o->max_isa : -1, (int)plan->n_steps);
    for (int32_t s = 0; s < plan->n_steps; s++)
        tw_text_add(&text, "step ops=%d scratch=%lld kernel=%s\n", (int)plan->steps[s].n_ops,
                    (long long)plan->steps[s].problem.workspace_limit, plan->steps[s].kernel->name);
    tw_graph_write(plan->graph, &text);
    uint64_t sum = text.data ? tw_hash(FORMAT, text.data, text.length) : 0;
    tw_text_add(&text, "end %016" PRIx64 "\n", sum);
    tw_status status = tw_text_status(&text);
    void *copy = status == TW_OK ? tw_malloc(text.length) : NULL;
    if (copy) {
        memcpy(copy, text.data, text.length);
        *bytes = copy;
        *n_bytes = text.length;
    } else if (status == TW_OK)
        status = tw_fail_memory(text.length);
    tw_text_free(&text);
    return status;
}

static tw_status check_frame(const char *text, size_t n)
{
    const size_t tail = sizeof "end 0123456789abcdef"; /* with its newline */
    TW_REQUIRE(n > strlen(MAGIC) + tail && memcmp(text, MAGIC, strlen(MAGIC)) == 0, TW_BAD_FILE,
               "byte 0 of the saved text: it does not begin with '" MAGIC "'");
    TW_REQUIRE(text[strlen(MAGIC)] == '0' + FORMAT && text[strlen(MAGIC) + 1] == '\n',
               TW_VERSION_MISMATCH, "the saved plan is of another format than %d; make it anew",
               FORMAT);
    char want[32];
    snprintf(want, sizeof want, "end %016" PRIx64 "\n", tw_hash(FORMAT, text, n - tail));
    TW_REQUIRE(memcmp(text + n - tail, want, tail) == 0, TW_BAD_FILE,
               "byte %zu of the saved text: the check sum is wrong; the text is damaged or cut",
               n - tail);
    return TW_OK;
}

static bool number_word(tw_reader *reader, const char *key, int64_t *value)
{
    char word[MAX_NAME];
    if (!tw_read_word(reader, word, sizeof word)) return false;
    const char *text = tw_key_value(word, key);
    return text && tw_parse_i64(text, value);
}

static tw_status read_options(tw_reader *reader, tw_plan_options *options, int64_t *n_steps)
{
    char word[MAX_NAME];
    int64_t flags, phase, threads, limit, isa;
    bool good = tw_read_line(reader) && tw_read_line(reader) &&
                tw_read_word(reader, word, sizeof word) && strcmp(word, "options") == 0 &&
                number_word(reader, "flags", &flags) && number_word(reader, "phase", &phase) &&
                number_word(reader, "threads", &threads) && number_word(reader, "limit", &limit) &&
                number_word(reader, "isa", &isa) && number_word(reader, "steps", n_steps);
    good = good && flags >= 0 && flags <= UINT32_MAX && phase >= 0 && phase <= 2 && threads >= 0 &&
           threads <= 1024 && isa >= -1 && isa < TW_ISA_END && *n_steps >= 0 &&
           *n_steps <= reader->end - reader->at;
    if (!good) return tw_read_fail(reader, "a bad line of options");
    *options = (tw_plan_options){.flags = (uint32_t)flags,
                                 .phase = (tw_phase)phase,
                                 .max_threads = (int32_t)threads,
                                 .has_workspace_limit = limit >= 0,
                                 .workspace_limit = limit >= 0 ? limit : 0,
                                 .has_max_isa = isa >= 0,
                                 .max_isa = isa >= 0 ? (tw_isa)isa : TW_ISA_BASELINE};
    return TW_OK;
}

static tw_status read_steps(tw_reader *reader, tw_arena *arena, tw_script_step *steps, int64_t n)
{
    for (int64_t s = 0; s < n; s++) {
        char word[MAX_NAME];
        int64_t ops;
        bool good = tw_read_line(reader) && tw_read_word(reader, word, sizeof word) &&
                    strcmp(word, "step") == 0 && number_word(reader, "ops", &ops) && ops >= 0 &&
                    ops <= TW_CHAIN_VALUES &&
                    number_word(reader, "scratch", &steps[s].scratch_limit) &&
                    tw_read_word(reader, word, sizeof word) && tw_key_value(word, "kernel");
        if (!good) return tw_read_fail(reader, "a bad line of a step");
        steps[s].n_ops = (int32_t)ops;
        TW_TRY(tw_arena_string(arena, tw_key_value(word, "kernel"), &steps[s].kernel));
    }
    return TW_OK;
}

static tw_status load(tw_reader *reader, tw_arena *arena, tw_graph **graph, tw_plan **plan)
{
    tw_plan_options options;
    int64_t n_steps;
    void *steps;
    TW_TRY(read_options(reader, &options, &n_steps));
    TW_TRY(tw_arena_alloc(arena, n_steps, sizeof(tw_script_step), &steps));
    TW_TRY(read_steps(reader, arena, steps, n_steps));
    TW_TRY(tw_graph_read(reader, graph));
    return tw_plan_from_script(*graph, &options, steps, (int32_t)n_steps, plan);
}

tw_status tw_plan_load(const void *bytes, size_t n_bytes, int32_t n_constants,
                       const tw_binding *constants, tw_plan **plan)
{
    TW_REQUIRE(bytes && plan, TW_INVALID_ARGUMENT, "%s is NULL", bytes ? "plan" : "bytes");
    TW_REQUIRE(n_constants >= 0 && (constants || n_constants == 0), TW_INVALID_ARGUMENT,
               "n_constants is %d and constants %s", (int)n_constants,
               constants ? "given" : "NULL");
    TW_TRY(check_frame(bytes, n_bytes));
    tw_reader reader = {.start = bytes,
                        .at = bytes,
                        .end = (const char *)bytes + n_bytes,
                        .n_constants = n_constants,
                        .constants = constants};
    tw_arena arena = {0};
    tw_graph *graph = NULL;
    tw_plan *made = NULL;
    tw_status status = load(&reader, &arena, &graph, &made);
    tw_graph_free(graph);
    tw_arena_free(&arena);
    if (status == TW_OK) *plan = made;
    return status;
}
