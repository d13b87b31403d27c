/* SPDX-License-Identifier: Apache-2.0 */
/* tw: Tilework from the shell. */
#include <string.h>

#include "core/text.h"
#include "commands.h"
#include "options.h"

static int help(int argc, char **argv);
static int version(int argc, char **argv);

const command commands[] = {
    {"doctor", command_doctor, "", "what this machine has, and what of it is used"},
    {"train", command_train, "NETWORK", "train a network: cnn"},
    {"data", command_data, "NAME", "fetch a data set: mnist, fashion-mnist, cifar10, shakespeare"},
    {"list", command_list, "[FAMILY]", "operations and kernels"},
    {"explain", command_explain, "PROBLEM", "which kernel would run, and why not another"},
    {"verify", command_verify, "PROBLEM…", "compare every kernel with the reference"},
    {"bench", command_bench, "PROBLEM…", "time kernels against the machine's peak"},
    {"cases", command_cases, "FILE…", "replay problems that other libraries got wrong"},
    {"completion", command_completion, "bash", "print a completion script for the shell"},
    {"version", version, "", "print the version"},
    {"help", help, "[COMMAND]", "print this, or a command's help"},
    {NULL, NULL, NULL, NULL}};

static const command *find(const char *name)
{
    for (const command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0) return c;
    const char *names[32];
    int n = 0;
    for (const command *c = commands; c->name && n < 32; c++) names[n++] = c->name;
    fprintf(stderr, "tw: unknown command '%s'; did you mean '%s'? `tw help` lists all\n", name,
            tw_nearest(name, n, names));
    return NULL;
}

static int help(int argc, char **argv)
{
    if (argc > 0) {
        const command *c = find(argv[0]);
        char *help_option[] = {"--help"};
        return c ? c->run(1, help_option) : EXIT_USAGE;
    }
    printf("usage: tw COMMAND [ARGUMENTS]\n\n");
    for (const command *c = commands; c->name; c++)
        printf("  %-11s %-11s %s\n", c->name, c->arguments, c->summary);
    printf("\nA PROBLEM is a family and key=value pairs, such as\n"
           "  'conv n=64 c=64 h=28 k=64 r=3 pad=1 dtype=f32 layout=nhwc pass=fwd'\n"
           "`tw list FAMILY` prints its keys. `tw COMMAND --help` has the options.\n"
           "Exit codes: 0 success, 1 failure, 2 wrong usage, 130 stopped by Ctrl-C.\n");
    return EXIT_OK;
}

static int version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("tilework %s\n", tw_version_text());
    return EXIT_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(0, NULL);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return help(0, NULL);
    if (strcmp(argv[1], "--version") == 0) return version(0, NULL);
    const command *c = find(argv[1]);
    return c ? c->run(argc - 2, argv + 2) : EXIT_USAGE;
}
