/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process-wide plan cache: least recently used plans go when the byte limit is reached. Keys
 * are the text of graph and options, so that equal hashes never mix up two problems.
 */
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/os.h"
#include "plan/planner.h"

typedef struct entry {
    struct entry *next; /* most recently used first */
    uint64_t hash;
    tw_text key;
    tw_plan *plan;
    int64_t bytes;
} entry;

static struct {
    tw_mutex mutex;
    entry *head;
    int64_t limit, bytes, plans, hits, misses, evictions;
    atomic_uint_fast64_t generation;
} cache = {.limit = 64 << 20};

static tw_status make_key(const tw_graph *graph, const tw_plan_options *options, tw_text *key)
{
    tw_graph_write(graph, key);
    if (options)
        tw_text_add(key, "%d %lld %u %d %s %d %d %d", options->has_workspace_limit,
                    (long long)options->workspace_limit, (unsigned)options->flags,
                    (int)options->phase, options->kernel ? options->kernel : "",
                    options->has_max_isa, (int)options->max_isa, (int)options->max_threads);
    /* Constants may be packed into the plan: another address is another plan. */
    for (int64_t t = 1; t < graph->n_tensors; t++)
        if (graph->tensors[t].constant && !graph->tensors[t].scalar)
            tw_text_add(key, " %p", graph->tensors[t].data);
    return tw_text_status(key);
}

static int64_t weight(const tw_plan *plan, const tw_text *key)
{
    return (int64_t)sizeof(tw_plan) + plan->arena.bytes + plan->graph->arena.bytes +
           plan->n_steps * (int64_t)sizeof(tw_step) + (int64_t)key->capacity +
           (int64_t)plan->explanation.capacity +
           plan->graph->tensor_capacity * (int64_t)sizeof(tw_tensor_node) +
           plan->graph->op_capacity * (int64_t)sizeof(tw_op);
}

/* Under the lock. Found entries move to the front. */
static tw_plan *look_up(uint64_t hash, const tw_text *key)
{
    for (entry **link = &cache.head; *link; link = &(*link)->next) {
        entry *e = *link;
        if (e->hash != hash || e->key.length != key->length ||
            memcmp(e->key.data, key->data, key->length) != 0)
            continue;
        *link = e->next;
        e->next = cache.head;
        cache.head = e;
        atomic_fetch_add(&e->plan->shares, 1);
        return e->plan;
    }
    return NULL;
}

/* Unlinks entries beyond the limit; the caller frees them outside the lock. */
static entry *evict(void)
{
    entry *dead = NULL;
    while (cache.bytes > cache.limit && cache.head) {
        entry **link = &cache.head;
        while ((*link)->next) link = &(*link)->next;
        entry *last = *link;
        *link = NULL;
        last->next = dead;
        dead = last;
        cache.bytes -= last->bytes;
        cache.plans--;
        cache.evictions++;
    }
    return dead;
}

static void free_entries(entry *e)
{
    while (e) {
        entry *next = e->next;
        tw_plan_free(e->plan);
        tw_text_free(&e->key);
        tw_free(e);
        e = next;
    }
}

/* Keeps a new plan, and the key with it; without memory for that it simply is not kept. */
static void remember(uint64_t hash, tw_text *key, tw_plan *plan)
{
    void *memory;
    if (tw_calloc(1, sizeof(entry), &memory) != TW_OK) return;
    entry *e = memory;
    *e = (entry){.hash = hash, .key = *key, .plan = plan, .bytes = weight(plan, key)};
    *key = (tw_text){0};
    atomic_fetch_add(&plan->shares, 1);
    tw_os_lock(&cache.mutex);
    e->next = cache.head;
    cache.head = e;
    cache.bytes += e->bytes;
    cache.plans++;
    entry *dead = evict();
    tw_os_unlock(&cache.mutex);
    free_entries(dead);
}

static tw_status find_or_make(const tw_graph *graph, const tw_plan_options *options, tw_text *key,
                              tw_plan **plan)
{
    TW_TRY(make_key(graph, options, key));
    uint64_t hash = tw_hash(0, key->data, key->length);
    tw_os_lock(&cache.mutex);
    *plan = look_up(hash, key);
    if (*plan)
        cache.hits++;
    else
        cache.misses++;
    tw_os_unlock(&cache.mutex);
    if (*plan) return TW_OK;
    TW_TRY(tw_plan_create(graph, options, plan));
    remember(hash, key, *plan);
    return TW_OK;
}

tw_status tw_plan_cached(const tw_graph *graph, const tw_plan_options *options, tw_plan **plan)
{
    TW_REQUIRE(graph && plan, TW_INVALID_ARGUMENT, "%s is NULL", graph ? "plan" : "graph");
    tw_text key = {0};
    tw_plan *found = NULL;
    tw_status status = find_or_make(graph, options, &key, &found);
    tw_text_free(&key);
    if (status == TW_OK) *plan = found;
    return status;
}

void tw_plan_cache_limit(int64_t bytes)
{
    tw_os_lock(&cache.mutex);
    cache.limit = bytes < 0 ? 0 : bytes;
    atomic_fetch_add(&cache.generation, 1);
    entry *dead = evict();
    tw_os_unlock(&cache.mutex);
    free_entries(dead);
}

void tw_plan_cache_clear(void)
{
    tw_os_lock(&cache.mutex);
    entry *dead = cache.head;
    cache.head = NULL;
    cache.bytes = cache.plans = 0;
    atomic_fetch_add(&cache.generation, 1);
    tw_os_unlock(&cache.mutex);
    free_entries(dead);
}

uint64_t tw_plan_cache_generation(void) { return atomic_load(&cache.generation); }

tw_status tw_plan_cache_describe(tw_plan_cache_stats *stats)
{
    TW_REQUIRE(stats, TW_INVALID_ARGUMENT, "stats is NULL; give a place for the figures");
    tw_os_lock(&cache.mutex);
    *stats = (tw_plan_cache_stats){.size = sizeof *stats,
                                   .plans = cache.plans,
                                   .bytes = cache.bytes,
                                   .hits = cache.hits,
                                   .misses = cache.misses,
                                   .evictions = cache.evictions};
    tw_os_unlock(&cache.mutex);
    return TW_OK;
}
