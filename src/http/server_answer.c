/* SPDX-License-Identifier: MIT */
/* What the owner of a server exchange may ask and do: the answer, from head to end. */
#include <time.h>

#include "base/assert.h"
#include "http/head_out.h"
#include "http/server_internal.h"

/* ---- what the owner may ask ---- */

const char *prazo_sx_refusal(const struct prazo_sx *sx)
{
    return sx->refusal;
}

struct prazo_str prazo_sx_peer_ip(const struct prazo_sx *sx)
{
    return prazo_str_n(sx->peer_ip, sx->peer_ip_len);
}

bool prazo_sx_is_trusted(const struct prazo_sx *sx)
{
    return sx->is_trusted;
}

void *prazo_sx_listener_arg(const struct prazo_sx *sx)
{
    return sx->listener->options.listener_arg;
}

int64_t prazo_sx_began_us(const struct prazo_sx *sx)
{
    return sx->began_us;
}

int64_t prazo_sx_waited_us(const struct prazo_sx *sx)
{
    return prazo_stream_idle_us(sx->stream);
}

size_t prazo_sx_pending(const struct prazo_sx *sx)
{
    return sx->out.pending.len;
}

bool prazo_sx_is_body_complete(const struct prazo_sx *sx)
{
    return sx->body_done;
}

void prazo_sx_pause(struct prazo_sx *sx)
{
    sx->is_paused = true;
    if (!sx->in_event)
        prazo__sx_watch(sx);
}

void prazo_sx_resume(struct prazo_sx *sx)
{
    if (!sx->is_paused)
        return;
    sx->is_paused = false;
    if (!sx->in_event)
        prazo__sx_go_on(sx);
}

void prazo_sx_close_after(struct prazo_sx *sx)
{
    sx->is_keep_alive = false;
}

/* ---- answering ---- */

int prazo_sx_send_informational(struct prazo_sx *sx, int status, struct prazo_head_out *headers)
{
    if (sx->minor == 0)
        return PRAZO_OK;
    if (status == 101)
        prazo_head_out_add(headers, PRAZO_STR("connection"), PRAZO_STR("upgrade"));
    prazo_head_out_raw(headers, "\r\n", 2);
    struct prazo_str head = prazo__head_out_answer(headers, status, (struct prazo_str){ NULL, 0 });
    if (head.base == NULL)
        return PRAZO_E_NOMEM;
    prazo_out_add(&sx->out, sx->stream, head.base, head.len);
    return PRAZO_OK;
}

static void add_length(struct prazo_head_out *headers, int64_t length)
{
    char digits[20];

    prazo_head_out_add(headers, PRAZO_STR("content-length"),
                       prazo_str_n(digits, prazo_format_i64(digits, length)));
}

/* Decides how the body is framed for this client and says so. */
static void frame_answer(struct prazo_sx *sx, struct prazo_head_out *headers, int64_t length,
                         bool has_body)
{
    if (!has_body || sx->is_head) {
        sx->answer = ANSWER_NO_BODY;
        if (length >= 0)
            add_length(headers, length);
    } else if (length >= 0) {
        sx->answer = ANSWER_LENGTH;
        add_length(headers, length);
    } else if (sx->minor == 1) {
        sx->answer = ANSWER_CHUNKED;
        prazo_head_out_raw(headers, "transfer-encoding: chunked\r\n", 28);
    } else {
        sx->answer = ANSWER_TO_EOF;
        sx->is_keep_alive = false;
    }
}

int prazo_sx_send_head(struct prazo_sx *sx, int status, struct prazo_str reason,
                       struct prazo_head_out *headers, int64_t length, bool has_body)
{
    frame_answer(sx, headers, length, has_body);
    /* an answer that comes before the request's end ends the upload, so the client is told */
    if (sx->server->is_draining || !prazo_h1_body_eof(&sx->body))
        sx->is_keep_alive = false;
    if (!sx->is_keep_alive)
        prazo_head_out_raw(headers, "connection: close\r\n\r\n", 21);
    else if (sx->minor == 0)
        prazo_head_out_raw(headers, "connection: keep-alive\r\n\r\n", 26);
    else
        prazo_head_out_raw(headers, "\r\n", 2);
    struct prazo_str head = prazo__head_out_answer(headers, status, reason);
    if (head.base == NULL) {
        sx->out.is_broken = true;
        return PRAZO_E_NOMEM;
    }
    prazo_out_add(&sx->out, sx->stream, head.base, head.len);
    return PRAZO_OK;
}

