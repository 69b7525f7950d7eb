/* SPDX-License-Identifier: MIT */
/* Which page an admin request gets, from whom, in which format. */
#include "gateway/admin_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/problem.h"
#include "gateway/problems_doc.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A GET for path; host NULL: none. name and value may be NULL. */
static struct prazo_admin_plan plan(const char *path, const char *host, const char *name,
                                    const char *value, bool is_probe)
{
    struct prazo_header header = { .name = prazo_str_z(name), .value = prazo_str_z(value) };
    struct prazo_head head = { .method = PRAZO_STR("GET"), .method_id = PRAZO_METHOD_GET };
    struct prazo_admin_plan ret;
    head.path = head.target = prazo_str_z(path);
    head.authority = prazo_str_z(host);
    head.headers = &header;
    head.header_count = name ? 1 : 0;
    if (name)
        header.token = (uint8_t)prazo_hdr_find(header.name);
    prazo_admin_plan(&head, is_probe, &ret);
    return ret;
}

static void paths_have_their_page(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum admin_page admin, probe;
    } rows[] = {
        { "/healthz", ADMIN_HEALTHZ, ADMIN_HEALTHZ },
        { "/readyz", ADMIN_READYZ, ADMIN_READYZ },
        { "/metrics", ADMIN_METRICS, ADMIN_METRICS },
        { "/api/state", ADMIN_STATE, ADMIN_NO_ROUTE },
        { "/api/stream", ADMIN_STREAM, ADMIN_NO_ROUTE },
        { "/problems/", ADMIN_PROBLEMS, ADMIN_NO_ROUTE },
        { "/problems/no-route", ADMIN_PROBLEM, ADMIN_NO_ROUTE },
        { "/problems/nothing", ADMIN_NO_ROUTE, ADMIN_NO_ROUTE },
        { "/problems/no-route/", ADMIN_NO_ROUTE, ADMIN_NO_ROUTE },
        { "/problems", ADMIN_NO_ROUTE, ADMIN_NO_ROUTE },
        { "/metrics/", ADMIN_NO_ROUTE, ADMIN_NO_ROUTE },
        { "/", ADMIN_NO_ROUTE, ADMIN_NO_ROUTE },
        { "*", ADMIN_NO_ROUTE, ADMIN_NO_ROUTE },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (plan(rows[i].path, "127.0.0.1", NULL, NULL, false).page != rows[i].admin ||
            plan(rows[i].path, "127.0.0.1", NULL, NULL, true).page != rows[i].probe)
            fail_msg("%s", rows[i].path);
    }
}

static void only_get_and_head_are_known(void **state)
{
    (void)state;
    struct prazo_head head = { .path = PRAZO_STR_INIT("/healthz") };
    struct prazo_admin_plan ret;
    head.method_id = PRAZO_METHOD_HEAD;
    prazo_admin_plan(&head, false, &ret);
    assert_int_equal(ret.page, ADMIN_HEALTHZ);
    assert_true(ret.is_head);
    for (int method = PRAZO_METHOD_OTHER; method <= PRAZO_METHOD_TRACE; method++) {
        head.method_id = (enum prazo_method)method;
        prazo_admin_plan(&head, true, &ret);
        const bool is_known = method == PRAZO_METHOD_GET || method == PRAZO_METHOD_HEAD;
        assert_int_equal(ret.page, is_known ? ADMIN_HEALTHZ : ADMIN_METHOD_NOT_ALLOWED);
    }
    head.path = PRAZO_STR("/nothing");
    prazo_admin_plan(&head, false, &ret);
    assert_int_equal(ret.page, ADMIN_NO_ROUTE);
}

static void names_as_host_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool is_refused;
    } rows[] = {
        { NULL, false }, /* HTTP/1.0 */
        { "", false },
        { "127.0.0.1", false },
        { "127.0.0.1:9901", false },
        { "10.1.2.3:80", false },
        { "[::1]", false },
        { "[::1]:9901", false },
        { "[fe80::1]:1", false },
        { "localhost", false },
        { "LocalHost:9901", false },
        { "evil.example", true },
        { "evil.example:9901", true },
        { "localhost.evil.example", true },
        { "127.0.0.1.evil.example", true },
        { "127.0.0.1 ", true },
        { "127.1", true },
        { "0x7f000001", true },
        { "::1", true },
        { "[::1", true },
        { "[evil.example]", true },
        { "[]", true },
        { ":80", true },
        { "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd", true },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *host = rows[i].host ? rows[i].host : "(none)";
        const bool is_refused =
            plan("/api/state", rows[i].host, NULL, NULL, false).page == ADMIN_FORBIDDEN;
        if (is_refused != rows[i].is_refused)
            fail_msg("%s: %s", host, is_refused ? "refused" : "let in");
        /* Balancers and Prometheus come by name. */
        assert_int_equal(plan("/readyz", rows[i].host, NULL, NULL, false).page, ADMIN_READYZ);
        assert_int_equal(plan("/metrics", rows[i].host, NULL, NULL, true).page, ADMIN_METRICS);
    }
}

