/* SPDX-License-Identifier: MIT */
/* What follows from what was read: defaults, values inherited from above, names and labels that
 * nobody wrote. Runs also after faults, so that the cross-key rules have something to look at;
 * whatever failed to be read has its default then. Reports nothing. */
#include "config/load.h"

#include <unistd.h>

#include "base/log.h"

#define DEADLINE_DEFAULT_US INT64_C(10000000) /* contract 7 */
#define LIMIT_URI INT64_C(8192)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void derive_listener(struct prazo_load *load, struct prazo_config_listener *listener,
                            size_t index)
{
    prazo__defaults(load, PRAZO_IN_LISTENER, listener);
    if (!listener->name) {
        char name[32] = "default";
        if (load->config->listener_count > 1)
            snprintf(name, sizeof(name), "listen-%zu", index + 1);
        listener->name = prazo__config_dup(load, prazo_str_z(name));
    }
    listener->trusts_unix = listener->trust == PRAZO_TRUST_ALL;
    if (listener->trust != PRAZO_TRUST_LIST || listener->cidr_count)
        return;
    /* `trust: loopback` is the list without entries. */
    listener->trusts_unix = true;
    listener->cidrs = prazo__config_alloc(load, 2 * sizeof(listener->cidrs[0]));
    if (!listener->cidrs)
        return;
    prazo_cidr_parse(PRAZO_STR("127.0.0.0/8"), &listener->cidrs[0]);
    prazo_cidr_parse(PRAZO_STR("::1/128"), &listener->cidrs[1]);
    listener->cidr_count = 2;
}

static void derive_route(struct prazo_load *load, struct prazo_config_route *route)
{
    const struct prazo_config *config = load->config;
    prazo__defaults(load, PRAZO_IN_ROUTE, route);
    if (!prazo__is_given(load, &route->deadline_max_us))
        route->deadline_max_us = config->deadline_max_us;
    if (!prazo__is_given(load, &route->deadline_default_us))
        route->deadline_default_us = least(config->deadline_default_us, route->deadline_max_us);
    route->has_on_abandon = prazo__is_given(load, &route->on_abandon);
    route->needs_clean_path = route->method_count > 0;
}

static void add_label_part(char *to, size_t bytes, size_t *at, const char *text)
{
    int len = snprintf(to + *at, bytes - *at, "%s", text);
    *at += (size_t)len < bytes - *at ? (size_t)len : bytes - *at - 1;
}

/* "GET,POST shop.example/orders/ *", without what is not given. */
static void make_label(const struct prazo_config_route *route, char *to, size_t bytes)
{
    size_t at = 0;
    to[0] = '\0';
    for (size_t i = 0; i < route->method_count; i++) {
        add_label_part(to, bytes, &at, i ? "," : "");
        add_label_part(to, bytes, &at, route->methods[i] ? route->methods[i] : "");
    }
    add_label_part(to, bytes, &at, at ? " " : "");
    add_label_part(to, bytes, &at, route->host ? route->host : "");
    bool needs_slash = route->host && route->path && route->path[0] == '*';
    add_label_part(to, bytes, &at, needs_slash ? "/" : "");
    add_label_part(to, bytes, &at, route->path ? route->path : "");
}

static bool is_label_taken(const struct prazo_config *config, size_t before, const char *label)
{
    for (size_t i = 0; i < before; i++)
        if (config->routes[i].label && strcmp(config->routes[i].label, label) == 0)
            return true;
    return false;
}

static void derive_label(struct prazo_load *load, size_t index)
{
    char base[2048], label[2100];
    make_label(&load->config->routes[index], base, sizeof(base));
    snprintf(label, sizeof(label), "%s", base);
    for (unsigned n = 2; is_label_taken(load->config, index, label); n++)
        snprintf(label, sizeof(label), "%s #%u", base, n);
    load->config->routes[index].label = prazo__config_dup(load, prazo_str_z(label));
}

static void derive_process(struct prazo_load *load)
{
    struct prazo_config *config = load->config;
    prazo__defaults(load, PRAZO_IN_CONFIG, config);
    if (!prazo__is_given(load, &config->name)) {
        char host[256] = "localhost";
        gethostname(host, sizeof(host) - 1);
        config->name = prazo__config_dup(load, prazo_str_z(host));
    }
    if (!prazo__is_given(load, &config->log_format))
        config->log_format = isatty(STDERR_FILENO) ? PRAZO_LOG_TEXT : PRAZO_LOG_JSON;
    if (!prazo__is_given(load, &config->deadline_default_us))
        config->deadline_default_us = least(DEADLINE_DEFAULT_US, config->deadline_max_us);
    if (!prazo__is_given(load, &config->limit_uri))
        config->limit_uri = least(LIMIT_URI, config->limit_headers);
    if (config->threads == PRAZO_CONFIG_AUTO)
        config->threads = prazo__threads_auto();
    config->admin_is_default = !prazo__given(load, &config->admin_address);
}

void prazo__derive(struct prazo_load *load)
{
    struct prazo_config *config = load->config;
    derive_process(load);
    for (size_t i = 0; i < config->listener_count; i++)
        derive_listener(load, &config->listeners[i], i);
    for (size_t i = 0; i < config->upstream_count; i++)
        prazo__defaults(load, PRAZO_IN_UPSTREAM, &config->upstreams[i]);
    if (!prazo__given(load, &config->routes)) {
        config->routes = prazo__config_alloc(load, sizeof(config->routes[0]));
        config->route_count = config->routes ? 1 : 0;
    }
    for (size_t i = 0; i < config->route_count && !load->err; i++)
        derive_route(load, &config->routes[i]);
    for (size_t i = 0; i < config->route_count && !load->err; i++)
        derive_label(load, i);
}
