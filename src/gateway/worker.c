/* SPDX-License-Identifier: MIT */
/* One thread of the gateway: puts loop, server, client and pools together, and changes from one
 * configuration to the next. */
#include "gateway/worker.h"

#include "base/assert.h"
#include "base/mem.h"
#include "gateway/attempt.h"
#include "gateway/gateway_internal.h"

#define ARENA_BLOCKS_KEPT 1024u
#define RING_BYTES 262144u
#define SECOND_US 1000000

/* Requests that matched no route; made once, before any thread runs. */
struct prazo_route_series *prazo_worker_unmatched(const struct prazo_worker *worker)
{
    return worker->gateway->unmatched;
}

/* ---- connections to servers ---- */

static void on_closed(void *arg)
{
    struct prazo_link *link = arg;

    prazo_upstream_slot_free(link->server->upstream);
}

static void on_idle(void *arg)
{
    struct prazo_link *link = arg;

    if (prazo_upstream_has_waiters(link->server->upstream) &&
        !prazo_upstream_offer_idle(link->server->upstream, link->worker->loop))
        (void)prazo_client_pool_close_one(link->pool);
}

static bool grow_links(struct prazo_worker *w, size_t count)
{
    struct prazo_link **links = prazo_mem_realloc(w->links, count * sizeof *links);

    if (links == NULL)
        return false;
    memset(links + w->link_count, 0, (count - w->link_count) * sizeof *links);
    w->links = links;
    w->link_count = count;
    return true;
}

/* `connections.idle` is the process's; each thread keeps its share, rounded up. */
static size_t idle_share(const struct prazo_worker *w, const struct prazo_config_upstream *config)
{
    size_t threads = w->gateway->threads;

    return ((size_t)config->connections_idle + threads - 1) / threads;
}

static struct prazo_link *new_link(struct prazo_worker *w, struct prazo_server_rt *server,
                                   const struct prazo_config_upstream *config)
{
    struct prazo_link *link = prazo_mem_calloc(1, sizeof *link);
    struct prazo_upstream_stats *stats = prazo_upstream_stats_of(w, server->upstream);
    struct prazo_client_pool_options options = {
        .idle_max = idle_share(w, config),
        .idle_timeout_us = config->idle_timeout_us,
        .on_closed = on_closed,
        .on_idle = on_idle,
        .arg = link,
        .idle_gauge = &stats->connections_idle,
        .active_gauge = &stats->connections_active,
    };

    if (link == NULL)
        return NULL;
    link->worker = w;
    link->server = server;
    if (prazo_client_pool_new(w->client, &options, &link->pool) != PRAZO_OK) {
        prazo_mem_free(link);
        return NULL;
    }
    return link;
}

struct prazo_client_pool *prazo_worker_pool(struct prazo_worker *w, struct prazo_server_rt *server,
                                            const struct prazo_config_upstream *config)
{
    if (server->index >= w->link_count && !grow_links(w, server->index + 1))
        return NULL;
    if (w->links[server->index] == NULL)
        w->links[server->index] = new_link(w, server, config);
    return w->links[server->index] != NULL ? w->links[server->index]->pool : NULL;
}

struct ask {
    struct prazo_worker *worker;
    struct prazo_upstream *upstream;
};

static void give_up_idle(void *arg)
{
    struct ask *ask = arg;
    struct prazo_worker *w = ask->worker;

    for (size_t i = 0; i < w->link_count; i++) {
        if (w->links[i] != NULL && w->links[i]->server->upstream == ask->upstream &&
            prazo_client_pool_close_one(w->links[i]->pool))
            break;
    }
    prazo_mem_free(ask);
}

void prazo_worker_ask_idle(struct prazo_worker *worker, struct prazo_upstream *upstream)
{
    struct prazo_gateway *g = worker->gateway;

    for (unsigned i = 0; i < g->worker_count; i++) {
        struct ask *ask = g->workers[i] != worker ? prazo_mem_alloc(sizeof *ask) : NULL;
        if (ask == NULL)
            continue;
        *ask = (struct ask){ g->workers[i], upstream };
        if (prazo_loop_post(g->workers[i]->loop, give_up_idle, ask) != PRAZO_OK)
            prazo_mem_free(ask);
    }
}

/* ---- memory ---- */

