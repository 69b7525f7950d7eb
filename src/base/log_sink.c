/* SPDX-License-Identifier: MIT */
/* The writer thread of the log. It sleeps in poll() on an eventfd, 1 s at most, then writes out
 * every ring. Producers never wait for it: all they may do is one eventfd write when 64 KiB are
 * waiting or a line is urgent.
 *
 * The sink is somebody else's descriptor, so it stays in the mode it is in. A blocking one is asked
 * by poll() before every write, and gets no more than PIPE_BUF bytes at once unless it is a file:
 * that much a pipe takes without blocking once it is writable. If a write blocks all the same (a
 * file on a dead server), prazo_log_stop() leaves the thread behind, and with it the rings.
 *
 * Invariants: only the writer thread takes from rings; rings are only added while it may run; what
 * an error keeps from the sink is dropped and counted, and the next line starts on a line of its
 * own. */
#include "base/log_sink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/log_ring.h"
#include "prazo/err.h"

#define WRITE_AT_BYTES ((uint64_t)64 << 10)
#define WRITE_AT_MS 1000
/* How long a thread without a ring waits for fd 2. Such lines are rare (before the start, after
 * the end), and losing the one that says why a start failed would be worse than this wait. */
#define DIRECT_WAIT_MS 1000
/* Beyond wait_ms, for the writer to notice that its time is up before it is called stuck. */
#define STOP_GRACE_MS 50

enum writer_state {
    WRITER_NONE = 0,    /* lines go directly to fd 2; rings may be freed */
    WRITER_RUNS,        /* owns the consumer's side of every ring */
    WRITER_LEFT_BEHIND, /* stuck in a write for good: as NONE, but its memory stays */
};

/* One writer a process. Fields without a note are set before the thread starts. */
static struct {
    int state;                    /* enum writer_state; atomic, by start and stop */
    struct prazo_log_ring *rings; /* atomic; newest first */
    uint64_t dropped;             /* atomic */
    pthread_t thread;
    int fd;
    size_t piece_max;   /* bytes a write may have */
    int wake_fd;        /* eventfd: look at the rings now */
    int done_fd;        /* eventfd: the thread is about to end */
    bool is_woken;      /* atomic: wake_fd was written and not yet read */
    int64_t stop_by_us; /* atomic; INT64_MAX until stop is called */
    bool is_mid_line;   /* the thread's: the sink's last byte was no line end */
} writer = { .wake_fd = -1, .done_fd = -1, .stop_by_us = INT64_MAX };

static _Thread_local struct prazo_log_ring *own_ring;

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void count_dropped(uint64_t lines)
{
    __atomic_fetch_add(&writer.dropped, lines, __ATOMIC_RELAXED);
}

uint64_t prazo_log_dropped(void)
{
    return __atomic_load_n(&writer.dropped, __ATOMIC_RELAXED);
}

static int writer_state(void)
{
    return __atomic_load_n(&writer.state, __ATOMIC_ACQUIRE);
}

static void set_writer_state(enum writer_state state)
{
    __atomic_store_n(&writer.state, (int)state, __ATOMIC_RELEASE);
}

/* ---- waking ---- */

static void signal_fd(int fd)
{
    uint64_t one = 1;
    ssize_t len;

    do {
        len = write(fd, &one, sizeof(one));
    } while (len < 0 && errno == EINTR);
    PRAZO_ASSERT(len == sizeof(one)); /* the counter stays far below its maximum */
}

static void wake(void)
{
    if (!__atomic_exchange_n(&writer.is_woken, true, __ATOMIC_ACQ_REL))
        signal_fd(writer.wake_fd);
}

/* Before the rings are read, so that a line put after that wakes anew. */
static void take_wake(void)
{
    uint64_t count;

    if (read(writer.wake_fd, &count, sizeof(count)) == sizeof(count))
        (void)__atomic_exchange_n(&writer.is_woken, false, __ATOMIC_ACQ_REL);
}

