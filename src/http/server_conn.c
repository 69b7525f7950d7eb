/* SPDX-License-Identifier: MIT */
/* Server side of HTTP/1.1: connections from clients, one exchange at a time on each.
 *
 * States of a connection (struct prazo_sx), all moves in prazo__sx_set_state():
 *   SX_IDLE    between requests, or new; ends after `idle` without a byte
 *   SX_HEAD    part of a head has come; ends with 408 after `header_time`
 *   SX_BUSY    the owner has the request; the body may still be coming
 *   SX_LINGER  the last answer is out or draining: FIN, read and discard, then close (RFC 9112
 * §9.6) SX_CLOSED  on the reap list, freed at the end of the turn
 *
 * Reading: bytes go to the loop's buffer and are used there; only a remainder is copied into
 * `in`. The client is watched for a hang-up in every state, also while reading has stopped.
 * A pipelined request waits in `in`; it neither starts before its predecessor's answer is complete
 * (RFC 9112 §9.3.2) nor hides a close (C015). */
#include "base/assert.h"
#include "base/counter.h"
#include "http/server_internal.h"

#define LINGER_US 2000000 /* for a client that goes on sending after our last answer */
#define LINGER_BYTES_MAX 262144
#define READ_STEP_BYTES 16384u /* how much is read at once behind a remainder */

static int64_t now_of(const struct prazo_sx *sx)
{
    return prazo_loop_now_us(sx->server->loop);
}

/* Arms the timer for at_us unless it will wake earlier anyway: prazo__sx_on_timer() looks again. So
 * a keep-alive request costs no timer work. */
static void wake_by(struct prazo_sx *sx, int64_t at_us)
{
    if (!prazo_timer_is_linked(&sx->timer) || sx->timer.at_us > at_us)
        prazo_timers_link_at(prazo_loop_timers(sx->server->loop), &sx->timer, at_us);
}

/* A client may take its time to read what we owe it, but not to hear that this was the end. */
static int64_t linger_end_us(const struct prazo_sx *sx)
{
    return sx->since_us + (sx->owes_answer ? sx->server->options.limits.idle_us : LINGER_US);
}

/* The only writer of sx->owes_answer. */
static void set_owes_answer(struct prazo_sx *sx, bool owes)
{
    if (owes && !sx->owes_answer)
        sx->server->requests++;
    else if (!owes && sx->owes_answer)
        sx->server->requests--;
    sx->owes_answer = owes;
}

/* The only writer of sx->state. */
void prazo__sx_set_state(struct prazo_sx *sx, enum sx_state next)
{
    PRAZO_ASSERT(sx->state != SX_CLOSED);
    if (sx->state == SX_BUSY)
        sx->server->requests--;
    sx->state = (uint8_t)next;
    sx->since_us = now_of(sx);
    switch (next) {
    case SX_IDLE:
        wake_by(sx, sx->since_us + sx->server->options.limits.idle_us);
        break;
    case SX_HEAD:
        sx->began_us = sx->since_us;
        wake_by(sx, sx->since_us + sx->server->options.limits.header_time_us);
        break;
    case SX_LINGER:
        wake_by(sx, linger_end_us(sx));
        break;
    case SX_BUSY:
        sx->server->requests++;
        break;
    case SX_CLOSED:
        break;
    }
}

/* ---- closing ---- */

void prazo__sx_close(struct prazo_sx *sx, bool with_reset)
{
    struct prazo_server *server = sx->server;
    struct prazo_listener_options *o = &sx->listener->options;

    if (sx->state == SX_CLOSED)
        return;
    set_owes_answer(sx, false);
    prazo__sx_set_state(sx, SX_CLOSED);
    prazo_timers_unlink(prazo_loop_timers(server->loop), &sx->timer);
    prazo_stream_close(sx->stream, with_reset);
    sx->stream = NULL;
    prazo_out_done(&sx->out);
    prazo_buf_done(&sx->in);
    prazo_list_del(&sx->node);
    prazo_list_push_back(&server->reap, &sx->node);
    server->connections--;
    if (o->open_gauge != NULL)
        prazo_gauge_add(o->open_gauge, -1);
    if (o->connections != NULL)
        __atomic_fetch_sub(o->connections, 1, __ATOMIC_RELAXED);
    prazo__listener_accept_again(sx->listener);
}

