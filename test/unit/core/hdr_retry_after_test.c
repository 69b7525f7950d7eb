/* SPDX-License-Identifier: MIT */
/* Retry-After in all its forms, and what looks like one. C036. */
#include "core/hdr_retry_after.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "prazo/err.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define S INT64_C(1000000)
/* Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110. */
#define NOV_1994 INT64_C(784111777)

struct row {
    const char *value;
    int64_t now_s;
    int64_t expected_us; /* -1: absent */
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t us = -1;
        int err = prazo_retry_after_parse(prazo_str_z(rows[i].value), rows[i].now_s * 1000, &us);
        if (us != rows[i].expected_us || err != (us < 0 ? PRAZO_E_INVALID : PRAZO_OK))
            fail_msg("\"%s\": %lld", rows[i].value, (long long)us);
    }
}

static void seconds_are_digits_and_nothing_else(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "3", 0, 3 * S },
        { "0", 0, 0 },
        { "0000000000000000000000003", 0, 3 * S },
        { " 3\t", 0, 3 * S }, /* blanks around a value are not part of it */
        { "86400", 0, 86400 * S },
        { "31535999", 0, PRAZO_RETRY_AFTER_MAX_US - S },
        { "31536000", 0, PRAZO_RETRY_AFTER_MAX_US },
        { "31536001", 0, PRAZO_RETRY_AFTER_MAX_US },
        { "9223372036854775808", 0, PRAZO_RETRY_AFTER_MAX_US },
        { "999999999999999999999", 0, PRAZO_RETRY_AFTER_MAX_US },
        { "-5", 0, -1 },
        { "-0", 0, -1 },
        { "3.5", 0, -1 },
        { "+3", 0, -1 },
        { "", 0, -1 },
        { " ", 0, -1 },
        { "3 s", 0, -1 },
        { "3, 3", 0, -1 },
        { "0x3", 0, -1 },
        { "soon", 0, -1 },
        { "99999999999999999999x", 0, -1 },
    };
    check_rows(rows, COUNT(rows));
}

static void all_three_date_forms_count(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "Sun, 06 Nov 1994 08:49:37 GMT", NOV_1994 - 3, 3 * S },
        { "Sunday, 06-Nov-94 08:49:37 GMT", NOV_1994 - 3, 3 * S },
        { "Sun Nov  6 08:49:37 1994", NOV_1994 - 3, 3 * S },
        { "Sun Nov 06 08:49:37 1994", NOV_1994 - 3, 3 * S },
        { "Wed Nov 16 08:49:37 1994", NOV_1994, 10 * 86400 * S },
        { "Sun, 06 Nov 1994 08:49:37 GMT", NOV_1994, 0 },
        { "Sun, 06 Nov 1994 08:49:37 GMT", NOV_1994 + 1, 0 }, /* passed: at once */
        { "Thu, 01 Jan 1970 00:00:00 GMT", 0, 0 },
        { "Thu, 01 Jan 1970 00:00:01 GMT", 0, 1 * S },
        { "Sat, 01 Jan 0000 00:00:00 GMT", 0, 0 },
        { "Fri, 31 Dec 9999 23:59:59 GMT", 0, PRAZO_RETRY_AFTER_MAX_US },
        { "Fri Dec 31 23:59:59 9999", INT64_MAX / 1000, 0 },
        { "Tue, 29 Feb 2000 00:00:00 GMT", 951782400 - 7, 7 * S },
        { "Wed, 01 Mar 2000 00:00:00 GMT", 951868800 - 7, 7 * S },
        { "Thu, 29 Feb 2024 12:00:00 GMT", 1709208000 - 7, 7 * S },
        { "Sat, 31 Dec 2016 23:59:60 GMT", 1483228799, 1 * S },   /* a leap second */
        { "Mon, 06 Nov 1994 08:49:37 GMT", NOV_1994 - 3, 3 * S }, /* the date is what counts */
    };
    check_rows(rows, COUNT(rows));
}

static void broken_dates_are_absent(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "Sun, 06 Nov 1994 08:49:37", 0, -1 },
        { "Sun, 06 Nov 1994 08:49:37 UTC", 0, -1 },
        { "Sun, 06 Nov 1994 08:49:37 GMT+1", 0, -1 },
        { "Sun, 06 Nov 1994 08:49:37 gmt", 0, -1 },
        { "sun, 06 Nov 1994 08:49:37 GMT", 0, -1 },
        { "Sun, 06 NOV 1994 08:49:37 GMT", 0, -1 },
        { "Sun, 6 Nov 1994 08:49:37 GMT", 0, -1 },
        { "Sun,  6 Nov 1994 08:49:37 GMT", 0, -1 },
        { "Sun,06 Nov 1994 08:49:37 GMT", 0, -1 },
        { "Sun, 06  Nov 1994 08:49:37 GMT", 0, -1 },
        { "Sun, 06 Nov 94 08:49:37 GMT", 0, -1 },
        { "Sun, 06-Nov-94 08:49:37 GMT", 0, -1 },
        { "Sunday, 06-Nov-1994 08:49:37 GMT", 0, -1 },
        { "Sunday, 06 Nov 1994 08:49:37 GMT", 0, -1 },
        { "Sun Nov 6 08:49:37 1994", 0, -1 },
        { "Sun Nov  6 08:49:37 -994", 0, -1 },
        { "Sun Nov  6 08:49:37 1994 GMT", 0, -1 },
        { "Sun, 00 Nov 1994 08:49:37 GMT", 0, -1 },
        { "Thu, 31 Nov 1994 08:49:37 GMT", 0, -1 },
        { "Wed, 29 Feb 2023 08:49:37 GMT", 0, -1 },
        { "Thu, 29 Feb 2100 08:49:37 GMT", 0, -1 },
        { "Sun, 06 Nov 1994 24:00:00 GMT", 0, -1 },
        { "Sun, 06 Nov 1994 08:60:37 GMT", 0, -1 },
        { "Sun, 06 Nov 1994 08:49:61 GMT", 0, -1 },
        { "1994-11-06T08:49:37Z", 0, -1 },
        { "Sun", 0, -1 },
        { "Sun, ", 0, -1 },
    };
    check_rows(rows, COUNT(rows));
}

