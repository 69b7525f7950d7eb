/* SPDX-License-Identifier: MIT */
/* One try of a call at one server. See attempt.h for the states.
 *
 * A connection that cannot be made is not an attempt (contract 4): within the connect phase the next
 * address and the next server are tried at once, each at most once, while `connect_timeout` lasts.
 * From the first byte on there is one way out, finish(), and one decision about another try here:
 * the replacement of a stale kept-alive connection. */
#include "gateway/attempt.h"

#include "base/assert.h"
#include "prazo/deadline.h"

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
    int kind; /* enum prazo_stat_kind */
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

static void on_timer(struct prazo_timer *timer, int64_t now_us);
static void connect_next(struct prazo_attempt *a);

static int64_t now_of(const struct prazo_attempt *a)
{
    return prazo_loop_now_us(a->worker->loop);
}

static struct prazo_upstream_stats *stats_of(const struct prazo_attempt *a)
{
    return prazo_upstream_stats_of(a->worker, a->upstream);
}

static void arm(struct prazo_attempt *a, int64_t at_us)
{
    prazo_timers_link_at(prazo_loop_timers(a->worker->loop), &a->timer, at_us);
}

static void disarm(struct prazo_attempt *a)
{
    prazo_timers_unlink(prazo_loop_timers(a->worker->loop), &a->timer);
}

/* ---- the end ---- */

static void leave_server(struct prazo_attempt *a)
{
    if (a->server != NULL)
        __atomic_fetch_sub(&a->server->in_flight, 1, __ATOMIC_RELAXED);
    a->server = NULL;
}

/* The one way out; the connection has been released or closed before. */
static void finish(struct prazo_attempt *a, enum prazo_stat_attempt result)
{
    struct prazo_worker *w = a->worker;
    struct prazo_server_series *series = a->server != NULL ? a->server->series : NULL;

    PRAZO_ASSERT(a->state != ATTEMPT_DONE);
    a->state = ATTEMPT_DONE;
    disarm(a);
    prazo_list_del(&a->node);
    if (series != NULL && (a->is_counted || result == PRAZO_STAT_ATTEMPT_REFUSED))
        prazo_counter_inc(&series->thread[w->index]->attempts[a->kind][result]);
    if (a->is_counted) {
        prazo_gauge_add(&stats_of(a)->in_flight, -1);
        prazo_histogram_observe(&stats_of(a)->attempt_seconds[result], now_of(a) - a->sent_us);
    }
    leave_server(a);
    prazo_worker_view_release(a->view);
    prazo_pool_put(&w->attempts, a);
}

static void close_connection(struct prazo_attempt *a)
{
    struct prazo_cx *cx = a->cx;

    a->cx = NULL;
    prazo_cx_close(cx);
}

/* Ends in failure and tells the call. */
static void fail(struct prazo_attempt *a, enum prazo_stat_attempt result,
                 enum prazo_problem problem)
{
    struct prazo_call *call = a->call;

    if (a->cx != NULL)
        call->was_sent |= prazo_cx_was_sent(a->cx);
    close_connection(a);
    finish(a, result);
    prazo_call_on_attempt_failed(call, problem);
}

/* ---- sending ---- */

static void add_tail(struct prazo_attempt *a, size_t *len, const char *text, size_t n)
{
    PRAZO_ASSERT(*len + n <= TAIL_BYTES_MAX);
    memcpy(a->tail + *len, text, n);
    *len += n;
}

static void add_host(struct prazo_attempt *a, size_t *len)
{
    struct prazo_str label = prazo_str_z(a->server->label);

    /* a Unix socket has no name that could stand in Host */
    if (label.len > 256 || prazo_str_has_prefix(label, PRAZO_STR("unix:")))
        label = PRAZO_STR("localhost");
    add_tail(a, len, "host: ", 6);
    add_tail(a, len, label.base, label.len);
    add_tail(a, len, "\r\n", 2);
}

/* The lines that are new in every attempt: when it was sent, its id, what it may spend. */
static struct prazo_str build_tail(struct prazo_attempt *a)
{
    struct prazo_call *call = a->call;
    struct prazo_attempt_id id = { .index = a->kind == PRAZO_STAT_KIND_FIRST ? 0 : 1,
                                   .id = prazo_prng_next(&a->worker->prng) };
    int64_t left_us = call->down_us - a->sent_us;
    size_t len = 0;
    char text[40];

