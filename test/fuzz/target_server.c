/* SPDX-License-Identifier: MIT */
/* A real server on a real loop, fed through a socket. The first byte chooses what the owner of its
 * exchanges does (enum habit), the second the size of the pieces in which the rest is written; 0:
 * all at once. At its end the client half-closes and reads on.
 *
 * Invariants: every exchange ends once; what comes back parses, and holds at most one final answer
 * for each head that was accepted or refused; nothing follows an answer that says close. Where the
 * owner answers at once, the same bytes in any pieces are the same requests. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "base/assert.h"
#include "base/list.h"
#include "http/exchange.h"
#include "http/h1.h"

#define BYTES_MAX 16384u
#define OUT_BYTES_MAX (8u << 20)
#define REQUESTS_MAX (BYTES_MAX / 8)
#define BIG_BYTES 300000u /* more than the socket takes */
#define GUARD_US 10000000

enum habit {
    EARLY = 1,    /* answers at the head, whatever body follows */
    CHUNKED = 2,  /* in chunks, with a trailer */
    WAITS = 4,    /* half_close: wait */
    PAUSES = 8,   /* stops reading at each piece of a body, until the next turn */
    BIG = 16,     /* answers that the client has to take in pieces */
    LATE = 32,    /* answers in the next turn */
    UPGRADES = 64 /* switches whenever it is asked to, and echoes */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct exchange {
    struct prazo_list node;
    struct prazo_arena arena;
    struct prazo_sx *sx; /* NULL: ended, kept for a post that is on its way */
    struct prazo_post post;
    uint64_t hash; /* of its body; how much of one that is refused is heard is not defined */
    bool is_posted, is_complete, is_tunnel;
};

/* What became of one input. */
struct outcome {
    size_t requests, refusals, ended;
    uint64_t hash; /* of what the requests were */
    uint8_t is_head[REQUESTS_MAX];
};

static struct {
    struct prazo_loop *loop;
    struct prazo_server *server;
    struct prazo_listener *listener;
    struct prazo_arena_pool blocks;
    struct sockaddr_un addr;
    struct prazo_list exchanges;
    struct outcome *outcome;
    unsigned habit;
} house;

static char filler[BIG_BYTES];

/* ---- the owner ---- */

static void note(uint64_t *hash, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        *hash = (*hash ^ (unsigned char)data[i]) * 1099511628211u;
}

static void free_exchange(struct exchange *x)
{
    prazo_arena_reset(&x->arena);
    prazo_list_del(&x->node);
    free(x);
}

/* The one end of an exchange on this side. */
static struct prazo_sx *end(struct exchange *x)
{
    struct prazo_sx *sx = x->sx;

