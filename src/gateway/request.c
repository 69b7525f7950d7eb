/* SPDX-License-Identifier: MIT */
/* A request's head: what it says about its deadline, its caller and itself, and the head that goes
 * to the upstream. One pass over the headers each; what is kept lies in the call's arena. */
#include "gateway/call.h"
#include "gateway/route.h"
#include "prazo/deadline.h"

#define VIA_ENTRIES_MAX 20u

/* What the headers say, collected in one pass. */
struct reading {
    struct prazo_deadline_in deadline;
    struct prazo_str request_id;
    unsigned via_entries, via_own;
    bool is_trusted;
};

static void read_via(struct reading *r, struct prazo_str value, const char *own)
{
    struct prazo_str item;

    while (prazo_str_next_item(&value, &item)) {
        const char *space = memchr(item.base, ' ', item.len);
        r->via_entries++;
        if (space == NULL)
            continue;
        struct prazo_str by =
            prazo_str_trim(prazo_str_n(space, item.len - (size_t)(space - item.base)));
        const char *comment = memchr(by.base, ' ', by.len);
        if (comment != NULL)
            by.len = (size_t)(comment - by.base);
        r->via_own += prazo_str_eq(by, prazo_str_z(own));
    }
}

static void read_budget(struct prazo_call *call, struct prazo_str value)
{
    int64_t budget;

    if (value.len <= 2 && prazo_str_to_i64(value, &budget) == PRAZO_OK)
        call->budget = (uint32_t)budget;
}

static void read_header(struct prazo_call *call, struct reading *r, const struct prazo_header *h)
{
    struct prazo_str v = h->value;

    switch (h->token) {
    case PRAZO_HDR_X_DEADLINE_MS:
        prazo_deadline_read_instant(&r->deadline, v.base, v.len);
        break;
    case PRAZO_HDR_X_DEADLINE_SENT_MS:
        if (r->is_trusted)
            prazo_deadline_read_sent(&r->deadline, v.base, v.len);
        break;
    case PRAZO_HDR_GRPC_TIMEOUT:
        prazo_deadline_read_grpc(&r->deadline, v.base, v.len);
        break;
    case PRAZO_HDR_X_TIMEOUT_MS:
    case PRAZO_HDR_X_ENVOY_TIMEOUT:
        prazo_deadline_read_duration_ms(&r->deadline, v.base, v.len);
        break;
    case PRAZO_HDR_X_REQUEST_ID:
        if (r->request_id.base == NULL && prazo_request_id_is_valid(v))
            r->request_id = v;
        break;
    case PRAZO_HDR_X_ATTEMPT:
        if (r->is_trusted && prazo_attempt_id_parse(v, &call->caller) == PRAZO_OK)
            call->has_caller = true;
        break;
    case PRAZO_HDR_X_RETRY_BUDGET:
        if (r->is_trusted)
            read_budget(call, v);
        break;
    case PRAZO_HDR_VIA:
        read_via(r, v, call->worker->via);
        break;
    case PRAZO_HDR_CONTENT_TYPE:
        call->is_grpc = v.len >= 16 &&
                        prazo_str_eq_nocase(prazo_str_n(v.base, 16), PRAZO_STR("application/grpc"));
        break;
    default:
        break;
    }
}

static enum prazo_method_class class_of(enum prazo_method method)
{
    switch (method) {
    case PRAZO_METHOD_GET:
    case PRAZO_METHOD_HEAD:
    case PRAZO_METHOD_OPTIONS:
        return PRAZO_METHOD_SAFE;
    case PRAZO_METHOD_PUT:
    case PRAZO_METHOD_DELETE:
        return PRAZO_METHOD_IDEMPOTENT;
    case PRAZO_METHOD_OTHER:
    case PRAZO_METHOD_POST:
    case PRAZO_METHOD_PATCH:
    case PRAZO_METHOD_CONNECT:
    case PRAZO_METHOD_TRACE:
        break;
    }
    return PRAZO_METHOD_UNSAFE;
}

