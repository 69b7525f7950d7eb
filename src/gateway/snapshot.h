/* SPDX-License-Identifier: MIT */
/* From a configuration to what the process runs: upstreams and servers found by name or made new,
 * series of metrics, addresses of names. Main thread only. */
#ifndef PRAZO_GATEWAY_SNAPSHOT_H
#define PRAZO_GATEWAY_SNAPSHOT_H

#include "gateway/worker.h"

/* Every upstream and server that a configuration of this process has named. They stay until its
 * end: connections and metrics may outlive the configuration. */
struct prazo_registry {
    struct prazo_stats *stats;
    struct prazo_resolver *resolver;
    prazo_loop_cb on_resolved; /* some name got its first address, or failed to */
    void *arg;
    struct prazo_upstream **upstreams;
    size_t upstream_count;
    struct prazo_server_rt **servers;
    size_t server_count;
};

void prazo_registry_done(struct prazo_registry *registry);

/* Takes a reference of config. sockets: which socket serves which listener of the config.
 * PRAZO_E_NOMEM. */
int prazo_snapshot_new(struct prazo_registry *registry, struct prazo_config *config,
                       const size_t *socket_listeners, size_t socket_count,
                       struct prazo_snapshot **ret_snapshot);
/* Puts it in force for what is shared: bounds, servers of each upstream, names to resolve. */
void prazo_snapshot_apply(struct prazo_registry *registry, struct prazo_snapshot *snapshot);
/* Any thread. */
void prazo_snapshot_ref(struct prazo_snapshot *snapshot);
void prazo_snapshot_unref(struct prazo_snapshot *snapshot);

#endif
