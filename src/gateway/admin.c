/* SPDX-License-Identifier: MIT */
/* The admin and the probe port: answers what admin_plan.c decided. Everything here is read-only and
 * works from counters; nothing passes admission, so that a full gateway still says that it is full.
 *
 * Life of a call: on_request plans it. Without a body it is answered when the request is complete
 * (the connection can be used again); with one, which no page takes, at once, and the connection
 * ends. An event stream stays in `streams` until its client goes, stalls for a minute, or the
 * gateway drains. All of it on the main loop's thread. */
#include "gateway/admin.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/prng.h"
#include "core/problem.h"
#include "gateway/admin_plan.h"

#define CONNECTIONS_MAX 128 /* each port: one must not use up the other's */
#define STREAMS_MAX 16      /* dashboards; each costs a rendering's copy a second */
#define STREAM_PERIOD_US 1000000
#define STREAM_SKIPPED_MAX 60 /* a reader that took nothing for a minute is gone */
#define ARENA_BYTES_MAX 16384u
/* A route has about 9 kB of /metrics: room for thousands. */
#define ANSWER_BYTES_MAX (64u << 20)

struct admin_port {
    struct prazo_listener *listener; /* NULL: this port is not there */
    int64_t connections;
    bool is_probe;
};

struct prazo_admin {
    struct prazo_admin_options options;
    struct prazo_server *server;
    struct admin_port admin, probe;
    struct prazo_pool calls;
    struct prazo_list streams; /* admin_call.node */
    unsigned stream_count;
    struct prazo_timer tick; /* linked while there are streams */
    bool is_draining;
    struct prazo_prng prng; /* request ids */
    struct prazo_arena_pool arena_pool;
    struct prazo_arena arena; /* heads; reset after each answer */
};

struct admin_call {
    struct prazo_admin *admin;
    struct prazo_sx *sx;
    struct prazo_admin_plan plan;
    struct prazo_list node; /* in streams, or alone */
    unsigned skipped;       /* events in a row for which the client had no room */
};

/* ---- answers ---- */

static void begin_head(struct prazo_admin *admin, struct prazo_head_out *head)
{
    prazo_arena_reset(&admin->arena);
    prazo_head_out_init(head, &admin->arena, 512);
    prazo_head_out_add(head, PRAZO_STR("cache-control"), PRAZO_STR("no-store"));
    prazo_head_out_add(head, PRAZO_STR("x-content-type-options"), PRAZO_STR("nosniff"));
}

/* Every way of answering ends the call; call->sx is not valid afterwards. */
static void call_free(struct admin_call *call)
{
    struct prazo_admin *admin = call->admin;
    if (!prazo_list_is_empty(&call->node)) {
        prazo_list_del(&call->node);
        admin->stream_count--;
    }
    prazo_pool_put(&admin->calls, call);
}

static void answer(struct admin_call *call, int status, const char *content_type,
                   struct prazo_str body)
{
    struct prazo_head_out head;
    begin_head(call->admin, &head);
    prazo_sx_answer(call->sx, status, content_type, &head, body);
    call_free(call);
}

/* reason: of "overloaded", else base NULL. */
static void send_problem(struct prazo_admin *admin, struct prazo_sx *sx, enum prazo_problem problem,
                         struct prazo_str request_id, struct prazo_str reason)
{
    const struct prazo_problem_facts facts = { .method = PRAZO_METHOD_SAFE };
    struct prazo_problem_doc doc = { .problem = problem, .reason = reason };
    struct prazo_head_out head;
    struct prazo_buf body;
    char made[32];

    if (request_id.len == 0) {
        prazo_format_hex(made, prazo_prng_next(&admin->prng), 16);
        prazo_format_hex(made + 16, prazo_prng_next(&admin->prng), 16);
        request_id = prazo_str_n(made, sizeof made);
    }
    doc.request_id = request_id;
    prazo_problem_judge(problem, &facts, &doc.outcome, &doc.retry);
    begin_head(admin, &head);
    prazo_head_out_add(&head, PRAZO_STR("x-request-id"), request_id);
    if (problem == PRAZO_PROBLEM_METHOD_NOT_ALLOWED)
        prazo_head_out_add(&head, PRAZO_STR("allow"), PRAZO_STR("GET, HEAD"));
    if (prazo_problem_status(problem) == 503) {
        /* Drawn, so that those who were refused together do not come back together. */
        doc.retry_after_ms = 1000 + (int64_t)prazo_prng_below(&admin->prng, 1000);
        prazo_head_out_add(&head, PRAZO_STR("retry-after"),
                           doc.retry_after_ms > 1000 ? PRAZO_STR("2") : PRAZO_STR("1"));
    }
    prazo_buf_init(&body, ARENA_BYTES_MAX);
    (void)prazo_problem_write(&body, &doc); /* without memory: the status alone */
    prazo_sx_answer(sx, prazo_problem_status(problem), "application/problem+json", &head,
                    prazo_buf_str(&body));
    prazo_buf_done(&body);
}

