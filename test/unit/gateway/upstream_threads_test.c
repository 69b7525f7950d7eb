/* SPDX-License-Identifier: MIT */
/* The bound on connections under threads: jobs on four loops take connections, keep them idle or
 * close them, wait, and leave the queue, as workers and calls do. There are never more connections
 * than the bound, and every job comes to its end: nobody waits for ever. Prints its seed;
 * PRAZO_SEED=n runs one again (the order of the threads stays the machine's). */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/assert.h"
#include "gateway/upstream.h"

enum { HOUSES = 4, JOBS = 8, ROUNDS = 1000, GUARD_US = 100000000 };

struct house;

struct job {
    struct prazo_waiter waiter;
    struct prazo_post post; /* its next step, one at a time */
    struct prazo_post leave_post;
    struct house *house;
    int rounds;
    bool is_waiting;
    bool is_leave_posted;
    bool is_leaving; /* wanted to leave, but the grant was on its way */
};

/* One thread: its loop and its idle connections. */
struct house {
    struct prazo_loop *loop;
    pthread_t thread;
    struct prazo_timer guard;
    struct prazo_prng prng;
    struct job jobs[JOBS];
    int idle;
    int waits, leaves, late_leaves; /* so that the test can tell that all of it has happened */
};

static struct prazo_upstream *upstream;
static struct house houses[HOUSES];
static int64_t bound;
static int64_t open_count; /* atomic */
static int64_t jobs_left;  /* atomic */

static void start(struct job *job, bool was_granted);

static void step(struct job *job, prazo_loop_cb cb)
{
    prazo_loop_post_in(job->house->loop, &job->post, cb, job);
}

static bool chance(struct house *house, uint64_t one_in)
{
    return prazo_prng_below(&house->prng, one_in) == 0;
}

/* ---- connections ---- */

static bool open_one(void)
{
    if (!prazo_upstream_slot_take(upstream))
        return false;
    PRAZO_ASSERT(__atomic_add_fetch(&open_count, 1, __ATOMIC_SEQ_CST) <= bound);
    return true;
}

static void close_one(void)
{
    __atomic_fetch_sub(&open_count, 1, __ATOMIC_SEQ_CST);
    prazo_upstream_slot_free(upstream);
}

static void give_up_idle(void *arg)
{
    struct house *house = arg;

    if (house->idle > 0) {
        house->idle--;
        close_one();
    }
}

static void keep_idle(struct house *house)
{
    house->idle++;
    if (prazo_upstream_has_waiters(upstream) && !prazo_upstream_offer_idle(upstream, house->loop))
        give_up_idle(house);
}

/* ---- jobs ---- */

static void stop(void *arg)
{
    prazo_loop_stop(arg);
}

static void next_round(void *arg)
{
    struct job *job = arg;

    if (++job->rounds < ROUNDS) {
        start(job, false);
        return;
    }
    if (__atomic_sub_fetch(&jobs_left, 1, __ATOMIC_SEQ_CST) > 0)
        return;
    for (size_t i = 0; i < HOUSES; i++)
        PRAZO_ASSERT(prazo_loop_post(houses[i].loop, stop, houses[i].loop) == PRAZO_OK);
}

static void release(void *arg)
{
    struct job *job = arg;

    if (chance(job->house, 3))
        close_one();
    else
        keep_idle(job->house);
    step(job, next_round);
}

static void on_grant(void *arg)
{
    struct job *job = arg;

    prazo_upstream_arrived(upstream);
    job->is_waiting = false;
    if (job->is_leaving) {
        job->is_leaving = false;
        prazo_upstream_wake_next(upstream);
        step(job, next_round);
        return;
    }
    start(job, true);
    prazo_upstream_pass_on(upstream);
}

/* Comes a little after the wait began: before or after a grant, as it happens. */
static void leave(void *arg)
{
    struct job *job = arg;

    job->is_leave_posted = false;
    if (!job->is_waiting)
        return;
    if (prazo_upstream_leave(upstream, &job->waiter)) {
        job->is_waiting = false;
        job->house->leaves++;
        step(job, next_round);
    } else {
        job->is_leaving = true;
        job->house->late_leaves++;
    }
}

