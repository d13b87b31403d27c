/* SPDX-License-Identifier: Apache-2.0 */
/* tw data: fetches data sets. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "core/text.h"
#include "options.h"
#include "progress.h"
#include <tilework/data.h>

static void list_sets(void)
{
    for (int32_t i = 0; i < tw_dataset_count(); i++) {
        tw_dataset_info info = {.size = sizeof info};
        if (tw_dataset_describe(i, &info) != TW_OK) continue;
        printf("%-14s %s\n%-14s licence: %s; from %s\n", info.name, info.title, "", info.licence,
               info.origin);
    }
}

static int fetch(const char *name, const char *folder, bool offline)
{
    progress bar;
    progress_start(&bar, name, "bytes", 0);
    tw_dataset_options options = {.size = sizeof options,
                                  .folder = folder,
                                  .progress = progress_of_download,
                                  .user = &bar,
                                  .flags = offline ? TW_DATASET_OFFLINE : 0};
    tw_dataset *set;
    tw_status status = tw_dataset_open(name, &options, &set);
    progress_end(&bar);
    if (status != TW_OK) return report_failure("data", status);
    const char *where = tw_dataset_folder(set);
    tw_images train, test;
    if (tw_dataset_images(set, TW_SPLIT_TRAIN, &train) == TW_OK &&
        tw_dataset_images(set, TW_SPLIT_TEST, &test) == TW_OK)
        printf("%s: %lld training and %lld test images of %lldx%lldx%lld, in %s\n", name,
               (long long)train.count, (long long)test.count, (long long)test.channels,
               (long long)test.height, (long long)test.width,
               where[0] ? where : "the library itself");
    else
        printf("%s: in %s\n", name, where[0] ? where : "the library itself");
    tw_dataset_free(set);
    return EXIT_OK;
}

int command_data(int argc, char **argv)
{
    const char *folder = NULL;
    bool offline = false;
    const option table[] = {
        {"folder", OPTION_TEXT, &folder, 0, 0, "DIR", "look here, and download to here"},
        {"offline", OPTION_FLAG, &offline, 0, 0, NULL, "never download"},
        {NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL}};
    const char *words[64];
    int n_words;
    if (options_wants_help(argc, argv)) {
        options_help(
            "data [NAME…]",
            "Fetches data sets: from $TW_DATA, the cache folder, or over HTTPS. Without a\n"
            "NAME lists them.",
            table);
        return EXIT_OK;
    }
    if (argc > 64 || !options_parse(table, argc, argv, words, &n_words)) return EXIT_USAGE;
    if (n_words == 0) list_sets();
    int code = EXIT_OK;
    for (int i = 0; i < n_words && code == EXIT_OK; i++) code = fetch(words[i], folder, offline);
    return code;
}
