/* SPDX-License-Identifier: Apache-2.0 */
#include "problem_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include <tilework/tilework.h>

#ifndef TW_SHAPES_DIR /* the source tree's, while a build folder is in use */
#    define TW_SHAPES_DIR "shapes"
#endif
#ifndef TW_SHAPES_INSTALLED
#    define TW_SHAPES_INSTALLED "/usr/local/share/tilework/shapes"
#endif

enum { MAX_LINE = 2048, MAX_PATH = 1024, MAX_FILE = 16 << 20 };

static tw_status add(problem_set *set, const problem *p)
{
    void *items = set->items;
    tw_status status = tw_grow(&items, &set->capacity, set->n + 1, sizeof *set->items);
    set->items = items;
    if (status != TW_OK) return status;
    problem *to = &set->items[set->n];
    *to = *p;
    TW_TRY(tw_arena_string(&set->arena, p->text, &to->text));
    TW_TRY(tw_arena_string(&set->arena, p->name ? p->name : "", &to->name));
    set->n++;
    return TW_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Cuts blanks off both ends, in place. */
static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1])) n--;
    text[n] = '\0';
    return text;
}

/* Takes the word "*N" out of the problem. */
static tw_status take_count(char *text, int64_t *count, const char *file, int32_t line)
{
    char *star = strchr(text, '*'), *end;
    *count = 1;
    if (!star) return TW_OK;
    *count = strtoll(star + 1, &end, 10);
    TW_REQUIRE(end != star + 1 && *count > 0 && (*end == '\0' || *end == ' '), TW_INVALID_ARGUMENT,
               "%s:%d: '%s' is no count; write *N with N of 1 or more", file, (int)line, star);
    memset(star, ' ', (size_t)(end - star));
    return TW_OK;
}

static tw_status add_line(problem_set *set, const char *file, int32_t line, char *text)
{
    problem p = {.file = file, .line = line};
    char *comment = strchr(text, '#');
    if (comment) {
        *comment = '\0';
        p.name = trim(comment + 1);
    }
    TW_TRY(take_count(text, &p.count, file, line));
    p.text = trim(text);
    return *p.text ? add(set, &p) : TW_OK;
}

tw_status problem_set_text(problem_set *set, const char *file, const char *text, size_t length)
{
    const char *kept;
    char buffer[MAX_LINE];
    TW_TRY(tw_arena_string(&set->arena, file, &kept));
    int32_t line = 1;
    for (size_t at = 0; at < length; line++) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t n = newline ? (size_t)(newline - text) - at : length - at;
        TW_REQUIRE(n < sizeof buffer, TW_BAD_FILE, "%s:%d: the line has %zu bytes; %d are the most",
                   file, (int)line, n, MAX_LINE - 1);
        memcpy(buffer, text + at, n);
        buffer[n] = '\0';
        TW_TRY(add_line(set, kept, line, buffer));
        at += n + 1;
    }
    return TW_OK;
}

tw_status problem_set_file(problem_set *set, const char *path)
{
    void *data;
    size_t bytes;
    TW_TRY(tw_file_read(path, MAX_FILE, &data, &bytes));
    tw_status status = problem_set_text(set, path, data, bytes);
    tw_free(data);
    return status;
}

/* ---- Sets ------------------------------------------------------------------------------------ */

static tw_status add_set(problem_set *set, const char *name)
{
    const char *folders[] = {getenv("TW_SHAPES"), TW_SHAPES_DIR, TW_SHAPES_INSTALLED};
    char path[MAX_PATH];
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (!folders[i] || !*folders[i]) continue;
        int n = snprintf(path, sizeof path, "%s/%s.txt", folders[i], name);
        if (n > 0 && (size_t)n < sizeof path && tw_file_exists(path))
            return problem_set_file(set, path);
    }
    return tw_fail(TW_INVALID_ARGUMENT,
                   "set '%s': there is no %s.txt in $TW_SHAPES, " TW_SHAPES_DIR
                   " or " TW_SHAPES_INSTALLED,
                   name, name);
}

static tw_status add_all(problem_set *set)
{
    char name[MAX_PATH];
    for (int32_t f = 0; f < tw_family_count(); f++) {
        snprintf(name, sizeof name, "ci_%s", tw_family_name(f));
        TW_TRY(add_set(set, name));
    }
    return TW_OK;
}

tw_status problem_set_named(problem_set *set, const char *names)
{
    char name[MAX_PATH];
    for (const char *at = names;;) {
        size_t n = strcspn(at, ",");
        TW_REQUIRE(n > 0 && n < sizeof name, TW_INVALID_ARGUMENT,
                   "--set %s: names of sets are joined by commas", names);
        memcpy(name, at, n);
        name[n] = '\0';
        TW_TRY(strcmp(name, "all") == 0 ? add_all(set) : add_set(set, name));
        if (!at[n]) return TW_OK;
        at += n + 1;
    }
}

/* ---- Command line ---------------------------------------------------------------------------- */

tw_status problem_set_words(problem_set *set, int n, const char *const *words)
{
    tw_text text = {0};
    tw_status status = TW_OK;
    for (int i = 0; i <= n && status == TW_OK; i++) {
        bool pair = i < n && strchr(words[i], '=') && !strchr(words[i], ' ');
        if (text.length > 0 && !pair) {
            status = tw_text_status(&text);
            if (status == TW_OK) status = add(set, &(problem){.text = text.data, .count = 1});
            tw_text_free(&text);
            text = (tw_text){0};
        }
        if (i < n) tw_text_add(&text, "%s%s", text.length > 0 ? " " : "", words[i]);
    }
    tw_text_free(&text);
    return status;
}

tw_status problem_set_gather(problem_set *set, int n, const char *const *words, const char *names,
                             const char *file)
{
    TW_TRY(problem_set_words(set, n, words));
    if (names) TW_TRY(problem_set_named(set, names));
    if (file) TW_TRY(problem_set_file(set, file));
    TW_REQUIRE(set->n > 0, TW_INVALID_ARGUMENT,
               "no problem; give one, such as 'gemm m=64 n=64 k=64', or --set NAME or --file FILE");
    return TW_OK;
}

void problem_set_free(problem_set *set)
{
    tw_free(set->items);
    tw_arena_free(&set->arena);
    *set = (problem_set){.n = 0};
}

tw_status problem_graph(const problem *p, tw_graph **graph)
{
    tw_status status = tw_problem_graph(p->text, graph);
    if (status == TW_OK) return TW_OK;
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", tw_last_error());
    if (p->file) return tw_fail(status, "%s:%d: %s", p->file, (int)p->line, sentence);
    return tw_fail(status, "'%s': %s", p->text, sentence);
}
