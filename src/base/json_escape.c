/* SPDX-License-Identifier: MIT */
/* The escaping rules of JSON strings. C1 controls count as controls, because a terminal obeys
 * U+009B like ESC [; the line separators do, because some log viewers break lines there. */
#include "base/json_escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

static bool is_plain_ascii(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static bool is_continuation(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* Length of the well-formed sequence of 2 to 4 bytes at s, or 0 (Unicode 15, table 3-7: no
 * overlong form, no surrogate, nothing above U+10FFFF). */
static size_t utf8_len(const unsigned char *s, size_t len)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t need;

    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        need = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        need = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        need = 4;
    else
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0;
    else if (s[0] == 0xed)
        high = 0x9f;
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f;
    if (len < need || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < need; i++) {
        if (!is_continuation(s[i]))
            return 0;
    }
    return need;
}

/* The code point if the sequence has to be escaped although it is well formed, else 0. */
static unsigned unsafe_point(const unsigned char *s, size_t len)
{
    if (len == 2 && s[0] == 0xc2 && s[1] < 0xa0)
        return s[1]; /* U+0080..U+009F */
    if (len == 3 && s[0] == 0xe2 && s[1] == 0x80 && (s[2] == 0xa8 || s[2] == 0xa9))
        return 0x2000u + (s[2] & 0x3fu); /* U+2028, U+2029 */
    return 0;
}

size_t prazo__json_plain(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t at = 0;

    while (at < len) {
        size_t sequence;

        if (is_plain_ascii(s[at])) {
            at++;
            continue;
        }
        sequence = s[at] < 0x80 ? 0 : utf8_len(s + at, len - at);
        if (sequence == 0 || unsafe_point(s + at, sequence) != 0)
            break;
        at += sequence;
    }
    return at;
}

static size_t put_point(char *to, unsigned point)
{
    to[0] = '\\';
    to[1] = 'u';
    prazo_format_hex(to + 2, point, 4);
    return 6;
}

size_t prazo__json_escape(const char *text, size_t len, char *to, size_t *ret_taken)
{
    static const char short_form[] = { ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                       ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\' };
    const unsigned char *s = (const unsigned char *)text;
    size_t sequence;

    *ret_taken = 1;
    if (s[0] < sizeof(short_form) && short_form[s[0]]) {
        to[0] = '\\';
        to[1] = short_form[s[0]];
        return 2;
    }
    if (s[0] < 0x80)
        return put_point(to, s[0]);
    sequence = utf8_len(s, len);
    if (sequence == 0) {
        memcpy(to, "\xef\xbf\xbd", 3); /* U+FFFD */
        return 3;
    }
    *ret_taken = sequence;
    return put_point(to, unsafe_point(s, sequence));
}
