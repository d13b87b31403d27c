/* SPDX-License-Identifier: Apache-2.0 */
/* Problem strings: "family key=value …" to a graph, by the family's table of keys. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/planner.h"

enum { MAX_KEYS = 48, MAX_LENGTH = 2048 };

struct tw_problem_args {
    const tw_family *family;
    const char *values[MAX_KEYS]; /* by position in family->keys; NULL: the default */
    int columns[MAX_KEYS];        /* where they stand, from 1 */
    char text[MAX_LENGTH];        /* the string, cut into words */
};

static int key_index(const tw_family *family, const char *key)
{
    for (int i = 0; family->keys[i].key && i < MAX_KEYS; i++)
        if (strcmp(family->keys[i].key, key) == 0) return i;
    return -1;
}

static int column_of(const tw_problem_args *args, const char *key)
{
    int i = key_index(args->family, key);
    return i >= 0 && args->columns[i] ? args->columns[i] : 1;
}

bool tw_arg_given(const tw_problem_args *args, const char *key)
{
    int i = key_index(args->family, key);
    return i >= 0 && args->values[i] != NULL;
}

const char *tw_arg_text(const tw_problem_args *args, const char *key)
{
    int i = key_index(args->family, key);
    if (i < 0) return "";
    return args->values[i] ? args->values[i] : args->family->keys[i].fallback;
}

int64_t tw_arg_int(const tw_problem_args *args, const char *key)
{
    return strtoll(tw_arg_text(args, key), NULL, 0);
}

double tw_arg_real(const tw_problem_args *args, const char *key)
{
    return strtod(tw_arg_text(args, key), NULL);
}

tw_status tw_arg_choice(const tw_problem_args *args, const char *key, const char *const *names,
                        int32_t *index)
{
    const char *text = tw_arg_text(args, key);
    int32_t n = 0;
    for (; names[n]; n++)
        if (strcmp(names[n], text) == 0) {
            *index = n;
            return TW_OK;
        }
    return tw_fail(TW_INVALID_ARGUMENT, "column %d: %s=%s: no such value; the nearest one is %s",
                   column_of(args, key), key, text, tw_nearest(text, n, names));
}

tw_status tw_arg_dtype(const tw_problem_args *args, const char *key, tw_dtype *dtype)
{
    const char *text = tw_arg_text(args, key);
    *dtype = tw_dtype_from_name(text);
    if (*dtype != TW_AUTO) return TW_OK;
    const char *names[TW_DTYPE_END];
    int n = 0;
    for (int t = 1; t < TW_DTYPE_END; t++) names[n++] = tw_dtype_name((tw_dtype)t);
    return tw_fail(TW_INVALID_ARGUMENT,
                   "column %d: %s=%s: no such element type; the nearest one is %s",
                   column_of(args, key), key, text, tw_nearest(text, n, names));
}

static tw_status find_family(const char *name, const tw_family **family)
{
    const char *names[64];
    for (int32_t f = 0; f < tw_n_families; f++) {
        if (strcmp(tw_families[f]->name, name) == 0) {
            *family = tw_families[f];
            return TW_OK;
        }
        names[f] = tw_families[f]->name;
    }
    return tw_fail(TW_INVALID_ARGUMENT, "column 1: no family '%s'; the nearest one is %s", name,
                   tw_nearest(name, tw_n_families, names));
}

/* A key whose default is a number must be given one. */
static tw_status check_number(const tw_problem_key *key, const char *value, int column)
{
    char *end;
    if (!key->fallback[0]) return TW_OK;
    (void)strtod(key->fallback, &end);
    if (*end) return TW_OK;
    errno = 0;
    (void)strtod(value, &end);
    TW_REQUIRE(*value && !*end && errno == 0, TW_INVALID_ARGUMENT,
               "column %d: %s=%s is not a number (%s)", column, key->key, value, key->help);
    (void)strtoll(value, &end, 0);
    TW_REQUIRE(errno == 0, TW_INVALID_ARGUMENT, "column %d: %s=%s is beyond 2^63 - 1 (%s)", column,
               key->key, value, key->help);
    return TW_OK;
}

