/* SPDX-License-Identifier: MIT */
/* One thread of the gateway: its loop, its server and client sides, its pools of memory, and its
 * view of the configuration in force. Everything here belongs to the thread, except where said. */
#ifndef PRAZO_GATEWAY_WORKER_H
#define PRAZO_GATEWAY_WORKER_H

#include <pthread.h>

#include "base/list.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/prng.h"
#include "gateway/upstream.h"
#include "http/client.h"
#include "http/exchange.h"

/* One configuration as the process runs it; shared by all threads, immutable. */
struct prazo_snapshot {
    struct prazo_config *config;
    struct prazo_upstream **upstreams;        /* by index of config->upstreams */
    struct prazo_server_rt ***servers;        /* [upstream][server of the config] */
    struct prazo_route_series **routes;       /* by index of config->routes */
    struct prazo_listener_series **listeners; /* by index of config->listeners */
    size_t *socket_listeners; /* by socket: index of config->listeners, or SIZE_MAX */
    size_t socket_count;
    int64_t refs; /* atomic: one a view */
};

/* A worker's hold on a snapshot; calls count on it without atomics. */
struct prazo_view {
    struct prazo_snapshot *snapshot;
    size_t calls; /* and 1 while it is the worker's current one */
};

struct prazo_gateway;
struct prazo_worker;

/* A worker's ear at one of the gateway's sockets. */
struct prazo_ear {
    struct prazo_worker *worker;
    struct prazo_listener *listener; /* NULL: closed */
    size_t socket;
    char *name; /* of the listener when it was opened, for connections that outlive it */
};

/* A worker's connections to one server. */
struct prazo_link {
    struct prazo_worker *worker;
    struct prazo_server_rt *server;
    struct prazo_client_pool *pool;
};

struct prazo_worker {
    struct prazo_gateway *gateway; /* shared */
    unsigned index;
    pthread_t thread;
    struct prazo_loop *loop;
    struct prazo_server *server;
    struct prazo_client *client;
    struct prazo_view *view;
    struct prazo_ear **ears; /* by index of the gateway's sockets */
    size_t ear_count;
    struct prazo_link **links; /* by prazo_server_rt.index; made at first use */
    size_t link_count;
    struct prazo_pool calls, attempts;
    struct prazo_arena_pool arenas;
    struct prazo_buf spare_bufs[64]; /* buffers of kept bodies, used again */
    size_t spare_buf_count;
    struct prazo_buf scratch;     /* a problem document under construction */
    struct prazo_list active;     /* calls, for the end of the process */
    struct prazo_list leaving;    /* calls that are done but for a grant on its way */
    struct prazo_list lingering;  /* attempts without a call */
    struct prazo_list unresolved; /* attempts that wait for the address of a name */
    struct prazo_prng prng;
    struct prazo_thread_stats *stats;
    struct prazo_log_ring *ring;
    struct prazo_timer second;   /* lag, drain */
    int64_t exhausted_us;        /* last time that "out of descriptors" was said */
    const char *via;             /* this process's name in Via, "prazo-1a2b3c4d" */
    int64_t now_requests;        /* atomic: requests under way, lingering writes included */
    int64_t now_last_request_us; /* atomic */
};

/* The worker's pool of connections to a server, made at first use. NULL without memory. */
struct prazo_client_pool *prazo_worker_pool(struct prazo_worker *worker,
                                            struct prazo_server_rt *server,
                                            const struct prazo_config_upstream *config);
/* The series of requests that matched no route. */
struct prazo_route_series *prazo_worker_unmatched(const struct prazo_worker *worker);
void prazo_worker_view_release(struct prazo_view *view);
/* A buffer for a request's body, at most bytes_max. */
void prazo_worker_buf_take(struct prazo_worker *worker, struct prazo_buf *ret_buf,
                           size_t bytes_max);
void prazo_worker_buf_give(struct prazo_worker *worker, struct prazo_buf *buf);
/* Out of descriptors or memory: a line in the log, at most one a second. */
void prazo_worker_warn_exhausted(struct prazo_worker *worker, int err);
/* A worker for the gateway's thread `index`; nothing runs yet. The snapshot is borrowed until
 * prazo_worker_free(). */
int prazo_worker_new(struct prazo_gateway *gateway, unsigned index, struct prazo_snapshot *snapshot,
                     struct prazo_worker **ret_worker);
void prazo_worker_free(struct prazo_worker *worker);
/* On the worker's thread: from now on new requests see this snapshot. */
void prazo_worker_use(struct prazo_worker *worker, struct prazo_snapshot *snapshot);
/* Asks every other worker to give up an idle connection of this upstream. */
void prazo_worker_ask_idle(struct prazo_worker *worker, struct prazo_upstream *upstream);

static inline struct prazo_upstream_stats *
prazo_upstream_stats_of(const struct prazo_worker *worker, const struct prazo_upstream *upstream)
{
    return upstream->series->thread[worker->index];
}

#endif
