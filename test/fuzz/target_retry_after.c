/* SPDX-License-Identifier: MIT */
/* Retry-After. The first eight bytes are the clock, the rest is the value. */
#include <stdint.h>

#include "prazo/err.h"

#include "base/assert.h"
#include "core/hdr_retry_after.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How long to wait, or -1. */
static int64_t parse(struct prazo_str value, int64_t wall_now_ms)
{
    int64_t us = -1;
    int err = prazo_retry_after_parse(value, wall_now_ms, &us);
    PRAZO_ASSERT(err == PRAZO_OK ? us >= 0 && us <= PRAZO_RETRY_AFTER_MAX_US
                                 : err == PRAZO_E_INVALID && us == -1);
    return us;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t wall_now_ms;
    if (size < sizeof(wall_now_ms))
        return 0;
    memcpy(&wall_now_ms, data, sizeof(wall_now_ms));
    struct prazo_str value = { (const char *)data + sizeof(wall_now_ms),
                               size - sizeof(wall_now_ms) };

    int64_t us = parse(value, wall_now_ms);
    /* Two digits of a year mean another year when the clock moves on. */
    if (us < 0 || (value.len > 0 && memchr(value.base, '-', value.len)))
        return 0;
    /* Whether it is well-formed does not depend on the clock, and a later clock leaves no more. */
    PRAZO_ASSERT(parse(value, 0) >= us);
    int64_t later_us = parse(value, INT64_MAX);
    PRAZO_ASSERT(later_us == 0 || later_us == us); /* a date has passed, seconds stay */
    return 0;
}
