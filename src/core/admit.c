/* SPDX-License-Identifier: MIT */
/* Puts the estimate, the gate and the trials together: who is sent, waits or is refused, and what
 * an attempt's end says to each of them. Does not hold the queue or the deadlines.
 *
 * Invariants: in_flight = sent - freed >= orphans >= 0; open_at is the sum of the sending times of
 * the attempts that are not cut; while the gate is closed only probes are sent. */
#include "core/admit.h"

#include <string.h>

#include "base/assert.h"

#define SECOND_US INT64_C(1000000)
#define DEMAND_MIN 10 /* a floor of 20 costs a quarter of the goodput with eight gateways */
/* A queue younger than this is a burst or a pause and may use nearly all of the time left. */
#define BURST_US SECOND_US
#define WAIT_CAP_MAX_US (10 * SECOND_US)
#define PACE_MIN 8

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void smooth(int64_t *mean, int64_t n, int64_t value)
{
    *mean = *mean ? *mean + (value - *mean) / n : value;
}

/* Time never goes back. */
static int64_t tick(struct prazo_admit *m, int64_t now_us)
{
    m->now_us = max64(m->now_us, now_us);
    return m->now_us;
}

void prazo_admit_init(struct prazo_admit *m, int64_t now_us)
{
    memset(m, 0, sizeof *m);
    m->now_us = m->demand_at_us = m->debt_at_us = now_us;
    prazo_estimate_init(&m->times, now_us);
    prazo_limiter_auto_init(&m->limiter, now_us);
    m->peak = 16 * DEMAND_MIN;
    m->queued_since_us = -1;
    m->wait_cap_us = WAIT_CAP_MAX_US;
}

int64_t prazo_admit_limit(const struct prazo_admit *m)
{
    return prazo_limiter_auto_limit(&m->limiter);
}

/* A sixteenth falls off each sixteenth of a success's time; never stays above zero for good. */
int64_t prazo_admit_debt(struct prazo_admit *m, int64_t now_us)
{
    int64_t n = (tick(m, now_us) - m->debt_at_us) * 16 / max64(1, m->limiter.ok_hold_us);
    if (m->debt == 0 || n > 160) {
        m->debt = 0;
        m->debt_at_us = m->now_us;
    } else if (n > 0) {
        for (; n > 0; n--)
            m->debt -= (m->debt + 15) / 16;
        m->debt_at_us = m->now_us;
    }
    return m->debt >> 8;
}

/* How long n successes take at the present rate; the gap since the last one counts. 0: unknown. */
static int64_t pace_us(const struct prazo_admit *m, int64_t n)
{
    int64_t k = m->ok_count < PRAZO_ADMIT_RING ? (int64_t)m->ok_count : PRAZO_ADMIT_RING;
    if (k < PACE_MIN)
        return 0;
    int64_t first_us = m->ok_at_us[(m->ok_count - (uint64_t)k) % PRAZO_ADMIT_RING];
    return n * (m->now_us - first_us) / k;
}

/* The time an attempt needs. Both must say that it is long: after a pause the estimate is out of
 * date, in a stall Little's law is. Before the first successes there is no rate; then the estimate
 * speaks alone, or requests with little time left would hold every permit of an upstream that
 * works on after a cut, and the successes that make a rate would never come. */
static int64_t need_us(const struct prazo_admit *m)
{
    int64_t paced_us = pace_us(m, m->limiter.in_flight + 1);
    return m->ok_count < PACE_MIN ? m->times.p50_us : min64(m->times.p50_us, paced_us);
}

static bool is_unfit(const struct prazo_admit *m, int64_t left_us)
{
    return m->gate.state == PRAZO_GATE_OPEN && m->times.active && need_us(m) > left_us;
}

static int64_t in_force(const struct prazo_admit *m)
{
    if (m->gate.state == PRAZO_GATE_RAMP)
        return min64(prazo_admit_limit(m), m->gate.ramp + m->limiter.orphans);
    return prazo_limiter_auto_in_force(&m->limiter);
}

static bool is_persistent(const struct prazo_admit *m)
{
    return m->queued_since_us >= 0 && m->now_us - m->queued_since_us > BURST_US;
}

/* The limit follows the demand down to 5/4 of its recent peak, so that a sudden outage meets few
 * attempts in flight. */
