/* SPDX-License-Identifier: MIT */
/* What the admin port makes of a request's head: which page, in which format, for whom. Pure. */
#ifndef PRAZO_GATEWAY_ADMIN_PLAN_H
#define PRAZO_GATEWAY_ADMIN_PLAN_H

#include "http/msg.h"

enum admin_page {
    ADMIN_HEALTHZ = 0,
    ADMIN_READYZ,
    ADMIN_METRICS,
    ADMIN_STATE,
    ADMIN_STREAM,
    ADMIN_PROBLEMS, /* the list */
    ADMIN_PROBLEM,  /* one section */
    /* refusals */
    ADMIN_FORBIDDEN,
    ADMIN_NO_ROUTE,
    ADMIN_METHOD_NOT_ALLOWED,
};

#define PRAZO_REQUEST_ID_BYTES_MAX 128

struct prazo_admin_plan {
    enum admin_page page;
    bool is_head;             /* HEAD: no body */
    bool is_open_metrics;     /* ADMIN_METRICS: OpenMetrics was asked for */
    struct prazo_str section; /* ADMIN_PROBLEM: static text */
    size_t request_id_len;    /* 0: none, or not 1–128 visible ASCII characters */
    char request_id[PRAZO_REQUEST_ID_BYTES_MAX];
};

/* is_probe: the port that has /healthz, /readyz and /metrics only. */
void prazo_admin_plan(const struct prazo_head *head, bool is_probe,
                      struct prazo_admin_plan *ret_plan);

#endif
