/* SPDX-License-Identifier: MIT */
/* Counters with one writer thread each, summed when read. Relaxed atomics cost a plain move here
 * and make the read from another thread defined. */
#ifndef PRAZO_BASE_COUNTER_H
#define PRAZO_BASE_COUNTER_H

#include <stdint.h>

typedef uint64_t prazo_counter;

static inline void prazo_counter_add(prazo_counter *c, uint64_t n)
{
    __atomic_store_n(c, __atomic_load_n(c, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

static inline void prazo_counter_inc(prazo_counter *c)
{
    prazo_counter_add(c, 1);
}

static inline uint64_t prazo_counter_read(const prazo_counter *c)
{
    return __atomic_load_n(c, __ATOMIC_RELAXED);
}

/* A gauge that its thread raises and lowers; summed over threads as int64. */
static inline void prazo_gauge_add(int64_t *g, int64_t n)
{
    __atomic_store_n(g, __atomic_load_n(g, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

static inline int64_t prazo_gauge_read(const int64_t *g)
{
    return __atomic_load_n(g, __ATOMIC_RELAXED);
}

#endif
