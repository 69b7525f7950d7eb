/* SPDX-License-Identifier: MIT */
/* Trials of the concurrency limit. Does not admit, queue or close: admit.c does.
 *
 * Invariants: 4 <= limit <= 65535; a record's open <= sent; an attempt belongs to the record whose
 * id its tag carries, or to none. */
#include "core/limiter_auto.h"

#include <string.h>

#define LIMIT_FIRST 32 /* holds any small cold burst; 16 refuses 0.7 % of a sudden 60 % load */
#define LIMIT_MIN 4    /* so that eight gateways fit one pool of 50 */
#define LIMIT_MAX 65535
#define GAP_FIRST_US 500000
#define GAP_MAX_US 4000000
#define DOWN_FIRST_US 2000000
#define DOWN_GAP_US 8000000
#define GAIN_NEUTRAL 25 /* puts the limit within 0.95 to 1.2 of the knee */

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct prazo_record new_record(struct prazo_limiter_auto *l, int64_t now_us)
{
    if (++l->last_id == 0)
        l->last_id = 1;
    return (struct prazo_record){ .id = l->last_id, .since_us = now_us };
}

void prazo_limiter_auto_set(struct prazo_limiter_auto *l, int64_t lim)
{
    l->lim = min64(max64(lim, LIMIT_MIN * 256), LIMIT_MAX * 256);
}

int64_t prazo_limiter_auto_limit(const struct prazo_limiter_auto *l)
{
    return l->lim >> 8;
}

static bool at_level(const struct prazo_limiter_auto *l)
{
    return l->trial == PRAZO_TRIAL_B || l->trial == PRAZO_TRIAL_B_WAIT;
}

int64_t prazo_limiter_auto_in_force(const struct prazo_limiter_auto *l)
{
    if (!at_level(l))
        return prazo_limiter_auto_limit(l);
    return l->kind == PRAZO_TRIAL_UP ? min64(l->level, l->grow) : l->level;
}

void prazo_limiter_auto_reset(struct prazo_limiter_auto *l, int64_t now_us, bool fast)
{
    l->trial = PRAZO_TRIAL_NONE;
    l->fast = fast;
    l->a = new_record(l, now_us);
    l->b = (struct prazo_record){ 0 };
    l->changed_ref_us = 0;
    l->changed_from_us = now_us + 2 * l->hold_us;
}

void prazo_limiter_auto_grow_soon(struct prazo_limiter_auto *l, int64_t now_us)
{
    l->gap_us = GAP_FIRST_US;
    l->next_at_us = now_us;
    l->next = PRAZO_TRIAL_UP;
}

void prazo_limiter_auto_init(struct prazo_limiter_auto *l, int64_t now_us)
{
    memset(l, 0, sizeof *l);
    prazo_limiter_auto_set(l, LIMIT_FIRST * 256);
    prazo_limiter_auto_reset(l, now_us, true);
    prazo_limiter_auto_grow_soon(l, now_us);
    l->down_at_us = now_us + DOWN_FIRST_US;
    l->refused_at_us = now_us - 1000000;
    l->in_time = 65536;
}

int64_t prazo_limiter_auto_cv2(const struct prazo_limiter_auto *l)
{
    int64_t square = (l->m1 >> 6) * (l->m1 >> 6);
    if (square == 0)
        return 256;
    return min64(max64(l->m2 * 256 / square - 256, 0), 16384);
}

static int64_t block_of(int64_t level)
{
    return min64(max64(level, 16), 500);
}

static bool is_pressed(const struct prazo_limiter_auto *l, int64_t now_us, bool queued)
{
    return queued || now_us - l->refused_at_us < l->hold_us;
}

static bool is_near(const struct prazo_limiter_auto *l, int64_t occupied)
{
    int64_t limit = prazo_limiter_auto_limit(l);
    if (!at_level(l))
        return 10 * occupied >= 9 * limit;
    if (l->kind == PRAZO_TRIAL_UP)
        return 2 * occupied > limit + l->level;
    return 10 * occupied >= 9 * l->level;
}

uint32_t prazo_limiter_auto_sent(struct prazo_limiter_auto *l, int64_t now_us, int64_t occupied)
{
    struct prazo_record *r = NULL;
    if (occupied > prazo_limiter_auto_in_force(l) || !is_near(l, occupied))
        return 0;
    if (l->trial == PRAZO_TRIAL_NONE && l->a.sent > 0 &&
        (now_us - l->near_at_us > 4 * l->hold_us + 10000 ||
         l->a.sent > 4 * block_of(prazo_limiter_auto_limit(l))))
        l->a = new_record(l, now_us);
    l->near_at_us = now_us;
    if (l->trial == PRAZO_TRIAL_NONE || l->trial == PRAZO_TRIAL_A)
        r = &l->a;
    else if (l->trial == PRAZO_TRIAL_B)
        r = &l->b;
    if (!r)
        return 0;
    r->sent++;
    r->open++;
    r->open_at_us += now_us;
    r->occupied += occupied;
    return r->id;
}