void prazo_worker_buf_take(struct prazo_worker *w, struct prazo_buf *ret_buf, size_t bytes_max)
{
    if (w->spare_buf_count > 0)
        *ret_buf = w->spare_bufs[--w->spare_buf_count];
    else
        prazo_buf_init(ret_buf, bytes_max);
    ret_buf->max = bytes_max;
    ret_buf->len = 0;
}

void prazo_worker_buf_give(struct prazo_worker *w, struct prazo_buf *buf)
{
    size_t room = sizeof w->spare_bufs / sizeof w->spare_bufs[0];

    if (buf->base != NULL && w->spare_buf_count < room)
        w->spare_bufs[w->spare_buf_count++] = *buf;
    else
        prazo_buf_done(buf);
    *buf = (struct prazo_buf){ .max = buf->max };
}

void prazo_worker_warn_exhausted(struct prazo_worker *w, int err)
{
    int64_t now_us = prazo_loop_now_us(w->loop);

    if (w->exhausted_us != 0 && now_us - w->exhausted_us < SECOND_US)
        return;
    w->exhausted_us = now_us;
    prazo_logf(PRAZO_LOG_ERROR, "no more connections can be opened",
               "%s; raise `nofile` or lower limits.connections", prazo_strerror(err));
}

/* ---- configuration ---- */

void prazo_worker_view_release(struct prazo_view *view)
{
    if (--view->calls > 0)
        return;
    prazo_snapshot_unref(view->snapshot);
    prazo_mem_free(view);
}

static const struct prazo_config_listener *listener_of(const struct prazo_ear *ear)
{
    const struct prazo_snapshot *s = ear->worker->view->snapshot;
    size_t at = ear->socket < s->socket_count ? s->socket_listeners[ear->socket] : SIZE_MAX;

    return at != SIZE_MAX ? &s->config->listeners[at] : NULL;
}

static bool is_trusted(void *arg, const struct prazo_addr *peer)
{
    const struct prazo_config_listener *l = listener_of(arg);
    struct prazo_ip ip = { .len = 0 };

    if (l == NULL || l->trust == PRAZO_TRUST_NONE)
        return false;
    if (l->trust == PRAZO_TRUST_ALL)
        return true;
    ip.len = (uint8_t)prazo_addr_ip(peer, ip.bytes);
    if (ip.len == 0)
        return l->trusts_unix;
    for (size_t i = 0; i < l->cidr_count; i++) {
        if (prazo_cidr_contains(&l->cidrs[i], &ip))
            return true;
    }
    return false;
}

const char *prazo_call_listener_name(const struct prazo_call *call)
{
    const struct prazo_ear *ear = prazo_sx_listener_arg(call->sx);
    const struct prazo_config_listener *l = listener_of(ear);

    return l != NULL ? l->name : ear->name;
}

static void on_accept_error(void *arg, int err)
{
    prazo_worker_warn_exhausted(((struct prazo_ear *)arg)->worker, err);
}

static struct prazo_server_limits limits_of(const struct prazo_config *config)
{
    return (struct prazo_server_limits){
        .head_bytes = (size_t)config->limit_headers,
        .uri_bytes = (size_t)config->limit_uri,
        .body_bytes = config->limit_body,
        .header_time_us = config->limit_header_time_us,
        .idle_us = config->limit_idle_us,
    };
}

/* A body that is kept may have to be sent at once, in the worst case into a full kernel buffer. */
static size_t sending_max(const struct prazo_config *config)
{
    return (size_t)config->limit_replay_body + 2 * PRAZO_READ_BUFFER_BYTES;
}

static void free_ear(struct prazo_ear *ear)
{
    if (ear != NULL)
        prazo_mem_free(ear->name);
    prazo_mem_free(ear);
}

