/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simple calls. Each is a row of tables that says where its struct has the operands and what of it
 * decides the plan, and a function that builds its graph; packing, finding and running are shared.
 */
#ifndef TW_SIMPLE_CALL_H
#define TW_SIMPLE_CALL_H

#include "core/error.h"
#include <tilework/simple.h>

typedef enum tw_call_role {
    TW_ROLE_IN,     /* a tw_input */
    TW_ROLE_OUT,    /* a tw_output */
    TW_ROLE_UPDATE, /* a tw_output that is read first */
    TW_ROLE_F32,    /* a number in the struct, bound as a scalar tensor */
    TW_ROLE_I64
} tw_call_role;

typedef struct tw_call_operand {
    const char *name;
    uint16_t offset; /* in the call's struct */
    uint8_t role;
    bool optional;
} tw_call_operand;

/* Adjacent fields without padding between them. */
typedef struct tw_call_span {
    uint16_t offset, bytes;
} tw_call_span;

/* Fields that decide the plan: of the call itself, or of an attribute struct that it points to. */
typedef struct tw_call_block {
    const char *name;
    uint16_t offset; /* of the pointer */
    uint16_t bytes;  /* of the struct, whose first field is its size; 0: the call itself */
    uint16_t n_spans;
    const tw_call_span *spans;
} tw_call_block;

enum { TW_CALL_OPERANDS = 6, TW_CALL_BLOCKS = 2 };

/* Tensors of a graph under construction, one for each operand; TW_NONE where absent. */
typedef struct tw_call_graph {
    tw_graph *graph;
    tw_tensor in[TW_CALL_OPERANDS];
    tw_tensor out[TW_CALL_OPERANDS]; /* results and what becomes of updated operands */
    const tw_tensor_desc *desc[TW_CALL_OPERANDS];
} tw_call_graph;

typedef struct tw_call_kind {
    const char *name;
    size_t bytes; /* of the call's struct, which begins as tw_call_head */
    tw_call_operand operands[TW_CALL_OPERANDS]; /* name NULL ends them */
    tw_call_block blocks[TW_CALL_BLOCKS];       /* likewise */
    tw_status (*build)(tw_call_graph *g, const void *call);

    /* For where the cap is too small for a plan of the whole: the same in several calls, if this
     * one allows it. NULL: never. */
    bool (*splits)(const void *call);
    tw_status (*split)(const void *call);
} tw_call_kind;

typedef struct tw_call_head {
    size_t size;
    const tw_call_options *options;
} tw_call_head;

/* ---- Keys (call_key.c) ----------------------------------------------------------------------- */

/* Header; for each operand its type, alignment, dims and strides; the blocks' fields. */
enum { TW_KEY_WORDS = 4 + TW_CALL_OPERANDS * (2 + 2 * TW_MAX_RANK) + 44 };

/* What decides the plan, as words; only the first `n` are set. */
typedef struct tw_call_key {
    int64_t n;
    int64_t words[TW_KEY_WORDS];
} tw_call_key;

/* Checks what a graph cannot know and writes the key. */
tw_status tw_call_pack(const tw_call_kind *kind, const void *call, tw_call_key *key);

/* Operand i: its description (NULL: absent) and data, for scalars too. */
tw_output tw_call_operand_of(const tw_call_kind *kind, const void *call, int32_t i);

/* ---- Plans (call_plan.c) --------------------------------------------------------------------- */

/* A plan, and which operand each of its bindings is. */
typedef struct tw_call_plan {
    tw_plan *plan; /* NULL: the call is split */
    int32_t n;
    uint8_t order[TW_CALL_OPERANDS];
} tw_call_plan;

/* Makes it, or takes a share of the one in the shared cache. `unlimited` ignores the cap. */
tw_status tw_call_make_plan(const tw_call_kind *kind, const void *call, bool unlimited,
                            tw_call_plan *plan);

/* ---- What a thread remembers (call_memory.c) ------------------------------------------------- */

/* Finds the plan of a key. Until tw_call_release the memory does not change: calls made meanwhile
 * on this thread, in the caller's parallel-for, find and remember nothing. */
bool tw_call_recall(const tw_call_key *key, tw_call_plan *plan);
void tw_call_release(void);

/* Keeps a plan for a key, taking over the share, as if recalled. false: there is no memory. */
bool tw_call_remember(const tw_call_key *key, const tw_call_plan *plan);

/* ---- The whole (call_run.c) ------------------------------------------------------------------ */

tw_status tw_call_run(const tw_call_kind *kind, const void *call);

#endif
