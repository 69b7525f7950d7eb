/* SPDX-License-Identifier: MIT */
/* The growable buffer: growth up to its maximum, and content untouched by every failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "prazo/err.h"

static void assert_content(const struct prazo_buf *buf, const char *expected)
{
    assert_int_equal(buf->len, strlen(expected));
    assert_memory_equal(buf->base, expected, buf->len);
    assert_true(buf->len <= buf->cap && buf->cap <= buf->max);
}

static void test_adds_and_consumes(void **state)
{
    struct prazo_buf buf;

    (void)state;
    prazo_buf_init(&buf, 100);
    assert_null(buf.base);
    assert_int_equal(prazo_buf_add(&buf, NULL, 0), PRAZO_OK);
    assert_null(buf.base);
    prazo_buf_consume(&buf, 0);
    assert_int_equal(prazo_buf_add(&buf, "ab", 2), PRAZO_OK);
    assert_int_equal(prazo_buf_add_str(&buf, PRAZO_STR("cd")), PRAZO_OK);
    assert_int_equal(prazo_buf_add_z(&buf, "ef"), PRAZO_OK);
    assert_int_equal(prazo_buf_addf(&buf, "%d%s", 7, "g"), PRAZO_OK);
    assert_content(&buf, "abcdef7g");
    prazo_buf_consume(&buf, 3);
    assert_content(&buf, "def7g");
    prazo_buf_consume(&buf, 5);
    assert_content(&buf, "");
    prazo_buf_done(&buf);
    assert_null(buf.base);
    assert_int_equal(buf.max, 100);
    assert_int_equal(prazo_buf_add_z(&buf, "again"), PRAZO_OK);
    assert_content(&buf, "again");
    prazo_buf_done(&buf);
    prazo_buf_done(&buf);
    prazo_buf_done(NULL);
}

static void test_maximum_is_exact(void **state)
{
    static const size_t maxima[] = { 0, 1, 2, 255, 256, 257, 511, 512, 1000, 4096 };

    (void)state;
    for (size_t i = 0; i < sizeof(maxima) / sizeof(maxima[0]); i++) {
        struct prazo_buf buf;

        prazo_buf_init(&buf, maxima[i]);
        for (size_t n = 0; n < maxima[i]; n++)
            assert_int_equal(n % 2 ? prazo_buf_add(&buf, "x", 1) : prazo_buf_addf(&buf, "y"), 0);
        assert_int_equal(buf.len, maxima[i]);
        assert_int_equal(prazo_buf_add(&buf, "z", 1), PRAZO_E_TOO_LARGE);
        assert_int_equal(prazo_buf_addf(&buf, "%s", "z"), PRAZO_E_TOO_LARGE);
        assert_int_equal(prazo_buf_add_json(&buf, PRAZO_STR("")), PRAZO_E_TOO_LARGE);
        assert_int_equal(prazo_buf_reserve(&buf, SIZE_MAX), PRAZO_E_TOO_LARGE);
        assert_int_equal(prazo_buf_add(&buf, NULL, 0), PRAZO_OK);
        assert_int_equal(prazo_buf_addf(&buf, "%s", ""), PRAZO_OK);
        assert_int_equal(buf.len, maxima[i]);
        prazo_buf_done(&buf);
    }
}

static void test_no_maximum_overflows(void **state)
{
    struct prazo_buf buf;

    (void)state;
    prazo_buf_init(&buf, SIZE_MAX);
    assert_int_equal(prazo_buf_add_z(&buf, "kept"), PRAZO_OK);
    assert_int_equal(prazo_buf_reserve(&buf, SIZE_MAX), PRAZO_E_TOO_LARGE);
    assert_int_equal(prazo_buf_reserve(&buf, SIZE_MAX / 2), PRAZO_E_TOO_LARGE);
    assert_content(&buf, "kept");
    prazo_buf_done(&buf);
}

static void test_failed_append_keeps_content(void **state)
{
    struct prazo_buf buf;

    (void)state;
    prazo_buf_init(&buf, 10);
    assert_int_equal(prazo_buf_add_z(&buf, "12345"), PRAZO_OK);
    assert_int_equal(prazo_buf_addf(&buf, "%s", "abcdef"), PRAZO_E_TOO_LARGE);
    assert_content(&buf, "12345");
    assert_int_equal(prazo_buf_add_json(&buf, PRAZO_STR("a\nb")), PRAZO_E_TOO_LARGE);
    assert_content(&buf, "12345");
    assert_int_equal(prazo_buf_add_json(&buf, PRAZO_STR("abc")), PRAZO_OK);
    assert_content(&buf, "12345\"abc\"");
    prazo_buf_done(&buf);
}

static void test_out_of_memory_keeps_content(void **state)
{
    struct prazo_buf buf;
    char large[1000];

    (void)state;
    memset(large, 'x', sizeof(large));
    prazo_buf_init(&buf, 10000);
    prazo_mem_fail_after(0);
    assert_int_equal(prazo_buf_add_z(&buf, "a"), PRAZO_E_NOMEM);
    assert_null(buf.base);
    assert_int_equal(prazo_buf_add_z(&buf, "a"), PRAZO_OK);
    prazo_mem_fail_after(0);
    assert_int_equal(prazo_buf_add(&buf, large, sizeof(large)), PRAZO_E_NOMEM);
    prazo_mem_fail_after(0);
    assert_int_equal(prazo_buf_addf(&buf, "%.*s", (int)sizeof(large), large), PRAZO_E_NOMEM);
    prazo_mem_fail_after(0);
    assert_int_equal(prazo_buf_add_json(&buf, prazo_str_n(large, sizeof(large))), PRAZO_E_NOMEM);
    prazo_mem_fail_after(-1);
    assert_content(&buf, "a");
    prazo_buf_done(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adds_and_consumes),
        cmocka_unit_test(test_maximum_is_exact),
        cmocka_unit_test(test_no_maximum_overflows),
        cmocka_unit_test(test_failed_append_keeps_content),
        cmocka_unit_test(test_out_of_memory_keeps_content),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
