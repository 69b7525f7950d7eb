/* SPDX-License-Identifier: MIT */
/* The service station: order, counts, what a leaving caller ends, and a random run against a naive
 * twin that keeps one array of jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "lab/station.h"

static void first_come_first_served(void **state)
{
    (void)state;
    struct prazo_station s;
    struct prazo_job jobs[4] = { 0 };
    prazo_station_init(&s, 2, false);
    assert_null(prazo_station_next(&s));
    for (int i = 0; i < 4; i++)
        prazo_station_arrive(&s, &jobs[i]);
    assert_ptr_equal(prazo_station_next(&s), &jobs[0]);
    assert_ptr_equal(prazo_station_next(&s), &jobs[1]);
    assert_null(prazo_station_next(&s));
    assert_int_equal(s.busy, 2);
    assert_int_equal(s.queued, 2);

    assert_true(prazo_station_end(&s, &jobs[1], 10));
    assert_ptr_equal(prazo_station_next(&s), &jobs[2]);
    assert_null(prazo_station_next(&s));
    assert_int_equal(s.done, 1);
    assert_int_equal(s.busy_max, 2);
}

static void a_leaving_caller_cancels(void **state)
{
    (void)state;
    struct prazo_station s;
    struct prazo_job jobs[3] = { 0 };
    prazo_station_init(&s, 1, false);
    for (int i = 0; i < 3; i++)
        prazo_station_arrive(&s, &jobs[i]);
    assert_ptr_equal(prazo_station_next(&s), &jobs[0]);

    assert_true(prazo_station_leave(&s, &jobs[1], 5)); /* from the queue */
    assert_int_equal(s.queued, 1);
    assert_true(prazo_station_leave(&s, &jobs[0], 6)); /* from a worker, which is free now */
    assert_ptr_equal(prazo_station_next(&s), &jobs[2]);
    assert_int_equal(s.cancelled, 2);
    assert_int_equal(s.orphan, 0);
    assert_int_equal(s.busy_max, 1);
}

static void ignored_hang_ups_make_orphans(void **state)
{
    (void)state;
    struct prazo_station s;
    struct prazo_job jobs[2] = { 0 };
    prazo_station_init(&s, 1, true);
    prazo_station_arrive(&s, &jobs[0]);
    prazo_station_arrive(&s, &jobs[1]);
    assert_ptr_equal(prazo_station_next(&s), &jobs[0]);
    assert_false(prazo_station_leave(&s, &jobs[0], 100));
    assert_false(prazo_station_leave(&s, &jobs[1], 200)); /* waits, and will be worked on */
    assert_int_equal(s.abandoned, 2);
    assert_false(prazo_station_end(&s, &jobs[0], 1100));
    assert_int_equal(s.abandoned, 1);
    assert_ptr_equal(prazo_station_next(&s), &jobs[1]);
    assert_false(prazo_station_end(&s, &jobs[1], 2200));
    assert_int_equal(s.orphan, 2);
    assert_int_equal(s.orphan_us, 1000 + 2000);
    assert_int_equal(s.done, 0);
    assert_int_equal(s.cancelled, 0);
}

static void settings_change_while_it_runs(void **state)
{
    (void)state;
    struct prazo_station s;
    struct prazo_job jobs[4] = { 0 };
    prazo_station_init(&s, 3, true);
    for (int i = 0; i < 4; i++)
        prazo_station_arrive(&s, &jobs[i]);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(prazo_station_next(&s), &jobs[i]);

    s.workers = 1; /* three are under way: the next begins when all of them have ended */
    for (int i = 0; i < 3; i++) {
        assert_null(prazo_station_next(&s));
        assert_true(prazo_station_end(&s, &jobs[i], 1));
    }
    assert_false(prazo_station_leave(&s, &jobs[3], 1)); /* an orphan from now on … */
    s.ignores_cancel = false;
    assert_ptr_equal(prazo_station_next(&s), &jobs[3]); /* … and stays one */
    assert_false(prazo_station_end(&s, &jobs[3], 2));
    assert_int_equal(s.orphan, 1);
}

/* ---- against a naive twin ---- */