/* The deadline of the request in loop time and on the wire (contract 2.1, 2.2). */
static enum prazo_problem set_deadline(struct prazo_call *call, const struct reading *r,
                                       const char **ret_detail)
{
    struct prazo_worker *w = call->worker;
    const struct prazo_config *config = call->view->snapshot->config;
    struct prazo_deadline_policy policy = {
        .default_us = call->route->deadline_default_us,
        .max_us = call->route->deadline_max_us,
        .skew_us = config->skew_us,
    };
    int64_t wall_ms = prazo_loop_wall_ms(w->loop), waited_us = 0;

    if (r->deadline.has_malformed) {
        prazo_counter_inc(&w->stats->malformed);
        if (config->rejects_malformed) {
            *ret_detail = "The deadline header is malformed.";
            return PRAZO_PROBLEM_BAD_REQUEST;
        }
    }
    if (prazo_deadline_needs_waited(&r->deadline, &policy, wall_ms))
        waited_us = prazo_sx_waited_us(call->sx);
    struct prazo_deadline_out out =
        prazo_deadline_resolve(&r->deadline, &policy, wall_ms, waited_us);
    if (out.is_skewed)
        prazo_counter_inc(&w->stats->skew);
    int64_t margin_us = prazo_deadline_margin_us(out.left_us, config->margin_us);
    call->deadline_us = prazo_instant_add(call->arrived_us, out.left_us > 0 ? out.left_us : 0);
    call->down_us = call->deadline_us - margin_us;
    call->down_wall_ms = wall_ms + (call->down_us - call->arrived_us) / 1000;
    prazo_histogram_observe(&call->series->thread[w->index]->budget_left, out.left_us);
    if (out.left_us <= 0)
        prazo_counter_inc(&w->stats->expired_on_arrival);
    if (call->down_us <= call->arrived_us) {
        call->cause = "expired-on-arrival";
        *ret_detail = "No useful time was left when the request arrived.";
        return PRAZO_PROBLEM_DEADLINE_EXCEEDED;
    }
    return PRAZO_PROBLEM_NONE;
}

/* What can be said without knowing the route. */
static enum prazo_problem check_request(const struct prazo_call *call,
                                        const struct prazo_head *head, const struct reading *r,
                                        const char **ret_detail)
{
    if (r->via_own >= 2 || r->via_entries >= VIA_ENTRIES_MAX) {
        *ret_detail = "The Via header shows that the request has been here before.";
        return PRAZO_PROBLEM_LOOP_DETECTED;
    }
    if (call->method_id == PRAZO_METHOD_CONNECT || call->method_id == PRAZO_METHOD_TRACE) {
        *ret_detail = "CONNECT and TRACE are not served.";
        return PRAZO_PROBLEM_METHOD_NOT_ALLOWED;
    }
    if (head->has_other_expect) {
        *ret_detail = "Only the expectation 100-continue is known.";
        return PRAZO_PROBLEM_EXPECTATION_FAILED;
    }
    return PRAZO_PROBLEM_NONE;
}

static struct prazo_str keep(struct prazo_call *call, struct prazo_str s)
{
    return s.base != NULL ? prazo_arena_dup(&call->arena, s) : s;
}

static void keep_request(struct prazo_call *call, const struct prazo_head *head,
                         const struct reading *r)
{
    call->method = keep(call, head->method);
    call->method_id = head->method_id;
    call->method_class = class_of(head->method_id);
    call->target = keep(call, head->target);
    call->path = prazo_str_n(call->target.base, call->target.base ? head->path.len : 0);
    call->minor = head->minor;
    call->body = head->body;
    call->content_length = head->content_length;
    call->request_id = r->request_id;
    if (call->request_id.base == NULL) {
        char id[32];
        call->request_id = keep(call, prazo_request_id_make(call->worker, id));
    } else {
        call->request_id = keep(call, call->request_id);
    }
}

enum prazo_problem prazo_call_read_request(struct prazo_call *call, const struct prazo_head *head,
                                           const char **ret_detail)
{
    struct reading r = { .is_trusted = prazo_sx_is_trusted(call->sx) };

    prazo_deadline_in_init(&r.deadline);
    for (size_t i = 0; i < head->header_count; i++) {
        if (head->headers[i].token != PRAZO_HDR_OTHER)
            read_header(call, &r, &head->headers[i]);
    }
    keep_request(call, head, &r);
    if (call->method.base == NULL || call->target.base == NULL || call->request_id.base == NULL)
        return PRAZO_PROBLEM_INTERNAL;
    enum prazo_problem problem = check_request(call, head, &r, ret_detail);
    if (problem == PRAZO_PROBLEM_NONE)
        problem = prazo_call_route(call, head, ret_detail);
    if (problem == PRAZO_PROBLEM_NONE && call->route != NULL)
        problem = set_deadline(call, &r, ret_detail);
    int64_t body_max = call->view->snapshot->config->limit_body;
    if (problem == PRAZO_PROBLEM_NONE && body_max >= 0 && head->content_length > body_max)
        problem = PRAZO_PROBLEM_BODY_TOO_LARGE;
    return problem;
}

/* ---- the request that goes out ---- */

static void add_forwarded_for(struct prazo_call *call, const struct prazo_head *head, bool trusted)
{
    struct prazo_head_out *out = &call->prefix;
    struct prazo_str text = prazo_sx_peer_ip(call->sx);
    bool is_first = true;

    for (size_t i = 0; trusted && i < head->header_count; i++) {
        if (head->headers[i].token != PRAZO_HDR_X_FORWARDED_FOR ||
            head->headers[i].flags & PRAZO_HDRF_NAMED)
            continue;
        prazo_head_out_raw(out, is_first ? "x-forwarded-for: " : ", ", is_first ? 17 : 2);
        prazo_head_out_raw(out, head->headers[i].value.base, head->headers[i].value.len);
        is_first = false;
    }
    if (text.len > 0) {
        prazo_head_out_raw(out, is_first ? "x-forwarded-for: " : ", ", is_first ? 17 : 2);
        prazo_head_out_raw(out, text.base, text.len);
        is_first = false;
    }
    if (!is_first)
        prazo_head_out_raw(out, "\r\n", 2);
}

