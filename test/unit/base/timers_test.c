/* SPDX-License-Identifier: MIT */
/* The timer heap's edges, and what callbacks may do while timers expire. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/timers.h"

enum { LOG_MAX = 64 };

/* A timer that notes its run and then does what the test wants. */
struct probe {
    struct prazo_timer timer;
    int number;
    struct prazo_timer *unlinks; /* or NULL */
    struct prazo_timer *links;   /* at links_at_us; or NULL */
    int64_t links_at_us;
};

static struct prazo_timers timers;
static int ran[LOG_MAX];
static size_t ran_count;
static int64_t ran_now_us, wake_seen_us;

static void on_probe(struct prazo_timer *timer, int64_t now_us)
{
    struct probe *probe = (struct probe *)(void *)timer;

    assert_false(prazo_timer_is_linked(timer));
    assert_true(ran_count < LOG_MAX);
    ran[ran_count++] = probe->number;
    ran_now_us = now_us;
    wake_seen_us = prazo_timers_wake_at(&timers);
    if (probe->unlinks)
        prazo_timers_unlink(&timers, probe->unlinks);
    if (probe->links)
        prazo_timers_link_at(&timers, probe->links, probe->links_at_us);
}

static int setup(void **state)
{
    (void)state;
    prazo_timers_init(&timers);
    ran_count = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    prazo_timers_done(&timers);
    return 0;
}

static void link_probe(struct probe *probe, int number, int64_t at_us)
{
    *probe = (struct probe){ .timer.cb = on_probe, .number = number };
    prazo_timers_link_at(&timers, &probe->timer, at_us);
}

/* Expires at now_us and expects exactly these to run, in this order. */
static void expect_run(int64_t now_us, const int *numbers, size_t count)
{
    ran_count = 0;
    assert_int_equal(prazo_timers_expire(&timers, now_us), count);
    assert_int_equal(ran_count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ran[i], numbers[i]);
    if (count > 0)
        assert_true(ran_now_us == now_us);
}

#define EXPECT_RUN(now_us, ...)                                                                    \
    expect_run(now_us, (int[]){ __VA_ARGS__ }, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int))
#define EXPECT_NONE(now_us) expect_run(now_us, NULL, 0)

static void test_empty(void **state)
{
    struct prazo_timer timer = { .cb = on_probe };

    (void)state;
    assert_true(prazo_timers_wake_at(&timers) == PRAZO_NEVER);
    EXPECT_NONE(INT64_MAX);
    EXPECT_NONE(INT64_MIN);
    prazo_timers_unlink(&timers, &timer);
    prazo_timers_link_at(&timers, &timer, PRAZO_NEVER);
    assert_false(prazo_timer_is_linked(&timer));
    prazo_timers_done(&timers);
    prazo_timers_done(NULL);
}

/* C094: nothing on the way is narrower than 64 bits. */
static void test_far_instants_do_not_fire_early(void **state)
{
    static const int64_t far_us[] = {
        INT64_C(2147483647) * 1000,
        INT64_C(2147483648) * 1000,
        (INT64_C(4294967296) + 5000) * 1000,
        INT64_C(30) * 86400 * 1000000,
        INT64_MAX - 1,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(far_us) / sizeof(far_us[0]); i++) {
        struct probe probe;

        link_probe(&probe, 1, far_us[i]);
        assert_true(prazo_timers_wake_at(&timers) == far_us[i]);
        EXPECT_NONE(1000000);
        EXPECT_NONE(far_us[i] - 1);
        EXPECT_RUN(far_us[i], 1);
        EXPECT_NONE(INT64_MAX);
    }
}

static void test_earliest_first(void **state)
{
    static const int64_t at_us[] = { 5, 3, 9, INT64_MIN, 0, -4, 7, 1, 8 };
    struct probe probes[9];

    (void)state;
    for (int i = 0; i < 9; i++)
        link_probe(&probes[i], i, at_us[i]);
    assert_true(prazo_timers_wake_at(&timers) == INT64_MIN);
    EXPECT_RUN(5, 3, 5, 4, 7, 1, 0);
    assert_true(prazo_timers_wake_at(&timers) == 7);
    EXPECT_NONE(5); /* time stands still */
    EXPECT_NONE(4); /* and goes back */
    EXPECT_RUN(100, 6, 8, 2);
}

