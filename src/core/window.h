/* SPDX-License-Identifier: MIT */
/* Sliding window of ten one-second slots: two sums over the last 10 s, for the amplification
 * ratio (attempts ÷ requests that got at least one attempt). Pure, by value; one writer thread,
 * any reader (relaxed atomics; a reader may be one event behind). */
#ifndef PRAZO_CORE_WINDOW_H
#define PRAZO_CORE_WINDOW_H

#include <stdint.h>

#define PRAZO_WINDOW_SLOTS 10

struct prazo_window {
    int64_t second[PRAZO_WINDOW_SLOTS]; /* which second the slot holds */
    uint64_t a[PRAZO_WINDOW_SLOTS];
    uint64_t b[PRAZO_WINDOW_SLOTS];
};

void prazo_window_add(struct prazo_window *w, int64_t now_us, uint64_t a, uint64_t b);
/* Adds the sums of the last ten seconds to *sum_a and *sum_b. */
void prazo_window_sum(const struct prazo_window *w, int64_t now_us, uint64_t *sum_a,
                      uint64_t *sum_b);

#endif
