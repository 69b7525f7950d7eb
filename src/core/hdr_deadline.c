/* SPDX-License-Identifier: MIT */
/* The text of deadline headers: x-deadline-ms, x-deadline-sent-ms, grpc-timeout, x-timeout-ms,
 * x-envoy-expected-rq-timeout-ms. What the values mean together is deadline.c.
 *
 * Invariants: text outside the grammar changes nothing but has_malformed; a value that is kept is
 * never replaced by a larger one. No grammar lets in a number that could overflow: 14 digits of
 * milliseconds and 8 digits of hours both fit in int64 microseconds. Callable from any thread. */
#include "prazo/deadline.h"

#include "prazo/err.h"

#include "base/assert.h"
#include "base/str.h"

/* Twelve digits or fewer cannot be an instant of today: such a value is a duration that somebody
 * sends under this name. 13 digits last until the year 2286, 14 leave room beyond. */
#define INSTANT_DIGITS_MIN 13
#define INSTANT_DIGITS_MAX 14
#define INSTANT_MS_MIN INT64_C(1000000000000)
#define DURATION_DIGITS_MAX 9
#define GRPC_DIGITS_MAX 8
#define GRPC_VALUE_MAX 99999999

/* Handles one element of a list; false if it breaks the grammar. */
typedef bool (*element_cb)(struct prazo_deadline_in *in, struct prazo_str element);

/* A header that is sent twice may arrive joined by commas. An empty element is malformed here,
 * unlike in RFC 9110 lists: these headers are no lists, and an empty value is malformed too. */
static bool read_elements(struct prazo_deadline_in *in, const char *value, size_t len,
                          element_cb read)
{
    struct prazo_str rest = { value, len };
    bool is_well_formed = true;
    for (;;) {
        const char *comma = rest.len > 0 ? memchr(rest.base, ',', rest.len) : NULL;
        size_t element_len = comma ? (size_t)(comma - rest.base) : rest.len;
        if (!read(in, prazo_str_trim(prazo_str_n(rest.base, element_len))))
            is_well_formed = false;
        if (!comma)
            return is_well_formed;
        rest.base += element_len + 1;
        rest.len -= element_len + 1;
    }
}

static bool to_number(struct prazo_str s, size_t digits_min, size_t digits_max, int64_t *ret_value)
{
    return s.len >= digits_min && s.len <= digits_max && prazo_str_to_i64(s, ret_value) == PRAZO_OK;
}

static bool to_instant(struct prazo_str s, int64_t *ret_ms)
{
    int64_t ms;
    /* Leading zeros would bring a short number through the digit count. */
    if (!to_number(s, INSTANT_DIGITS_MIN, INSTANT_DIGITS_MAX, &ms) || ms < INSTANT_MS_MIN)
        return false;
    *ret_ms = ms;
    return true;
}

static void keep_smallest_instant(int64_t *kept_ms, int64_t ms)
{
    if (*kept_ms == 0 || ms < *kept_ms)
        *kept_ms = ms;
}

static void keep_smallest_duration(struct prazo_deadline_in *in, int64_t us)
{
    if (in->duration_us < 0 || us < in->duration_us)
        in->duration_us = us;
}

static bool read_instant(struct prazo_deadline_in *in, struct prazo_str element)
{
    int64_t ms;
    if (!to_instant(element, &ms))
        return false;
    keep_smallest_instant(&in->deadline_ms, ms);
    return true;
}

static bool read_sent(struct prazo_deadline_in *in, struct prazo_str element)
{
    int64_t ms;
    if (!to_instant(element, &ms))
        return false;
    keep_smallest_instant(&in->sent_ms, ms);
    return true;
}

static bool read_duration_ms(struct prazo_deadline_in *in, struct prazo_str element)
{
    int64_t ms;
    if (!to_number(element, 1, DURATION_DIGITS_MAX, &ms))
        return false;
    keep_smallest_duration(in, ms * 1000);
    return true;
}

static bool read_grpc(struct prazo_deadline_in *in, struct prazo_str element)
{
    int64_t value;
    if (element.len < 2 ||
        !to_number(prazo_str_n(element.base, element.len - 1), 1, GRPC_DIGITS_MAX, &value))
        return false;
    int64_t us;
    switch (element.base[element.len - 1]) {
    case 'H':
        us = value * 3600 * 1000 * 1000;
        break;
    case 'M':
        us = value * 60 * 1000 * 1000;
        break;
    case 'S':
        us = value * 1000 * 1000;
        break;
    case 'm':
        us = value * 1000;
        break;
    case 'u':
        us = value;
        break;
    case 'n':
        us = (value + 999) / 1000; /* up, so that a positive duration does not become 0 */
        break;
    default:
        return false;
    }
    keep_smallest_duration(in, us);
    return true;
}

void prazo_deadline_in_init(struct prazo_deadline_in *in)
{
    *in = (struct prazo_deadline_in){ .duration_us = -1 };
}

void prazo_deadline_read_instant(struct prazo_deadline_in *in, const char *value, size_t len)
{
    if (!read_elements(in, value, len, read_instant))
        in->has_malformed = true;
}

void prazo_deadline_read_sent(struct prazo_deadline_in *in, const char *value, size_t len)
{
    /* Absent rather than malformed: without it the deadline itself is still good, and a request
     * must not be refused for a hint. */
    (void)read_elements(in, value, len, read_sent);
}

void prazo_deadline_read_grpc(struct prazo_deadline_in *in, const char *value, size_t len)
{
    if (!read_elements(in, value, len, read_grpc))
        in->has_malformed = true;
}

void prazo_deadline_read_duration_ms(struct prazo_deadline_in *in, const char *value, size_t len)
{
    if (!read_elements(in, value, len, read_duration_ms))
        in->has_malformed = true;
}

size_t prazo_deadline_format_grpc(char *to, int64_t left_us)
{
    /* The finest unit whose value still has 8 digits loses least when it rounds down. No row can
     * give 0: a coarser unit is reached only with more than 8 digits of the finer one. */
    static const struct {
        int64_t us;
        char name;
    } units[] = {
        { 1, 'u' },
        { 1000, 'm' },
        { 1000 * 1000, 'S' },
        { 60 * 1000 * 1000, 'M' },
        { INT64_C(3600) * 1000 * 1000, 'H' },
    };
    const size_t last = sizeof(units) / sizeof(units[0]) - 1;
    PRAZO_ASSERT(left_us > 0);
    size_t unit = 0;
    while (unit < last && left_us / units[unit].us > GRPC_VALUE_MAX)
        unit++;
    int64_t value = left_us / units[unit].us;
    size_t len = prazo_format_i64(to, value < GRPC_VALUE_MAX ? value : GRPC_VALUE_MAX);
    to[len] = units[unit].name;
    return len + 1;
}
