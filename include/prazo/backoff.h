/* SPDX-License-Identifier: MIT */
/* Exponential backoff with full jitter: how long to wait before the n-th repeat.
 *
 *   step(n) = min(cap, base × 2ⁿ)        n from 0; saturates, never overflows
 *   wait    = uniform in [0, step(n)]
 *
 * The jitter covers the whole step, also at the cap: clients that failed together do not come back
 * together. Randomness is an argument, 64 uniform bits from the caller's generator.
 *
 * Pure: no clock, no allocation, cannot fail. Thread-safe (no state). */
#ifndef PRAZO_BACKOFF_H
#define PRAZO_BACKOFF_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct prazo_backoff {
    int64_t base_us; /* <= 0: never wait */
    int64_t cap_us;  /* <= 0: never wait */
};

/* min(cap, base × 2ⁿ), in [0, cap]. */
int64_t prazo_backoff_step_us(const struct prazo_backoff *backoff, uint32_t n);

/* Uniform in [0, step(n)]. draw: 64 random bits, used once. */
int64_t prazo_backoff_draw_us(const struct prazo_backoff *backoff, uint32_t n, uint64_t draw);

#ifdef __cplusplus
}
#endif
#endif
