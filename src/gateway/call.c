/* SPDX-License-Identifier: MIT */
/* Life of one request: from its head to the one place where it ends. See call.h for the states.
 *
 *   on_request → read_request (deadline, route) → build_request → attempt → on_connected
 *     → on_head → on_body* → on_end → finish
 *
 * An event of the client's exchange comes in by the sx ops below, one of the attempt by
 * prazo_call_on_*(). Nothing here knows a protocol. */
#include "gateway/call.h"

#include "base/assert.h"
#include "gateway/attempt.h"
#include "prazo/deadline.h"

static void on_timer(struct prazo_timer *timer, int64_t now_us);

#define TO(s) (1u << (s))
static const unsigned may_go[CALL_STATE_COUNT] = {
    [CALL_QUEUED] = TO(CALL_CONNECTING) | TO(CALL_SENT) | TO(CALL_DONE),
    [CALL_CONNECTING] = TO(CALL_QUEUED) | TO(CALL_SENT) | TO(CALL_DONE),
    /* back to CONNECTING: a stale connection is replaced */
    [CALL_SENT] = TO(CALL_CONNECTING) | TO(CALL_QUEUED) | TO(CALL_STREAMING) | TO(CALL_DONE),
    [CALL_STREAMING] = TO(CALL_DONE),
};

/* The only writer of call->state. */
static void set_state(struct prazo_call *call, enum prazo_call_state next)
{
    PRAZO_ASSERT(may_go[call->state] & TO(next));
    call->state = next;
}

static struct prazo_upstream_stats *upstream_stats(const struct prazo_call *call)
{
    return prazo_upstream_stats_of(call->worker, call->upstream);
}

static int64_t now_of(const struct prazo_call *call)
{
    return prazo_loop_now_us(call->worker->loop);
}

static void arm(struct prazo_call *call, int64_t at_us)
{
    prazo_timers_link_at(prazo_loop_timers(call->worker->loop), &call->timer, at_us);
}

/* ---- the end ---- */

static enum prazo_stat_code code_of(const struct prazo_call *call)
{
    if (call->status < 100)
        return PRAZO_STAT_CODE_GONE;
    int class = call->status / 100;
    return (enum prazo_stat_code)(PRAZO_STAT_CODE_1XX + (class > 5 ? 5 : class) - 1);
}

static enum prazo_stat_result result_of(const struct prazo_call *call)
{
    if (call->is_abandoned)
        return PRAZO_STAT_RESULT_ABANDONED;
    if (call->problem == PRAZO_PROBLEM_DEADLINE_EXCEEDED)
        return PRAZO_STAT_RESULT_EXPIRED;
    if (call->problem == PRAZO_PROBLEM_OVERLOADED || call->problem == PRAZO_PROBLEM_DRAINING)
        return PRAZO_STAT_RESULT_SHED;
    if (call->status >= 500 || call->problem != PRAZO_PROBLEM_NONE || call->cause != NULL)
        return PRAZO_STAT_RESULT_ERROR;
    return PRAZO_STAT_RESULT_OK;
}

static void count(struct prazo_call *call, int64_t now_us)
{
    struct prazo_route_stats *stats = call->series->thread[call->worker->index];

    prazo_counter_inc(&stats->requests[call->is_abandoned ? PRAZO_STAT_CODE_GONE : code_of(call)]);
    prazo_histogram_observe(&stats->seconds[result_of(call)], now_us - call->began_us);
}

void prazo_call_settle(struct prazo_call *call, const char *cause)
{
    int64_t now_us = now_of(call);

    if (call->is_settled)
        return;
    call->is_settled = true;
    if (call->cause == NULL)
        call->cause = cause;
    count(call, now_us);
    prazo_call_log(call, now_us);
}

static void free_call(struct prazo_call *call)
{
    struct prazo_worker *w = call->worker;

    prazo_list_del(&call->node);
    prazo_worker_view_release(call->view);
    prazo_pool_put(&w->calls, call);
}

