/* SPDX-License-Identifier: MIT */
/* x-attempt and prazo-result as text. What an attempt's result allows is decided elsewhere, and so
 * is whether a peer is believed; here it is only read and written.
 *
 * Invariant: text that the parsers accept means one thing only: a parameter of ours that is given
 * twice or is malformed makes the whole value invalid, because half a result is worse than none. */
#include "core/attempt_id.h"

#include "prazo/err.h"

#include "base/assert.h"

#define ID_DIGITS 16
#define INDEX_DIGITS_MAX 9
#define SPENT_MAX 99
#define SPENT_DIGITS_MAX 2

static int parse_hex_id(struct prazo_str s, uint64_t *ret_id)
{
    if (s.len != ID_DIGITS)
        return PRAZO_E_INVALID;
    uint64_t id = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = prazo_lower(s.base[i]);
        if (c >= '0' && c <= '9')
            id = id << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            id = id << 4 | (uint64_t)(c - 'a' + 10);
        else
            return PRAZO_E_INVALID;
    }
    *ret_id = id;
    return PRAZO_OK;
}

static int parse_small(struct prazo_str s, size_t digits_max, uint32_t *ret_value)
{
    int64_t value;
    if (s.len > digits_max || prazo_str_to_i64(s, &value) != PRAZO_OK)
        return PRAZO_E_INVALID;
    *ret_value = (uint32_t)value;
    return PRAZO_OK;
}

int prazo_attempt_id_parse(struct prazo_str value, struct prazo_attempt_id *ret_id)
{
    const char *dash = value.len > 0 ? memchr(value.base, '-', value.len) : NULL;
    if (!dash)
        return PRAZO_E_INVALID;
    size_t index_len = (size_t)(dash - value.base);
    struct prazo_attempt_id id;
    if (parse_small(prazo_str_n(value.base, index_len), INDEX_DIGITS_MAX, &id.index) != PRAZO_OK ||
        parse_hex_id(prazo_str_n(dash + 1, value.len - index_len - 1), &id.id) != PRAZO_OK)
        return PRAZO_E_INVALID;
    *ret_id = id;
    return PRAZO_OK;
}

size_t prazo_attempt_id_format(char *to, struct prazo_attempt_id id)
{
    size_t len = prazo_format_i64(to, id.index);
    to[len++] = '-';
    prazo_format_hex(to + len, id.id, ID_DIGITS);
    return len + ID_DIGITS;
}

/* Our words are made of these; anything else (a comma of a joined header, say) is no word. */
static bool is_word(struct prazo_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((s.base[i] < 'a' || s.base[i] > 'z') && s.base[i] != '-')
            return false;
    return s.len > 0;
}

/* Takes what stands before the next `separator` off *rest. */
static struct prazo_str take_until(struct prazo_str *rest, char separator)
{
    const char *at = rest->len > 0 ? memchr(rest->base, separator, rest->len) : NULL;
    struct prazo_str part = { rest->base, at ? (size_t)(at - rest->base) : rest->len };
    size_t taken = at ? part.len + 1 : part.len;
    *rest = prazo_str_n(at ? rest->base + taken : NULL, rest->len - taken);
    return prazo_str_trim(part);
}

static int take_parameter(struct prazo_result *result, bool *has_for, struct prazo_str name,
                          struct prazo_str value)
{
    if (prazo_str_eq(name, PRAZO_STR("retry"))) {
        if (result->retry.base || !is_word(value))
            return PRAZO_E_INVALID;
        result->retry = value;
    } else if (prazo_str_eq(name, PRAZO_STR("spent"))) {
        if (result->has_spent || parse_small(value, SPENT_DIGITS_MAX, &result->spent) != PRAZO_OK)
            return PRAZO_E_INVALID;
        result->has_spent = true;
    } else if (prazo_str_eq(name, PRAZO_STR("for"))) {
        if (*has_for || parse_hex_id(value, &result->for_id) != PRAZO_OK)
            return PRAZO_E_INVALID;
        *has_for = true;
    }
    return PRAZO_OK;
}

int prazo_result_parse(struct prazo_str value, struct prazo_result *ret_result)
{
    struct prazo_result result = { 0 };
    bool has_for = false;
    struct prazo_str rest = value;
    result.outcome = take_until(&rest, ';');
    if (!is_word(result.outcome))
        return PRAZO_E_INVALID;
    while (rest.len > 0) {
        struct prazo_str parameter = take_until(&rest, ';');
        struct prazo_str name = take_until(&parameter, '=');
        if (take_parameter(&result, &has_for, name, prazo_str_trim(parameter)) != PRAZO_OK)
            return PRAZO_E_INVALID;
    }
    if (!has_for)
        return PRAZO_E_INVALID;
    *ret_result = result;
    return PRAZO_OK;
}

static size_t put(char *to, size_t at, struct prazo_str s)
{
    memcpy(to + at, s.base, s.len);
    return at + s.len;
}

size_t prazo_result_format(char *to, const struct prazo_result *result)
{
    const struct prazo_str retry = PRAZO_STR(";retry="), spent = PRAZO_STR(";spent="),
                           for_id = PRAZO_STR(";for=");
    PRAZO_ASSERT(is_word(result->outcome) && result->spent <= SPENT_MAX);
    PRAZO_ASSERT(result->outcome.len + retry.len + result->retry.len + spent.len +
                     SPENT_DIGITS_MAX + for_id.len + ID_DIGITS <=
                 PRAZO_RESULT_BYTES_MAX);
    size_t len = put(to, 0, result->outcome);
    if (result->retry.base) {
        len = put(to, len, retry);
        len = put(to, len, result->retry);
    }
    if (result->has_spent) {
        len = put(to, len, spent);
        len += prazo_format_i64(to + len, result->spent);
    }
    len = put(to, len, for_id);
    prazo_format_hex(to + len, result->for_id, ID_DIGITS);
    return len + ID_DIGITS;
}
