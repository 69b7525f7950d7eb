/* SPDX-License-Identifier: MIT */
/* Server side of HTTP/1.1: connections from clients, one exchange at a time on each.
 *
 * States of a connection (struct prazo_sx), all moves in set_state():
 *   SX_IDLE    between requests, or new; ends after `idle` without a byte
 *   SX_HEAD    part of a head has come; ends with 408 after `header_time`
 *   SX_BUSY    the owner has the request; the body may still be coming
 *   SX_LINGER  the last answer is out or draining: FIN, read and discard, then close (RFC 9112 §9.6)
 *   SX_CLOSED  on the reap list, freed at the end of the turn
 *
 * Reading: bytes go to the loop's buffer and are used there; only a remainder is copied into
 * `in`. The client is watched for a hang-up in every state, also while reading has stopped.
 * A pipelined request waits in `in`; it neither starts before its predecessor's answer is complete
 * (RFC 9112 §9.3.2) nor hides a close (C015). */
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/counter.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/pool.h"
#include "http/h1.h"
#include "http/head_out.h"
#include "http/out.h"

#define LINGER_US 2000000       /* for a client that goes on sending after our last answer */
#define LINGER_BYTES_MAX 262144
#define READ_STEP_BYTES 16384u  /* how much is read at once behind a remainder */
#define PENDING_SLACK 262144u   /* pending may pass the owner's bound by what was under way */

enum sx_state { SX_IDLE = 0, SX_HEAD, SX_BUSY, SX_LINGER, SX_CLOSED };

enum answer_kind { ANSWER_NONE = 0, ANSWER_NO_BODY, ANSWER_LENGTH, ANSWER_CHUNKED, ANSWER_TO_EOF };

struct prazo_listener {
    struct prazo_server *server;
    struct prazo_stream *stream; /* NULL once closed */
    struct prazo_listener_options options;
    struct prazo_timer retry; /* after "out of descriptors" or at the limit */
    struct prazo_list node;
};

struct prazo_sx {
    struct prazo_server *server;
    struct prazo_listener *listener;
    struct prazo_stream *stream;
    struct prazo_list node; /* in server->open or server->reap */
    struct prazo_timer timer;
    struct prazo_buf in; /* remainder of what was read */
    struct prazo_out out;
    struct prazo_h1_body body;
    size_t scan; /* head search in `in` */
    void *owner; /* SX_BUSY: handed to the callbacks */
    int64_t since_us;   /* SX_IDLE, SX_HEAD, SX_LINGER: since when */
    int64_t began_us;   /* first byte of the request */
    int64_t body_bytes; /* of the request so far */
    size_t lingered_bytes;
    struct prazo_addr peer;
    uint8_t state;
    uint8_t answer;
    uint8_t minor;
    bool is_trusted;
    bool is_keep_alive;   /* the client's wish, and nothing since against it */
    bool is_head;
    bool wants_trailers;
    bool body_done;       /* request complete */
    bool is_paused;       /* the owner does not want more body */
    bool has_hangup;      /* the client has finished sending or is gone */
    bool is_told;         /* on_gone was called: the owner hears nothing more */
    bool is_tunnel;
    bool in_event;        /* inside on_event(): finish() leaves the next request to it */
    bool must_drain_told; /* pending was > 0: on_drained is owed */
    bool client_closes;   /* the client said that it will not use the connection again */
    bool owes_fin;        /* tunnel: FIN once pending is written */
};

struct prazo_server {
    struct prazo_loop *loop;
    struct prazo_server_options options;
    struct prazo_pool pool;
    struct prazo_list open, reap, listeners;
    size_t connections, requests;
    int64_t last_request_us;
    bool is_draining;
    int64_t date_s; /* second that `date` was made for */
    char date[30];
    struct prazo_header headers[PRAZO_HEADERS_MAX];
};

static void on_event(void *arg, unsigned events);
static void on_timer(struct prazo_timer *timer, int64_t now_us);

static int64_t now_of(const struct prazo_sx *sx)
{
    return prazo_loop_now_us(sx->server->loop);
}

/* Arms the timer for at_us unless it will wake earlier anyway: on_timer() looks again. So a
 * keep-alive request costs no timer work. */
