/* SPDX-License-Identifier: MIT */
/* The resolver against a name server in a thread of the test, which answers as its zone says at
 * that moment, or not at all. Rounds follow each other after the shortest TTL, one second, so the
 * few tests that need several rounds take that long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "io/io.h"

#define PORT 9002
#define TYPE_A 1
#define TYPE_AAAA 28
#define RCODE_OK 0
#define RCODE_SERVFAIL 2
#define RCODE_NXDOMAIN 3
#define ANSWERS_MAX 40

/* What the server answers for one record type: `count` addresses that differ in their last byte. */
struct zone {
    int rcode;
    bool is_silent;
    unsigned count;
    uint8_t last[ANSWERS_MAX];
};

struct dns {
    pthread_t thread;
    int fd;
    uint16_t port;
    pthread_mutex_t mutex; /* guards the rest */
    struct zone a, aaaa;
    uint32_t ttl_s;
    int queries;
};

static struct dns dns;
static struct prazo_loop *loop;
static struct prazo_resolver *resolver;

/* ---- the name server ---- */

static size_t put_answer(uint8_t *to, int type, uint32_t ttl_s, uint8_t last)
{
    uint8_t bytes = type == TYPE_A ? 4 : 16;
    uint8_t head[12] = { 0xc0, 12, 0, (uint8_t)type, 0, 1, 0, 0, 0, (uint8_t)ttl_s, 0, bytes };
    memcpy(to, head, sizeof(head));
    memset(to + sizeof(head), 0, bytes);
    to[sizeof(head)] = type == TYPE_A ? 10 : 0xfd;
    to[sizeof(head) + bytes - 1u] = last;
    return sizeof(head) + bytes;
}

/* Turns the query in `msg` into its answer; 0: stay silent. */
static size_t answer(uint8_t *msg, size_t len)
{
    size_t at = 12;
    while (at < len && msg[at] != 0)
        at += msg[at] + 1u;
    int type = msg[at + 2];
    at += 5;
    pthread_mutex_lock(&dns.mutex);
    struct zone zone = type == TYPE_A ? dns.a : dns.aaaa;
    uint32_t ttl_s = dns.ttl_s;
    dns.queries++;
    pthread_mutex_unlock(&dns.mutex);
    if (zone.is_silent)
        return 0;
    msg[2] = 0x81; /* response, recursion desired */
    msg[3] = (uint8_t)(0x80 | zone.rcode);
    memset(msg + 6, 0, 6);
    msg[7] = (uint8_t)zone.count;
    for (unsigned i = 0; i < zone.count; i++)
        at += put_answer(msg + at, type, ttl_s, zone.last[i]);
    return at;
}

/* Ends at an empty datagram. */
static void *serve(void *arg)
{
    (void)arg;
    for (;;) {
        uint8_t msg[2048];
        struct sockaddr_in from;
        socklen_t from_len = sizeof(from);
        ssize_t n = recvfrom(dns.fd, msg, 512, 0, (struct sockaddr *)&from, &from_len);
        if (n <= 0)
            return NULL;
        size_t len = answer(msg, (size_t)n);
        if (len > 0)
            (void)!sendto(dns.fd, msg, len, 0, (struct sockaddr *)&from, from_len);
    }
}

static void bind_udp(int fd, struct sockaddr_in *ret_sa)
{
    socklen_t len = sizeof(*ret_sa);
    *ret_sa =
        (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    assert_int_equal(bind(fd, (struct sockaddr *)ret_sa, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret_sa, &len), 0);
}

static void start_dns(void)
{
    struct sockaddr_in sa;
    dns = (struct dns){ .ttl_s = 1, .mutex = PTHREAD_MUTEX_INITIALIZER };
    dns.fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_true(dns.fd >= 0);
    bind_udp(dns.fd, &sa);
    dns.port = ntohs(sa.sin_port);
    assert_int_equal(pthread_create(&dns.thread, NULL, serve, NULL), 0);
}

static void stop_dns(void)
{
    struct sockaddr_in sa = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                              .sin_port = htons(dns.port) };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(sendto(fd, "", 0, 0, (struct sockaddr *)&sa, sizeof(sa)), 0);
    close(fd);
    pthread_join(dns.thread, NULL);
    close(dns.fd);
}

