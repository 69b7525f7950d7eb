/* SPDX-License-Identifier: MIT */
/* Problem details (RFC 9457). The only place where a kind of error becomes a status, and where it
 * is decided what a client is told about its request's effect.
 *
 * Invariants: "no effect" is said only when no byte was sent or the method is safe; nothing that
 * came from a peer gets into a document except the request id, percent-encoded. */
#include "core/problem.h"

#include "prazo/err.h"

#include "base/assert.h"

#define TYPE_URN "urn:prazo:problem:"
#define INSTANCE_URN "urn:prazo:request:"

static const struct {
    const char *name;
    const char *title;
    int status;
} rows[PRAZO_PROBLEM_COUNT] = { [PRAZO_PROBLEM_NONE] = { "none", "", 0 },
#define X(NAME, name, status, title) [PRAZO_PROBLEM_##NAME] = { name, title, status },
                                PRAZO_PROBLEM_MAP(X)
#undef X
};

static const char *const outcome_names[PRAZO_OUTCOME_COUNT] = {
    [PRAZO_OUTCOME_NONE] = "none",
    [PRAZO_OUTCOME_UNKNOWN] = "unknown",
};

static const char *const retry_names[PRAZO_RETRY_COUNT] = {
    [PRAZO_RETRY_SAME_KEY] = "same-key",
    [PRAZO_RETRY_NEW_KEY] = "new-key",
    [PRAZO_RETRY_AFTER_FIX] = "after-fix",
    [PRAZO_RETRY_NO] = "no",
};

const char *prazo_problem_name(enum prazo_problem problem)
{
    PRAZO_ASSERT(problem < PRAZO_PROBLEM_COUNT);
    return rows[problem].name;
}

const char *prazo_problem_title(enum prazo_problem problem)
{
    PRAZO_ASSERT(problem < PRAZO_PROBLEM_COUNT);
    return rows[problem].title;
}

int prazo_problem_status(enum prazo_problem problem)
{
    PRAZO_ASSERT(problem < PRAZO_PROBLEM_COUNT);
    return rows[problem].status;
}

enum prazo_problem prazo_problem_by_name(struct prazo_str name)
{
    for (int i = PRAZO_PROBLEM_NONE + 1; i < PRAZO_PROBLEM_COUNT; i++)
        if (prazo_str_eq(name, prazo_str_z(rows[i].name)))
            return (enum prazo_problem)i;
    return PRAZO_PROBLEM_NONE;
}

const char *prazo_outcome_name(enum prazo_outcome outcome)
{
    PRAZO_ASSERT(outcome < PRAZO_OUTCOME_COUNT);
    return outcome_names[outcome];
}

const char *prazo_retry_advice_name(enum prazo_retry_advice retry)
{
    PRAZO_ASSERT(retry < PRAZO_RETRY_COUNT);
    return retry_names[retry];
}

/* The advice while the request has had no effect. */
static enum prazo_retry_advice advice_of(enum prazo_problem problem)
{
    switch (problem) {
    case PRAZO_PROBLEM_BAD_REQUEST:
    case PRAZO_PROBLEM_URI_TOO_LONG:
    case PRAZO_PROBLEM_HEADER_TOO_LARGE:
    case PRAZO_PROBLEM_BODY_TOO_LARGE:
    case PRAZO_PROBLEM_EXPECTATION_FAILED:
    case PRAZO_PROBLEM_NOT_IMPLEMENTED:
    case PRAZO_PROBLEM_VERSION_NOT_SUPPORTED:
    case PRAZO_PROBLEM_NO_ROUTE:
    case PRAZO_PROBLEM_METHOD_NOT_ALLOWED:
        return PRAZO_RETRY_AFTER_FIX;
    case PRAZO_PROBLEM_LOOP_DETECTED:
        return PRAZO_RETRY_NO;
    case PRAZO_PROBLEM_DEADLINE_EXCEEDED:
    case PRAZO_PROBLEM_UPSTREAM_TIMEOUT:
    case PRAZO_PROBLEM_UPSTREAM_UNREACHABLE:
    case PRAZO_PROBLEM_UPSTREAM_RESET:
    case PRAZO_PROBLEM_UPSTREAM_INVALID_RESPONSE:
    case PRAZO_PROBLEM_OVERLOADED:
    case PRAZO_PROBLEM_DRAINING:
    case PRAZO_PROBLEM_REQUEST_TIMEOUT:
    case PRAZO_PROBLEM_INTERNAL:
        return PRAZO_RETRY_SAME_KEY;
    case PRAZO_PROBLEM_NONE:
    case PRAZO_PROBLEM_COUNT:
        break;
    }
    PRAZO_UNREACHABLE();
}

