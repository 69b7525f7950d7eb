/* SPDX-License-Identifier: MIT */
/* Output of a connection over a stream that takes as much as a test says. */
#include "http/out.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The stream of these tests, in place of io/'s. */
struct prazo_stream {
    char taken[4096]; /* what the "kernel" has taken */
    size_t len;
    size_t room; /* how much more it takes */
    int error;   /* instead: what writev returns */
    unsigned writes, watched;
};

ssize_t prazo_stream_writev(struct prazo_stream *stream, const struct iovec *iov, int count)
{
    size_t before = stream->len;
    stream->writes++;
    if (stream->error != 0)
        return stream->error;
    if (stream->room == 0)
        return PRAZO_E_AGAIN;
    for (int i = 0; i < count; i++) {
        size_t n = iov[i].iov_len < stream->room ? iov[i].iov_len : stream->room;
        assert_true(stream->len + n <= sizeof(stream->taken));
        memcpy(stream->taken + stream->len, iov[i].iov_base, n);
        stream->len += n;
        stream->room -= n;
    }
    return (ssize_t)(stream->len - before);
}

void prazo_stream_watch(struct prazo_stream *stream, unsigned events)
{
    stream->watched = events;
}

unsigned prazo_stream_watched(const struct prazo_stream *stream)
{
    return stream->watched;
}

static struct prazo_stream stream;
static struct prazo_out out;

static int set_up(void **state)
{
    (void)state;
    memset(&stream, 0, sizeof(stream));
    stream.room = sizeof(stream.taken);
    stream.watched = PRAZO_STREAM_READABLE;
    prazo_out_init(&out, 256);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    prazo_out_done(&out);
    return 0;
}

static void assert_taken(const char *want)
{
    assert_int_equal(stream.len, strlen(want));
    assert_memory_equal(stream.taken, want, stream.len);
}

static void add(const char *z)
{
    prazo_out_add(&out, &stream, z, strlen(z));
}

static void a_flush_is_one_write(void **state)
{
    (void)state;
    add("head ");
    add("");
    prazo_out_add_chunk(&out, &stream, "0123456789abcdef!", 17);
    prazo_out_add_last_chunk(&out, &stream, NULL, 0);
    assert_int_equal(stream.writes, 0);
    assert_true(prazo_out_flush(&out, &stream));
    assert_int_equal(stream.writes, 1);
    assert_taken("head 11\r\n0123456789abcdef!\r\n0\r\n\r\n");
    assert_int_equal(stream.watched, PRAZO_STREAM_READABLE);
    assert_true(prazo_out_flush(&out, &stream)); /* nothing to write: no system call */
    assert_int_equal(stream.writes, 1);
}

static void many_slices_keep_their_order(void **state)
{
    (void)state;
    static const char digits[] = "0123456789";
    for (int i = 0; i < 50; i++)
        prazo_out_add_chunk(&out, &stream, digits + i % 10, 1);
    prazo_out_flush(&out, &stream);
    assert_int_equal(stream.len, 50 * 6);
    for (size_t i = 0; i < 50; i++) {
        char want[7] = { '1', '\r', '\n', digits[i % 10], '\r', '\n', '\0' };
        assert_memory_equal(stream.taken + 6 * i, want, 6);
    }
}

static void trailers_are_fields_that_may_be_trailers(void **state)
{
    (void)state;
    struct prazo_header trailers[] = {
        { .name = PRAZO_STR("x-sum"), .value = PRAZO_STR("9") },
        { .name = PRAZO_STR("content-length"),
          .value = PRAZO_STR("5"),
          .flags = PRAZO_HDRF_FRAMING },
        { .name = PRAZO_STR("x-deadline-ms"), .value = PRAZO_STR("1"), .flags = PRAZO_HDRF_OWN },
        { .name = PRAZO_STR("y"), .value = PRAZO_STR("") },
    };
    prazo_out_add_last_chunk(&out, &stream, trailers, 4);
    prazo_out_flush(&out, &stream);
    assert_taken("0\r\nx-sum: 9\r\ny: \r\n\r\n");
}

/* Every place where the kernel may stop: the rest is kept, in order, and new slices wait for it. */
static void what_is_not_taken_is_kept(void **state)
{
    static const char want[] = "head 3\r\nabc\r\n0\r\n\r\nlater";
    for (size_t room = 0; room < 18; room++) {
        char head[] = "head ", data[] = "abc";
        set_up(state);
        stream.room = room;
        add(head);
        prazo_out_add_chunk(&out, &stream, data, 3);
        prazo_out_add_last_chunk(&out, &stream, NULL, 0);
        assert_false(prazo_out_flush(&out, &stream));
        memset(head, '?', sizeof(head)); /* borrowed only until the flush */
        memset(data, '?', sizeof(data));
        assert_int_equal(out.pending.len, 18 - room);
        assert_int_equal(out.has_sent, room > 0);
        assert_int_equal(stream.watched, PRAZO_STREAM_READABLE | PRAZO_STREAM_WRITABLE);

        stream.room = 0;
        add("later");
        assert_false(prazo_out_flush(&out, &stream));
        assert_false(prazo_out_on_writable(&out, &stream));
        while (out.pending.len > 1) {
            stream.room = 1;
            assert_false(prazo_out_on_writable(&out, &stream));
        }
        stream.room = 1;
        assert_true(prazo_out_on_writable(&out, &stream));
        assert_true(out.has_sent);
        assert_int_equal(stream.watched, PRAZO_STREAM_READABLE);
        assert_taken(want);
        tear_down(state);
    }
}

static void a_broken_peer_takes_everything(void **state)
{
    (void)state;
    stream.error = PRAZO_E_RESET;
    add("head");
    assert_true(prazo_out_flush(&out, &stream));
    assert_true(out.is_broken);
    assert_false(out.has_sent); /* nothing was taken: the request never started */
    add("more");
    prazo_out_add_chunk(&out, &stream, "abc", 3);
    prazo_out_add_last_chunk(&out, &stream, NULL, 0);
    assert_true(prazo_out_flush(&out, &stream));
    assert_int_equal(stream.writes, 1);
}

static void a_peer_may_break_while_something_is_pending(void **state)
{
    (void)state;
    stream.room = 2;
    add("head");
    assert_false(prazo_out_flush(&out, &stream));
    stream.error = PRAZO_E_RESET;
    assert_true(prazo_out_on_writable(&out, &stream));
    assert_true(out.is_broken);
    assert_int_equal(out.pending.len, 0);
    assert_int_equal(stream.watched, PRAZO_STREAM_READABLE);
}

static void more_than_the_bound_breaks_it(void **state)
{
    (void)state;
    static const char big[300];
    stream.room = 0;
    prazo_out_add(&out, &stream, big, 200);
    assert_false(prazo_out_flush(&out, &stream));
    assert_int_equal(out.pending.len, 200);
    prazo_out_add(&out, &stream, big, 200);
    assert_true(prazo_out_flush(&out, &stream));
    assert_true(out.is_broken);
    assert_int_equal(out.pending.len, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_flush_is_one_write),
        TEST(many_slices_keep_their_order),
        TEST(trailers_are_fields_that_may_be_trailers),
        cmocka_unit_test(what_is_not_taken_is_kept),
        TEST(a_broken_peer_takes_everything),
        TEST(a_peer_may_break_while_something_is_pending),
        TEST(more_than_the_bound_breaks_it),
    };
    return cmocka_run_group_tests_name("http/out", tests, NULL, NULL);
}
