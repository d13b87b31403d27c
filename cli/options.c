/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

static const option *find(const option *table, const char *name, size_t length)
{
    for (const option *o = table; o->name; o++)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) return o;
    return NULL;
}

static bool unknown(const option *table, const char *argument)
{
    const char *names[64];
    int n = 0;
    for (const option *o = table; o->name && n < 64; o++) names[n++] = o->name;
    const char *near = tw_nearest(argument + strspn(argument, "-"), n, names);
    fprintf(stderr, "tw: unknown option %s", argument);
    if (near && strlen(argument) > 3) fprintf(stderr, "; did you mean --%s?", near);
    fprintf(stderr, "\n");
    return false;
}

static bool set_number(const option *o, const char *text)
{
    char *end;
    errno = 0;
    double real = strtod(text, &end);
    bool good = *text && !*end && errno == 0;
    if (o->type == OPTION_INT) {
        *(int64_t *)o->target = strtoll(text, &end, 0);
        good = *text && !*end && errno == 0;
    } else
        *(double *)o->target = real;
    if (!good)
        fprintf(stderr, "tw: --%s %s: it must be a%s number\n", o->name, text,
                o->type == OPTION_INT ? " whole" : "");
    else if ((o->lo != 0 || o->hi != 0) && !(real >= o->lo && real <= o->hi)) {
        fprintf(stderr, "tw: --%s %s: it must be %g to %g\n", o->name, text, o->lo, o->hi);
        good = false;
    }
    return good;
}

/* One option, with its value in the same word or in the next; *at moves over what was used. */
static bool take(const option *table, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    const option *o = find(table, name, equals ? (size_t)(equals - name) : strlen(name));
    if (!o) return unknown(table, argv[*at]);
    if (o->type == OPTION_FLAG) {
        if (equals) fprintf(stderr, "tw: --%s takes no value\n", o->name);
        *(bool *)o->target = true;
        return !equals;
    }
    const char *value = equals ? equals + 1 : *at + 1 < argc ? argv[++*at] : NULL;
    if (!value) {
        fprintf(stderr, "tw: --%s needs a value: %s\n", o->name, o->value);
        return false;
    }
    if (o->type != OPTION_TEXT) return set_number(o, value);
    *(const char **)o->target = value;
    return true;
}

bool options_parse(const option *table, int argc, char **argv, const char **words, int *n_words)
{
    *n_words = 0;
    bool options_end = false;
    for (int i = 0; i < argc; i++) {
        if (!options_end && strcmp(argv[i], "--") == 0)
            options_end = true;
        else if (!options_end && strncmp(argv[i], "--", 2) == 0) {
            if (!take(table, argc, argv, &i)) return false;
        } else if (!options_end && argv[i][0] == '-' && argv[i][1])
            return unknown(table, argv[i]);
        else
            words[(*n_words)++] = argv[i];
    }
    return true;
}

void options_help(const char *usage, const char *text, const option *table)
{
    printf("usage: tw %s\n\n%s\n", usage, text);
    if (table && table->name) printf("\noptions:\n");
    for (const option *o = table; o && o->name; o++) {
        char left[48];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-26s %s\n", left, o->help);
    }
}

bool options_wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

int report_failure(const char *name, tw_status status)
{
    fprintf(stderr, "tw %s: %s\n", name, tw_last_error());
    return status == TW_INVALID_ARGUMENT ? EXIT_USAGE
           : status == TW_INTERRUPTED    ? EXIT_STOPPED
                                         : EXIT_FAILED;
}
