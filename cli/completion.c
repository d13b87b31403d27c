/* SPDX-License-Identifier: Apache-2.0 */
/* tw completion bash: commands, families and files. */
#include <string.h>

#include "commands.h"
#include "options.h"

int command_completion(int argc, char **argv)
{
    if (options_wants_help(argc, argv)) {
        options_help("completion bash", "Prints a script for bash: source <(tw completion bash)",
                     NULL);
        return EXIT_OK;
    }
    if (argc != 1 || strcmp(argv[0], "bash") != 0) {
        fprintf(stderr, "tw completion: name the shell: bash%s%s\n", argc ? ", not " : "",
                argc ? argv[0] : "");
        return EXIT_USAGE;
    }
    printf("_tw() {\n    local cur=${COMP_WORDS[COMP_CWORD]}\n    local commands=\"");
    for (const command *c = commands; c->name; c++)
        printf("%s%s", c == commands ? "" : " ", c->name);
    printf("\"\n    local families=\"");
    for (int32_t f = 0; f < tw_family_count(); f++) printf("%s%s", f ? " " : "", tw_family_name(f));
    printf("\"\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))\n"
           "        return\n"
           "    fi\n"
           "    if [[ $cur == --* ]]; then\n"
           "        local options=$(tw \"${COMP_WORDS[1]}\" --help 2>/dev/null |\n"
           "            sed -n 's/^  \\(--[a-z-]*\\).*/\\1/p')\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[1]} in\n"
           "    list|explain|verify|bench) COMPREPLY=($(compgen -W \"$families\" -- \"$cur\")) ;;\n"
           "    help) COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\")) ;;\n"
           "    train) COMPREPLY=($(compgen -W \"cnn\" -- \"$cur\")) ;;\n"
           "    data) COMPREPLY=($(compgen -W \"mnist fashion-mnist cifar10 shakespeare\" -- "
           "\"$cur\")) ;;\n"
           "    *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
           "    esac\n"
           "}\n"
           "complete -F _tw tw\n");
    return EXIT_OK;
}
