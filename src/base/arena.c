/* SPDX-License-Identifier: MIT */
/* Per-request memory. Pieces are cut off the newest standard block; a piece that is larger than a
 * block, or that the rest of the cap cannot give a whole block for, gets a block of its own size.
 * Nothing is freed one by one.
 *
 * Invariants: used_bytes is the sum of the blocks' sizes, headers included, and never above
 * bytes_max; only standard blocks go to the free list. Everything not handed out is poisoned. */
#include "base/arena.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/poison.h"

#define ALIGN 16u

struct prazo_arena_block {
    _Alignas(ALIGN) struct prazo_arena_block *next;
    size_t bytes; /* with this header */
};

#define HEADER_BYTES sizeof(struct prazo_arena_block)

/* A piece of 0 bytes takes room too, so that two pieces never share an address. */
static size_t rounded(size_t bytes)
{
    return bytes ? (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
}

static char *block_room(struct prazo_arena_block *block)
{
    return (char *)block + HEADER_BYTES;
}

void prazo_arena_pool_init(struct prazo_arena_pool *pool, size_t free_max)
{
    *pool = (struct prazo_arena_pool){ .free_max = free_max };
}

void prazo_arena_pool_done(struct prazo_arena_pool *pool)
{
    if (!pool)
        return;
    while (pool->free) {
        struct prazo_arena_block *block = pool->free;

        pool->free = block->next;
        prazo_mem_free(block);
    }
    pool->free_count = 0;
}

void prazo_arena_init(struct prazo_arena *arena, struct prazo_arena_pool *pool, size_t bytes_max)
{
    /* No object is larger than PTRDIFF_MAX, so rounding a size below the cap never overflows. */
    size_t max = bytes_max < PTRDIFF_MAX ? bytes_max : PTRDIFF_MAX;

    *arena = (struct prazo_arena){ .pool = pool, .bytes_max = max };
}

static void give_back(struct prazo_arena_pool *pool, struct prazo_arena_block *block)
{
    if (block->bytes != PRAZO_ARENA_BLOCK_BYTES || pool->free_count >= pool->free_max) {
        prazo_mem_free(block);
        return;
    }
    block->next = pool->free;
    pool->free = block;
    pool->free_count++;
    PRAZO_POISON(block_room(block), block->bytes - HEADER_BYTES);
}

void prazo_arena_reset(struct prazo_arena *arena)
{
    while (arena->blocks) {
        struct prazo_arena_block *block = arena->blocks;

        arena->blocks = block->next;
        give_back(arena->pool, block);
    }
    arena->at = arena->end = NULL;
    arena->used_bytes = 0;
}

/* A block of `bytes` in all, linked and accounted, its room poisoned. */
static struct prazo_arena_block *add_block(struct prazo_arena *arena, size_t bytes)
{
    struct prazo_arena_pool *pool = arena->pool;
    struct prazo_arena_block *block;

    if (bytes == PRAZO_ARENA_BLOCK_BYTES && pool->free) {
        block = pool->free;
        pool->free = block->next;
        pool->free_count--;
    } else {
        block = prazo_mem_alloc(bytes);
        if (!block)
            return NULL;
        block->bytes = bytes;
        PRAZO_POISON(block_room(block), bytes - HEADER_BYTES);
    }
    block->next = arena->blocks;
    arena->blocks = block;
    arena->used_bytes += bytes;
    return block;
}

void *prazo_arena_alloc(struct prazo_arena *arena, size_t bytes)
{
    size_t left = arena->bytes_max - arena->used_bytes;
    struct prazo_arena_block *block;
    size_t need;
    char *piece;

    if (bytes > arena->bytes_max)
        return NULL;
    need = rounded(bytes);
    if (need <= (size_t)(arena->end - arena->at)) {
        piece = arena->at;
        arena->at += need;
        PRAZO_UNPOISON(piece, bytes);
        return piece;
    }
    if (left < HEADER_BYTES || need > left - HEADER_BYTES)
        return NULL;
    if (need > PRAZO_ARENA_BLOCK_BYTES - HEADER_BYTES || left < PRAZO_ARENA_BLOCK_BYTES) {
        block = add_block(arena, HEADER_BYTES + need);
        if (!block)
            return NULL;
        piece = block_room(block);
    } else {
        block = add_block(arena, PRAZO_ARENA_BLOCK_BYTES);
        if (!block)
            return NULL;
        piece = block_room(block);
        arena->at = piece + need;
        arena->end = (char *)block + PRAZO_ARENA_BLOCK_BYTES;
    }
    PRAZO_UNPOISON(piece, bytes);
    return piece;
}

struct prazo_str prazo_arena_dup(struct prazo_arena *arena, struct prazo_str s)
{
    char *copy = s.base ? prazo_arena_alloc(arena, s.len) : NULL;

    if (!copy)
        return prazo_str_n(NULL, 0);
    memcpy(copy, s.base, s.len);
    return prazo_str_n(copy, s.len);
}

void prazo_arena_trim(struct prazo_arena *arena, void *p, size_t bytes, size_t used)
{
    char *piece = p;

    PRAZO_ASSERT(used <= bytes);
    /* at is NULL or behind a header, so it cannot be the end of another block's piece. */
    if (!piece || piece + rounded(bytes) != arena->at)
        return;
    arena->at = piece + rounded(used);
    PRAZO_POISON(piece + used, bytes - used);
}
