/* SPDX-License-Identifier: MIT */
/* Is a failed attempt repeated, and when? Eight rules, asked in this order; the first "no" is the
 * answer:
 *
 *   class       the failure may be transitory
 *   unsafe      doing it twice does no harm, or it provably never started
 *   body        the request's body is still held in full
 *   client      the client is still there
 *   travelling  the request's own budget has one left
 *   deadline    wait + the least useful time fits before the limit
 *   admission   it would be let in now
 *   window      the upstream's window budget grants it
 *
 *   wait = max(Retry-After, backoff) + uniform in [0, step] if Retry-After was the longer one
 *
 * A wait that does not fit ends the matter: it is never shortened, because shortened waits end
 * together. Pure: no clock, no allocation. Thread-safe as far as the window budget is. */
#ifndef PRAZO_RETRY_H
#define PRAZO_RETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "prazo/backoff.h"
#include "prazo/budget.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, "name") in the order in which they are asked. */
#define PRAZO_RETRY_DENIED_MAP(X)                                                                  \
    X(CLASS, "class")                                                                              \
    X(UNSAFE, "unsafe")                                                                            \
    X(BODY, "body")                                                                                \
    X(CLIENT, "client")                                                                            \
    X(TRAVELLING, "travelling")                                                                    \
    X(DEADLINE, "deadline")                                                                        \
    X(ADMISSION, "admission")                                                                      \
    X(WINDOW, "window")

enum prazo_retry_verdict {
    PRAZO_RETRY_GRANTED = 0,
#define X(NAME, name) PRAZO_RETRY_DENIED_##NAME,
    PRAZO_RETRY_DENIED_MAP(X)
#undef X
    /* must stay last */
    PRAZO_RETRY_VERDICT_COUNT
};

/* How an attempt failed. */
enum prazo_failure {
    PRAZO_FAILURE_CONNECT = 0, /* no server could be reached */
    PRAZO_FAILURE_RESET,       /* broken, or refused by the protocol, before the answer's head */
    PRAZO_FAILURE_TIMEOUT,     /* the attempt's own timer, with time left for another */
    PRAZO_FAILURE_STATUS,      /* an answer whose status is an error */
    PRAZO_FAILURE_PERMANENT,   /* whatever would only fail again, such as an invalid answer */
    /* must stay last */
    PRAZO_FAILURE_COUNT
};

struct prazo_retry_policy {
    struct prazo_backoff backoff;
    const uint16_t *statuses; /* that may be transitory; borrowed */
    size_t status_count;
    /* The budget is lent to the layer below, which is where the repeats are made. This one repeats
     * only what provably never started; other failures are denied as "travelling". */
    bool is_below;
};

struct prazo_retry_facts {
    enum prazo_failure failure;
    int status;         /* with PRAZO_FAILURE_STATUS */
    bool is_committed;  /* the first byte of the answer went to the client */
    bool is_forbidden;  /* a believed prazo-result says retry=no */
    bool is_idempotent; /* GET, HEAD, OPTIONS, PUT, DELETE */
    bool is_keyed;      /* the upstream honours idempotency keys, and the request carries one */
    bool is_unstarted;  /* provably: no byte of it reached an application */
    bool has_body;      /* the request's body is held in full, also if it is empty */
    bool has_client;    /* it is still there */
    bool can_enter;     /* breaker, gate, deadline test and limit would let it in at now_us */
    uint32_t held;      /* prazo_travel.held, what the failed attempt was lent already returned */
    uint32_t n;         /* repeats so far: 0 when the first attempt has failed */
    int64_t now_us;
    int64_t limit_us;       /* deadline − margin */
    int64_t useful_us;      /* below this nothing can be achieved, such as the p50 of successes */
    int64_t retry_after_us; /* of the server that would be asked again; negative: none */
    uint64_t draws[2];      /* 64 random bits each, new for each decision */
};

/* The metric's name of a denial ("class", …), "granted" for PRAZO_RETRY_GRANTED. Static storage. */
const char *prazo_retry_verdict_name(enum prazo_retry_verdict verdict);

/* PRAZO_RETRY_GRANTED: *ret_at_us is when to go on, and the window budget has been charged at
 * facts->now_us in `shard`. Wait until then, ask prazo_retry_decide_again(), take one from the
 * travelling budget (prazo_travel_spend()) and send. If the client leaves during the wait,
 * prazo_budget_refund(). Any other verdict: nothing was charged, *ret_at_us is untouched. */
enum prazo_retry_verdict prazo_retry_decide(const struct prazo_retry_facts *facts,
                                            const struct prazo_retry_policy *policy,
                                            struct prazo_budget *window, uint32_t shard,
                                            int64_t *ret_at_us);

/* After the wait: client, deadline and admission once more, with new has_client, can_enter, now_us
 * and useful_us. Nothing is charged. The window's charge stays unless the verdict is
 * PRAZO_RETRY_DENIED_CLIENT. */
enum prazo_retry_verdict prazo_retry_decide_again(const struct prazo_retry_facts *facts);

/* Could a repeat follow the attempt that is about to start, if it ran into its timer? Decided by
 * the rules unsafe, body and travelling alone: only then may that timer be shorter than all that is
 * left. Reads is_idempotent, is_keyed, has_body, held (what this attempt is lent is not held). */
bool prazo_retry_can_follow(const struct prazo_retry_facts *facts,
                            const struct prazo_retry_policy *policy);

#ifdef __cplusplus
}
#endif
#endif
