/* SPDX-License-Identifier: MIT */
/* The demo's settings: what is accepted, what is refused with which words, and that a refusal
 * changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "prazo/err.h"

#include "lab/demo_control.h"

static const struct prazo_demo_settings initial = { 100000, 50, false };

static void good_settings_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        struct prazo_demo_settings wanted;
        const char *written;
    } rows[] = {
        { "{}",
          { 100000, 50, false },
          "{\"service_ms\":100,\"workers\":50,\"ignore_cancel\":false}\n" },
        { "{\"service_ms\":4000}",
          { 4000000, 50, false },
          "{\"service_ms\":4000,\"workers\":50,\"ignore_cancel\":false}\n" },
        { " {\"service_ms\": 0.25, \"ignore_cancel\": true} ",
          { 250, 50, true },
          "{\"service_ms\":0.25,\"workers\":50,\"ignore_cancel\":true}\n" },
        { "{\"service_ms\":0,\"workers\":1}",
          { 0, 1, false },
          "{\"service_ms\":0,\"workers\":1,\"ignore_cancel\":false}\n" },
        { "{\"service_ms\":3600000,\"workers\":100000}",
          { 3600000000, 100000, false },
          "{\"service_ms\":3600000,\"workers\":100000,\"ignore_cancel\":false}\n" },
        { "{\"service_ms\":3599999.999}",
          { 3599999999, 50, false },
          "{\"service_ms\":3599999.999,\"workers\":50,\"ignore_cancel\":false}\n" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct prazo_demo_settings settings = initial;
        struct prazo_buf text;
        prazo_buf_init(&text, 1024);
        assert_int_equal(prazo_demo_settings_read(&settings, prazo_str_z(rows[i].json), &text),
                         PRAZO_OK);
        assert_int_equal(text.len, 0);
        assert_int_equal(settings.service_us, rows[i].wanted.service_us);
        assert_int_equal(settings.workers, rows[i].wanted.workers);
        assert_int_equal(settings.ignores_cancel, rows[i].wanted.ignores_cancel);
        assert_int_equal(prazo_demo_settings_write(&settings, &text), PRAZO_OK);
        assert_int_equal(text.len, strlen(rows[i].written));
        assert_memory_equal(text.base, rows[i].written, text.len);
        prazo_buf_done(&text);
    }
}

static void bad_settings_change_nothing(void **state)
{
    (void)state;
    static const char *const service = "service_ms has to be a number from 0 to 3600000";
    static const char *const workers = "workers has to be a whole number from 1 to 100000";
    static const char *const ignore = "ignore_cancel has to be true or false";
    static const struct {
        const char *json;
        const char *says;
    } rows[] = {
        { "", "malformed JSON at line 1, column 0: " },
        { "{\"service_ms\":", "malformed JSON at line 1, column " },
        { "{\"workers\":1,\"workers\":2}", "malformed JSON at line 1, column " },
        { "{} x", "malformed JSON at line 1, column " },
        { "[4000]", "expected a JSON object such as {\"service_ms\":4000}" },
        { "{\"service_ms\":-1}", service },
        { "{\"service_ms\":\"4000\"}", service },
        { "{\"service_ms\":3600001}", service },
        { "{\"service_ms\":1e300}", service },
        { "{\"workers\":0}", workers },
        { "{\"workers\":-1}", workers },
        { "{\"workers\":1.5}", workers },
        { "{\"workers\":100001}", workers },
        { "{\"workers\":null}", workers },
        { "{\"ignore_cancel\":1}", ignore },
        { "{\"service\":1}",
          "unknown member \"service\"; expected service_ms, workers or ignore_cancel" },
        { "{\"workers\":7,\"ignore_cancel\":0}", ignore }, /* all or nothing */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct prazo_demo_settings settings = initial;
        struct prazo_buf text;
        prazo_buf_init(&text, 1024);
        assert_int_equal(prazo_demo_settings_read(&settings, prazo_str_z(rows[i].json), &text),
                         PRAZO_E_INVALID);
        assert_int_equal(prazo_buf_add(&text, "", 1), PRAZO_OK);
        assert_ptr_equal(strstr(text.base, rows[i].says), text.base);
        assert_int_equal(settings.service_us, initial.service_us);
        assert_int_equal(settings.workers, initial.workers);
        assert_int_equal(settings.ignores_cancel, initial.ignores_cancel);
        prazo_buf_done(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_settings_are_taken),
        cmocka_unit_test(bad_settings_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
