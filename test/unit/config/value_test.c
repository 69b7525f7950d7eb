/* SPDX-License-Identifier: MIT */
/* Durations, sizes and percentages as text, and what counts as a near miss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/value.h"
#include "prazo/err.h"

struct row {
    const char *text;
    int err;
    int64_t value;
};

typedef int (*parse_fn)(struct prazo_str text, int64_t *ret);

static void check_rows(parse_fn parse, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = -77;
        int err = parse(prazo_str_z(rows[i].text), &value);
        if (err != rows[i].err || value != (err ? -77 : rows[i].value))
            fail_msg("\"%s\": %s, %lld", rows[i].text, prazo_err_name(err), (long long)value);
    }
}

static void test_durations(void **state)
{
    static const struct row rows[] = {
        { "250ms", 0, 250000 },
        { "1.5s", 0, 1500000 },
        { "2m", 0, 120000000 },
        { "1h", 0, INT64_C(3600000000) },
        { "7d", 0, INT64_C(604800000000) },
        { "500us", 0, 500 },
        { "0s", 0, 0 },
        { "000001s", 0, 1000000 },
        { "0.000001s", 0, 1 },
        { "1.000000000000s", 0, 1000000 },
        { "0.0000001s", PRAZO_E_INVALID, 0 },
        { "0.5us", PRAZO_E_INVALID, 0 },
        { "1.0000000000000s", PRAZO_E_INVALID, 0 },
        { "", PRAZO_E_INVALID, 0 },
        { "5", PRAZO_E_INVALID, 0 },
        { "0", PRAZO_E_INVALID, 0 },
        { "s", PRAZO_E_INVALID, 0 },
        { ".5s", PRAZO_E_INVALID, 0 },
        { "5.s", PRAZO_E_INVALID, 0 },
        { "1.5.5s", PRAZO_E_INVALID, 0 },
        { "5 s", PRAZO_E_INVALID, 0 },
        { " 5s", PRAZO_E_INVALID, 0 },
        { "5s ", PRAZO_E_INVALID, 0 },
        { "+5s", PRAZO_E_INVALID, 0 },
        { "-5s", PRAZO_E_INVALID, 0 },
        { "5S", PRAZO_E_INVALID, 0 },
        { "5sec", PRAZO_E_INVALID, 0 },
        { "1m30s", PRAZO_E_INVALID, 0 },
        { "1e3s", PRAZO_E_INVALID, 0 },
        { "0x5s", PRAZO_E_INVALID, 0 },
        { "9223372036854775807us", 0, INT64_MAX },
        { "9223372036854775808us", PRAZO_E_TOO_LARGE, 0 },
        { "9223372036854775807s", PRAZO_E_TOO_LARGE, 0 },
        { "99999999999999999999999999h", PRAZO_E_TOO_LARGE, 0 },
    };
    (void)state;
    check_rows(prazo_duration_parse, rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_sizes(void **state)
{
    static const struct row rows[] = {
        { "100B", 0, 100 },
        { "64KiB", 0, 65536 },
        { "8MiB", 0, 8388608 },
        { "1.5MiB", 0, 1572864 },
        { "2GiB", 0, INT64_C(2147483648) },
        { "1TiB", 0, INT64_C(1099511627776) },
        { "0B", 0, 0 },
        { "0.5B", PRAZO_E_INVALID, 0 },
        { "64KB", PRAZO_E_INVALID, 0 },
        { "64k", PRAZO_E_INVALID, 0 },
        { "64kib", PRAZO_E_INVALID, 0 },
        { "100", PRAZO_E_INVALID, 0 },
        { "9000000TiB", PRAZO_E_TOO_LARGE, 0 },
    };
    (void)state;
    check_rows(prazo_size_parse, rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_percentages(void **state)
{
    static const struct row rows[] = {
        { "50%", 0, 50 },
        { "0%", 0, 0 },
        { "150%", 0, 150 },
        { "50", PRAZO_E_INVALID, 0 },
        { "0.5%", PRAZO_E_INVALID, 0 },
        { "%", PRAZO_E_INVALID, 0 },
    };
    (void)state;
    check_rows(prazo_percent_parse, rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_formats_what_it_parses(void **state)
{
    static const struct row durations[] = {
        { "0s", 0, 0 },
        { "1us", 0, 1 },
        { "1500us", 0, 1500 },
        { "500ms", 0, 500000 },
        { "90s", 0, 90000000 },
        { "1h", 0, INT64_C(3600000000) },
        { "9223372036854775807us", 0, INT64_MAX },
    };
    static const struct row sizes[] = {
        { "0B", 0, 0 },
        { "1023B", 0, 1023 },
        { "32KiB", 0, 32768 },
        { "1GiB", 0, 1 << 30 },
    };
    char text[PRAZO_VALUE_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        prazo_duration_format(text, durations[i].value);
        assert_string_equal(text, durations[i].text);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        prazo_size_format(text, sizes[i].value);
        assert_string_equal(text, sizes[i].text);
    }
    for (int64_t value = 1; value < INT64_MAX / 7; value = value * 7 + 3) {
        int64_t again = 0;
        prazo_duration_format(text, value);
        assert_int_equal(prazo_duration_parse(prazo_str_z(text), &again), 0);
        assert_true(again == value);
        prazo_size_format(text, value);
        assert_int_equal(prazo_size_parse(prazo_str_z(text), &again), 0);
        assert_true(again == value);
    }
}

static unsigned distance(const char *a, const char *b)
{
    return prazo_text_distance(prazo_str_z(a), prazo_str_z(b), 9);
}

static void test_distances(void **state)
{
    (void)state;
    assert_int_equal(distance("", ""), 0);
    assert_int_equal(distance("", "abc"), 3);
    assert_int_equal(distance("rety", "retry"), 1);
    assert_int_equal(distance("retry", "rety"), 1);
    assert_int_equal(distance("lsiten", "listen"), 1);
    assert_int_equal(distance("timeout", "timout"), 1);
    assert_int_equal(distance("Listen", "listen"), 0);
    assert_int_equal(distance("kitten", "sitting"), 3);
    assert_int_equal(distance("ca", "abc"), 3);
    assert_int_equal(prazo_text_distance(prazo_str_z("a"), prazo_str_z("abcdef"), 2), 3);
    assert_true(prazo_text_is_near(prazo_str_z("upstrams"), prazo_str_z("upstreams")));
    /* Words of four letters are all near each other. */
    assert_false(prazo_text_is_near(prazo_str_z("rate"), prazo_str_z("name")));
}

static void test_utf8(void **state)
{
    static const struct {
        const char *text;
        size_t valid;
    } rows[] = {
        { "", 0 },
        { "abc", 3 },
        { "a\xc3\xa9z", 4 },
        { "\xe2\x82\xac", 3 },
        { "\xf0\x9f\x98\x80", 4 },
        { "a\xc0\x80", 1 },         /* overlong */
        { "a\xe0\x80\x80", 1 },     /* overlong */
        { "a\xed\xa0\x80", 1 },     /* surrogate */
        { "a\xf4\x90\x80\x80", 1 }, /* beyond U+10FFFF */
        { "a\xc3", 1 },             /* cut */
        { "a\xe2\x82", 1 },
        { "a\xe2\x82z", 1 },
        { "a\x80", 1 },
        { "a\xff", 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(prazo_utf8_valid(prazo_str_z(rows[i].text)), rows[i].valid);
    assert_int_equal(prazo_utf8_valid(prazo_str_n("a\0b", 3)), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),   cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_percentages), cmocka_unit_test(test_formats_what_it_parses),
        cmocka_unit_test(test_distances),   cmocka_unit_test(test_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
