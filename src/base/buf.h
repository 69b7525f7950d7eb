/* SPDX-License-Identifier: MIT */
/* A growable byte buffer whose maximum is given at init. Growing beyond it is an ordinary answer
 * (PRAZO_E_TOO_LARGE); on any error the content stays as it was. Not thread-safe. */
#ifndef PRAZO_BASE_BUF_H
#define PRAZO_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "base/str.h"

struct prazo_buf {
    char *base; /* owned; NULL until the first byte */
    size_t len;
    size_t cap;
    size_t max;
};

void prazo_buf_init(struct prazo_buf *buf, size_t bytes_max);
/* Frees the memory; the buffer may be used again (its maximum is kept). NULL is accepted. */
void prazo_buf_done(struct prazo_buf *buf);
/* Makes room for `more` bytes behind len. PRAZO_E_NOMEM, PRAZO_E_TOO_LARGE. */
int prazo_buf_reserve(struct prazo_buf *buf, size_t more);
int prazo_buf_add(struct prazo_buf *buf, const void *data, size_t len);
int prazo_buf_add_str(struct prazo_buf *buf, struct prazo_str s);
int prazo_buf_add_z(struct prazo_buf *buf, const char *z);
int prazo_buf_addf(struct prazo_buf *buf, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int prazo_buf_vaddf(struct prazo_buf *buf, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
/* Removes the first n bytes (n <= len). */
void prazo_buf_consume(struct prazo_buf *buf, size_t n);

static inline struct prazo_str prazo_buf_str(const struct prazo_buf *buf)
{
    return (struct prazo_str){ buf->base, buf->len };
}

/* Appends s as a JSON string with its quotes (RFC 8259 §7). Bytes that are not valid UTF-8 become
 * U+FFFD, so the result is valid JSON whatever came from outside; control characters and DEL are
 * escaped, so that nothing from outside can start a new line or move a terminal's cursor. */
int prazo_buf_add_json(struct prazo_buf *buf, struct prazo_str s);

#endif
