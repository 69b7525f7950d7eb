/* SPDX-License-Identifier: MIT */
/* Dead or alive: another question than how much. The gate closes when nothing succeeds, lets probes
 * through, and reopens by a ramp; what the limit had learned survives. Pure; not thread-safe. */
#ifndef PRAZO_CORE_GATE_H
#define PRAZO_CORE_GATE_H

#include <stdbool.h>
#include <stdint.h>

enum prazo_gate_state {
    PRAZO_GATE_OPEN = 0,
    PRAZO_GATE_CLOSED, /* only probes pass */
    PRAZO_GATE_RAMP,   /* alive again; ramp grows by 2 with each success up to the limit */
};

/* How an attempt ended, as far as life is concerned. */
enum prazo_gate_end {
    PRAZO_GATE_ALIVE = 0, /* an answer of its own, also a bad one */
    PRAZO_GATE_SLOW,      /* no success although it had a fair time */
    PRAZO_GATE_BUSY,      /* refused quickly: 503, no connection */
    PRAZO_GATE_UNKNOWN,   /* says nothing */
};

struct prazo_gate {
    enum prazo_gate_state state;
    int64_t ramp;
    int64_t closed_at_us, opened_at_us;
    int64_t probe_at_us; /* theoretical arrival time of the next probe (GCRA) */
    uint32_t seq, epoch; /* attempts sent; closings and reopenings */
    int64_t slow_count;  /* in a row */
    bool counts_busy;    /* busy_count counts those sent since busy_seq */
    uint32_t busy_seq;
    int64_t busy_count;
};

/* May a probe pass? One per 250 ms with a burst of 4. left_us: what the request has; roomy_us: what
 * requests usually have. draw: 64 random bits. True takes the turn. */
bool prazo_gate_probe(struct prazo_gate *gate, int64_t now_us, int64_t left_us, int64_t roomy_us,
                      uint64_t draw);
/* Counts an end and says whether the upstream has to be taken for dead. seq: the gate's when the
 * attempt was sent. limit: the concurrency limit. idle: no success for twice its usual time. */
bool prazo_gate_ended(struct prazo_gate *gate, enum prazo_gate_end end, uint32_t seq, int64_t limit,
                      bool idle);
void prazo_gate_close(struct prazo_gate *gate, int64_t now_us);
/* The first success of an attempt that was sent since the closing. */
void prazo_gate_reopen(struct prazo_gate *gate, int64_t limit);

#endif