static void wait_in_queue(struct job *job)
{
    struct house *house = job->house;

    house->waits++;
    job->is_waiting = true;
    job->waiter = (struct prazo_waiter){ .loop = house->loop, .on_grant = on_grant, .arg = job };
    PRAZO_ASSERT(
        prazo_upstream_wait(upstream, &job->waiter, (int64_t)prazo_prng_below(&house->prng, 100)));
    for (size_t i = 0; i < HOUSES; i++) {
        if (&houses[i] != house)
            PRAZO_ASSERT(prazo_loop_post(houses[i].loop, give_up_idle, &houses[i]) == PRAZO_OK);
    }
    if (!job->is_leave_posted && chance(house, 3)) {
        job->is_leave_posted = true;
        prazo_loop_post_in(house->loop, &job->leave_post, leave, job);
    }
}

static void start(struct job *job, bool was_granted)
{
    struct house *house = job->house;

    if (!was_granted && prazo_upstream_has_waiters(upstream)) {
        wait_in_queue(job);
    } else if (house->idle > 0) {
        house->idle--;
        step(job, release);
    } else if (open_one()) {
        step(job, release);
    } else {
        wait_in_queue(job);
    }
}

/* ---- the test ---- */

/* Not fail_msg(): that may only be called by the test's own thread. */
static void on_guard(struct prazo_timer *timer, int64_t now_us)
{
    (void)timer;
    (void)now_us;
    fprintf(stderr, "upstream_threads_test: %" PRId64 " jobs wait for ever\n",
            __atomic_load_n(&jobs_left, __ATOMIC_SEQ_CST));
    abort();
}

static void *run(void *arg)
{
    struct house *house = arg;

    prazo_loop_run(house->loop);
    return NULL;
}

static void open_house(struct house *house, uint64_t seed)
{
    *house = (struct house){ .guard = { .cb = on_guard } };
    prazo_prng_seed(&house->prng, seed);
    assert_int_equal(prazo_loop_new(&house->loop), PRAZO_OK);
    prazo_timers_link_at(prazo_loop_timers(house->loop), &house->guard,
                         prazo_loop_now_us(house->loop) + GUARD_US);
    for (size_t j = 0; j < JOBS; j++) {
        house->jobs[j].house = house;
        house->jobs[j].rounds = -1;
        step(&house->jobs[j], next_round);
    }
}

static void run_with_bound(uint64_t seed, int64_t max)
{
    int waits = 0, leaves = 0, late_leaves = 0;
    int64_t idle = 0;

    upstream = prazo_upstream_new("orders", NULL);
    assert_non_null(upstream);
    upstream->connections_max = bound = max;
    open_count = 0;
    jobs_left = HOUSES * JOBS;
    for (size_t i = 0; i < HOUSES; i++)
        open_house(&houses[i], seed + i);
    for (size_t i = 0; i < HOUSES; i++)
        assert_int_equal(pthread_create(&houses[i].thread, NULL, run, &houses[i]), 0);
    for (size_t i = 0; i < HOUSES; i++)
        assert_int_equal(pthread_join(houses[i].thread, NULL), 0);
    for (size_t i = 0; i < HOUSES; i++) {
        waits += houses[i].waits;
        leaves += houses[i].leaves;
        late_leaves += houses[i].late_leaves;
        idle += houses[i].idle;
        prazo_timers_unlink(prazo_loop_timers(houses[i].loop), &houses[i].guard);
        prazo_loop_free(houses[i].loop);
    }
    assert_int_equal(upstream->connections, idle);
    assert_int_equal(open_count, idle);
    assert_int_equal(upstream->waiting, 0);
    assert_int_equal(upstream->queue.count, 0);
    assert_true(waits > 0 && leaves > 0 && late_leaves > 0);
    prazo_upstream_free(upstream);
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

static void test_nobody_waits_for_ever(void **state)
{
    uint64_t seed = choose_seed();

    (void)state;
    print_message("upstream_threads_test: run again with PRAZO_SEED=%" PRIu64 "\n", seed);
    run_with_bound(seed, 1);
    run_with_bound(seed, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_nobody_waits_for_ever) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
