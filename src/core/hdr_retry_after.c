/* SPDX-License-Identifier: MIT */
/* The text of Retry-After. Own parser: strptime() follows the locale and forgives blanks, and
 * timegm() is not in C11.
 *
 * Invariants: the whole value has to match; a result is never negative and never above its cap. A
 * day name has to be one but is not compared with the date, since the date is what counts.
 * Callable from any thread. */
#include "core/hdr_retry_after.h"

#include "prazo/err.h"

#include "base/assert.h"

#define US_PER_S INT64_C(1000000)
#define MAX_S (PRAZO_RETRY_AFTER_MAX_US / US_PER_S)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SECONDS_PER_DAY INT64_C(86400)
#define YEAR_MAX 9999 /* the last that the grammar can write */

struct date {
    int year, month, day; /* month from 0, day from 1 */
    int hour, minute, second;
    bool has_century;
};

static const struct prazo_str months[] = {
    PRAZO_STR_INIT("Jan"), PRAZO_STR_INIT("Feb"), PRAZO_STR_INIT("Mar"), PRAZO_STR_INIT("Apr"),
    PRAZO_STR_INIT("May"), PRAZO_STR_INIT("Jun"), PRAZO_STR_INIT("Jul"), PRAZO_STR_INIT("Aug"),
    PRAZO_STR_INIT("Sep"), PRAZO_STR_INIT("Oct"), PRAZO_STR_INIT("Nov"), PRAZO_STR_INIT("Dec"),
};
static const struct prazo_str days[] = {
    PRAZO_STR_INIT("Mon"), PRAZO_STR_INIT("Tue"), PRAZO_STR_INIT("Wed"), PRAZO_STR_INIT("Thu"),
    PRAZO_STR_INIT("Fri"), PRAZO_STR_INIT("Sat"), PRAZO_STR_INIT("Sun"),
};
static const struct prazo_str long_days[] = {
    PRAZO_STR_INIT("Monday"),   PRAZO_STR_INIT("Tuesday"), PRAZO_STR_INIT("Wednesday"),
    PRAZO_STR_INIT("Thursday"), PRAZO_STR_INIT("Friday"),  PRAZO_STR_INIT("Saturday"),
    PRAZO_STR_INIT("Sunday"),
};

static bool take_name(struct prazo_str *rest, const struct prazo_str *names, size_t count,
                      int *ret_index)
{
    for (size_t i = 0; i < count; i++) {
        if (!prazo_str_has_prefix(*rest, names[i])) /* case counts, §5.6.7 */
            continue;
        *rest = prazo_str_n(rest->base + names[i].len, rest->len - names[i].len);
        *ret_index = (int)i;
        return true;
    }
    return false;
}

/* Exactly that many digits. */
static bool take_number(struct prazo_str *rest, size_t digits, int *ret_value)
{
    int64_t value;
    if (rest->len < digits || prazo_str_to_i64(prazo_str_n(rest->base, digits), &value) != PRAZO_OK)
        return false;
    *rest = prazo_str_n(rest->base + digits, rest->len - digits);
    *ret_value = (int)value;
    return true;
}

static bool take_char(struct prazo_str *rest, char c)
{
    if (rest->len == 0 || rest->base[0] != c)
        return false;
    *rest = prazo_str_n(rest->base + 1, rest->len - 1);
    return true;
}

/* One letter of a pattern: a, A short and long day name; d two digits of a day, e the same with a
 * blank for a leading zero; m month; y, Y two and four digits of a year; h, i, s the time. Any
 * other character stands for itself. */
