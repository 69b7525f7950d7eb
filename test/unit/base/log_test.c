/* SPDX-License-Identifier: MIT */
/* What a log line looks like: both formats, escaping, cuts, levels. The sink is a memfd; how lines
 * get there is log_sink_test.c. */
#include <ctype.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "prazo/err.h"

enum { VALUE_MAX = 2048, LINE_MAX_BYTES = 8192 };

static struct prazo_log_ring *ring;
static int sink = -1;
static char text[1 << 16]; /* what was written, read back */

static int setup(void **state)
{
    (void)state;
    sink = memfd_create("log", MFD_CLOEXEC);
    ring = prazo_log_ring_new(1 << 16);
    prazo_log_ring_attach(ring);
    return sink < 0 || !ring;
}

static int teardown(void **state)
{
    (void)state;
    prazo_log_stop(1000);
    prazo_log_ring_free(ring);
    close(sink);
    return 0;
}

static void start(enum prazo_log_level level, enum prazo_log_format format)
{
    assert_int_equal(prazo_log_start(sink, level, format), PRAZO_OK);
}

/* Stops the log and reads the sink. */
static void read_back(void)
{
    ssize_t len;

    prazo_log_stop(1000);
    len = pread(sink, text, sizeof(text) - 1, 0);
    assert_true(len >= 0);
    text[len] = '\0';
}

/* Cuts the time off the only line and checks its form. */
static const char *after_time(const char *line, const char *before)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";

    assert_memory_equal(line, before, strlen(before));
    line += strlen(before);
    for (size_t i = 0; i < sizeof(form) - 1; i++) {
        if (form[i] == 'd')
            assert_true(isdigit((unsigned char)line[i]));
        else
            assert_int_equal(line[i], form[i]);
    }
    return line + sizeof(form) - 1;
}

static void add_some_fields(void)
{
    struct prazo_log_line line;

    prazo_log_begin(&line, PRAZO_LOG_WARN, "upstream \"server\" ejected");
    prazo_log_str(&line, "upstream", PRAZO_STR("a\"b\\\x1b[2J\nc\x7f\xff\xc2\x9b\xc3\xa7"));
    prazo_log_str(&line, "absent", prazo_str_n(NULL, 0));
    prazo_log_str(&line, "empty", PRAZO_STR(""));
    prazo_log_i64(&line, "min", INT64_MIN);
    prazo_log_i64(&line, "zero", 0);
    prazo_log_ms(&line, "took", 1234567);
    prazo_log_end(&line);
}

static void test_json(void **state)
{
    (void)state;
    start(PRAZO_LOG_INFO, PRAZO_LOG_JSON);
    add_some_fields();
    read_back();
    assert_string_equal(
        after_time(text, "{\"time\":\""),
        "\",\"level\":\"warn\",\"msg\":\"upstream \\\"server\\\" ejected\","
        "\"upstream\":\"a\\\"b\\\\\\u001b[2J\\nc\\u007f\xef\xbf\xbd\\u009b\xc3\xa7\","
        "\"empty\":\"\",\"min\":-9223372036854775808,\"zero\":0,"
        "\"took\":1234.567}\n");
}

static void test_text(void **state)
{
    (void)state;
    start(PRAZO_LOG_INFO, PRAZO_LOG_TEXT);
    add_some_fields();
    read_back();
    assert_string_equal(after_time(text, ""),
                        " warn  upstream \\\"server\\\" ejected "
                        "upstream=\"a\\\"b\\\\\\u001b[2J\\nc\\u007f\xef\xbf\xbd\\u009b\xc3\xa7\" "
                        "empty=\"\" min=-9223372036854775808 zero=0 took=1234.567\n");
}

static void test_milliseconds(void **state)
{
    static const struct {
        int64_t us;
        const char *expected;
    } rows[] = {
        { 0, "0.000" },
        { 1, "0.001" },
        { 999, "0.999" },
        { 1000, "1.000" },
        { -1, "-0.001" },
        { -1500, "-1.500" },
        { 60000000, "60000.000" },
        { INT64_MAX, "9223372036854775.807" },
        { INT64_MIN, "-9223372036854775.808" },
    };

    (void)state;
    start(PRAZO_LOG_INFO, PRAZO_LOG_TEXT);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct prazo_log_line line;

        prazo_log_begin(&line, PRAZO_LOG_INFO, "m");
        prazo_log_ms(&line, "ms", rows[i].us);
        prazo_log_end(&line);
    }
    read_back();
    for (size_t i = 0, at = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char expected[64];

        snprintf(expected, sizeof(expected), " info  m ms=%s\n", rows[i].expected);
        at = (size_t)(after_time(text + at, "") - text);
        assert_memory_equal(text + at, expected, strlen(expected));
        at += strlen(expected);
    }
}

static void test_levels(void **state)
{
    static const char *const names[] = { "debug", "info", "warn", "error" };

    (void)state;
    start(PRAZO_LOG_DEBUG, PRAZO_LOG_JSON);
    for (int level = 0; level < PRAZO_LOG_LEVEL_COUNT; level++) {
        prazo_log_configure((enum prazo_log_level)level, PRAZO_LOG_JSON);
        for (int each = 0; each < PRAZO_LOG_LEVEL_COUNT; each++) {
            assert_int_equal(prazo_log_on((enum prazo_log_level)each), each >= level);
            prazo_logf((enum prazo_log_level)each, "m", "from %d", level);
        }
    }
    read_back();
    for (int level = 0; level < PRAZO_LOG_LEVEL_COUNT; level++) {
        for (int each = 0; each < PRAZO_LOG_LEVEL_COUNT; each++) {
            char expected[80];

            snprintf(expected, sizeof(expected),
                     "\"level\":\"%s\",\"msg\":\"m\",\"detail\":\"from %d\"}\n", names[each],
                     level);
            assert_int_equal(strstr(text, expected) != NULL, each >= level);
        }
    }
}

