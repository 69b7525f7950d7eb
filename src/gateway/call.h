/* SPDX-License-Identifier: MIT */
/* Life of one request through the gateway.
 *
 * States, all moves in set_state() of call.c:
 *   CALL_QUEUED      waits for a connection (upstream's `connections.max`); no attempt
 *   CALL_CONNECTING  an attempt is making its connection; no request byte sent
 *   CALL_SENT        the request (or its first part) is sent; no answer yet
 *   CALL_STREAMING   the answer's head went to the client: nothing can be repeated any more
 *   CALL_DONE        counted and logged; freed now, or when a grant on its way has arrived
 *
 * One way out: prazo_call_finish(). Belongs to its worker's thread. */
#ifndef PRAZO_GATEWAY_CALL_H
#define PRAZO_GATEWAY_CALL_H

#include "core/attempt_id.h"
#include "core/problem.h"
#include "gateway/worker.h"

enum prazo_call_state {
    CALL_QUEUED = 0,
    CALL_CONNECTING,
    CALL_SENT,
    CALL_STREAMING,
    CALL_DONE,
    /* must stay last */
    CALL_STATE_COUNT
};

struct prazo_attempt;

/* Memory to build a head of this size and our own lines: it grows by doubling, and what it has
 * grown out of stays. A call has the request's and the answer's. */
#define PRAZO_HEAD_ARENA_BYTES(head_bytes) (65536u + 8u * (head_bytes))
#define PRAZO_ALLOW_BYTES_MAX 128u

struct prazo_call {
    struct prazo_worker *worker;
    struct prazo_view *view;
    const struct prazo_config_route *route; /* NULL: none matched */
    struct prazo_route_series *series;
    const struct prazo_config_upstream *upstream_config;
    struct prazo_upstream *upstream;
    struct prazo_server_rt *const *servers;
    struct prazo_sx *sx; /* NULL once the client's exchange is over */
    struct prazo_attempt *attempt;
    struct prazo_list node; /* worker->active */
    struct prazo_timer timer;
    struct prazo_waiter waiter;
    struct prazo_arena arena;
    struct prazo_head_out prefix; /* the request as it is sent, but for an attempt's own lines */
    size_t prefix_skip;           /* unused room in front of it */
    bool has_host;                /* prefix holds a Host line */
    enum prazo_call_state state;

    int64_t began_us;                         /* the request's first byte */
    int64_t arrived_us, deadline_us, down_us; /* down: deadline − margin */
    int64_t down_wall_ms;                     /* the same on the wire */
    int64_t queued_us;
    int64_t stream_end_us; /* CALL_STREAMING beyond the deadline: stream.max; 0: covered by it */
    int64_t active_us;     /* last byte of a stream, for stream.idle */

    /* of the request; slices into the arena */
    struct prazo_str method, target, path, request_id, upgrade;
    struct prazo_str allow; /* with 405: what routes of this path take */
    enum prazo_method method_id;
    enum prazo_method_class method_class;
    enum prazo_body_kind body;
    int64_t content_length;
    struct prazo_attempt_id caller; /* the caller's x-attempt */
    uint32_t budget;                /* lent by the caller; believed */
    bool has_caller;
    bool is_grpc;
    uint8_t minor;

    /* body */
    struct prazo_buf kept; /* what has come so far, while it may have to be sent (again) */
    bool is_kept;          /* kept holds the whole body so far */
    bool is_body_complete;
    bool is_paused; /* the client's upload is held up */
    struct prazo_header *trailers;
    size_t trailer_count;

