/* SPDX-License-Identifier: MIT */
/* Heads of requests and answers: what is refused and as what, and what is read out of the rest. */
#include "http/h1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define HOST "Host: h\r\n"
#define BAD PRAZO_PROBLEM_BAD_REQUEST
#define FINE PRAZO_PROBLEM_NONE

static struct prazo_header headers[PRAZO_HEADERS_MAX];
static char text[70000]; /* what is parsed: names are lower-cased in place */

static enum prazo_problem parse_n(const char *bytes, size_t len, struct prazo_head *ret_head)
{
    assert_true(len <= sizeof(text));
    memcpy(text, bytes, len);
    return prazo_h1_parse_request(text, len, headers, ret_head);
}

static enum prazo_problem parse(const char *bytes, struct prazo_head *ret_head)
{
    return parse_n(bytes, strlen(bytes), ret_head);
}

static int parse_answer(const char *bytes, bool is_head, struct prazo_head *ret_head)
{
    assert_true(strlen(bytes) <= sizeof(text));
    memcpy(text, bytes, strlen(bytes));
    return prazo_h1_parse_response(text, strlen(bytes), is_head, headers, ret_head);
}

static void assert_str(struct prazo_str have, const char *want)
{
    if (want == NULL ? have.base != NULL : !prazo_str_eq(have, prazo_str_z(want)))
        fail_msg("\"%.*s\" is not \"%s\"", PRAZO_STR_ARG(have), want ? want : "(absent)");
}

/* ---- where a head ends ---- */

