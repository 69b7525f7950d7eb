/* SPDX-License-Identifier: MIT */
/* Every error number has one name and one text, and none is used twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "prazo/err.h"

static const struct {
    int number;
    const char *name, *text;
} rows[] = {
    { PRAZO_OK, "PRAZO_OK", "no error" },
#define X(name, number, text) { number, "PRAZO_E_" #name, text },
    PRAZO_ERR_MAP(X)
#undef X
        { 1, "PRAZO_E_UNKNOWN", "unknown error" },
    { -1000, "PRAZO_E_UNKNOWN", "unknown error" },
    { INT32_MIN, "PRAZO_E_UNKNOWN", "unknown error" },
    { INT32_MAX, "PRAZO_E_UNKNOWN", "unknown error" },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void test_names_and_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        assert_string_equal(prazo_err_name(rows[i].number), rows[i].name);
        assert_string_equal(prazo_strerror(rows[i].number), rows[i].text);
    }
}

static void test_numbers_are_distinct_and_negative(void **state)
{
    static const int numbers[] = {
#define X(name, number, text) number,
        PRAZO_ERR_MAP(X)
#undef X
    };

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        assert_true(numbers[i] < 0);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(numbers[i], numbers[j]);
    }
}

static void test_texts_end_without_full_stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        const char *text = prazo_strerror(rows[i].number);

        assert_true(strlen(text) > 0);
        assert_true(text[strlen(text) - 1] != '.');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_texts),
        cmocka_unit_test(test_numbers_are_distinct_and_negative),
        cmocka_unit_test(test_texts_end_without_full_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