static void wake_by(struct prazo_sx *sx, int64_t at_us)
{
    if (!prazo_timer_is_linked(&sx->timer) || sx->timer.at_us > at_us)
        prazo_timers_link_at(prazo_loop_timers(sx->server->loop), &sx->timer, at_us);
}

/* The only writer of sx->state. */
static void set_state(struct prazo_sx *sx, enum sx_state next)
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
        wake_by(sx, sx->since_us + LINGER_US);
        break;
    case SX_BUSY:
        sx->server->requests++;
        break;
    case SX_CLOSED:
        break;
    }
}

/* ---- closing ---- */

static void accept_again(struct prazo_listener *listener)
{
    if (listener->stream != NULL && prazo_stream_watched(listener->stream) == 0)
        prazo_stream_watch(listener->stream, PRAZO_STREAM_READABLE);
}

static void close_now(struct prazo_sx *sx, bool with_reset)
{
    struct prazo_server *server = sx->server;
    struct prazo_listener_options *o = &sx->listener->options;

    if (sx->state == SX_CLOSED)
        return;
    set_state(sx, SX_CLOSED);
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
    accept_again(sx->listener);
}

static void on_turn_end(void *arg)
{
    struct prazo_server *server = arg;

    while (!prazo_list_is_empty(&server->reap)) {
        struct prazo_list *node = server->reap.next;
        prazo_list_del(node);
        prazo_pool_put(&server->pool, PRAZO_CONTAINER(node, struct prazo_sx, node));
    }
}

/* Our last answer is written (or draining): FIN, then wait for the client's. */
static void linger(struct prazo_sx *sx)
{
    if (sx->out.pending.len == 0) {
        bool has_said_all =
            sx->client_closes && prazo_h1_body_eof(&sx->body) && sx->in.len == 0;
        if (sx->has_hangup || sx->out.is_broken ||
            (has_said_all && prazo_stream_unread(sx->stream) == 0)) {
            close_now(sx, false);
            return;
        }
        prazo_stream_shutdown(sx->stream);
    }
    set_state(sx, SX_LINGER);
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
    if (n > 0 && (sx->lingered_bytes += (size_t)n) <= LINGER_BYTES_MAX)
        return;
    if (n == PRAZO_E_EOF && sx->out.pending.len > 0) {
        sx->has_hangup = true; /* it may still read the rest */
        prazo_stream_watch(sx->stream, PRAZO_STREAM_WRITABLE);
        return;
    }
    close_now(sx, false);
}

/* ---- requests ---- */

static void refuse(struct prazo_sx *sx, enum prazo_problem problem)
{
    sx->is_keep_alive = false;
    sx->body_done = false; /* what follows cannot be told apart: end in stages */
    sx->is_told = true;    /* nothing more to tell: the answer is made at once */
    sx->answer = ANSWER_NONE;
    set_state(sx, SX_BUSY);
    sx->server->options.ops->on_bad_request(sx->server->options.arg, sx, (int)problem);
}

