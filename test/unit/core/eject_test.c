/* SPDX-License-Identifier: MIT */
/* Ejection of one server, told as a sequence of results. */
#include "core/eject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define S INT64_C(1000000)

static void a_server_goes_out_and_comes_back(void **state)
{
    (void)state;
    const struct prazo_eject_policy policy = { .after = 3, .for_us = 10 * S, .most_percent = 50 };
    static const struct {
        int64_t at_us;
        bool is_success;
        bool may_eject;
        bool answer;      /* of success() or failure() */
        bool is_out_then; /* right after it */
    } rows[] = {
        { 0, true, true, false, false }, /* nothing to clear */
        { 1 * S, false, true, false, false },
        { 2 * S, false, true, false, false },
        { 3 * S, true, true, true, false }, /* not in a row any more */
        { 4 * S, false, true, false, false },
        { 5 * S, false, true, false, false },
        { 6 * S, false, true, true, true },
        { 7 * S, false, true, false, true },    /* was under way: does not prolong it */
        { 16 * S, false, false, false, false }, /* back, fails, but the others are out */
        { 17 * S, false, true, true, true },    /* at once, no three in a row needed */
        { 27 * S, true, true, true, false },
        { 28 * S, false, true, false, false }, /* counts from the start again */
        { 29 * S, false, true, false, false },
        { 30 * S, false, true, true, true },
        { 31 * S, true, true, true, false }, /* an attempt under way came through: it is well */
    };
    struct prazo_eject e = { 0 };
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool answer = rows[i].is_success
                          ? prazo_eject_success(&e)
                          : prazo_eject_failure(&e, &policy, rows[i].may_eject, rows[i].at_us);
        if (answer != rows[i].answer ||
            prazo_eject_is_out(&e, rows[i].at_us) != rows[i].is_out_then)
            fail_msg("row %zu: answer %d, failures %u, until %lld", i, answer, e.failures,
                     (long long)e.until_us);
    }
}

static void ejection_ends_exactly_in_time_and_never_wraps(void **state)
{
    (void)state;
    struct prazo_eject_policy policy = { .after = 1, .for_us = 10 * S, .most_percent = 50 };
    struct prazo_eject e = { 0 };
    assert_true(prazo_eject_failure(&e, &policy, true, 5 * S));
    assert_true(prazo_eject_is_out(&e, 15 * S - 1));
    assert_false(prazo_eject_is_out(&e, 15 * S));

    e = (struct prazo_eject){ .failures = UINT32_MAX };
    policy.for_us = INT64_MAX;
    assert_true(prazo_eject_failure(&e, &policy, true, 5 * S));
    assert_true(e.failures == UINT32_MAX);
    assert_true(e.until_us == INT64_MAX);
}

static void enough_servers_stay(void **state)
{
    (void)state;
    static const struct {
        uint32_t most_percent, out, total;
        bool may;
    } rows[] = {
        { 50, 0, 0, false },
        { 50, 0, 1, false },
        { 100, 0, 1, false },
        { 50, 0, 2, true },
        { 50, 1, 2, false },
        { 50, 0, 3, true },
        { 50, 1, 3, false },
        { 50, 1, 4, true },
        { 50, 2, 4, false },
        { 100, 2, 4, true },
        { 100, 3, 4, false },
        { 100, 4, 4, false },
        { 10, 0, 5, true },
        { 10, 1, 5, false },
        { 10, 1, 20, true },
        { 10, 2, 20, false },
        { 0, 0, 5, false },
        { 1, 0, 2, true },
        { 50, 7, 3, false },
        { 100, UINT32_MAX - 2, UINT32_MAX, true },
        { 100, UINT32_MAX, UINT32_MAX, false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_eject_policy policy = { .after = 1, .most_percent = rows[i].most_percent };
        if (prazo_eject_may(&policy, rows[i].out, rows[i].total) != rows[i].may)
            fail_msg("%u%% with %u of %u out", rows[i].most_percent, rows[i].out, rows[i].total);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_goes_out_and_comes_back),
        cmocka_unit_test(ejection_ends_exactly_in_time_and_never_wraps),
        cmocka_unit_test(enough_servers_stay),
    };
    return cmocka_run_group_tests_name("core/eject", tests, NULL, NULL);
}
