/* SPDX-License-Identifier: MIT */
/* Bodies: the same bytes in any split give the same data, the same trailers and the same end. The
 * first byte chooses the framing, the second the split. */
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "http/h1.h"

#define BYTES_MAX 8192u
#define TRAILER_BYTES_MAX 512u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct prazo_header headers[PRAZO_HEADERS_MAX];

struct result {
    enum prazo_h1_event last;
    size_t used, data_len, trailer_count;
    char data[BYTES_MAX];
};

static void step(struct prazo_h1_body *body, char *bytes, size_t len, struct result *r)
{
    struct prazo_h1_piece piece;
    r->last = prazo_h1_body_next(body, bytes + r->used, len - r->used, headers, &piece);
    PRAZO_ASSERT(piece.consumed <= len - r->used);
    r->used += piece.consumed;
    if (r->last == PRAZO_H1_DATA) {
        PRAZO_ASSERT(piece.data.len > 0 && piece.data.len <= piece.consumed);
        PRAZO_ASSERT(r->data_len + piece.data.len <= sizeof(r->data));
        memcpy(r->data + r->data_len, piece.data.base, piece.data.len);
        r->data_len += piece.data.len;
    }
    if (r->last == PRAZO_H1_END)
        r->trailer_count = piece.trailer_count;
}

/* part: bytes that come at once; 0: all. */
static void run(const uint8_t *data, size_t size, enum prazo_body_kind kind, int64_t length,
                size_t part, struct result *r)
{
    char *bytes = malloc(size ? size : 1);
    struct prazo_h1_body body;
    PRAZO_ASSERT(bytes != NULL);
    memcpy(bytes, data, size);
    r->last = PRAZO_H1_MORE;
    r->used = r->data_len = r->trailer_count = 0;
    prazo_h1_body_init(&body, kind, length, TRAILER_BYTES_MAX);
    size_t seen = part == 0 || part > size ? size : part;
    for (;;) {
        do
            step(&body, bytes, seen, r);
        while (r->last == PRAZO_H1_DATA);
        if (r->last != PRAZO_H1_MORE || seen == size)
            break;
        seen = seen + part > size ? size : seen + part;
    }
    PRAZO_ASSERT(prazo_h1_body_eof(&body) ==
                 (r->last == PRAZO_H1_END || kind == PRAZO_BODY_TO_EOF));
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct result whole, split;
    if (size < 2 || size > BYTES_MAX)
        return 0;
    static const enum prazo_body_kind kinds[] = { PRAZO_BODY_CHUNKED, PRAZO_BODY_LENGTH,
                                                  PRAZO_BODY_TO_EOF, PRAZO_BODY_NONE };
    enum prazo_body_kind kind = kinds[data[0] & 3];
    int64_t length = kind == PRAZO_BODY_LENGTH ? data[0] >> 2 : -1;
    run(data + 2, size - 2, kind, length, 0, &whole);
    const size_t parts[] = { 1, 1 + (size_t)data[1] };
    for (size_t i = 0; i < 2; i++) {
        run(data + 2, size - 2, kind, length, parts[i], &split);
        PRAZO_ASSERT(split.last == whole.last);
        PRAZO_ASSERT(split.data_len == whole.data_len);
        PRAZO_ASSERT(memcmp(split.data, whole.data, whole.data_len) == 0);
        PRAZO_ASSERT(split.trailer_count == whole.trailer_count);
        PRAZO_ASSERT(whole.last == PRAZO_H1_BAD || split.used == whole.used);
    }
    return 0;
}
