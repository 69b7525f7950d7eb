/* SPDX-License-Identifier: MIT */
/* One thread's ring of finished log lines: that thread puts, one other takes, no lock. Lines go in
 * whole or not at all; every line ends in the only '\n' it has. Private to the log. */
#ifndef PRAZO_BASE_LOG_RING_H
#define PRAZO_BASE_LOG_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Positions only grow; position & (bytes - 1) is the place in base. What each side writes is a
 * cache line apart, or every put would slow the other side's take. */
struct prazo_log_ring {
    struct prazo_log_ring *next; /* the list of all rings, kept by the writer */
    char *base;
    uint64_t bytes; /* a power of two */

    uint64_t put_at;     /* atomic, by the producer */
    uint64_t taken_seen; /* the producer's copy of taken_at; may lag behind */

    char apart[64];
    uint64_t taken_at; /* atomic, by the consumer */
};

/* ring_bytes is rounded up to a power of two, within 16 KiB and 1 GiB. NULL without memory. */
struct prazo_log_ring *prazo__log_ring_new(size_t ring_bytes);
void prazo__log_ring_free(struct prazo_log_ring *ring);

/* Producer. False: no room, nothing was put. */
bool prazo__log_ring_put(struct prazo_log_ring *ring, struct prazo_str line);
/* Producer. Are at least `bytes` bytes waiting? */
bool prazo__log_ring_holds(struct prazo_log_ring *ring, uint64_t bytes);

/* Consumer. The position behind what has been put so far. */
uint64_t prazo__log_ring_end(const struct prazo_log_ring *ring);
/* Consumer. The next piece before `end` that lies in one stretch, empty at `end`. Borrowed until
 * it is taken. */
struct prazo_str prazo__log_ring_peek(const struct prazo_log_ring *ring, uint64_t end);
/* Consumer. */
void prazo__log_ring_take(struct prazo_log_ring *ring, size_t bytes);
/* Consumer. Throws away what is before `end`; returns how many lines ended in it. */
uint64_t prazo__log_ring_drop(struct prazo_log_ring *ring, uint64_t end);

#endif