static void the_end_is_found_in_any_split(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t end;
    } rows[] = {
        { "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 27 },
        { "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /b", 27 },
        { "GET / HTTP/1.1\r\n\r\n", 18 },
        { "GET / HTTP/1.1\nHost: h\n\n", 24 }, /* not waited for: it is refused */
        { "GET / HTTP/1.1\nHost: h\n\r\n", 25 },
        { "GET / HTTP/1.1\r\nHost: h\r\n\r", 0 },
        { "GET / HTTP/1.1\r\nHost: h\r\n", 0 },
        { "G", 0 },
        { "", 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t len = strlen(rows[i].bytes), scan = 0;
        assert_int_equal(prazo_h1_head_end(rows[i].bytes, len, &scan), rows[i].end);
        for (size_t cut = 1; cut < len; cut++) {
            scan = 0;
            size_t end = prazo_h1_head_end(rows[i].bytes, cut, &scan);
            if (rows[i].end > 0 && rows[i].end <= cut) {
                assert_int_equal(end, rows[i].end);
                continue;
            }
            assert_int_equal(end, 0);
            assert_int_equal(prazo_h1_head_end(rows[i].bytes, len, &scan), rows[i].end);
        }
        scan = 0;
        size_t end = 0;
        for (size_t seen = 1; seen <= len && end == 0; seen++)
            end = prazo_h1_head_end(rows[i].bytes, seen, &scan);
        assert_int_equal(end, rows[i].end);
    }
}

/* ---- requests: refused or not ---- */

static const struct {
    const char *bytes;
    enum prazo_problem problem;
} requests[] = {
    { "GET / HTTP/1.1\r\nHost: h\r\n\r\n", FINE },
    { "GET / HTTP/1.0\r\n\r\n", FINE },
    { "GET / HTTP/1.0\r\nHost: h\r\n\r\n", FINE },
    { "PATCH /a?b=c HTTP/1.1\r\nhOST:h\r\n\r\n", FINE },
    { "GET / HTTP/1.1\r\n" HOST "X-Empty:\r\nX-Blank: \t \r\n\r\n", FINE },
    { "GET / HTTP/1.1\r\n" HOST "X: a\tb \x80\xff\r\n\r\n", FINE },

    /* line ends: one documented policy, CRLF everywhere (C064) */
    { "GET / HTTP/1.1\nHost: h\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\nHost: h\n\r\n", BAD },
    { "GET / HTTP/1.1\r\nHost: h\r\n\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST "X: a\rb\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST "X: a\r\r\n\r\n", BAD },
    { "GET /\r HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST "X: a\x01"
      "b\r\n\r\n",
      BAD },
    { "GET / HTTP/1.1\r\n" HOST "X: a\x7f\r\n\r\n", BAD },

    /* field lines (C066) */
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length\t: 5\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\n Host: h\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST "X: a\r\n\tb\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST "X:\r\n b\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST ": a\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST "nocolon\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST "X(y): a\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\n" HOST "X\x80: a\r\n\r\n", BAD },

    /* Content-Length (C063) */
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n", FINE },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", FINE },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775807\r\n\r\n", FINE },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", FINE },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775808\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: -0\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 5 5\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 5_0\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 5.0\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 123456789012345678901234567890\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 6\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", BAD },

    /* Transfer-Encoding, alone and not (C062) */
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", FINE },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: CHUNKED\r\n\r\n", FINE },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\nContent-Length: 4\r\n\r\n", BAD },
    { "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", BAD },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", PRAZO_PROBLEM_NOT_IMPLEMENTED },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
      PRAZO_PROBLEM_NOT_IMPLEMENTED },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n",
      PRAZO_PROBLEM_NOT_IMPLEMENTED },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
      PRAZO_PROBLEM_NOT_IMPLEMENTED },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n",
      PRAZO_PROBLEM_NOT_IMPLEMENTED },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \"chunked\"\r\n\r\n",
      PRAZO_PROBLEM_NOT_IMPLEMENTED },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n", PRAZO_PROBLEM_NOT_IMPLEMENTED },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \x0b"
      "chunked\r\n\r\n",
      BAD },

    /* Host (C067) */
    { "GET / HTTP/1.1\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", BAD },
    { "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\nHost:\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\nHost: a\x80\r\n\r\n", BAD },
    { "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", FINE },
    { "GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n", FINE },

    /* targets */
    { "GET http://a.example/x HTTP/1.1\r\nHost: b.example\r\n\r\n", FINE },
    { "GET HTTPS://a.example/x HTTP/1.1\r\n" HOST "\r\n", FINE },
    { "GET http://u@a.example/x HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET http:///x HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET http:// HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET ftp://a.example/x HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET http:/x HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET x HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET a:80 HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET /a#b HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET /a\x80 HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET /a\x01 HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET /a b HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET /a\tb HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET  / HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET /  HTTP/1.1\r\n" HOST "\r\n", BAD },
    { " GET / HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET * HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", FINE },
    { "CONNECT a.example:443 HTTP/1.1\r\n" HOST "\r\n", FINE }, /* 405 is the owner's answer */
    { "TRACE / HTTP/1.1\r\n" HOST "\r\n", FINE },

    /* methods and versions */
    { "get / HTTP/1.1\r\n" HOST "\r\n", PRAZO_PROBLEM_NOT_IMPLEMENTED },
    { "BREW / HTTP/1.1\r\n" HOST "\r\n", PRAZO_PROBLEM_NOT_IMPLEMENTED },
    { "G(T / HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "GET / HTTP/2.0\r\n" HOST "\r\n", PRAZO_PROBLEM_VERSION_NOT_SUPPORTED },
    { "GET / HTTP/1.2\r\n" HOST "\r\n", PRAZO_PROBLEM_VERSION_NOT_SUPPORTED },
    { "GET / HTTP/0.9\r\n" HOST "\r\n", PRAZO_PROBLEM_VERSION_NOT_SUPPORTED },
    { "PRI * HTTP/2.0\r\n\r\n", PRAZO_PROBLEM_VERSION_NOT_SUPPORTED },
    { "GET / HTTP/1.1 \r\n" HOST "\r\n", BAD },
    { "GET / HTTP/11\r\n" HOST "\r\n", BAD },
    { "GET / HTTP/+1.1\r\n" HOST "\r\n", BAD },
    { "GET / http/1.1\r\n" HOST "\r\n", BAD },
    { "GET /\r\n\r\n", BAD },
    { "GET\r\n\r\n", BAD },
    { "GETGETGET /\r\n\r\n", BAD },
    { "GET HTTP/1.1\r\n" HOST "\r\n", BAD },
    { "\r\n\r\n", BAD },
    { "\x16\x03\x01\r\n\r\n", BAD },
};

