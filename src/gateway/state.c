/* SPDX-License-Identifier: MIT */
/* /api/state: the counters as one JSON document, for people and dashboards. Counts are totals since
 * the start, as in /metrics; a reader that wants rates or quantiles of a span subtracts two
 * documents (that is what the buckets are for). Holds no request's text: labels of the
 * configuration and numbers only. */
#include <inttypes.h>

#include "base/log.h"
#include "gateway/stats_internal.h"

/* Writes members and elements with their commas; the first error stays. */
struct json {
    struct prazo_buf *to;
    int err;
    bool needs_comma;
};

static void put(struct json *json, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct json *json, const char *fmt, ...)
{
    va_list ap;
    if (json->err)
        return;
    va_start(ap, fmt);
    json->err = prazo_buf_vaddf(json->to, fmt, ap);
    va_end(ap);
}

/* key is one of ours and needs no escaping; NULL for an element of an array. */
static void put_key(struct json *json, const char *key)
{
    if (json->needs_comma)
        put(json, ",");
    if (key)
        put(json, "\"%s\":", key);
    json->needs_comma = true;
}

static void put_open(struct json *json, const char *key, char bracket)
{
    put_key(json, key);
    put(json, "%c", bracket);
    json->needs_comma = false;
}

static void put_close(struct json *json, char bracket)
{
    put(json, "%c", bracket);
    json->needs_comma = true;
}

static void put_text(struct json *json, const char *key, const char *text)
{
    put_key(json, key);
    if (!json->err)
        json->err = prazo_buf_add_json(json->to, prazo_str_z(text));
}

static void put_bool(struct json *json, const char *key, bool value)
{
    put_key(json, key);
    put(json, value ? "true" : "false");
}

static void put_i64(struct json *json, const char *key, int64_t value)
{
    put_key(json, key);
    put(json, "%" PRId64, value);
}

static void put_u64(struct json *json, const char *key, uint64_t value)
{
    put_key(json, key);
    put(json, "%" PRIu64, value);
}

/* µs as milliseconds. */
static void put_ms(struct json *json, const char *key, uint64_t us)
{
    put_key(json, key);
    put(json, "%" PRIu64 ".%03" PRIu64, us / 1000, us % 1000);
}

static void put_histogram(struct json *json, const char *key, const struct prazo_histogram *sum)
{
    put_open(json, key, '{');
    put_ms(json, "sum_ms", sum->sum_us);
    put_open(json, "buckets", '[');
    for (unsigned i = 0; i < PRAZO_HISTOGRAM_BUCKETS; i++)
        put_u64(json, NULL, sum->count[i]);
    put_close(json, ']');
    put_close(json, '}');
}

#define X(NAME, label) label,
static const char *const code_names[] = { PRAZO_CODE_MAP(X) };
static const char *const gone_names[] = { PRAZO_GONE_STATE_MAP(X) };
static const char *const attempt_names[] = { PRAZO_ATTEMPT_MAP(X) };
static const char *const cause_names[] = { PRAZO_CAUSE_MAP(X) };
static const char *const drop_names[] = { PRAZO_DROP_MAP(X) };
static const char *const shed_names[] = { PRAZO_SHED_MAP(X) };
#undef X

/* Adds one counter of a series, over the threads, to sum. */
#define SUM(s, member, sum)                                                                        \
    for (unsigned t_ = 0; t_ < stats->threads; t_++)                                               \
    (sum) += prazo_counter_read(&(s)->thread[t_]->member)

#define PUT_SUM(key, s, member)                                                                    \
    do {                                                                                           \
        uint64_t sum_ = 0;                                                                         \
        SUM(s, member, sum_);                                                                      \
        put_u64(json, key, sum_);                                                                  \
    } while (0)

#define PUT_GAUGE(key, s, member)                                                                  \
    do {                                                                                           \
        int64_t sum_ = 0;                                                                          \
        for (unsigned t_ = 0; t_ < stats->threads; t_++)                                           \
            sum_ += prazo_gauge_read(&(s)->thread[t_]->member);                                    \
        put_i64(json, key, sum_);                                                                  \
    } while (0)

/* An array of counters as an object whose members are the label's values. */
#define PUT_SUMS(key, names, s, member)                                                            \
    do {                                                                                           \
        put_open(json, key, '{');                                                                  \
        for (size_t i_ = 0; i_ < sizeof(names) / sizeof(names)[0]; i_++)                           \
            PUT_SUM((names)[i_], s, member[i_]);                                                   \
        put_close(json, '}');                                                                      \
    } while (0)

static void put_server(struct json *json, const struct prazo_stats *stats,
                       const struct prazo_server_series *s)
{
    put_open(json, NULL, '{');
    put_text(json, "address", s->server);
    put_open(json, "attempts", '{');
    for (unsigned result = 0; result < PRAZO_STAT_ATTEMPT_COUNT; result++) {
        uint64_t sum = 0;
        for (unsigned kind = 0; kind < PRAZO_STAT_KIND_COUNT; kind++)
            SUM(s, attempts[kind][result], sum);
        put_u64(json, attempt_names[result], sum);
    }
    put_close(json, '}');
    PUT_SUM("connect_failures", s, connect_failures);
    put_close(json, '}');
}

