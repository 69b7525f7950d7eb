/* SPDX-License-Identifier: MIT */
/* A whole worker between clients by hand and a scripted upstream, each scenario again with the n-th
 * allocation failing, for every n until none is left to fail, the start included. The answer comes
 * out right, or it is one of our 500, 502 and 503, or the connection ends; nothing crashes, hangs
 * or (address sanitizer) leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "gateway/call.h"
#include "gateway/gateway_internal.h"
#include "oom/upstream.h"
#include "support/raw_client.h"

#define GUARD_US 20000000
#define ANSWERS_MAX 4
#define CLIENTS_MAX 3

struct scenario {
    const char *title;
    const char *requests[CLIENTS_MAX]; /* what each client sends */
    struct {
        int status;         /* 0 ends */
        int64_t body_bytes; /* -1: one of our own documents */
    } answers[ANSWERS_MAX]; /* what each of them gets */
    bool is_slow;           /* reads nothing until prazo has to wait */
};

enum outcome { PENDING = 0, RIGHT, REFUSED };

struct guest {
    struct raw_client raw;
    enum outcome outcome;
    bool has_sent_ping;
};

static struct {
    const struct scenario *scenario;
    int64_t n;
    struct prazo_gateway gateway;
    struct prazo_worker *worker;
    struct prazo_timer guard;
    struct guest guests[CLIENTS_MAX];
    size_t guest_count;
    bool has_waited, is_reading;
} run;

static char directory[] = "/tmp/prazo-oom-XXXXXX";
static char edge_path[64], second_path[64], upstream_path[64];
static int upstream_fd;
static uint64_t big_hash;
static struct prazo_config *configs[2]; /* before and after the reload */

/* ---- clients ---- */

static bool is_own_problem(int status)
{
    return status == 500 || status == 502 || status == 503;
}

static uint64_t expected_hash(int status, int64_t bytes)
{
    if (bytes == UPSTREAM_BIG_BYTES)
        return big_hash;
    return raw_hash(RAW_HASH_START, status == 101 ? "ping" : "hello", (size_t)bytes);
}

static void check_body(int64_t bytes, const struct raw_answer *answer)
{
    if (bytes < 0 || (answer->status == 101 && answer->body_bytes < bytes))
        return; /* a tunnel that was cut looks like any other */
    assert_int_equal(answer->body_bytes, bytes);
    assert_true(answer->body_hash == expected_hash(answer->status, bytes));
}

/* Looks at everything that has come so far. */
static enum outcome judge(struct guest *guest)
{
    const struct scenario *s = run.scenario;
    enum outcome outcome = RIGHT;
    struct raw_answer answer;
    size_t at = 0, count = 0;

    for (; count < ANSWERS_MAX && s->answers[count].status != 0; count++) {
        if (!raw_client_next(&guest->raw, &at, &answer) || !answer.is_complete)
            return guest->raw.has_ended ? REFUSED : PENDING;
        if (answer.status == 200 && s->answers[count].status == 103)
            count++; /* interim answers may get lost */
        int status = s->answers[count].status;
        if (answer.status == status) {
            check_body(s->answers[count].body_bytes, &answer);
            if (status == 101 && answer.body_bytes < s->answers[count].body_bytes)
                outcome = REFUSED;
            continue;
        }
        if (!is_own_problem(answer.status))
            fail_msg("%s, allocation %d: answer %zu is %d", s->title, (int)run.n, count,
                     answer.status);
        outcome = REFUSED;
        if (status == 103)
            count++;
    }
    assert_false(raw_client_next(&guest->raw, &at, &answer)); /* no answer to nothing */
    return outcome;
}

static void stop_if_all_are_done(void)
{
    for (size_t i = 0; i < run.guest_count; i++) {
        if (run.guests[i].outcome == PENDING)
            return;
    }
    prazo_loop_stop(run.worker->loop);
}

static void on_news(void *arg)
{
    struct guest *guest = arg;

    if (guest->outcome != PENDING)
        return;
    guest->outcome = judge(guest);
    if (guest->outcome == PENDING && run.scenario->answers[0].status == 101 &&
        !guest->has_sent_ping && strncmp(guest->raw.in, "HTTP/1.1 101", 12) == 0) {
        guest->has_sent_ping = true;
        raw_client_send(&guest->raw, PRAZO_STR("ping"));
    }
    stop_if_all_are_done();
}

