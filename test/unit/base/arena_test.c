/* SPDX-License-Identifier: MIT */
/* Arenas: alignment, the cap to the byte, reuse of blocks, and poison where nothing is handed out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/poison.h"

#define BLOCK PRAZO_ARENA_BLOCK_BYTES
#define HEADER 16u /* of a block, counted against the cap */

struct fixture {
    struct prazo_arena_pool pool;
    struct prazo_arena arena;
};

static void init(struct fixture *f, size_t free_max, size_t bytes_max)
{
    prazo_arena_pool_init(&f->pool, free_max);
    prazo_arena_init(&f->arena, &f->pool, bytes_max);
}

static void done(struct fixture *f)
{
    prazo_mem_fail_after(-1);
    prazo_arena_reset(&f->arena);
    prazo_arena_pool_done(&f->pool);
}

static void test_pieces_are_aligned_and_apart(void **state)
{
    static const size_t sizes[] = { 0, 1, 15, 16, 17, 100, BLOCK - HEADER, BLOCK, 3 * BLOCK, 0, 1 };
    char *pieces[sizeof(sizes) / sizeof(sizes[0])];
    const size_t count = sizeof(sizes) / sizeof(sizes[0]);
    struct fixture f;

    (void)state;
    init(&f, 2, 1 << 20);
    for (size_t i = 0; i < count; i++) {
        pieces[i] = prazo_arena_alloc(&f.arena, sizes[i]);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)i, sizes[i]);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(pieces[i], pieces[j]);
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t b = 0; b < sizes[i]; b++)
            assert_int_equal(pieces[i][b], (char)i);
    }
    done(&f);
}

