/* SPDX-License-Identifier: MIT */
/* The decision to repeat an attempt. Knows no HTTP: whether a method is idempotent, a key honoured,
 * a result believed, is for the caller to say; sending and waiting are the caller's, too.
 *
 * Invariants: the order of the rules is fixed, because the name of the first "no" is counted; the
 * window budget is charged last and only if all else said yes, so that a repeat which could not
 * have been sent anyway (an open breaker, no time left) costs nothing. Callable from any thread
 * with a shard of its own. */
#include "prazo/retry.h"

#include "prazo/deadline.h"

#include "base/assert.h"

static const char *const verdict_names[PRAZO_RETRY_VERDICT_COUNT] = { [PRAZO_RETRY_GRANTED] =
                                                                          "granted",
#define X(NAME, name) [PRAZO_RETRY_DENIED_##NAME] = (name),
                                                                      PRAZO_RETRY_DENIED_MAP(X)
#undef X
};

const char *prazo_retry_verdict_name(enum prazo_retry_verdict verdict)
{
    PRAZO_ASSERT(verdict < PRAZO_RETRY_VERDICT_COUNT);
    return verdict_names[verdict];
}

static bool is_listed(const struct prazo_retry_policy *policy, int status)
{
    for (size_t i = 0; i < policy->status_count; i++) {
        if (policy->statuses[i] == status)
            return true;
    }
    return false;
}

static bool is_transitory(const struct prazo_retry_facts *facts,
                          const struct prazo_retry_policy *policy)
{
    if (facts->is_committed || facts->is_forbidden)
        return false;
    switch (facts->failure) {
    case PRAZO_FAILURE_CONNECT:
    case PRAZO_FAILURE_RESET:
    case PRAZO_FAILURE_TIMEOUT:
        return true;
    case PRAZO_FAILURE_STATUS:
        return is_listed(policy, facts->status);
    case PRAZO_FAILURE_PERMANENT:
        return false;
    case PRAZO_FAILURE_COUNT:
        break;
    }
    PRAZO_UNREACHABLE();
}

static bool may_happen_twice(const struct prazo_retry_facts *facts)
{
    return facts->is_idempotent || facts->is_keyed;
}

static bool has_travelling(const struct prazo_retry_facts *facts,
                           const struct prazo_retry_policy *policy, bool is_unstarted)
{
    return facts->held > 0 && (!policy->is_below || is_unstarted);
}

/* Strictly before the limit, and never for a wait that saturated. */
static bool fits(const struct prazo_retry_facts *facts, int64_t at_us)
{
    return prazo_instant_add(at_us, facts->useful_us) < facts->limit_us;
}

static int64_t wait_us(const struct prazo_retry_facts *facts, const struct prazo_backoff *backoff)
{
    int64_t drawn_us = prazo_backoff_draw_us(backoff, facts->n, facts->draws[0]);
    if (facts->retry_after_us <= drawn_us)
        return drawn_us;
    /* A whole second that a server tells everybody: without a draw on top all come back at once. */
    return prazo_instant_add(facts->retry_after_us,
                             prazo_backoff_draw_us(backoff, facts->n, facts->draws[1]));
}

enum prazo_retry_verdict prazo_retry_decide(const struct prazo_retry_facts *facts,
                                            const struct prazo_retry_policy *policy,
                                            struct prazo_budget *window, uint32_t shard,
                                            int64_t *ret_at_us)
{
    if (!is_transitory(facts, policy))
        return PRAZO_RETRY_DENIED_CLASS;
    if (!may_happen_twice(facts) && !facts->is_unstarted)
        return PRAZO_RETRY_DENIED_UNSAFE;
    if (!facts->has_body)
        return PRAZO_RETRY_DENIED_BODY;
    if (!facts->has_client)
        return PRAZO_RETRY_DENIED_CLIENT;
    if (!has_travelling(facts, policy, facts->is_unstarted))
        return PRAZO_RETRY_DENIED_TRAVELLING;
    int64_t at_us = prazo_instant_add(facts->now_us, wait_us(facts, &policy->backoff));
    if (!fits(facts, at_us))
        return PRAZO_RETRY_DENIED_DEADLINE;
    if (!facts->can_enter)
        return PRAZO_RETRY_DENIED_ADMISSION;
    if (!prazo_budget_charge(window, shard, facts->now_us))
        return PRAZO_RETRY_DENIED_WINDOW;
    *ret_at_us = at_us;
    return PRAZO_RETRY_GRANTED;
}

enum prazo_retry_verdict prazo_retry_decide_again(const struct prazo_retry_facts *facts)
{
    if (!facts->has_client)
        return PRAZO_RETRY_DENIED_CLIENT;
    if (!fits(facts, facts->now_us))
        return PRAZO_RETRY_DENIED_DEADLINE;
    if (!facts->can_enter)
        return PRAZO_RETRY_DENIED_ADMISSION;
    return PRAZO_RETRY_GRANTED;
}

bool prazo_retry_can_follow(const struct prazo_retry_facts *facts,
                            const struct prazo_retry_policy *policy)
{
    /* Whoever runs into the timer may have started. */
    return may_happen_twice(facts) && facts->has_body && has_travelling(facts, policy, false);
}
