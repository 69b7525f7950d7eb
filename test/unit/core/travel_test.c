/* SPDX-License-Identifier: MIT */
/* The budget that travels, as a table and over random trees of hops whose answers get lost: extra
 * attempts anywhere in a tree are at most the budget of its first hop, hence attempts at the leaves
 * at most (1 + budget) × calls. Prints its seed; PRAZO_SEED=n runs one again. */
#include "prazo/budget.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/prng.h"

static void check(const struct prazo_travel *t, uint32_t held, uint32_t lent, uint32_t spent)
{
    assert_int_equal(t->held, held);
    assert_int_equal(t->lent, lent);
    assert_int_equal(t->spent, spent);
    assert_int_equal(t->held + t->lent + t->spent, t->given);
    assert_int_equal(prazo_travel_spent(t), lent + spent);
}

static void what_is_given_is_split(void **state)
{
    (void)state;
    struct prazo_travel t;
    prazo_travel_init(&t, 5);
    check(&t, 5, 0, 0);
    assert_true(prazo_travel_spend(&t));
    check(&t, 4, 0, 1);
    assert_int_equal(prazo_travel_lend(&t, 3), 3);
    check(&t, 1, 3, 1);
    assert_int_equal(prazo_travel_lend(&t, 99), 1); /* no more than is held */
    check(&t, 0, 4, 1);
    assert_false(prazo_travel_spend(&t));
    assert_int_equal(prazo_travel_lend(&t, 1), 0);
    prazo_travel_returned(&t, 3, 1);
    check(&t, 2, 1, 2);
    prazo_travel_lost(&t, 1);
    check(&t, 2, 0, 3);
    assert_int_equal(prazo_travel_lend(&t, 2), 2);
    prazo_travel_returned(&t, 2, 99); /* more than it got: all */
    check(&t, 0, 0, 5);
}

static void nothing_is_split_into_nothing(void **state)
{
    (void)state;
    struct prazo_travel t;
    prazo_travel_init(&t, 0);
    assert_false(prazo_travel_spend(&t));
    assert_int_equal(prazo_travel_lend(&t, UINT32_MAX), 0);
    prazo_travel_returned(&t, 0, 1);
    prazo_travel_lost(&t, 0);
    check(&t, 0, 0, 0);
}

static void the_first_hop_gives_and_others_pass_on(void **state)
{
    (void)state;
    assert_int_equal(prazo_travel_given(true, 99, 1), 1);
    assert_int_equal(prazo_travel_given(true, 0, 3), 3);
    assert_int_equal(prazo_travel_given(false, 0, 1), 0);
    assert_int_equal(prazo_travel_given(false, 1, 3), 1);
    assert_int_equal(prazo_travel_given(false, 99, 3), 3);
    assert_int_equal(prazo_travel_given(false, 3, 0), 0);
}

enum { DEPTH_MAX = 5, CALLS_MAX = 3 };

/* A tree of services: each attempt at depth d makes calls[d] calls to the service below it, through
 * a hop that may repeat them. */
struct tree {
    struct prazo_prng prng;
    int depth;
    int calls[DEPTH_MAX];
    bool is_below[DEPTH_MAX]; /* retry.where of the hop at that depth */
    uint32_t extra[DEPTH_MAX];
    uint64_t leaf_attempts;
    uint64_t extra_attempts;
};

static bool chance(struct tree *tree, uint64_t percent)
{
    return prazo_prng_below(&tree->prng, 100) < percent;
}

static uint32_t run_attempt(struct tree *tree, int depth, uint32_t given, bool *ret_is_ok);

static uint32_t how_much_to_lend(struct tree *tree, int depth, const struct prazo_travel *travel)
{
    if (!tree->is_below[depth])
        return 0;
    return chance(tree, 50) ? travel->held : (uint32_t)prazo_prng_below(&tree->prng, 4);
}

/* One call through a hop: an attempt, and repeats while it fails and the budget lasts. Returns what
 * the hop reports as spent. */
