/* SPDX-License-Identifier: Apache-2.0 */
#include "core/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 2048 };

static const struct {
    const char *name;
    uint32_t topic;
} topic_names[] = {
    {"error", TW_LOG_ERROR}, {"dispatch", TW_LOG_DISPATCH},
    {"plan", TW_LOG_PLAN},   {"run", TW_LOG_RUN},
    {"io", TW_LOG_IO},       {"all", UINT32_MAX},
};
enum { N_TOPICS = sizeof topic_names / sizeof topic_names[0] };

typedef struct log_target {
    tw_log_sink sink;
    void *user;
} log_target;

/* A new sink goes into the slot not in use, so that a writer never sees half of one. */
static log_target slots[2];
static atomic_uint current_slot;
static atomic_uint called_topics; /* asked for by tw_set_log */

/* What TW_LOG asks for. Threads that race to read it find the same. */
static uint32_t topics_of(const char *list)
{
    uint32_t topics = 0;
    while (list && *list) {
        size_t length = strcspn(list, ",");
        for (int i = 0; i < N_TOPICS; i++) {
            const char *name = topic_names[i].name;
            if (strlen(name) == length && strncmp(list, name, length) == 0) {
                topics |= topic_names[i].topic;
            }
        }
        list += length + (list[length] == ',');
    }
    return topics;
}

static uint32_t environment_topics(void)
{
    static atomic_uint topics;
    static atomic_bool known;
    if (!atomic_load_explicit(&known, memory_order_acquire)) {
        atomic_store_explicit(&topics, topics_of(getenv("TW_LOG")), memory_order_relaxed);
        atomic_store_explicit(&known, true, memory_order_release);
    }
    return atomic_load_explicit(&topics, memory_order_relaxed);
}

bool tw_log_wanted(uint32_t topic)
{
    uint32_t asked = atomic_load_explicit(&called_topics, memory_order_relaxed);
    return ((asked | environment_topics()) & topic) != 0;
}

static const char *name_of(uint32_t topic)
{
    for (int i = 0; i < N_TOPICS; i++) {
        if (topic_names[i].topic == topic) return topic_names[i].name;
    }
    return "log";
}

void tw_log(uint32_t topic, const char *format, ...)
{
    if (!tw_log_wanted(topic)) return;
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0) return;
    const log_target *target = &slots[atomic_load(&current_slot)];
    if (target->sink) {
        target->sink(target->user, topic, line);
    } else {
        fprintf(stderr, "tilework %s: %s\n", name_of(topic), line);
    }
}

void tw_set_log(uint32_t topics, tw_log_sink sink, void *user)
{
    unsigned next = atomic_load(&current_slot) ^ 1u;
    slots[next] = (log_target){sink, user};
    atomic_store(&current_slot, next);
    atomic_store(&called_topics, topics);
}
