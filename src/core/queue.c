/* SPDX-License-Identifier: MIT */
/* Binary heap by (deadline, order of arrival), each entry knowing its place. */
#include "core/queue.h"

void prazo_queue_init(struct prazo_queue *queue, struct prazo_queue_entry **slots, size_t capacity)
{
    *queue = (struct prazo_queue){ .heap = slots, .capacity = capacity };
}

static bool is_before(const struct prazo_queue_entry *a, const struct prazo_queue_entry *b)
{
    return a->deadline_us != b->deadline_us ? a->deadline_us < b->deadline_us : a->order < b->order;
}

static void put(struct prazo_queue *queue, size_t slot, struct prazo_queue_entry *entry)
{
    queue->heap[slot] = entry;
    entry->slot = slot;
}

static void sift_up(struct prazo_queue *queue, size_t slot, struct prazo_queue_entry *entry)
{
    while (slot > 1 && is_before(entry, queue->heap[slot / 2])) {
        put(queue, slot, queue->heap[slot / 2]);
        slot /= 2;
    }
    put(queue, slot, entry);
}

static void sift_down(struct prazo_queue *queue, size_t slot, struct prazo_queue_entry *entry)
{
    for (;;) {
        size_t child = 2 * slot;
        if (child > queue->count)
            break;
        if (child < queue->count && is_before(queue->heap[child + 1], queue->heap[child]))
            child++;
        if (!is_before(queue->heap[child], entry))
            break;
        put(queue, slot, queue->heap[child]);
        slot = child;
    }
    put(queue, slot, entry);
}

bool prazo_queue_push(struct prazo_queue *queue, struct prazo_queue_entry *entry,
                      int64_t deadline_us)
{
    if (queue->count == queue->capacity)
        return false;
    entry->deadline_us = deadline_us;
    entry->order = queue->next_order++;
    sift_up(queue, ++queue->count, entry);
    return true;
}

void prazo_queue_remove(struct prazo_queue *queue, struct prazo_queue_entry *entry)
{
    size_t slot = entry->slot;

    if (slot == 0)
        return;
    struct prazo_queue_entry *last = queue->heap[queue->count--];
    entry->slot = 0;
    if (last == entry)
        return;
    if (slot > 1 && is_before(last, queue->heap[slot / 2]))
        sift_up(queue, slot, last);
    else
        sift_down(queue, slot, last);
}

struct prazo_queue_entry *prazo_queue_pop(struct prazo_queue *queue)
{
    if (queue->count == 0)
        return NULL;
    struct prazo_queue_entry *first = queue->heap[1];
    prazo_queue_remove(queue, first);
    return first;
}
