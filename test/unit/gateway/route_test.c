/* SPDX-License-Identifier: MIT */
/* Choice of the route over a snapshot made by hand: order of the file, path, method, host,
 * listener, paths that can be read in more than one way (contract 7, 13). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/route.h"
#include "http/server_internal.h"

static const char text[] = "listen: [{ name: edge, address: '127.0.0.1:1' },\n"
                           "         { name: inner, address: '127.0.0.1:2' }]\n"
                           "upstreams: { a: 127.0.0.1:3, b: 127.0.0.1:4 }\n"
                           "routes:\n"
                           "  - { path: /orders, methods: [POST], upstream: a }\n"        /* 0 */
                           "  - { path: /orders, methods: [GET, HEAD], upstream: b }\n"   /* 1 */
                           "  - { path: /orders/*, methods: [GET, POST], upstream: a }\n" /* 2 */
                           "  - { path: /inner/*, listen: inner, upstream: b }\n"         /* 3 */
                           "  - { path: /v/*, host: 'a.example', upstream: a }\n"         /* 4 */
                           "  - { path: /v/*, host: '[::1]', upstream: b }\n"             /* 5 */
                           "  - { path: /~me/*, upstream: a }\n"                          /* 6 */
                           "  - { path: /open/*, upstream: b }\n";                        /* 7 */

#define ROUTES 8
#define NONE PRAZO_PROBLEM_NONE
#define NO_ROUTE PRAZO_PROBLEM_NO_ROUTE
#define NOT_ALLOWED PRAZO_PROBLEM_METHOD_NOT_ALLOWED
#define BAD PRAZO_PROBLEM_BAD_REQUEST

struct row {
    const char *method, *path, *host;
    bool is_inner; /* came in on the listener "inner" */
    enum prazo_problem problem;
    int route;         /* -1: none */
    const char *allow; /* of a 405 */
};

static const struct row rows[] = {
    /* the first that matches, in the order of the file */
    { "POST", "/orders", "h", false, NONE, 0, NULL },
    { "HEAD", "/orders", "h", false, NONE, 1, NULL },
    { "GET", "/orders/7", "h", false, NONE, 2, NULL },
    { "GET", "/orders/", "h", false, NONE, 2, NULL },
    /* exact is exact, and a case is a case */
    { "GET", "/orders7", "h", false, NO_ROUTE, -1, NULL },
    { "GET", "/Orders", "h", false, NO_ROUTE, -1, NULL },
    { "GET", "/", "h", false, NO_ROUTE, -1, NULL },
    /* a method that no route of the path takes; each that one takes is named once */
    { "PUT", "/orders", "h", false, NOT_ALLOWED, -1, "POST, GET, HEAD" },
    { "post", "/orders", "h", false, NOT_ALLOWED, -1, "POST, GET, HEAD" },
    { "DELETE", "/orders/7", "h", false, NOT_ALLOWED, -1, "GET, POST" },
    /* listeners */
    { "GET", "/inner/x", "h", true, NONE, 3, NULL },
    { "GET", "/inner/x", "h", false, NO_ROUTE, -1, NULL },
    { "GET", "/orders/7", "h", true, NONE, 2, NULL },
    /* hosts: without port, in any case */
    { "GET", "/v/1", "a.example", false, NONE, 4, NULL },
    { "GET", "/v/1", "A.Example:8080", false, NONE, 4, NULL },
    { "GET", "/v/1", "a.example:", false, NONE, 4, NULL },
    { "GET", "/v/1", "a.example.", false, NO_ROUTE, -1, NULL },
    { "GET", "/v/1", "x.a.example", false, NO_ROUTE, -1, NULL },
    { "GET", "/v/1", "[::1]", false, NONE, 5, NULL },
    { "GET", "/v/1", "[::1]:80", false, NONE, 5, NULL },
    { "GET", "/v/1", "", false, NO_ROUTE, -1, NULL },
    { "GET", "/v/1", NULL, false, NO_ROUTE, -1, NULL }, /* HTTP/1.0 */
    { "GET", "/open/1", NULL, false, NONE, 7, NULL },
    /* unreserved characters are decoded for the match */
    { "GET", "/%7Eme/x", "h", false, NONE, 6, NULL },
    { "GET", "/%6frders/7", "h", false, NONE, 2, NULL },
    { "GET", "/orders%2f7", "h", false, NO_ROUTE, -1, NULL },
    /* ambiguous: refused where a policy hangs on the path, else matched as it stands */
    { "GET", "/orders/../x", "h", false, BAD, -1, NULL },
    { "GET", "/orders/a%2fb", "h", false, BAD, -1, NULL },
    { "GET", "/orders//7", "h", false, BAD, -1, NULL },
    { "GET", "/orders/%2e%2e/x", "h", false, BAD, -1, NULL },
    { "GET", "/open/../x", "h", false, NONE, 7, NULL },
    { "GET", "/open/a%5cb", "h", false, NONE, 7, NULL },
    /* asks about the server itself */
    { "OPTIONS", "*", "h", false, NONE, -1, NULL },
};