static void answer_problem(struct admin_call *call, enum prazo_problem problem,
                           struct prazo_str reason)
{
    send_problem(call->admin, call->sx, problem,
                 prazo_str_n(call->plan.request_id, call->plan.request_id_len), reason);
    call_free(call);
}

static void answer_forbidden(struct admin_call *call)
{
    answer(call, 403, "application/problem+json",
           PRAZO_STR("{\"type\":\"about:blank\",\"title\":\"Forbidden\",\"status\":403,"
                     "\"detail\":\"Cross-site request. Use this port by IP address or as "
                     "localhost, and not from another site's page.\"}"));
}

static int64_t now_of(const struct prazo_admin *admin)
{
    return prazo_loop_now_us(admin->options.loop);
}

static int write_state(struct prazo_admin *admin, struct prazo_buf *to)
{
    const struct prazo_admin_options *o = &admin->options;
    return prazo_stats_write_state(o->stats, o->name(o->arg), o->is_ready(o->arg), now_of(admin),
                                   to);
}

static void answer_metrics(struct admin_call *call)
{
    const bool is_open = call->plan.is_open_metrics;
    struct prazo_buf body;
    prazo_buf_init(&body, ANSWER_BYTES_MAX);
    if (prazo_stats_write_metrics(call->admin->options.stats, is_open, now_of(call->admin),
                                  &body) == PRAZO_OK)
        answer(call, 200,
               is_open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                       : "text/plain; version=0.0.4; charset=utf-8",
               prazo_buf_str(&body));
    else
        answer_problem(call, PRAZO_PROBLEM_INTERNAL, prazo_str_n(NULL, 0));
    prazo_buf_done(&body);
}

static void answer_state(struct admin_call *call)
{
    struct prazo_buf body;
    prazo_buf_init(&body, ANSWER_BYTES_MAX);
    if (write_state(call->admin, &body) == PRAZO_OK)
        answer(call, 200, "application/json", prazo_buf_str(&body));
    else
        answer_problem(call, PRAZO_PROBLEM_INTERNAL, prazo_str_n(NULL, 0));
    prazo_buf_done(&body);
}

static void answer_problems(struct admin_call *call)
{
    struct prazo_buf body;
    int err = PRAZO_OK;
    prazo_buf_init(&body, ARENA_BYTES_MAX);
    for (int p = PRAZO_PROBLEM_NONE + 1; p < PRAZO_PROBLEM_COUNT && err == PRAZO_OK; p++) {
        const enum prazo_problem problem = (enum prazo_problem)p;
        err = prazo_buf_addf(&body, "/problems/%-26s %d  %s\n", prazo_problem_name(problem),
                             prazo_problem_status(problem), prazo_problem_title(problem));
    }
    if (err == PRAZO_OK)
        answer(call, 200, "text/plain; charset=utf-8", prazo_buf_str(&body));
    else
        answer_problem(call, PRAZO_PROBLEM_INTERNAL, prazo_str_n(NULL, 0));
    prazo_buf_done(&body);
}

/* ---- event streams ---- */

static int write_event(struct prazo_admin *admin, struct prazo_buf *to)
{
    int err = prazo_buf_add_z(to, "data: ");
    if (err == PRAZO_OK)
        err = write_state(admin, to); /* one line: JSON strings hold no raw newline */
    if (err == PRAZO_OK)
        err = prazo_buf_add_z(to, "\n\n");
    return err;
}

static void stream_abort(struct admin_call *call)
{
    prazo_sx_abort(call->sx);
    call_free(call);
}

/* A reader that is behind misses this event and gets a later one: events are whole pictures, and a
 * queue of old ones would help nobody. */
static void stream_send(struct admin_call *call, struct prazo_str event)
{
    if (prazo_sx_pending(call->sx) > 0) {
        if (++call->skipped >= STREAM_SKIPPED_MAX)
            stream_abort(call);
        return;
    }
    call->skipped = 0;
    prazo_sx_send_body(call->sx, event.base, event.len);
    prazo_sx_flush(call->sx);
}

static void on_tick(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_admin *admin = PRAZO_CONTAINER(timer, struct prazo_admin, tick);
    struct prazo_list *node = admin->streams.next;
    struct prazo_buf event;
    prazo_buf_init(&event, ANSWER_BYTES_MAX);
    if (write_event(admin, &event) == PRAZO_OK) {
        while (node != &admin->streams) {
            struct admin_call *call = PRAZO_CONTAINER(node, struct admin_call, node);
            node = node->next; /* before stream_send() may free it */
            stream_send(call, prazo_buf_str(&event));
        }
    }
    prazo_buf_done(&event);
    if (admin->stream_count > 0)
        prazo_timers_link_at(prazo_loop_timers(admin->options.loop), timer,
                             now_us + STREAM_PERIOD_US);
}

