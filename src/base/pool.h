/* SPDX-License-Identifier: MIT */
/* Fixed-size objects from slabs, up to a maximum count. Slabs are kept until done(). Not
 * thread-safe: one pool belongs to one thread. Under AddressSanitizer free objects are poisoned. */
#ifndef PRAZO_BASE_POOL_H
#define PRAZO_BASE_POOL_H

#include <stddef.h>

struct prazo_pool {
    size_t object_bytes;
    size_t per_slab;
    size_t count_max; /* 0 is not "unlimited": it means no object at all */
    size_t count;     /* handed out now */
    size_t total;     /* handed out or free */
    void *free;
    void *slabs;
};

void prazo_pool_init(struct prazo_pool *pool, size_t object_bytes, size_t per_slab,
                     size_t count_max);
/* All objects must have been given back. */
void prazo_pool_done(struct prazo_pool *pool);
/* Zeroed. NULL at the maximum or without memory. */
void *prazo_pool_get(struct prazo_pool *pool);
void prazo_pool_put(struct prazo_pool *pool, void *object);

#endif