static void start_request(struct prazo_sx *sx, const struct prazo_head *head)
{
    struct prazo_server *server = sx->server;
    const struct prazo_sx_ops *ops = server->options.ops;
    int64_t body_max = server->options.limits.body_bytes;

    if (sx->state == SX_IDLE) /* the whole head came at once */
        sx->began_us = now_of(sx);
    sx->minor = head->minor;
    sx->is_head = head->method_id == PRAZO_METHOD_HEAD;
    sx->wants_trailers = head->wants_trailers;
    if (body_max >= 0 && head->body == PRAZO_BODY_LENGTH && head->content_length > body_max) {
        refuse(sx, PRAZO_PROBLEM_BODY_TOO_LARGE);
        return;
    }
    sx->client_closes = !head->is_keep_alive;
    sx->is_keep_alive = head->is_keep_alive && !server->is_draining;
    sx->body_done = false;
    sx->is_paused = sx->is_told = sx->is_tunnel = false;
    sx->body_bytes = 0;
    sx->answer = ANSWER_NONE;
    prazo_h1_body_init(&sx->body, head->body, head->content_length,
                       server->options.limits.head_bytes);
    set_state(sx, SX_BUSY);
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

    while (len - skipped >= 2 && sx->state == SX_IDLE && data[skipped] == '\r' &&
           data[skipped + 1] == '\n')
        skipped += 2; /* empty lines before a request line are ignored (RFC 9112 §2.2) */
    if (skipped > 0)
        return skipped;
    size_t end = prazo_h1_head_end(data, len, &sx->scan);
    size_t seen = end > 0 ? end : len;
    const char *eol = memchr(data, '\n', seen < limits->uri_bytes + 32 ? seen : limits->uri_bytes + 32);
    sx->is_head = len >= 5 && memcmp(data, "HEAD ", 5) == 0;
    if (eol == NULL && seen > limits->uri_bytes + 31) {
        refuse(sx, PRAZO_PROBLEM_URI_TOO_LONG);
        return len;
    }
    if (seen > limits->head_bytes) {
        refuse(sx, PRAZO_PROBLEM_HEADER_TOO_LARGE);
        return len;
    }
    if (end == 0) {
        if (!prazo_h1_is_token(prazo_str_n(data, 1)) && data[0] != '\r')
            refuse(sx, PRAZO_PROBLEM_BAD_REQUEST); /* no HTTP at all, a TLS hello for example */
        else if (sx->state == SX_IDLE)
            set_state(sx, SX_HEAD);
        return sx->state == SX_HEAD ? 0 : len;
    }
    sx->scan = 0;
    enum prazo_problem problem = prazo_h1_parse_request(data, end, server->headers, &head);
    if (problem == PRAZO_PROBLEM_NONE && head.target.len > limits->uri_bytes)
        problem = PRAZO_PROBLEM_URI_TOO_LONG;
    if (problem != PRAZO_PROBLEM_NONE)
        refuse(sx, problem);
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
static void watch(struct prazo_sx *sx)
{
    unsigned events = prazo_stream_watched(sx->stream) & (unsigned)PRAZO_STREAM_WRITABLE;
    bool is_full = sx->in.len >= PRAZO_READ_BUFFER_BYTES;

    if (!sx->has_hangup) {
        events |= PRAZO_STREAM_HANGUP;
        if (!is_full && !(sx->state == SX_BUSY && sx->is_paused))
            events |= PRAZO_STREAM_READABLE;
    }
    prazo_stream_watch(sx->stream, events);
}

/* Uses the remainder, inside an event. */
static void use_remainder(struct prazo_sx *sx)
{
    size_t used = consume(sx, sx->in.base, sx->in.len);

    if (sx->state == SX_CLOSED || sx->state == SX_LINGER)
        return;
    prazo_buf_consume(&sx->in, used);
    if (sx->in.len == 0)
        prazo_buf_done(&sx->in);
}

static void use(struct prazo_sx *sx, char *data, size_t len)
{
    size_t used = consume(sx, data, len);

    if (sx->state == SX_CLOSED || sx->state == SX_LINGER || used == len)
        return;
    if (prazo_buf_add(&sx->in, data + used, len - used) != PRAZO_OK)
        close_now(sx, false); /* no memory: the connection ends, the process lives */
}

static void read_some(struct prazo_sx *sx)
{
    char *to = prazo_loop_read_buffer(sx->server->loop);
    size_t room = PRAZO_READ_BUFFER_BYTES;

    if (sx->in.len > 0) {
        if (prazo_buf_reserve(&sx->in, READ_STEP_BYTES) != PRAZO_OK) {
            close_now(sx, false);
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
            watch(sx);
        return;
    }
    if (sx->state == SX_HEAD && ops->on_head_abandoned != NULL)
        ops->on_head_abandoned(sx->server->options.arg);
    if (sx->out.pending.len > 0 && !is_reset)
        linger(sx);
    else
        close_now(sx, false);
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
        linger(sx);
    } else if (sx->state == SX_BUSY && sx->must_drain_told) {
        sx->must_drain_told = false;
        if (!sx->is_told)
            sx->server->options.ops->on_drained(sx->owner, sx);
    }
}

static void on_event(void *arg, unsigned events)
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
        if (events & PRAZO_STREAM_READABLE)
            read_some(sx);
        else if (events & PRAZO_STREAM_HANGUP && !(watched & PRAZO_STREAM_READABLE))
            sx->has_hangup = true; /* reading is stopped: unread bytes do not hide the close */
        else if (events & PRAZO_STREAM_HANGUP)
            read_some(sx);
        if (sx->state != SX_CLOSED && sx->state != SX_LINGER) {
            if (sx->has_hangup)
                on_hangup(sx);
            else
                watch(sx);
        }
    }
    if (sx->state == SX_BUSY && !sx->is_told)
        sx->server->options.ops->on_read_done(sx->owner, sx);
    sx->in_event = false;
}

