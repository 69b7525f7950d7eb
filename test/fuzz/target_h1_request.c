/* SPDX-License-Identifier: MIT */
/* Heads of requests: the end is found at the same byte however they arrive, and what is accepted
 * has clean lines, one framing and at most one host, by a second reading that knows nothing of the
 * first. */
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "http/h1.h"

#define BYTES_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct prazo_header headers[PRAZO_HEADERS_MAX];

/* Whole, in two parts at every cut of the first bytes, and byte by byte. */
static size_t find_end(const char *data, size_t size)
{
    size_t scan = 0, end = prazo_h1_head_end(data, size, &scan);
    size_t cuts = size < 256 ? size : 256;
    for (size_t cut = 0; cut < cuts; cut++) {
        size_t again = 0;
        size_t first = prazo_h1_head_end(data, cut, &again);
        PRAZO_ASSERT(first == 0 || first == end);
        if (first == 0)
            PRAZO_ASSERT(prazo_h1_head_end(data, size, &again) == end);
    }
    size_t bytewise = 0, found = 0;
    for (size_t seen = 1; seen <= size && found == 0; seen++)
        found = prazo_h1_head_end(data, seen, &bytewise);
    PRAZO_ASSERT(found == end);
    return end;
}

/* CR and LF only as CRLF, no NUL. */
static void check_lines(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        PRAZO_ASSERT(data[i] != '\0');
        PRAZO_ASSERT(data[i] != '\r' || (i + 1 < len && data[i + 1] == '\n'));
        PRAZO_ASSERT(data[i] != '\n' || (i > 0 && data[i - 1] == '\r'));
    }
}

static size_t count_of(const struct prazo_head *head, enum prazo_hdr token)
{
    size_t count = 0;
    for (size_t i = 0; i < head->header_count; i++)
        count += head->headers[i].token == token;
    return count;
}

static void check_head(const struct prazo_head *head)
{
    size_t lengths = count_of(head, PRAZO_HDR_CONTENT_LENGTH);
    size_t codings = count_of(head, PRAZO_HDR_TRANSFER_ENCODING);
    PRAZO_ASSERT(lengths == 0 || codings == 0);
    PRAZO_ASSERT(codings <= 1 && (codings == 0 || head->minor == 1));
    PRAZO_ASSERT((codings == 1) == (head->body == PRAZO_BODY_CHUNKED));
    PRAZO_ASSERT((lengths > 0) == (head->body == PRAZO_BODY_LENGTH));
    PRAZO_ASSERT((lengths > 0) == (head->content_length >= 0));
    size_t hosts = count_of(head, PRAZO_HDR_HOST);
    PRAZO_ASSERT(hosts == 1 || (hosts == 0 && head->minor == 0));
    PRAZO_ASSERT(head->minor <= 1);
    PRAZO_ASSERT(prazo_h1_is_token(head->method));
    PRAZO_ASSERT(head->target.len > 0 && head->path.len <= head->target.len);
    for (size_t i = 0; i < head->target.len; i++)
        PRAZO_ASSERT(head->target.base[i] > ' ' && head->target.base[i] < 0x7f);
    for (size_t i = 0; i < head->header_count; i++) {
        PRAZO_ASSERT(prazo_h1_is_token(head->headers[i].name));
        PRAZO_ASSERT(prazo_hdr_find(head->headers[i].name) ==
                     (enum prazo_hdr)head->headers[i].token);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > BYTES_MAX)
        return 0;
    size_t end = find_end((const char *)data, size);
    if (end == 0)
        return 0;
    char *copy = malloc(end); /* exactly the head: reading beyond it is seen */
    PRAZO_ASSERT(copy != NULL);
    memcpy(copy, data, end);
    struct prazo_head head;
    enum prazo_problem problem = prazo_h1_parse_request(copy, end, headers, &head);
    PRAZO_ASSERT(problem < PRAZO_PROBLEM_COUNT);
    if (problem == PRAZO_PROBLEM_NONE) {
        check_lines((const char *)data, end);
        check_head(&head);
    }
    free(copy);
    return 0;
}
