/* SPDX-License-Identifier: MIT */
/* The allocation wrappers and their failure switch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static int turn_off(void **state)
{
    (void)state;
    prazo_mem_fail_after(-1);
    return 0;
}

static void test_edges_of_sizes(void **state)
{
    char *p = prazo_mem_alloc(0), *q = prazo_mem_calloc(0, 0), *z = prazo_mem_calloc(7, 3);
    volatile size_t huge = SIZE_MAX; /* or the compiler warns about what is tested here */

    (void)state;
    assert_non_null(p);
    assert_non_null(q);
    assert_non_null(z);
    for (int i = 0; i < 21; i++)
        assert_int_equal(z[i], 0);
    p = prazo_mem_realloc(p, 0);
    assert_non_null(p);
    assert_null(prazo_mem_calloc(huge / 2, 3));
    prazo_mem_free(p);
    prazo_mem_free(q);
    prazo_mem_free(z);
    prazo_mem_free(NULL);
}

static void test_strdup(void **state)
{
    char *copy = prazo_mem_strdup("prazo"), *empty = prazo_mem_strdup("");

    (void)state;
    assert_string_equal(copy, "prazo");
    assert_string_equal(empty, "");
    assert_null(prazo_mem_strdup(NULL));
    prazo_mem_free(copy);
    prazo_mem_free(empty);
}

static void test_nth_allocation_fails_once(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 4; n++) {
        prazo_mem_fail_after(n);
        for (int64_t i = 0; i < 6; i++) {
            void *p = prazo_mem_alloc(8);

            assert_int_equal(p == NULL, i == n);
            assert_int_equal(prazo_mem_has_failed(), i >= n);
            prazo_mem_free(p);
        }
    }
}

static void test_each_wrapper_can_fail(void **state)
{
    char *p = prazo_mem_strdup("kept");

    (void)state;
    prazo_mem_fail_after(0);
    assert_null(prazo_mem_calloc(1, 1));
    prazo_mem_fail_after(0);
    assert_null(prazo_mem_realloc(p, 100));
    assert_string_equal(p, "kept");
    prazo_mem_fail_after(0);
    assert_null(prazo_mem_strdup("x"));
    prazo_mem_fail_after(0);
    p = prazo_mem_must_realloc(p, 100);
    assert_string_equal(p, "kept");
    assert_false(prazo_mem_has_failed());
    prazo_mem_free(p);
}

static void test_off_is_not_failed(void **state)
{
    (void)state;
    prazo_mem_fail_after(-1);
    assert_false(prazo_mem_has_failed());
    prazo_mem_fail_after(INT64_MIN);
    assert_false(prazo_mem_has_failed());
    prazo_mem_fail_after(INT64_MAX);
    prazo_mem_free(prazo_mem_alloc(1));
    assert_false(prazo_mem_has_failed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges_of_sizes),
        cmocka_unit_test(test_strdup),
        cmocka_unit_test_teardown(test_nth_allocation_fails_once, turn_off),
        cmocka_unit_test_teardown(test_each_wrapper_can_fail, turn_off),
        cmocka_unit_test_teardown(test_off_is_not_failed, turn_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
