/* SPDX-License-Identifier: MIT */
/* The seam to the world: event loop, clock, streams, name look-up. Only uv_*.c and ares.c behind
 * it know libuv and c-ares; the simulator implements the same functions over virtual time.
 *
 * Threads: everything of a loop belongs to the thread that runs it, except prazo_loop_post() and
 * prazo_loop_last_turn_us(), which any thread may call.
 *
 * Errors are negative PRAZO_E_* numbers. No callback runs inside the function that causes it. */
#ifndef PRAZO_IO_IO_H
#define PRAZO_IO_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/str.h"
#include "base/timers.h"
#include "prazo/err.h"

/* 64 KiB, the size that files and buffers come in, and room for the head in front of it: with 64
 * KiB alone the last few hundred bytes cost a turn of their own. */
#define PRAZO_READ_BUFFER_BYTES 81920u

struct prazo_loop;
struct prazo_stream;

/* ---- loop ---- */

int prazo_loop_new(struct prazo_loop **ret_loop);
/* After prazo_loop_run() has returned; closes every stream that is still open. NULL is accepted. */
void prazo_loop_free(struct prazo_loop *loop);
/* Runs until prazo_loop_stop(). */
void prazo_loop_run(struct prazo_loop *loop);
/* From the loop's own thread: run() returns at the end of this turn. */
void prazo_loop_stop(struct prazo_loop *loop);

/* Monotonic µs; one clock read per turn of the loop. */
int64_t prazo_loop_now_us(struct prazo_loop *loop);
/* Unix epoch ms; one clock read per turn. */
int64_t prazo_loop_wall_ms(struct prazo_loop *loop);
/* The loop's timers; prazo_timers_link_at(prazo_loop_timers(l), &t, at_us) arms one. */
struct prazo_timers *prazo_loop_timers(struct prazo_loop *loop);
/* PRAZO_READ_BUFFER_BYTES that every read of this loop may use; its content is valid until the next
 * read. */
char *prazo_loop_read_buffer(struct prazo_loop *loop);
/* cb(arg) at the end of every turn, before the loop waits: where closed objects are freed. At
 * most four. */
typedef void (*prazo_loop_cb)(void *arg);
void prazo_loop_on_turn_end(struct prazo_loop *loop, prazo_loop_cb cb, void *arg);
/* Any thread: cb(arg) on the loop's thread, in the order of the calls. PRAZO_E_NOMEM. */
int prazo_loop_post(struct prazo_loop *loop, prazo_loop_cb cb, void *arg);
/* The same in the caller's memory, for a message that must not fail. `post` stays the loop's until
 * cb has begun or prazo_loop_free() has returned. */
struct prazo_post {
    struct prazo_post *next;
    prazo_loop_cb cb;
    void *arg;
    bool is_loops; /* the loop's own memory */
};
void prazo_loop_post_in(struct prazo_loop *loop, struct prazo_post *post, prazo_loop_cb cb,
                        void *arg);
/* When the loop last began a turn (monotonic µs). Any thread. */
int64_t prazo_loop_last_turn_us(const struct prazo_loop *loop);
/* Longest time between planned and real run of timers since the last call, µs. Own thread. */
int64_t prazo_loop_take_lag_us(struct prazo_loop *loop);
/* cb(arg, signum) on this loop for SIGTERM, SIGINT, SIGHUP. Main loop only. */
typedef void (*prazo_signal_cb)(void *arg, int signum);
int prazo_loop_on_signals(struct prazo_loop *loop, prazo_signal_cb cb, void *arg);

/* The clocks themselves, for code without a loop. */
int64_t prazo_clock_now_us(void);
int64_t prazo_clock_wall_ms(void);

/* ---- addresses ---- */

#define PRAZO_ADDR_TEXT_MAX 128

struct prazo_addr {
    uint32_t len;                           /* of the sockaddr in `storage` */
    _Alignas(8) unsigned char storage[112]; /* sockaddr_in, sockaddr_in6 or sockaddr_un */
};

/* "127.0.0.1:80", "[::1]:80", "unix:/path", ":80" (any address, IPv6 with IPv4). PRAZO_E_INVALID;
 * PRAZO_E_NOT_FOUND if it is host:port with a name (then *ret_host and *ret_port are set). */
int prazo_addr_parse(struct prazo_str text, struct prazo_addr *ret_addr, struct prazo_str *ret_host,
                     uint16_t *ret_port);
/* Text form, NUL-terminated, at most PRAZO_ADDR_TEXT_MAX bytes with the NUL. */
void prazo_addr_format(const struct prazo_addr *addr, char *to);
/* The bare IP: bytes in network order, returns 4, 16, or 0 for a Unix socket. */
unsigned prazo_addr_ip(const struct prazo_addr *addr, uint8_t ret_ip[16]);
bool prazo_addr_eq(const struct prazo_addr *a, const struct prazo_addr *b);

/* ---- streams ---- */

enum prazo_stream_event {
    PRAZO_STREAM_READABLE = 1,
    PRAZO_STREAM_WRITABLE = 2,
    PRAZO_STREAM_HANGUP = 4, /* the peer sent FIN or RST; bytes before it may still be unread */
};

typedef void (*prazo_stream_cb)(void *arg, unsigned events);

