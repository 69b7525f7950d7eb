/* SPDX-License-Identifier: MIT */
/* The sliding window, as a table and against a naive twin that remembers every event. */
#include "core/window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/prng.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define S INT64_C(1000000)

static void sums_cover_ten_seconds(void **state)
{
    (void)state;
    static const struct {
        int64_t at_us;
        uint64_t a, b; /* added first, if not both 0 */
        uint64_t sum_a, sum_b;
    } rows[] = {
        { 0, 0, 0, 0, 0 },
        { 0, 2, 1, 2, 1 },
        { S - 1, 1, 1, 3, 2 },
        { 5 * S, 4, 0, 7, 2 },
        { 10 * S - 1, 0, 0, 7, 2 },
        { 10 * S, 0, 0, 4, 0 }, /* second 0 is out */
        { 10 * S, 1, 1, 5, 1 }, /* and its slot is taken over */
        { 14 * S, 0, 0, 5, 1 },
        { 15 * S, 0, 0, 1, 1 },
        { 20 * S, 0, 0, 0, 0 },
        { 1000 * S, 0, 0, 0, 0 },
        { 1000 * S, 3, 3, 3, 3 },
        { 999 * S, 1, 0, 4, 3 }, /* a clock that goes back loses nothing */
        { 990 * S, 1, 0, 5, 3 },
        { INT64_MAX, 1, 1, 1, 1 },
    };
    struct prazo_window w = { 0 };
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].a || rows[i].b)
            prazo_window_add(&w, rows[i].at_us, rows[i].a, rows[i].b);
        uint64_t sum_a = 0, sum_b = 0;
        prazo_window_sum(&w, rows[i].at_us, &sum_a, &sum_b);
        if (sum_a != rows[i].sum_a || sum_b != rows[i].sum_b)
            fail_msg("row %zu: %llu %llu", i, (unsigned long long)sum_a, (unsigned long long)sum_b);
    }
}

static void sums_are_added_to_what_is_there(void **state)
{
    (void)state;
    struct prazo_window w = { 0 };
    uint64_t sum_a = 10, sum_b = 20;
    prazo_window_add(&w, S, 1, 2);
    prazo_window_sum(&w, S, &sum_a, &sum_b);
    assert_true(sum_a == 11 && sum_b == 22);
}

static void time_before_the_start_is_the_start(void **state)
{
    (void)state;
    struct prazo_window w = { 0 };
    uint64_t sum_a = 0, sum_b = 0;
    prazo_window_add(&w, INT64_MIN, 1, 2);
    prazo_window_sum(&w, -1, &sum_a, &sum_b);
    assert_true(sum_a == 1 && sum_b == 2);
}

static void agrees_with_a_naive_twin(void **state)
{
    (void)state;
    enum { EVENTS = 5000 };
    static struct {
        int64_t second;
        uint64_t a, b;
    } events[EVENTS];
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20260101;
    struct prazo_prng prng;
    prazo_prng_seed(&prng, seed);

    struct prazo_window w = { 0 };
    int64_t now_us = 0;
    for (size_t n = 0; n < EVENTS; n++) {
        /* mostly small steps, sometimes longer than the window */
        now_us += (int64_t)prazo_prng_below(&prng, prazo_prng_below(&prng, 50) ? S / 2 : 30 * S);
        events[n].second = now_us / S;
        events[n].a = prazo_prng_below(&prng, 5);
        events[n].b = prazo_prng_below(&prng, 5);
        prazo_window_add(&w, now_us, events[n].a, events[n].b);

        uint64_t want_a = 0, want_b = 0, sum_a = 0, sum_b = 0;
        for (size_t i = n + 1; i-- > 0 && events[i].second > now_us / S - PRAZO_WINDOW_SLOTS;) {
            want_a += events[i].a;
            want_b += events[i].b;
        }
        prazo_window_sum(&w, now_us, &sum_a, &sum_b);
        if (sum_a != want_a || sum_b != want_b)
            fail_msg("event %zu differs; replay with SEED=%llu", n, (unsigned long long)seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_cover_ten_seconds),
        cmocka_unit_test(sums_are_added_to_what_is_there),
        cmocka_unit_test(time_before_the_start_is_the_start),
        cmocka_unit_test(agrees_with_a_naive_twin),
    };
    return cmocka_run_group_tests_name("core/window", tests, NULL, NULL);
}