static void test_linking_again_moves(void **state)
{
    struct probe a, b, c;

    (void)state;
    link_probe(&a, 1, 10);
    link_probe(&b, 2, 20);
    link_probe(&c, 3, 30);
    prazo_timers_link_at(&timers, &a.timer, 40);
    prazo_timers_link_at(&timers, &c.timer, 5);
    prazo_timers_link_at(&timers, &b.timer, 20);
    assert_int_equal(timers.count, 3);
    prazo_timers_link_at(&timers, &b.timer, PRAZO_NEVER);
    assert_false(prazo_timer_is_linked(&b.timer));
    EXPECT_RUN(40, 3, 1);
}

static void test_callback_relinks_itself(void **state)
{
    struct probe a;

    (void)state;
    link_probe(&a, 1, 10);
    a.links = &a.timer;
    a.links_at_us = 5; /* already over: in the next call, or this one would never end */
    EXPECT_RUN(10, 1);
    assert_true(prazo_timers_wake_at(&timers) == 5);
    EXPECT_RUN(10, 1);
    a.links = NULL;
    EXPECT_RUN(10, 1);
    EXPECT_NONE(10);
}

static void test_callback_unlinks_one_that_is_due(void **state)
{
    struct probe a, b, c;

    (void)state;
    link_probe(&a, 1, 10);
    link_probe(&b, 2, 11);
    link_probe(&c, 3, 12);
    a.unlinks = &b.timer;
    EXPECT_RUN(12, 1, 3);
    assert_false(prazo_timer_is_linked(&b.timer));
    EXPECT_NONE(INT64_MAX);
}

static void test_callback_moves_one_that_is_due(void **state)
{
    struct probe a, b, c;

    (void)state;
    link_probe(&a, 1, 10);
    link_probe(&b, 2, 11);
    link_probe(&c, 3, 12);
    a.links = &b.timer;
    a.links_at_us = 50;
    c.unlinks = &a.timer; /* has run: nothing to do */
    EXPECT_RUN(12, 1, 3);
    EXPECT_NONE(49);
    EXPECT_RUN(50, 2);
    /* Moved, but still over: not in this call either. */
    link_probe(&a, 1, 60);
    link_probe(&b, 2, 61);
    a.links = &b.timer;
    a.links_at_us = 55;
    EXPECT_RUN(61, 1);
    EXPECT_RUN(61, 2);
}

static void test_callback_unlinks_one_in_the_heap(void **state)
{
    struct probe a, b;

    (void)state;
    link_probe(&a, 1, 10);
    link_probe(&b, 2, 100);
    a.unlinks = &b.timer;
    EXPECT_RUN(10, 1);
    EXPECT_NONE(INT64_MAX);
}

static void test_wake_at_seen_from_a_callback(void **state)
{
    struct probe a, b, c;

    (void)state;
    link_probe(&a, 1, 10);
    link_probe(&b, 2, 11);
    link_probe(&c, 3, 100);
    EXPECT_RUN(10, 1);
    assert_true(wake_seen_us == 11); /* in the heap */
    link_probe(&a, 1, 10);
    a.unlinks = &a.timer;
    ran_count = 0;
    b.links = &a.timer;
    b.links_at_us = 3;
    EXPECT_RUN(12, 1, 2);
    assert_true(wake_seen_us == 100); /* b was the last, a not yet linked */
    assert_true(prazo_timers_wake_at(&timers) == 3);
    EXPECT_RUN(12, 1);
}

static size_t links_left;
static struct prazo_timer many[1000];

static void on_nothing(struct prazo_timer *timer, int64_t now_us)
{
    (void)timer, (void)now_us;
}

static void on_link_many(struct prazo_timer *timer, int64_t now_us)
{
    (void)timer;
    while (links_left > 0) {
        many[--links_left] = (struct prazo_timer){ .cb = on_nothing };
        prazo_timers_link_at(&timers, &many[links_left], now_us);
    }
}

static void test_heap_grows_under_a_callback(void **state)
{
    struct prazo_timer a = { .cb = on_link_many };
    struct probe b;

    (void)state;
    prazo_timers_link_at(&timers, &a, 1);
    link_probe(&b, 2, 2);
    links_left = 1000;
    assert_int_equal(prazo_timers_expire(&timers, 2), 2);
    assert_int_equal(ran[0], 2);
    assert_int_equal(timers.count, 1000);
    assert_int_equal(prazo_timers_expire(&timers, 2), 1000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_empty),
        TEST(test_far_instants_do_not_fire_early),
        TEST(test_earliest_first),
        TEST(test_linking_again_moves),
        TEST(test_callback_relinks_itself),
        TEST(test_callback_unlinks_one_that_is_due),
        TEST(test_callback_moves_one_that_is_due),
        TEST(test_callback_unlinks_one_in_the_heap),
        TEST(test_wake_at_seen_from_a_callback),
        TEST(test_heap_grows_under_a_callback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
