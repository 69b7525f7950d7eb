/* SPDX-License-Identifier: MIT */
/* Choice of a server, ejection, and the waiting protocol, on loops that run a turn at a time. The
 * protocol between threads is in upstream_threads_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "gateway/upstream.h"

enum { SERVERS = PRAZO_SERVERS_MAX, WAITERS = 1030 };

static struct prazo_upstream *upstream;
static struct prazo_server_rt servers[SERVERS];
static struct prazo_server_rt *table[SERVERS];
static char label[] = "127.0.0.1:1";
static struct prazo_prng prng;
static struct prazo_loop *loops[2];

static int setup(void **state)
{
    (void)state;
    upstream = prazo_upstream_new("orders", NULL);
    assert_non_null(upstream);
    memset(servers, 0, sizeof servers);
    for (size_t i = 0; i < SERVERS; i++) {
        servers[i].label = label;
        servers[i].upstream = upstream;
        table[i] = &servers[i];
    }
    prazo_prng_seed(&prng, 7);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(prazo_loop_new(&loops[i]), PRAZO_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    prazo_loop_free(loops[0]);
    prazo_loop_free(loops[1]);
    prazo_upstream_free(upstream);
    return 0;
}

/* The upstream consists of the first `count` servers. */
static void use_servers(size_t count)
{
    upstream->servers = prazo_mem_calloc(count, sizeof *upstream->servers);
    assert_non_null(upstream->servers);
    memcpy(upstream->servers, table, count * sizeof *table);
    upstream->server_count = count;
}

/* ---- choice ---- */

static int pick(size_t count, uint64_t tried, int64_t now_us)
{
    return prazo_upstream_pick(table, count, tried, &prng, now_us);
}

/* How often each is picked in 4,000 times. */
static void count_picks(size_t count, uint64_t tried, int64_t now_us, int *ret_picks)
{
    memset(ret_picks, 0, count * sizeof *ret_picks);
    for (int i = 0; i < 4000; i++) {
        int at = pick(count, tried, now_us);
        assert_in_range(at, 0, (int)count - 1);
        ret_picks[at]++;
    }
}

static void test_pick_spreads_equal_load(void **state)
{
    int picks[4];

    (void)state;
    count_picks(4, 0, 1, picks);
    for (size_t i = 0; i < 4; i++)
        assert_in_range(picks[i], 850, 1150);
}

static void test_pick_prefers_fewer_in_flight(void **state)
{
    int picks[3];

    (void)state;
    servers[0].in_flight = 5;
    for (int i = 0; i < 100; i++)
        assert_int_equal(pick(2, 0, 1), 1);
    servers[1].in_flight = 3;
    servers[2].in_flight = 1;
    count_picks(3, 0, 1, picks);
    assert_int_equal(picks[0], 0); /* two different ones are compared: the busiest never wins */
    assert_in_range(picks[1], 1200, 1470);
    assert_in_range(picks[2], 2530, 2800);
}

static void test_pick_leaves_out_what_was_tried(void **state)
{
    (void)state;
    assert_int_equal(pick(1, 0, 1), 0);
    assert_int_equal(pick(1, 1, 1), -1);
    for (int i = 0; i < 50; i++)
        assert_int_equal(pick(3, 0x5, 1), 1);
    assert_int_equal(pick(3, 0x7, 1), -1);
    assert_int_equal(pick(64, ~0ull, 1), -1);
    assert_int_equal(pick(64, ~0ull >> 1, 1), 63);
    assert_int_equal(pick(64, ~1ull, 1), 0);
}

static void test_pick_avoids_ejected_ones(void **state)
{
    int picks[3];

    (void)state;
    servers[1].out_until_us = 100;
    count_picks(3, 0, 99, picks);
    assert_int_equal(picks[1], 0);
    count_picks(3, 0, 100, picks); /* its time is over */
    assert_true(picks[1] > 0);
    servers[0].in_flight = 1000; /* better a busy one than an ejected one */
    assert_int_equal(pick(2, 0, 50), 0);
}

