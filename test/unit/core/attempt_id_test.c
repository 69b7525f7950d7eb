/* SPDX-License-Identifier: MIT */
/* x-attempt and prazo-result: text in, value out, and back. */
#include "core/attempt_id.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "prazo/err.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void attempt_ids_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int err;
        uint32_t index;
        uint64_t id;
    } rows[] = {
        { "0-0123456789abcdef", PRAZO_OK, 0, UINT64_C(0x0123456789abcdef) },
        { "3-FEDCBA9876543210", PRAZO_OK, 3, UINT64_C(0xfedcba9876543210) },
        { "0-0000000000000000", PRAZO_OK, 0, 0 },
        { "999999999-ffffffffffffffff", PRAZO_OK, 999999999, UINT64_MAX },
        { "", PRAZO_E_INVALID, 0, 0 },
        { "0", PRAZO_E_INVALID, 0, 0 },
        { "-", PRAZO_E_INVALID, 0, 0 },
        { "0-", PRAZO_E_INVALID, 0, 0 },
        { "-0123456789abcdef", PRAZO_E_INVALID, 0, 0 },
        { "--0123456789abcdef", PRAZO_E_INVALID, 0, 0 },
        { "+1-0123456789abcdef", PRAZO_E_INVALID, 0, 0 },
        { "0 -0123456789abcdef", PRAZO_E_INVALID, 0, 0 },
        { "0-0123456789abcde", PRAZO_E_INVALID, 0, 0 },
        { "0-0123456789abcdef0", PRAZO_E_INVALID, 0, 0 },
        { "0-0123456789abcdeg", PRAZO_E_INVALID, 0, 0 },
        { "0-0123456789abcdef, 1-0123456789abcdef", PRAZO_E_INVALID, 0, 0 },
        { "1000000000-0123456789abcdef", PRAZO_E_INVALID, 0, 0 },
        { "99999999999999999999-0123456789abcdef", PRAZO_E_INVALID, 0, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_attempt_id id = { 77, 88 };
        int err = prazo_attempt_id_parse(prazo_str_z(rows[i].text), &id);
        if (err != rows[i].err)
            fail_msg("\"%s\": %d", rows[i].text, err);
        assert_int_equal(id.index, err == PRAZO_OK ? rows[i].index : 77);
        assert_true(id.id == (err == PRAZO_OK ? rows[i].id : 88));
    }
    struct prazo_attempt_id id;
    assert_int_equal(prazo_attempt_id_parse((struct prazo_str){ NULL, 0 }, &id), PRAZO_E_INVALID);
}

