/* SPDX-License-Identifier: MIT */
/* The table of keys agrees with itself: what the reader, the writer and the reference take for
 * granted about its rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "config/config.h"
#include "config/load.h"
#include "config/table.h"

static void test_paths_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < prazo_key_count; i++)
        assert_ptr_equal(prazo_key_find(prazo_keys[i].path), &prazo_keys[i]);
    assert_null(prazo_key_find("nothing"));
}

static void test_entries_stand_behind_their_lists(void **state)
{
    (void)state;
    for (size_t i = 0; i < prazo_key_count; i++) {
        const struct prazo_key *key = &prazo_keys[i];
        char expected[128];
        if (key->type != PRAZO_KEY_LIST && key->type != PRAZO_KEY_NAMED)
            continue;
        assert_true(i + 1 < prazo_key_count);
        snprintf(expected, sizeof(expected), "%s%s", key->path,
                 key->type == PRAZO_KEY_LIST ? "[]" : ".*");
        assert_string_equal(prazo_key_entry(key)->path, expected);
        assert_true(key->entry_bytes > 0 && key->max > 0);
    }
}

/* A parent that is no row would make its keys unreachable. */
static void test_every_key_has_its_parent(void **state)
{
    (void)state;
    for (size_t i = 0; i < prazo_key_count; i++) {
        const char *path = prazo_keys[i].path, *dot = strrchr(path, '.');
        char parent[128];
        if (!dot)
            continue;
        snprintf(parent, sizeof(parent), "%.*s", (int)(dot - path), path);
        if (!prazo_key_find(parent))
            fail_msg("%s: no row for %s", path, parent);
    }
}

static void test_rows_are_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < prazo_key_count; i++) {
        const struct prazo_key *key = &prazo_keys[i];
        bool is_number = key->type >= PRAZO_KEY_DURATION && key->type <= PRAZO_KEY_PERCENT;
        bool is_entry = key->in == PRAZO_IN_ENTRY;
        bool is_short = key->type == PRAZO_KEY_SECTION || key->type == PRAZO_KEY_SINGLE;
        if (!key->help || !*key->help)
            fail_msg("%s: no help", key->path);
        if (is_number && (key->max <= 0 || key->min > key->max))
            fail_msg("%s: no bounds", key->path);
        if (!is_short && !is_entry && !key->fallback && !key->otherwise)
            fail_msg("%s: no default, and nothing said in its place", key->path);
        if (key->type == PRAZO_KEY_WORD && !key->words)
            fail_msg("%s: no words", key->path);
        /* A table cell ends at a bar. */
        if (strchr(key->help, '|'))
            fail_msg("%s: a bar in its help", key->path);
        for (int w = 0; key->scalar; w++) {
            struct prazo_str name = prazo_word_at(key->scalar, w);
            if (!name.base)
                break;
            assert_non_null(prazo_key_child(key, name));
        }
    }
}

static void test_reference_has_every_key(void **state)
{
    struct prazo_buf out;

    (void)state;
    prazo_buf_init(&out, 1 << 20);
    assert_int_equal(prazo_config_write_reference(&out), PRAZO_OK);
    assert_int_equal(prazo_buf_add(&out, "", 1), PRAZO_OK);
    size_t rows = 0;
    for (const char *at = out.base; (at = strstr(at, "\n| `")); at++)
        rows++;
    assert_int_equal(rows, prazo_key_count);
    prazo_buf_done(&out);
}

static void test_words(void **state)
{
    (void)state;
    assert_int_equal(prazo_word_index("a|bc|d", PRAZO_STR("a")), 0);
    assert_int_equal(prazo_word_index("a|bc|d", PRAZO_STR("bc")), 1);
    assert_int_equal(prazo_word_index("a|bc|d", PRAZO_STR("d")), 2);
    assert_int_equal(prazo_word_index("a|bc|d", PRAZO_STR("b")), -1);
    assert_int_equal(prazo_word_index("a|bc|d", PRAZO_STR("a|bc")), -1);
    assert_int_equal(prazo_word_index(NULL, PRAZO_STR("a")), -1);
    assert_null(prazo_word_at("a|bc", 2).base);
}

static void test_threads_auto_is_small(void **state)
{
    (void)state;
    assert_in_range(prazo__threads_auto(), 1, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_are_unique),
        cmocka_unit_test(test_entries_stand_behind_their_lists),
        cmocka_unit_test(test_every_key_has_its_parent),
        cmocka_unit_test(test_rows_are_complete),
        cmocka_unit_test(test_reference_has_every_key),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_threads_auto_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