static void follow_demand(struct prazo_admit *m, const struct prazo_admit_arrival *arrival)
{
    struct prazo_limiter_auto *l = &m->limiter;
    m->roomy_us = max64(m->roomy_us, arrival->left_us);
    m->demand = max64(m->demand, l->in_flight + arrival->queued + 1);
    if (m->now_us - m->demand_at_us < SECOND_US)
        return;
    if (m->gate.state == PRAZO_GATE_OPEN) {
        m->peak = max64(16 * m->demand, m->peak - m->peak / 16);
        int64_t want = max64(DEMAND_MIN * 256, m->peak * 20);
        if (l->lim > want && l->trial != PRAZO_TRIAL_B && l->trial != PRAZO_TRIAL_B_WAIT) {
            prazo_limiter_auto_set(l, l->lim - (l->lim - want + 7) / 8);
            prazo_limiter_auto_reset(l, m->now_us, false);
            prazo_limiter_auto_grow_soon(l, m->now_us);
        }
    }
    m->demand_at_us = m->now_us;
    m->demand = 0;
    m->roomy_us -= m->roomy_us / 4;
}

static int64_t wait_us(const struct prazo_admit *m, int64_t n, int64_t permits)
{
    int64_t hold_us = n * m->limiter.hold_us / max64(1, permits);
    int64_t paced_us = pace_us(m, n);
    return paced_us > 0 ? min64(hold_us, paced_us) : hold_us;
}

int64_t prazo_admit_wait_max_us(const struct prazo_admit *m, int64_t left_us, int64_t budget_us)
{
    int64_t us = m->times.active ? left_us - need_us(m) * 5 / 4 : left_us * 3 / 4;
    if (is_persistent(m))
        us = min64(us, budget_us / 4);
    return max64(0, min64(us, m->wait_cap_us));
}

enum prazo_admit_verdict prazo_admit_arrive(struct prazo_admit *m, int64_t now_us,
                                            const struct prazo_admit_arrival *arrival,
                                            uint64_t draw)
{
    struct prazo_limiter_auto *l = &m->limiter;
    int64_t limit = prazo_admit_limit(m);
    tick(m, now_us);
    follow_demand(m, arrival);
    if (m->gate.state == PRAZO_GATE_CLOSED)
        return prazo_gate_probe(&m->gate, m->now_us, arrival->left_us, m->roomy_us, draw)
                   ? PRAZO_ADMIT_PROBE
                   : PRAZO_ADMIT_LIMIT;
    if (arrival->queued == 0)
        m->queued_since_us = -1;
    prazo_estimate_read(&m->times, m->now_us);
    if (is_unfit(m, arrival->left_us))
        return prazo_gate_probe(&m->gate, m->now_us, arrival->left_us, m->roomy_us, draw)
                   ? PRAZO_ADMIT_PROBE
                   : PRAZO_ADMIT_WOULD_MISS;
    int64_t permits = in_force(m);
    if (arrival->queued == 0) {
        if (l->in_flight + prazo_admit_debt(m, m->now_us) < permits)
            return PRAZO_ADMIT_SEND;
        m->queued_since_us = m->now_us;
    }
    if (arrival->queued >= (is_persistent(m) ? max64(16, limit) : max64(64, 8 * limit))) {
        l->refused_at_us = m->now_us;
        return PRAZO_ADMIT_QUEUE_FULL;
    }
    if (wait_us(m, arrival->ahead + 1, permits) >
        prazo_admit_wait_max_us(m, arrival->left_us, arrival->budget_us)) {
        l->refused_at_us = m->now_us;
        return PRAZO_ADMIT_WOULD_MISS;
    }
    return PRAZO_ADMIT_QUEUE;
}

bool prazo_admit_may_send(struct prazo_admit *m, int64_t now_us)
{
    return m->gate.state != PRAZO_GATE_CLOSED &&
           m->limiter.in_flight + prazo_admit_debt(m, now_us) < in_force(m);
}

bool prazo_admit_dequeue(struct prazo_admit *m, int64_t now_us, int64_t left_us, int64_t budget_us,
                         int64_t waited_us)
{
    tick(m, now_us);
    return !(is_persistent(m) && waited_us > budget_us / 4) && waited_us <= m->wait_cap_us &&
           !is_unfit(m, left_us);
}

