/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of problem strings: from the command line, from files, from the sets in shapes/.
 *
 * A file has one problem a line; `#` begins a comment, which names the problem. A word `*N` says
 * that the model has N such layers.
 *
 *     conv n=64 c=32 h=13 k=64 r=3 pass=fwd layout=nhwc *2  # conv2
 */
#ifndef TW_CLI_PROBLEM_SET_H
#define TW_CLI_PROBLEM_SET_H

#include "core/alloc.h"
#include <tilework/graph.h>

typedef struct problem {
    const char *text, *name; /* name: "" if there is none */
    const char *file;        /* NULL: from the command line */
    int32_t line;
    int64_t count;
} problem;

typedef struct problem_set {
    tw_arena arena;
    problem *items;
    int64_t n, capacity;
} problem_set;

/* Words of a command line: a family begins a problem, key=value words continue it; a word with
 * blanks is a whole problem. */
tw_status problem_set_words(problem_set *set, int n, const char *const *words);

tw_status problem_set_file(problem_set *set, const char *path);
tw_status problem_set_text(problem_set *set, const char *file, const char *text, size_t length);

/* Names, joined by commas, of files in $TW_SHAPES, the source tree or the installation. "all" are
 * those that `tw verify` is tested with, ci_FAMILY. */
tw_status problem_set_named(problem_set *set, const char *names);

/* What the three options of verify and bench ask for. Empty sets are an error. */
tw_status problem_set_gather(problem_set *set, int n, const char *const *words, const char *names,
                             const char *file);

void problem_set_free(problem_set *set);

/* The graph; a failure's sentence begins with the file and line. */
tw_status problem_graph(const problem *p, tw_graph **graph);

#endif
