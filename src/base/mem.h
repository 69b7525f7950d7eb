/* SPDX-License-Identifier: MIT */
/* The one door to malloc. Modules above base take heap memory through it, so that a test can make
 * the n-th allocation of a scenario fail. Thread-safe. */
#ifndef PRAZO_BASE_MEM_H
#define PRAZO_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL without memory; the caller frees with prazo_mem_free(). 0 bytes give a valid pointer. The
 * first three fit wherever a library asks for malloc, calloc and realloc. */
void *prazo_mem_alloc(size_t bytes);
/* Cleared; NULL also when count × bytes overflows. */
void *prazo_mem_calloc(size_t count, size_t bytes);
/* On NULL the old piece stays as it was. Never frees: 0 bytes shrink to the smallest piece. */
void *prazo_mem_realloc(void *p, size_t bytes);
/* NULL is accepted. */
void prazo_mem_free(void *p);
/* NULL for NULL or without memory. */
char *prazo_mem_strdup(const char *z);

/* Ends the process without memory, so it is never made to fail: for the few places that bound
 * everything else and have no smaller answer. */
void *prazo_mem_must_realloc(void *p, size_t bytes);

/* For out-of-memory tests: n more allocations of the process succeed, the one after them fails,
 * all later ones succeed again. A negative n turns it off (the state at start). */
void prazo_mem_fail_after(int64_t n);
/* Has the failure asked for last happened? False as well when none was asked for. A test walks n
 * from 0 until this stays false. */
bool prazo_mem_has_failed(void);

#endif