#define MODEL_JOBS 64
#define MODEL_STEPS 20000

struct twin_job {
    enum prazo_job_state state;
    uint64_t order; /* of arrival */
    bool has_caller;
};

struct model {
    struct prazo_station station;
    struct prazo_job jobs[MODEL_JOBS];
    struct twin_job twins[MODEL_JOBS];
    uint64_t arrivals;
};

static unsigned count_twins(const struct model *m, enum prazo_job_state state)
{
    unsigned count = 0;
    for (int i = 0; i < MODEL_JOBS; i++)
        count += m->twins[i].state == state;
    return count;
}

/* Starts what can start, and checks that it is always the oldest that waits. */
static void start_all(struct model *m)
{
    for (;;) {
        int oldest = -1;
        for (int i = 0; i < MODEL_JOBS; i++) {
            if (m->twins[i].state == PRAZO_JOB_QUEUED &&
                (oldest < 0 || m->twins[i].order < m->twins[oldest].order))
                oldest = i;
        }
        struct prazo_job *job = prazo_station_next(&m->station);
        if (oldest < 0 || count_twins(m, PRAZO_JOB_BUSY) >= m->station.workers) {
            assert_null(job);
            return;
        }
        assert_ptr_equal(job, &m->jobs[oldest]);
        m->twins[oldest].state = PRAZO_JOB_BUSY;
    }
}

static void step(struct model *m, struct prazo_prng *prng, int64_t now_us)
{
    uint64_t i = prazo_prng_below(prng, MODEL_JOBS);
    struct twin_job *twin = &m->twins[i];
    switch (twin->state) {
    case PRAZO_JOB_NEW:
    case PRAZO_JOB_OVER:
        m->jobs[i] = (struct prazo_job){ 0 };
        *twin = (struct twin_job){ PRAZO_JOB_QUEUED, m->arrivals++, true };
        prazo_station_arrive(&m->station, &m->jobs[i]);
        break;
    case PRAZO_JOB_BUSY:
        if (prazo_prng_below(prng, 2)) {
            assert_int_equal(prazo_station_end(&m->station, &m->jobs[i], now_us), twin->has_caller);
            twin->state = PRAZO_JOB_OVER;
            break;
        }
        /* fall through */
    case PRAZO_JOB_QUEUED:
        if (!twin->has_caller)
            break;
        twin->has_caller = false;
        if (prazo_station_leave(&m->station, &m->jobs[i], now_us))
            twin->state = PRAZO_JOB_OVER;
        assert_int_equal(twin->state == PRAZO_JOB_OVER, !m->station.ignores_cancel);
        break;
    case PRAZO_JOB_STATE_COUNT:
        fail();
    }
}

static void random_runs_match_the_twin(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        static struct model m;
        struct prazo_prng prng;
        print_message("seed %llu\n", (unsigned long long)seed);
        m = (struct model){ 0 };
        prazo_prng_seed(&prng, seed);
        prazo_station_init(&m.station, 1 + (unsigned)prazo_prng_below(&prng, 8), false);
        for (int64_t now_us = 0; now_us < MODEL_STEPS; now_us++) {
            const struct prazo_station *s = &m.station;
            if (prazo_prng_below(&prng, 200) == 0)
                m.station.workers = 1 + (unsigned)prazo_prng_below(&prng, 16);
            if (prazo_prng_below(&prng, 200) == 0)
                m.station.ignores_cancel = !m.station.ignores_cancel;
            step(&m, &prng, now_us);
            start_all(&m);
            assert_int_equal(s->busy, count_twins(&m, PRAZO_JOB_BUSY));
            assert_int_equal(s->queued, count_twins(&m, PRAZO_JOB_QUEUED));
            assert_int_equal(s->arrived, s->done + s->orphan + s->cancelled + s->busy + s->queued);
            assert_true(s->busy_max >= s->busy);
        }
        assert_true(m.station.orphan_us > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_come_first_served),
        cmocka_unit_test(a_leaving_caller_cancels),
        cmocka_unit_test(ignored_hang_ups_make_orphans),
        cmocka_unit_test(settings_change_while_it_runs),
        cmocka_unit_test(random_runs_match_the_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
