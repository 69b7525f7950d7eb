/* SPDX-License-Identifier: MIT */
/* Server, client and a small owner on one loop, each scenario again with the n-th allocation
 * failing, for every n until none is left to fail. The exchange comes out right, or the connection
 * ends; nothing crashes, hangs or (address sanitizer) leaks. The owner's own memory never fails:
 * only http/ and io/ are on trial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mem.h"
#include "http/client.h"
#include "support/raw_client.h"

#define PENDING_MAX 262144u
#define BIG_BYTES 1500000 /* several times what a pair of Unix sockets holds */
#define PIECE_BYTES 60000
#define GUARD_US 10000000

/* What a scenario asks, and what it gets when all is well. */
struct scenario {
    const char *title, *path;
    const char *body;    /* sent in chunks; NULL: none */
    const char *upgrade; /* NULL: none */
    int64_t answer_bytes;
    bool is_slow;      /* stops reading until the server's output waits */
    bool is_pipelined; /* by hand: `path`, then /small, in one write */
};

enum outcome { PENDING = 0, RIGHT, ENDED };

/* One run. */
static struct {
    const struct scenario *scenario;
    struct prazo_loop *loop;
    struct prazo_server *server;
    struct prazo_list exchanges; /* the owner's */
    struct prazo_client *client;
    struct prazo_client_pool *pool;
    struct prazo_timer guard;
    enum outcome outcome;
    bool was_asked;  /* the owner has had a request */
    bool has_waited; /* the server's output was pending once */
    /* the client's exchange */
    struct prazo_cx *cx;
    int status;
    int64_t got_bytes;
    bool is_stopped; /* not reading */
    struct raw_client raw;
} run;

static char directory[] = "/tmp/prazo-oom-XXXXXX";
static char socket_path[64];
static int listen_fd;
static char big[BIG_BYTES];

static void end_run(enum outcome outcome)
{
    if (run.outcome == PENDING)
        run.outcome = outcome;
    prazo_loop_stop(run.loop);
}

/* ---- the owner of the server's exchanges ---- */

struct exchange {
    struct prazo_list node; /* run.exchanges */
    struct prazo_arena_pool blocks;
    struct prazo_arena arena;
    char path[16];
    size_t body_bytes;
    int64_t sent_bytes; /* of `big` */
};

static void free_exchange(struct exchange *x)
{
    prazo_arena_reset(&x->arena);
    prazo_arena_pool_done(&x->blocks);
    prazo_list_del(&x->node);
    free(x);
}

/* Sends as much as may be pending, then waits for on_drained. */
static void send_big(struct exchange *x, struct prazo_sx *sx)
{
    while (x->sent_bytes < BIG_BYTES) {
        prazo_sx_send_body(sx, big + x->sent_bytes, PIECE_BYTES);
        prazo_sx_flush(sx);
        x->sent_bytes += PIECE_BYTES;
        if (prazo_sx_pending(sx) > 0) {
            run.has_waited = true;
            return;
        }
    }
    prazo_sx_send_end(sx, NULL, 0);
    free_exchange(x);
    prazo_sx_finish(sx);
}

static bool send_head(struct exchange *x, struct prazo_sx *sx, int status, int64_t length)
{
    struct prazo_head_out out;

    prazo_head_out_init(&out, &x->arena, 200);
    prazo_head_out_add(&out, PRAZO_STR("x-filler"), prazo_str_n(big, 3000)); /* makes it grow */
    if (status == 101) {
        prazo_head_out_add(&out, PRAZO_STR("upgrade"), PRAZO_STR("echo"));
        return prazo_sx_send_informational(sx, status, &out) == PRAZO_OK;
    }
    return prazo_sx_send_head(sx, status, (struct prazo_str){ NULL, 0 }, &out, length, true) ==
           PRAZO_OK;
}

static void give_up(struct exchange *x, struct prazo_sx *sx)
{
    free_exchange(x);
    prazo_sx_abort(sx);
}

