/* SPDX-License-Identifier: MIT */
/* What a configuration text becomes: every key into its field, defaults, short forms, inheritance,
 * ${…}, and back to text. Messages are tested byte for byte in test/golden. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "config/config.h"
#include "config/table.h"

static const char smallest[] = "listen: 127.0.0.1:8080\nupstream: 127.0.0.1:9001\n";

/* Every key with a value that is not its default. */
static const char everything[] =
    "name: shop\n"
    "listen:\n"
    "  - { name: edge, address: '127.0.0.1:8080', trust: [10.0.0.0/8, '::1'], half_close: wait }\n"
    "  - { address: 'unix:/run/prazo.sock', trust: all }\n"
    "admin: { address: '127.0.0.1:9902' }\n"
    "probe: ':9903'\n"
    "threads: 3\n"
    "log: { level: warn, requests: all, format: text, query: on }\n"
    "deadline: { default: 2s, max: 20s, margin: 30ms, skew: 1s, malformed: reject }\n"
    "limits: { headers: 16KiB, uri: 4KiB, body: 8MiB, replay_body: 0B, answer_buffer: 128KiB,\n"
    "          connections: 77, header_time: 3s, idle: 30s }\n"
    "shutdown: { delay: 0s, drain: 5s }\n"
    "problems: { base_url: 'https://shop.example/problems/' }\n"
    "upstreams:\n"
    "  orders:\n"
    "    servers: ['127.0.0.1:9001', 'unix:/run/orders.sock', { address: 'orders.internal:9002' "
    "}]\n"
    "    host: orders.example\n"
    "    connections: { max: 64, idle: 8, idle_timeout: 3s }\n"
    "    connect_timeout: 100ms\n"
    "    attempt_timeout: 1500ms\n"
    "    read_timeout: 700ms\n"
    "    abandon_wait: 4s\n"
    "    finish_timeout: 30s\n"
    "    clock: foreign\n"
    "    on_abandon: drain\n"
    "    eject: { after: 2, for: 3s, most: 25% }\n"
    "  stock: 127.0.0.1:9005\n"
    "routes:\n"
    "  - path: /orders/*\n"
    "    methods: [post, PUT]\n"
    "    host: shop.example\n"
    "    listen: edge\n"
    "    upstream: orders\n"
    "    deadline: { default: 800ms, max: 3s, covers: head }\n"
    "    stream: { idle: 6s, max: 2h }\n"
    "    on_abandon: finish\n"
    "    upgrade: [WebSocket, h2c]\n"
    "  - { path: /stock, upstream: stock, deadline: 1s }\n"
    "  - { path: /stock, upstream: stock, listen: listen-2 }\n";

static struct prazo_config *load(const char *text)
{
    struct prazo_config *config = NULL;
    struct prazo_buf diag;
    prazo_buf_init(&diag, 1 << 20);
    int err = prazo_config_load_text("t.yaml", prazo_str_z(text), &diag, &config);
    if (err)
        print_error("%.*s", PRAZO_STR_ARG(prazo_buf_str(&diag)));
    assert_int_equal(err, PRAZO_OK);
    prazo_buf_done(&diag);
    return config;
}

/* Loads what must fail; the only message must be `expected`. */
static void refuse_n(const char *text, size_t len, const char *expected)
{
    struct prazo_config *config = NULL;
    struct prazo_buf diag;
    prazo_buf_init(&diag, 1 << 20);
    int err = prazo_config_load_text("t.yaml", prazo_str_n(text, len), &diag, &config);
    assert_int_equal(err, PRAZO_E_INVALID);
    assert_null(config);
    assert_int_equal(prazo_buf_add(&diag, "", 1), PRAZO_OK);
    assert_string_equal(diag.base, expected);
    prazo_buf_done(&diag);
}

static void refuse(const char *text, const char *expected)
{
    refuse_n(text, strlen(text), expected);
}