static void set_zone(struct zone *zone, struct zone value)
{
    pthread_mutex_lock(&dns.mutex);
    *zone = value;
    pthread_mutex_unlock(&dns.mutex);
}

static int query_count(void)
{
    pthread_mutex_lock(&dns.mutex);
    int count = dns.queries;
    pthread_mutex_unlock(&dns.mutex);
    return count;
}

/* ---- the owner ---- */

struct owner {
    struct prazo_resolve_watch *watch;
    int calls;
    int err;
    size_t count;
    char text[PRAZO_RESOLVE_ADDRS_MAX * PRAZO_ADDR_TEXT_MAX]; /* addresses, each with a blank */
    const char *expected; /* stops the loop when text is this; NULL: at the first call */
    bool unwatches, frees;
};

static void on_resolved(void *arg, int err, const struct prazo_addr *addrs, size_t count)
{
    struct owner *o = arg;
    o->calls++;
    o->err = err;
    o->count = count;
    if (err == PRAZO_OK) {
        o->text[0] = 0;
        for (size_t i = 0; i < count; i++) {
            char text[PRAZO_ADDR_TEXT_MAX];
            prazo_addr_format(&addrs[i], text);
            strcat(strcat(o->text, text), " ");
        }
    }
    if (o->unwatches)
        prazo_resolver_unwatch(o->watch);
    if (o->frees) {
        prazo_resolver_free(resolver);
        resolver = NULL;
    }
    if (!o->expected || strcmp(o->text, o->expected) == 0)
        prazo_loop_stop(loop);
}

static void watch_host(struct owner *o, const char *host)
{
    assert_int_equal(
        prazo_resolver_watch(resolver, prazo_str_z(host), PORT, on_resolved, o, &o->watch),
        PRAZO_OK);
}