static void other_sites_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *host, *name, *value;
        bool is_refused;
    } rows[] = {
        { "127.0.0.1:9901", "origin", "http://127.0.0.1:9901", false },
        { "localhost:9901", "origin", "http://LOCALHOST:9901", false },
        { "127.0.0.1:9901", "origin", "https://127.0.0.1:9901", false },
        { "127.0.0.1:9901", "origin", "http://127.0.0.1:8000", true },
        { "127.0.0.1:9901", "origin", "http://127.0.0.1", true },
        { "127.0.0.1:9901", "origin", "http://127.0.0.1:9901.evil.example", true },
        { "127.0.0.1:9901", "origin", "http://localhost:9901", true },
        { "127.0.0.1:9901", "origin", "http://evil.example", true },
        { "127.0.0.1:9901", "origin", "null", true },
        { "127.0.0.1:9901", "origin", "", true },
        { "127.0.0.1:9901", "origin", "http://", true },
        { NULL, "origin", "http://evil.example", true },
        { "127.0.0.1:9901", "sec-fetch-site", "cross-site", true },
        { "127.0.0.1:9901", "sec-fetch-site", "same-site", true },
        { "127.0.0.1:9901", "sec-fetch-site", "same-origin", false },
        { "127.0.0.1:9901", "sec-fetch-site", "none", false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const enum admin_page page =
            plan("/api/state", rows[i].host, rows[i].name, rows[i].value, false).page;
        if ((page == ADMIN_FORBIDDEN) != rows[i].is_refused)
            fail_msg("%s: %s", rows[i].name, rows[i].value);
    }
}

/* A problem's type may be a link to this port. */
static void links_may_be_followed(void **state)
{
    (void)state;
    struct prazo_header headers[] = {
        { .name = PRAZO_STR_INIT("sec-fetch-site"), .value = PRAZO_STR_INIT("cross-site") },
        { .name = PRAZO_STR_INIT("sec-fetch-mode"), .value = PRAZO_STR_INIT("navigate") },
    };
    struct prazo_head head = {
        .method_id = PRAZO_METHOD_GET,
        .path = PRAZO_STR_INIT("/problems/overloaded"),
        .authority = PRAZO_STR_INIT("127.0.0.1:9901"),
        .headers = headers,
        .header_count = 2,
    };
    struct prazo_admin_plan ret;
    prazo_admin_plan(&head, false, &ret);
    assert_int_equal(ret.page, ADMIN_PROBLEM);
}

static void accept_chooses_the_format(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        bool is_open;
    } rows[] = {
        { NULL, false },
        { "", false },
        { "*/*", false },
        { "text/plain", false },
        { "application/openmetrics-text", true },
        { "Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", true },
        { "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,"
          "*/*;q=0.2",
          true },
        { "application/vnd.google.protobuf;q=0.7,application/openmetrics-text;q=0.6,"
          "text/plain;q=0.5,*/*;q=0.1",
          true },
        { "text/plain;q=0.5, application/openmetrics-text;q=0.4", false },
        { "text/*, application/openmetrics-text;q=0.999", false },
        { "application/openmetrics-text;q=0", false },
        { "application/openmetrics-text;q=0.000, */*", false },
        { "application/openmetrics-text;q=junk", true },
        { "application/openmetrics-text;q=", true },
        { ";;;,,;q=1", false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct prazo_admin_plan p =
            plan("/metrics", NULL, rows[i].accept ? "accept" : NULL, rows[i].accept, false);
        assert_int_equal(p.page, ADMIN_METRICS);
        if (p.is_open_metrics != rows[i].is_open)
            fail_msg("%s", rows[i].accept ? rows[i].accept : "(none)");
    }
}

static void request_ids_are_checked(void **state)
{
    (void)state;
    char id[130];
    memset(id, 'a', sizeof id);
    id[129] = '\0';
    assert_int_equal(plan("/", NULL, "x-request-id", id, false).request_id_len, 0);
    id[128] = '\0';
    assert_int_equal(plan("/", NULL, "x-request-id", id, false).request_id_len, 128);
    assert_int_equal(plan("/", NULL, "x-request-id", "a b", false).request_id_len, 0);
    assert_int_equal(plan("/", NULL, "x-request-id", "\x80", false).request_id_len, 0);
    assert_int_equal(plan("/", NULL, "x-request-id", "", false).request_id_len, 0);
    assert_int_equal(plan("/", NULL, "x-request-id", "abc", false).request_id_len, 3);
}

/* The page in the program has a section for each problem, and each is whole. */
static void every_problem_has_its_section(void **state)
{
    (void)state;
    for (int p = PRAZO_PROBLEM_NONE + 1; p < PRAZO_PROBLEM_COUNT; p++) {
        const char *name = prazo_problem_name((enum prazo_problem)p);
        const struct prazo_str section = prazo_problems_doc_section(prazo_str_z(name));
        char title[64];
        snprintf(title, sizeof title, "## %s\n", name);
        if (!section.base || !prazo_str_has_prefix(section, prazo_str_z(title)))
            fail_msg("%s has no section", name);
        assert_non_null(memmem(section.base, section.len, "What to do", 10));
        assert_null(memmem(section.base + 3, section.len - 3, "\n## ", 4));
    }
    assert_null(prazo_problems_doc_section(PRAZO_STR("deadline")).base);
    assert_null(prazo_problems_doc_section(PRAZO_STR("")).base);
    assert_null(prazo_problems_doc_section(PRAZO_STR("internal\n")).base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_have_their_page),
        cmocka_unit_test(only_get_and_head_are_known),
        cmocka_unit_test(names_as_host_are_refused),
        cmocka_unit_test(other_sites_are_refused),
        cmocka_unit_test(links_may_be_followed),
        cmocka_unit_test(accept_chooses_the_format),
        cmocka_unit_test(request_ids_are_checked),
        cmocka_unit_test(every_problem_has_its_section),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
