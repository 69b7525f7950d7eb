/* SPDX-License-Identifier: MIT */
/* The connect phase of an attempt: choice of the server, an idle connection or a new one.
 *
 * A connection that cannot be made is not an attempt (contract 4): the next address and the next
 * server are tried at once, each at most once, while `connect_timeout` lasts. */
#include "base/assert.h"
#include "gateway/attempt_internal.h"

void prazo__attempt_leave_server(struct prazo_attempt *a)
{
    if (a->server != NULL)
        __atomic_fetch_sub(&a->server->in_flight, 1, __ATOMIC_RELAXED);
    a->server = NULL;
}

/* An idle connection of this worker to any server of the upstream makes room for a new one. */
static bool make_room(struct prazo_attempt *a)
{
    for (size_t i = 0; i < a->config->server_count; i++) {
        struct prazo_client_pool *pool =
            prazo_worker_pool(a->worker, a->call->servers[i], a->config);
        if (pool != NULL && prazo_client_pool_close_one(pool))
            return true;
    }
    return false;
}

static bool has_slot(struct prazo_attempt *a)
{
    return prazo_upstream_slot_take(a->upstream) ||
           (make_room(a) && prazo_upstream_slot_take(a->upstream));
}

static void wait_for_slot(struct prazo_attempt *a)
{
    struct prazo_call *call = a->call;

    prazo__attempt_finish(a, PRAZO_STAT_ATTEMPT_CUT); /* was never counted: no byte, no server */
    prazo_call_wait_for_slot(call);
}

static void enter_server(struct prazo_attempt *a, struct prazo_server_rt *server)
{
    prazo__attempt_leave_server(a);
    a->server = server;
    a->addr_count = a->addr_next = 0;
    __atomic_fetch_add(&server->in_flight, 1, __ATOMIC_RELAXED);
}

/* Chooses the next server not yet tried. False: none is left. */
static bool choose(struct prazo_attempt *a)
{
    int at = prazo_upstream_pick(a->call->servers, a->config->server_count, a->tried,
                                 &a->worker->prng, prazo__attempt_now(a));

    if (at < 0)
        return false;
    a->tried |= 1ull << at;
    enter_server(a, a->call->servers[at]);
    return true;
}

void prazo__attempt_count_connect_failure(struct prazo_attempt *a)
{
    prazo_counter_inc(&a->server->series->thread[a->worker->index]->connect_failures);
}

/* The addresses of the server, starting at a random one. False: not known yet. */
static bool load_addrs(struct prazo_attempt *a)
{
    struct prazo_addr found[PRAZO_RESOLVE_ADDRS_MAX];
    size_t count = prazo_server_addrs(a->server, found, PRAZO_RESOLVE_ADDRS_MAX);

    a->addr_next = 0;
    a->addr_count = 0;
    if (count == 0)
        return false;
    a->addrs = prazo_arena_alloc(&a->call->arena, count * sizeof *a->addrs);
    if (a->addrs == NULL)
        return true; /* no address to try: the server counts as failed */
    size_t start = count > 1 ? (size_t)prazo_prng_below(&a->worker->prng, count) : 0;
    for (size_t i = 0; i < count; i++)
        a->addrs[i] = found[(start + i) % count];
    a->addr_count = count;
    return true;
}

/* All that is left for the last address that there is, half of it for any other. */
static int64_t address_until(const struct prazo_attempt *a)
{
    int64_t now_us = prazo__attempt_now(a), left_us = a->connect_until_us - now_us;
    uint64_t all = a->config->server_count >= 64 ? ~0ull : (1ull << a->config->server_count) - 1;
    bool is_last = a->addr_next == a->addr_count && (a->tried & all) == all;

    return now_us + (is_last ? left_us : left_us / 2);
}

static void wait_for_name(struct prazo_attempt *a)
{
    a->state = ATTEMPT_RESOLVING;
    prazo_list_push_back(&a->worker->unresolved, &a->node);
    prazo__attempt_arm(a, address_until(a));
    prazo_call_on_connecting(a->call);
}

