/* SPDX-License-Identifier: MIT */
/* The window budget of an upstream and the travelling budget of a request. Neither decides whether
 * an attempt is worth repeating: that is retry.c.
 *
 * Window: slot s lives at s mod 10 until s + 10 takes it over. Each shard has one writer.
 * Why at most N − 1 are granted too many: take the granting decision that began last. It saw every
 * grant that was complete when it began, and the others that it missed were under way at that
 * moment, at most one for each other thread. This needs one order of all reads and writes of
 * `repeats`, hence seq_cst there, which costs something on the rare decision only; first attempts
 * are counted relaxed, because who misses one grants less. A slot that is taken over while somebody
 * reads it with an older clock must not show its old first attempts without their repeats: the
 * writer clears `first` before `repeats`, the reader reads them in the opposite order.
 *
 * Travelling: held + lent + spent == given after every function. */
#include "prazo/budget.h"

#include "base/assert.h"

static int64_t slot_number(const struct prazo_budget *budget, int64_t now_us)
{
    return now_us > 0 ? now_us / budget->slot_us : 0;
}

static unsigned slot_index(int64_t number)
{
    return (unsigned)(number % PRAZO_BUDGET_SLOTS);
}

/* The index of the slot for now, taken over from an older one if need be. */
static unsigned open_slot(struct prazo_budget *budget, struct prazo_budget_shard *shard,
                          int64_t now_us)
{
    int64_t number = slot_number(budget, now_us);
    unsigned i = slot_index(number);
    /* Older only: if time went back, the slot holds a later number and goes on holding it. */
    if (__atomic_load_n(&shard->slots[i].number, __ATOMIC_RELAXED) < number) {
        __atomic_store_n(&shard->slots[i].first, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&shard->slots[i].repeats, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&shard->slots[i].number, number, __ATOMIC_RELEASE);
    }
    return i;
}

void prazo_budget_init(struct prazo_budget *budget, const struct prazo_budget_policy *policy,
                       struct prazo_budget_shard *shards, uint32_t shard_count)
{
    int64_t slot_us = policy->window_us / PRAZO_BUDGET_SLOTS;
    *budget = (struct prazo_budget){
        .shards = shards,
        .shard_count = shard_count,
        .ratio_permille = policy->ratio_permille,
        .repeats_min = policy->repeats_min,
        .slot_us = slot_us > 0 ? slot_us : 1,
    };
}

void prazo_budget_count_first(struct prazo_budget *budget, uint32_t shard, int64_t now_us)
{
    PRAZO_ASSERT(shard < budget->shard_count);
    struct prazo_budget_shard *own = &budget->shards[shard];
    uint64_t *first = &own->slots[open_slot(budget, own, now_us)].first;
    __atomic_store_n(first, __atomic_load_n(first, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

bool prazo_budget_charge(struct prazo_budget *budget, uint32_t shard, int64_t now_us)
{
    PRAZO_ASSERT(shard < budget->shard_count);
    if (prazo_budget_available(budget, now_us) == 0)
        return false;
    struct prazo_budget_shard *own = &budget->shards[shard];
    uint64_t *repeats = &own->slots[open_slot(budget, own, now_us)].repeats;
    __atomic_store_n(repeats, __atomic_load_n(repeats, __ATOMIC_RELAXED) + 1, __ATOMIC_SEQ_CST);
    return true;
}

void prazo_budget_refund(struct prazo_budget *budget, uint32_t shard, int64_t charged_at_us)
{
    PRAZO_ASSERT(shard < budget->shard_count);
    struct prazo_budget_shard *own = &budget->shards[shard];
    int64_t number = slot_number(budget, charged_at_us);
    unsigned i = slot_index(number);
    if (__atomic_load_n(&own->slots[i].number, __ATOMIC_RELAXED) != number)
        return;
    uint64_t repeats = __atomic_load_n(&own->slots[i].repeats, __ATOMIC_RELAXED);
    PRAZO_ASSERT(repeats > 0);
    __atomic_store_n(&own->slots[i].repeats, repeats - 1, __ATOMIC_SEQ_CST);
}

uint64_t prazo_budget_available(const struct prazo_budget *budget, int64_t now_us)
{
    int64_t gone = slot_number(budget, now_us) - PRAZO_BUDGET_SLOTS;
    uint64_t first = 0, repeats = 0;
    for (uint32_t shard = 0; shard < budget->shard_count; shard++) {
        const struct prazo_budget_shard *s = &budget->shards[shard];
        for (unsigned i = 0; i < PRAZO_BUDGET_SLOTS; i++) {
            /* No upper bound: another thread's clock reading may be newer than this one. */
            if (__atomic_load_n(&s->slots[i].number, __ATOMIC_ACQUIRE) <= gone)
                continue;
            repeats += __atomic_load_n(&s->slots[i].repeats, __ATOMIC_SEQ_CST);
            first += __atomic_load_n(&s->slots[i].first, __ATOMIC_RELAXED);
        }
    }
    /* floor(ratio × first) in two parts, so that the product stays small. */
    uint64_t allowed = first / 1000 * budget->ratio_permille +
                       first % 1000 * budget->ratio_permille / 1000 + budget->repeats_min;
    return allowed > repeats ? allowed - repeats : 0;
}

uint32_t prazo_travel_given(bool is_first, uint32_t brought, uint32_t extra)
{
    return is_first || brought > extra ? extra : brought;
}

void prazo_travel_init(struct prazo_travel *travel, uint32_t given)
{
    *travel = (struct prazo_travel){ .given = given, .held = given };
}

bool prazo_travel_spend(struct prazo_travel *travel)
{
    if (travel->held == 0)
        return false;
    travel->held--;
    travel->spent++;
    return true;
}

uint32_t prazo_travel_lend(struct prazo_travel *travel, uint32_t wanted)
{
    uint32_t lent = wanted < travel->held ? wanted : travel->held;
    travel->held -= lent;
    travel->lent += lent;
    return lent;
}

void prazo_travel_returned(struct prazo_travel *travel, uint32_t lent, uint32_t spent)
{
    PRAZO_ASSERT(lent <= travel->lent);
    if (spent > lent)
        spent = lent;
    travel->lent -= lent;
    travel->held += lent - spent;
    travel->spent += spent;
}

void prazo_travel_lost(struct prazo_travel *travel, uint32_t lent)
{
    prazo_travel_returned(travel, lent, lent);
}

uint32_t prazo_travel_spent(const struct prazo_travel *travel)
{
    return travel->spent + travel->lent;
}
