/* SPDX-License-Identifier: MIT */
/* Addresses as text, listening and accepting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/io.h"
#include "io/sock.h"

#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_parse_and_format(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int err;
        const char *formatted; /* or the host for PRAZO_E_NOT_FOUND */
        unsigned port, ip_bytes;
    } rows[] = {
        { "127.0.0.1:80", PRAZO_OK, "127.0.0.1:80", 80, 4 },
        { "0.0.0.0:0", PRAZO_OK, "0.0.0.0:0", 0, 4 },
        { "255.255.255.255:65535", PRAZO_OK, "255.255.255.255:65535", 65535, 4 },
        { "[::1]:443", PRAZO_OK, "[::1]:443", 443, 16 },
        { "[2001:DB8:0:0:0:0:0:1]:1", PRAZO_OK, "[2001:db8::1]:1", 1, 16 },
        { ":8080", PRAZO_OK, "[::]:8080", 8080, 16 },
        { "unix:/run/a.sock", PRAZO_OK, "unix:/run/a.sock", 0, 0 },
        { "unix:/a:b c", PRAZO_OK, "unix:/a:b c", 0, 0 },
        { "localhost:9001", PRAZO_E_NOT_FOUND, "localhost", 9001, 0 },
        { "Orders-1.internal:9002", PRAZO_E_NOT_FOUND, "Orders-1.internal", 9002, 0 },
        { "my_db.svc.:1", PRAZO_E_NOT_FOUND, "my_db.svc.", 1, 0 },
        { "1a:1", PRAZO_E_NOT_FOUND, "1a", 1, 0 },
        { "", PRAZO_E_INVALID, NULL, 0, 0 },
        { ":", PRAZO_E_INVALID, NULL, 0, 0 },
        { "80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "127.0.0.1", PRAZO_E_INVALID, NULL, 0, 0 },
        { "127.0.0.1:", PRAZO_E_INVALID, NULL, 0, 0 },
        { "127.0.0.1:65536", PRAZO_E_INVALID, NULL, 0, 0 },
        { "127.0.0.1:000080", PRAZO_E_INVALID, NULL, 0, 0 },
        { "127.0.0.1:+80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "127.0.0.1:80 ", PRAZO_E_INVALID, NULL, 0, 0 },
        { "127.0.0.256:80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "127.1:80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "1.2.3.4.:80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "::1:80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "[::1:80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "[]:80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "[:80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "[127.0.0.1]:80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "[::1%lo]:80", PRAZO_E_INVALID, NULL, 0, 0 },
        { "unix:", PRAZO_E_INVALID, NULL, 0, 0 },
        { "a..b:1", PRAZO_E_INVALID, NULL, 0, 0 },
        { ".a:1", PRAZO_E_INVALID, NULL, 0, 0 },
        { "-a:1", PRAZO_E_INVALID, NULL, 0, 0 },
        { "a b:1", PRAZO_E_INVALID, NULL, 0, 0 },
        { "http://a:1", PRAZO_E_INVALID, NULL, 0, 0 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct prazo_addr addr = { 0 };
        struct prazo_str host = { 0 };
        uint16_t port = 0;
        uint8_t ip[16];
        char text[PRAZO_ADDR_TEXT_MAX];
        int err = prazo_addr_parse(prazo_str_z(rows[i].text), &addr, &host, &port);
        if (err != rows[i].err)
            fail_msg("'%s': %s, not %s", rows[i].text, prazo_err_name(err),
                     prazo_err_name(rows[i].err));
        if (err == PRAZO_OK) {
            prazo_addr_format(&addr, text);
            assert_string_equal(text, rows[i].formatted);
            assert_int_equal(prazo_addr_ip(&addr, ip), rows[i].ip_bytes);
        } else if (err == PRAZO_E_NOT_FOUND) {
            assert_true(prazo_str_eq(host, prazo_str_z(rows[i].formatted)));
            assert_int_equal(port, rows[i].port);
        } else {
            assert_true(addr.len == 0 && host.base == NULL && port == 0);
        }
    }
}

static struct prazo_addr parse(const char *text)
{
    struct prazo_addr addr;
    struct prazo_str host;
    uint16_t port;
    assert_int_equal(prazo_addr_parse(prazo_str_z(text), &addr, &host, &port), PRAZO_OK);
    return addr;
}

static void test_unix_path_length_and_nul(void **state)
{
    (void)state;
    char text[5 + 109] = "unix:";
    struct prazo_addr addr;
    char formatted[PRAZO_ADDR_TEXT_MAX];
    memset(text + 5, 'p', 108);
    struct prazo_str longest = prazo_str_n(text, 5 + 107);
    assert_int_equal(prazo_addr_parse(longest, &addr, NULL, NULL), PRAZO_OK);
    prazo_addr_format(&addr, formatted);
    assert_true(prazo_str_eq(prazo_str_z(formatted), longest));
    assert_int_equal(prazo_addr_parse(prazo_str_n(text, 5 + 108), &addr, NULL, NULL),
                     PRAZO_E_INVALID);
    assert_int_equal(prazo_addr_parse(PRAZO_STR("unix:/a\0b"), &addr, NULL, NULL), PRAZO_E_INVALID);
    assert_int_equal(prazo_addr_parse(PRAZO_STR("1.2.3.4\0:80"), &addr, NULL, NULL),
                     PRAZO_E_INVALID);
}

static void test_addr_eq(void **state)
{
    (void)state;
    struct prazo_addr a = parse("127.0.0.1:80"), b = parse("127.0.0.1:80");
    assert_true(prazo_addr_eq(&a, &b));
    b = parse("127.0.0.1:81");
    assert_false(prazo_addr_eq(&a, &b));
    b = parse("unix:/127.0.0.1:80");
    assert_false(prazo_addr_eq(&a, &b));
}

static int listen_on(const char *text, struct prazo_addr *ret_addr)
{
    struct prazo_addr addr = parse(text);
    int fd;
    assert_int_equal(prazo_listen(&addr, &fd), PRAZO_OK);
    assert_int_equal(prazo_listen_addr(fd, ret_addr), PRAZO_OK);
    return fd;
}

static int int_option(int fd, int level, int name)
{
    int value = 0;
    socklen_t len = sizeof(value);
    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void wait_readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    assert_int_equal(poll(&p, 1, 10000), 1);
}

static void test_listen_and_accept(void **state)
{
    (void)state;
    struct prazo_addr addr, peer, client_addr;
    int listener = listen_on("127.0.0.1:0", &addr);
    int other, accepted, client;
    assert_int_equal(prazo_listen(&addr, &other), PRAZO_E_IN_USE);
    assert_int_equal(prazo_accept(listener, &accepted, &peer), PRAZO_E_AGAIN);
    assert_true(fcntl(listener, F_GETFD) & FD_CLOEXEC);

    assert_int_equal(prazo__sock_connect(&addr, &client), PRAZO_OK);
    wait_readable(listener);
    assert_int_equal(prazo_accept(listener, &accepted, &peer), PRAZO_OK);
    assert_int_equal(prazo_listen_addr(client, &client_addr), PRAZO_OK);
    assert_true(prazo_addr_eq(&peer, &client_addr));
    assert_true(fcntl(accepted, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(accepted, F_GETFL) & O_NONBLOCK);
    assert_int_not_equal(int_option(accepted, IPPROTO_TCP, TCP_NODELAY), 0);
    assert_int_not_equal(int_option(client, IPPROTO_TCP, TCP_NODELAY), 0);
    assert_int_equal(prazo__sock_connect_result(client), PRAZO_OK);
    assert_false(prazo__sock_is_self_connected(client));
    close(client);
    close(accepted);
    close(listener);
    assert_int_equal(prazo_listen(&addr, &other), PRAZO_OK); /* in spite of TIME_WAIT */
    close(other);
}

static void test_any_address_takes_ipv4_and_names_it_so(void **state)
{
    (void)state;
    struct prazo_addr addr, peer;
    char text[PRAZO_ADDR_TEXT_MAX], target[PRAZO_ADDR_TEXT_MAX];
    int listener = listen_on(":0", &addr);
    prazo_addr_format(&addr, text);
    snprintf(target, sizeof(target), "127.0.0.1%s", strrchr(text, ':'));
    addr = parse(target);
    int client, accepted;
    assert_int_equal(prazo__sock_connect(&addr, &client), PRAZO_OK);
    wait_readable(listener);
    assert_int_equal(prazo_accept(listener, &accepted, &peer), PRAZO_OK);
    uint8_t ip[16];
    assert_int_equal(prazo_addr_ip(&peer, ip), 4);
    assert_memory_equal(ip, "\x7f\0\0\1", 4);
    close(client);
    close(accepted);
    close(listener);
}

static void test_address_of_another_host(void **state)
{
    (void)state;
    struct prazo_addr addr = parse("192.0.2.1:0");
    int fd;
    assert_int_equal(prazo_listen(&addr, &fd), PRAZO_E_INVALID);
}

struct unix_place {
    char dir[64], path[80], text[96];
};

static struct unix_place make_place(void)
{
    struct unix_place p;
    snprintf(p.dir, sizeof(p.dir), "/tmp/prazo-sock-XXXXXX");
    assert_non_null(mkdtemp(p.dir));
    snprintf(p.path, sizeof(p.path), "%s/s", p.dir);
    snprintf(p.text, sizeof(p.text), "unix:%s", p.path);
    return p;
}

static void remove_place(const struct unix_place *p)
{
    unlink(p->path);
    assert_int_equal(rmdir(p->dir), 0);
}

static void test_unix_socket_in_use_and_stale(void **state)
{
    (void)state;
    struct unix_place p = make_place();
    struct prazo_addr addr, peer;
    int listener = listen_on(p.text, &addr);
    int other, client, accepted;
    assert_int_equal(prazo_listen(&addr, &other), PRAZO_E_IN_USE);
    /* The probe for life has left a connection that is closed already. */
    assert_int_equal(prazo_accept(listener, &accepted, &peer), PRAZO_OK);
    close(accepted);
    close(listener);
    assert_int_equal(prazo__sock_connect(&addr, &client), PRAZO_E_REFUSED);
    assert_int_equal(prazo_listen(&addr, &listener), PRAZO_OK);

    assert_int_equal(prazo__sock_connect(&addr, &client), PRAZO_OK);
    assert_int_equal(prazo_accept(listener, &accepted, &peer), PRAZO_OK);
    char text[PRAZO_ADDR_TEXT_MAX];
    prazo_addr_format(&peer, text);
    assert_string_equal(text, "unix:");
    close(client);
    close(accepted);
    close(listener);
    remove_place(&p);
    assert_int_equal(prazo__sock_connect(&addr, &client), PRAZO_E_REFUSED);
    assert_int_equal(prazo_listen(&addr, &other), PRAZO_E_INVALID); /* no such directory */
}

static void test_a_file_in_the_way_is_not_removed(void **state)
{
    (void)state;
    struct unix_place p = make_place();
    int file = open(p.path, O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    close(file);
    struct prazo_addr addr = parse(p.text);
    int fd;
    assert_int_equal(prazo_listen(&addr, &fd), PRAZO_E_IN_USE);
    assert_int_equal(access(p.path, F_OK), 0);
    remove_place(&p);
}

static void test_self_connection_is_seen(void **state)
{
    (void)state;
    struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
    assert_true(prazo__sock_is_self_connected(fd));
    close(fd);
}

static void test_loopback(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_loopback;
    } rows[] = { { "127.0.0.1:1", true }, { "127.9.9.9:1", true },      { "[::1]:1", true },
                 { "10.0.0.1:1", false }, { "[2001:db8::1]:1", false }, { "unix:/a", false } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct prazo_addr addr = parse(rows[i].text);
        assert_int_equal(prazo__addr_is_loopback(&addr), rows[i].is_loopback);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_and_format),
        cmocka_unit_test(test_unix_path_length_and_nul),
        cmocka_unit_test(test_addr_eq),
        cmocka_unit_test(test_listen_and_accept),
        cmocka_unit_test(test_any_address_takes_ipv4_and_names_it_so),
        cmocka_unit_test(test_address_of_another_host),
        cmocka_unit_test(test_unix_socket_in_use_and_stale),
        cmocka_unit_test(test_a_file_in_the_way_is_not_removed),
        cmocka_unit_test(test_self_connection_is_seen),
        cmocka_unit_test(test_loopback),
    };
    return cmocka_run_group_tests_name("io/sock", tests, NULL, NULL);
}