static void *on_request(void *arg, struct prazo_sx *sx, const struct prazo_head *head)
{
    struct exchange *x = calloc(1, sizeof *x);

    (void)arg;
    assert_non_null(x);
    run.was_asked = true;
    prazo_list_push_back(&run.exchanges, &x->node);
    prazo_arena_pool_init(&x->blocks, 0);
    prazo_arena_init(&x->arena, &x->blocks, 65536);
    snprintf(x->path, sizeof x->path, "%.*s", (int)head->path.len, head->path.base);
    if (strcmp(x->path, "/upgrade") != 0)
        return x;
    if (!send_head(x, sx, 101, -1)) {
        give_up(x, sx);
        return NULL;
    }
    prazo_sx_switch(sx);
    prazo_sx_flush(sx);
    return x;
}

static void on_body(void *arg, struct prazo_sx *sx, const char *data, size_t len)
{
    struct exchange *x = arg;

    x->body_bytes += len;
    if (strcmp(x->path, "/upgrade") == 0)
        prazo_sx_send_body(sx, data, len);
}

static void on_body_end(void *arg, struct prazo_sx *sx, const struct prazo_header *trailers,
                        size_t count)
{
    struct exchange *x = arg;

    (void)trailers;
    (void)count;
    if (strcmp(x->path, "/upgrade") == 0) {
        prazo_sx_send_end(sx, NULL, 0);
        free_exchange(x);
        prazo_sx_finish(sx);
    } else if (strcmp(x->path, "/small") == 0) {
        free_exchange(x);
        prazo_sx_answer(sx, 200, "text/plain", NULL, PRAZO_STR("hello"));
    } else if (strcmp(x->path, "/count") == 0) { /* as many bytes as the request had */
        size_t bytes = x->body_bytes;
        if (!send_head(x, sx, 200, (int64_t)bytes)) {
            give_up(x, sx);
            return;
        }
        prazo_sx_send_body(sx, big, bytes);
        prazo_sx_finish(sx);
        free_exchange(x);
    } else if (send_head(x, sx, 200, -1)) {
        send_big(x, sx);
    } else {
        give_up(x, sx);
    }
}

static void on_gone(void *arg, struct prazo_sx *sx, enum prazo_gone why)
{
    (void)why;
    give_up(arg, sx);
}

static void on_read_done(void *arg, struct prazo_sx *sx)
{
    (void)arg;
    prazo_sx_flush(sx);
}

static void on_drained(void *arg, struct prazo_sx *sx)
{
    struct exchange *x = arg;

    if (strcmp(x->path, "/big") == 0)
        send_big(x, sx);
}

static void on_bad_request(void *arg, struct prazo_sx *sx, int problem)
{
    (void)arg;
    (void)sx;
    fail_msg("a right request was refused: problem %d", problem);
}

static const struct prazo_sx_ops server_ops = {
    .on_request = on_request,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_gone = on_gone,
    .on_read_done = on_read_done,
    .on_drained = on_drained,
    .on_bad_request = on_bad_request,
};

/* ---- the client's side ---- */

static void on_connected(void *arg, struct prazo_cx *cx)
{
    static char prefix[128];
    const struct scenario *s = run.scenario;
    struct prazo_cx_request request = {
        .body = s->body != NULL ? PRAZO_BODY_CHUNKED : PRAZO_BODY_NONE,
        .upgrade = prazo_str_z(s->upgrade),
    };

    (void)arg;
    snprintf(prefix, sizeof prefix, "%s %s HTTP/1.1\r\nhost: a\r\n",
             s->body != NULL ? "POST" : "GET", s->path);
    request.prefix = prazo_str_z(prefix);
    prazo_cx_send_head(cx, &request);
    for (struct prazo_str left = prazo_str_z(s->body); left.len > 0;) {
        size_t n = left.len < 3 ? left.len : 3;
        prazo_cx_send_body(cx, left.base, n);
        left = prazo_str_n(left.base + n, left.len - n);
    }
    if (s->upgrade == NULL)
        prazo_cx_send_end(cx, NULL, 0);
    prazo_cx_flush(cx);
}

static void on_head(void *arg, struct prazo_cx *cx, const struct prazo_head *head)
{
    (void)arg;
    run.status = head->status;
    if (head->status == 101) {
        prazo_cx_send_body(cx, "ping", 4);
        prazo_cx_send_end(cx, NULL, 0);
    } else if (run.scenario->is_slow) {
        run.is_stopped = true;
        prazo_cx_pause(cx);
    }
}