void prazo_calls_free_leaving(struct prazo_worker *w)
{
    while (!prazo_list_is_empty(&w->leaving))
        free_call(PRAZO_CONTAINER(w->leaving.next, struct prazo_call, node));
}

/* Leaves the queue. False: a grant is on its way and will free the call. */
static bool leave_queue(struct prazo_call *call, int64_t now_us)
{
    struct prazo_upstream_stats *stats = upstream_stats(call);

    prazo_gauge_add(&stats->queue_depth, -1);
    prazo_histogram_observe(&stats->queue_seconds, now_us - call->queued_us);
    return prazo_upstream_leave(call->upstream, &call->waiter);
}

void prazo_call_finish(struct prazo_call *call, const char *cause)
{
    struct prazo_worker *w = call->worker;
    bool has_left = true;

    if (call->state == CALL_QUEUED && call->is_waiting)
        has_left = leave_queue(call, now_of(call));
    PRAZO_ASSERT(call->attempt == NULL);
    prazo_call_settle(call, cause);
    set_state(call, CALL_DONE);
    prazo_timers_unlink(prazo_loop_timers(w->loop), &call->timer);
    prazo_list_del(&call->node);
    prazo_worker_buf_give(w, &call->kept);
    prazo_arena_reset(&call->arena);
    call->has_left = has_left;
    if (!has_left)
        prazo_list_push_back(&w->leaving, &call->node);
    if (call->is_pooled && has_left && !call->is_starting)
        free_call(call);
}

/* Ends the attempt, as the route or else the upstream says. */
static void drop_attempt(struct prazo_call *call, enum prazo_stat_cause cause)
{
    struct prazo_attempt *attempt = call->attempt;
    enum prazo_abandon how =
        call->route->has_on_abandon ? call->route->on_abandon : call->upstream_config->on_abandon;

    call->attempt = NULL;
    if (attempt == NULL)
        return;
    if (how == PRAZO_ABANDON_FINISH && !call->is_body_complete)
        how = PRAZO_ABANDON_CLOSE; /* half a request can not be finished */
    prazo_attempt_abandon(attempt, how, (int)cause);
}

/* Ends a call whose client is there, with an answer if none has begun, else with a visible cut. */
static void end_with(struct prazo_call *call, enum prazo_problem problem, const char *reason,
                     const char *detail)
{
    if (call->state == CALL_STREAMING) {
        struct prazo_sx *sx = call->sx;
        call->sx = NULL;
        prazo_sx_abort(sx);
        prazo_call_finish(call, call->cause != NULL ? call->cause : prazo_problem_name(problem));
    } else {
        prazo_call_answer_problem(call, problem, reason, detail);
    }
}

static enum prazo_stat_gone gone_state(const struct prazo_call *call)
{
    static const enum prazo_stat_gone names[CALL_STATE_COUNT] = {
        [CALL_QUEUED] = PRAZO_STAT_GONE_QUEUED,
        [CALL_CONNECTING] = PRAZO_STAT_GONE_CONNECTING,
        [CALL_SENT] = PRAZO_STAT_GONE_SENT,
        [CALL_STREAMING] = PRAZO_STAT_GONE_STREAMING,
    };
    return names[call->state];
}

/* The client has left before its answer was complete. */
static void abandon(struct prazo_call *call)
{
    struct prazo_sx *sx = call->sx;
    struct prazo_route_stats *stats = call->series->thread[call->worker->index];

    prazo_counter_inc(&stats->client_gone[gone_state(call)]);
    if (call->state == CALL_QUEUED)
        prazo_counter_inc(&upstream_stats(call)->queue_dropped[PRAZO_STAT_DROP_ABANDONED]);
    call->is_abandoned = true;
    drop_attempt(call, PRAZO_STAT_CAUSE_CLIENT_GONE);
    call->sx = NULL;
    prazo_sx_abort(sx);
    prazo_call_finish(call, "client-gone");
}