void prazo_admit_sent(struct prazo_admit *m, int64_t now_us, bool is_probe, int64_t queued,
                      struct prazo_admit_tag *tag)
{
    struct prazo_limiter_auto *l = &m->limiter;
    tick(m, now_us);
    l->in_flight++;
    l->open_at_us += m->now_us;
    if (queued == 0)
        m->queued_since_us = -1;
    tag->at_us = m->now_us;
    tag->occupied = l->in_flight + prazo_admit_debt(m, m->now_us);
    tag->seq = m->gate.seq++;
    tag->epoch = m->gate.epoch;
    tag->record = 0;
    smooth(&l->left_us, 32, tag->left_us);
    if (is_probe || m->gate.state != PRAZO_GATE_OPEN)
        return;
    tag->record = prazo_limiter_auto_sent(l, m->now_us, tag->occupied);
    prazo_limiter_auto_step(l, m->now_us, queued > 0);
}

/* An end, with what follows from it. */
struct end {
    enum prazo_admit_end kind;
    const struct prazo_admit_tag *tag;
    int64_t age_us, fair_us;
    bool is_ok, is_cut, is_busy, is_slow;
    bool is_quick; /* a fast failure: it owes its permit for the time a success takes */
};

static struct end understand(const struct prazo_admit *m, enum prazo_admit_end kind,
                             const struct prazo_admit_tag *tag)
{
    struct end e = { .kind = kind, .tag = tag, .age_us = m->now_us - tag->at_us };
    e.fair_us = m->times.q90_us ? m->times.q90_us : m->roomy_us / 2;
    e.is_ok = kind == PRAZO_END_OK;
    e.is_cut = kind == PRAZO_END_CUT || kind == PRAZO_END_CUT_HELD;
    e.is_busy = kind == PRAZO_END_BUSY || kind == PRAZO_END_NOCONN;
    e.is_slow = (e.is_cut || e.is_busy) && e.age_us >= e.fair_us;
    e.is_quick = (e.is_busy || kind == PRAZO_END_SHED || kind == PRAZO_END_LATE) &&
                 e.age_us < m->limiter.ok_hold_us;
    return e;
}

static void record_end(struct prazo_admit *m, const struct end *e)
{
    struct prazo_limiter_auto *l = &m->limiter;
    struct prazo_record *r = NULL;
    if (e->tag->record == 0 || e->tag->epoch != m->gate.epoch || e->kind == PRAZO_END_CUT_HELD)
        return;
    if (e->tag->record == l->a.id)
        r = &l->a;
    else if (e->tag->record == l->b.id)
        r = &l->b;
    if (!r)
        return;
    r->open--;
    r->open_at_us -= e->tag->at_us;
    if (e->kind == PRAZO_END_ERROR) {
        r->sent--;
        r->occupied -= e->tag->occupied;
        return;
    }
    r->hold_us += e->is_quick ? l->ok_hold_us : e->age_us;
    if (e->is_ok)
        r->ok++;
}

static void learn_success(struct prazo_admit *m, int64_t age_us)
{
    struct prazo_limiter_auto *l = &m->limiter;
    smooth(&l->ok_hold_us, 32, age_us);
    m->ok_at_us[m->ok_count++ % PRAZO_ADMIT_RING] = m->now_us;
    if (l->base_us == 0 || l->ok_hold_us < l->base_us) {
        l->base_us = l->ok_hold_us;
        l->base_at_us = m->now_us;
    } else if (m->now_us - l->base_at_us >= SECOND_US) {
        l->base_us += l->base_us / 64 + 1;
        l->base_at_us = m->now_us;
    }
}

static void learn_times(struct prazo_admit *m, const struct end *e)
{
    struct prazo_limiter_auto *l = &m->limiter;
    if (e->is_ok || e->is_cut)
        smooth(&l->hold_us, 32, e->age_us);
    if (e->is_ok || e->kind == PRAZO_END_CUT) {
        int64_t square = (e->age_us >> 6) * (e->age_us >> 6);
        smooth(&l->m1, 128, e->age_us);
        smooth(&l->m2, 128, l->m2 ? square : 2 * square);
    }
    if (e->is_ok)
        learn_success(m, e->age_us);
    if (e->is_ok || e->is_cut || e->is_slow)
        prazo_estimate_add(&m->times, m->now_us, e->age_us, !e->is_ok);
    if (e->is_ok || (e->is_cut && e->age_us >= e->fair_us / 2))
        l->in_time += ((e->is_ok ? 65536 : 0) - l->in_time) / 64;
}

/* Did our queue cost the success? The cap balances at 6 % of failures among those that waited. */
static void learn_wait_cap(struct prazo_admit *m, const struct end *e)
{
    if (e->tag->waited_us <= 1000 || m->gate.state != PRAZO_GATE_OPEN)
        return;
    if (e->is_ok) {
        m->wait_cap_us = min64(WAIT_CAP_MAX_US, m->wait_cap_us + m->wait_cap_us / 128);
    } else if (e->is_cut || e->is_slow || e->kind == PRAZO_END_LATE) {
        int64_t cap_us = min64(m->wait_cap_us, SECOND_US);
        m->wait_cap_us = max64(m->limiter.ok_hold_us / 8 + 1000, cap_us - cap_us / 8);
    }
}

