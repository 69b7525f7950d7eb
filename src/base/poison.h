/* SPDX-License-Identifier: MIT */
/* Marks memory that is ours but not handed out, so that AddressSanitizer reports its use. Nothing
 * without that sanitizer. */
#ifndef PRAZO_BASE_POISON_H
#define PRAZO_BASE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define PRAZO_HAS_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PRAZO_HAS_POISON 1
#endif
#endif

#ifdef PRAZO_HAS_POISON
#include <sanitizer/asan_interface.h>
#define PRAZO_POISON(p, bytes) __asan_poison_memory_region((p), (bytes))
#define PRAZO_UNPOISON(p, bytes) __asan_unpoison_memory_region((p), (bytes))
#define PRAZO_IS_POISONED(p) (__asan_address_is_poisoned(p) != 0)
#else
#define PRAZO_POISON(p, bytes) ((void)(p), (void)(bytes))
#define PRAZO_UNPOISON(p, bytes) ((void)(p), (void)(bytes))
#define PRAZO_IS_POISONED(p) ((void)(p), 0)
#endif

#endif
