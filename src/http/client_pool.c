/* SPDX-License-Identifier: MIT */
/* Pools of connections to a server: taking an idle one, opening a new one, giving back, retiring.
 * One writer of a connection's state, prazo__cx_set_state(). */
#include "base/assert.h"
#include "base/counter.h"
#include "base/mem.h"
#include "http/client_internal.h"

#define IDLE_GRACE_US 250000 /* an idle connection beyond idle_max is kept so long */

/* The only writer of cx->state. */
void prazo__cx_set_state(struct prazo_cx *cx, enum cx_state next)
{
    PRAZO_ASSERT(cx->state != CX_CLOSED);
    cx->state = (uint8_t)next;
}

static void free_pool_if_done(struct prazo_client_pool *pool)
{
    if (pool->is_closed && pool->in_use == 0 && pool->idle_count == 0)
        prazo_mem_free(pool);
}

static void enter_use(struct prazo_client_pool *pool)
{
    pool->in_use++;
    if (pool->options.active_gauge != NULL)
        prazo_gauge_add(pool->options.active_gauge, 1);
}

static void leave_use(struct prazo_client_pool *pool)
{
    pool->in_use--;
    if (pool->options.active_gauge != NULL)
        prazo_gauge_add(pool->options.active_gauge, -1);
}

static void leave_idle(struct prazo_cx *cx)
{
    struct prazo_client_pool *pool = cx->pool;

    prazo_list_del(&cx->node);
    pool->idle_count--;
    if (pool->options.idle_gauge != NULL)
        prazo_gauge_add(pool->options.idle_gauge, -1);
}

void prazo__cx_close(struct prazo_cx *cx)
{
    struct prazo_client *client = cx->client;
    struct prazo_client_pool *pool = cx->pool;
    bool was_idle = cx->state == CX_IDLE;

    if (was_idle) {
        leave_idle(cx);
    } else {
        prazo_list_del(&cx->node);
        leave_use(pool);
    }
    prazo__cx_set_state(cx, CX_CLOSED);
    prazo_stream_close(cx->stream, false);
    cx->stream = NULL;
    prazo_out_done(&cx->out);
    prazo_list_push_back(&client->reap, &cx->node);
    if (pool->options.on_closed != NULL)
        pool->options.on_closed(pool->options.arg);
    free_pool_if_done(pool);
}

static void wake_by(struct prazo_client_pool *pool, int64_t at_us)
{
    if (!prazo_timer_is_linked(&pool->timer) || pool->timer.at_us > at_us)
        prazo_timers_link_at(prazo_loop_timers(pool->client->loop), &pool->timer, at_us);
}

/* Back to the pool, or closed; outside of any event of this connection. */
void prazo__cx_put_back(struct prazo_cx *cx)
{
    struct prazo_client_pool *pool = cx->pool;
    int64_t now_us = prazo_loop_now_us(cx->client->loop);
    int64_t stay_us = pool->options.idle_timeout_us;

    if (cx->keep_alive_us > 0 && cx->keep_alive_us < stay_us)
        stay_us = cx->keep_alive_us;
    if (cx->state != CX_ENDED || !cx->is_keep_alive || !cx->is_request_done || cx->is_hung_up ||
        cx->out.is_broken || cx->out.pending.len > 0 || pool->is_closed ||
        pool->options.idle_max == 0) {
        prazo__cx_close(cx);
        return;
    }
    cx->owner = NULL;
    prazo_buf_done(&cx->in);
    prazo_list_del(&cx->node);
    leave_use(pool);
    prazo__cx_set_state(cx, CX_IDLE);
    cx->idle_since_us = now_us;
    cx->idle_until_us = now_us + stay_us;
    prazo_list_push_front(&pool->idle, &cx->node);
    pool->idle_count++;
    if (pool->options.idle_gauge != NULL)
        prazo_gauge_add(pool->options.idle_gauge, 1);
    wake_by(pool,
            pool->idle_count > pool->options.idle_max ? now_us + IDLE_GRACE_US : cx->idle_until_us);
    prazo__cx_watch(cx);
    if (pool->options.on_idle != NULL)
        pool->options.on_idle(pool->options.arg);
}

/* Is it time for this idle connection? Those beyond idle_max have a moment of grace, for else a
 * busy pool would close with one request what it opens with the next. */
static bool is_due(const struct prazo_client_pool *pool, const struct prazo_cx *cx, int64_t now_us)
{
    return cx->idle_until_us <= now_us || (pool->idle_count > pool->options.idle_max &&
                                           cx->idle_since_us + IDLE_GRACE_US <= now_us);
}