static void answer_stream(struct admin_call *call)
{
    struct prazo_admin *admin = call->admin;
    struct prazo_head_out head;
    struct prazo_buf event;

    if (admin->is_draining) {
        answer_problem(call, PRAZO_PROBLEM_DRAINING, prazo_str_n(NULL, 0));
        return;
    }
    if (admin->stream_count == STREAMS_MAX) {
        answer_problem(call, PRAZO_PROBLEM_OVERLOADED, PRAZO_STR("limit"));
        return;
    }
    prazo_buf_init(&event, ANSWER_BYTES_MAX);
    begin_head(admin, &head);
    prazo_head_out_add(&head, PRAZO_STR("content-type"), PRAZO_STR("text/event-stream"));
    if (prazo_sx_send_head(call->sx, 200, prazo_str_n(NULL, 0), &head, -1, !call->plan.is_head) !=
            PRAZO_OK ||
        write_event(admin, &event) != PRAZO_OK) {
        stream_abort(call);
    } else if (call->plan.is_head) {
        prazo_sx_finish(call->sx);
        call_free(call);
    } else {
        prazo_list_push_back(&admin->streams, &call->node);
        admin->stream_count++;
        /* With the flush now: the head lies in the arena of the next answer. */
        prazo_sx_send_body(call->sx, event.base, event.len);
        prazo_sx_flush(call->sx);
        if (!prazo_timer_is_linked(&admin->tick))
            prazo_timers_link_at(prazo_loop_timers(admin->options.loop), &admin->tick,
                                 now_of(admin) + STREAM_PERIOD_US);
    }
    prazo_buf_done(&event);
}

/* ---- calls ---- */

static void answer_call(struct admin_call *call)
{
    const struct prazo_admin_options *o = &call->admin->options;
    switch (call->plan.page) {
    case ADMIN_HEALTHZ:
        if (o->is_healthy(o->arg))
            answer(call, 200, "text/plain", PRAZO_STR("ok\n"));
        else
            answer(call, 503, "text/plain", PRAZO_STR("an event loop has stopped turning\n"));
        return;
    case ADMIN_READYZ:
        if (o->is_ready(o->arg))
            answer(call, 200, "text/plain", PRAZO_STR("ready\n"));
        else
            answer(call, 503, "text/plain", PRAZO_STR("not ready\n"));
        return;
    case ADMIN_METRICS:
        answer_metrics(call);
        return;
    case ADMIN_STATE:
        answer_state(call);
        return;
    case ADMIN_STREAM:
        answer_stream(call);
        return;
    case ADMIN_PROBLEMS:
        answer_problems(call);
        return;
    case ADMIN_PROBLEM:
        /* Markdown; as plain text a browser shows it instead of saving it. */
        answer(call, 200, "text/plain; charset=utf-8", call->plan.section);
        return;
    case ADMIN_FORBIDDEN:
        answer_forbidden(call);
        return;
    case ADMIN_NO_ROUTE:
        answer_problem(call, PRAZO_PROBLEM_NO_ROUTE, prazo_str_n(NULL, 0));
        return;
    case ADMIN_METHOD_NOT_ALLOWED:
        answer_problem(call, PRAZO_PROBLEM_METHOD_NOT_ALLOWED, prazo_str_n(NULL, 0));
        return;
    }
    PRAZO_UNREACHABLE();
}

static void *on_request(void *arg, struct prazo_sx *sx, const struct prazo_head *head)
{
    struct prazo_admin *admin = arg;
    const struct admin_port *port = prazo_sx_listener_arg(sx);
    struct admin_call *call = prazo_pool_get(&admin->calls);
    if (!call) {
        prazo_sx_close_after(sx);
        send_problem(admin, sx, PRAZO_PROBLEM_INTERNAL, prazo_str_n(NULL, 0), prazo_str_n(NULL, 0));
        return NULL;
    }
    call->admin = admin;
    call->sx = sx;
    prazo_list_init(&call->node);
    prazo_admin_plan(head, port->is_probe, &call->plan);
    const bool has_body = head->body == PRAZO_BODY_CHUNKED ||
                          (head->body == PRAZO_BODY_LENGTH && head->content_length > 0);
    if (!has_body)
        return call;
    prazo_sx_close_after(sx);
    answer_call(call);
    return NULL;
}

