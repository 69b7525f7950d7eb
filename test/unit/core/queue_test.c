/* SPDX-License-Identifier: MIT */
/* The waiting queue: a table of scripts, and random operations against a naive twin, an array that
 * is searched for the earliest. Prints its seed; PRAZO_SEED=n runs one again. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "core/queue.h"

enum { ENTRIES = 64, CAPACITY = 40, STEPS = 60000 };

struct bed {
    struct prazo_queue queue;
    struct prazo_queue_entry *slots[CAPACITY + 1];
    struct prazo_queue_entry entries[ENTRIES];
};

static void init(struct bed *bed, size_t capacity)
{
    memset(bed, 0, sizeof *bed);
    prazo_queue_init(&bed->queue, bed->slots, capacity);
}

/* ---- scripts ---- */

/* '+' pushes the named entry with that deadline, '!' expects that push to be refused, '-' removes
 * it; '=' expects it from the next pop, with name '.' nothing. */
struct step {
    char what, name;
    int64_t deadline_us;
};

struct script {
    const char *title;
    size_t capacity;
    struct step steps[16];
};

static const struct script scripts[] = {
    { "empty", 3, { { '=', '.', 0 } } },
    { "earliest first",
      4,
      { { '+', 'a', 30 },
        { '+', 'b', 10 },
        { '+', 'c', 20 },
        { '=', 'b', 0 },
        { '=', 'c', 0 },
        { '=', 'a', 0 },
        { '=', '.', 0 } } },
    { "equal deadlines in the order of arrival",
      5,
      { { '+', 'a', 7 },
        { '+', 'b', 7 },
        { '+', 'c', 7 },
        { '+', 'd', 7 },
        { '=', 'a', 0 },
        { '=', 'b', 0 },
        { '=', 'c', 0 },
        { '=', 'd', 0 } } },
    { "arrival counts anew after a pop",
      3,
      { { '+', 'a', 7 },
        { '+', 'b', 7 },
        { '=', 'a', 0 },
        { '+', 'a', 7 },
        { '=', 'b', 0 },
        { '=', 'a', 0 } } },
    { "full",
      2,
      { { '+', 'a', 2 },
        { '+', 'b', 1 },
        { '!', 'c', 0 },
        { '=', 'b', 0 },
        { '+', 'c', 0 },
        { '=', 'c', 0 },
        { '=', 'a', 0 } } },
    { "no room at all", 0, { { '!', 'a', 1 }, { '=', '.', 0 } } },
    { "removed from the middle",
      5,
      { { '+', 'a', 1 },
        { '+', 'b', 2 },
        { '+', 'c', 3 },
        { '+', 'd', 4 },
        { '-', 'b', 0 },
        { '=', 'a', 0 },
        { '=', 'c', 0 },
        { '=', 'd', 0 } } },
    { "removed first and last",
      3,
      { { '+', 'a', 1 },
        { '+', 'b', 2 },
        { '+', 'c', 3 },
        { '-', 'c', 0 },
        { '-', 'a', 0 },
        { '=', 'b', 0 },
        { '=', '.', 0 } } },
    { "what fills the hole moves up past its new parent",
      7,
      { { '+', 'a', 1 },
        { '+', 'b', 10 },
        { '+', 'c', 2 },
        { '+', 'd', 11 },
        { '+', 'e', 12 },
        { '+', 'f', 3 },
        { '+', 'g', 4 },
        { '-', 'd', 0 },
        { '=', 'a', 0 },
        { '=', 'c', 0 },
        { '=', 'f', 0 },
        { '=', 'g', 0 },
        { '=', 'b', 0 },
        { '=', 'e', 0 } } },
    { "not queued, removed twice",
      2,
      { { '-', 'a', 0 }, { '+', 'a', 1 }, { '-', 'a', 0 }, { '-', 'a', 0 }, { '=', '.', 0 } } },
    { "extreme deadlines",
      3,
      { { '+', 'a', INT64_MAX },
        { '+', 'b', INT64_MIN },
        { '+', 'c', 0 },
        { '=', 'b', 0 },
        { '=', 'c', 0 },
        { '=', 'a', 0 } } },
};