/* The value of the only field, with its quotes cut off, and whether the line admits a cut. */
static struct prazo_str logged_value(struct prazo_str value, bool *ret_is_truncated)
{
    struct prazo_log_line line;
    char *from, *to;

    assert_int_equal(ftruncate(sink, 0), 0);
    assert_int_equal(lseek(sink, 0, SEEK_SET), 0);
    start(PRAZO_LOG_INFO, PRAZO_LOG_JSON);
    prazo_log_begin(&line, PRAZO_LOG_INFO, "m");
    prazo_log_str(&line, "v", value);
    prazo_log_end(&line);
    read_back();
    from = strstr(text, "\"v\":\"");
    assert_non_null(from);
    from += 5;
    to = strstr(from, "\",\"truncated\":true}\n");
    *ret_is_truncated = to != NULL;
    if (!to)
        to = strstr(from, "\"}\n");
    assert_non_null(to);
    return prazo_str_n(from, (size_t)(to - from));
}

/* A value of `unit` repeated comes out as at most 2 KiB of whole units. */
static void test_values_are_cut_between_characters(void **state)
{
    static const struct {
        const char *unit, *expected;
    } rows[] = {
        { "x", "x" },
        { "\xc3\xa7", "\xc3\xa7" },
        { "\xe2\x82\xac", "\xe2\x82\xac" },
        { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
        { "\n", "\\n" },
        { "\x01", "\\u0001" },
        { "\xff", "\xef\xbf\xbd" },
        { "\xc2\x9b", "\\u009b" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t unit_len = strlen(rows[i].unit), out_len = strlen(rows[i].expected);
        size_t fits = VALUE_MAX / out_len;

        for (size_t count = fits - 1; count <= fits + 2; count++) {
            size_t shown = count < fits ? count : fits;
            char value[4 * VALUE_MAX];
            struct prazo_str out;
            bool is_truncated;

            for (size_t n = 0; n < count; n++)
                memcpy(value + n * unit_len, rows[i].unit, unit_len);
            out = logged_value(prazo_str_n(value, count * unit_len), &is_truncated);
            assert_int_equal(is_truncated, count > fits);
            assert_int_equal(out.len, shown * out_len);
            for (size_t n = 0; n < shown; n++)
                assert_memory_equal(out.base + n * out_len, rows[i].expected, out_len);
        }
    }
}

/* However many fields come, the line stays below its maximum and ends as it should. */
static void test_long_lines_lose_whole_fields(void **state)
{
    static const enum prazo_log_format formats[] = { PRAZO_LOG_JSON, PRAZO_LOG_TEXT };
    static const char *const ends[] = { ",\"truncated\":true}\n", " truncated=true\n" };
    char value[1000];

    (void)state;
    memset(value, 'x', sizeof(value));
    for (int f = 0; f < 2; f++) {
        struct prazo_log_line line;
        size_t len;

        assert_int_equal(ftruncate(sink, 0), 0);
        assert_int_equal(lseek(sink, 0, SEEK_SET), 0);
        start(PRAZO_LOG_INFO, formats[f]);
        prazo_log_begin(&line, PRAZO_LOG_INFO, "m");
        for (int i = 0; i < 10; i++)
            prazo_log_str(&line, "v", prazo_str_n(value, sizeof(value)));
        for (int i = 0; i < 1000; i++)
            prazo_log_i64(&line, "n", INT64_MIN);
        prazo_log_ms(&line, "ms", INT64_MIN);
        prazo_log_end(&line);
        read_back();
        len = strlen(text);
        assert_in_range(len, LINE_MAX_BYTES - 100, LINE_MAX_BYTES);
        assert_ptr_equal(strchr(text, '\n'), text + len - 1);
        assert_string_equal(text + len - strlen(ends[f]), ends[f]);
        /* What stands before the end is a whole field. */
        assert_memory_equal(text + len - strlen(ends[f]) - 20, "-9223372036854775808", 20);
    }
}

static void test_long_message_and_detail_are_cut(void **state)
{
    char message[3 * VALUE_MAX];

    (void)state;
    memset(message, 'x', sizeof(message));
    message[sizeof(message) - 1] = '\0';
    start(PRAZO_LOG_INFO, PRAZO_LOG_TEXT);
    prazo_logf(PRAZO_LOG_INFO, message, "%s", message);
    prazo_logf(PRAZO_LOG_INFO, "", "%s", "");
    read_back();
    assert_true(strchr(text, '\n') - text < 2 * VALUE_MAX + 100);
    assert_non_null(strstr(text, "x\" truncated=true\n"));
    assert_string_equal(after_time(strchr(text, '\n') + 1, ""), " info  \n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_json),
        TEST(test_text),
        TEST(test_milliseconds),
        TEST(test_levels),
        TEST(test_values_are_cut_between_characters),
        TEST(test_long_lines_lose_whole_fields),
        TEST(test_long_message_and_detail_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
