/* SPDX-License-Identifier: MIT */
/* Bodies: each row is read whole and in every split into two, and has to come out the same. */
#include "http/h1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TRAILER_BYTES_MAX 64

static struct prazo_header headers[PRAZO_HEADERS_MAX];

struct result {
    enum prazo_h1_event last; /* MORE, END or BAD */
    size_t used;              /* bytes of the input that belong to the message */
    char data[256];
    size_t len;
    char trailers[256]; /* "name=value;" of each */
};

static void add_data(struct result *r, struct prazo_str piece)
{
    assert_true(piece.len > 0 && r->len + piece.len < sizeof(r->data));
    memcpy(r->data + r->len, piece.base, piece.len);
    r->len += piece.len;
}

static void add_trailers(struct result *r, const struct prazo_h1_piece *piece)
{
    size_t at = 0;
    for (size_t i = 0; i < piece->trailer_count; i++)
        at += (size_t)snprintf(r->trailers + at, sizeof(r->trailers) - at, "%.*s=%.*s;",
                               PRAZO_STR_ARG(piece->trailers[i].name),
                               PRAZO_STR_ARG(piece->trailers[i].value));
}

/* Feeds input in two parts as a connection does: what is not used comes again with what follows. */
static struct result run(enum prazo_body_kind kind, int64_t length, const char *input, size_t len,
                         size_t cut)
{
    struct prazo_h1_body body;
    struct result r = { .last = PRAZO_H1_MORE };
    char bytes[256];

    assert_true(len < sizeof(bytes));
    memcpy(bytes, input, len);
    prazo_h1_body_init(&body, kind, length, TRAILER_BYTES_MAX);
    for (size_t end = cut;; end = len) {
        do {
            struct prazo_h1_piece piece;
            r.last = prazo_h1_body_next(&body, bytes + r.used, end - r.used, headers, &piece);
            assert_true(piece.consumed <= end - r.used);
            r.used += piece.consumed;
            if (r.last == PRAZO_H1_DATA)
                add_data(&r, piece.data);
            if (r.last == PRAZO_H1_END)
                add_trailers(&r, &piece);
        } while (r.last == PRAZO_H1_DATA);
        if (r.last != PRAZO_H1_MORE || end == len)
            break;
    }
    assert_int_equal(prazo_h1_body_eof(&body), r.last == PRAZO_H1_END || kind == PRAZO_BODY_TO_EOF);
    return r;
}

