/* SPDX-License-Identifier: MIT */
/* Admission event by event: debt of fast failures, faults once found, and random events of which
 * each must leave the invariants. Prints its seed; PRAZO_SEED=n runs one again. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "core/admit.h"

enum { MS = 1000, SECOND = 1000 * MS, LIVE_MAX = 4096, STEPS = 60000 };

/* A naive twin of what is under way. */
struct bed {
    struct prazo_admit m;
    struct prazo_admit_tag live[LIVE_MAX];
    bool held[LIVE_MAX];
    int count, probes;
    int64_t now_us;
};

static void check(const struct bed *bed)
{
    const struct prazo_limiter_auto *l = &bed->m.limiter;
    int64_t open_at_us = 0, orphans = 0;
    for (int i = 0; i < bed->count; i++) {
        orphans += bed->held[i];
        open_at_us += bed->held[i] ? 0 : bed->live[i].at_us;
    }
    assert_int_equal(l->in_flight, bed->count);
    assert_int_equal(l->orphans, orphans);
    assert_int_equal(l->open_at_us, open_at_us);
    assert_true(l->a.open >= 0 && l->a.open <= l->a.sent);
    assert_true(l->b.open >= 0 && l->b.open <= l->b.sent);
    assert_true(l->lim >= 4 * 256 && bed->m.debt >= 0);
    int64_t force = prazo_limiter_auto_in_force(l), limit = prazo_limiter_auto_limit(l);
    assert_true(force <= (limit > l->level ? limit : l->level));
}

static void send(struct bed *bed, int64_t left_us, bool is_probe)
{
    struct prazo_admit_tag *tag = &bed->live[bed->count];
    assert_true(bed->count < LIVE_MAX);
    bed->held[bed->count++] = false;
    *tag = (struct prazo_admit_tag){ .left_us = left_us };
    prazo_admit_sent(&bed->m, bed->now_us, is_probe, 0, tag);
    bed->probes += is_probe;
    check(bed);
}

static enum prazo_admit_verdict arrive(struct bed *bed, int64_t left_us)
{
    struct prazo_admit_arrival arrival = { .left_us = left_us, .budget_us = left_us };
    enum prazo_admit_verdict v = prazo_admit_arrive(&bed->m, bed->now_us, &arrival, 0);
    if (v == PRAZO_ADMIT_SEND || v == PRAZO_ADMIT_PROBE)
        send(bed, left_us, v == PRAZO_ADMIT_PROBE);
    return v;
}

static bool end(struct bed *bed, int i, enum prazo_admit_end kind)
{
    struct prazo_admit_tag tag = bed->live[i];
    if (kind == PRAZO_END_CUT_HELD) {
        bed->held[i] = true;
    } else {
        bed->count--;
        bed->live[i] = bed->live[bed->count];
        bed->held[i] = bed->held[bed->count];
    }
    bool closed = prazo_admit_ended(&bed->m, bed->now_us, kind, 0, &tag);
    check(bed);
    return closed;
}

static void init(struct bed *bed)
{
    memset(bed, 0, sizeof *bed);
    prazo_admit_init(&bed->m, 0);
}

/* n answers of 100 ms, one after the other. */
static void warm_up(struct bed *bed, int n)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(arrive(bed, 850 * MS), PRAZO_ADMIT_SEND);
        bed->now_us += 100 * MS;
        assert_false(end(bed, 0, PRAZO_END_OK));
    }
}

/* The upstream stalls: all that is sent from now on is cut off after 850 ms. */
static void stall(struct bed *bed)
{
    const int before = bed->count;
    while (bed->m.gate.state != PRAZO_GATE_CLOSED) {
        for (int i = 0; i < 8; i++)
            send(bed, 850 * MS, false);
        bed->now_us += 850 * MS;
        while (bed->count > before)
            end(bed, bed->count - 1, PRAZO_END_CUT);
        assert_true(bed->now_us < 60 * SECOND);
    }
}

static void test_debt_decays_with_the_time_of_a_success(void **state)
{
    static const struct {
        int64_t at_ok_hold;
        int64_t debt;
    } rows[] = { { 0, 16 }, { 1, 5 }, { 2, 2 }, { 4, 0 } };
    static struct bed bed;
    (void)state;
    init(&bed);
    warm_up(&bed, 20);
    for (int i = 0; i < 16; i++)
        send(&bed, 850 * MS, false);
    while (bed.count > 0)
        end(&bed, 0, PRAZO_END_BUSY);
    int64_t from_us = bed.now_us;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(
            prazo_admit_debt(&bed.m, from_us + rows[i].at_ok_hold * bed.m.limiter.ok_hold_us),
            rows[i].debt);
}