    PRAZO_ASSERT(sx != NULL);
    x->sx = NULL;
    house.outcome->ended++;
    return sx;
}

static void answer(struct exchange *x, int status)
{
    struct prazo_sx *sx = end(x);
    size_t len = house.habit & BIG ? BIG_BYTES : 5;
    struct prazo_head_out out;

    prazo_head_out_init(&out, &x->arena, 100);
    if (x->is_tunnel) {
        prazo_sx_send_end(sx, NULL, 0);
        prazo_sx_finish(sx);
    } else if (!(house.habit & CHUNKED)) {
        prazo_sx_answer(sx, status, "text/plain", &out, prazo_str_n(filler, len));
    } else if (prazo_sx_send_head(sx, status, (struct prazo_str){ NULL, 0 }, &out, -1, true) == 0) {
        struct prazo_header trailer = { .name = PRAZO_STR("x-sum"), .value = PRAZO_STR("1") };
        prazo_sx_send_body(sx, filler, len / 2);
        prazo_sx_send_body(sx, filler + len / 2, len - len / 2);
        prazo_sx_send_end(sx, &trailer, 1);
        prazo_sx_finish(sx);
    } else {
        prazo_sx_abort(sx);
    }
    if (!x->is_posted)
        free_exchange(x);
}

static void on_turn(void *arg)
{
    struct exchange *x = arg;

    x->is_posted = false;
    if (x->sx == NULL)
        free_exchange(x);
    else if (x->is_complete || (house.habit & EARLY && !x->is_tunnel))
        answer(x, 200);
    else
        prazo_sx_resume(x->sx);
}

static void go_on_later(struct exchange *x)
{
    if (!x->is_posted)
        prazo_loop_post_in(house.loop, &x->post, on_turn, x);
    x->is_posted = true;
}

static void *on_request(void *arg, struct prazo_sx *sx, const struct prazo_head *head)
{
    struct exchange *x = calloc(1, sizeof *x);
    struct prazo_head_out out;

    (void)arg;
    PRAZO_ASSERT(x != NULL && house.outcome->requests < REQUESTS_MAX);
    house.outcome->is_head[house.outcome->requests++] = head->method_id == PRAZO_METHOD_HEAD;
    note(&house.outcome->hash, head->method.base, head->method.len);
    note(&house.outcome->hash, head->target.base, head->target.len);
    x->sx = sx;
    prazo_arena_init(&x->arena, &house.blocks, 65536);
    prazo_list_push_back(&house.exchanges, &x->node);
    if (house.habit & UPGRADES && head->has_upgrade && head->minor == 1) {
        prazo_head_out_init(&out, &x->arena, 100);
        prazo_head_out_add(&out, PRAZO_STR("upgrade"), head->upgrade);
        PRAZO_ASSERT(prazo_sx_send_informational(sx, 101, &out) == PRAZO_OK);
        x->is_tunnel = true;
        prazo_sx_switch(sx);
    } else if (house.habit & EARLY) {
        if (!(house.habit & LATE)) {
            answer(x, 200);
            return NULL;
        }
        go_on_later(x);
    }
    return x;
}

static void on_body(void *arg, struct prazo_sx *sx, const char *data, size_t len)
{
    struct exchange *x = arg;

    note(&x->hash, data, len);
    if (x->is_tunnel)
        prazo_sx_send_body(sx, data, len);
    if (house.habit & PAUSES) {
        prazo_sx_pause(sx);
        go_on_later(x);
    }
}

static void on_body_end(void *arg, struct prazo_sx *sx, const struct prazo_header *trailers,
                        size_t count)
{
    struct exchange *x = arg;

    (void)sx;
    for (size_t i = 0; i < count; i++)
        note(&x->hash, trailers[i].name.base, trailers[i].name.len);
    note(&house.outcome->hash, (const char *)&x->hash, sizeof x->hash);
    x->is_complete = true;
    if (house.habit & LATE)
        go_on_later(x);
    else
        answer(x, 200);
}

static void on_gone(void *arg, struct prazo_sx *sx, enum prazo_gone why)
{
    struct exchange *x = arg;

    if (why == PRAZO_GONE_BAD_BODY || why == PRAZO_GONE_BODY_TOO_LARGE) {
        answer(x, 400);
        return;
    }
    PRAZO_ASSERT(end(x) == sx);
    prazo_sx_abort(sx);
    if (!x->is_posted)
        free_exchange(x);
}

static void on_read_done(void *arg, struct prazo_sx *sx)
{
    (void)arg;
    prazo_sx_flush(sx);
}

static void on_drained(void *arg, struct prazo_sx *sx)
{
    (void)arg;
    (void)sx;
}

static void on_bad_request(void *arg, struct prazo_sx *sx, int problem)
{
    (void)arg;
    PRAZO_ASSERT(problem != PRAZO_PROBLEM_NONE);
    house.outcome->refusals++;
    prazo_sx_answer(sx, 400, "text/plain", NULL, PRAZO_STR("no"));
}

static const struct prazo_sx_ops ops = {
    .on_request = on_request,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_gone = on_gone,
    .on_read_done = on_read_done,
    .on_drained = on_drained,
    .on_bad_request = on_bad_request,
};

static void open_house(void)
{
    struct prazo_server_options options = {
        .ops = &ops,
        .limits = { 2048, 256, 6000, 60000000, 60000000 },
        .connections_max = 4,
        .pending_bytes_max = 65536,
    };
    struct prazo_listener_options listener = { 0 };
    int fd;

    if (house.loop != NULL)
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    /* abstract, so that nothing is left behind */
    house.addr.sun_family = AF_UNIX;
    snprintf(house.addr.sun_path + 1, sizeof house.addr.sun_path - 1, "prazo-fuzz-%d", getpid());
    PRAZO_ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&house.addr, sizeof house.addr) == 0);
    PRAZO_ASSERT(listen(fd, 4) == 0);
    listener.fd = fd;
    prazo_list_init(&house.exchanges);
    PRAZO_ASSERT(prazo_loop_new(&house.loop) == PRAZO_OK);
    PRAZO_ASSERT(prazo_server_new(house.loop, &options, &house.server) == PRAZO_OK);
    PRAZO_ASSERT(prazo_server_listen(house.server, &listener, &house.listener) == PRAZO_OK);
    prazo_arena_pool_init(&house.blocks, 16);
    memset(filler, 'x', sizeof filler);
}

/* ---- the client ---- */

struct client {
    struct prazo_post post;
    int fd;
    const uint8_t *data; /* what is left to write */
    size_t left, part;
    char *in;
    size_t len;
    bool has_said_all, has_ended;
    int64_t guard_us;
};

static size_t unread_by_server(const struct client *c)
{
    int bytes = 0;

    return ioctl(c->fd, SIOCOUTQ, &bytes) == 0 ? (size_t)bytes : 0;
}

