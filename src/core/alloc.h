/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: the hooked allocator, an arena, and a growing array. */
#ifndef TW_CORE_ALLOC_H
#define TW_CORE_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include <tilework/device.h>

#define TW_ALIGNMENT 64

/* Zeroed memory for `count` elements; TW_OUT_OF_MEMORY on overflow or exhaustion. count 0 gives a
 * pointer that may only be freed. Free with tw_free(). */
tw_status tw_calloc(int64_t count, size_t element_bytes, void **pointer);

/* Grows *pointer (from tw_calloc or NULL) so that it holds at least `need` elements; *capacity is
 * updated. New elements are zero. On failure all is as before. */
tw_status tw_grow(void **pointer, int64_t *capacity, int64_t need, size_t element_bytes);

/* Memory that is freed all at once. Pointers stay valid until tw_arena_free. */
typedef struct tw_arena_block tw_arena_block;
typedef struct tw_arena {
    tw_arena_block *head;
    int64_t bytes; /* allocated from the system, for accounting */
} tw_arena;

/* Zeroed, 16-byte aligned (64 for sizes of 256 bytes and more). */
tw_status tw_arena_alloc(tw_arena *arena, int64_t count, size_t element_bytes, void **pointer);
tw_status tw_arena_string(tw_arena *arena, const char *text, const char **copy);
void tw_arena_free(tw_arena *arena);

/* a·b and a+b for non-negative figures; false on overflow of int64_t. */
bool tw_mul_i64(int64_t a, int64_t b, int64_t *product);
bool tw_add_i64(int64_t a, int64_t b, int64_t *sum);

#endif
