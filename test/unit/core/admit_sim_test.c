/* SPDX-License-Identifier: MIT */
/* Admission and the waiting queue in a discrete-event simulation on virtual time: clients that give
 * up after 1 s and repeat blindly once, one gateway, an upstream with workers and a first-come
 * queue that becomes slow or refuses for a while. Prints figures and seed of each run;
 * PRAZO_SEED=n replays one. No chain of gateways, no network. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "core/admit.h"
#include "core/queue.h"

enum {
    MS = 1000,
    SECOND = 1000 * MS,
    TIMEOUT_US = SECOND,
    LEFT_US = 850 * MS, /* the timeout less a margin of 150 ms */
    REQUESTS_MAX = 60000,
    EVENTS_MAX = 4 * REQUESTS_MAX,
    QUEUE_MAX = 4096,
    SECONDS_MAX = 64,
};

enum mode { COOPERATIVE = 0, CLOSE, DRAIN };

struct scenario {
    const char *title;
    enum mode mode;
    int workers, per_second, burst; /* burst: requests that arrive together */
    int64_t service_us;
    int64_t from_us, to_us, end_us; /* the disturbance, and the end of the arrivals */
    int64_t slow_us;                /* service time in it; 0: refuses at once */
    int64_t recovery_max_us;
    int64_t orphans_max, refusals_max, goodput_min; /* goodput: percent, in the disturbance */
    int64_t calls_max;                              /* per 100 requests, in the worst second */
};

enum what { ARRIVE = 0, FINISH, CUT, LEAVE_QUEUE, REPEAT, TICK };

struct event {
    int64_t at_us;
    uint64_t order;
    enum what what;
    int request;
};

enum place { AWAY = 0, QUEUED, SENT, HELD };

struct request {
    struct prazo_queue_entry entry;
    struct prazo_admit_tag tag;
    int64_t first_at_us, at_us;
    enum place place;
    bool is_retry, works, refuses, is_gone; /* works: a worker has it */
};

struct sim {
    const struct scenario *s;
    struct prazo_prng prng;
    struct prazo_admit m;
    struct prazo_queue queue;
    struct prazo_queue_entry *slots[QUEUE_MAX + 1];
    struct event events[EVENTS_MAX + 1];
    size_t event_count;
    uint64_t order;
    struct request requests[REQUESTS_MAX];
    int request_count;
    int backlog[REQUESTS_MAX]; /* of the upstream, first come first served */
    int backlog_from, backlog_to, busy;
    int64_t now_us, orphans, refusals;
    bool ticks;
    int64_t arrived[SECONDS_MAX * 10], answered[SECONDS_MAX * 10]; /* by tenth of a second */
    int64_t calls[SECONDS_MAX];
};

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void at(struct sim *sim, int64_t at_us, enum what what, int request)
{
    struct event event = { at_us, sim->order++, what, request };
    size_t i = ++sim->event_count;
    assert_true(i <= EVENTS_MAX);
    for (; i > 1 && is_before(&event, &sim->events[i / 2]); i /= 2)
        sim->events[i] = sim->events[i / 2];
    sim->events[i] = event;
}

static struct event next_event(struct sim *sim)
{
    struct event first = sim->events[1], last = sim->events[sim->event_count--];
    size_t i = 1;
    for (size_t child; (child = 2 * i) <= sim->event_count; i = child) {
        if (child < sim->event_count && is_before(&sim->events[child + 1], &sim->events[child]))
            child++;
        if (is_before(&last, &sim->events[child]))
            break;
        sim->events[i] = sim->events[child];
    }
    sim->events[i] = last;
    return first;
}

static bool is_disturbed(const struct sim *sim)
{
    return sim->now_us >= sim->s->from_us && sim->now_us < sim->s->to_us;
}

static int64_t queued(const struct sim *sim)
{
    return (int64_t)sim->queue.count;
}

/* ---- the upstream ---- */

