/* SPDX-License-Identifier: MIT */
/* Output of one connection: slices that are written from where they lie, and an own copy of what
 * the kernel did not take. Private to http/. */
#ifndef PRAZO_HTTP_OUT_H
#define PRAZO_HTTP_OUT_H

#include "base/buf.h"
#include "http/exchange.h"

/* How far what is pending may pass its owner's bound: by what was under way. */
#define PRAZO_PENDING_SLACK 262144u
#define PRAZO_OUT_SLICES 12
#define PRAZO_OUT_SCRATCH 96 /* chunk size lines between two flushes */

struct prazo_out {
    struct iovec slices[PRAZO_OUT_SLICES]; /* borrowed until the flush */
    int count;
    unsigned scratch_used;
    char scratch[PRAZO_OUT_SCRATCH];
    struct prazo_buf pending; /* not taken by the kernel; sent before any new slice */
    bool has_sent;            /* the kernel has taken a byte since the owner cleared this */
    bool is_broken;           /* the peer takes nothing any more: everything is thrown away */
};

void prazo_out_init(struct prazo_out *out, size_t pending_max);
void prazo_out_done(struct prazo_out *out);
/* Queues a slice; flushes first when there is no room. */
void prazo_out_add(struct prazo_out *out, struct prazo_stream *stream, const char *data,
                   size_t len);
/* Queues data as one chunk (RFC 9112 §7.1). len > 0. */
void prazo_out_add_chunk(struct prazo_out *out, struct prazo_stream *stream, const char *data,
                         size_t len);
/* The last chunk with its trailer section. */
void prazo_out_add_last_chunk(struct prazo_out *out, struct prazo_stream *stream,
                              const struct prazo_header *trailers, size_t count);
/* Writes slices, or all that is pending if there is any. Afterwards the borrowed slices may go;
 * WRITABLE is watched while something is pending. True if nothing is left. */
bool prazo_out_flush(struct prazo_out *out, struct prazo_stream *stream);
/* WRITABLE came: true if pending has just become empty. */
bool prazo_out_on_writable(struct prazo_out *out, struct prazo_stream *stream);

#endif
