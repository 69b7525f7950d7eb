/* SPDX-License-Identifier: MIT */
/* A message head as everything above http/ sees it: method, target, status, headers. Slices point
 * into the bytes that were read (header names are lower-cased there) and are valid until the
 * callback returns; who needs them longer copies them. */
#ifndef PRAZO_HTTP_MSG_H
#define PRAZO_HTTP_MSG_H

#include "base/str.h"

#define PRAZO_HEADERS_MAX 1024 /* lines of one head; more is "too large" */

/* X(TOKEN, "name", flags): headers that somebody here treats specially. */
#define PRAZO_HDR_MAP(X)                                                                           \
    X(CONNECTION, "connection", PRAZO_HDRF_HOP)                                                    \
    X(KEEP_ALIVE, "keep-alive", PRAZO_HDRF_HOP)                                                    \
    X(PROXY_CONNECTION, "proxy-connection", PRAZO_HDRF_HOP)                                        \
    X(TE, "te", PRAZO_HDRF_HOP)                                                                    \
    X(TRAILER, "trailer", PRAZO_HDRF_FRAMING)                                                      \
    X(TRANSFER_ENCODING, "transfer-encoding", PRAZO_HDRF_HOP | PRAZO_HDRF_FRAMING)                 \
    X(UPGRADE, "upgrade", PRAZO_HDRF_HOP)                                                          \
    X(HTTP2_SETTINGS, "http2-settings", PRAZO_HDRF_HOP)                                            \
    X(PROXY_AUTHENTICATE, "proxy-authenticate", 0)                                                 \
    X(PROXY_AUTHORIZATION, "proxy-authorization", 0)                                               \
    X(CONTENT_LENGTH, "content-length", PRAZO_HDRF_FRAMING)                                        \
    X(HOST, "host", PRAZO_HDRF_FRAMING)                                                            \
    X(EXPECT, "expect", 0)                                                                         \
    X(DATE, "date", 0)                                                                             \
    X(CONTENT_TYPE, "content-type", 0)                                                             \
    X(VIA, "via", 0)                                                                               \
    X(X_REQUEST_ID, "x-request-id", PRAZO_HDRF_OWN)                                                \
    X(X_DEADLINE_MS, "x-deadline-ms", PRAZO_HDRF_OWN)                                              \
    X(X_DEADLINE_SENT_MS, "x-deadline-sent-ms", PRAZO_HDRF_OWN)                                    \
    X(X_TIMEOUT_MS, "x-timeout-ms", PRAZO_HDRF_OWN)                                                \
    X(X_RETRY_BUDGET, "x-retry-budget", PRAZO_HDRF_OWN)                                            \
    X(X_ATTEMPT, "x-attempt", PRAZO_HDRF_OWN)                                                      \
    X(GRPC_TIMEOUT, "grpc-timeout", PRAZO_HDRF_OWN)                                                \
    X(X_ENVOY_TIMEOUT, "x-envoy-expected-rq-timeout-ms", PRAZO_HDRF_OWN)                           \
    X(FORWARDED, "forwarded", PRAZO_HDRF_FORWARDED)                                                \
    X(X_FORWARDED_FOR, "x-forwarded-for", PRAZO_HDRF_FORWARDED)                                    \
    X(X_FORWARDED_PROTO, "x-forwarded-proto", PRAZO_HDRF_FORWARDED)                                \
    X(X_FORWARDED_HOST, "x-forwarded-host", PRAZO_HDRF_FORWARDED)                                  \
    X(PRAZO_RESULT, "prazo-result", PRAZO_HDRF_OWN)                                                \
    X(PRAZO_EFFECT, "prazo-effect", PRAZO_HDRF_OWN)

enum prazo_hdr {
    PRAZO_HDR_OTHER = 0,
#define X(TOKEN, name, flags) PRAZO_HDR_##TOKEN,
    PRAZO_HDR_MAP(X)
#undef X
    /* must stay last */
    PRAZO_HDR_COUNT
};

enum prazo_hdr_flag {
    PRAZO_HDRF_HOP = 1,       /* never crosses, whatever Connection says (RFC 9110 §7.6.1) */
    PRAZO_HDRF_FRAMING = 2,   /* made anew by http/ on what is sent */
    PRAZO_HDRF_OWN = 4,       /* prazo writes it; a peer's copy is never passed on as it is */
    PRAZO_HDRF_FORWARDED = 8, /* forwarded, x-forwarded-*: by trust */
    PRAZO_HDRF_NAMED = 16,    /* named by this message's Connection: removed */
};

struct prazo_header {
    struct prazo_str name;  /* lower case */
    struct prazo_str value; /* without blanks at its ends */
    uint8_t token;          /* enum prazo_hdr */
    uint8_t flags;          /* enum prazo_hdr_flag */
};

enum prazo_body_kind {
    PRAZO_BODY_NONE = 0,
    PRAZO_BODY_LENGTH, /* content_length bytes follow (0 included: it was said) */
    PRAZO_BODY_CHUNKED,
    PRAZO_BODY_TO_EOF, /* answers only: until the connection ends */
};

enum prazo_method {
    PRAZO_METHOD_OTHER = 0,
    PRAZO_METHOD_GET,
    PRAZO_METHOD_HEAD,
    PRAZO_METHOD_POST,
    PRAZO_METHOD_PUT,
    PRAZO_METHOD_DELETE,
    PRAZO_METHOD_OPTIONS,
    PRAZO_METHOD_PATCH,
    PRAZO_METHOD_CONNECT,
    PRAZO_METHOD_TRACE,
};

struct prazo_head {
    /* requests */
    struct prazo_str method;
    enum prazo_method method_id;
    struct prazo_str target;    /* origin-form, or "*"; absolute-form is taken apart */
    struct prazo_str path;      /* of the target, without the query */
    struct prazo_str query;     /* behind '?'; base NULL: none */
    struct prazo_str authority; /* of the absolute-form, else Host; base NULL in HTTP/1.0 */
    bool expects_continue;
    bool has_other_expect;
    bool wants_trailers; /* TE: trailers */
    /* answers */
    int status;
    struct prazo_str reason;
    /* both */
    const char *fault; /* of a head that was refused: the rule it breaks, a sentence for people */
    uint8_t minor;     /* HTTP/1.minor: 0 or 1 */
    enum prazo_body_kind body;
    int64_t content_length;   /* of PRAZO_BODY_LENGTH; for answers without body what they announce,
                                 -1: nothing */
    bool is_keep_alive;       /* the peer would use the connection again */
    bool has_upgrade;         /* Connection: upgrade and an Upgrade line */
    struct prazo_str upgrade; /* that line's value */
    struct prazo_header *headers;
    size_t header_count;
};

/* PRAZO_HDR_OTHER if it is none of the table. name in lower case. */
enum prazo_hdr prazo_hdr_find(struct prazo_str name);
unsigned prazo_hdr_flags(enum prazo_hdr token);
struct prazo_str prazo_hdr_name(enum prazo_hdr token);
/* The first line of that token, or NULL. */
const struct prazo_header *prazo_head_get(const struct prazo_head *head, enum prazo_hdr token);

#endif
