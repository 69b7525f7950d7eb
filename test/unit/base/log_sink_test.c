/* SPDX-License-Identifier: MIT */
/* How lines get to the sink, and what happens when it does not take them: full, refusing, half
 * written, stopped. Real descriptors, because their behaviour is the subject; every wait is for a
 * condition. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "prazo/err.h"

enum { RING_BYTES = 16 << 10, PATIENCE_MS = 20000 };

static struct prazo_log_ring *ring;
static uint64_t dropped_before;
static char text[1 << 20];
static size_t text_len;

static int setup(void **state)
{
    (void)state;
    ring = prazo_log_ring_new(RING_BYTES);
    prazo_log_ring_attach(ring);
    dropped_before = prazo_log_dropped();
    text_len = 0;
    return ring ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    prazo_log_stop(0);
    prazo_log_ring_free(ring);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint64_t dropped(void)
{
    return prazo_log_dropped() - dropped_before;
}

static void start(int fd)
{
    assert_int_equal(prazo_log_start(fd, PRAZO_LOG_INFO, PRAZO_LOG_TEXT), PRAZO_OK);
}

static void log_number(enum prazo_log_level level, int64_t number)
{
    struct prazo_log_line line;

    prazo_log_begin(&line, level, "line");
    prazo_log_i64(&line, "n", number);
    prazo_log_end(&line);
}

/* Appends what fd holds now to text, after waiting for something to be there. */
static void read_some(int fd)
{
    struct pollfd in = { .fd = fd, .events = POLLIN };
    ssize_t len;

    assert_int_equal(poll(&in, 1, PATIENCE_MS), 1);
    len = read(fd, text + text_len, sizeof(text) - 1 - text_len);
    assert_true(len > 0);
    text_len += (size_t)len;
    text[text_len] = '\0';
}

static void read_all(int fd)
{
    ssize_t len;

    while ((len = read(fd, text + text_len, sizeof(text) - 1 - text_len)) > 0)
        text_len += (size_t)len;
    text[text_len] = '\0';
}

static int64_t lines_in_text(void)
{
    int64_t lines = 0;

    for (size_t i = 0; i < text_len; i++)
        lines += text[i] == '\n';
    return lines;
}

/* A pipe with room for a page, and that page taken. Returns how much is in it. */
static size_t make_full_pipe(int ends[2], int flags)
{
    size_t filled = 0;
    ssize_t len;

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) > 0);
    while ((len = write(ends[1], "\n", 1)) > 0)
        filled += (size_t)len;
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(fcntl(ends[1], F_SETFL, flags), 0);
    return filled;
}

static void close_both(int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

/* By the second alone eight such lines would take eight seconds. */
static void test_urgent_lines_wake_the_writer(void **state)
{
    int64_t began_ms = now_ms();
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    start(ends[1]);
    for (int i = 0; i < 8; i++) {
        log_number(i % 2 ? PRAZO_LOG_WARN : PRAZO_LOG_ERROR, i);
        read_some(ends[0]);
    }
    assert_true(now_ms() - began_ms < 5000);
    assert_int_equal(lines_in_text(), 8);
    close_both(ends);
}

/* The same for a ring that has reached what is worth a write (half of a small one). */
static void test_enough_lines_wake_the_writer(void **state)
{
    int64_t began_ms = now_ms();
    int64_t logged = 0;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    start(ends[1]);
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < RING_BYTES / 2 / 40 + 1; i++)
            log_number(PRAZO_LOG_INFO, 1000000 + logged++);
        while (lines_in_text() < logged * 9 / 10)
            read_some(ends[0]);
    }
    assert_true(now_ms() - began_ms < 5000);
    assert_int_equal(dropped(), 0);
    close_both(ends);
}

static void test_few_lines_come_within_the_second(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    start(ends[1]);
    log_number(PRAZO_LOG_INFO, 1);
    read_some(ends[0]);
    assert_int_equal(lines_in_text(), 1);
    close_both(ends);
}

