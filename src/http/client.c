/* SPDX-License-Identifier: MIT */
/* Client side of HTTP/1.1 and the pools of idle connections.
 *
 * States of a connection (struct prazo_cx), all moves in set_state():
 *   CX_CONNECTING  on_connected or on_fail will come
 *   CX_READY       carries an exchange: sending, waiting, receiving
 *   CX_ENDED       on_end or on_fail was called: only release or close may follow
 *   CX_IDLE        in its pool, newest first; any byte or a FIN ends it
 *   CX_CLOSED      on the reap list, freed at the end of the turn
 *
 * An idle connection is retired after the pool's idle time, or a second before the server's
 * announced `Keep-Alive: timeout`, whichever is sooner (C081): a request is never sent into a
 * connection that the server is about to close, as far as one can know. */
#include "base/assert.h"
#include "base/counter.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/pool.h"
#include "http/client.h"
#include "http/h1.h"
#include "http/out.h"

#define INFORMATIONAL_MAX 16 /* interim answers to one request; more is a server gone wrong */
#define READ_STEP_BYTES 16384u
#define PENDING_SLACK 262144u
#define KEEP_ALIVE_MARGIN_US 1000000 /* before the announced end, for what is on its way */

enum cx_state { CX_CONNECTING = 0, CX_READY, CX_ENDED, CX_IDLE, CX_CLOSED };

struct prazo_client_pool {
    struct prazo_client *client;
    struct prazo_client_pool_options options;
    struct prazo_list idle;  /* newest first */
    size_t idle_count;
    size_t in_use;
    struct prazo_timer timer; /* retires idle connections */
    bool is_closed;           /* freed with its last connection */
};

struct prazo_cx {
    struct prazo_client *client;
    struct prazo_client_pool *pool;
    struct prazo_stream *stream;
    struct prazo_list node; /* pool->idle, client->busy or client->reap */
    struct prazo_buf in;
    struct prazo_out out;
    struct prazo_h1_body body;
    size_t scan;
    void *owner;
    int64_t idle_until_us;
    int64_t keep_alive_us; /* announced by the server; 0: nothing */
    uint8_t state;
    uint8_t request_body; /* enum prazo_body_kind of what is sent */
    uint8_t informational;
    bool is_reused;
    bool is_head;
    bool asks_upgrade;
    bool is_request_done;
    bool is_answering;    /* the final head was seen */
    bool is_keep_alive;
    bool is_paused;
    bool has_hangup;
    bool is_tunnel;
    bool is_hung_up; /* we sent FIN */
    bool was_sent;
    bool was_answered;
    bool in_event;
    bool is_released; /* release() inside the event: to be done at its end */
    bool must_drain_told;
    bool owes_fin;
};

struct prazo_client {
    struct prazo_loop *loop;
    struct prazo_client_options options;
    struct prazo_pool pool;
    struct prazo_list busy, reap;
    struct prazo_header headers[PRAZO_HEADERS_MAX];
};

static void on_event(void *arg, unsigned events);

/* The only writer of cx->state. */
static void set_state(struct prazo_cx *cx, enum cx_state next)
{
    PRAZO_ASSERT(cx->state != CX_CLOSED);
    cx->state = (uint8_t)next;
}

static void free_pool_if_done(struct prazo_client_pool *pool)
{
    if (pool->is_closed && pool->in_use == 0 && pool->idle_count == 0)
        prazo_mem_free(pool);
}

static void enter_use(struct prazo_client_pool *pool)
{
    pool->in_use++;
    if (pool->options.active_gauge != NULL)
        prazo_gauge_add(pool->options.active_gauge, 1);
}

static void leave_use(struct prazo_client_pool *pool)
{
    pool->in_use--;
    if (pool->options.active_gauge != NULL)
        prazo_gauge_add(pool->options.active_gauge, -1);
}