static bool take_field(struct prazo_str *rest, char field, struct date *date)
{
    int unused;
    switch (field) {
    case 'a':
        return take_name(rest, days, COUNT(days), &unused);
    case 'A':
        return take_name(rest, long_days, COUNT(long_days), &unused);
    case 'd':
        return take_number(rest, 2, &date->day);
    case 'e':
        return take_number(rest, take_char(rest, ' ') ? 1 : 2, &date->day);
    case 'm':
        return take_name(rest, months, COUNT(months), &date->month);
    case 'y':
        return take_number(rest, 2, &date->year);
    case 'Y':
        date->has_century = true;
        return take_number(rest, 4, &date->year);
    case 'h':
        return take_number(rest, 2, &date->hour);
    case 'i':
        return take_number(rest, 2, &date->minute);
    case 's':
        return take_number(rest, 2, &date->second);
    default:
        return take_char(rest, field);
    }
}

static bool matches(struct prazo_str value, const char *pattern, struct date *ret_date)
{
    struct date date = { 0 };
    for (; *pattern; pattern++) {
        if (!take_field(&value, *pattern, &date))
            return false;
    }
    if (value.len > 0)
        return false;
    *ret_date = date;
    return true;
}

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static bool is_valid(const struct date *date)
{
    static const int month_days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int last = month_days[date->month] + (date->month == 1 && is_leap(date->year));
    /* Second 60 is a leap second. */
    return date->day >= 1 && date->day <= last && date->hour <= 23 && date->minute <= 59 &&
           date->second <= 60;
}

/* Days from the first day of year 0 (a leap year) to that of `year`. */
static int64_t days_before(int year)
{
    return INT64_C(365) * year + (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
}

static int64_t epoch_s(const struct date *date, int year)
{
    static const int days_before_month[] = {
        0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334
    };
    int64_t day = days_before(year) - days_before(1970) + days_before_month[date->month] +
                  (date->month > 1 && is_leap(year)) + date->day - 1;
    return day * SECONDS_PER_DAY + date->hour * 3600 + date->minute * 60 + date->second;
}

/* §5.6.7: two digits mean the latest such year that is not more than 50 years ahead. */
static int full_year(const struct date *date, int64_t now_s)
{
    int year = 1900 + date->year;
    while (year + 100 <= YEAR_MAX && epoch_s(date, year + 100 - 50) <= now_s)
        year += 100;
    return year;
}

static int parse_date(struct prazo_str value, int64_t wall_now_ms, int64_t *ret_us)
{
    static const char *const patterns[] = {
        "a, d m Y h:i:s GMT", /* IMF-fixdate */
        "A, d-m-y h:i:s GMT", /* rfc850-date */
        "a m e h:i:s Y",      /* asctime-date */
    };
    struct date date;
    size_t form = 0;
    while (form < COUNT(patterns) && !matches(value, patterns[form], &date))
        form++;
    if (form == COUNT(patterns))
        return PRAZO_E_INVALID;
    if (!date.has_century)
        date.year = full_year(&date, wall_now_ms / 1000);
    if (!is_valid(&date))
        return PRAZO_E_INVALID;
    int64_t at_s = epoch_s(&date, date.year);
    if (at_s <= wall_now_ms / 1000)
        *ret_us = 0;
    else if (at_s - wall_now_ms / 1000 > MAX_S)
        *ret_us = PRAZO_RETRY_AFTER_MAX_US;
    else
        *ret_us = (at_s * 1000 - wall_now_ms) * 1000;
    return PRAZO_OK;
}

/* Any number of digits: what is too large to count is capped like what is merely large. */
static int parse_seconds(struct prazo_str value, int64_t *ret_us)
{
    int64_t s = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.base[i] < '0' || value.base[i] > '9')
            return PRAZO_E_INVALID;
        s = s * 10 + (value.base[i] - '0');
        if (s > MAX_S)
            s = MAX_S;
    }
    *ret_us = s * US_PER_S;
    return PRAZO_OK;
}

int prazo_retry_after_parse(struct prazo_str value, int64_t wall_now_ms, int64_t *ret_us)
{
    value = prazo_str_trim(value);
    if (value.len == 0)
        return PRAZO_E_INVALID;
    if (wall_now_ms < 0)
        wall_now_ms = 0;
    if (parse_seconds(value, ret_us) == PRAZO_OK)
        return PRAZO_OK;
    return parse_date(value, wall_now_ms, ret_us);
}
