/* SPDX-License-Identifier: MIT */
/* Counters of the gateway. Every thread writes its own block; readers sum. Series exist per label
 * of the configuration, never per anything that traffic brings (C089), and live as long as the
 * process, so that counters survive a reload.
 *
 * prazo_stats_route() and the like are for start and reload (mutex inside); counting is
 * `prazo_counter_inc(&series->thread[worker_index]->requests[code])`. */
#ifndef PRAZO_GATEWAY_STATS_H
#define PRAZO_GATEWAY_STATS_H

#include "base/buf.h"
#include "base/counter.h"
#include "base/histogram.h"
#include "core/window.h"

#define PRAZO_THREADS_MAX 64

/* X(NAME, "label") */
#define PRAZO_CODE_MAP(X)                                                                          \
    X(1XX, "1xx")                                                                                  \
    X(2XX, "2xx")                                                                                  \
    X(3XX, "3xx")                                                                                  \
    X(4XX, "4xx")                                                                                  \
    X(5XX, "5xx")                                                                                  \
    X(GONE, "gone")
#define PRAZO_RESULT_MAP(X)                                                                        \
    X(OK, "ok")                                                                                    \
    X(ERROR, "error")                                                                              \
    X(SHED, "shed")                                                                                \
    X(EXPIRED, "expired")                                                                          \
    X(ABANDONED, "abandoned")
#define PRAZO_GONE_STATE_MAP(X)                                                                    \
    X(READING, "reading")                                                                          \
    X(QUEUED, "queued")                                                                            \
    X(WAITING, "waiting")                                                                          \
    X(CONNECTING, "connecting")                                                                    \
    X(SENT, "sent")                                                                                \
    X(STREAMING, "streaming")
#define PRAZO_KIND_MAP(X)                                                                          \
    X(FIRST, "first")                                                                              \
    X(RETRY, "retry")                                                                              \
    X(STALE, "stale")                                                                              \
    X(PROBE, "probe")
#define PRAZO_ATTEMPT_MAP(X)                                                                       \
    X(OK, "ok")                                                                                    \
    X(ERROR, "error")                                                                              \
    X(REFUSED, "refused")                                                                          \
    X(RESET, "reset")                                                                              \
    X(TIMEOUT, "timeout")                                                                          \
    X(CUT, "cut")                                                                                  \
    X(INVALID, "invalid")
#define PRAZO_CAUSE_MAP(X)                                                                         \
    X(CLIENT_GONE, "client-gone")                                                                  \
    X(DEADLINE, "deadline")                                                                        \
    X(ATTEMPT_TIMEOUT, "attempt-timeout")                                                          \
    X(SHUTDOWN, "shutdown")
#define PRAZO_DROP_MAP(X)                                                                          \
    X(EXPIRED, "expired")                                                                          \
    X(ABANDONED, "abandoned")
#define PRAZO_SHED_MAP(X)                                                                          \
    X(QUEUE_FULL, "queue-full")                                                                    \
    X(QUEUE_WAIT, "queue-wait")                                                                    \
    X(WOULD_MISS, "would-miss-deadline")                                                           \
    X(LIMIT, "limit")                                                                              \
    X(DRAINING, "draining")

#define X(NAME, label) PRAZO_STAT_CODE_##NAME,
enum prazo_stat_code { PRAZO_CODE_MAP(X) PRAZO_STAT_CODE_COUNT };
#undef X
#define X(NAME, label) PRAZO_STAT_RESULT_##NAME,
enum prazo_stat_result { PRAZO_RESULT_MAP(X) PRAZO_STAT_RESULT_COUNT };
#undef X
#define X(NAME, label) PRAZO_STAT_GONE_##NAME,
enum prazo_stat_gone { PRAZO_GONE_STATE_MAP(X) PRAZO_STAT_GONE_COUNT };
#undef X
#define X(NAME, label) PRAZO_STAT_KIND_##NAME,
enum prazo_stat_kind { PRAZO_KIND_MAP(X) PRAZO_STAT_KIND_COUNT };
#undef X
#define X(NAME, label) PRAZO_STAT_ATTEMPT_##NAME,
enum prazo_stat_attempt { PRAZO_ATTEMPT_MAP(X) PRAZO_STAT_ATTEMPT_COUNT };
#undef X
#define X(NAME, label) PRAZO_STAT_CAUSE_##NAME,
enum prazo_stat_cause { PRAZO_CAUSE_MAP(X) PRAZO_STAT_CAUSE_COUNT };
#undef X
#define X(NAME, label) PRAZO_STAT_DROP_##NAME,
enum prazo_stat_drop { PRAZO_DROP_MAP(X) PRAZO_STAT_DROP_COUNT };
#undef X
#define X(NAME, label) PRAZO_STAT_SHED_##NAME,
enum prazo_stat_shed { PRAZO_SHED_MAP(X) PRAZO_STAT_SHED_COUNT };
#undef X

