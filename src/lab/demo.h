/* SPDX-License-Identifier: MIT */
/* `prazo demo`: a service with W workers and a FIFO queue in front of them, as a database has, to
 * put behind a gateway or under a drill. Any path is work and answers 200 "ok\n" after the service
 * time; GET /_stats and PUT /_control never wait behind work.
 *
 * Service times: fixed, exponential with that mean, or bimodal (nine in ten at half of it, one in
 * ten at 5.5 times it, so that the mean stays). */
#ifndef PRAZO_LAB_DEMO_H
#define PRAZO_LAB_DEMO_H

#include <stdbool.h>
#include <stdint.h>

#define PRAZO_DEMO_WORKERS_MAX 100000u
#define PRAZO_DEMO_SERVICE_US_MAX 3600000000ll /* an hour: beyond it every test has given up */

enum prazo_demo_dist {
    PRAZO_DEMO_FIXED = 0,
    PRAZO_DEMO_EXP,
    PRAZO_DEMO_BIMODAL,
    /* must stay last */
    PRAZO_DEMO_DIST_COUNT
};

struct prazo_demo_options {
    const char *listen;  /* address as in prazo_addr_parse() */
    unsigned workers;    /* 1 .. PRAZO_DEMO_WORKERS_MAX */
    int64_t service_us;  /* 0 .. PRAZO_DEMO_SERVICE_US_MAX */
    bool ignores_cancel; /* works on after its caller has gone, and counts an orphan */
    int dist;            /* enum prazo_demo_dist */
    uint64_t seed;       /* of the drawn service times; 0: from the kernel */
};

/* Serves until SIGTERM or SIGINT. Says on stderr where it listens, and why it could not. Returns
 * the exit code: 0 ended by a signal, 2 could not start (address malformed or in use, no memory).
 */
int prazo_demo_run(const struct prazo_demo_options *options);

#endif
