/* SPDX-License-Identifier: MIT */
/* The loop: order of a turn, timers, calls from other threads, signals, clock. Uses the real clock,
 * because the bridge to it is the subject; waits for conditions, with a guard against hanging. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "io/io.h"

#define POSTS 1000

struct fixture {
    struct prazo_loop *loop;
    struct prazo_timer guard;
    char seen[64]; /* one letter per event, in order */
    int signum;
    int posted;
};

struct letter_timer {
    struct prazo_timer timer;
    struct fixture *f;
    char letter;
    bool is_last;
    int64_t spin_us;
    int64_t ran_at_us;
};

static void on_guard(struct prazo_timer *timer, int64_t now_us)
{
    (void)timer;
    (void)now_us;
    fail_msg("the loop did not get there within 10 s");
}

static void link_in(struct fixture *f, struct prazo_timer *timer, int64_t in_us)
{
    prazo_timers_link_at(prazo_loop_timers(f->loop), timer, prazo_loop_now_us(f->loop) + in_us);
}

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    assert_int_equal(prazo_loop_new(&f.loop), PRAZO_OK);
    f.guard.cb = on_guard;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    prazo_loop_free(f->loop);
    return 0;
}

static void see(struct fixture *f, char letter)
{
    size_t n = strlen(f->seen);
    if (n + 1 < sizeof(f->seen))
        f->seen[n] = letter;
}

static void spin(int64_t us)
{
    int64_t end_us = prazo_clock_now_us() + us;
    while (prazo_clock_now_us() < end_us)
        ;
}

static void on_letter(struct prazo_timer *timer, int64_t now_us)
{
    struct letter_timer *t = PRAZO_CONTAINER(timer, struct letter_timer, timer);
    t->ran_at_us = now_us;
    see(t->f, t->letter);
    spin(t->spin_us);
    if (t->is_last)
        prazo_loop_stop(t->f->loop);
}

static void test_timers_run_in_order_and_never_early(void **state)
{
    struct fixture *f = *state;
    struct letter_timer t[3] = { { .letter = 'c', .is_last = true },
                                 { .letter = 'a' },
                                 { .letter = 'b' } };
    static const int64_t in_us[3] = { 3500, 1200, 2300 };
    int64_t start_us = prazo_loop_now_us(f->loop);
    for (int i = 0; i < 3; i++) {
        t[i].f = f;
        t[i].timer.cb = on_letter;
        prazo_timers_link_at(prazo_loop_timers(f->loop), &t[i].timer, start_us + in_us[i]);
    }
    prazo_loop_run(f->loop);
    assert_string_equal(f->seen, "abc");
    for (int i = 0; i < 3; i++)
        assert_true(t[i].ran_at_us >= start_us + in_us[i]);
}

static void test_a_timer_in_the_past_runs_at_once(void **state)
{
    struct fixture *f = *state;
    struct letter_timer t = {
        .letter = 'a', .is_last = true, .f = f, .timer = { .cb = on_letter }
    };
    prazo_timers_link_at(prazo_loop_timers(f->loop), &t.timer, 1);
    int64_t start_us = prazo_clock_now_us();
    prazo_loop_run(f->loop);
    assert_string_equal(f->seen, "a");
    assert_true(prazo_clock_now_us() - start_us < 500000); /* not the heartbeat's second */
    assert_true(prazo_loop_take_lag_us(f->loop) < 500000); /* planned before the loop could run */
}

static void on_readable(void *arg, unsigned events)
{
    assert_int_equal(events, PRAZO_STREAM_READABLE);
    see(arg, 'i');
}

static void on_turn_end(void *arg)
{
    see(arg, 'e');
}

static void test_a_turn_runs_io_then_timers_then_hooks(void **state)
{
    struct fixture *f = *state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    struct prazo_stream *stream;
    assert_int_equal(prazo_stream_open(f->loop, fds[0], on_readable, f, &stream), PRAZO_OK);
    prazo_stream_watch(stream, PRAZO_STREAM_READABLE);
    assert_int_equal(write(fds[1], "x", 1), 1);
    struct letter_timer t = {
        .letter = 't', .is_last = true, .f = f, .timer = { .cb = on_letter }
    };
    link_in(f, &t.timer, 0);
    prazo_loop_on_turn_end(f->loop, on_turn_end, f);
    prazo_loop_run(f->loop);
    assert_string_equal(f->seen, "ite");
    close(fds[1]);
}

static void test_one_clock_read_a_turn(void **state)
{
    struct fixture *f = *state;
    struct letter_timer a = {
        .letter = 'a', .f = f, .timer = { .cb = on_letter }, .spin_us = 2000
    };
    struct letter_timer b = {
        .letter = 'b', .f = f, .timer = { .cb = on_letter }, .is_last = true
    };
    prazo_timers_link_at(prazo_loop_timers(f->loop), &a.timer, 1);
    prazo_timers_link_at(prazo_loop_timers(f->loop), &b.timer, 2);
    prazo_loop_run(f->loop);
    assert_string_equal(f->seen, "ab");
    assert_int_equal(a.ran_at_us, b.ran_at_us);
    assert_int_equal(prazo_loop_last_turn_us(f->loop), a.ran_at_us);
    int64_t off_ms = prazo_loop_wall_ms(f->loop) - prazo_clock_wall_ms();
    assert_in_range(off_ms + 1000, 0, 2000);
}

