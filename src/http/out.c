/* SPDX-License-Identifier: MIT */
/* Write first, arm later: a flush is one writev of head, chunk lines and body from where they lie;
 * only what the kernel does not take is copied, and only then WRITABLE is watched. A write error
 * marks the output broken and is not reported: what the peer sent before it went away (an early
 * answer, C077) is still to be read, and reading meets the same end. */
#include "http/out.h"

#include "base/assert.h"

void prazo_out_init(struct prazo_out *out, size_t pending_max)
{
    out->count = 0;
    out->scratch_used = 0;
    out->has_sent = false;
    out->is_broken = false;
    prazo_buf_init(&out->pending, pending_max);
}

void prazo_out_done(struct prazo_out *out)
{
    prazo_buf_done(&out->pending);
    out->count = 0;
    out->is_broken = true;
}

void prazo_out_add(struct prazo_out *out, struct prazo_stream *stream, const char *data, size_t len)
{
    if (len == 0 || out->is_broken)
        return;
    if (out->count == PRAZO_OUT_SLICES)
        (void)prazo_out_flush(out, stream);
    out->slices[out->count].iov_base = (void *)(uintptr_t)data;
    out->slices[out->count].iov_len = len;
    out->count++;
}

void prazo_out_add_chunk(struct prazo_out *out, struct prazo_stream *stream, const char *data,
                         size_t len)
{
    char hex[18];
    size_t digits = 1;

    if (out->is_broken)
        return; /* no flush would ever empty the scratch again */
    while (digits < 16 && (len >> (4 * digits)) != 0)
        digits++;
    prazo_format_hex(hex, len, (unsigned)digits);
    memcpy(hex + digits, "\r\n", 2);
    if (out->scratch_used + digits + 2 > PRAZO_OUT_SCRATCH || out->count + 3 > PRAZO_OUT_SLICES)
        (void)prazo_out_flush(out, stream);
    char *line = out->scratch + out->scratch_used;
    memcpy(line, hex, digits + 2);
    out->scratch_used += (unsigned)digits + 2;
    prazo_out_add(out, stream, line, digits + 2);
    prazo_out_add(out, stream, data, len);
    prazo_out_add(out, stream, "\r\n", 2);
}

void prazo_out_add_last_chunk(struct prazo_out *out, struct prazo_stream *stream,
                              const struct prazo_header *trailers, size_t count)
{
    if (count == 0) {
        prazo_out_add(out, stream, "0\r\n\r\n", 5);
        return;
    }
    prazo_out_add(out, stream, "0\r\n", 3);
    for (size_t i = 0; i < count; i++) {
        if (trailers[i].flags != 0 || trailers[i].name.len == 0)
            continue; /* framing, hop-by-hop and own fields are no trailers (RFC 9110 §6.5.1) */
        prazo_out_add(out, stream, trailers[i].name.base, trailers[i].name.len);
        prazo_out_add(out, stream, ": ", 2);
        prazo_out_add(out, stream, trailers[i].value.base, trailers[i].value.len);
        prazo_out_add(out, stream, "\r\n", 2);
    }
    prazo_out_add(out, stream, "\r\n", 2);
}

static void break_off(struct prazo_out *out, struct prazo_stream *stream)
{
    out->is_broken = true;
    out->count = 0;
    out->scratch_used = 0;
    prazo_buf_done(&out->pending);
    prazo_stream_watch(stream, prazo_stream_watched(stream) & ~(unsigned)PRAZO_STREAM_WRITABLE);
}

/* Copies the slices behind the first `skip` bytes. */
static bool keep(struct prazo_out *out, size_t skip)
{
    for (int i = 0; i < out->count; i++) {
        const struct iovec *s = &out->slices[i];
        if (skip >= s->iov_len) {
            skip -= s->iov_len;
            continue;
        }
        if (prazo_buf_add(&out->pending, (const char *)s->iov_base + skip, s->iov_len - skip) != 0)
            return false;
        skip = 0;
    }
    return true;
}

bool prazo_out_flush(struct prazo_out *out, struct prazo_stream *stream)
{
    size_t total = 0, sent = 0;

    if (out->count == 0)
        return out->pending.len == 0;
    if (out->pending.len == 0) {
        for (int i = 0; i < out->count; i++)
            total += out->slices[i].iov_len;
        ssize_t n = prazo_stream_writev(stream, out->slices, out->count);
        if (n < 0 && n != PRAZO_E_AGAIN) {
            break_off(out, stream);
            return true;
        }
        sent = n > 0 ? (size_t)n : 0;
        out->has_sent |= sent > 0;
    }
    if (out->pending.len > 0 || sent < total) {
        if (!keep(out, sent)) { /* no memory, or more than the bound: the answer is cut */
            break_off(out, stream);
            return true;
        }
        prazo_stream_watch(stream, prazo_stream_watched(stream) | PRAZO_STREAM_WRITABLE);
    }
    out->count = 0;
    out->scratch_used = 0;
    return out->pending.len == 0;
}

bool prazo_out_on_writable(struct prazo_out *out, struct prazo_stream *stream)
{
    struct iovec iov = { out->pending.base, out->pending.len };

    if (out->pending.len > 0) {
        ssize_t n = prazo_stream_writev(stream, &iov, 1);
        if (n < 0 && n != PRAZO_E_AGAIN) {
            break_off(out, stream);
            return true;
        }
        if (n > 0) {
            out->has_sent = true;
            prazo_buf_consume(&out->pending, (size_t)n);
        }
        if (out->pending.len > 0)
            return false;
    }
    prazo_buf_done(&out->pending);
    prazo_stream_watch(stream, prazo_stream_watched(stream) & ~(unsigned)PRAZO_STREAM_WRITABLE);
    return true;
}
