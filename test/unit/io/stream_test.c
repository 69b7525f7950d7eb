/* SPDX-License-Identifier: MIT */
/* Streams on real socket pairs: what is reported when, and what is never reported. Every loop runs
 * until its condition holds, or until a few turns have passed for "nothing happens". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "io/io.h"
#include "io/sock.h"

#define R PRAZO_STREAM_READABLE
#define W PRAZO_STREAM_WRITABLE
#define H PRAZO_STREAM_HANGUP

/* One watched end and the plain fd of its peer. */
struct end {
    struct prazo_stream *stream;
    int peer;
    int calls;
    unsigned events;        /* of the last call */
    unsigned stop_on;       /* events that stop the loop */
    struct end *also_close; /* closed, with itself, in the callback */
};

static struct prazo_loop *loop;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(prazo_loop_new(&loop), PRAZO_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    prazo_loop_free(loop);
    return 0;
}

static void close_end(struct end *e)
{
    prazo_stream_close(e->stream, false);
    e->stream = NULL;
}

static void on_event(void *arg, unsigned events)
{
    struct end *e = arg;
    e->calls++;
    e->events = events;
    if (e->also_close) {
        close_end(e->also_close);
        close_end(e);
    }
    if (events & e->stop_on)
        prazo_loop_stop(loop);
}

static void on_guard(struct prazo_timer *timer, int64_t now_us)
{
    (void)timer;
    (void)now_us;
    fail_msg("the event did not come within 10 s");
}

static void on_quiet(struct prazo_timer *timer, int64_t now_us)
{
    (void)timer;
    (void)now_us;
    prazo_loop_stop(loop);
}

static void run_with(prazo_timer_cb cb, int64_t in_us)
{
    struct prazo_timer timer = { .cb = cb };
    prazo_timers_link_at(prazo_loop_timers(loop), &timer, prazo_loop_now_us(loop) + in_us);
    prazo_loop_run(loop);
    prazo_timers_unlink(prazo_loop_timers(loop), &timer);
}

static void run_until(struct end *e, unsigned events)
{
    e->stop_on = events;
    e->events = 0;
    run_with(on_guard, 10000000);
    e->stop_on = 0;
}

/* Several turns: whatever is ready has been reported by then. */
static void run_a_little(void)
{
    run_with(on_quiet, 5000);
}

static void open_end(int fd, int peer, struct end *e)
{
    *e = (struct end){ .peer = peer };
    assert_int_equal(prazo_stream_open(loop, fd, on_event, e, &e->stream), PRAZO_OK);
}

static void open_unix(struct end *e)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    open_end(fds[0], fds[1], e);
}

static int listen_on_loopback(struct prazo_addr *ret_addr)
{
    struct prazo_addr addr;
    int fd;
    assert_int_equal(prazo_addr_parse(PRAZO_STR("127.0.0.1:0"), &addr, NULL, NULL), PRAZO_OK);
    assert_int_equal(prazo_listen(&addr, &fd), PRAZO_OK);
    assert_int_equal(prazo_listen_addr(fd, ret_addr), PRAZO_OK);
    return fd;
}

static int accept_now(int listener)
{
    struct pollfd p = { .fd = listener, .events = POLLIN };
    struct prazo_addr peer;
    int fd;
    assert_int_equal(poll(&p, 1, 10000), 1);
    assert_int_equal(prazo_accept(listener, &fd, &peer), PRAZO_OK);
    return fd;
}

static void open_tcp(struct end *e)
{
    struct prazo_addr addr;
    int listener = listen_on_loopback(&addr);
    int peer;
    assert_int_equal(prazo__sock_connect(&addr, &peer), PRAZO_OK);
    open_end(accept_now(listener), peer, e);
    close(listener);
}

static void close_with_reset(int fd)
{
    struct linger at_once = { .l_onoff = 1 };
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    close(fd);
}

/* ---- bytes ---- */

