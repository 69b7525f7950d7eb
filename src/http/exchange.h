/* SPDX-License-Identifier: MIT */
/* Exchanges: one request and its one answer, whatever protocol carries them. This is all that
 * gateway/, lab/ and web/ see of HTTP. A server exchange (sx) came from a client; a client exchange
 * (cx) goes to an upstream server (client.h).
 *
 * Threads: an exchange belongs to its loop. Callbacks never run inside a function of this header,
 * but for those said so. Slices given to callbacks are valid until the callback returns. Slices
 * given to *_send_body() must stay valid until *_flush() returns (or the read event that gave them
 * ends): they are written from where they lie, and only what the kernel does not take is copied.
 *
 * Life of an sx: on_request → (on_body)* → on_body_end, and at any time on_gone, after which the
 * owner may still send (to nowhere) but hears nothing more. The owner ends every exchange exactly
 * once: prazo_sx_finish() after the answer is complete, or prazo_sx_abort(). */
#ifndef PRAZO_HTTP_EXCHANGE_H
#define PRAZO_HTTP_EXCHANGE_H

#include "base/arena.h"
#include "base/counter.h"
#include "http/msg.h"
#include "io/io.h"

struct prazo_sx;
struct prazo_server;

/* ---- head under construction ---- */

/* Headers of a message to be sent, as one piece of memory in an arena. http/ adds framing,
 * Connection and Date itself; never add those. */
struct prazo_head_out {
    struct prazo_arena *arena;
    char *base;
    size_t len, cap;
    bool failed; /* no memory left in the arena: sending will fail with PRAZO_E_NOMEM */
};

/* room: a first guess of the bytes needed. */
void prazo_head_out_init(struct prazo_head_out *out, struct prazo_arena *arena, size_t room);
void prazo_head_out_add(struct prazo_head_out *out, struct prazo_str name, struct prazo_str value);
/* Raw bytes of the head (start line); used by http/ and for what is built piece by piece. */
void prazo_head_out_raw(struct prazo_head_out *out, const char *bytes, size_t len);

/* ---- server side ---- */

enum prazo_gone {
    PRAZO_GONE_FIN = 0, /* the client has closed or half-closed (half_close: abandon) */
    PRAZO_GONE_RESET,
    PRAZO_GONE_BAD_BODY,       /* the request's body broke its framing: the owner answers 400 */
    PRAZO_GONE_BODY_TOO_LARGE, /* over limits.body: the owner answers 413 */
};

struct prazo_sx_ops {
    /* A request's head. Returns the owner's object for this exchange, handed to the callbacks
     * below; may answer at once. */
    void *(*on_request)(void *server_arg, struct prazo_sx *sx, const struct prazo_head *head);
    void (*on_body)(void *arg, struct prazo_sx *sx, const char *data, size_t len);
    /* The request is complete. trailers: count may be 0. Also called for requests without body. */
    void (*on_body_end)(void *arg, struct prazo_sx *sx, const struct prazo_header *trailers,
                        size_t count);
    /* For FIN and RESET nothing more comes. For the BAD_BODY kinds an answer can still be sent. */
    void (*on_gone)(void *arg, struct prazo_sx *sx, enum prazo_gone why);
    /* One read event's callbacks are over: flush what was made of them. */
    void (*on_read_done)(void *arg, struct prazo_sx *sx);
    /* Pending output has drained (it is 0 now) after prazo_sx_pending() had been > 0. */
    void (*on_drained)(void *arg, struct prazo_sx *sx);
    /* A connection ended with an unfinished request head (state "reading"). May be NULL. */
    void (*on_head_abandoned)(void *server_arg);
    /* A request that never reached on_request is answered with this problem (enum prazo_problem);
     * the owner writes the document (prazo_sx_refusal() says why) and its log line. The connection
     * ends afterwards. Runs prazo_sx_answer() itself. */
    void (*on_bad_request)(void *server_arg, struct prazo_sx *sx, int problem);
};

/* The peer's bare IP as text ("127.0.0.1", "::1"); empty for a Unix socket. */
struct prazo_str prazo_sx_peer_ip(const struct prazo_sx *sx);
/* Does the listener trust the peer? Asked anew for each request. */
bool prazo_sx_is_trusted(const struct prazo_sx *sx);
/* The listener that the connection came in on (prazo_server_options.listener_arg). */
void *prazo_sx_listener_arg(const struct prazo_sx *sx);
/* Time since the request's first byte was read, as loop time (µs). */
int64_t prazo_sx_began_us(const struct prazo_sx *sx);
/* In on_bad_request: which rule the head breaks, static text, or NULL. */
const char *prazo_sx_refusal(const struct prazo_sx *sx);
/* How long the last bytes lay unread in the kernel, µs. Costs a system call. */
int64_t prazo_sx_waited_us(const struct prazo_sx *sx);

/* 1xx answer; dropped for HTTP/1.0 clients. PRAZO_E_NOMEM: not sent, which a 101 has to mind. */
int prazo_sx_send_informational(struct prazo_sx *sx, int status, struct prazo_head_out *headers);
/* The final answer's head. length: >= 0 exact, -1 unknown (chunks for 1.1, until close for 1.0).
 * has_body false for answers that have none whatever length says (HEAD, 204, 304: `length` is then
 * announced if >= 0). The head_out's memory must stay valid until the flush. PRAZO_E_NOMEM. */
