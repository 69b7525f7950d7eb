/* SPDX-License-Identifier: MIT */
/* Paths for matching: decoding, ambiguity, patterns. */
#include "core/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *path, *normal;
    bool is_ambiguous;
} rows[] = {
    { "/", "/", false },
    { "", "", false },
    { "*", "*", false },
    { "/orders/17", "/orders/17", false },
    { "/%6frders", "/orders", false },
    { "/%6Frders/%31%37", "/orders/17", false },
    { "/%41%5A%61%7a%30%39%2D%2e%5F%7E", "/AZaz09-._~", false },
    { "/a%20b", "/a%20b", false }, /* reserved or not allowed: stays as sent */
    { "/a%3Fb%23", "/a%3Fb%23", false },
    { "/a%c3%a9", "/a%c3%a9", false },
    { "/%2541", "/%2541", false }, /* decoded once, never twice */
    { "/a;b=1,c", "/a;b=1,c", false },
    { "/...", "/...", false },
    { "/.well-known/x", "/.well-known/x", false },
    { "/a../..b/.c/d.", "/a../..b/.c/d.", false },
    { "/a/", "/a/", false },

    { "/a%2fb", "/a%2fb", true },
    { "/a%2Fb", "/a%2Fb", true },
    { "/a%5cb", "/a%5cb", true },
    { "/a%5Cb", "/a%5Cb", true },
    { "/a%00", "/a%00", true },
    { "/a\\b", "/a\\b", true },
    { "//", "//", true },
    { "//a", "//a", true },
    { "/a//b", "/a//b", true },
    { "/a//", "/a//", true },
    { ".", ".", true },
    { "..", "..", true },
    { "/.", "/.", true },
    { "/..", "/..", true },
    { "/./a", "/./a", true },
    { "/a/../b", "/a/../b", true },
    { "../a", "../a", true },
    { "/a/%2e%2E/b", "/a/../b", true },
    { "/a/.%2e", "/a/..", true },
    { "/%2e", "/.", true },

    /* a '%' that starts no %XX: left alone as a whole */
    { "/%", "/%", true },
    { "/%4", "/%4", true },
    { "/%4g", "/%4g", true },
    { "/%6f%zz", "/%6f%zz", true },
    { "/%%341", "/%%341", true }, /* decoding the %34 would make a new %41 */
    { "/%4%31", "/%4%31", true },
    { "/%u0041", "/%u0041", true },
};

static void paths_are_normalized_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_str path = prazo_str_z(rows[i].path);
        char to[64], again[64];
        bool is_ambiguous = !rows[i].is_ambiguous;
        size_t len = prazo_path_normalize(path, to, &is_ambiguous);
        if (!prazo_str_eq(prazo_str_n(to, len), prazo_str_z(rows[i].normal)) ||
            is_ambiguous != rows[i].is_ambiguous)
            fail_msg("\"%s\" -> \"%.*s\" ambiguous %d", rows[i].path, (int)len, to, is_ambiguous);

        bool also_ambiguous = !is_ambiguous;
        bool is_normal = prazo_path_is_normal(path, &also_ambiguous);
        assert_int_equal(is_normal, strcmp(rows[i].path, rows[i].normal) == 0);
        assert_int_equal(also_ambiguous, is_ambiguous);

        size_t again_len = prazo_path_normalize(prazo_str_n(to, len), again, &also_ambiguous);
        assert_true(prazo_str_eq(prazo_str_n(to, len), prazo_str_n(again, again_len)));
        assert_int_equal(also_ambiguous, is_ambiguous);
    }
}

static void bytes_that_are_no_text_are_kept(void **state)
{
    (void)state;
    static const char path[] = { '/', '\0', (char)0xff, '%', '6', '1', (char)0x80 };
    char to[sizeof(path)];
    bool is_ambiguous = true;
    size_t len = prazo_path_normalize(prazo_str_n(path, sizeof(path)), to, &is_ambiguous);
    assert_int_equal(len, 5);
    assert_memory_equal(to,
                        "/\0\xff"
                        "a\x80",
                        5);
    assert_false(is_ambiguous);
}

static void patterns_are_exact_or_prefixes(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *path;
        bool does_match;
    } patterns[] = {
        { "/orders/*", "/orders/17", true },
        { "/orders/*", "/orders/", true },
        { "/orders/*", "/orders", false },
        { "/orders*", "/orders", true },
        { "/orders*", "/ordersX", true },
        { "/orders", "/orders", true },
        { "/orders", "/orders/", false },
        { "/orders", "/order", false },
        { "/orders", "/Orders", false },
        { "*", "", true },
        { "*", "*", true },
        { "/*", "/", true },
        { "/*", "", false },
        { "", "", true },
        { "", "/", false },
        { "/a*b", "/a*b", true },
        { "/a*b", "/axb", false },
    };
    for (size_t i = 0; i < COUNT(patterns); i++)
        if (prazo_path_matches(prazo_str_z(patterns[i].pattern), prazo_str_z(patterns[i].path)) !=
            patterns[i].does_match)
            fail_msg("\"%s\" against \"%s\"", patterns[i].pattern, patterns[i].path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_normalized_once),
        cmocka_unit_test(bytes_that_are_no_text_are_kept),
        cmocka_unit_test(patterns_are_exact_or_prefixes),
    };
    return cmocka_run_group_tests_name("core/path", tests, NULL, NULL);
}