    if (a->config->host_mode == PRAZO_HOST_SERVER ||
        (a->config->host_mode == PRAZO_HOST_KEEP && !call->has_host))
        add_host(a, &len);
    if (a->config->is_foreign) {
        add_tail(a, &len, "x-timeout-ms: ", 14);
        add_tail(a, &len, text, prazo_format_i64(text, left_us < 2000 ? 1 : left_us / 1000));
    } else {
        add_tail(a, &len, "x-deadline-sent-ms: ", 20);
        add_tail(a, &len, text, prazo_format_i64(text, prazo_loop_wall_ms(a->worker->loop)));
    }
    if (call->is_grpc) {
        add_tail(a, &len, "\r\ngrpc-timeout: ", 16);
        add_tail(a, &len, text, prazo_deadline_format_grpc(text, left_us > 0 ? left_us : 1));
    }
    add_tail(a, &len, "\r\nx-attempt: ", 13);
    add_tail(a, &len, text, prazo_attempt_id_format(text, id));
    add_tail(a, &len, "\r\nx-retry-budget: 0\r\n", 21);
    return prazo_str_n(a->tail, len);
}

/* A connection is in hand: the attempt begins. */
static void begin(struct prazo_attempt *a)
{
    struct prazo_call *call = a->call;
    struct prazo_upstream_stats *stats = stats_of(a);
    struct prazo_cx_request request = {
        .body = call->body,
        .content_length = call->content_length,
        .is_head = call->method_id == PRAZO_METHOD_HEAD,
        .upgrade = call->upgrade,
    };

    disarm(a);
    a->state = ATTEMPT_SENT;
    a->sent_us = a->last_us = now_of(a);
    a->is_counted = true;
    call->server_label = a->server->label;
    prazo_gauge_add(&stats->in_flight, 1);
    prazo_window_add(&stats->amplification, a->sent_us, 1, call->had_attempt ? 0 : 1);
    if (!call->had_attempt)
        prazo_counter_inc(&stats->requests);
    request.prefix = prazo_str_n(call->prefix.base + call->prefix_skip,
                                 call->prefix.len - call->prefix_skip);
    request.tail = build_tail(a);
    prazo_cx_send_head(a->cx, &request);
    prazo_call_on_connected(call);
}

void prazo_attempt_send_body(struct prazo_attempt *a, const char *data, size_t len)
{
    prazo_cx_send_body(a->cx, data, len);
}

void prazo_attempt_send_end(struct prazo_attempt *a, const struct prazo_header *trailers,
                            size_t count)
{
    prazo_cx_send_end(a->cx, trailers, count);
    a->last_us = now_of(a);
    if (a->config->read_timeout_us > 0 && !a->call->is_tunnel)
        arm(a, a->last_us + a->config->read_timeout_us);
}

void prazo_attempt_flush(struct prazo_attempt *a)
{
    if (prazo_attempt_is_sending(a))
        prazo_cx_flush(a->cx);
}

bool prazo_attempt_is_sending(const struct prazo_attempt *a)
{
    return a->state == ATTEMPT_SENT || a->state == ATTEMPT_ANSWERING;
}

size_t prazo_attempt_pending(const struct prazo_attempt *a)
{
    return prazo_attempt_is_sending(a) ? prazo_cx_pending(a->cx) : 0;
}

void prazo_attempt_pause(struct prazo_attempt *a)
{
    a->is_reading_paused = true;
    prazo_cx_pause(a->cx);
}

void prazo_attempt_resume(struct prazo_attempt *a)
{
    if (!a->is_reading_paused)
        return;
    a->is_reading_paused = false;
    a->last_us = now_of(a); /* the silence was ours */
    prazo_cx_resume(a->cx);
}

/* ---- connecting ---- */

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

    finish(a, PRAZO_STAT_ATTEMPT_CUT); /* was never counted: no byte, no server */
    prazo_call_wait_for_slot(call);
}

