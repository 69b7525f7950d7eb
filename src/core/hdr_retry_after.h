/* SPDX-License-Identifier: MIT */
/* Retry-After (RFC 9110 §10.2.3): delta-seconds or one of the three forms of an HTTP-date
 * (§5.6.7). Bytes in, duration out. Pure. */
#ifndef PRAZO_CORE_HDR_RETRY_AFTER_H
#define PRAZO_CORE_HDR_RETRY_AFTER_H

#include "base/str.h"

/* A year. Nothing that is asked to wait waits as long, so more than that means the same. */
#define PRAZO_RETRY_AFTER_MAX_US (INT64_C(365) * 24 * 3600 * 1000000)

/* *ret_us: how long to wait from wall_now_ms (epoch) on, in [0, PRAZO_RETRY_AFTER_MAX_US]; 0 for a
 * date that has passed. PRAZO_E_INVALID for anything else: the field counts as absent. */
int prazo_retry_after_parse(struct prazo_str value, int64_t wall_now_ms, int64_t *ret_us);

#endif