static int ms_until(int64_t at_us)
{
    int64_t left_us = at_us - now_us();
    int64_t left_ms = left_us > 0 ? (left_us + 999) / 1000 : 0;

    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

/* INT64_MAX until prazo_log_stop() has set an end. */
static int64_t stop_by_us(void)
{
    return __atomic_load_n(&writer.stop_by_us, __ATOMIC_ACQUIRE);
}

static bool is_stopping(void)
{
    return stop_by_us() != INT64_MAX;
}

/* ---- the writer thread ---- */

/* False when the time to stop came first. */
static bool wait_writable(void)
{
    for (;;) {
        struct pollfd fds[] = { { .fd = writer.fd, .events = POLLOUT },
                                { .fd = writer.wake_fd, .events = POLLIN } };
        int wait_ms = is_stopping() ? ms_until(stop_by_us()) : -1;

        if (poll(fds, 2, wait_ms) < 0)
            continue; /* EINTR, or ENOMEM for a moment */
        if (fds[1].revents)
            take_wake();
        if (fds[0].revents) /* an error too: the write will tell */
            return true;
        if (wait_ms == 0)
            return false;
    }
}

/* At most what may be written at once, up to a line's end if there is one in it, so that lines of
 * several processes in one pipe are not torn. */
static size_t piece_len(struct prazo_str text)
{
    const char *end;

    if (text.len <= writer.piece_max)
        return text.len;
    end = memrchr(text.base, '\n', writer.piece_max);
    return end ? (size_t)(end - text.base) + 1 : writer.piece_max;
}

/* Bytes written, or -1 when the sink refuses them or the time to stop has come. */
static ssize_t write_some(struct prazo_str text)
{
    for (;;) {
        ssize_t len;

        if (!wait_writable())
            return -1;
        len = write(writer.fd, text.base, piece_len(text));
        if (len > 0) {
            writer.is_mid_line = text.base[len - 1] != '\n';
            return len;
        }
        if (len == 0 || (errno != EINTR && errno != EAGAIN))
            return -1;
    }
}

/* Ends the line whose rest was dropped. False if the sink still refuses. */
static bool end_torn_line(void)
{
    return !writer.is_mid_line || write_some(PRAZO_STR("\n")) > 0;
}

static void write_out(struct prazo_log_ring *ring)
{
    uint64_t end = prazo__log_ring_end(ring);
    struct prazo_str text = prazo__log_ring_peek(ring, end);
    bool is_taken = text.len == 0 || end_torn_line();

    while (is_taken && text.len > 0) {
        ssize_t len = write_some(text);

        is_taken = len > 0;
        if (is_taken) {
            prazo__log_ring_take(ring, (size_t)len);
            text = prazo__log_ring_peek(ring, end);
        }
    }
    if (!is_taken)
        count_dropped(prazo__log_ring_drop(ring, end));
}

static void write_out_all(void)
{
    struct prazo_log_ring *ring = __atomic_load_n(&writer.rings, __ATOMIC_ACQUIRE);

    for (; ring; ring = ring->next)
        write_out(ring);
}

static void *run_writer(void *unused)
{
    (void)unused;
    for (;;) {
        struct pollfd wake_poll = { .fd = writer.wake_fd, .events = POLLIN };
        bool is_last;

        if (poll(&wake_poll, 1, is_stopping() ? 0 : WRITE_AT_MS) > 0)
            take_wake();
        is_last = is_stopping(); /* before the rings are read: nothing put before stop is missed */
        write_out_all();
        if (is_last)
            break;
    }
    signal_fd(writer.done_fd);
    return NULL;
}

/* ---- start and stop ---- */

static int start_thread(void)
{
    sigset_t all, before;
    int err;

    /* Signals are for the loops; a SIGPIPE of the sink stays pending here, where nobody sees it. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&writer.thread, NULL, run_writer, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err ? PRAZO_E_NOMEM : PRAZO_OK;
}

/* Opened once and never closed: a thread that logs during the stop may still write to it. */
static bool open_event(int *fd)
{
    uint64_t count;

    if (*fd < 0)
        *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    else if (read(*fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        return false;
    return *fd >= 0;
}

int prazo__log_sink_start(int fd)
{
    struct stat what;
    int err;

    PRAZO_ASSERT(writer_state() == WRITER_NONE);
    if (!open_event(&writer.wake_fd) || !open_event(&writer.done_fd))
        return PRAZO_E_NO_FDS;
    writer.fd = fd;
    writer.piece_max = fstat(fd, &what) == 0 && S_ISREG(what.st_mode) ? SSIZE_MAX : PIPE_BUF;
    writer.is_woken = false;
    writer.is_mid_line = false;
    writer.stop_by_us = INT64_MAX;
    err = start_thread();
    if (err)
        return err;
    set_writer_state(WRITER_RUNS);
    return PRAZO_OK;
}

/* False if the thread has not come to its end by then. */
static bool await_end(int64_t until_us)
{
    for (;;) {
        struct pollfd done = { .fd = writer.done_fd, .events = POLLIN };
        int left_ms = ms_until(until_us);
        int count = poll(&done, 1, left_ms);

        if (count > 0)
            return true;
        if (count == 0 && left_ms == 0)
            return false;
    }
}

void prazo_log_stop(int wait_ms)
{
    int64_t end_us = now_us() + (int64_t)(wait_ms > 0 ? wait_ms : 0) * 1000;

    if (writer_state() != WRITER_RUNS)
        return;
    __atomic_store_n(&writer.stop_by_us, end_us, __ATOMIC_RELEASE);
    signal_fd(writer.wake_fd);
    if (!await_end(end_us + STOP_GRACE_MS * 1000)) {
        pthread_detach(writer.thread);
        set_writer_state(WRITER_LEFT_BEHIND);
        return;
    }
    pthread_join(writer.thread, NULL);
    set_writer_state(WRITER_NONE);
}

/* ---- rings ---- */

struct prazo_log_ring *prazo_log_ring_new(size_t ring_bytes)
{
    struct prazo_log_ring *ring = prazo__log_ring_new(ring_bytes);

    if (!ring)
        return NULL;
    ring->next = __atomic_load_n(&writer.rings, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&writer.rings, &ring->next, ring, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
        continue;
    return ring;
}

void prazo_log_ring_free(struct prazo_log_ring *ring)
{
    struct prazo_log_ring **link = &writer.rings;

    if (!ring)
        return;
    PRAZO_ASSERT(writer_state() != WRITER_RUNS);
    if (own_ring == ring)
        own_ring = NULL;
    if (writer_state() == WRITER_LEFT_BEHIND)
        return; /* it may still be reading */
    while (*link != ring)
        link = &(*link)->next;
    *link = ring->next;
    prazo__log_ring_free(ring);
}

void prazo_log_ring_attach(struct prazo_log_ring *ring)
{
    own_ring = ring;
}

/* ---- producers ---- */

static bool write_direct(struct prazo_str line)
{
    while (line.len > 0) {
        struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
        ssize_t len;

        if (poll(&out, 1, DIRECT_WAIT_MS) == 0)
            return false;
        len = write(out.fd, line.base, line.len < PIPE_BUF ? line.len : PIPE_BUF);
        if (len == 0 || (len < 0 && errno != EINTR && errno != EAGAIN))
            return false;
        if (len > 0)
            line = prazo_str_n(line.base + len, line.len - (size_t)len);
    }
    return true;
}

void prazo__log_sink_put(struct prazo_str line, bool is_urgent)
{
    struct prazo_log_ring *ring = own_ring;
    uint64_t wake_at;

    if (!ring || writer_state() != WRITER_RUNS) {
        if (!write_direct(line))
            count_dropped(1);
        return;
    }
    wake_at = ring->bytes / 2 < WRITE_AT_BYTES ? ring->bytes / 2 : WRITE_AT_BYTES;
    if (!prazo__log_ring_put(ring, line))
        count_dropped(1);
    if (is_urgent || prazo__log_ring_holds(ring, wake_at))
        wake();
}
