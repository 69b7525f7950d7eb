/* SPDX-License-Identifier: MIT */
/* Ejection of one server. Knows neither the other servers nor the lock that guards it.
 *
 * Invariant: an ejected server is not ejected again, so that attempts that were under way when it
 * went out do not prolong its absence. Callers hold the upstream's lock. */
#include "core/eject.h"

#include "prazo/deadline.h"

bool prazo_eject_success(struct prazo_eject *e)
{
    bool had_something = e->failures != 0 || e->until_us != 0;
    e->failures = 0;
    e->until_us = 0;
    return had_something;
}

bool prazo_eject_failure(struct prazo_eject *e, const struct prazo_eject_policy *policy,
                         bool may_eject, int64_t now_us)
{
    if (e->failures < UINT32_MAX)
        e->failures++;
    if (e->failures < policy->after || !may_eject || prazo_eject_is_out(e, now_us))
        return false;
    e->until_us = prazo_instant_add(now_us, policy->for_us);
    return true;
}

bool prazo_eject_may(const struct prazo_eject_policy *policy, uint32_t out, uint32_t total)
{
    if (policy->most_percent == 0 || total < 2 || out >= total - 1)
        return false;
    return out == 0 || ((uint64_t)out + 1) * 100 <= (uint64_t)total * policy->most_percent;
}
