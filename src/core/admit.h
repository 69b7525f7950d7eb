/* SPDX-License-Identifier: MIT */
/* Admission to one upstream without a hand-set number: limit, queue, deadline test and probes.
 *
 * One state machine per upstream, told of every arrival, sending and end; `now` and random draws
 * are arguments. The caller keeps the queue (earliest deadline first) and asks may_send() after
 * each event while somebody waits, and every 1 ms while prazo_admit_debt() > 0.
 *
 * left_us = deadline - margin - now, budget_us = deadline - arrival. A smaller `now` than the last
 * one is treated as the last one. Pure: no clock, no allocation; bounded work per event. Not
 * thread-safe. */
#ifndef PRAZO_CORE_ADMIT_H
#define PRAZO_CORE_ADMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/estimate.h"
#include "core/gate.h"
#include "core/limiter_auto.h"

enum prazo_admit_verdict {
    PRAZO_ADMIT_SEND = 0,
    PRAZO_ADMIT_PROBE, /* send, past the limit */
    PRAZO_ADMIT_QUEUE,
    PRAZO_ADMIT_QUEUE_FULL,
    PRAZO_ADMIT_WOULD_MISS, /* would-miss-deadline */
    PRAZO_ADMIT_LIMIT,
};

enum prazo_admit_end {
    PRAZO_END_OK = 0,   /* an answer that is none of the following, a 404 too */
    PRAZO_END_ERROR,    /* 500, 501, 505: alive, but no evidence */
    PRAZO_END_BUSY,     /* 429, 502, 503, 504 that no prazo made */
    PRAZO_END_NOCONN,   /* no connection, or reset before the head */
    PRAZO_END_LATE,     /* a prazo below: the time was too short */
    PRAZO_END_SHED,     /* a prazo below: any other refusal; it judges for itself */
    PRAZO_END_CUT,      /* ended by our timer or the client's leaving, permit free */
    PRAZO_END_CUT_HELD, /* the same, but the work goes on and keeps the permit */
    PRAZO_END_FREED,    /* the end of a CUT_HELD */
};

struct prazo_admit_arrival {
    int64_t left_us, budget_us;
    int64_t queued; /* entries in the own queue, without this one */
    int64_t ahead;  /* 0 if this deadline is before the head's, else queued */
};

/* What an attempt carries from sent() to ended(). */
struct prazo_admit_tag {
    int64_t at_us, left_us, waited_us, occupied;
    uint32_t seq, epoch, record;
};

enum { PRAZO_ADMIT_RING = 16 };

struct prazo_admit {
    struct prazo_estimate times;
    struct prazo_gate gate;
    struct prazo_limiter_auto limiter;
    int64_t now_us;
    int64_t ok_at_us[PRAZO_ADMIT_RING]; /* the last successes */
    uint64_t ok_count;
    int64_t debt, debt_at_us;       /* permits owed for fast failures, 1/256 */
    int64_t roomy_us, demand_at_us; /* the most time left lately */
    int64_t demand, peak;           /* peak in 1/16 permits */
    int64_t queued_since_us;        /* negative: nobody waits */
    int64_t wait_cap_us;            /* learned from what waiting costs */
};

void prazo_admit_init(struct prazo_admit *m, int64_t now_us);
/* A request wants a permit. draw: 64 random bits. */
enum prazo_admit_verdict prazo_admit_arrive(struct prazo_admit *m, int64_t now_us,
                                            const struct prazo_admit_arrival *arrival,
                                            uint64_t draw);
/* After QUEUE: leave the queue after this time with would-miss-deadline. */
int64_t prazo_admit_wait_max_us(const struct prazo_admit *m, int64_t left_us, int64_t budget_us);
/* Is a permit free for the head of the queue? */
bool prazo_admit_may_send(struct prazo_admit *m, int64_t now_us);
/* The head was taken: false refuses it with would-miss-deadline. */
bool prazo_admit_dequeue(struct prazo_admit *m, int64_t now_us, int64_t left_us, int64_t budget_us,
                         int64_t waited_us);
/* An attempt begins; tag->left_us and tag->waited_us are given, the rest is filled in. */
void prazo_admit_sent(struct prazo_admit *m, int64_t now_us, bool is_probe, int64_t queued,
                      struct prazo_admit_tag *tag);
/* True: the gate has just closed, everything queued is refused with `limit`. */
bool prazo_admit_ended(struct prazo_admit *m, int64_t now_us, enum prazo_admit_end end,
                       int64_t queued, const struct prazo_admit_tag *tag);
/* Permits owed for fast failures; brought up to date. */
int64_t prazo_admit_debt(struct prazo_admit *m, int64_t now_us);
int64_t prazo_admit_limit(const struct prazo_admit *m);

#endif
