/* SPDX-License-Identifier: MIT */
/* Streams: one uv_poll_t on a non-blocking socket, level-triggered. Reading and writing are plain
 * system calls that the owner makes when it wants; nothing is buffered here.
 *
 * libuv changes what it watches by EPOLL_CTL_DEL and _ADD, so watch() compares first and the owner
 * is expected to leave READABLE and HANGUP alone for the life of a connection.
 *
 * Invariants:
 *   - `armed` is what libuv watches; wanted() is what it should watch; only arm() brings them
 *     together.
 *   - An open stream that has been watched once stays in the epoll set, if need be for urgent data
 *     only, which no HTTP peer sends: that makes the kernel report a reset in every state.
 *   - A socket error (EPOLLERR, or both directions closed) cannot be masked. It makes the stream
 *     broken: it is reported as HANGUP once and nothing is watched after it, until the owner asks
 *     for READABLE or WRITABLE again or reads bytes that arrived before the error. So an owner
 *     that does not react never makes the loop spin.
 *   - close() ends callbacks at once: libuv drops events of this fd that it has already collected.
 *     The memory goes back to the loop's pool when libuv has let go of the handle. */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "io/sock.h"
#include "io/uv_loop.h"

struct prazo_stream {
    uv_poll_t poll;
    struct prazo_list open; /* in loop->streams */
    struct prazo_loop *loop;
    prazo_stream_cb cb;
    void *arg;
    int fd;
    int connect_result; /* PRAZO_E_AGAIN while not decided */
    unsigned watched;   /* enum prazo_stream_event, as the owner asked */
    unsigned armed;     /* uv_poll_event */
    bool is_broken;
    bool is_borrowed; /* the fd is not ours to close */
    bool is_loopback; /* connecting to this host: may meet itself */
    bool has_urgent;  /* sent urgent data: that cannot stand for "errors only" any more */
};

const size_t prazo__stream_bytes = sizeof(struct prazo_stream);

_Static_assert(PRAZO_STREAM_READABLE == (int)UV_READABLE &&
                   PRAZO_STREAM_WRITABLE == (int)UV_WRITABLE &&
                   PRAZO_STREAM_HANGUP == (int)UV_DISCONNECT,
               "events are passed through without translation");

struct prazo_stream *prazo__stream_of(struct prazo_list *node)
{
    return PRAZO_CONTAINER(node, struct prazo_stream, open);
}

/* ---- events ---- */

static void on_poll(uv_poll_t *poll, int status, int uv_events);

static unsigned wanted(const struct prazo_stream *stream)
{
    if (stream->is_broken)
        return stream->watched & ~(unsigned)PRAZO_STREAM_HANGUP;
    if (stream->is_borrowed || stream->has_urgent)
        return stream->watched;
    return stream->watched | UV_PRIORITIZED;
}

static void arm(struct prazo_stream *stream)
{
    unsigned want = wanted(stream);
    if (want == stream->armed)
        return;
    stream->armed = want;
    int err = want ? uv_poll_start(&stream->poll, (int)want, on_poll) : uv_poll_stop(&stream->poll);
    PRAZO_ASSERT(err == 0);
}

