/* SPDX-License-Identifier: MIT */
/* Admin and probe ports (contract 11): one prazo_server on the main loop. Knows the gateway only
 * through the questions below. Main loop's thread only. */
#ifndef PRAZO_GATEWAY_ADMIN_H
#define PRAZO_GATEWAY_ADMIN_H

#include "gateway/stats.h"
#include "http/exchange.h"

struct prazo_admin_options {
    struct prazo_loop *loop;
    struct prazo_stats *stats;
    int admin_fd; /* listening, borrowed; -1: none */
    int probe_fd; /* /healthz /readyz /metrics only; -1: none */
    void *arg;
    bool (*is_ready)(void *arg);    /* /readyz */
    bool (*is_healthy)(void *arg);  /* /healthz: every loop turned within 5 s */
    const char *(*name)(void *arg); /* config's name, for /api/state */
};

struct prazo_admin;
int prazo_admin_new(const struct prazo_admin_options *options, struct prazo_admin **ret_admin);
void prazo_admin_free(struct prazo_admin *admin);
/* Shutdown: ends event streams; every answer from now on ends its connection. */
void prazo_admin_drain(struct prazo_admin *admin);

#endif
