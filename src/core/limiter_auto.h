/* SPDX-License-Identifier: MIT */
/* Finds a concurrency limit by trials: another level is run beside the present one and their
 * goodput compared (permits in use × successes ÷ permit-time). No remembered "no-load latency" that
 * could drift or be learned in overload. The base is measured again before a verdict against the
 * trial level (A-B-A), or a change of the upstream in between would be blamed on the limit.
 * Pure; not thread-safe. */
#ifndef PRAZO_CORE_LIMITER_AUTO_H
#define PRAZO_CORE_LIMITER_AUTO_H

#include <stdbool.h>
#include <stdint.h>

enum prazo_trial {
    PRAZO_TRIAL_NONE = 0, /* the base is collected */
    PRAZO_TRIAL_A,        /* the base is collected once more */
    PRAZO_TRIAL_A_WAIT,   /* its attempts have to end */
    PRAZO_TRIAL_B,        /* the trial level is collected */
    PRAZO_TRIAL_B_WAIT,
};

enum prazo_trial_kind { PRAZO_TRIAL_UP = 0, PRAZO_TRIAL_DOWN };

/* The attempts that ran at one level. */
struct prazo_record {
    uint32_t id; /* 0: void */
    int64_t sent, open, ok;
    int64_t hold_us;    /* permit-time of the ended */
    int64_t open_at_us; /* sum of the sending times of the open */
    int64_t occupied;   /* sum of the permits in use at each sending */
    int64_t since_us, closed_at_us;
};

struct prazo_limiter_auto {
    int64_t lim; /* 1/256 permits */
    struct prazo_record a, b;
    uint32_t last_id;
    enum prazo_trial trial;
    enum prazo_trial_kind kind, next;
    int64_t level, grow, block, tries;
    int64_t gap_us, next_at_us, down_at_us, near_at_us;
    bool fast, deep;
    int64_t changed_ref_us, changed_from_us;
    /* What the attempts said, kept by admit.c. */
    int64_t in_flight, orphans, open_at_us;
    int64_t hold_us, ok_hold_us, base_us, base_at_us, left_us;
    int64_t m1, m2;
    int64_t in_time; /* share that was answered, 1/65536 */
    int64_t refused_at_us;
};

/* Gain of more permits in percent (100: as much more goodput, 0: none) and the log odds, 1/100,
 * that it is worth it. */
struct prazo_gain {
    int64_t gain, odds;
};

void prazo_limiter_auto_init(struct prazo_limiter_auto *l, int64_t now_us);
int64_t prazo_limiter_auto_limit(const struct prazo_limiter_auto *l);
/* The limit in force: the trial's while one runs. */
int64_t prazo_limiter_auto_in_force(const struct prazo_limiter_auto *l);
void prazo_limiter_auto_set(struct prazo_limiter_auto *l, int64_t lim);
/* Forgets the records. fast: believe early blocks. */
void prazo_limiter_auto_reset(struct prazo_limiter_auto *l, int64_t now_us, bool fast);
void prazo_limiter_auto_grow_soon(struct prazo_limiter_auto *l, int64_t now_us);
/* Squared coefficient of variation of the times, 1/256. */
int64_t prazo_limiter_auto_cv2(const struct prazo_limiter_auto *l);
/* An attempt begins with `occupied` permits in use. The id of the record it belongs to, or 0. */
uint32_t prazo_limiter_auto_sent(struct prazo_limiter_auto *l, int64_t now_us, int64_t occupied);
/* After each event while the gate is open. */
void prazo_limiter_auto_step(struct prazo_limiter_auto *l, int64_t now_us, bool queued);
/* Has the upstream become slower or faster? Then the next trials come soon. */
void prazo_limiter_auto_changed(struct prazo_limiter_auto *l, int64_t now_us, bool queued);
struct prazo_gain prazo_record_gain(const struct prazo_record *hi, const struct prazo_record *lo,
                                    int64_t now_us, int64_t cv2);

#endif