struct prazo_route_stats {
    prazo_counter requests[PRAZO_STAT_CODE_COUNT];
    struct prazo_histogram seconds[PRAZO_STAT_RESULT_COUNT];
    struct prazo_histogram budget_left;
    prazo_counter client_gone[PRAZO_STAT_GONE_COUNT];
};

struct prazo_upstream_stats {
    struct prazo_histogram attempt_seconds[PRAZO_STAT_ATTEMPT_COUNT];
    prazo_counter requests;            /* that got at least one attempt */
    struct prazo_window amplification; /* a: attempts, b: requests with at least one */
    prazo_counter cancelled[PRAZO_STAT_CAUSE_COUNT];
    prazo_counter orphan_answers, orphan_us, abandon_unknown;
    struct prazo_histogram queue_seconds;
    prazo_counter queue_dropped[PRAZO_STAT_DROP_COUNT];
    prazo_counter shed[PRAZO_STAT_SHED_COUNT];
    int64_t queue_depth, in_flight, connections_idle, connections_active; /* gauges */
};

struct prazo_server_stats {
    prazo_counter attempts[PRAZO_STAT_KIND_COUNT][PRAZO_STAT_ATTEMPT_COUNT];
    prazo_counter connect_failures;
};

struct prazo_listener_stats {
    int64_t connections; /* gauge */
    prazo_counter accept_paused;
};

struct prazo_thread_stats {
    prazo_counter malformed, expired_on_arrival, skew;
    int64_t lag_us; /* worst since the last scrape window, set by the worker each second */
};

/* One series of each kind: label(s) and a block per thread (NULL beyond the thread count). */
struct prazo_route_series {
    char *route;
    struct prazo_route_stats *thread[PRAZO_THREADS_MAX];
};
struct prazo_upstream_series {
    char *upstream;
    struct prazo_upstream_stats *thread[PRAZO_THREADS_MAX];
};
struct prazo_server_series {
    char *upstream;
    char *server;
    struct prazo_server_stats *thread[PRAZO_THREADS_MAX];
};
struct prazo_listener_series {
    char *listener;
    struct prazo_listener_stats *thread[PRAZO_THREADS_MAX];
};

struct prazo_stats; /* registry */

/* threads in 1..PRAZO_THREADS_MAX. PRAZO_E_NOMEM. */
int prazo_stats_new(unsigned threads, struct prazo_stats **ret_stats);
void prazo_stats_free(struct prazo_stats *stats);

/* Found or made; NULL only without memory. Pointers stay valid until prazo_stats_free(). */
struct prazo_route_series *prazo_stats_route(struct prazo_stats *stats, const char *route);
struct prazo_upstream_series *prazo_stats_upstream(struct prazo_stats *stats, const char *upstream);
struct prazo_server_series *prazo_stats_server(struct prazo_stats *stats, const char *upstream,
                                               const char *server);
struct prazo_listener_series *prazo_stats_listener(struct prazo_stats *stats, const char *listener);
struct prazo_thread_stats *prazo_stats_thread(struct prazo_stats *stats, unsigned thread);
void prazo_stats_count_reload(struct prazo_stats *stats, bool ok);

/* Prometheus text format 0.0.4, or OpenMetrics 1.0.0 (ends in "# EOF"). now_us: loop time. */
int prazo_stats_write_metrics(struct prazo_stats *stats, bool open_metrics, int64_t now_us,
                              struct prazo_buf *to);
/* JSON for /api/state: name, version, ready, upstreams (amplification, in flight, queue,
 * connections, servers …), routes, listeners. */
int prazo_stats_write_state(struct prazo_stats *stats, const char *name, bool is_ready,
                            int64_t now_us, struct prazo_buf *to);

#endif
