/* SPDX-License-Identifier: MIT */
/* Builds log lines in a buffer of the calling thread and hands them to the sink whole. A field goes
 * into a line completely or, if the line has no room, not at all; a line that lost a field or a
 * part of a value says so with truncated=true. One line at a time in a thread.
 *
 * No malloc, no lock and, but for handing over, no system call: the clock is read through the vDSO
 * and its text is made once a second. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/json_escape.h"
#include "base/log_sink.h"

#define LINE_BYTES_MAX ((size_t)8 << 10)
/* As it comes out, escapes included. */
#define VALUE_BYTES_MAX ((size_t)2 << 10)

static const char *const level_names[PRAZO_LOG_LEVEL_COUNT] = {
    [PRAZO_LOG_DEBUG] = "debug",
    [PRAZO_LOG_INFO] = "info",
    [PRAZO_LOG_WARN] = "warn",
    [PRAZO_LOG_ERROR] = "error",
};

/* How a line ends, by format and by whether it is truncated. */
static const struct prazo_str line_ends[PRAZO_LOG_FORMAT_COUNT][2] = {
    [PRAZO_LOG_JSON] = { PRAZO_STR_INIT("}\n"), PRAZO_STR_INIT(",\"truncated\":true}\n") },
    [PRAZO_LOG_TEXT] = { PRAZO_STR_INIT("\n"), PRAZO_STR_INIT(" truncated=true\n") },
};

/* Kept free while fields are added. */
#define LINE_END_BYTES_MAX (sizeof(",\"truncated\":true}\n") - 1)

/* Atomic: set by any thread, read by all. */
static int level_now = PRAZO_LOG_INFO;
static int format_now = PRAZO_LOG_JSON;

static _Thread_local char line_bytes[LINE_BYTES_MAX];
static _Thread_local time_t second_seen = -1;
static _Thread_local char second_text[sizeof("-2147481748-01-02T03:04:05")];

void prazo_log_configure(enum prazo_log_level level, enum prazo_log_format format)
{
    PRAZO_ASSERT(level < PRAZO_LOG_LEVEL_COUNT && format < PRAZO_LOG_FORMAT_COUNT);
    __atomic_store_n(&level_now, (int)level, __ATOMIC_RELAXED);
    __atomic_store_n(&format_now, (int)format, __ATOMIC_RELAXED);
}

int prazo_log_start(int fd, enum prazo_log_level level, enum prazo_log_format format)
{
    prazo_log_configure(level, format);
    return prazo__log_sink_start(fd);
}

bool prazo_log_on(enum prazo_log_level level)
{
    return (int)level >= __atomic_load_n(&level_now, __ATOMIC_RELAXED);
}

/* ---- pieces of a line; false when there is no room ---- */

static bool add(struct prazo_log_line *line, struct prazo_str text)
{
    if (text.len > line->cap - line->len)
        return false;
    memcpy(line->base + line->len, text.base, text.len);
    line->len += text.len;
    return true;
}

static bool add_z(struct prazo_log_line *line, const char *z)
{
    return add(line, prazo_str_z(z));
}

/* The whole characters among the first `max` bytes of s, which is valid UTF-8. */
static size_t whole_characters(const char *s, size_t len, size_t max)
{
    if (len <= max)
        return len;
    while (max > 0 && ((unsigned char)s[max] & 0xc0) == 0x80)
        max--;
    return max;
}

/* Escaped, without quotes; cut at VALUE_BYTES_MAX between two characters. */
static bool add_escaped(struct prazo_log_line *line, struct prazo_str s)
{
    size_t left = VALUE_BYTES_MAX;

    while (s.len > 0) {
        /* Four bytes more, so that a character across the cut is seen whole. */
        size_t plain = prazo__json_plain(s.base, s.len < left + 4 ? s.len : left + 4);
        size_t taken = whole_characters(s.base, plain, left);
        struct prazo_str piece = prazo_str_n(s.base, taken);
        char escape[PRAZO__JSON_ESCAPE_MAX];

        if (plain == 0)
            piece = prazo_str_n(escape, prazo__json_escape(s.base, s.len, escape, &taken));
        if (taken < plain || piece.len > left)
            line->is_truncated = true;
        if (piece.len > left)
            return true;
        if (!add(line, piece))
            return false;
        if (taken < plain)
            return true;
        left -= piece.len;
        s = prazo_str_n(s.base + taken, s.len - taken);
    }
    return true;
}

static bool add_key(struct prazo_log_line *line, const char *key)
{
    if (line->format == PRAZO_LOG_TEXT)
        return add_z(line, " ") && add_z(line, key) && add_z(line, "=");
    return add_z(line, ",\"") && add_z(line, key) && add_z(line, "\":");
}

