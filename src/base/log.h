/* SPDX-License-Identifier: MIT */
/* Structured log. Lines are built in the caller's thread, put whole into that thread's ring
 * (one producer, one consumer, no lock) and written to the sink by one writer thread, at 64 KiB
 * or after 1 s, so that a full disk or a reader that has stopped never holds up a request. A line
 * for which the ring has no room is dropped and counted.
 *
 * Text from outside is always escaped (JSON rules, in both formats). */
#ifndef PRAZO_BASE_LOG_H
#define PRAZO_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum prazo_log_level {
    PRAZO_LOG_DEBUG = 0,
    PRAZO_LOG_INFO,
    PRAZO_LOG_WARN,
    PRAZO_LOG_ERROR,
    /* must stay last */
    PRAZO_LOG_LEVEL_COUNT
};

enum prazo_log_format {
    PRAZO_LOG_JSON = 0,
    PRAZO_LOG_TEXT,
    /* must stay last */
    PRAZO_LOG_FORMAT_COUNT
};

struct prazo_log_ring; /* one a thread */

/* Starts the writer thread towards fd (borrowed, usually 2). PRAZO_E_NOMEM, PRAZO_E_NO_FDS. One
 * writer a process. */
int prazo_log_start(int fd, enum prazo_log_level level, enum prazo_log_format format);
/* Any thread. */
void prazo_log_configure(enum prazo_log_level level, enum prazo_log_format format);
/* Writes out what the rings hold, at most wait_ms if the sink does not take it, and ends the
 * writer thread. Rings stay valid until prazo_log_ring_free(). */
void prazo_log_stop(int wait_ms);

/* ring_bytes is rounded up to a power of two, within 16 KiB and 1 GiB. NULL without memory. */
struct prazo_log_ring *prazo_log_ring_new(size_t ring_bytes);
/* After prazo_log_stop() only. */
void prazo_log_ring_free(struct prazo_log_ring *ring);
/* The calling thread's ring, used by prazo_log_begin(). A thread without one (and any thread
 * before prazo_log_start()) writes its lines directly to fd 2. */
void prazo_log_ring_attach(struct prazo_log_ring *ring);

/* Lines dropped since the start: no room in a ring, or the sink refused them (disk full). */
uint64_t prazo_log_dropped(void);

/* One line under construction; its buffer is the thread's own. Usage:
 *   if (prazo_log_on(PRAZO_LOG_WARN)) {
 *       struct prazo_log_line line;
 *       prazo_log_begin(&line, PRAZO_LOG_WARN, "upstream server ejected");
 *       prazo_log_str(&line, "upstream", name);
 *       prazo_log_i64(&line, "failures", n);
 *       prazo_log_end(&line);
 *   }
 * JSON: {"time":"2026-01-02T03:04:05.678Z","level":"warn","msg":"…","upstream":"…","failures":5}
 * text: 2026-01-02T03:04:05.678Z warn  upstream server ejected upstream="…" failures=5 */
struct prazo_log_line {
    char *base;
    size_t len, cap;
    enum prazo_log_level level;
    enum prazo_log_format format;
    bool is_truncated;
};

bool prazo_log_on(enum prazo_log_level level);
void prazo_log_begin(struct prazo_log_line *line, enum prazo_log_level level, const char *msg);
/* Keys are literals. A value with base NULL is left out. Long values are cut at 2 KiB;
 * a line that lost something says truncated=true. */
void prazo_log_str(struct prazo_log_line *line, const char *key, struct prazo_str value);
void prazo_log_i64(struct prazo_log_line *line, const char *key, int64_t value);
/* Milliseconds with three decimals, from µs. */
void prazo_log_ms(struct prazo_log_line *line, const char *key, int64_t us);
void prazo_log_end(struct prazo_log_line *line);

/* Short cut for a message with at most one printf-made detail ("detail" key). */
void prazo_logf(enum prazo_log_level level, const char *msg, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