static void on_answer_body(void *arg, struct prazo_cx *cx, const char *data, size_t len)
{
    const char *expected = run.status == 101              ? "ping"
                           : run.scenario->path[1] == 's' ? "hello"
                                                          : big;

    (void)arg;
    (void)cx;
    assert_true(run.got_bytes + (int64_t)len <= run.scenario->answer_bytes);
    assert_memory_equal(data, expected + run.got_bytes, len);
    run.got_bytes += (int64_t)len;
}

static void on_end(void *arg, struct prazo_cx *cx, const struct prazo_header *trailers,
                   size_t count)
{
    (void)arg;
    (void)trailers;
    (void)count;
    assert_int_equal(run.status, run.scenario->upgrade != NULL ? 101 : 200);
    run.cx = NULL;
    prazo_cx_release(cx);
    /* the end of a tunnel looks the same when it is cut */
    end_run(run.got_bytes == run.scenario->answer_bytes || run.status != 101 ? RIGHT : ENDED);
    if (run.outcome == RIGHT)
        assert_int_equal(run.got_bytes, run.scenario->answer_bytes);
}

static void on_fail(void *arg, struct prazo_cx *cx, enum prazo_cx_fail why)
{
    (void)arg;
    (void)why;
    run.cx = NULL;
    prazo_cx_close(cx);
    end_run(ENDED);
}

static void on_nothing(void *arg, struct prazo_cx *cx)
{
    (void)arg;
    (void)cx;
}

static const struct prazo_cx_ops client_ops = {
    .on_connected = on_connected,
    .on_head = on_head,
    .on_body = on_answer_body,
    .on_end = on_end,
    .on_fail = on_fail,
    .on_read_done = on_nothing,
    .on_drained = on_nothing,
};

/* ---- the client by hand ---- */

static bool is_answer(size_t *at, int64_t body_bytes)
{
    struct raw_answer answer;

    return raw_client_next(&run.raw, at, &answer) && answer.is_complete && answer.status == 200 &&
           answer.body_bytes == body_bytes;
}

static void on_news(void *arg)
{
    size_t at = 0;

    (void)arg;
    if (run.raw.has_ended)
        end_run(ENDED);
    else if (run.raw.in[run.raw.len - 1] == 'o' && is_answer(&at, run.scenario->answer_bytes) &&
             is_answer(&at, 5) && at == run.raw.len)
        end_run(RIGHT);
}

static void start_raw(void)
{
    char request[200];

    snprintf(request, sizeof request,
             "GET %s HTTP/1.1\r\nhost: a\r\n\r\n"
             "GET /small HTTP/1.1\r\nhost: a\r\n\r\n",
             run.scenario->path);
    run.is_stopped = run.scenario->is_slow;
    if (raw_client_open(&run.raw, run.loop, socket_path, prazo_str_z(request), !run.is_stopped,
                        on_news, NULL) != PRAZO_OK)
        end_run(ENDED);
}

/* ---- one run, and all runs ---- */

/* Whoever stopped reading goes on once the server had to wait, or has given up. */
static void on_turn_end(void *arg)
{
    bool has_given_up = run.was_asked && prazo_server_requests(run.server) == 0;

    (void)arg;
    if (!run.is_stopped || !(run.has_waited || has_given_up) || run.outcome != PENDING)
        return;
    run.is_stopped = false;
    if (run.cx != NULL)
        prazo_cx_resume(run.cx);
    if (run.raw.stream != NULL)
        raw_client_read(&run.raw);
}

static void on_guard(struct prazo_timer *timer, int64_t now_us)
{
    (void)timer;
    (void)now_us;
    fail_msg("%s: neither an answer nor an end", run.scenario->title);
}