static void test_pick_takes_an_ejected_one_if_there_is_no_other(void **state)
{
    int picks[3];

    (void)state;
    for (size_t i = 0; i < 3; i++)
        servers[i].out_until_us = INT64_MAX;
    count_picks(3, 0, 5, picks);
    for (size_t i = 0; i < 3; i++)
        assert_true(picks[i] > 0);
    assert_int_equal(pick(1, 0, 5), 0);
    servers[0].out_until_us = 0;
    assert_int_equal(pick(3, 0x3, 5), 2); /* the only good one has been tried */
    assert_int_equal(pick(3, 0x7, 5), -1);
}

/* ---- ejection ---- */

static const struct prazo_eject_policy policy = { .after = 3, .for_us = 1000, .most_percent = 50 };

static void fail_times(size_t server, int times, int64_t now_us)
{
    for (int i = 0; i < times; i++)
        prazo_server_report(&servers[server], &policy, false, now_us);
}

static bool is_out(size_t server, int64_t now_us)
{
    return servers[server].out_until_us > now_us;
}

static void test_report_ejects_after_failures_in_a_row(void **state)
{
    (void)state;
    use_servers(3);
    fail_times(0, 2, 10);
    prazo_server_report(&servers[0], &policy, true, 10);
    assert_int_equal(servers[0].failures, 0);
    fail_times(0, 2, 10);
    assert_false(is_out(0, 10));
    fail_times(0, 1, 20);
    assert_int_equal(servers[0].out_until_us, 1020);
    fail_times(0, 1, 500); /* under way when it went out: not prolonged */
    assert_int_equal(servers[0].out_until_us, 1020);
    fail_times(0, 1, 1020); /* tried again, failed again: out at once */
    assert_int_equal(servers[0].out_until_us, 2020);
    prazo_server_report(&servers[0], &policy, true, 1500);
    assert_false(is_out(0, 1500));
    fail_times(0, 1, 1500);
    assert_false(is_out(0, 1500));
}

static void test_report_never_ejects_the_last(void **state)
{
    (void)state;
    use_servers(2);
    fail_times(0, 3, 10);
    fail_times(1, 50, 10);
    assert_true(is_out(0, 10));
    assert_false(is_out(1, 10));
    fail_times(1, 1, 1010); /* the other one is back: now it may go */
    assert_true(is_out(1, 1010));
    assert_false(is_out(0, 1010));
}

static void test_report_keeps_the_share(void **state)
{
    (void)state;
    use_servers(5);
    for (size_t i = 0; i < 5; i++)
        fail_times(i, 3, 10);
    assert_true(is_out(0, 10) && is_out(1, 10)); /* 50 % of 5, rounded down */
    assert_false(is_out(2, 10) || is_out(3, 10) || is_out(4, 10));
}

static void test_report_of_a_single_server(void **state)
{
    (void)state;
    use_servers(1);
    fail_times(0, 20, 10);
    assert_false(is_out(0, 10));
    assert_int_equal(servers[0].failures, 20);
}

static void test_addrs_are_copied_up_to_the_room(void **state)
{
    struct prazo_addr to[2] = { { .len = 9 }, { .len = 9 } };

    (void)state;
    assert_int_equal(prazo_server_addrs(&servers[0], to, 2), 0);
    servers[0].addr_count = 3;
    for (uint32_t i = 0; i < 3; i++)
        servers[0].addrs[i].len = i + 1;
    assert_int_equal(prazo_server_addrs(&servers[0], to, 1), 1);
    assert_int_equal(to[0].len, 1);
    assert_int_equal(to[1].len, 9);
    assert_int_equal(prazo_server_addrs(&servers[0], to, 2), 2);
    assert_int_equal(to[1].len, 2);
}

/* ---- waiting ---- */

static char granted[64]; /* names of waiters in the order in which they were told */
static size_t granted_count;

struct caller {
    struct prazo_waiter waiter;
    char name;
};

static void on_grant(void *arg)
{
    const struct caller *caller = arg;

    prazo_upstream_arrived(upstream);
    if (granted_count < sizeof granted - 1)
        granted[granted_count] = caller->name;
    granted_count++;
}

static void stop(void *arg)
{
    prazo_loop_stop(arg);
}