static void leave_idle(struct prazo_cx *cx)
{
    struct prazo_client_pool *pool = cx->pool;

    prazo_list_del(&cx->node);
    pool->idle_count--;
    if (pool->options.idle_gauge != NULL)
        prazo_gauge_add(pool->options.idle_gauge, -1);
}

static void close_cx(struct prazo_cx *cx)
{
    struct prazo_client *client = cx->client;
    struct prazo_client_pool *pool = cx->pool;
    bool was_idle = cx->state == CX_IDLE;

    if (was_idle) {
        leave_idle(cx);
    } else {
        prazo_list_del(&cx->node);
        leave_use(pool);
    }
    set_state(cx, CX_CLOSED);
    prazo_stream_close(cx->stream, false);
    cx->stream = NULL;
    prazo_out_done(&cx->out);
    prazo_buf_done(&cx->in);
    prazo_list_push_back(&client->reap, &cx->node);
    if (pool->options.on_closed != NULL)
        pool->options.on_closed(pool->options.arg);
    free_pool_if_done(pool);
}

static void on_turn_end(void *arg)
{
    struct prazo_client *client = arg;

    while (!prazo_list_is_empty(&client->reap)) {
        struct prazo_list *node = client->reap.next;
        prazo_list_del(node);
        prazo_pool_put(&client->pool, PRAZO_CONTAINER(node, struct prazo_cx, node));
    }
}

/* ---- reading ---- */

static void fail(struct prazo_cx *cx, enum prazo_cx_fail why)
{
    if (cx->state != CX_CONNECTING && cx->state != CX_READY)
        return;
    set_state(cx, CX_ENDED);
    cx->is_keep_alive = false;
    prazo_stream_watch(cx->stream, 0);
    cx->client->options.ops->on_fail(cx->owner, cx, why);
}

static void read_keep_alive(struct prazo_cx *cx, const struct prazo_head *head)
{
    const struct prazo_header *h = prazo_head_get(head, PRAZO_HDR_KEEP_ALIVE);
    struct prazo_str rest, item;
    int64_t seconds;

    cx->keep_alive_us = 0;
    if (h == NULL)
        return;
    rest = h->value;
    while (prazo_str_next_item(&rest, &item)) {
        if (!prazo_str_has_prefix(item, PRAZO_STR("timeout=")) ||
            prazo_str_to_i64(prazo_str_n(item.base + 8, item.len - 8), &seconds) != PRAZO_OK)
            continue;
        if (seconds < 1) {
            cx->is_keep_alive = false;
        } else if (seconds < 86400) {
            int64_t us = seconds * 1000000;
            cx->keep_alive_us = us > 2 * KEEP_ALIVE_MARGIN_US ? us - KEEP_ALIVE_MARGIN_US : us / 2;
        }
    }
}

static void on_final_head(struct prazo_cx *cx, const struct prazo_head *head)
{
    cx->is_answering = true;
    cx->is_keep_alive = head->is_keep_alive;
    read_keep_alive(cx, head);
    prazo_h1_body_init(&cx->body, head->body, head->content_length,
                       cx->client->options.head_bytes_max);
    if (head->status == 101) {
        cx->is_tunnel = true;
        cx->is_keep_alive = false;
    }
    cx->client->options.ops->on_head(cx->owner, cx, head);
}

/* A head at the beginning of data. Returns the bytes used: 0 while it is incomplete. */
static size_t take_head(struct prazo_cx *cx, char *data, size_t len)
{
    struct prazo_client *client = cx->client;
    struct prazo_head head;
    size_t end = prazo_h1_head_end(data, len, &cx->scan);

    cx->was_answered = true;
    if ((end > 0 ? end : len) > client->options.head_bytes_max ||
        (end == 0 && len >= 5 && memcmp(data, "HTTP/", 5) != 0)) {
        fail(cx, PRAZO_CX_INVALID);
        return len;
    }
    if (end == 0)
        return 0;
    cx->scan = 0;
    if (prazo_h1_parse_response(data, end, cx->is_head, client->headers, &head) != PRAZO_OK ||
        (head.status == 101 && !cx->asks_upgrade) ||
        (head.status < 200 && head.status != 101 && ++cx->informational > INFORMATIONAL_MAX)) {
        fail(cx, PRAZO_CX_INVALID);
        return len;
    }
    if (head.status < 200 && head.status != 101)
        client->options.ops->on_informational(cx->owner, cx, &head);
    else
        on_final_head(cx, &head);
    return end;
}