/* Our last answer is written (or draining): FIN, then wait for the client's. */
void prazo__sx_linger(struct prazo_sx *sx)
{
    if (sx->out.pending.len == 0) {
        bool has_said_all = sx->client_closes && prazo_h1_body_eof(&sx->body) && sx->in.len == 0;
        if (sx->has_hangup || sx->out.is_broken ||
            (has_said_all && prazo_stream_unread(sx->stream) == 0)) {
            prazo__sx_close(sx, false);
            return;
        }
        prazo_stream_shutdown(sx->stream);
    }
    set_owes_answer(sx, sx->out.pending.len > 0 && !sx->is_cut);
    prazo__sx_set_state(sx, SX_LINGER);
    prazo_buf_done(&sx->in);
    unsigned reading = sx->has_hangup ? 0 : PRAZO_STREAM_READABLE | PRAZO_STREAM_HANGUP;
    prazo_stream_watch(sx->stream,
                       reading | (sx->out.pending.len > 0 ? PRAZO_STREAM_WRITABLE : 0u));
}

static void linger_read(struct prazo_sx *sx)
{
    ssize_t n = prazo_stream_read(sx->stream, prazo_loop_read_buffer(sx->server->loop),
                                  PRAZO_READ_BUFFER_BYTES);

    if (n == PRAZO_E_AGAIN)
        return;
    if (n > 0) {
        sx->lingered_bytes += (size_t)n;
        if (sx->lingered_bytes > LINGER_BYTES_MAX) /* no more, but the client may still read */
            prazo_stream_watch(sx->stream,
                               prazo_stream_watched(sx->stream) & ~(unsigned)PRAZO_STREAM_READABLE);
        return;
    }
    if (n == PRAZO_E_EOF && sx->out.pending.len > 0) {
        sx->has_hangup = true; /* it may still read the rest */
        prazo_stream_watch(sx->stream, PRAZO_STREAM_WRITABLE);
        return;
    }
    prazo__sx_close(sx, false);
}

/* ---- requests ---- */

static void refuse(struct prazo_sx *sx, enum prazo_problem problem, const char *detail)
{
    if (sx->state == SX_IDLE)
        sx->began_us = now_of(sx);
    sx->refusal = detail;
    sx->is_keep_alive = false;
    sx->body_done = false; /* what follows cannot be told apart: end in stages */
    sx->is_told = true;    /* nothing more to tell: the answer is made at once */
    sx->answer = ANSWER_NONE;
    prazo__sx_set_state(sx, SX_BUSY);
    sx->server->options.ops->on_bad_request(sx->server->options.arg, sx, (int)problem);
}

static void start_request(struct prazo_sx *sx, const struct prazo_head *head)
{
    struct prazo_server *server = sx->server;
    const struct prazo_sx_ops *ops = server->options.ops;
    const struct prazo_listener_options *listener = &sx->listener->options;

    if (sx->state == SX_IDLE) /* the whole head came at once */
        sx->began_us = now_of(sx);
    sx->out.pending.max = server->options.pending_bytes_max + PRAZO_PENDING_SLACK;
    sx->minor = head->minor;
    sx->is_head = head->method_id == PRAZO_METHOD_HEAD;
    sx->wants_trailers = head->wants_trailers;
    /* asked anew for each request: a reload may have changed the answer */
    sx->is_trusted =
        listener->is_trusted != NULL && listener->is_trusted(listener->listener_arg, &sx->peer);
    sx->client_closes = !head->is_keep_alive;
    sx->is_keep_alive = head->is_keep_alive && !server->is_draining;
    sx->body_done = false;
    sx->is_paused = sx->is_told = sx->is_tunnel = sx->has_fin_behind = false;
    sx->body_bytes = 0;
    sx->answer = ANSWER_NONE;
    prazo_h1_body_init(&sx->body, head->body, head->content_length,
                       server->options.limits.head_bytes);
    prazo__sx_set_state(sx, SX_BUSY);
    server->last_request_us = now_of(sx);
    void *owner = ops->on_request(server->options.arg, sx, head);
    if (sx->state == SX_BUSY)
        sx->owner = owner;
}

