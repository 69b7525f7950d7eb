/* SPDX-License-Identifier: MIT */
/* The end of a process whose state is broken: the place goes straight to fd 2, past the log, whose
 * own state may be what broke; then abort() for the core file. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Noreturn void prazo__assert_failed(const char *file, int line, const char *func, const char *what)
{
    char text[512];
    int len =
        snprintf(text, sizeof(text), "%s:%d: %s: assertion failed: %s\n", file, line, func, what);

    if (len > 0) {
        size_t bytes = (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1;

        /* Nothing is left to do if even this does not go out. */
        if (write(STDERR_FILENO, text, bytes) < 0)
            abort();
    }
    abort();
}