static void work(struct sim *sim)
{
    while (sim->busy < sim->s->workers && sim->backlog_from < sim->backlog_to) {
        int i = sim->backlog[sim->backlog_from++];
        if (sim->requests[i].is_gone)
            continue;
        sim->requests[i].works = true;
        sim->busy++;
        at(sim, sim->now_us + (is_disturbed(sim) ? sim->s->slow_us : sim->s->service_us), FINISH,
           i);
    }
}

static void upstream_take(struct sim *sim, int i)
{
    sim->calls[sim->now_us / SECOND]++;
    if (is_disturbed(sim) && sim->s->slow_us == 0) {
        sim->requests[i].refuses = true;
        at(sim, sim->now_us + MS, FINISH, i);
        return;
    }
    sim->backlog[sim->backlog_to++] = i;
    work(sim);
}

/* ---- the gateway ---- */

/* The client repeats once, blindly; as an event of its own, so that nothing calls itself. */
static void answer_failure(struct sim *sim, int i)
{
    sim->requests[i].place = AWAY;
    if (!sim->requests[i].is_retry)
        at(sim, sim->now_us, REPEAT, i);
}

static void refuse(struct sim *sim, int i)
{
    sim->refusals++;
    answer_failure(sim, i);
}

static void send(struct sim *sim, int i, bool is_probe)
{
    struct request *r = &sim->requests[i];
    r->place = SENT;
    r->tag.left_us = r->at_us + LEFT_US - sim->now_us;
    r->tag.waited_us = sim->now_us - r->at_us;
    prazo_admit_sent(&sim->m, sim->now_us, is_probe, queued(sim), &r->tag);
    at(sim, r->at_us + LEFT_US, CUT, i);
    upstream_take(sim, i);
}

static int index_of(const struct sim *sim, const struct prazo_queue_entry *entry)
{
    const char *base = (const char *)entry - offsetof(struct request, entry);
    return (int)((const struct request *)(const void *)base - sim->requests);
}

static void drain_queue(struct sim *sim, bool closed)
{
    while (sim->queue.count > 0 && (closed || prazo_admit_may_send(&sim->m, sim->now_us))) {
        int i = index_of(sim, prazo_queue_pop(&sim->queue));
        struct request *r = &sim->requests[i];
        if (!closed && prazo_admit_dequeue(&sim->m, sim->now_us, r->at_us + LEFT_US - sim->now_us,
                                           TIMEOUT_US, sim->now_us - r->at_us))
            send(sim, i, false);
        else
            refuse(sim, i);
    }
    if (sim->queue.count > 0 && !sim->ticks) {
        sim->ticks = true;
        at(sim, sim->now_us + MS, TICK, 0);
    }
}

static void ended(struct sim *sim, int i, enum prazo_admit_end kind)
{
    bool closed = prazo_admit_ended(&sim->m, sim->now_us, kind, queued(sim), &sim->requests[i].tag);
    const struct prazo_limiter_auto *l = &sim->m.limiter;
    assert_true(l->in_flight >= l->orphans && l->orphans >= 0 && l->lim >= 4 * 256);
    drain_queue(sim, closed);
}

static void arrive(struct sim *sim, int64_t first_at_us, bool is_retry)
{
    int i = sim->request_count++;
    struct request *r = &sim->requests[i];
    assert_true(i < REQUESTS_MAX);
    r->at_us = sim->now_us;
    r->first_at_us = first_at_us;
    r->is_retry = is_retry;
    struct prazo_admit_arrival arrival = { LEFT_US, TIMEOUT_US, queued(sim), queued(sim) };
    enum prazo_admit_verdict v =
        prazo_admit_arrive(&sim->m, sim->now_us, &arrival, prazo_prng_next(&sim->prng));
    if (v == PRAZO_ADMIT_SEND || v == PRAZO_ADMIT_PROBE) {
        send(sim, i, v == PRAZO_ADMIT_PROBE);
    } else if (v == PRAZO_ADMIT_QUEUE &&
               prazo_queue_push(&sim->queue, &r->entry, r->at_us + LEFT_US)) {
        r->place = QUEUED;
        at(sim, sim->now_us + prazo_admit_wait_max_us(&sim->m, LEFT_US, TIMEOUT_US), LEAVE_QUEUE,
           i);
        drain_queue(sim, false);
    } else {
        refuse(sim, i);
    }
}

