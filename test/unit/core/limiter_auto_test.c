/* SPDX-License-Identifier: MIT */
/* Gain and odds of given records, computed by hand, and the bounds of the limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/limiter_auto.h"

static struct prazo_record record(int64_t hold_us, int64_t occupied)
{
    return (struct prazo_record){
        .id = 1, .sent = 100, .ok = 100, .hold_us = hold_us, .occupied = 100 * occupied
    };
}

static void test_gain_and_odds(void **state)
{
    static const struct {
        int64_t hi_hold_us, hi_occupied, gain, odds;
    } rows[] = {
        { 10000000, 20, 100, 3694 }, /* twice the permits, the same time: twice the goodput */
        { 20000000, 20, 0, -1231 },  /* twice the time: none */
        { 10000000, 10, 50, 0 },     /* levels that are not apart say nothing */
    };
    const struct prazo_record lo = record(10000000, 10);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct prazo_record hi = record(rows[i].hi_hold_us, rows[i].hi_occupied);
        struct prazo_gain g = prazo_record_gain(&hi, &lo, 0, 256);
        assert_int_equal(g.gain, rows[i].gain);
        assert_int_equal(g.odds, rows[i].odds);
    }
}

static void test_no_success_at_the_level(void **state)
{
    struct prazo_record hi = record(85000000, 20), lo = record(10000000, 10);
    (void)state;
    hi.ok = 0;
    assert_true(prazo_record_gain(&hi, &lo, 0, 256).odds < -100);
}

static void test_limit_stays_in_bounds(void **state)
{
    static const struct {
        int64_t lim, limit;
    } rows[] = { { INT64_MIN, 4 }, { 0, 4 }, { 50 * 256 + 255, 50 }, { INT64_MAX, 65535 } };
    struct prazo_limiter_auto l;
    (void)state;
    prazo_limiter_auto_init(&l, 0);
    assert_int_equal(prazo_limiter_auto_limit(&l), 32);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        prazo_limiter_auto_set(&l, rows[i].lim);
        assert_int_equal(prazo_limiter_auto_limit(&l), rows[i].limit);
    }
}

static void test_unpressed_limit_starts_no_trial(void **state)
{
    struct prazo_limiter_auto l;
    (void)state;
    prazo_limiter_auto_init(&l, 0);
    l.hold_us = 1000;
    l.left_us = 1000000;
    for (int64_t now_us = 0; now_us < 100; now_us++)
        prazo_limiter_auto_sent(&l, now_us, 32);
    prazo_limiter_auto_step(&l, 100, false);
    assert_int_equal(l.trial, PRAZO_TRIAL_NONE);
    prazo_limiter_auto_step(&l, 100, true);
    assert_int_equal(l.trial, PRAZO_TRIAL_B);
    assert_int_equal(l.kind, PRAZO_TRIAL_UP);
    assert_int_equal(prazo_limiter_auto_in_force(&l), 32); /* growth is clocked by successes */
    l.grow += 5;
    assert_int_equal(prazo_limiter_auto_in_force(&l), 37);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gain_and_odds),
        cmocka_unit_test(test_no_success_at_the_level),
        cmocka_unit_test(test_limit_stays_in_bounds),
        cmocka_unit_test(test_unpressed_limit_starts_no_trial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
