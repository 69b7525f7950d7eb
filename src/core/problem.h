/* SPDX-License-Identifier: MIT */
/* Problem details (RFC 9457): the one table from a kind of error to type, status, title, outcome
 * and retry. docs/problems.md has a section for each row (a test compares both). Pure. */
#ifndef PRAZO_CORE_PROBLEM_H
#define PRAZO_CORE_PROBLEM_H

#include "base/buf.h"
#include "base/str.h"

/* X(NAME, "name", status, "title") in the order of contract section 3; only what this version can
 * answer. */
#define PRAZO_PROBLEM_MAP(X)                                                                       \
    X(DEADLINE_EXCEEDED, "deadline-exceeded", 504, "The deadline has passed")                      \
    X(UPSTREAM_TIMEOUT, "upstream-timeout", 504, "The upstream did not answer in time")            \
    X(UPSTREAM_UNREACHABLE, "upstream-unreachable", 502, "No connection could be made")            \
    X(UPSTREAM_RESET, "upstream-reset", 502, "The upstream broke the connection")                  \
    X(UPSTREAM_INVALID_RESPONSE, "upstream-invalid-response", 502,                                 \
      "The upstream sent an invalid answer")                                                       \
    X(OVERLOADED, "overloaded", 503, "Overloaded, try again later")                                \
    X(DRAINING, "draining", 503, "Shutting down")                                                  \
    X(BAD_REQUEST, "bad-request", 400, "The request is malformed")                                 \
    X(URI_TOO_LONG, "uri-too-long", 414, "The request target is too long")                         \
    X(HEADER_TOO_LARGE, "header-too-large", 431, "The request's header section is too large")      \
    X(BODY_TOO_LARGE, "body-too-large", 413, "The request's body is too large")                    \
    X(REQUEST_TIMEOUT, "request-timeout", 408, "The request did not arrive in time")               \
    X(EXPECTATION_FAILED, "expectation-failed", 417, "The expectation cannot be met")              \
    X(NOT_IMPLEMENTED, "not-implemented", 501, "Not implemented")                                  \
    X(VERSION_NOT_SUPPORTED, "version-not-supported", 505, "HTTP version not supported")           \
    X(NO_ROUTE, "no-route", 404, "No route matches")                                               \
    X(METHOD_NOT_ALLOWED, "method-not-allowed", 405, "Method not allowed")                         \
    X(LOOP_DETECTED, "loop-detected", 508, "The request goes in circles")                          \
    X(INTERNAL, "internal", 500, "Internal error")

enum prazo_problem {
    PRAZO_PROBLEM_NONE = 0,
#define X(NAME, name, status, title) PRAZO_PROBLEM_##NAME,
    PRAZO_PROBLEM_MAP(X)
#undef X
    /* must stay last */
    PRAZO_PROBLEM_COUNT
};

enum prazo_outcome {
    PRAZO_OUTCOME_NONE = 0, /* no effect */
    PRAZO_OUTCOME_UNKNOWN,  /* it may have happened */
    /* must stay last */
    PRAZO_OUTCOME_COUNT
};

enum prazo_retry_advice {
    PRAZO_RETRY_SAME_KEY = 0, /* the same request again, with a new deadline */
    PRAZO_RETRY_NEW_KEY,
    PRAZO_RETRY_AFTER_FIX, /* the request itself is wrong */
    PRAZO_RETRY_NO,        /* not as part of this request */
    /* must stay last */
    PRAZO_RETRY_COUNT
};

/* What a request is, as far as sending it again is concerned. */
enum prazo_method_class {
    PRAZO_METHOD_UNSAFE = 0, /* POST, PATCH, …: neither */
    PRAZO_METHOD_IDEMPOTENT, /* PUT, DELETE */
    PRAZO_METHOD_SAFE,       /* GET, HEAD, OPTIONS (RFC 9110 §9.2.1) */
    /* must stay last */
    PRAZO_METHOD_CLASS_COUNT
};

struct prazo_problem_facts {
    enum prazo_method_class method;
    bool was_sent; /* a byte of the request went to an upstream */
    bool is_keyed; /* an idempotency record covers it */
};

const char *prazo_problem_name(enum prazo_problem problem);
const char *prazo_problem_title(enum prazo_problem problem);
int prazo_problem_status(enum prazo_problem problem);
/* PRAZO_PROBLEM_NONE for an unknown name. */
enum prazo_problem prazo_problem_by_name(struct prazo_str name);
const char *prazo_outcome_name(enum prazo_outcome outcome);
const char *prazo_retry_advice_name(enum prazo_retry_advice retry);

/* Outcome and retry advice by the rules of contract section 3. */
void prazo_problem_judge(enum prazo_problem problem, const struct prazo_problem_facts *facts,
                         enum prazo_outcome *ret_outcome, enum prazo_retry_advice *ret_retry);

struct prazo_problem_doc {
    enum prazo_problem problem;
    enum prazo_outcome outcome;
    enum prazo_retry_advice retry;
    struct prazo_str base_url;   /* base NULL: "urn:prazo:problem:" */
    struct prazo_str request_id; /* becomes urn:prazo:request:<percent-encoded> */
    struct prazo_str detail;     /* static text of ours only, never text from a peer; NULL: none */
    struct prazo_str reason;     /* member "reason" (overloaded); NULL: none */
    int64_t retry_after_ms;      /* 0: none */
};

/* Appends the document. Errors are those of the buffer. */
int prazo_problem_write(struct prazo_buf *to, const struct prazo_problem_doc *doc);

#endif
