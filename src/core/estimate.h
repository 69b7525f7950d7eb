/* SPDX-License-Identifier: MIT */
/* How long an upstream takes, from completions and from attempts that were cut off. A cut-off
 * attempt is a lower bound (Kaplan–Meier): without it a stall would only show its fast answers.
 * Log-linear cells, 8 per octave (± 6 %); weights halve in 1 s or about 45 samples. Pure; not
 * thread-safe. All times in µs. */
#ifndef PRAZO_CORE_ESTIMATE_H
#define PRAZO_CORE_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

enum { PRAZO_ESTIMATE_CELLS = 176 };

struct prazo_estimate {
    int64_t done[PRAZO_ESTIMATE_CELLS], cut[PRAZO_ESTIMATE_CELLS];
    int64_t total, weight; /* weight: of a new sample; it grows instead of the old ones shrinking */
    int64_t aged_at_us, read_at_us;
    int64_t fresh;          /* samples since the last read */
    int64_t p50_us, q90_us; /* q90: of the completions alone; 0: unknown */
    bool active;            /* enough samples to refuse by */
};

void prazo_estimate_init(struct prazo_estimate *e, int64_t now_us);
/* is_cut: the attempt would have taken at least us. */
void prazo_estimate_add(struct prazo_estimate *e, int64_t now_us, int64_t us, bool is_cut);
/* Brings p50, q90 and active up to date, at most every 8 samples or 20 ms. */
void prazo_estimate_read(struct prazo_estimate *e, int64_t now_us);

#endif
