/* SPDX-License-Identifier: MIT */
/* The ring alone: full to the byte, around its end, dropped, and between two threads. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/log_ring.h"
#include "base/mem.h"

enum { SMALLEST = 16 << 10 };

static struct prazo_log_ring *ring;

static int setup(void **state)
{
    (void)state;
    ring = prazo__log_ring_new(1);
    return ring ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    prazo__log_ring_free(ring);
    return 0;
}

static void test_sizes(void **state)
{
    static const struct {
        size_t asked;
        uint64_t expected;
    } rows[] = {
        { 0, SMALLEST },
        { SMALLEST, SMALLEST },
        { SMALLEST + 1, 2 * SMALLEST },
        { 1000000, 1 << 20 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct prazo_log_ring *sized = prazo__log_ring_new(rows[i].asked);

        assert_non_null(sized);
        assert_true(sized->bytes == rows[i].expected);
        prazo__log_ring_free(sized);
    }
}

static void test_out_of_memory(void **state)
{
    int64_t n = 0;

    (void)state;
    for (;; n++) {
        struct prazo_log_ring *made;

        prazo_mem_fail_after(n);
        made = prazo__log_ring_new(1);
        if (!prazo_mem_has_failed()) {
            prazo__log_ring_free(made);
            break;
        }
        assert_null(made);
    }
    prazo_mem_fail_after(-1);
    assert_int_equal(n, 2);
}

static void test_full_to_the_byte(void **state)
{
    char line[SMALLEST];

    (void)state;
    memset(line, 'x', sizeof(line));
    assert_true(prazo__log_ring_put(ring, prazo_str_n(line, SMALLEST - 10)));
    assert_false(prazo__log_ring_put(ring, prazo_str_n(line, 11)));
    assert_false(prazo__log_ring_holds(ring, SMALLEST));
    assert_true(prazo__log_ring_put(ring, prazo_str_n(line, 10)));
    assert_true(prazo__log_ring_holds(ring, SMALLEST));
    assert_false(prazo__log_ring_put(ring, prazo_str_n(line, 1)));
    prazo__log_ring_take(ring, 1);
    assert_false(prazo__log_ring_holds(ring, SMALLEST));
    assert_true(prazo__log_ring_put(ring, prazo_str_n(line, 1)));
    assert_false(prazo__log_ring_put(ring, prazo_str_n(line, 1)));
    assert_false(prazo__log_ring_put(ring, prazo_str_n(line, SMALLEST + 1)));
}

static void test_around_the_end(void **state)
{
    struct prazo_str piece;
    char filler[SMALLEST - 3];
    uint64_t end;

    (void)state;
    memset(filler, 'x', sizeof(filler));
    assert_int_equal(prazo__log_ring_peek(ring, prazo__log_ring_end(ring)).len, 0);
    assert_true(prazo__log_ring_put(ring, prazo_str_n(filler, sizeof(filler))));
    prazo__log_ring_take(ring, sizeof(filler));
    assert_true(prazo__log_ring_put(ring, PRAZO_STR("abcdef\n")));
    end = prazo__log_ring_end(ring);
    assert_true(prazo__log_ring_put(ring, PRAZO_STR("later\n")));
    piece = prazo__log_ring_peek(ring, end);
    assert_true(prazo_str_eq(piece, PRAZO_STR("abc")));
    prazo__log_ring_take(ring, 2);
    assert_true(prazo_str_eq(prazo__log_ring_peek(ring, end), PRAZO_STR("c")));
    prazo__log_ring_take(ring, 1);
    assert_true(prazo_str_eq(prazo__log_ring_peek(ring, end), PRAZO_STR("def\n")));
    prazo__log_ring_take(ring, 4);
    assert_int_equal(prazo__log_ring_peek(ring, end).len, 0);
    piece = prazo__log_ring_peek(ring, prazo__log_ring_end(ring));
    assert_true(prazo_str_eq(piece, PRAZO_STR("later\n")));
}

static void test_drop_counts_lines(void **state)
{
    char filler[SMALLEST - 12];
    uint64_t end;

    (void)state;
    assert_int_equal(prazo__log_ring_drop(ring, prazo__log_ring_end(ring)), 0);
    memset(filler, '\n', sizeof(filler));
    assert_true(prazo__log_ring_put(ring, prazo_str_n(filler, sizeof(filler))));
    assert_int_equal(prazo__log_ring_drop(ring, prazo__log_ring_end(ring)), sizeof(filler));
    for (int i = 0; i < 4; i++)
        assert_true(prazo__log_ring_put(ring, PRAZO_STR("line\n"))); /* the third wraps */
    end = prazo__log_ring_end(ring);
    prazo__log_ring_take(ring, 2); /* a line begun counts as long as its end is missing */
    assert_true(prazo__log_ring_put(ring, PRAZO_STR("kept\n")));
    assert_int_equal(prazo__log_ring_drop(ring, end), 4);
    assert_true(
        prazo_str_eq(prazo__log_ring_peek(ring, prazo__log_ring_end(ring)), PRAZO_STR("kept\n")));
}

enum { LINES = 100000 };

static void *put_lines(void *unused)
{
    (void)unused;
    for (int i = 0; i < LINES; i++) {
        char line[64];
        int len = snprintf(line, sizeof(line), "%d %.*s\n", i, i % 40,
                           "........................................");

        while (!prazo__log_ring_put(ring, prazo_str_n(line, (size_t)len)))
            sched_yield();
    }
    return NULL;
}

/* Every line comes over once, whole and in order. */
static void test_two_threads(void **state)
{
    pthread_t producer;
    char line[64];
    size_t len = 0;
    int expected = 0;

    (void)state;
    assert_int_equal(pthread_create(&producer, NULL, put_lines, NULL), 0);
    while (expected < LINES) {
        struct prazo_str piece = prazo__log_ring_peek(ring, prazo__log_ring_end(ring));

        if (piece.len == 0)
            sched_yield();
        for (size_t i = 0; i < piece.len; i++) {
            assert_true(len < sizeof(line));
            line[len++] = piece.base[i];
            if (piece.base[i] != '\n')
                continue;
            assert_int_equal(strtol(line, NULL, 10), expected);
            assert_true(len > (size_t)(expected % 40));
            expected++;
            len = 0;
        }
        prazo__log_ring_take(ring, piece.len);
    }
    pthread_join(producer, NULL);
    assert_int_equal(prazo__log_ring_peek(ring, prazo__log_ring_end(ring)).len, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_out_of_memory),
        TEST(test_full_to_the_byte),  TEST(test_around_the_end),
        TEST(test_drop_counts_lines), TEST(test_two_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