/* Does the peer's own line of this token go on? */
static bool has_passing(const struct prazo_head *head, enum prazo_hdr token)
{
    const struct prazo_header *h = prazo_head_get(head, token);

    return h != NULL && !(h->flags & PRAZO_HDRF_NAMED);
}

static void add_forwarded(struct prazo_call *call, const struct prazo_head *head)
{
    struct prazo_head_out *out = &call->prefix;
    bool trusted = prazo_sx_is_trusted(call->sx);

    add_forwarded_for(call, head, trusted);
    if (!trusted || !has_passing(head, PRAZO_HDR_X_FORWARDED_PROTO))
        prazo_head_out_raw(out, "x-forwarded-proto: http\r\n", 25);
    if ((!trusted || !has_passing(head, PRAZO_HDR_X_FORWARDED_HOST)) &&
        head->authority.base != NULL)
        prazo_head_out_add(out, PRAZO_STR("x-forwarded-host"), head->authority);
}

/* What only a trusted peer may say (contract 2.3) among the headers without a token. */
static bool is_private(struct prazo_str name)
{
    return (name.base[0] == 'p' && prazo_str_has_prefix(name, PRAZO_STR("prazo-"))) ||
           (name.base[0] == 'x' && (prazo_str_has_prefix(name, PRAZO_STR("x-envoy-")) ||
                                    prazo_str_has_prefix(name, PRAZO_STR("x-forwarded-"))));
}

/* Does this header of the client's go to the upstream as it is? */
static bool passes(const struct prazo_header *h, bool trusted, uint8_t minor)
{
    if (h->flags & (PRAZO_HDRF_HOP | PRAZO_HDRF_FRAMING | PRAZO_HDRF_OWN))
        return false;
    if (h->flags & PRAZO_HDRF_NAMED)
        return false;
    if (h->flags & PRAZO_HDRF_FORWARDED)
        return trusted && h->token != PRAZO_HDR_X_FORWARDED_FOR;
    if (h->token == PRAZO_HDR_EXPECT)
        return minor == 1;
    return trusted || h->token != PRAZO_HDR_OTHER || !is_private(h->name);
}

static void add_host(struct prazo_call *call, const struct prazo_head *head)
{
    const struct prazo_config_upstream *u = call->upstream_config;

    call->has_host = u->host_mode == PRAZO_HOST_NAME ||
                     (u->host_mode == PRAZO_HOST_KEEP && head->authority.base != NULL);
    if (u->host_mode == PRAZO_HOST_NAME)
        prazo_head_out_add(&call->prefix, PRAZO_STR("host"), prazo_str_z(u->host_name));
    else if (u->host_mode == PRAZO_HOST_KEEP && head->authority.base != NULL)
        prazo_head_out_add(&call->prefix, PRAZO_STR("host"), head->authority);
    /* PRAZO_HOST_SERVER, and 1.0 clients without a Host: the attempt adds its server's */
}

static void add_own(struct prazo_call *call)
{
    struct prazo_head_out *out = &call->prefix;
    char text[24] = "1.1 ";
    size_t len;

    text[2] = (char)('0' + call->minor);
    prazo_head_out_raw(out, "via: ", 5);
    prazo_head_out_raw(out, text, 4);
    prazo_head_out_raw(out, call->worker->via, strlen(call->worker->via));
    prazo_head_out_raw(out, "\r\nx-request-id: ", 16);
    prazo_head_out_raw(out, call->request_id.base, call->request_id.len);
    if (call->upstream_config->is_foreign) {
        prazo_head_out_raw(out, "\r\n", 2);
        return;
    }
    prazo_head_out_raw(out, "\r\nx-deadline-ms: ", 17);
    len = prazo_format_i64(text, call->down_wall_ms);
    memcpy(text + len, "\r\n", 2);
    prazo_head_out_raw(out, text, len + 2);
}

bool prazo_call_build_request(struct prazo_call *call, const struct prazo_head *head)
{
    struct prazo_head_out *out = &call->prefix;
    bool trusted = prazo_sx_is_trusted(call->sx);

    prazo_head_out_init(out, &call->arena, 1024);
    call->prefix_skip = out->len;
    prazo_head_out_raw(out, call->method.base, call->method.len);
    prazo_head_out_raw(out, " ", 1);
    prazo_head_out_raw(out, call->target.base, call->target.len);
    prazo_head_out_raw(out, " HTTP/1.1\r\n", 11);
    add_host(call, head);
    for (size_t i = 0; i < head->header_count; i++) {
        const struct prazo_header *h = &head->headers[i];
        if (passes(h, trusted, call->minor))
            prazo_head_out_add(out, h->name, h->value);
    }
    add_forwarded(call, head);
    add_own(call);
    return !out->failed;
}
