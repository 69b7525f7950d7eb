/* SPDX-License-Identifier: MIT */
/* Backoff: the steps as a table, the draws at their edges and by their distribution. */
#include "prazo/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/prng.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MS INT64_C(1000)
#define S INT64_C(1000000)

static void steps_double_up_to_the_cap(void **state)
{
    (void)state;
    static const struct {
        int64_t base_us, cap_us;
        uint32_t n;
        int64_t expected_us;
    } rows[] = {
        { 100 * MS, 1600 * MS, 0, 100 * MS },
        { 100 * MS, 1600 * MS, 1, 200 * MS },
        { 100 * MS, 1600 * MS, 3, 800 * MS },
        { 100 * MS, 1600 * MS, 4, 1600 * MS },
        { 100 * MS, 1600 * MS, 5, 1600 * MS },
        { 100 * MS, 1500 * MS, 4, 1500 * MS }, /* not a power of two times the base */
        { 60 * S, 30 * S, 0, 30 * S },         /* the base above the cap */
        { 1, INT64_MAX, 61, INT64_C(1) << 61 },
        { 1, INT64_MAX, 62, INT64_C(1) << 62 },
        { 1, INT64_MAX, 63, INT64_MAX },
        { 1, INT64_MAX, 64, INT64_MAX },
        { 2, INT64_MAX, 62, INT64_MAX },
        { INT64_MAX, INT64_MAX, 0, INT64_MAX },
        { INT64_MAX, INT64_MAX, UINT32_MAX, INT64_MAX },
        { 0, S, 5, 0 },
        { S, 0, 5, 0 },
        { -S, S, 5, 0 },
        { S, -S, 5, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_backoff backoff = { rows[i].base_us, rows[i].cap_us };
        int64_t step_us = prazo_backoff_step_us(&backoff, rows[i].n);
        if (step_us != rows[i].expected_us)
            fail_msg("row %zu: %lld", i, (long long)step_us);
    }
}

static void draws_reach_both_ends(void **state)
{
    (void)state;
    struct prazo_backoff backoff = { 100 * MS, 1600 * MS };
    assert_int_equal(prazo_backoff_draw_us(&backoff, 0, 0), 0);
    assert_int_equal(prazo_backoff_draw_us(&backoff, 0, UINT64_MAX), 100 * MS);
    assert_int_equal(prazo_backoff_draw_us(&backoff, 0, UINT64_MAX / 2), 50 * MS);
    assert_int_equal(prazo_backoff_draw_us(&backoff, 99, UINT64_MAX), 1600 * MS);
    struct prazo_backoff none = { 0, S };
    assert_int_equal(prazo_backoff_draw_us(&none, 3, UINT64_MAX), 0);
    struct prazo_backoff endless = { INT64_MAX, INT64_MAX };
    assert_int_equal(prazo_backoff_draw_us(&endless, 0, UINT64_MAX), INT64_MAX);
    assert_int_equal(prazo_backoff_draw_us(&endless, 0, 0), 0);
}

/* C037: the jitter does not vanish at the cap. */
static void draws_at_the_cap_spread_over_all_of_it(void **state)
{
    (void)state;
    enum { DRAWS = 1000, TENTHS = 10 };
    struct prazo_backoff backoff = { 100 * MS, S };
    struct prazo_prng prng;
    prazo_prng_seed(&prng, 37);
    int64_t sum_us = 0;
    int tenths[TENTHS] = { 0 };
    for (int i = 0; i < DRAWS; i++) {
        int64_t us = prazo_backoff_draw_us(&backoff, 10, prazo_prng_next(&prng));
        assert_in_range(us, 0, S);
        sum_us += us;
        tenths[us == S ? TENTHS - 1 : us * TENTHS / S]++;
    }
    /* Five standard deviations: 500 ± 46 ms, and 100 ± 47 draws in each tenth. */
    assert_in_range(sum_us / DRAWS, 454 * MS, 546 * MS);
    for (int i = 0; i < TENTHS; i++)
        assert_in_range(tenths[i], 53, 147);
}

/* C038: no exponent overflows, and the median does not fall as attempts rise. */
static void no_exponent_overflows(void **state)
{
    (void)state;
    static const int64_t bases_us[] = { 1 * MS, 3 * MS, 100 * MS, S, 29 * S, 30 * S, 60 * S };
    const int64_t cap_us = 30 * S;
    for (size_t b = 0; b < COUNT(bases_us); b++) {
        struct prazo_backoff backoff = { bases_us[b], cap_us };
        int64_t median_us = 0;
        for (uint32_t n = 0; n <= 10000; n++) {
            int64_t middle_us = prazo_backoff_draw_us(&backoff, n, UINT64_C(1) << 63);
            assert_in_range(middle_us, median_us, cap_us);
            assert_in_range(prazo_backoff_draw_us(&backoff, n, UINT64_MAX), 0, cap_us);
            median_us = middle_us;
        }
        assert_in_range(median_us, cap_us / 2, cap_us / 2 + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_double_up_to_the_cap),
        cmocka_unit_test(draws_reach_both_ends),
        cmocka_unit_test(draws_at_the_cap_spread_over_all_of_it),
        cmocka_unit_test(no_exponent_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