static void on_guard(struct prazo_timer *timer, int64_t now_us)
{
    (void)timer;
    (void)now_us;
    fail_msg("the resolver did not call back within 20 s");
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

static void run_until_called(struct owner *o)
{
    int calls = o->calls;
    o->expected = NULL;
    run_with(on_guard, 20000000);
    assert_int_equal(o->calls, calls + 1);
}

static void run_until_told(struct owner *o, const char *expected)
{
    o->expected = expected;
    run_with(on_guard, 20000000);
    assert_int_equal(o->err, PRAZO_OK);
}

static int setup(void **state)
{
    (void)state;
    char servers[32];
    start_dns();
    assert_int_equal(prazo_loop_new(&loop), PRAZO_OK);
    assert_int_equal(prazo_resolver_new(loop, &resolver), PRAZO_OK);
    snprintf(servers, sizeof(servers), "127.0.0.1:%u", dns.port);
    assert_int_equal(prazo_resolver_set_servers(resolver, servers), PRAZO_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    prazo_resolver_free(resolver);
    prazo_loop_free(loop);
    stop_dns();
    return 0;
}

/* ---- tests ---- */

static const struct zone nothing = { .rcode = RCODE_OK };
static const struct zone no_such_name = { .rcode = RCODE_NXDOMAIN };
static const struct zone failing = { .rcode = RCODE_SERVFAIL };
static const struct zone silent = { .is_silent = true };

static struct zone addresses(unsigned count, unsigned first)
{
    struct zone zone = { .count = count };
    for (unsigned i = 0; i < count; i++)
        zone.last[i] = (uint8_t)(first + i);
    return zone;
}

static void test_both_families_with_the_port(void **state)
{
    (void)state;
    struct owner o = { 0 };
    set_zone(&dns.a, addresses(2, 1));
    set_zone(&dns.aaaa, addresses(1, 7));
    watch_host(&o, "orders.internal.");
    assert_int_equal(o.calls, 0); /* never inside watch() */
    run_until_told(&o, "10.0.0.1:9002 10.0.0.2:9002 [fd00::7]:9002 ");
}

static void test_one_family_only(void **state)
{
    (void)state;
    struct owner o = { 0 };
    set_zone(&dns.a, addresses(1, 1));
    set_zone(&dns.aaaa, nothing);
    watch_host(&o, "orders.internal.");
    run_until_told(&o, "10.0.0.1:9002 ");
}

static void test_a_dead_family_does_not_hold_up_the_other(void **state)
{
    (void)state;
    struct owner o = { 0 };
    set_zone(&dns.a, silent);
    set_zone(&dns.aaaa, addresses(1, 1));
    watch_host(&o, "orders.internal.");
    int64_t start_us = prazo_clock_now_us();
    run_until_told(&o, "[fd00::1]:9002 ");
    assert_in_range(prazo_clock_now_us() - start_us, 0, 900000);
}

static void test_order_and_doubles_do_not_make_news(void **state)
{
    (void)state;
    struct owner o = { 0 };
    struct zone zone = addresses(3, 1);
    set_zone(&dns.a, zone);
    watch_host(&o, "orders.internal.");
    run_until_told(&o, "10.0.0.1:9002 10.0.0.2:9002 10.0.0.3:9002 ");
    int calls = o.calls, queries = query_count();
    zone = (struct zone){ .count = 5, .last = { 3, 1, 2, 3, 1 } };
    set_zone(&dns.a, zone);
    while (query_count() < queries + 4) /* two more rounds: the first answer has been used */
        run_with(on_quiet, 20000);
    assert_int_equal(o.calls, calls);
}

static void test_more_addresses_than_the_maximum(void **state)
{
    (void)state;
    struct owner o = { 0 };
    struct zone zone = addresses(25, 1);
    set_zone(&dns.aaaa, addresses(14, 101));
    set_zone(&dns.a, zone);
    watch_host(&o, "a.b.");
    while (o.count != PRAZO_RESOLVE_ADDRS_MAX)
        run_until_called(&o);
    assert_non_null(strstr(o.text, "10.0.0.25:9002 [fd00::65]:9002 "));
    assert_non_null(strstr(o.text, "[fd00::6b]:9002 "));
    assert_null(strstr(o.text, "[fd00::6c]:9002 "));
}

/* Failure, success, partial failure, a family that goes away, total failure: one round each. */
static void test_rounds_after_each_other(void **state)
{
    (void)state;
    struct owner o = { 0 };
    set_zone(&dns.a, no_such_name);
    set_zone(&dns.aaaa, no_such_name);
    watch_host(&o, "orders.internal.");
    run_until_called(&o);
    assert_int_equal(o.err, PRAZO_E_RESOLVE);
    assert_int_equal(o.count, 0);

    set_zone(&dns.a, addresses(1, 1));
    set_zone(&dns.aaaa, addresses(1, 1));
    run_until_told(&o, "10.0.0.1:9002 [fd00::1]:9002 ");

    set_zone(&dns.a, failing);
    set_zone(&dns.aaaa, addresses(1, 2));
    run_until_told(&o, "10.0.0.1:9002 [fd00::2]:9002 ");

    set_zone(&dns.a, nothing);
    run_until_told(&o, "[fd00::2]:9002 ");

    set_zone(&dns.a, failing);
    set_zone(&dns.aaaa, failing);
    run_until_called(&o);
    assert_int_equal(o.err, PRAZO_E_RESOLVE);

    set_zone(&dns.a, failing);
    set_zone(&dns.aaaa, addresses(1, 3));
    run_until_told(&o, "[fd00::3]:9002 ");
}

static void test_a_black_hole_blocks_nothing(void **state)
{
    (void)state;
    struct owner o = { 0 }, other = { 0 };
    set_zone(&dns.a, silent);
    set_zone(&dns.aaaa, silent);
    watch_host(&o, "orders.internal.");
    watch_host(&other, "stock.internal.");
    while (query_count() < 4)
        run_with(on_quiet, 1000);
    assert_true(prazo_loop_take_lag_us(loop) < 500000);
    assert_int_equal(prazo_resolver_set_servers(resolver, "127.0.0.1"), PRAZO_E_IN_USE);
    prazo_resolver_unwatch(other.watch);
    int64_t start_us = prazo_clock_now_us();
    prazo_resolver_free(resolver);
    resolver = NULL;
    assert_true(prazo_clock_now_us() - start_us < 500000);
    run_with(on_quiet, 1000);
    assert_int_equal(o.calls + other.calls, 0);
}

static void test_nobody_answers_at_all(void **state)
{
    (void)state;
    struct owner o = { 0 };
    set_zone(&dns.a, silent);
    set_zone(&dns.aaaa, silent);
    watch_host(&o, "orders.internal.");
    run_until_called(&o);
    assert_int_equal(o.err, PRAZO_E_TIMEOUT);
}

static void test_no_name_server_there(void **state)
{
    (void)state;
    struct sockaddr_in sa;
    char servers[32];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bind_udp(fd, &sa);
    close(fd);
    snprintf(servers, sizeof(servers), "127.0.0.1:%u", ntohs(sa.sin_port));
    assert_int_equal(prazo_resolver_set_servers(resolver, servers), PRAZO_OK);
    struct owner o = { 0 };
    watch_host(&o, "orders.internal.");
    run_until_called(&o); /* ICMP errors on the way must not end the watching of c-ares' sockets */
    assert_true(o.err == PRAZO_E_RESOLVE || o.err == PRAZO_E_TIMEOUT);
    assert_int_equal(o.count, 0);
}

static void test_localhost_needs_no_name_server(void **state)
{
    (void)state;
    struct owner o = { 0 };
    set_zone(&dns.a, silent);
    set_zone(&dns.aaaa, silent);
    watch_host(&o, "localhost");
    run_until_called(&o);
    assert_int_equal(o.err, PRAZO_OK);
    assert_non_null(strstr(o.text, "127.0.0.1:9002 "));
    assert_int_equal(query_count(), 0);
}

static void test_unwatch_and_free_from_the_callback(void **state)
{
    (void)state;
    struct owner first = { .unwatches = true }, second = { .frees = true };
    set_zone(&dns.a, addresses(1, 1));
    set_zone(&dns.aaaa, silent); /* still under way when the callback runs */
    watch_host(&first, "orders.internal.");
    run_until_called(&first);
    watch_host(&second, "stock.internal.");
    run_until_called(&second);
    run_with(on_quiet, 1000);
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls, 1);
}

static void test_unwatch_before_the_first_turn(void **state)
{
    (void)state;
    struct owner o = { 0 };
    watch_host(&o, "orders.internal.");
    prazo_resolver_unwatch(o.watch);
    run_with(on_quiet, 1000);
    assert_int_equal(o.calls, 0);
    assert_int_equal(query_count(), 0);
}

static void test_bad_servers_and_null(void **state)
{
    (void)state;
    assert_int_equal(prazo_resolver_set_servers(resolver, "not an address"), PRAZO_E_INVALID);
    prazo_resolver_unwatch(NULL);
    prazo_resolver_free(NULL);
}

#define ARES_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARES_TEST(test_both_families_with_the_port),
        ARES_TEST(test_one_family_only),
        ARES_TEST(test_a_dead_family_does_not_hold_up_the_other),
        ARES_TEST(test_order_and_doubles_do_not_make_news),
        ARES_TEST(test_more_addresses_than_the_maximum),
        ARES_TEST(test_rounds_after_each_other),
        ARES_TEST(test_a_black_hole_blocks_nothing),
        ARES_TEST(test_nobody_answers_at_all),
        ARES_TEST(test_no_name_server_there),
        ARES_TEST(test_localhost_needs_no_name_server),
        ARES_TEST(test_unwatch_and_free_from_the_callback),
        ARES_TEST(test_unwatch_before_the_first_turn),
        ARES_TEST(test_bad_servers_and_null),
    };
    return cmocka_run_group_tests_name("io/ares", tests, NULL, NULL);
}
