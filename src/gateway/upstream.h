/* SPDX-License-Identifier: MIT */
/* An upstream and its servers as the process runs them: choice of a server, ejection, addresses of
 * names, and the bound on connections with its waiting queue. Shared by all threads. Objects are
 * found by name at a reload, so that what they have learned survives it. */
#ifndef PRAZO_GATEWAY_UPSTREAM_H
#define PRAZO_GATEWAY_UPSTREAM_H

#include <pthread.h>

#include "base/prng.h"
#include "config/config.h"
#include "core/queue.h"
#include "gateway/stats.h"
#include "io/io.h"

#define PRAZO_SERVERS_MAX 64 /* of one upstream: a set of them is one word */

struct prazo_upstream;
struct prazo_registry;

struct prazo_server_rt {
    char *label;  /* as configured */
    size_t index; /* in the gateway's table of servers: where a worker keeps its pool */
    struct prazo_server_series *series;
    int64_t in_flight;    /* atomic */
    int64_t out_until_us; /* atomic copy of eject.until_us, read without the lock */
    int64_t has_failed;   /* atomic: a name's last look-up failed and no address is known */
    int64_t failures;     /* atomic copy of eject.failures */
    /* under the upstream's lock: */
    struct prazo_eject eject;
    struct prazo_addr addrs[PRAZO_RESOLVE_ADDRS_MAX];
    size_t addr_count; /* 0: a name that has not been resolved yet */
    bool is_name;
    struct prazo_resolve_watch *watch; /* main loop only, like the next two */
    struct prazo_registry *registry;
    bool is_wanted; /* by the newest configuration */
    struct prazo_upstream *upstream;
};

/* A call that waits for a connection: its loop gets `grant` posted, exactly once, unless
 * prazo_upstream_leave() took it out before. */
struct prazo_waiter {
    struct prazo_queue_entry entry;
    struct prazo_loop *loop;
    prazo_loop_cb on_grant; /* runs on that loop with the waiter's arg */
    void *arg;
    struct prazo_post grant; /* never lost for want of memory */
};

struct prazo_upstream {
    char *name;
    struct prazo_upstream_series *series;
    pthread_mutex_t lock;
    struct prazo_server_rt **servers; /* of the newest configuration; under the lock */
    size_t server_count;
    int64_t connections;     /* atomic: open or being opened, idle ones too */
    int64_t connections_max; /* atomic; PRAZO_CONFIG_NONE */
    int64_t waiting;         /* atomic: queued or granted and not yet arrived */
    struct prazo_queue queue;
    struct prazo_queue_entry **slots;
};

/* Two random choices among those not yet tried and not ejected, fewer in flight wins; if all are
 * ejected, among all not yet tried (an upstream is never without servers). tried: bits by position
 * in `servers`. -1 when every one was tried. */
int prazo_upstream_pick(struct prazo_server_rt *const *servers, size_t count, uint64_t tried,
                        struct prazo_prng *prng, int64_t now_us);

/* What an attempt or a connection ended in, for ejection. policy: of the configuration. */
void prazo_server_report(struct prazo_server_rt *server, const struct prazo_eject_policy *policy,
                         bool ok, int64_t now_us);

/* Copies up to `max` addresses. 0: not resolved yet. */
size_t prazo_server_addrs(struct prazo_server_rt *server, struct prazo_addr *to, size_t max);

/* May one more connection be opened? Takes a slot if so. Every slot is given back by
 * prazo_upstream_slot_free(). */
bool prazo_upstream_slot_take(struct prazo_upstream *upstream);
/* Gives a slot back and tells the earliest waiter to ask again. While somebody waits or has been
 * told, others queue behind instead of asking. */
void prazo_upstream_slot_free(struct prazo_upstream *upstream);
/* Tells the next waiter: what the one before was told about is still free. */
void prazo_upstream_wake_next(struct prazo_upstream *upstream);
/* Tells the next waiter if a slot is free: after a grant that may have been met otherwise, or that
 * came to nothing. */
void prazo_upstream_pass_on(struct prazo_upstream *upstream);
/* An idle connection on `loop` is there for a waiter of that loop: true if one was told. If the
 * earliest waits elsewhere: false, and the caller closes an idle connection (slot_free follows). */
bool prazo_upstream_offer_idle(struct prazo_upstream *upstream, struct prazo_loop *loop);
/* Queues a waiter. False: the queue is full. */
bool prazo_upstream_wait(struct prazo_upstream *upstream, struct prazo_waiter *waiter,
                         int64_t deadline_us);
/* Takes a waiter out. False: its grant is already on its way and must be awaited. */
bool prazo_upstream_leave(struct prazo_upstream *upstream, struct prazo_waiter *waiter);
/* The grant has arrived (on_grant, first thing). */
static inline void prazo_upstream_arrived(struct prazo_upstream *upstream)
{
    __atomic_fetch_sub(&upstream->waiting, 1, __ATOMIC_RELAXED);
}

static inline bool prazo_upstream_has_waiters(const struct prazo_upstream *upstream)
{
    return __atomic_load_n(&upstream->waiting, __ATOMIC_SEQ_CST) > 0;
}

struct prazo_upstream *prazo_upstream_new(const char *name, struct prazo_upstream_series *series);
void prazo_upstream_free(struct prazo_upstream *upstream);

#endif