/* The owner has changed something outside of an event: what waits in `in` may go on. */
static void go_on(struct prazo_sx *sx)
{
    sx->in_event = true;
    if (sx->in.len > 0)
        use_remainder(sx);
    if (sx->state != SX_CLOSED && sx->state != SX_LINGER) {
        if (sx->has_hangup && sx->state != SX_BUSY)
            on_hangup(sx);
        else
            watch(sx);
    }
    if (sx->state == SX_BUSY && !sx->is_told)
        sx->server->options.ops->on_read_done(sx->owner, sx);
    sx->in_event = false;
}

static void on_timer(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_sx *sx = PRAZO_CONTAINER(timer, struct prazo_sx, timer);
    const struct prazo_server_limits *limits = &sx->server->options.limits;
    int64_t due;

    switch ((enum sx_state)sx->state) {
    case SX_IDLE:
        due = sx->since_us + limits->idle_us;
        if (due <= now_us)
            close_now(sx, false);
        break;
    case SX_HEAD:
        due = sx->since_us + limits->header_time_us;
        if (due <= now_us)
            refuse(sx, PRAZO_PROBLEM_REQUEST_TIMEOUT);
        break;
    case SX_LINGER:
        due = sx->since_us + LINGER_US;
        if (due <= now_us)
            close_now(sx, sx->out.pending.len > 0);
        break;
    case SX_BUSY:
    case SX_CLOSED:
    default:
        return; /* linked again by set_state() */
    }
    if (due > now_us)
        wake_by(sx, due);
}

/* ---- accepting ---- */

static void open_connection(struct prazo_listener *listener, int fd, const struct prazo_addr *peer)
{
    struct prazo_server *server = listener->server;
    struct prazo_listener_options *o = &listener->options;
    struct prazo_sx *sx = prazo_pool_get(&server->pool);

    if (sx != NULL) {
        sx->server = server;
        sx->listener = listener;
        sx->timer.cb = on_timer;
        sx->peer = *peer;
        sx->is_trusted = o->is_trusted != NULL && o->is_trusted(o->listener_arg, peer);
    }
    if (sx == NULL || prazo_stream_open(server->loop, fd, on_event, sx, &sx->stream) != PRAZO_OK) {
        (void)close(fd);
        if (sx != NULL)
            prazo_pool_put(&server->pool, sx);
        if (o->connections != NULL)
            __atomic_fetch_sub(o->connections, 1, __ATOMIC_RELAXED);
        return;
    }
    prazo_buf_init(&sx->in, server->options.limits.head_bytes + 2 * PRAZO_READ_BUFFER_BYTES);
    prazo_out_init(&sx->out, server->options.pending_bytes_max + PENDING_SLACK);
    prazo_list_push_back(&server->open, &sx->node);
    server->connections++;
    if (o->open_gauge != NULL)
        prazo_gauge_add(o->open_gauge, 1);
    set_state(sx, SX_IDLE);
    on_event(sx, PRAZO_STREAM_READABLE); /* the request has usually come with the connection */
}

static void on_accept_retry(struct prazo_timer *timer, int64_t now_us)
{
    (void)now_us;
    accept_again(PRAZO_CONTAINER(timer, struct prazo_listener, retry));
}

/* Out of descriptors, or at the limit: stop for a moment instead of spinning on a queue that
 * cannot be emptied. A connection that closes starts it again earlier. */
static void accept_later(struct prazo_listener *listener)
{
    struct prazo_loop *loop = listener->server->loop;

    prazo_stream_watch(listener->stream, 0);
    prazo_timers_link_at(prazo_loop_timers(loop), &listener->retry,
                         prazo_loop_now_us(loop) + 100000);
}