static int open_sides(void)
{
    struct prazo_server_options server = {
        .ops = &server_ops,
        .limits = { 16384, 1024, -1, GUARD_US, GUARD_US },
        .connections_max = 100,
        .pending_bytes_max = PENDING_MAX,
    };
    struct prazo_client_options client = {
        .ops = &client_ops,
        .head_bytes_max = 16384,
        .pending_bytes_max = PENDING_MAX,
        .connections_max = 100,
    };
    struct prazo_client_pool_options pool = { .idle_max = 4, .idle_timeout_us = GUARD_US };
    struct prazo_listener_options listener = { .fd = listen_fd };
    struct prazo_listener *ignored;
    int err = prazo_server_new(run.loop, &server, &run.server);

    if (err == PRAZO_OK)
        err = prazo_server_listen(run.server, &listener, &ignored);
    if (err == PRAZO_OK)
        err = prazo_client_new(run.loop, &client, &run.client);
    if (err == PRAZO_OK)
        err = prazo_client_pool_new(run.client, &pool, &run.pool);
    return err;
}

static void start(void)
{
    struct prazo_addr addr;

    if (run.scenario->is_pipelined) {
        start_raw();
        return;
    }
    assert_int_equal(prazo_addr_parse(prazo_str_z(socket_path), &addr, NULL, NULL), PRAZO_OK);
    if (prazo_client_connect(run.pool, &addr, NULL, &run.cx) != PRAZO_OK)
        end_run(ENDED);
}

static void run_once(const struct scenario *scenario)
{
    memset(&run, 0, sizeof run);
    run.scenario = scenario;
    prazo_list_init(&run.exchanges);
    if (prazo_loop_new(&run.loop) != PRAZO_OK) {
        run.outcome = ENDED;
        return;
    }
    run.guard.cb = on_guard;
    prazo_timers_link_at(prazo_loop_timers(run.loop), &run.guard,
                         prazo_loop_now_us(run.loop) + GUARD_US);
    prazo_loop_on_turn_end(run.loop, on_turn_end, NULL);
    if (open_sides() == PRAZO_OK)
        start();
    else
        run.outcome = ENDED;
    if (run.outcome == PENDING)
        prazo_loop_run(run.loop);
    raw_client_close(&run.raw);
    prazo_client_pool_close(run.pool);
    prazo_client_free(run.client);
    prazo_server_free(run.server);
    while (!prazo_list_is_empty(&run.exchanges)) /* cut off without a call */
        free_exchange(PRAZO_CONTAINER(run.exchanges.next, struct exchange, node));
    prazo_timers_unlink(prazo_loop_timers(run.loop), &run.guard);
    prazo_loop_free(run.loop);
}

static void walk(const struct scenario *scenario)
{
    bool has_failed = true;
    int64_t n;

    for (n = 0; has_failed; n++) {
        prazo_mem_fail_after(n);
        run_once(scenario);
        has_failed = prazo_mem_has_failed();
        prazo_mem_fail_after(-1);
        assert_true(run.outcome == RIGHT || (has_failed && run.outcome == ENDED));
    }
    assert_true(run.has_waited == scenario->is_slow);
    print_message("%s: %d allocations\n", scenario->title, (int)n - 1);
}

static void test_scenarios(void **state)
{
    static const struct scenario scenarios[] = {
        { .title = "small GET", .path = "/small", .answer_bytes = 5 },
        { .title = "POST in chunks", .path = "/count", .body = "0123456789", .answer_bytes = 10 },
        { .title = "slow reader", .path = "/big", .answer_bytes = BIG_BYTES, .is_slow = true },
        { .title = "upgrade", .path = "/upgrade", .upgrade = "echo", .answer_bytes = 4 },
        { .title = "pipelined", .path = "/small", .answer_bytes = 5, .is_pipelined = true },
        { .title = "pipelined by a slow reader",
          .path = "/big",
          .answer_bytes = BIG_BYTES,
          .is_slow = true,
          .is_pipelined = true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        walk(&scenarios[i]);
}

static int setup(void **state)
{
    struct prazo_addr addr;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(socket_path, sizeof socket_path, "unix:%s/s", directory);
    assert_int_equal(prazo_addr_parse(prazo_str_z(socket_path), &addr, NULL, NULL), PRAZO_OK);
    assert_int_equal(prazo_listen(&addr, &listen_fd), PRAZO_OK);
    for (size_t i = 0; i < BIG_BYTES; i++)
        big[i] = (char)('a' + i % 23);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(listen_fd);
    unlink(socket_path + 5);
    rmdir(directory);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_scenarios) };

    return cmocka_run_group_tests(tests, setup, teardown);
}
