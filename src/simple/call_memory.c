/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread remembers: a set-associative table from keys to plans, the latest of each set
 * first. It needs no lock; the shared cache behind it is tw_plan_cached. A few hundred entries hold
 * the layers of a network that is run by simple calls.
 */
#include <string.h>

#include "core/alloc.h"
#include "core/hash.h"
#include "core/os.h"
#include "simple/call.h"

enum { SETS = 64, WAYS = 4 };

typedef struct entry {
    uint64_t hash;
    tw_call_plan plan;
    int64_t n;
    int64_t words[]; /* of the key */
} entry;

typedef struct memory {
    tw_thread_exit exit; /* first, so that the hook is the memory */
    uint64_t generation; /* of the plan cache */
    bool in_use;         /* by a call that runs */
    entry *sets[SETS][WAYS];
} memory;

static _Thread_local memory *mine;

static void free_entry(entry *e)
{
    if (!e) return;
    tw_plan_free(e->plan.plan);
    tw_free(e);
}

static void empty(memory *m)
{
    for (int s = 0; s < SETS; s++)
        for (int w = 0; w < WAYS; w++) {
            free_entry(m->sets[s][w]);
            m->sets[s][w] = NULL;
        }
}

/* A later destructor of the thread may make calls again: it finds nothing and begins anew. */
static void at_exit(tw_thread_exit *hook)
{
    memory *m = (memory *)(void *)hook;
    mine = NULL;
    empty(m);
    tw_free(m);
}

void tw_calls_forget(void)
{
    if (!mine || mine->in_use) return;
    tw_os_cancel_thread_exit(&mine->exit);
    at_exit(&mine->exit);
}

static memory *create(void)
{
    void *room;
    if (tw_calloc(1, sizeof(memory), &room) != TW_OK) return NULL;
    memory *m = room;
    m->generation = tw_plan_cache_generation();
    m->exit.call = at_exit;
    if (tw_os_at_thread_exit(&m->exit)) return mine = m;
    tw_free(m);
    return NULL;
}

static uint64_t hash_of(const tw_call_key *key)
{
    return tw_hash(0, key->words, (size_t)key->n * sizeof key->words[0]);
}

bool tw_call_recall(const tw_call_key *key, tw_call_plan *plan)
{
    memory *m = mine;
    if (!m || m->in_use) return false;
    uint64_t generation = tw_plan_cache_generation();
    if (m->generation != generation) empty(m);
    m->generation = generation;
    uint64_t hash = hash_of(key);
    entry **set = m->sets[hash % SETS];
    for (int w = 0; w < WAYS && set[w]; w++) {
        entry *e = set[w];
        if (e->hash != hash || e->n != key->n ||
            memcmp(e->words, key->words, (size_t)e->n * sizeof e->words[0]) != 0)
            continue;
        for (; w > 0; w--) set[w] = set[w - 1];
        set[0] = e;
        *plan = e->plan;
        m->in_use = true;
        return true;
    }
    return false;
}

void tw_call_release(void) { mine->in_use = false; }

bool tw_call_remember(const tw_call_key *key, const tw_call_plan *plan)
{
    void *room;
    memory *m = mine ? mine : create();
    size_t key_bytes = (size_t)key->n * sizeof key->words[0];
    if (!m || m->in_use || tw_calloc(1, sizeof(entry) + key_bytes, &room) != TW_OK) return false;
    entry *e = room;
    *e = (entry){.hash = hash_of(key), .plan = *plan, .n = key->n};
    memcpy(e->words, key->words, key_bytes);
    entry **set = m->sets[e->hash % SETS];
    free_entry(set[WAYS - 1]);
    for (int w = WAYS - 1; w > 0; w--) set[w] = set[w - 1];
    set[0] = e;
    m->in_use = true;
    return true;
}