static void test_read_write_and_eof(void **state)
{
    (void)state;
    struct end e;
    open_unix(&e);
    char buf[16];
    assert_int_equal(prazo_stream_read(e.stream, buf, sizeof(buf)), PRAZO_E_AGAIN);
    prazo_stream_watch(e.stream, R | H);
    assert_int_equal(write(e.peer, "hello", 5), 5);
    run_until(&e, R);
    assert_int_equal(e.events, R);
    assert_int_equal(prazo_stream_unread(e.stream), 5);
    assert_int_equal(prazo_stream_read(e.stream, buf, 3), 3);
    run_until(&e, R); /* level-triggered: the rest is reported again */
    assert_int_equal(prazo_stream_read(e.stream, buf, sizeof(buf)), 2);

    struct iovec iov[2] = { { (void *)"by", 2 }, { (void *)"e", 1 } };
    assert_int_equal(prazo_stream_writev(e.stream, iov, 2), 3);
    assert_int_equal(read(e.peer, buf, sizeof(buf)), 3);
    prazo_stream_shutdown(e.stream);
    assert_int_equal(read(e.peer, buf, sizeof(buf)), 0);

    close(e.peer);
    run_until(&e, H);
    assert_int_equal(prazo_stream_read(e.stream, buf, sizeof(buf)), PRAZO_E_EOF);
    assert_int_equal(prazo_stream_writev(e.stream, iov, 2), PRAZO_E_RESET);
}

static void test_writable_after_again(void **state)
{
    (void)state;
    struct end e;
    open_unix(&e);
    static char block[65536];
    struct iovec iov = { block, sizeof(block) };
    ssize_t n, total = 0;
    while ((n = prazo_stream_writev(e.stream, &iov, 1)) > 0)
        total += n;
    assert_int_equal(n, PRAZO_E_AGAIN);
    prazo_stream_watch(e.stream, R | H | W);
    run_a_little();
    assert_int_equal(e.calls, 0);
    for (ssize_t taken = 0; taken < total;) {
        n = read(e.peer, block, sizeof(block));
        assert_true(n > 0);
        taken += n;
    }
    run_until(&e, W);
    assert_int_equal(e.events, W);
    assert_true(prazo_stream_writev(e.stream, &iov, 1) > 0);
    close(e.peer);
}

static void test_more_pieces_than_one_call_takes(void **state)
{
    (void)state;
    struct end e;
    open_unix(&e);
    static struct iovec iov[IOV_MAX + 1];
    for (int i = 0; i <= IOV_MAX; i++)
        iov[i] = (struct iovec){ (void *)"x", 1 };
    assert_int_equal(prazo_stream_writev(e.stream, iov, IOV_MAX + 1), IOV_MAX);
    close(e.peer);
}

static void test_idle_time(void **state)
{
    (void)state;
    struct end tcp, unix_end;
    open_tcp(&tcp);
    open_unix(&unix_end);
    assert_int_equal(write(tcp.peer, "x", 1), 1);
    prazo_stream_watch(tcp.stream, R);
    run_until(&tcp, R);
    assert_in_range(prazo_stream_idle_us(tcp.stream), 0, 10000000);
    assert_int_equal(prazo_stream_idle_us(unix_end.stream), 0);
    close(tcp.peer);
    close(unix_end.peer);
}

/* ---- the peer goes away ---- */

static void test_fin_is_seen_behind_unread_bytes(void **state)
{
    (void)state;
    struct end e;
    open_tcp(&e);
    char buf[16];
    assert_int_equal(write(e.peer, "GET /", 5), 5);
    close(e.peer);
    prazo_stream_watch(e.stream, H);
    run_until(&e, H);
    assert_int_equal(e.events, H);
    assert_int_equal(prazo_stream_unread(e.stream), 5);
    assert_int_equal(prazo_stream_read(e.stream, buf, sizeof(buf)), 5);
    assert_int_equal(prazo_stream_read(e.stream, buf, sizeof(buf)), PRAZO_E_EOF);
}

static void test_reset_is_seen_while_nothing_is_watched(void **state)
{
    (void)state;
    struct end e;
    open_tcp(&e);
    prazo_stream_watch(e.stream, R | H);
    prazo_stream_watch(e.stream, 0);
    assert_int_equal(prazo_stream_watched(e.stream), 0);
    assert_int_equal(write(e.peer, "x", 1), 1);
    run_a_little();
    assert_int_equal(e.calls, 0);
    close_with_reset(e.peer);
    run_until(&e, H);
    assert_int_equal(e.events, H);
}

