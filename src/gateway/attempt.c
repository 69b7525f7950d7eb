/* SPDX-License-Identifier: MIT */
/* One try of a call at one server. See attempt.h for the states.
 *
 * From the first byte on there is one way out, prazo__attempt_finish(), and one decision about
 * another try here: the replacement of a stale kept-alive connection. */
#include "base/assert.h"
#include "gateway/attempt_internal.h"
#include "prazo/deadline.h"

/* ---- the end ---- */

/* The one way out; the connection has been released or closed before. */
void prazo__attempt_finish(struct prazo_attempt *a, enum prazo_stat_attempt result)
{
    struct prazo_worker *w = a->worker;
    struct prazo_server_series *series = a->server != NULL ? a->server->series : NULL;

    PRAZO_ASSERT(a->state != ATTEMPT_DONE);
    a->state = ATTEMPT_DONE;
    prazo__attempt_disarm(a);
    prazo_list_del(&a->node);
    if (series != NULL && (a->is_counted || result == PRAZO_STAT_ATTEMPT_REFUSED))
        prazo_counter_inc(&series->thread[w->index]->attempts[a->kind][result]);
    if (a->is_counted) {
        prazo_gauge_add(&prazo__attempt_stats(a)->in_flight, -1);
        prazo_histogram_observe(&prazo__attempt_stats(a)->attempt_seconds[result],
                                prazo__attempt_now(a) - a->sent_us);
    }
    prazo__attempt_leave_server(a);
    prazo_worker_view_release(a->view);
    prazo_pool_put(&w->attempts, a);
}

void prazo__attempt_close(struct prazo_attempt *a)
{
    struct prazo_cx *cx = a->cx;

    a->cx = NULL;
    prazo_cx_close(cx);
}

/* Ends in failure and tells the call. */
void prazo__attempt_fail(struct prazo_attempt *a, enum prazo_stat_attempt result,
                         enum prazo_problem problem)
{
    struct prazo_call *call = a->call;

    if (a->cx != NULL)
        call->was_sent |= prazo_cx_was_sent(a->cx);
    prazo__attempt_close(a);
    prazo__attempt_finish(a, result);
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
void prazo__attempt_begin(struct prazo_attempt *a)
{
    struct prazo_call *call = a->call;
    struct prazo_upstream_stats *stats = prazo__attempt_stats(a);
    struct prazo_cx_request request = {
        .body = call->body,
        .content_length = call->content_length,
        .is_head = call->method_id == PRAZO_METHOD_HEAD,
        .upgrade = call->upgrade,
    };

    prazo__attempt_disarm(a);
    a->state = ATTEMPT_SENT;
    a->sent_us = a->last_us = prazo__attempt_now(a);
    a->is_counted = true;
    call->server_label = a->server->label;
    prazo_gauge_add(&stats->in_flight, 1);
    prazo_window_add(&stats->amplification, a->sent_us, 1, call->had_attempt ? 0 : 1);
    if (!call->had_attempt)
        prazo_counter_inc(&stats->requests);
    request.prefix =
        prazo_str_n(call->prefix.base + call->prefix_skip, call->prefix.len - call->prefix_skip);
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
    a->last_us = prazo__attempt_now(a);
    if (a->config->read_timeout_us > 0 && !a->call->is_tunnel)
        prazo__attempt_arm(a, a->last_us + a->config->read_timeout_us);
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
    a->last_us = prazo__attempt_now(a); /* the silence was ours */
    prazo_cx_resume(a->cx);
}

/* ---- the connection's events ---- */

static void on_connected(void *arg, struct prazo_cx *cx)
{
    (void)cx;
    prazo__attempt_begin(arg);
}

static void on_informational(void *arg, struct prazo_cx *cx, const struct prazo_head *head)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    a->last_us = prazo__attempt_now(a);
    if (a->call != NULL)
        (void)prazo_call_send_informational(a->call, head); /* a lost hint is no loss */
}

/* An answer for nobody. After our FIN there is no use in reading it; else the connection is good
 * for another request once it has been read. */
static void on_orphan(struct prazo_attempt *a)
{
    struct prazo_upstream_stats *stats = prazo__attempt_stats(a);

    if (a->how == PRAZO_ABANDON_FINISH)
        return;
    prazo_counter_inc(&stats->orphan_answers);
    prazo_counter_add(&stats->orphan_us, (uint64_t)(prazo__attempt_now(a) - a->abandoned_us));
    if (a->how == PRAZO_ABANDON_CLOSE) {
        prazo__attempt_close(a);
        prazo__attempt_finish(a, PRAZO_STAT_ATTEMPT_CUT);
    }
}

static void on_head(void *arg, struct prazo_cx *cx, const struct prazo_head *head)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    a->status = head->status;
    a->last_us = prazo__attempt_now(a);
    prazo_server_report(a->server, &a->config->eject, true, a->last_us);
    if (a->call == NULL) {
        on_orphan(a);
        return;
    }
    if (head->status == 101 &&
        !(head->has_upgrade && prazo_str_eq_nocase(head->upgrade, a->call->upgrade))) {
        a->call->fault = "101 for another protocol than the one asked for";
        prazo__attempt_fail(a, PRAZO_STAT_ATTEMPT_INVALID, PRAZO_PROBLEM_UPSTREAM_INVALID_RESPONSE);
        return;
    }
    a->state = ATTEMPT_ANSWERING;
    if (head->status == 101)
        prazo__attempt_disarm(a);
    prazo_call_on_head(a->call, head);
}