static void open_guests(const char *address)
{
    const struct scenario *s = run.scenario;

    run.is_reading = !s->is_slow;
    for (size_t i = 0; i < CLIENTS_MAX && s->requests[i] != NULL; i++) {
        struct guest *guest = &run.guests[i];
        run.guest_count++;
        if (raw_client_open(&guest->raw, run.worker->loop, address, prazo_str_z(s->requests[i]),
                            run.is_reading, on_news, guest) != PRAZO_OK)
            guest->outcome = REFUSED;
    }
}

static void close_guests(void)
{
    for (size_t i = 0; i < run.guest_count; i++)
        raw_client_close(&run.guests[i].raw);
    run.guest_count = 0;
}

/* ---- the gateway ---- */

/* A call that waits for a connection lets the one before go on; a client that does not read begins
 * to once its answer waits. Nothing under way any more: both, too. */
static void on_turn_end(void *arg)
{
    struct prazo_worker *w = arg;
    bool is_over =
        prazo_server_last_request_us(w->server) != 0 && prazo_server_requests(w->server) == 0;

    if (is_over || __atomic_load_n(&w->view->snapshot->upstreams[0]->waiting, __ATOMIC_RELAXED) > 0)
        upstream_let_go();
    for (struct prazo_list *n = w->active.next; n != &w->active; n = n->next) {
        const struct prazo_call *call = PRAZO_CONTAINER(n, struct prazo_call, node);
        if (call->sx != NULL && prazo_sx_pending(call->sx) > 0)
            run.has_waited = true;
    }
    if (run.is_reading || !(run.has_waited || is_over))
        return;
    run.is_reading = true;
    for (size_t i = 0; i < run.guest_count; i++) {
        if (run.guests[i].raw.stream != NULL)
            raw_client_read(&run.guests[i].raw);
    }
}

static void on_guard(struct prazo_timer *timer, int64_t now_us)
{
    (void)timer;
    (void)now_us;
    fail_msg("%s, allocation %d: neither an answer nor an end", run.scenario->title, (int)run.n);
}

static int use_config(struct prazo_gateway *g, struct prazo_config *config)
{
    struct prazo_snapshot *next;
    size_t *map;
    int err = prazo_sockets_open(g, config, &map);

    if (err != PRAZO_OK)
        return err;
    err = prazo_snapshot_new(&g->registry, config, map, g->socket_count, &next);
    prazo_mem_free(map);
    if (err != PRAZO_OK)
        return err;
    prazo_snapshot_unref(g->snapshot);
    g->snapshot = next;
    return PRAZO_OK;
}

static int open_gateway(void)
{
    struct prazo_gateway *g = &run.gateway;
    int err = prazo_stats_new(1, &g->stats);

    if (err != PRAZO_OK)
        return err;
    g->unmatched = prazo_stats_route(g->stats, "unmatched");
    if (g->unmatched == NULL)
        return PRAZO_E_NOMEM;
    g->registry.stats = g->stats;
    g->threads = 1;
    g->workers = &run.worker;
    memcpy(g->via, "prazo-test", 11);
    err = use_config(g, configs[0]);
    if (err == PRAZO_OK)
        err = prazo_worker_new(g, 0, g->snapshot, &run.worker);
    if (err != PRAZO_OK)
        return err;
    g->worker_count = 1;
    prazo_snapshot_apply(&g->registry, g->snapshot);
    prazo_loop_on_turn_end(run.worker->loop, on_turn_end, run.worker);
    run.guard.cb = on_guard;
    prazo_timers_link_at(prazo_loop_timers(run.worker->loop), &run.guard,
                         prazo_loop_now_us(run.worker->loop) + GUARD_US);
    return PRAZO_OK;
}

static void close_gateway(void)
{
    struct prazo_gateway *g = &run.gateway;
    struct prazo_log_ring *ring = run.worker != NULL ? run.worker->ring : NULL;

    close_guests();
    if (g->worker_count > 0)
        prazo_timers_unlink(prazo_loop_timers(run.worker->loop), &run.guard);
    prazo_worker_free(run.worker);
    prazo_log_ring_free(ring);
    prazo_snapshot_unref(g->snapshot);
    prazo_registry_done(&g->registry);
    prazo_sockets_close_all(g);
    prazo_stats_free(g->stats);
    upstream_let_go();
}

