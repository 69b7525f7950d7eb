/* SPDX-License-Identifier: MIT */
/* Client side of HTTP/1.1 and the pools of idle connections.
 *
 * States of a connection (struct prazo_cx), all moves in prazo__cx_set_state():
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
#include "base/mem.h"
#include "http/client_internal.h"

#define INFORMATIONAL_MAX 16 /* interim answers to one request; more is a server gone wrong */
#define READ_STEP_BYTES 16384u
#define KEEP_ALIVE_MARGIN_US 1000000 /* before the announced end, for what is on its way */

static void on_turn_end(void *arg)
{
    struct prazo_client *client = arg;

    while (!prazo_list_is_empty(&client->reap)) {
        struct prazo_list *node = client->reap.next;
        struct prazo_cx *cx = PRAZO_CONTAINER(node, struct prazo_cx, node);
        prazo_list_del(node);
        prazo_buf_done(&cx->in);
        prazo_pool_put(&client->pool, cx);
    }
}

/* ---- reading ---- */

static void fail(struct prazo_cx *cx, enum prazo_cx_fail why)
{
    if (cx->state != CX_CONNECTING && cx->state != CX_READY)
        return;
    prazo__cx_set_state(cx, CX_ENDED);
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

/* Returns len: nothing more of this connection is used. */
static size_t fail_invalid(struct prazo_cx *cx, const char *fault, size_t len)
{
    cx->fault = fault;
    fail(cx, PRAZO_CX_INVALID);
    return len;
}

/* A head at the beginning of data. Returns the bytes used: 0 while it is incomplete. */
static size_t take_head(struct prazo_cx *cx, char *data, size_t len)
{
    struct prazo_client *client = cx->client;
    struct prazo_head head;
    size_t end = prazo_h1_head_end(data, len, &cx->scan);

    cx->was_answered = true;
    if ((end > 0 ? end : len) > client->options.head_bytes_max)
        return fail_invalid(cx, "the head is over limits.headers", len);
    if (end == 0 && len >= 5 && memcmp(data, "HTTP/", 5) != 0)
        return fail_invalid(cx, "this is not HTTP", len);
    if (end == 0)
        return 0;
    cx->scan = 0;
    if (prazo_h1_parse_response(data, end, cx->is_head, client->headers, &head) != PRAZO_OK)
        return fail_invalid(cx, head.fault, len);
    if (head.status == 101 && !cx->asks_upgrade)
        return fail_invalid(cx, "101 although no upgrade was asked for", len);
    if (head.status < 200 && head.status != 101 && ++cx->informational > INFORMATIONAL_MAX)
        return fail_invalid(cx, "too many interim answers", len);
    if (head.status < 200 && head.status != 101)
        client->options.ops->on_informational(cx->owner, cx, &head);
    else
        on_final_head(cx, &head);
    return end;
}

static void end_exchange(struct prazo_cx *cx, const struct prazo_header *trailers, size_t count)
{
    prazo__cx_set_state(cx, CX_ENDED);
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
        return fail_invalid(cx, "the body's framing is broken", len);
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

void prazo__cx_watch(struct prazo_cx *cx)
{
    unsigned events = prazo_stream_watched(cx->stream) & (unsigned)PRAZO_STREAM_WRITABLE;

    if (!cx->has_hangup)
        events |= PRAZO_STREAM_HANGUP;
    if (!cx->has_hangup && !cx->is_paused)
        events |= PRAZO_STREAM_READABLE;
    prazo_stream_watch(cx->stream, events);
}

/* What the owner was given lies in the remainder, so the owner has to flush before it moves; when
 * the exchange is over it stays until the end of the turn. */
static void use_remainder(struct prazo_cx *cx)
{
    size_t used = consume(cx, cx->in.base, cx->in.len);

    if (cx->state == CX_READY)
        cx->client->options.ops->on_read_done(cx->owner, cx);
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
    if (cx->state != CX_READY || (cx->is_paused && cx->in.len > 0))
        return; /* what is unused comes first: resume() leads back here */
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
    prazo__cx_set_state(cx, CX_READY);
    prazo_stream_watch(cx->stream, PRAZO_STREAM_READABLE | PRAZO_STREAM_HANGUP);
    cx->client->options.ops->on_connected(cx->owner, cx);
}

void prazo__cx_on_event(void *arg, unsigned events)
{
    struct prazo_cx *cx = arg;
    const struct prazo_cx_ops *ops = cx->client->options.ops;

    if (cx->state == CX_IDLE) { /* whatever it is, nobody asked for it */
        prazo__cx_close(cx);
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
            prazo__cx_watch(cx);
    }
    if (cx->state != CX_CLOSED && !cx->is_released)
        ops->on_read_done(cx->owner, cx);
    cx->in_event = false;
    if (cx->is_released && cx->state != CX_CLOSED)
        prazo__cx_put_back(cx);
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
    if (!prazo_out_flush(&cx->out, cx->stream))
        cx->must_drain_told = true;
}

size_t prazo_cx_pending(const struct prazo_cx *cx)
{
    return cx->out.pending.len;
}

bool prazo_cx_was_sent(const struct prazo_cx *cx)
{
    return cx->out.has_sent;
}

bool prazo_cx_was_answered(const struct prazo_cx *cx)
{
    return cx->was_answered;
}

const char *prazo_cx_fault(const struct prazo_cx *cx)
{
    return cx->fault;
}

bool prazo_cx_is_reused(const struct prazo_cx *cx)
{
    return cx->is_reused;
}

void prazo_cx_pause(struct prazo_cx *cx)
{
    cx->is_paused = true;
    if (!cx->in_event && cx->state == CX_READY)
        prazo_stream_watch(cx->stream,
                           prazo_stream_watched(cx->stream) & ~(unsigned)PRAZO_STREAM_READABLE);
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
    if (cx->state == CX_READY && cx->has_hangup && !cx->is_paused)
        on_stream_end(cx, false);
    if (cx->state == CX_READY)
        prazo__cx_watch(cx);
    if (cx->state != CX_CLOSED && !cx->is_released)
        cx->client->options.ops->on_read_done(cx->owner, cx);
    cx->in_event = false;
    if (cx->is_released && cx->state != CX_CLOSED)
        prazo__cx_put_back(cx);
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
        prazo__cx_put_back(cx);
}

void prazo_cx_close(struct prazo_cx *cx)
{
    if (cx != NULL && cx->state != CX_CLOSED)
        prazo__cx_close(cx);
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

void prazo_client_set_limits(struct prazo_client *client, size_t head_bytes_max,
                             size_t pending_bytes_max)
{
    client->options.head_bytes_max = head_bytes_max;
    client->options.pending_bytes_max = pending_bytes_max;
}

void prazo_client_free(struct prazo_client *client)
{
    if (client == NULL)
        return;
    while (!prazo_list_is_empty(&client->busy))
        prazo__cx_close(PRAZO_CONTAINER(client->busy.next, struct prazo_cx, node));
    on_turn_end(client);
    prazo_pool_done(&client->pool);
    prazo_mem_free(client);
}