/* Tries the rest of the server's addresses. False: none could be started. */
static bool connect_addresses(struct prazo_attempt *a, struct prazo_client_pool *pool, int *ret_err)
{
    while (a->addr_next < a->addr_count) {
        const struct prazo_addr *addr = &a->addrs[a->addr_next++];
        if (!has_slot(a)) {
            *ret_err = PRAZO_E_AGAIN;
            return false;
        }
        *ret_err = prazo_client_connect(pool, addr, a, &a->cx);
        if (*ret_err == PRAZO_OK) {
            a->state = ATTEMPT_CONNECTING;
            prazo__attempt_arm(a, address_until(a));
            prazo_call_on_connecting(a->call);
            return true;
        }
        prazo_upstream_slot_free(a->upstream);
        if (*ret_err == PRAZO_E_NO_FDS || *ret_err == PRAZO_E_NOMEM)
            return false;
        prazo__attempt_count_connect_failure(a);
    }
    *ret_err = PRAZO_E_UNREACHABLE;
    return false;
}

/* The server could not be reached by any of its addresses. False: no other is left to try, the
 * attempt has ended. */
static bool next_server(struct prazo_attempt *a)
{
    int64_t now_us = prazo__attempt_now(a);

    prazo_server_report(a->server, &a->config->eject, false, now_us);
    if (now_us < a->connect_until_us && choose(a))
        return true;
    prazo__attempt_fail(a, PRAZO_STAT_ATTEMPT_REFUSED, PRAZO_PROBLEM_UPSTREAM_UNREACHABLE);
    return false;
}

void prazo__attempt_on_unresolved(struct prazo_attempt *a)
{
    prazo_list_del(&a->node);
    a->state = ATTEMPT_CONNECTING;
    prazo__attempt_count_connect_failure(a);
    if (next_server(a))
        prazo__attempt_connect_next(a);
}

void prazo__attempt_connect_next(struct prazo_attempt *a)
{
    for (;;) {
        struct prazo_client_pool *pool = prazo_worker_pool(a->worker, a->server, a->config);
        int err = PRAZO_E_NOMEM;

        if (a->addr_count == 0 && pool != NULL && !load_addrs(a)) {
            if (!__atomic_load_n(&a->server->has_failed, __ATOMIC_RELAXED)) {
                wait_for_name(a);
                return;
            }
            prazo__attempt_count_connect_failure(a);
        }
        if (pool != NULL && connect_addresses(a, pool, &err))
            return;
        if (err == PRAZO_E_AGAIN) {
            wait_for_slot(a);
            return;
        }
        if (err == PRAZO_E_NO_FDS || err == PRAZO_E_NOMEM) {
            prazo_worker_warn_exhausted(a->worker, err);
            prazo__attempt_fail(a, PRAZO_STAT_ATTEMPT_REFUSED, PRAZO_PROBLEM_INTERNAL);
            return;
        }
        if (!next_server(a))
            return;
    }
}

void prazo_attempt_start(struct prazo_call *call, int kind, struct prazo_server_rt *server,
                         bool may_reuse)
{
    struct prazo_worker *w = call->worker;
    struct prazo_attempt *a = prazo_pool_get(&w->attempts);

    if (a == NULL) {
        prazo_call_on_attempt_failed(call, PRAZO_PROBLEM_INTERNAL);
        return;
    }
    a->worker = w;
    a->view = call->view;
    a->view->calls++;
    a->call = call;
    a->config = call->upstream_config;
    a->upstream = call->upstream;
    a->kind = kind;
    a->timer.cb = prazo__attempt_on_timer;
    a->state = ATTEMPT_CONNECTING;
    a->connect_until_us = prazo__attempt_now(a) + a->config->connect_timeout_us;
    prazo_list_init(&a->node);
    call->attempt = a;
    if (server != NULL)
        enter_server(a, server);
    else
        (void)choose(a); /* an upstream has at least one server */
    if (prazo_upstream_has_waiters(a->upstream) && !call->was_granted) {
        wait_for_slot(a); /* behind those who wait already */
        return;
    }
    struct prazo_client_pool *pool = prazo_worker_pool(w, a->server, a->config);
    if (may_reuse && pool != NULL && (a->cx = prazo_client_take(pool, a)) != NULL)
        prazo__attempt_begin(a);
    else
        prazo__attempt_connect_next(a);
}

void prazo_attempts_on_resolved(struct prazo_worker *w)
{
    struct prazo_list waiting;

    prazo_list_init(&waiting);
    while (!prazo_list_is_empty(&w->unresolved)) {
        struct prazo_list *node = w->unresolved.next;
        prazo_list_del(node);
        prazo_list_push_back(&waiting, node);
    }
    while (!prazo_list_is_empty(&waiting)) {
        struct prazo_attempt *a = PRAZO_CONTAINER(waiting.next, struct prazo_attempt, node);
        prazo_list_del(&a->node);
        a->state = ATTEMPT_CONNECTING;
        prazo__attempt_connect_next(a);
    }
}