static void begin(const struct scenario *scenario, int64_t n)
{
    memset(&run, 0, sizeof run);
    run.scenario = scenario;
    run.n = n;
    upstream_hold();
    prazo_mem_fail_after(n);
}

/* Until every client has its answers or its end. */
static void serve(const char *address)
{
    open_guests(address);
    bool is_pending = false;
    for (size_t i = 0; i < run.guest_count; i++)
        is_pending |= run.guests[i].outcome == PENDING;
    if (is_pending)
        prazo_loop_run(run.worker->loop);
}

/* ---- walks ---- */

static bool run_once(const struct scenario *scenario, int64_t n)
{
    bool is_right;

    begin(scenario, n);
    is_right = open_gateway() == PRAZO_OK;
    if (is_right) {
        serve(edge_path);
        for (size_t i = 0; i < run.guest_count; i++)
            is_right &= run.guests[i].outcome == RIGHT;
    }
    bool has_failed = prazo_mem_has_failed();
    prazo_mem_fail_after(-1);
    close_gateway();
    if (!is_right && !has_failed)
        fail_msg("%s: not answered, and all allocations succeeded", scenario->title);
    return has_failed;
}

static void walk(const struct scenario *scenario)
{
    int64_t n = 0;

    while (run_once(scenario, n))
        n++;
    assert_true(run.has_waited || !scenario->is_slow);
    print_message("%s: %d allocations\n", scenario->title, (int)n);
}

#define HOST "host: a\r\n"
#define FILLER "x-filler: %03000d\r\n"

static char filled_get[4096], long_post[45000];

static void make_requests(void)
{
    int len = snprintf(filled_get, sizeof filled_get,
                       "GET /small?a=1 HTTP/1.1\r\n" HOST FILLER "\r\n", 0);

    assert_in_range(len, 3000, sizeof filled_get - 1);
    len = snprintf(long_post, sizeof long_post,
                   "POST /small HTTP/1.1\r\n" HOST "content-length: 40000\r\n\r\n%040000d", 0);
    assert_in_range(len, 40000, sizeof long_post - 1);
}

static void test_scenarios(void **state)
{
    static const struct scenario scenarios[] = {
        { "small GET", { filled_get }, { { 200, 5 } }, false },
        { "POST in chunks",
          { "POST /small HTTP/1.1\r\n" HOST "transfer-encoding: chunked\r\nte: trailers\r\n\r\n"
            "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n" },
          { { 200, 5 } },
          false },
        { "POST that is not kept whole", { long_post }, { { 200, 5 } }, false },
        { "slow reader",
          { "GET /big HTTP/1.1\r\n" HOST "te: trailers\r\n\r\n" },
          { { 200, UPSTREAM_BIG_BYTES } },
          true },
        { "interim answer",
          { "GET /early HTTP/1.1\r\n" HOST "\r\n" },
          { { 103, 0 }, { 200, 5 } },
          false },
        { "upgrade",
          { "GET /echo HTTP/1.1\r\n" HOST "connection: upgrade\r\nupgrade: echo\r\n\r\n" },
          { { 101, 4 } },
          false },
        { "pipelined",
          { "GET /small HTTP/1.1\r\n" HOST "\r\nPUT /small HTTP/1.1\r\n" HOST "\r\n"
            "OPTIONS * HTTP/1.1\r\n" HOST "\r\nGET /big HTTP/1.1\r\n" HOST "\r\n" },
          { { 200, 5 }, { 405, -1 }, { 200, 0 }, { 200, UPSTREAM_BIG_BYTES } },
          false },
        { "bad request", { "GET / HTTP/1.1\r\n\r\n" }, { { 400, -1 } }, false },
        { "waiting for the one connection",
          { "GET /hold HTTP/1.1\r\n" HOST "\r\n", "GET /hold HTTP/1.1\r\n" HOST "\r\n",
            "GET /hold HTTP/1.1\r\n" HOST "\r\n" },
          { { 200, 5 } },
          false },
    };

    (void)state;
    make_requests();
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        walk(&scenarios[i]);
}