static void expire(struct prazo_call *call)
{
    if (call->state == CALL_QUEUED)
        prazo_counter_inc(&upstream_stats(call)->queue_dropped[PRAZO_STAT_DROP_EXPIRED]);
    drop_attempt(call, PRAZO_STAT_CAUSE_DEADLINE);
    call->problem = PRAZO_PROBLEM_DEADLINE_EXCEEDED;
    end_with(call, PRAZO_PROBLEM_DEADLINE_EXCEEDED, NULL, NULL);
}

/* ---- time ---- */

/* When a stream has to be looked at next. */
static int64_t stream_due(const struct prazo_call *call)
{
    int64_t idle_at = call->active_us + call->route->stream_idle_us;

    return idle_at < call->stream_end_us ? idle_at : call->stream_end_us;
}

static void on_timer(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_call *call = PRAZO_CONTAINER(timer, struct prazo_call, timer);

    if (call->stream_end_us == 0) {
        expire(call);
        return;
    }
    if (stream_due(call) > now_us) {
        arm(call, stream_due(call));
        return;
    }
    call->cause = now_us >= call->stream_end_us ? "stream-max" : "stream-idle";
    drop_attempt(call, PRAZO_STAT_CAUSE_DEADLINE);
    end_with(call, PRAZO_PROBLEM_DEADLINE_EXCEEDED, NULL, NULL);
}

/* The answer has begun: which clock holds from here on? */
static void start_streaming(struct prazo_call *call, bool is_stream)
{
    int64_t now_us = now_of(call);

    set_state(call, CALL_STREAMING);
    call->active_us = now_us;
    if (is_stream || call->route->covers_head) {
        call->stream_end_us = prazo_instant_add(now_us, call->route->stream_max_us);
        arm(call, stream_due(call));
    } else {
        arm(call, call->deadline_us);
    }
}

/* ---- the attempt's side ---- */

void prazo_call_on_connecting(struct prazo_call *call)
{
    if (call->state != CALL_CONNECTING)
        set_state(call, CALL_CONNECTING);
}

static void send_kept(struct prazo_call *call)
{
    prazo_attempt_send_body(call->attempt, call->kept.base, call->kept.len);
    if (call->is_body_complete)
        prazo_attempt_send_end(call->attempt, call->trailers, call->trailer_count);
    if (!call->is_starting) /* else the body that came with the head goes out with it */
        prazo_attempt_flush(call->attempt);
    if (!call->is_kept)
        prazo_worker_buf_give(call->worker, &call->kept);
}

void prazo_call_on_connected(struct prazo_call *call)
{
    set_state(call, CALL_SENT);
    call->had_attempt = true;
    send_kept(call);
    if (call->is_paused && prazo_attempt_pending(call->attempt) == 0) {
        call->is_paused = false;
        prazo_sx_resume(call->sx);
    }
}

static bool is_event_stream(const struct prazo_head *head)
{
    const struct prazo_header *h = prazo_head_get(head, PRAZO_HDR_CONTENT_TYPE);

    return h != NULL && h->value.len >= 17 &&
           prazo_str_eq_nocase(prazo_str_n(h->value.base, 17), PRAZO_STR("text/event-stream"));
}

void prazo_call_on_head(struct prazo_call *call, const struct prazo_head *head)
{
    if (head->status != 101) {
        if (prazo_call_send_head(call, head)) {
            start_streaming(call, is_event_stream(head));
            return;
        }
    } else if (prazo_call_send_informational(call, head)) {
        call->status = 101;
        call->is_tunnel = true;
        start_streaming(call, true);
        prazo_sx_switch(call->sx);
        return;
    }
    drop_attempt(call, PRAZO_STAT_CAUSE_DEADLINE);
    call->status = 0;
    end_with(call, PRAZO_PROBLEM_INTERNAL, NULL, NULL);
}