static void end_exchange(struct prazo_cx *cx, const struct prazo_header *trailers, size_t count)
{
    set_state(cx, CX_ENDED);
    cx->client->options.ops->on_end(cx->owner, cx, trailers, count);
}

/* One step of the answer's body. *ret_more: call again. */
static size_t take_body(struct prazo_cx *cx, char *data, size_t len, bool *ret_more)
{
    const struct prazo_cx_ops *ops = cx->client->options.ops;
    struct prazo_h1_piece piece;

    if (cx->is_tunnel) {
        if (len > 0)
            ops->on_body(cx->owner, cx, data, len);
        return len;
    }
    *ret_more = true;
    switch (prazo_h1_body_next(&cx->body, data, len, cx->client->headers, &piece)) {
    case PRAZO_H1_MORE:
        *ret_more = false;
        break;
    case PRAZO_H1_DATA:
        ops->on_body(cx->owner, cx, piece.data.base, piece.data.len);
        break;
    case PRAZO_H1_END:
        if (piece.consumed < len)
            cx->is_keep_alive = false; /* bytes that nobody asked for */
        end_exchange(cx, piece.trailers, piece.trailer_count);
        break;
    case PRAZO_H1_BAD:
        fail(cx, PRAZO_CX_INVALID);
        return len;
    }
    return piece.consumed;
}

static size_t consume(struct prazo_cx *cx, char *data, size_t len)
{
    size_t at = 0;

    while (cx->state == CX_READY && !cx->is_paused) {
        bool more = false;
        size_t n;

        if (!cx->is_answering) {
            if (at == len || (n = take_head(cx, data + at, len - at)) == 0)
                return at;
        } else {
            n = take_body(cx, data + at, len - at, &more);
            if (n == 0 && !more)
                return at;
        }
        at += n;
    }
    return cx->state == CX_READY ? at : len;
}

static void watch(struct prazo_cx *cx)
{
    unsigned events = prazo_stream_watched(cx->stream) & (unsigned)PRAZO_STREAM_WRITABLE;

    if (!cx->has_hangup)
        events |= PRAZO_STREAM_HANGUP;
    if (!cx->has_hangup && !cx->is_paused)
        events |= PRAZO_STREAM_READABLE;
    prazo_stream_watch(cx->stream, events);
}

static void use_remainder(struct prazo_cx *cx)
{
    size_t used = consume(cx, cx->in.base, cx->in.len);

    if (cx->state != CX_READY)
        return;
    prazo_buf_consume(&cx->in, used);
    if (cx->in.len == 0)
        prazo_buf_done(&cx->in);
}

/* The server has finished sending, or the connection is lost. */
static void on_stream_end(struct prazo_cx *cx, bool is_reset)
{
    cx->has_hangup = true;
    cx->is_keep_alive = false;
    if (cx->state != CX_READY || cx->in.len > 0)
        return; /* what is unread comes first: resume() leads back here */
    if (cx->is_answering && !is_reset && (cx->is_tunnel || prazo_h1_body_eof(&cx->body)))
        end_exchange(cx, NULL, 0);
    else
        fail(cx, PRAZO_CX_RESET);
}