/* Looks for a head at the beginning of data. Returns the bytes used: 0 while it is incomplete. */
static size_t take_head(struct prazo_sx *sx, char *data, size_t len)
{
    struct prazo_server *server = sx->server;
    const struct prazo_server_limits *limits = &server->options.limits;
    struct prazo_head head;
    size_t skipped = 0;

    sx->in.max = limits->head_bytes + 2 * PRAZO_READ_BUFFER_BYTES;
    while (len - skipped >= 2 && sx->state == SX_IDLE && data[skipped] == '\r' &&
           data[skipped + 1] == '\n')
        skipped += 2; /* empty lines before a request line are ignored (RFC 9112 §2.2) */
    if (skipped > 0)
        return skipped;
    if (sx->state == SX_IDLE && len == 1 && data[0] == '\r')
        return 0; /* half of such a line: no request has begun */
    size_t end = prazo_h1_head_end(data, len, &sx->scan);
    size_t seen = end > 0 ? end : len;
    const char *eol =
        memchr(data, '\n', seen < limits->uri_bytes + 32 ? seen : limits->uri_bytes + 32);
    sx->is_head = len >= 5 && memcmp(data, "HEAD ", 5) == 0;
    if (eol == NULL && seen > limits->uri_bytes + 31) {
        refuse(sx, PRAZO_PROBLEM_URI_TOO_LONG, NULL);
        return len;
    }
    if (seen > limits->head_bytes) {
        refuse(sx, PRAZO_PROBLEM_HEADER_TOO_LARGE, NULL);
        return len;
    }
    if (end == 0) {
        if (!prazo_h1_is_token(prazo_str_n(data, 1)) && data[0] != '\r')
            refuse(sx, PRAZO_PROBLEM_BAD_REQUEST, "This is not HTTP/1.1 in the clear.");
        else if (sx->state == SX_IDLE)
            prazo__sx_set_state(sx, SX_HEAD);
        return sx->state == SX_HEAD ? 0 : len;
    }
    sx->scan = 0;
    enum prazo_problem problem = prazo_h1_parse_request(data, end, server->headers, &head);
    if (problem == PRAZO_PROBLEM_NONE && head.target.len > limits->uri_bytes)
        problem = PRAZO_PROBLEM_URI_TOO_LONG;
    if (problem != PRAZO_PROBLEM_NONE)
        refuse(sx, problem, head.fault);
    else
        start_request(sx, &head);
    return end;
}

static void tell_gone(struct prazo_sx *sx, enum prazo_gone why)
{
    if (sx->is_told)
        return;
    sx->is_told = true;
    sx->is_keep_alive = false;
    sx->server->options.ops->on_gone(sx->owner, sx, why);
}

/* One step of the request's body. Returns the bytes used; *ret_more: call again. */
static size_t take_body(struct prazo_sx *sx, char *data, size_t len, bool *ret_more)
{
    struct prazo_server *server = sx->server;
    const struct prazo_sx_ops *ops = server->options.ops;
    struct prazo_h1_piece piece;

    if (sx->is_tunnel) {
        if (len > 0 && !sx->is_told)
            ops->on_body(sx->owner, sx, data, len);
        return len;
    }
    *ret_more = true;
    switch (prazo_h1_body_next(&sx->body, data, len, server->headers, &piece)) {
    case PRAZO_H1_MORE:
        *ret_more = false;
        break;
    case PRAZO_H1_DATA:
        sx->body_bytes += (int64_t)piece.data.len;
        if (server->options.limits.body_bytes >= 0 &&
            sx->body_bytes > server->options.limits.body_bytes) {
            tell_gone(sx, PRAZO_GONE_BODY_TOO_LARGE);
            return len;
        }
        if (!sx->is_told)
            ops->on_body(sx->owner, sx, piece.data.base, piece.data.len);
        break;
    case PRAZO_H1_END:
        sx->body_done = true;
        if (!sx->is_told)
            ops->on_body_end(sx->owner, sx, piece.trailers, piece.trailer_count);
        break;
    case PRAZO_H1_BAD:
        tell_gone(sx, PRAZO_GONE_BAD_BODY);
        return len;
    }
    return piece.consumed;
}

/* Uses what it can of data. Returns the bytes used. */
static size_t consume(struct prazo_sx *sx, char *data, size_t len)
{
    size_t at = 0;

    for (;;) {
        bool more = false;
        size_t n;

        if (sx->state == SX_IDLE && sx->out.pending.len > 0)
            return at; /* a client that does not read its answers gets no more of them */
        if (sx->state == SX_IDLE || sx->state == SX_HEAD) {
            if (at == len || (n = take_head(sx, data + at, len - at)) == 0)
                return at;
        } else if (sx->state == SX_BUSY && !sx->body_done && !sx->is_paused) {
            if (at == len && !(sx->body.kind != PRAZO_BODY_CHUNKED && sx->body.left == 0 &&
                               sx->body.kind != PRAZO_BODY_TO_EOF))
                return at;
            n = take_body(sx, data + at, len - at, &more);
            if (n == 0 && !more)
                return at;
        } else {
            return sx->state == SX_BUSY ? at : len;
        }
        at += n;
    }
}