static void requests_are_refused_by_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(requests); i++) {
        struct prazo_head head;
        enum prazo_problem problem = parse(requests[i].bytes, &head);
        if (problem != requests[i].problem)
            fail_msg("row %zu: %d instead of %d for\n%s", i, problem, requests[i].problem,
                     requests[i].bytes);
    }
}

static void nul_is_refused_wherever_it_stands(void **state)
{
    (void)state;
    static const char good[] = "GET /a HTTP/1.1\r\nHost: h\r\nX: abc\r\n\r\n";
    char bytes[sizeof(good)];
    struct prazo_head head;
    for (size_t at = 0; at < sizeof(good) - 5; at++) {
        memcpy(bytes, good, sizeof(good));
        bytes[at] = '\0';
        assert_int_equal(parse_n(bytes, sizeof(good) - 1, &head), BAD);
    }
}

static void too_many_lines_are_too_large(void **state)
{
    (void)state;
    static char bytes[16384];
    size_t len = (size_t)snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: h\r\n");
    for (unsigned i = 0; i < PRAZO_HEADERS_MAX; i++)
        len += (size_t)snprintf(bytes + len, sizeof(bytes) - len, "a: %u\r\n", i % 10);
    len += (size_t)snprintf(bytes + len, sizeof(bytes) - len, "\r\n");
    struct prazo_head head;
    assert_int_equal(parse_n(bytes, len, &head), PRAZO_PROBLEM_HEADER_TOO_LARGE);
}

/* ---- requests: what is read ---- */

static const struct {
    const char *bytes;
    enum prazo_method method;
    const char *target, *path, *query, *authority;
} targets[] = {
    { "GET / HTTP/1.1\r\nHost: h\r\n\r\n", PRAZO_METHOD_GET, "/", "/", NULL, "h" },
    { "HEAD /a?b HTTP/1.1\r\nHost: h:80\r\n\r\n", PRAZO_METHOD_HEAD, "/a?b", "/a", "b", "h:80" },
    { "PUT /a? HTTP/1.1\r\nHost: h\r\n\r\n", PRAZO_METHOD_PUT, "/a?", "/a", "", "h" },
    { "POST /a?b?c HTTP/1.1\r\nHost: h\r\n\r\n", PRAZO_METHOD_POST, "/a?b?c", "/a", "b?c", "h" },
    { "DELETE //x/../%2f HTTP/1.1\r\nHost: h\r\n\r\n", PRAZO_METHOD_DELETE, "//x/../%2f",
      "//x/../%2f", NULL, "h" },
    { "GET /a HTTP/1.0\r\n\r\n", PRAZO_METHOD_GET, "/a", "/a", NULL, NULL },
    { "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", PRAZO_METHOD_OPTIONS, "*", "*", NULL, "h" },
    { "GET http://a.example/x?y HTTP/1.1\r\nHost: b.example\r\n\r\n", PRAZO_METHOD_GET, "/x?y",
      "/x", "y", "a.example" },
    { "GET http://a.example HTTP/1.1\r\nHost: b\r\n\r\n", PRAZO_METHOD_GET, "/", "/", NULL,
      "a.example" },
    { "GET http://a.example:81?q HTTP/1.1\r\nHost: b\r\n\r\n", PRAZO_METHOD_GET, "/?q", "/", "q",
      "a.example:81" },
    { "GET HttpS://[::1]/ HTTP/1.1\r\nHost: b\r\n\r\n", PRAZO_METHOD_GET, "/", "/", NULL, "[::1]" },
    { "GET http://a/ HTTP/1.0\r\n\r\n", PRAZO_METHOD_GET, "/", "/", NULL, "a" },
};