static void test_late_success_from_before_does_not_reopen(void **state)
{
    static struct bed bed;
    (void)state;
    init(&bed);
    warm_up(&bed, 20);
    send(&bed, 60 * SECOND, false);
    stall(&bed);
    end(&bed, 0, PRAZO_END_OK);
    assert_int_equal(bed.m.gate.state, PRAZO_GATE_CLOSED);
}

static void test_one_probe_ends_a_long_outage(void **state)
{
    static struct bed bed;
    (void)state;
    init(&bed);
    warm_up(&bed, 20);
    stall(&bed);
    assert_int_equal(arrive(&bed, 850 * MS), PRAZO_ADMIT_LIMIT);
    bed.now_us += 600 * SECOND;
    assert_int_equal(arrive(&bed, 850 * MS), PRAZO_ADMIT_PROBE);
    bed.now_us += 3 * SECOND;
    end(&bed, 0, PRAZO_END_OK);
    assert_int_equal(bed.m.gate.state, PRAZO_GATE_RAMP);
    assert_int_equal(bed.probes, 1);
    assert_int_equal(arrive(&bed, 60 * SECOND), PRAZO_ADMIT_SEND);
}

static void test_tiny_budgets_do_not_close_a_cold_gate(void **state)
{
    static struct bed bed;
    (void)state;
    init(&bed);
    for (int i = 0; i < 200; i++, bed.now_us += 100 * MS) {
        /* 15 with 10 ms left, which are cut off, and one that is answered. */
        arrive(&bed, 850 * MS);
        for (int k = 0; k < 15; k++) {
            arrive(&bed, 10 * MS);
            bed.now_us += 10 * MS;
            if (bed.count > 1)
                assert_false(end(&bed, 1, PRAZO_END_CUT));
        }
        if (bed.count > 0)
            end(&bed, 0, PRAZO_END_OK);
        assert_int_equal(bed.m.gate.state, PRAZO_GATE_OPEN);
    }
}

static void random_step(struct bed *bed, struct prazo_prng *prng)
{
    static const enum prazo_admit_end kinds[] = {
        PRAZO_END_OK,    PRAZO_END_OK,   PRAZO_END_OK,       PRAZO_END_OK,
        PRAZO_END_ERROR, PRAZO_END_BUSY, PRAZO_END_NOCONN,   PRAZO_END_LATE,
        PRAZO_END_SHED,  PRAZO_END_CUT,  PRAZO_END_CUT_HELD,
    };
    bool bad = bed->now_us / SECOND % 8 == 7; /* every eighth second nothing succeeds */
    bed->now_us += (int64_t)prazo_prng_below(prng, 4 * MS);
    if (prazo_prng_below(prng, 2) == 0 || bed->count == 0) {
        bool closed = bed->m.gate.state == PRAZO_GATE_CLOSED;
        enum prazo_admit_verdict v = arrive(bed, (int64_t)prazo_prng_below(prng, SECOND));
        assert_false(closed && (v == PRAZO_ADMIT_SEND || v == PRAZO_ADMIT_QUEUE));
        return;
    }
    int i = (int)prazo_prng_below(prng, (uint64_t)bed->count);
    enum prazo_admit_end kind = kinds[prazo_prng_below(prng, sizeof kinds / sizeof *kinds)];
    if (bed->held[i])
        kind = PRAZO_END_FREED;
    else if (bad && (kind == PRAZO_END_OK || kind == PRAZO_END_ERROR))
        kind = PRAZO_END_NOCONN;
    end(bed, i, kind);
}

static void test_every_event_keeps_the_invariants(void **state)
{
    static struct bed bed;
    const char *given = getenv("PRAZO_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    struct prazo_prng prng;
    int closings = 0;
    (void)state;
    print_message("PRAZO_SEED=%" PRIu64 "\n", seed);
    prazo_prng_seed(&prng, seed);
    init(&bed);
    for (int i = 0; i < STEPS; i++) {
        bool was_open = bed.m.gate.state == PRAZO_GATE_OPEN;
        random_step(&bed, &prng);
        closings += was_open && bed.m.gate.state == PRAZO_GATE_CLOSED;
    }
    assert_true(closings > 0);
    assert_true(bed.probes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_debt_decays_with_the_time_of_a_success),
        cmocka_unit_test(test_late_success_from_before_does_not_reopen),
        cmocka_unit_test(test_one_probe_ends_a_long_outage),
        cmocka_unit_test(test_tiny_budgets_do_not_close_a_cold_gate),
        cmocka_unit_test(test_every_event_keeps_the_invariants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
