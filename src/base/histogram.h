/* SPDX-License-Identifier: MIT */
/* Histogram with the fixed buckets of the metrics: 1 2 5 × 10ⁿ from 0.5 ms to 50 s, and +Inf.
 * One writer thread; any thread may read (relaxed atomics; a reader may see a sum that is one
 * observation ahead of the counts). */
#ifndef PRAZO_BASE_HISTOGRAM_H
#define PRAZO_BASE_HISTOGRAM_H

#include <stdint.h>

#define PRAZO_HISTOGRAM_BUCKETS 17 /* 16 bounds and +Inf */

struct prazo_histogram {
    uint64_t count[PRAZO_HISTOGRAM_BUCKETS]; /* not cumulative */
    uint64_t sum_us;
};

/* Upper bounds in µs, ascending; the last is INT64_MAX for +Inf. */
extern const int64_t prazo_histogram_bounds_us[PRAZO_HISTOGRAM_BUCKETS];

/* A negative duration is counted as 0: time between two hosts never enters here (C090). */
void prazo_histogram_observe(struct prazo_histogram *h, int64_t us);
/* Adds from's present counts to *to; *to belongs to the caller. */
void prazo_histogram_sum(struct prazo_histogram *to, const struct prazo_histogram *from);

#endif