void prazo_call_on_body(struct prazo_call *call, const char *data, size_t len)
{
    call->bytes_sent += (int64_t)len;
    call->active_us = now_of(call);
    prazo_sx_send_body(call->sx, data, len);
}

void prazo_call_on_read_done(struct prazo_call *call)
{
    int64_t max = call->view->snapshot->config->limit_answer_buffer;

    prazo_sx_flush(call->sx);
    if ((int64_t)prazo_sx_pending(call->sx) > max)
        prazo_attempt_pause(call->attempt);
}

void prazo_call_on_end(struct prazo_call *call, const struct prazo_header *trailers, size_t n)
{
    struct prazo_sx *sx = call->sx;

    call->attempt = NULL;
    call->sx = NULL;
    prazo_call_settle(call, NULL);
    prazo_sx_send_end(sx, trailers, n);
    prazo_sx_flush(sx); /* trailers are borrowed: out before anything else is read */
    prazo_call_finish(call, NULL);
    prazo_sx_finish(sx);
}

void prazo_call_on_attempt_failed(struct prazo_call *call, enum prazo_problem problem)
{
    call->attempt = NULL;
    if (call->is_tunnel) { /* nothing to tell but the end */
        struct prazo_sx *sx = call->sx;
        call->sx = NULL;
        prazo_sx_abort(sx);
        prazo_call_finish(call, "upstream-reset");
        return;
    }
    end_with(call, problem, NULL, NULL);
}

/* ---- waiting for a connection ---- */

static void on_grant(void *arg)
{
    struct prazo_call *call = arg;
    struct prazo_upstream *upstream = call->upstream;

    prazo_upstream_arrived(upstream);
    if (call->state == CALL_DONE) {
        prazo_upstream_wake_next(upstream);
        free_call(call);
        return;
    }
    int64_t now_us = now_of(call);
    prazo_gauge_add(&upstream_stats(call)->queue_depth, -1);
    prazo_histogram_observe(&upstream_stats(call)->queue_seconds, now_us - call->queued_us);
    call->is_waiting = false;
    call->was_granted = true;
    prazo_attempt_start(call, PRAZO_STAT_KIND_FIRST, NULL, true);
    prazo_upstream_pass_on(upstream); /* an idle connection did, or the call has ended */
}

void prazo_call_wait_for_slot(struct prazo_call *call)
{
    call->attempt = NULL;
    if (call->state != CALL_QUEUED)
        set_state(call, CALL_QUEUED);
    call->was_granted = false;
    call->waiter =
        (struct prazo_waiter){ .loop = call->worker->loop, .on_grant = on_grant, .arg = call };
    call->queued_us = now_of(call);
    if (!prazo_upstream_wait(call->upstream, &call->waiter, call->down_us)) {
        prazo_counter_inc(&upstream_stats(call)->shed[PRAZO_STAT_SHED_QUEUE_FULL]);
        end_with(call, PRAZO_PROBLEM_OVERLOADED, "queue-full",
                 "Too many requests wait for a connection already.");
        return;
    }
    call->is_waiting = true;
    prazo_gauge_add(&upstream_stats(call)->queue_depth, 1);
    prazo_worker_ask_idle(call->worker, call->upstream);
}

/* ---- the client's side ---- */

static bool accepts_upgrade(const struct prazo_call *call, const struct prazo_head *head)
{
    if (!head->has_upgrade)
        return false;
    for (size_t i = 0; i < call->route->upgrade_count; i++) {
        if (prazo_str_eq_nocase(head->upgrade, prazo_str_z(call->route->upgrades[i])))
            return true;
    }
    return false;
}

static struct prazo_call *new_call(struct prazo_worker *w, struct prazo_sx *sx)
{
    struct prazo_call *call = prazo_pool_get(&w->calls);

