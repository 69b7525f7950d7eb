/* SPDX-License-Identifier: MIT */
/* Object pools: the maximum, zeroed objects, slabs and their failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/poison.h"
#include "base/pool.h"

static void test_maximum(void **state)
{
    static const struct {
        size_t object_bytes, per_slab, count_max;
    } rows[] = {
        { 1, 1, 0 }, { 1, 1, 1 }, { 1, 8, 3 }, { 24, 8, 8 }, { 24, 8, 9 }, { 40, 3, 100 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct prazo_pool pool;
        void *objects[100];

        prazo_pool_init(&pool, rows[i].object_bytes, rows[i].per_slab, rows[i].count_max);
        for (size_t round = 0; round < 3; round++) {
            for (size_t n = 0; n < rows[i].count_max; n++) {
                objects[n] = prazo_pool_get(&pool);
                assert_non_null(objects[n]);
                assert_int_equal((uintptr_t)objects[n] % 16, 0);
                for (size_t b = 0; b < rows[i].object_bytes; b++)
                    assert_int_equal(((char *)objects[n])[b], 0);
                memset(objects[n], 0xa5, rows[i].object_bytes);
            }
            assert_int_equal(pool.count, rows[i].count_max);
            assert_int_equal(pool.total, rows[i].count_max);
            assert_null(prazo_pool_get(&pool));
            for (size_t n = 0; n < rows[i].count_max; n++)
                prazo_pool_put(&pool, objects[n]);
            assert_int_equal(pool.count, 0);
        }
        prazo_pool_done(&pool);
    }
}

static void test_slabs_grow_by_need(void **state)
{
    struct prazo_pool pool;
    void *a, *b, *c;

    (void)state;
    prazo_pool_init(&pool, 32, 2, 5);
    assert_int_equal(pool.total, 0);
    a = prazo_pool_get(&pool);
    b = prazo_pool_get(&pool);
    assert_int_equal(pool.total, 2);
    c = prazo_pool_get(&pool);
    assert_int_equal(pool.total, 4);
    prazo_pool_put(&pool, b);
    assert_ptr_equal(prazo_pool_get(&pool), b); /* the warmest first */
    prazo_pool_put(&pool, NULL);
    prazo_pool_put(&pool, a);
    prazo_pool_put(&pool, b);
    prazo_pool_put(&pool, c);
    prazo_pool_done(&pool);
    prazo_pool_done(&pool);
    prazo_pool_done(NULL);
}

static void test_out_of_memory(void **state)
{
    struct prazo_pool pool;
    void *object;

    (void)state;
    prazo_pool_init(&pool, 32, 2, 5);
    prazo_mem_fail_after(0);
    assert_null(prazo_pool_get(&pool));
    assert_int_equal(pool.count, 0);
    assert_int_equal(pool.total, 0);
    object = prazo_pool_get(&pool);
    assert_non_null(object);
    prazo_pool_put(&pool, object);
    prazo_pool_done(&pool);
    prazo_mem_fail_after(-1);
}

#ifdef PRAZO_HAS_POISON
static void test_free_objects_are_poisoned(void **state)
{
    struct prazo_pool pool;
    char *object;

    (void)state;
    prazo_pool_init(&pool, 32, 2, 2);
    object = prazo_pool_get(&pool);
    assert_false(PRAZO_IS_POISONED(object) || PRAZO_IS_POISONED(object + 31));
    assert_true(PRAZO_IS_POISONED(object + 32)); /* its free neighbour */
    prazo_pool_put(&pool, object);
    assert_true(PRAZO_IS_POISONED(object) && PRAZO_IS_POISONED(object + 31));
    prazo_pool_done(&pool);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_slabs_grow_by_need),
        cmocka_unit_test(test_out_of_memory),
#ifdef PRAZO_HAS_POISON
        cmocka_unit_test(test_free_objects_are_poisoned),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
