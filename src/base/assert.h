/* SPDX-License-Identifier: MIT */
/* Assertions that stay on in release: a programmer error ends the process with its place,
 * because going on with broken state would lose or mix up requests. */
#ifndef PRAZO_BASE_ASSERT_H
#define PRAZO_BASE_ASSERT_H

#define PRAZO_ASSERT(cond)                                                                         \
    ((cond) ? (void)0 : prazo__assert_failed(__FILE__, __LINE__, __func__, #cond))
#define PRAZO_UNREACHABLE() prazo__assert_failed(__FILE__, __LINE__, __func__, "unreachable")

_Noreturn void prazo__assert_failed(const char *file, int line, const char *func, const char *what);

#endif
