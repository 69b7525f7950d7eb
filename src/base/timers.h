/* SPDX-License-Identifier: MIT */
/* Timer heap over instants in µs. Pure: `now` is an argument. Intrusive; the heap's array grows by
 * doubling. Not thread-safe. */
#ifndef PRAZO_BASE_TIMERS_H
#define PRAZO_BASE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRAZO_NEVER INT64_MAX

struct prazo_timer;
typedef void (*prazo_timer_cb)(struct prazo_timer *timer, int64_t now_us);

struct prazo_timer {
    int64_t at_us;
    prazo_timer_cb cb;
    size_t slot; /* its place, private; 0: not linked */
};

struct prazo_timers {
    struct prazo_timer **heap; /* [1..count] */
    size_t count;
    size_t capacity;          /* of heap and due */
    struct prazo_timer **due; /* taken out by the running expire; NULL: unlinked since */
    size_t due_count, due_next;
};

void prazo_timers_init(struct prazo_timers *timers);
void prazo_timers_done(struct prazo_timers *timers);

/* cb must be set before the first link; a zeroed timer is unlinked. */
static inline bool prazo_timer_is_linked(const struct prazo_timer *timer)
{
    return timer->slot != 0;
}

/* Links the timer, or moves it if it is linked. PRAZO_NEVER unlinks. Cannot fail: when the array
 * cannot grow the process ends (timers are what bounds everything else). */
void prazo_timers_link_at(struct prazo_timers *timers, struct prazo_timer *timer, int64_t at_us);
/* Does nothing for an unlinked timer. */
void prazo_timers_unlink(struct prazo_timers *timers, struct prazo_timer *timer);
/* The earliest instant, or PRAZO_NEVER. */
int64_t prazo_timers_wake_at(const struct prazo_timers *timers);
/* Runs every timer that was due at the time of the call, earliest first, each unlinked before its
 * callback. Callbacks may link and unlink any timer, also themselves; a timer that a callback links
 * at or before now_us runs in the next call, so that a call always ends. Returns how many ran. */
size_t prazo_timers_expire(struct prazo_timers *timers, int64_t now_us);

#endif
