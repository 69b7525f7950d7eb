/* SPDX-License-Identifier: MIT */
/* Upstreams and servers, shared by all threads. Reading a choice takes no lock: in flight and
 * ejection are atomics; the lock is taken for failures, for addresses of a new connection and for
 * calls that wait. */
#include "gateway/upstream.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"

#define QUEUE_CAPACITY 1024 /* a queue longer than this would outlive every deadline in it */

static int64_t load(const int64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* The position of the n-th set bit. */
static int nth_bit(uint64_t set, uint64_t n)
{
    while (n-- > 0)
        set &= set - 1;
    return __builtin_ctzll(set);
}

int prazo_upstream_pick(struct prazo_server_rt *const *servers, size_t count, uint64_t tried,
                        struct prazo_prng *prng, int64_t now_us)
{
    uint64_t open = 0, any = 0;

    if (count == 1)
        return (tried & 1) == 0 ? 0 : -1;
    for (size_t i = 0; i < count; i++) {
        if (tried >> i & 1)
            continue;
        any |= 1ull << i;
        if (load(&servers[i]->out_until_us) <= now_us)
            open |= 1ull << i;
    }
    if (open == 0)
        open = any;
    if (open == 0)
        return -1;
    unsigned n = (unsigned)__builtin_popcountll(open);
    if (n == 1)
        return __builtin_ctzll(open);
    uint64_t first = prazo_prng_below(prng, n), second = prazo_prng_below(prng, n - 1);
    int a = nth_bit(open, first), b = nth_bit(open, second + (second >= first));
    return load(&servers[a]->in_flight) <= load(&servers[b]->in_flight) ? a : b;
}

static uint32_t count_out(const struct prazo_upstream *upstream, int64_t now_us)
{
    uint32_t out = 0;

    for (size_t i = 0; i < upstream->server_count; i++)
        out += prazo_eject_is_out(&upstream->servers[i]->eject, now_us);
    return out;
}

void prazo_server_report(struct prazo_server_rt *server, const struct prazo_eject_policy *policy,
                         bool ok, int64_t now_us)
{
    struct prazo_upstream *upstream = server->upstream;
    bool is_ejected = false;

    if (ok && load(&server->failures) == 0)
        return;
    pthread_mutex_lock(&upstream->lock);
    if (ok) {
        (void)prazo_eject_success(&server->eject);
    } else {
        bool may =
            prazo_eject_may(policy, count_out(upstream, now_us), (uint32_t)upstream->server_count);
        is_ejected = prazo_eject_failure(&server->eject, policy, may, now_us);
    }
    __atomic_store_n(&server->failures, (int64_t)server->eject.failures, __ATOMIC_RELAXED);
    __atomic_store_n(&server->out_until_us, server->eject.until_us, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&upstream->lock);
    if (is_ejected)
        prazo_logf(PRAZO_LOG_WARN, "server ejected", "%s of upstream %s", server->label,
                   upstream->name);
}

size_t prazo_server_addrs(struct prazo_server_rt *server, struct prazo_addr *to, size_t max)
{
    pthread_mutex_lock(&server->upstream->lock);
    size_t count = server->addr_count < max ? server->addr_count : max;
    memcpy(to, server->addrs, count * sizeof *to);
    pthread_mutex_unlock(&server->upstream->lock);
    return count;
}

/* ---- connections ---- */

bool prazo_upstream_slot_take(struct prazo_upstream *upstream)
{
    int64_t max = load(&upstream->connections_max);

    if (__atomic_add_fetch(&upstream->connections, 1, __ATOMIC_RELAXED) <= max || max < 0)
        return true;
    __atomic_fetch_sub(&upstream->connections, 1, __ATOMIC_SEQ_CST);
    return false;
}

static bool has_free_slot(const struct prazo_upstream *upstream)
{
    int64_t max = load(&upstream->connections_max);

    return max < 0 || __atomic_load_n(&upstream->connections, __ATOMIC_SEQ_CST) < max;
}

/* Under the lock: the earliest waiter is granted. */
static void grant(struct prazo_queue_entry *entry)
{
    struct prazo_waiter *waiter = PRAZO_CONTAINER(entry, struct prazo_waiter, entry);

    prazo_loop_post_in(waiter->loop, &waiter->grant, waiter->on_grant, waiter->arg);
}

void prazo_upstream_wake_next(struct prazo_upstream *upstream)
{
    if (!prazo_upstream_has_waiters(upstream))
        return;
    pthread_mutex_lock(&upstream->lock);
    struct prazo_queue_entry *entry = prazo_queue_pop(&upstream->queue);
    if (entry != NULL)
        grant(entry);
    pthread_mutex_unlock(&upstream->lock);
}

void prazo_upstream_pass_on(struct prazo_upstream *upstream)
{
    if (!prazo_upstream_has_waiters(upstream))
        return;
    pthread_mutex_lock(&upstream->lock);
    if (upstream->queue.count > 0 && has_free_slot(upstream))
        grant(prazo_queue_pop(&upstream->queue));
    pthread_mutex_unlock(&upstream->lock);
}

/* Who gives a slot back looks for waiters afterwards, who waits looks for a slot afterwards: in one
 * total order (SEQ_CST) at least one of the two sees the other. */
void prazo_upstream_slot_free(struct prazo_upstream *upstream)
{
    __atomic_fetch_sub(&upstream->connections, 1, __ATOMIC_SEQ_CST);
    prazo_upstream_wake_next(upstream);
}

bool prazo_upstream_offer_idle(struct prazo_upstream *upstream, struct prazo_loop *loop)
{
    bool told = true;

    pthread_mutex_lock(&upstream->lock);
    if (upstream->queue.count > 0) {
        struct prazo_waiter *first =
            PRAZO_CONTAINER(upstream->queue.heap[1], struct prazo_waiter, entry);
        told = first->loop == loop;
        if (told)
            grant(prazo_queue_pop(&upstream->queue));
    }
    pthread_mutex_unlock(&upstream->lock);
    return told;
}

bool prazo_upstream_wait(struct prazo_upstream *upstream, struct prazo_waiter *waiter,
                         int64_t deadline_us)
{
    pthread_mutex_lock(&upstream->lock);
    bool queued = prazo_queue_push(&upstream->queue, &waiter->entry, deadline_us);
    if (queued)
        __atomic_fetch_add(&upstream->waiting, 1, __ATOMIC_SEQ_CST);
    /* a slot that was given back since the caller asked would find nobody else to tell */
    if (has_free_slot(upstream))
        grant(prazo_queue_pop(&upstream->queue));
    pthread_mutex_unlock(&upstream->lock);
    return queued;
}

bool prazo_upstream_leave(struct prazo_upstream *upstream, struct prazo_waiter *waiter)
{
    pthread_mutex_lock(&upstream->lock);
    bool was_queued = waiter->entry.slot != 0;
    prazo_queue_remove(&upstream->queue, &waiter->entry);
    pthread_mutex_unlock(&upstream->lock);
    if (was_queued)
        __atomic_fetch_sub(&upstream->waiting, 1, __ATOMIC_RELAXED);
    return was_queued;
}

struct prazo_upstream *prazo_upstream_new(const char *name, struct prazo_upstream_series *series)
{
    struct prazo_upstream *u = prazo_mem_calloc(1, sizeof *u);

    if (u == NULL)
        return NULL;
    u->name = prazo_mem_strdup(name);
    u->slots = prazo_mem_calloc(QUEUE_CAPACITY + 1, sizeof *u->slots);
    u->series = series;
    u->connections_max = PRAZO_CONFIG_NONE;
    pthread_mutex_init(&u->lock, NULL);
    if (u->name == NULL || u->slots == NULL) {
        prazo_upstream_free(u);
        return NULL;
    }
    prazo_queue_init(&u->queue, u->slots, QUEUE_CAPACITY);
    return u;
}

void prazo_upstream_free(struct prazo_upstream *upstream)
{
    if (upstream == NULL)
        return;
    prazo_mem_free(upstream->servers);
    prazo_mem_free(upstream->slots);
    prazo_mem_free(upstream->name);
    pthread_mutex_destroy(&upstream->lock);
    prazo_mem_free(upstream);
}
