/* SPDX-License-Identifier: MIT */
/* The gateway as a process: start, threads, signals, reload, end. Worker 0 runs on the main thread,
 * whose loop also carries the admin port, the signals and the resolver. */
#include "gateway/gateway.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "gateway/attempt.h"
#include "gateway/gateway_internal.h"

#define HEALTHY_US 5000000 /* a loop that has not turned for so long is stuck */
#define LOG_FLUSH_MS 1000

/* ---- admin port's questions ---- */

static bool is_ready(void *arg)
{
    return __atomic_load_n(&((struct prazo_gateway *)arg)->is_ready, __ATOMIC_RELAXED);
}

static bool is_healthy(void *arg)
{
    struct prazo_gateway *g = arg;
    int64_t now_us = prazo_clock_now_us();

    for (unsigned i = 0; i < g->worker_count; i++) {
        if (now_us - prazo_loop_last_turn_us(g->workers[i]->loop) > HEALTHY_US)
            return false;
    }
    return true;
}

static const char *config_name(void *arg)
{
    return ((struct prazo_gateway *)arg)->snapshot->config->name;
}

/* ---- names ---- */

static void resolved_on_worker(void *arg)
{
    prazo_attempts_on_resolved(arg);
}

static void on_resolved(void *arg)
{
    struct prazo_gateway *g = arg;

    for (unsigned i = 0; i < g->worker_count; i++)
        (void)prazo_loop_post(g->workers[i]->loop, resolved_on_worker, g->workers[i]);
}

/* ---- reload ---- */

struct use {
    struct prazo_worker *worker;
    struct prazo_snapshot *snapshot;
};

static void close_unused(void *arg)
{
    struct prazo_gateway *g = arg;

    prazo_sockets_close_unused(g, g->snapshot->socket_listeners, g->snapshot->socket_count);
}

/* Sockets that are no more close once every worker has let go of them: a number that is free is
 * soon another connection's. */
static void use_on_worker(void *arg)
{
    struct use *use = arg;
    struct prazo_gateway *g = use->worker->gateway;

    prazo_worker_use(use->worker, use->snapshot);
    prazo_snapshot_unref(use->snapshot);
    prazo_mem_free(use);
    if (__atomic_sub_fetch(&g->uses_pending, 1, __ATOMIC_ACQ_REL) == 0)
        (void)prazo_loop_post(g->workers[0]->loop, close_unused, g);
}

static void hand_out(struct prazo_gateway *g)
{
    for (unsigned i = 0; i < g->worker_count; i++) {
        struct use *use = prazo_mem_alloc(sizeof *use);
        if (use == NULL)
            continue;
        *use = (struct use){ g->workers[i], g->snapshot };
        prazo_snapshot_ref(g->snapshot);
        __atomic_fetch_add(&g->uses_pending, 1, __ATOMIC_RELAXED);
        if (prazo_loop_post(g->workers[i]->loop, use_on_worker, use) != PRAZO_OK) {
            __atomic_fetch_sub(&g->uses_pending, 1, __ATOMIC_RELAXED);
            prazo_snapshot_unref(g->snapshot);
            prazo_mem_free(use);
        }
    }
}

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Keys that only a start reads: what runs is compared, not what was read last. */
static void warn_fixed(const struct prazo_config *runs, const struct prazo_config *now)
{
    const char *threads = runs->threads != now->threads ? " threads" : "";
    const char *admin = same(runs->admin_address, now->admin_address) ? "" : " admin";
    const char *probe = same(runs->probe_address, now->probe_address) ? "" : " probe";

    if (*threads || *admin || *probe)
        prazo_logf(PRAZO_LOG_WARN, "not reloaded", "changes at the next start only:%s%s%s", threads,
                   admin, probe);
}

static int swap(struct prazo_gateway *g, struct prazo_config *config)
{
    struct prazo_snapshot *next;
    size_t *map;
    int err = prazo_sockets_open(g, config, &map);

    if (err != PRAZO_OK)
        return err;
    err = prazo_snapshot_new(&g->registry, config, map, g->socket_count, &next);
    if (err == PRAZO_OK) {
        warn_fixed(g->started, config);
        prazo_log_configure((enum prazo_log_level)config->log_level,
                            (enum prazo_log_format)config->log_format);
        prazo_snapshot_apply(&g->registry, next);
        prazo_snapshot_unref(g->snapshot);
        g->snapshot = next;
        hand_out(g);
    }
    prazo_mem_free(map);
    return err;
}

