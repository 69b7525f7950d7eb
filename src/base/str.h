/* SPDX-License-Identifier: MIT */
/* A slice of bytes that somebody else owns. Not NUL-terminated. base may be NULL when len is 0;
 * base == NULL means "absent", an empty string has a base. */
#ifndef PRAZO_BASE_STR_H
#define PRAZO_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct prazo_str {
    const char *base;
    size_t len;
};

#define PRAZO_STR(literal) ((struct prazo_str){ "" literal, sizeof(literal) - 1 })
#define PRAZO_STR_INIT(literal)                                                                    \
    {                                                                                              \
        "" literal, sizeof(literal) - 1                                                            \
    }
/* For printf("%.*s"). */
#define PRAZO_STR_ARG(s) (int)(s).len, ((s).base ? (s).base : "")

static inline struct prazo_str prazo_str_n(const char *base, size_t len)
{
    return (struct prazo_str){ base, len };
}

static inline struct prazo_str prazo_str_z(const char *z)
{
    return (struct prazo_str){ z, z ? strlen(z) : 0 };
}

static inline bool prazo_str_eq(struct prazo_str a, struct prazo_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.base, b.base, a.len) == 0);
}

/* ASCII only, independent of the locale. */
static inline char prazo_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

bool prazo_str_eq_nocase(struct prazo_str a, struct prazo_str b);
bool prazo_str_has_prefix(struct prazo_str s, struct prazo_str prefix);
/* Blanks and tabs at both ends (OWS of RFC 9110 §5.6.3) removed. */
struct prazo_str prazo_str_trim(struct prazo_str s);
/* Takes the next element of a comma-separated list off *rest, trimmed, empty elements skipped
 * (RFC 9110 §5.6.1). False at the end. Quoted strings are not understood. */
bool prazo_str_next_item(struct prazo_str *rest, struct prazo_str *ret_item);
/* 1–19 ASCII digits and nothing else, as a non-negative int64. PRAZO_E_INVALID otherwise or if
 * it does not fit. */
int prazo_str_to_i64(struct prazo_str s, int64_t *ret_value);
/* Writes value in decimal, returns the number of bytes (at most 20), no NUL. */
size_t prazo_format_i64(char *to, int64_t value);
/* Writes the low 4·digits bits of value as lower-case hex, no NUL. digits in 1..16. */
void prazo_format_hex(char *to, uint64_t value, unsigned digits);

#endif