    if (call == NULL)
        return NULL;
    call->worker = w;
    call->view = w->view;
    call->view->calls++;
    call->sx = sx;
    call->is_pooled = true;
    call->series = prazo_worker_unmatched(w);
    call->began_us = prazo_sx_began_us(sx);
    call->arrived_us = prazo_loop_now_us(w->loop);
    call->timer.cb = on_timer;
    call->state = CALL_QUEUED;
    size_t head_max = (size_t)w->view->snapshot->config->limit_headers;
    prazo_arena_init(&call->arena, &w->arenas, 2 * PRAZO_HEAD_ARENA_BYTES(head_max));
    prazo_list_push_back(&w->active, &call->node);
    return call;
}

static void *on_request(void *arg, struct prazo_sx *sx, const struct prazo_head *head)
{
    struct prazo_worker *w = arg;
    struct prazo_call *call = new_call(w, sx);
    const char *detail = NULL;

    if (call == NULL) {
        prazo_answer_bad_request(w, sx, PRAZO_PROBLEM_INTERNAL);
        return NULL;
    }
    enum prazo_problem problem = prazo_call_read_request(call, head, &detail);
    if (problem != PRAZO_PROBLEM_NONE) {
        prazo_call_answer_problem(call, problem, NULL, detail);
        return NULL;
    }
    if (call->route == NULL) {
        prazo_call_answer_options(call);
        return NULL;
    }
    if (!prazo_call_build_request(call, head)) {
        prazo_call_answer_problem(call, PRAZO_PROBLEM_INTERNAL, NULL, NULL);
        return NULL;
    }
    if (accepts_upgrade(call, head)) {
        call->upgrade = prazo_arena_dup(&call->arena, head->upgrade);
        if (call->upgrade.base == NULL) {
            prazo_call_answer_problem(call, PRAZO_PROBLEM_INTERNAL, NULL, NULL);
            return NULL;
        }
    }
    call->is_kept = true;
    if (call->body != PRAZO_BODY_NONE)
        prazo_worker_buf_take(w, &call->kept,
                              (size_t)call->view->snapshot->config->limit_replay_body +
                                  2 * PRAZO_READ_BUFFER_BYTES);
    arm(call, call->down_us);
    call->is_starting = true;
    prazo_attempt_start(call, PRAZO_STAT_KIND_FIRST, NULL, true);
    call->is_starting = false;
    if (call->state != CALL_DONE)
        return call;
    if (call->has_left)
        free_call(call);
    return NULL;
}

static void on_body(void *arg, struct prazo_sx *sx, const char *data, size_t len)
{
    struct prazo_call *call = arg;
    int64_t max = call->view->snapshot->config->limit_replay_body;
    bool is_sending = call->attempt != NULL && prazo_attempt_is_sending(call->attempt);

    call->active_us = now_of(call);
    if (is_sending)
        prazo_attempt_send_body(call->attempt, data, len);
    if (call->is_tunnel || (is_sending && !call->is_kept))
        return;
    if (call->is_kept && (int64_t)(call->kept.len + len) > max) {
        call->is_kept = false; /* too large to be sent twice */
        if (is_sending) {
            prazo_worker_buf_give(call->worker, &call->kept);
            return;
        }
    }
    if (prazo_buf_add(&call->kept, data, len) != PRAZO_OK) {
        drop_attempt(call, PRAZO_STAT_CAUSE_CLIENT_GONE);
        end_with(call, PRAZO_PROBLEM_INTERNAL, NULL, NULL);
        return;
    }
    if (!is_sending && (int64_t)call->kept.len > max) {
        call->is_paused = true;
        prazo_sx_pause(sx);
    }
}

static bool keep_trailers(struct prazo_call *call, const struct prazo_header *trailers, size_t n)
{
    struct prazo_header *copy = prazo_arena_alloc(&call->arena, n * sizeof *copy);

    for (size_t i = 0; i < n && copy != NULL; i++) {
        copy[i] = trailers[i];
        copy[i].name = prazo_arena_dup(&call->arena, trailers[i].name);
        copy[i].value = prazo_arena_dup(&call->arena, trailers[i].value);
        if (copy[i].name.base == NULL || copy[i].value.base == NULL)
            return false;
    }
    call->trailers = copy;
    call->trailer_count = copy != NULL ? n : 0;
    return copy != NULL;
}

