/* SPDX-License-Identifier: MIT */
/* Bounded queue ordered by deadline, earliest first (EDF), over slots that the caller hands in;
 * equal deadlines leave in the order of their arrival. A heap: O(log n) in, out and from the
 * middle. Pure; not thread-safe: the gateway keeps it under the upstream's lock, which is taken
 * only when somebody has to wait or is waiting. */
#ifndef PRAZO_CORE_QUEUE_H
#define PRAZO_CORE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prazo_queue_entry {
    int64_t deadline_us;
    uint64_t order;
    size_t slot; /* 1-based; 0: not queued */
};

struct prazo_queue {
    struct prazo_queue_entry **heap; /* capacity + 1 pointers, the caller's memory */
    size_t capacity;
    size_t count;
    uint64_t next_order;
};

/* slots: capacity + 1 pointers. */
void prazo_queue_init(struct prazo_queue *queue, struct prazo_queue_entry **slots, size_t capacity);
/* False when it is full. */
bool prazo_queue_push(struct prazo_queue *queue, struct prazo_queue_entry *entry,
                      int64_t deadline_us);
/* The earliest, removed; NULL when empty. */
struct prazo_queue_entry *prazo_queue_pop(struct prazo_queue *queue);
/* Does nothing for an entry that is not queued. */
void prazo_queue_remove(struct prazo_queue *queue, struct prazo_queue_entry *entry);

#endif