/* A reader that has stopped costs lines, never time; what was put arrives once it reads again. */
static void test_full_ring_drops_and_counts(void **state)
{
    static const int modes[] = { 0, O_NONBLOCK };
    enum { LOGGED = 5000 };

    (void)state;
    for (int m = 0; m < 2; m++) {
        int ends[2];
        int64_t lines;
        uint64_t dropped_here = dropped();
        size_t filled = make_full_pipe(ends, modes[m]);

        text_len = 0;
        start(ends[1]);
        for (int i = 0; i < LOGGED; i++)
            log_number(i % 100 ? PRAZO_LOG_INFO : PRAZO_LOG_WARN, i);
        dropped_here = dropped() - dropped_here;
        assert_true(dropped_here > 0 && dropped_here < LOGGED);
        lines = (int64_t)filled + LOGGED - (int64_t)dropped_here;
        while (lines_in_text() < lines)
            read_some(ends[0]);
        prazo_log_stop(PATIENCE_MS);
        read_all(ends[0]);
        assert_int_equal(lines_in_text(), lines);
        close_both(ends);
    }
}

static void test_refusing_sink_drops_and_counts(void **state)
{
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    start(fd);
    for (int i = 0; i < 100; i++)
        log_number(PRAZO_LOG_INFO, i);
    prazo_log_stop(PATIENCE_MS);
    assert_int_equal(dropped(), 100);
    close(fd);
}

static void test_broken_sinks_drop_and_count(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    close(ends[0]); /* EPIPE, and no SIGPIPE that would end the process */
    start(ends[1]);
    log_number(PRAZO_LOG_ERROR, 1);
    prazo_log_stop(PATIENCE_MS);
    assert_int_equal(dropped(), 1);
    close(ends[1]);
    start(ends[1]); /* EBADF */
    log_number(PRAZO_LOG_ERROR, 2);
    prazo_log_stop(PATIENCE_MS);
    assert_int_equal(dropped(), 2);
}

static void await_dropped(uint64_t count)
{
    int64_t until_ms = now_ms() + PATIENCE_MS;

    while (dropped() < count) {
        assert_true(now_ms() < until_ms);
        poll(NULL, 0, 1);
    }
}

/* A disk that fills up in the middle of a line: its rest is lost, the next line starts anew. */
static void test_half_written_line_is_ended(void **state)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    struct rlimit before, tight;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = 30;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    start(fd);
    log_number(PRAZO_LOG_ERROR, 1);
    await_dropped(1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    log_number(PRAZO_LOG_ERROR, 2);
    prazo_log_stop(PATIENCE_MS);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    read_all(fd);
    assert_int_equal(lines_in_text(), 2);
    assert_int_equal(text[30], '\n');
    assert_non_null(strstr(text + 31, " error line n=2\n"));
    assert_null(strstr(text, "n=1"));
    assert_int_equal(dropped(), 1);
    close(fd);
}

static void test_stop_is_bounded(void **state)
{
    static const int waits_ms[] = { -1, 0, 100 };

    (void)state;
    for (int i = 0; i < 3; i++) {
        int64_t began_ms;
        int ends[2];

        dropped_before = prazo_log_dropped();
        make_full_pipe(ends, 0);
        start(ends[1]);
        log_number(PRAZO_LOG_INFO, 1);
        log_number(PRAZO_LOG_INFO, 2);
        began_ms = now_ms();
        prazo_log_stop(waits_ms[i]);
        assert_true(now_ms() - began_ms < 5000);
        assert_true(now_ms() - began_ms >= waits_ms[i]);
        assert_int_equal(dropped(), 2); /* given up, not forgotten */
        close_both(ends);
    }
    prazo_log_stop(100); /* not running */
}

