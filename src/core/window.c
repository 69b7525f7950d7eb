/* SPDX-License-Identifier: MIT */
/* Sliding window over ten one-second slots. Second s lives in slot s mod 10 until second s + 10
 * takes it over.
 *
 * Invariant: a slot's sums are those of second[slot]. The writer clears the sums before it names
 * the new second (release), so that a reader who sees the new name (acquire) never adds what
 * belongs to the second that was there before. */
#include "core/window.h"

#define US_PER_SECOND 1000000

static int64_t second_of(int64_t now_us)
{
    return now_us > 0 ? now_us / US_PER_SECOND : 0;
}

static void add_relaxed(uint64_t *to, uint64_t n)
{
    __atomic_store_n(to, __atomic_load_n(to, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

void prazo_window_add(struct prazo_window *w, int64_t now_us, uint64_t a, uint64_t b)
{
    int64_t second = second_of(now_us);
    unsigned slot = (unsigned)(second % PRAZO_WINDOW_SLOTS);
    /* Older only: if time went back, the slot holds a later second and goes on holding it. */
    if (__atomic_load_n(&w->second[slot], __ATOMIC_RELAXED) < second) {
        __atomic_store_n(&w->a[slot], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&w->b[slot], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&w->second[slot], second, __ATOMIC_RELEASE);
    }
    add_relaxed(&w->a[slot], a);
    add_relaxed(&w->b[slot], b);
}

void prazo_window_sum(const struct prazo_window *w, int64_t now_us, uint64_t *sum_a,
                      uint64_t *sum_b)
{
    int64_t second = second_of(now_us);
    for (unsigned slot = 0; slot < PRAZO_WINDOW_SLOTS; slot++) {
        /* No upper bound: the writer's clock reading may be newer than the reader's. */
        if (__atomic_load_n(&w->second[slot], __ATOMIC_ACQUIRE) <= second - PRAZO_WINDOW_SLOTS)
            continue;
        *sum_a += __atomic_load_n(&w->a[slot], __ATOMIC_RELAXED);
        *sum_b += __atomic_load_n(&w->b[slot], __ATOMIC_RELAXED);
    }
}
