/* SPDX-License-Identifier: MIT */
/* Bodies of HTTP/1.1 messages: by length, by chunks, to the end of the connection.
 *
 * Chunks are read by RFC 9112 §7.1 to the letter: hex digits, then CRLF or ';' – no sign, blank,
 * prefix or bare LF, because whatever one side reads another way hides a request (C064, C065). This
 * is why llhttp, which tolerates some of them, reads heads only. */
#include "base/assert.h"
#include "http/h1_internal.h"

/* Extensions carry nothing for us; more than this in one message is an attack on our time. */
#define EXT_BYTES_MAX 16384u

enum state {
    SIZE = 0, /* hex digits of the chunk's size */
    EXT,      /* behind ';', to the CR */
    SIZE_LF,  /* CR seen */
    DATA,     /* left bytes of the chunk */
    DATA_CR,  /* the CRLF behind the chunk */
    DATA_LF,
    TRAILERS, /* behind the last chunk: nothing or fields, then the empty line */
    DONE,
};

void prazo_h1_body_init(struct prazo_h1_body *body, enum prazo_body_kind kind, int64_t length,
                        size_t head_bytes_max)
{
    *body = (struct prazo_h1_body){
        .kind = kind,
        .left = kind == PRAZO_BODY_LENGTH ? length : 0,
        .head_bytes_max = head_bytes_max,
    };
    if (kind == PRAZO_BODY_NONE || (kind == PRAZO_BODY_LENGTH && length == 0))
        body->state = DONE;
}

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of the size line. False: broken. */
static bool size_byte(struct prazo_h1_body *body, unsigned char c)
{
    int digit = hex_value(c);

    if (digit >= 0) {
        if (body->left > (INT64_MAX >> 8) || ++body->digits > 16)
            return false;
        body->left = body->left * 16 + digit;
        return true;
    }
    if (body->digits == 0)
        return false;
    if (c == ';')
        body->state = EXT;
    else if (c == '\r')
        body->state = SIZE_LF;
    else
        return false;
    return true;
}

static bool ext_byte(struct prazo_h1_body *body, unsigned char c)
{
    if (c == '\r') {
        body->state = SIZE_LF;
        return true;
    }
    return (c >= 0x20 || c == '\t') && c != 0x7f && ++body->ext_bytes <= EXT_BYTES_MAX;
}

/* One byte of the framing between data. False: broken. */
static bool frame_byte(struct prazo_h1_body *body, unsigned char c)
{
    switch ((enum state)body->state) {
    case SIZE:
        return size_byte(body, c);
    case EXT:
        return ext_byte(body, c);
    case SIZE_LF:
        if (c != '\n')
            return false;
        body->state = body->left > 0 ? DATA : TRAILERS;
        body->digits = 0;
        return true;
    case DATA_CR:
        body->state = DATA_LF;
        return c == '\r';
    case DATA_LF:
        body->state = SIZE;
        return c == '\n';
    case DATA:
    case TRAILERS:
    case DONE:
        break;
    }
    PRAZO_UNREACHABLE();
}

static enum prazo_h1_event take_data(struct prazo_h1_body *body, char *data, size_t len,
                                     struct prazo_h1_piece *ret)
{
    size_t n = len;

    if (body->kind != PRAZO_BODY_TO_EOF) {
        if ((int64_t)n > body->left)
            n = (size_t)body->left;
        body->left -= (int64_t)n;
        if (body->left == 0)
            body->state = body->kind == PRAZO_BODY_CHUNKED ? DATA_CR : DONE;
    }
    ret->data = prazo_str_n(data, n);
    ret->consumed += n;
    return n > 0 ? PRAZO_H1_DATA : PRAZO_H1_MORE;
}

/* The trailer section is taken only as a whole, so its fields lie in one piece. */
static enum prazo_h1_event take_trailers(struct prazo_h1_body *body, char *data, size_t len,
                                         struct prazo_header *headers, struct prazo_h1_piece *ret)
{
    size_t section;

    if (len >= 2 && data[0] == '\r' && data[1] == '\n') {
        section = 2;
    } else {
        if (len == 1 && data[0] == '\r')
            return PRAZO_H1_MORE;
        if (len >= 1 && data[0] == '\n') /* no end would be found for it */
            return PRAZO_H1_BAD;
        section = prazo_h1_head_end(data, len, &body->scan);
        if (section > body->head_bytes_max || (section == 0 && len > body->head_bytes_max))
            return PRAZO_H1_BAD;
        if (section == 0)
            return PRAZO_H1_MORE;
        if (prazo__h1_parse_fields(data, section, headers, &ret->trailer_count) != 0)
            return PRAZO_H1_BAD;
        ret->trailers = headers;
    }
    ret->consumed += section;
    body->state = DONE;
    return PRAZO_H1_END;
}

enum prazo_h1_event prazo_h1_body_next(struct prazo_h1_body *body, char *data, size_t len,
                                       struct prazo_header *headers, struct prazo_h1_piece *ret)
{
    size_t at = 0;

    *ret = (struct prazo_h1_piece){ 0 };
    if (body->state == DONE)
        return PRAZO_H1_END;
    if (body->kind != PRAZO_BODY_CHUNKED)
        return take_data(body, data, len, ret);
    while (body->state != DATA && body->state != TRAILERS) {
        if (at == len) {
            ret->consumed = at;
            return PRAZO_H1_MORE;
        }
        if (!frame_byte(body, (unsigned char)data[at++]))
            return PRAZO_H1_BAD;
    }
    ret->consumed = at;
    if (body->state == DATA)
        return take_data(body, data + at, len - at, ret);
    return take_trailers(body, data + at, len - at, headers, ret);
}

bool prazo_h1_body_eof(const struct prazo_h1_body *body)
{
    return body->state == DONE || body->kind == PRAZO_BODY_TO_EOF;
}
