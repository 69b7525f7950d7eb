/* SPDX-License-Identifier: MIT */
/* The decision to repeat: each rule, their order, the wait, and what is charged. */
#include "prazo/retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MS INT64_C(1000)
#define S INT64_C(1000000)
#define NOW_US (100 * S)
#define UNTOUCHED (-77)

static const uint16_t statuses[] = { 408, 429, 502, 503, 504 };

static const struct prazo_retry_policy policy = {
    .backoff = { 100 * MS, 1600 * MS },
    .statuses = statuses,
    .status_count = COUNT(statuses),
};

/* A failed GET that may be repeated, with 2 s left. The draws are the middle of the step. */
static const struct prazo_retry_facts good = {
    .failure = PRAZO_FAILURE_STATUS,
    .status = 503,
    .is_idempotent = true,
    .has_body = true,
    .has_client = true,
    .can_enter = true,
    .held = 1,
    .now_us = NOW_US,
    .limit_us = NOW_US + 2 * S,
    .useful_us = 10 * MS,
    .retry_after_us = -1,
    .draws = { UINT64_C(1) << 63, UINT64_C(1) << 63 },
};

/* A window budget that grants `available`. */
struct window {
    struct prazo_budget budget;
    struct prazo_budget_shard shard;
};

static void open_window(struct window *w, uint32_t available)
{
    const struct prazo_budget_policy only_min = { 0, available, 10 * S };
    *w = (struct window){ .shard = { .unused = { 0 } } };
    prazo_budget_init(&w->budget, &only_min, &w->shard, 1);
}

/* Decides with a window that grants one; checks that it was charged if and only if granted. */
static enum prazo_retry_verdict decide_by(const struct prazo_retry_policy *by,
                                          const struct prazo_retry_facts *facts, int64_t *ret_at_us)
{
    struct window w;
    open_window(&w, 1);
    *ret_at_us = UNTOUCHED;
    enum prazo_retry_verdict verdict = prazo_retry_decide(facts, by, &w.budget, 0, ret_at_us);
    bool is_granted = verdict == PRAZO_RETRY_GRANTED;
    assert_int_equal(prazo_budget_available(&w.budget, facts->now_us), is_granted ? 0 : 1);
    assert_int_equal(*ret_at_us != UNTOUCHED, is_granted);
    return verdict;
}

static enum prazo_retry_verdict decide(const struct prazo_retry_facts *facts)
{
    int64_t at_us;
    return decide_by(&policy, facts, &at_us);
}

static void names_are_those_of_the_metric(void **state)
{
    (void)state;
    static const char *const names[] = { "granted",    "class",    "unsafe",    "body",  "client",
                                         "travelling", "deadline", "admission", "window" };
    assert_int_equal(COUNT(names), PRAZO_RETRY_VERDICT_COUNT);
    for (size_t i = 0; i < COUNT(names); i++)
        assert_string_equal(prazo_retry_verdict_name((enum prazo_retry_verdict)i), names[i]);
}

/* And 4xx and 5xx answers that would only come again. */
static void only_some_failures_may_be_transitory(void **state)
{
    (void)state;
    static const struct {
        enum prazo_failure failure;
        int status;
        enum prazo_retry_verdict expected;
    } rows[] = {
        { PRAZO_FAILURE_CONNECT, 0, PRAZO_RETRY_GRANTED },
        { PRAZO_FAILURE_RESET, 0, PRAZO_RETRY_GRANTED },
        { PRAZO_FAILURE_TIMEOUT, 0, PRAZO_RETRY_GRANTED },
        { PRAZO_FAILURE_PERMANENT, 0, PRAZO_RETRY_DENIED_CLASS },
        { PRAZO_FAILURE_PERMANENT, 503, PRAZO_RETRY_DENIED_CLASS },
        { PRAZO_FAILURE_STATUS, 408, PRAZO_RETRY_GRANTED },
        { PRAZO_FAILURE_STATUS, 429, PRAZO_RETRY_GRANTED },
        { PRAZO_FAILURE_STATUS, 502, PRAZO_RETRY_GRANTED },
        { PRAZO_FAILURE_STATUS, 504, PRAZO_RETRY_GRANTED },
        { PRAZO_FAILURE_STATUS, 500, PRAZO_RETRY_DENIED_CLASS },
        { PRAZO_FAILURE_STATUS, 501, PRAZO_RETRY_DENIED_CLASS },
        { PRAZO_FAILURE_STATUS, 400, PRAZO_RETRY_DENIED_CLASS },
        { PRAZO_FAILURE_STATUS, 404, PRAZO_RETRY_DENIED_CLASS },
        { PRAZO_FAILURE_STATUS, 200, PRAZO_RETRY_DENIED_CLASS },
        { PRAZO_FAILURE_STATUS, 503 + 65536, PRAZO_RETRY_DENIED_CLASS },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_retry_facts facts = good;
        facts.failure = rows[i].failure;
        facts.status = rows[i].status;
        if (decide(&facts) != rows[i].expected)
            fail_msg("row %zu: %s", i, prazo_retry_verdict_name(decide(&facts)));
        /* C031: not after the first byte of the answer; nor when the upstream said no. */
        facts.is_committed = true;
        assert_int_equal(decide(&facts), PRAZO_RETRY_DENIED_CLASS);
        facts.is_committed = false;
        facts.is_forbidden = true;
        assert_int_equal(decide(&facts), PRAZO_RETRY_DENIED_CLASS);
    }
    const struct prazo_retry_policy no_statuses = { .backoff = policy.backoff };
    int64_t at_us;
    assert_int_equal(decide_by(&no_statuses, &good, &at_us), PRAZO_RETRY_DENIED_CLASS);
}