static void log_lines(enum prazo_log_level level, const char *msg, struct prazo_str text)
{
    while (text.len > 0) {
        const char *lf = memchr(text.base, '\n', text.len);
        size_t len = lf != NULL ? (size_t)(lf - text.base) : text.len;
        if (len > 0)
            prazo_logf(level, msg, "%.*s", (int)len, text.base);
        len += lf != NULL;
        text.base += len;
        text.len -= len;
    }
}

static void reload(struct prazo_gateway *g)
{
    struct prazo_config *config = NULL;
    struct prazo_buf diag;
    int err;

    if (g->path == NULL) {
        prazo_logf(PRAZO_LOG_WARN, "nothing to reload", "started without a configuration file");
        return;
    }
    prazo_buf_init(&diag, 1024 * 1024);
    err = prazo_config_load_file(g->path, &diag, &config);
    log_lines(err == PRAZO_OK ? PRAZO_LOG_WARN : PRAZO_LOG_ERROR, "configuration",
              prazo_buf_str(&diag));
    if (err == PRAZO_OK) {
        err = swap(g, config);
        prazo_config_unref(config);
    }
    prazo_buf_done(&diag);
    prazo_stats_count_reload(g->stats, err == PRAZO_OK);
    if (err == PRAZO_OK)
        prazo_logf(PRAZO_LOG_INFO, "reloaded", "%s", g->path);
    else
        prazo_logf(PRAZO_LOG_ERROR, "reload refused", "%s: the old configuration stays", g->path);
}

static void on_signal(void *arg, int signum)
{
    struct prazo_gateway *g = arg;

    if (signum == SIGHUP) {
        if (g->drain_began_us == 0)
            reload(g);
    } else if (g->signals++ == 0) {
        prazo_drain_begin(g);
    } else {
        prazo_drain_now(g);
    }
}

/* ---- start ---- */

/* Two descriptors a request, and some for listeners, files and the loops. */
static void raise_nofile(const struct prazo_config *config)
{
    struct rlimit limit;
    uint64_t needed = 2 * (uint64_t)config->limit_connections + 64;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < needed)
        prazo_logf(PRAZO_LOG_WARN, "few descriptors",
                   "nofile is %" PRIu64 ", limits.connections needs %" PRIu64
                   "; raise it or lower limits.connections",
                   (uint64_t)limit.rlim_max, needed);
}

static int open_port(const char *address, const struct prazo_addr *addr, const char *what,
                     bool is_default, int *ret_fd)
{
    *ret_fd = -1;
    if (address == NULL)
        return PRAZO_OK;
    *ret_fd = prazo_sockets_inherited(addr);
    if (*ret_fd >= 0)
        return PRAZO_OK;
    int err = prazo_listen(addr, ret_fd);
    if (err == PRAZO_OK)
        return PRAZO_OK;
    prazo_logf(is_default ? PRAZO_LOG_WARN : PRAZO_LOG_ERROR, "cannot listen", "%s (%s): %s",
               address, what, prazo_sockets_hint(err));
    *ret_fd = -1;
    return is_default ? PRAZO_OK : err;
}

static int open_admin(struct prazo_gateway *g, const struct prazo_config *config)
{
    int err = open_port(config->admin_address, &config->admin_addr, "admin",
                        config->admin_is_default, &g->admin_fd);

    if (err == PRAZO_OK)
        err = open_port(config->probe_address, &config->probe_addr, "probe", false, &g->probe_fd);
    if (err != PRAZO_OK || (g->admin_fd < 0 && g->probe_fd < 0))
        return err;
    struct prazo_admin_options options = {
        .loop = g->workers[0]->loop,
        .stats = g->stats,
        .admin_fd = g->admin_fd,
        .probe_fd = g->probe_fd,
        .arg = g,
        .is_ready = is_ready,
        .is_healthy = is_healthy,
        .name = config_name,
    };
    return prazo_admin_new(&options, &g->admin);
}

static int open_workers(struct prazo_gateway *g, struct prazo_config *config)
{
    g->threads = (unsigned)config->threads;
    g->workers = prazo_mem_calloc((size_t)config->threads, sizeof(struct prazo_worker *));
    if (g->workers == NULL)
        return PRAZO_E_NOMEM;
    for (int i = 0; i < config->threads; i++) {
        int err = prazo_worker_new(g, (unsigned)i, g->snapshot, &g->workers[i]);
        if (g->workers[i] != NULL)
            g->worker_count++;
        if (err != PRAZO_OK)
            return err;
    }
    return PRAZO_OK;
}

