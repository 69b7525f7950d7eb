/* SPDX-License-Identifier: MIT */
/* The ring between a thread and the log's writer. The producer publishes put_at behind the bytes,
 * the consumer gives room back through taken_at once it has read them; both with release, read with
 * acquire. Invariant: taken_at <= put_at <= taken_at + bytes. */
#include "base/log_ring.h"

#include "base/mem.h"

/* Below, two long lines would fill the ring; above, a thread's share of the memory is more than a
 * log is worth. */
#define RING_BYTES_MIN ((size_t)16 << 10)
#define RING_BYTES_MAX ((size_t)1 << 30)

static size_t ring_size(size_t asked)
{
    size_t bytes = RING_BYTES_MIN;

    while (bytes < asked && bytes < RING_BYTES_MAX)
        bytes *= 2;
    return bytes;
}

struct prazo_log_ring *prazo__log_ring_new(size_t ring_bytes)
{
    size_t bytes = ring_size(ring_bytes);
    struct prazo_log_ring *ring = prazo_mem_calloc(1, sizeof(*ring));

    if (!ring)
        return NULL;
    ring->base = prazo_mem_alloc(bytes);
    if (!ring->base) {
        prazo_mem_free(ring);
        return NULL;
    }
    ring->bytes = bytes;
    return ring;
}

void prazo__log_ring_free(struct prazo_log_ring *ring)
{
    prazo_mem_free(ring->base);
    prazo_mem_free(ring);
}

/* Bytes that wait, at most as old as the last look at the consumer's position. */
static uint64_t waiting(const struct prazo_log_ring *ring)
{
    return ring->put_at - ring->taken_seen;
}

static void look_at_consumer(struct prazo_log_ring *ring)
{
    ring->taken_seen = __atomic_load_n(&ring->taken_at, __ATOMIC_ACQUIRE);
}

bool prazo__log_ring_put(struct prazo_log_ring *ring, struct prazo_str line)
{
    size_t place = (size_t)(ring->put_at & (ring->bytes - 1));
    size_t first = ring->bytes - place < line.len ? ring->bytes - place : line.len;

    if (line.len > ring->bytes - waiting(ring)) {
        look_at_consumer(ring);
        if (line.len > ring->bytes - waiting(ring))
            return false;
    }
    memcpy(ring->base + place, line.base, first);
    memcpy(ring->base, line.base + first, line.len - first);
    __atomic_store_n(&ring->put_at, ring->put_at + line.len, __ATOMIC_RELEASE);
    return true;
}

bool prazo__log_ring_holds(struct prazo_log_ring *ring, uint64_t bytes)
{
    if (waiting(ring) < bytes)
        return false;
    look_at_consumer(ring);
    return waiting(ring) >= bytes;
}

uint64_t prazo__log_ring_end(const struct prazo_log_ring *ring)
{
    return __atomic_load_n(&ring->put_at, __ATOMIC_ACQUIRE);
}

struct prazo_str prazo__log_ring_peek(const struct prazo_log_ring *ring, uint64_t end)
{
    size_t place = (size_t)(ring->taken_at & (ring->bytes - 1));
    uint64_t left = end - ring->taken_at;

    return prazo_str_n(ring->base + place,
                       left < ring->bytes - place ? (size_t)left : ring->bytes - place);
}

void prazo__log_ring_take(struct prazo_log_ring *ring, size_t bytes)
{
    __atomic_store_n(&ring->taken_at, ring->taken_at + bytes, __ATOMIC_RELEASE);
}

uint64_t prazo__log_ring_drop(struct prazo_log_ring *ring, uint64_t end)
{
    uint64_t lines = 0;

    for (;;) {
        struct prazo_str piece = prazo__log_ring_peek(ring, end);

        if (piece.len == 0)
            return lines;
        for (size_t i = 0; i < piece.len; i++)
            lines += piece.base[i] == '\n';
        prazo__log_ring_take(ring, piece.len);
    }
}
