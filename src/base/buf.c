/* SPDX-License-Identifier: MIT */
/* Growable buffer. Invariants: len <= cap <= max, and behind `cap` lies one more byte for the NUL
 * that vsnprintf() insists on. Every function that fails leaves base[0..len) as it was. */
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/json_escape.h"
#include "base/mem.h"
#include "prazo/err.h"

/* Most buffers hold a line or a head; starting lower would only move the first bytes around. */
#define CAP_MIN 256u

void prazo_buf_init(struct prazo_buf *buf, size_t bytes_max)
{
    /* No object is larger than PTRDIFF_MAX, so doubling and adding one never overflow. */
    size_t max = bytes_max < PTRDIFF_MAX ? bytes_max : PTRDIFF_MAX;

    *buf = (struct prazo_buf){ .max = max };
}

void prazo_buf_done(struct prazo_buf *buf)
{
    if (!buf)
        return;
    prazo_mem_free(buf->base);
    prazo_buf_init(buf, buf->max);
}

int prazo_buf_reserve(struct prazo_buf *buf, size_t more)
{
    size_t cap;
    char *base;

    if (more > buf->max - buf->len)
        return PRAZO_E_TOO_LARGE;
    if (more <= buf->cap - buf->len && buf->base)
        return PRAZO_OK;
    cap = buf->cap < CAP_MIN / 2 ? CAP_MIN : buf->cap * 2;
    if (cap < buf->len + more)
        cap = buf->len + more;
    if (cap > buf->max)
        cap = buf->max;
    base = prazo_mem_realloc(buf->base, cap + 1);
    if (!base)
        return PRAZO_E_NOMEM;
    buf->base = base;
    buf->cap = cap;
    return PRAZO_OK;
}

int prazo_buf_add(struct prazo_buf *buf, const void *data, size_t len)
{
    int err;

    if (len == 0)
        return PRAZO_OK;
    err = prazo_buf_reserve(buf, len);
    if (err)
        return err;
    memcpy(buf->base + buf->len, data, len);
    buf->len += len;
    return PRAZO_OK;
}

int prazo_buf_add_str(struct prazo_buf *buf, struct prazo_str s)
{
    return prazo_buf_add(buf, s.base, s.len);
}

int prazo_buf_add_z(struct prazo_buf *buf, const char *z)
{
    return prazo_buf_add(buf, z, strlen(z));
}

int prazo_buf_addf(struct prazo_buf *buf, const char *fmt, ...)
{
    va_list ap;
    int err;

    va_start(ap, fmt);
    err = prazo_buf_vaddf(buf, fmt, ap);
    va_end(ap);
    return err;
}

int prazo_buf_vaddf(struct prazo_buf *buf, const char *fmt, va_list ap)
{
    size_t room = buf->base ? buf->cap - buf->len + 1 : 0;
    va_list again;
    int len, err;

    va_copy(again, ap);
    len = vsnprintf(room ? buf->base + buf->len : NULL, room, fmt, ap);
    if (len < 0) {
        err = PRAZO_E_INVALID;
        goto out;
    }
    err = PRAZO_OK;
    if ((size_t)len >= room) {
        err = prazo_buf_reserve(buf, (size_t)len);
        if (err)
            goto out;
        vsnprintf(buf->base + buf->len, (size_t)len + 1, fmt, again);
    }
    buf->len += (size_t)len;
out:
    va_end(again);
    return err;
}

void prazo_buf_consume(struct prazo_buf *buf, size_t n)
{
    PRAZO_ASSERT(n <= buf->len);
    if (n == 0)
        return;
    buf->len -= n;
    memmove(buf->base, buf->base + n, buf->len);
}

static int add_escaped(struct prazo_buf *buf, struct prazo_str s)
{
    while (s.len > 0) {
        size_t taken = prazo__json_plain(s.base, s.len);
        int err = prazo_buf_add(buf, s.base, taken);

        if (!err && taken == 0) {
            char text[PRAZO__JSON_ESCAPE_MAX];
            size_t len = prazo__json_escape(s.base, s.len, text, &taken);

            err = prazo_buf_add(buf, text, len);
        }
        if (err)
            return err;
        s = prazo_str_n(s.base + taken, s.len - taken);
    }
    return PRAZO_OK;
}

int prazo_buf_add_json(struct prazo_buf *buf, struct prazo_str s)
{
    size_t len_before = buf->len;
    int err = prazo_buf_add(buf, "\"", 1);

    if (!err)
        err = add_escaped(buf, s);
    if (!err)
        err = prazo_buf_add(buf, "\"", 1);
    if (err)
        buf->len = len_before;
    return err;
}