static void attempt_ids_are_written(void **state)
{
    (void)state;
    static const struct {
        struct prazo_attempt_id id;
        const char *text;
    } rows[] = {
        { { 0, 0 }, "0-0000000000000000" },
        { { 2, UINT64_C(0xab) }, "2-00000000000000ab" },
        { { UINT32_MAX, UINT64_MAX }, "4294967295-ffffffffffffffff" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[PRAZO_ATTEMPT_ID_BYTES_MAX];
        size_t len = prazo_attempt_id_format(text, rows[i].id);
        assert_int_equal(len, strlen(rows[i].text));
        assert_memory_equal(text, rows[i].text, len);
    }
}

struct result_row {
    const char *text;
    const char *outcome; /* NULL: invalid */
    const char *retry;   /* NULL: not given */
    int spent;           /* -1: not given */
    uint64_t for_id;
};

static const struct result_row result_rows[] = {
    { "none;retry=same-key;spent=2;for=00000000000000ab", "none", "same-key", 2, 0xab },
    { "unknown;retry=no;spent=0;for=FFFFFFFFFFFFFFFF", "unknown", "no", 0, UINT64_MAX },
    { "passed;spent=99;for=0000000000000001", "passed", NULL, 99, 1 },
    { "in-progress;for=0000000000000001", "in-progress", NULL, -1, 1 },
    { "for=0000000000000001", NULL, NULL, -1, 0 },
    { "passed ; spent=1 ; for=0000000000000001", "passed", NULL, 1, 1 },
    { "none;new;x=1;y=\"a\";for=0000000000000001;z", "none", NULL, -1, 1 },
    { "none;;for=0000000000000001;", "none", NULL, -1, 1 },
    { "none", NULL, NULL, 0, 0 },
    { "", NULL, NULL, 0, 0 },
    { ";for=0000000000000001", NULL, NULL, 0, 0 },
    { "none;retry=no", NULL, NULL, 0, 0 },
    { "none;for=", NULL, NULL, 0, 0 },
    { "none;for", NULL, NULL, 0, 0 },
    { "none;for=1", NULL, NULL, 0, 0 },
    { "none;for=000000000000000g", NULL, NULL, 0, 0 },
    { "none;for=0000000000000001;for=0000000000000001", NULL, NULL, 0, 0 },
    { "none;retry=no;retry=same-key;for=0000000000000001", NULL, NULL, 0, 0 },
    { "none;spent=1;spent=1;for=0000000000000001", NULL, NULL, 0, 0 },
    { "none;spent=100;for=0000000000000001", NULL, NULL, 0, 0 },
    { "none;spent=-1;for=0000000000000001", NULL, NULL, 0, 0 },
    { "none;spent=;for=0000000000000001", NULL, NULL, 0, 0 },
    { "none;retry=;for=0000000000000001", NULL, NULL, 0, 0 },
    { "none;retry=N0;for=0000000000000001", NULL, NULL, 0, 0 },
    { "none;for=0000000000000001, none;for=0000000000000002", NULL, NULL, 0, 0 },
    { "none, none;for=0000000000000001", NULL, NULL, 0, 0 },
};

static void results_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(result_rows); i++) {
        const struct result_row *row = &result_rows[i];
        struct prazo_result result = { .for_id = 77 };
        int err = prazo_result_parse(prazo_str_z(row->text), &result);
        if ((err == PRAZO_OK) != (row->outcome != NULL))
            fail_msg("\"%s\": %d", row->text, err);
        if (err != PRAZO_OK) {
            assert_int_equal(err, PRAZO_E_INVALID);
            assert_true(result.for_id == 77);
            continue;
        }
        assert_true(prazo_str_eq(result.outcome, prazo_str_z(row->outcome)));
        assert_int_equal(result.retry.base != NULL, row->retry != NULL);
        assert_true(prazo_str_eq(result.retry, prazo_str_z(row->retry)));
        assert_int_equal(result.has_spent, row->spent >= 0);
        if (result.has_spent)
            assert_int_equal(result.spent, row->spent);
        assert_true(result.for_id == row->for_id);
    }
}

static void results_are_written(void **state)
{
    (void)state;
    static const struct {
        struct prazo_result result;
        const char *text;
    } rows[] = {
        { { PRAZO_STR_INIT("none"), PRAZO_STR_INIT("same-key"), 2, true, 0xab },
          "none;retry=same-key;spent=2;for=00000000000000ab" },
        { { PRAZO_STR_INIT("passed"), { NULL, 0 }, 99, true, UINT64_MAX },
          "passed;spent=99;for=ffffffffffffffff" },
        { { PRAZO_STR_INIT("unknown"), PRAZO_STR_INIT("no"), 0, false, 1 },
          "unknown;retry=no;for=0000000000000001" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[PRAZO_RESULT_BYTES_MAX];
        size_t len = prazo_result_format(text, &rows[i].result);
        assert_int_equal(len, strlen(rows[i].text));
        assert_memory_equal(text, rows[i].text, len);
        struct prazo_result back;
        assert_int_equal(prazo_result_parse(prazo_str_n(text, len), &back), PRAZO_OK);
        assert_true(back.for_id == rows[i].result.for_id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempt_ids_are_read),
        cmocka_unit_test(attempt_ids_are_written),
        cmocka_unit_test(results_are_read),
        cmocka_unit_test(results_are_written),
    };
    return cmocka_run_group_tests_name("core/attempt_id", tests, NULL, NULL);
}
