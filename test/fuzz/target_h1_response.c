/* SPDX-License-Identifier: MIT */
/* Heads of answers: what is accepted has clean lines and one framing, and an answer to HEAD never
 * has a body. The first byte says whether it answers HEAD. */
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "http/h1.h"

#define BYTES_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct prazo_header headers[PRAZO_HEADERS_MAX];

static void check_lines(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        PRAZO_ASSERT(data[i] != '\0');
        PRAZO_ASSERT(data[i] != '\r' || (i + 1 < len && data[i + 1] == '\n'));
        PRAZO_ASSERT(data[i] != '\n' || (i > 0 && data[i - 1] == '\r'));
    }
}

static void check_head(const struct prazo_head *head, bool is_head)
{
    size_t lengths = 0, codings = 0;
    for (size_t i = 0; i < head->header_count; i++) {
        lengths += head->headers[i].token == PRAZO_HDR_CONTENT_LENGTH;
        codings += head->headers[i].token == PRAZO_HDR_TRANSFER_ENCODING;
        PRAZO_ASSERT(prazo_h1_is_token(head->headers[i].name));
    }
    PRAZO_ASSERT(lengths == 0 || codings == 0);
    PRAZO_ASSERT(codings <= 1 && (codings == 0 || head->minor == 1));
    PRAZO_ASSERT((lengths > 0) == (head->content_length >= 0));
    PRAZO_ASSERT(head->status >= 100 && head->status <= 999);
    if (is_head || head->status < 200 || head->status == 204 || head->status == 304)
        PRAZO_ASSERT(head->body == PRAZO_BODY_NONE);
    else if (codings == 1)
        PRAZO_ASSERT(head->body == PRAZO_BODY_CHUNKED);
    else if (lengths > 0)
        PRAZO_ASSERT(head->body == PRAZO_BODY_LENGTH);
    else
        PRAZO_ASSERT(head->body == PRAZO_BODY_TO_EOF && !head->is_keep_alive);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > BYTES_MAX)
        return 0;
    bool is_head = data[0] & 1;
    const char *bytes = (const char *)data + 1;
    size_t scan = 0, end = prazo_h1_head_end(bytes, size - 1, &scan);
    if (end == 0)
        return 0;
    char *copy = malloc(end); /* exactly the head: reading beyond it is seen */
    PRAZO_ASSERT(copy != NULL);
    memcpy(copy, bytes, end);
    struct prazo_head head;
    if (prazo_h1_parse_response(copy, end, is_head, headers, &head) == PRAZO_OK) {
        check_lines(bytes, end);
        check_head(&head, is_head);
    }
    free(copy);
    return 0;
}
