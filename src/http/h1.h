/* SPDX-License-Identifier: MIT */
/* HTTP/1.1 bytes to values and back, without sockets (RFC 9112; contract 13). Private to http/.
 * Not thread-safe; the header array of a parse belongs to the caller. */
#ifndef PRAZO_HTTP_H1_H
#define PRAZO_HTTP_H1_H

#include "core/problem.h"
#include "http/msg.h"
#include "prazo/err.h"

/* Length of the head in data, its empty line included, or 0 while that has not arrived. *scan is
 * where to go on looking when more bytes have come; start with 0. */
size_t prazo_h1_head_end(const char *data, size_t len, size_t *scan);

/* A whole head of len bytes; names are lower-cased in place. headers has room for
 * PRAZO_HEADERS_MAX. PRAZO_PROBLEM_NONE, or what is wrong with it; then *ret_head holds only what
 * was found out about method and version so far. */
enum prazo_problem prazo_h1_parse_request(char *data, size_t len, struct prazo_header *headers,
                                          struct prazo_head *ret_head);

/* An answer's head; is_head: it answers a HEAD. PRAZO_E_INVALID for anything malformed. */
int prazo_h1_parse_response(char *data, size_t len, bool is_head, struct prazo_header *headers,
                            struct prazo_head *ret_head);

/* Is the value of a Connection, TE or Upgrade line's list this token? */
bool prazo_h1_list_has(struct prazo_str list, struct prazo_str token);
/* Visible characters that RFC 9110 allows in a token; at least one. */
bool prazo_h1_is_token(struct prazo_str s);

/* ---- bodies ---- */

enum prazo_h1_event {
    PRAZO_H1_MORE = 0, /* all that can be used is used: call again with more bytes */
    PRAZO_H1_DATA,     /* a piece of the body */
    PRAZO_H1_END,      /* the message is complete; trailers are set */
    PRAZO_H1_BAD,      /* framing broken: the connection cannot be used any more */
};

struct prazo_h1_body {
    enum prazo_body_kind kind;
    uint8_t state;
    int64_t left;       /* of the length or of the chunk */
    uint32_t ext_bytes; /* chunk extensions so far: bounded, they carry nothing */
    uint32_t digits;
    size_t scan;           /* trailer section */
    size_t head_bytes_max; /* bound of the trailer section */
};

void prazo_h1_body_init(struct prazo_h1_body *body, enum prazo_body_kind kind, int64_t length,
                        size_t head_bytes_max);
struct prazo_h1_piece {
    size_t consumed; /* bytes of the input that are done with */
    struct prazo_str data;
    const struct prazo_header *trailers; /* in the caller's header array */
    size_t trailer_count;
};
/* One step over data. */
enum prazo_h1_event prazo_h1_body_next(struct prazo_h1_body *body, char *data, size_t len,
                                       struct prazo_header *headers, struct prazo_h1_piece *ret);
/* The connection ended. True if that is a proper end of this body. */
bool prazo_h1_body_eof(const struct prazo_h1_body *body);

#endif
