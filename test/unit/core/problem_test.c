/* SPDX-License-Identifier: MIT */
/* Problem details: the table, the judgement, the document (C060). That docs/problems.md agrees with
 * them is problem_doc_test.c. */
#include "core/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "prazo/err.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void names_and_statuses_are_the_contracts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum prazo_problem problem;
        int status;
    } rows[] = {
        { "deadline-exceeded", PRAZO_PROBLEM_DEADLINE_EXCEEDED, 504 },
        { "upstream-timeout", PRAZO_PROBLEM_UPSTREAM_TIMEOUT, 504 },
        { "upstream-unreachable", PRAZO_PROBLEM_UPSTREAM_UNREACHABLE, 502 },
        { "upstream-reset", PRAZO_PROBLEM_UPSTREAM_RESET, 502 },
        { "upstream-invalid-response", PRAZO_PROBLEM_UPSTREAM_INVALID_RESPONSE, 502 },
        { "overloaded", PRAZO_PROBLEM_OVERLOADED, 503 },
        { "draining", PRAZO_PROBLEM_DRAINING, 503 },
        { "bad-request", PRAZO_PROBLEM_BAD_REQUEST, 400 },
        { "uri-too-long", PRAZO_PROBLEM_URI_TOO_LONG, 414 },
        { "header-too-large", PRAZO_PROBLEM_HEADER_TOO_LARGE, 431 },
        { "body-too-large", PRAZO_PROBLEM_BODY_TOO_LARGE, 413 },
        { "request-timeout", PRAZO_PROBLEM_REQUEST_TIMEOUT, 408 },
        { "expectation-failed", PRAZO_PROBLEM_EXPECTATION_FAILED, 417 },
        { "not-implemented", PRAZO_PROBLEM_NOT_IMPLEMENTED, 501 },
        { "version-not-supported", PRAZO_PROBLEM_VERSION_NOT_SUPPORTED, 505 },
        { "no-route", PRAZO_PROBLEM_NO_ROUTE, 404 },
        { "method-not-allowed", PRAZO_PROBLEM_METHOD_NOT_ALLOWED, 405 },
        { "loop-detected", PRAZO_PROBLEM_LOOP_DETECTED, 508 },
        { "internal", PRAZO_PROBLEM_INTERNAL, 500 },
    };
    assert_int_equal(COUNT(rows), PRAZO_PROBLEM_COUNT - 1);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_string_equal(prazo_problem_name(rows[i].problem), rows[i].name);
        assert_int_equal(prazo_problem_status(rows[i].problem), rows[i].status);
        assert_int_equal(prazo_problem_by_name(prazo_str_z(rows[i].name)), rows[i].problem);
        assert_true(prazo_problem_title(rows[i].problem)[0] != '\0');
    }
}

static void unknown_names_are_no_problem(void **state)
{
    (void)state;
    static const char *const names[] = {
        "", "none", "internal ", "intern", "Internal", "internals"
    };
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(prazo_problem_by_name(prazo_str_z(names[i])), PRAZO_PROBLEM_NONE);
    assert_int_equal(prazo_problem_by_name((struct prazo_str){ NULL, 0 }), PRAZO_PROBLEM_NONE);
}

#define OUT_NONE PRAZO_OUTCOME_NONE
#define OUT_UNKNOWN PRAZO_OUTCOME_UNKNOWN
#define SAME PRAZO_RETRY_SAME_KEY
#define FIX PRAZO_RETRY_AFTER_FIX
#define NO PRAZO_RETRY_NO
#define SAFE PRAZO_METHOD_SAFE
#define IDEM PRAZO_METHOD_IDEMPOTENT
#define UNSAFE PRAZO_METHOD_UNSAFE