static void test_smallest_file_has_the_defaults(void **state)
{
    struct prazo_config *c = load(smallest);
    (void)state;
    assert_int_equal(c->listener_count, 1);
    assert_string_equal(c->listeners[0].name, "default");
    assert_string_equal(c->listeners[0].address, "127.0.0.1:8080");
    assert_int_equal(c->listeners[0].trust, PRAZO_TRUST_LIST);
    assert_int_equal(c->listeners[0].cidr_count, 2);
    assert_true(c->listeners[0].trusts_unix);
    assert_false(c->listeners[0].half_close_waits);
    assert_string_equal(c->admin_address, "127.0.0.1:9901");
    assert_true(c->admin_is_default);
    assert_null(c->probe_address);
    assert_in_range(c->threads, 1, 4);
    assert_int_equal(c->log_level, PRAZO_LOG_INFO);
    assert_int_equal(c->log_requests, PRAZO_LOG_REQUESTS_ERRORS);
    assert_int_equal(c->deadline_default_us, 10000000);
    assert_int_equal(c->deadline_max_us, 10000000);
    assert_int_equal(c->margin_us, 0);
    assert_int_equal(c->limit_uri, 8192);
    assert_true(c->limit_body == PRAZO_CONFIG_NONE);
    assert_null(c->problems_base_url);
    assert_int_equal(c->upstream_count, 1);
    assert_string_equal(c->upstreams[0].name, "default");
    assert_int_equal(c->upstreams[0].server_count, 1);
    assert_true(c->upstreams[0].connections_max == PRAZO_CONFIG_NONE);
    assert_int_equal(c->upstreams[0].eject.after, 5);
    assert_int_equal(c->route_count, 1);
    assert_string_equal(c->routes[0].label, "*");
    assert_string_equal(c->routes[0].path, "*");
    assert_int_equal(c->routes[0].deadline_max_us, 10000000);
    assert_int_equal(c->routes[0].stream_max_us, 3600000000);
    assert_false(c->routes[0].needs_clean_path);
    prazo_config_unref(c);
}

static void check_process(const struct prazo_config *c)
{
    assert_string_equal(c->name, "shop");
    assert_int_equal(c->listener_count, 2);
    assert_string_equal(c->listeners[0].name, "edge");
    assert_int_equal(c->listeners[0].cidr_count, 2);
    assert_false(c->listeners[0].trusts_unix);
    assert_true(c->listeners[0].half_close_waits);
    assert_string_equal(c->listeners[1].name, "listen-2");
    assert_int_equal(c->listeners[1].trust, PRAZO_TRUST_ALL);
    assert_true(c->listeners[1].trusts_unix);
    assert_string_equal(c->admin_address, "127.0.0.1:9902");
    assert_false(c->admin_is_default);
    assert_string_equal(c->probe_address, ":9903");
    assert_int_equal(c->threads, 3);
    assert_int_equal(c->log_level, PRAZO_LOG_WARN);
    assert_int_equal(c->log_requests, PRAZO_LOG_REQUESTS_ALL);
    assert_int_equal(c->log_format, PRAZO_LOG_TEXT);
    assert_true(c->log_query);
    assert_int_equal(c->deadline_default_us, 2000000);
    assert_int_equal(c->deadline_max_us, 20000000);
    assert_int_equal(c->margin_us, 30000);
    assert_int_equal(c->skew_us, 1000000);
    assert_true(c->rejects_malformed);
    assert_int_equal(c->limit_headers, 16384);
    assert_int_equal(c->limit_uri, 4096);
    assert_int_equal(c->limit_body, 8388608);
    assert_int_equal(c->limit_replay_body, 0);
    assert_int_equal(c->limit_answer_buffer, 131072);
    assert_int_equal(c->limit_connections, 77);
    assert_int_equal(c->limit_header_time_us, 3000000);
    assert_int_equal(c->limit_idle_us, 30000000);
    assert_int_equal(c->shutdown_delay_us, 0);
    assert_int_equal(c->shutdown_drain_us, 5000000);
    assert_string_equal(c->problems_base_url, "https://shop.example/problems/");
}

static void check_upstream(const struct prazo_config_upstream *u)
{
    assert_string_equal(u->name, "orders");
    assert_int_equal(u->server_count, 3);
    assert_false(u->servers[0].is_name);
    assert_false(u->servers[1].is_name);
    assert_true(u->servers[2].is_name);
    assert_string_equal(u->servers[2].host, "orders.internal");
    assert_int_equal(u->servers[2].port, 9002);
    assert_int_equal(u->host_mode, PRAZO_HOST_NAME);
    assert_string_equal(u->host_name, "orders.example");
    assert_int_equal(u->connections_max, 64);
    assert_int_equal(u->connections_idle, 8);
    assert_int_equal(u->idle_timeout_us, 3000000);
    assert_int_equal(u->connect_timeout_us, 100000);
    assert_int_equal(u->attempt_timeout_us, 1500000);
    assert_int_equal(u->read_timeout_us, 700000);
    assert_int_equal(u->abandon_wait_us, 4000000);
    assert_int_equal(u->finish_timeout_us, 30000000);
    assert_true(u->is_foreign);
    assert_int_equal(u->on_abandon, PRAZO_ABANDON_DRAIN);
    assert_int_equal(u->eject.after, 2);
    assert_int_equal(u->eject.for_us, 3000000);
    assert_int_equal(u->eject.most_percent, 25);
}

