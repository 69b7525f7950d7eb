/* SPDX-License-Identifier: MIT */
/* The process: what all workers share. Made before any thread runs; what changes later is atomic or
 * the main thread's own. */
#ifndef PRAZO_GATEWAY_GATEWAY_INTERNAL_H
#define PRAZO_GATEWAY_GATEWAY_INTERNAL_H

#include "gateway/admin.h"
#include "gateway/gateway.h"
#include "gateway/snapshot.h"

/* Connections, calls or attempts of one thread; memory is only taken as they are needed, and
 * limits.connections bounds them long before. */
#define PRAZO_WORKER_OBJECTS_MAX (1u << 20)

/* One listening socket. The table is made once and only grows, so that all of it could be handed to
 * a successor; a closed one keeps its place with fd -1. */
struct prazo_socket {
    int fd;
    char *address;
    bool is_inherited; /* from systemd: a Unix path stays when we leave */
};

struct prazo_gateway {
    struct prazo_stats *stats;
    struct prazo_route_series *unmatched;
    struct prazo_registry registry;
    struct prazo_snapshot *snapshot; /* in force; main thread only */
    struct prazo_worker **workers;   /* [0] runs on the main thread */
    unsigned threads;                /* of the configuration at the start */
    unsigned worker_count;
    struct prazo_socket *sockets;
    size_t socket_count;
    int64_t connections; /* atomic: of clients, all threads */
    unsigned deaf_count; /* atomic: drain: threads that have closed their listeners */
    char via[16];
    int64_t uses_pending;               /* atomic: workers that have not yet taken up a reload */
    const struct prazo_config *started; /* what only a start reads is in force from here */
    const char *path;                   /* the file that SIGHUP reads; NULL: none */
    /* main thread only: */
    struct prazo_admin *admin;
    int admin_fd, probe_fd;
    bool is_ready;  /* atomic */
    bool is_closed; /* drain: listeners are closed */
    int64_t closed_us;
    unsigned signals;
    struct prazo_timer drain_timer;
    int64_t drain_began_us; /* 0: not draining */
};

/* sockets.c: binds (or inherits) what the configuration names and is not open yet. Writes the
 * socket → listener map for it to *ret_map (caller frees). On an error nothing new stays open and
 * a line has been logged or printed. */
int prazo_sockets_open(struct prazo_gateway *gateway, const struct prazo_config *config,
                       size_t **ret_map);
/* A socket that systemd passed and that is bound to this address, or -1. */
int prazo_sockets_inherited(const struct prazo_addr *addr);
/* Why listening failed and what to do next, for people. */
const char *prazo_sockets_hint(int err);
/* Closes those that the map does not use, or does not reach: with a count of 0 all. */
void prazo_sockets_close_unused(struct prazo_gateway *gateway, const size_t *map, size_t count);
void prazo_sockets_close_all(struct prazo_gateway *gateway);

/* drain.c: the shutdown, from the first signal to the stop of all loops. */
void prazo_drain_begin(struct prazo_gateway *gateway);
void prazo_drain_now(struct prazo_gateway *gateway);

#endif