/* C027: a POST is repeated only with a key that the upstream honours, or if it never started. */
static void what_may_not_happen_twice_is_not_repeated(void **state)
{
    (void)state;
    struct prazo_retry_facts facts = good;
    facts.is_idempotent = false;
    assert_int_equal(decide(&facts), PRAZO_RETRY_DENIED_UNSAFE);
    facts.failure = PRAZO_FAILURE_TIMEOUT; /* C028 */
    assert_int_equal(decide(&facts), PRAZO_RETRY_DENIED_UNSAFE);
    facts.is_unstarted = true;
    assert_int_equal(decide(&facts), PRAZO_RETRY_GRANTED);
    facts.is_unstarted = false;
    facts.is_keyed = true;
    assert_int_equal(decide(&facts), PRAZO_RETRY_GRANTED);
}

/* In the order of the contract. */
static void the_first_no_is_the_reason(void **state)
{
    (void)state;
    struct prazo_retry_facts facts = good;
    struct window w;
    int64_t at_us = UNTOUCHED;
    /* All say no; then, one after the other, they say yes. */
    facts.failure = PRAZO_FAILURE_PERMANENT;
    facts.is_idempotent = facts.has_body = facts.has_client = facts.can_enter = false;
    facts.held = 0;
    facts.limit_us = NOW_US;
    open_window(&w, 0);
    for (int verdict = PRAZO_RETRY_DENIED_CLASS; verdict < PRAZO_RETRY_VERDICT_COUNT; verdict++) {
        assert_int_equal(prazo_retry_decide(&facts, &policy, &w.budget, 0, &at_us), verdict);
        assert_int_equal(at_us, UNTOUCHED);
        switch ((enum prazo_retry_verdict)verdict) {
        case PRAZO_RETRY_DENIED_CLASS:
            facts.failure = PRAZO_FAILURE_RESET;
            break;
        case PRAZO_RETRY_DENIED_UNSAFE:
            facts.is_idempotent = true;
            break;
        case PRAZO_RETRY_DENIED_BODY:
            facts.has_body = true;
            break;
        case PRAZO_RETRY_DENIED_CLIENT:
            facts.has_client = true;
            break;
        case PRAZO_RETRY_DENIED_TRAVELLING:
            facts.held = 1;
            break;
        case PRAZO_RETRY_DENIED_DEADLINE:
            facts.limit_us = good.limit_us;
            break;
        case PRAZO_RETRY_DENIED_ADMISSION:
            facts.can_enter = true;
            break;
        case PRAZO_RETRY_DENIED_WINDOW:
            open_window(&w, 1);
            break;
        case PRAZO_RETRY_GRANTED:
        case PRAZO_RETRY_VERDICT_COUNT:
            break;
        }
    }
    assert_int_equal(prazo_retry_decide(&facts, &policy, &w.budget, 0, &at_us),
                     PRAZO_RETRY_GRANTED);
    assert_int_equal(at_us, NOW_US + 50 * MS);
    assert_int_equal(prazo_retry_decide(&facts, &policy, &w.budget, 0, &at_us),
                     PRAZO_RETRY_DENIED_WINDOW);
}

/* Each rule alone, with all others saying yes; decide() checks that nothing is charged. */
static void each_rule_alone_says_no(void **state)
{
    (void)state;
    struct prazo_retry_facts facts = good;
    facts.has_body = false; /* C030 */
    assert_int_equal(decide(&facts), PRAZO_RETRY_DENIED_BODY);
    facts = good;
    facts.has_client = false; /* C017 */
    assert_int_equal(decide(&facts), PRAZO_RETRY_DENIED_CLIENT);
    facts = good;
    facts.held = 0; /* C039 */
    assert_int_equal(decide(&facts), PRAZO_RETRY_DENIED_TRAVELLING);
    facts = good;
    facts.can_enter = false; /* C041: no waiting for an open breaker, no budget taken */
    assert_int_equal(decide(&facts), PRAZO_RETRY_DENIED_ADMISSION);
}

