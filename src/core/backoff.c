/* SPDX-License-Identifier: MIT */
/* Exponential backoff with full jitter. Does not know what it waits for, nor whether the wait fits:
 * that is retry.c.
 *
 * Invariant: every result is in [0, cap]. The cap is applied before the draw, not after it, or all
 * waits beyond the cap would be the cap and clients would fall into step. Callable from any
 * thread. */
#include "prazo/backoff.h"

/* INT64_MAX has 63 bits: from here on even 1 µs is above any cap. */
#define SHIFT_MAX 62

int64_t prazo_backoff_step_us(const struct prazo_backoff *backoff, uint32_t n)
{
    if (backoff->base_us <= 0 || backoff->cap_us <= 0)
        return 0;
    if (n > SHIFT_MAX || backoff->base_us > backoff->cap_us >> n)
        return backoff->cap_us;
    return backoff->base_us << n;
}

int64_t prazo_backoff_draw_us(const struct prazo_backoff *backoff, uint32_t n, uint64_t draw)
{
    uint64_t values = (uint64_t)prazo_backoff_step_us(backoff, n) + 1;
    /* The high half of the product. No redraw against bias: some waits are likelier than others by
     * at most one part in 2⁶⁴ ÷ values, which for a step of a day is less than 10⁻⁸. */
    return (int64_t)(((unsigned __int128)draw * values) >> 64);
}
