/* SPDX-License-Identifier: MIT */
/* Renders /metrics from the table in metrics_table.c, in both text formats, and the table's page.
 *
 * Prometheus text 0.0.4 and OpenMetrics 1.0.0 have the same series with the same labels, so that it
 * does not matter to a query what a scrape negotiated: they differ in metadata only.
 *
 * Invariant: every series of a registered label is written, also at 0: a rate() over a series that
 * first appears with its first failure misses that failure. */
#include "gateway/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "gateway/metrics_table.h"
#include "gateway/stats_internal.h"

struct sheet {
    const struct prazo_stats *stats;
    struct metrics_process process;
    bool is_open; /* OpenMetrics */
    int64_t now_us;
    struct prazo_buf *to;
    int err; /* the first one; nothing is written after it */
};

/* Names of the labels that come from the configuration, by scope. */
static const char *const scope_labels[][2] = {
    [SCOPE_ROUTE] = { "route" },
    [SCOPE_UPSTREAM] = { "upstream" },
    [SCOPE_SERVER] = { "upstream", "server" },
    [SCOPE_LISTENER] = { "listener" },
    [SCOPE_THREAD] = { NULL },
    [SCOPE_RELOADS] = { NULL },
    [SCOPE_PROCESS] = { NULL },
};

/* ---- writing ---- */

static void put(struct sheet *sheet, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct sheet *sheet, const char *fmt, ...)
{
    va_list ap;
    if (sheet->err)
        return;
    va_start(ap, fmt);
    sheet->err = prazo_buf_vaddf(sheet->to, fmt, ap);
    va_end(ap);
}

static void put_bytes(struct sheet *sheet, const char *bytes, size_t len)
{
    if (!sheet->err)
        sheet->err = prazo_buf_add(sheet->to, bytes, len);
}

/* Seconds with no digit more than needed and one decimal at least ("1.0", as OpenMetrics wants it
 * for bucket bounds). */
static void put_seconds(struct sheet *sheet, uint64_t us)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
    while (text[len - 1] == '0' && text[len - 2] != '.')
        len--;
    put_bytes(sheet, text, (size_t)len);
}

static void put_label_value(struct sheet *sheet, const char *value)
{
    for (;;) {
        size_t plain = strcspn(value, "\\\"\n");
        put_bytes(sheet, value, plain);
        value += plain;
        if (*value == '\0')
            return;
        put(sheet, "\\%c", *value == '\n' ? 'n' : *value);
        value++;
    }
}

/* One series: where its numbers are and what it is called. */
struct series {
    const struct metric *metric;
    const char *label[2]; /* values for scope_labels */
    const char *fixed[2]; /* values for metric->sets */
    const char *block[PRAZO_THREADS_MAX];
    unsigned blocks;
    size_t offset;
};

/* name + suffix {labels, le} and a blank. le_us: 0 for none, INT64_MAX for +Inf. */
static void put_name(struct sheet *sheet, const struct series *s, const char *suffix, int64_t le_us)
{
    const struct metric *m = s->metric;
    const char *const *names = scope_labels[m->scope];
    const char *separator = "{";
    put(sheet, "%s%s", m->name, suffix);
    for (unsigned i = 0; i < 4; i++) {
        const char *name = i < 2 ? names[i] : m->sets[i - 2].name;
        if (!name)
            continue;
        put(sheet, "%s%s=\"", separator, name);
        put_label_value(sheet, i < 2 ? s->label[i] : s->fixed[i - 2]);
        put(sheet, "\"");
        separator = ",";
    }
    if (le_us) {
        put(sheet, "%sle=\"", separator);
        if (le_us == INT64_MAX)
            put(sheet, "+Inf");
        else
            put_seconds(sheet, (uint64_t)le_us);
        put(sheet, "\"");
        separator = ",";
    }
    put(sheet, *separator == ',' ? "} " : " ");
}

static void put_histogram(struct sheet *sheet, const struct series *s)
{
    struct prazo_histogram sum = { .sum_us = 0 };
    for (unsigned t = 0; t < s->blocks; t++)
        prazo_histogram_sum(&sum, (const void *)(s->block[t] + s->offset));
    uint64_t count = 0;
    for (unsigned i = 0; i < PRAZO_HISTOGRAM_BUCKETS; i++) {
        count += sum.count[i];
        put_name(sheet, s, "_bucket", prazo_histogram_bounds_us[i]);
        put(sheet, "%" PRIu64 "\n", count);
    }
    put_name(sheet, s, "_sum", 0);
    put_seconds(sheet, sum.sum_us);
    put(sheet, "\n");
    put_name(sheet, s, "_count", 0);
    put(sheet, "%" PRIu64 "\n", count);
}

