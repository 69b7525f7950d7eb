/* SPDX-License-Identifier: MIT */
/* Closing, probing and reopening. Does not see requests or times of service.
 *
 * Invariants: state changes here and, from the ramp to open, in admit.c; each closing and each
 * reopening begins a new epoch, so that a success from before cannot speak for after. */
#include "core/gate.h"

/* Recovery is seen in less than 1 s, and an outage of 10 s leaves about 40 probes behind. */
#define PROBE_GAP_US 250000
/* A burst of 4, so that a chain of gateways does not thin the probes out. */
#define PROBE_AHEAD_US (3 * PROBE_GAP_US)
#define PROBE_FIRST_US 50000
#define SLOW_MIN 16
#define SLOW_MAX 64
/* 40 of the last 42: lets 60 % of scattered failures pass. */
#define BUSY_MIN 40
#define BUSY_SEQ_MAX 160

bool prazo_gate_probe(struct prazo_gate *gate, int64_t now_us, int64_t left_us, int64_t roomy_us,
                      uint64_t draw)
{
    int64_t latest_us = now_us + PROBE_AHEAD_US;
    if (gate->probe_at_us > latest_us)
        return false;
    /* One that cannot be answered in time tells nothing: it may not take the turn of another for
     * the first second. */
    if (left_us < roomy_us / 2 && gate->probe_at_us + 1000000 > latest_us)
        return false;
    int64_t from_us = gate->probe_at_us > now_us ? gate->probe_at_us : now_us;
    /* Uniform in 7/8 to 9/8 of the gap: gateways that closed together do not probe together. */
    int64_t jitter_us = (int64_t)(((unsigned __int128)draw * (PROBE_GAP_US / 4 + 1)) >> 64);
    gate->probe_at_us = from_us + PROBE_GAP_US * 7 / 8 + jitter_us;
    return true;
}

/* Fast failures overtake successes, so they are counted in the order of sending. */
static void count_busy(struct prazo_gate *gate, uint32_t seq)
{
    if (!gate->counts_busy || gate->seq - gate->busy_seq > BUSY_SEQ_MAX) {
        gate->counts_busy = true;
        gate->busy_seq = gate->seq;
        gate->busy_count = 0;
    } else if ((int32_t)(seq - gate->busy_seq) >= 0) {
        gate->busy_count++;
    }
}

bool prazo_gate_ended(struct prazo_gate *gate, enum prazo_gate_end end, uint32_t seq, int64_t limit,
                      bool idle)
{
    int64_t slow_max = SLOW_MIN + limit / 8;
    if (slow_max > SLOW_MAX)
        slow_max = SLOW_MAX;
    if (gate->state == PRAZO_GATE_RAMP)
        slow_max = SLOW_MIN;
    switch (end) {
    case PRAZO_GATE_ALIVE:
        gate->slow_count = 0;
        if (gate->counts_busy && (int32_t)(seq - gate->busy_seq) >= 0)
            gate->counts_busy = false;
        return false;
    case PRAZO_GATE_SLOW:
        gate->slow_count++;
        return gate->slow_count >= slow_max && idle;
    case PRAZO_GATE_BUSY:
        count_busy(gate, seq);
        return gate->busy_count >= BUSY_MIN &&
               16 * gate->busy_count >= 15 * (int64_t)(gate->seq - gate->busy_seq);
    case PRAZO_GATE_UNKNOWN:
        break;
    }
    return false;
}

void prazo_gate_close(struct prazo_gate *gate, int64_t now_us)
{
    gate->state = PRAZO_GATE_CLOSED;
    gate->closed_at_us = now_us;
    gate->epoch++;
    gate->slow_count = 0;
    gate->counts_busy = false;
    gate->busy_count = 0;
    gate->probe_at_us = now_us + PROBE_AHEAD_US + PROBE_FIRST_US;
}

void prazo_gate_reopen(struct prazo_gate *gate, int64_t limit)
{
    gate->state = PRAZO_GATE_RAMP;
    gate->ramp = limit / 8 > 4 ? limit / 8 : 4;
    gate->epoch++;
    gate->slow_count = 0;
}