void prazo_sx_send_body(struct prazo_sx *sx, const char *data, size_t len)
{
    if (len == 0 || (sx->answer == ANSWER_NO_BODY && !sx->is_tunnel))
        return;
    if (sx->answer == ANSWER_CHUNKED)
        prazo_out_add_chunk(&sx->out, sx->stream, data, len);
    else
        prazo_out_add(&sx->out, sx->stream, data, len);
}

void prazo_sx_send_end(struct prazo_sx *sx, const struct prazo_header *trailers, size_t count)
{
    if (sx->is_tunnel) {
        (void)prazo_out_flush(&sx->out, sx->stream);
        if (sx->out.pending.len == 0 && !sx->out.is_broken)
            prazo_stream_shutdown(sx->stream);
        else
            sx->owes_fin = true;
    } else if (sx->answer == ANSWER_CHUNKED) {
        prazo_out_add_last_chunk(&sx->out, sx->stream, trailers, sx->wants_trailers ? count : 0);
    }
}

void prazo_sx_flush(struct prazo_sx *sx)
{
    if (!prazo_out_flush(&sx->out, sx->stream))
        sx->must_drain_told = true;
}

void prazo_sx_switch(struct prazo_sx *sx)
{
    sx->is_tunnel = true;
    sx->is_keep_alive = false;
    sx->body_done = false;
    sx->answer = ANSWER_NO_BODY;
    if (!sx->in_event && sx->in.len > 0) /* the client has not waited for the 101 */
        prazo__sx_go_on(sx);
}

void prazo_sx_finish(struct prazo_sx *sx)
{
    PRAZO_ASSERT(sx->state == SX_BUSY);
    prazo_sx_flush(sx);
    sx->owner = NULL;
    sx->must_drain_told = false;
    if (!sx->is_keep_alive || !prazo_h1_body_eof(&sx->body) || sx->is_tunnel || sx->out.is_broken) {
        prazo__sx_linger(sx);
        return;
    }
    prazo__sx_set_state(sx, SX_IDLE);
    /* inside an event, consume() goes on with what is there */
    if (!sx->in_event && (sx->in.len > 0 || sx->has_hangup))
        prazo__sx_go_on(sx);
}

void prazo_sx_abort(struct prazo_sx *sx)
{
    bool with_reset = sx->answer == ANSWER_TO_EOF;

    prazo_sx_flush(sx);
    sx->owner = NULL;
    sx->is_told = sx->is_cut = true;
    sx->is_keep_alive = false;
    if (with_reset || sx->out.is_broken || sx->has_hangup)
        prazo__sx_close(sx, with_reset);
    else
        prazo__sx_linger(sx);
}

static void add_date(struct prazo_sx *sx, struct prazo_head_out *headers)
{
    struct prazo_server *server = sx->server;
    int64_t second = prazo_loop_wall_ms(server->loop) / 1000;

    if (second != server->date_s) {
        time_t t = (time_t)second;
        struct tm tm;
        gmtime_r(&t, &tm);
        strftime(server->date, sizeof server->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        server->date_s = second;
    }
    prazo_head_out_add(headers, PRAZO_STR("date"), prazo_str_n(server->date, 29));
}

void prazo_sx_answer(struct prazo_sx *sx, int status, const char *content_type,
                     struct prazo_head_out *extra, struct prazo_str body)
{
    struct prazo_arena_pool pool;
    struct prazo_arena arena;
    struct prazo_head_out own;

    prazo_arena_pool_init(&pool, 0);
    prazo_arena_init(&arena, &pool, 4 * PRAZO_ARENA_BLOCK_BYTES);
    if (extra == NULL) {
        prazo_head_out_init(&own, &arena, 256);
        extra = &own;
    }
    add_date(sx, extra);
    if (content_type != NULL)
        prazo_head_out_add(extra, PRAZO_STR("content-type"), prazo_str_z(content_type));
    if (prazo_sx_send_head(sx, status, (struct prazo_str){ NULL, 0 }, extra, (int64_t)body.len,
                           status != 204 && status != 304) == PRAZO_OK)
        prazo_sx_send_body(sx, body.base, body.len);
    prazo_sx_finish(sx);
    prazo_arena_reset(&arena);
    prazo_arena_pool_done(&pool);
}
