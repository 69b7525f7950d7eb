/* SPDX-License-Identifier: MIT */
/* The window budget as tables, against a naive twin, and under threads. Random tests print their
 * seed; PRAZO_SEED=n runs one again (the order of the threads stays the machine's). The travelling
 * budget has travel_test.c. */
#include "prazo/budget.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/prng.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define S INT64_C(1000000)

static const struct prazo_budget_policy tenth = { .ratio_permille = 100,
                                                  .repeats_min = 1,
                                                  .window_us = 10 * S };

static void count_first(struct prazo_budget *budget, uint32_t shard, int64_t now_us, int count)
{
    for (int i = 0; i < count; i++)
        prazo_budget_count_first(budget, shard, now_us);
}

static int charge_all(struct prazo_budget *budget, int64_t now_us)
{
    int charged = 0;
    while (prazo_budget_charge(budget, 0, now_us))
        charged++;
    return charged;
}

static void grants_ratio_and_min_of_the_window(void **state)
{
    (void)state;
    static const struct {
        int64_t at_us;
        int first;   /* counted first */
        int granted; /* then charged until it says no */
    } rows[] = {
        { 0, 0, 1 },          /* min, however few */
        { 0, 9, 0 },          /* floor(0.9) */
        { 0, 1, 1 },          /* the tenth */
        { 5 * S, 95, 9 },     /* 105 in the window */
        { 5 * S, 4, 0 },      /* 109 */
        { 10 * S - 1, 1, 1 }, /* 110; the first second still counts */
        { 10 * S, 0, 1 },     /* now it does not: 100 allow 11, of which 10 are spent */
        { 14 * S, 0, 0 },     /* the window slides by whole slots */
        { 15 * S, 0, 0 },     /* 1 first attempt is left, 2 repeats */
        { 20 * S, 0, 1 },     /* nothing is left but the min */
        { 1000 * S, 1000, 101 },
        { 999 * S, 10, 1 }, /* a clock that goes back loses nothing */
        { 990 * S, 10, 1 }, /* not even where a later second has the slot */
        { INT64_MAX, 20, 3 },
        { INT64_MAX, 0, 0 },
    };
    struct prazo_budget_shard shard = { 0 };
    struct prazo_budget budget;
    prazo_budget_init(&budget, &tenth, &shard, 1);
    for (size_t i = 0; i < COUNT(rows); i++) {
        count_first(&budget, 0, rows[i].at_us, rows[i].first);
        uint64_t available = prazo_budget_available(&budget, rows[i].at_us);
        int granted = charge_all(&budget, rows[i].at_us);
        if (granted != rows[i].granted || available != (uint64_t)granted)
            fail_msg("row %zu: %d granted, %llu available", i, granted,
                     (unsigned long long)available);
    }
}

static void time_before_the_start_is_the_start(void **state)
{
    (void)state;
    struct prazo_budget_shard shard = { 0 };
    struct prazo_budget budget;
    prazo_budget_init(&budget, &tenth, &shard, 1);
    count_first(&budget, 0, INT64_MIN, 10);
    assert_int_equal(prazo_budget_available(&budget, -1), 2);
    assert_int_equal(charge_all(&budget, 0), 2);
}

