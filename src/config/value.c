/* SPDX-License-Identifier: MIT */
/* Durations, sizes, percents: digits, at most one fraction, a unit, nothing else, in integers. No
 * locale, no sign, no blanks, no number without its unit, so that `5` is never taken for the wrong
 * thing. A fraction that does not come out whole is refused instead of rounded. */
#include "config/value.h"

#include <inttypes.h>
#include <stdio.h>

#include "prazo/err.h"

struct unit {
    const char *name;
    int64_t factor;
};

/* Largest first: the formatter takes the first that divides. */
static const struct unit durations[] = {
    { "d", INT64_C(86400000000) },
    { "h", INT64_C(3600000000) },
    { "m", 60000000 },
    { "s", 1000000 },
    { "ms", 1000 },
    { "us", 1 },
    { NULL, 0 },
};
static const struct unit sizes[] = {
    { "TiB", INT64_C(1) << 40 }, { "GiB", 1 << 30 }, { "MiB", 1 << 20 },
    { "KiB", 1 << 10 },          { "B", 1 },         { NULL, 0 },
};
static const struct unit percents[] = { { "%", 1 }, { NULL, 0 } };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t factor_of(const struct unit *units, struct prazo_str name)
{
    for (; units->name; units++)
        if (prazo_str_eq(prazo_str_z(units->name), name))
            return units->factor;
    return 0;
}

/* Digits as a number; the caller has seen that they are digits. */
static int read_digits(struct prazo_str digits, int64_t *ret)
{
    int64_t value = 0;
    for (size_t i = 0; i < digits.len; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digits.base[i] - '0', &value))
            return PRAZO_E_TOO_LARGE;
    *ret = value;
    return PRAZO_OK;
}

/* fraction × factor, exactly. At most 12 digits: µs of a day need eleven. */
static int read_fraction(struct prazo_str digits, int64_t factor, int64_t *ret)
{
    if (digits.len > 12)
        return PRAZO_E_INVALID;
    __int128 numerator = 0, denominator = 1;
    for (size_t i = 0; i < digits.len; i++) {
        numerator = numerator * 10 + (digits.base[i] - '0');
        denominator *= 10;
    }
    numerator *= factor;
    if (numerator % denominator)
        return PRAZO_E_INVALID;
    *ret = (int64_t)(numerator / denominator);
    return PRAZO_OK;
}

static int parse(const struct unit *units, struct prazo_str text, int64_t *ret)
{
    size_t whole = 0, at = 0;
    while (at < text.len && is_digit(text.base[at]))
        at++;
    whole = at;
    struct prazo_str fraction = { NULL, 0 };
    if (at < text.len && text.base[at] == '.') {
        size_t start = ++at;
        while (at < text.len && is_digit(text.base[at]))
            at++;
        fraction = prazo_str_n(text.base + start, at - start);
        if (fraction.len == 0)
            return PRAZO_E_INVALID;
    }
    int64_t factor = factor_of(units, prazo_str_n(text.base + at, text.len - at));
    if (whole == 0 || factor == 0)
        return PRAZO_E_INVALID;

    int64_t value, part = 0;
    int err = read_digits(prazo_str_n(text.base, whole), &value);
    if (!err && fraction.base)
        err = read_fraction(fraction, factor, &part);
    if (err)
        return err;
    if (__builtin_mul_overflow(value, factor, &value) ||
        __builtin_add_overflow(value, part, &value))
        return PRAZO_E_TOO_LARGE;
    *ret = value;
    return PRAZO_OK;
}

int prazo_duration_parse(struct prazo_str text, int64_t *ret_us)
{
    return parse(durations, text, ret_us);
}

int prazo_size_parse(struct prazo_str text, int64_t *ret_bytes)
{
    return parse(sizes, text, ret_bytes);
}

int prazo_percent_parse(struct prazo_str text, int64_t *ret_percent)
{
    return parse(percents, text, ret_percent);
}

static void format(const struct unit *units, const char *zero, int64_t value, char *to)
{
    if (value == 0) {
        snprintf(to, PRAZO_VALUE_TEXT_MAX, "%s", zero);
        return;
    }
    while (value % units->factor)
        units++;
    snprintf(to, PRAZO_VALUE_TEXT_MAX, "%" PRId64 "%s", value / units->factor, units->name);
}

void prazo_duration_format(char to[PRAZO_VALUE_TEXT_MAX], int64_t us)
{
    format(durations, "0s", us, to);
}

void prazo_size_format(char to[PRAZO_VALUE_TEXT_MAX], int64_t bytes)
{
    format(sizes, "0B", bytes, to);
}

#define NEAR_BYTES_MAX 64

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;
    return least < c ? least : c;
}

unsigned prazo_text_distance(struct prazo_str a, struct prazo_str b, unsigned max)
{
    size_t gap = a.len > b.len ? a.len - b.len : b.len - a.len;
    if (a.len > NEAR_BYTES_MAX || b.len > NEAR_BYTES_MAX || gap > max)
        return max + 1;
    unsigned rows[3][NEAR_BYTES_MAX + 1];
    unsigned *two_up = rows[0], *up = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b.len; j++)
        up[j] = (unsigned)j;
    for (size_t i = 1; i <= a.len; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b.len; j++) {
            char ca = prazo_lower(a.base[i - 1]), cb = prazo_lower(b.base[j - 1]);
            row[j] = min3(up[j] + 1, row[j - 1] + 1, up[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == prazo_lower(b.base[j - 2]) &&
                prazo_lower(a.base[i - 2]) == cb)
                row[j] = min3(row[j], two_up[j - 2] + 1, row[j]);
        }
        unsigned *free_row = two_up;
        two_up = up;
        up = row;
        row = free_row;
    }
    return up[b.len];
}

bool prazo_text_is_near(struct prazo_str a, struct prazo_str b)
{
    unsigned max = a.len <= 4 ? 1 : 2;
    return prazo_text_distance(a, b, max) <= max;
}

/* Bytes of the sequence that starts at s[0], or 0. The second byte's bounds keep out overlong
 * forms, surrogates and what lies beyond U+10FFFF (RFC 3629 §4). */
static size_t utf8_sequence(const unsigned char *s, size_t left)
{
    if (s[0] < 0x80)
        return s[0] != 0;
    size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || left < len)
        return 0;
    unsigned char low = 0x80, high = 0xbf;
    if (s[0] == 0xe0)
        low = 0xa0;
    else if (s[0] == 0xed)
        high = 0x9f;
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return len;
}

size_t prazo_utf8_valid(struct prazo_str text)
{
    const unsigned char *s = (const unsigned char *)text.base;
    size_t at = 0;
    while (at < text.len) {
        size_t len = utf8_sequence(s + at, text.len - at);
        if (len == 0)
            break;
        at += len;
    }
    return at;
}
