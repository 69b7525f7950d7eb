/* SPDX-License-Identifier: MIT */
/* Wrappers of malloc with one switch for out-of-memory tests.
 *
 * The switch is process-wide, because a scenario's allocations happen in several threads. While it
 * is off it costs a relaxed load and a branch that is always predicted. */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { FAIL_OFF = -2, FAIL_DONE = -1 };

/* Allocations that still succeed, FAIL_DONE or FAIL_OFF. Atomic. */
static int64_t fail_left = FAIL_OFF;

static bool must_fail(void)
{
    int64_t left = __atomic_load_n(&fail_left, __ATOMIC_RELAXED);

    if (__builtin_expect(left < 0, 1))
        return false;
    /* A lost race reloads `left`; it may be over by then. */
    while (!__atomic_compare_exchange_n(&fail_left, &left, left - 1, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
        if (left < 0)
            return false;
    }
    return left == 0;
}

/* malloc(0) may answer NULL and realloc(p, 0) may free: neither is wanted here. */
static size_t at_least_one(size_t bytes)
{
    return bytes ? bytes : 1;
}

void *prazo_mem_alloc(size_t bytes)
{
    return must_fail() ? NULL : malloc(at_least_one(bytes));
}

void *prazo_mem_calloc(size_t count, size_t bytes)
{
    size_t all;

    /* calloc() checks this too, but sanitizers end the process there. */
    if (__builtin_mul_overflow(count, bytes, &all) || must_fail())
        return NULL;
    return calloc(1, at_least_one(all));
}

void *prazo_mem_realloc(void *p, size_t bytes)
{
    return must_fail() ? NULL : realloc(p, at_least_one(bytes));
}

void prazo_mem_free(void *p)
{
    free(p);
}

char *prazo_mem_strdup(const char *z)
{
    size_t bytes;
    char *copy;

    if (!z)
        return NULL;
    bytes = strlen(z) + 1;
    copy = prazo_mem_alloc(bytes);
    if (copy)
        memcpy(copy, z, bytes);
    return copy;
}

void *prazo_mem_must_realloc(void *p, size_t bytes)
{
    void *moved = realloc(p, at_least_one(bytes));

    if (!moved)
        prazo__assert_failed(__FILE__, __LINE__, __func__, "out of memory");
    return moved;
}

void prazo_mem_fail_after(int64_t n)
{
    __atomic_store_n(&fail_left, n < 0 ? FAIL_OFF : n, __ATOMIC_RELAXED);
}

bool prazo_mem_has_failed(void)
{
    return __atomic_load_n(&fail_left, __ATOMIC_RELAXED) == FAIL_DONE;
}
