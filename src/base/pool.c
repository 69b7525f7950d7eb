/* SPDX-License-Identifier: MIT */
/* Fixed-size objects. A free object's first word links it to the next free one; the rest of it, and
 * under AddressSanitizer all of it, must not be touched.
 *
 * Invariants: count <= total <= count_max; total - count objects are on the free list. */
#include "base/pool.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/poison.h"

#define ALIGN 16u

struct slab {
    _Alignas(ALIGN) struct slab *next;
};

struct free_object {
    struct free_object *next;
};

void prazo_pool_init(struct prazo_pool *pool, size_t object_bytes, size_t per_slab,
                     size_t count_max)
{
    PRAZO_ASSERT(object_bytes > 0 && per_slab > 0);
    PRAZO_ASSERT(object_bytes <= (SIZE_MAX / 2 - sizeof(struct slab)) / per_slab - ALIGN);
    *pool = (struct prazo_pool){
        .object_bytes = (object_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1),
        .per_slab = per_slab,
        .count_max = count_max,
    };
}

void prazo_pool_done(struct prazo_pool *pool)
{
    struct slab *slab;

    if (!pool)
        return;
    PRAZO_ASSERT(pool->count == 0);
    slab = pool->slabs;
    while (slab) {
        struct slab *next = slab->next;

        prazo_mem_free(slab);
        slab = next;
    }
    pool->slabs = pool->free = NULL;
    pool->total = 0;
}

static void push_free(struct prazo_pool *pool, void *object)
{
    struct free_object *entry = object;

    entry->next = pool->free;
    pool->free = entry;
    PRAZO_POISON(object, pool->object_bytes);
}

/* False at the maximum or without memory. */
static bool add_slab(struct prazo_pool *pool)
{
    size_t room = pool->count_max - pool->total;
    size_t count = room < pool->per_slab ? room : pool->per_slab;
    struct slab *slab;
    char *objects;

    if (count == 0)
        return false;
    slab = prazo_mem_alloc(sizeof(*slab) + count * pool->object_bytes);
    if (!slab)
        return false;
    slab->next = pool->slabs;
    pool->slabs = slab;
    objects = (char *)slab + sizeof(*slab);
    for (size_t i = count; i-- > 0;) /* backwards: handed out in the order of addresses */
        push_free(pool, objects + i * pool->object_bytes);
    pool->total += count;
    return true;
}

void *prazo_pool_get(struct prazo_pool *pool)
{
    struct free_object *object;

    if (!pool->free && !add_slab(pool))
        return NULL;
    object = pool->free;
    PRAZO_UNPOISON(object, pool->object_bytes);
    pool->free = object->next;
    pool->count++;
    return memset(object, 0, pool->object_bytes);
}

void prazo_pool_put(struct prazo_pool *pool, void *object)
{
    if (!object)
        return;
    PRAZO_ASSERT(pool->count > 0);
    PRAZO_ASSERT(!PRAZO_IS_POISONED(object)); /* given back twice */
    pool->count--;
    push_free(pool, object);
}
