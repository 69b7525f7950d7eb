/* SPDX-License-Identifier: MIT */
/* Text from outside inside JSON strings: every byte that can come in, and each malformed form of
 * UTF-8 that RFC 3629 names. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/json_escape.h"
#include "base/prng.h"
#include "prazo/err.h"

#define BAD "\xef\xbf\xbd"

static void assert_escaped(struct prazo_str s, const char *expected)
{
    struct prazo_buf buf;

    prazo_buf_init(&buf, 1000);
    assert_int_equal(prazo_buf_add_json(&buf, s), PRAZO_OK);
    assert_int_equal(buf.len, strlen(expected));
    assert_memory_equal(buf.base, expected, buf.len);
    prazo_buf_done(&buf);
}

static void test_table(void **state)
{
    static const struct {
        struct prazo_str text;
        const char *expected;
    } rows[] = {
        { PRAZO_STR_INIT(""), "\"\"" },
        { { NULL, 0 }, "\"\"" },
        { PRAZO_STR_INIT("plain / text"), "\"plain / text\"" },
        { PRAZO_STR_INIT("a\"b\\c"), "\"a\\\"b\\\\c\"" },
        { PRAZO_STR_INIT("\b\t\n\f\r"), "\"\\b\\t\\n\\f\\r\"" },
        { PRAZO_STR_INIT("\0x\x01\x1f\x7f"), "\"\\u0000x\\u0001\\u001f\\u007f\"" },
        { PRAZO_STR_INIT("\x1b[2J"), "\"\\u001b[2J\"" },
        { PRAZO_STR_INIT("\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0"), "\"\\u0080\\u009b\\u009f\xc2\xa0\"" },
        { PRAZO_STR_INIT("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa"),
          "\"\xe2\x80\xa7\\u2028\\u2029\xe2\x80\xaa\"" },
        { PRAZO_STR_INIT("\xc3\xa7\xe2\x82\xac\xf0\x9f\x98\x80"),
          "\"\xc3\xa7\xe2\x82\xac\xf0\x9f\x98\x80\"" },
        /* first and last of each length */
        { PRAZO_STR_INIT("\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"),
          "\"\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"" },
        { PRAZO_STR_INIT("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
          "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"" },
        /* continuation alone, overlong, surrogate, beyond U+10FFFF, never used */
        { PRAZO_STR_INIT("\x80"), "\"" BAD "\"" },
        { PRAZO_STR_INIT("\xc0\xaf"), "\"" BAD BAD "\"" },
        { PRAZO_STR_INIT("\xc1\xbf"), "\"" BAD BAD "\"" },
        { PRAZO_STR_INIT("\xe0\x9f\xbf"), "\"" BAD BAD BAD "\"" },
        { PRAZO_STR_INIT("\xed\xa0\x80"), "\"" BAD BAD BAD "\"" },
        { PRAZO_STR_INIT("\xf0\x8f\xbf\xbf"), "\"" BAD BAD BAD BAD "\"" },
        { PRAZO_STR_INIT("\xf4\x90\x80\x80"), "\"" BAD BAD BAD BAD "\"" },
        { PRAZO_STR_INIT("\xf5\xfe\xff"), "\"" BAD BAD BAD "\"" },
        /* cut off at the end, or by something else */
        { PRAZO_STR_INIT("a\xe2\x82"), "\"a" BAD BAD "\"" },
        { PRAZO_STR_INIT("\xe2\x82\""), "\"" BAD BAD "\\\"\"" },
        { PRAZO_STR_INIT("\xf0\x9f\x98\n"), "\"" BAD BAD BAD "\\n\"" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_escaped(rows[i].text, rows[i].expected);
}

/* Whatever comes in: no control byte, no bare quote, and escaping what came out, with the escapes'
 * backslashes aside, changes nothing any more. */
static void test_random_bytes_come_out_clean(void **state)
{
    const char *given = getenv("PRAZO_SEED");
    struct prazo_prng prng;
    uint64_t seed;

    (void)state;
    prazo_prng_seed_random(&prng);
    seed = given ? strtoull(given, NULL, 10) : prazo_prng_next(&prng);
    print_message("json_escape_test: run again with PRAZO_SEED=%" PRIu64 "\n", seed);
    prazo_prng_seed(&prng, seed);
    for (int round = 0; round < 3000; round++) {
        char text[24];
        size_t len = (size_t)prazo_prng_below(&prng, sizeof(text) + 1), at = 1;
        struct prazo_buf buf;

        for (size_t i = 0; i < len; i++)
            text[i] = (char)(prazo_prng_below(&prng, 2) ? prazo_prng_next(&prng) | 0x80
                                                        : prazo_prng_next(&prng));
        prazo_buf_init(&buf, sizeof(text) * 6 + 2);
        assert_int_equal(prazo_buf_add_json(&buf, prazo_str_n(text, len)), PRAZO_OK);
        while (at < buf.len - 1) {
            size_t plain = prazo__json_plain(buf.base + at, buf.len - 1 - at);

            at += plain;
            if (at == buf.len - 1)
                break;
            assert_int_equal(buf.base[at], '\\');
            at += buf.base[at + 1] == 'u' ? 6 : 2;
        }
        assert_int_equal(at, buf.len - 1);
        assert_int_equal(buf.base[at], '"');
        prazo_buf_done(&buf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_random_bytes_come_out_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