static const struct {
    enum prazo_problem problem;
    struct prazo_problem_facts facts; /* method, was_sent, is_keyed */
    enum prazo_outcome outcome;
    enum prazo_retry_advice retry;
} judgements[] = {
    { PRAZO_PROBLEM_DEADLINE_EXCEEDED, { UNSAFE, false, false }, OUT_NONE, SAME },
    { PRAZO_PROBLEM_DEADLINE_EXCEEDED, { UNSAFE, true, false }, OUT_UNKNOWN, NO },
    { PRAZO_PROBLEM_DEADLINE_EXCEEDED, { UNSAFE, true, true }, OUT_UNKNOWN, SAME },
    { PRAZO_PROBLEM_DEADLINE_EXCEEDED, { IDEM, true, false }, OUT_UNKNOWN, SAME },
    { PRAZO_PROBLEM_DEADLINE_EXCEEDED, { SAFE, true, false }, OUT_NONE, SAME },
    { PRAZO_PROBLEM_UPSTREAM_TIMEOUT, { UNSAFE, true, false }, OUT_UNKNOWN, NO },
    { PRAZO_PROBLEM_UPSTREAM_TIMEOUT, { SAFE, true, false }, OUT_NONE, SAME },
    { PRAZO_PROBLEM_UPSTREAM_UNREACHABLE, { UNSAFE, false, false }, OUT_NONE, SAME },
    { PRAZO_PROBLEM_UPSTREAM_RESET, { SAFE, true, false }, OUT_NONE, SAME },
    { PRAZO_PROBLEM_UPSTREAM_RESET, { IDEM, true, false }, OUT_UNKNOWN, SAME },
    { PRAZO_PROBLEM_UPSTREAM_RESET, { UNSAFE, true, true }, OUT_UNKNOWN, SAME },
    { PRAZO_PROBLEM_UPSTREAM_RESET, { UNSAFE, true, false }, OUT_UNKNOWN, NO },
    { PRAZO_PROBLEM_UPSTREAM_INVALID_RESPONSE, { UNSAFE, true, false }, OUT_UNKNOWN, NO },
    { PRAZO_PROBLEM_INTERNAL, { UNSAFE, false, false }, OUT_NONE, SAME },
    { PRAZO_PROBLEM_INTERNAL, { UNSAFE, true, false }, OUT_UNKNOWN, NO },
    { PRAZO_PROBLEM_OVERLOADED, { UNSAFE, false, false }, OUT_NONE, SAME },
    { PRAZO_PROBLEM_DRAINING, { UNSAFE, false, false }, OUT_NONE, SAME },
    { PRAZO_PROBLEM_BAD_REQUEST, { UNSAFE, false, false }, OUT_NONE, FIX },
    { PRAZO_PROBLEM_URI_TOO_LONG, { UNSAFE, false, false }, OUT_NONE, FIX },
    { PRAZO_PROBLEM_HEADER_TOO_LARGE, { UNSAFE, false, false }, OUT_NONE, FIX },
    { PRAZO_PROBLEM_BODY_TOO_LARGE, { UNSAFE, false, false }, OUT_NONE, FIX },
    { PRAZO_PROBLEM_REQUEST_TIMEOUT, { UNSAFE, false, false }, OUT_NONE, SAME },
    { PRAZO_PROBLEM_EXPECTATION_FAILED, { UNSAFE, false, false }, OUT_NONE, FIX },
    { PRAZO_PROBLEM_NOT_IMPLEMENTED, { UNSAFE, false, false }, OUT_NONE, FIX },
    { PRAZO_PROBLEM_VERSION_NOT_SUPPORTED, { UNSAFE, false, false }, OUT_NONE, FIX },
    { PRAZO_PROBLEM_NO_ROUTE, { UNSAFE, false, false }, OUT_NONE, FIX },
    { PRAZO_PROBLEM_METHOD_NOT_ALLOWED, { UNSAFE, false, false }, OUT_NONE, FIX },
    { PRAZO_PROBLEM_LOOP_DETECTED, { UNSAFE, false, false }, OUT_NONE, NO },
    /* found out when half of the body is at the upstream already */
    { PRAZO_PROBLEM_BODY_TOO_LARGE, { UNSAFE, true, false }, OUT_UNKNOWN, FIX },
    { PRAZO_PROBLEM_BAD_REQUEST, { IDEM, true, false }, OUT_UNKNOWN, FIX },
    { PRAZO_PROBLEM_REQUEST_TIMEOUT, { UNSAFE, true, false }, OUT_UNKNOWN, NO },
    { PRAZO_PROBLEM_REQUEST_TIMEOUT, { IDEM, true, false }, OUT_UNKNOWN, SAME },
};

static void effects_are_judged_by_what_was_sent(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(judgements); i++) {
        enum prazo_outcome outcome = PRAZO_OUTCOME_COUNT;
        enum prazo_retry_advice retry = PRAZO_RETRY_COUNT;
        prazo_problem_judge(judgements[i].problem, &judgements[i].facts, &outcome, &retry);
        if (outcome != judgements[i].outcome || retry != judgements[i].retry)
            fail_msg("row %zu %s: %s / %s", i, prazo_problem_name(judgements[i].problem),
                     prazo_outcome_name(outcome), prazo_retry_advice_name(retry));
    }
}