static int open_ear(struct prazo_worker *w, size_t socket)
{
    struct prazo_snapshot *s = w->view->snapshot;
    size_t at = s->socket_listeners[socket];
    struct prazo_ear *ear = prazo_mem_calloc(1, sizeof *ear);

    if (ear == NULL)
        return PRAZO_E_NOMEM;
    ear->worker = w;
    ear->socket = socket;
    ear->name = prazo_mem_strdup(s->config->listeners[at].name);
    struct prazo_listener_options options = {
        .fd = w->gateway->sockets[socket].fd,
        .listener_arg = ear,
        .is_trusted = is_trusted,
        .on_accept_error = on_accept_error,
        .half_close_waits = s->config->listeners[at].half_close_waits,
        .connections = &w->gateway->connections,
        .connections_limit = s->config->limit_connections,
        .open_gauge = &s->listeners[at]->thread[w->index]->connections,
        .paused_count = &s->listeners[at]->thread[w->index]->accept_paused,
    };
    int err = ear->name != NULL ? prazo_server_listen(w->server, &options, &ear->listener)
                                : PRAZO_E_NOMEM;
    if (err == PRAZO_OK)
        w->ears[socket] = ear;
    else
        free_ear(ear); /* the next reload tries again */
    return err;
}

/* Opens an ear at each socket of the snapshot, closes those of sockets that are no more. */
static int listen_as_configured(struct prazo_worker *w)
{
    struct prazo_snapshot *s = w->view->snapshot;
    int err = PRAZO_OK;

    if (s->socket_count > w->ear_count) {
        struct prazo_ear **ears = prazo_mem_realloc(w->ears, s->socket_count * sizeof *ears);
        if (ears == NULL)
            return PRAZO_E_NOMEM;
        memset(ears + w->ear_count, 0, (s->socket_count - w->ear_count) * sizeof *ears);
        w->ears = ears;
        w->ear_count = s->socket_count;
    }
    for (size_t i = 0; i < s->socket_count && err == PRAZO_OK; i++) {
        size_t at = s->socket_listeners[i];
        if (at == SIZE_MAX) {
            if (w->ears[i] != NULL)
                prazo_listener_close(w->ears[i]->listener);
        } else if (w->ears[i] == NULL) {
            err = open_ear(w, i);
        } else {
            prazo_listener_update(w->ears[i]->listener, s->config->listeners[at].half_close_waits,
                                  s->config->limit_connections);
        }
    }
    return err;
}

static void update_pools(struct prazo_worker *w)
{
    const struct prazo_snapshot *s = w->view->snapshot;

    for (size_t u = 0; u < s->config->upstream_count; u++) {
        const struct prazo_config_upstream *config = &s->config->upstreams[u];
        for (size_t i = 0; i < config->server_count; i++) {
            size_t at = s->servers[u][i]->index;
            if (at < w->link_count && w->links[at] != NULL)
                prazo_client_pool_set_limits(w->links[at]->pool, idle_share(w, config),
                                             config->idle_timeout_us);
        }
    }
}

static int set_view(struct prazo_worker *w, struct prazo_snapshot *snapshot)
{
    struct prazo_view *view = prazo_mem_calloc(1, sizeof *view);

    if (view == NULL)
        return PRAZO_E_NOMEM;
    prazo_snapshot_ref(snapshot);
    view->snapshot = snapshot;
    view->calls = 1;
    if (w->view != NULL)
        prazo_worker_view_release(w->view);
    w->view = view;
    return PRAZO_OK;
}

void prazo_worker_use(struct prazo_worker *w, struct prazo_snapshot *snapshot)
{
    struct prazo_server_limits limits = limits_of(snapshot->config);

    if (set_view(w, snapshot) != PRAZO_OK || listen_as_configured(w) != PRAZO_OK)
        prazo_logf(PRAZO_LOG_ERROR, "reload incomplete", "no memory in thread %u", w->index);
    prazo_server_set_limits(w->server, &limits);
    prazo_server_set_pending_max(w->server, (size_t)snapshot->config->limit_answer_buffer);
    prazo_client_set_limits(w->client, (size_t)snapshot->config->limit_headers,
                            sending_max(snapshot->config));
    update_pools(w);
}

/* ---- life ---- */

static void on_turn_end(void *arg)
{
    struct prazo_worker *w = arg;
    int64_t busy = (int64_t)prazo_server_requests(w->server);

    for (struct prazo_list *n = w->lingering.next; n != &w->lingering && busy == 0; n = n->next)
        busy += prazo_attempt_must_complete(n);
    __atomic_store_n(&w->now_requests, busy, __ATOMIC_RELAXED);
    __atomic_store_n(&w->now_last_request_us, prazo_server_last_request_us(w->server),
                     __ATOMIC_RELAXED);
}

