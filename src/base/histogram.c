/* SPDX-License-Identifier: MIT */
/* Histogram of durations over fixed bounds. The sum is written before the count, so a reader that
 * comes in between sees the sum ahead, never a count without its duration. */
#include "base/histogram.h"

#include "base/counter.h"

const int64_t prazo_histogram_bounds_us[PRAZO_HISTOGRAM_BUCKETS] = {
    500,    1000,    2000,    5000,    10000,    20000,    50000,    100000,    200000,
    500000, 1000000, 2000000, 5000000, 10000000, 20000000, 50000000, INT64_MAX,
};

void prazo_histogram_observe(struct prazo_histogram *h, int64_t us)
{
    int bucket = 0;

    if (us < 0)
        us = 0;
    /* Ends at the last bound, INT64_MAX. Most durations are short, so a search from below is as
     * good as any. */
    while (us > prazo_histogram_bounds_us[bucket])
        bucket++;
    prazo_counter_add(&h->sum_us, (uint64_t)us);
    prazo_counter_inc(&h->count[bucket]);
}

void prazo_histogram_sum(struct prazo_histogram *to, const struct prazo_histogram *from)
{
    for (int i = 0; i < PRAZO_HISTOGRAM_BUCKETS; i++)
        to->count[i] += prazo_counter_read(&from->count[i]);
    to->sum_us += prazo_counter_read(&from->sum_us);
}