void prazo_problem_judge(enum prazo_problem problem, const struct prazo_problem_facts *facts,
                         enum prazo_outcome *ret_outcome, enum prazo_retry_advice *ret_retry)
{
    enum prazo_retry_advice retry = advice_of(problem);
    /* Asked for every problem, not only for those that usually come late: a body can turn out too
     * large, malformed or too slow when half of it is at the upstream already. */
    bool is_unknown = facts->was_sent && facts->method != PRAZO_METHOD_SAFE;
    /* Again would mean twice, unless something makes it once. */
    if (is_unknown && retry == PRAZO_RETRY_SAME_KEY && facts->method == PRAZO_METHOD_UNSAFE &&
        !facts->is_keyed)
        retry = PRAZO_RETRY_NO;
    *ret_outcome = is_unknown ? PRAZO_OUTCOME_UNKNOWN : PRAZO_OUTCOME_NONE;
    *ret_retry = retry;
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static int add_percent_encoded(struct prazo_buf *to, struct prazo_str s)
{
    static const char hex[] = "0123456789ABCDEF"; /* upper case: RFC 3986 §2.1 */
    int err = PRAZO_OK;
    for (size_t i = 0; i < s.len && err == PRAZO_OK; i++) {
        unsigned char c = (unsigned char)s.base[i];
        char escaped[3] = { '%', hex[c >> 4], hex[c & 15] };
        if (is_unreserved(s.base[i]))
            err = prazo_buf_add(to, &s.base[i], 1);
        else
            err = prazo_buf_add(to, escaped, sizeof(escaped));
    }
    return err;
}

/* ,"key":"text"; nothing if there is no text. */
static int add_member(struct prazo_buf *to, const char *key, struct prazo_str text)
{
    if (!text.base)
        return PRAZO_OK;
    int err = prazo_buf_addf(to, ",\"%s\":", key);
    return err != PRAZO_OK ? err : prazo_buf_add_json(to, text);
}

static int add_type(struct prazo_buf *to, const struct prazo_problem_doc *doc)
{
    const char *name = prazo_problem_name(doc->problem);
    if (!doc->base_url.base)
        return prazo_buf_addf(to, "{\"type\":\"" TYPE_URN "%s\"", name);
    int err = prazo_buf_add_z(to, "{\"type\":");
    if (err == PRAZO_OK)
        err = prazo_buf_add_json(to, doc->base_url);
    if (err != PRAZO_OK)
        return err;
    to->len--; /* the name goes before the closing quote */
    return prazo_buf_addf(to, "%s\"", name);
}

static int add_instance(struct prazo_buf *to, struct prazo_str request_id)
{
    if (!request_id.base)
        return PRAZO_OK;
    int err = prazo_buf_add_z(to, ",\"instance\":\"" INSTANCE_URN);
    if (err == PRAZO_OK)
        err = add_percent_encoded(to, request_id);
    return err != PRAZO_OK ? err : prazo_buf_add_z(to, "\"");
}

static int add_document(struct prazo_buf *to, const struct prazo_problem_doc *doc)
{
    int err = add_type(to, doc);
    if (err == PRAZO_OK)
        err = add_member(to, "title", prazo_str_z(prazo_problem_title(doc->problem)));
    if (err == PRAZO_OK)
        err = prazo_buf_addf(to, ",\"status\":%d", prazo_problem_status(doc->problem));
    if (err == PRAZO_OK)
        err = add_member(to, "detail", doc->detail);
    if (err == PRAZO_OK)
        err = add_instance(to, doc->request_id);
    if (err == PRAZO_OK)
        err = add_member(to, "outcome", prazo_str_z(prazo_outcome_name(doc->outcome)));
    if (err == PRAZO_OK)
        err = add_member(to, "retry", prazo_str_z(prazo_retry_advice_name(doc->retry)));
    if (err == PRAZO_OK)
        err = add_member(to, "reason", doc->reason);
    if (err == PRAZO_OK && doc->retry_after_ms > 0)
        err = prazo_buf_addf(to, ",\"retry_after_ms\":%lld", (long long)doc->retry_after_ms);
    return err != PRAZO_OK ? err : prazo_buf_add_z(to, "}");
}

int prazo_problem_write(struct prazo_buf *to, const struct prazo_problem_doc *doc)
{
    PRAZO_ASSERT(doc->problem > PRAZO_PROBLEM_NONE && doc->problem < PRAZO_PROBLEM_COUNT);
    size_t len = to->len;
    int err = add_document(to, doc);
    if (err != PRAZO_OK)
        to->len = len; /* half a document is never sent */
    return err;
}