static uint32_t run_hop(struct tree *tree, int depth, uint32_t given, bool *ret_is_ok)
{
    struct prazo_travel travel;
    prazo_travel_init(&travel, given);
    for (;;) {
        uint32_t lent = prazo_travel_lend(&travel, how_much_to_lend(tree, depth, &travel));
        uint32_t spent = run_attempt(tree, depth, lent, ret_is_ok);
        if (chance(tree, 20)) { /* the answer is lost, whatever it was */
            *ret_is_ok = false;
            prazo_travel_lost(&travel, lent);
        } else {
            prazo_travel_returned(&travel, lent, chance(tree, 5) ? 99 : spent);
        }
        PRAZO_ASSERT(travel.held + travel.spent == given && travel.lent == 0);
        if (*ret_is_ok || !prazo_travel_spend(&travel))
            return prazo_travel_spent(&travel);
        tree->extra_attempts++;
    }
}

/* One attempt at the service at `depth`: its calls to the one below run side by side, so that
 * several are lent something before the first of them has answered. */
static uint32_t run_attempt(struct tree *tree, int depth, uint32_t given, bool *ret_is_ok)
{
    struct prazo_travel travel;
    *ret_is_ok = chance(tree, 30);
    if (depth == tree->depth - 1) {
        tree->leaf_attempts++;
        return 0;
    }
    prazo_travel_init(&travel, given);
    uint32_t lent[CALLS_MAX];
    for (int i = 0; i < tree->calls[depth]; i++)
        lent[i] = prazo_travel_lend(&travel, (uint32_t)prazo_prng_below(&tree->prng, 5));
    for (int i = 0; i < tree->calls[depth]; i++) {
        bool is_call_ok;
        uint32_t got = prazo_travel_given(false, lent[i], tree->extra[depth + 1]);
        uint32_t spent = run_hop(tree, depth + 1, got, &is_call_ok);
        *ret_is_ok = *ret_is_ok && is_call_ok;
        if (chance(tree, 20))
            prazo_travel_lost(&travel, lent[i]);
        else
            prazo_travel_returned(&travel, lent[i], spent);
    }
    PRAZO_ASSERT(travel.held + travel.spent == given && travel.lent == 0);
    return prazo_travel_spent(&travel);
}

static void extra_attempts_of_a_tree_are_at_most_its_budget(void **state)
{
    (void)state;
    enum { TREES = 20000 };
    const char *text = getenv("PRAZO_SEED");
    struct tree tree = { 0 };
    prazo_prng_seed_random(&tree.prng);
    uint64_t seed = text ? strtoull(text, NULL, 10) : prazo_prng_next(&tree.prng);
    print_message("PRAZO_SEED=%" PRIu64 "\n", seed);
    prazo_prng_seed(&tree.prng, seed);
    uint64_t all_spent = 0;
    for (int n = 0; n < TREES; n++) {
        uint64_t calls = 1; /* at the leaf, if nothing is repeated */
        tree.depth = 1 + (int)prazo_prng_below(&tree.prng, DEPTH_MAX);
        tree.leaf_attempts = tree.extra_attempts = 0;
        for (int d = 0; d < tree.depth; d++) {
            tree.calls[d] = 1 + (int)prazo_prng_below(&tree.prng, CALLS_MAX);
            tree.is_below[d] = chance(&tree, 70);
            tree.extra[d] = (uint32_t)prazo_prng_below(&tree.prng, 6);
            if (d < tree.depth - 1)
                calls *= (uint64_t)tree.calls[d];
        }
        bool is_ok;
        uint32_t budget = prazo_travel_given(true, 99, tree.extra[0]);
        uint32_t spent = run_hop(&tree, 0, budget, &is_ok);
        if (tree.extra_attempts > spent || spent > budget ||
            tree.leaf_attempts > (1 + budget) * calls)
            fail_msg("tree %d: %llu extra attempts, %llu at the leaf for %llu calls, budget %u", n,
                     (unsigned long long)tree.extra_attempts,
                     (unsigned long long)tree.leaf_attempts, (unsigned long long)calls, budget);
        all_spent += tree.extra_attempts == budget && budget > 1;
    }
    assert_true(all_spent > TREES / 20); /* the bound is reached, not only kept */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_is_split),
        cmocka_unit_test(nothing_is_split_into_nothing),
        cmocka_unit_test(the_first_hop_gives_and_others_pass_on),
        cmocka_unit_test(extra_attempts_of_a_tree_are_at_most_its_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
