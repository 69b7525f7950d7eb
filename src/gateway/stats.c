/* SPDX-License-Identifier: MIT */
/* The registry of counters: makes series for the labels of the configuration and keeps them. It
 * renders nothing (metrics.c, state.c) and counts nothing but reloads: whoever has a series writes
 * its own thread's block.
 *
 * Invariants: a series never moves and is never freed before the registry, so a worker may keep the
 * pointer over a reload; every block is cache-line aligned and whole lines long, so that two
 * threads never write into one line. */
#include "gateway/stats_internal.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "io/io.h"

#define CACHE_LINE_BYTES 64u

/* Heads every piece of the registry's memory, so that it can be freed whole. What a creation that
 * fails half-way has taken stays until then. */
struct prazo_stats_owned {
    struct prazo_stats_owned *next;
};

/* Zeroed, whole cache lines. */
static void *own(struct prazo_stats *stats, size_t bytes)
{
    const size_t line = CACHE_LINE_BYTES;
    size_t rounded = (bytes + line - 1) / line * line;
    struct prazo_stats_owned *head = prazo_mem_calloc(1, sizeof *head + line - 1 + rounded);
    if (!head)
        return NULL;
    head->next = stats->owned;
    stats->owned = head;
    return (void *)(((uintptr_t)(head + 1) + line - 1) / line * line);
}