static void write_some(struct client *c)
{
    size_t len = c->part == 0 || c->part > c->left ? c->left : c->part;
    ssize_t n = len > 0 ? send(c->fd, c->data, len, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

    if (n > 0) {
        c->data += n;
        c->left -= (size_t)n;
    } else if (n < 0 && errno != EAGAIN) {
        c->left = 0;
    }
    if (c->left == 0) {
        c->has_said_all = true;
        (void)shutdown(c->fd, SHUT_WR);
    }
}

static void read_some(struct client *c)
{
    ssize_t n = recv(c->fd, c->in + c->len, OUT_BYTES_MAX - c->len, MSG_DONTWAIT);

    PRAZO_ASSERT(c->len < OUT_BYTES_MAX);
    if (n > 0)
        c->len += (size_t)n;
    else if (n == 0 || errno != EAGAIN)
        c->has_ended = true;
}

/* Once a turn. The next piece goes out when the server has read the one before. */
static void drive(void *arg)
{
    struct client *c = arg;

    PRAZO_ASSERT(prazo_clock_now_us() < c->guard_us);
    if (c->fd >= 0) {
        if (!c->has_said_all && unread_by_server(c) == 0)
            write_some(c);
        read_some(c);
        if (c->has_ended) {
            close(c->fd);
            c->fd = -1;
        }
    } else if (prazo_server_connections(house.server) == 0 &&
               prazo_list_is_empty(&house.exchanges)) {
        prazo_loop_stop(house.loop);
        return;
    }
    prazo_loop_post_in(house.loop, &c->post, drive, c);
}

/* ---- the judgement ---- */

static bool says_close(const struct prazo_head *head)
{
    const struct prazo_header *h = prazo_head_get(head, PRAZO_HDR_CONNECTION);

    return h != NULL && prazo_h1_list_has(h->value, PRAZO_STR("close"));
}

/* Skips a body. False: it is not complete. */
static bool skip_body(const struct prazo_head *head, char *in, size_t len, size_t *at)
{
    static struct prazo_header headers[PRAZO_HEADERS_MAX];
    struct prazo_h1_body body;
    struct prazo_h1_piece piece;
    enum prazo_h1_event event;

    prazo_h1_body_init(&body, head->body, head->content_length, 4096);
    do {
        event = prazo_h1_body_next(&body, in + *at, len - *at, headers, &piece);
        *at += piece.consumed;
        PRAZO_ASSERT(event != PRAZO_H1_BAD);
    } while (event == PRAZO_H1_DATA);
    return event == PRAZO_H1_END;
}

static void judge(char *in, size_t len, const struct outcome *o)
{
    static struct prazo_header headers[PRAZO_HEADERS_MAX];
    struct prazo_head head;
    size_t answers = 0;

    for (size_t at = 0; at < len;) {
        size_t scan = 0, head_len = prazo_h1_head_end(in + at, len - at, &scan);
        bool is_head = answers < o->requests && o->is_head[answers];
        if (head_len == 0)
            return; /* cut: the client closed first, or the answer was aborted */
        PRAZO_ASSERT(prazo_h1_parse_response(in + at, head_len, is_head, headers, &head) == 0);
        at += head_len;
        if (head.status == 101)
            return; /* the rest is an echo */
        PRAZO_ASSERT(head.status == 200 || head.status == 400);
        answers++;
        PRAZO_ASSERT(answers <= o->requests + o->refusals);
        bool is_last = says_close(&head);
        if (!skip_body(&head, in, len, &at))
            return;
        PRAZO_ASSERT(!is_last || at == len);
    }
}

static void run(const uint8_t *data, size_t size, unsigned habit, size_t part,
                struct outcome *ret_outcome)
{
    static char in[OUT_BYTES_MAX];
    struct client c = { .data = data, .left = size, .part = part, .in = in };

    memset(ret_outcome, 0, sizeof *ret_outcome);
    house.outcome = ret_outcome;
    house.habit = habit;
    prazo_listener_update(house.listener, (habit & WAITS) != 0, 100);
    c.fd = socket(AF_UNIX, SOCK_STREAM, 0);
    c.guard_us = prazo_clock_now_us() + GUARD_US;
    PRAZO_ASSERT(c.fd >= 0);
    PRAZO_ASSERT(connect(c.fd, (struct sockaddr *)&house.addr, sizeof house.addr) == 0);
    prazo_loop_post_in(house.loop, &c.post, drive, &c);
    prazo_loop_run(house.loop);
    PRAZO_ASSERT(ret_outcome->ended == ret_outcome->requests);
    judge(in, c.len, ret_outcome);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome whole, split;

    if (size < 2 || size > BYTES_MAX)
        return 0;
    open_house();
    unsigned habit = data[0] & 127u;
    size_t part = data[1];
    run(data + 2, size - 2, habit, part, &split);
    if (part == 0 || habit & (PAUSES | BIG | LATE))
        return 0;
    run(data + 2, size - 2, habit, 0, &whole);
    PRAZO_ASSERT(whole.requests == split.requests);
    PRAZO_ASSERT(whole.refusals == split.refusals);
    PRAZO_ASSERT(whole.hash == split.hash);
    return 0;
}