static int open_shared(struct prazo_gateway *g, struct prazo_config *config)
{
    size_t *map;
    int err = prazo_stats_new((unsigned)config->threads, &g->stats);

    if (err != PRAZO_OK)
        return err;
    g->unmatched = prazo_stats_route(g->stats, "unmatched");
    g->registry =
        (struct prazo_registry){ .stats = g->stats, .on_resolved = on_resolved, .arg = g };
    if (g->unmatched == NULL)
        return PRAZO_E_NOMEM;
    err = prazo_sockets_open(g, config, &map);
    if (err != PRAZO_OK)
        return err;
    err = prazo_snapshot_new(&g->registry, config, map, g->socket_count, &g->snapshot);
    prazo_mem_free(map);
    return err;
}

static int start(struct prazo_gateway *g, struct prazo_config *config)
{
    struct prazo_prng prng;
    int err = open_shared(g, config);

    prazo_prng_seed_random(&prng);
    memcpy(g->via, "prazo-", 6);
    prazo_format_hex(g->via + 6, prazo_prng_next(&prng), 8);
    if (err == PRAZO_OK)
        err = open_workers(g, config);
    if (err == PRAZO_OK)
        err = open_admin(g, config);
    if (err == PRAZO_OK)
        err = prazo_resolver_new(g->workers[0]->loop, &g->registry.resolver);
    if (err == PRAZO_OK)
        err = prazo_loop_on_signals(g->workers[0]->loop, on_signal, g);
    if (err == PRAZO_OK)
        prazo_snapshot_apply(&g->registry, g->snapshot);
    return err;
}

static void *run_worker(void *arg)
{
    struct prazo_worker *w = arg;

    prazo_log_ring_attach(w->ring);
    prazo_loop_run(w->loop);
    return NULL;
}

static void say_listening(const struct prazo_gateway *g, const struct prazo_config *config)
{
    for (size_t i = 0; i < config->listener_count; i++)
        prazo_logf(PRAZO_LOG_INFO, "listening", "%s (%s)", config->listeners[i].address,
                   config->listeners[i].name);
    if (g->admin_fd >= 0)
        prazo_logf(PRAZO_LOG_INFO, "admin", "http://%s/metrics", config->admin_address);
}

/* The other threads get no signals: the main loop alone obeys them. */
static int run(struct prazo_gateway *g, const struct prazo_config *config)
{
    sigset_t all, before;
    unsigned started = 1;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < g->worker_count &&
           pthread_create(&g->workers[started]->thread, NULL, run_worker, g->workers[started]) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bool is_complete = started == g->worker_count;
    if (is_complete) {
        say_listening(g, config);
        __atomic_store_n(&g->is_ready, true, __ATOMIC_RELAXED);
    } else {
        prazo_logf(PRAZO_LOG_ERROR, "cannot start", "%u of %u threads; lower `threads`", started,
                   g->worker_count);
        prazo_drain_now(g);
    }
    run_worker(g->workers[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(g->workers[i]->thread, NULL);
    return is_complete ? 0 : 2;
}

/* Accepts half-built gateways. Rings go last: the log writes until the end. */
static void close_gateway(struct prazo_gateway *g)
{
    struct prazo_log_ring *rings[PRAZO_THREADS_MAX];

    prazo_admin_free(g->admin);
    prazo_resolver_free(g->registry.resolver);
    for (unsigned i = 0; i < g->worker_count; i++) {
        rings[i] = g->workers[i]->ring;
        prazo_worker_free(g->workers[i]);
    }
    prazo_log_ring_attach(NULL);
    prazo_log_stop(LOG_FLUSH_MS);
    for (unsigned i = 0; i < g->worker_count; i++)
        prazo_log_ring_free(rings[i]);
    prazo_mem_free(g->workers);
    prazo_snapshot_unref(g->snapshot);
    prazo_registry_done(&g->registry);
    prazo_sockets_close_all(g);
    if (g->admin_fd >= 0)
        (void)close(g->admin_fd);
    if (g->probe_fd >= 0)
        (void)close(g->probe_fd);
    prazo_stats_free(g->stats);
}

int prazo_gateway_run(struct prazo_config *config, const char *path)
{
    struct prazo_gateway g = { .started = config, .path = path, .admin_fd = -1, .probe_fd = -1 };
    int code = 2;

    prazo_config_ref(config);
    (void)prazo_log_start(2, (enum prazo_log_level)config->log_level,
                          (enum prazo_log_format)config->log_format);
    raise_nofile(config);
    int err = start(&g, config);
    if (err == PRAZO_OK)
        code = run(&g, config);
    else
        prazo_logf(PRAZO_LOG_ERROR, "cannot start", "%s", prazo_strerror(err));
    close_gateway(&g);
    prazo_config_unref(config);
    return code;
}