/* Reads once. False when there is nothing more to read now. */
static bool read_some(struct prazo_cx *cx)
{
    char *to = prazo_loop_read_buffer(cx->client->loop);
    size_t room = PRAZO_READ_BUFFER_BYTES;

    if (cx->in.len > 0) {
        if (prazo_buf_reserve(&cx->in, READ_STEP_BYTES) != PRAZO_OK) {
            fail(cx, PRAZO_CX_RESET);
            return false;
        }
        to = cx->in.base + cx->in.len;
        room = READ_STEP_BYTES;
    }
    ssize_t n = prazo_stream_read(cx->stream, to, room);
    if (n == PRAZO_E_AGAIN)
        return false;
    if (n < 0) {
        on_stream_end(cx, n != PRAZO_E_EOF);
        return false;
    }
    if (cx->in.len > 0) {
        cx->in.len += (size_t)n;
        use_remainder(cx);
        return true;
    }
    size_t used = consume(cx, to, (size_t)n);
    if (cx->state == CX_READY && used < (size_t)n &&
        prazo_buf_add(&cx->in, to + used, (size_t)n - used) != PRAZO_OK)
        fail(cx, PRAZO_CX_RESET);
    return true;
}

static void on_connect_event(struct prazo_cx *cx)
{
    int err = prazo_stream_connect_result(cx->stream);

    if (err == PRAZO_E_AGAIN)
        return;
    if (err != PRAZO_OK) {
        fail(cx, PRAZO_CX_CONNECT);
        return;
    }
    set_state(cx, CX_READY);
    prazo_stream_watch(cx->stream, PRAZO_STREAM_READABLE | PRAZO_STREAM_HANGUP);
    cx->client->options.ops->on_connected(cx->owner, cx);
}

/* Back to the pool, or closed; outside of any event of this connection. */
static void put_back(struct prazo_cx *cx)
{
    struct prazo_client_pool *pool = cx->pool;
    int64_t now_us = prazo_loop_now_us(cx->client->loop);
    int64_t stay_us = pool->options.idle_timeout_us;

    if (cx->keep_alive_us > 0 && cx->keep_alive_us < stay_us)
        stay_us = cx->keep_alive_us;
    if (cx->state != CX_ENDED || !cx->is_keep_alive || !cx->is_request_done || cx->is_hung_up ||
        cx->out.is_broken || cx->out.pending.len > 0 || pool->is_closed ||
        pool->options.idle_max == 0) {
        close_cx(cx);
        return;
    }
    if (pool->idle_count >= pool->options.idle_max)
        (void)prazo_client_pool_close_one(pool);
    cx->owner = NULL;
    prazo_buf_done(&cx->in);
    prazo_list_del(&cx->node);
    leave_use(pool);
    set_state(cx, CX_IDLE);
    cx->idle_until_us = now_us + stay_us;
    prazo_list_push_front(&pool->idle, &cx->node);
    pool->idle_count++;
    if (pool->options.idle_gauge != NULL)
        prazo_gauge_add(pool->options.idle_gauge, 1);
    if (!prazo_timer_is_linked(&pool->timer) || pool->timer.at_us > cx->idle_until_us)
        prazo_timers_link_at(prazo_loop_timers(cx->client->loop), &pool->timer, cx->idle_until_us);
    watch(cx);
    if (pool->options.on_idle != NULL)
        pool->options.on_idle(pool->options.arg);
}

