/* SPDX-License-Identifier: MIT */
/* When probes pass, with the jitter fixed, and what closes the gate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/gate.h"

enum { MS = 1000, ROOMY_US = 1000 * MS };

static void test_probe_times(void **state)
{
    static const struct {
        int64_t at_us, left_us;
        bool passes;
    } rows[] = {
        { 49 * MS, ROOMY_US, false },
        { 50 * MS, ROOMY_US, true },
        { 268 * MS, ROOMY_US, false },
        { 269 * MS, ROOMY_US, true }, /* 7/8 of 250 ms later */
        { 5000 * MS, ROOMY_US, true },
        { 5000 * MS, ROOMY_US, true }, /* a burst of 4 */
        { 5000 * MS, ROOMY_US, true },
        { 5000 * MS, ROOMY_US, true },
        { 5000 * MS, ROOMY_US, false },
        { 5126 * MS, 10 * MS, false }, /* its turn, but it cannot tell anything for the first second
                                        */
        { 6124 * MS, 10 * MS, false },
        { 6126 * MS, 10 * MS, true },
    };
    struct prazo_gate gate = { 0 };
    (void)state;
    prazo_gate_close(&gate, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(prazo_gate_probe(&gate, rows[i].at_us, rows[i].left_us, ROOMY_US, 0),
                         rows[i].passes);
}

static void test_jitter_is_an_eighth(void **state)
{
    struct prazo_gate gate = { 0 };
    (void)state;
    assert_true(prazo_gate_probe(&gate, 0, ROOMY_US, ROOMY_US, 0));
    assert_int_equal(gate.probe_at_us, 218750);
    gate.probe_at_us = 0;
    assert_true(prazo_gate_probe(&gate, 0, ROOMY_US, ROOMY_US, UINT64_MAX));
    assert_int_equal(gate.probe_at_us, 281250);
}

static void test_slow_attempts_in_a_row(void **state)
{
    struct prazo_gate gate = { 0 };
    (void)state;
    for (int i = 0; i < 19; i++)
        assert_false(prazo_gate_ended(&gate, PRAZO_GATE_SLOW, 0, 32, true));
    assert_false(prazo_gate_ended(&gate, PRAZO_GATE_SLOW, 0, 32, false)); /* it still succeeds */
    assert_true(prazo_gate_ended(&gate, PRAZO_GATE_SLOW, 0, 32, true));
    assert_false(prazo_gate_ended(&gate, PRAZO_GATE_ALIVE, 0, 32, true));
    assert_false(prazo_gate_ended(&gate, PRAZO_GATE_SLOW, 0, 32, true));
}

/* A burst whose failures come back first, and its successes later. */
static void test_mixed_burst_does_not_close(void **state)
{
    struct prazo_gate gate = { 0 };
    (void)state;
    gate.seq = 32;
    for (uint32_t i = 0; i < 19; i++)
        assert_false(prazo_gate_ended(&gate, PRAZO_GATE_BUSY, i, 32, true));
    for (uint32_t i = 19; i < 32; i++)
        assert_false(prazo_gate_ended(&gate, PRAZO_GATE_ALIVE, i, 32, false));
}

/* Only failures of what was sent since counting began count; also where the number wraps. */
static void test_nothing_but_refusals_closes(void **state)
{
    struct prazo_gate gate = { .seq = UINT32_MAX - 20 };
    bool dead = false;
    int sent = 0;
    (void)state;
    for (; !dead && sent < 100; sent++) {
        uint32_t seq = gate.seq++;
        dead = prazo_gate_ended(&gate, PRAZO_GATE_BUSY, seq, 32, true);
    }
    assert_true(dead);
    assert_int_equal(sent, 41);
}

static void test_each_turn_is_an_epoch(void **state)
{
    struct prazo_gate gate = { 0 };
    (void)state;
    prazo_gate_close(&gate, 0);
    assert_int_equal(gate.state, PRAZO_GATE_CLOSED);
    assert_int_equal(gate.epoch, 1);
    prazo_gate_reopen(&gate, 80);
    assert_int_equal(gate.state, PRAZO_GATE_RAMP);
    assert_int_equal(gate.epoch, 2);
    assert_int_equal(gate.ramp, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe_times),
        cmocka_unit_test(test_jitter_is_an_eighth),
        cmocka_unit_test(test_slow_attempts_in_a_row),
        cmocka_unit_test(test_mixed_burst_does_not_close),
        cmocka_unit_test(test_nothing_but_refusals_closes),
        cmocka_unit_test(test_each_turn_is_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