static void on_acceptable(void *arg, unsigned events)
{
    struct prazo_listener *listener = arg;
    struct prazo_listener_options *o = &listener->options;
    struct prazo_addr peer;
    int fd;

    (void)events;
    for (int i = 0; i < 16; i++) { /* others on this loop want a turn too */
        if (o->connections != NULL &&
            __atomic_add_fetch(o->connections, 1, __ATOMIC_RELAXED) > o->connections_limit) {
            __atomic_fetch_sub(o->connections, 1, __ATOMIC_RELAXED);
            accept_later(listener);
            return;
        }
        int err = prazo_accept(o->fd, &fd, &peer);
        if (err == PRAZO_OK) {
            open_connection(listener, fd, &peer);
            continue;
        }
        if (o->connections != NULL)
            __atomic_fetch_sub(o->connections, 1, __ATOMIC_RELAXED);
        if (err == PRAZO_E_RESET)
            continue;
        if (err != PRAZO_E_AGAIN) {
            if (o->on_accept_error != NULL)
                o->on_accept_error(o->listener_arg, err);
            accept_later(listener);
        }
        return;
    }
}

int prazo_server_listen(struct prazo_server *server, const struct prazo_listener_options *options,
                        struct prazo_listener **ret_listener)
{
    struct prazo_listener *listener = prazo_mem_calloc(1, sizeof *listener);

    if (listener == NULL)
        return PRAZO_E_NOMEM;
    listener->server = server;
    listener->options = *options;
    listener->retry.cb = on_accept_retry;
    int err = prazo_stream_open_borrowed(server->loop, options->fd, on_acceptable, listener,
                                         &listener->stream);
    if (err != PRAZO_OK) {
        prazo_mem_free(listener);
        return err;
    }
    prazo_list_push_back(&server->listeners, &listener->node);
    prazo_stream_watch(listener->stream, PRAZO_STREAM_READABLE);
    *ret_listener = listener;
    return PRAZO_OK;
}

void prazo_listener_update(struct prazo_listener *listener, bool half_close_waits,
                           int64_t connections_limit)
{
    listener->options.half_close_waits = half_close_waits;
    listener->options.connections_limit = connections_limit;
}

/* The object stays: open connections point to it. */
void prazo_listener_close(struct prazo_listener *listener)
{
    if (listener == NULL || listener->stream == NULL)
        return;
    prazo_timers_unlink(prazo_loop_timers(listener->server->loop), &listener->retry);
    prazo_stream_close(listener->stream, false);
    listener->stream = NULL;
}

/* ---- life of the server ---- */

int prazo_server_new(struct prazo_loop *loop, const struct prazo_server_options *options,
                     struct prazo_server **ret_server)
{
    struct prazo_server *server = prazo_mem_calloc(1, sizeof *server);

    if (server == NULL)
        return PRAZO_E_NOMEM;
    server->loop = loop;
    server->options = *options;
    server->date_s = -1;
    prazo_list_init(&server->open);
    prazo_list_init(&server->reap);
    prazo_list_init(&server->listeners);
    prazo_pool_init(&server->pool, sizeof(struct prazo_sx), 64, options->connections_max);
    prazo_loop_on_turn_end(loop, on_turn_end, server);
    *ret_server = server;
    return PRAZO_OK;
}

void prazo_server_free(struct prazo_server *server)
{
    if (server == NULL)
        return;
    while (!prazo_list_is_empty(&server->open))
        close_now(PRAZO_CONTAINER(server->open.next, struct prazo_sx, node), false);
    on_turn_end(server);
    while (!prazo_list_is_empty(&server->listeners)) {
        struct prazo_listener *listener =
            PRAZO_CONTAINER(server->listeners.next, struct prazo_listener, node);
        prazo_listener_close(listener);
        prazo_list_del(&listener->node);
        prazo_mem_free(listener);
    }
    prazo_pool_done(&server->pool);
    prazo_mem_free(server);
}

void prazo_server_set_limits(struct prazo_server *server, const struct prazo_server_limits *limits)
{
    server->options.limits = *limits;
}

void prazo_server_drain(struct prazo_server *server)
{
    server->is_draining = true;
}

