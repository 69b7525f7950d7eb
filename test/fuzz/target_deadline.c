/* SPDX-License-Identifier: MIT */
/* Deadline headers and what they leave. The first bytes choose the clock and the policy, the rest
 * is header lines: a letter that says which header (d s g t), then its value. */
#include <stdint.h>

#include "prazo/deadline.h"

#include "base/assert.h"
#include "base/str.h"

#define SETUP_BYTES 26

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int64_t take_i64(const uint8_t **data)
{
    int64_t value;
    memcpy(&value, *data, sizeof(value));
    *data += sizeof(value);
    return value;
}

static void read_line(struct prazo_deadline_in *in, const char *line, size_t len)
{
    const struct prazo_deadline_in before = *in;
    switch (line[0]) {
    case 'd':
        prazo_deadline_read_instant(in, line + 1, len - 1);
        PRAZO_ASSERT(in->deadline_ms == before.deadline_ms || before.deadline_ms == 0 ||
                     in->deadline_ms < before.deadline_ms);
        break;
    case 's':
        prazo_deadline_read_sent(in, line + 1, len - 1);
        PRAZO_ASSERT(in->has_malformed == before.has_malformed);
        break;
    case 'g':
        prazo_deadline_read_grpc(in, line + 1, len - 1);
        break;
    default:
        prazo_deadline_read_duration_ms(in, line + 1, len - 1);
        break;
    }
    PRAZO_ASSERT(in->has_malformed || !before.has_malformed);
    PRAZO_ASSERT(before.duration_us < 0 || in->duration_us <= before.duration_us);
    PRAZO_ASSERT(in->duration_us >= -1 && in->deadline_ms >= 0 && in->sent_ms >= 0);
}

static void check_left(const struct prazo_deadline_in *in,
                       const struct prazo_deadline_policy *policy, int64_t wall_now_ms,
                       int64_t waited_us)
{
    struct prazo_deadline_out out = prazo_deadline_resolve(in, policy, wall_now_ms, waited_us);
    PRAZO_ASSERT(out.left_us <= policy->max_us);
    PRAZO_ASSERT(out.is_given == (in->deadline_ms > 0 || in->duration_us >= 0));
    PRAZO_ASSERT(out.is_given || out.left_us <= policy->default_us);
    PRAZO_ASSERT(in->duration_us < 0 || out.left_us <= in->duration_us);
    /* Both parsed, so the difference cannot overflow. */
    if (in->deadline_ms > 0 && in->sent_ms > 0 && in->sent_ms <= in->deadline_ms)
        PRAZO_ASSERT(out.left_us <= (in->deadline_ms - in->sent_ms) * 1000);
    else if (in->deadline_ms > 0 && wall_now_ms > 0)
        PRAZO_ASSERT(out.left_us <= 0 || in->deadline_ms > wall_now_ms);

    int64_t margin_us = prazo_deadline_margin_us(out.left_us, 0);
    PRAZO_ASSERT(margin_us >= 1000 && margin_us <= 150000);
    if (out.left_us > 0) {
        char text[9];
        size_t len = prazo_deadline_format_grpc(text, out.left_us);
        struct prazo_deadline_in back;
        prazo_deadline_in_init(&back);
        prazo_deadline_read_grpc(&back, text, len);
        PRAZO_ASSERT(!back.has_malformed);
        PRAZO_ASSERT(back.duration_us > 0 && back.duration_us <= out.left_us);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < SETUP_BYTES)
        return 0;
    size -= SETUP_BYTES;
    int64_t wall_now_ms = take_i64(&data);
    int64_t waited_us = take_i64(&data);
    const struct prazo_deadline_policy policy = {
        .max_us = (take_i64(&data) & INT64_MAX) | 1, /* the configuration lets no others in */
        .default_us = (int64_t)data[0] * 1000000 + 1,
        .skew_us = (int64_t)data[1] * 1000000,
    };
    data += 2;

    struct prazo_deadline_in in;
    prazo_deadline_in_init(&in);
    struct prazo_str rest = { (const char *)data, size };
    while (rest.len > 0) {
        const char *end = memchr(rest.base, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.base) : rest.len;
        if (len > 0)
            read_line(&in, rest.base, len);
        rest = prazo_str_n(rest.base + len + (end ? 1 : 0), rest.len - len - (end ? 1 : 0));
    }
    check_left(&in, &policy, wall_now_ms, waited_us);
    /* Also where the text's own instants are the present. */
    check_left(&in, &policy, in.deadline_ms, waited_us);
    check_left(&in, &policy, in.sent_ms, 0);
    return 0;
}
