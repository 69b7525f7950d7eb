/* SPDX-License-Identifier: MIT */
/* The arithmetic of deadlines: what is left of a request, what a hop keeps back, instants that
 * saturate. Reading and writing header text is hdr_deadline.c.
 *
 * Invariants: left_us is never above max_us, nor above deadline − sent, nor above any duration
 * given. Every step saturates, so that no value from outside can wrap to "already expired" or to
 * "no limit". Callable from any thread. */
#include "prazo/deadline.h"

#define US_PER_MS INT64_C(1000)
/* An instant without its sender's clock can be judged by plausibility only. Nobody waits a day for
 * an answer, so one farther ahead than that comes from a wrong clock (or means "no limit"); either
 * way an operator wants to see it. */
#define PLAUSIBLE_AHEAD_US (INT64_C(24) * 3600 * 1000 * US_PER_MS)
/* 150 ms is a round trip around the world: no answer needs more to get back. A twentieth keeps
 * short deadlines usable, and below 1 ms timers are not exact enough to keep the promise. */
#define MARGIN_MAX_US (150 * US_PER_MS)
#define MARGIN_MIN_US (1 * US_PER_MS)
#define MARGIN_SHARE 20

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* a − b. The range is symmetric so that the result can be negated. */
static int64_t sub_saturated(int64_t a, int64_t b)
{
    int64_t diff;
    if (__builtin_sub_overflow(a, b, &diff) || diff == INT64_MIN)
        return b > 0 ? -INT64_MAX : INT64_MAX;
    return diff;
}

static int64_t ms_apart_us(int64_t later_ms, int64_t earlier_ms)
{
    int64_t diff_ms = sub_saturated(later_ms, earlier_ms);
    int64_t us;
    if (__builtin_mul_overflow(diff_ms, US_PER_MS, &us))
        return diff_ms < 0 ? -INT64_MAX : INT64_MAX;
    return us;
}

static bool is_apart(int64_t diff_us, int64_t skew_us)
{
    return diff_us > skew_us || diff_us < -skew_us;
}

/* The sender's clock counts only beside an instant, and not when it is later than that. */
static bool has_sent(const struct prazo_deadline_in *in)
{
    return in->deadline_ms > 0 && in->sent_ms > 0 && in->sent_ms <= in->deadline_ms;
}

bool prazo_deadline_needs_waited(const struct prazo_deadline_in *in,
                                 const struct prazo_deadline_policy *policy, int64_t wall_now_ms)
{
    return has_sent(in) && is_apart(ms_apart_us(wall_now_ms, in->sent_ms), policy->skew_us);
}

/* What the instant leaves, before the local maximum. */
static int64_t instant_left_us(const struct prazo_deadline_in *in,
                               const struct prazo_deadline_policy *policy, int64_t wall_now_ms,
                               int64_t waited_us, bool *ret_is_skewed)
{
    int64_t wall_left_us = ms_apart_us(in->deadline_ms, wall_now_ms);
    *ret_is_skewed = false;
    if (!has_sent(in)) {
        int64_t ahead_us =
            policy->max_us > PLAUSIBLE_AHEAD_US ? policy->max_us : PLAUSIBLE_AHEAD_US;
        *ret_is_skewed = wall_left_us < -policy->skew_us || wall_left_us > ahead_us;
        return wall_left_us;
    }
    int64_t sent_left_us = ms_apart_us(in->deadline_ms, in->sent_ms);
    int64_t apart_us = ms_apart_us(wall_now_ms, in->sent_ms);
    if (!is_apart(apart_us, policy->skew_us))
        return min_i64(wall_left_us, sent_left_us);
    if (waited_us < 0)
        waited_us = 0;
    if (!is_apart(sub_saturated(apart_us, waited_us), policy->skew_us))
        return min_i64(wall_left_us, sent_left_us);
    *ret_is_skewed = true;
    return sub_saturated(sent_left_us, waited_us);
}

struct prazo_deadline_out prazo_deadline_resolve(const struct prazo_deadline_in *in,
                                                 const struct prazo_deadline_policy *policy,
                                                 int64_t wall_now_ms, int64_t waited_us)
{
    struct prazo_deadline_out out = { .left_us = policy->max_us };
    if (in->deadline_ms > 0) {
        int64_t left_us = instant_left_us(in, policy, wall_now_ms, waited_us, &out.is_skewed);
        out.left_us = min_i64(out.left_us, left_us);
        out.is_given = true;
    }
    if (in->duration_us >= 0) {
        out.left_us = min_i64(out.left_us, in->duration_us);
        out.is_given = true;
    }
    if (!out.is_given)
        out.left_us = min_i64(out.left_us, policy->default_us);
    return out;
}

int64_t prazo_deadline_margin_us(int64_t left_us, int64_t fixed_us)
{
    if (fixed_us > 0)
        return fixed_us;
    int64_t margin_us = min_i64(MARGIN_MAX_US, left_us / MARGIN_SHARE);
    return margin_us > MARGIN_MIN_US ? margin_us : MARGIN_MIN_US;
}

int64_t prazo_instant_add(int64_t at_us, int64_t duration_us)
{
    int64_t sum;
    return __builtin_add_overflow(at_us, duration_us, &sum) ? INT64_MAX : sum;
}
