/* SPDX-License-Identifier: MIT */
/* What goes back to the client: an upstream's head passed on, our own problem documents, and the
 * line in the access log. */
#include "base/assert.h"
#include "gateway/attempt.h"
#include "gateway/call.h"

/* ---- ids ---- */

bool prazo_request_id_is_valid(struct prazo_str id)
{
    for (size_t i = 0; i < id.len; i++) {
        if (id.base[i] <= 0x20 || id.base[i] >= 0x7f)
            return false;
    }
    return id.len >= 1 && id.len <= 128;
}

struct prazo_str prazo_request_id_make(struct prazo_worker *worker, char to[32])
{
    prazo_format_hex(to, prazo_prng_next(&worker->prng), 16);
    prazo_format_hex(to + 16, prazo_prng_next(&worker->prng), 16);
    return prazo_str_n(to, 32);
}

/* ---- an upstream's answer ---- */

static void add_passed(struct prazo_head_out *out, const struct prazo_head *head)
{
    const unsigned dropped =
        PRAZO_HDRF_HOP | PRAZO_HDRF_NAMED | PRAZO_HDRF_FRAMING | PRAZO_HDRF_OWN;

    for (size_t i = 0; i < head->header_count; i++) {
        if ((head->headers[i].flags & dropped) == 0)
            prazo_head_out_add(out, head->headers[i].name, head->headers[i].value);
    }
}

/* prazo-result on an answer passed on, to a caller that lent a budget (contract 2.6). Nothing of it
 * was spent: repeats happen at the edge. */
static void add_result(const struct prazo_call *call, struct prazo_head_out *out,
                       struct prazo_str outcome, struct prazo_str retry)
{
    char text[PRAZO_RESULT_BYTES_MAX];
    struct prazo_result result = {
        .outcome = outcome, .retry = retry, .has_spent = true, .for_id = call->caller.id
    };

    prazo_head_out_add(out, PRAZO_STR("prazo-result"),
                       prazo_str_n(text, prazo_result_format(text, &result)));
}

bool prazo_call_send_informational(struct prazo_call *call, const struct prazo_head *head)
{
    size_t max = (size_t)call->view->snapshot->config->limit_headers;
    struct prazo_arena arena; /* not the call's, which sixteen large heads would use up */
    struct prazo_head_out out;

    prazo_arena_init(&arena, &call->worker->arenas, PRAZO_HEAD_ARENA_BYTES(max));
    prazo_head_out_init(&out, &arena, 1024);
    add_passed(&out, head);
    if (head->status == 101) {
        prazo_head_out_add(&out, PRAZO_STR("upgrade"), call->upgrade);
        prazo_head_out_add(&out, PRAZO_STR("x-request-id"), call->request_id);
    }
    int err = prazo_sx_send_informational(call->sx, head->status, &out);
    prazo_sx_flush(call->sx);
    prazo_arena_reset(&arena);
    return err == PRAZO_OK;
}

bool prazo_call_send_head(struct prazo_call *call, const struct prazo_head *head)
{
    struct prazo_head_out out;
    bool has_body = head->body != PRAZO_BODY_NONE;
    /* an answer without a body may still announce the length of the one it stands for */
    int64_t length = head->content_length;

    if (head->status == 204)
        length = -1;
    prazo_head_out_init(&out, &call->arena, 1024);
    add_passed(&out, head);
    prazo_head_out_add(&out, PRAZO_STR("x-request-id"), call->request_id);
    if (call->has_caller && call->budget > 0)
        add_result(call, &out, PRAZO_STR("passed"), (struct prazo_str){ NULL, 0 });
    call->status = head->status;
    return prazo_sx_send_head(call->sx, head->status, head->reason, &out, length, has_body) ==
           PRAZO_OK;
}

/* ---- our own answers ---- */

static const struct prazo_str every_method =
    PRAZO_STR_INIT("GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH");

/* Whole seconds, at least 1, jittered so that those who were refused together do not come back
 * together. */
static int64_t retry_after_s(struct prazo_worker *worker)
{
    return 1 + (int64_t)prazo_prng_below(&worker->prng, 3);
}