static bool add_i64(struct prazo_log_line *line, int64_t value)
{
    char digits[20];

    return add(line, prazo_str_n(digits, prazo_format_i64(digits, value)));
}

/* Goes back to `len_before` if the field did not fit. */
static void end_field(struct prazo_log_line *line, size_t len_before, bool has_fit)
{
    if (has_fit)
        return;
    line->len = len_before;
    line->is_truncated = true;
}

static void add_time(struct prazo_log_line *line)
{
    struct timespec now = { 0 };
    char millis[] = ".000Z";

    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != second_seen || !second_text[0]) {
        struct tm utc = { 0 };

        gmtime_r(&now.tv_sec, &utc);
        if (strftime(second_text, sizeof(second_text), "%Y-%m-%dT%H:%M:%S", &utc) == 0)
            second_text[0] = '\0';
        second_seen = now.tv_sec;
    }
    for (long left = now.tv_nsec / 1000000, i = 3; i > 0; left /= 10, i--)
        millis[i] = (char)('0' + left % 10);
    add_z(line, second_text);
    add_z(line, millis);
}

/* ---- lines ---- */

void prazo_log_begin(struct prazo_log_line *line, enum prazo_log_level level, const char *msg)
{
    *line = (struct prazo_log_line){
        .base = line_bytes,
        .cap = LINE_BYTES_MAX - LINE_END_BYTES_MAX,
        .level = level,
        .format = (enum prazo_log_format)__atomic_load_n(&format_now, __ATOMIC_RELAXED),
    };
    PRAZO_ASSERT(level < PRAZO_LOG_LEVEL_COUNT);
    /* All of it fits: the message is the only part without a fixed size, and is cut. */
    if (line->format == PRAZO_LOG_TEXT) {
        add_time(line);
        add_z(line, " ");
        add_z(line, level_names[level]);
        add_z(line, &"      "[strlen(level_names[level])]); /* a column of 5 and a blank */
        add_escaped(line, prazo_str_z(msg));
        return;
    }
    add_z(line, "{\"time\":\"");
    add_time(line);
    add_z(line, "\",\"level\":\"");
    add_z(line, level_names[level]);
    add_z(line, "\",\"msg\":\"");
    add_escaped(line, prazo_str_z(msg));
    add_z(line, "\"");
}

void prazo_log_str(struct prazo_log_line *line, const char *key, struct prazo_str value)
{
    size_t len_before = line->len;

    if (!value.base)
        return;
    end_field(line, len_before,
              add_key(line, key) && add_z(line, "\"") && add_escaped(line, value) &&
                  add_z(line, "\""));
}

void prazo_log_i64(struct prazo_log_line *line, const char *key, int64_t value)
{
    size_t len_before = line->len;

    end_field(line, len_before, add_key(line, key) && add_i64(line, value));
}

void prazo_log_ms(struct prazo_log_line *line, const char *key, int64_t us)
{
    size_t len_before = line->len;
    int64_t millis = us / 1000, rest = us % 1000;
    char fraction[] = ".000";

    for (int64_t left = rest < 0 ? -rest : rest, i = 3; i > 0; left /= 10, i--)
        fraction[i] = (char)('0' + left % 10);
    end_field(line, len_before,
              add_key(line, key) && add_z(line, us < 0 && millis == 0 ? "-" : "") &&
                  add_i64(line, millis) && add_z(line, fraction));
}

void prazo_log_end(struct prazo_log_line *line)
{
    struct prazo_str end = line_ends[line->format][line->is_truncated];

    line->cap = LINE_BYTES_MAX;
    add(line, end);
    prazo__log_sink_put(prazo_str_n(line->base, line->len), line->level >= PRAZO_LOG_WARN);
}

void prazo_logf(enum prazo_log_level level, const char *msg, const char *fmt, ...)
{
    char detail[VALUE_BYTES_MAX + 1];
    struct prazo_log_line line;
    va_list ap;
    int len;

    if (!prazo_log_on(level))
        return;
    va_start(ap, fmt);
    len = vsnprintf(detail, sizeof(detail), fmt, ap);
    va_end(ap);
    prazo_log_begin(&line, level, msg);
    if (len > 0) {
        bool is_cut = (size_t)len >= sizeof(detail);

        prazo_log_str(&line, "detail",
                      prazo_str_n(detail, is_cut ? sizeof(detail) - 1 : (size_t)len));
        line.is_truncated = line.is_truncated || is_cut;
    }
    prazo_log_end(&line);
}
