/* SPDX-License-Identifier: Apache-2.0 */
/* Command-line options by table. */
#ifndef TW_CLI_OPTIONS_H
#define TW_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tilework/tilework.h>

/* Exit codes of tw. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_STOPPED = 130 };

typedef enum option_type { OPTION_FLAG, OPTION_INT, OPTION_REAL, OPTION_TEXT } option_type;

typedef struct option {
    const char *name; /* without the dashes; NULL ends a table */
    option_type type;
    void *target;  /* bool, int64_t, double or const char * */
    double lo, hi; /* of numbers; both 0: any */
    const char *value, *help;
} option;

/* Parses argv[0 … argc); words that are no options are gathered in `words` (room for argc), in
 * order. --name=value and --name value both work; -- ends the options. On an error prints it, with
 * the nearest option, and returns false. */
bool options_parse(const option *table, int argc, char **argv, const char **words, int *n_words);

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* after the command's name */
    const char *arguments, *summary;
} command;

extern const command commands[]; /* ends with a NULL name */

/* The text that --help prints. */
void options_help(const char *usage, const char *text, const option *table);
/* True if --help or -h is among the arguments. */
bool options_wants_help(int argc, char **argv);

/* Prints "tw COMMAND: sentence" from tw_last_error and returns the exit code for a status. */
int report_failure(const char *name, tw_status status);

#endif
