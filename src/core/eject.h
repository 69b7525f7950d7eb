/* SPDX-License-Identifier: MIT */
/* Ejection of one server of an upstream: after `after` consecutive connect failures or resets it
 * gets no requests for `for_us`; then it is tried again, and the next failure ejects it at once,
 * the next success clears the count. Whether it may be ejected at all (never the last, at most
 * `most` percent) is asked by the caller, who knows the others. Pure, by value; not thread-safe:
 * the gateway keeps it under the upstream's lock, which is taken only when a result changes
 * something (a failure, or a success after a failure). */
#ifndef PRAZO_CORE_EJECT_H
#define PRAZO_CORE_EJECT_H

#include <stdbool.h>
#include <stdint.h>

struct prazo_eject {
    uint32_t failures; /* in a row */
    int64_t until_us;  /* ejected until; 0: not */
};

struct prazo_eject_policy {
    uint32_t after; /* >= 1 */
    int64_t for_us;
    uint32_t most_percent; /* of the upstream's servers, 0..100 */
};

static inline bool prazo_eject_is_out(const struct prazo_eject *e, int64_t now_us)
{
    return e->until_us > now_us;
}

/* True if that success cleared something. */
bool prazo_eject_success(struct prazo_eject *e);
/* Counts a failure; if it is time to eject and may_eject, ejects and returns true. */
bool prazo_eject_failure(struct prazo_eject *e, const struct prazo_eject_policy *policy,
                         bool may_eject, int64_t now_us);
/* May one more of `total` servers go out when `out` are? Never the last one. most_percent rounds
 * down, but one of two or more may always go unless most_percent is 0. */
bool prazo_eject_may(const struct prazo_eject_policy *policy, uint32_t out, uint32_t total);

#endif