/* RFC 9110 §5.6.7: more than 50 years ahead means the past. */
static void two_digit_years_are_at_most_50_years_ahead(void **state)
{
    (void)state;
    const int64_t jul_2026 = 1782864000; /* 1 July 2026 00:00:00 */
    const struct row rows[] = {
        { "Wednesday, 01-Jul-26 00:00:03 GMT", jul_2026, 3 * S },
        { "Tuesday, 01-Jul-25 00:00:03 GMT", jul_2026, 0 },
        { "Thursday, 01-Jul-27 00:00:00 GMT", jul_2026, 365 * 86400 * S },
        { "Wednesday, 01-Jul-76 00:00:00 GMT", jul_2026, PRAZO_RETRY_AFTER_MAX_US }, /* 2076 */
        { "Wednesday, 01-Jul-76 00:00:01 GMT", jul_2026, 0 },                        /* 1976 */
        { "Saturday, 01-Jan-00 00:00:00 GMT", jul_2026, 0 },                         /* 2000 */
        { "Friday, 31-Dec-99 23:59:59 GMT", jul_2026, 0 },                           /* 1999 */
        /* A second before the century turns, and after. */
        { "Saturday, 01-Jan-00 00:00:02 GMT", 946684799, 3 * S },
        { "Friday, 31-Dec-99 23:59:59 GMT", 946684800, 0 },
        /* 2100 is no leap year, 2000 was one. */
        { "Tuesday, 29-Feb-00 00:00:00 GMT", jul_2026, 0 },
        { "Monday, 29-Feb-00 00:00:00 GMT", 4102444800, -1 },
    };
    check_rows(rows, COUNT(rows));
}

static void parts_of_a_second_count(void **state)
{
    (void)state;
    int64_t us = -1;
    struct prazo_str value = PRAZO_STR("Sun, 06 Nov 1994 08:49:37 GMT");
    assert_int_equal(prazo_retry_after_parse(value, NOV_1994 * 1000 - 2999, &us), PRAZO_OK);
    assert_int_equal(us, 2999000);
    assert_int_equal(prazo_retry_after_parse(value, NOV_1994 * 1000 + 999, &us), PRAZO_OK);
    assert_int_equal(us, 0);
}

static void a_clock_before_the_epoch_is_the_epoch(void **state)
{
    (void)state;
    int64_t us = -1;
    struct prazo_str value = PRAZO_STR("Thu, 01 Jan 1970 00:00:01 GMT");
    assert_int_equal(prazo_retry_after_parse(value, INT64_MIN, &us), PRAZO_OK);
    assert_int_equal(us, 1 * S);
}

static void slices_end_where_they_end(void **state)
{
    (void)state;
    const char text[] = "Sunday, 06-Nov-94 08:49:37 GMT";
    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        char *copy = malloc(len + 1); /* for the address sanitizer to guard its end */
        int64_t us = -1;
        assert_non_null(copy);
        memcpy(copy, text, len);
        assert_int_equal(prazo_retry_after_parse(prazo_str_n(copy, len), 0, &us), PRAZO_E_INVALID);
        assert_int_equal(us, -1);
        free(copy);
    }
    int64_t us = -1;
    assert_int_equal(prazo_retry_after_parse(prazo_str_n(NULL, 0), 0, &us), PRAZO_E_INVALID);
}

/* Every day from 1970 to 2200, against the calendar of libc. */
static void agrees_with_the_calendar_of_libc(void **state)
{
    (void)state;
    const int64_t last = 84000;
    for (int64_t day = 0; day < last; day++) {
        time_t at = (time_t)(day * 86400 + day % 86400);
        struct tm tm;
        char text[2][40];
        assert_non_null(gmtime_r(&at, &tm));
        assert_true(strftime(text[0], sizeof(text[0]), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0);
        assert_true(strftime(text[1], sizeof(text[1]), "%A, %d-%b-%y %H:%M:%S GMT", &tm) > 0);
        for (int form = 0; form < 2; form++) {
            struct row row = { text[form], at - 3, 3 * S };
            if (at >= 3)
                check_rows(&row, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_are_digits_and_nothing_else),
        cmocka_unit_test(all_three_date_forms_count),
        cmocka_unit_test(broken_dates_are_absent),
        cmocka_unit_test(two_digit_years_are_at_most_50_years_ahead),
        cmocka_unit_test(parts_of_a_second_count),
        cmocka_unit_test(a_clock_before_the_epoch_is_the_epoch),
        cmocka_unit_test(slices_end_where_they_end),
        cmocka_unit_test(agrees_with_the_calendar_of_libc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
