/* SPDX-License-Identifier: MIT */
/* Random operations on the timer heap against a naive twin: an array that is searched for the
 * earliest. Callbacks link, move and unlink at random as well. Prints its seed; PRAZO_SEED=n runs
 * one again. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "base/timers.h"

enum { TIMERS = 300, STEPS = 20000, CALLBACK_MOVES_MAX = 3 };

/* The twin: where a timer is, as plain as it can be said. */
struct twin {
    bool is_linked;
    bool is_new; /* linked since the running expire began: not for this one */
    int64_t at_us;
};

static struct prazo_timers timers;
static struct prazo_timer real[TIMERS];
static struct twin twin[TIMERS];
static struct prazo_prng prng;
static bool is_expiring;
static size_t ran_count;

static int64_t random_instant(int64_t now_us)
{
    switch (prazo_prng_below(&prng, 12)) {
    case 0:
        return PRAZO_NEVER;
    case 1:
        return now_us;
    case 2:
        return INT64_MIN;
    case 3:
        return PRAZO_NEVER - 1;
    default:
        /* Few different values, so that many are equal. */
        return now_us - 20 + (int64_t)prazo_prng_below(&prng, 200);
    }
}

static void random_move(int64_t now_us)
{
    size_t i = (size_t)prazo_prng_below(&prng, TIMERS);
    bool is_unlink = prazo_prng_below(&prng, 3) == 0;
    int64_t at_us = is_unlink ? PRAZO_NEVER : random_instant(now_us);

    if (is_unlink)
        prazo_timers_unlink(&timers, &real[i]);
    else
        prazo_timers_link_at(&timers, &real[i], at_us);
    twin[i] = (struct twin){ at_us != PRAZO_NEVER, is_expiring, at_us };
}

static int64_t twin_wake_at(void)
{
    int64_t at_us = PRAZO_NEVER;

    for (size_t i = 0; i < TIMERS; i++) {
        if (twin[i].is_linked && twin[i].at_us < at_us)
            at_us = twin[i].at_us;
    }
    return at_us;
}

/* The earliest instant that the running expire still has to run. */
static int64_t twin_due_at(int64_t now_us)
{
    int64_t at_us = PRAZO_NEVER;

    for (size_t i = 0; i < TIMERS; i++) {
        if (twin[i].is_linked && !twin[i].is_new && twin[i].at_us <= now_us &&
            twin[i].at_us < at_us)
            at_us = twin[i].at_us;
    }
    return at_us;
}

static void on_timer(struct prazo_timer *timer, int64_t now_us)
{
    size_t i = (size_t)(timer - real);

    assert_true(twin[i].is_linked && !twin[i].is_new);
    assert_true(twin[i].at_us == twin_due_at(now_us));
    twin[i].is_linked = false;
    ran_count++;
    for (uint64_t moves = prazo_prng_below(&prng, CALLBACK_MOVES_MAX + 1); moves > 0; moves--)
        random_move(now_us);
    assert_true(prazo_timers_wake_at(&timers) == twin_wake_at());
}

static void expire(int64_t now_us)
{
    size_t said;

    is_expiring = true;
    ran_count = 0;
    said = prazo_timers_expire(&timers, now_us);
    assert_int_equal(said, ran_count);
    is_expiring = false;
    assert_true(twin_due_at(now_us) == PRAZO_NEVER);
    for (size_t i = 0; i < TIMERS; i++)
        twin[i].is_new = false;
}

static void assert_same(void)
{
    size_t linked = 0;

    for (size_t i = 0; i < TIMERS; i++) {
        assert_int_equal(prazo_timer_is_linked(&real[i]), twin[i].is_linked);
        if (twin[i].is_linked)
            assert_true(real[i].at_us == twin[i].at_us);
        linked += twin[i].is_linked;
    }
    assert_int_equal(timers.count, linked);
    assert_true(prazo_timers_wake_at(&timers) == twin_wake_at());
}

static uint64_t choose_seed(void)
{
    const char *given = getenv("PRAZO_SEED");
    struct prazo_prng source;

    if (given)
        return strtoull(given, NULL, 10);
    prazo_prng_seed_random(&source);
    return prazo_prng_next(&source);
}

static void test_heap_agrees_with_twin(void **state)
{
    uint64_t seed = choose_seed();
    int64_t now_us = 0;

    (void)state;
    print_message("timers_model_test: run again with PRAZO_SEED=%" PRIu64 "\n", seed);
    prazo_prng_seed(&prng, seed);
    prazo_timers_init(&timers);
    for (size_t i = 0; i < TIMERS; i++)
        real[i].cb = on_timer;
    for (int step = 0; step < STEPS; step++) {
        if (prazo_prng_below(&prng, 8) > 0) {
            random_move(now_us);
        } else {
            now_us += (int64_t)prazo_prng_below(&prng, 40) - 4; /* at times it goes back */
            expire(now_us);
        }
        if (step % 16 == 0)
            assert_same();
    }
    expire(PRAZO_NEVER);
    assert_same();
    prazo_timers_done(&timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_heap_agrees_with_twin) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