static void run_step(struct bed *bed, const struct script *script, const struct step *step)
{
    struct prazo_queue_entry *entry = step->name == '.' ? NULL : &bed->entries[step->name - 'a'];
    bool ok = true;

    switch (step->what) {
    case '+':
        ok = prazo_queue_push(&bed->queue, entry, step->deadline_us);
        break;
    case '!':
        ok = !prazo_queue_push(&bed->queue, entry, step->deadline_us) && entry->slot == 0;
        break;
    case '-':
        prazo_queue_remove(&bed->queue, entry);
        ok = entry->slot == 0;
        break;
    default:
        ok = prazo_queue_pop(&bed->queue) == entry && (entry == NULL || entry->slot == 0);
        break;
    }
    if (!ok)
        fail_msg("%s: step %c%c", script->title, step->what, step->name);
}

static void test_scripts(void **state)
{
    struct bed bed;

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        init(&bed, scripts[i].capacity);
        for (const struct step *step = scripts[i].steps; step->what != 0; step++)
            run_step(&bed, &scripts[i], step);
    }
}

/* ---- twin ---- */

struct twin {
    bool is_queued;
    int64_t deadline_us;
    uint64_t order;
};

static struct twin twins[ENTRIES];
static uint64_t arrivals;

static size_t twin_count(void)
{
    size_t count = 0;

    for (size_t i = 0; i < ENTRIES; i++)
        count += twins[i].is_queued;
    return count;
}

/* Its index, or ENTRIES. */
static size_t twin_first(void)
{
    size_t first = ENTRIES;

    for (size_t i = 0; i < ENTRIES; i++) {
        if (!twins[i].is_queued)
            continue;
        if (first == ENTRIES || twins[i].deadline_us < twins[first].deadline_us ||
            (twins[i].deadline_us == twins[first].deadline_us &&
             twins[i].order < twins[first].order))
            first = i;
    }
    return first;
}

static void push_both(struct bed *bed, size_t i, int64_t deadline_us)
{
    bool fits = twin_count() < CAPACITY;

    assert_int_equal(prazo_queue_push(&bed->queue, &bed->entries[i], deadline_us), fits);
    if (fits)
        twins[i] = (struct twin){ true, deadline_us, arrivals++ };
}

static void pop_both(struct bed *bed)
{
    size_t first = twin_first();
    struct prazo_queue_entry *got = prazo_queue_pop(&bed->queue);

    assert_ptr_equal(got, first == ENTRIES ? NULL : &bed->entries[first]);
    if (first != ENTRIES)
        twins[first].is_queued = false;
}

static void assert_same(const struct bed *bed)
{
    assert_int_equal(bed->queue.count, twin_count());
    for (size_t i = 0; i < ENTRIES; i++) {
        size_t slot = bed->entries[i].slot;
        assert_int_equal(slot != 0, twins[i].is_queued);
        if (slot != 0)
            assert_ptr_equal(bed->queue.heap[slot], &bed->entries[i]);
    }
}

static uint64_t choose_seed(void)
{
    const char *given = getenv("PRAZO_SEED");
    struct prazo_prng source;

    if (given)
        return strtoull(given, NULL, 10);
    prazo_prng_seed_random(&source);
    return prazo_prng_next(&source);
}

static void test_agrees_with_twin(void **state)
{
    uint64_t seed = choose_seed();
    struct prazo_prng prng;
    struct bed bed;

    (void)state;
    print_message("queue_test: run again with PRAZO_SEED=%" PRIu64 "\n", seed);
    prazo_prng_seed(&prng, seed);
    init(&bed, CAPACITY);
    memset(twins, 0, sizeof twins);
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)prazo_prng_below(&prng, ENTRIES);
        /* phases of filling and of emptying, so that both ends are met */
        uint64_t bias = step / 500 % 2 == 0 ? 6 : 3;
        if (prazo_prng_below(&prng, 9) < bias) {
            if (!twins[i].is_queued) /* few different deadlines, so that many are equal */
                push_both(&bed, i, (int64_t)prazo_prng_below(&prng, 12) - 6);
        } else if (prazo_prng_below(&prng, 2) == 0) {
            pop_both(&bed);
        } else {
            prazo_queue_remove(&bed.queue, &bed.entries[i]);
            twins[i].is_queued = false;
        }
        assert_same(&bed);
    }
    while (twin_count() > 0)
        pop_both(&bed);
    pop_both(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_agrees_with_twin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