static void put_upstream(struct json *json, const struct prazo_stats *stats,
                         const struct prazo_upstream_series *s, int64_t now_us)
{
    uint64_t orphan_us = 0;
    struct prazo_histogram ok = { .sum_us = 0 };
    SUM(s, orphan_us, orphan_us);
    for (unsigned t = 0; t < stats->threads; t++)
        prazo_histogram_sum(&ok, &s->thread[t]->attempt_seconds[PRAZO_STAT_ATTEMPT_OK]);

    put_open(json, NULL, '{');
    put_text(json, "name", s->upstream);
    put_key(json, "amplification");
    put(json, "%.3f", prazo__stats_amplification(stats, s, now_us));
    PUT_GAUGE("in_flight", s, in_flight);
    PUT_GAUGE("queue", s, queue_depth);
    put_open(json, "connections", '{');
    PUT_GAUGE("idle", s, connections_idle);
    PUT_GAUGE("active", s, connections_active);
    put_close(json, '}');
    PUT_SUM("requests", s, requests);
    PUT_SUM("orphan_answers", s, orphan_answers);
    put_ms(json, "orphan_ms", orphan_us);
    PUT_SUM("abandon_unknown", s, abandon_unknown);
    PUT_SUMS("cancelled", cause_names, s, cancelled);
    PUT_SUMS("queue_dropped", drop_names, s, queue_dropped);
    PUT_SUMS("shed", shed_names, s, shed);
    put_histogram(json, "ok", &ok);
    put_open(json, "servers", '[');
    for (size_t i = 0; i < stats->servers.count; i++) {
        const struct prazo_server_series *server = prazo__stats_server_at(stats, i);
        if (strcmp(server->upstream, s->upstream) == 0)
            put_server(json, stats, server);
    }
    put_close(json, ']');
    put_close(json, '}');
}

static void put_route(struct json *json, const struct prazo_stats *stats,
                      const struct prazo_route_series *s)
{
    struct prazo_histogram ok = { .sum_us = 0 };
    for (unsigned t = 0; t < stats->threads; t++)
        prazo_histogram_sum(&ok, &s->thread[t]->seconds[PRAZO_STAT_RESULT_OK]);
    put_open(json, NULL, '{');
    put_text(json, "name", s->route);
    PUT_SUMS("requests", code_names, s, requests);
    PUT_SUMS("client_gone", gone_names, s, client_gone);
    put_histogram(json, "ok", &ok);
    put_close(json, '}');
}

static void put_process(struct json *json, const struct prazo_stats *stats)
{
    int64_t lag_us = 0;
    uint64_t malformed = 0, expired = 0, skew = 0;
    for (unsigned t = 0; t < stats->threads; t++) {
        const struct prazo_thread_stats *thread = stats->thread[t];
        int64_t lag = prazo_gauge_read(&thread->lag_us);
        lag_us = lag > lag_us ? lag : lag_us;
        malformed += prazo_counter_read(&thread->malformed);
        expired += prazo_counter_read(&thread->expired_on_arrival);
        skew += prazo_counter_read(&thread->skew);
    }
    put_u64(json, "threads", stats->threads);
    put_ms(json, "loop_lag_ms", (uint64_t)lag_us);
    put_open(json, "deadlines", '{');
    put_u64(json, "malformed", malformed);
    put_u64(json, "expired_on_arrival", expired);
    put_u64(json, "skewed", skew);
    put_close(json, '}');
    put_open(json, "config_reloads", '{');
    put_u64(json, "ok", prazo_counter_read(&stats->reloads.ok));
    put_u64(json, "error", prazo_counter_read(&stats->reloads.error));
    put_close(json, '}');
    put_u64(json, "log_dropped", prazo_log_dropped());
}

/* Where the buckets of every histogram of the document end; the last one has no end. */
static void put_bounds(struct json *json)
{
    put_open(json, "bucket_bounds_ms", '[');
    for (unsigned i = 0; i + 1 < PRAZO_HISTOGRAM_BUCKETS; i++)
        put_ms(json, NULL, (uint64_t)prazo_histogram_bounds_us[i]);
    put_close(json, ']');
}

int prazo_stats_write_state(struct prazo_stats *stats, const char *name, bool is_ready,
                            int64_t now_us, struct prazo_buf *to)
{
    size_t before = to->len;
    struct json state = { .to = to };
    struct json *json = &state;

    pthread_mutex_lock(&stats->mutex);
    put_open(json, NULL, '{');
    put_text(json, "name", name);
    put_text(json, "version", PRAZO_VERSION);
    put_bool(json, "ready", is_ready);
    put_i64(json, "started_ms", stats->started_ms);
    put_process(json, stats);
    put_bounds(json);
    put_open(json, "upstreams", '[');
    for (size_t i = 0; i < stats->upstreams.count; i++)
        put_upstream(json, stats, prazo__stats_upstream_at(stats, i), now_us);
    put_close(json, ']');
    put_open(json, "routes", '[');
    for (size_t i = 0; i < stats->routes.count; i++)
        put_route(json, stats, prazo__stats_route_at(stats, i));
    put_close(json, ']');
    put_open(json, "listeners", '[');
    for (size_t i = 0; i < stats->listeners.count; i++) {
        const struct prazo_listener_series *s = prazo__stats_listener_at(stats, i);
        put_open(json, NULL, '{');
        put_text(json, "name", s->listener);
        PUT_GAUGE("connections", s, connections);
        put_close(json, '}');
    }
    put_close(json, ']');
    put_close(json, '}');
    pthread_mutex_unlock(&stats->mutex);
    if (json->err)
        to->len = before;
    return json->err;
}