static void the_layer_above_repeats_only_what_never_started(void **state)
{
    (void)state;
    struct prazo_retry_policy below = policy;
    struct prazo_retry_facts facts = good;
    int64_t at_us;
    below.is_below = true;
    assert_int_equal(decide_by(&below, &facts, &at_us), PRAZO_RETRY_DENIED_TRAVELLING);
    facts.is_unstarted = true;
    assert_int_equal(decide_by(&below, &facts, &at_us), PRAZO_RETRY_GRANTED);
    facts.held = 0;
    assert_int_equal(decide_by(&below, &facts, &at_us), PRAZO_RETRY_DENIED_TRAVELLING);
}

static void waits_are_drawn_or_told(void **state)
{
    (void)state;
    const uint64_t none = 0, half = UINT64_C(1) << 63, all = UINT64_MAX;
    const struct {
        uint32_t n;
        int64_t retry_after_us;
        uint64_t draws[2];
        int64_t wait_us;
    } rows[] = {
        { 0, -1, { none, all }, 0 },
        { 0, -1, { half, all }, 50 * MS },
        { 0, -1, { all, all }, 100 * MS },
        { 3, -1, { all, all }, 800 * MS },
        { 4, -1, { all, all }, 1600 * MS },
        { 500, -1, { all, all }, 1600 * MS },
        { 0, INT64_MIN, { half, all }, 50 * MS },
        /* Not longer than the draw: no more than the draw. */
        { 0, 0, { none, all }, 0 },
        { 0, 0, { half, all }, 50 * MS },
        { 4, 800 * MS, { half, all }, 800 * MS },
        /* Longer: never less than the server said, and spread over this step. */
        { 0, 1 * S, { all, none }, 1000 * MS },
        { 0, 1 * S, { all, half }, 1050 * MS },
        { 0, 1 * S, { none, all }, 1100 * MS },
        { 2, 1 * S, { none, all }, 1400 * MS },
        { 0, 1, { none, none }, 1 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_retry_facts facts = good;
        int64_t at_us;
        facts.n = rows[i].n;
        facts.retry_after_us = rows[i].retry_after_us;
        memcpy(facts.draws, rows[i].draws, sizeof(facts.draws));
        assert_int_equal(decide_by(&policy, &facts, &at_us), PRAZO_RETRY_GRANTED);
        if (at_us != NOW_US + rows[i].wait_us)
            fail_msg("row %zu: %lld", i, (long long)(at_us - NOW_US));
    }
}

/* C034, C035: a wait that does not fit ends the matter, and is not shortened. */
static void a_wait_that_does_not_fit_ends_it(void **state)
{
    (void)state;
    static const struct {
        int64_t left_us, useful_us, retry_after_us;
        enum prazo_retry_verdict expected;
    } rows[] = {
        { 60 * MS + 1, 10 * MS, -1, PRAZO_RETRY_GRANTED }, /* the wait is 50 ms */
        { 60 * MS, 10 * MS, -1, PRAZO_RETRY_DENIED_DEADLINE },
        { 50 * MS, 0, -1, PRAZO_RETRY_DENIED_DEADLINE },
        { 0, 0, -1, PRAZO_RETRY_DENIED_DEADLINE },
        { -1 * S, 0, -1, PRAZO_RETRY_DENIED_DEADLINE },
        { INT64_MIN / 2, 0, -1, PRAZO_RETRY_DENIED_DEADLINE },
        { 2 * S, 2 * S, 0, PRAZO_RETRY_DENIED_DEADLINE },
        { 2 * S, 10 * MS, 1 * S, PRAZO_RETRY_GRANTED },
        { 2 * S, 10 * MS, 2 * S, PRAZO_RETRY_DENIED_DEADLINE },
        { 2 * S, 10 * MS, 86400 * S, PRAZO_RETRY_DENIED_DEADLINE }, /* C035 */
        { 2 * S, 10 * MS, INT64_MAX, PRAZO_RETRY_DENIED_DEADLINE },
        { INT64_MAX - NOW_US, 10 * MS, INT64_MAX, PRAZO_RETRY_DENIED_DEADLINE },
        { INT64_MAX - NOW_US, INT64_MAX, -1, PRAZO_RETRY_DENIED_DEADLINE },
        { INT64_MAX - NOW_US, 10 * MS, -1, PRAZO_RETRY_GRANTED },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_retry_facts facts = good;
        facts.limit_us = NOW_US + rows[i].left_us;
        facts.useful_us = rows[i].useful_us;
        facts.retry_after_us = rows[i].retry_after_us;
        if (decide(&facts) != rows[i].expected)
            fail_msg("row %zu: %s", i, prazo_retry_verdict_name(decide(&facts)));
    }
}

/* C017: client, deadline and admission again; what was decided for good is not asked. */
static void after_the_wait_three_rules_are_asked_again(void **state)
{
    (void)state;
    struct prazo_retry_facts facts = good;
    facts.failure = PRAZO_FAILURE_PERMANENT;
    facts.has_body = facts.is_idempotent = false;
    facts.held = 0;
    facts.retry_after_us = 3600 * S; /* has been waited for */
    facts.now_us = facts.limit_us - facts.useful_us - 1;
    assert_int_equal(prazo_retry_decide_again(&facts), PRAZO_RETRY_GRANTED);
    facts.can_enter = false;
    assert_int_equal(prazo_retry_decide_again(&facts), PRAZO_RETRY_DENIED_ADMISSION);
    facts.now_us++;
    assert_int_equal(prazo_retry_decide_again(&facts), PRAZO_RETRY_DENIED_DEADLINE);
    facts.has_client = false;
    assert_int_equal(prazo_retry_decide_again(&facts), PRAZO_RETRY_DENIED_CLIENT);
}

/* C028: a POST that could not be repeated is not cut off early either. */
static void a_short_timer_needs_something_that_can_follow(void **state)
{
    (void)state;
    static const struct {
        bool is_idempotent, is_keyed, has_body, is_below;
        uint32_t held;
        bool expected;
    } rows[] = {
        { true, false, true, false, 1, true },   { false, true, true, false, 1, true },
        { false, false, true, false, 1, false }, { true, false, false, false, 1, false },
        { true, false, true, false, 0, false },  { true, false, true, true, 1, false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_retry_policy by = policy;
        by.is_below = rows[i].is_below;
        const struct prazo_retry_facts facts = {
            .is_idempotent = rows[i].is_idempotent,
            .is_keyed = rows[i].is_keyed,
            .has_body = rows[i].has_body,
            .held = rows[i].held,
            .is_unstarted = true, /* of what was before: says nothing about what will be */
        };
        if (prazo_retry_can_follow(&facts, &by) != rows[i].expected)
            fail_msg("row %zu", i);
    }
}

/* C033 without a network: whatever the failure, all calls together get a tenth and the min. */
static void every_kind_of_failure_asks_the_window(void **state)
{
    (void)state;
    enum { CALLS = 1000 };
    static const enum prazo_failure failures[] = { PRAZO_FAILURE_CONNECT, PRAZO_FAILURE_RESET,
                                                   PRAZO_FAILURE_TIMEOUT, PRAZO_FAILURE_STATUS };
    const struct prazo_budget_policy tenth = { 100, 1, 10 * S };
    for (size_t i = 0; i < COUNT(failures); i++) {
        struct window w = { .shard = { .unused = { 0 } } };
        struct prazo_retry_facts facts = good;
        int64_t at_us;
        int attempts = 0;
        prazo_budget_init(&w.budget, &tenth, &w.shard, 1);
        facts.failure = failures[i];
        facts.held = 4;
        for (int call = 0; call < CALLS; call++) {
            prazo_budget_count_first(&w.budget, 0, NOW_US);
            attempts++;
            for (facts.n = 0; facts.n < 4; facts.n++) {
                if (prazo_retry_decide(&facts, &policy, &w.budget, 0, &at_us) !=
                    PRAZO_RETRY_GRANTED)
                    break;
                attempts++;
            }
        }
        assert_int_equal(attempts, CALLS + CALLS / 10 + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_metric),
        cmocka_unit_test(only_some_failures_may_be_transitory),
        cmocka_unit_test(what_may_not_happen_twice_is_not_repeated),
        cmocka_unit_test(the_first_no_is_the_reason),
        cmocka_unit_test(each_rule_alone_says_no),
        cmocka_unit_test(the_layer_above_repeats_only_what_never_started),
        cmocka_unit_test(waits_are_drawn_or_told),
        cmocka_unit_test(a_wait_that_does_not_fit_ends_it),
        cmocka_unit_test(after_the_wait_three_rules_are_asked_again),
        cmocka_unit_test(a_short_timer_needs_something_that_can_follow),
        cmocka_unit_test(every_kind_of_failure_asks_the_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