/* Over every problem and every combination of facts. */
static void no_effect_is_never_claimed_without_reason(void **state)
{
    (void)state;
    for (int problem = 1; problem < PRAZO_PROBLEM_COUNT; problem++)
        for (unsigned bits = 0; bits < 4u * PRAZO_METHOD_CLASS_COUNT; bits++) {
            struct prazo_problem_facts facts = { (enum prazo_method_class)(bits / 4), bits & 1,
                                                 bits & 2 };
            enum prazo_outcome outcome;
            enum prazo_retry_advice retry;
            prazo_problem_judge((enum prazo_problem)problem, &facts, &outcome, &retry);
            assert_int_equal(outcome == OUT_UNKNOWN, facts.was_sent && facts.method != SAFE);
            if (outcome == OUT_UNKNOWN && retry == SAME)
                assert_true(facts.method == IDEM || facts.is_keyed);
        }
}

static const struct {
    struct prazo_problem_doc doc;
    const char *text;
} documents[] = {
    { { PRAZO_PROBLEM_DEADLINE_EXCEEDED,
        OUT_UNKNOWN,
        NO,
        { NULL, 0 },
        PRAZO_STR_INIT("abc-1.2_3~"),
        { NULL, 0 },
        { NULL, 0 },
        0 },
      "{\"type\":\"urn:prazo:problem:deadline-exceeded\",\"title\":\"The deadline has passed\","
      "\"status\":504,\"instance\":\"urn:prazo:request:abc-1.2_3~\",\"outcome\":\"unknown\","
      "\"retry\":\"no\"}" },
    { { PRAZO_PROBLEM_OVERLOADED, OUT_NONE, SAME, PRAZO_STR_INIT("https://errors.example/p/"),
        PRAZO_STR_INIT("r/1"), PRAZO_STR_INIT("The queue is full."), PRAZO_STR_INIT("queue-full"),
        1350 },
      "{\"type\":\"https://errors.example/p/overloaded\",\"title\":\"Overloaded, try again later\","
      "\"status\":503,\"detail\":\"The queue is full.\",\"instance\":\"urn:prazo:request:r%2F1\","
      "\"outcome\":\"none\",\"retry\":\"same-key\",\"reason\":\"queue-full\","
      "\"retry_after_ms\":1350}" },
    { { PRAZO_PROBLEM_HEADER_TOO_LARGE,
        OUT_NONE,
        FIX,
        { NULL, 0 },
        { NULL, 0 },
        { NULL, 0 },
        { NULL, 0 },
        -5 },
      "{\"type\":\"urn:prazo:problem:header-too-large\",\"title\":\"The request's header section "
      "is "
      "too large\",\"status\":431,\"outcome\":\"none\",\"retry\":\"after-fix\"}" },
    /* C060: quotes, control and invalid UTF-8 bytes from outside cannot break the JSON */
    { { PRAZO_PROBLEM_INTERNAL,
        OUT_NONE,
        SAME,
        PRAZO_STR_INIT("x\"y:"),
        PRAZO_STR_INIT("a\"\\\n%\xff\xc3\xa9/:"),
        { NULL, 0 },
        { NULL, 0 },
        0 },
      "{\"type\":\"x\\\"y:internal\",\"title\":\"Internal error\",\"status\":500,"
      "\"instance\":\"urn:prazo:request:a%22%5C%0A%25%FF%C3%A9%2F%3A\",\"outcome\":\"none\","
      "\"retry\":\"same-key\"}" },
};

static void documents_are_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(documents); i++) {
        struct prazo_buf buf;
        prazo_buf_init(&buf, 4096);
        assert_int_equal(prazo_buf_add_z(&buf, "before:"), PRAZO_OK);
        assert_int_equal(prazo_problem_write(&buf, &documents[i].doc), PRAZO_OK);
        struct prazo_str text = { buf.base + strlen("before:"), buf.len - strlen("before:") };
        if (!prazo_str_eq(text, prazo_str_z(documents[i].text)))
            fail_msg("%.*s", PRAZO_STR_ARG(text));
        prazo_buf_done(&buf);
    }
}

static void a_document_that_does_not_fit_leaves_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(documents); i++) {
        size_t len = strlen(documents[i].text);
        for (size_t max = 1; max < len + 1; max++) {
            struct prazo_buf buf;
            prazo_buf_init(&buf, max);
            assert_int_equal(prazo_buf_add_z(&buf, "!"), PRAZO_OK);
            assert_int_equal(prazo_problem_write(&buf, &documents[i].doc), PRAZO_E_TOO_LARGE);
            assert_int_equal(buf.len, 1);
            prazo_buf_done(&buf);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_statuses_are_the_contracts),
        cmocka_unit_test(unknown_names_are_no_problem),
        cmocka_unit_test(effects_are_judged_by_what_was_sent),
        cmocka_unit_test(no_effect_is_never_claimed_without_reason),
        cmocka_unit_test(documents_are_written),
        cmocka_unit_test(a_document_that_does_not_fit_leaves_nothing),
    };
    return cmocka_run_group_tests_name("core/problem", tests, NULL, NULL);
}