/* A reload that fails half-way leaves the old configuration served, and the next one succeeds. */
static bool reload_once(const struct scenario *scenario, int64_t n)
{
    begin(scenario, -1);
    run.n = n;
    assert_int_equal(open_gateway(), PRAZO_OK);
    serve(edge_path);
    assert_int_equal(run.guests[0].outcome, RIGHT);
    close_guests();

    prazo_mem_fail_after(n);
    if (use_config(&run.gateway, configs[1]) == PRAZO_OK) {
        prazo_snapshot_apply(&run.gateway.registry, run.gateway.snapshot);
        prazo_worker_use(run.worker, run.gateway.snapshot);
    }
    bool has_failed = prazo_mem_has_failed();
    prazo_mem_fail_after(-1);
    serve(edge_path);
    assert_int_equal(run.guests[0].outcome, RIGHT);
    close_guests();

    assert_int_equal(use_config(&run.gateway, configs[1]), PRAZO_OK);
    prazo_snapshot_apply(&run.gateway.registry, run.gateway.snapshot);
    prazo_worker_use(run.worker, run.gateway.snapshot);
    serve(second_path);
    assert_int_equal(run.guests[0].outcome, RIGHT);
    close_gateway();
    return has_failed;
}

static void test_reload(void **state)
{
    static const struct scenario scenario = {
        "reload", { "GET /small HTTP/1.1\r\n" HOST "\r\n" }, { { 200, 5 } }, false
    };
    int64_t n = 0;

    (void)state;
    while (reload_once(&scenario, n))
        n++;
    print_message("%s: %d allocations\n", scenario.title, (int)n);
}

/* ---- around ---- */

static struct prazo_config *load(const char *listen, const char *more)
{
    struct prazo_config *config;
    struct prazo_buf diag;
    char text[1024];

    snprintf(text, sizeof text,
             "listen: %s\n"
             "admin: none\n"
             "threads: 1\n"
             "deadline: 10m\n"
             "log: { level: error, requests: none }\n"
             "limits: { replay_body: 16KiB, answer_buffer: 64KiB }\n"
             "upstreams:\n"
             "  app: { servers: ['%s'], connections: { max: 1 } }\n"
             "%s"
             "routes:\n"
             "  - { path: /echo, upgrade: echo, upstream: app }\n"
             "  - { methods: [GET, POST], upstream: app }\n",
             listen, upstream_path, more);
    prazo_buf_init(&diag, 65536);
    if (prazo_config_load_text("t.yaml", prazo_str_z(text), &diag, &config) != PRAZO_OK)
        fail_msg("%.*s", (int)diag.len, diag.base);
    prazo_buf_done(&diag);
    return config;
}

static int setup(void **state)
{
    struct prazo_addr addr;
    char both[192];

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(edge_path, sizeof edge_path, "unix:%s/edge", directory);
    snprintf(second_path, sizeof second_path, "unix:%s/second", directory);
    snprintf(upstream_path, sizeof upstream_path, "unix:%s/up", directory);
    assert_int_equal(prazo_addr_parse(prazo_str_z(upstream_path), &addr, NULL, NULL), PRAZO_OK);
    assert_int_equal(prazo_listen(&addr, &upstream_fd), PRAZO_OK);
    upstream_start(upstream_fd);
    big_hash = RAW_HASH_START;
    for (int64_t i = 0; i < UPSTREAM_BIG_BYTES; i++) {
        char c = upstream_big_byte(i);
        big_hash = raw_hash(big_hash, &c, 1);
    }
    snprintf(both, sizeof both, "['%s', '%s']", edge_path, second_path);
    configs[0] = load(edge_path, "");
    configs[1] = load(both, "  other: { servers: ['unix:/nowhere', '127.0.0.1:9'] }\n");
    prazo_log_configure(PRAZO_LOG_ERROR, PRAZO_LOG_TEXT);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    prazo_config_unref(configs[0]);
    prazo_config_unref(configs[1]);
    unlink(upstream_path + 5);
    rmdir(directory);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenarios),
        cmocka_unit_test(test_reload),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