/* RFC 9110 asks a gRPC client's intermediary for 200 and the status in trailers-only form. */
static int grpc_status(enum prazo_problem problem)
{
    switch ((int)problem) {
    case PRAZO_PROBLEM_DEADLINE_EXCEEDED:
    case PRAZO_PROBLEM_UPSTREAM_TIMEOUT:
        return 4;
    case PRAZO_PROBLEM_OVERLOADED:
        return 8;
    case PRAZO_PROBLEM_UPSTREAM_UNREACHABLE:
    case PRAZO_PROBLEM_DRAINING:
        return 14;
    default:
        return 13;
    }
}

static void answer_grpc(struct prazo_call *call, struct prazo_head_out *out,
                        enum prazo_problem problem)
{
    char digits[20];

    prazo_head_out_add(out, PRAZO_STR("grpc-status"),
                       prazo_str_n(digits, prazo_format_i64(digits, grpc_status(problem))));
    prazo_head_out_add(out, PRAZO_STR("grpc-message"), prazo_str_z(prazo_problem_title(problem)));
    prazo_sx_answer(call->sx, 200, "application/grpc", out, PRAZO_STR(""));
}

static void add_own(struct prazo_call *call, struct prazo_head_out *out,
                    const struct prazo_problem_doc *doc)
{
    prazo_head_out_add(out, PRAZO_STR("cache-control"), PRAZO_STR("no-store"));
    prazo_head_out_add(out, PRAZO_STR("x-request-id"), call->request_id);
    if (doc->retry_after_ms > 0) {
        char digits[20];
        prazo_head_out_add(
            out, PRAZO_STR("retry-after"),
            prazo_str_n(digits, prazo_format_i64(digits, doc->retry_after_ms / 1000)));
    }
    if (call->allow.base != NULL && doc->problem == PRAZO_PROBLEM_METHOD_NOT_ALLOWED)
        prazo_head_out_add(out, PRAZO_STR("allow"), call->allow);
    if (call->has_caller)
        add_result(call, out, prazo_str_z(prazo_outcome_name(doc->outcome)),
                   prazo_str_z(prazo_retry_advice_name(doc->retry)));
}

static void send_problem(struct prazo_call *call, const struct prazo_problem_doc *doc)
{
    struct prazo_worker *w = call->worker;
    int status = prazo_problem_status(doc->problem);
    struct prazo_head_out out;
    struct prazo_sx *sx = call->sx;

    if (call->body != PRAZO_BODY_NONE && !prazo_sx_is_body_complete(sx))
        prazo_sx_close_after(sx); /* nobody waits for the rest of the upload: say so */
    if (call->method_id == PRAZO_METHOD_CONNECT)
        prazo_sx_close_after(sx); /* what follows may be meant for the tunnel: no requests */
    prazo_head_out_init(&out, &call->arena, 512);
    add_own(call, &out, doc);
    call->sx = NULL;
    if (call->is_grpc) {
        call->sx = sx;
        answer_grpc(call, &out, doc->problem);
        call->sx = NULL;
        return;
    }
    w->scratch.len = 0;
    if (out.failed || prazo_problem_write(&w->scratch, doc) != PRAZO_OK)
        prazo_sx_abort(sx); /* not even memory for an error: the connection says it */
    else
        prazo_sx_answer(sx, status, "application/problem+json", &out, prazo_buf_str(&w->scratch));
}

void prazo_call_answer_problem(struct prazo_call *call, enum prazo_problem problem,
                               const char *reason, const char *detail)
{
    const char *base_url = call->view->snapshot->config->problems_base_url;
    struct prazo_problem_facts facts = { .method = call->method_class, .was_sent = call->was_sent };
    struct prazo_problem_doc doc = {
        .problem = problem,
        .base_url = prazo_str_z(base_url),
        .request_id = call->request_id,
        .reason = prazo_str_z(reason),
        .detail = prazo_str_z(detail),
    };

    prazo_problem_judge(problem, &facts, &doc.outcome, &doc.retry);
    if (prazo_problem_status(problem) == 503)
        doc.retry_after_ms = 1000 * retry_after_s(call->worker);
    call->problem = problem;
    call->detail = detail;
    call->status = prazo_problem_status(problem);
    if (call->allow.base == NULL && problem == PRAZO_PROBLEM_METHOD_NOT_ALLOWED)
        call->allow = every_method;
    prazo_call_settle(call, prazo_problem_name(problem));
    send_problem(call, &doc);
    prazo_call_finish(call, NULL);
}