static void test_a_reset_nobody_reacts_to_is_told_once(void **state)
{
    (void)state;
    struct end e;
    open_tcp(&e);
    prazo_stream_watch(e.stream, R | H);
    close_with_reset(e.peer);
    run_until(&e, H);
    assert_int_equal(e.events, R | H);
    run_a_little();
    assert_int_equal(e.calls, 1);
    prazo_stream_watch(e.stream, H);
    run_a_little();
    assert_int_equal(e.calls, 1);
    prazo_stream_watch(e.stream, R);
    run_until(&e, R);
    assert_int_equal(e.calls, 2);
    char c;
    assert_int_equal(prazo_stream_read(e.stream, &c, 1), PRAZO_E_RESET);
}

static void test_bytes_before_a_reset_can_be_read_one_by_one(void **state)
{
    (void)state;
    struct end e;
    open_tcp(&e);
    assert_int_equal(write(e.peer, "abc", 3), 3);
    prazo_stream_watch(e.stream, R | H);
    run_until(&e, R);
    close_with_reset(e.peer);
    for (int i = 0; i < 3; i++) {
        char c;
        run_until(&e, H);
        assert_int_equal(e.events & R, R);
        assert_int_equal(prazo_stream_read(e.stream, &c, 1), 1);
        assert_int_equal(c, "abc"[i]);
    }
    char c;
    run_until(&e, R);
    assert_int_equal(prazo_stream_read(e.stream, &c, 1), PRAZO_E_RESET);
}

/* half_close: wait — after a FIN the owner stops watching for hang-ups and goes on serving. */
static void test_half_closed_peer_that_then_resets(void **state)
{
    (void)state;
    struct end e;
    open_tcp(&e);
    prazo_stream_watch(e.stream, R | H);
    assert_int_equal(shutdown(e.peer, SHUT_WR), 0);
    run_until(&e, H);
    prazo_stream_watch(e.stream, 0);
    int calls = e.calls;
    run_a_little();
    assert_int_equal(e.calls, calls);
    close_with_reset(e.peer);
    run_until(&e, H);
    assert_int_equal(e.events, H);
}

static void test_both_directions_closed_while_nothing_is_watched(void **state)
{
    (void)state;
    struct end e;
    open_tcp(&e);
    prazo_stream_watch(e.stream, R | H);
    prazo_stream_watch(e.stream, 0);
    prazo_stream_shutdown(e.stream);
    run_a_little();
    assert_int_equal(e.calls, 0);
    close(e.peer);
    run_until(&e, H);
    run_a_little();
    assert_int_equal(e.calls, 1);
}

static void test_urgent_data_is_not_a_hangup_and_does_not_spin(void **state)
{
    (void)state;
    struct end e;
    open_tcp(&e);
    prazo_stream_watch(e.stream, H);
    assert_int_equal(send(e.peer, "!", 1, MSG_OOB), 1);
    run_a_little();
    assert_int_equal(e.calls, 0);
    close(e.peer);
    run_until(&e, H);
    assert_int_equal(e.calls, 1);
}

/* ---- closing ---- */

static void test_no_event_after_close_in_the_same_batch(void **state)
{
    (void)state;
    struct end a, b;
    open_unix(&a);
    open_unix(&b);
    a.also_close = &b;
    b.also_close = &a;
    prazo_stream_watch(a.stream, R | H);
    prazo_stream_watch(b.stream, R | H);
    assert_int_equal(write(a.peer, "x", 1), 1);
    assert_int_equal(write(b.peer, "x", 1), 1);
    run_a_little();
    assert_int_equal(a.calls + b.calls, 1);
    close(a.peer);
    close(b.peer);
}

struct reuse {
    struct end a, b, fresh;
    int fresh_fd;
};

static void on_event_reopen(void *arg, unsigned events)
{
    struct reuse *r = arg;
    (void)events;
    if (r->fresh.stream)
        return;
    r->a.calls++;
    prazo_stream_close(r->a.stream, false);
    prazo_stream_close(r->b.stream, false);
    open_unix(&r->fresh); /* gets the lowest free numbers: those just closed */
    r->fresh_fd = prazo_stream_fd(r->fresh.stream);
    prazo_stream_watch(r->fresh.stream, R | H);
}

