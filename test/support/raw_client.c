/* SPDX-License-Identifier: MIT */
/* Own memory comes from malloc, which an out-of-memory walk does not reach; the stream comes from
 * the loop and may fail to open. */
#include "support/raw_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "http/h1.h"

#define HEAD_BYTES_MAX 65536u

uint64_t raw_hash(uint64_t hash, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)data[i]) * 1099511628211u; /* FNV-1a */
    return hash;
}

static void make_room(struct raw_client *client)
{
    if (client->cap - client->len >= PRAZO_READ_BUFFER_BYTES)
        return;
    client->cap = 2 * client->cap + PRAZO_READ_BUFFER_BYTES;
    client->in = realloc(client->in, client->cap);
    assert_non_null(client->in);
}

static void on_event(void *arg, unsigned events)
{
    struct raw_client *client = arg;

    (void)events;
    make_room(client);
    ssize_t n =
        prazo_stream_read(client->stream, client->in + client->len, client->cap - client->len);
    if (n == PRAZO_E_AGAIN)
        return;
    if (n > 0) {
        client->len += (size_t)n;
    } else {
        client->has_ended = true;
        prazo_stream_watch(client->stream, 0);
    }
    client->on_news(client->arg);
}

int raw_client_open(struct raw_client *client, struct prazo_loop *loop, const char *address,
                    struct prazo_str bytes, bool may_read, void (*on_news)(void *arg), void *arg)
{
    struct prazo_addr addr;

    *client = (struct raw_client){ .loop = loop, .on_news = on_news, .arg = arg };
    assert_int_equal(prazo_addr_parse(prazo_str_z(address), &addr, NULL, NULL), PRAZO_OK);
    int err = prazo_stream_connect(loop, &addr, on_event, client, &client->stream);
    if (err != PRAZO_OK)
        return err;
    prazo_stream_watch(client->stream, PRAZO_STREAM_HANGUP);
    raw_client_send(client, bytes);
    if (may_read)
        raw_client_read(client);
    return PRAZO_OK;
}

/* A peer that has gone takes nothing; the end comes as an event. */
void raw_client_send(struct raw_client *client, struct prazo_str bytes)
{
    struct iovec iov = { (void *)(uintptr_t)bytes.base, bytes.len };
    ssize_t n = prazo_stream_writev(client->stream, &iov, 1);

    assert_true(n == (ssize_t)bytes.len || n == PRAZO_E_RESET);
}

void raw_client_read(struct raw_client *client)
{
    prazo_stream_watch(client->stream, PRAZO_STREAM_READABLE | PRAZO_STREAM_HANGUP);
}

void raw_client_close(struct raw_client *client)
{
    prazo_stream_close(client->stream, false);
    free(client->in);
    *client = (struct raw_client){ 0 };
}

static void take_tunnel(struct raw_client *client, size_t *at, struct raw_answer *answer)
{
    answer->body_bytes = (int64_t)(client->len - *at);
    answer->body_hash = raw_hash(RAW_HASH_START, client->in + *at, client->len - *at);
    answer->is_complete = client->has_ended;
    *at = client->len;
}

bool raw_client_next(struct raw_client *client, size_t *at, struct raw_answer *ret_answer)
{
    static struct prazo_header headers[PRAZO_HEADERS_MAX];
    struct raw_answer answer = { .body_hash = RAW_HASH_START };
    struct prazo_h1_body body;
    struct prazo_h1_piece piece;
    struct prazo_head head;
    enum prazo_h1_event event;
    size_t scan = 0;
    size_t end =
        client->len > *at ? prazo_h1_head_end(client->in + *at, client->len - *at, &scan) : 0;

    if (end == 0)
        return false;
    /* names are lower-cased in place: taking it apart again finds the same */
    assert_int_equal(prazo_h1_parse_response(client->in + *at, end, false, headers, &head), 0);
    *at += end;
    answer.status = head.status;
    if (head.status == 101) {
        take_tunnel(client, at, &answer);
        *ret_answer = answer;
        return true;
    }
    prazo_h1_body_init(&body, head.body, head.content_length, HEAD_BYTES_MAX);
    do {
        event = prazo_h1_body_next(&body, client->in + *at, client->len - *at, headers, &piece);
        assert_int_not_equal(event, PRAZO_H1_BAD);
        *at += piece.consumed;
        if (event == PRAZO_H1_DATA) {
            answer.body_bytes += (int64_t)piece.data.len;
            answer.body_hash = raw_hash(answer.body_hash, piece.data.base, piece.data.len);
        }
    } while (event == PRAZO_H1_DATA);
    answer.is_complete = event == PRAZO_H1_END;
    *ret_answer = answer;
    return true;
}