/* Posts arrive in order: whatever was granted on that loop has arrived when it stops. */
static const char *arrivals(size_t loop)
{
    memset(granted, 0, sizeof granted);
    granted_count = 0;
    assert_int_equal(prazo_loop_post(loops[loop], stop, loops[loop]), PRAZO_OK);
    prazo_loop_run(loops[loop]);
    return granted;
}

static bool wait_for(struct caller *caller, char name, size_t loop, int64_t deadline_us)
{
    *caller =
        (struct caller){ .waiter = { .loop = loops[loop], .on_grant = on_grant, .arg = caller },
                         .name = name };
    return prazo_upstream_wait(upstream, &caller->waiter, deadline_us);
}

/* One connection, and it is taken. */
static void fill_up(int64_t max)
{
    upstream->connections_max = max;
    while (prazo_upstream_slot_take(upstream))
        ;
    assert_int_equal(upstream->connections, max);
}

static void test_slots_are_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_true(prazo_upstream_slot_take(upstream)); /* none: no bound */
    for (int i = 0; i < 1000; i++)
        prazo_upstream_slot_free(upstream);
    fill_up(2);
    assert_false(prazo_upstream_slot_take(upstream));
    prazo_upstream_slot_free(upstream);
    assert_true(prazo_upstream_slot_take(upstream));
    upstream->connections_max = 1; /* a reload: those that are open stay */
    prazo_upstream_slot_free(upstream);
    assert_false(prazo_upstream_slot_take(upstream));
    prazo_upstream_slot_free(upstream);
    assert_true(prazo_upstream_slot_take(upstream));
}

static void test_earliest_deadline_is_told_first(void **state)
{
    struct caller c[4];

    (void)state;
    fill_up(1);
    assert_true(wait_for(&c[0], 'a', 0, 30));
    assert_true(wait_for(&c[1], 'b', 0, 10));
    assert_true(wait_for(&c[2], 'c', 0, 20));
    assert_true(wait_for(&c[3], 'd', 0, 10));
    assert_string_equal(arrivals(0), "");
    prazo_upstream_slot_free(upstream);
    assert_true(prazo_upstream_has_waiters(upstream));
    assert_string_equal(arrivals(0), "b");
    assert_true(prazo_upstream_slot_take(upstream));
    for (int i = 0; i < 3; i++) {
        prazo_upstream_slot_free(upstream);
        upstream->connections++;
    }
    assert_string_equal(arrivals(0), "dca");
    assert_false(prazo_upstream_has_waiters(upstream));
}

static void test_a_slot_that_came_back_before_waiting_is_seen(void **state)
{
    struct caller c[2];

    (void)state;
    fill_up(1);
    assert_true(wait_for(&c[0], 'a', 1, 30));
    upstream->connections = 0; /* given back by one who saw no waiter yet */
    assert_true(wait_for(&c[1], 'b', 0, 40));
    assert_string_equal(arrivals(1), "a"); /* the earliest, not the newest */
    assert_string_equal(arrivals(0), "");
    assert_true(prazo_upstream_leave(upstream, &c[1].waiter));
}

static void test_leaving_the_queue(void **state)
{
    struct caller c[3];

    (void)state;
    fill_up(1);
    for (size_t i = 0; i < 3; i++)
        assert_true(wait_for(&c[i], (char)('a' + i), 0, 10));
    assert_true(prazo_upstream_leave(upstream, &c[0].waiter));
    assert_int_equal(upstream->waiting, 2);
    prazo_upstream_slot_free(upstream);
    assert_string_equal(arrivals(0), "b");
    assert_true(prazo_upstream_leave(upstream, &c[2].waiter));
    assert_int_equal(upstream->waiting, 0);
    prazo_upstream_slot_free(upstream);
    assert_string_equal(arrivals(0), "");
}

