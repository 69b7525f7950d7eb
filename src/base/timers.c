/* SPDX-License-Identifier: MIT */
/* Timer heap with four children a node. Moving up, which linking mostly does, takes half the steps
 * of a binary heap; moving down compares no more.
 *
 * A timer is in one of three places, told by its slot:
 *   0            nowhere
 *   1..count     heap[slot]; no child is earlier than its parent
 *   DUE | index  due[index]: taken out by a running expire, its callback still to come
 *
 * Expiring takes everything due out of the heap first and calls then. So a callback may link what
 * it likes (it goes to the heap, for the next call), and may unlink or move a timer that was due in
 * the same call (its place in due[] becomes NULL). */
#include "base/timers.h"

#include "base/assert.h"
#include "base/mem.h"

#define DUE ((SIZE_MAX >> 1) + 1)
#define CHILDREN 4u
/* A loop has a handful of timers even when idle; then one doubling per power of two. */
#define CAPACITY_MIN 64u

static size_t parent_of(size_t slot)
{
    return (slot - 2) / CHILDREN + 1;
}

static size_t first_child_of(size_t slot)
{
    return (slot - 1) * CHILDREN + 2;
}

static void put_at(struct prazo_timers *timers, size_t slot, struct prazo_timer *timer)
{
    timers->heap[slot] = timer;
    timer->slot = slot;
}

/* Moves the hole at `slot` up until the timer fits into it. */
static void sift_up(struct prazo_timers *timers, size_t slot, struct prazo_timer *timer)
{
    while (slot > 1) {
        size_t parent = parent_of(slot);

        if (timers->heap[parent]->at_us <= timer->at_us)
            break;
        put_at(timers, slot, timers->heap[parent]);
        slot = parent;
    }
    put_at(timers, slot, timer);
}

static size_t earliest_child(const struct prazo_timers *timers, size_t slot)
{
    size_t first = first_child_of(slot), best = first;

    for (size_t child = first + 1; child < first + CHILDREN && child <= timers->count; child++) {
        if (timers->heap[child]->at_us < timers->heap[best]->at_us)
            best = child;
    }
    return best;
}

static void sift_down(struct prazo_timers *timers, size_t slot, struct prazo_timer *timer)
{
    while (first_child_of(slot) <= timers->count) {
        size_t child = earliest_child(timers, slot);

        if (timers->heap[child]->at_us >= timer->at_us)
            break;
        put_at(timers, slot, timers->heap[child]);
        slot = child;
    }
    put_at(timers, slot, timer);
}

/* Puts a timer whose at_us may have changed into the hole at `slot`. */
static void settle(struct prazo_timers *timers, size_t slot, struct prazo_timer *timer)
{
    if (slot > 1 && timers->heap[parent_of(slot)]->at_us > timer->at_us)
        sift_up(timers, slot, timer);
    else
        sift_down(timers, slot, timer);
}

static void remove_from_heap(struct prazo_timers *timers, struct prazo_timer *timer)
{
    size_t slot = timer->slot;
    struct prazo_timer *last = timers->heap[timers->count];

    PRAZO_ASSERT(slot <= timers->count && timers->heap[slot] == timer);
    timers->count--;
    timer->slot = 0;
    if (last != timer)
        settle(timers, slot, last);
}

/* due[] has the heap's capacity, so that expiring never needs memory. */
static void grow(struct prazo_timers *timers)
{
    size_t capacity = timers->capacity ? timers->capacity * 2 : CAPACITY_MIN;

    PRAZO_ASSERT(capacity < DUE / sizeof(struct prazo_timer *));
    timers->heap = prazo_mem_must_realloc(timers->heap, (capacity + 1) * sizeof(*timers->heap));
    timers->due = prazo_mem_must_realloc(timers->due, capacity * sizeof(*timers->due));
    timers->capacity = capacity;
}

void prazo_timers_init(struct prazo_timers *timers)
{
    *timers = (struct prazo_timers){ 0 };
}

void prazo_timers_done(struct prazo_timers *timers)
{
    if (!timers)
        return;
    prazo_mem_free(timers->heap);
    prazo_mem_free(timers->due);
    prazo_timers_init(timers);
}

void prazo_timers_link_at(struct prazo_timers *timers, struct prazo_timer *timer, int64_t at_us)
{
    if (at_us == PRAZO_NEVER) {
        prazo_timers_unlink(timers, timer);
        return;
    }
    PRAZO_ASSERT(timer->cb);
    if (timer->slot & DUE)
        prazo_timers_unlink(timers, timer);
    timer->at_us = at_us;
    if (timer->slot) {
        settle(timers, timer->slot, timer);
        return;
    }
    if (timers->count == timers->capacity)
        grow(timers);
    sift_up(timers, ++timers->count, timer);
}

void prazo_timers_unlink(struct prazo_timers *timers, struct prazo_timer *timer)
{
    if (timer->slot & DUE) {
        timers->due[timer->slot & ~DUE] = NULL;
        timer->slot = 0;
    } else if (timer->slot) {
        remove_from_heap(timers, timer);
    }
}

int64_t prazo_timers_wake_at(const struct prazo_timers *timers)
{
    int64_t at_us = timers->count ? timers->heap[1]->at_us : PRAZO_NEVER;

    /* Asked from a callback: what is left of this call is still to run. */
    for (size_t i = timers->due_next; i < timers->due_count; i++) {
        if (timers->due[i])
            return timers->due[i]->at_us < at_us ? timers->due[i]->at_us : at_us;
    }
    return at_us;
}

size_t prazo_timers_expire(struct prazo_timers *timers, int64_t now_us)
{
    size_t ran = 0;

    PRAZO_ASSERT(timers->due_count == 0); /* not from a callback */
    while (timers->count && timers->heap[1]->at_us <= now_us) {
        struct prazo_timer *timer = timers->heap[1];

        remove_from_heap(timers, timer);
        timer->slot = DUE | timers->due_count;
        timers->due[timers->due_count++] = timer;
    }
    while (timers->due_next < timers->due_count) {
        struct prazo_timer *timer = timers->due[timers->due_next++];

        if (!timer)
            continue;
        timer->slot = 0;
        timer->cb(timer, now_us);
        ran++;
    }
    timers->due_count = timers->due_next = 0;
    return ran;
}