/* Stops reading while nothing more is wanted: enough is pipelined, or the owner has paused. */
void prazo__sx_watch(struct prazo_sx *sx)
{
    unsigned events = prazo_stream_watched(sx->stream) & (unsigned)PRAZO_STREAM_WRITABLE;
    /* part of a head or of a trailer section has its own bound, and only grows whole by reading */
    bool is_waiting = sx->state == SX_IDLE || (sx->state == SX_BUSY && sx->body_done);
    bool is_full = is_waiting && sx->in.len >= PRAZO_READ_BUFFER_BYTES;

    if (!sx->has_hangup) {
        events |= sx->has_fin_behind ? 0u : PRAZO_STREAM_HANGUP;
        if (!is_full && !(sx->state == SX_BUSY && sx->is_paused))
            events |= PRAZO_STREAM_READABLE;
    }
    prazo_stream_watch(sx->stream, events);
}

/* Uses the remainder, inside an event. What the owner was given lies in it, so the owner has to
 * flush before it moves. */
static void use_remainder(struct prazo_sx *sx)
{
    size_t used = consume(sx, sx->in.base, sx->in.len);

    if (sx->state == SX_BUSY && !sx->is_told)
        sx->server->options.ops->on_read_done(sx->owner, sx);
    if (sx->state == SX_CLOSED || sx->state == SX_LINGER)
        return;
    prazo_buf_consume(&sx->in, used);
    if (sx->in.len == 0)
        prazo_buf_done(&sx->in);
}

/* No memory: the connection ends as if the client had reset it, the process lives. The event that
 * is under way tells the owner. */
static void give_up(struct prazo_sx *sx)
{
    sx->has_hangup = true;
    sx->out.is_broken = true;
}

static void use(struct prazo_sx *sx, char *data, size_t len)
{
    size_t used = consume(sx, data, len);

    if (sx->state == SX_CLOSED || sx->state == SX_LINGER || used == len)
        return;
    if (prazo_buf_add(&sx->in, data + used, len - used) != PRAZO_OK)
        give_up(sx);
}

static void read_some(struct prazo_sx *sx)
{
    char *to = prazo_loop_read_buffer(sx->server->loop);
    size_t room = PRAZO_READ_BUFFER_BYTES;

    if (sx->in.len > 0) {
        if (prazo_buf_reserve(&sx->in, READ_STEP_BYTES) != PRAZO_OK) {
            give_up(sx);
            return;
        }
        to = sx->in.base + sx->in.len;
        room = READ_STEP_BYTES;
    }
    ssize_t n = prazo_stream_read(sx->stream, to, room);
    if (n == PRAZO_E_AGAIN)
        return;
    if (n < 0) {
        sx->has_hangup = true;
        if (sx->state == SX_BUSY && sx->is_tunnel && n == PRAZO_E_EOF && !sx->is_told) {
            sx->body_done = true;
            sx->server->options.ops->on_body_end(sx->owner, sx, NULL, 0);
            return;
        }
        if (n != PRAZO_E_EOF)
            sx->out.is_broken = true;
        return;
    }
    if (sx->in.len > 0) {
        sx->in.len += (size_t)n;
        use_remainder(sx);
    } else {
        use(sx, to, (size_t)n);
    }
}

/* The client has finished sending or is gone. */
static void on_hangup(struct prazo_sx *sx)
{
    const struct prazo_sx_ops *ops = sx->server->options.ops;
    bool is_reset = sx->out.is_broken;

    if (sx->state == SX_BUSY) {
        bool may_wait = sx->listener->options.half_close_waits && sx->body_done && !is_reset;
        if (!sx->is_tunnel && !may_wait)
            tell_gone(sx, is_reset ? PRAZO_GONE_RESET : PRAZO_GONE_FIN);
        else if (sx->is_tunnel && is_reset)
            tell_gone(sx, PRAZO_GONE_RESET);
        if (sx->state != SX_CLOSED && sx->stream != NULL)
            prazo__sx_watch(sx);
        return;
    }
    if (sx->state == SX_HEAD && ops->on_head_abandoned != NULL)
        ops->on_head_abandoned(sx->server->options.arg);
    if (sx->out.pending.len > 0 && !is_reset) {
        /* what it has asked for before its FIN is still served, one answer after the other */
        if (sx->in.len == 0 || !sx->listener->options.half_close_waits)
            prazo__sx_linger(sx);
        return;
    }
    prazo__sx_close(sx, false);
}

