/* SPDX-License-Identifier: MIT */
/* Snapshots and the registry behind them. */
#include "gateway/snapshot.h"

#include "base/assert.h"
#include "base/mem.h"

/* One more pointer in a growing array. */
static int append(void ***array, size_t *count, void *item)
{
    void **grown = prazo_mem_realloc(*array, (*count + 1) * sizeof *grown);

    if (grown == NULL)
        return PRAZO_E_NOMEM;
    *array = grown;
    grown[(*count)++] = item;
    return PRAZO_OK;
}

static struct prazo_upstream *find_upstream(struct prazo_registry *r, const char *name)
{
    for (size_t i = 0; i < r->upstream_count; i++) {
        if (strcmp(r->upstreams[i]->name, name) == 0)
            return r->upstreams[i];
    }
    struct prazo_upstream_series *series = prazo_stats_upstream(r->stats, name);
    struct prazo_upstream *upstream = series ? prazo_upstream_new(name, series) : NULL;
    if (upstream != NULL &&
        append((void ***)&r->upstreams, &r->upstream_count, upstream) != PRAZO_OK) {
        prazo_upstream_free(upstream);
        return NULL;
    }
    return upstream;
}

static struct prazo_server_rt *new_server(struct prazo_registry *r, struct prazo_upstream *upstream,
                                          const struct prazo_config_server *config)
{
    struct prazo_server_rt *s = prazo_mem_calloc(1, sizeof *s);

    if (s == NULL)
        return NULL;
    s->label = prazo_mem_strdup(config->address);
    s->series = prazo_stats_server(r->stats, upstream->name, config->address);
    s->upstream = upstream;
    s->index = r->server_count;
    s->is_name = config->is_name;
    if (!config->is_name) {
        s->addrs[0] = config->addr;
        s->addr_count = 1;
    }
    if (s->label == NULL || s->series == NULL ||
        append((void ***)&r->servers, &r->server_count, s) != PRAZO_OK) {
        prazo_mem_free(s->label);
        prazo_mem_free(s);
        return NULL;
    }
    return s;
}

static struct prazo_server_rt *find_server(struct prazo_registry *r,
                                           struct prazo_upstream *upstream,
                                           const struct prazo_config_server *config)
{
    for (size_t i = 0; i < r->server_count; i++) {
        struct prazo_server_rt *s = r->servers[i];
        if (s->upstream == upstream && strcmp(s->label, config->address) == 0)
            return s;
    }
    return new_server(r, upstream, config);
}

void prazo_registry_done(struct prazo_registry *r)
{
    for (size_t i = 0; i < r->server_count; i++) {
        prazo_mem_free(r->servers[i]->label);
        prazo_mem_free(r->servers[i]);
    }
    for (size_t i = 0; i < r->upstream_count; i++)
        prazo_upstream_free(r->upstreams[i]);
    prazo_mem_free(r->servers);
    prazo_mem_free(r->upstreams);
}

/* ---- snapshots ---- */

static void free_snapshot(struct prazo_snapshot *s)
{
    for (size_t i = 0; s->servers != NULL && i < s->config->upstream_count; i++)
        prazo_mem_free(s->servers[i]);
    prazo_mem_free(s->servers);
    prazo_mem_free(s->upstreams);
    prazo_mem_free(s->routes);
    prazo_mem_free(s->listeners);
    prazo_mem_free(s->socket_listeners);
    prazo_config_unref(s->config);
    prazo_mem_free(s);
}

static bool fill_upstream(struct prazo_registry *r, struct prazo_snapshot *s, size_t index)
{
    const struct prazo_config_upstream *config = &s->config->upstreams[index];

    s->upstreams[index] = find_upstream(r, config->name);
    s->servers[index] = prazo_mem_calloc(config->server_count, sizeof **s->servers);
    if (s->upstreams[index] == NULL || s->servers[index] == NULL)
        return false;
    for (size_t i = 0; i < config->server_count; i++) {
        s->servers[index][i] = find_server(r, s->upstreams[index], &config->servers[i]);
        if (s->servers[index][i] == NULL)
            return false;
    }
    return true;
}

static bool fill(struct prazo_registry *r, struct prazo_snapshot *s)
{
    const struct prazo_config *config = s->config;

    s->upstreams = prazo_mem_calloc(config->upstream_count, sizeof *s->upstreams);
    s->servers = prazo_mem_calloc(config->upstream_count, sizeof *s->servers);
    s->routes = prazo_mem_calloc(config->route_count, sizeof *s->routes);
    s->listeners = prazo_mem_calloc(config->listener_count, sizeof *s->listeners);
    if (s->upstreams == NULL || s->servers == NULL || s->routes == NULL || s->listeners == NULL)
        return false;
    for (size_t i = 0; i < config->upstream_count; i++) {
        if (!fill_upstream(r, s, i))
            return false;
    }
    for (size_t i = 0; i < config->route_count; i++) {
        if ((s->routes[i] = prazo_stats_route(r->stats, config->routes[i].label)) == NULL)
            return false;
    }
    for (size_t i = 0; i < config->listener_count; i++) {
        if ((s->listeners[i] = prazo_stats_listener(r->stats, config->listeners[i].name)) == NULL)
            return false;
    }
    return true;
}

