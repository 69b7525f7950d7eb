/* SPDX-License-Identifier: MIT */
/* The inside of a loop, for uv_loop.c and uv_stream.c only. */
#ifndef PRAZO_IO_UV_LOOP_H
#define PRAZO_IO_UV_LOOP_H

#include <pthread.h>

#include <uv.h>

#include "base/list.h"
#include "base/pool.h"
#include "io/io.h"

#define PRAZO__LOOP_HOOKS_MAX 4
#define PRAZO__LOOP_SIGNALS 3

struct prazo__hook {
    prazo_loop_cb cb;
    void *arg;
};

struct prazo_loop {
    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t timer;
    uv_async_t async;
    uv_signal_t signals[PRAZO__LOOP_SIGNALS];
    bool has_signals;
    bool is_running;
    bool is_now_known, is_wall_known; /* read in this turn already */
    int64_t now_us, wall_ms;

    struct prazo_timers timers;
    int64_t armed_at_us;  /* when `timer` fires; PRAZO_NEVER: not armed */
    int64_t last_turn_us; /* atomic */
    int64_t lag_us;

    struct prazo__hook hooks[PRAZO__LOOP_HOOKS_MAX];
    size_t hook_count;
    prazo_signal_cb signal_cb;
    void *signal_arg;

    pthread_mutex_t post_mutex; /* guards the two below; everything else is the thread's own */
    struct prazo_post *post_first;
    struct prazo_post **post_end;

    struct prazo_list streams; /* open ones */
    struct prazo_pool stream_pool;

    char read_buffer[PRAZO_READ_BUFFER_BYTES];
};

/* Bytes of one struct prazo_stream, for the pool. */
extern const size_t prazo__stream_bytes;
/* The stream whose node in loop->streams this is. */
struct prazo_stream *prazo__stream_of(struct prazo_list *node);

#endif