static void on_second(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_worker *w = PRAZO_CONTAINER(timer, struct prazo_worker, second);

    prazo_gauge_add(&w->stats->lag_us,
                    prazo_loop_take_lag_us(w->loop) - prazo_gauge_read(&w->stats->lag_us));
    prazo_timers_link_at(prazo_loop_timers(w->loop), timer, now_us + SECOND_US);
}

static int open_sides(struct prazo_worker *w, const struct prazo_config *config)
{
    struct prazo_server_options server = {
        .ops = &prazo_call_sx_ops,
        .arg = w,
        .limits = limits_of(config),
        .connections_max = PRAZO_WORKER_OBJECTS_MAX,
        .pending_bytes_max = (size_t)config->limit_answer_buffer,
    };
    struct prazo_client_options client = {
        .ops = &prazo_attempt_cx_ops,
        .head_bytes_max = (size_t)config->limit_headers,
        .pending_bytes_max = sending_max(config),
        .connections_max = PRAZO_WORKER_OBJECTS_MAX,
    };
    int err = prazo_server_new(w->loop, &server, &w->server);

    if (err == PRAZO_OK)
        err = prazo_client_new(w->loop, &client, &w->client);
    return err;
}

int prazo_worker_new(struct prazo_gateway *gateway, unsigned index, struct prazo_snapshot *snapshot,
                     struct prazo_worker **ret_worker)
{
    struct prazo_worker *w = prazo_mem_calloc(1, sizeof *w);

    if (w == NULL)
        return PRAZO_E_NOMEM;
    w->gateway = gateway;
    w->index = index;
    w->via = gateway->via;
    w->stats = prazo_stats_thread(gateway->stats, index);
    prazo_list_init(&w->active);
    prazo_list_init(&w->leaving);
    prazo_list_init(&w->lingering);
    prazo_list_init(&w->unresolved);
    prazo_prng_seed_random(&w->prng);
    prazo_arena_pool_init(&w->arenas, ARENA_BLOCKS_KEPT);
    prazo_buf_init(&w->scratch, 16384);
    prazo_pool_init(&w->calls, sizeof(struct prazo_call), 32, PRAZO_WORKER_OBJECTS_MAX);
    prazo_pool_init(&w->attempts, prazo_attempt_bytes(), 32, PRAZO_WORKER_OBJECTS_MAX);
    *ret_worker = w;
    int err = prazo_loop_new(&w->loop);
    if (err == PRAZO_OK)
        err = set_view(w, snapshot);
    if (err == PRAZO_OK)
        err = open_sides(w, snapshot->config);
    if (err == PRAZO_OK)
        err = listen_as_configured(w);
    if (err == PRAZO_OK && (w->ring = prazo_log_ring_new(RING_BYTES)) == NULL)
        err = PRAZO_E_NOMEM;
    if (err != PRAZO_OK)
        return err;
    w->second.cb = on_second;
    prazo_timers_link_at(prazo_loop_timers(w->loop), &w->second,
                         prazo_loop_now_us(w->loop) + SECOND_US);
    prazo_loop_on_turn_end(w->loop, on_turn_end, w);
    return PRAZO_OK;
}

static void free_links(struct prazo_worker *w)
{
    for (size_t i = 0; i < w->link_count; i++) {
        if (w->links[i] == NULL)
            continue;
        prazo_client_pool_close(w->links[i]->pool);
        prazo_mem_free(w->links[i]);
    }
    prazo_mem_free(w->links);
}

void prazo_worker_free(struct prazo_worker *w)
{
    if (w == NULL)
        return;
    if (w->server != NULL)
        prazo_calls_cut_all(w);
    prazo_attempts_cut_all(w);
    prazo_server_free(w->server);
    free_links(w);
    prazo_client_free(w->client);
    for (size_t i = 0; i < w->ear_count; i++)
        free_ear(w->ears[i]);
    prazo_mem_free(w->ears);
    prazo_loop_free(w->loop); /* with it the grants on their way to those who leave */
    prazo_calls_free_leaving(w);
    if (w->view != NULL)
        prazo_worker_view_release(w->view);
    prazo_pool_done(&w->calls);
    prazo_pool_done(&w->attempts);
    prazo_arena_pool_done(&w->arenas);
    prazo_buf_done(&w->scratch);
    for (size_t i = 0; i < w->spare_buf_count; i++)
        prazo_buf_done(&w->spare_bufs[i]);
    prazo_mem_free(w);
}