void prazo_call_answer_options(struct prazo_call *call)
{
    struct prazo_problem_doc doc = { .outcome = PRAZO_OUTCOME_NONE, .retry = PRAZO_RETRY_SAME_KEY };
    struct prazo_head_out out;
    struct prazo_sx *sx = call->sx;

    prazo_head_out_init(&out, &call->arena, 256);
    prazo_head_out_add(&out, PRAZO_STR("allow"), every_method);
    add_own(call, &out, &doc);
    call->sx = NULL;
    call->status = 200;
    prazo_call_settle(call, NULL);
    prazo_sx_answer(sx, 200, NULL, &out, PRAZO_STR(""));
    prazo_call_finish(call, NULL);
}

/* A request that never became a call. */
void prazo_answer_bad_request(void *arg, struct prazo_sx *sx, int problem)
{
    struct prazo_worker *w = arg;
    struct prazo_call call = {
        .worker = w, .view = w->view, .sx = sx, .arrived_us = prazo_loop_now_us(w->loop)
    };
    char id[32];

    call.request_id = prazo_request_id_make(w, id);
    call.series = prazo_worker_unmatched(w);
    call.began_us = prazo_sx_began_us(sx);
    prazo_arena_init(&call.arena, &w->arenas, 4 * PRAZO_ARENA_BLOCK_BYTES);
    prazo_list_init(&call.node);
    prazo_call_answer_problem(&call, (enum prazo_problem)problem, NULL, prazo_sx_refusal(sx));
}

/* ---- access log ---- */

static bool is_logged(const struct prazo_call *call)
{
    switch (call->view->snapshot->config->log_requests) {
    case PRAZO_LOG_REQUESTS_ALL:
        return true;
    case PRAZO_LOG_REQUESTS_ERRORS:
        return call->status >= 500 || call->status == 0 || call->problem != PRAZO_PROBLEM_NONE;
    case PRAZO_LOG_REQUESTS_NONE:
        break;
    }
    return false;
}

void prazo_call_log(struct prazo_call *call, int64_t now_us)
{
    struct prazo_log_line line;
    const struct prazo_config *config = call->view->snapshot->config;

    if (!is_logged(call) || !prazo_log_on(PRAZO_LOG_INFO))
        return;
    prazo_log_begin(&line, PRAZO_LOG_INFO, "request");
    prazo_log_str(&line, "request_id", call->request_id);
    prazo_log_str(&line, "method", call->method);
    prazo_log_str(&line, "path", config->log_query ? call->target : call->path);
    if (call->status > 0)
        prazo_log_i64(&line, "status", call->status);
    prazo_log_str(&line, "cause", prazo_str_z(call->cause));
    if (call->problem != PRAZO_PROBLEM_NONE)
        prazo_log_str(&line, "problem", prazo_str_z(prazo_problem_name(call->problem)));
    prazo_log_str(&line, "detail", prazo_str_z(call->detail));
    prazo_log_str(&line, "fault", prazo_str_z(call->fault));
    prazo_log_str(&line, "route", prazo_str_z(call->series->route));
    if (call->upstream != NULL)
        prazo_log_str(&line, "upstream", prazo_str_z(call->upstream->name));
    prazo_log_str(&line, "server", prazo_str_z(call->server_label));
    prazo_log_ms(&line, "ms", now_us - call->began_us);
    if (call->deadline_us > 0)
        prazo_log_ms(&line, "left_ms", call->deadline_us - now_us);
    prazo_log_i64(&line, "bytes", call->bytes_sent);
    prazo_log_end(&line);
}