static void on_body(void *arg, struct prazo_sx *sx, const char *data, size_t len)
{
    /* A call with a body was answered before it. */
    (void)arg, (void)sx, (void)data, (void)len;
}

static void on_body_end(void *arg, struct prazo_sx *sx, const struct prazo_header *trailers,
                        size_t count)
{
    (void)sx, (void)trailers, (void)count;
    if (arg)
        answer_call(arg);
}

static void on_gone(void *arg, struct prazo_sx *sx, enum prazo_gone why)
{
    (void)sx, (void)why;
    if (arg)
        stream_abort(arg);
}

static void on_read_done(void *arg, struct prazo_sx *sx)
{
    (void)arg, (void)sx; /* nothing is left to flush: answers end with it */
}

static void on_drained(void *arg, struct prazo_sx *sx)
{
    (void)arg, (void)sx; /* the next tick sees it */
}

static void on_bad_request(void *arg, struct prazo_sx *sx, int problem)
{
    send_problem(arg, sx, (enum prazo_problem)problem, prazo_str_n(NULL, 0), prazo_str_n(NULL, 0));
}

static const struct prazo_sx_ops ops = {
    .on_request = on_request,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_gone = on_gone,
    .on_read_done = on_read_done,
    .on_drained = on_drained,
    .on_bad_request = on_bad_request,
};

/* ---- life ---- */

static int port_open(struct prazo_admin *admin, struct admin_port *port, int fd)
{
    const struct prazo_listener_options options = {
        .fd = fd,
        .listener_arg = port,
        .connections = &port->connections,
        .connections_limit = CONNECTIONS_MAX,
    };
    if (fd < 0)
        return PRAZO_OK;
    return prazo_server_listen(admin->server, &options, &port->listener);
}

int prazo_admin_new(const struct prazo_admin_options *options, struct prazo_admin **ret_admin)
{
    const struct prazo_server_limits limits = {
        .head_bytes = 32768,
        .uri_bytes = 8192,
        .body_bytes = 65536, /* no page takes one; it is discarded */
        .header_time_us = 10000000,
        .idle_us = 75000000, /* longer than any usual scrape interval */
    };
    struct prazo_server_options server = { .ops = &ops, .limits = limits };
    struct prazo_admin *admin = prazo_mem_calloc(1, sizeof *admin);
    if (!admin)
        return PRAZO_E_NOMEM;
    admin->options = *options;
    admin->probe.is_probe = true;
    admin->tick.cb = on_tick;
    prazo_list_init(&admin->streams);
    prazo_prng_seed_random(&admin->prng);
    prazo_pool_init(&admin->calls, sizeof(struct admin_call), 16, (size_t)2 * CONNECTIONS_MAX);
    prazo_arena_pool_init(&admin->arena_pool, 1);
    prazo_arena_init(&admin->arena, &admin->arena_pool, ARENA_BYTES_MAX);
    server.arg = admin;
    server.connections_max = (size_t)2 * CONNECTIONS_MAX;
    server.pending_bytes_max = ANSWER_BYTES_MAX;
    int err = prazo_server_new(options->loop, &server, &admin->server);
    if (err == PRAZO_OK)
        err = port_open(admin, &admin->admin, options->admin_fd);
    if (err == PRAZO_OK)
        err = port_open(admin, &admin->probe, options->probe_fd);
    if (err != PRAZO_OK) {
        prazo_admin_free(admin);
        return err;
    }
    *ret_admin = admin;
    return PRAZO_OK;
}

void prazo_admin_drain(struct prazo_admin *admin)
{
    admin->is_draining = true;
    prazo_server_drain(admin->server);
    while (!prazo_list_is_empty(&admin->streams)) {
        struct admin_call *call = PRAZO_CONTAINER(admin->streams.next, struct admin_call, node);
        struct prazo_sx *sx = call->sx;
        call_free(call);
        prazo_sx_send_end(sx, NULL, 0);
        prazo_sx_finish(sx);
    }
    prazo_timers_unlink(prazo_loop_timers(admin->options.loop), &admin->tick);
    /* Idle connections stay: one of them may be a probe that is about to ask, and is to be told. */
}

void prazo_admin_free(struct prazo_admin *admin)
{
    if (!admin)
        return;
    while (!prazo_list_is_empty(&admin->streams))
        stream_abort(PRAZO_CONTAINER(admin->streams.next, struct admin_call, node));
    prazo_timers_unlink(prazo_loop_timers(admin->options.loop), &admin->tick);
    prazo_listener_close(admin->admin.listener);
    prazo_listener_close(admin->probe.listener);
    prazo_server_free(admin->server);
    prazo_arena_reset(&admin->arena);
    prazo_arena_pool_done(&admin->arena_pool);
    prazo_pool_done(&admin->calls);
    prazo_mem_free(admin);
}