/* Takes fd (non-blocking). Nothing is watched yet. PRAZO_E_NOMEM leaves fd to the caller. */
int prazo_stream_open(struct prazo_loop *loop, int fd, prazo_stream_cb cb, void *arg,
                      struct prazo_stream **ret_stream);
/* The same for an fd that stays the caller's: close() leaves it open. For a listening socket that
 * several loops watch. */
int prazo_stream_open_borrowed(struct prazo_loop *loop, int fd, prazo_stream_cb cb, void *arg,
                               struct prazo_stream **ret_stream);
/* Which events to watch from now on; a no-op if nothing changes (no system call). */
void prazo_stream_watch(struct prazo_stream *stream, unsigned events);
unsigned prazo_stream_watched(const struct prazo_stream *stream);
/* > 0 bytes; PRAZO_E_EOF, PRAZO_E_AGAIN, PRAZO_E_RESET. */
ssize_t prazo_stream_read(struct prazo_stream *stream, char *to, size_t bytes);
/* >= 0 bytes taken; PRAZO_E_AGAIN, PRAZO_E_RESET. */
ssize_t prazo_stream_writev(struct prazo_stream *stream, const struct iovec *iov, int count);
/* Sends FIN. */
void prazo_stream_shutdown(struct prazo_stream *stream);
/* Closes now; no callback after it. with_reset: RST instead of FIN (SO_LINGER 0). NULL is
 * accepted. */
void prazo_stream_close(struct prazo_stream *stream, bool with_reset);
int prazo_stream_fd(const struct prazo_stream *stream);
/* Bytes that lie unread in the kernel: 0 if unknown. */
size_t prazo_stream_unread(const struct prazo_stream *stream);
/* How long ago the last bytes arrived in this machine (tcpi_last_data_recv), µs; 0 if unknown. */
int64_t prazo_stream_idle_us(const struct prazo_stream *stream);

/* Starts a connection. The stream's first event (WRITABLE or HANGUP) says that it is decided; then
 * prazo_stream_connect_result() tells how. Errors at once: PRAZO_E_NO_FDS, PRAZO_E_REFUSED (Unix
 * socket), PRAZO_E_UNREACHABLE, PRAZO_E_NOMEM, … */
int prazo_stream_connect(struct prazo_loop *loop, const struct prazo_addr *addr, prazo_stream_cb cb,
                         void *arg, struct prazo_stream **ret_stream);
/* PRAZO_OK, PRAZO_E_AGAIN (not decided), PRAZO_E_REFUSED, PRAZO_E_UNREACHABLE, PRAZO_E_RESET, … */
int prazo_stream_connect_result(struct prazo_stream *stream);

/* Binds and listens (non-blocking, close-on-exec). A stale Unix socket file that nobody listens on
 * is replaced. PRAZO_E_IN_USE, PRAZO_E_DENIED, PRAZO_E_INVALID, PRAZO_E_IO. */
int prazo_listen(const struct prazo_addr *addr, int *ret_fd);
/* Where it really listens: the port that the kernel chose for port 0. PRAZO_E_INVALID. */
int prazo_listen_addr(int listen_fd, struct prazo_addr *ret_addr);
/* One connection off a listening fd, TCP_NODELAY set. PRAZO_E_AGAIN, PRAZO_E_NO_FDS, PRAZO_E_NOMEM,
 * PRAZO_E_RESET (that one went away: ask again). */
int prazo_accept(int listen_fd, int *ret_fd, struct prazo_addr *ret_peer);

/* ---- names (ares.c): one resolver per process, on the main loop ---- */

struct prazo_resolver;

#define PRAZO_RESOLVE_ADDRS_MAX 32

/* Called on the resolver's loop: after the first success and whenever the set of addresses
 * changes (count > 0), and after every failed look-up (count == 0, err set; addresses known before
 * stay in use: stale answers serve while a look-up fails). addrs are borrowed until return. */
typedef void (*prazo_resolve_cb)(void *arg, int err, const struct prazo_addr *addrs, size_t count);

int prazo_resolver_new(struct prazo_loop *loop, struct prazo_resolver **ret_resolver);
/* Ends every look-up under way and every watch, without waiting; no callback after it. Before
 * prazo_loop_free(). NULL is accepted. */
void prazo_resolver_free(struct prazo_resolver *resolver);
/* Asks these servers ("127.0.0.1:5353,[::1]:53") instead of those of /etc/resolv.conf.
 * PRAZO_E_INVALID; PRAZO_E_IN_USE while a look-up is under way. */
int prazo_resolver_set_servers(struct prazo_resolver *resolver, const char *csv);

struct prazo_resolve_watch;
/* Keeps host (a copy is taken) resolved, A and AAAA, asking again as the TTL says (clamped to
 * 1 s .. 5 min), after failures with backoff 1 s .. 30 s. */
int prazo_resolver_watch(struct prazo_resolver *resolver, struct prazo_str host, uint16_t port,
                         prazo_resolve_cb cb, void *arg, struct prazo_resolve_watch **ret_watch);
/* No callback after it; may be called from the callback. NULL is accepted. */
void prazo_resolver_unwatch(struct prazo_resolve_watch *watch);

#endif
