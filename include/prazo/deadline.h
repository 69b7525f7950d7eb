/* SPDX-License-Identifier: MIT */
/* Deadlines: an instant that can only shrink.
 *
 * Inside a process a deadline is monotonic microseconds; on the wire it is Unix epoch milliseconds
 * (`x-deadline-ms`) or a duration that is turned into an instant on arrival. The rule:
 *
 *   left     = min(deadline − now, deadline − sent, every duration given), never above `max_us`
 *   nothing given: left = default_us
 *
 * and if |now − sent − waited| > skew_us the clocks disagree: left = deadline − sent − waited, so
 * that time already spent is never given back and another host's wrong clock neither kills a
 * request nor frees it.
 *
 * Pure: no clock, no allocation. Thread-safe (no state). */
#ifndef PRAZO_DEADLINE_H
#define PRAZO_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one request says about its deadline. prazo_deadline_in_init() first (all zero would be a
 * duration of 0), then feed the headers in any order with prazo_deadline_read_*(). Durations and
 * instants keep their smallest well-formed value. */
struct prazo_deadline_in {
    int64_t deadline_ms; /* epoch; 0: none */
    int64_t sent_ms;     /* epoch; 0: none */
    int64_t duration_us; /* smallest duration form; -1 after init: none */
    bool has_malformed;  /* some deadline text broke its grammar */
};

struct prazo_deadline_policy {
    int64_t default_us; /* when the request says nothing */
    int64_t max_us;     /* never more than this */
    int64_t skew_us;    /* clocks farther apart than this disagree */
};

struct prazo_deadline_out {
    int64_t left_us; /* <= 0: expired on arrival */
    bool is_skewed;  /* the clocks disagree, or an instant without its sender's clock is not
                      * plausible: past by more than skew_us, or more than a day (and more than
                      * max_us) ahead. Count it: it tells wrong clocks from real expiry */
    bool is_given;   /* some well-formed value was given */
};

void prazo_deadline_in_init(struct prazo_deadline_in *in);

/* Each takes one header line's value (without surrounding blanks); a comma-joined value counts as
 * repeated. Malformed values set has_malformed and change nothing else. */
void prazo_deadline_read_instant(struct prazo_deadline_in *in, const char *value, size_t len);
/* x-deadline-sent-ms; malformed counts as absent. Not to be called for untrusted peers. */
void prazo_deadline_read_sent(struct prazo_deadline_in *in, const char *value, size_t len);
/* grpc-timeout: 1–8 digits and one of H M S m u n. */
void prazo_deadline_read_grpc(struct prazo_deadline_in *in, const char *value, size_t len);
/* x-timeout-ms and x-envoy-expected-rq-timeout-ms: 1–9 digits. */
void prazo_deadline_read_duration_ms(struct prazo_deadline_in *in, const char *value, size_t len);

/* True if prazo_deadline_resolve() needs waited_us (|now − sent| > skew): only then is it worth
 * asking the kernel how long the bytes lay unread. */
bool prazo_deadline_needs_waited(const struct prazo_deadline_in *in,
                                 const struct prazo_deadline_policy *policy, int64_t wall_now_ms);

/* Puts everything together. wall_now_ms: this host's epoch clock. */
struct prazo_deadline_out prazo_deadline_resolve(const struct prazo_deadline_in *in,
                                                 const struct prazo_deadline_policy *policy,
                                                 int64_t wall_now_ms, int64_t waited_us);

/* What a hop keeps back: fixed_us if > 0, else min(150 ms, left ÷ 20), at least 1 ms. */
int64_t prazo_deadline_margin_us(int64_t left_us, int64_t fixed_us);

/* grpc-timeout for left_us > 0, rounded down to the largest unit that keeps 8 digits, never 0.
 * Writes at most 9 bytes, returns their number. */
size_t prazo_deadline_format_grpc(char *to, int64_t left_us);

/* a + b without overflow: PRAZO's instants saturate at INT64_MAX ("never"). b >= 0. */
int64_t prazo_instant_add(int64_t at_us, int64_t duration_us);

#ifdef __cplusplus
}
#endif
#endif