/* The oldest first: they are at the end. */
static void on_idle_timer(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_client_pool *pool = PRAZO_CONTAINER(timer, struct prazo_client_pool, timer);
    struct prazo_list *node = pool->idle.prev;
    int64_t next_us = PRAZO_NEVER;

    while (node != &pool->idle) {
        struct prazo_cx *cx = PRAZO_CONTAINER(node, struct prazo_cx, node);
        node = node->prev;
        if (is_due(pool, cx, now_us))
            prazo__cx_close(cx);
        else if (cx->idle_until_us < next_us)
            next_us = cx->idle_until_us;
    }
    if (pool->idle_count > pool->options.idle_max && next_us > now_us + IDLE_GRACE_US)
        next_us = now_us + IDLE_GRACE_US;
    prazo_timers_link_at(prazo_loop_timers(pool->client->loop), timer, next_us);
}

int prazo_client_pool_new(struct prazo_client *client,
                          const struct prazo_client_pool_options *options,
                          struct prazo_client_pool **ret_pool)
{
    struct prazo_client_pool *pool = prazo_mem_calloc(1, sizeof *pool);

    if (pool == NULL)
        return PRAZO_E_NOMEM;
    pool->client = client;
    pool->options = *options;
    pool->timer.cb = on_idle_timer;
    prazo_list_init(&pool->idle);
    *ret_pool = pool;
    return PRAZO_OK;
}

void prazo_client_pool_close(struct prazo_client_pool *pool)
{
    if (pool == NULL)
        return;
    prazo_timers_unlink(prazo_loop_timers(pool->client->loop), &pool->timer);
    while (prazo_client_pool_close_one(pool))
        ;
    pool->is_closed = true;
    free_pool_if_done(pool);
}

void prazo_client_pool_set_limits(struct prazo_client_pool *pool, size_t idle_max,
                                  int64_t idle_timeout_us)
{
    pool->options.idle_max = idle_max;
    pool->options.idle_timeout_us = idle_timeout_us;
}

bool prazo_client_pool_close_one(struct prazo_client_pool *pool)
{
    if (pool->idle_count == 0)
        return false;
    prazo__cx_close(PRAZO_CONTAINER(pool->idle.prev, struct prazo_cx, node));
    return true;
}

/* Everything of an exchange back to its beginning; what belongs to the connection stays. */
static void begin(struct prazo_cx *cx, void *arg)
{
    const struct prazo_client_options *o = &cx->client->options;

    cx->owner = arg;
    cx->in.max = o->head_bytes_max + 2 * PRAZO_READ_BUFFER_BYTES;
    cx->out.pending.max = o->pending_bytes_max + PRAZO_PENDING_SLACK;
    cx->scan = 0;
    cx->informational = 0;
    cx->is_head = cx->asks_upgrade = cx->is_request_done = cx->is_answering = false;
    cx->is_keep_alive = cx->is_paused = cx->is_tunnel = cx->is_hung_up = false;
    cx->out.has_sent = cx->was_answered = cx->is_released = cx->must_drain_told = false;
    cx->owes_fin = false;
}

struct prazo_cx *prazo_client_take(struct prazo_client_pool *pool, void *arg)
{
    int64_t now_us = prazo_loop_now_us(pool->client->loop);

    while (pool->idle_count > 0) {
        struct prazo_cx *cx = PRAZO_CONTAINER(pool->idle.next, struct prazo_cx, node);
        if (cx->idle_until_us <= now_us) {
            prazo__cx_close(cx);
            continue;
        }
        leave_idle(cx);
        prazo_list_push_back(&pool->client->busy, &cx->node);
        enter_use(pool);
        prazo__cx_set_state(cx, CX_READY);
        begin(cx, arg);
        cx->is_reused = true;
        return cx;
    }
    return NULL;
}

int prazo_client_connect(struct prazo_client_pool *pool, const struct prazo_addr *addr, void *arg,
                         struct prazo_cx **ret_cx)
{
    struct prazo_client *client = pool->client;
    struct prazo_cx *cx = prazo_pool_get(&client->pool);

    if (cx == NULL)
        return PRAZO_E_NOMEM;
    int err = prazo_stream_connect(client->loop, addr, prazo__cx_on_event, cx, &cx->stream);
    if (err != PRAZO_OK) {
        prazo_pool_put(&client->pool, cx);
        return err;
    }
    cx->client = client;
    cx->pool = pool;
    prazo_buf_init(&cx->in, 0);
    prazo_out_init(&cx->out, 0);
    begin(cx, arg);
    prazo_list_push_back(&client->busy, &cx->node);
    enter_use(pool);
    prazo_stream_watch(cx->stream, PRAZO_STREAM_WRITABLE | PRAZO_STREAM_HANGUP);
    *ret_cx = cx;
    return PRAZO_OK;
}
