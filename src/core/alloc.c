/* SPDX-License-Identifier: Apache-2.0 */
#include "core/alloc.h"

#include <string.h>

#include "core/error.h"

tw_status(tw_fail_memory)(size_t bytes)
{
    if (bytes == SIZE_MAX) {
        return tw_fail(TW_OUT_OF_MEMORY, "a request for memory exceeds what can be addressed");
    }
    return tw_fail(TW_OUT_OF_MEMORY, "out of memory: %zu bytes could not be allocated", bytes);
}

bool tw_mul_i64(int64_t a, int64_t b, int64_t *product)
{
    if (a < 0 || b < 0 || (a != 0 && b > INT64_MAX / a)) return false;
    *product = a * b;
    return true;
}

bool tw_add_i64(int64_t a, int64_t b, int64_t *sum)
{
    if (a < 0 || b < 0 || b > INT64_MAX - a) return false;
    *sum = a + b;
    return true;
}

/* The bytes of an array; SIZE_MAX if there can be no such array. */
static size_t array_bytes(int64_t count, size_t element_bytes)
{
    if (count < 0 || (uint64_t)count > PTRDIFF_MAX) return SIZE_MAX;
    if (element_bytes != 0 && (size_t)count > PTRDIFF_MAX / element_bytes) return SIZE_MAX;
    return (size_t)count * element_bytes;
}

tw_status tw_calloc(int64_t count, size_t element_bytes, void **pointer)
{
    size_t bytes = array_bytes(count, element_bytes);
    if (bytes == SIZE_MAX) return tw_fail_memory(bytes);
    void *memory = tw_malloc(bytes);
    if (!memory) return tw_fail_memory(bytes);
    memset(memory, 0, bytes);
    *pointer = memory;
    return TW_OK;
}

tw_status tw_grow(void **pointer, int64_t *capacity, int64_t need, size_t element_bytes)
{
    if (need <= *capacity) return TW_OK;
    int64_t wanted = *capacity <= INT64_MAX / 2 ? *capacity * 2 : need;
    if (wanted < need) wanted = need;
    if (wanted < 8) wanted = 8;
    void *grown;
    TW_TRY(tw_calloc(wanted, element_bytes, &grown));
    if (*pointer) memcpy(grown, *pointer, (size_t)*capacity * element_bytes);
    tw_free(*pointer);
    *pointer = grown;
    *capacity = wanted;
    return TW_OK;
}

/* Blocks double from the first size to the largest; whatever is larger gets one of its own. */
enum { ARENA_FIRST_BYTES = 4096, ARENA_LARGEST_BYTES = 1 << 18, ARENA_WIDE_BYTES = 256 };

struct tw_arena_block {
    tw_arena_block *next;
    size_t used, capacity; /* of the memory that starts TW_ALIGNMENT bytes after this struct */
};

_Static_assert(sizeof(tw_arena_block) <= TW_ALIGNMENT, "the struct must fit before the memory");

static size_t round_up(size_t figure, size_t multiple)
{
    return (figure + multiple - 1) / multiple * multiple;
}

static tw_status arena_add_block(tw_arena *arena, size_t bytes)
{
    size_t capacity = arena->head ? arena->head->capacity * 2 : ARENA_FIRST_BYTES;
    if (capacity > ARENA_LARGEST_BYTES) capacity = ARENA_LARGEST_BYTES;
    if (capacity < bytes) capacity = bytes;
    void *memory;
    TW_TRY(tw_calloc(1, capacity + TW_ALIGNMENT, &memory));
    tw_arena_block *block = memory;
    block->next = arena->head;
    block->capacity = capacity;
    arena->head = block;
    arena->bytes += (int64_t)(capacity + TW_ALIGNMENT);
    return TW_OK;
}

tw_status tw_arena_alloc(tw_arena *arena, int64_t count, size_t element_bytes, void **pointer)
{
    size_t bytes = array_bytes(count, element_bytes);
    if (bytes > PTRDIFF_MAX - 4 * TW_ALIGNMENT) return tw_fail_memory(SIZE_MAX);
    size_t alignment = bytes >= ARENA_WIDE_BYTES ? TW_ALIGNMENT : 16;
    bytes = round_up(bytes ? bytes : 1, 16);
    size_t start = arena->head ? round_up(arena->head->used, alignment) : 0;
    if (!arena->head || start > arena->head->capacity || bytes > arena->head->capacity - start) {
        TW_TRY(arena_add_block(arena, bytes));
        start = 0;
    }
    arena->head->used = start + bytes;
    *pointer = (char *)arena->head + TW_ALIGNMENT + start;
    return TW_OK;
}

tw_status tw_arena_string(tw_arena *arena, const char *text, const char **copy)
{
    size_t bytes = strlen(text) + 1;
    void *memory;
    TW_TRY(tw_arena_alloc(arena, (int64_t)bytes, 1, &memory));
    memcpy(memory, text, bytes);
    *copy = memory;
    return TW_OK;
}

void tw_arena_free(tw_arena *arena)
{
    while (arena->head) {
        tw_arena_block *block = arena->head;
        arena->head = block->next;
        tw_free(block);
    }
    arena->bytes = 0;
}