static void enter_server(struct prazo_attempt *a, struct prazo_server_rt *server)
{
    leave_server(a);
    a->server = server;
    a->addr_count = a->addr_next = 0;
    __atomic_fetch_add(&server->in_flight, 1, __ATOMIC_RELAXED);
}

/* Chooses the next server not yet tried. False: none is left. */
static bool choose(struct prazo_attempt *a)
{
    int at = prazo_upstream_pick(a->call->servers, a->config->server_count, a->tried,
                                 &a->worker->prng, now_of(a));

    if (at < 0)
        return false;
    a->tried |= 1ull << at;
    enter_server(a, a->call->servers[at]);
    return true;
}

static void count_connect_failure(struct prazo_attempt *a)
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

static void wait_for_name(struct prazo_attempt *a)
{
    a->state = ATTEMPT_RESOLVING;
    prazo_list_push_back(&a->worker->unresolved, &a->node);
    arm(a, a->connect_until_us);
    prazo_call_on_connecting(a->call);
}

/* All that is left for the last address that there is, half of it for any other. */
static int64_t address_until(const struct prazo_attempt *a)
{
    int64_t now_us = now_of(a), left_us = a->connect_until_us - now_us;
    uint64_t all = a->config->server_count >= 64 ? ~0ull : (1ull << a->config->server_count) - 1;
    bool is_last = a->addr_next == a->addr_count && (a->tried & all) == all;

    return now_us + (is_last ? left_us : left_us / 2);
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
            arm(a, address_until(a));
            prazo_call_on_connecting(a->call);
            return true;
        }
        prazo_upstream_slot_free(a->upstream);
        if (*ret_err == PRAZO_E_NO_FDS || *ret_err == PRAZO_E_NOMEM)
            return false;
        count_connect_failure(a);
    }
    *ret_err = PRAZO_E_UNREACHABLE;
    return false;
}

/* The server could not be reached by any of its addresses. */
static void server_failed(struct prazo_attempt *a)
{
    prazo_server_report(a->server, &a->config->eject, false, now_of(a));
}

static void connect_next(struct prazo_attempt *a)
{
    for (;;) {
        struct prazo_client_pool *pool = prazo_worker_pool(a->worker, a->server, a->config);
        int err = PRAZO_E_NOMEM;

        if (a->addr_count == 0 && pool != NULL && !load_addrs(a)) {
            if (!__atomic_load_n(&a->server->has_failed, __ATOMIC_RELAXED)) {
                wait_for_name(a);
                return;
            }
            count_connect_failure(a);
        }
        if (pool != NULL && connect_addresses(a, pool, &err))
            return;
        if (err == PRAZO_E_AGAIN) {
            wait_for_slot(a);
            return;
        }
        if (err == PRAZO_E_NO_FDS || err == PRAZO_E_NOMEM) {
            prazo_worker_warn_exhausted(a->worker, err);
            fail(a, PRAZO_STAT_ATTEMPT_REFUSED, PRAZO_PROBLEM_INTERNAL);
            return;
        }
        server_failed(a);
        if (now_of(a) >= a->connect_until_us || !choose(a)) {
            fail(a, PRAZO_STAT_ATTEMPT_REFUSED, PRAZO_PROBLEM_UPSTREAM_UNREACHABLE);
            return;
        }
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
    a->timer.cb = on_timer;
    a->state = ATTEMPT_CONNECTING;
    a->connect_until_us = now_of(a) + a->config->connect_timeout_us;
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
        begin(a);
    else
        connect_next(a);
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
        connect_next(a);
    }
}

/* ---- the connection's events ---- */

static void on_connected(void *arg, struct prazo_cx *cx)
{
    (void)cx;
    begin(arg);
}

static void on_informational(void *arg, struct prazo_cx *cx, const struct prazo_head *head)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    a->last_us = now_of(a);
    if (a->call != NULL)
        prazo_call_on_informational(a->call, head);
}

/* An answer for nobody. After our FIN there is no use in reading it; else the connection is good
 * for another request once it has been read. */
