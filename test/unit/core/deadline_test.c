/* SPDX-License-Identifier: MIT */
/* Deadlines: what the text of the headers gives, and what is left of a request. */
#include "prazo/deadline.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000)
#define S (1000 * MS)
#define HOUR (3600 * S)
#define DAY_MS (INT64_C(86400) * 1000)
#define NOW INT64_C(1760000000000) /* epoch ms */
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

typedef void (*read_cb)(struct prazo_deadline_in *in, const char *value, size_t len);

/* Reads up to two header lines with one reader. */
static struct prazo_deadline_in read_lines(read_cb read, const char *first, const char *second)
{
    struct prazo_deadline_in in;
    prazo_deadline_in_init(&in);
    read(&in, first, strlen(first));
    if (second)
        read(&in, second, strlen(second));
    return in;
}

static void instants_are_13_or_14_digits(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second;
        int64_t deadline_ms; /* 0: none */
        bool has_malformed;
    } rows[] = {
        { "1760000000000", NULL, NOW, false },
        { "99999999999999", NULL, INT64_C(99999999999999), false }, /* 14 digits: year 5138 */
        { "1000000000000", NULL, INT64_C(1000000000000), false },
        { "01760000000000", NULL, NOW, false },
        { "9999999999999", NULL, INT64_C(9999999999999), false },
        /* C002: they do not fit the grammar, so nothing can overflow */
        { "9223372036854775807", NULL, 0, true },
        { "99999999999999999999", NULL, 0, true },
        { "253402300799999", NULL, 0, true },
        /* C003: one rule for all of them */
        { "-1", NULL, 0, true },
        { "abc", NULL, 0, true },
        { "Infinity", NULL, 0, true },
        { "", NULL, 0, true },
        { "1e12", NULL, 0, true },
        { "12 34", NULL, 0, true },
        { "+1760000000000", NULL, 0, true },
        { "-1760000000000", NULL, 0, true },
        { "176000000000 0", NULL, 0, true },
        { "1760000000000ms", NULL, 0, true },
        { "0x19a0000000000", NULL, 0, true },
        { "1760000000.000", NULL, 0, true },
        { "5000", NULL, 0, true },          /* a duration under this name */
        { "999999999999", NULL, 0, true },  /* 12 digits: not 1970 */
        { "0000000005000", NULL, 0, true }, /* the same in disguise */
        { "0000000000000", NULL, 0, true },
        { "00000000000000", NULL, 0, true },
        /* repeated or joined: the smallest well-formed one */
        { "1760000000500", "1760000000000", NOW, false },
        { "1760000000000", "1760000000500", NOW, false },
        { "1760000000500,1760000000000", NULL, NOW, false },
        { "1760000000500 ,\t1760000000000", NULL, NOW, false },
        { "1760000000000, 5000", NULL, NOW, true },
        { "abc", "1760000000000", NOW, true },
        { "1760000000000,", NULL, NOW, true },
        { ",", NULL, 0, true },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_deadline_in in =
            read_lines(prazo_deadline_read_instant, rows[i].first, rows[i].second);
        if (in.deadline_ms != rows[i].deadline_ms || in.has_malformed != rows[i].has_malformed)
            fail_msg("row %zu \"%s\": %" PRId64 " malformed %d", i, rows[i].first, in.deadline_ms,
                     in.has_malformed);
        assert_int_equal(in.duration_us, -1);
        assert_int_equal(in.sent_ms, 0);
    }
}

static void text_with_nul_or_high_bytes_is_malformed(void **state)
{
    (void)state;
    /* The last one has a full-width 1. */
    static const char values[][14] = { "176000000000\0",
                                       "176000000000\xb2",
                                       "176000000000\n",
                                       { (char)0xef, (char)0xbc, (char)0x91, '7', '6', '0', '0',
                                         '0', '0', '0', '0', '0', '0' } };
    for (size_t i = 0; i < COUNT(values); i++) {
        struct prazo_deadline_in in;
        prazo_deadline_in_init(&in);
        prazo_deadline_read_instant(&in, values[i], 13);
        assert_true(in.has_malformed);
        assert_int_equal(in.deadline_ms, 0);
    }
    struct prazo_deadline_in in;
    prazo_deadline_in_init(&in);
    prazo_deadline_read_instant(&in, NULL, 0);
    assert_true(in.has_malformed);
}