static const struct {
    enum prazo_body_kind kind;
    int64_t length;
    const char *input;
    enum prazo_h1_event last;
    size_t used; /* not looked at for BAD */
    const char *data, *trailers;
} rows[] = {
    { PRAZO_BODY_NONE, 0, "GET /", PRAZO_H1_END, 0, "", "" },
    { PRAZO_BODY_LENGTH, 0, "GET /", PRAZO_H1_END, 0, "", "" },
    { PRAZO_BODY_LENGTH, 5, "hello", PRAZO_H1_END, 5, "hello", "" },
    { PRAZO_BODY_LENGTH, 5, "helloGET /", PRAZO_H1_END, 5, "hello", "" },
    { PRAZO_BODY_LENGTH, 5, "hell", PRAZO_H1_MORE, 4, "hell", "" },
    { PRAZO_BODY_LENGTH, 5, "", PRAZO_H1_MORE, 0, "", "" },
    { PRAZO_BODY_LENGTH, INT64_MAX, "hello", PRAZO_H1_MORE, 5, "hello", "" },
    { PRAZO_BODY_TO_EOF, -1, "hello\r\n0\r\n\r\n", PRAZO_H1_MORE, 12, "hello\r\n0\r\n\r\n", "" },

    { PRAZO_BODY_CHUNKED, -1, "0\r\n\r\n", PRAZO_H1_END, 5, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "5\r\nhello\r\n0\r\n\r\n", PRAZO_H1_END, 15, "hello", "" },
    { PRAZO_BODY_CHUNKED, -1, "5\r\nhello\r\n0\r\n\r\nGET /b", PRAZO_H1_END, 15, "hello", "" },
    { PRAZO_BODY_CHUNKED, -1, "a\r\n0123456789\r\nA\r\n0123456789\r\n000\r\n\r\n", PRAZO_H1_END, 37,
      "01234567890123456789", "" },
    { PRAZO_BODY_CHUNKED, -1, "0000000000000005\r\nhello\r\n0\r\n\r\n", PRAZO_H1_END, 30, "hello",
      "" },
    { PRAZO_BODY_CHUNKED, -1, "5;a=b;c=\"d e\"\t\r\nhello\r\n0;x\r\n\r\n", PRAZO_H1_END, 30,
      "hello", "" },
    { PRAZO_BODY_CHUNKED, -1, "2\r\n\r\n\r\n0\r\n\r\n", PRAZO_H1_END, 12, "\r\n", "" },
    { PRAZO_BODY_CHUNKED, -1, "0\r\nX-Sum: 9\r\n\r\n", PRAZO_H1_END, 15, "", "x-sum=9;" },
    { PRAZO_BODY_CHUNKED, -1, "1\r\na\r\n0\r\nX:\r\nY: \tz \r\n\r\nHTTP", PRAZO_H1_END, 23, "a",
      "x=;y=z;" },
    { PRAZO_BODY_CHUNKED, -1, "5\r\nhello\r\n0\r\n\r", PRAZO_H1_MORE, 13, "hello", "" },
    { PRAZO_BODY_CHUNKED, -1, "5\r\nhello\r\n0\r\n", PRAZO_H1_MORE, 13, "hello", "" },
    { PRAZO_BODY_CHUNKED, -1, "5\r\nhello\r\n", PRAZO_H1_MORE, 10, "hello", "" },
    { PRAZO_BODY_CHUNKED, -1, "5\r\nhel", PRAZO_H1_MORE, 6, "hel", "" },
    { PRAZO_BODY_CHUNKED, -1, "7fffffffffffff\r\nhel", PRAZO_H1_MORE, 19, "hel", "" },

    /* decorated sizes (C065) */
    { PRAZO_BODY_CHUNKED, -1, "0x5\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "+5\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "-0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "\t5\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, " 5\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "5 \r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "5 ;a\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "0_5\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, ";a\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "5g\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "00000000000000005\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "8000000000000000\r\nhello", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "ffffffffffffffff\r\nhello", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "10000000000000005\r\nhello", PRAZO_H1_BAD, 0, "", "" },

    /* line ends (C064) */
    { PRAZO_BODY_CHUNKED, -1, "5\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "5;a=\nb\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "5;a=\rb\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "5;a=\x01\r\nhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "5\rhello\r\n0\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "5\r\nhello\n0\r\n\r\n", PRAZO_H1_BAD, 0, "hello", "" },
    { PRAZO_BODY_CHUNKED, -1, "5\r\nhello0\r\n\r\n", PRAZO_H1_BAD, 0, "hello", "" },
    { PRAZO_BODY_CHUNKED, -1, "5\r\nhello\r0\r\n\r\n", PRAZO_H1_BAD, 0, "hello", "" },
    { PRAZO_BODY_CHUNKED, -1, "0\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "0\r\n\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "0\r\nX: a\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "0\r\nX: a\r\n\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "0\r\nX: a\rb\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },

    /* trailers are fields, with the same rules */
    { PRAZO_BODY_CHUNKED, -1, "0\r\nX : a\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "0\r\n X: a\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "0\r\nX: a\r\n b\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "0\r\n: a\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1, "0\r\nnone\r\n\r\n", PRAZO_H1_BAD, 0, "", "" },
    { PRAZO_BODY_CHUNKED, -1,
      "0\r\nX: 0123456789012345678901234567890123456789012345678901234567890\r\n\r\n", PRAZO_H1_BAD,
      0, "", "" },
};

static void bodies_come_out_the_same_in_any_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t len = strlen(rows[i].input);
        for (size_t cut = 0; cut <= len; cut++) {
            struct result r = run(rows[i].kind, rows[i].length, rows[i].input, len, cut);
            if (r.last != rows[i].last || (r.last != PRAZO_H1_BAD && r.used != rows[i].used) ||
                !prazo_str_eq(prazo_str_n(r.data, r.len), prazo_str_z(rows[i].data)) ||
                strcmp(r.trailers, rows[i].trailers) != 0)
                fail_msg("row %zu cut at %zu: event %d, %zu used, \"%.*s\", %s", i, cut, r.last,
                         r.used, (int)r.len, r.data, r.trailers);
        }
    }
}

/* Whoever sends nothing but extensions does not keep us busy for ever. */
static void extensions_are_bounded(void **state)
{
    (void)state;
    static char chunk[1024];
    struct prazo_h1_body body;
    struct prazo_h1_piece piece;
    size_t total = 0;
    enum prazo_h1_event event = PRAZO_H1_DATA;
    chunk[0] = '1';
    chunk[1] = ';';
    memset(chunk + 2, 'x', sizeof(chunk) - 7);
    memcpy(chunk + sizeof(chunk) - 5, "\r\nd\r\n", 5);
    prazo_h1_body_init(&body, PRAZO_BODY_CHUNKED, -1, TRAILER_BYTES_MAX);
    while (event == PRAZO_H1_DATA && total < 1u << 20) {
        size_t used = 0;
        do {
            event = prazo_h1_body_next(&body, chunk + used, sizeof(chunk) - used, headers, &piece);
            used += piece.consumed;
            total += piece.consumed;
        } while (event == PRAZO_H1_DATA && used < sizeof(chunk) - 2);
        while (event == PRAZO_H1_DATA && used < sizeof(chunk)) {
            event = prazo_h1_body_next(&body, chunk + used, sizeof(chunk) - used, headers, &piece);
            used += piece.consumed;
            event = event == PRAZO_H1_MORE ? PRAZO_H1_DATA : event;
        }
    }
    assert_int_equal(event, PRAZO_H1_BAD);
    assert_true(total <= 32768);
}

/* Trailers that go on without an end are refused when they pass the bound, not when they end. */
static void unfinished_trailers_are_bounded(void **state)
{
    (void)state;
    char bytes[TRAILER_BYTES_MAX + 8] = "X: ";
    struct prazo_h1_body body;
    struct prazo_h1_piece piece;
    char last[] = "0\r\n";
    memset(bytes + 3, 'x', sizeof(bytes) - 3);
    prazo_h1_body_init(&body, PRAZO_BODY_CHUNKED, -1, TRAILER_BYTES_MAX);
    assert_int_equal(prazo_h1_body_next(&body, last, 3, headers, &piece), PRAZO_H1_MORE);
    assert_int_equal(piece.consumed, 3);
    for (size_t len = 1; len <= TRAILER_BYTES_MAX; len++) {
        assert_int_equal(prazo_h1_body_next(&body, bytes, len, headers, &piece), PRAZO_H1_MORE);
        assert_int_equal(piece.consumed, 0);
    }
    assert_int_equal(prazo_h1_body_next(&body, bytes, TRAILER_BYTES_MAX + 1, headers, &piece),
                     PRAZO_H1_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_come_out_the_same_in_any_split),
        cmocka_unit_test(extensions_are_bounded),
        cmocka_unit_test(unfinished_trailers_are_bounded),
    };
    return cmocka_run_group_tests_name("http/h1_body", tests, NULL, NULL);
}