static uint64_t sum_counts(const struct series *s)
{
    uint64_t sum = 0;
    for (unsigned t = 0; t < s->blocks; t++)
        sum += prazo_counter_read((const void *)(s->block[t] + s->offset));
    return sum;
}

static int64_t sum_gauges(const struct series *s)
{
    int64_t sum = 0;
    for (unsigned t = 0; t < s->blocks; t++)
        sum += prazo_gauge_read((const void *)(s->block[t] + s->offset));
    return sum;
}

static int64_t max_gauge(const struct series *s)
{
    int64_t max = 0;
    for (unsigned t = 0; t < s->blocks; t++) {
        int64_t value = prazo_gauge_read((const void *)(s->block[t] + s->offset));
        if (value > max)
            max = value;
    }
    return max;
}

/* index: of the series in its scope. */
static void put_sample(struct sheet *sheet, const struct series *s, size_t index)
{
    const struct metric *m = s->metric;
    if (m->field == FIELD_HISTOGRAM) {
        put_histogram(sheet, s);
        return;
    }
    if (m->scope == SCOPE_PROCESS && sum_gauges(s) < 0)
        return;
    put_name(sheet, s, "", 0);
    switch (m->field) {
    case FIELD_COUNT:
        put(sheet, "%" PRIu64, sum_counts(s));
        break;
    case FIELD_COUNT_US:
        put_seconds(sheet, sum_counts(s));
        break;
    case FIELD_GAUGE:
        put(sheet, "%" PRId64, sum_gauges(s));
        break;
    case FIELD_MAX_US:
        put_seconds(sheet, (uint64_t)max_gauge(s));
        break;
    case FIELD_AMPLIFICATION:
        put(sheet, "%.3f",
            prazo__stats_amplification(sheet->stats, prazo__stats_upstream_at(sheet->stats, index),
                                       sheet->now_us));
        break;
    case FIELD_HISTOGRAM:
        PRAZO_UNREACHABLE();
    }
    put(sheet, "\n");
}

static size_t field_bytes(enum field field)
{
    return field == FIELD_HISTOGRAM ? sizeof(struct prazo_histogram) : sizeof(uint64_t);
}

/* Every combination of the fixed labels of one series. */
static void put_series(struct sheet *sheet, struct series *s, size_t index)
{
    const struct metric *m = s->metric;
    size_t outer = m->sets[0].name ? m->sets[0].count : 1;
    size_t inner = m->sets[1].name ? m->sets[1].count : 1;
    s->offset = m->offset;
    for (size_t i = 0; i < outer * inner; i++) {
        s->fixed[0] = m->sets[0].name ? m->sets[0].values[i / inner] : NULL;
        s->fixed[1] = m->sets[1].name ? m->sets[1].values[i % inner] : NULL;
        put_sample(sheet, s, index);
        s->offset += field_bytes(m->field);
    }
}

static const char *block_at(const struct sheet *sheet, enum scope scope, size_t index, unsigned t)
{
    const struct prazo_stats *stats = sheet->stats;
    switch (scope) {
    case SCOPE_ROUTE:
        return (const char *)prazo__stats_route_at(stats, index)->thread[t];
    case SCOPE_UPSTREAM:
        return (const char *)prazo__stats_upstream_at(stats, index)->thread[t];
    case SCOPE_SERVER:
        return (const char *)prazo__stats_server_at(stats, index)->thread[t];
    case SCOPE_LISTENER:
        return (const char *)prazo__stats_listener_at(stats, index)->thread[t];
    case SCOPE_THREAD:
        return (const char *)stats->thread[t];
    case SCOPE_RELOADS:
        return (const char *)&stats->reloads;
    case SCOPE_PROCESS:
        return (const char *)&sheet->process;
    }
    PRAZO_UNREACHABLE();
}

static size_t series_count(const struct prazo_stats *stats, enum scope scope)
{
    switch (scope) {
    case SCOPE_ROUTE:
        return stats->routes.count;
    case SCOPE_UPSTREAM:
        return stats->upstreams.count;
    case SCOPE_SERVER:
        return stats->servers.count;
    case SCOPE_LISTENER:
        return stats->listeners.count;
    case SCOPE_THREAD:
    case SCOPE_RELOADS:
    case SCOPE_PROCESS:
        return 1;
    }
    PRAZO_UNREACHABLE();
}