static void on_event(void *arg, unsigned events)
{
    struct prazo_cx *cx = arg;
    const struct prazo_cx_ops *ops = cx->client->options.ops;

    if (cx->state == CX_IDLE) { /* whatever it is, nobody asked for it */
        close_cx(cx);
        return;
    }
    cx->in_event = true;
    if (cx->state == CX_CONNECTING) {
        on_connect_event(cx);
    } else {
        if (events & PRAZO_STREAM_WRITABLE && prazo_out_on_writable(&cx->out, cx->stream)) {
            if (cx->owes_fin)
                prazo_stream_shutdown(cx->stream);
            cx->owes_fin = false;
            if (cx->must_drain_told && cx->state == CX_READY) {
                cx->must_drain_told = false;
                ops->on_drained(cx->owner, cx);
            }
        }
        if (cx->state == CX_READY && events & (PRAZO_STREAM_READABLE | PRAZO_STREAM_HANGUP)) {
            /* while reading is paused a hang-up waits until what is unread was wanted */
            if (!cx->is_paused)
                (void)read_some(cx);
            else
                prazo_stream_watch(cx->stream, prazo_stream_watched(cx->stream) &
                                                   (unsigned)PRAZO_STREAM_WRITABLE);
        }
        if (cx->state == CX_READY && !cx->is_paused)
            watch(cx);
    }
    if (cx->state != CX_CLOSED && !cx->is_released)
        ops->on_read_done(cx->owner, cx);
    cx->in_event = false;
    if (cx->is_released && cx->state != CX_CLOSED)
        put_back(cx);
}

/* ---- pools ---- */

static void on_idle_timer(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_client_pool *pool = PRAZO_CONTAINER(timer, struct prazo_client_pool, timer);
    struct prazo_list *node = pool->idle.next;
    int64_t next_us = PRAZO_NEVER;

    while (node != &pool->idle) {
        struct prazo_cx *cx = PRAZO_CONTAINER(node, struct prazo_cx, node);
        node = node->next;
        if (cx->idle_until_us <= now_us)
            close_cx(cx);
        else if (cx->idle_until_us < next_us)
            next_us = cx->idle_until_us;
    }
    prazo_timers_link_at(prazo_loop_timers(pool->client->loop), timer, next_us);
}

int prazo_client_pool_new(struct prazo_client *client,
                          const struct prazo_client_pool_options *options,
                          struct prazo_client_pool **ret_pool)
{
    struct prazo_client_pool *pool = prazo_mem_calloc(1, sizeof *pool);

    if (pool == NULL)
        return PRAZO_E_NOMEM;
    pool->client = client;
    pool->options = *options;
    pool->timer.cb = on_idle_timer;
    prazo_list_init(&pool->idle);
    *ret_pool = pool;
    return PRAZO_OK;
}

void prazo_client_pool_close(struct prazo_client_pool *pool)
{
    if (pool == NULL)
        return;
    prazo_timers_unlink(prazo_loop_timers(pool->client->loop), &pool->timer);
    while (prazo_client_pool_close_one(pool))
        ;
    pool->is_closed = true;
    free_pool_if_done(pool);
}

void prazo_client_pool_set_limits(struct prazo_client_pool *pool, size_t idle_max,
                                  int64_t idle_timeout_us)
{
    pool->options.idle_max = idle_max;
    pool->options.idle_timeout_us = idle_timeout_us;
}

size_t prazo_client_pool_idle(const struct prazo_client_pool *pool)
{
    return pool->idle_count;
}

bool prazo_client_pool_close_one(struct prazo_client_pool *pool)
{
    if (pool->idle_count == 0)
        return false;
    close_cx(PRAZO_CONTAINER(pool->idle.prev, struct prazo_cx, node));
    return true;
}

/* Everything of an exchange back to its beginning; what belongs to the connection stays. */
static void begin(struct prazo_cx *cx, void *arg)
{
    cx->owner = arg;
    cx->scan = 0;
    cx->informational = 0;
    cx->is_head = cx->asks_upgrade = cx->is_request_done = cx->is_answering = false;
    cx->is_keep_alive = cx->is_paused = cx->is_tunnel = cx->is_hung_up = false;
    cx->was_sent = cx->was_answered = cx->is_released = cx->must_drain_told = false;
    cx->owes_fin = false;
}

struct prazo_cx *prazo_client_take(struct prazo_client_pool *pool, void *arg)
{
    int64_t now_us = prazo_loop_now_us(pool->client->loop);