static void test_lag_is_the_longest_delay_of_a_timer(void **state)
{
    struct fixture *f = *state;
    struct letter_timer a = {
        .letter = 'a', .f = f, .timer = { .cb = on_letter }, .spin_us = 9000
    };
    struct letter_timer b = {
        .letter = 'b', .f = f, .timer = { .cb = on_letter }, .is_last = true
    };
    int64_t start_us = prazo_loop_now_us(f->loop);
    prazo_timers_link_at(prazo_loop_timers(f->loop), &a.timer, start_us);
    prazo_timers_link_at(prazo_loop_timers(f->loop), &b.timer, start_us + 4000);
    prazo_loop_run(f->loop);
    if (a.ran_at_us < b.ran_at_us) /* else the machine was so slow that both ran in one turn */
        assert_true(prazo_loop_take_lag_us(f->loop) >= b.ran_at_us - (start_us + 4000));
    else
        assert_true(prazo_loop_take_lag_us(f->loop) >= 4000);
    assert_int_equal(prazo_loop_take_lag_us(f->loop), 0);
}

static void on_idle_turn(void *arg)
{
    struct fixture *f = arg;
    prazo_loop_stop(f->loop);
}

static void test_an_idle_loop_turns_every_second(void **state)
{
    struct fixture *f = *state;
    prazo_loop_on_turn_end(f->loop, on_idle_turn, f);
    int64_t start_us = prazo_clock_now_us();
    prazo_loop_run(f->loop);
    int64_t took_us = prazo_clock_now_us() - start_us;
    assert_in_range(took_us, 900000, 4000000);
    assert_true(prazo_loop_last_turn_us(f->loop) > start_us);
}

struct numbered {
    struct fixture *f;
    int number;
};

static void on_post(void *arg)
{
    struct numbered *n = arg;
    assert_int_equal(n->number, n->f->posted);
    n->f->posted++;
    if (n->f->posted == POSTS)
        prazo_loop_stop(n->f->loop);
}

static void *post_all(void *arg)
{
    struct numbered *all = arg;
    for (int i = 0; i < POSTS; i++) {
        if (prazo_loop_post(all[i].f->loop, on_post, &all[i]) != PRAZO_OK)
            return arg;
        (void)prazo_loop_last_turn_us(all[i].f->loop);
    }
    return NULL;
}

static void test_posts_from_another_thread_run_in_order(void **state)
{
    struct fixture *f = *state;
    static struct numbered all[POSTS];
    for (int i = 0; i < POSTS; i++)
        all[i] = (struct numbered){ f, i };
    link_in(f, &f->guard, 10000000);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_all, all), 0);
    prazo_loop_run(f->loop);
    void *failed;
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(f->posted, POSTS);
}

static void test_posts_that_never_ran_are_freed_with_the_loop(void **state)
{
    struct fixture *f = *state;
    static struct numbered n;
    n = (struct numbered){ f, 0 };
    assert_int_equal(prazo_loop_post(f->loop, on_post, &n), PRAZO_OK);
    assert_int_equal(f->posted, 0);
}

static void on_signum(void *arg, int signum)
{
    struct fixture *f = arg;
    f->signum = signum;
    prazo_loop_stop(f->loop);
}

static void test_signals_arrive_on_the_loop(void **state)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
    struct fixture *f = *state;
    assert_int_equal(prazo_loop_on_signals(f->loop, on_signum, f), PRAZO_OK);
    link_in(f, &f->guard, 10000000);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        assert_int_equal(raise(signals[i]), 0);
        prazo_loop_run(f->loop);
        assert_int_equal(f->signum, signals[i]);
    }
}

static void test_free_accepts_null(void **state)
{
    (void)state;
    prazo_loop_free(NULL);
}

#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(test_timers_run_in_order_and_never_early),
        LOOP_TEST(test_a_timer_in_the_past_runs_at_once),
        LOOP_TEST(test_a_turn_runs_io_then_timers_then_hooks),
        LOOP_TEST(test_one_clock_read_a_turn),
        LOOP_TEST(test_lag_is_the_longest_delay_of_a_timer),
        LOOP_TEST(test_an_idle_loop_turns_every_second),
        LOOP_TEST(test_posts_from_another_thread_run_in_order),
        LOOP_TEST(test_posts_that_never_ran_are_freed_with_the_loop),
        LOOP_TEST(test_signals_arrive_on_the_loop),
        cmocka_unit_test(test_free_accepts_null),
    };
    return cmocka_run_group_tests_name("io/loop", tests, NULL, NULL);
}