/* Goodput, and in *ret_occupied the mean of the permits in use, 1/256. */
static int64_t goodput(const struct prazo_record *r, int64_t now_us, int64_t *ret_occupied)
{
    int64_t hold_us = r->hold_us + r->open * now_us - r->open_at_us;
    *ret_occupied = max64(1, r->occupied * 256 / r->sent);
    return r->ok * *ret_occupied * 4096 / max64(1, hold_us >> 8);
}

struct prazo_gain prazo_record_gain(const struct prazo_record *hi, const struct prazo_record *lo,
                                    int64_t now_us, int64_t cv2)
{
    int64_t i_hi, i_lo, n = hi->sent + lo->sent, ok = max64(1, hi->ok + lo->ok);
    int64_t g_hi = goodput(hi, now_us, &i_hi), g_lo = goodput(lo, now_us, &i_lo);
    int64_t ratio = g_lo == 0 ? 4096 : min64(8192, g_hi * 1024 / g_lo);
    int64_t apart = i_hi * 1024 / i_lo;
    int64_t d = apart > 1034 ? apart - 1024 : 10;
    int64_t gain = apart > 1034 ? (ratio - 1024) * 100 / d : 50;
    int64_t c = cv2 + (n - hi->ok - lo->ok) * 256 / ok + 4;
    int64_t var = c * 10000 / 256 * n / (hi->sent * lo->sent) * 1024 / d * 1024 / d;
    return (struct prazo_gain){ gain, (gain - GAIN_NEUTRAL) * 10000 / max64(1, var) };
}

static void begin_trial(struct prazo_limiter_auto *l, int64_t now_us)
{
    int64_t limit = prazo_limiter_auto_limit(l), hold_us = l->hold_us, step;
    int64_t under_way = l->in_flight - l->orphans;
    if (under_way > 0)
        hold_us = max64(hold_us, now_us - l->open_at_us / under_way);
    hold_us = max64(1, hold_us);
    /* Goodput falls when attempts near their deadline, and of several gateways none sees more than
     * its own share: they stop at 57 % of the time left. */
    int64_t room = l->left_us * 57 / hold_us;
    if (2 * hold_us < 3 * l->base_us) /* slow, but no slower than ever: not a queue of ours */
        room = max64(room, min64(200, l->left_us * 90 / hold_us));
    if (l->next == PRAZO_TRIAL_UP && room < 110) {
        if (now_us >= l->down_at_us)
            l->next = PRAZO_TRIAL_DOWN;
        else
            l->next_at_us = now_us + l->gap_us;
        return;
    }
    if (l->next == PRAZO_TRIAL_DOWN && limit <= LIMIT_MIN) {
        l->next = PRAZO_TRIAL_UP;
        return;
    }
    l->kind = l->next;
    if (l->kind == PRAZO_TRIAL_UP) {
        step = l->fast || limit < 64 ? 200 : 150;
        if (!l->fast && prazo_limiter_auto_cv2(l) < 13)
            step = 125;
        l->level = min64(max64(limit * min64(room, step) / 100, limit + 1), LIMIT_MAX);
    } else {
        step = l->in_time < 48000 ? 50 : l->deep ? 67 : 80;
        l->level = max64(1, min64(limit * step / 100, limit - 1));
    }
    l->a.closed_at_us = now_us;
    l->b = new_record(l, now_us);
    l->trial = l->fast ? PRAZO_TRIAL_B : PRAZO_TRIAL_A_WAIT;
    l->block = l->tries = 0;
    l->grow = limit;
}

static bool has_ended(const struct prazo_limiter_auto *l, const struct prazo_record *r,
                      int64_t now_us)
{
    int64_t since_us = now_us - r->closed_at_us;
    return r->open == 0 || (32 * r->open <= r->sent && since_us >= 4 * l->hold_us) ||
           since_us >= l->left_us;
}

static void take_up(struct prazo_limiter_auto *l, int64_t now_us, bool sure)
{
    prazo_limiter_auto_set(l, l->level * 256);
    l->a = l->b;
    l->a.closed_at_us = now_us;
    l->b = (struct prazo_record){ 0 };
    l->trial = PRAZO_TRIAL_NONE;
    l->fast = l->fast || sure;
    l->changed_ref_us = 0;
    l->changed_from_us = now_us + 2 * l->hold_us;
    prazo_limiter_auto_grow_soon(l, now_us);
    l->deep = false;
    l->down_at_us = now_us + DOWN_FIRST_US;
}

static void decide(struct prazo_limiter_auto *l, int64_t now_us, bool more, int64_t gain)
{
    if (l->kind == PRAZO_TRIAL_DOWN && !more) { /* fewer did as well */
        prazo_limiter_auto_set(l, l->level * 256);
        prazo_limiter_auto_reset(l, now_us, false);
        prazo_limiter_auto_grow_soon(l, now_us);
        l->next = PRAZO_TRIAL_DOWN;
        l->deep = true;
        return;
    }
    prazo_limiter_auto_reset(l, now_us, false);
    l->deep = false;
    l->next_at_us = now_us + l->gap_us;
    if (l->kind == PRAZO_TRIAL_UP) {
        l->next = now_us >= l->down_at_us ? PRAZO_TRIAL_DOWN : PRAZO_TRIAL_UP;
        l->gap_us = min64(2 * l->gap_us, GAP_MAX_US);
        return;
    }
    if (gain > 85)
        l->next_at_us = now_us;
    l->next = PRAZO_TRIAL_UP;
    l->down_at_us = now_us + DOWN_GAP_US;
}

