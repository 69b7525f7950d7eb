/* SPDX-License-Identifier: MIT */
/* Per-request memory with a hard cap, dropped whole. Blocks come from a free list that one thread
 * owns, so that the request path calls malloc only while the list grows. Not thread-safe. */
#ifndef PRAZO_BASE_ARENA_H
#define PRAZO_BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

#define PRAZO_ARENA_BLOCK_BYTES 4096u

struct prazo_arena_block;

/* The free list that arenas of one thread take their blocks from. */
struct prazo_arena_pool {
    struct prazo_arena_block *free;
    size_t free_count;
    size_t free_max; /* blocks kept; the rest is given back to malloc */
};

struct prazo_arena {
    struct prazo_arena_pool *pool; /* borrowed */
    struct prazo_arena_block *blocks;
    char *at, *end;    /* room left in the newest block */
    size_t used_bytes; /* taken from malloc or the pool */
    size_t bytes_max;
};

void prazo_arena_pool_init(struct prazo_arena_pool *pool, size_t free_max);
void prazo_arena_pool_done(struct prazo_arena_pool *pool);

void prazo_arena_init(struct prazo_arena *arena, struct prazo_arena_pool *pool, size_t bytes_max);
/* Gives every block back; the arena can be used again. */
void prazo_arena_reset(struct prazo_arena *arena);
/* 16-byte aligned, not cleared. NULL when the cap is reached or malloc fails. Larger pieces than a
 * block get a block of their own. */
void *prazo_arena_alloc(struct prazo_arena *arena, size_t bytes);
/* A copy in the arena; base is NULL when there was no memory. */
struct prazo_str prazo_arena_dup(struct prazo_arena *arena, struct prazo_str s);
/* Shrinks the newest allocation (p of `bytes`) to `used` bytes, so that a builder can take more
 * than it needs and give the rest back. Does nothing for any other allocation. */
void prazo_arena_trim(struct prazo_arena *arena, void *p, size_t bytes, size_t used);

#endif