/* libuv shows a hang-up without any watched event as urgent data. */
static bool has_hung_up(int fd)
{
    struct pollfd p = { .fd = fd };
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

/* The events to report for what libuv says; 0: none. */
static unsigned translate(struct prazo_stream *stream, int status, unsigned events)
{
    bool is_error = status < 0;
    if (events & UV_PRIORITIZED) {
        is_error = has_hung_up(stream->fd);
        stream->has_urgent = !is_error;
    }
    if (is_error) {
        stream->is_broken = true;
        stream->armed = 0;
        uv_poll_stop(&stream->poll);
        return PRAZO_STREAM_HANGUP |
               (stream->watched & (PRAZO_STREAM_READABLE | PRAZO_STREAM_WRITABLE));
    }
    arm(stream);
    return events & stream->watched;
}

static int decide_connect(struct prazo_stream *stream)
{
    int result = prazo__sock_connect_result(stream->fd);
    /* A port of the ephemeral range that nobody listens on can be given to the very socket that
     * connects to it, and TCP then connects it to itself. */
    if (result == PRAZO_OK && stream->is_loopback && prazo__sock_is_self_connected(stream->fd))
        return PRAZO_E_REFUSED;
    return result;
}

static void on_poll(uv_poll_t *poll, int status, int uv_events)
{
    struct prazo_stream *stream = PRAZO_CONTAINER(poll, struct prazo_stream, poll);
    unsigned events = (unsigned)uv_events;
    if (status < 0 || (events & UV_PRIORITIZED) != 0)
        events = translate(stream, status, events);
    if (events == 0)
        return;
    if (stream->connect_result == PRAZO_E_AGAIN)
        stream->connect_result = decide_connect(stream);
    stream->cb(stream->arg, events);
}

void prazo_stream_watch(struct prazo_stream *stream, unsigned events)
{
    stream->watched = events;
    arm(stream);
}

unsigned prazo_stream_watched(const struct prazo_stream *stream)
{
    return stream->watched;
}

/* ---- opening and closing ---- */

int prazo_stream_open(struct prazo_loop *loop, int fd, prazo_stream_cb cb, void *arg,
                      struct prazo_stream **ret_stream)
{
    struct prazo_stream *stream = prazo_pool_get(&loop->stream_pool);
    if (!stream)
        return PRAZO_E_NOMEM;
    int err = uv_poll_init(&loop->uv, &stream->poll, fd);
    if (err != 0) {
        prazo_pool_put(&loop->stream_pool, stream);
        return err == UV_ENOMEM || err == UV_ENOSPC ? PRAZO_E_NOMEM : PRAZO_E_INVALID;
    }
    stream->loop = loop;
    stream->fd = fd;
    stream->cb = cb;
    stream->arg = arg;
    prazo_list_push_back(&loop->streams, &stream->open);
    *ret_stream = stream;
    return PRAZO_OK;
}

int prazo_stream_open_borrowed(struct prazo_loop *loop, int fd, prazo_stream_cb cb, void *arg,
                               struct prazo_stream **ret_stream)
{
    struct prazo_stream *stream;
    int err = prazo_stream_open(loop, fd, cb, arg, &stream);
    if (err != PRAZO_OK)
        return err;
    stream->is_borrowed = true;
    *ret_stream = stream;
    return PRAZO_OK;
}

int prazo_stream_connect(struct prazo_loop *loop, const struct prazo_addr *addr, prazo_stream_cb cb,
                         void *arg, struct prazo_stream **ret_stream)
{
    int fd;
    int err = prazo__sock_connect(addr, &fd);
    if (err != PRAZO_OK)
        return err;
    struct prazo_stream *stream;
    err = prazo_stream_open(loop, fd, cb, arg, &stream);
    if (err != PRAZO_OK) {
        close(fd);
        return err;
    }
    stream->connect_result = PRAZO_E_AGAIN;
    stream->is_loopback = prazo__addr_is_loopback(addr);
    prazo_stream_watch(stream, PRAZO_STREAM_WRITABLE | PRAZO_STREAM_HANGUP);
    *ret_stream = stream;
    return PRAZO_OK;
}

int prazo_stream_connect_result(struct prazo_stream *stream)
{
    return stream->connect_result;
}

static void on_closed(uv_handle_t *handle)
{
    struct prazo_stream *stream = PRAZO_CONTAINER(handle, struct prazo_stream, poll);
    prazo_pool_put(&stream->loop->stream_pool, stream);
}

void prazo_stream_close(struct prazo_stream *stream, bool with_reset)
{
    if (!stream)
        return;
    prazo_list_del(&stream->open);
    uv_close((uv_handle_t *)&stream->poll, on_closed);
    if (!stream->is_borrowed) {
        struct linger at_once = { .l_onoff = 1 };
        if (with_reset)
            (void)setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        close(stream->fd);
    }
    stream->fd = -1;
}

/* ---- bytes ---- */

ssize_t prazo_stream_read(struct prazo_stream *stream, char *to, size_t bytes)
{
    ssize_t n;
    do
        n = recv(stream->fd, to, bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        if (stream->is_broken)
            arm(stream);
        return n;
    }
    if (n == 0)
        return PRAZO_E_EOF;
    return errno == EAGAIN ? PRAZO_E_AGAIN : PRAZO_E_RESET;
}

ssize_t prazo_stream_writev(struct prazo_stream *stream, const struct iovec *iov, int count)
{
    ssize_t n;
    do
        n = writev(stream->fd, iov, count < IOV_MAX ? count : IOV_MAX);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    return errno == EAGAIN ? PRAZO_E_AGAIN : PRAZO_E_RESET;
}

void prazo_stream_shutdown(struct prazo_stream *stream)
{
    (void)shutdown(stream->fd, SHUT_WR);
}

int prazo_stream_fd(const struct prazo_stream *stream)
{
    return stream->fd;
}

size_t prazo_stream_unread(const struct prazo_stream *stream)
{
    int bytes = 0;
    if (ioctl(stream->fd, FIONREAD, &bytes) != 0 || bytes < 0)
        return 0;
    return (size_t)bytes;
}

int64_t prazo_stream_idle_us(const struct prazo_stream *stream)
{
    struct tcp_info info = { 0 };
    socklen_t len = sizeof(info);
    if (getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return 0;
    return (int64_t)info.tcpi_last_data_recv * 1000;
}