static void malformed_sent_is_absent(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second;
        int64_t sent_ms;
    } rows[] = {
        { "1760000000000", NULL, NOW },
        { "1760000000000", "1759999999999", NOW - 1 },
        { "abc", NULL, 0 },
        { "", NULL, 0 },
        { "5000", NULL, 0 },
        { "x, 1760000000000", NULL, NOW },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_deadline_in in =
            read_lines(prazo_deadline_read_sent, rows[i].first, rows[i].second);
        assert_int_equal(in.sent_ms, rows[i].sent_ms);
        assert_false(in.has_malformed); /* a hint is never a reason to refuse */
    }
}

static void durations_by_their_grammar(void **state)
{
    (void)state;
    static const struct {
        read_cb read;
        const char *first, *second;
        int64_t duration_us; /* -1: none */
        bool has_malformed;
    } rows[] = {
        { prazo_deadline_read_grpc, "1H", NULL, HOUR, false },
        { prazo_deadline_read_grpc, "2M", NULL, 120 * S, false },
        { prazo_deadline_read_grpc, "3S", NULL, 3 * S, false },
        { prazo_deadline_read_grpc, "250m", NULL, 250 * MS, false },
        { prazo_deadline_read_grpc, "7u", NULL, 7, false },
        { prazo_deadline_read_grpc, "2000n", NULL, 2, false },
        { prazo_deadline_read_grpc, "1n", NULL, 1, false }, /* positive stays positive */
        { prazo_deadline_read_grpc, "0n", NULL, 0, false },
        { prazo_deadline_read_grpc, "0S", NULL, 0, false },
        { prazo_deadline_read_grpc, "99999999H", NULL, INT64_C(99999999) * HOUR, false }, /* C002 */
        { prazo_deadline_read_grpc, "999999999m", NULL, -1, true },
        { prazo_deadline_read_grpc, "1", NULL, -1, true },
        { prazo_deadline_read_grpc, "S", NULL, -1, true },
        { prazo_deadline_read_grpc, "1s", NULL, -1, true },
        { prazo_deadline_read_grpc, "1h", NULL, -1, true },
        { prazo_deadline_read_grpc, "-1S", NULL, -1, true },
        { prazo_deadline_read_grpc, "1 S", NULL, -1, true },
        { prazo_deadline_read_grpc, "1.5S", NULL, -1, true },
        { prazo_deadline_read_grpc, "", NULL, -1, true },
        { prazo_deadline_read_grpc, "3S", "2S", 2 * S, false },
        { prazo_deadline_read_grpc, "2S,3S", NULL, 2 * S, false },
        { prazo_deadline_read_grpc, "2S", "nonsense", 2 * S, true },
        { prazo_deadline_read_duration_ms, "0", NULL, 0, false },
        { prazo_deadline_read_duration_ms, "1", NULL, 1 * MS, false },
        { prazo_deadline_read_duration_ms, "999999999", NULL, INT64_C(999999999) * MS, false },
        { prazo_deadline_read_duration_ms, "1000000000", NULL, -1, true },
        { prazo_deadline_read_duration_ms, "-1", NULL, -1, true },
        { prazo_deadline_read_duration_ms, "+1", NULL, -1, true },
        { prazo_deadline_read_duration_ms, "", NULL, -1, true },
        { prazo_deadline_read_duration_ms, "1e3", NULL, -1, true },
        { prazo_deadline_read_duration_ms, "15000, 200", NULL, 200 * MS, false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_deadline_in in = read_lines(rows[i].read, rows[i].first, rows[i].second);
        if (in.duration_us != rows[i].duration_us || in.has_malformed != rows[i].has_malformed)
            fail_msg("row %zu \"%s\": %" PRId64 " malformed %d", i, rows[i].first, in.duration_us,
                     in.has_malformed);
        assert_int_equal(in.deadline_ms, 0);
    }
}

/* Times relative to NOW; NONE: not given. */
#define NONE INT64_MIN

struct resolve_row {
    const char *what;
    int64_t deadline_in_ms, sent_in_ms, duration_us, waited_us;
    int64_t left_us;
    bool is_skewed, is_given, needs_waited;
};

/* default 1.5 s, max 2 s, skew 5 s */
static const struct resolve_row resolve_rows[] = {
    { "nothing given", NONE, NONE, -1, 0, 1500 * MS, false, false, false },
    { "C004 shorter than the cap", 1000, NONE, -1, 0, 1 * S, false, true, false },
    { "C004 longer than the cap", 60000, NONE, -1, 0, 2 * S, false, true, false },
    { "exactly now", 0, NONE, -1, 0, 0, false, true, false },
    { "C001 50 ms ago", -50, NONE, -1, 0, -50 * MS, false, true, false },
    { "past by the skew", -5000, NONE, -1, 0, -5 * S, false, true, false },
    { "past by more", -5001, NONE, -1, 0, -5001 * MS, true, true, false },
    { "C001 400 days ago", -400 * DAY_MS, NONE, -1, 0, -400 * (DAY_MS * MS), true, true, false },
    { "C001 400 days ahead", 400 * DAY_MS, NONE, -1, 0, 2 * S, true, true, false },
    { "a day ahead", DAY_MS, NONE, -1, 0, 2 * S, false, true, false },

    { "clocks agree", 1000, -3, -1, 0, 1 * S, false, true, false },
    { "C090 sender 2 ms ahead", 1002, 2, -1, 0, 1000 * MS, false, true, false },
    { "agree, sender had less than we see", 1200, 200, -1, 0, 1000 * MS, false, true, false },
    { "agree, far ahead", 400 * DAY_MS, 0, -1, 0, 2 * S, false, true, false },
    { "agree, expired", -10, -20, -1, 0, -10 * MS, false, true, false },
    { "sent at its own deadline", 500, 500, -1, 0, 0, false, true, false },
    { "sent later than the deadline is absent", 1000, 1001, -1, 0, 1 * S, false, true, false },
    { "sent alone is absent", NONE, -100000, -1, 0, 1500 * MS, false, false, false },

    { "C001 slow clock", -400 * DAY_MS + 800, -400 * DAY_MS, -1, 0, 800 * MS, true, true, true },
    { "fast clock", 10 * DAY_MS + 800, 10 * DAY_MS, -1, 0, 800 * MS, true, true, true },
    { "skewed, minus the wait", -99200, -100000, -1, 300 * MS, 500 * MS, true, true, true },
    { "skewed and expired by the wait", -99200, -100000, -1, 900 * MS, -100 * MS, true, true,
      true },
    { "skewed and capped", -40000, -100000, -1, 0, 2 * S, true, true, true },
    { "apart by the skew", 1000, -5000, -1, 0, 1 * S, false, true, false },
    { "apart by one more", 1000, -5001, -1, 0, 2 * S, true, true, true },
    { "apart by the skew, ahead", 6000, 5000, -1, 0, 1 * S, false, true, false },
    { "apart by one more, ahead", 6001, 5001, -1, 0, 1 * S, true, true, true },
    { "unread for long: the clocks agree", 1000, -8000, -1, 7 * S, 1 * S, false, true, true },
    { "unread for long and expired", -10, -8000, -1, 7 * S, -10 * MS, false, true, true },
    { "waited is not asked for, so not used", 500, -1000, -1, 60 * S, 500 * MS, false, true,
      false },
    { "negative wait", -99200, -100000, -1, -5 * S, 800 * MS, true, true, true },

    { "duration alone", NONE, NONE, 700 * MS, 0, 700 * MS, false, true, false },
    { "duration over the cap", NONE, NONE, 3600 * S, 0, 2 * S, false, true, false },
    { "C002 duration without end", NONE, NONE, INT64_MAX, 0, 2 * S, false, true, false },
    { "duration 0", NONE, NONE, 0, 0, 0, false, true, false },
    { "duration shorter", 1000, NONE, 700 * MS, 0, 700 * MS, false, true, false },
    { "instant shorter", 300, NONE, 700 * MS, 0, 300 * MS, false, true, false },
    { "duration and skew", -99000, -100000, 400 * MS, 0, 400 * MS, true, true, true },
    { "expired whatever the duration", -50, NONE, 700 * MS, 0, -50 * MS, false, true, false },
};

static void left_is_the_least_of_all(void **state)
{
    (void)state;
    const struct prazo_deadline_policy policy = { .default_us = 1500 * MS,
                                                  .max_us = 2 * S,
                                                  .skew_us = 5 * S };
    for (size_t i = 0; i < COUNT(resolve_rows); i++) {
        const struct resolve_row *row = &resolve_rows[i];
        struct prazo_deadline_in in;
        prazo_deadline_in_init(&in);
        in.deadline_ms = row->deadline_in_ms == NONE ? 0 : NOW + row->deadline_in_ms;
        in.sent_ms = row->sent_in_ms == NONE ? 0 : NOW + row->sent_in_ms;
        in.duration_us = row->duration_us;
        struct prazo_deadline_out out = prazo_deadline_resolve(&in, &policy, NOW, row->waited_us);
        if (out.left_us != row->left_us || out.is_skewed != row->is_skewed ||
            out.is_given != row->is_given ||
            prazo_deadline_needs_waited(&in, &policy, NOW) != row->needs_waited)
            fail_msg("%s: left %" PRId64 " skewed %d given %d", row->what, out.left_us,
                     out.is_skewed, out.is_given);
    }
}

static void default_never_exceeds_the_maximum(void **state)
{
    (void)state;
    const struct prazo_deadline_policy policy = { .default_us = 9 * S, .max_us = 2 * S };
    struct prazo_deadline_in in;
    prazo_deadline_in_init(&in);
    assert_int_equal(prazo_deadline_resolve(&in, &policy, NOW, 0).left_us, 2 * S);
}

/* C094: thirty days with the cap off are thirty days, and not a day's plausibility either. */
static void long_deadlines_are_not_cut(void **state)
{
    (void)state;
    const struct prazo_deadline_policy policy = { .default_us = 10 * S,
                                                  .max_us = INT64_MAX,
                                                  .skew_us = 5 * S };
    static const int64_t ahead_ms[] = { INT32_MAX, INT64_C(1) << 31, (INT64_C(1) << 32) + 5000,
                                        30 * DAY_MS };
    for (size_t i = 0; i < COUNT(ahead_ms); i++) {
        struct prazo_deadline_in in;
        prazo_deadline_in_init(&in);
        in.deadline_ms = NOW + ahead_ms[i];
        struct prazo_deadline_out out = prazo_deadline_resolve(&in, &policy, NOW, 0);
        assert_int_equal(out.left_us, ahead_ms[i] * MS);
        assert_false(out.is_skewed);
        prazo_deadline_in_init(&in);
        in.duration_us = ahead_ms[i] * MS;
        assert_int_equal(prazo_deadline_resolve(&in, &policy, NOW, 0).left_us, ahead_ms[i] * MS);
    }
}

/* C002: whatever stands in the fields, nothing wraps. */
static void extremes_do_not_wrap(void **state)
{
    (void)state;
    static const int64_t extremes[] = { INT64_MIN, INT64_MIN + 1, -1,       0, 1,
                                        NOW,       INT64_MAX - 1, INT64_MAX };
    const struct prazo_deadline_policy policy = { .default_us = 1 * S,
                                                  .max_us = 2 * S,
                                                  .skew_us = INT64_MAX };
    struct prazo_deadline_policy tight = policy;
    tight.skew_us = 0;
    for (size_t d = 0; d < COUNT(extremes); d++)
        for (size_t s = 0; s < COUNT(extremes); s++)
            for (size_t n = 0; n < COUNT(extremes); n++)
                for (size_t w = 0; w < COUNT(extremes); w++) {
                    struct prazo_deadline_in in = { extremes[d], extremes[s], -1, false };
                    const struct prazo_deadline_policy *p = w % 2 ? &policy : &tight;
                    int64_t left = prazo_deadline_resolve(&in, p, extremes[n], extremes[w]).left_us;
                    assert_true(left <= p->max_us);
                    if (extremes[d] == INT64_MAX && extremes[n] <= NOW && extremes[s] <= 0)
                        assert_int_equal(left, p->max_us); /* far ahead is never "expired" */
                }
}

static void margin_is_a_twentieth_within_bounds(void **state)
{
    (void)state;
    static const struct {
        int64_t left_us, fixed_us, margin_us;
    } rows[] = {
        { 10 * S, 0, 150 * MS },  { 3 * S, 0, 150 * MS },       { 2999 * MS, 0, 149950 },
        { 1 * S, 0, 50 * MS },    { 20 * MS, 0, 1 * MS },       { 1 * MS, 0, 1 * MS },
        { 0, 0, 1 * MS },         { -5 * S, 0, 1 * MS },        { INT64_MAX, 0, 150 * MS },
        { INT64_MIN, 0, 1 * MS }, { 10 * S, 30 * MS, 30 * MS }, { 10 * S, 1, 1 },
        { 1 * MS, 1 * S, 1 * S },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(prazo_deadline_margin_us(rows[i].left_us, rows[i].fixed_us),
                         rows[i].margin_us);
}

static void grpc_is_written_rounded_down_but_never_zero(void **state)
{
    (void)state;
    static const struct {
        int64_t left_us;
        const char *text;
    } rows[] = {
        { 1, "1u" },
        { 999, "999u" },
        { 800 * MS, "800000u" },
        { 99999999, "99999999u" },
        { 100000000, "100000m" },
        { 100000999, "100000m" },
        { 99999999 * MS + 999, "99999999m" },
        { 100000000 * MS, "100000S" },
        { 30 * DAY_MS * MS, "2592000S" },
        { INT64_C(99999999) * S, "99999999S" },
        { INT64_C(100000000) * S, "1666666M" },
        { INT64_C(100000000) * 60 * S, "1666666H" },
        { INT64_C(99999999) * HOUR, "99999999H" },
        { INT64_MAX, "99999999H" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[9];
        size_t len = prazo_deadline_format_grpc(text, rows[i].left_us);
        assert_int_equal(len, strlen(rows[i].text));
        assert_memory_equal(text, rows[i].text, len);

        struct prazo_deadline_in in;
        prazo_deadline_in_init(&in);
        prazo_deadline_read_grpc(&in, text, len);
        assert_false(in.has_malformed);
        assert_true(in.duration_us > 0 && in.duration_us <= rows[i].left_us);
    }
}

static void instants_saturate(void **state)
{
    (void)state;
    assert_int_equal(prazo_instant_add(1, 2), 3);
    assert_int_equal(prazo_instant_add(-5, 2), -3);
    assert_int_equal(prazo_instant_add(0, INT64_MAX), INT64_MAX);
    assert_int_equal(prazo_instant_add(1, INT64_MAX), INT64_MAX);
    assert_int_equal(prazo_instant_add(INT64_MAX, 0), INT64_MAX);
    assert_int_equal(prazo_instant_add(INT64_MAX, INT64_MAX), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instants_are_13_or_14_digits),
        cmocka_unit_test(text_with_nul_or_high_bytes_is_malformed),
        cmocka_unit_test(malformed_sent_is_absent),
        cmocka_unit_test(durations_by_their_grammar),
        cmocka_unit_test(left_is_the_least_of_all),
        cmocka_unit_test(default_never_exceeds_the_maximum),
        cmocka_unit_test(long_deadlines_are_not_cut),
        cmocka_unit_test(extremes_do_not_wrap),
        cmocka_unit_test(margin_is_a_twentieth_within_bounds),
        cmocka_unit_test(grpc_is_written_rounded_down_but_never_zero),
        cmocka_unit_test(instants_saturate),
    };
    return cmocka_run_group_tests_name("core/deadline", tests, NULL, NULL);
}