    /* outcome */
    int status;         /* sent to the client; 0: none */
    int64_t bytes_sent; /* of the answer's body */
    enum prazo_problem problem;
    const char *server_label; /* of the last attempt, for the log */
    const char *cause;        /* for the log: "client-gone", "deadline", …; NULL: ordinary end */
    const char *fault;  /* of an upstream's malformed answer, for the log; static text or NULL */
    const char *detail; /* of the problem, for the log; static text or NULL */
    bool was_sent;      /* a byte went to an upstream in some attempt */
    bool had_attempt;
    bool was_stale; /* the one replacement of a stale connection is used up */
    bool is_tunnel;
    bool is_abandoned; /* the client left first */
    bool is_settled;   /* counted and logged */
    bool is_pooled;
    bool is_starting; /* inside on_request(): whoever finishes leaves the freeing to it */
    bool is_waiting;  /* CALL_QUEUED and in the upstream's queue, or told and not yet arrived */
    bool was_granted; /* may ask before those who queue */
    bool has_left;    /* CALL_DONE: nobody else points here */
};

/* on_request of the gateway's listeners; returns the call, or NULL if it was answered at once. */
extern const struct prazo_sx_ops prazo_call_sx_ops;
/* The end of the process: what is still under way is cut, counted as shutdown. */
void prazo_calls_cut_all(struct prazo_worker *worker);

/* After the loop has stopped: those in worker->leaving. */
void prazo_calls_free_leaving(struct prazo_worker *worker);

/* ---- between call.c, attempt.c, request.c and answer.c ---- */

/* Counts and logs, once, before the end of the answer goes out: who has the answer finds it in the
 * metrics, whichever thread serves them. cause: for the log, NULL for the ordinary end. */
void prazo_call_settle(struct prazo_call *call, const char *cause);
/* The one way out; settles. cause: for the log, NULL for the ordinary end. */
void prazo_call_finish(struct prazo_call *call, const char *cause);
/* Answers with one of our own problems and finishes. detail: static text or NULL. */
void prazo_call_answer_problem(struct prazo_call *call, enum prazo_problem problem,
                               const char *reason, const char *detail);

/* Answers OPTIONS *, which asks about the server itself: us. Finishes. */
void prazo_call_answer_options(struct prazo_call *call);

/* request.c: reads the head into the call. PRAZO_PROBLEM_NONE, or what to answer. */
enum prazo_problem prazo_call_read_request(struct prazo_call *call, const struct prazo_head *head,
                                           const char **ret_detail);
/* Builds call->prefix. False without memory. */
bool prazo_call_build_request(struct prazo_call *call, const struct prazo_head *head);

/* gateway.c: the name of the listener that the call came in on */
const char *prazo_call_listener_name(const struct prazo_call *call);

/* answer.c */
/* False without memory, which a 101 has to mind. */
bool prazo_call_send_informational(struct prazo_call *call, const struct prazo_head *head);
/* Forwards an answer's head. False without memory. */
bool prazo_call_send_head(struct prazo_call *call, const struct prazo_head *head);
void prazo_answer_bad_request(void *worker, struct prazo_sx *sx, int problem);
void prazo_call_log(struct prazo_call *call, int64_t now_us);
bool prazo_request_id_is_valid(struct prazo_str id);
/* 32 hex digits (128 random bits) in the arena. */
struct prazo_str prazo_request_id_make(struct prazo_worker *worker, char to[32]);

/* attempt.c: events of the call's one attempt come here. */
void prazo_call_on_connecting(struct prazo_call *call);
void prazo_call_on_connected(struct prazo_call *call);
/* One read of the attempt's connection is over: what it gave goes to the client. */
void prazo_call_on_read_done(struct prazo_call *call);
/* All of the request so far is with the kernel. */
void prazo_call_on_upstream_drained(struct prazo_call *call);
void prazo_call_on_head(struct prazo_call *call, const struct prazo_head *head);
void prazo_call_on_body(struct prazo_call *call, const char *data, size_t len);
void prazo_call_on_end(struct prazo_call *call, const struct prazo_header *trailers, size_t count);
/* The attempt ended without a complete answer; it is gone. */
void prazo_call_on_attempt_failed(struct prazo_call *call, enum prazo_problem problem);
/* No connection slot: the attempt is gone, the call waits. */
void prazo_call_wait_for_slot(struct prazo_call *call);

#endif
