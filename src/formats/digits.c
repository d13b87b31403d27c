/* SPDX-License-Identifier: Apache-2.0 */
/* The digits that the library carries: data/digits/README.md tells what they are. */
#include "formats/dataset.h"

#include <tilework/device.h>

#include "core/alloc.h"
#include "core/error.h"
#include "formats/bytes.h"

/* The assembler takes the files in as they are: no generated source, no compile time. */
#if defined(__APPLE__)
#    define SECTION ".const_data"
#    define SYMBOL(name) "_" name
#elif defined(__ELF__)
#    define SECTION ".section .rodata"
#    define SYMBOL(name) name
#else
#    define SECTION ".section .rdata, \"dr\""
#    define SYMBOL(name) name
#endif

#ifdef __ELF__
#    define HIDE(name) ".hidden " name "\n"
#else
#    define HIDE(name)
#endif

#define EMBED(name, file)                                                                          \
    __asm__(SECTION "\n"                                                                           \
                    ".globl " SYMBOL(name) "\n" HIDE(name) ".balign 64\n" SYMBOL(                  \
                        name) ":\n"                                                                \
                              ".incbin \"" file "\"\n"                                             \
                              ".globl " SYMBOL(name "_end") "\n" HIDE(name "_end")                 \
                                  SYMBOL(name "_end") ":\n"                                        \
                                                      ".byte 0\n"                                  \
                                                      ".text\n")

EMBED("tw_digits_images", TW_DIGITS_FOLDER "/digits-images-idx3-ubyte.gz");
EMBED("tw_digits_labels", TW_DIGITS_FOLDER "/digits-labels-idx1-ubyte.gz");

extern const uint8_t tw_digits_images[], tw_digits_images_end[];
extern const uint8_t tw_digits_labels[], tw_digits_labels_end[];

#define DIGITS_LIMIT ((int64_t)4 << 20)
#define HELD_OUT 5 /* one of so many of each class, the last of each run, is a test picture */

/* Copies the pictures of one part, keeping their order. */
static tw_status take_part(tw_dataset *dataset, tw_split split, const tw_array *pixels,
                           const tw_array *labels)
{
    const tw_dataset_info *info = &dataset->row->info;
    int64_t area = info->height * info->width, seen[10] = {0}, kept = 0;
    int64_t count = split == TW_SPLIT_TRAIN ? info->train : info->test;
    tw_part *part = &dataset->parts[split];
    void *memory;
    TW_TRY(tw_calloc(count, (size_t)area, &memory));
    part->pixels = memory;
    TW_TRY(tw_calloc(count, 1, &memory));
    part->labels = memory;
    const uint8_t *label = labels->data, *picture = pixels->data;
    for (int64_t i = 0; i < labels->dims[0]; i++, picture += area) {
        bool test = seen[label[i]]++ % HELD_OUT == HELD_OUT - 1;
        if (test != (split == TW_SPLIT_TEST)) continue;
        if (kept == count) return tw_fail(TW_INTERNAL, "the embedded digits are not as expected");
        memcpy(part->pixels + kept * area, picture, (size_t)area);
        part->labels[kept++] = label[i];
    }
    part->count = kept;
    return TW_OK;
}

tw_status tw_dataset_read_digits(tw_dataset *dataset, const char *folder, uint32_t flags,
                                 bool sample)
{
    (void)folder;
    (void)flags;
    (void)sample;
    tw_array pixels = {0}, labels = {0};
    tw_status status = tw_idx_parse(
        tw_digits_images, (size_t)(tw_digits_images_end - tw_digits_images), DIGITS_LIMIT, &pixels);
    if (status == TW_OK) {
        status = tw_idx_parse(tw_digits_labels, (size_t)(tw_digits_labels_end - tw_digits_labels),
                              DIGITS_LIMIT, &labels);
    }
    for (int split = 0; split < 2 && status == TW_OK; split++) {
        status = take_part(dataset, (tw_split)split, &pixels, &labels);
    }
    tw_array_free(&pixels);
    tw_array_free(&labels);
    return status;
}

tw_status tw_digits_embedded(tw_dataset **dataset)
{
    return tw_dataset_open("digits", NULL, dataset);
}