static void test_leaving_with_the_grant_on_its_way(void **state)
{
    struct caller c[2];

    (void)state;
    fill_up(1);
    assert_true(wait_for(&c[0], 'a', 0, 10));
    assert_true(wait_for(&c[1], 'b', 1, 20));
    prazo_upstream_slot_free(upstream);
    assert_false(prazo_upstream_leave(upstream, &c[0].waiter));
    assert_int_equal(upstream->waiting, 2); /* it counts until it has arrived */
    assert_string_equal(arrivals(0), "a");
    prazo_upstream_wake_next(upstream); /* as its owner does, who is gone */
    assert_string_equal(arrivals(1), "b");
    assert_int_equal(upstream->waiting, 0);
    prazo_upstream_wake_next(upstream);
    assert_string_equal(arrivals(1), "");
}

static void test_idle_connection_goes_to_its_own_loop(void **state)
{
    struct caller c[2];

    (void)state;
    fill_up(1);
    assert_true(prazo_upstream_offer_idle(upstream, loops[0])); /* nobody: it may stay idle */
    assert_true(wait_for(&c[0], 'a', 1, 10));
    assert_true(wait_for(&c[1], 'b', 0, 20));
    assert_false(prazo_upstream_offer_idle(upstream, loops[0])); /* the earliest waits elsewhere */
    assert_string_equal(arrivals(1), "");
    assert_true(prazo_upstream_offer_idle(upstream, loops[1]));
    assert_string_equal(arrivals(1), "a");
    assert_true(prazo_upstream_offer_idle(upstream, loops[0]));
    assert_string_equal(arrivals(0), "b");
}

static void test_pass_on_needs_a_free_slot(void **state)
{
    struct caller c[2];

    (void)state;
    prazo_upstream_pass_on(upstream);
    fill_up(1);
    assert_true(wait_for(&c[0], 'a', 0, 10));
    assert_true(wait_for(&c[1], 'b', 0, 20));
    prazo_upstream_pass_on(upstream);
    assert_string_equal(arrivals(0), "");
    prazo_upstream_slot_free(upstream);
    assert_string_equal(arrivals(0), "a");
    prazo_upstream_pass_on(upstream); /* a found an idle connection: the slot is still free */
    assert_string_equal(arrivals(0), "b");
}

static void test_grant_needs_no_memory(void **state)
{
    struct caller c;

    (void)state;
    fill_up(1);
    assert_true(wait_for(&c, 'a', 0, 10));
    prazo_mem_fail_after(0);
    prazo_upstream_slot_free(upstream);
    assert_false(prazo_mem_has_failed());
    prazo_mem_fail_after(-1);
    assert_string_equal(arrivals(0), "a");
}

static void test_full_queue(void **state)
{
    static struct caller c[WAITERS];
    size_t queued = 0;

    (void)state;
    fill_up(1);
    while (queued < WAITERS && wait_for(&c[queued], 'a', 0, (int64_t)queued))
        queued++;
    assert_int_equal(queued, 1024);
    assert_int_equal(upstream->waiting, 1024); /* the refused one is not counted */
    assert_string_equal(arrivals(0), "");
    upstream->connections = 0; /* a slot is free, and the one that sees it finds no room */
    assert_false(wait_for(&c[queued], 'z', 0, 0));
    assert_string_equal(arrivals(0), "a");
    for (size_t i = 0; i < queued; i++)
        (void)prazo_upstream_leave(upstream, &c[i].waiter);
    assert_int_equal(upstream->waiting, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pick_spreads_equal_load),
        TEST(test_pick_prefers_fewer_in_flight),
        TEST(test_pick_leaves_out_what_was_tried),
        TEST(test_pick_avoids_ejected_ones),
        TEST(test_pick_takes_an_ejected_one_if_there_is_no_other),
        TEST(test_report_ejects_after_failures_in_a_row),
        TEST(test_report_never_ejects_the_last),
        TEST(test_report_keeps_the_share),
        TEST(test_report_of_a_single_server),
        TEST(test_addrs_are_copied_up_to_the_room),
        TEST(test_slots_are_bounded),
        TEST(test_earliest_deadline_is_told_first),
        TEST(test_a_slot_that_came_back_before_waiting_is_seen),
        TEST(test_leaving_the_queue),
        TEST(test_leaving_with_the_grant_on_its_way),
        TEST(test_idle_connection_goes_to_its_own_loop),
        TEST(test_pass_on_needs_a_free_slot),
        TEST(test_grant_needs_no_memory),
        TEST(test_full_queue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