static enum prazo_gate_end life_of(const struct end *e)
{
    if (e->is_ok || e->kind == PRAZO_END_ERROR)
        return PRAZO_GATE_ALIVE;
    if (e->is_slow)
        return PRAZO_GATE_SLOW;
    return e->is_busy ? PRAZO_GATE_BUSY : PRAZO_GATE_UNKNOWN;
}

static void close_gate(struct prazo_admit *m, bool is_slow)
{
    struct prazo_limiter_auto *l = &m->limiter;
    struct prazo_gate *gate = &m->gate;
    bool refilled = gate->state == PRAZO_GATE_RAMP
                        ? 2 * gate->ramp >= prazo_admit_limit(m)
                        : gate->opened_at_us > 0 && m->now_us - gate->opened_at_us < 2 * SECOND_US;
    if (is_slow && refilled) /* it failed again as it filled up */
        prazo_limiter_auto_set(l, l->lim / 2);
    prazo_gate_close(gate, m->now_us);
    m->queued_since_us = -1;
}

/* The first success since the closing: what the limit had learned stays, what the outage taught
 * about single requests does not. */
static void reopen_gate(struct prazo_admit *m)
{
    prazo_gate_reopen(&m->gate, prazo_admit_limit(m));
    m->times.fresh = 8;
    m->debt = 0;
    m->wait_cap_us = WAIT_CAP_MAX_US;
    m->limiter.in_time = 65536;
}

static void ramp_up(struct prazo_admit *m)
{
    m->gate.ramp += 2;
    if (m->gate.ramp + m->limiter.orphans < prazo_admit_limit(m))
        return;
    m->gate.state = PRAZO_GATE_OPEN;
    m->gate.opened_at_us = m->now_us;
    prazo_limiter_auto_reset(&m->limiter, m->now_us, true);
    prazo_limiter_auto_grow_soon(&m->limiter, m->now_us);
    m->limiter.down_at_us = m->now_us + 2 * SECOND_US;
}

static void count_end(struct prazo_admit *m, const struct end *e)
{
    struct prazo_limiter_auto *l = &m->limiter;
    if (e->kind == PRAZO_END_CUT_HELD) {
        l->orphans++;
    } else {
        l->in_flight--;
        if (e->kind == PRAZO_END_FREED)
            l->orphans--;
    }
    if (e->kind != PRAZO_END_FREED)
        l->open_at_us -= e->tag->at_us;
    PRAZO_ASSERT(l->in_flight >= l->orphans && l->orphans >= 0);
    if (e->is_ok)
        l->grow++;
    if (e->is_quick) {
        prazo_admit_debt(m, m->now_us);
        m->debt += 256 * (l->ok_hold_us - e->age_us) / l->ok_hold_us;
    }
}

bool prazo_admit_ended(struct prazo_admit *m, int64_t now_us, enum prazo_admit_end end,
                       int64_t queued, const struct prazo_admit_tag *tag)
{
    tick(m, now_us);
    struct end e = understand(m, end, tag);
    int64_t ok_us = m->ok_count ? m->ok_at_us[(m->ok_count - 1) % PRAZO_ADMIT_RING] : 0;
    count_end(m, &e);
    record_end(m, &e);
    learn_times(m, &e);
    learn_wait_cap(m, &e);
    bool idle = m->ok_count == 0 || m->now_us - ok_us > 2 * m->limiter.ok_hold_us;
    bool dead = prazo_gate_ended(&m->gate, life_of(&e), tag->seq, prazo_admit_limit(m), idle);
    if (dead && m->gate.state != PRAZO_GATE_CLOSED) {
        close_gate(m, e.is_slow);
        return true;
    }
    switch (m->gate.state) {
    case PRAZO_GATE_CLOSED:
        if (e.is_ok && tag->epoch == m->gate.epoch)
            reopen_gate(m);
        return false;
    case PRAZO_GATE_RAMP:
        if (e.is_ok)
            ramp_up(m);
        return false;
    case PRAZO_GATE_OPEN:
        prazo_limiter_auto_changed(&m->limiter, m->now_us, queued > 0);
        prazo_limiter_auto_step(&m->limiter, m->now_us, queued > 0);
        return false;
    }
    return false;
}