void prazo_server_close_idle(struct prazo_server *server)
{
    struct prazo_list *node = server->open.next;

    while (node != &server->open) {
        struct prazo_sx *sx = PRAZO_CONTAINER(node, struct prazo_sx, node);
        node = node->next;
        if (sx->state == SX_IDLE)
            close_now(sx, false);
    }
}

size_t prazo_server_connections(const struct prazo_server *server)
{
    return server->connections;
}

size_t prazo_server_requests(const struct prazo_server *server)
{
    return server->requests;
}

int64_t prazo_server_last_request_us(const struct prazo_server *server)
{
    return server->last_request_us;
}

/* ---- what the owner may ask ---- */

const struct prazo_addr *prazo_sx_peer(const struct prazo_sx *sx)
{
    return &sx->peer;
}

bool prazo_sx_is_trusted(const struct prazo_sx *sx)
{
    return sx->is_trusted;
}

void *prazo_sx_listener_arg(const struct prazo_sx *sx)
{
    return sx->listener->options.listener_arg;
}

int64_t prazo_sx_began_us(const struct prazo_sx *sx)
{
    return sx->began_us;
}

int64_t prazo_sx_waited_us(const struct prazo_sx *sx)
{
    return prazo_stream_idle_us(sx->stream);
}

struct prazo_loop *prazo_sx_loop(const struct prazo_sx *sx)
{
    return sx->server->loop;
}

size_t prazo_sx_pending(const struct prazo_sx *sx)
{
    return sx->out.pending.len;
}

bool prazo_sx_is_body_complete(const struct prazo_sx *sx)
{
    return sx->body_done;
}

void prazo_sx_pause(struct prazo_sx *sx)
{
    sx->is_paused = true;
    if (!sx->in_event)
        watch(sx);
}

void prazo_sx_resume(struct prazo_sx *sx)
{
    if (!sx->is_paused)
        return;
    sx->is_paused = false;
    if (!sx->in_event)
        go_on(sx);
}

void prazo_sx_close_after(struct prazo_sx *sx)
{
    sx->is_keep_alive = false;
}

/* ---- answering ---- */

void prazo_sx_send_informational(struct prazo_sx *sx, int status, struct prazo_head_out *headers)
{
    if (sx->minor == 0)
        return;
    if (status == 101)
        prazo_head_out_add(headers, PRAZO_STR("connection"), PRAZO_STR("upgrade"));
    prazo_head_out_raw(headers, "\r\n", 2);
    struct prazo_str head = prazo__head_out_answer(headers, status, (struct prazo_str){ NULL, 0 });
    prazo_out_add(&sx->out, sx->stream, head.base, head.len);
}

static void add_length(struct prazo_head_out *headers, int64_t length)
{
    char digits[20];

    prazo_head_out_add(headers, PRAZO_STR("content-length"),
                       prazo_str_n(digits, prazo_format_i64(digits, length)));
}

/* Decides how the body is framed for this client and says so. */
static void frame_answer(struct prazo_sx *sx, struct prazo_head_out *headers, int64_t length,
                         bool has_body)
{
    if (!has_body || sx->is_head) {
        sx->answer = ANSWER_NO_BODY;
        if (length >= 0)
            add_length(headers, length);
    } else if (length >= 0) {
        sx->answer = ANSWER_LENGTH;
        add_length(headers, length);
    } else if (sx->minor == 1) {
        sx->answer = ANSWER_CHUNKED;
        prazo_head_out_raw(headers, "transfer-encoding: chunked\r\n", 28);
    } else {
        sx->answer = ANSWER_TO_EOF;
        sx->is_keep_alive = false;
    }
}

int prazo_sx_send_head(struct prazo_sx *sx, int status, struct prazo_str reason,
                       struct prazo_head_out *headers, int64_t length, bool has_body)
{
    frame_answer(sx, headers, length, has_body);
    if (sx->server->is_draining)
        sx->is_keep_alive = false;
    if (!sx->is_keep_alive)
        prazo_head_out_raw(headers, "connection: close\r\n\r\n", 21);
    else if (sx->minor == 0)
        prazo_head_out_raw(headers, "connection: keep-alive\r\n\r\n", 26);
    else
        prazo_head_out_raw(headers, "\r\n", 2);
    struct prazo_str head = prazo__head_out_answer(headers, status, reason);
    if (head.base == NULL) {
        sx->out.is_broken = true;
        return PRAZO_E_NOMEM;
    }
    prazo_out_add(&sx->out, sx->stream, head.base, head.len);
    return PRAZO_OK;
}

