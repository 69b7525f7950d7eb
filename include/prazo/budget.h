/* SPDX-License-Identifier: MIT */
/* Retry budgets: two bounds on repeated attempts.
 *
 * The window budget bounds what one upstream gets from this process:
 *
 *   repeats <= floor(ratio × first attempts) + repeats_min    over a sliding window of ten slots
 *
 * where the current slot counts as whole: the window is between nine and ten slots long. What is
 * not used is not saved: nothing older than the window counts. It is shared by all threads without
 * a lock. Each thread counts in a shard of its own, and who decides sums all shards; decisions that
 * run at the same moment do not see each other, so that of N threads together at most N − 1 repeats
 * too many are granted in a window.
 *
 * The travelling budget bounds what one request causes in the whole tree below it. It is split,
 * never copied:
 *
 *   held + lent + spent == given
 *
 * Pure: no clock, no allocation. */
#ifndef PRAZO_BUDGET_H
#define PRAZO_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PRAZO_BUDGET_SLOTS 10

struct prazo_budget_policy {
    uint32_t ratio_permille; /* of first attempts that may be repeated; 100 is a tenth */
    uint32_t repeats_min;    /* granted in each window on top of that, however few first attempts */
    int64_t window_us;       /* rounded down to ten slots; at least as long as the longest call */
};

/* One thread's counts. All zero at the start; private to budget.c. */
struct prazo_budget_shard {
    struct {
        int64_t number; /* of the slot that is held here, counted from instant 0 */
        uint64_t first;
        uint64_t repeats;
    } slots[PRAZO_BUDGET_SLOTS];
    uint64_t unused[2]; /* to 256 bytes: threads write to cache lines of their own */
};

struct prazo_budget {
    struct prazo_budget_shard *shards;
    uint32_t shard_count;
    uint32_t ratio_permille;
    uint32_t repeats_min;
    int64_t slot_us;
};

/* shards: shard_count of them, all zero, borrowed until the last use; best aligned to 64 bytes. */
void prazo_budget_init(struct prazo_budget *budget, const struct prazo_budget_policy *policy,
                       struct prazo_budget_shard *shards, uint32_t shard_count);

/* A shard belongs to one thread: only that thread may name it in the three calls below. A now_us
 * that goes back counts in the latest slot. */

/* A first attempt was sent. Repeats, also those of a caller further up, are no first attempts. */
void prazo_budget_count_first(struct prazo_budget *budget, uint32_t shard, int64_t now_us);
/* Grants a repeat and charges for it, or returns false. Charged when decided, before any wait. */
bool prazo_budget_charge(struct prazo_budget *budget, uint32_t shard, int64_t now_us);
/* Gives a charge back: only for a repeat that was never sent and whose client has left, once, by
 * the thread that charged. charged_at_us: the now_us of the charge. A charge that has left the
 * window is past giving back. */
void prazo_budget_refund(struct prazo_budget *budget, uint32_t shard, int64_t charged_at_us);

/* How many repeats the window would grant now; 0 after an over-grant. Any thread. */
uint64_t prazo_budget_available(const struct prazo_budget *budget, int64_t now_us);

/* The extra attempts that one request may cause, here and below. Not thread-safe. */
struct prazo_travel {
    uint32_t given;
    uint32_t held;  /* may be spent or lent */
    uint32_t lent;  /* to attempts whose answer is not here yet */
    uint32_t spent; /* gone, here or below */
};

/* What a hop may give a request. is_first: the request brought no believed, well-formed budget;
 * then it is `extra`. Else what was brought, but at most `extra`. */
uint32_t prazo_travel_given(bool is_first, uint32_t brought, uint32_t extra);

void prazo_travel_init(struct prazo_travel *travel, uint32_t given);
/* Takes 1 for a repeat of one's own; false if nothing is held. */
bool prazo_travel_spend(struct prazo_travel *travel);
/* Lends an attempt at most `wanted`; returns how much, which is what its x-retry-budget says. */
uint32_t prazo_travel_lend(struct prazo_travel *travel, uint32_t wanted);
/* The attempt that was lent `lent` answered and spent `spent` of it (more counts as all). Exactly
 * one of these two for each prazo_travel_lend(). An attempt of which nothing was sent has spent 0.
 */
void prazo_travel_returned(struct prazo_travel *travel, uint32_t lent, uint32_t spent);
/* It ended without an answer that says what was spent: all of it counts as spent. */
void prazo_travel_lost(struct prazo_travel *travel, uint32_t lent);
/* What one's own answer has to report as spent: what is still lent may yet be. */
uint32_t prazo_travel_spent(const struct prazo_travel *travel);

#ifdef __cplusplus
}
#endif
#endif
