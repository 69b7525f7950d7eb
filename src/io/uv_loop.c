/* SPDX-License-Identifier: MIT */
/* The event loop: clock, timers, calls from other threads, signals, end-of-turn hooks.
 *
 * A turn is one return from the wait for events, and runs in this order:
 *   1. I/O of the streams, posted calls and signals, as the kernel reports them
 *   2. timers that are due
 *   3. end-of-turn hooks, and the memory of closed streams
 * Timers come after I/O so that an answer that has arrived beats its own time-out when the loop is
 * late. What a hook or a timer links in the past runs in the next turn, which starts at once.
 *
 * Invariants:
 *   - The clocks are read at most once a turn, at their first use after the wait.
 *   - One uv_timer stands for the whole heap. It is armed at or before the earliest timer and at
 *     most HEARTBEAT_US ahead, and re-armed only when it has fired or an earlier timer appears: a
 *     wake-up too many is cheaper than following every timer that a request links and unlinks.
 *   - Only post and last_turn_us are touched by other threads. */
#include "io/uv_loop.h"

#include <signal.h>
#include <time.h>

#include "base/assert.h"
#include "base/mem.h"

/* An idle loop turns at least this often, so that a health check can tell idle from stuck. */
#define HEARTBEAT_US 1000000

/* More than any process may have open files (fs.nr_open is 2^20 by default). */
#define STREAMS_MAX (1u << 20)
#define STREAMS_PER_SLAB 64

static const int signal_numbers[PRAZO__LOOP_SIGNALS] = { SIGTERM, SIGINT, SIGHUP };

/* ---- clocks ---- */

int64_t prazo_clock_now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t prazo_clock_wall_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Before run() there are no turns: every call reads the clock. */
int64_t prazo_loop_now_us(struct prazo_loop *loop)
{
    if (!loop->is_now_known) {
        loop->now_us = prazo_clock_now_us();
        loop->is_now_known = loop->is_running;
    }
    return loop->now_us;
}

int64_t prazo_loop_wall_ms(struct prazo_loop *loop)
{
    if (!loop->is_wall_known) {
        loop->wall_ms = prazo_clock_wall_ms();
        loop->is_wall_known = loop->is_running;
    }
    return loop->wall_ms;
}

/* ---- one turn ---- */

static void on_timer(uv_timer_t *timer)
{
    struct prazo_loop *loop = timer->data;
    loop->armed_at_us = PRAZO_NEVER;
}

/* libuv counts milliseconds; rounded up, so that the wake-up finds its timer due. */
static void arm_timer(struct prazo_loop *loop, int64_t wake_at_us)
{
    int64_t now_us = prazo_clock_now_us();
    int64_t at_us = now_us + HEARTBEAT_US;
    if (wake_at_us < at_us)
        at_us = wake_at_us;
    uint64_t wait_ms = at_us > now_us ? (uint64_t)(at_us - now_us + 999) / 1000 : 0;
    uv_timer_start(&loop->timer, on_timer, wait_ms, 0);
    loop->armed_at_us = at_us;
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct prazo_loop *loop = prepare->data;
    int64_t wake_at_us = prazo_timers_wake_at(&loop->timers);
    if (loop->armed_at_us == PRAZO_NEVER || wake_at_us < loop->armed_at_us)
        arm_timer(loop, wake_at_us);
    loop->is_now_known = false;
    loop->is_wall_known = false;
}

static void run_timers(struct prazo_loop *loop, int64_t now_us)
{
    int64_t due_at_us = prazo_timers_wake_at(&loop->timers);
    if (due_at_us > now_us)
        return;
    /* A timer linked in the past could not run before the turn that linked it. */
    int64_t last_turn_us = prazo_loop_last_turn_us(loop);
    int64_t lag_us = now_us - (due_at_us > last_turn_us ? due_at_us : last_turn_us);
    if (lag_us > loop->lag_us)
        loop->lag_us = lag_us;
    prazo_timers_expire(&loop->timers, now_us);
}

static void on_check(uv_check_t *check)
{
    struct prazo_loop *loop = check->data;
    int64_t now_us = prazo_loop_now_us(loop);
    run_timers(loop, now_us);
    __atomic_store_n(&loop->last_turn_us, now_us, __ATOMIC_RELAXED);
    for (size_t i = 0; i < loop->hook_count; i++)
        loop->hooks[i].cb(loop->hooks[i].arg);
}

/* ---- calls from other threads ---- */

static void append_post(struct prazo_loop *loop, struct prazo_post *post)
{
    pthread_mutex_lock(&loop->post_mutex);
    *loop->post_end = post;
    loop->post_end = &post->next;
    pthread_mutex_unlock(&loop->post_mutex);
    uv_async_send(&loop->async);
}

int prazo_loop_post(struct prazo_loop *loop, prazo_loop_cb cb, void *arg)
{
    struct prazo_post *post = prazo_mem_alloc(sizeof(*post));
    if (!post)
        return PRAZO_E_NOMEM;
    *post = (struct prazo_post){ NULL, cb, arg, true };
    append_post(loop, post);
    return PRAZO_OK;
}

void prazo_loop_post_in(struct prazo_loop *loop, struct prazo_post *post, prazo_loop_cb cb,
                        void *arg)
{
    *post = (struct prazo_post){ NULL, cb, arg, false };
    append_post(loop, post);
}

static struct prazo_post *take_posts(struct prazo_loop *loop)
{
    pthread_mutex_lock(&loop->post_mutex);
    struct prazo_post *first = loop->post_first;
    loop->post_first = NULL;
    loop->post_end = &loop->post_first;
    pthread_mutex_unlock(&loop->post_mutex);
    return first;
}