static void test_events_of_a_closed_fd_do_not_reach_its_successor(void **state)
{
    (void)state;
    struct reuse r = { 0 };
    struct end *both[] = { &r.a, &r.b };
    int fds[2];
    for (size_t i = 0; i < 2; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        fds[i] = pair[0];
        both[i]->peer = pair[1];
        assert_int_equal(prazo_stream_open(loop, fds[i], on_event_reopen, &r, &both[i]->stream),
                         PRAZO_OK);
        prazo_stream_watch(both[i]->stream, R);
        assert_int_equal(write(both[i]->peer, "x", 1), 1);
    }
    run_a_little();
    assert_int_equal(r.a.calls, 1);
    assert_true(r.fresh_fd == fds[0] || r.fresh_fd == fds[1]);
    assert_int_equal(r.fresh.calls, 0);
    close(r.a.peer);
    close(r.b.peer);
    close(r.fresh.peer);
}

static void test_close_with_reset(void **state)
{
    (void)state;
    struct end e;
    open_tcp(&e);
    prazo_stream_close(e.stream, true);
    char c;
    struct pollfd p = { .fd = e.peer, .events = POLLIN };
    assert_int_equal(poll(&p, 1, 10000), 1);
    assert_int_equal(recv(e.peer, &c, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    close(e.peer);
}

static void test_a_borrowed_fd_stays_open(void **state)
{
    (void)state;
    int fds[2];
    struct end e = { .peer = -1 };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    for (int i = 0; i < 2; i++) { /* it can be watched again after close() */
        assert_int_equal(prazo_stream_open_borrowed(loop, fds[0], on_event, &e, &e.stream),
                         PRAZO_OK);
        prazo_stream_watch(e.stream, R);
        assert_int_equal(write(fds[1], "x", 1), 1);
        run_until(&e, R);
        close_end(&e);
    }
    assert_true(fcntl(fds[0], F_GETFD) >= 0);
    close(fds[0]);
    close(fds[1]);
}

static void test_loop_free_closes_what_is_open(void **state)
{
    (void)state;
    struct end watched, unwatched;
    open_unix(&watched);
    open_unix(&unwatched);
    prazo_stream_watch(watched.stream, R | H);
    prazo_loop_free(loop);
    loop = NULL;
    char c;
    assert_int_equal(read(watched.peer, &c, 1), 0);
    assert_int_equal(read(unwatched.peer, &c, 1), 0);
    close(watched.peer);
    close(unwatched.peer);
}

static void test_many_streams_share_slabs(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    static struct end ends[COUNT];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            open_unix(&ends[i]);
            prazo_stream_watch(ends[i].stream, R);
            assert_int_equal(write(ends[i].peer, "x", 1), 1);
        }
        run_a_little();
        for (int i = 0; i < COUNT; i++) {
            run_until(&ends[i], R);
            close_end(&ends[i]);
            close(ends[i].peer);
        }
    }
}

static void test_close_accepts_null(void **state)
{
    (void)state;
    prazo_stream_close(NULL, true);
}

static void test_a_closed_fd_cannot_be_opened(void **state)
{
    (void)state;
    struct prazo_stream *stream;
    assert_int_equal(prazo_stream_open(loop, 9999, on_event, NULL, &stream), PRAZO_E_INVALID);
    assert_int_equal(prazo_stream_open_borrowed(loop, 9999, on_event, NULL, &stream),
                     PRAZO_E_INVALID);
}

/* ---- connecting ---- */

static int connect_to(const struct prazo_addr *addr, struct end *e)
{
    *e = (struct end){ .peer = -1 };
    return prazo_stream_connect(loop, addr, on_event, e, &e->stream);
}

static void test_connect(void **state)
{
    (void)state;
    struct prazo_addr addr;
    int listener = listen_on_loopback(&addr);
    struct end e;
    assert_int_equal(connect_to(&addr, &e), PRAZO_OK);
    assert_int_equal(prazo_stream_connect_result(e.stream), PRAZO_E_AGAIN);
    run_until(&e, W);
    assert_int_equal(prazo_stream_connect_result(e.stream), PRAZO_OK);
    prazo_stream_watch(e.stream, R | H);
    int peer = accept_now(listener);
    assert_int_equal(write(peer, "x", 1), 1);
    run_until(&e, R);
    close(peer);
    run_until(&e, H);
    close(listener);
}

static void test_connect_refused(void **state)
{
    (void)state;
    struct prazo_addr addr;
    close(listen_on_loopback(&addr));
    struct end e;
    assert_int_equal(connect_to(&addr, &e), PRAZO_OK);
    run_until(&e, H);
    assert_int_equal(prazo_stream_connect_result(e.stream), PRAZO_E_REFUSED);
    run_a_little();
    assert_int_equal(e.calls, 1);
    assert_int_equal(prazo_stream_connect_result(e.stream), PRAZO_E_REFUSED);
}