static void check_routes(const struct prazo_config_route *r)
{
    assert_string_equal(r[0].label, "POST,PUT shop.example/orders/*");
    assert_string_equal(r[0].path, "/orders/*");
    assert_int_equal(r[0].method_count, 2);
    assert_string_equal(r[0].methods[0], "POST");
    assert_string_equal(r[0].listen, "edge");
    assert_int_equal(r[0].upstream_index, 0);
    assert_int_equal(r[0].deadline_default_us, 800000);
    assert_int_equal(r[0].deadline_max_us, 3000000);
    assert_true(r[0].covers_head);
    assert_int_equal(r[0].stream_idle_us, 6000000);
    assert_int_equal(r[0].stream_max_us, 7200000000);
    assert_true(r[0].has_on_abandon);
    assert_int_equal(r[0].on_abandon, PRAZO_ABANDON_FINISH);
    assert_int_equal(r[0].upgrade_count, 2);
    assert_string_equal(r[0].upgrades[0], "websocket");
    assert_true(r[0].needs_clean_path);
    assert_string_equal(r[1].label, "/stock");
    assert_int_equal(r[1].upstream_index, 1);
    assert_int_equal(r[1].deadline_default_us, 1000000);
    assert_int_equal(r[1].deadline_max_us, 1000000);
    assert_false(r[1].has_on_abandon);
    assert_string_equal(r[2].label, "/stock #2");
    assert_int_equal(r[2].deadline_default_us, 2000000);
    assert_int_equal(r[2].deadline_max_us, 20000000);
}

static void test_every_key_reaches_its_field(void **state)
{
    struct prazo_config *c = load(everything);
    (void)state;
    check_process(c);
    assert_int_equal(c->upstream_count, 2);
    check_upstream(&c->upstreams[0]);
    assert_int_equal(c->route_count, 3);
    check_routes(c->routes);
    prazo_config_unref(c);
}

/* The row's own name must stand in the text, so that no key goes untested here. */
static void test_every_key_is_in_the_test(void **state)
{
    (void)state;
    for (size_t i = 0; i < prazo_key_count; i++) {
        const char *path = prazo_keys[i].path, *dot = strrchr(path, '.');
        const char *name = dot ? dot + 1 : path;
        if (strpbrk(name, "[*") || prazo_keys[i].type == PRAZO_KEY_SINGLE)
            continue;
        char wanted[64];
        snprintf(wanted, sizeof(wanted), "%s:", name);
        if (!strstr(everything, wanted))
            fail_msg("%s is not tested", path);
    }
}

static void test_short_forms(void **state)
{
    struct prazo_config *c =
        load("listen: [127.0.0.1:1, { address: '127.0.0.1:2', trust: 10.0.0.0/8 }]\n"
             "deadline: 2s\n"
             "admin: none\n"
             "upstreams: { a: 127.0.0.1:9001, b: ['127.0.0.1:9002', '127.0.0.1:9003'] }\n"
             "routes:\n"
             "  - { path: /a, methods: get, upstream: a, upgrade: websocket }\n"
             "  - { upstream: b, deadline: { max: 1s } }\n");
    (void)state;
    assert_int_equal(c->listener_count, 2);
    assert_int_equal(c->listeners[1].cidr_count, 1);
    assert_null(c->admin_address);
    assert_false(c->admin_is_default);
    assert_int_equal(c->deadline_default_us, 2000000);
    assert_int_equal(c->deadline_max_us, 2000000);
    assert_int_equal(c->upstreams[1].server_count, 2);
    assert_string_equal(c->routes[0].methods[0], "GET");
    assert_int_equal(c->routes[0].upgrade_count, 1);
    assert_int_equal(c->routes[1].deadline_default_us, 1000000);
    assert_int_equal(c->routes[1].deadline_max_us, 1000000);
    prazo_config_unref(c);
}

static char *written(const struct prazo_config *config)
{
    struct prazo_buf out;
    prazo_buf_init(&out, 1 << 20);
    assert_int_equal(prazo_config_write(config, &out), PRAZO_OK);
    assert_int_equal(prazo_buf_add(&out, "", 1), PRAZO_OK);
    return out.base;
}