static void on_finish(struct sim *sim, int i)
{
    struct request *r = &sim->requests[i];
    enum place place = r->place;
    if (r->is_gone && sim->s->mode == COOPERATIVE)
        return; /* its worker was freed at the cut */
    if (r->works) {
        sim->busy--;
        work(sim);
    }
    if (place == SENT)
        r->place = AWAY;
    if (place == SENT && !r->refuses)
        sim->answered[r->first_at_us / (100 * MS)]++;
    if (place == SENT)
        ended(sim, i, r->refuses ? PRAZO_END_BUSY : PRAZO_END_OK);
    if (place == SENT && r->refuses)
        answer_failure(sim, i);
    if (place == HELD) {
        r->place = AWAY;
        ended(sim, i, PRAZO_END_FREED);
    }
}

static void on_cut(struct sim *sim, int i)
{
    struct request *r = &sim->requests[i];
    if (r->place != SENT)
        return;
    if (sim->s->mode == COOPERATIVE) {
        r->is_gone = true;
        sim->busy -= r->works;
        work(sim);
    } else {
        sim->orphans++;
    }
    r->place = sim->s->mode == DRAIN ? HELD : AWAY;
    ended(sim, i, sim->s->mode == DRAIN ? PRAZO_END_CUT_HELD : PRAZO_END_CUT);
    if (!r->is_retry)
        at(sim, sim->now_us, REPEAT, i);
}

/* ---- load and figures ---- */

static void on_arrive(struct sim *sim)
{
    double uniform = ((double)(prazo_prng_next(&sim->prng) >> 11) + 1) / 9007199254740993.0;
    int64_t mean_us = (int64_t)SECOND * sim->s->burst / sim->s->per_second;
    int64_t next_us = sim->now_us + (int64_t)(-log(uniform) * (double)mean_us);
    if (next_us < sim->s->end_us)
        at(sim, next_us, ARRIVE, 0);
    for (int i = 0; i < sim->s->burst; i++) {
        sim->arrived[sim->now_us / (100 * MS)]++;
        arrive(sim, sim->now_us, false);
    }
}

static void dispatch(struct sim *sim, struct event event)
{
    struct request *r = &sim->requests[event.request];
    sim->now_us = event.at_us;
    switch (event.what) {
    case ARRIVE:
        on_arrive(sim);
        return;
    case FINISH:
        on_finish(sim, event.request);
        return;
    case CUT:
        on_cut(sim, event.request);
        return;
    case LEAVE_QUEUE:
        if (r->place != QUEUED)
            return;
        prazo_queue_remove(&sim->queue, &r->entry);
        refuse(sim, event.request);
        return;
    case REPEAT:
        arrive(sim, r->first_at_us, true);
        return;
    case TICK:
        sim->ticks = false;
        drain_queue(sim, false);
        return;
    }
}

/* Of all requests that arrived in [from, to), in percent; 100 where none did. */
static int64_t goodput(const struct sim *sim, int64_t from_us, int64_t to_us)
{
    int64_t arrived = 0, answered = 0;
    for (int64_t i = from_us / (100 * MS); i < to_us / (100 * MS); i++) {
        arrived += sim->arrived[i];
        answered += sim->answered[i];
    }
    return arrived ? answered * 100 / arrived : 100;
}

/* From the end of the disturbance to the first second of which 95 % are answered. */
static int64_t recovery_us(const struct sim *sim)
{
    int64_t us = 0;
    while (sim->s->to_us + us + SECOND <= sim->s->end_us &&
           goodput(sim, sim->s->to_us + us, sim->s->to_us + us + SECOND) < 95)
        us += 100 * MS;
    return us;
}