static void on_body_end(void *arg, struct prazo_sx *sx, const struct prazo_header *trailers,
                        size_t n)
{
    struct prazo_call *call = arg;

    (void)sx;
    call->is_body_complete = true;
    if (n > 0 && !keep_trailers(call, trailers, n)) {
        drop_attempt(call, PRAZO_STAT_CAUSE_CLIENT_GONE);
        end_with(call, PRAZO_PROBLEM_INTERNAL, NULL, NULL);
        return;
    }
    if (call->attempt != NULL && prazo_attempt_is_sending(call->attempt))
        prazo_attempt_send_end(call->attempt, call->trailers, call->trailer_count);
}

static void on_gone(void *arg, struct prazo_sx *sx, enum prazo_gone why)
{
    struct prazo_call *call = arg;

    (void)sx;
    switch (why) {
    case PRAZO_GONE_FIN:
    case PRAZO_GONE_RESET:
        abandon(call);
        break;
    case PRAZO_GONE_BAD_BODY:
    case PRAZO_GONE_BODY_TOO_LARGE:
        drop_attempt(call, PRAZO_STAT_CAUSE_CLIENT_GONE);
        end_with(call,
                 why == PRAZO_GONE_BAD_BODY ? PRAZO_PROBLEM_BAD_REQUEST
                                            : PRAZO_PROBLEM_BODY_TOO_LARGE,
                 NULL, NULL);
        break;
    }
}

static void on_read_done(void *arg, struct prazo_sx *sx)
{
    struct prazo_call *call = arg;

    if (call->attempt == NULL)
        return;
    prazo_attempt_flush(call->attempt);
    if (!call->is_paused && prazo_attempt_pending(call->attempt) > 0) {
        call->is_paused = true;
        prazo_sx_pause(sx);
    }
}

void prazo_call_on_upstream_drained(struct prazo_call *call)
{
    if (call->is_paused) {
        call->is_paused = false;
        prazo_sx_resume(call->sx);
    }
}

static void on_drained(void *arg, struct prazo_sx *sx)
{
    struct prazo_call *call = arg;

    (void)sx;
    if (call->attempt != NULL)
        prazo_attempt_resume(call->attempt);
}

static void on_head_abandoned(void *arg)
{
    struct prazo_worker *w = arg;
    struct prazo_route_stats *stats = prazo_worker_unmatched(w)->thread[w->index];

    prazo_counter_inc(&stats->client_gone[PRAZO_STAT_GONE_READING]);
}

const struct prazo_sx_ops prazo_call_sx_ops = {
    .on_request = on_request,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_gone = on_gone,
    .on_read_done = on_read_done,
    .on_drained = on_drained,
    .on_head_abandoned = on_head_abandoned,
    .on_bad_request = prazo_answer_bad_request,
};

void prazo_calls_cut_all(struct prazo_worker *w)
{
    while (!prazo_list_is_empty(&w->active)) {
        struct prazo_call *call = PRAZO_CONTAINER(w->active.next, struct prazo_call, node);
        struct prazo_sx *sx = call->sx;
        drop_attempt(call, PRAZO_STAT_CAUSE_SHUTDOWN);
        if (call->state == CALL_STREAMING) {
            call->sx = NULL;
            prazo_sx_abort(sx);
            prazo_call_finish(call, "shutdown");
        } else {
            prazo_counter_inc(&upstream_stats(call)->shed[PRAZO_STAT_SHED_DRAINING]);
            prazo_call_answer_problem(call, PRAZO_PROBLEM_DRAINING, NULL, NULL);
        }
    }
}