/* True when more has to be collected. */
static bool is_undecided(struct prazo_limiter_auto *l, int64_t now_us)
{
    bool up = l->kind == PRAZO_TRIAL_UP;
    if (l->a.ok + l->b.ok < 8 || l->a.sent == 0) { /* no life, no verdict */
        prazo_limiter_auto_reset(l, now_us, l->fast);
        l->next_at_us = now_us + l->gap_us;
        return false;
    }
    struct prazo_gain g = prazo_record_gain(up ? &l->b : &l->a, up ? &l->a : &l->b, now_us,
                                            prazo_limiter_auto_cv2(l));
    bool yes = g.odds > (up ? 150 : 100), no = g.odds < -(up ? 250 : 500);
    if (no && l->tries == 0) { /* A-B-A: measure the base once more first */
        l->tries = 1;
        l->a = new_record(l, now_us);
        l->trial = PRAZO_TRIAL_B_WAIT;
        return true;
    }
    if (!yes && !no)
        return true;
    if (up && yes)
        take_up(l, now_us, g.odds > 300);
    else
        decide(l, now_us, yes, g.gain);
    return false;
}

static void step_wait(struct prazo_limiter_auto *l, int64_t now_us)
{
    if (!has_ended(l, &l->a, now_us) || !has_ended(l, &l->b, now_us))
        return;
    if (l->b.sent > 0 && !is_undecided(l, now_us))
        return;
    bool to_b = l->trial == PRAZO_TRIAL_A_WAIT;
    l->trial = to_b ? PRAZO_TRIAL_B : PRAZO_TRIAL_A;
    l->grow = prazo_limiter_auto_limit(l);
    l->block = to_b ? l->b.sent : l->a.sent;
}

static void step_collect(struct prazo_limiter_auto *l, int64_t now_us, bool queued)
{
    bool is_a = l->trial == PRAZO_TRIAL_A;
    struct prazo_record *r = is_a ? &l->a : &l->b;
    if (r->sent - l->block >= block_of(is_a ? prazo_limiter_auto_limit(l) : l->level)) {
        r->closed_at_us = now_us;
        l->trial = is_a ? PRAZO_TRIAL_A_WAIT : PRAZO_TRIAL_B_WAIT;
        return;
    }
    if (is_pressed(l, now_us, queued) || now_us - l->b.since_us <= 8 * l->hold_us + 10000 ||
        now_us - l->near_at_us <= 4 * l->hold_us)
        return;
    /* Demand does not fill the level: nothing speaks against it. */
    if (l->kind == PRAZO_TRIAL_UP)
        prazo_limiter_auto_set(l, l->level * 256);
    prazo_limiter_auto_reset(l, now_us, true);
    prazo_limiter_auto_grow_soon(l, now_us);
}

void prazo_limiter_auto_step(struct prazo_limiter_auto *l, int64_t now_us, bool queued)
{
    switch (l->trial) {
    case PRAZO_TRIAL_NONE:
        if (is_pressed(l, now_us, queued) && now_us >= l->next_at_us &&
            l->a.sent >= (l->fast ? 8 : block_of(prazo_limiter_auto_limit(l))))
            begin_trial(l, now_us);
        return;
    case PRAZO_TRIAL_A:
    case PRAZO_TRIAL_B:
        step_collect(l, now_us, queued);
        return;
    case PRAZO_TRIAL_A_WAIT:
    case PRAZO_TRIAL_B_WAIT:
        step_wait(l, now_us);
        return;
    }
}

static int64_t isqrt(int64_t v)
{
    int64_t root = 0;
    for (int64_t bit = INT64_C(1) << 20; bit > 0; bit >>= 1)
        if ((root + bit) * (root + bit) <= v)
            root += bit;
    return root;
}

void prazo_limiter_auto_changed(struct prazo_limiter_auto *l, int64_t now_us, bool queued)
{
    if (l->trial != PRAZO_TRIAL_NONE || l->fast || now_us < l->changed_from_us ||
        !is_pressed(l, now_us, queued))
        return;
    int64_t percent = 110 + min64(90, isqrt(prazo_limiter_auto_cv2(l) * 256) * 70 / 256);
    if (l->changed_ref_us == 0) {
        l->changed_ref_us = l->ok_hold_us;
        return;
    }
    if (l->ok_hold_us * 100 <= l->changed_ref_us * percent &&
        l->changed_ref_us * 100 <= l->ok_hold_us * percent)
        return;
    prazo_limiter_auto_reset(l, now_us, false);
    prazo_limiter_auto_grow_soon(l, now_us);
    l->down_at_us = now_us + DOWN_FIRST_US;
}