static void test_effective_configuration_reads_back(void **state)
{
    static const char *const texts[] = {
        smallest,
        everything,
        "listen: { address: 'unix:/tmp/a b\"\\\\$${x}', trust: none }\n"
        "upstreams: { '1.5': '[::1]:80', true: ':81' }\n"
        "name: 'a: \"b\" \xc3\xa9'\n"
        "routes: [{ upstream: true }, { path: '/%2f*', upstream: '1.5' }]\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct prazo_config *first = load(texts[i]);
        char *once = written(first);
        struct prazo_config *second = load(once);
        char *twice = written(second);
        assert_string_equal(once, twice);
        assert_string_equal(first->listeners[0].address, second->listeners[0].address);
        assert_true(first->listeners[0].trusts_unix == second->listeners[0].trusts_unix);
        assert_string_equal(first->name, second->name);
        prazo_mem_free(once);
        prazo_mem_free(twice);
        prazo_config_unref(first);
        prazo_config_unref(second);
    }
}

static void test_expansion(void **state)
{
    char path[] = "/tmp/prazo-config-XXXXXX";
    int fd = mkstemp(path);
    char text[512];

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "s3cret\n", 7), 7);
    close(fd);
    setenv("PRAZO_TEST_PORT", "9001", 1);
    snprintf(text, sizeof(text),
             "listen: 127.0.0.1:8080\n"
             "upstream: 127.0.0.1:${PRAZO_TEST_PORT}\n"
             "name: a-${file:%s}-$${x}-$5\n",
             path);
    struct prazo_config *c = load(text);
    assert_string_equal(c->name, "a-s3cret-${x}-$5");
    assert_string_equal(c->upstreams[0].servers[0].address, "127.0.0.1:9001");
    char *out = written(c);
    assert_null(strstr(out, "s3cret"));
    assert_non_null(strstr(out, "servers:\n      - address: 127.0.0.1:9001\n"));
    struct prazo_config *again = load(out);
    assert_string_equal(again->name, c->name);
    prazo_mem_free(out);
    prazo_config_unref(again);
    prazo_config_unref(c);
    unlink(path);
}

static void test_expansion_refuses(void **state)
{
    (void)state;
    unsetenv("PRAZO_TEST_UNSET");
    setenv("PRAZO_TEST_SECRET", "hunter2", 1);
#define WITH(value) "listen: 127.0.0.1:8080\nupstream: 127.0.0.1:9001\nthreads: " value "\n"
    refuse(WITH("${PRAZO_TEST_UNSET}"),
           "t.yaml:3:10: error: ${PRAZO_TEST_UNSET} is not set in the environment\n");
    refuse(WITH("${PRAZO_TEST_SECRET}"),
           "t.yaml:3:10: error: threads: *** is not a number; expected such as 32\n");
    refuse(WITH("'${'"), "t.yaml:3:10: error: a ${ without its }; for the text itself write $${\n");
    refuse(WITH("${A-b}"), "t.yaml:3:10: error: \"A-b\" is not the name of a variable; expected "
                           "${NAME} or ${file:PATH}\n");
    refuse(WITH("${file:/}"), "t.yaml:3:10: error: ${file:…}: \"/\": not a regular file\n");
    refuse(WITH("${file:/dev/zero}"),
           "t.yaml:3:10: error: ${file:…}: \"/dev/zero\": not a regular file\n");
    refuse(WITH("${file:/nowhere/x}"),
           "t.yaml:3:10: error: ${file:…}: \"/nowhere/x\": No such file or directory\n");
#undef WITH
}