static void targets_are_taken_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        struct prazo_head head;
        assert_int_equal(parse(targets[i].bytes, &head), FINE);
        assert_int_equal(head.method_id, targets[i].method);
        assert_str(head.target, targets[i].target);
        assert_str(head.path, targets[i].path);
        assert_str(head.query, targets[i].query);
        assert_str(head.authority, targets[i].authority);
    }
}

static void framing_of_requests(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        enum prazo_body_kind body;
        int64_t length;
    } rows[] = {
        { "", PRAZO_BODY_NONE, -1 }, /* no body is not an unknown length (C069) */
        { "Content-Length: 0\r\n", PRAZO_BODY_LENGTH, 0 },
        { "content-length: 007\r\n", PRAZO_BODY_LENGTH, 7 },
        { "Content-Length: 7\r\nContent-Length: 7\r\n", PRAZO_BODY_LENGTH, 7 },
        { "Transfer-Encoding: Chunked\r\n", PRAZO_BODY_CHUNKED, -1 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char bytes[256];
        struct prazo_head head;
        snprintf(bytes, sizeof(bytes), "POST / HTTP/1.1\r\n" HOST "%s\r\n", rows[i].lines);
        assert_int_equal(parse(bytes, &head), FINE);
        assert_int_equal(head.body, rows[i].body);
        assert_int_equal(head.content_length, rows[i].length);
    }
}

