/* SPDX-License-Identifier: MIT */
/* The table of headers that somebody here treats specially, found by length and name. */
#include "http/msg.h"

static const struct {
    struct prazo_str name;
    unsigned flags;
} table[PRAZO_HDR_COUNT] = {
#define X(TOKEN, literal, f) [PRAZO_HDR_##TOKEN] = { PRAZO_STR_INIT(literal), (f) },
    PRAZO_HDR_MAP(X)
#undef X
};

static enum prazo_hdr is(struct prazo_str name, enum prazo_hdr token)
{
    return memcmp(name.base, table[token].name.base, name.len) == 0 ? token : PRAZO_HDR_OTHER;
}

static enum prazo_hdr either(struct prazo_str name, enum prazo_hdr a, enum prazo_hdr b)
{
    return is(name, a) ? a : is(name, b);
}

static enum prazo_hdr find_long(struct prazo_str name)
{
    switch (name.len) {
    case 16:
        if (name.base[0] == 'p')
            return is(name, PRAZO_HDR_PROXY_CONNECTION);
        return is(name, PRAZO_HDR_X_FORWARDED_HOST);
    case 17:
        return either(name, PRAZO_HDR_TRANSFER_ENCODING, PRAZO_HDR_X_FORWARDED_PROTO);
    case 18:
        return either(name, PRAZO_HDR_X_DEADLINE_SENT_MS, PRAZO_HDR_PROXY_AUTHENTICATE);
    case 19:
        return is(name, PRAZO_HDR_PROXY_AUTHORIZATION);
    case 30:
        return is(name, PRAZO_HDR_X_ENVOY_TIMEOUT);
    default:
        return PRAZO_HDR_OTHER;
    }
}

enum prazo_hdr prazo_hdr_find(struct prazo_str name)
{
    switch (name.len) {
    case 2:
        return is(name, PRAZO_HDR_TE);
    case 3:
        return is(name, PRAZO_HDR_VIA);
    case 4:
        return either(name, PRAZO_HDR_HOST, PRAZO_HDR_DATE);
    case 6:
        return is(name, PRAZO_HDR_EXPECT);
    case 7:
        return either(name, PRAZO_HDR_UPGRADE, PRAZO_HDR_TRAILER);
    case 9:
        return either(name, PRAZO_HDR_X_ATTEMPT, PRAZO_HDR_FORWARDED);
    case 10:
        return either(name, PRAZO_HDR_CONNECTION, PRAZO_HDR_KEEP_ALIVE);
    case 12:
        if (name.base[0] == 'x')
            return either(name, PRAZO_HDR_X_REQUEST_ID, PRAZO_HDR_X_TIMEOUT_MS);
        if (name.base[0] == 'c')
            return is(name, PRAZO_HDR_CONTENT_TYPE);
        return name.base[0] == 'g' ? is(name, PRAZO_HDR_GRPC_TIMEOUT)
                                   : either(name, PRAZO_HDR_PRAZO_RESULT, PRAZO_HDR_PRAZO_EFFECT);
    case 13:
        return is(name, PRAZO_HDR_X_DEADLINE_MS);
    case 14:
        if (name.base[0] == 'c')
            return is(name, PRAZO_HDR_CONTENT_LENGTH);
        return either(name, PRAZO_HDR_X_RETRY_BUDGET, PRAZO_HDR_HTTP2_SETTINGS);
    case 15:
        return is(name, PRAZO_HDR_X_FORWARDED_FOR);
    default:
        return find_long(name);
    }
}

unsigned prazo_hdr_flags(enum prazo_hdr token)
{
    return table[token].flags;
}

struct prazo_str prazo_hdr_name(enum prazo_hdr token)
{
    return table[token].name;
}

const struct prazo_header *prazo_head_get(const struct prazo_head *head, enum prazo_hdr token)
{
    for (size_t i = 0; i < head->header_count; i++) {
        if (head->headers[i].token == token)
            return &head->headers[i];
    }
    return NULL;
}