static char *own_text(struct prazo_stats *stats, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = own(stats, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* Room for one more: asked before anything is made for it. An array that was outgrown stays owned:
 * together they are smaller than the newest. */
static bool list_grow(struct prazo_stats *stats, struct prazo_series_list *list)
{
    if (list->count < list->capacity)
        return true;
    if (list->count == PRAZO_SERIES_MAX)
        return false;
    size_t capacity = list->capacity ? list->capacity * 2 : 16;
    void **at = own(stats, capacity * sizeof *at);
    if (!at)
        return false;
    if (list->count)
        memcpy(at, list->at, list->count * sizeof *at);
    list->at = at;
    list->capacity = capacity;
    return true;
}

/* ---- find or make; the mutex is held ---- */

static struct prazo_route_series *route_get(struct prazo_stats *stats, const char *route)
{
    struct prazo_route_series *s;
    for (size_t i = 0; i < stats->routes.count; i++) {
        s = prazo__stats_route_at(stats, i);
        if (strcmp(s->route, route) == 0)
            return s;
    }
    s = list_grow(stats, &stats->routes) ? own(stats, sizeof *s) : NULL;
    if (!s)
        return NULL;
    s->route = own_text(stats, route);
    bool ok = s->route != NULL;
    for (unsigned i = 0; i < stats->threads && ok; i++) {
        s->thread[i] = own(stats, sizeof *s->thread[i]);
        ok = s->thread[i] != NULL;
    }
    if (!ok)
        return NULL;
    stats->routes.at[stats->routes.count++] = s;
    return s;
}

static struct prazo_upstream_series *upstream_get(struct prazo_stats *stats, const char *upstream)
{
    struct prazo_upstream_series *s;
    for (size_t i = 0; i < stats->upstreams.count; i++) {
        s = prazo__stats_upstream_at(stats, i);
        if (strcmp(s->upstream, upstream) == 0)
            return s;
    }
    s = list_grow(stats, &stats->upstreams) ? own(stats, sizeof *s) : NULL;
    if (!s)
        return NULL;
    s->upstream = own_text(stats, upstream);
    bool ok = s->upstream != NULL;
    for (unsigned i = 0; i < stats->threads && ok; i++) {
        s->thread[i] = own(stats, sizeof *s->thread[i]);
        ok = s->thread[i] != NULL;
    }
    if (!ok)
        return NULL;
    stats->upstreams.at[stats->upstreams.count++] = s;
    return s;
}

static struct prazo_server_series *server_get(struct prazo_stats *stats, const char *upstream,
                                              const char *server)
{
    struct prazo_server_series *s;
    for (size_t i = 0; i < stats->servers.count; i++) {
        s = prazo__stats_server_at(stats, i);
        if (strcmp(s->server, server) == 0 && strcmp(s->upstream, upstream) == 0)
            return s;
    }
    s = list_grow(stats, &stats->servers) ? own(stats, sizeof *s) : NULL;
    if (!s)
        return NULL;
    s->upstream = own_text(stats, upstream);
    s->server = own_text(stats, server);
    bool ok = s->upstream != NULL && s->server != NULL;
    for (unsigned i = 0; i < stats->threads && ok; i++) {
        s->thread[i] = own(stats, sizeof *s->thread[i]);
        ok = s->thread[i] != NULL;
    }
    if (!ok)
        return NULL;
    stats->servers.at[stats->servers.count++] = s;
    return s;
}

static struct prazo_listener_series *listener_get(struct prazo_stats *stats, const char *listener)
{
    struct prazo_listener_series *s;
    for (size_t i = 0; i < stats->listeners.count; i++) {
        s = prazo__stats_listener_at(stats, i);
        if (strcmp(s->listener, listener) == 0)
            return s;
    }
    s = list_grow(stats, &stats->listeners) ? own(stats, sizeof *s) : NULL;
    if (!s)
        return NULL;
    s->listener = own_text(stats, listener);
    bool ok = s->listener != NULL;
    for (unsigned i = 0; i < stats->threads && ok; i++) {
        s->thread[i] = own(stats, sizeof *s->thread[i]);
        ok = s->thread[i] != NULL;
    }
    if (!ok)
        return NULL;
    stats->listeners.at[stats->listeners.count++] = s;
    return s;
}

struct prazo_route_series *prazo_stats_route(struct prazo_stats *stats, const char *route)
{
    pthread_mutex_lock(&stats->mutex);
    struct prazo_route_series *series = route_get(stats, route);
    pthread_mutex_unlock(&stats->mutex);
    return series;
}

struct prazo_upstream_series *prazo_stats_upstream(struct prazo_stats *stats, const char *upstream)
{
    pthread_mutex_lock(&stats->mutex);
    struct prazo_upstream_series *series = upstream_get(stats, upstream);
    pthread_mutex_unlock(&stats->mutex);
    return series;
}

struct prazo_server_series *prazo_stats_server(struct prazo_stats *stats, const char *upstream,
                                               const char *server)
{
    pthread_mutex_lock(&stats->mutex);
    struct prazo_server_series *series = server_get(stats, upstream, server);
    pthread_mutex_unlock(&stats->mutex);
    return series;
}

struct prazo_listener_series *prazo_stats_listener(struct prazo_stats *stats, const char *listener)
{
    pthread_mutex_lock(&stats->mutex);
    struct prazo_listener_series *series = listener_get(stats, listener);
    pthread_mutex_unlock(&stats->mutex);
    return series;
}

/* ---- the registry ---- */

int prazo_stats_new(unsigned threads, struct prazo_stats **ret_stats)
{
    PRAZO_ASSERT(threads >= 1 && threads <= PRAZO_THREADS_MAX);
    struct prazo_stats *stats = prazo_mem_calloc(1, sizeof *stats);
    if (!stats)
        return PRAZO_E_NOMEM;
    stats->threads = threads;
    stats->started_ms = prazo_clock_wall_ms();
    pthread_mutex_init(&stats->mutex, NULL);
    for (unsigned i = 0; i < threads; i++) {
        stats->thread[i] = own(stats, sizeof *stats->thread[i]);
        if (!stats->thread[i]) {
            prazo_stats_free(stats);
            return PRAZO_E_NOMEM;
        }
    }
    *ret_stats = stats;
    return PRAZO_OK;
}

void prazo_stats_free(struct prazo_stats *stats)
{
    if (!stats)
        return;
    while (stats->owned) {
        struct prazo_stats_owned *next = stats->owned->next;
        prazo_mem_free(stats->owned);
        stats->owned = next;
    }
    pthread_mutex_destroy(&stats->mutex);
    prazo_mem_free(stats);
}

struct prazo_thread_stats *prazo_stats_thread(struct prazo_stats *stats, unsigned thread)
{
    PRAZO_ASSERT(thread < stats->threads);
    return stats->thread[thread];
}

void prazo_stats_count_reload(struct prazo_stats *stats, bool ok)
{
    prazo_counter_inc(ok ? &stats->reloads.ok : &stats->reloads.error);
}

double prazo__stats_amplification(const struct prazo_stats *stats,
                                  const struct prazo_upstream_series *series, int64_t now_us)
{
    uint64_t attempts = 0, requests = 0;
    for (unsigned i = 0; i < stats->threads; i++)
        prazo_window_sum(&series->thread[i]->amplification, now_us, &attempts, &requests);
    if (attempts <= requests)
        return 1.0;
    /* Repeats alone, of requests that have left the window: as if it were one request. */
    return (double)attempts / (double)(requests ? requests : 1);
}
