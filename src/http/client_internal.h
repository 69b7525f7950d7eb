/* SPDX-License-Identifier: MIT */
/* Shared between client.c and client_pool.c: the connection, the pool, the client. */
#ifndef PRAZO_HTTP_CLIENT_INTERNAL_H
#define PRAZO_HTTP_CLIENT_INTERNAL_H

#include "base/list.h"
#include "base/pool.h"
#include "http/client.h"
#include "http/h1.h"
#include "http/out.h"

/* States of a connection; see client.c. */
enum cx_state { CX_CONNECTING = 0, CX_READY, CX_ENDED, CX_IDLE, CX_CLOSED };

struct prazo_client_pool {
    struct prazo_client *client;
    struct prazo_client_pool_options options;
    struct prazo_list idle; /* newest first */
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
    const char *fault; /* why an answer is malformed; static text or NULL */
    void *owner;
    int64_t idle_since_us, idle_until_us;
    int64_t keep_alive_us; /* announced by the server; 0: nothing */
    uint8_t state;
    uint8_t request_body; /* enum prazo_body_kind of what is sent */
    uint8_t informational;
    bool is_reused;
    bool is_head;
    bool asks_upgrade;
    bool is_request_done;
    bool is_answering; /* the final head was seen */
    bool is_keep_alive;
    bool is_paused;
    bool has_hangup;
    bool is_tunnel;
    bool is_hung_up; /* we sent FIN */
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

/* client.c: the stream's events. */
void prazo__cx_on_event(void *arg, unsigned events);
void prazo__cx_watch(struct prazo_cx *cx);
/* client_pool.c: the only writer of cx->state. */
void prazo__cx_set_state(struct prazo_cx *cx, enum cx_state next);
void prazo__cx_close(struct prazo_cx *cx);
/* Back to the pool, or closed; outside of any event of this connection. */
void prazo__cx_put_back(struct prazo_cx *cx);

#endif
