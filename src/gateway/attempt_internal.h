/* SPDX-License-Identifier: MIT */
/* Shared between attempt.c and attempt_connect.c. */
#ifndef PRAZO_GATEWAY_ATTEMPT_INTERNAL_H
#define PRAZO_GATEWAY_ATTEMPT_INTERNAL_H

#include "gateway/attempt.h"

#define TAIL_BYTES_MAX 448u

struct prazo_attempt {
    struct prazo_worker *worker;
    struct prazo_view *view;
    struct prazo_call *call; /* NULL: ATTEMPT_LINGERING */
    const struct prazo_config_upstream *config;
    struct prazo_upstream *upstream;
    struct prazo_server_rt *server;
    struct prazo_cx *cx;
    struct prazo_timer timer;
    struct prazo_list node; /* worker->unresolved or worker->lingering */
    enum prazo_attempt_state state;
    int kind;                 /* enum prazo_stat_kind */
    uint64_t tried;           /* servers, by position */
    struct prazo_addr *addrs; /* of the server; in the call's arena */
    size_t addr_count, addr_next;
    int64_t connect_until_us; /* end of the whole connect phase */
    int64_t sent_us, last_us, abandoned_us;
    enum prazo_abandon how;
    int status;
    bool is_reading_paused;
    bool is_counted; /* in the upstream's gauge of attempts in flight */
    char tail[TAIL_BYTES_MAX];
};

static inline int64_t prazo__attempt_now(const struct prazo_attempt *a)
{
    return prazo_loop_now_us(a->worker->loop);
}

static inline struct prazo_upstream_stats *prazo__attempt_stats(const struct prazo_attempt *a)
{
    return prazo_upstream_stats_of(a->worker, a->upstream);
}

static inline void prazo__attempt_arm(struct prazo_attempt *a, int64_t at_us)
{
    prazo_timers_link_at(prazo_loop_timers(a->worker->loop), &a->timer, at_us);
}

static inline void prazo__attempt_disarm(struct prazo_attempt *a)
{
    prazo_timers_unlink(prazo_loop_timers(a->worker->loop), &a->timer);
}

/* attempt.c */
void prazo__attempt_on_timer(struct prazo_timer *timer, int64_t now_us);
/* The one way out; the connection has been released or closed before. */
void prazo__attempt_finish(struct prazo_attempt *a, enum prazo_stat_attempt result);
void prazo__attempt_close(struct prazo_attempt *a);
/* Ends in failure and tells the call. */
void prazo__attempt_fail(struct prazo_attempt *a, enum prazo_stat_attempt result,
                         enum prazo_problem problem);
/* A connection is in hand: the attempt begins. */
void prazo__attempt_begin(struct prazo_attempt *a);
/* attempt_connect.c: the next address, the next server, or the failure of the attempt. */
void prazo__attempt_connect_next(struct prazo_attempt *a);
/* The same for a server whose name has got no address in time. */
void prazo__attempt_on_unresolved(struct prazo_attempt *a);
void prazo__attempt_count_connect_failure(struct prazo_attempt *a);
void prazo__attempt_leave_server(struct prazo_attempt *a);

#endif