int prazo_snapshot_new(struct prazo_registry *registry, struct prazo_config *config,
                       const size_t *socket_listeners, size_t socket_count,
                       struct prazo_snapshot **ret_snapshot)
{
    struct prazo_snapshot *s = prazo_mem_calloc(1, sizeof *s);

    if (s == NULL)
        return PRAZO_E_NOMEM;
    s->config = prazo_config_ref(config);
    s->refs = 1;
    s->socket_count = socket_count;
    s->socket_listeners = prazo_mem_calloc(socket_count + 1, sizeof *s->socket_listeners);
    if (s->socket_listeners == NULL || !fill(registry, s)) {
        free_snapshot(s);
        return PRAZO_E_NOMEM;
    }
    memcpy(s->socket_listeners, socket_listeners, socket_count * sizeof *socket_listeners);
    *ret_snapshot = s;
    return PRAZO_OK;
}

void prazo_snapshot_ref(struct prazo_snapshot *snapshot)
{
    __atomic_fetch_add(&snapshot->refs, 1, __ATOMIC_RELAXED);
}

void prazo_snapshot_unref(struct prazo_snapshot *snapshot)
{
    if (snapshot != NULL && __atomic_fetch_sub(&snapshot->refs, 1, __ATOMIC_ACQ_REL) == 1)
        free_snapshot(snapshot);
}

/* ---- in force ---- */

static void on_addresses(void *arg, int err, const struct prazo_addr *addrs, size_t count)
{
    struct prazo_server_rt *s = arg;
    struct prazo_registry *r = s->registry;

    if (err != PRAZO_OK && count == 0)
        prazo_logf(PRAZO_LOG_WARN, "name look-up failed", "%s: %s", s->label, prazo_strerror(err));
    pthread_mutex_lock(&s->upstream->lock);
    if (count > 0) {
        memcpy(s->addrs, addrs, count * sizeof *addrs);
        s->addr_count = count;
    }
    __atomic_store_n(&s->has_failed, s->addr_count == 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&s->upstream->lock);
    r->on_resolved(r->arg);
}

/* Names of this configuration are looked up from now on, others no more. */
static void apply_names(struct prazo_registry *r, struct prazo_snapshot *snapshot)
{
    for (size_t i = 0; i < r->server_count; i++)
        r->servers[i]->is_wanted = false;
    for (size_t u = 0; u < snapshot->config->upstream_count; u++) {
        const struct prazo_config_upstream *config = &snapshot->config->upstreams[u];
        for (size_t i = 0; i < config->server_count; i++) {
            struct prazo_server_rt *s = snapshot->servers[u][i];
            s->is_wanted = true;
            if (!s->is_name || s->watch != NULL)
                continue;
            s->registry = r;
            if (prazo_resolver_watch(r->resolver, prazo_str_z(config->servers[i].host),
                                     config->servers[i].port, on_addresses, s,
                                     &s->watch) != PRAZO_OK)
                prazo_logf(PRAZO_LOG_ERROR, "name cannot be watched", "%s", s->label);
        }
    }
    for (size_t i = 0; i < r->server_count; i++) {
        if (!r->servers[i]->is_wanted && r->servers[i]->watch != NULL) {
            prazo_resolver_unwatch(r->servers[i]->watch);
            r->servers[i]->watch = NULL;
        }
    }
}

void prazo_snapshot_apply(struct prazo_registry *r, struct prazo_snapshot *snapshot)
{
    for (size_t u = 0; u < snapshot->config->upstream_count; u++) {
        const struct prazo_config_upstream *config = &snapshot->config->upstreams[u];
        struct prazo_upstream *upstream = snapshot->upstreams[u];
        size_t bytes = config->server_count * sizeof *upstream->servers;
        struct prazo_server_rt **servers = prazo_mem_alloc(bytes);
        struct prazo_server_rt **old = upstream->servers;

        if (servers != NULL) { /* else ejection goes on counting the old ones */
            memcpy(servers, snapshot->servers[u], bytes);
            pthread_mutex_lock(&upstream->lock);
            upstream->servers = servers;
            upstream->server_count = config->server_count;
            pthread_mutex_unlock(&upstream->lock);
            prazo_mem_free(old);
        }
        __atomic_store_n(&upstream->connections_max, config->connections_max, __ATOMIC_RELAXED);
        prazo_upstream_wake_next(upstream);
    }
    apply_names(r, snapshot);
}