/* Only what is there now: a call that posts again waits for the next turn. */
static void on_async(uv_async_t *async)
{
    struct prazo_post *post = take_posts(async->data);
    while (post) {
        struct prazo_post *next = post->next;
        bool is_loops = post->is_loops;
        post->cb(post->arg); /* its owner may use or free it again from here on */
        if (is_loops)
            prazo_mem_free(post);
        post = next;
    }
}

/* ---- signals ---- */

static void on_signal(uv_signal_t *handle, int signum)
{
    struct prazo_loop *loop = handle->data;
    loop->signal_cb(loop->signal_arg, signum);
}

int prazo_loop_on_signals(struct prazo_loop *loop, prazo_signal_cb cb, void *arg)
{
    PRAZO_ASSERT(!loop->has_signals);
    loop->has_signals = true;
    loop->signal_cb = cb;
    loop->signal_arg = arg;
    for (size_t i = 0; i < PRAZO__LOOP_SIGNALS; i++) {
        uv_signal_init(&loop->uv, &loop->signals[i]);
        loop->signals[i].data = loop;
    }
    for (size_t i = 0; i < PRAZO__LOOP_SIGNALS; i++) {
        if (uv_signal_start(&loop->signals[i], on_signal, signal_numbers[i]) != 0)
            return PRAZO_E_IO;
    }
    return PRAZO_OK;
}

/* ---- life of a loop ---- */

static void init_handles(struct prazo_loop *loop)
{
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_check_init(&loop->uv, &loop->check);
    uv_timer_init(&loop->uv, &loop->timer);
    loop->prepare.data = loop->check.data = loop->timer.data = loop->async.data = loop;
    uv_prepare_start(&loop->prepare, on_prepare);
    uv_check_start(&loop->check, on_check);
}

static int uv_open(struct prazo_loop *loop)
{
    int err = uv_loop_init(&loop->uv);
    if (err != 0)
        return err;
    err = uv_async_init(&loop->uv, &loop->async, on_async);
    if (err != 0)
        uv_loop_close(&loop->uv);
    return err;
}

int prazo_loop_new(struct prazo_loop **ret_loop)
{
    struct prazo_loop *loop = prazo_mem_calloc(1, sizeof(*loop));
    if (!loop)
        return PRAZO_E_NOMEM;
    int err = uv_open(loop);
    if (err != 0) {
        prazo_mem_free(loop);
        return err == UV_EMFILE || err == UV_ENFILE ? PRAZO_E_NO_FDS
               : err == UV_ENOMEM                   ? PRAZO_E_NOMEM
                                                    : PRAZO_E_IO;
    }
    /* writev(2) cannot be told not to raise it, and a peer that went away is an ordinary result. */
    signal(SIGPIPE, SIG_IGN);
    init_handles(loop);
    prazo_timers_init(&loop->timers);
    loop->armed_at_us = PRAZO_NEVER;
    loop->last_turn_us = prazo_clock_now_us();
    pthread_mutex_init(&loop->post_mutex, NULL);
    loop->post_end = &loop->post_first;
    prazo_list_init(&loop->streams);
    prazo_pool_init(&loop->stream_pool, prazo__stream_bytes, STREAMS_PER_SLAB, STREAMS_MAX);
    *ret_loop = loop;
    return PRAZO_OK;
}

void prazo_loop_run(struct prazo_loop *loop)
{
    loop->is_running = true;
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    loop->is_running = false;
    loop->is_now_known = false;
    loop->is_wall_known = false;
}

void prazo_loop_stop(struct prazo_loop *loop)
{
    uv_stop(&loop->uv);
}

static void close_handles(struct prazo_loop *loop)
{
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->async, NULL);
    for (size_t i = 0; loop->has_signals && i < PRAZO__LOOP_SIGNALS; i++)
        uv_close((uv_handle_t *)&loop->signals[i], NULL);
}

/* Posted calls that have not run are dropped. */
void prazo_loop_free(struct prazo_loop *loop)
{
    if (!loop)
        return;
    PRAZO_ASSERT(!loop->is_running);
    while (!prazo_list_is_empty(&loop->streams))
        prazo_stream_close(prazo__stream_of(loop->streams.next), false);
    close_handles(loop);
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0)
        ; /* a stop() that no run() has obeyed ends the first one at once */
    int err = uv_loop_close(&loop->uv);
    PRAZO_ASSERT(err == 0);
    for (struct prazo_post *post = take_posts(loop); post;) {
        struct prazo_post *next = post->next;
        if (post->is_loops)
            prazo_mem_free(post);
        post = next;
    }
    pthread_mutex_destroy(&loop->post_mutex);
    prazo_timers_done(&loop->timers);
    prazo_pool_done(&loop->stream_pool);
    prazo_mem_free(loop);
}

/* ---- small accessors ---- */

struct prazo_timers *prazo_loop_timers(struct prazo_loop *loop)
{
    return &loop->timers;
}

char *prazo_loop_read_buffer(struct prazo_loop *loop)
{
    return loop->read_buffer;
}

void prazo_loop_on_turn_end(struct prazo_loop *loop, prazo_loop_cb cb, void *arg)
{
    PRAZO_ASSERT(loop->hook_count < PRAZO__LOOP_HOOKS_MAX);
    loop->hooks[loop->hook_count++] = (struct prazo__hook){ cb, arg };
}

int64_t prazo_loop_last_turn_us(const struct prazo_loop *loop)
{
    return __atomic_load_n(&loop->last_turn_us, __ATOMIC_RELAXED);
}

int64_t prazo_loop_take_lag_us(struct prazo_loop *loop)
{
    int64_t lag_us = loop->lag_us;
    loop->lag_us = 0;
    return lag_us;
}
