/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of tw, one file each. All take the arguments after their name. */
#ifndef TW_CLI_COMMANDS_H
#define TW_CLI_COMMANDS_H

int command_doctor(int argc, char **argv);
int command_train(int argc, char **argv);
int command_data(int argc, char **argv);
int command_list(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_cases(int argc, char **argv);
int command_completion(int argc, char **argv);

#endif
