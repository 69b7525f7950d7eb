/* SPDX-License-Identifier: MIT */
/* Slices: comparing, trimming, splitting, numbers to text and back. Nothing here allocates or reads
 * the locale. */
#include "base/str.h"

#include "base/assert.h"
#include "prazo/err.h"

bool prazo_str_eq_nocase(struct prazo_str a, struct prazo_str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (prazo_lower(a.base[i]) != prazo_lower(b.base[i]))
            return false;
    }
    return true;
}

bool prazo_str_has_prefix(struct prazo_str s, struct prazo_str prefix)
{
    return s.len >= prefix.len && prazo_str_eq(prazo_str_n(s.base, prefix.len), prefix);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct prazo_str prazo_str_trim(struct prazo_str s)
{
    while (s.len > 0 && is_blank(s.base[0])) {
        s.base++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.base[s.len - 1]))
        s.len--;
    return s;
}

bool prazo_str_next_item(struct prazo_str *rest, struct prazo_str *ret_item)
{
    while (rest->len > 0) {
        const char *comma = memchr(rest->base, ',', rest->len);
        size_t len = comma ? (size_t)(comma - rest->base) : rest->len;
        size_t taken = comma ? len + 1 : len;
        struct prazo_str item = prazo_str_trim(prazo_str_n(rest->base, len));

        rest->base += taken;
        rest->len -= taken;
        if (item.len > 0) {
            *ret_item = item;
            return true;
        }
    }
    return false;
}

int prazo_str_to_i64(struct prazo_str s, int64_t *ret_value)
{
    uint64_t value = 0;

    /* 19 digits stay below 10^19 < 2^64, so the loop cannot overflow. */
    if (s.len == 0 || s.len > 19)
        return PRAZO_E_INVALID;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.base[i] - '0';

        if (digit > 9)
            return PRAZO_E_INVALID;
        value = value * 10 + digit;
    }
    if (value > INT64_MAX)
        return PRAZO_E_INVALID;
    *ret_value = (int64_t)value;
    return PRAZO_OK;
}

/* Two digits at a time: instants of 13 digits are written in every request. */
size_t prazo_format_i64(char *to, int64_t value)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    char digits[20];
    size_t at = sizeof digits, len = 0;
    /* Unsigned, because INT64_MIN has no positive counterpart. */
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    while (left >= 10) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * (left % 100), 2);
        left /= 100;
    }
    if (left > 0 || at == sizeof digits)
        digits[--at] = (char)('0' + left);
    if (digits[at] == '0' && at + 1 < sizeof digits)
        at++; /* a pair below ten at the front */
    if (value < 0)
        to[len++] = '-';
    memcpy(to + len, digits + at, sizeof digits - at);
    return len + sizeof digits - at;
}

void prazo_format_hex(char *to, uint64_t value, unsigned digits)
{
    PRAZO_ASSERT(digits >= 1 && digits <= 16);
    for (unsigned i = digits; i-- > 0; value >>= 4)
        to[i] = "0123456789abcdef"[value & 15];
}