static void policies_at_their_edges(void **state)
{
    (void)state;
    static const struct {
        struct prazo_budget_policy policy;
        int first;
        uint64_t available;
    } rows[] = {
        { { 0, 0, 10 * S }, 1000, 0 },
        { { 0, 3, 10 * S }, 1000, 3 },
        { { 1000, 0, 10 * S }, 1000, 1000 },
        { { 1, 0, 10 * S }, 999, 0 },
        { { 1, 0, 10 * S }, 1000, 1 },
        { { 333, 0, 10 * S }, 1999, 665 }, /* floor(665.667) */
        { { 100, UINT32_MAX, 10 * S }, 10, (uint64_t)UINT32_MAX + 1 },
        { { 100, 1, 0 }, 10, 2 }, /* a window of less than ten slots of 1 µs is that */
        { { 100, 1, 9 }, 10, 2 },
        { { 100, 1, INT64_MAX }, 10, 2 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_budget_shard shard = { 0 };
        struct prazo_budget budget;
        prazo_budget_init(&budget, &rows[i].policy, &shard, 1);
        count_first(&budget, 0, 7 * S, rows[i].first);
        uint64_t available = prazo_budget_available(&budget, 7 * S);
        if (available != rows[i].available)
            fail_msg("row %zu: %llu", i, (unsigned long long)available);
    }
}

/* C032: what a quiet day did not use is not saved for the outage after it. */
static void nothing_is_saved_for_an_outage(void **state)
{
    (void)state;
    enum { CALLS = 1000000, DAY_S = 86400, RATE = 12 };
    struct prazo_budget_shard shard = { 0 };
    struct prazo_budget budget;
    prazo_budget_init(&budget, &tenth, &shard, 1);
    for (int64_t i = 0; i < CALLS; i++) {
        int64_t now_us = i * DAY_S * S / CALLS;
        prazo_budget_count_first(&budget, 0, now_us);
        /* 11.57 a second: at most 12 + 1 for each 10 s. */
        assert_true(prazo_budget_available(&budget, now_us) <= 13);
    }
    /* Then every call fails, for ten minutes. */
    int first = 0, repeats = 0;
    for (int64_t i = 0; i < 600 * RATE; i++) {
        int64_t now_us = DAY_S * S + i * S / RATE;
        prazo_budget_count_first(&budget, 0, now_us);
        first++;
        repeats += prazo_budget_charge(&budget, 0, now_us);
        /* A tenth, the burst of the window before, and one for each window begun. */
        assert_true(repeats <= first / 10 + 13 + 1 + (int)(i / RATE / 9));
    }
    assert_true(repeats >= first / 10);
}

/* C017: the client left during the wait. */
static void refunds_go_where_the_charge_was(void **state)
{
    (void)state;
    struct prazo_budget_shard shard = { 0 };
    struct prazo_budget budget;
    prazo_budget_init(&budget, &tenth, &shard, 1);
    assert_true(prazo_budget_charge(&budget, 0, 3 * S));
    assert_false(prazo_budget_charge(&budget, 0, 3 * S));
    prazo_budget_refund(&budget, 0, 3 * S);
    assert_true(prazo_budget_charge(&budget, 0, 9 * S));
    assert_int_equal(prazo_budget_available(&budget, 9 * S), 0);

    /* Its slot has been taken over: the repeat of 9 s stays charged. */
    count_first(&budget, 0, 13 * S, 10);
    prazo_budget_refund(&budget, 0, 3 * S);
    assert_int_equal(prazo_budget_available(&budget, 13 * S), 1);
    prazo_budget_refund(&budget, 0, 9 * S + 999999);
    assert_int_equal(prazo_budget_available(&budget, 13 * S), 2);
}

static void shards_are_summed(void **state)
{
    (void)state;
    struct prazo_budget_shard shards[3] = { 0 };
    struct prazo_budget budget;
    prazo_budget_init(&budget, &tenth, shards, 3);
    count_first(&budget, 0, 1 * S, 4);
    count_first(&budget, 1, 2 * S, 3);
    count_first(&budget, 2, 3 * S, 3);
    assert_int_equal(prazo_budget_available(&budget, 3 * S), 2);
    assert_true(prazo_budget_charge(&budget, 1, 3 * S));
    assert_true(prazo_budget_charge(&budget, 2, 3 * S));
    assert_false(prazo_budget_charge(&budget, 0, 3 * S));
    prazo_budget_refund(&budget, 2, 3 * S);
    assert_true(prazo_budget_charge(&budget, 0, 3 * S));
    /* A loop whose clock is a slot behind sees the same. */
    assert_int_equal(prazo_budget_available(&budget, 2 * S), 0);
}

static uint64_t seed_of_this_run(void)
{
    const char *text = getenv("PRAZO_SEED");
    struct prazo_prng prng;
    prazo_prng_seed_random(&prng);
    uint64_t seed = text ? strtoull(text, NULL, 10) : prazo_prng_next(&prng);
    print_message("PRAZO_SEED=%" PRIu64 "\n", seed);
    return seed;
}

/* Remembers every event. */
static void agrees_with_a_naive_twin(void **state)
{
    (void)state;
    enum { EVENTS = 4000, SHARDS = 3 };
    static struct {
        int64_t slot;
        uint64_t first, repeats;
    } events[EVENTS];
    struct prazo_budget_shard shards[SHARDS] = { 0 };
    struct prazo_budget budget;
    struct prazo_prng prng;
    const struct prazo_budget_policy policy = { 250, 2, 10 * S };
    prazo_prng_seed(&prng, seed_of_this_run());
    prazo_budget_init(&budget, &policy, shards, SHARDS);
    int64_t now_us = 0;
    int granted = 0;
    for (int n = 0; n < EVENTS; n++) {
        /* Now and then a pause in which part or all of the window passes. */
        now_us += (int64_t)prazo_prng_below(
            &prng, prazo_prng_below(&prng, 100) == 0 ? (uint64_t)(15 * S) : (uint64_t)(S / 5));
        uint32_t shard = (uint32_t)prazo_prng_below(&prng, SHARDS);
        uint64_t first = 0, repeats = 0;
        for (int i = 0; i < n; i++) {
            if (events[i].slot > now_us / S - PRAZO_BUDGET_SLOTS) {
                first += events[i].first;
                repeats += events[i].repeats;
            }
        }
        events[n].slot = now_us / S;
        if (prazo_prng_below(&prng, 2)) {
            prazo_budget_count_first(&budget, shard, now_us);
            events[n].first = 1;
            continue;
        }
        bool is_granted = prazo_budget_charge(&budget, shard, now_us);
        assert_int_equal(is_granted, repeats + 1 <= first / 4 + 2);
        granted += is_granted;
        if (is_granted && prazo_prng_below(&prng, 8) == 0)
            prazo_budget_refund(&budget, shard, now_us);
        else
            events[n].repeats = is_granted;
    }
    assert_true(granted > 100);
}

enum { THREADS = 4, ROUNDS = 300 };

static struct prazo_budget shared;
static struct prazo_budget_shard shared_shards[THREADS];
static pthread_barrier_t barrier;
static uint64_t grants[THREADS];

/* All decide at the same moment, again and again, in a window of their own each round. */
static void *rush(void *arg)
{
    uint32_t shard = *(const uint32_t *)arg;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t now_us = (20 + round * INT64_C(20)) * S;
        for (int i = 0; i < 25; i++)
            prazo_budget_count_first(&shared, shard, now_us);
        pthread_barrier_wait(&barrier);
        grants[shard] = 0;
        while (prazo_budget_charge(&shared, shard, now_us))
            grants[shard]++;
        pthread_barrier_wait(&barrier);
        uint64_t sum = 0;
        for (int i = 0; i < THREADS; i++)
            sum += grants[i];
        /* 100 first attempts allow 11; each of the others may be deciding once meanwhile. */
        PRAZO_ASSERT(sum >= 11 && sum <= 11 + THREADS - 1);
        PRAZO_ASSERT(prazo_budget_available(&shared, now_us) == 0);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

enum { SECONDS = 400, PER_SECOND = 50 };

/* Clocks that differ by up to two slots, slots that are taken over while others read them. */
static void *roam(void *arg)
{
    uint32_t shard = *(const uint32_t *)arg;
    struct prazo_prng prng;
    prazo_prng_seed(&prng, shard);
    grants[shard] = 0;
    for (int64_t i = 0; i < SECONDS * PER_SECOND; i++) {
        if (i % PER_SECOND == 0)
            pthread_barrier_wait(&barrier);
        int64_t now_us = i * S / PER_SECOND + (int64_t)prazo_prng_below(&prng, 2 * S);
        prazo_budget_count_first(&shared, shard, now_us);
        if (!prazo_budget_charge(&shared, shard, now_us))
            continue;
        if (prazo_prng_below(&prng, 4) == 0)
            prazo_budget_refund(&shared, shard, now_us);
        else
            grants[shard]++;
    }
    return NULL;
}

static void run_threads(void *(*run)(void *))
{
    static uint32_t indexes[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        shared_shards[i] = (struct prazo_budget_shard){ 0 };
    prazo_budget_init(&shared, &tenth, shared_shards, THREADS);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        indexes[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run, &indexes[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    pthread_barrier_destroy(&barrier);
}

static void threads_grant_at_most_one_each_too_many(void **state)
{
    (void)state;
    run_threads(rush);
}

static void threads_whose_clocks_differ_keep_the_ratio(void **state)
{
    (void)state;
    enum { FIRST_PER_SECOND = THREADS * PER_SECOND };
    run_threads(roam);
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += grants[i];
    /* Each window of nine whole slots got at most a tenth of what the slowest and the fastest clock
     * saw, 13 slots, the min, and what may be granted too many. */
    const uint64_t windows = (SECONDS + 2) / 9 + 1;
    assert_in_range(sum, 1, windows * (13 * FIRST_PER_SECOND / 10 + 1 + THREADS - 1));
    /* And not far less than a tenth, or nobody would get the repeats that are meant to be. */
    assert_true(sum > SECONDS * FIRST_PER_SECOND / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_ratio_and_min_of_the_window),
        cmocka_unit_test(time_before_the_start_is_the_start),
        cmocka_unit_test(policies_at_their_edges),
        cmocka_unit_test(nothing_is_saved_for_an_outage),
        cmocka_unit_test(refunds_go_where_the_charge_was),
        cmocka_unit_test(shards_are_summed),
        cmocka_unit_test(agrees_with_a_naive_twin),
        cmocka_unit_test(threads_grant_at_most_one_each_too_many),
        cmocka_unit_test(threads_whose_clocks_differ_keep_the_ratio),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