static void connection_lines_are_one_list(void **state)
{
    (void)state;
    static const struct {
        const char *version, *lines;
        bool is_keep_alive, has_upgrade;
        const char *named; /* names flagged PRAZO_HDRF_NAMED, comma-separated, in order */
    } rows[] = {
        { "1.1", "", true, false, "" },
        { "1.0", "", false, false, "" },
        { "1.0", "Connection: Keep-Alive\r\n", true, false, "" },
        { "1.1", "Connection: close\r\n", false, false, "" },
        { "1.1", "Connection: keep-alive\r\nConnection: Close\r\n", false, false, "" },
        { "1.0", "Connection: close, keep-alive\r\n", false, false, "" },
        { "1.1", "Connection: closed\r\n", true, false, "" },
        { "1.1", "X-Hop: 1\r\nConnection: X-HOP,keep-alive\r\nx-hop: 2\r\n", true, false,
          "x-hop,x-hop" },
        { "1.1", "Connection: a\r\nA: 1\r\nConnection:  b ,, c\r\nB: 1\r\nC: 1\r\nD: 1\r\n", true,
          false, "a,b,c" },
        { "1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n", true, true, "upgrade" },
        { "1.1", "Upgrade: websocket\r\n", true, false, "" },
        { "1.0", "Connection: Upgrade, keep-alive\r\nUpgrade: websocket\r\n", true, false,
          "upgrade" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char bytes[256], named[64] = "";
        struct prazo_head head;
        snprintf(bytes, sizeof(bytes), "GET / HTTP/%s\r\n" HOST "%s\r\n", rows[i].version,
                 rows[i].lines);
        assert_int_equal(parse(bytes, &head), FINE);
        for (size_t k = 0; k < head.header_count; k++) {
            if (!(head.headers[k].flags & PRAZO_HDRF_NAMED))
                continue;
            size_t len = strlen(named);
            snprintf(named + len, sizeof(named) - len, "%s%.*s", len ? "," : "",
                     PRAZO_STR_ARG(head.headers[k].name));
        }
        assert_string_equal(named, rows[i].named);
        assert_int_equal(head.is_keep_alive, rows[i].is_keep_alive);
        assert_int_equal(head.has_upgrade, rows[i].has_upgrade);
        assert_str(head.upgrade, rows[i].has_upgrade ? "websocket" : NULL);
    }
}

static void names_and_values_are_normal(void **state)
{
    (void)state;
    struct prazo_head head;
    assert_int_equal(
        parse("GET / HTTP/1.1\r\nHOST:h\r\nX-A!: \t v w \t\r\nX-Empty:\r\n\r\n", &head), FINE);
    assert_int_equal(head.header_count, 3);
    assert_str(head.headers[0].name, "host");
    assert_int_equal(head.headers[0].token, PRAZO_HDR_HOST);
    assert_true(head.headers[0].flags & PRAZO_HDRF_FRAMING);
    assert_str(head.headers[1].name, "x-a!");
    assert_str(head.headers[1].value, "v w");
    assert_int_equal(head.headers[1].token, PRAZO_HDR_OTHER);
    assert_str(head.headers[2].value, "");
    assert_non_null(head.headers[2].value.base);
}

static void expectations_and_te(void **state)
{
    (void)state;
    static const struct {
        const char *version, *lines;
        bool expects, other, trailers;
    } rows[] = {
        { "1.1", "", false, false, false },
        { "1.1", "Expect: 100-Continue\r\n", true, false, false },
        { "1.0", "Expect: 100-continue\r\n", false, false, false }, /* RFC 9110 §10.1.1 */
        { "1.1", "Expect: the-unexpected\r\n", false, true, false },
        { "1.1", "Expect: 100-continue, x\r\n", false, true, false },
        { "1.1", "TE: trailers\r\n", false, false, true },
        { "1.1", "TE: gzip;q=0.5 , Trailers\r\n", false, false, true },
        { "1.1", "TE: gzip\r\nTE: trailers\r\n", false, false, true },
        { "1.1", "TE: notrailers\r\n", false, false, false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char bytes[256];
        struct prazo_head head;
        snprintf(bytes, sizeof(bytes), "GET / HTTP/%s\r\n" HOST "%s\r\n", rows[i].version,
                 rows[i].lines);
        assert_int_equal(parse(bytes, &head), FINE);
        assert_int_equal(head.expects_continue, rows[i].expects);
        assert_int_equal(head.has_other_expect, rows[i].other);
        assert_int_equal(head.wants_trailers, rows[i].trailers);
    }
}

/* ---- answers ---- */

static const struct {
    const char *bytes;
    bool is_head, is_valid;
    enum prazo_body_kind body;
    int64_t length;
    bool is_keep_alive;
} answers[] = {
    { "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, true, PRAZO_BODY_LENGTH, 3, true },
    { "HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n", false, true, PRAZO_BODY_LENGTH, 3, true },
    { "HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\n", false, true, PRAZO_BODY_LENGTH, 3, true },
    { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, true, PRAZO_BODY_CHUNKED, -1,
      true },
    { "HTTP/1.1 200 OK\r\n\r\n", false, true, PRAZO_BODY_TO_EOF, -1, false },
    { "HTTP/1.0 200 OK\r\n\r\n", false, true, PRAZO_BODY_TO_EOF, -1, false },
    { "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", false, true, PRAZO_BODY_LENGTH, 3, false },
    { "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n", false, true,
      PRAZO_BODY_LENGTH, 3, true },
    { "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n", false, true,
      PRAZO_BODY_LENGTH, 3, false },
    { "HTTP/1.1 299 \xc3\xa9\r\nContent-Length: 0\r\n\r\n", false, true, PRAZO_BODY_LENGTH, 0,
      true },

    /* answers that never have a body, whatever their headers say (C071) */
    { "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", true, true, PRAZO_BODY_NONE, 1234, true },
    { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, true, PRAZO_BODY_NONE, -1,
      true },
    { "HTTP/1.1 200 OK\r\n\r\n", true, true, PRAZO_BODY_NONE, -1, true },
    { "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, true, PRAZO_BODY_NONE, 5,
      true },
    { "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", false, true, PRAZO_BODY_NONE, 5,
      true },
    { "HTTP/1.1 100 Continue\r\n\r\n", false, true, PRAZO_BODY_NONE, -1, true },
    { "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", false, true, PRAZO_BODY_NONE, -1, true },
    { "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", false, true,
      PRAZO_BODY_NONE, -1, true },

    /* the same faults as in requests */
    { "HTTP/1.1 200 OK\nContent-Length: 3\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 200 O\rK\r\nContent-Length: 3\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 200 O\x01K\r\nContent-Length: 3\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 3\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 3\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", false, false, 0, 0,
      false },
    { "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", false, false, 0,
      0, false },
    { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", false, false, 0,
      0, false },
    { "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/2.0 200 OK\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.2 200 OK\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 20 OK\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 2000 OK\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 2x0 OK\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1 099 OK\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1  200 OK\r\n\r\n", false, false, 0, 0, false },
    { "HTTP/1.1\r\nContent-Length: 3\r\n\r\n", false, false, 0, 0, false },
    { "ICY 200 OK\r\nA: b\r\n\r\n", false, false, 0, 0, false },
    { "GET / HTTP/1.1\r\nHost: h\r\n\r\n", false, false, 0, 0, false },
    { "\r\nHTTP/1.1 200 OK\r\n\r\n", false, false, 0, 0, false },
    { "\r\n\r\n", false, false, 0, 0, false },
};

static void answers_are_read_as_strictly(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        struct prazo_head head;
        int err = parse_answer(answers[i].bytes, answers[i].is_head, &head);
        if (err != (answers[i].is_valid ? PRAZO_OK : PRAZO_E_INVALID))
            fail_msg("row %zu: %d for\n%s", i, err, answers[i].bytes);
        if (err != PRAZO_OK)
            continue;
        if (head.body != answers[i].body || head.content_length != answers[i].length ||
            head.is_keep_alive != answers[i].is_keep_alive)
            fail_msg("row %zu: body %d, length %lld, keep-alive %d for\n%s", i, head.body,
                     (long long)head.content_length, head.is_keep_alive, answers[i].bytes);
    }
}

static void status_and_reason(void **state)
{
    (void)state;
    struct prazo_head head;
    assert_int_equal(parse_answer("HTTP/1.1 418 I am a teapot\r\nA: b\r\n\r\n", false, &head),
                     PRAZO_OK);
    assert_int_equal(head.status, 418);
    assert_int_equal(head.minor, 1);
    assert_str(head.reason, "I am a teapot");
    assert_int_equal(head.header_count, 1);
}

static void tokens_and_lists(void **state)
{
    (void)state;
    assert_true(prazo_h1_is_token(PRAZO_STR("!#$%&'*+-.^_`|~09azAZ")));
    assert_false(prazo_h1_is_token(PRAZO_STR("")));
    assert_false(prazo_h1_is_token(PRAZO_STR("a b")));
    assert_false(prazo_h1_is_token(PRAZO_STR("a\x80")));
    assert_true(prazo_h1_list_has(PRAZO_STR("a, Trailers ,b"), PRAZO_STR("trailers")));
    assert_false(prazo_h1_list_has(PRAZO_STR("trailersx, x"), PRAZO_STR("trailers")));
    assert_false(prazo_h1_list_has(PRAZO_STR(""), PRAZO_STR("trailers")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_is_found_in_any_split),
        cmocka_unit_test(requests_are_refused_by_the_rules),
        cmocka_unit_test(nul_is_refused_wherever_it_stands),
        cmocka_unit_test(too_many_lines_are_too_large),
        cmocka_unit_test(targets_are_taken_apart),
        cmocka_unit_test(framing_of_requests),
        cmocka_unit_test(connection_lines_are_one_list),
        cmocka_unit_test(names_and_values_are_normal),
        cmocka_unit_test(expectations_and_te),
        cmocka_unit_test(answers_are_read_as_strictly),
        cmocka_unit_test(status_and_reason),
        cmocka_unit_test(tokens_and_lists),
    };
    return cmocka_run_group_tests_name("http/h1_head", tests, NULL, NULL);
}