static struct prazo_config *config;
static struct prazo_snapshot snapshot;
static struct prazo_view view = { .snapshot = &snapshot };
static struct prazo_worker worker = { .view = &view };
/* The rest of a snapshot is only handed on: any distinct pointers will do. */
static struct prazo_upstream upstreams[2];
static struct prazo_upstream *upstream_table[2] = { &upstreams[0], &upstreams[1] };
static struct prazo_server_rt **server_tables[2];
static struct prazo_server_rt *server_table[2][1];
static struct prazo_route_series series[ROUTES];
static struct prazo_route_series *series_table[ROUTES];
static size_t sockets[] = { 0, 1 };

static int setup(void **state)
{
    struct prazo_buf diag;

    (void)state;
    prazo_buf_init(&diag, 4096);
    if (prazo_config_load_text("t.yaml", prazo_str_z(text), &diag, &config) != PRAZO_OK)
        fail_msg("%.*s", (int)diag.len, diag.base);
    prazo_buf_done(&diag);
    assert_int_equal(config->route_count, ROUTES);
    for (size_t i = 0; i < ROUTES; i++)
        series_table[i] = &series[i];
    for (size_t i = 0; i < 2; i++)
        server_tables[i] = server_table[i];
    snapshot = (struct prazo_snapshot){
        .config = config,
        .upstreams = upstream_table,
        .servers = server_tables,
        .routes = series_table,
        .socket_listeners = sockets,
        .socket_count = 2,
    };
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    prazo_config_unref(config);
    return 0;
}

static void check_taken(const struct prazo_call *call, int route)
{
    if (route < 0) {
        assert_null(call->route);
        return;
    }
    size_t upstream = config->routes[route].upstream_index;
    assert_ptr_equal(call->route, &config->routes[route]);
    assert_ptr_equal(call->series, &series[route]);
    assert_ptr_equal(call->upstream, &upstreams[upstream]);
    assert_ptr_equal(call->upstream_config, &config->upstreams[upstream]);
    assert_ptr_equal(call->servers, server_table[upstream]);
}

static void check(const struct row *row, size_t arena_bytes)
{
    struct prazo_ear ear = { .worker = &worker, .socket = row->is_inner };
    struct prazo_listener listener = { .options.listener_arg = &ear };
    struct prazo_sx sx = { .listener = &listener };
    struct prazo_call call = { .worker = &worker, .view = &view, .sx = &sx };
    struct prazo_head head = { .authority = prazo_str_z(row->host) };
    struct prazo_arena_pool pool;
    const char *detail = NULL;

    prazo_arena_pool_init(&pool, 0);
    prazo_arena_init(&call.arena, &pool, arena_bytes);
    call.method = prazo_str_z(row->method);
    call.path = prazo_str_z(row->path);
    enum prazo_problem problem = prazo_call_route(&call, &head, &detail);
    if (arena_bytes == 0 && problem == PRAZO_PROBLEM_INTERNAL) {
        assert_null(call.route);
    } else {
        if (problem != row->problem)
            fail_msg("%s %s: problem %d", row->method, row->path, (int)problem);
        check_taken(&call, row->route);
        assert_int_equal(detail != NULL, problem == NOT_ALLOWED || problem == BAD);
        if (row->allow != NULL && arena_bytes > 0)
            assert_true(prazo_str_eq(call.allow, prazo_str_z(row->allow)));
    }
    prazo_arena_reset(&call.arena);
    prazo_arena_pool_done(&pool);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check(&rows[i], 65536);
}

/* Without memory: the same route or none, and never a wrong one. */
static void test_rows_without_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check(&rows[i], 0);
}

/* The socket of a listener that a reload has removed: its open connections keep its name. */
static void test_removed_listener_keeps_its_name(void **state)
{
    struct prazo_ear ear = { .worker = &worker, .socket = 1, .name = (char[]){ "inner" } };
    struct prazo_listener listener = { .options.listener_arg = &ear };
    struct prazo_sx sx = { .listener = &listener };
    struct prazo_call call = { .worker = &worker, .view = &view, .sx = &sx };
    struct prazo_head head = { .authority = PRAZO_STR("h") };
    const char *detail = NULL;

    (void)state;
    call.method = PRAZO_STR("GET");
    call.path = PRAZO_STR("/inner/x");
    sockets[1] = SIZE_MAX;
    assert_int_equal(prazo_call_route(&call, &head, &detail), NONE);
    check_taken(&call, 3);
    sockets[1] = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_without_memory),
        cmocka_unit_test(test_removed_listener_keeps_its_name),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
