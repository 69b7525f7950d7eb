/* SPDX-License-Identifier: MIT */
/* The Kaplan–Meier median against cases computed by hand, and ageing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/estimate.h"

enum { DONE_US = 100000, CUT_US = 850000 };

/* Pairs of one done and one cut, then some more that are done. */
static void fill(struct prazo_estimate *e, int pairs, int done)
{
    for (int i = 0; i < pairs; i++) {
        prazo_estimate_add(e, 0, DONE_US, false);
        prazo_estimate_add(e, 0, CUT_US, true);
    }
    for (int i = 0; i < done; i++)
        prazo_estimate_add(e, 0, DONE_US, false);
    prazo_estimate_read(e, 0);
}

static void within_6_percent(int64_t value, int64_t expected)
{
    assert_in_range(value, expected * 94 / 100, expected * 106 / 100);
}

static void test_cut_attempts_are_lower_bounds(void **state)
{
    static const struct {
        int pairs, done;
        int64_t p50_us;
    } rows[] = {
        { 10, 0, CUT_US },  /* just under half of the weight is done: at least the cut */
        { 10, 1, DONE_US }, /* one more, and the median is a completion */
        { 0, 20, DONE_US },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct prazo_estimate e;
        prazo_estimate_init(&e, 0);
        fill(&e, rows[i].pairs, rows[i].done);
        assert_true(e.active);
        within_6_percent(e.p50_us, rows[i].p50_us);
        within_6_percent(e.q90_us, DONE_US);
    }
}

static void test_few_samples_are_inert(void **state)
{
    struct prazo_estimate e;
    (void)state;
    prazo_estimate_init(&e, 0);
    fill(&e, 0, 8);
    assert_false(e.active);
    assert_int_equal(e.q90_us, 0);
}

static void test_follows_within_64_samples(void **state)
{
    struct prazo_estimate e;
    (void)state;
    prazo_estimate_init(&e, 0);
    fill(&e, 0, 1000);
    for (int i = 0; i < 64; i++)
        prazo_estimate_add(&e, 0, 3 * DONE_US, false);
    prazo_estimate_read(&e, 0);
    within_6_percent(e.p50_us, 3 * DONE_US);
}

/* A bound below what is known is no news: short attempts cut off do not make the upstream fast. */
static void test_short_cuts_do_not_lower_the_median(void **state)
{
    struct prazo_estimate e;
    (void)state;
    prazo_estimate_init(&e, 0);
    fill(&e, 0, 20);
    for (int64_t now_us = 0; now_us < 40000000; now_us += 10000)
        prazo_estimate_add(&e, now_us, 10000, true);
    prazo_estimate_read(&e, 40000000);
    within_6_percent(e.p50_us, DONE_US);
}

static void test_edges(void **state)
{
    static const int64_t times_us[] = { INT64_MIN, -1, 0, 63, 64, INT64_MAX };
    struct prazo_estimate e;
    (void)state;
    prazo_estimate_init(&e, 0);
    /* Long enough for the weights to be rescaled, and with pauses of every length. */
    for (int64_t i = 0, now_us = 0; i < 20000; i++, now_us += i * 997 % 1000003) {
        prazo_estimate_add(&e, now_us, times_us[i % 6], i % 3 == 0);
        prazo_estimate_read(&e, now_us);
        assert_true(e.weight >= 1024 && e.weight < INT64_C(1) << 40);
        assert_true(e.p50_us >= 0 && e.total > 0);
    }
    prazo_estimate_add(&e, INT64_MAX / 2, DONE_US, false);
    assert_int_equal(e.total, 1024); /* a pause of more than 64 s leaves nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_attempts_are_lower_bounds),
        cmocka_unit_test(test_few_samples_are_inert),
        cmocka_unit_test(test_follows_within_64_samples),
        cmocka_unit_test(test_short_cuts_do_not_lower_the_median),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