static void on_orphan(struct prazo_attempt *a)
{
    struct prazo_upstream_stats *stats = stats_of(a);

    if (a->how == PRAZO_ABANDON_FINISH)
        return;
    prazo_counter_inc(&stats->orphan_answers);
    prazo_counter_add(&stats->orphan_us, (uint64_t)(now_of(a) - a->abandoned_us));
    if (a->how == PRAZO_ABANDON_CLOSE) {
        close_connection(a);
        finish(a, PRAZO_STAT_ATTEMPT_CUT);
    }
}

static void on_head(void *arg, struct prazo_cx *cx, const struct prazo_head *head)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    a->status = head->status;
    a->last_us = now_of(a);
    prazo_server_report(a->server, &a->config->eject, true, a->last_us);
    if (a->call == NULL) {
        on_orphan(a);
        return;
    }
    a->state = ATTEMPT_ANSWERING;
    if (head->status == 101)
        disarm(a);
    prazo_call_on_head(a->call, head);
}

static void on_body(void *arg, struct prazo_cx *cx, const char *data, size_t len)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    a->last_us = now_of(a);
    if (a->call != NULL)
        prazo_call_on_body(a->call, data, len);
}

static void on_end(void *arg, struct prazo_cx *cx, const struct prazo_header *trailers,
                   size_t count)
{
    struct prazo_attempt *a = arg;
    struct prazo_call *call = a->call;
    bool is_lingering = call == NULL;

    a->cx = NULL;
    prazo_cx_release(cx);
    if (is_lingering) {
        finish(a, PRAZO_STAT_ATTEMPT_CUT);
        return;
    }
    finish(a, a->status >= 500 ? PRAZO_STAT_ATTEMPT_ERROR : PRAZO_STAT_ATTEMPT_OK);
    prazo_call_on_end(call, trailers, count);
}

/* The server closed a kept-alive connection just as the request went out: one new connection, at
 * once, if doing it twice would be safe or nothing was taken (contract 4, C080). */
static bool may_replace(const struct prazo_attempt *a)
{
    const struct prazo_call *call = a->call;

    return a->state == ATTEMPT_SENT && prazo_cx_is_reused(a->cx) &&
           !prazo_cx_was_answered(a->cx) && !call->was_stale && call->is_kept &&
           (call->method_class != PRAZO_METHOD_UNSAFE || !prazo_cx_was_sent(a->cx));
}

static void replace(struct prazo_attempt *a)
{
    struct prazo_call *call = a->call;
    struct prazo_server_rt *server = a->server;

    call->was_stale = true;
    call->was_sent |= prazo_cx_was_sent(a->cx);
    close_connection(a);
    finish(a, PRAZO_STAT_ATTEMPT_RESET);
    call->attempt = NULL;
    prazo_attempt_start(call, PRAZO_STAT_KIND_STALE, server, false);
}

static void on_fail(void *arg, struct prazo_cx *cx, enum prazo_cx_fail why)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    if (a->call == NULL) { /* it has listened to our hang-up, or broken down: either way it is over */
        close_connection(a);
        finish(a, PRAZO_STAT_ATTEMPT_CUT);
        return;
    }
    switch (why) {
    case PRAZO_CX_CONNECT:
        close_connection(a);
        count_connect_failure(a);
        connect_next(a);
        break;
    case PRAZO_CX_RESET:
        if (may_replace(a)) {
            replace(a);
            break;
        }
        prazo_server_report(a->server, &a->config->eject, false, now_of(a));
        fail(a, PRAZO_STAT_ATTEMPT_RESET, PRAZO_PROBLEM_UPSTREAM_RESET);
        break;
    case PRAZO_CX_INVALID:
        fail(a, PRAZO_STAT_ATTEMPT_INVALID, PRAZO_PROBLEM_UPSTREAM_INVALID_RESPONSE);
        break;
    }
}

static void on_read_done(void *arg, struct prazo_cx *cx)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    a->last_us = now_of(a); /* a part of a head is no silence either (C009) */
    if (a->call != NULL && a->state == ATTEMPT_ANSWERING)
        prazo_call_on_read_done(a->call);
}

static void on_drained(void *arg, struct prazo_cx *cx)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    if (a->call != NULL)
        prazo_call_on_upstream_drained(a->call);
}

const struct prazo_cx_ops prazo_attempt_cx_ops = {
    .on_connected = on_connected,
    .on_informational = on_informational,
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_fail = on_fail,
    .on_read_done = on_read_done,
    .on_drained = on_drained,
};

