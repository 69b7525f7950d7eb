/* SPDX-License-Identifier: MIT */
/* A head under construction, as the text that HTTP/1.1 sends. A gap is left in front for the start
 * line of an answer, whose status is known last. */
#include "http/head_out.h"

void prazo_head_out_init(struct prazo_head_out *out, struct prazo_arena *arena, size_t room)
{
    out->arena = arena;
    out->cap = PRAZO_HEAD_GAP + room;
    out->base = prazo_arena_alloc(arena, out->cap);
    out->failed = out->base == NULL;
    out->len = PRAZO_HEAD_GAP;
}

static char *grow(struct prazo_head_out *out, size_t more)
{
    if (out->failed)
        return NULL;
    if (out->cap - out->len < more) {
        size_t cap = out->cap * 2 + more;
        char *base = prazo_arena_alloc(out->arena, cap);
        if (base == NULL) {
            out->failed = true;
            return NULL;
        }
        memcpy(base, out->base, out->len);
        out->base = base;
        out->cap = cap;
    }
    char *at = out->base + out->len;
    out->len += more;
    return at;
}

void prazo_head_out_raw(struct prazo_head_out *out, const char *bytes, size_t len)
{
    char *at = grow(out, len);

    if (at != NULL && len > 0)
        memcpy(at, bytes, len);
}

void prazo_head_out_add(struct prazo_head_out *out, struct prazo_str name, struct prazo_str value)
{
    char *at = grow(out, name.len + value.len + 4);

    if (at == NULL)
        return;
    memcpy(at, name.base, name.len);
    at += name.len;
    *at++ = ':';
    *at++ = ' ';
    if (value.len > 0)
        memcpy(at, value.base, value.len);
    at += value.len;
    *at++ = '\r';
    *at = '\n';
}

static const struct {
    int status;
    struct prazo_str phrase;
} phrases[] = {
    { 100, PRAZO_STR_INIT("Continue") },
    { 101, PRAZO_STR_INIT("Switching Protocols") },
    { 103, PRAZO_STR_INIT("Early Hints") },
    { 200, PRAZO_STR_INIT("OK") },
    { 204, PRAZO_STR_INIT("No Content") },
    { 400, PRAZO_STR_INIT("Bad Request") },
    { 403, PRAZO_STR_INIT("Forbidden") },
    { 404, PRAZO_STR_INIT("Not Found") },
    { 405, PRAZO_STR_INIT("Method Not Allowed") },
    { 408, PRAZO_STR_INIT("Request Timeout") },
    { 413, PRAZO_STR_INIT("Content Too Large") },
    { 414, PRAZO_STR_INIT("URI Too Long") },
    { 417, PRAZO_STR_INIT("Expectation Failed") },
    { 431, PRAZO_STR_INIT("Request Header Fields Too Large") },
    { 500, PRAZO_STR_INIT("Internal Server Error") },
    { 501, PRAZO_STR_INIT("Not Implemented") },
    { 502, PRAZO_STR_INIT("Bad Gateway") },
    { 503, PRAZO_STR_INIT("Service Unavailable") },
    { 504, PRAZO_STR_INIT("Gateway Timeout") },
    { 505, PRAZO_STR_INIT("HTTP Version Not Supported") },
    { 508, PRAZO_STR_INIT("Loop Detected") },
};

struct prazo_str prazo__reason_phrase(int status)
{
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (phrases[i].status == status)
            return phrases[i].phrase;
    }
    return PRAZO_STR("");
}

struct prazo_str prazo__head_out_answer(struct prazo_head_out *out, int status,
                                        struct prazo_str reason)
{
    char line[PRAZO_HEAD_GAP];
    size_t len = 13;

    if (out->failed)
        return (struct prazo_str){ NULL, 0 };
    if (reason.base == NULL)
        reason = prazo__reason_phrase(status);
    if (reason.len > PRAZO_HEAD_GAP - 15)
        reason.len = PRAZO_HEAD_GAP - 15;
    memcpy(line, "HTTP/1.1 000 ", 13);
    line[9] = (char)('0' + status / 100 % 10);
    line[10] = (char)('0' + status / 10 % 10);
    line[11] = (char)('0' + status % 10);
    if (reason.len > 0)
        memcpy(line + len, reason.base, reason.len);
    len += reason.len;
    memcpy(line + len, "\r\n", 2);
    len += 2;
    char *start = out->base + PRAZO_HEAD_GAP - len;
    memcpy(start, line, len);
    return prazo_str_n(start, out->len - PRAZO_HEAD_GAP + len);
}