void prazo_sx_send_body(struct prazo_sx *sx, const char *data, size_t len)
{
    if (len == 0 || (sx->answer == ANSWER_NO_BODY && !sx->is_tunnel))
        return;
    if (sx->answer == ANSWER_CHUNKED)
        prazo_out_add_chunk(&sx->out, sx->stream, data, len);
    else
        prazo_out_add(&sx->out, sx->stream, data, len);
}

void prazo_sx_send_end(struct prazo_sx *sx, const struct prazo_header *trailers, size_t count)
{
    if (sx->is_tunnel) {
        (void)prazo_out_flush(&sx->out, sx->stream);
        if (sx->out.pending.len == 0 && !sx->out.is_broken)
            prazo_stream_shutdown(sx->stream);
        else
            sx->owes_fin = true;
    } else if (sx->answer == ANSWER_CHUNKED) {
        prazo_out_add_last_chunk(&sx->out, sx->stream, trailers, sx->wants_trailers ? count : 0);
    }
}

void prazo_sx_flush(struct prazo_sx *sx)
{
    if (!prazo_out_flush(&sx->out, sx->stream))
        sx->must_drain_told = true;
}

void prazo_sx_switch(struct prazo_sx *sx)
{
    sx->is_tunnel = true;
    sx->is_keep_alive = false;
    sx->body_done = false;
    sx->answer = ANSWER_NO_BODY;
}

void prazo_sx_finish(struct prazo_sx *sx)
{
    PRAZO_ASSERT(sx->state == SX_BUSY);
    prazo_sx_flush(sx);
    sx->owner = NULL;
    sx->must_drain_told = false;
    if (!sx->is_keep_alive || !prazo_h1_body_eof(&sx->body) || sx->is_tunnel ||
        sx->out.is_broken) {
        linger(sx);
        return;
    }
    set_state(sx, SX_IDLE);
    /* inside an event, consume() goes on with what is there */
    if (!sx->in_event && (sx->in.len > 0 || sx->has_hangup))
        go_on(sx);
}

void prazo_sx_abort(struct prazo_sx *sx)
{
    bool with_reset = sx->answer == ANSWER_TO_EOF;

    prazo_sx_flush(sx);
    sx->owner = NULL;
    sx->is_told = true;
    sx->is_keep_alive = false;
    if (with_reset || sx->out.is_broken || sx->has_hangup)
        close_now(sx, with_reset);
    else
        linger(sx);
}

static void add_date(struct prazo_sx *sx, struct prazo_head_out *headers)
{
    struct prazo_server *server = sx->server;
    int64_t second = prazo_loop_wall_ms(server->loop) / 1000;

    if (second != server->date_s) {
        time_t t = (time_t)second;
        struct tm tm;
        gmtime_r(&t, &tm);
        strftime(server->date, sizeof server->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        server->date_s = second;
    }
    prazo_head_out_add(headers, PRAZO_STR("date"), prazo_str_n(server->date, 29));
}

void prazo_sx_answer(struct prazo_sx *sx, int status, const char *content_type,
                     struct prazo_head_out *extra, struct prazo_str body)
{
    struct prazo_arena_pool pool;
    struct prazo_arena arena;
    struct prazo_head_out own;

    prazo_arena_pool_init(&pool, 0);
    prazo_arena_init(&arena, &pool, 4 * PRAZO_ARENA_BLOCK_BYTES);
    if (extra == NULL) {
        prazo_head_out_init(&own, &arena, 256);
        extra = &own;
    }
    add_date(sx, extra);
    if (content_type != NULL)
        prazo_head_out_add(extra, PRAZO_STR("content-type"), prazo_str_z(content_type));
    if (prazo_sx_send_head(sx, status, (struct prazo_str){ NULL, 0 }, extra, (int64_t)body.len,
                           status != 204 && status != 304) == PRAZO_OK)
        prazo_sx_send_body(sx, body.base, body.len);
    prazo_sx_finish(sx);
    prazo_arena_reset(&arena);
    prazo_arena_pool_done(&pool);
}
