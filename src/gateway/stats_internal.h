/* SPDX-License-Identifier: MIT */
/* The registry's inside, shared by stats.c (makes series), metrics.c and state.c (read them). */
#ifndef PRAZO_GATEWAY_STATS_INTERNAL_H
#define PRAZO_GATEWAY_STATS_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "gateway/stats.h"

/* Series of one kind that a process ever has. A configuration has tens; this bounds what a long row
 * of reloads with ever new names can add (labels outlive the reload that brought them). */
#define PRAZO_SERIES_MAX 16384u

struct prazo_reload_stats {
    prazo_counter ok, error;
};

/* A growing array of pointers; the series themselves never move. */
struct prazo_series_list {
    void **at;
    size_t count, capacity;
};

struct prazo_stats_owned;

struct prazo_stats {
    unsigned threads;
    pthread_mutex_t mutex; /* the lists below, not the counters */
    struct prazo_series_list routes, upstreams, servers, listeners;
    struct prazo_thread_stats *thread[PRAZO_THREADS_MAX];
    struct prazo_reload_stats reloads; /* main thread writes */
    int64_t started_ms;                /* Unix epoch */
    struct prazo_stats_owned *owned;   /* all memory of the registry */
};

static inline struct prazo_route_series *prazo__stats_route_at(const struct prazo_stats *stats,
                                                               size_t index)
{
    return stats->routes.at[index];
}

static inline struct prazo_upstream_series *
prazo__stats_upstream_at(const struct prazo_stats *stats, size_t index)
{
    return stats->upstreams.at[index];
}

static inline struct prazo_server_series *prazo__stats_server_at(const struct prazo_stats *stats,
                                                                 size_t index)
{
    return stats->servers.at[index];
}

static inline struct prazo_listener_series *
prazo__stats_listener_at(const struct prazo_stats *stats, size_t index)
{
    return stats->listeners.at[index];
}

/* Attempts ÷ requests over the last 10 s, all threads. Never below 1: every request counted has at
 * least one attempt, and 1 is what idle means. */
double prazo__stats_amplification(const struct prazo_stats *stats,
                                  const struct prazo_upstream_series *series, int64_t now_us);

#endif