static void test_without_ring_or_writer_lines_go_to_fd_2(void **state)
{
    int fd = memfd_create("stderr", MFD_CLOEXEC), other = memfd_create("log", MFD_CLOEXEC);
    int stderr_before = dup(STDERR_FILENO);

    (void)state;
    assert_true(fd >= 0 && other >= 0 && stderr_before >= 0);
    prazo_log_configure(PRAZO_LOG_INFO, PRAZO_LOG_TEXT);
    dup2(fd, STDERR_FILENO);
    log_number(PRAZO_LOG_INFO, 1); /* not started */
    start(other);
    log_number(PRAZO_LOG_INFO, 2);
    prazo_log_ring_attach(NULL);
    log_number(PRAZO_LOG_INFO, 3); /* no ring */
    prazo_log_ring_attach(ring);
    prazo_log_stop(PATIENCE_MS);
    log_number(PRAZO_LOG_INFO, 4); /* stopped */
    dup2(open("/dev/full", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    log_number(PRAZO_LOG_INFO, 5);
    dup2(stderr_before, STDERR_FILENO);
    assert_int_equal(dropped(), 1);
    lseek(fd, 0, SEEK_SET);
    read_all(fd);
    assert_int_equal(lines_in_text(), 3);
    assert_non_null(strstr(text, "n=1\n"));
    assert_non_null(strstr(text, "n=3\n"));
    assert_non_null(strstr(text, "n=4\n"));
    text_len = 0;
    lseek(other, 0, SEEK_SET);
    read_all(other);
    assert_int_equal(lines_in_text(), 1);
    assert_non_null(strstr(text, "n=2\n"));
    close(fd);
    close(other);
    close(stderr_before);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    prazo_mem_fail_after(0);
    assert_null(prazo_log_ring_new(1));
    prazo_mem_fail_after(1);
    assert_null(prazo_log_ring_new(1));
    prazo_mem_fail_after(-1);
    prazo_log_ring_free(NULL);
}

enum { THREADS = 2, LINES = 20000 };

struct writer_thread {
    pthread_t thread;
    struct prazo_log_ring *ring;
    int64_t first;
    int64_t last_seen;
};

static void *log_many(void *arg)
{
    struct writer_thread *own = arg;

    prazo_log_ring_attach(own->ring);
    for (int64_t i = 0; i < LINES; i++)
        log_number(PRAZO_LOG_INFO, own->first + i);
    return NULL;
}

static void run_threads(struct writer_thread *threads, int fd)
{
    start(fd);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct writer_thread){ .first = i * LINES, .last_seen = -1 };
        threads[i].ring = prazo_log_ring_new(1 << 16);
        assert_non_null(threads[i].ring);
        assert_int_equal(pthread_create(&threads[i].thread, NULL, log_many, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i].thread, NULL);
    prazo_log_stop(PATIENCE_MS);
    for (int i = 0; i < THREADS; i++)
        prazo_log_ring_free(threads[i].ring);
}

/* Each thread's lines stand in order and whole, and each is either there or counted. */
static void test_two_threads(void **state)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    struct writer_thread threads[THREADS];
    char line[128];
    int64_t lines = 0;
    FILE *in;

    (void)state;
    assert_true(fd >= 0);
    run_threads(threads, fd);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    in = fdopen(fd, "r");
    assert_non_null(in);
    for (; fgets(line, sizeof(line), in); lines++) {
        struct writer_thread *from;
        int64_t number;
        char *end;

        assert_memory_equal(line + 23, "Z info  line n=", 15);
        number = strtoll(line + 38, &end, 10);
        assert_string_equal(end, "\n");
        assert_in_range(number, 0, THREADS * LINES - 1);
        from = &threads[number / LINES];
        assert_true(number > from->last_seen);
        from->last_seen = number;
    }
    assert_int_equal(lines + (int64_t)dropped(), THREADS * LINES);
    fclose(in);
}

/* A write that blocks although the sink was writable: with one byte in its smallest buffer a stream
 * socket takes the first part of a piece and waits with the second. The thread stays behind;
 * nothing it may still read is freed. Has to be the last test: there is no second start after it.
 */
static void test_stuck_writer_is_left_behind(void **state)
{
    int ends[2], small = 1;
    int64_t began_ms;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    assert_int_equal(write(ends[1], "\n", 1), 1);
    start(ends[1]);
    for (int i = 0; i < 200; i++)
        log_number(PRAZO_LOG_INFO, i);
    began_ms = now_ms();
    prazo_log_stop(50);
    assert_true(now_ms() - began_ms < 5000);
    assert_int_equal(dropped(), 0); /* it is in its write, and has given up nothing */
    prazo_log_ring_free(ring);
    close(ends[0]); /* lets it go: it drops what the rings still hold */
    await_dropped(1);
    /* ends[1] stays open: the thread may still poll it. */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_urgent_lines_wake_the_writer),
        TEST(test_enough_lines_wake_the_writer),
        TEST(test_few_lines_come_within_the_second),
        TEST(test_full_ring_drops_and_counts),
        TEST(test_refusing_sink_drops_and_counts),
        TEST(test_broken_sinks_drop_and_count),
        TEST(test_half_written_line_is_ended),
        TEST(test_stop_is_bounded),
        TEST(test_without_ring_or_writer_lines_go_to_fd_2),
        TEST(test_out_of_memory),
        TEST(test_two_threads),
        TEST(test_stuck_writer_is_left_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
