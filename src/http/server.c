/* SPDX-License-Identifier: MIT */
/* The server: its listeners, accepting, and its life. What happens on a connection is in
 * server_conn.c, what its owner may do in server_answer.c. */
#include <unistd.h>

#include "base/counter.h"
#include "base/mem.h"
#include "http/server_internal.h"

/* ---- accepting ---- */

void prazo__listener_accept_again(struct prazo_listener *listener)
{
    if (listener->stream != NULL && prazo_stream_watched(listener->stream) == 0)
        prazo_stream_watch(listener->stream, PRAZO_STREAM_READABLE);
}

/* The address without its port and brackets. */
static void set_peer_ip(struct prazo_sx *sx)
{
    char text[PRAZO_ADDR_TEXT_MAX];
    uint8_t ip[16];
    const char *start = text, *end;

    if (prazo_addr_ip(&sx->peer, ip) == 0)
        return;
    prazo_addr_format(&sx->peer, text);
    end = strrchr(text, ':');
    if (text[0] == '[') {
        start++;
        end--;
    }
    sx->peer_ip_len = (uint8_t)(end - start);
    memcpy(sx->peer_ip, start, sx->peer_ip_len);
}

static void open_connection(struct prazo_listener *listener, int fd, const struct prazo_addr *peer)
{
    struct prazo_server *server = listener->server;
    struct prazo_listener_options *o = &listener->options;
    struct prazo_sx *sx = prazo_pool_get(&server->pool);

    if (sx != NULL) {
        sx->server = server;
        sx->listener = listener;
        sx->timer.cb = prazo__sx_on_timer;
        sx->peer = *peer;
        set_peer_ip(sx);
    }
    if (sx == NULL ||
        prazo_stream_open(server->loop, fd, prazo__sx_on_event, sx, &sx->stream) != PRAZO_OK) {
        (void)close(fd);
        if (sx != NULL)
            prazo_pool_put(&server->pool, sx);
        if (o->connections != NULL)
            __atomic_fetch_sub(o->connections, 1, __ATOMIC_RELAXED);
        return;
    }
    prazo_buf_init(&sx->in, server->options.limits.head_bytes + 2 * PRAZO_READ_BUFFER_BYTES);
    prazo_out_init(&sx->out, server->options.pending_bytes_max + PRAZO_PENDING_SLACK);
    prazo_list_push_back(&server->open, &sx->node);
    server->connections++;
    if (o->open_gauge != NULL)
        prazo_gauge_add(o->open_gauge, 1);
    prazo__sx_set_state(sx, SX_IDLE);
    prazo__sx_on_event(
        sx, PRAZO_STREAM_READABLE); /* the request has usually come with the connection */
}

static void on_accept_retry(struct prazo_timer *timer, int64_t now_us)
{
    (void)now_us;
    prazo__listener_accept_again(PRAZO_CONTAINER(timer, struct prazo_listener, retry));
}

/* Out of descriptors, or at the limit: stop for a moment instead of spinning on a queue that
 * cannot be emptied. A connection that closes starts it again earlier. */
static void accept_later(struct prazo_listener *listener)
{
    struct prazo_loop *loop = listener->server->loop;

    if (listener->options.paused_count != NULL)
        prazo_counter_inc(listener->options.paused_count);
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

static void on_turn_end(void *arg)
{
    struct prazo_server *server = arg;

    while (!prazo_list_is_empty(&server->reap)) {
        struct prazo_list *node = server->reap.next;
        prazo_list_del(node);
        prazo_pool_put(&server->pool, PRAZO_CONTAINER(node, struct prazo_sx, node));
    }
}

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
        prazo__sx_close(PRAZO_CONTAINER(server->open.next, struct prazo_sx, node), false);
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

void prazo_server_set_pending_max(struct prazo_server *server, size_t bytes)
{
    server->options.pending_bytes_max = bytes;
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
        if (sx->state == SX_IDLE && sx->out.pending.len > 0)
            prazo__sx_linger(sx); /* its last answer is still on its way to a slow client */
        else if (sx->state == SX_IDLE && prazo_stream_unread(sx->stream) == 0)
            prazo__sx_close(sx, false); /* not one whose next request has just come */
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