    while (pool->idle_count > 0) {
        struct prazo_cx *cx = PRAZO_CONTAINER(pool->idle.next, struct prazo_cx, node);
        if (cx->idle_until_us <= now_us) {
            close_cx(cx);
            continue;
        }
        leave_idle(cx);
        prazo_list_push_back(&pool->client->busy, &cx->node);
        enter_use(pool);
        set_state(cx, CX_READY);
        begin(cx, arg);
        cx->is_reused = true;
        return cx;
    }
    return NULL;
}

int prazo_client_connect(struct prazo_client_pool *pool, const struct prazo_addr *addr, void *arg,
                         struct prazo_cx **ret_cx)
{
    struct prazo_client *client = pool->client;
    struct prazo_cx *cx = prazo_pool_get(&client->pool);

    if (cx == NULL)
        return PRAZO_E_NOMEM;
    int err = prazo_stream_connect(client->loop, addr, on_event, cx, &cx->stream);
    if (err != PRAZO_OK) {
        prazo_pool_put(&client->pool, cx);
        return err;
    }
    cx->client = client;
    cx->pool = pool;
    prazo_buf_init(&cx->in, client->options.head_bytes_max + 2 * PRAZO_READ_BUFFER_BYTES);
    prazo_out_init(&cx->out, client->options.pending_bytes_max + PENDING_SLACK);
    begin(cx, arg);
    prazo_list_push_back(&client->busy, &cx->node);
    enter_use(pool);
    prazo_stream_watch(cx->stream, PRAZO_STREAM_WRITABLE | PRAZO_STREAM_HANGUP);
    *ret_cx = cx;
    return PRAZO_OK;
}

/* ---- sending ---- */

void prazo_cx_send_head(struct prazo_cx *cx, const struct prazo_cx_request *request)
{
    PRAZO_ASSERT(cx->state == CX_READY);
    cx->is_head = request->is_head;
    cx->request_body = (uint8_t)request->body;
    cx->asks_upgrade = request->upgrade.base != NULL;
    prazo_out_add(&cx->out, cx->stream, request->prefix.base, request->prefix.len);
    prazo_out_add(&cx->out, cx->stream, request->tail.base, request->tail.len);
    if (cx->asks_upgrade) {
        prazo_out_add(&cx->out, cx->stream, "connection: upgrade\r\nupgrade: ", 30);
        prazo_out_add(&cx->out, cx->stream, request->upgrade.base, request->upgrade.len);
        prazo_out_add(&cx->out, cx->stream, "\r\n", 2);
    }
    if (request->body == PRAZO_BODY_CHUNKED) {
        prazo_out_add(&cx->out, cx->stream, "transfer-encoding: chunked\r\n\r\n", 30);
    } else if (request->body == PRAZO_BODY_LENGTH) {
        char *line = cx->out.scratch + cx->out.scratch_used;
        size_t len = 16;
        PRAZO_ASSERT(cx->out.scratch_used + 40 <= PRAZO_OUT_SCRATCH);
        memcpy(line, "content-length: ", 16);
        len += prazo_format_i64(line + len, request->content_length);
        memcpy(line + len, "\r\n\r\n", 4);
        cx->out.scratch_used += (unsigned)len + 4;
        prazo_out_add(&cx->out, cx->stream, line, len + 4);
    } else {
        prazo_out_add(&cx->out, cx->stream, "\r\n", 2);
    }
}

void prazo_cx_send_body(struct prazo_cx *cx, const char *data, size_t len)
{
    if (len == 0 || cx->state != CX_READY)
        return;
    if (cx->request_body == PRAZO_BODY_CHUNKED && !cx->is_tunnel)
        prazo_out_add_chunk(&cx->out, cx->stream, data, len);
    else
        prazo_out_add(&cx->out, cx->stream, data, len);
}