static void on_writable(struct prazo_sx *sx)
{
    if (!prazo_out_on_writable(&sx->out, sx->stream))
        return;
    if (sx->owes_fin) {
        sx->owes_fin = false;
        prazo_stream_shutdown(sx->stream);
    }
    if (sx->state == SX_LINGER) {
        prazo__sx_linger(sx);
        return;
    }
    if (sx->state == SX_BUSY && sx->must_drain_told) {
        sx->must_drain_told = false;
        if (!sx->is_told)
            sx->server->options.ops->on_drained(sx->owner, sx);
    }
    /* the next request has waited for the answer before it to leave, which may have ended just now;
     * nothing else would start it: its bytes have been read */
    if (sx->state != SX_CLOSED && sx->state != SX_LINGER && sx->in.len > 0 && !sx->out.is_broken)
        use_remainder(sx);
}

/* half_close: wait, and reading is paused in the middle of the upload: its FIN is only its end. */
static bool may_wait_for_fin(const struct prazo_sx *sx)
{
    return sx->listener->options.half_close_waits && sx->state == SX_BUSY && !sx->body_done &&
           !sx->is_tunnel && !(prazo_stream_watched(sx->stream) & PRAZO_STREAM_READABLE);
}

/* READABLE or HANGUP. Where reading goes on, it meets the end by itself; where it has stopped,
 * unread bytes do not hide a hang-up. */
static void hear(struct prazo_sx *sx, unsigned events, unsigned watched)
{
    if ((events | watched) & PRAZO_STREAM_READABLE)
        read_some(sx);
    else if (sx->has_hangup || sx->has_fin_behind)
        sx->has_hangup = sx->out.is_broken = true; /* its FIN came before: this is an RST */
    else if (may_wait_for_fin(sx))
        sx->has_fin_behind = true; /* the end of an upload that has not been read yet */
    else
        sx->has_hangup = true;
}

void prazo__sx_on_event(void *arg, unsigned events)
{
    struct prazo_sx *sx = arg;
    unsigned watched = prazo_stream_watched(sx->stream);

    sx->in_event = true;
    if (events & PRAZO_STREAM_WRITABLE)
        on_writable(sx);
    if (sx->state == SX_LINGER) {
        if (events & (PRAZO_STREAM_READABLE | PRAZO_STREAM_HANGUP))
            linger_read(sx);
    } else if (sx->state != SX_CLOSED) {
        if (events & (PRAZO_STREAM_READABLE | PRAZO_STREAM_HANGUP))
            hear(sx, events, watched);
        if (sx->state != SX_CLOSED && sx->state != SX_LINGER) {
            if (sx->has_hangup)
                on_hangup(sx);
            else
                prazo__sx_watch(sx);
        }
    }
    if (sx->state == SX_BUSY && !sx->is_told)
        sx->server->options.ops->on_read_done(sx->owner, sx);
    sx->in_event = false;
}

/* The owner has changed something outside of an event: what waits in `in` may go on. */
void prazo__sx_go_on(struct prazo_sx *sx)
{
    sx->in_event = true;
    if (sx->in.len > 0)
        use_remainder(sx);
    if (sx->state != SX_CLOSED && sx->state != SX_LINGER) {
        if (sx->has_hangup && sx->state != SX_BUSY)
            on_hangup(sx);
        else
            prazo__sx_watch(sx);
    }
    if (sx->state == SX_BUSY && !sx->is_told)
        sx->server->options.ops->on_read_done(sx->owner, sx);
    sx->in_event = false;
}

void prazo__sx_on_timer(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_sx *sx = PRAZO_CONTAINER(timer, struct prazo_sx, timer);
    const struct prazo_server_limits *limits = &sx->server->options.limits;
    int64_t due;

    switch ((enum sx_state)sx->state) {
    case SX_IDLE:
        due = sx->since_us + limits->idle_us;
        if (due <= now_us)
            prazo__sx_close(sx, false);
        break;
    case SX_HEAD:
        due = sx->since_us + limits->header_time_us;
        if (due <= now_us)
            refuse(sx, PRAZO_PROBLEM_REQUEST_TIMEOUT, NULL);
        break;
    case SX_LINGER:
        due = linger_end_us(sx);
        if (due <= now_us)
            prazo__sx_close(sx, sx->out.pending.len > 0);
        break;
    case SX_BUSY:
    case SX_CLOSED:
    default:
        return; /* linked again by prazo__sx_set_state() */
    }
    if (due > now_us)
        wake_by(sx, due);
}
