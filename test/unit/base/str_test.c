/* SPDX-License-Identifier: MIT */
/* Slices: tables of input and expected answer. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "prazo/err.h"

#define COUNT_OF(rows) (sizeof(rows) / sizeof((rows)[0]))

static void assert_str(struct prazo_str s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.base, expected, s.len);
}

static void test_comparing(void **state)
{
    static const struct {
        const char *a, *b;
        bool is_same, is_same_nocase, has_prefix;
    } rows[] = {
        { "", "", true, true, true },
        { "a", "", false, false, true },
        { "", "a", false, false, false },
        { "host", "host", true, true, true },
        { "Host", "hOST", false, true, false },
        { "host", "ho", false, false, true },
        { "host", "Ho", false, false, false },
        { "a@", "a`", false, false, false }, /* 0x40 and 0x60 differ by the bit of the case */
        { "[", "{", false, false, false },
        { "\xc4", "\xe4", false, false, false }, /* ASCII only */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct prazo_str a = prazo_str_z(rows[i].a), b = prazo_str_z(rows[i].b);

        assert_int_equal(prazo_str_eq(a, b), rows[i].is_same);
        assert_int_equal(prazo_str_eq_nocase(a, b), rows[i].is_same_nocase);
        assert_int_equal(prazo_str_has_prefix(a, b), rows[i].has_prefix);
    }
    assert_true(prazo_str_eq(prazo_str_z(NULL), PRAZO_STR("")));
    assert_true(prazo_str_has_prefix(prazo_str_z(NULL), PRAZO_STR("")));
}

static void test_trim(void **state)
{
    static const char *const rows[][2] = {
        { "", "" },   { " ", "" },         { " \t \t", "" },
        { "a", "a" }, { " a b\t", "a b" }, { "\r\na\n", "\r\na\n" }, /* line ends are no blanks */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_str(prazo_str_trim(prazo_str_z(rows[i][0])), rows[i][1]);
    assert_int_equal(prazo_str_trim(prazo_str_n(NULL, 0)).len, 0);
}

static void test_next_item(void **state)
{
    static const struct {
        const char *list;
        const char *items[4]; /* up to NULL */
    } rows[] = {
        { "", { NULL } },
        { " , ,\t,", { NULL } },
        { "a", { "a" } },
        { "a,b,c", { "a", "b", "c" } },
        { ",, keep-alive ,, close\t,", { "keep-alive", "close" } },
        { "a b, c", { "a b", "c" } },
        { "\"x,y\"", { "\"x", "y\"" } }, /* quotes are not understood */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct prazo_str rest = prazo_str_z(rows[i].list), item = PRAZO_STR("untouched");
        size_t count = 0;

        while (prazo_str_next_item(&rest, &item))
            assert_str(item, rows[i].items[count++]);
        assert_null(rows[i].items[count]);
        assert_int_equal(rest.len, 0);
        assert_false(prazo_str_next_item(&rest, &item));
        if (count == 0)
            assert_str(item, "untouched");
    }
}

static void test_to_i64(void **state)
{
    static const struct {
        const char *text;
        int err;
        int64_t value;
    } rows[] = {
        { "0", PRAZO_OK, 0 },
        { "7", PRAZO_OK, 7 },
        { "0000000000000000012", PRAZO_OK, 12 },
        { "9223372036854775807", PRAZO_OK, INT64_MAX },
        { "9223372036854775808", PRAZO_E_INVALID, 0 }, /* C002 */
        { "9999999999999999999", PRAZO_E_INVALID, 0 },
        { "99999999999999999999", PRAZO_E_INVALID, 0 }, /* C002: more digits than 64 bits hold */
        { "00000000000000000001", PRAZO_E_INVALID, 0 }, /* 20 digits */
        { "", PRAZO_E_INVALID, 0 },
        { "-1", PRAZO_E_INVALID, 0 },
        { "+1", PRAZO_E_INVALID, 0 },
        { " 1", PRAZO_E_INVALID, 0 },
        { "1 ", PRAZO_E_INVALID, 0 },
        { "1.5", PRAZO_E_INVALID, 0 },
        { "0x10", PRAZO_E_INVALID, 0 },
        { "1e3", PRAZO_E_INVALID, 0 },
        { "/", PRAZO_E_INVALID, 0 },
        { ":", PRAZO_E_INVALID, 0 },
        { "\xb1", PRAZO_E_INVALID, 0 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t value = -77;

        assert_int_equal(prazo_str_to_i64(prazo_str_z(rows[i].text), &value), rows[i].err);
        assert_true(value == (rows[i].err ? -77 : rows[i].value));
    }
    assert_int_equal(prazo_str_to_i64(prazo_str_n("1\0", 2), &(int64_t){ 0 }), PRAZO_E_INVALID);
}

static void test_format_i64(void **state)
{
    static const int64_t rows[] = {
        0, 1, -1, 9, 10, -10, 99, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN + 1, INT64_MIN
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char expected[32], text[21];
        size_t len;

        snprintf(expected, sizeof(expected), "%" PRId64, rows[i]);
        memset(text, '#', sizeof(text));
        len = prazo_format_i64(text, rows[i]);
        assert_str(prazo_str_n(text, len), expected);
        assert_int_equal(text[len], '#');
    }
}

static void test_format_hex(void **state)
{
    static const struct {
        uint64_t value;
        unsigned digits;
        const char *expected;
    } rows[] = {
        { 0, 1, "0" },
        { 0xf, 1, "f" },
        { 0xabc, 2, "bc" }, /* the low bits */
        { 0xabc, 4, "0abc" },
        { UINT64_MAX, 16, "ffffffffffffffff" },
        { 1, 16, "0000000000000001" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[17];

        memset(text, '#', sizeof(text));
        prazo_format_hex(text, rows[i].value, rows[i].digits);
        assert_str(prazo_str_n(text, rows[i].digits), rows[i].expected);
        assert_int_equal(text[rows[i].digits], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparing),  cmocka_unit_test(test_trim),
        cmocka_unit_test(test_next_item),  cmocka_unit_test(test_to_i64),
        cmocka_unit_test(test_format_i64), cmocka_unit_test(test_format_hex),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
