/* SPDX-License-Identifier: MIT */
/* The one table of metrics: metrics_table.c fills it, metrics.c renders it. Not for anybody else.
 */
#ifndef PRAZO_GATEWAY_METRICS_TABLE_H
#define PRAZO_GATEWAY_METRICS_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/process.h"
#include "gateway/stats.h"

enum metric_type { TYPE_COUNTER = 0, TYPE_GAUGE, TYPE_HISTOGRAM, TYPE_INFO };

/* Whose blocks hold the number. */
enum scope {
    SCOPE_ROUTE = 0,
    SCOPE_UPSTREAM,
    SCOPE_SERVER,
    SCOPE_LISTENER,
    SCOPE_THREAD, /* no label */
    SCOPE_RELOADS,
    SCOPE_PROCESS, /* struct metrics_process; negative: not known, left out */
};

enum field {
    FIELD_COUNT = 0, /* summed over threads */
    FIELD_COUNT_US,  /* summed, µs shown as seconds */
    FIELD_GAUGE,     /* signed, summed */
    FIELD_MAX_US,    /* the worst thread, µs shown as seconds */
    FIELD_HISTOGRAM,
    FIELD_AMPLIFICATION,
};

/* A label whose values are fixed. */
struct label_set {
    const char *name;
    const char *const *values;
    size_t count;
};

/* What no thread counts, gathered for one rendering. */
struct metrics_process {
    struct prazo_process kernel;
    int64_t started_us; /* Unix epoch */
    int64_t log_dropped;
    int64_t one; /* build_info's value */
};

struct metric {
    const char *name; /* as in text 0.0.4 */
    enum metric_type type;
    const char *unit; /* NULL: a number of things */
    enum scope scope;
    enum field field;
    size_t offset;
    /* The field is an array over the first set, each element one over the second. */
    struct label_set sets[2];
    const char *help;
};

extern const struct metric prazo__metrics[];
extern const size_t prazo__metric_count;

#endif