static void on_body(void *arg, struct prazo_cx *cx, const char *data, size_t len)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    a->last_us = prazo__attempt_now(a);
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
        prazo__attempt_finish(a, PRAZO_STAT_ATTEMPT_CUT);
        return;
    }
    prazo__attempt_finish(a, a->status >= 500 ? PRAZO_STAT_ATTEMPT_ERROR : PRAZO_STAT_ATTEMPT_OK);
    prazo_call_on_end(call, trailers, count);
}

/* The server closed a kept-alive connection just as the request went out: one new connection, at
 * once, if doing it twice would be safe or nothing was taken (contract 4, C080). */
static bool may_replace(const struct prazo_attempt *a)
{
    const struct prazo_call *call = a->call;

    return a->state == ATTEMPT_SENT && prazo_cx_is_reused(a->cx) && !prazo_cx_was_answered(a->cx) &&
           !call->was_stale && call->is_kept &&
           (call->method_class != PRAZO_METHOD_UNSAFE || !prazo_cx_was_sent(a->cx));
}

static void replace(struct prazo_attempt *a)
{
    struct prazo_call *call = a->call;
    struct prazo_server_rt *server = a->server;

    call->was_stale = true;
    call->was_sent |= prazo_cx_was_sent(a->cx);
    prazo__attempt_close(a);
    prazo__attempt_finish(a, PRAZO_STAT_ATTEMPT_RESET);
    call->attempt = NULL;
    prazo_attempt_start(call, PRAZO_STAT_KIND_STALE, server, false);
}

static void on_fail(void *arg, struct prazo_cx *cx, enum prazo_cx_fail why)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    if (a->call ==
        NULL) { /* it has listened to our hang-up, or broken down: either way it is over */
        prazo__attempt_close(a);
        prazo__attempt_finish(a, PRAZO_STAT_ATTEMPT_CUT);
        return;
    }
    switch (why) {
    case PRAZO_CX_CONNECT:
        prazo__attempt_close(a);
        prazo__attempt_count_connect_failure(a);
        prazo__attempt_connect_next(a);
        break;
    case PRAZO_CX_RESET:
        if (may_replace(a)) {
            replace(a);
            break;
        }
        prazo_server_report(a->server, &a->config->eject, false, prazo__attempt_now(a));
        prazo__attempt_fail(a, PRAZO_STAT_ATTEMPT_RESET, PRAZO_PROBLEM_UPSTREAM_RESET);
        break;
    case PRAZO_CX_INVALID:
        a->call->fault = prazo_cx_fault(cx);
        prazo__attempt_fail(a, PRAZO_STAT_ATTEMPT_INVALID, PRAZO_PROBLEM_UPSTREAM_INVALID_RESPONSE);
        break;
    }
}

static void on_read_done(void *arg, struct prazo_cx *cx)
{
    struct prazo_attempt *a = arg;

    (void)cx;
    a->last_us = prazo__attempt_now(a); /* a part of a head is no silence either (C009) */
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
        prazo__attempt_arm(a, due_us);
        return;
    }
    prazo_counter_inc(&prazo__attempt_stats(a)->cancelled[PRAZO_STAT_CAUSE_ATTEMPT_TIMEOUT]);
    prazo__attempt_fail(a, PRAZO_STAT_ATTEMPT_TIMEOUT, PRAZO_PROBLEM_UPSTREAM_TIMEOUT);
}

void prazo__attempt_on_timer(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_attempt *a = PRAZO_CONTAINER(timer, struct prazo_attempt, timer);

    switch (a->state) {
    case ATTEMPT_RESOLVING:
        prazo__attempt_on_unresolved(a);
        break;
    case ATTEMPT_CONNECTING:
        prazo__attempt_close(a);
        prazo__attempt_count_connect_failure(a);
        prazo__attempt_connect_next(a);
        break;
    case ATTEMPT_SENT:
    case ATTEMPT_ANSWERING:
        on_silence(a, now_us);
        break;
    case ATTEMPT_LINGERING:
        if (a->how != PRAZO_ABANDON_FINISH && a->status == 0)
            prazo_counter_inc(&prazo__attempt_stats(a)->abandon_unknown);
        prazo__attempt_close(a);
        prazo__attempt_finish(a, PRAZO_STAT_ATTEMPT_CUT);
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
        prazo_counter_inc(&prazo__attempt_stats(a)->cancelled[cause]);
    }
    if (!must_linger(a, how)) {
        prazo__attempt_close(a);
        prazo__attempt_finish(a, PRAZO_STAT_ATTEMPT_CUT);
        return;
    }
    if (how == PRAZO_ABANDON_DRAIN && !call->is_body_complete)
        how = PRAZO_ABANDON_CLOSE; /* a server that waits for the rest never answers */
    a->call = NULL;
    a->how = how;
    a->state = ATTEMPT_LINGERING;
    a->abandoned_us = prazo__attempt_now(a);
    prazo_list_push_back(&a->worker->lingering, &a->node);
    prazo__attempt_arm(a, a->abandoned_us + (how == PRAZO_ABANDON_FINISH
                                                 ? a->config->finish_timeout_us
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
        prazo_counter_inc(&prazo__attempt_stats(a)->abandon_unknown);
        prazo__attempt_close(a);
        prazo__attempt_finish(a, PRAZO_STAT_ATTEMPT_CUT);
    }
}