static void test_cap_is_hard(void **state)
{
    static const struct {
        size_t bytes_max, piece_bytes;
        size_t expected_count; /* pieces before the cap */
    } rows[] = {
        { 0, 0, 0 },
        { 0, 1, 0 },
        { HEADER, 1, 0 },
        { HEADER + 16, 1, 1 },
        { HEADER + 16, 16, 1 },
        { HEADER + 16, 17, 0 },
        { 100, SIZE_MAX, 0 },
        { SIZE_MAX, SIZE_MAX, 0 },
        { SIZE_MAX, SIZE_MAX - 15, 0 },
        { SIZE_MAX, PTRDIFF_MAX, 0 },
        { BLOCK, BLOCK - HEADER, 1 },
        { BLOCK, BLOCK, 0 },
        { 2 * BLOCK, (BLOCK - HEADER) / 3, 6 },
        { BLOCK + HEADER + 32, 32, (BLOCK - HEADER) / 32 + 1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        size_t count = 0;

        init(&f, 2, rows[i].bytes_max);
        while (count <= rows[i].expected_count && prazo_arena_alloc(&f.arena, rows[i].piece_bytes))
            count++;
        assert_int_equal(count, rows[i].expected_count);
        assert_true(f.arena.used_bytes <= rows[i].bytes_max);
        prazo_arena_reset(&f.arena);
        assert_int_equal(f.arena.used_bytes, 0);
        done(&f);
    }
}

static void test_blocks_are_reused_up_to_the_limit(void **state)
{
    struct fixture f;

    (void)state;
    init(&f, 2, 100 * BLOCK);
    for (int i = 0; i < 4; i++)
        assert_non_null(prazo_arena_alloc(&f.arena, BLOCK - HEADER));
    assert_non_null(prazo_arena_alloc(&f.arena, 10 * BLOCK)); /* its own; never kept */
    prazo_arena_reset(&f.arena);
    assert_int_equal(f.pool.free_count, 2);
    prazo_mem_fail_after(0); /* two blocks come without malloc, the third does not */
    assert_non_null(prazo_arena_alloc(&f.arena, BLOCK - HEADER));
    assert_non_null(prazo_arena_alloc(&f.arena, BLOCK - HEADER));
    assert_int_equal(f.pool.free_count, 0);
    assert_false(prazo_mem_has_failed());
    assert_null(prazo_arena_alloc(&f.arena, 1));
    assert_int_equal(f.arena.used_bytes, 2 * BLOCK);
    assert_non_null(prazo_arena_alloc(&f.arena, 1));
    prazo_mem_fail_after(0);
    assert_null(prazo_arena_alloc(&f.arena, BLOCK)); /* a block of its own */
    done(&f);
}

static void test_large_piece_keeps_the_open_block(void **state)
{
    struct fixture f;
    char *first, *second;

    (void)state;
    init(&f, 2, 100 * BLOCK);
    first = prazo_arena_alloc(&f.arena, 16);
    assert_non_null(prazo_arena_alloc(&f.arena, 2 * BLOCK));
    second = prazo_arena_alloc(&f.arena, 16);
    assert_ptr_equal(second, first + 16);
    done(&f);
}

static void test_dup(void **state)
{
    struct fixture f;
    struct prazo_str copy;
    const char *text = "content";

    (void)state;
    init(&f, 2, BLOCK);
    copy = prazo_arena_dup(&f.arena, prazo_str_z(text));
    assert_true(prazo_str_eq(copy, prazo_str_z(text)));
    assert_ptr_not_equal(copy.base, text);
    copy = prazo_arena_dup(&f.arena, PRAZO_STR(""));
    assert_non_null(copy.base); /* empty is not absent */
    assert_int_equal(copy.len, 0);
    assert_null(prazo_arena_dup(&f.arena, prazo_str_n(NULL, 0)).base);
    copy = prazo_arena_dup(&f.arena, prazo_str_n(text, 2 * BLOCK));
    assert_null(copy.base);
    assert_int_equal(copy.len, 0);
    done(&f);
}

static void test_trim_newest_only(void **state)
{
    struct fixture f;
    char *a, *b, *c;

    (void)state;
    init(&f, 2, 100 * BLOCK);
    prazo_arena_trim(&f.arena, NULL, 0, 0);
    a = prazo_arena_alloc(&f.arena, 1000);
    prazo_arena_trim(&f.arena, a, 1000, 20);
    b = prazo_arena_alloc(&f.arena, 100);
    assert_ptr_equal(b, a + 32);
    prazo_arena_trim(&f.arena, a, 20, 0); /* no longer the newest */
    c = prazo_arena_alloc(&f.arena, 1);
    assert_ptr_equal(c, b + 112);
    prazo_arena_trim(&f.arena, c, 1, 1);
    assert_ptr_equal(prazo_arena_alloc(&f.arena, 1), c + 16);
    a = prazo_arena_alloc(&f.arena, 2 * BLOCK);
    prazo_arena_trim(&f.arena, a, 2 * BLOCK, 1);
    assert_ptr_equal(prazo_arena_alloc(&f.arena, 1), c + 32);
    done(&f);
}

#ifdef PRAZO_HAS_POISON
static void test_what_is_not_handed_out_is_poisoned(void **state)
{
    struct fixture f;
    char *a, *b;

    (void)state;
    init(&f, 1, 100 * BLOCK);
    a = prazo_arena_alloc(&f.arena, 20);
    assert_false(PRAZO_IS_POISONED(a + 19));
    assert_true(PRAZO_IS_POISONED(a + 20));
    b = prazo_arena_alloc(&f.arena, 100);
    prazo_arena_trim(&f.arena, b, 100, 10);
    assert_false(PRAZO_IS_POISONED(b + 9));
    assert_true(PRAZO_IS_POISONED(b + 10));
    prazo_arena_reset(&f.arena); /* the block is kept, so the address is still ours */
    assert_true(PRAZO_IS_POISONED(a));
    assert_true(PRAZO_IS_POISONED(b));
    assert_ptr_equal(prazo_arena_alloc(&f.arena, 5), a);
    assert_false(PRAZO_IS_POISONED(a + 4));
    assert_true(PRAZO_IS_POISONED(a + 5));
    done(&f);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_aligned_and_apart),
        cmocka_unit_test(test_cap_is_hard),
        cmocka_unit_test(test_blocks_are_reused_up_to_the_limit),
        cmocka_unit_test(test_large_piece_keeps_the_open_block),
        cmocka_unit_test(test_dup),
        cmocka_unit_test(test_trim_newest_only),
#ifdef PRAZO_HAS_POISON
        cmocka_unit_test(test_what_is_not_handed_out_is_poisoned),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
