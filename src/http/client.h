/* SPDX-License-Identifier: MIT */
/* Client exchanges: one request to an upstream server and its answer, and the pools of connections
 * that carry them. Threads, slices and callbacks as in exchange.h.
 *
 * Life of a cx: prazo_client_take() (an idle connection, ready at once) or
 * prazo_client_connect() (on_connected or on_fail follows) → send_head, send_body, send_end →
 * on_informational* → on_head → on_body* → on_end, or on_fail once at any time. The owner ends it
 * exactly once with prazo_cx_release() or prazo_cx_close(), also after on_end and on_fail. */
#ifndef PRAZO_HTTP_CLIENT_H
#define PRAZO_HTTP_CLIENT_H

#include "http/exchange.h"

struct prazo_cx;
struct prazo_client;      /* one per loop */
struct prazo_client_pool; /* one per loop and server of an upstream */

enum prazo_cx_fail {
    PRAZO_CX_CONNECT = 0, /* no connection could be made to this address */
    PRAZO_CX_RESET,       /* connection lost before the answer was complete */
    PRAZO_CX_INVALID,     /* malformed answer */
};

struct prazo_cx_ops {
    void (*on_connected)(void *arg, struct prazo_cx *cx);
    void (*on_informational)(void *arg, struct prazo_cx *cx, const struct prazo_head *head);
    void (*on_head)(void *arg, struct prazo_cx *cx, const struct prazo_head *head);
    void (*on_body)(void *arg, struct prazo_cx *cx, const char *data, size_t len);
    void (*on_end)(void *arg, struct prazo_cx *cx, const struct prazo_header *trailers,
                   size_t count);
    void (*on_fail)(void *arg, struct prazo_cx *cx, enum prazo_cx_fail why);
    void (*on_read_done)(void *arg, struct prazo_cx *cx);
    void (*on_drained)(void *arg, struct prazo_cx *cx);
};

struct prazo_client_options {
    const struct prazo_cx_ops *ops;
    size_t head_bytes_max;    /* of an answer */
    size_t pending_bytes_max; /* the most that the owner lets prazo_cx_pending() grow to */
    size_t connections_max;   /* of this thread */
};

int prazo_client_new(struct prazo_loop *loop, const struct prazo_client_options *options,
                     struct prazo_client **ret_client);
/* What a reload may change, for the exchanges that begin from now on. */
void prazo_client_set_limits(struct prazo_client *client, size_t head_bytes_max,
                             size_t pending_bytes_max);
/* Closes everything that is left, without callbacks. */
void prazo_client_free(struct prazo_client *client);

struct prazo_client_pool_options {
    size_t idle_max;
    int64_t idle_timeout_us;
    /* A connection of this pool has been closed, idle or not, or could not be made. */
    void (*on_closed)(void *arg);
    /* A connection has become idle. May close idle ones. */
    void (*on_idle)(void *arg);
    void *arg;
    int64_t *idle_gauge, *active_gauge; /* counter.h gauges, or NULL */
};

int prazo_client_pool_new(struct prazo_client *client,
                          const struct prazo_client_pool_options *options,
                          struct prazo_client_pool **ret_pool);
/* Closes idle connections; those in use close when they are released. Then the pool is gone. */
void prazo_client_pool_close(struct prazo_client_pool *pool);
void prazo_client_pool_set_limits(struct prazo_client_pool *pool, size_t idle_max,
                                  int64_t idle_timeout_us);
/* Closes the connection that has been idle longest. False if there is none. */
bool prazo_client_pool_close_one(struct prazo_client_pool *pool);

/* An idle connection, ready for a request; NULL if there is none. */
struct prazo_cx *prazo_client_take(struct prazo_client_pool *pool, void *arg);
/* Starts a connection. PRAZO_OK: on_connected or on_fail(PRAZO_CX_CONNECT) will come. An error:
 * none will (PRAZO_E_NO_FDS, PRAZO_E_NOMEM, PRAZO_E_REFUSED, …). */
int prazo_client_connect(struct prazo_client_pool *pool, const struct prazo_addr *addr, void *arg,
                         struct prazo_cx **ret_cx);

/* method, target and headers stand in `prefix`, tail holds more header lines of this attempt; http/
 * adds framing and the empty line. Both must stay valid until the flush. */
struct prazo_cx_request {
    struct prazo_str prefix; /* request line and header lines */
    struct prazo_str tail;   /* further header lines, may be empty */
    enum prazo_body_kind body;
    int64_t content_length;
    bool is_head;             /* HEAD: the answer has no body */
    struct prazo_str upgrade; /* asks to switch protocols; base NULL: no */
};
void prazo_cx_send_head(struct prazo_cx *cx, const struct prazo_cx_request *request);
void prazo_cx_send_body(struct prazo_cx *cx, const char *data, size_t len);
void prazo_cx_send_end(struct prazo_cx *cx, const struct prazo_header *trailers, size_t count);
void prazo_cx_flush(struct prazo_cx *cx);
size_t prazo_cx_pending(const struct prazo_cx *cx);
/* Has the kernel taken any byte of this request? */
bool prazo_cx_was_sent(const struct prazo_cx *cx);
/* Has a byte of an answer to this request been seen? */
bool prazo_cx_was_answered(const struct prazo_cx *cx);
/* After on_fail(PRAZO_CX_INVALID): what is wrong with the answer, static text. */
const char *prazo_cx_fault(const struct prazo_cx *cx);
bool prazo_cx_is_reused(const struct prazo_cx *cx);
void prazo_cx_pause(struct prazo_cx *cx);
void prazo_cx_resume(struct prazo_cx *cx);
/* From a 101 on (told by on_head) both directions are plain bytes: on_end is the server's FIN,
 * prazo_cx_send_end() sends ours. */

/* Sends FIN and goes on reading: the server is told that nobody waits any more. */
void prazo_cx_hang_up(struct prazo_cx *cx);
/* The exchange is over: back to the pool if the connection can carry another, else closed. cx is
 * not valid afterwards. */
void prazo_cx_release(struct prazo_cx *cx);
/* Closes the connection. cx is not valid afterwards. NULL is accepted. */
void prazo_cx_close(struct prazo_cx *cx);

#endif
