/* SPDX-License-Identifier: Apache-2.0 */
/* tw_malloc and the hooks behind it. */
#include <stdatomic.h>
#include <string.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/os.h"

/* Stands in front of every block. It remembers its own free hook, so that a block outlives a change
 * of the allocator; its size keeps the caller's memory aligned. */
typedef struct block_header {
    size_t bytes; /* with this header */
    void (*free)(void *user, void *pointer, size_t bytes);
    void *user;
} block_header;

_Static_assert(sizeof(block_header) <= TW_ALIGNMENT, "the header must fit before the block");

static void *system_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    return tw_os_aligned_alloc(bytes, alignment);
}

static void system_free(void *user, void *pointer, size_t bytes)
{
    (void)user;
    (void)bytes;
    tw_os_aligned_free(pointer);
}

/* A new allocator goes into the slot not in use, so that a reader never sees half of one. */
static tw_allocator slots[2] = {{system_allocate, system_free, NULL}, {NULL, NULL, NULL}};
static atomic_uint current_slot;

tw_status tw_set_allocator(const tw_allocator *allocator)
{
    tw_allocator system = {system_allocate, system_free, NULL};
    if (!allocator) allocator = &system;
    TW_REQUIRE(allocator->allocate && allocator->free, TW_INVALID_ARGUMENT,
               "tw_set_allocator: allocator->%s is NULL; set both allocate and free, or pass NULL "
               "for the C library's",
               allocator->allocate ? "free" : "allocate");
    unsigned next = atomic_load(&current_slot) ^ 1u;
    slots[next] = *allocator;
    atomic_store(&current_slot, next);
    return TW_OK;
}

void *tw_malloc(size_t bytes)
{
    if (bytes > SIZE_MAX - 2 * TW_ALIGNMENT) return NULL;
    const tw_allocator *allocator = &slots[atomic_load(&current_slot)];
    size_t total = bytes + TW_ALIGNMENT;
    char *block = allocator->allocate(allocator->user, total, TW_ALIGNMENT);
    if (!block) return NULL;
    block_header header = {total, allocator->free, allocator->user};
    memcpy(block, &header, sizeof header);
    return block + TW_ALIGNMENT;
}

void tw_free(void *pointer)
{
    if (!pointer) return;
    char *block = (char *)pointer - TW_ALIGNMENT;
    block_header header;
    memcpy(&header, block, sizeof header);
    header.free(header.user, block, header.bytes);
}