static void put_metric(struct sheet *sheet, const struct metric *m)
{
    const struct prazo_stats *stats = sheet->stats;
    const bool is_one = m->scope == SCOPE_RELOADS || m->scope == SCOPE_PROCESS;
    struct series s = { .metric = m, .blocks = is_one ? 1 : stats->threads };
    for (size_t i = 0; i < series_count(stats, m->scope) && !sheet->err; i++) {
        for (unsigned t = 0; t < s.blocks; t++)
            s.block[t] = block_at(sheet, m->scope, i, t);
        if (m->scope == SCOPE_ROUTE)
            s.label[0] = prazo__stats_route_at(stats, i)->route;
        else if (m->scope == SCOPE_UPSTREAM)
            s.label[0] = prazo__stats_upstream_at(stats, i)->upstream;
        else if (m->scope == SCOPE_LISTENER)
            s.label[0] = prazo__stats_listener_at(stats, i)->listener;
        else if (m->scope == SCOPE_SERVER) {
            s.label[0] = prazo__stats_server_at(stats, i)->upstream;
            s.label[1] = prazo__stats_server_at(stats, i)->server;
        }
        put_series(sheet, &s, i);
    }
}

static const char *const type_names[] = { [TYPE_COUNTER] = "counter",
                                          [TYPE_GAUGE] = "gauge",
                                          [TYPE_HISTOGRAM] = "histogram",
                                          [TYPE_INFO] = "info" };

/* In OpenMetrics a counter's family is called without _total, an info's without _info. */
static void put_metadata(struct sheet *sheet, const struct metric *m)
{
    const char *suffix = m->type == TYPE_COUNTER ? "_total" : m->type == TYPE_INFO ? "_info" : "";
    int len = (int)strlen(m->name);
    if (sheet->is_open)
        len -= (int)strlen(suffix);
    /* Text 0.0.4 has no infos: they are gauges there. */
    const char *type = !sheet->is_open && m->type == TYPE_INFO ? "gauge" : type_names[m->type];
    put(sheet, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, m->name, m->help, len, m->name, type);
    if (sheet->is_open && m->unit)
        put(sheet, "# UNIT %.*s %s\n", len, m->name, m->unit);
}

int prazo_stats_write_metrics(struct prazo_stats *stats, bool open_metrics, int64_t now_us,
                              struct prazo_buf *to)
{
    size_t before = to->len;
    struct sheet sheet = { .stats = stats, .is_open = open_metrics, .now_us = now_us, .to = to };
    prazo_process_read(&sheet.process.kernel);
    sheet.process.started_us = stats->started_ms * 1000;
    sheet.process.log_dropped = (int64_t)prazo_log_dropped();
    sheet.process.one = 1;
    pthread_mutex_lock(&stats->mutex);
    for (size_t i = 0; i < prazo__metric_count && !sheet.err; i++) {
        put_metadata(&sheet, &prazo__metrics[i]);
        put_metric(&sheet, &prazo__metrics[i]);
    }
    pthread_mutex_unlock(&stats->mutex);
    if (open_metrics)
        put(&sheet, "# EOF\n");
    if (sheet.err)
        to->len = before;
    return sheet.err;
}

/* ---- the page ---- */

const char *prazo_metrics_name(unsigned index)
{
    return index < prazo__metric_count ? prazo__metrics[index].name : NULL;
}

static void put_reference_labels(struct sheet *sheet, const struct metric *m)
{
    const char *separator = "";
    for (unsigned i = 0; i < 2; i++) {
        if (!scope_labels[m->scope][i])
            continue;
        put(sheet, "%s`%s`", separator, scope_labels[m->scope][i]);
        separator = ", ";
    }
    for (unsigned i = 0; i < 2; i++) {
        if (!m->sets[i].name)
            continue;
        put(sheet, "%s`%s`", separator, m->sets[i].name);
        separator = ", ";
        /* The version is the build's, not the page's. */
        for (size_t v = 0; v < m->sets[i].count && m->type != TYPE_INFO; v++)
            put(sheet, "%s`%s`", v ? " " : ": ", m->sets[i].values[v]);
    }
    if (*separator == '\0')
        put(sheet, "–");
}

int prazo_metrics_write_reference(struct prazo_buf *to)
{
    struct sheet sheet = { .to = to };
    put(&sheet, "| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < prazo__metric_count; i++) {
        const struct metric *m = &prazo__metrics[i];
        put(&sheet, "| `%s` | %s | ", m->name, type_names[m->type]);
        put_reference_labels(&sheet, m);
        put(&sheet, " | %s |\n", m->help);
    }
    return sheet.err;
}