static void test_connect_to_unix(void **state)
{
    (void)state;
    char dir[] = "/tmp/prazo-stream-XXXXXX";
    char text[64];
    assert_non_null(mkdtemp(dir));
    snprintf(text, sizeof(text), "unix:%s/s", dir);
    struct prazo_addr addr;
    struct end e;
    int listener;
    assert_int_equal(prazo_addr_parse(prazo_str_z(text), &addr, NULL, NULL), PRAZO_OK);
    assert_int_equal(connect_to(&addr, &e), PRAZO_E_REFUSED);
    assert_int_equal(prazo_listen(&addr, &listener), PRAZO_OK);
    assert_int_equal(connect_to(&addr, &e), PRAZO_OK);
    run_until(&e, W);
    assert_int_equal(prazo_stream_connect_result(e.stream), PRAZO_OK);
    close(listener);
    assert_int_equal(unlink(text + 5), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* A listener whose queue is full lets SYNs fall on the floor. */
static void test_connect_in_progress_can_be_closed(void **state)
{
    (void)state;
    enum { FILLERS = 8 };
    struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(listen(listener, 0), 0);
    struct prazo_addr addr;
    assert_int_equal(prazo_listen_addr(listener, &addr), PRAZO_OK);
    int fillers[FILLERS];
    for (int i = 0; i < FILLERS; i++)
        assert_int_equal(prazo__sock_connect(&addr, &fillers[i]), PRAZO_OK);
    struct end e;
    assert_int_equal(connect_to(&addr, &e), PRAZO_OK);
    run_a_little();
    assert_int_equal(e.calls, 0);
    assert_int_equal(prazo_stream_connect_result(e.stream), PRAZO_E_AGAIN);
    close_end(&e);
    run_a_little();
    assert_int_equal(e.calls, 0);
    for (int i = 0; i < FILLERS; i++)
        close(fillers[i]);
    close(listener);
}

static void test_connect_without_a_route(void **state)
{
    (void)state;
    struct prazo_addr addr;
    struct end e;
    /* Class E has no route anywhere; a broadcast address may not be connected to. */
    assert_int_equal(prazo_addr_parse(PRAZO_STR("255.255.255.255:9"), &addr, NULL, NULL), PRAZO_OK);
    int err = connect_to(&addr, &e);
    assert_true(err == PRAZO_E_UNREACHABLE || err == PRAZO_E_DENIED);
}

#define STREAM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STREAM_TEST(test_read_write_and_eof),
        STREAM_TEST(test_writable_after_again),
        STREAM_TEST(test_more_pieces_than_one_call_takes),
        STREAM_TEST(test_idle_time),
        STREAM_TEST(test_fin_is_seen_behind_unread_bytes),
        STREAM_TEST(test_reset_is_seen_while_nothing_is_watched),
        STREAM_TEST(test_a_reset_nobody_reacts_to_is_told_once),
        STREAM_TEST(test_bytes_before_a_reset_can_be_read_one_by_one),
        STREAM_TEST(test_half_closed_peer_that_then_resets),
        STREAM_TEST(test_both_directions_closed_while_nothing_is_watched),
        STREAM_TEST(test_urgent_data_is_not_a_hangup_and_does_not_spin),
        STREAM_TEST(test_no_event_after_close_in_the_same_batch),
        STREAM_TEST(test_events_of_a_closed_fd_do_not_reach_its_successor),
        STREAM_TEST(test_close_with_reset),
        STREAM_TEST(test_a_borrowed_fd_stays_open),
        STREAM_TEST(test_loop_free_closes_what_is_open),
        STREAM_TEST(test_many_streams_share_slabs),
        STREAM_TEST(test_close_accepts_null),
        STREAM_TEST(test_a_closed_fd_cannot_be_opened),
        STREAM_TEST(test_connect),
        STREAM_TEST(test_connect_refused),
        STREAM_TEST(test_connect_to_unix),
        STREAM_TEST(test_connect_in_progress_can_be_closed),
        STREAM_TEST(test_connect_without_a_route),
    };
    return cmocka_run_group_tests_name("io/stream", tests, NULL, NULL);
}
