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

#define X(NAME, label) label,
static const char *const code_names[] = { PRAZO_CODE_MAP(X) };
static const char *const gone_names[] = { PRAZO_GONE_STATE_MAP(X) };
static const char *const attempt_names[] = { PRAZO_ATTEMPT_MAP(X) };
static const char *const cause_names[] = { PRAZO_CAUSE_MAP(X) };
static const char *const drop_names[] = { PRAZO_DROP_MAP(X) };
static const char *const shed_names[] = { PRAZO_SHED_MAP(X) };
#undef X

#define NAMES(names) names, sizeof(names) / sizeof(names)[0]

/* The threads' blocks of one series. */
struct blocks {
    const char *at[PRAZO_THREADS_MAX];
    unsigned count;
};

static uint64_t sum_of(const struct blocks *b, size_t offset)
{
    uint64_t sum = 0;
    for (unsigned t = 0; t < b->count; t++)
        sum += prazo_counter_read((const void *)(b->at[t] + offset));
    return sum;
}

static void put_sum(struct json *json, const char *key, const struct blocks *b, size_t offset)
{
    put_u64(json, key, sum_of(b, offset));
}

static void put_gauge(struct json *json, const char *key, const struct blocks *b, size_t offset)
{
    int64_t sum = 0;
    for (unsigned t = 0; t < b->count; t++)
        sum += prazo_gauge_read((const void *)(b->at[t] + offset));
    put_i64(json, key, sum);
}

/* An array of counters as an object whose members are the label's values. */
static void put_sums(struct json *json, const char *key, const struct blocks *b, size_t offset,
                     const char *const *names, size_t count)
{
    put_open(json, key, '{');
    for (size_t i = 0; i < count; i++)
        put_sum(json, names[i], b, offset + i * sizeof(prazo_counter));
    put_close(json, '}');
}

static void put_histogram(struct json *json, const char *key, const struct blocks *b, size_t offset)
{
    struct prazo_histogram sum = { .sum_us = 0 };
    for (unsigned t = 0; t < b->count; t++)
        prazo_histogram_sum(&sum, (const void *)(b->at[t] + offset));
    put_open(json, key, '{');
    put_ms(json, "sum_ms", sum.sum_us);
    put_open(json, "buckets", '[');
    for (unsigned i = 0; i < PRAZO_HISTOGRAM_BUCKETS; i++)
        put_u64(json, NULL, sum.count[i]);
    put_close(json, ']');
    put_close(json, '}');
}

static void put_server(struct json *json, const struct prazo_stats *stats,
                       const struct prazo_server_series *s)
{
    const size_t kind_bytes = sizeof s->thread[0]->attempts[0];
    struct blocks b = { .count = stats->threads };
    for (unsigned t = 0; t < stats->threads; t++)
        b.at[t] = (const char *)s->thread[t];

    put_open(json, NULL, '{');
    put_text(json, "address", s->server);
    put_open(json, "attempts", '{');
    for (unsigned result = 0; result < PRAZO_STAT_ATTEMPT_COUNT; result++) {
        const size_t first = offsetof(struct prazo_server_stats, attempts[0][result]);
        uint64_t sum = 0;
        for (unsigned kind = 0; kind < PRAZO_STAT_KIND_COUNT; kind++)
            sum += sum_of(&b, first + kind * kind_bytes);
        put_u64(json, attempt_names[result], sum);
    }
    put_close(json, '}');
    put_sum(json, "connect_failures", &b, offsetof(struct prazo_server_stats, connect_failures));
    put_close(json, '}');
}

#define AT(member) offsetof(struct prazo_upstream_stats, member)

static void put_upstream(struct json *json, const struct prazo_stats *stats,
                         const struct prazo_upstream_series *s, int64_t now_us)
{
    struct blocks b = { .count = stats->threads };
    for (unsigned t = 0; t < stats->threads; t++)
        b.at[t] = (const char *)s->thread[t];

    put_open(json, NULL, '{');
    put_text(json, "name", s->upstream);
    put_key(json, "amplification");
    put(json, "%.3f", prazo__stats_amplification(stats, s, now_us));
    put_gauge(json, "in_flight", &b, AT(in_flight));
    put_gauge(json, "queue", &b, AT(queue_depth));
    put_open(json, "connections", '{');
    put_gauge(json, "idle", &b, AT(connections_idle));
    put_gauge(json, "active", &b, AT(connections_active));
    put_close(json, '}');
    put_sum(json, "requests", &b, AT(requests));
    put_sum(json, "orphan_answers", &b, AT(orphan_answers));
    put_ms(json, "orphan_ms", sum_of(&b, AT(orphan_us)));
    put_sum(json, "abandon_unknown", &b, AT(abandon_unknown));
    put_sums(json, "cancelled", &b, AT(cancelled), NAMES(cause_names));
    put_sums(json, "queue_dropped", &b, AT(queue_dropped), NAMES(drop_names));
    put_sums(json, "shed", &b, AT(shed), NAMES(shed_names));
    put_histogram(json, "ok", &b, AT(attempt_seconds[PRAZO_STAT_ATTEMPT_OK]));
    put_open(json, "servers", '[');
    for (size_t i = 0; i < stats->servers.count; i++) {
        const struct prazo_server_series *server = prazo__stats_server_at(stats, i);
        if (strcmp(server->upstream, s->upstream) == 0)
            put_server(json, stats, server);
    }
    put_close(json, ']');
    put_close(json, '}');
}

#undef AT
#define AT(member) offsetof(struct prazo_route_stats, member)

static void put_route(struct json *json, const struct prazo_stats *stats,
                      const struct prazo_route_series *s)
{
    struct blocks b = { .count = stats->threads };
    for (unsigned t = 0; t < stats->threads; t++)
        b.at[t] = (const char *)s->thread[t];

    put_open(json, NULL, '{');
    put_text(json, "name", s->route);
    put_sums(json, "requests", &b, AT(requests), NAMES(code_names));
    put_sums(json, "client_gone", &b, AT(client_gone), NAMES(gone_names));
    put_histogram(json, "ok", &b, AT(seconds[PRAZO_STAT_RESULT_OK]));
    put_close(json, '}');
}

#undef AT

static void put_listener(struct json *json, const struct prazo_stats *stats,
                         const struct prazo_listener_series *s)
{
    struct blocks b = { .count = stats->threads };
    for (unsigned t = 0; t < stats->threads; t++)
        b.at[t] = (const char *)s->thread[t];
    put_open(json, NULL, '{');
    put_text(json, "name", s->listener);
    put_gauge(json, "connections", &b, offsetof(struct prazo_listener_stats, connections));
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
    for (size_t i = 0; i < stats->listeners.count; i++)
        put_listener(json, stats, prazo__stats_listener_at(stats, i));
    put_close(json, ']');
    put_close(json, '}');
    pthread_mutex_unlock(&stats->mutex);
    if (json->err)
        to->len = before;
    return json->err;
}
