/* SPDX-License-Identifier: MIT */
/* Shared between the server*.c files: the connection, the listener, the server. */
#ifndef PRAZO_HTTP_SERVER_INTERNAL_H
#define PRAZO_HTTP_SERVER_INTERNAL_H

#include "base/list.h"
#include "base/pool.h"
#include "http/h1.h"
#include "http/out.h"

#define PRAZO_PEER_IP_MAX 46 /* INET6_ADDRSTRLEN */

/* States of a connection; see server_conn.c. */
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
    size_t scan;         /* head search in `in` */
    const char *refusal; /* why a head was refused; static text or NULL */
    void *owner;         /* SX_BUSY: handed to the callbacks */
    int64_t since_us;    /* SX_IDLE, SX_HEAD, SX_LINGER: since when */
    int64_t began_us;    /* first byte of the request */
    int64_t body_bytes;  /* of the request so far */
    size_t lingered_bytes;
    struct prazo_addr peer;
    char peer_ip[PRAZO_PEER_IP_MAX]; /* made once a connection, not once a request */
    uint8_t peer_ip_len;
    uint8_t state;
    uint8_t answer;
    uint8_t minor;
    bool is_trusted;
    bool is_keep_alive; /* the client's wish, and nothing since against it */
    bool is_head;
    bool wants_trailers;
    bool body_done;      /* request complete */
    bool is_paused;      /* the owner does not want more body */
    bool has_fin_behind; /* a FIN stands behind bytes that are not read yet, and may wait */
    bool has_hangup;     /* the client has finished sending or is gone */
    bool is_told;        /* on_gone was called: the owner hears nothing more */
    bool is_tunnel;
    bool in_event;        /* inside on_event(): finish() leaves the next request to it */
    bool must_drain_told; /* pending was > 0: on_drained is owed */
    bool client_closes;   /* the client said that it will not use the connection again */
    bool owes_fin;        /* tunnel: FIN once pending is written */
    bool is_cut;          /* aborted: its end is not worth waiting for */
    bool owes_answer;     /* SX_LINGER: pending is not written yet; counts as a request */
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

/* server_conn.c */
void prazo__sx_set_state(struct prazo_sx *sx, enum sx_state next);
/* A new connection: the stream's events and the timer come here. */
void prazo__sx_on_event(void *arg, unsigned events);
void prazo__sx_on_timer(struct prazo_timer *timer, int64_t now_us);
void prazo__sx_close(struct prazo_sx *sx, bool with_reset);
/* Our last answer is written or draining: FIN, then wait for the client's. */
void prazo__sx_linger(struct prazo_sx *sx);
/* Watches what the connection's state asks for. */
void prazo__sx_watch(struct prazo_sx *sx);
/* The owner has changed something outside of an event: what waits in `in` may go on. */
void prazo__sx_go_on(struct prazo_sx *sx);
/* server.c */
void prazo__listener_accept_again(struct prazo_listener *listener);

#endif