static int64_t worst_calls(const struct sim *sim)
{
    int64_t worst = 0;
    for (int64_t i = 0; i < sim->s->end_us / SECOND; i++) {
        int64_t arrived = 0;
        for (int64_t k = 0; k < 10; k++)
            arrived += sim->arrived[10 * i + k];
        if (arrived >= 100 && sim->calls[i] * 100 / arrived > worst)
            worst = sim->calls[i] * 100 / arrived;
    }
    return worst;
}

/* S3: 50 workers of 300 ms answer 55.6 % of the arrivals at best; 53 are 95 % of that. */
static const struct scenario scenarios[] = {
    { "S1 slow, cooperative", COOPERATIVE, 50, 300, 1, 100 * MS, 20 * SECOND, 30 * SECOND,
      45 * SECOND, 4 * SECOND, SECOND, 0, INT64_MAX, 0, 105 },
    { "S2 slow, close", CLOSE, 50, 300, 1, 100 * MS, 20 * SECOND, 30 * SECOND, 45 * SECOND,
      4 * SECOND, SECOND, 120, INT64_MAX, 0, 105 },
    { "S2 slow, drain", DRAIN, 50, 300, 1, 100 * MS, 20 * SECOND, 30 * SECOND, 45 * SECOND,
      4 * SECOND, SECOND, 100, INT64_MAX, 0, 105 },
    { "S3 slower, close", CLOSE, 50, 300, 1, 100 * MS, 20 * SECOND, 35 * SECOND, 45 * SECOND,
      300 * MS, SECOND, INT64_MAX, INT64_MAX, 53, 120 },
    { "S5 bursts of 10", COOPERATIVE, 50, 20, 10, 100 * MS, 0, 0, 60 * SECOND, 0, 0, 0, 0, 0, 100 },
    { "S11 refuses", COOPERATIVE, 50, 300, 1, 100 * MS, 10 * SECOND, 40 * SECOND, 50 * SECOND, 0,
      SECOND, 0, INT64_MAX, 0, 110 },
};

static void run(const struct scenario *s, uint64_t seed)
{
    static struct sim sim;
    memset(&sim, 0, sizeof sim);
    sim.s = s;
    prazo_prng_seed(&sim.prng, seed);
    prazo_admit_init(&sim.m, 0);
    prazo_queue_init(&sim.queue, sim.slots, QUEUE_MAX);
    at(&sim, 0, ARRIVE, 0);
    while (sim.event_count > 0)
        dispatch(&sim, next_event(&sim));
    int64_t recovery = recovery_us(&sim), calls = worst_calls(&sim);
    int64_t good = goodput(&sim, s->from_us, s->to_us);
    print_message("%-22s PRAZO_SEED=%-3" PRIu64 " recovery %" PRId64 " ms, orphans %" PRId64
                  ", refusals %" PRId64 ", goodput %" PRId64 " %%, calls %" PRId64
                  " %%, limit %" PRId64 "\n",
                  s->title, seed, recovery / MS, sim.orphans, sim.refusals, good, calls,
                  prazo_admit_limit(&sim.m));
    assert_true(recovery <= s->recovery_max_us);
    assert_true(sim.orphans <= s->orphans_max);
    assert_true(sim.refusals <= s->refusals_max);
    assert_true(good >= s->goodput_min);
    assert_true(calls <= s->calls_max);
    assert_int_equal(sim.m.limiter.in_flight, 0);
}

static void test_scenarios(void **state)
{
    const char *given = getenv("PRAZO_SEED");
    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (given) {
            run(&scenarios[i], strtoull(given, NULL, 10));
            continue;
        }
        for (uint64_t seed = 1; seed <= 3; seed++)
            run(&scenarios[i], seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_scenarios) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