/* Sentences from deeper down get a column too: that of a negative value, or the string's start. */
static tw_status blame(const tw_problem_args *args, tw_status status)
{
    char sentence[512];
    int column = 1;
    snprintf(sentence, sizeof sentence, "%s", tw_last_error());
    if (status == TW_OUT_OF_MEMORY || strncmp(sentence, "column ", 7) == 0) return status;
    for (int i = 0; column == 1 && args->family->keys[i].key && i < MAX_KEYS; i++)
        if (args->values[i] && args->values[i][0] == '-') column = args->columns[i];
    return tw_fail(status, "column %d: %s", column, sentence);
}

static tw_status take_pair(tw_problem_args *args, char *word, int column)
{
    char *equals = strchr(word, '=');
    TW_REQUIRE(equals, TW_INVALID_ARGUMENT, "column %d: '%s' is not of the form key=value", column,
               word);
    *equals = '\0';
    int i = key_index(args->family, word);
    if (i < 0) {
        const char *names[MAX_KEYS];
        int n = 0;
        for (; args->family->keys[n].key && n < MAX_KEYS; n++) names[n] = args->family->keys[n].key;
        return tw_fail(TW_INVALID_ARGUMENT, "column %d: %s has no key '%s'; the nearest one is %s",
                       column, args->family->name, word, tw_nearest(word, n, names));
    }
    TW_REQUIRE(!args->values[i], TW_INVALID_ARGUMENT, "column %d: %s is given twice", column, word);
    TW_TRY(check_number(&args->family->keys[i], equals + 1, column));
    args->values[i] = equals + 1;
    args->columns[i] = column;
    return TW_OK;
}

static tw_status parse(const char *problem, tw_problem_args *args)
{
    size_t length = strlen(problem);
    TW_REQUIRE(length < sizeof args->text, TW_INVALID_ARGUMENT,
               "the problem string has %zu bytes; %d are the most", length, MAX_LENGTH - 1);
    memcpy(args->text, problem, length + 1);
    for (char *at = args->text; *at;) {
        at += strspn(at, " \t\n");
        if (!*at) break;
        char *word = at;
        at += strcspn(at, " \t\n");
        if (*at) *at++ = '\0';
        int column = (int)(word - args->text) + 1;
        if (!args->family)
            TW_TRY(find_family(word, &args->family));
        else
            TW_TRY(take_pair(args, word, column));
    }
    TW_REQUIRE(args->family, TW_INVALID_ARGUMENT,
               "the problem string is empty; it begins with a family");
    return TW_OK;
}

tw_status tw_problem_graph(const char *problem, tw_graph **graph)
{
    TW_REQUIRE(problem && graph, TW_INVALID_ARGUMENT, "%s is NULL", problem ? "graph" : "problem");
    tw_graph *made = NULL;
    void *memory;
    TW_TRY(tw_calloc(1, sizeof(tw_problem_args), &memory));
    tw_problem_args *args = memory;
    tw_status status;
    TW_TRY_OUT(parse(problem, args));
    TW_TRY_OUT(tw_graph_create(&made));
    tw_builder builder = tw_graph_builder;
    builder.graph = made;
    status = args->family->problem(args, &builder);
    if (status != TW_OK) status = blame(args, status);
    if (status != TW_OK) goto out;
    *graph = made;
    made = NULL;
out:
    tw_graph_free(made);
    tw_free(args);
    return status;
}

const char *tw_problem_help(const char *family)
{
    static _Thread_local char text[8192];
    const tw_family *found;
    if (!family || find_family(family, &found) != TW_OK) return NULL;
    size_t at = 0;
    for (const tw_problem_key *key = found->keys; key->key && at < sizeof text - 1; key++) {
        int n = snprintf(text + at, sizeof text - at, "%-10s %-12s %s\n", key->key,
                         key->fallback[0] ? key->fallback : "-", key->help);
        at += n > 0 ? (size_t)n : 0;
    }
    return text;
}
