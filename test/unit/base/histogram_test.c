/* SPDX-License-Identifier: MIT */
/* Which bucket a duration falls into, at and around every bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/histogram.h"

/* Contract 10: 1 2 5 × 10ⁿ from 0.5 ms to 50 s. */
static void test_bounds(void **state)
{
    static const int64_t factors[] = { 5, 10, 20 };
    int64_t scale = 100;
    int bucket = 0;

    (void)state;
    for (; scale <= 10000000; scale *= 10) {
        for (int i = 0; i < 3 && factors[i] * scale <= 50000000; i++)
            assert_true(prazo_histogram_bounds_us[bucket++] == factors[i] * scale);
    }
    assert_int_equal(bucket, PRAZO_HISTOGRAM_BUCKETS - 1);
    assert_true(prazo_histogram_bounds_us[bucket] == INT64_MAX);
}

static void test_bucket_of_a_duration(void **state)
{
    static const struct {
        int64_t us;
        int bucket;
        uint64_t sum_us;
    } rows[] = {
        { INT64_MIN, 0, 0 }, /* C090: never negative */
        { -1, 0, 0 },
        { 0, 0, 0 },
        { 500, 0, 500 }, /* a bound belongs to its bucket */
        { 501, 1, 501 },
        { 1000, 1, 1000 },
        { 1001, 2, 1001 },
        { 50000000, 15, 50000000 },
        { 50000001, 16, 50000001 },
        { INT64_MAX, 16, INT64_MAX },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct prazo_histogram h = { 0 };

        prazo_histogram_observe(&h, rows[i].us);
        for (int b = 0; b < PRAZO_HISTOGRAM_BUCKETS; b++)
            assert_int_equal(h.count[b], b == rows[i].bucket);
        assert_true(h.sum_us == rows[i].sum_us);
    }
}

static void test_every_bound_and_the_next(void **state)
{
    struct prazo_histogram h = { 0 };

    (void)state;
    for (int b = 0; b < PRAZO_HISTOGRAM_BUCKETS - 1; b++) {
        prazo_histogram_observe(&h, prazo_histogram_bounds_us[b]);
        prazo_histogram_observe(&h, prazo_histogram_bounds_us[b] + 1);
    }
    assert_int_equal(h.count[0], 1);
    for (int b = 1; b < PRAZO_HISTOGRAM_BUCKETS - 1; b++)
        assert_int_equal(h.count[b], 2);
    assert_int_equal(h.count[PRAZO_HISTOGRAM_BUCKETS - 1], 1);
}

static void test_sum_adds_up(void **state)
{
    struct prazo_histogram a = { 0 }, b = { 0 }, sum = { 0 };

    (void)state;
    prazo_histogram_observe(&a, 10);
    prazo_histogram_observe(&a, 3000);
    prazo_histogram_observe(&b, 20);
    prazo_histogram_sum(&sum, &a);
    prazo_histogram_sum(&sum, &b);
    assert_int_equal(sum.count[0], 2);
    assert_int_equal(sum.count[3], 1);
    assert_int_equal(sum.sum_us, 3030);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_bucket_of_a_duration),
        cmocka_unit_test(test_every_bound_and_the_next),
        cmocka_unit_test(test_sum_adds_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