void prazo_cx_send_end(struct prazo_cx *cx, const struct prazo_header *trailers, size_t count)
{
    if (cx->state != CX_READY)
        return;
    cx->is_request_done = true;
    if (cx->is_tunnel) {
        prazo_cx_flush(cx);
        if (cx->out.pending.len == 0 && !cx->out.is_broken)
            prazo_stream_shutdown(cx->stream);
        else
            cx->owes_fin = true;
    } else if (cx->request_body == PRAZO_BODY_CHUNKED) {
        prazo_out_add_last_chunk(&cx->out, cx->stream, trailers, count);
    }
}

void prazo_cx_flush(struct prazo_cx *cx)
{
    if (cx->state != CX_READY)
        return;
    bool has_more = cx->out.count > 0;
    if (!prazo_out_flush(&cx->out, cx->stream))
        cx->must_drain_told = true;
    if (has_more && !cx->out.is_broken)
        cx->was_sent = true;
}

size_t prazo_cx_pending(const struct prazo_cx *cx)
{
    return cx->out.pending.len;
}

bool prazo_cx_was_sent(const struct prazo_cx *cx)
{
    return cx->was_sent;
}

bool prazo_cx_was_answered(const struct prazo_cx *cx)
{
    return cx->was_answered;
}

bool prazo_cx_is_reused(const struct prazo_cx *cx)
{
    return cx->is_reused;
}

void prazo_cx_pause(struct prazo_cx *cx)
{
    cx->is_paused = true;
    if (!cx->in_event && cx->state == CX_READY)
        prazo_stream_watch(cx->stream, prazo_stream_watched(cx->stream) &
                                           ~(unsigned)PRAZO_STREAM_READABLE);
}

void prazo_cx_resume(struct prazo_cx *cx)
{
    if (!cx->is_paused)
        return;
    cx->is_paused = false;
    if (cx->in_event || cx->state != CX_READY)
        return;
    cx->in_event = true;
    if (cx->in.len > 0)
        use_remainder(cx);
    if (cx->state == CX_READY && cx->has_hangup && cx->in.len == 0 && !cx->is_paused)
        on_stream_end(cx, false);
    if (cx->state == CX_READY)
        watch(cx);
    if (cx->state != CX_CLOSED && !cx->is_released)
        cx->client->options.ops->on_read_done(cx->owner, cx);
    cx->in_event = false;
    if (cx->is_released && cx->state != CX_CLOSED)
        put_back(cx);
}

void prazo_cx_switch(struct prazo_cx *cx)
{
    cx->is_tunnel = true;
}

void prazo_cx_hang_up(struct prazo_cx *cx)
{
    if (cx->state != CX_READY || cx->is_hung_up)
        return;
    cx->is_hung_up = true;
    prazo_stream_shutdown(cx->stream);
}

void prazo_cx_release(struct prazo_cx *cx)
{
    if (cx->in_event)
        cx->is_released = true;
    else
        put_back(cx);
}

void prazo_cx_close(struct prazo_cx *cx)
{
    if (cx != NULL && cx->state != CX_CLOSED)
        close_cx(cx);
}

/* ---- life of the client ---- */

int prazo_client_new(struct prazo_loop *loop, const struct prazo_client_options *options,
                     struct prazo_client **ret_client)
{
    struct prazo_client *client = prazo_mem_calloc(1, sizeof *client);

    if (client == NULL)
        return PRAZO_E_NOMEM;
    client->loop = loop;
    client->options = *options;
    prazo_list_init(&client->busy);
    prazo_list_init(&client->reap);
    prazo_pool_init(&client->pool, sizeof(struct prazo_cx), 32, options->connections_max);
    prazo_loop_on_turn_end(loop, on_turn_end, client);
    *ret_client = client;
    return PRAZO_OK;
}

void prazo_client_free(struct prazo_client *client)
{
    if (client == NULL)
        return;
    while (!prazo_list_is_empty(&client->busy))
        close_cx(PRAZO_CONTAINER(client->busy.next, struct prazo_cx, node));
    on_turn_end(client);
    prazo_pool_done(&client->pool);
    prazo_mem_free(client);
}