/* ---- time ---- */

static void on_silence(struct prazo_attempt *a, int64_t now_us)
{
    int64_t due_us = a->last_us + a->config->read_timeout_us;

    if (a->is_reading_paused) /* the client is slow, not the server */
        due_us = now_us + a->config->read_timeout_us;
    if (due_us > now_us) {
        arm(a, due_us);
        return;
    }
    prazo_counter_inc(&stats_of(a)->cancelled[PRAZO_STAT_CAUSE_ATTEMPT_TIMEOUT]);
    fail(a, PRAZO_STAT_ATTEMPT_TIMEOUT, PRAZO_PROBLEM_UPSTREAM_TIMEOUT);
}

static void on_timer(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_attempt *a = PRAZO_CONTAINER(timer, struct prazo_attempt, timer);

    switch (a->state) {
    case ATTEMPT_RESOLVING:
        prazo_list_del(&a->node);
        count_connect_failure(a);
        fail(a, PRAZO_STAT_ATTEMPT_REFUSED, PRAZO_PROBLEM_UPSTREAM_UNREACHABLE);
        break;
    case ATTEMPT_CONNECTING:
        close_connection(a);
        count_connect_failure(a);
        connect_next(a);
        break;
    case ATTEMPT_SENT:
    case ATTEMPT_ANSWERING:
        on_silence(a, now_us);
        break;
    case ATTEMPT_LINGERING:
        if (a->how != PRAZO_ABANDON_FINISH)
            prazo_counter_inc(&stats_of(a)->abandon_unknown);
        close_connection(a);
        finish(a, PRAZO_STAT_ATTEMPT_CUT);
        break;
    case ATTEMPT_DONE:
        break;
    }
}

/* ---- abandonment ---- */

static bool must_linger(const struct prazo_attempt *a, enum prazo_abandon how)
{
    if (a->state == ATTEMPT_SENT)
        return prazo_cx_was_sent(a->cx);
    return a->state == ATTEMPT_ANSWERING && how == PRAZO_ABANDON_FINISH;
}

void prazo_attempt_abandon(struct prazo_attempt *a, enum prazo_abandon how, int cause)
{
    struct prazo_call *call = a->call;

    if (a->cx != NULL && prazo_attempt_is_sending(a)) {
        call->was_sent |= prazo_cx_was_sent(a->cx);
        prazo_counter_inc(&stats_of(a)->cancelled[cause]);
    }
    if (!must_linger(a, how)) {
        close_connection(a);
        finish(a, PRAZO_STAT_ATTEMPT_CUT);
        return;
    }
    if (how == PRAZO_ABANDON_DRAIN && !call->is_body_complete)
        how = PRAZO_ABANDON_CLOSE; /* a server that waits for the rest never answers */
    a->call = NULL;
    a->how = how;
    a->state = ATTEMPT_LINGERING;
    a->abandoned_us = now_of(a);
    prazo_list_push_back(&a->worker->lingering, &a->node);
    arm(a, a->abandoned_us + (how == PRAZO_ABANDON_FINISH ? a->config->finish_timeout_us
                                                          : a->config->abandon_wait_us));
    if (how == PRAZO_ABANDON_CLOSE)
        prazo_cx_hang_up(a->cx);
    prazo_attempt_resume(a);
}

size_t prazo_attempt_bytes(void)
{
    return sizeof(struct prazo_attempt);
}

bool prazo_attempt_must_complete(const struct prazo_list *node)
{
    const struct prazo_attempt *a =
        PRAZO_CONTAINER((struct prazo_list *)(uintptr_t)node, struct prazo_attempt, node);

    return a->how == PRAZO_ABANDON_FINISH;
}

void prazo_attempts_cut_all(struct prazo_worker *w)
{
    while (!prazo_list_is_empty(&w->lingering)) {
        struct prazo_attempt *a = PRAZO_CONTAINER(w->lingering.next, struct prazo_attempt, node);
        prazo_counter_inc(&stats_of(a)->abandon_unknown);
        close_connection(a);
        finish(a, PRAZO_STAT_ATTEMPT_CUT);
    }
}