static void test_yaml_bounds(void **state)
{
    static char laughs[4096], deep[4096], large[(1 << 20) + 2];
    size_t at = 0;

    (void)state;
    at += (size_t)snprintf(laughs, sizeof(laughs), "a: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 10; i++)
        at += (size_t)snprintf(laughs + at, sizeof(laughs) - at,
                               "b%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i, i - 1, i - 1,
                               i - 1, i - 1, i - 1, i - 1);
    refuse(laughs, "t.yaml:6:14: error: too many values; aliases count as what they stand for\n");

    memset(deep, '[', 1000);
    refuse(deep, "t.yaml:1:17: error: nested too deeply\n");
    memset(large, '#', sizeof(large) - 1);
    refuse(large, "t.yaml:1:1: error: larger than 1MiB\n");
    refuse("a: &x [*x]\n", "t.yaml:1:8: error: an alias to something that contains it\n");
    refuse("a: *x\n", "t.yaml:1:4: error: an alias without its anchor before it\n");
    refuse("a: !!str x\n", "t.yaml:1:4: error: a tag (!) has no meaning here\n");
    refuse("[a]: x\n", "t.yaml:1:1: error: a map or list cannot be a key\n");
    refuse("a: 1\n---\nb: 1\n",
           "t.yaml:2:1: error: a second document; one file is one configuration\n");
    refuse("a: 1\nb: \xc3\xa9\xff\n", "t.yaml:2:5: error: not valid UTF-8\n");
    refuse_n("a: \0", 4, "t.yaml:1:4: error: a NUL byte; expected UTF-8 text\n");
    refuse("a: \x01\n", "t.yaml:1:4: error: YAML: control characters are not allowed\n");
    refuse("- a\n", "t.yaml:1:1: error: expected a map, such as 'listen: 127.0.0.1:8080'\n");
}

static void test_aliases_and_marks_are_fine(void **state)
{
    struct prazo_config *c = load("\xef\xbb\xbflisten: 127.0.0.1:8080\n"
                                  "upstreams:\n"
                                  "  a: &u { servers: 127.0.0.1:9001, connect_timeout: 1s }\n"
                                  "  b: *u\n"
                                  "routes: [{ path: /a, upstream: a }, { upstream: b }]\n");
    (void)state;
    assert_int_equal(c->upstreams[0].connect_timeout_us, 1000000);
    assert_int_equal(c->upstreams[1].connect_timeout_us, 1000000);
    assert_string_equal(c->upstreams[1].servers[0].address, "127.0.0.1:9001");
    prazo_config_unref(c);
}

static void test_pair(void **state)
{
    struct prazo_config *config = NULL;
    struct prazo_buf diag;

    (void)state;
    prazo_buf_init(&diag, 4096);
    assert_int_equal(prazo_config_load_pair("127.0.0.1:0", "app.internal:80", &diag, &config), 0);
    assert_string_equal(config->source, "command line");
    assert_string_equal(config->upstreams[0].servers[0].host, "app.internal");
    assert_int_equal(diag.len, 0);
    prazo_config_unref(prazo_config_ref(config));
    prazo_config_unref(config);
    config = NULL;
    assert_int_equal(prazo_config_load_pair("x", "${HOME}", &diag, &config), PRAZO_E_INVALID);
    assert_null(config);
    assert_non_null(memmem(diag.base, diag.len, "command line: error: listen: \"x\"", 32));
    assert_non_null(memmem(diag.base, diag.len, "error: upstream: \"${HOME}\" is not", 33));
    prazo_buf_done(&diag);
    prazo_config_unref(NULL);
}

static void test_files(void **state)
{
    struct prazo_config *config = NULL;
    struct prazo_buf diag;

    (void)state;
    prazo_buf_init(&diag, 4096);
    assert_int_equal(prazo_config_load_file("/nowhere/x", &diag, &config), PRAZO_E_NOT_FOUND);
    assert_int_equal(prazo_config_load_file("/dev", &diag, &config), PRAZO_E_IO);
    assert_int_equal(prazo_config_load_file("/dev/zero", &diag, &config), PRAZO_E_INVALID);
    assert_null(config);
    assert_int_equal(prazo_buf_add(&diag, "", 1), PRAZO_OK);
    assert_string_equal(diag.base, "/nowhere/x: error: cannot be read: No such file or directory\n"
                                   "/dev: error: cannot be read: Is a directory\n"
                                   "/dev/zero:1:1: error: larger than 1MiB\n");
    prazo_buf_done(&diag);
}

/* A full diagnostics buffer must not turn a bad file into a good one. */
static void test_messages_are_bounded(void **state)
{
    static char text[1 << 16];
    struct prazo_config *config = NULL;
    struct prazo_buf diag;
    size_t at = 0;

    (void)state;
    for (int i = 0; i < 500; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "unknown%d: 1\n", i);
    prazo_buf_init(&diag, 64);
    assert_int_equal(prazo_config_load_text("t", prazo_str_z(text), &diag, &config),
                     PRAZO_E_INVALID);
    prazo_buf_done(&diag);
    prazo_buf_init(&diag, 1 << 20);
    assert_int_equal(prazo_config_load_text("t", prazo_str_z(text), &diag, &config),
                     PRAZO_E_INVALID);
    /* 500 unknown keys, listen and upstream missing; 100 are shown. */
    assert_non_null(memmem(diag.base, diag.len, "t: 402 more not shown\n", 22));
    prazo_buf_done(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest_file_has_the_defaults),
        cmocka_unit_test(test_every_key_reaches_its_field),
        cmocka_unit_test(test_every_key_is_in_the_test),
        cmocka_unit_test(test_short_forms),
        cmocka_unit_test(test_effective_configuration_reads_back),
        cmocka_unit_test(test_expansion),
        cmocka_unit_test(test_expansion_refuses),
        cmocka_unit_test(test_yaml_bounds),
        cmocka_unit_test(test_aliases_and_marks_are_fine),
        cmocka_unit_test(test_pair),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_messages_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