int prazo_sx_send_head(struct prazo_sx *sx, int status, struct prazo_str reason,
                       struct prazo_head_out *headers, int64_t length, bool has_body);
void prazo_sx_send_body(struct prazo_sx *sx, const char *data, size_t len);
/* End of the body. trailers are sent only to a client that said TE: trailers. */
void prazo_sx_send_end(struct prazo_sx *sx, const struct prazo_header *trailers, size_t count);
/* Writes what there is; what the kernel does not take is copied and sent as it drains. */
void prazo_sx_flush(struct prazo_sx *sx);
/* Bytes copied and not yet taken by the kernel. */
size_t prazo_sx_pending(const struct prazo_sx *sx);
/* Stops and goes on reading the request's body. The connection stays watched for a hang-up. */
void prazo_sx_pause(struct prazo_sx *sx);
void prazo_sx_resume(struct prazo_sx *sx);
/* Has the request been read to its end? */
bool prazo_sx_is_body_complete(const struct prazo_sx *sx);
/* This answer says Connection: close and the connection ends after it. */
void prazo_sx_close_after(struct prazo_sx *sx);
/* After a 101: both directions are plain bytes; on_body gives them, on_body_end is the client's
 * FIN, send_end sends ours. */
void prazo_sx_switch(struct prazo_sx *sx);
/* The owner is done with a complete answer; sx is not valid afterwards. Does the flush. */
void prazo_sx_finish(struct prazo_sx *sx);
/* Ends the connection so that the client sees the answer cut (a body of unknown length to a 1.0
 * client: RST). sx is not valid afterwards. */
void prazo_sx_abort(struct prazo_sx *sx);

/* Whole small answer in one: head, body (not for HEAD), end, finish. content_type NULL: none.
 * extra: further headers made with an arena of the caller's, or NULL. */
void prazo_sx_answer(struct prazo_sx *sx, int status, const char *content_type,
                     struct prazo_head_out *extra, struct prazo_str body);

struct prazo_server_limits {
    size_t head_bytes;  /* limits.headers */
    size_t uri_bytes;   /* limits.uri */
    int64_t body_bytes; /* limits.body; -1: none */
    int64_t header_time_us;
    int64_t idle_us;
};

struct prazo_server_options {
    const struct prazo_sx_ops *ops;
    void *arg; /* server_arg of the callbacks */
    struct prazo_server_limits limits;
    size_t connections_max;   /* of this thread's slab */
    size_t pending_bytes_max; /* the most that the owner lets prazo_sx_pending() grow to */
};

/* One server per loop serves any number of listeners. */
int prazo_server_new(struct prazo_loop *loop, const struct prazo_server_options *options,
                     struct prazo_server **ret_server);
/* Closes everything that is left. */
void prazo_server_free(struct prazo_server *server);
void prazo_server_set_limits(struct prazo_server *server, const struct prazo_server_limits *limits);
/* pending_bytes_max of the requests that begin from now on. */
void prazo_server_set_pending_max(struct prazo_server *server, size_t bytes);

struct prazo_listener_options {
    int fd; /* listening, borrowed */
    void *listener_arg;
    /* Is this peer trusted? NULL: never. */
    bool (*is_trusted)(void *listener_arg, const struct prazo_addr *peer);
    bool half_close_waits;
    /* Out of descriptors or memory: said at most every 100 ms. NULL: nothing. */
    void (*on_accept_error)(void *listener_arg, int err);
    /* Process-wide count of connections (atomic), or NULL; at connections_limit accepting stops
     * until it falls. */
    int64_t *connections;
    int64_t connections_limit;
    /* Counts this thread's open connections of this listener (counter.h gauge), or NULL. */
    int64_t *open_gauge;
    /* Counts how often accepting stopped (the limit, or no descriptors), or NULL. */
    prazo_counter *paused_count;
};

struct prazo_listener;
/* Starts accepting. The same fd may be given to several loops' servers. */
int prazo_server_listen(struct prazo_server *server, const struct prazo_listener_options *options,
                        struct prazo_listener **ret_listener);
/* What a reload may change; open connections follow at their next request. */
void prazo_listener_update(struct prazo_listener *listener, bool half_close_waits,
                           int64_t connections_limit);
/* Stops accepting; open connections go on. Does not close the fd. */
void prazo_listener_close(struct prazo_listener *listener);

/* From now on each answer says Connection: close; idle connections stay until they are used or
 * prazo_server_close_idle(). */
void prazo_server_drain(struct prazo_server *server);
void prazo_server_close_idle(struct prazo_server *server);
/* Open connections and, of them, requests under way. */
size_t prazo_server_connections(const struct prazo_server *server);
size_t prazo_server_requests(const struct prazo_server *server);
/* When the last request head arrived (loop time), 0: never. */
int64_t prazo_server_last_request_us(const struct prazo_server *server);

#endif
